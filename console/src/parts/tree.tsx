/** A value as a tree that opens and closes, with what has changed and what an agent has wrong marked. */

import { Component } from "preact";
import { useState } from "preact/hooks";
import { agentsWithout, type Hidden, type Mark, markOf, SIGNS, WORDS } from "../core/belief.ts";
import { below, isObject, type Json, leadWithin, type Obj } from "../core/json.ts";
import { plain, short, size } from "../core/text.ts";

/** Members that are shown before a button asks for more, and characters of a text. */
const MEMBERS = 100;
const CHARACTERS = 400;
/** Members of an object up to which those of its objects are open that have few values, and how many these may be. */
const [SIBLINGS, FEW] = [50, 6];
/** The order of names with numbers: agent-2 before agent-10. */
const NATURAL = new Intl.Collator("en", { numeric: true });

interface Marked {
  changed: ReadonlySet<string>;
  marks: ReadonlyMap<string, Mark>;
  hidden: Hidden;
}

interface NodeProps extends Marked {
  name: string;
  value: Json;
  pointer: string;
  level: number;
  open: boolean;
}

const NOTHING: Marked = { changed: new Set(), marks: new Map(), hidden: new Map() };

export function Tree({ value, label, marked = NOTHING, open = 2 }: {
  value: Obj;
  label: string;
  marked?: Marked;
  /** How many levels are open to begin with. */
  open?: number;
}) {
  return (
    <ul class="tree" role="tree" aria-label={label}>
      {Object.entries(value).map(([name, member]) => (
        <Node
          key={name}
          changed={marked.changed}
          marks={marked.marks}
          hidden={marked.hidden}
          name={name}
          value={member}
          pointer={below("", name)}
          level={1}
          open={open > 1}
        />
      ))}
    </ul>
  );
}

/** What was opened or closed by hand stays so; what has changed inside opens by itself. */
interface NodeState {
  chosen: boolean | null;
  most: number;
}

/** A member of the tree. States share what they have in common: what is the same value as before is left as it is. */
class Node extends Component<NodeProps, NodeState> {
  override state: NodeState = { chosen: null, most: MEMBERS };
  /** Its names as they were last, and in their order: to sort them takes longer than to see that they are the same. */
  private names: { given: string[]; sorted: string[] } = { given: [], sorted: [] };

  private sorted(value: Obj): string[] {
    const given = Object.keys(value);
    const { given: last } = this.names;
    if (given.length !== last.length || given.some((name, index) => name !== last[index])) {
      this.names = { given, sorted: given.toSorted(NATURAL.compare) };
    }
    return this.names.sorted;
  }

  override shouldComponentUpdate(next: NodeProps, state: NodeState): boolean {
    const { name, value, pointer, level, open, changed, marks, hidden } = this.props;
    return state !== this.state || next.value !== value || next.name !== name || next.pointer !== pointer ||
      next.level !== level || next.open !== open || next.marks !== marks ||
      next.hidden !== hidden ||
      (next.changed !== changed &&
        [changed, next.changed].some((each) => each.has(pointer) || leadWithin(each, pointer)));
  }

  override render(
    { name, value, pointer, level, open: usually, changed, marks, hidden }: NodeProps,
    { chosen, most }: NodeState,
  ) {
    const mark = markOf(marks, pointer);
    const state = `${changed.has(pointer) ? " changed" : ""}${mark === undefined ? "" : ` mark-${mark}`}`;
    const sign = mark === undefined ? null : <Sign mark={mark} agents={agentsWithout(hidden, pointer)} />;
    if (!Array.isArray(value) && !isObject(value)) {
      return (
        <li role="treeitem" class={`leaf${state}`} aria-level={level}>
          <span class="name">{name}</span> <Leaf value={value} /> {sign}
          {changed.has(pointer) && <span class="sign" title="changed by this effect" aria-label="changed">●</span>}
        </li>
      );
    }
    const open = chosen ?? (usually || leadWithin(changed, pointer));
    const members = Array.isArray(value)
      ? value.map((each, index) => [String(index), each] as const)
      : this.sorted(value).map((name) => [name, value[name] as Json] as const);
    return (
      <li role="treeitem" class={`inner${state}`} aria-level={level} aria-expanded={open}>
        <button type="button" class="opener" onClick={() => this.setState({ chosen: !open })}>
          <span aria-hidden="true">{open ? "▾" : "▸"}</span> <span class="name">{name}</span>{" "}
          <span class="size">{size(value)}</span>
        </button>{" "}
        {sign}
        {open && members.length > 0 && (
          <ul role="group">
            {members.slice(0, most).map(([key, member]) => (
              <Node
                key={key}
                changed={changed}
                marks={marks}
                hidden={hidden}
                name={key}
                value={member}
                pointer={below(pointer, key)}
                level={level + 1}
                open={level < 2 && (members.length <= 12 || (members.length <= SIBLINGS && hasFew(member)))}
              />
            ))}
            {members.length > most && (
              <li role="none">
                <button type="button" onClick={() => this.setState({ most: most + MEMBERS })}>
                  {members.length - most} more …
                </button>
              </li>
            )}
          </ul>
        )}
      </li>
    );
  }
}

/** Whether a value is an object of a few values that are none themselves. */
function hasFew(value: Json): boolean {
  if (!isObject(value)) return false;
  const members = Object.values(value);
  return members.length <= FEW && members.every((each) => typeof each !== "object" || each === null);
}

/** The sign of a mark; beside several beliefs with the agents from which something is hidden. */
function Sign({ mark, agents }: { mark: Mark; agents: readonly string[] }) {
  const names = agents.join(", ");
  const words = names === "" ? WORDS[mark] : `not shown to ${names}`;
  return (
    <span class="sign" role="img" title={words} aria-label={words}>
      {SIGNS[mark]} {names !== "" && <bdi>{names}</bdi>}
    </span>
  );
}

function Leaf({ value }: { value: Json }) {
  return <Long text={plain(value)} look={`value ${value === null ? "null" : typeof value}`} most={CHARACTERS} />;
}

/** A text of which only the beginning is shown, until one asks for all of it. */
export function Long({ text, look, most }: { text: string; look: string; most: number }) {
  const [whole, show] = useState(false);
  if (text.length <= most) return <bdi class={look}>{text}</bdi>;
  return (
    <>
      <bdi class={look}>{whole ? text : short(text, most)}</bdi>{" "}
      <button type="button" onClick={() => show(!whole)}>{whole ? "less" : `all ${text.length} characters`}</button>
    </>
  );
}
