// Generated from the service's OpenAPI document by `make docs`: do not edit.
/** What the service answers, by the path of the route. */

import type { Json, Obj } from "./json.ts";

export interface Gets {
  "/v1/compare": Comparison;
  "/v1/projections": ProjectionList;
  "/v1/queries": QueryList;
  "/v1/worlds": WorldPage;
  "/v1/worlds/{world}": WorldWithOrigin;
  "/v1/worlds/{world}/agents": WorldAgentPage;
  "/v1/worlds/{world}/agents/{agent_id}/events": ObservedEvents;
  "/v1/worlds/{world}/agents/{agent_id}/frames": ViewFrames;
  "/v1/worlds/{world}/density": Density;
  "/v1/worlds/{world}/effects": EffectPage;
  "/v1/worlds/{world}/effects/{seq}/why": WhyAnswer;
  "/v1/worlds/{world}/frames": StateFrames;
  "/v1/worlds/{world}/kinds": Vocabulary;
  "/v1/worlds/{world}/online": Online;
}

export interface Posts {
  "/v1/sql": SqlAnswer;
  "/v1/worlds/{world}/effects": Receipt | Receipts;
  "/v1/worlds/{world}/intents": AcceptedIntent | IntentResults | HeldIntent;
}

/** An intent that is an effect now. */
export interface AcceptedIntent {
  agent_id: string;
  req_id: string;
  global_seq: number;
  /** The effect's. */
  uuid: string;
  /** Whether an earlier request with this req_id made the effect. */
  replayed: boolean;
}

/** The effects, entities and agents from the divergence on. */
export interface Afterwards {
  /** How many effects of each kind, in a and in b. */
  effects: Record<string, number[]>;
  entities: OnlyIn;
  agents: OnlyIn;
}

/** An effect that was found, with its links. */
export interface CausalEffect {
  world_id: string;
  global_seq: number;
  checksum: string;
  kind: string;
  source_id: string;
  sim_time: number;
  /** How many links it lies from the effect that was asked about. */
  depth: number;
  context: DecidedFrom | null;
  refused: Refused | null;
  /** What is wrong with it in a log that was tampered with: its checksum, a column, what it records. */
  problem: string | null;
  /** Whether its links were followed; not at the end of the depth. */
  is_expanded: boolean;
  links: CausalLink[];
  /** How many links of each kind were too many. */
  left_out: Record<string, number>;
}

/** A link to another effect. */
export interface CausalLink {
  /** How it is known. `told`: the effect names its cause. `request`: the same agent and req_id. `context`: the view that was decided from, and the effects that showed what was in it. `same entity`: the last effect before it that may have changed the same entity. */
  kind: "told" | "request" | "context" | "same entity";
  world_id: string;
  global_seq: number;
  /** The chain checksum of the effect that the link leads to. */
  checksum: string;
  /** The entities that it is about, sorted. */
  entities: string[];
}

/** An effect, named so that it can be looked up; of a fork it may be an ancestor's. */
export interface ComparedEffect {
  world_id: string;
  global_seq: number;
  kind: string;
  source_id: string;
  sim_time: number;
  checksum: string;
}

/** Two runs and their first differences. */
export interface ComparedPair {
  a: string;
  b: string;
  /** Nothing differs, neither settings nor effects. */
  equal: boolean;
  /** How many effects they have in common until they part. */
  equal_effects: number;
  /** How many of these are the same effects: the past that forks share. */
  shared_effects: number;
  /** Where their genesis effects differ. */
  settings: DifferingField[];
  /** Differences before the first unit, at most 20. */
  beginnings: Parting[];
  /** The first difference from the first unit on; null for none. */
  divergence: Parting | null;
}

/** Differences of the states at the divergence, where they first differ at the end of a unit, and at the heads. */
export interface ComparedStates {
  divergence: Differing | null;
  first: FirstDifference | null;
  /** Set if so many effects were folded that the search was given up. */
  stopped: GivenUp | null;
  head: Differing;
}

/** The same differences of an agent's views. */
export interface ComparedViews {
  divergence: Differing | null;
  first: FirstDifference | null;
  /** Set if so many effects were folded that the search was given up. */
  stopped: GivenUp | null;
  head: Differing;
  agent_id: string;
}

/** One of the runs that are compared. */
export interface ComparedWorld {
  world_id: string;
  ruleset: string;
  experiment: string | null;
  head_seq: number;
  /** The run is compared up to here. */
  head_checksum: string;
  /** Of a fork: what lies before its first effect is in this world. */
  fork_of: ForkedFrom | null;
  /** How it stands in the end, if its kind tells. */
  outcome: Obj | null;
  /** What it may be grouped by, besides its configuration. */
  labels: Obj;
}

/** Runs side by side. */
export interface Comparison {
  worlds: ComparedWorld[];
  by: string;
  /** JSON paths that make no difference, with those that the kind leaves out. */
  ignored: string[];
  pairs: ComparedPair[];
  /** The measures of the kind. */
  series: MeasureSeries[];
  /** What they are counted in; null for a kind without measures. */
  series_unit: string | null;
  groups: RunGroups | null;
  /** Of two runs that part. */
  after: Afterwards | null;
  /** Of two runs. */
  states: ComparedStates | null;
  views: ComparedViews | null;
}

/** The view that an intent or a generation was made from. */
export interface DecidedFrom {
  agent_id: string;
  view_seq: number;
}

/** How many effects of each kind there are along a world's log, in bins. */
export interface Density {
  world_id: string;
  by: string;
  /** The last effect that is counted: the head, unless counting is far behind. */
  through_seq: number;
  /** Bins end at multiples of so many effects. */
  step: number;
  bins: DensityBins;
  /** Of each kind, how many effects each bin has; most frequent first. */
  kinds: Record<string, number[]>;
  /** How many effects each bin has of kinds that are not told apart. */
  other_kinds: number[];
}

/** Columns: an entry for each bin. */
export interface DensityBins {
  /** Its last effect. It begins behind the one before. */
  end_seq: number[];
  /** The sim_time of that effect. */
  end_sim_time: number[];
  /** Where it ends in what the bins are by: a seq, a sim_time, a unit's number. */
  end: number[];
}

/** Differences of two states or views, at most 100. */
export interface Differing {
  /** In whose log `a_seq` is: a fork, or an ancestor. */
  a_world_id?: string | null;
  a_seq?: number | null;
  b_world_id?: string | null;
  b_seq?: number | null;
  equal: boolean;
  differences: DifferingField[];
  more: number;
}

/** A place at which two documents differ. A value that is missing has `…_missing`, one of more than 1,000 bytes its size in `…_bytes`. */
export interface DifferingField {
  /** Its JSON path. */
  path: string;
  a?: Json;
  b?: Json;
  a_missing?: boolean;
  b_missing?: boolean;
  a_bytes?: number | null;
  b_bytes?: number | null;
}

/** An effect of the log: the stored bytes, exactly as they were hashed. */
export interface Effect {
  uuid: string;
  kind: string;
  payload: Obj;
  global_seq: number;
  sim_time: number;
  source_id: string;
  schema_version: string;
  world_id: string;
  priority: number;
  req_id: string | null;
  wall_time: number;
  caused_by?: number | null;
  source_metadata?: Obj | null;
  [other: string]: unknown;
}

/** A page of effects in ascending order, each exactly as stored, with their checksums beside them. */
export interface EffectPage {
  world_id: string;
  effects: Effect[];
  /** The chain checksum of each effect, hex, in the same order. */
  checksums: string[];
  /** Up to here the page has everything that was asked for: the after_seq with which to ask for later effects. */
  through_seq: number;
  /** The after_seq of the next page; null when this is the last. */
  next_after_seq: number | null;
  /** Where the filter finds nothing at all: what may have been meant. Left out where that is nothing. */
  near?: string[] | null;
}

/** The first unit at whose end states, or views, differ. */
export interface FirstDifference {
  /** In whose log `a_seq` is: a fork, or an ancestor. */
  a_world_id?: string | null;
  a_seq?: number | null;
  b_world_id?: string | null;
  b_seq?: number | null;
  equal: boolean;
  differences: DifferingField[];
  more: number;
  unit: string;
  /** Null for what lies before the first unit. */
  number: number | null;
}

/** A fork that the way forward goes on in. */
export interface ForkOnTheWay {
  world_id: string;
  /** Its head; of one that is left again, that fork point. */
  head_seq: number;
  /** Up to here it is known what was touched and what agents were shown; 0: nowhere. */
  to_seq: number;
  /** Up to here effects were looked at for `caused_by`. */
  told_to_seq: number;
}

/** Where the history of a fork comes from. */
export interface ForkedFrom {
  world_id: string;
  global_seq: number;
}

/** One of several things that are wrong. */
export interface FoundProblem {
  /** The place, as people write it: `agents[Trader_1].inventory.food`. */
  path: string;
  message: string;
}

/** Columns: an entry for each operation of a JSON Patch (RFC 6902), in order; all are on members of objects. */
export interface FramePatches {
  /** The frame that it belongs to: an index into the columns of `frames`. */
  frame: number[];
  op: ("add" | "remove" | "replace")[];
  /** An index into `paths`. */
  path: number[];
  /** null with `remove`. */
  value: Json[];
}

/** A generation that has begun and has not ended. */
export interface GenerationUnderWay {
  req_id: string;
  /** The view that it is made from. */
  context_seq: number;
  /** Whether it was begun in this process; others the log tells of. */
  is_here: boolean;
}

/** Where the search for the first difference was given up; up to there is none. */
export interface GivenUp {
  unit: string;
  number: number | null;
  /** How many effects of both runs were folded for it. */
  effects: number;
}

/** A measure of a group of runs, by unit. */
export interface GroupSeries {
  measure: string;
  group: string;
  numbers: number[];
  /** How many runs of the group have a value. */
  n: number[];
  mean: number[];
  q1: number[];
  median: number[];
  q3: number[];
}

/** An intent that is held until the next tick decides it. */
export interface HeldIntent {
  held: true;
  agent_id: string;
  req_id: string;
  /** The number of the tick that decides it. */
  tick: number;
  /** Its place among the agent's own of that tick. */
  order: number;
  /** Whether it was held already. */
  replayed: boolean;
}

/** The outcome of each intent of a list, in its order: accepted, held, or a problem. */
export interface IntentResults {
  results: (AcceptedIntent | HeldIntent | Problem)[];
}

/** A kind of effects or intents, and what its payload holds. */
export interface KindOfPayload {
  kind: string;
  /** A JSON Schema (2020-12). Members that it does not name are allowed; `readOnly` ones are filled in. */
  payload: Obj;
}

/** A world as a page of worlds has it. */
export interface ListedWorld {
  world_id: string;
  world_uuid: string;
  ruleset: string;
  ruleset_version: number;
  config: Obj;
  experiment: string | null;
  time_authority: string;
  created_at: string;
  head_seq: number;
  head_checksum: string;
  sim_time: number;
  wall_time: number;
  /** Where it goes on from; null for a world that is no fork. */
  fork_of: WorldOrigin | null;
  /** Where it is asked for: how it stands, in a line of its kind's, as far as projections have come. Null where there is nothing to say. */
  outcome?: string | null;
  /** Where it is asked for: about how many effects there are in each of as many equal spans of its sim_time. */
  activity?: number[] | null;
}

/** A measure side by side. */
export interface MeasureSeries {
  measure: string;
  /** The units that any run has a value of. */
  numbers: number[];
  /** For each run a value by unit; null where it has none. */
  values: ((number | null)[])[];
}

/** A query of the cookbook. */
export interface NamedQuery {
  name: string;
  title: string;
  description: string;
  parameters: QueryParameter[];
  sql: string;
}

/** Something that happened, as an agent may know it: parts of the effect of that `global_seq`. */
export interface ObservedEvent {
  global_seq: number;
  kind: string;
  source_id: string;
  sim_time: number;
  payload: Obj;
  schema_version: string;
}

/** A page of events that an agent could see, ascending. */
export interface ObservedEvents {
  events: ObservedEvent[];
  /** Up to here the page has everything that was asked for. */
  through_seq: number;
  /** The after_seq of the next page; null when this is the last. */
  next_after_seq: number | null;
}

/** The agents that are online in a world, as far as this process of the service knows. */
export interface Online {
  world_id: string;
  /** The service's clock, in seconds since 1970: what `wall_time` is compared with. */
  time: number;
  /** Whether this process follows the world for agents; if not, nobody is online. */
  is_open: boolean;
  /** The effect up to which this answer knows the log; 0 where it is not open. */
  seq: number;
  agents_online: number;
  /** By name, the first 1,000. */
  agents: OnlineAgent[];
  /** Intents that wait for their turn, or for a tick. */
  intents_waiting: number;
  /** Intents refused by this process since it opened the world, by the problem's code. */
  refused: Record<string, number>;
  /** Cancelled by this process since it opened the world. */
  generations_cancelled: number;
}

/** An agent that is connected, or that has a generation under way. */
export interface OnlineAgent {
  agent_id: string;
  /** Its sockets, streams and waiting requests at this process. */
  readers: number;
  /** Observations that wait for these. */
  queued: number;
  /** The latest view that it may know; null without a reader here. */
  view_seq: number | null;
  generations: GenerationUnderWay[];
}

/** The names that only one run has, at most 100 of either. */
export interface OnlyIn {
  a: string[];
  b: string[];
  more: number;
}

/** Two effects that differ, or one that only one run has. */
export interface Parting {
  /** What the effects are aligned by. */
  unit: string;
  /** The number of the unit; null before the first one. */
  number: number | null;
  a: ComparedEffect | null;
  b: ComparedEffect | null;
  /** Where the effects differ; of one that only one run has, what its payload says. */
  fields: DifferingField[];
}

/** A registered observation policy. */
export interface PolicySpec {
  /** The name that it is registered under; `default` is the one of every installation. */
  name: string;
  /** The newest if null. */
  version?: number | null;
  /** Of `default`: `distance_limit`, `visibility_range`, `view_cone`, `relationship_filter`, `field_visibility`, `latency_model`, `remove_operations`, `rules`. */
  config?: Obj | null;
}

/** Problem details (RFC 9457), with the facts of the error beside them. */
export interface Problem {
  /** `urn:worldledger:problem:` and the code. */
  type: string;
  title: string;
  status: number;
  /** The error of this request, for people. */
  detail: string;
  /** A stable name, for programs. */
  code: string;
  /** The action that the caller can take. */
  recovery: RecoveryAction;
  instance: string;
  /** JSON path of the offending value. */
  path?: string | null;
  /** Place of the offending draft in its list. */
  index?: number | null;
  /** All problems below `path`, if there may be several: the first 100. */
  problems?: FoundProblem[] | null;
  /** The number of all problems, if there are more. */
  problems_found?: number | null;
  [other: string]: unknown;
}

/** One table of one version of a projection. */
export interface ProjectionBuild {
  build: string;
  version: number;
  /** No process writes it until it is resumed. */
  paused: boolean;
  /** It has not looked at every world yet. */
  scanning: boolean;
  /** In how many worlds it has effects to read. */
  worlds_behind: number;
  /** How many. */
  effects_behind: number;
  /** For how long the first of them has been due; null if none is. */
  seconds_behind: number | null;
  /** How many worlds are set aside, each because of one effect. */
  parked: number;
  /** How many worlds are skipped because their kind is not installed. */
  skipped: number;
  /** How many effects there were when the build began. */
  effects_total: number | null;
  /** How many it has read. */
  effects_done: number;
  started_at: string;
  /** When it went live. */
  finished_at: string | null;
  /** The result of the last check against the logs. */
  check_report: Obj | null;
  /** Why a build that has caught up does not take over. */
  held_back: string | null;
  /** Whether a runner holds its lease. */
  held: boolean;
}

/** Work of this process that goes on after its request was answered. */
export interface ProjectionJob {
  status: "running" | "finished" | "failed" | "cancelled";
  started_at: string;
  effects_done: number;
  effects_total: number | null;
  /** `code` and `detail`, if it failed. */
  error: Obj | null;
}

/** All projections, by name. */
export interface ProjectionList {
  projections: ProjectionSummary[];
}

/** The status of a projection. */
export interface ProjectionSummary {
  name: string;
  /** This program's version of it; null if it has none of that name. */
  version: number | null;
  /** A remark for people, if anything is out of the ordinary. */
  note: string | null;
  /** The build that queries read. */
  live: ProjectionBuild | null;
  /** The build that is to take its place. */
  building: ProjectionBuild | null;
  /** The last check that this process made. */
  verify: ProjectionJob | null;
  /** The last rebuild of one world by this process. */
  rebuild_of_world: WorldRebuild | null;
}

/** The queries that can be asked by name. */
export interface QueryList {
  queries: NamedQuery[];
}

/** A parameter of a query of the cookbook. */
export interface QueryParameter {
  name: string;
  type: string;
  is_required: boolean;
  default: string | null;
  description: string;
}

/** The receipt of an accepted effect, once it is durable. */
export interface Receipt {
  global_seq: number;
  uuid: string;
  /** SHA-256 over the previous checksum (hex) and the effect's bytes. */
  checksum: string;
  /** Whether an earlier request with this req_id made the effect. */
  replayed: boolean;
}

/** The receipts of a list, in its order. */
export interface Receipts {
  receipts: Receipt[];
}

/** The action that a caller can take after an error (docs/reference/contracts.md, "Errors and recovery"). */
export type RecoveryAction = "retry" | "abort" | "regenerate" | "retry_with_delay" | "modify_intent" | "defer" | "shed_oldest";

/** Why an intent was refused, or a generation cancelled. */
export interface Refused {
  code: string | null;
  reason: string | null;
}

/** The measures by group. */
export interface RunGroups {
  by: string;
  /** The group of each run. */
  of: string[];
  series: GroupSeries[];
}

/** An agent's view at one moment. */
export interface SeenContents {
  agent_id: string;
  /** The effect that made the view. null where it is not known: in coarse frames, and if the agent got no delta from any of the 600 effects before. */
  view_seq: number | null;
  /** SHA-256 of the view without `view_seq` and itself, in the profile `state/1`. */
  context_digest: string;
  visible_entities: Obj;
  visible_relationships: Record<string, string[]>;
}

/** An answer: each row has a value for each column, in their order. */
export interface SqlAnswer {
  columns: SqlColumn[];
  rows: Json[][];
  /** Whether there are more rows than were given. */
  is_cut: boolean;
}

/** A column of an answer. */
export interface SqlColumn {
  name: string;
  /** Its type as PostgreSQL names it. */
  type: string;
}

/** Columns: an entry for each frame. They stand for the members `last_effect_…` of the state's metadata. */
export interface StateColumns {
  seq: number[];
  /** `/metadata/last_effect_time` from this frame on. */
  sim_time: number[];
  /** `/metadata/last_effect_kind` from this frame on. */
  kind: string[];
}

/** States of a world: one, and what is different at each of the later moments. */
export interface StateFrames {
  world_id: string;
  ruleset: string;
  ruleset_version: number;
  /** The seq of the keyframe. */
  from_seq: number;
  /** The last seq that this tells of. */
  to_seq: number;
  /** 1: nothing is left out between `from_seq` and `to_seq`. Else about how many effects lie between two frames, of which nothing is told. */
  every: number;
  /** The from_seq of the next block; null when this is the last. */
  next_from_seq: number | null;
  /** Of a fork: what lies before its first effect is in this world. */
  fork_of: ForkedFrom | null;
  /** JSON Pointers (RFC 6901) of what the patches change. */
  paths: string[];
  patches: FramePatches;
  keyframe: StateKeyframe;
  frames: StateColumns;
}

/** The state that frames begin with. */
export interface StateKeyframe {
  global_seq: number;
  /** The chain checksum of that effect. */
  checksum: string;
  /** SHA-256 of the bytes of `state`, as they stand here. */
  state_digest: string;
  sim_time: number;
  kind: string;
  /** In the canonical profile `state/1`. */
  state: WorldState;
}

/** A column with an entry for each frame. */
export interface ViewColumns {
  /** The effects that changed the view. */
  seq: number[];
}

/** Views of an agent: one, and what is different after each later effect that changed it. */
export interface ViewFrames {
  world_id: string;
  ruleset: string;
  ruleset_version: number;
  /** The seq of the keyframe. */
  from_seq: number;
  /** The last seq that this tells of. */
  to_seq: number;
  /** 1: nothing is left out between `from_seq` and `to_seq`. Else about how many effects lie between two frames, of which nothing is told. */
  every: number;
  /** The from_seq of the next block; null when this is the last. */
  next_from_seq: number | null;
  /** Of a fork: what lies before its first effect is in this world. */
  fork_of: ForkedFrom | null;
  /** JSON Pointers (RFC 6901) of what the patches change. */
  paths: string[];
  patches: FramePatches;
  agent_id: string;
  keyframe: ViewKeyframe;
  frames: ViewColumns;
  /** Further effects that gave the agent a delta, without changing its view. The `view_seq` at a moment is the last up to there of these, of `frames.seq` and of the keyframe's. Of coarse frames there are none. */
  observed_seqs: number[];
}

/** The view that frames begin with. */
export interface ViewKeyframe {
  global_seq: number;
  view: SeenContents;
}

/** The kinds of effects and intents that a world's ruleset knows, by name. */
export interface Vocabulary {
  world_id: string;
  ruleset: string;
  ruleset_version: number;
  /** Kinds of drafts. Any other kind is allowed, with any payload. */
  effects: KindOfPayload[];
  /** Kinds of intents besides Custom, whose payload is that of an effect and its `kind`. */
  intents: KindOfPayload[];
}

/** The way back or forward from an effect: the effects, the nearest first. */
export interface WhyAnswer {
  world_id: string;
  global_seq: number;
  direction: "back" | "forward";
  depth: number;
  width: number;
  limit: number;
  /** The head of the effect's log; of an ancestor's, the fork point. */
  head_seq: number;
  /** From here … */
  from_seq: number;
  /** … to here it is known what was touched and what agents were shown. */
  to_seq: number;
  /** Forward: up to here effects were looked at for `caused_by`; null backward. */
  told_to_seq: number | null;
  /** Forward from an effect before a fork point: the forks that the way goes on in, the nearest first. */
  forks: ForkOnTheWay[];
  /** What could not be looked at. */
  notes: string[];
  effects: CausalEffect[];
}

/** An agent that is registered in a world. */
export interface WorldAgent {
  agent_id: string;
  policy: PolicySpec;
  permissions: string[];
  weight: number;
  /** The effect that registered it first. */
  registered_seq: number;
  /** Its own, where it has one; null: what it is about to do is never stale. */
  staleness_threshold?: number | null;
  /** Its own, if it has one. */
  interrupt_policy?: "always" | "only_conflict" | null;
}

/** A page of a world's agents by name. */
export interface WorldAgentPage {
  agents: WorldAgent[];
  /** The `after` of the next page; null when this is the last. */
  next_after: string | null;
}

/** A value that worlds can be narrowed down to. */
export interface WorldChoice {
  value: string | null;
  /** How many worlds it would leave. */
  worlds: number;
}

/** How many worlds each choice of a filter would leave, with the other filters as they are. */
export interface WorldFacets {
  /** How many worlds there are with all filters. */
  total: number;
  /** How many would be live. */
  live: number;
  /** Most worlds first; at most 100. */
  rulesets: WorldChoice[];
  /** Likewise; null are worlds without an experiment. */
  experiments: WorldChoice[];
}

/** The effect that a fork goes on from, which is its parent's. */
export interface WorldOrigin {
  /** The parent's name when the fork was made. */
  world_id: string;
  world_uuid: string;
  global_seq: number;
  /** How many ancestors the fork has. */
  depth: number;
}

/** A page of worlds. */
export interface WorldPage {
  worlds: ListedWorld[];
  /** The `after` of the next page; null when this is the last. */
  next_after: string | null;
  /** Where they are asked for. */
  facets?: WorldFacets | null;
  /** Where the filter finds nothing at all: what may have been meant. Left out where that is nothing. */
  near?: string[] | null;
}

/** The rebuild of one world. */
export interface WorldRebuild {
  status: "running" | "finished" | "failed" | "cancelled";
  started_at: string;
  effects_done: number;
  effects_total: number | null;
  /** `code` and `detail`, if it failed. */
  error: Obj | null;
  world_id: string;
}

/** The state of a world: the result of folding the world's effects in order. - `entities`: entity_id -> its data, an object. - `relationships`: entity_id -> the ids it is related to, sorted. - `spatial_index`: entity_id -> (x, y, z); an entity with a `position` is here with the same numbers. - `metadata`: `agents` (agent_id -> {policy, permissions, weight, registered_seq}, as registered), `relationships` (from -> to -> type -> {strength, metadata}: the details behind the adjacency), `last_effect_seq`, `last_effect_time` (its sim_time), `last_effect_kind`, `unknown_effects` (how many had a kind that the ruleset does not know) and `malformed_effects` (how many had a payload that cannot be read); such effects change nothing else. `time_authority`: who sets sim_time, once an effect has changed it, and `time_offset` what is added to its own time; `time_authority_silent` {authority, last_tick_seq, reason, global_seq} while it is silent. */
export interface WorldState {
  entities?: Obj;
  relationships?: Record<string, string[]>;
  /** entity_id -> (x, y, z) */
  spatial_index?: Record<string, number[]>;
  metadata?: Obj;
}

/** A world, and of a fork where it goes on from. */
export interface WorldWithOrigin {
  world_id: string;
  world_uuid: string;
  ruleset: string;
  ruleset_version: number;
  config: Obj;
  experiment: string | null;
  time_authority: string;
  created_at: string;
  head_seq: number;
  head_checksum: string;
  sim_time: number;
  wall_time: number;
  /** Where it goes on from; null for a world that is no fork. */
  fork_of: WorldOrigin | null;
  /** Where it is asked for: how it stands, in a line of its kind's, as far as projections have come. Null where there is nothing to say. */
  outcome?: string | null;
}
