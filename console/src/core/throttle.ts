/** Work that is done when it is asked for, but not again within so many milliseconds: then once for all that was asked. */

export interface Throttled {
  ask(): void;
  /** Forget what was asked. */
  cancel(): void;
}

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
