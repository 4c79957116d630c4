/** A value as a tree that opens and closes, with what has changed and what an agent has wrong marked. */

import { useState } from "preact/hooks";
import { type Mark, markOf, SIGNS, WORDS } from "../core/belief.ts";
import { below, isObject, type Json, type Obj } from "../core/json.ts";
import { plain, short, size } from "../core/text.ts";

/** Members that are shown before a button asks for more, and characters of a text. */
const MEMBERS = 100;
const CHARACTERS = 400;

interface Marked {
  changed: ReadonlySet<string>;
  marks: ReadonlyMap<string, Mark>;
}

interface NodeProps extends Marked {
  name: string;
  value: Json;
  pointer: string;
  level: number;
  open: boolean;
}

const NOTHING: Marked = { changed: new Set(), marks: new Map() };

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
          {...marked}
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

function Node(props: NodeProps) {
  const { name, value, pointer, level, changed, marks } = props;
  const inner = Array.isArray(value) || isObject(value);
  // What was opened or closed by hand stays so; what has changed inside opens by itself.
  const [chosen, choose] = useState<boolean | null>(null);
  const [most, more] = useState(MEMBERS);
  const mark = markOf(marks, pointer);
  const within = inner && [...changed].some((each) => each.startsWith(`${pointer}/`));
  const open = inner && (chosen ?? (props.open || within));
  const state = `${changed.has(pointer) ? " changed" : ""}${mark === undefined ? "" : ` mark-${mark}`}`;
  const sign = mark === undefined
    ? null
    : <span class="sign" title={WORDS[mark]} aria-label={WORDS[mark]}>{SIGNS[mark]}</span>;
  if (!inner) {
    return (
      <li role="treeitem" class={`leaf${state}`} aria-level={level}>
        <span class="name">{name}</span> <Leaf value={value} /> {sign}
        {changed.has(pointer) && <span class="sign" title="changed by this effect" aria-label="changed">●</span>}
      </li>
    );
  }
  const members = Array.isArray(value)
    ? value.map((each, index) => [String(index), each] as const)
    : Object.entries(value);
  return (
    <li role="treeitem" class={`inner${state}`} aria-level={level} aria-expanded={open}>
      <button type="button" class="opener" onClick={() => choose(!open)}>
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
              name={key}
              value={member}
              pointer={below(pointer, key)}
              level={level + 1}
              open={level < 2 && members.length <= 12}
            />
          ))}
          {members.length > most && (
            <li role="none">
              <button type="button" onClick={() => more(most + MEMBERS)}>{members.length - most} more …</button>
            </li>
          )}
        </ul>
      )}
    </li>
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
