/** The service as the source, by the routes of docs/reference/http.md. */

import type { Density, FramePatches, Gets, ObservedEvents, Posts, Problem, StateFrames, ViewFrames } from "./api.ts";
import type { Shown } from "./belief.ts";
import type { Bin } from "./density.ts";
import type { BlockData } from "./frames.ts";
import type { Obj, Operation } from "./json.ts";
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

/** What the frames of states and those of views have in common. */
export interface Columns {
  frames: { seq: number[]; sim_time?: number[]; kind?: string[] };
  paths: string[];
  patches: FramePatches;
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
  const known = view.view_seq === null ? [] : [view.view_seq];
  const told = [...known, ...found.frames.seq, ...found.observed_seqs].sort((a, b) => a - b);
  return { key, state, last: found.to_seq, patches: patchesOf(found), told };
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

/** What stands for `{world}` and the like in a route's path. */
type Names = Record<string, string>;

const filled = (path: string, names: Names) =>
  path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(names[name] as string));

async function refusal(answer: Response): Promise<Refused> {
  const told = await answer.json().catch(() => ({})) as Partial<Problem>;
  const detail = told.detail ?? `the service answers ${answer.status}`;
  const problems = told.problems ??
    (told.path == null ? [] : [{ path: told.path, message: detail.replace(`${told.path}: `, "") }]);
  return new Refused(answer.status, told.code ?? "", detail, problems);
}

type Query = Record<string, string | number | string[] | null>;

/** Get what is at a path. Raises Refused where the answer is no success. */
export async function ask(path: string, query: Query = {}, signal?: AbortSignal): Promise<Response> {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of [value].flat()) if (each !== null && each !== "") given.append(name, String(each));
  }
  const text = given.toString();
  const answer = await fetch(text === "" ? path : `${path}?${text}`, { signal: signal ?? null });
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

/** A file that the service makes. Raises Refused where the answer is no success. */
export async function fetched(path: string, names: Names, query: Query): Promise<Blob> {
  return await (await ask(filled(path, names), query)).blob();
}

/** Post JSON. Raises Refused where the answer is no success. */
export async function send(path: string, body: unknown, accept = "application/json"): Promise<Response> {
  const headers = { "Content-Type": "application/json", Accept: accept };
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

async function get<P extends keyof Gets>(
  path: P,
  names: Names,
  query: Query = {},
  signal?: AbortSignal,
): Promise<Gets[P]> {
  return await (await ask(filled(path, names), query, signal)).json();
}

async function post<P extends keyof Posts>(path: P, names: Names, body: unknown): Promise<Posts[P]> {
  return await (await send(filled(path, names), body)).json();
}

/** Spans of the activity of a world in a list. */
const SPANS = 24;

/** Milliseconds until a service that refused to be followed is asked again. */
const AGAIN_MS = 2000;

export class HttpSource implements Source {
  async worlds({ q, ruleset, experiment, live, after }: WorldsQuery, signal: AbortSignal): Promise<WorldsPage> {
    const filters = { q: q.slice(0, 200), ruleset, experiment, live: live ? "true" : null };
    const query = { ...filters, after, order: "active", facets: "true", limit: 100, activity: SPANS, outcome: "true" };
    const found = await get("/v1/worlds", {}, query, signal);
    return { worlds: found.worlds, next: found.next_after, facets: found.facets ?? null };
  }

  async questions(): Promise<Question[]> {
    return (await get("/v1/queries", {})).queries;
  }

  ask(question: Question | string, given: Record<string, string>, most: number): Promise<Answer> {
    return post("/v1/sql", {}, { ...this.query(question, given), max_rows: most });
  }

  async askArrow(question: Question | string, given: Record<string, string>): Promise<Blob> {
    return await (await send("/v1/sql", this.query(question, given), "application/vnd.apache.arrow.stream")).blob();
  }

  private query(question: Question | string, given: Record<string, string>): Obj {
    const types = typeof question === "string" ? [] : question.parameters;
    const params = Object.fromEntries(
      Object.entries(given).map(([name, value]) => {
        const type = types.find((each) => each.name === name)?.type ?? "text";
        return [name, /int|double|numeric/.test(type) ? Number(value) : value];
      }),
    );
    return typeof question === "string" ? { query: question, params } : { name: question.name, params };
  }

  world(name: string): Promise<World> {
    return get("/v1/worlds/{world}", { world: name }, { outcome: "true" });
  }

  async agents(world: string): Promise<{ agent_id: string; registered_seq: number }[]> {
    return (await get("/v1/worlds/{world}/agents", { world }, { limit: 1000 })).agents;
  }

  online(world: string): Promise<Online> {
    return get("/v1/worlds/{world}/online", { world });
  }

  kinds(world: string): Promise<Vocabulary> {
    return get("/v1/worlds/{world}/kinds", { world });
  }

  async post(world: string, what: "effects" | "intents", body: Obj): Promise<Posted> {
    const answer = what === "effects"
      ? await post("/v1/worlds/{world}/effects", { world }, body)
      : await post("/v1/worlds/{world}/intents", { world }, body);
    if ("receipts" in answer || "results" in answer) throw new Error("one was posted, and several were answered");
    return answer;
  }

  async projections(): Promise<ProjectionLag[]> {
    const found = await get("/v1/projections", {});
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
    const found = await get("/v1/worlds/{world}/effects", { world }, query);
    return { effects: found.effects, through: found.through_seq, next: found.next_after_seq };
  }

  async effect(world: string, seq: number): Promise<{ text: string; checksum: string }> {
    const answer = await ask(filled("/v1/worlds/{world}/effects/{seq}", { world, seq: String(seq) }));
    return { text: await answer.text(), checksum: answer.headers.get("Worldledger-Checksum") ?? "" };
  }

  async consequences(world: string, seq: number): Promise<number[]> {
    const query = { direction: "forward", depth: 1, width: 50 };
    const found = await get("/v1/worlds/{world}/effects/{seq}/why", { world, seq: String(seq) }, query);
    return found.effects.filter((each) => each.global_seq !== seq && each.world_id === world).map((each) =>
      each.global_seq
    );
  }

  async seen(world: string, agent: string, from: number, to: number): Promise<number[]> {
    const found: number[] = [];
    for (let after: number | null = from - 1; after !== null && after < to;) {
      const query = { after_seq: after, until_seq: to, limit: 1000 };
      const page: ObservedEvents = await get(
        "/v1/worlds/{world}/agents/{agent_id}/events",
        { world, agent_id: agent },
        query,
      );
      found.push(...page.events.map(({ global_seq }) => global_seq));
      after = page.next_after_seq;
    }
    return found;
  }

  async block(world: string, agent: string | null, from: number, to: number, signal: AbortSignal): Promise<BlockData> {
    const query = { from_seq: from, to_seq: to };
    if (agent === null) return blockOfStates(await get("/v1/worlds/{world}/frames", { world }, query, signal));
    const names = { world, agent_id: agent };
    return blockOfViews(await get("/v1/worlds/{world}/agents/{agent_id}/frames", names, query, signal));
  }

  async coarse(world: string, until: number | null): Promise<BlockData> {
    return blockOfStates(await get("/v1/worlds/{world}/frames", { world }, { frames: 500, to_seq: until }));
  }

  async density(world: string, bins: number, until: number | null): Promise<Bin[]> {
    return binsOf(await get("/v1/worlds/{world}/density", { world }, { bins, until_seq: until }));
  }

  async search(
    world: string,
    q: string,
    until: number | null,
    filter: Filter,
    told: Search,
    signal: AbortSignal,
  ): Promise<boolean> {
    const query = { q, until_seq: until, kind: filter.kind ?? "", source_id: filter.source ?? "", limit: 200 };
    const answer = await ask(filled("/v1/worlds/{world}/search", { world }), query, signal);
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

  compare(worlds: string[], group: string, view: string): Promise<Compared> {
    return get("/v1/compare", {}, { world: worlds, group, view });
  }

  log(world: string, until: number): string {
    return new URL(`${filled("/v1/worlds/{world}/effects", { world })}?until_seq=${until}`, location.href).href;
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
      stream = new EventSource(`${filled("/v1/worlds/{world}/tail", { world })}?after_seq=${after}`);
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
