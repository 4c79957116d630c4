/** The log as it is read aloud: who said, thought, wrote and did what, what was refused or cut off and why, scene by scene. */

import { isObject, type Obj } from "./json.ts";
import type { Effect } from "./panel.ts";
import { fact, patched, short } from "./text.ts";

/** A unit that a kind of worlds declares: with an effect of these kinds its next one begins, and says its number. */
export interface Unit {
  kinds: readonly string[];
  /** The member of the payload with the number. */
  number: string;
}

/** `aside` is what the service says about its own work. */
export type Way = "says" | "thinks" | "writes" | "acts" | "begins" | "cut" | "refused" | "aside";

/** Words, and the effect that has them. */
export interface Part {
  seq: number;
  text: string;
  thought: boolean;
  /** Written for a generation that was cancelled. */
  cut: boolean;
}

export interface Line {
  /** Its effects: several where words were written piece by piece, or where notes of one kind follow each other. */
  seqs: number[];
  kind: string;
  who: string;
  way: Way;
  deed: string;
  /** What else a payload with words says. */
  notes: string;
  parts: Part[];
  /** Whom it was meant for. */
  to: string;
  alone: boolean;
  /** Why it was refused, or cut off. */
  why: string;
  /** The effect that made the view from which it was decided. */
  view: number | null;
  because: number[];
  /** The effects among those given that it led to, as far as the log tells. */
  led: number[];
}

export interface Scene {
  /** Null before the first one, and where there is no unit. */
  number: number | null;
  /** The effect that begins it, if it is among those given. */
  seq: number | null;
  lines: Line[];
}

interface Generation {
  cut: boolean;
  /** The line of its beginning. */
  begun: Line | null;
}

const SAID = ["text", "content", "message", "synthesis"];
const THOUGHT = ["reasoning", "comment", "detail"];
/** Notes for checks and clocks: those of one kind that follow each other are one line. */
const NOTES = new Set(["StateDigest", "ViewDigest", "WorldTimeSet"]);
const SYSTEM = /^(World|Intent|Generation)|^(StateDigest|ViewDigest|AgentRegistered)$/;
const STALE = /^stale_due_to_effect_([1-9]\d*)$/;
/** Members of a payload that are told otherwise than as facts. */
const TOLD = new Set([
  ...SAID,
  ...THOUGHT,
  ...["agent_id", "target_id", "private", "audience", "patch", "san_notation", "attempted"],
  ...["req_id", "generation_id", "round_number", "turn_number", "timestamp", "fen"],
]);
const FACTS = 8;

/** Read effects that follow each other as scenes. `number` is that of the scene in which they begin. */
export function scenes(effects: readonly Effect[], unit: Unit | null, number: number | null = null): Scene[] {
  const found: Scene[] = [{ number, seq: null, lines: [] }];
  const lines = new Map<number, Line>();
  const generations = new Map<string, Generation>();
  const written = new Map<Part, Generation>();
  for (const effect of effects) {
    const begun = beginning(effect, unit);
    let scene = found.at(-1) as Scene;
    if (begun !== null && begun !== scene.number) {
      scene = { number: begun, seq: effect.global_seq, lines: [] };
      found.push(scene);
    }
    const of = generationOf(effect, generations);
    const line = lineOf(effect, of);
    const last = scene.lines.at(-1);
    for (const part of line.parts) if (line.way === "writes" && of !== null) written.set(part, of);
    if (last !== undefined && joins(last, line, of, written)) {
      last.seqs.push(...line.seqs);
      last.parts.push(...line.parts);
      lines.set(effect.global_seq, last);
    } else {
      scene.lines.push(line);
      lines.set(effect.global_seq, line);
    }
    if (of !== null) {
      if (line.way === "begins") of.begun = line;
      else if (line.way !== "writes") of.begun?.led.push(effect.global_seq);
      if (line.way === "cut") of.cut = true;
    }
    for (const cause of line.because) {
      const led = lines.get(cause)?.led;
      if (led !== undefined && !led.includes(effect.global_seq)) led.push(effect.global_seq);
    }
  }
  for (const [part, { cut }] of written) part.cut = cut;
  return found.filter((scene) => scene.lines.length > 0);
}

/** The number of the unit that an effect begins; null for one that begins none. */
export function beginning({ kind, payload }: Effect, unit: Unit | null): number | null {
  const number = unit !== null && unit.kinds.includes(kind) ? payload[unit.number] : null;
  return typeof number === "number" ? number : null;
}

/** The generation that an effect belongs to: by its id, or by the request of its agent. */
function generationOf(effect: Effect, known: Map<string, Generation>): Generation | null {
  const { kind, payload, source_id } = effect;
  const agent = text(payload["agent_id"]) || source_id;
  const [id, request] = [text(payload["generation_id"]), text(payload["req_id"]) || text(effect["req_id"])];
  const keys = [id && `id ${id}`, request && `of ${JSON.stringify([agent, request])}`].filter((key) => key !== "");
  if (keys.length === 0) return null;
  const found = kind === "GenerationStarted" ? undefined : keys.map((key) => known.get(key)).find((each) => each);
  // What came before the effects at hand is not known: it may be cut off by one of them.
  const made = found ?? { cut: false, begun: null };
  for (const key of keys) known.set(key, made);
  return made;
}

function joins(last: Line, line: Line, of: Generation | null, written: ReadonlyMap<Part, Generation>): boolean {
  if (last.way !== line.way || last.kind !== line.kind) return false;
  if (NOTES.has(line.kind)) return true;
  return line.way === "writes" && of !== null && written.get(last.parts.at(-1) as Part) === of && last.who === line.who;
}

/** One effect by itself, and the generation that it belongs to. */
export function lineOf(effect: Effect, of: Generation | null): Line {
  const { global_seq: seq, kind, source_id, caused_by } = effect;
  const rejected = kind.endsWith("Rejected");
  const system = SYSTEM.test(kind);
  const { payload } = effect;
  // What was refused is told in the words of the intent.
  const meant = kind === "IntentRejected" && isObject(payload["payload"]) ? payload["payload"] : payload;
  const named = text(payload["agent_id"]);
  const metadata = isObject(effect["source_metadata"]) ? effect["source_metadata"] : {};
  const view = [metadata["context_seq"], payload["context_seq"]].find((each) => typeof each === "number" && each > 0);
  // What a model had said when it was cut off; what it said to the end is told by what came of it.
  const left = kind === "GenerationText" && payload["part"] === "output" && of?.cut === true;
  const said = system && !rejected && !left ? [] : parts(seq, meant, SAID, false);
  const thought = system && !rejected ? [] : parts(seq, meant, THOUGHT, true);
  const line: Line = {
    seqs: [seq],
    kind,
    who: (rejected || system) && named !== "" ? named : source_id,
    way: "acts",
    deed: "",
    notes: "",
    parts: [...said, ...thought],
    to: text(meant["target_id"]) || (named !== source_id && !rejected && !system ? named : ""),
    alone: meant["private"] === true,
    why: "",
    view: typeof view === "number" ? view : null,
    because: typeof caused_by === "number" ? [caused_by] : [],
    led: [],
  };
  if (rejected) {
    line.way = "refused";
    line.deed = [kind === "IntentRejected" ? text(payload["kind"]) : "", deed(meant)].filter((each) => each).join(" ");
    line.why = ["code", "rule", "reason"].map((name) => text(payload[name])).filter((each) => each).join(": ");
  } else if (kind === "GenerationStarted") line.way = "begins";
  else if (kind === "GenerationCancelled") {
    line.way = "cut";
    line.why = text(payload["reason"]);
    const stale = STALE.exec(line.why);
    if (stale !== null) line.because.push(Number(stale[1]));
  } else if (left && said.length > 0) line.way = "writes";
  else if (system) {
    line.way = "aside";
    line.deed = kind === "GenerationReported" ? used(payload) : named === "" ? facts(payload) : "";
  } else if (of !== null && said.length > 0 && effect["req_id"] == null) line.way = "writes";
  else if (said.length > 0) line.way = "says";
  else if (thought.length > 0 && deed(payload) === "") line.way = "thinks";
  if (line.way === "acts") line.deed = deed(payload) || facts(payload);
  if (line.way === "says" || line.way === "thinks") line.notes = facts(payload);
  return line;
}

/** What became of a model's answer, and what it took. */
function used(payload: Obj): string {
  const { tokens_in, tokens_out, took_ms, price } = payload;
  const told = [text(payload["outcome"])];
  if (typeof tokens_in === "number") told.push(`${tokens_in} tokens read`);
  if (typeof tokens_out === "number") told.push(`${tokens_out} tokens written`);
  if (typeof took_ms === "number") told.push(`${(took_ms / 1000).toFixed(1)} s`);
  if (typeof price === "number") told.push(`${price} ${text(payload["currency"])}`.trim());
  if (isObject(payload["recalled"])) told.push(`recalled from ${text(payload["recalled"]["world_id"])}`);
  if (isObject(payload["error"])) told.push(text(payload["error"]["message"]));
  return short(told.filter((each) => each).join(", "), 400);
}

/** What was done, in the words of who did it; empty where the payload has no such words. */
function deed(payload: Obj): string {
  const patch = patched(payload["patch"]);
  if (patch !== null) return short(patch, 400);
  return text(payload["san_notation"]) || text(payload["attempted"]);
}

function facts(payload: Obj): string {
  const told = Object.entries(payload).filter(([name, value]) => !TOLD.has(name) && value !== null);
  return told.slice(0, FACTS).map(([name, value]) => `${name} ${fact(value)}`).join(", ");
}

function parts(seq: number, payload: Obj, names: readonly string[], thought: boolean): Part[] {
  return names.flatMap((name) => {
    const value = payload[name];
    if (value == null || value === "") return [];
    return [{ seq, text: typeof value === "string" ? value : JSON.stringify(value, null, 1), thought, cut: false }];
  });
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
