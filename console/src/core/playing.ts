/** Playing a world: to where a cursor moves on as time goes by. */

/** The last seq of each turn, round or ply: one before the next begins, and the head. */
export function stops(begins: readonly number[], head: number): number[] {
  const found = begins.map((seq) => seq - 1).filter((seq) => seq >= 1 && seq < head);
  return [...new Set([...found, head])].sort((a, b) => a - b);
}

/** The stop before or behind a seq; the seq itself where there is none. */
export function stopFrom(places: readonly number[], seq: number, direction: 1 | -1): number {
  return (direction === 1 ? places.find((each) => each > seq) : places.findLast((each) => each < seq)) ?? seq;
}

/** Seconds that a silence lasts at most, however long it was. */
const SILENCE_SECONDS = 3;
/** Effects that are passed at a time, at most. */
const AT_ONCE = 500;

/**
 * The seq and the sim_time at which a cursor is after some seconds: at `rate` units of sim_time a second. It waits
 * where the time of the next effect is not known yet.
 */
export function onBySimTime(
  from: { seq: number; time: number },
  seconds: number,
  rate: number,
  head: number,
  timeOf: (seq: number) => number | undefined,
): { seq: number; time: number } {
  let { seq } = from;
  let time = from.time + seconds * rate;
  for (let passed = 0; seq < head && passed < AT_ONCE; passed++) {
    const next = timeOf(seq + 1);
    if (next === undefined) return { seq, time: Math.min(time, from.time) };
    if (next > time) {
      time = Math.max(time, next - SILENCE_SECONDS * rate);
      break;
    }
    seq += 1;
  }
  return { seq, time };
}
