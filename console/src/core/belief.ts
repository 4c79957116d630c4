/** Belief beside truth: where what an agent sees is not what is so. */

import { below, equal, isObject, type Json, type Obj } from "./json.ts";

/** `hidden`: not shown to the agent. `outdated`: so it was when the agent saw it. `noised`: so it never was then. */
export type Mark = "hidden" | "outdated" | "noised";

/** What a state and a view have in common, which panels show. */
export interface Shown {
  entities: Obj;
  relationships: Obj;
  spatial_index?: Obj;
  metadata?: Obj;
}

export interface View {
  agent_id: string;
  view_seq: number;
  visible_entities: Obj;
  visible_relationships: Obj;
}

/** A view in the shape of a state. */
export function asShown(view: View): Shown {
  return { entities: view.visible_entities, relationships: view.visible_relationships };
}

export interface Compared {
  /** Pointers into the truth: what the agent is not shown. */
  truth: Map<string, Mark>;
  /** Pointers into the belief: where it is wrong. */
  belief: Map<string, Mark>;
  /** How many values the belief has: those of objects are counted one by one. */
  values: number;
}

/** A comparison in one line. */
export function told({ truth, belief, values }: Compared): string {
  const wrong = `${belief.size} of ${values} ${values === 1 ? "value differs" : "values differ"} from the truth`;
  return truth.size === 0 ? wrong : `${wrong}, ${truth.size} hidden`;
}

/** Compare a belief with the truth now, and with the truth when the view was made, if that is known. */
export function compare(belief: Shown, truth: Shown, then: Shown | undefined): Compared {
  const found: Compared = { truth: new Map(), belief: new Map(), values: 0 };
  const walk = (seen: Json | undefined, is: Json | undefined, was: Json | undefined, pointer: string): void => {
    if (isObject(seen) && isObject(is)) {
      for (const name of Object.keys(is)) {
        if (!Object.hasOwn(seen, name)) found.truth.set(below(pointer, name), "hidden");
      }
      for (const name of Object.keys(seen)) {
        const here = below(pointer, name);
        walk(seen[name], Object.hasOwn(is, name) ? is[name] : undefined, isObject(was) ? was[name] : undefined, here);
      }
      return;
    }
    found.values++;
    if (!equal(seen, is)) found.belief.set(pointer, was !== undefined && equal(seen, was) ? "outdated" : "noised");
  };
  walk(belief.entities, truth.entities, then?.entities, "/entities");
  walk(belief.relationships, truth.relationships, then?.relationships, "/relationships");
  return found;
}

/** The mark of a place: its own, or that of something around it. */
export function markOf(marks: ReadonlyMap<string, Mark>, pointer: string): Mark | undefined {
  if (marks.size === 0) return undefined;
  for (let here = pointer;;) {
    const mark = marks.get(here);
    if (mark !== undefined) return mark;
    const end = here.lastIndexOf("/");
    if (end <= 0) return undefined;
    here = here.slice(0, end);
  }
}

/** Agents by pointers into the truth: what none of them is shown. */
export type Hidden = ReadonlyMap<string, readonly string[]>;

/** What each of some agents is not shown of the truth. */
export function hiddenFrom(beliefs: readonly { agent: string; belief: Shown }[], truth: Shown): Hidden {
  const found = new Map<string, string[]>();
  for (const { agent, belief } of beliefs) {
    for (const pointer of compare(belief, truth, undefined).truth.keys()) {
      found.set(pointer, [...found.get(pointer) ?? [], agent]);
    }
  }
  return found;
}

/** The agents that are not shown a place, or something around it. */
export function agentsWithout(hidden: Hidden, pointer: string): string[] {
  const around = [...hidden].filter(([each]) => pointer === each || pointer.startsWith(`${each}/`));
  return [...new Set(around.flatMap(([, agents]) => agents))];
}

export const SIGNS: Record<Mark, string> = { hidden: "∅", outdated: "◔", noised: "≈" };
export const WORDS: Record<Mark, string> = {
  hidden: "not shown to the agent",
  outdated: "outdated: so it was when the agent saw it",
  noised: "not so: blurred, or older than the view",
};
