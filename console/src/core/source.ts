/** Where the page has its data from. Over HTTP it is the service; other sources can stand in its place. */

import type { Bin } from "./density.ts";
import type { BlockData } from "./frames.ts";
import type { Json, Obj } from "./json.ts";
import type { Effect } from "./panel.ts";

export interface World {
  world_id: string;
  world_uuid: string;
  ruleset: string;
  ruleset_version: number;
  experiment: string | null;
  config: Obj;
  created_at: string;
  head_seq: number;
  head_checksum: string;
  sim_time: number;
  wall_time: number;
  /** The parent and the effect that a fork goes on from. */
  fork_of: { world_id: string; world_uuid: string; global_seq: number; depth: number } | null;
  /** In a list: about how many effects there are in equal spans of its sim_time. */
  activity?: number[];
}

export interface Filter {
  kind?: string;
  source?: string;
}

export interface Page {
  effects: Effect[];
  through: number;
  /** The `after` of the next page; null where this is the last. */
  next: number | null;
}

export interface WorldsQuery {
  q: string;
  ruleset: string;
  experiment: string;
  live: boolean;
  after: string | null;
}

export interface Facet {
  value: string | null;
  worlds: number;
}

export interface WorldsPage {
  worlds: World[];
  next: string | null;
  facets: { total: number; live: number; rulesets: Facet[]; experiments: Facet[] } | null;
}

export interface Hit {
  global_seq: number;
  kind: string;
  source_id: string;
  excerpt: string;
}

export interface Search {
  hit(hit: Hit): void;
  progress(scanned: number, of: number): void;
}

/** A question that has a name. */
export interface Question {
  name: string;
  title: string;
  description: string;
  parameters: { name: string; type: string; is_required: boolean; default: Json; description: string }[];
  sql: string;
}

export interface Answer {
  columns: { name: string; type: string }[];
  rows: Json[][];
  is_cut: boolean;
}

export interface OnlineAgent {
  agent_id: string;
  readers: number;
  queued: number;
  view_seq: number | null;
  generations: { req_id: string; context_seq: number; is_here: boolean }[];
}

/** Who is online in a world, as of an effect. */
export interface Online {
  /** The service's clock. */
  time: number;
  is_open: boolean;
  seq: number;
  agents_online: number;
  agents: OnlineAgent[];
  intents_waiting: number;
  refused: Record<string, number>;
  generations_cancelled: number;
}

export interface KindOfPayload {
  kind: string;
  /** A JSON Schema. */
  payload: Obj;
}

/** The kinds that a world's ruleset knows. */
export interface Vocabulary {
  effects: KindOfPayload[];
  intents: KindOfPayload[];
}

/** What became of an effect or an intent that was posted. */
export interface Posted {
  /** Missing while it is held until a tick. */
  global_seq?: number;
  replayed: boolean;
  held?: boolean;
  tick?: number;
}

/** How far a projection is behind the logs of all worlds. */
export interface ProjectionLag {
  name: string;
  effects_behind: number;
  seconds_behind: number | null;
  paused: boolean;
  parked: number;
}

/** A measure of runs by number of turn, round or ply: a value for each run and number. */
export interface MeasureSeries {
  measure: string;
  numbers: number[];
  values: (number | null)[][];
}

/** The same of a group of runs. */
export interface GroupSeries {
  measure: string;
  group: string;
  numbers: number[];
  n: number[];
  mean: (number | null)[];
  q1: (number | null)[];
  q3: (number | null)[];
}

/** How runs compare: docs/how-to-compare.md explains each member. */
export interface Compared {
  worlds: { world_id: string; head_seq: number; labels: Obj }[];
  by: string;
  pairs: Pair[];
  series: MeasureSeries[];
  series_unit: string | null;
  groups: { by: string; of: string[]; series: GroupSeries[] } | null;
  [other: string]: unknown;
}

/** An effect where two runs part. */
export interface Parting {
  world_id: string;
  global_seq: number;
}

export interface Pair {
  a: string;
  b: string;
  equal: boolean;
  equal_effects: number;
  shared_effects: number;
  divergence: { unit: string; number: number | null; a: Parting | null; b: Parting | null } | null;
  [other: string]: unknown;
}

export interface Source {
  worlds(query: WorldsQuery, signal: AbortSignal): Promise<WorldsPage>;
  world(name: string): Promise<World>;
  agents(world: string): Promise<{ agent_id: string; registered_seq: number }[]>;
  online(world: string): Promise<Online>;
  projections(): Promise<ProjectionLag[]>;
  kinds(world: string): Promise<Vocabulary>;
  post(world: string, what: "effects" | "intents", body: Obj): Promise<Posted>;
  effects(world: string, after: number, until: number | null, limit: number, filter?: Filter): Promise<Page>;
  /** The text of an effect as it was hashed, and its checksum. */
  effect(world: string, seq: number): Promise<{ text: string; checksum: string }>;
  /** The effects that came of one, as far as the log tells. */
  consequences(world: string, seq: number): Promise<number[]>;
  /** The seqs of the effects from one to another that an agent could see and that no patch of its view tells. */
  seen(world: string, agent: string, from: number, to: number): Promise<number[]>;
  /** A state and patches; `agent` for what that agent saw. */
  block(world: string, agent: string | null, from: number, to: number, signal: AbortSignal): Promise<BlockData>;
  /** States at a few moments over the whole world. */
  coarse(world: string): Promise<BlockData>;
  density(world: string, bins: number): Promise<Bin[]>;
  /** Look for a text in payloads, newest first; whether all of the world was searched. */
  search(world: string, q: string, filter: Filter, told: Search, signal: AbortSignal): Promise<boolean>;
  questions(): Promise<Question[]>;
  /** Ask a question with a name, or one in SQL. */
  ask(question: Question | string, params: Record<string, string>, most: number): Promise<Answer>;
  /** The same as an Arrow IPC stream, with every row. */
  askArrow(question: Question | string, params: Record<string, string>): Promise<Blob>;
  /** Where worlds part, and what is measured of them; `group` for the mean and quartiles by a label. */
  compare(worlds: string[], group: string): Promise<Compared>;
  /** The log for verification, or where it is read. */
  log(world: string, until: number): Blob | string;
  /** Be told every effect after a seq; returns how to end that. */
  follow(world: string, after: number, told: (effect: Effect) => void, state: (connected: boolean) => void): () => void;
}

/** An answer of the service that is no success, in its words. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    /** Everything that is wrong, with its JSON path. */
    readonly problems: readonly { path: string; message: string }[] = [],
  ) {
    super(detail);
  }
}
