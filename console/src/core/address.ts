/** The address of a page: it says all that a reader sees, so copying it is sharing. It lies behind the `#`. */

import { type Choice, LOOKS } from "./chart.ts";

export interface WorldsAddress {
  page: "worlds";
  q: string;
  ruleset: string;
  experiment: string;
  live: boolean;
  selected: string[];
}

export interface WorldAddress {
  page: "world";
  world: string;
  /** Whose log is looked at: 0 for the world's own, 1 for its parent's up to the fork point, and so on. */
  parents: number;
  /** A seq of that log, or its end: of the world's own, the head as it moves. */
  at: number | "live";
  /** Whose beliefs are shown beside the truth. */
  agents: string[];
  /** Which panes are open. */
  panes: Pane[];
  /** The effect whose details are shown. */
  effect: number | null;
  /** The stretch of seqs that the timeline shows; null for all of them. */
  zoom: [number, number] | null;
  kind: string;
  source: string;
  q: string;
  /** The unit whose numbers divide the transcript; empty for the first that the kind declares. */
  unit: string;
}

/** What the address of a world says besides the moment of its cursor. */
export type Look = Omit<WorldAddress, "at">;

/** The look of an address: the last one itself, if nothing but the cursor has moved since. */
export function lookOf({ at: _, ...look }: WorldAddress, last?: Look): Look {
  const isSame = last !== undefined && (Object.keys(look) as (keyof Look)[]).every((name) => look[name] === last[name]);
  return isSame ? last : look;
}

export interface CompareAddress {
  page: "compare";
  worlds: string[];
  /** By what runs are put together for their mean and quartiles; empty for each run alone. */
  group: string;
  /** The agent whose views of two worlds are compared, too; empty for none. */
  view: string;
}

export interface SqlAddress {
  page: "sql";
  /** The name of a question; empty for one's own. */
  name: string;
  params: Record<string, string>;
  query: string;
  /** The chart of the answer; null for none. */
  chart: Choice | null;
}

export type Address = WorldsAddress | WorldAddress | CompareAddress | SqlAddress;

export const PANES = ["effects", "state", "tree", "transcript", "integrity", "online", "post"] as const;
export type Pane = (typeof PANES)[number];
const USUAL: readonly Pane[] = ["effects", "state"];
/** What stands before a moment of the past that a fork inherits, once for each generation, as in the commands. */
const PARENT = "parent:";

export function worldAddress(world: string, more: Partial<WorldAddress> = {}): WorldAddress {
  const usual = { agents: [], panes: [...USUAL], effect: null, zoom: null, kind: "", source: "", q: "", unit: "" };
  return { page: "world", world, parents: 0, at: "live", ...usual, ...more };
}

function seq(text: string | null): number | null {
  return text !== null && /^[1-9]\d{0,15}$/.test(text) ? Number(text) : null;
}

/** Read what lies behind the `#`. What cannot be read is as if it were not there. */
export function parse(hash: string): Address {
  const [path = "", query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const given = new URLSearchParams(query);
  const text = (name: string) => given.get(name) ?? "";
  const [, page, name] = path.split("/");
  if (page === "w" && name) {
    const zoom = text("zoom").split("-").map((each) => seq(each));
    const [from, to] = [zoom[0] ?? null, zoom[1] ?? null];
    const [, older = "", at = ""] = /^((?:parent:)*)(.*)$/s.exec(text("at")) ?? [];
    const panes = given.has("panes") ? PANES.filter((pane) => text("panes").split(",").includes(pane)) : [...USUAL];
    return worldAddress(decoded(name), {
      parents: older.length / PARENT.length,
      at: seq(at) ?? "live",
      agents: [...new Set(given.getAll("agent"))].slice(0, 4),
      panes,
      effect: seq(given.get("effect")),
      zoom: from !== null && to !== null && from < to ? [from, to] : null,
      kind: text("kind"),
      source: text("source"),
      q: text("q"),
      unit: text("unit"),
    });
  }
  if (page === "compare") {
    return {
      page: "compare",
      worlds: [...new Set(given.getAll("world"))].slice(0, 20),
      group: text("group"),
      view: text("view"),
    };
  }
  if (page === "sql") {
    const params = Object.fromEntries(
      [...given].filter(([name]) => name.startsWith("p.")).map(([name, value]) => [name.slice(2), value]),
    );
    const look = LOOKS.find((each) => each === text("chart"));
    const chart = look === undefined ? null : { look, x: text("x"), y: text("y"), by: text("by") };
    return { page: "sql", name: text("name"), params, query: text("query"), chart };
  }
  return {
    page: "worlds",
    q: text("q"),
    ruleset: text("ruleset"),
    experiment: text("experiment"),
    live: given.get("live") === "true",
    selected: [...new Set(given.getAll("select"))].slice(0, 20),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Write an address, with its `#`; what is as usual is left out. */
export function format(address: Address): string {
  const given = new URLSearchParams();
  const put = (name: string, value: string) => {
    if (value !== "") given.append(name, value);
  };
  let path = "#/";
  if (address.page === "world") {
    path = `#/w/${encodeURIComponent(address.world)}`;
    put("at", `${PARENT.repeat(address.parents)}${address.at}`);
    for (const agent of address.agents) put("agent", agent);
    given.append("panes", address.panes.join(","));
    if (address.effect !== null) put("effect", String(address.effect));
    if (address.zoom !== null) put("zoom", address.zoom.join("-"));
    put("kind", address.kind);
    put("source", address.source);
    put("q", address.q);
    put("unit", address.unit);
  } else if (address.page === "compare") {
    path = "#/compare";
    for (const world of address.worlds) put("world", world);
    put("group", address.group);
    put("view", address.view);
  } else if (address.page === "sql") {
    path = "#/sql";
    put("name", address.name);
    for (const [name, value] of Object.entries(address.params)) put(`p.${name}`, value);
    put("query", address.query);
    if (address.chart !== null) {
      const { look, ...columns } = address.chart;
      for (const [name, value] of Object.entries({ chart: look, ...columns })) put(name, value);
    }
  } else {
    put("q", address.q);
    put("ruleset", address.ruleset);
    put("experiment", address.experiment);
    if (address.live) put("live", "true");
    for (const world of address.selected) put("select", world);
  }
  const query = given.toString().replaceAll("%2C", ",").replaceAll("%3A", ":");
  return query === "" ? path : `${path}?${query}`;
}
