/** Where the page has its data from. Over HTTP it is the service; other sources can stand in its place. */

import type {
  AcceptedIntent,
  ComparedEffect,
  ComparedPair,
  Comparison,
  HeldIntent,
  ListedWorld,
  NamedQuery,
  Online,
  ProjectionBuild,
  Receipt,
  SqlAnswer,
  Vocabulary,
  WorldFacets,
} from "./api.ts";
import type { Bin } from "./density.ts";
import type { BlockData } from "./frames.ts";
import type { Obj } from "./json.ts";
import type { Effect } from "./panel.ts";

export type { GroupSeries, MeasureSeries, Online, OnlineAgent, Vocabulary, WorldChoice as Facet } from "./api.ts";
export interface World extends ListedWorld {
  /** Of a file with a part of the log: its first effect, and the checksum of the effect before (of effect 0: none). */
  part?: { first_seq: number; checksum_before: string };
  /** Whether it is an ancestor of a fork, which is shown up to where the fork goes on from it: its log ends there. */
  isPast?: boolean;
}
/** A question that has a name. */
export type Question = NamedQuery;
export type Answer = SqlAnswer;
/** How runs compare: docs/how-to-compare.md explains each member. */
export type Compared = Comparison;
export type Pair = ComparedPair;
/** An effect where two runs part. */
export type Parting = ComparedEffect;

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

export interface WorldsPage {
  worlds: World[];
  next: string | null;
  facets: WorldFacets | null;
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

/** What became of an effect or an intent that was posted. */
export type Posted = Receipt | AcceptedIntent | HeldIntent;

/** How far the live build of a projection is behind the logs of all worlds. */
export type ProjectionLag = { name: string } & ProjectionBuild;

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
  /** States at a few moments over a world, to its head or up to a seq; so are the next two. */
  coarse(world: string, until: number | null): Promise<BlockData>;
  density(world: string, bins: number, until: number | null): Promise<Bin[]>;
  /** Look for a text in payloads, newest first; whether all of it was searched. */
  search(
    world: string,
    q: string,
    until: number | null,
    filter: Filter,
    told: Search,
    signal: AbortSignal,
  ): Promise<boolean>;
  questions(): Promise<Question[]>;
  /** Ask a question with a name, or one in SQL. */
  ask(question: Question | string, params: Record<string, string>, most: number): Promise<Answer>;
  /** The same as an Arrow IPC stream, with every row. */
  askArrow(question: Question | string, params: Record<string, string>): Promise<Blob>;
  /** Where worlds part, and what is measured of them; `group` for the mean and quartiles by a label. */
  compare(worlds: string[], group: string, view: string): Promise<Compared>;
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
