/** A world's effects by seq, in pages: the list of a million shows only those that are in sight. */

import { Lru } from "./lru.ts";
import type { Effect } from "./panel.ts";

export const PAGE = 128;
const MOST = 64;

export type LoadPage = (after: number, until: number) => Promise<{ effects: Effect[]; through: number }>;

export class EffectPages {
  private readonly pages = new Lru<number, Effect[]>(MOST);
  private readonly loading = new Set<number>();
  private readonly listeners = new Set<() => void>();

  /** `first` is the first effect that there is. */
  constructor(private readonly load: LoadPage, private head: number, private readonly first = 1) {}

  /** An effect; undefined while it is loaded. */
  at(seq: number): Effect | undefined {
    return this.pages.get(Math.floor((seq - 1) / PAGE))?.[(seq - 1) % PAGE];
  }

  /** Load what lies between two seqs. */
  want(from: number, to: number): void {
    const last = Math.floor((Math.min(to, this.head) - 1) / PAGE);
    for (let page = Math.max(0, Math.floor((from - 1) / PAGE)); page <= last; page++) void this.fetch(page);
  }

  /** Append an effect that has just happened. */
  append(effect: Effect): void {
    this.head = Math.max(this.head, effect.global_seq);
    const [page, index] = [Math.floor((effect.global_seq - 1) / PAGE), (effect.global_seq - 1) % PAGE];
    const known = this.pages.get(page);
    if (known !== undefined && known.length === index) known.push(effect);
    else if (index === 0) this.pages.set(page, [effect]);
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private async fetch(page: number): Promise<void> {
    const until = Math.min((page + 1) * PAGE, this.head);
    const known = this.pages.get(page);
    if (this.loading.has(page) || (known !== undefined && page * PAGE + known.length >= until)) return;
    this.loading.add(page);
    try {
      const found: Effect[] = [];
      found.length = Math.max(0, this.first - 1 - page * PAGE);
      // An answer ends early where effects are large.
      for (let after = page * PAGE + found.length; after < until;) {
        const { effects, through } = await this.load(after, until);
        found.push(...effects);
        if (through <= after) break;
        after = through;
      }
      this.pages.set(page, found);
    } catch {
      // The rows stay as places; they are wanted again when the list is next drawn.
    } finally {
      this.loading.delete(page);
    }
    for (const listener of this.listeners) listener();
  }
}
