/** Forms made from JSON Schemas of payloads: which fields there are, and what their texts mean. */

import { isObject, type Json, type Obj } from "./json.ts";

/** `numbers` is a list of them, `any` text or JSON. */
export type Widget = "text" | "number" | "choice" | "numbers" | "json" | "any";

export interface Field {
  name: string;
  widget: Widget;
  /** Whether it cannot be left out. */
  needed: boolean;
  says: string;
  /** What a choice can be. */
  options: string[];
}

/** The fields of a payload; what the world fills in by itself is left out. */
export function fieldsOf(schema: Obj): Field[] {
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  return Object.entries(properties).flatMap(([name, property]) => {
    if (!isObject(property) || property["readOnly"] === true) return [];
    const needed = required.includes(name);
    const says = typeof property["description"] === "string" ? property["description"] : "";
    return [{ name, needed, says, ...widgetOf(property) }];
  });
}

function widgetOf(property: Obj): { widget: Widget; options: string[] } {
  const alternatives = Array.isArray(property["anyOf"]) ? property["anyOf"].filter(isObject) : [];
  const only = alternatives.filter(({ type }) => type !== "null");
  if (only.length === 1) return widgetOf(only[0] as Obj);
  const words = Array.isArray(property["enum"]) ? property["enum"] : [];
  const options = words.filter((word) => typeof word === "string");
  if (options.length > 0) return { widget: "choice", options };
  const types = [property["type"]].flat();
  const of = (...names: string[]) => names.some((name) => types.includes(name));
  if (of("string")) return { widget: "text", options };
  if (of("boolean")) return { widget: "choice", options: ["true", "false"] };
  if (of("integer", "number")) return { widget: "number", options };
  const { items } = property;
  if (of("array") && isObject(items) && items["type"] === "number") return { widget: "numbers", options };
  return { widget: of("array", "object") || "$ref" in property ? "json" : "any", options };
}

/** What is written in a field; undefined for nothing. Throws an Error in words for what cannot be read. */
export function valueOf({ name, widget, needed }: Field, text: string): Json | undefined {
  if (text === "" && !(needed && widget === "text")) return undefined;
  if (widget === "text") return text;
  if (widget === "choice") return text === "true" || text === "false" ? text === "true" : text;
  if (widget === "number") return Number(text);
  if (widget === "numbers") {
    const numbers = text.split(/[\s,;]+/).filter((each) => each !== "").map(Number);
    if (numbers.some((each) => !Number.isFinite(each))) throw new Error(`${name}: numbers, such as 1.5, 2`);
    return numbers;
  }
  if (widget === "any" && !/^\s*[[{"]/.test(text)) return text;
  return parsed(name, text);
}

/** JSON that one has typed. Throws an Error in words. */
export function parsed(name: string, text: string): Json {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${name}: not JSON (${(error as Error).message})`);
  }
}

/** The fields that a refusal speaks of, each with what is wrong: from JSON paths such as `$.payload.to[1]`. */
export function faults(problems: readonly { path: string; message: string }[]): Record<string, string> {
  const found: Record<string, string> = Object.create(null);
  for (const { path, message } of problems) {
    const [, name] = /^\$\.payload(?:\.([A-Za-z_]\w*)|$)/.exec(path) ?? [];
    if (name !== undefined && !(name in found)) found[name] = message;
  }
  return found;
}
