/** Work that is done less often than it is asked for: then once for all that was asked. */

/** How work is asked for that is not done each time. */
export interface Throttled {
  ask(): void;
  /** Forget what was asked. */
  cancel(): void;
}

/** Work that is done when it is asked for, but not again within so many milliseconds. */
export function throttled(milliseconds: number, work: () => void): Throttled {
  let last = -Infinity;
  let waiting: number | undefined;
  const run = () => {
    waiting = undefined;
    last = performance.now();
    work();
  };
  return {
    ask() {
      if (waiting !== undefined) return;
      const left = last + milliseconds - performance.now();
      if (left <= 0) run();
      else waiting = setTimeout(run, left);
    },
    cancel() {
      clearTimeout(waiting);
      waiting = undefined;
    },
  };
}

/**
 * Work that is done when it is asked for, but not while it is under way, nor in a pause after it that is twice as long
 * as it took, and at most so many milliseconds: what is quick is done often, and leaves most of the time to others.
 */
export function paced(most: number, work: () => Promise<unknown>): Throttled {
  let [busy, again] = [false, false];
  const run = async () => {
    [busy, again] = [true, false];
    const begun = performance.now();
    await work().catch(() => undefined);
    setTimeout(() => {
      busy = false;
      if (again) void run();
    }, Math.min(2 * (performance.now() - begun), most));
  };
  return {
    ask() {
      again = true;
      if (!busy) void run();
    },
    cancel() {
      again = false;
    },
  };
}
