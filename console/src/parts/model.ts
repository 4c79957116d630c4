/** One world as its page shows it: where the cursor is, and what has been loaded around it. */

import { batch, computed, effect, type ReadonlySignal, type Signal, signal, untracked } from "@preact/signals";
import { type Look, lookOf, type WorldAddress, worldAddress } from "../core/address.ts";
import { compare, type Compared, type Hidden, hiddenFrom, type Mark, type Shown, told } from "../core/belief.ts";
import { type Bin, grown, kindsOf, type Stretch } from "../core/density.ts";
import { BLOCK, type BlockData, blockOf, FrameStore } from "../core/frames.ts";
import { changed, type Json } from "../core/json.ts";
import { Lru } from "../core/lru.ts";
import { EffectPages } from "../core/pages.ts";
import type { Cursor, Effect, Frame, Frames } from "../core/panel.ts";
import type { Page, World } from "../core/source.ts";
import { paced, throttled } from "../core/throttle.ts";
import { address, go, offline, panelOf, source, words } from "./app.ts";

const NONE: ReadonlyMap<string, never> = new Map<string, never>();
const UNCHANGED: ReadonlySet<string> = new Set();
/** Bins of the timeline. */
const BINS = 600;
/** Most bins, as the world grows. */
const MOST_BINS = 2 * BINS;
/** Milliseconds between two times that what has happened is shown, and at most until its patches are fetched again. */
const SHOW_MS = 25;
const GROW_MS = 100;
/** Milliseconds that the rest waits for what is seen first. */
const FIRST_MS = 1000;
/** Rows of the list before and after the cursor that are asked for at first: of a page of effects or two. */
const ROWS = 10;
/** Most agents that are asked what they saw. */
const MOST_WITNESSES = 16;
/** Frames that are kept as they were given. */
const SEEN = 64;
/** Effects of some kinds that a panel is given. */
const MOST_EFFECTS = 5000;

/** Be told when a signal changes, whatever else the listener reads; returns how to end that. */
function onChange(watched: ReadonlySignal<unknown>, listener: () => void): () => void {
  let first = true;
  return effect(() => {
    void watched.value;
    if (!first) untracked(listener);
    first = false;
  });
}

/** What is asked for beside a world itself, as nothing of it has to be known. */
interface Early {
  bins: Promise<Bin[]>;
  agents: Promise<{ agent_id: string; registered_seq: number }[]>;
  /** The block of the cursor, if the address says where that is; undefined if there is none there. */
  block: { from: number; data: Promise<BlockData | undefined> } | null;
}

/** Ask for what is seen first of a world, whose log is shown up to an effect or else to its head. */
function ask(name: string, until: number | null): Early {
  const here = address.peek();
  const from = here.page === "world" && here.at !== "live" ? blockOf(here.at) * BLOCK + 1 : null;
  const never = new AbortController().signal;
  const block = (first: number) =>
    source.block(name, null, first, Math.min(first + BLOCK - 1, until ?? Infinity), never);
  const early: Early = {
    bins: source.density(name, BINS, until),
    agents: source.agents(name),
    block: from === null ? null : { from, data: block(from).catch(() => undefined) },
  };
  // What fails here is told of where it is used, if the world is there.
  for (const asked of [early.bins, early.agents]) asked.catch(() => undefined);
  return early;
}

/** The world that a fork goes on from, up to where it does. */
async function parentOf(fork: World): Promise<World> {
  if (fork.fork_of === null) throw new Error(`${fork.world_id} is no fork, so it inherits no past`);
  const { world_id, world_uuid, global_seq } = fork.fork_of;
  const parent = await source.world(world_id);
  if (parent.world_uuid !== world_uuid) {
    throw new Error(`${world_id} is another world here than the one that ${fork.world_id} goes on from`);
  }
  return { ...parent, head_seq: global_seq, isPast: true };
}

export class WorldModel {
  /** The first effect that there is: another one than 1 in a file with a part of the log. */
  readonly first: number;
  readonly head: Signal<number>;
  /** The last effect that is asked for: of the past that a fork inherits, the one that it goes on from; else null. */
  readonly until: number | null;
  readonly agents = signal<{ agent_id: string; registered_seq: number }[]>([]);
  readonly bins = signal<Bin[]>([]);
  /** The kinds of its effects, the most frequent first. */
  readonly kinds = computed(() => kindsOf(this.bins.value));
  readonly connected = signal(false);
  /** Whether it is not followed because the page is hidden. */
  readonly paused = signal(false);
  /** Moves with whatever was loaded. */
  readonly loaded = signal(0);
  /** Moves with that, and with whose beliefs are shown: frames are marked by them. */
  readonly marked = computed(() => [this.loaded.value, ...this.look.value.agents].join("\n"));
  /** The effects that were shown last because they came while the page was open. */
  readonly told = signal<readonly Effect[]>([]);
  readonly pages: EffectPages;
  readonly seq: ReadonlySignal<number>;
  /** The address but for the cursor: what reads this is not rendered as the cursor moves. */
  readonly look: ReadonlySignal<Look>;
  /** Whether the cursor stays at the head. */
  readonly live: ReadonlySignal<boolean>;
  /** Resolves when what is seen first was loaded, or takes long. Browsers have few connections: the rest comes then. */
  readonly opened: Promise<unknown>;
  readonly stretch: ReadonlySignal<Stretch>;
  /** Effects that came while the page was open, for panels that keep lists. */
  private readonly recent: Effect[] = [];
  private readonly ofKinds = new Map<string, Promise<Effect[]>>();
  private readonly truth: FrameStore;
  private readonly beliefs = new Map<string, FrameStore>();
  private readonly views = new Map<string | null, FramesOfWorld>();
  private readonly ends: (() => void)[] = [];
  /** What has happened and is not shown yet. */
  private fresh: Effect[] = [];
  private readonly show = throttled(SHOW_MS, () => this.showFresh());
  private readonly grow = paced(GROW_MS, () => {
    const stores = [this.truth, ...this.beliefs.values()];
    return Promise.all(stores.map((store) => store.grow(this.head.peek(), this.seq.peek())));
  });
  private last: number;
  private closed = false;

  /** Open a world, or the past that it inherits from so many generations before. Rejects if that cannot be read. */
  static async open(name: string, parents: number): Promise<WorldModel> {
    let found = source.world(name);
    if (parents === 0) {
      const early = ask(name, null);
      return new WorldModel(await found, early);
    }
    for (let generation = 0; generation < parents; generation++) found = parentOf(await found);
    const past = await found;
    return new WorldModel(past, ask(past.world_id, past.head_seq));
  }

  private constructor(readonly world: World, early: Early) {
    this.first = world.part?.first_seq ?? 1;
    this.head = signal(world.head_seq);
    this.until = world.isPast ? world.head_seq : null;
    this.seq = computed(() => {
      const { at } = this.here;
      return at === "live" ? this.head.value : Math.max(this.first, Math.min(at, this.head.value));
    });
    let look: Look | undefined;
    this.look = computed(() => look = lookOf(this.here, look));
    this.live = computed(() => this.here.at === "live" && this.until === null);
    this.stretch = computed(() => {
      const { zoom } = this.look.value;
      return zoom === null || zoom[0] >= this.head.value
        ? [this.first, this.head.value]
        : [Math.max(this.first, zoom[0]), Math.min(zoom[1], this.head.value)];
    });
    const name = world.world_id;
    this.truth = new FrameStore(
      async (from, to, signal) => {
        const asked = early.block?.from === from ? early.block.data : undefined;
        early.block = null;
        return await asked ?? await source.block(name, null, from, to, signal);
      },
      world.head_seq,
      this.first,
    );
    this.pages = new EffectPages(
      async (after, until) => await source.effects(name, after, until, 1000),
      world.head_seq,
      this.first,
    );
    const touch = () => void this.loaded.value++;
    this.ends.push(this.truth.subscribe(touch), this.pages.subscribe(touch));
    this.last = this.seq.peek();
    // The rows around the cursor: the list itself asks once it is painted.
    if (this.look.peek().panes.includes("effects")) this.pages.want(this.last - ROWS, this.last + ROWS);
    // The panel's own place tells of its failure.
    void panelOf(world.ruleset)?.catch(() => undefined);
    this.opened = Promise.race([
      Promise.allSettled([
        this.truth.want(this.last),
        early.bins.then((bins) => this.bins.value = bins),
        early.agents.then((agents) => {
          this.agents.value = agents.filter(({ registered_seq }) => registered_seq <= (this.until ?? Infinity));
        }),
      ]),
      new Promise((resolve) => setTimeout(resolve, FIRST_MS)),
    ]);
    this.ends.push(onChange(this.seq, () => {
      const seq = this.seq.peek();
      const step = Math.sign(seq - this.last);
      this.last = seq;
      for (const store of [this.truth, ...this.beliefs.values()]) void store.want(seq, step);
    }));
    void this.opened.then(() => this.goOn());
  }

  /** The address while this page is shown. */
  get here(): WorldAddress {
    const found = address.value;
    return found.page === "world" ? found : worldAddress(this.world.world_id);
  }

  /** Move the cursor to a seq. */
  move(seq: number, how: "step" | "move" = "move", more: Partial<WorldAddress> = {}): void {
    go({ ...this.here, at: Math.min(Math.max(this.first, Math.round(seq)), this.head.value), ...more }, how);
  }

  /** Move by so many effects: before the first of a fork into the past that it inherits, behind that into the fork. */
  step(by: number): void {
    const seq = this.seq.peek();
    if (by < 0 && seq === this.first && this.world.fork_of !== null) this.cross(1, this.world.fork_of.global_seq);
    else if (by > 0 && seq === this.head.peek()) this.cross(-1, 1);
    else this.move(seq + by);
  }

  /** Move to the first effect, and from there to that of the past that a fork inherits. */
  toFirst(): void {
    if (this.seq.peek() === this.first) this.cross(1, 1);
    else this.move(this.first);
  }

  /** Move to the last effect; from that of an inherited past to the head of what goes on from it. */
  toLast(): void {
    if (this.until !== null && this.seq.peek() === this.until) this.cross(-1, "live");
    else this.move(this.head.peek());
  }

  /** Follow the head, or stay where the cursor is. */
  toggleLive(): void {
    if (this.until !== null) this.cross(-this.here.parents, "live");
    else this.change({ at: this.live.peek() ? this.seq.peek() : "live" });
  }

  /** Go into the past that a fork inherits, or with a negative number of generations on from there. */
  cross(generations: number, at: WorldAddress["at"], how: "step" | "move" = "move"): void {
    const isThere = generations > 0 ? this.hasPast : this.until !== null;
    const parents = this.here.parents + generations;
    if (isThere) go({ ...this.here, parents, at, effect: null, zoom: null }, how);
  }

  /** Whether this log goes on from another one, which can be asked for. */
  get hasPast(): boolean {
    return this.world.fork_of !== null && !offline;
  }

  /** Change what the address says. */
  change(more: Partial<WorldAddress>, how: "step" | "move" = "step"): void {
    go({ ...this.here, ...more }, how);
  }

  /** What a panel is given to show the truth, or what an agent believed. */
  frames(agent: string | null): FramesOfWorld {
    let found = this.views.get(agent);
    if (found === undefined) {
      found = new FramesOfWorld(this, agent);
      this.views.set(agent, found);
    }
    return found;
  }

  /** Where states of the truth, or of what an agent saw, are kept. */
  store(agent: string | null): FrameStore {
    if (agent === null) return this.truth;
    let found = this.beliefs.get(agent);
    if (found === undefined) {
      const registered = this.agents.peek().find((each) => each.agent_id === agent)?.registered_seq ?? 1;
      const name = this.world.world_id;
      found = new FrameStore(
        (from, to, signal) => source.block(name, agent, from, to, signal),
        this.head.peek(),
        Math.max(registered, this.first),
      );
      this.beliefs.set(agent, found);
      this.ends.push(found.subscribe(() => void this.loaded.value++));
      void found.want(this.seq.peek());
    }
    return found;
  }

  readonly cursor: Cursor = (() => {
    // deno-lint-ignore no-this-alias
    const model = this;
    return {
      get seq() {
        return model.seq.peek();
      },
      go: (seq: number) => this.move(seq, "step"),
      subscribe: (listener: () => void) => onChange(this.seq, listener),
    };
  })();

  /** The first effects of some kinds, read once, and those that came since. */
  async effectsOf(kinds: readonly string[]): Promise<Effect[]> {
    const found = (await Promise.all(kinds.map((kind) => this.read(kind)))).flat();
    const known = new Set(found.map(({ global_seq }) => global_seq));
    found.push(...this.recent.filter(({ kind, global_seq }) => kinds.includes(kind) && !known.has(global_seq)));
    return found.sort((a, b) => a.global_seq - b.global_seq);
  }

  close(): void {
    this.closed = true;
    for (const end of this.ends) end();
    for (const store of [this.truth, ...this.beliefs.values()]) store.close();
    this.show.cancel();
    this.grow.cancel();
  }

  /** Ask for what is not seen at first. */
  private goOn(): void {
    if (this.closed) return;
    const { world_id, head_seq } = this.world;
    if (this.until === null && !offline) this.ends.push(this.follow());
    if (head_seq > BLOCK) source.coarse(world_id, this.until).then((data) => this.truth.setCoarse(data), words);
  }

  /**
   * Follow the world while the page is in sight; returns how to end that. Browsers allow a service six connections over
   * all pages, so one that is hidden leaves its own to others, and goes on later after the last effect that it was told.
   */
  private follow(): () => void {
    let end: (() => void) | undefined;
    const turn = () => {
      end?.();
      end = undefined;
      this.paused.value = document.hidden;
      if (document.hidden) this.connected.value = false;
      else end = source.follow(this.world.world_id, this.known, (told) => this.take(told), (is) => this.connect(is));
    };
    turn();
    document.addEventListener("visibilitychange", turn);
    return () => {
      document.removeEventListener("visibilitychange", turn);
      end?.();
    };
  }

  /** The last effect that is shown, or about to be. */
  private get known(): number {
    return this.fresh.at(-1)?.global_seq ?? this.head.peek();
  }

  private read(kind: string): Promise<Effect[]> {
    let found = this.ofKinds.get(kind);
    if (found === undefined) {
      found = this.readAll(kind);
      this.ofKinds.set(kind, found);
      // Asked again after a failure, not before.
      found.catch(() => this.ofKinds.delete(kind));
    }
    return found;
  }

  private async readAll(kind: string): Promise<Effect[]> {
    const found: Effect[] = [];
    for (let after: number | null = 0; after !== null && found.length < MOST_EFFECTS;) {
      const page: Page = await source.effects(this.world.world_id, after, this.until, 1000, { kind });
      found.push(...page.effects);
      after = page.next;
    }
    return found;
  }

  private connect(is: boolean): void {
    this.connected.value = is;
    // What could not be loaded while the service was away.
    if (is) { for (const store of [this.truth, ...this.beliefs.values()]) void store.want(this.seq.peek()); }
  }

  private take(told: Effect): void {
    if (told.global_seq !== this.known + 1) return; // told again
    this.fresh.push(told);
    this.show.ask();
  }

  private showFresh(): void {
    const told = this.fresh.splice(0);
    for (const each of told) this.pages.append(each);
    this.recent.push(...told);
    this.recent.splice(0, this.recent.length - MOST_EFFECTS);
    batch(() => {
      this.bins.value = grown(this.bins.peek(), told, MOST_BINS);
      this.head.value = (told.at(-1) as Effect).global_seq;
      this.loaded.value++;
      this.told.value = told;
    });
    this.grow.ask();
  }
}

/** The frames of the truth or of an agent's belief, as panels and the tree are given them. */
export class FramesOfWorld implements Frames {
  readonly world: Frames["world"];
  /** The frames that were asked for last: a map asks for those of its trails, too. */
  private seen = { marked: "", frames: new Lru<number, Frame>(SEEN) };

  constructor(private readonly model: WorldModel, readonly agent: string | null) {
    const { world_id, ruleset, config } = model.world;
    this.world = { world_id, ruleset, config };
  }

  get truth(): FramesOfWorld | null {
    return this.agent === null ? null : this.model.frames(null);
  }

  at(seq: number): Frame | undefined {
    const exact = this.exactly(seq);
    if (exact !== undefined) return exact;
    const near = this.near(seq);
    return near && { ...near, changed: UNCHANGED, marks: NONE, hidden: NONE, told: "" };
  }

  /** The frame of just this seq; undefined while it is loaded. */
  exactly(seq: number): Frame | undefined {
    const marked = this.model.marked.peek();
    if (this.seen.marked !== marked) this.seen = { marked, frames: new Lru(SEEN) };
    const known = this.seen.frames.get(seq);
    const frame = known ?? this.make(seq, this.model.look.peek().agents);
    if (known === undefined && frame !== undefined) this.seen.frames.set(seq, frame);
    return frame;
  }

  /** The effect that made the view that is shown at a seq; if that is not known, one that it is not later than. */
  asOf(seq: number): { seq: number; isExact: boolean } | undefined {
    return this.model.store(this.agent).asOf(seq);
  }

  /** A state from nearby while the one at a seq is loaded. */
  near(seq: number): { seq: number; state: Shown } | undefined {
    return this.model.store(this.agent).near(seq);
  }

  error(seq: number): string | undefined {
    return this.model.store(this.agent).error(seq);
  }

  effects(...kinds: string[]): Promise<Effect[]> {
    return this.model.effectsOf(kinds);
  }

  overview(): { seq: number; state: Shown }[] {
    return this.model.store(this.agent).overview();
  }

  async seenBy(from: number, to: number): Promise<Map<number, string[]> | null> {
    const agents = this.model.agents.peek().filter(({ registered_seq }) => registered_seq <= to);
    if (agents.length === 0) return null;
    const found = new Map<number, string[]>();
    const ask = async ({ agent_id, registered_seq }: { agent_id: string; registered_seq: number }) => {
      const first = Math.max(from, registered_seq);
      const seen = await source.seen(this.world.world_id, agent_id, first, to);
      return [agent_id, seen] as const;
    };
    for (const [agent, seen] of await Promise.all(agents.slice(0, MOST_WITNESSES).map(ask))) {
      for (const seq of seen) found.set(seq, [...found.get(seq) ?? [], agent]);
    }
    return found;
  }

  subscribe(listener: () => void): () => void {
    return onChange(this.model.marked, listener);
  }

  /** The frame at a seq: of the truth with what is hidden from these agents marked. */
  private make(seq: number, agents: readonly string[]): Frame | undefined {
    const store = this.model.store(this.agent);
    const state = store.at(seq);
    if (state === undefined) return undefined;
    // What is not asked for is not worked out: a panel that draws trails wants many states and nothing else.
    let changes: ReadonlySet<string> | undefined;
    let marks: ReadonlyMap<string, Mark> | undefined;
    let hidden: Hidden | undefined;
    let compared: Compared | null | undefined;
    const unseen = () => hidden ??= this.hidden(seq, state, agents);
    const { agent } = this;
    const beside = () =>
      compared === undefined && agent !== null ? compared = this.compared(seq, state, agent) : compared;
    const marked = () =>
      agent !== null
        ? beside()?.belief ?? NONE
        : agents.length === 0
        ? NONE
        : new Map([...unseen().keys()].map((pointer) => [pointer, "hidden" as const]));
    const diff = () => {
      const before = store.before(seq);
      return before === undefined ? new Set<string>() : changed(before as unknown as Json, state as unknown as Json);
    };
    return {
      seq,
      state,
      get changed() {
        return changes ??= diff();
      },
      get marks() {
        return marks ??= marked();
      },
      get hidden() {
        return agent === null && agents.length > 1 ? unseen() : NONE;
      },
      get told() {
        const found = beside();
        return found ? told(found) : "";
      },
    };
  }

  /** What is hidden from each of some agents. */
  private hidden(seq: number, truth: Shown, agents: readonly string[]): Hidden {
    if (agents.length === 0) return NONE;
    const beliefs = agents.flatMap((agent) => {
      const belief = this.model.store(agent).at(seq);
      return belief === undefined ? [] : [{ agent, belief }];
    });
    return hiddenFrom(beliefs, truth);
  }

  /** An agent's belief beside the truth; null while that is loaded. */
  private compared(seq: number, belief: Shown, agent: string): Compared | null {
    const truth = this.model.store(null).at(seq);
    if (truth === undefined) return null;
    const made = this.model.store(agent).changedAt(seq);
    return compare(belief, truth, made === undefined ? undefined : this.model.store(null).at(made));
  }
}
