/** The timeline: how many effects of which kind lie where, and which stretch of it is in sight. */

/** A bin: the effects from one seq to another. */
export interface Bin {
  from: number;
  to: number;
  counts: Record<string, number>;
}

/** Effects that a growing world may gain between two answers about it: fewer that no bin has are no gap. */
const GAP = 1024;

export type Stretch = readonly [from: number, to: number];

/** The seq at a part (0 to 1) of a stretch. */
export function seqAt([from, to]: Stretch, part: number): number {
  return Math.round(from + Math.min(1, Math.max(0, part)) * (to - from));
}

/** Where in a stretch a seq lies, from 0 to 1 if it is in sight. */
export function partOf([from, to]: Stretch, seq: number): number {
  return to === from ? 0 : (seq - from) / (to - from);
}

/** Zoom by a factor around a seq, within the first effect and the head; never below twenty effects. */
export function zoomed([from, to]: Stretch, around: number, factor: number, head: number, first = 1): Stretch {
  const length = Math.min(Math.max((to - from) * factor, Math.min(20, head - first)), head - first);
  const begin = around - (to === from ? 0 : ((around - from) / (to - from)) * length);
  return shifted([begin, begin + length], 0, head, first);
}

/** Move a stretch by so many seqs, within the first effect and the head. */
export function shifted([from, to]: Stretch, by: number, head: number, first = 1): Stretch {
  const length = Math.round(to - from);
  const begin = Math.round(Math.min(Math.max(first, from + by), Math.max(first, head - length)));
  return [begin, Math.min(head, begin + length)];
}

/** At most so many bins, as wide as each other, with the effects of these kinds, of which one has the first seq. */
export function binned(kinds: readonly string[], first: number, most: number): Bin[] {
  const bins = Math.min(most, kinds.length);
  return Array.from({ length: bins }, (_, index) => {
    const [begin, end] = [index, index + 1].map((each) => Math.floor((each * kinds.length) / bins)) as [number, number];
    const counts: Record<string, number> = Object.create(null);
    for (const kind of kinds.slice(begin, end)) counts[kind] = (counts[kind] ?? 0) + 1;
    return { from: first + begin, to: first + end - 1, counts };
  });
}

/** The last effect before a gap in bins, or behind them up to the head; null where every effect is counted. */
export function countedTo(bins: readonly Bin[], head: number): number | null {
  return bins.find(({ to }, index) => (bins[index + 1]?.from ?? head + 1) - to > GAP)?.to ?? null;
}

/**
 * Bins with what has happened since in them: neighbours are joined where there would be more than `most`. Effects before
 * that are in no bin stay a gap.
 */
export function grown(
  bins: readonly Bin[],
  effects: readonly { global_seq: number; kind: string }[],
  most: number,
): Bin[] {
  let made = [...bins];
  const last = made.pop();
  if (last !== undefined) made.push(joined([last]));
  for (const { global_seq: to, kind } of effects) {
    const last = made.at(-1);
    if (last !== undefined && to <= last.to) continue; // counted already: the world has grown while it was asked
    const width = made.length < 2 ? 1 : (made[0] as Bin).to - (made[0] as Bin).from + 1;
    const begin = last === undefined ? 1 : to - last.to > GAP ? to : last.to + 1;
    if (last !== undefined && begin === last.to + 1 && last.to - last.from + 1 < width) {
      last.to = to;
      last.counts[kind] = (last.counts[kind] ?? 0) + 1;
      continue;
    }
    made.push(joined([{ from: begin, to, counts: { [kind]: 1 } }]));
    if (made.length <= most) continue;
    made = Array.from(
      { length: Math.ceil(made.length / 2) },
      (_, index) => joined(made.slice(2 * index, 2 * index + 2)),
    );
  }
  return made;
}

/** One bin in place of neighbours, which stay as they are. */
function joined(bins: readonly Bin[]): Bin {
  const counts: Record<string, number> = Object.create(null);
  for (const bin of bins) {
    for (const [kind, number] of Object.entries(bin.counts)) counts[kind] = (counts[kind] ?? 0) + number;
  }
  return { from: (bins[0] as Bin).from, to: (bins.at(-1) as Bin).to, counts };
}

/** The kinds of bins, the most frequent first. */
export function kindsOf(bins: readonly Bin[]): string[] {
  const totals = new Map<string, number>();
  for (const { counts } of bins) {
    for (const [kind, number] of Object.entries(counts)) totals.set(kind, (totals.get(kind) ?? 0) + number);
  }
  return [...totals].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([kind]) => kind);
}
