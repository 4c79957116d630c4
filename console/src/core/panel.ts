/** What a kind's panel is given, and what it has to be. docs/console.md explains it for other kinds. */

import type { Hidden, Mark, Shown } from "./belief.ts";
import type { Chart } from "./chart.ts";
import type { Obj } from "./json.ts";

/** The version of this interface: a panel says for which it was written. */
export const PANEL_VERSION = 1;

export interface Effect {
  global_seq: number;
  kind: string;
  source_id: string;
  sim_time: number;
  wall_time: number;
  payload: Obj;
  caused_by?: number | null;
  [other: string]: unknown;
}

/** A state at a seq, or what an agent believed. */
export interface Frame {
  seq: number;
  state: Shown;
  /** Pointers to what the effect at this seq has changed. */
  changed: ReadonlySet<string>;
  /** Pointers to what an agent is not shown (in the truth), or has wrong (in its belief). */
  marks: ReadonlyMap<string, Mark>;
  /** In the truth beside several beliefs: from which agents that is hidden. Else empty. */
  hidden: Hidden;
  /** Of a belief, how much of it is wrong, in one line; else, and while that is not known, empty. */
  told: string;
}

export interface Frames {
  readonly world: { world_id: string; ruleset: string; config: Obj };
  /** Whose belief it is; null for the truth. */
  readonly agent: string | null;
  /** Beside a belief: the frames of the truth. Null for those. */
  readonly truth: Frames | null;
  /** The frame at a seq. While it is loaded: that of an earlier seq, which it names, or undefined. */
  at(seq: number): Frame | undefined;
  /** Every effect of these kinds, in order, the first 5,000; with belief, those too that the agent did not see. */
  effects(...kinds: string[]): Promise<Effect[]>;
  /** States over the whole world, in order: every one of a short world, some hundred of a long one; for charts. */
  overview(): readonly { seq: number; state: Shown }[];
  /** The agents that could see each effect from one seq to another; null where there are no agents. */
  seenBy(from: number, to: number): Promise<ReadonlyMap<number, string[]> | null>;
  /** Be told when something was loaded; returns how to end that. */
  subscribe(listener: () => void): () => void;
}

export interface Cursor {
  readonly seq: number;
  go(seq: number): void;
  /** Be told when it moves; returns how to end that. */
  subscribe(listener: () => void): () => void;
}

/** A point of a chart, as it is told to somebody who points at it. */
export interface Pointed {
  series: string;
  x: string;
  y: string;
  /** Its place along x. */
  at: number;
}

/** A chart that was drawn. */
export interface Drawn {
  /** The point near a place, in pixels. */
  find(left: number, top: number): Pointed | null;
  /** How far from the left a value of x lies, in pixels. */
  x(value: number): number;
}

/** What the console lends to panels. */
export interface Tools {
  /** Draw a chart in an element, in place of what is there. */
  chart(svg: SVGSVGElement, chart: Chart, width: number, height: number): Drawn;
  /** Show the effects of some kinds as messages, the newest on top, with who could see them; returns how to end that. */
  feed(element: HTMLElement, frames: Frames, cursor: Cursor, ...kinds: string[]): () => void;
  /** Get JSON from the service; an Error says why it was refused. Missing in files, and in the past that forks inherit. */
  get?(path: string): Promise<Obj>;
  /** Post JSON to the service, where `get` is there, too. */
  post?(path: string, body: Obj): Promise<Obj>;
  /** Go to another world. */
  visit(world: string): void;
}

/** A kind's module. */
export interface PanelModule {
  version: number;
  /** Show states in an element from now on; returns how to end that. */
  panel(element: HTMLElement, frames: Frames, cursor: Cursor, tools: Tools): () => void;
}
