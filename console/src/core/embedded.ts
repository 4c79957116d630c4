/** A world that lies in the page itself: the source of a file that `worldledger export html` has written. */

import { type Bin, binned } from "./density.ts";
import { type BlockData, blockOf, statesOf } from "./frames.ts";
import type { StateFrames, ViewFrames } from "./api.ts";
import { blockOfStates, blockOfViews } from "./http.ts";
import type { Json } from "./json.ts";
import type { Effect } from "./panel.ts";
import type {
  Answer,
  Compared,
  Filter,
  Online,
  Page,
  Posted,
  ProjectionLag,
  Question,
  Search,
  Source,
  Vocabulary,
  World,
  WorldsPage,
} from "./source.ts";
import { bestHash, hex } from "./verify.ts";

type Line =
  & { world: World }
  & { agents: { agents: { agent_id: string; registered_seq: number }[] } }
  & { asset: { path: string; text: string } }
  & { frames: StateFrames }
  & { views: ViewFrames & { agent_id: string } }
  & { seen: { agent_id: string; seqs: number[] } }
  & { log: string };

/** What was put into the page: base64 of a gzip of lines of JSON. */
async function* unpacked(packed: string): AsyncGenerator<Partial<Line>> {
  const bytes = Uint8Array.from(atob(packed), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")).pipeThrough(
    new TextDecoderStream(),
  );
  const reader = stream.getReader();
  let rest: string[] = [];
  for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) {
    const pieces = chunk.value.split("\n");
    while (pieces.length > 1) {
      yield JSON.parse([...rest, pieces.shift()].join(""));
      rest = [];
    }
    rest.push(pieces[0] as string);
  }
}

/** States of the coarse level, and effects beyond which not every state is made for it. */
const [COARSE, LARGE] = [500, 20_000];

const missing = (what: string) => Promise.reject(new Error(`${what} is not in this file`));

export class EmbeddedSource implements Source {
  /** The scripts that the page loads later, by their addresses. */
  readonly assets = new Map<string, string>();
  private readonly blocks = new Map<string, BlockData>();
  private readonly texts: string[] = [];
  private found: World | undefined;
  private inhabitants: { agent_id: string; registered_seq: number }[] = [];
  /** The seqs of the events that each agent saw. */
  private readonly events = new Map<string, number[]>();
  private chain: Promise<string[]> | undefined;

  static async of(packed: string): Promise<EmbeddedSource> {
    const made = new EmbeddedSource();
    for await (const line of unpacked(packed)) {
      if (line.world) made.found = line.world;
      if (line.agents) made.inhabitants = line.agents.agents;
      if (line.asset) made.assets.set(line.asset.path, line.asset.text);
      if (line.frames) made.keep(null, blockOfStates(line.frames));
      if (line.views) made.keep(line.views.agent_id, blockOfViews(line.views));
      if (line.seen) made.events.set(line.seen.agent_id, line.seen.seqs);
      if (line.log) made.texts.push(...line.log.split("\n").filter((text) => text !== ""));
    }
    return made;
  }

  /** The seq before the first effect that is here. */
  private get before(): number {
    return (this.only.part?.first_seq ?? 1) - 1;
  }

  /** The one world that is here. */
  get only(): World {
    return this.found as World;
  }

  worlds(): Promise<WorldsPage> {
    return Promise.resolve({ worlds: [this.only], next: null, facets: null });
  }

  world(name: string): Promise<World> {
    return name === this.only.world_id ? Promise.resolve(this.only) : missing(`world ${name}`);
  }

  agents(): Promise<{ agent_id: string; registered_seq: number }[]> {
    return Promise.resolve(this.inhabitants);
  }

  online(): Promise<Online> {
    return missing("who is online");
  }

  projections(): Promise<ProjectionLag[]> {
    return missing("how projections stand");
  }

  kinds(): Promise<Vocabulary> {
    return missing("what may be posted");
  }

  post(): Promise<Posted> {
    return missing("a service to post to");
  }

  effects(_: string, after: number, until: number | null, limit: number, filter: Filter = {}): Promise<Page> {
    const last = Math.min(until ?? this.only.head_seq, this.only.head_seq);
    const effects: Effect[] = [];
    let through = Math.max(after, this.before);
    while (through < last && effects.length < limit) {
      const effect: Effect = JSON.parse(this.texts[through - this.before] as string);
      through += 1;
      if ((!filter.kind || effect.kind === filter.kind) && (!filter.source || effect.source_id === filter.source)) {
        effects.push(effect);
      }
    }
    return Promise.resolve({ effects, through, next: through < last ? through : null });
  }

  async effect(_: string, seq: number): Promise<{ text: string; checksum: string }> {
    const text = this.texts[seq - this.before - 1];
    if (text === undefined) return missing(`effect ${seq}`);
    this.chain ??= this.checksums();
    return { text, checksum: (await this.chain)[seq - this.before - 1] as string };
  }

  consequences(_: string, seq: number): Promise<number[]> {
    const effects = this.texts.slice(seq - this.before).map((text): Effect => JSON.parse(text));
    return Promise.resolve(effects.filter((each) => each.caused_by === seq).map((each) => each.global_seq));
  }

  seen(_: string, agent: string, from: number, to: number): Promise<number[]> {
    return Promise.resolve((this.events.get(agent) ?? []).filter((seq) => seq >= from && seq <= to));
  }

  block(_: string, agent: string | null, from: number): Promise<BlockData> {
    const found = this.blocks.get(place(agent, from));
    return found === undefined ? missing("this moment") : Promise.resolve(found);
  }

  /** Some hundred states over the world; of a large one, those with which blocks begin. */
  coarse(): Promise<BlockData> {
    const every = Math.ceil(this.texts.length / COARSE);
    const of = (data: BlockData) =>
      this.texts.length > LARGE
        ? [{ seq: data.key, state: data.state }]
        : statesOf(data).filter((_, index) => index % every === 0);
    const [first, ...rest] = [...this.blocks].flatMap(([name, data]) => name.endsWith(" ") ? of(data) : []);
    if (first === undefined) return missing("a state");
    const patches = rest.map(({ seq, state }): BlockData["patches"][number] => {
      return { seq, ops: [{ op: "replace", path: "", value: state as unknown as Json }] };
    });
    return Promise.resolve({ key: first.seq, state: first.state, last: this.only.head_seq, patches });
  }

  density(_: string, bins: number): Promise<Bin[]> {
    const kinds = this.texts.map((text) => (JSON.parse(text) as Effect).kind);
    return Promise.resolve(binned(kinds, this.before + 1, bins));
  }

  search(_: string, q: string, _until: number | null, filter: Filter, told: Search): Promise<boolean> {
    const wanted = q.toLowerCase();
    let hits = 0;
    for (let seq = this.only.head_seq; seq > this.before && hits < 200; seq--) {
      const { kind, source_id, payload }: Effect = JSON.parse(this.texts[seq - this.before - 1] as string);
      const excerpt = JSON.stringify(payload);
      if ((filter.kind && kind !== filter.kind) || (filter.source && source_id !== filter.source)) continue;
      if (!excerpt.toLowerCase().includes(wanted)) continue;
      told.hit({ global_seq: seq, kind, source_id, excerpt });
      hits += 1;
    }
    return Promise.resolve(hits < 200);
  }

  questions(): Promise<Question[]> {
    return missing("a database");
  }

  ask(): Promise<Answer> {
    return missing("a database");
  }

  askArrow(): Promise<Blob> {
    return missing("a database");
  }

  compare(): Promise<Compared> {
    return missing("another world");
  }

  log(): Blob {
    return new Blob(this.texts.map((text) => `${text}\n`));
  }

  follow(): () => void {
    return () => undefined;
  }

  private keep(agent: string | null, data: BlockData): void {
    this.blocks.set(place(agent, data.key), data);
  }

  private async checksums(): Promise<string[]> {
    const [encoder, hash] = [new TextEncoder(), bestHash()];
    const found: string[] = [];
    let last = this.only.part?.checksum_before ?? "";
    for (const text of this.texts) found.push(last = hex(await hash(encoder.encode(last + text))));
    return found;
  }
}

function place(agent: string | null, seq: number): string {
  return `${blockOf(seq)} ${agent === null ? "" : `of ${agent}`}`;
}
