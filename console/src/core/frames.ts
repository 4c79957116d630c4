/** States of a world at any seq, from blocks of patches: each seek is a few small patches, and memory is bounded. */

import type { Shown } from "./belief.ts";
import { apply, type Json, type Obj, type Operation } from "./json.ts";
import { Lru } from "./lru.ts";

/** Effects in a block; block n begins with the effect `n * BLOCK + 1`. */
export const BLOCK = 1024;
/** Patches between two states that are kept. */
const STRIDE = 64;
/** Of the states on the way to another that of each so manieth seq is kept: cursors that move back, and trails, want them. */
export const STEP = 4;
/** Blocks in memory, and states of each besides those: they share what they have in common. */
const MOST = 24;
const RECENT = 64;

/** What a block is loaded as: a state at `key`, and for each later seq that changes something what it changes. */
export interface BlockData {
  /** The seq of the state; it is at or before the first of the block. */
  key: number;
  state: Shown;
  /** The last seq that this covers. */
  last: number;
  /** In ascending order. */
  patches: { seq: number; ops: Operation[] }[];
  /** Of a view: the effects that gave the agent a delta, in ascending order; the one before `key` if it is known. */
  told?: number[];
}

export function blockOf(seq: number): number {
  return Math.floor((seq - 1) / BLOCK);
}

/** A block that was loaded. */
class Block {
  private readonly states: Shown[];
  /** States by the number of patches that lead to them. */
  private readonly recent = new Lru<number, Shown>(RECENT);

  constructor(readonly data: BlockData) {
    this.states = [data.state];
  }

  /** Take what has happened since the last seq. */
  extend({ patches, told, last }: BlockData): void {
    this.data.patches.push(...patches.filter(({ seq }) => seq > this.data.last));
    this.data.told?.push(...told?.filter((seq) => seq > this.data.last) ?? []);
    this.data.last = last;
  }

  at(seq: number): Shown {
    const count = this.countTo(seq);
    const known = this.recent.get(count);
    if (known !== undefined) return known;
    // On from the nearest state before that is kept.
    const kept = Math.min(Math.floor(count / STRIDE), this.states.length - 1) * STRIDE;
    let done = Math.max(kept, count - 1);
    while (done > kept && !this.recent.has(done)) done -= 1;
    let state = (done > kept ? this.recent.get(done) : this.states[kept / STRIDE]) as Shown;
    const own = new Set<Json[] | Obj>();
    while (done < count) {
      const { seq, ops } = this.data.patches[done] as BlockData["patches"][number];
      state = apply(state as unknown as Json, ops, own) as unknown as Shown;
      done += 1;
      const isLasting = done === this.states.length * STRIDE;
      if (isLasting) this.states.push(state);
      // The last but one, too: what an effect has changed is told by the state before it.
      else if (count - done < 2 || (count - done < STRIDE && seq % STEP === 0)) this.recent.set(done, state);
      else continue;
      own.clear();
    }
    return state;
  }

  /** The effect that made the view at a seq; if that is not known, one that it is not later than. */
  asOf(seq: number): { seq: number; isExact: boolean } {
    const made = this.data.told?.findLast((each) => each <= seq);
    return { seq: made ?? this.data.key, isExact: made !== undefined };
  }

  /** The seq of the last change at or before a seq. */
  changedAt(seq: number): number {
    const count = this.countTo(seq);
    return count === 0 ? this.data.key : (this.data.patches[count - 1] as { seq: number }).seq;
  }

  /** Every state, each with the seq of the effect that made it. */
  *all(): Generator<{ seq: number; state: Shown }> {
    yield { seq: this.data.key, state: this.data.state };
    for (const { seq } of this.data.patches) yield { seq, state: this.at(seq) };
  }

  /** What the effect at a seq changed. */
  changesAt(seq: number): readonly Operation[] {
    const patch = this.data.patches[this.countTo(seq) - 1];
    return patch?.seq === seq ? patch.ops : [];
  }

  /** Whether an agent was told of the effect at a seq: as an event, or by what it changed. */
  isToldAt(seq: number): boolean {
    const told = this.data.told ?? [];
    return told[upTo(told, seq, (each) => each) - 1] === seq;
  }

  /** How many patches lead to a seq. */
  private countTo(seq: number): number {
    return upTo(this.data.patches, seq, (patch) => patch.seq);
  }
}

/** How many of a list in ascending order are at or before a seq. */
function upTo<T>(list: readonly T[], seq: number, seqOf: (each: T) => number): number {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (seqOf(list[middle] as T) <= seq) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The states of a block, each with the seq of the effect that made it. */
export function statesOf(data: BlockData): { seq: number; state: Shown }[] {
  return [...new Block(data).all()];
}

export type Load = (from: number, to: number, signal: AbortSignal) => Promise<BlockData>;

/** States by seq, loaded block by block when they are wanted. */
export class FrameStore {
  private readonly blocks = new Lru<number, Block>(MOST);
  private readonly loading = new Map<number, AbortController>();
  private readonly failed = new Map<number, string>();
  private readonly listeners = new Set<() => void>();
  private coarse: Block | null = null;
  /** What `overview` has told last. */
  private whole: { block: Block; last: number; states: { seq: number; state: Shown }[] } | null = null;

  constructor(private readonly load: Load, private head: number, private readonly first = 1) {}

  /** The state at a seq; undefined while it is not loaded. */
  at(seq: number): Shown | undefined {
    if (seq < this.first || seq > this.head) return undefined;
    const block = this.blocks.get(blockOf(seq));
    return block !== undefined && seq >= block.data.key && seq <= block.data.last ? block.at(seq) : undefined;
  }

  /** The state at the nearest stored moment up to a seq: what is shown of a stretch that is not loaded yet. */
  near(seq: number): { seq: number; state: Shown } | undefined {
    if (this.coarse === null || seq < this.coarse.data.key) return undefined;
    return { seq: this.coarse.changedAt(seq), state: this.coarse.at(seq) };
  }

  /** The seq of the last change at or before a seq that is loaded. */
  changedAt(seq: number): number | undefined {
    return this.blocks.get(blockOf(seq))?.changedAt(seq);
  }

  /** The effect that made the view at a seq that is loaded; if that is not known, one that it is not later than. */
  asOf(seq: number): { seq: number; isExact: boolean } | undefined {
    return this.blocks.get(blockOf(seq))?.asOf(seq);
  }

  /** What the effect at a seq changed; undefined where that is not loaded. */
  changesAt(seq: number): readonly Operation[] | undefined {
    const block = this.blocks.get(blockOf(seq));
    return block !== undefined && seq > block.data.key && seq <= block.data.last ? block.changesAt(seq) : undefined;
  }

  /** What the effect at a seq told an agent, as changes of its view: none for an event. Undefined if it told nothing. */
  toldAt(seq: number): readonly Operation[] | undefined {
    const changes = this.changesAt(seq);
    if (changes === undefined || changes.length > 0) return changes;
    return this.blocks.get(blockOf(seq))?.isToldAt(seq) ? changes : undefined;
  }

  /** States over the whole world: those of the coarse level or, of a world that is one block, every one. */
  overview(): { seq: number; state: Shown }[] {
    const block = this.coarse ?? (this.head <= BLOCK ? this.blocks.get(0) : undefined);
    if (block === undefined) return [];
    if (this.whole?.block !== block || this.whole.last !== block.data.last) {
      this.whole = { block, last: block.data.last, states: [...block.all()] };
    }
    return this.whole.states;
  }

  /** Take a few states over the whole world. */
  setCoarse(data: BlockData): void {
    this.coarse = new Block(data);
    for (const listener of this.listeners) listener();
  }

  /** The state before a seq, if it is at hand. */
  before(seq: number): Shown | undefined {
    const block = this.blocks.get(blockOf(seq));
    if (block !== undefined && seq - 1 >= block.data.key && seq - 1 <= block.data.last) return block.at(seq - 1);
    return this.at(seq - 1);
  }

  /** Why a seq cannot be shown; undefined where nothing is wrong. */
  error(seq: number): string | undefined {
    return this.failed.get(blockOf(seq));
  }

  /** Load what a cursor at a seq needs, and what it is moving towards; resolves when the former was tried. */
  async want(seq: number, direction = 0): Promise<void> {
    const here = blockOf(seq);
    const wanted = [here];
    if (direction !== 0) wanted.push(here + direction, here + 2 * direction);
    else if (seq - here * BLOCK > BLOCK - STRIDE) wanted.push(here + 1);
    // A cursor that is swept over a world leaves blocks behind that nobody waits for.
    for (const [number, request] of this.loading) {
      if (Math.abs(number - here) > 3) request.abort();
    }
    const [first] = wanted.map((number) => this.fetch(number));
    await first;
  }

  /** The world has grown up to a head; resolves when what is new in the blocks of some seqs was tried to be loaded. */
  async grow(head: number, ...seqs: number[]): Promise<void> {
    this.head = Math.max(head, this.head);
    await Promise.all(seqs.map((seq) => this.want(seq)));
  }

  /** Be told when something was loaded. */
  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** End what is under way. */
  close(): void {
    for (const request of this.loading.values()) request.abort();
    this.listeners.clear();
  }

  private async fetch(number: number): Promise<void> {
    const from = Math.max(number * BLOCK + 1, this.first);
    const to = Math.min((number + 1) * BLOCK, this.head);
    if (number < 0 || from > to || this.loading.has(number)) return;
    const known = this.blocks.get(number);
    const before = known?.data.last ?? 0;
    if (before >= to) return;
    const request = new AbortController();
    this.loading.set(number, request);
    this.failed.delete(number);
    try {
      // What follows a state that is known begins with that state.
      const begin = known === undefined ? from : known.data.last;
      const data = await this.load(begin, to, request.signal);
      if (known !== undefined && this.blocks.get(number) === known) {
        known.extend(data);
      } else this.blocks.set(number, new Block(data));
    } catch (error) {
      if (!request.signal.aborted) this.failed.set(number, error instanceof Error ? error.message : String(error));
    } finally {
      this.loading.delete(number);
    }
    if (request.signal.aborted) return;
    for (const listener of this.listeners) listener();
    // A long answer is cut, and the world may have grown on meanwhile.
    const reached = this.blocks.get(number)?.data.last ?? 0;
    const isOn = !this.failed.has(number) && reached > before;
    if (isOn && reached < Math.min((number + 1) * BLOCK, this.head)) await this.fetch(number);
  }
}
