/** The service as the source, by the routes of docs/reference/http.md. */

import type { Shown } from "./belief.ts";
import type { Bin } from "./density.ts";
import type { BlockData } from "./frames.ts";
import type { Json, Obj, Operation } from "./json.ts";
import type { Effect } from "./panel.ts";
import {
  type Answer,
  type Compared,
  type Filter,
  type Online,
  type Page,
  type Posted,
  type ProjectionLag,
  type Question,
  Refused,
  type Search,
  type Source,
  type Vocabulary,
  type World,
  type WorldsPage,
  type WorldsQuery,
} from "./source.ts";

export interface Columns {
  frames: { seq: number[]; sim_time?: number[]; kind?: string[] };
  /** The pointers of the patches, each once. */
  paths: string[];
  patches: { frame: number[]; op: Operation["op"][]; path: number[]; value: Json[] };
}
export interface StateFrames extends Columns {
  to_seq: number;
  keyframe: { global_seq: number; state: Obj };
}
export interface ViewFrames extends Columns {
  to_seq: number;
  keyframe: { global_seq: number; view: { view_seq: number; visible_entities: Obj; visible_relationships: Obj } };
}

/** Patches from their columns; a view's pointers become those of a state. */
export function patchesOf({ frames, paths, patches }: Columns): BlockData["patches"] {
  const found = frames.seq.map((seq, index): BlockData["patches"][number] => {
    if (frames.kind === undefined || frames.sim_time === undefined) return { seq, ops: [] };
    const last = { seq, time: frames.sim_time[index] ?? null, kind: frames.kind[index] ?? null };
    return {
      seq,
      ops: Object.entries(last).map(([name, value]) => ({
        op: "replace",
        path: `/metadata/last_effect_${name}`,
        value,
      })),
    };
  });
  const pointers = paths.map((path) => path.replace(/^\/visible_/, "/"));
  patches.frame.forEach((frame, index) => {
    const [op, path] = [patches.op[index] as Operation["op"], pointers[patches.path[index] as number] as string];
    found[frame]?.ops.push({ op, path, value: patches.value[index] ?? null });
  });
  return found;
}

export function blockOfStates(found: StateFrames): BlockData {
  const state = found.keyframe.state as unknown as Shown;
  return { key: found.keyframe.global_seq, state, last: found.to_seq, patches: patchesOf(found) };
}

export function blockOfViews(found: ViewFrames): BlockData {
  const { view, global_seq: key } = found.keyframe;
  const state = { entities: view.visible_entities, relationships: view.visible_relationships };
  return { key, made: view.view_seq, state, last: found.to_seq, patches: patchesOf(found) };
}

export interface Density {
  bins: { end_seq: number[] };
  kinds: Record<string, number[]>;
  other_kinds: number[];
}

export function binsOf(found: Density): Bin[] {
  const kinds = Object.entries(found.kinds);
  return found.bins.end_seq.map((to, index) => {
    const counts: Record<string, number> = Object.create(null);
    for (const [kind, numbers] of kinds) if (numbers[index]) counts[kind] = numbers[index];
    if (found.other_kinds[index]) counts["others"] = found.other_kinds[index];
    return { from: index === 0 ? 1 : (found.bins.end_seq[index - 1] as number) + 1, to, counts };
  });
}

const at = (world: string, ...rest: string[]) => ["/v1/worlds", ...[world, ...rest].map(encodeURIComponent)].join("/");

interface Problem {
  code: string;
  detail: string;
  path: string;
  problems: { path: string; message: string }[];
}

async function refusal(answer: Response): Promise<Refused> {
  const told = await answer.json().catch(() => ({})) as Partial<Problem>;
  const detail = told.detail ?? `the service answers ${answer.status}`;
  const problems = told.problems ??
    (told.path == null ? [] : [{ path: told.path, message: detail.replace(`${told.path}: `, "") }]);
  return new Refused(answer.status, told.code ?? "", detail, problems);
}

async function ask(path: string, query: Record<string, string | number | null> = {}, signal?: AbortSignal) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== "") given.append(name, String(value));
  }
  const text = given.toString();
  const answer = await fetch(text === "" ? path : `${path}?${text}`, { signal: signal ?? null });
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

/** Post JSON. Raises Refused where the answer is no success. */
export async function send(path: string, body: unknown, accept = "application/json"): Promise<Response> {
  const headers = { "Content-Type": "application/json", Accept: accept };
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

async function json<T>(...asked: Parameters<typeof ask>): Promise<T> {
  return await (await ask(...asked)).json() as T;
}

/** Spans of the activity of a world in a list. */
const SPANS = 24;

/** Milliseconds until a service that refused to be followed is asked again. */
const AGAIN_MS = 2000;

export class HttpSource implements Source {
  async worlds({ q, ruleset, experiment, live, after }: WorldsQuery, signal: AbortSignal): Promise<WorldsPage> {
    const filters = { q: q.slice(0, 200), ruleset, experiment, live: live ? "true" : null };
    const found = await json<{ worlds: WorldsPage["worlds"]; next_after: string | null; facets: WorldsPage["facets"] }>(
      "/v1/worlds",
      { ...filters, after, order: "active", facets: "true", limit: 100, activity: SPANS },
      signal,
    );
    return { worlds: found.worlds, next: found.next_after, facets: found.facets };
  }

  async questions(): Promise<Question[]> {
    return (await json<{ queries: Question[] }>("/v1/queries")).queries;
  }

  async ask(question: Question | string, given: Record<string, string>, most: number): Promise<Answer> {
    return await (await this.query(question, given, { max_rows: most }, "application/json")).json();
  }

  async askArrow(question: Question | string, given: Record<string, string>): Promise<Blob> {
    return await (await this.query(question, given, {}, "application/vnd.apache.arrow.stream")).blob();
  }

  private async query(
    question: Question | string,
    given: Record<string, string>,
    more: Obj,
    accept: string,
  ): Promise<Response> {
    const asked = typeof question === "string" ? { query: question } : { name: question.name };
    const types = typeof question === "string" ? [] : question.parameters;
    const params = Object.fromEntries(
      Object.entries(given).map(([name, value]) => {
        const type = types.find((each) => each.name === name)?.type ?? "text";
        return [name, /int|double|numeric/.test(type) ? Number(value) : value];
      }),
    );
    return await send("/v1/sql", { ...asked, params, ...more }, accept);
  }

  world(name: string): Promise<World> {
    return json(at(name));
  }

  async agents(world: string): Promise<{ agent_id: string; registered_seq: number }[]> {
    return (await json<{ agents: { agent_id: string; registered_seq: number }[] }>(at(world, "agents"), {
      limit: 1000,
    }))
      .agents;
  }

  online(world: string): Promise<Online> {
    return json(at(world, "online"));
  }

  kinds(world: string): Promise<Vocabulary> {
    return json(at(world, "kinds"));
  }

  async post(world: string, what: "effects" | "intents", body: Obj): Promise<Posted> {
    return await (await send(at(world, what), body)).json();
  }

  async projections(): Promise<ProjectionLag[]> {
    const found = await json<{ projections: { name: string; live: Omit<ProjectionLag, "name"> | null }[] }>(
      "/v1/projections",
    );
    return found.projections.flatMap(({ name, live }) => live === null ? [] : [{ ...live, name }]);
  }

  async effects(world: string, after: number, until: number | null, limit: number, filter: Filter = {}): Promise<Page> {
    const query = {
      after_seq: after,
      until_seq: until,
      limit,
      kind: filter.kind ?? "",
      source_id: filter.source ?? "",
    };
    const found = await json<{ effects: Effect[]; through_seq: number; next_after_seq: number | null }>(
      at(world, "effects"),
      query,
    );
    return { effects: found.effects, through: found.through_seq, next: found.next_after_seq };
  }

  async effect(world: string, seq: number): Promise<{ text: string; checksum: string }> {
    const answer = await ask(at(world, "effects", String(seq)));
    return { text: await answer.text(), checksum: answer.headers.get("Worldledger-Checksum") ?? "" };
  }

  async consequences(world: string, seq: number): Promise<number[]> {
    const query = { direction: "forward", depth: 1, width: 50 };
    const path = at(world, "effects", String(seq), "why");
    const found = await json<{ effects: { global_seq: number; world_id: string }[] }>(path, query);
    return found.effects.filter((each) => each.global_seq !== seq && each.world_id === world).map((each) =>
      each.global_seq
    );
  }

  async seen(world: string, agent: string, from: number, to: number): Promise<number[]> {
    const found: number[] = [];
    for (let after: number | null = from - 1; after !== null && after < to;) {
      const page: { events: { global_seq: number }[]; next_after_seq: number | null } = await json(
        at(world, "agents", agent, "events"),
        { after_seq: after, until_seq: to, limit: 1000 },
      );
      found.push(...page.events.map(({ global_seq }) => global_seq));
      after = page.next_after_seq;
    }
    return found;
  }

  async block(world: string, agent: string | null, from: number, to: number, signal: AbortSignal): Promise<BlockData> {
    const query = { from_seq: from, to_seq: to };
    if (agent === null) return blockOfStates(await json<StateFrames>(at(world, "frames"), query, signal));
    return blockOfViews(await json<ViewFrames>(at(world, "agents", agent, "frames"), query, signal));
  }

  async coarse(world: string): Promise<BlockData> {
    return blockOfStates(await json<StateFrames>(at(world, "frames"), { frames: 500 }));
  }

  async density(world: string, bins: number): Promise<Bin[]> {
    return binsOf(await json<Density>(at(world, "density"), { bins }));
  }

  async search(world: string, q: string, filter: Filter, told: Search, signal: AbortSignal): Promise<boolean> {
    const query = { q, kind: filter.kind ?? "", source_id: filter.source ?? "", limit: 200 };
    const answer = await ask(at(world, "search"), query, signal);
    let rest = "";
    const reader = (answer.body as ReadableStream<Uint8Array<ArrayBuffer>>).pipeThrough(new TextDecoderStream())
      .getReader();
    for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) {
      const pieces = (rest + chunk.value).split("\n");
      rest = pieces.pop() ?? "";
      for (const line of pieces) {
        const found = JSON.parse(line);
        if (found.hit) told.hit(found.hit);
        if (found.progress) told.progress(found.progress.scanned, found.progress.of);
        if (found.end) return found.end.complete;
      }
    }
    throw new Error("the search was cut off");
  }

  compare(worlds: string[], group: string): Promise<Compared> {
    const asked = new URLSearchParams(worlds.map((world) => ["world", world]));
    if (group !== "") asked.append("group", group);
    return json(`/v1/compare?${asked}`);
  }

  log(world: string, until: number): string {
    return new URL(`${at(world, "effects")}?until_seq=${until}`, location.href).href;
  }

  follow(
    world: string,
    after: number,
    told: (effect: Effect) => void,
    state: (connected: boolean) => void,
  ): () => void {
    let stream: EventSource;
    let waiting: number | undefined;
    const open = () => {
      stream = new EventSource(`${at(world, "tail")}?after_seq=${after}`);
      stream.addEventListener("open", () => state(true));
      stream.addEventListener("error", () => {
        state(false);
        // The browser reconnects by itself, and says after which effect; but not to a service that refuses.
        if (stream.readyState === EventSource.CLOSED) waiting = setTimeout(open, AGAIN_MS);
      });
      stream.addEventListener("effect", ({ data }: MessageEvent<string>) => {
        const effect: Effect = JSON.parse(data);
        after = effect.global_seq;
        told(effect);
      });
    };
    open();
    return () => {
      clearTimeout(waiting);
      stream.close();
    };
  }
}
