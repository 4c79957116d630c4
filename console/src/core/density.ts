/** The timeline: how many effects of which kind lie where, and which stretch of it is in sight. */

/** A bin: the effects from one seq to another. */
export interface Bin {
  from: number;
  to: number;
  counts: Record<string, number>;
}

export type Stretch = readonly [from: number, to: number];

/** The seq at a part (0 to 1) of a stretch. */
export function seqAt([from, to]: Stretch, part: number): number {
  return Math.round(from + Math.min(1, Math.max(0, part)) * (to - from));
}

/** Where in a stretch a seq lies, from 0 to 1 if it is in sight. */
export function partOf([from, to]: Stretch, seq: number): number {
  return to === from ? 0 : (seq - from) / (to - from);
}

/** Zoom by a factor around a seq, within 1 and the head; never below twenty effects. */
export function zoomed([from, to]: Stretch, around: number, factor: number, head: number): Stretch {
  const length = Math.min(Math.max((to - from) * factor, Math.min(20, head - 1)), head - 1);
  const begin = around - (to === from ? 0 : ((around - from) / (to - from)) * length);
  return shifted([begin, begin + length], 0, head);
}

/** Move a stretch by so many seqs, within 1 and the head. */
export function shifted([from, to]: Stretch, by: number, head: number): Stretch {
  const length = Math.round(to - from);
  const begin = Math.round(Math.min(Math.max(1, from + by), Math.max(1, head - length)));
  return [begin, Math.min(head, begin + length)];
}

/** The kinds of bins, the most frequent first. */
export function kindsOf(bins: readonly Bin[]): string[] {
  const totals = new Map<string, number>();
  for (const { counts } of bins) {
    for (const [kind, number] of Object.entries(counts)) totals.set(kind, (totals.get(kind) ?? 0) + number);
  }
  return [...totals].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([kind]) => kind);
}
