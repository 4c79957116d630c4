/** The history of a world through its ancestors: a fork goes on from an effect of its parent. */

/** A stretch of history: the effects of a world up to one of them. */
export interface Segment {
  world: string;
  through: number;
}

/** The past that two worlds have in common, and the first effect after it in each world's own log. */
export interface Common {
  /** Where it ends; null where they have none. */
  shared: Segment | null;
  /** The worlds whose logs go on from there, and the seq with which they do: an ancestor's, perhaps. */
  onward: readonly [{ world: string; from: number }, { world: string; from: number }];
}

/** Of two histories, the oldest ancestor first, what both have. */
export function common(a: readonly Segment[], b: readonly Segment[]): Common {
  let shared: Segment | null = null;
  let at = 0;
  for (; at < Math.min(a.length, b.length); at++) {
    const [one, other] = [a[at] as Segment, b[at] as Segment];
    if (one.world !== other.world) break;
    shared = { world: one.world, through: Math.min(one.through, other.through) };
    if (one.through !== other.through) break;
  }
  const end = shared;
  const onward = (history: readonly Segment[]) => {
    const here = history[at];
    // The shared stretch is the beginning of this segment, or that of an ancestor is all of it.
    if (end !== null && here?.world === end.world && here.through > end.through) {
      return { world: here.world, from: end.through + 1 };
    }
    const next = end !== null && here?.world === end.world ? history[at + 1] : here;
    const last = history.at(-1) as Segment;
    return next === undefined ? { world: last.world, from: last.through + 1 } : { world: next.world, from: 1 };
  };
  return { shared, onward: [onward(a), onward(b)] };
}
