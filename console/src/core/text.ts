/** One line of text for what is shown. Whatever comes from a payload is text, never markup. */

import { isObject, type Json, type Obj } from "./json.ts";
import type { Effect } from "./panel.ts";

/** Members of payloads that say most, the most telling first. */
const TELLING = [
  "san_notation",
  "text",
  "content",
  "message",
  "reasoning",
  "attempted",
  "reason",
  "outcome",
  "agent_id",
  "entity_id",
  "name",
  "synthesis",
  "turn",
  "round_number",
  "step",
  "at_seq",
];

/** One line of an effect: what its payload says, in at most so many characters. */
export function summary(effect: Effect, most = 160): string {
  const { payload } = effect;
  const patch = patched(payload["patch"]);
  if (patch !== null) return short(patch, most);
  const fields = payload["values"] ?? payload["entity_data"];
  if (typeof payload["entity_id"] === "string" && isObject(fields)) {
    const told = Object.entries(fields).map(([name, value]) => `${name} ${plain(value)}`);
    return short(oneLine(`${payload["entity_id"]}: ${told.join(", ")}`), most);
  }
  for (const name of TELLING) {
    const value = payload[name];
    if (typeof value === "string" && value !== "") return short(oneLine(value), most);
    if (typeof value === "number") return `${name} ${value}`;
  }
  return short(JSON.stringify(payload) ?? "", most);
}

export function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

/** A text of at most so many characters, with a sign where it was cut. */
export function short(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

/** How a value is written in one line. */
export function plain(value: Json | undefined): string {
  if (value === undefined) return "";
  if (typeof value === "string") return value;
  return JSON.stringify(value);
}

/** Two values that differ, each in one line, with as few decimals, from three on, as tell them apart. */
export function apart(one: Json | undefined, other: Json | undefined): [string, string] {
  for (let decimals = 3; decimals < 17; decimals++) {
    const told = (value: Json | undefined) =>
      typeof value === "string"
        ? value
        : JSON.stringify(value, (_, each) => typeof each === "number" ? Number(each.toFixed(decimals)) : each) ?? "";
    if (told(one) !== told(other)) return [told(one), told(other)];
  }
  return [plain(one), plain(other)];
}

/** Characters of a value among others in a line. */
const FACT = 60;

/** A value among others in a line. */
export function fact(value: Json | undefined): string {
  return short(oneLine(plain(value)), FACT);
}

/** A patch as people read it; null for what is none. */
export function patched(patch: Json | undefined): string | null {
  if (!Array.isArray(patch) || patch.length === 0) return null;
  const told = patch.filter(isObject).filter((each) => "op" in each && "path" in each);
  if (told.length < patch.length) return null;
  return told.map(({ op, path, value }) => operation(plain(op), plain(path), value)).join(", ");
}

/** An operation of a patch as people read it. */
export function operation(op: string, path: string, value: Json | undefined): string {
  const place = path.replace(/^\//, "").replaceAll("/", " › ").replaceAll("~1", "/").replaceAll("~0", "~");
  return op === "remove" ? `${place} ✕` : `${place} ${fact(value)}`.trim();
}

/** How many members or items there are. */
export function size(value: Obj | Json[]): string {
  const count = isObject(value) ? Object.keys(value).length : value.length;
  return isObject(value) ? `{${count}}` : `[${count}]`;
}

const COUNT = new Intl.NumberFormat("en");

export function count(number: number): string {
  return COUNT.format(number);
}

/** A moment in the reader's zone. */
export function when(epochSeconds: number): string {
  return new Date(epochSeconds * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** How a text begins that a spreadsheet takes for a formula: also behind space, or in the wide forms of East Asian texts. */
const FORMULA = /^(?:[\t\r\n]|\s*[-=+@\uff1d\uff0b\uff0d\uff20])/;

/** A table as CSV (RFC 4180); what would be a formula has an apostrophe before it, as `worldledger sql` writes it. */
export function csv(head: readonly string[], rows: readonly Json[][]): string {
  const cell = (value: Json) => {
    const shown = value === null ? "" : plain(value);
    const text = typeof value === "string" && FORMULA.test(value) ? `'${shown}` : shown;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [head, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

/** A word as a shell takes it. */
export function quoted(word: string): string {
  return /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
