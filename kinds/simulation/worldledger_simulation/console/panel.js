// A simulation: its turn, the global variables, a table of the agents' variables, and charts of them over turns.

/**
 * @import { Cursor, Drawn, Frame, Frames, Tools } from "../../../../console/src/core/panel.ts"
 * @import { Series } from "../../../../console/src/core/chart.ts"
 * @import { Shown } from "../../../../console/src/core/belief.ts"
 * @import { Json, Obj } from "../../../../console/src/core/json.ts"
 */

export const version = 1;

const STYLE = new CSSStyleSheet();
STYLE.replaceSync(`
.simulation .scroll { overflow: auto; }
.simulation table { font-size: 0.9em; }
.simulation td { min-width: 6em; max-width: 18em; white-space: pre-line; overflow-wrap: break-word; font-variant-numeric: tabular-nums; }
.simulation td bdi { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 6; overflow: hidden; }
.simulation td.missing { color: var(--quiet); }
.simulation .charts { display: grid; gap: 0.2rem 1rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 13rem), 1fr)); }
.simulation .charts svg { width: 100%; display: block; cursor: pointer; }
.simulation .charts text { font-size: 11px; fill: var(--quiet); }
.simulation .charts .axes line { stroke: var(--line); }
.simulation .charts .now { stroke: var(--text); stroke-dasharray: 2 2; }
.simulation .title { margin: 0.4rem 0 0; font-size: 0.9rem; font-weight: 600; overflow-wrap: anywhere; }
`);
document.adoptedStyleSheets.push(STYLE);

/** @type {Record<string, [string, string]>} */
const SIGNS = {
  hidden: ["∅", "not shown to the agent"],
  outdated: ["◔", "outdated"],
  noised: ["≈", "not so"],
};

/** @param {unknown} value @returns {value is Obj} */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** @param {string} tag @param {string} className @param {...(Node | string)} inside */
function make(tag, className, ...inside) {
  const made = document.createElement(tag);
  if (className !== "") made.className = className;
  made.append(...inside);
  return made;
}

/** @param {string} name */
const escaped = (name) => name.replaceAll("~", "~0").replaceAll("/", "~1");

/** A value in a cell: objects as `name value` pairs. @param {Json | undefined} value @returns {string} */
function text(value) {
  if (value === undefined || value === null) return value === null ? "none" : "";
  if (typeof value === "number") return String(Math.round(value * 1000) / 1000);
  if (Array.isArray(value)) return value.map(text).join(", ");
  if (isObject(value)) return Object.entries(value).map(([name, each]) => `${name} ${text(each)}`).join("\n");
  return String(value);
}

/**
 * A cell, with a sign where its value has just changed, or is not what the agent believes.
 * @param {Frame} frame @param {string} pointer @param {Json | undefined} value
 */
function cell(frame, pointer, value) {
  const made = make("td", value === undefined ? "missing" : "", make("bdi", "", text(value)));
  made.title = text(value);
  const within = (/** @type {string} */ each) =>
    each === pointer || each.startsWith(`${pointer}/`) || pointer.startsWith(`${each}/`);
  if ([...frame.changed].some(within)) {
    made.classList.add("changed");
  }
  const mark = [...frame.marks].find(([each]) => within(each))?.[1];
  if (mark !== undefined) {
    made.classList.add(`mark-${mark}`);
    const [sign, words] = /** @type {[string, string]} */ (SIGNS[mark]);
    const agents = new Set([...frame.hidden].filter(([each]) => within(each)).flatMap(([, names]) => names));
    const names = [...agents].join(", ");
    const told = make("span", "", names);
    told.dir = "auto";
    const shown = make("span", "sign", ` ${sign} `, told);
    shown.setAttribute("role", "img");
    shown.title = names === "" ? words : `not shown to ${names}`;
    shown.setAttribute("aria-label", shown.title);
    made.append(shown);
  }
  return made;
}

/** @param {string} title @param {string[]} heads @param {HTMLElement[][]} rows */
function table(title, heads, rows) {
  const head = make(
    "tr",
    "",
    ...heads.map((each) => {
      const made = make("th", "", make("bdi", "", each));
      made.setAttribute("scope", "col");
      return made;
    }),
  );
  const made = make("table", "", make("caption", "unseen", title), make("thead", "", head));
  made.append(make("tbody", "", ...rows.map((row) => make("tr", "", ...row))));
  return made;
}

/** @param {string} name */
function rowHead(name) {
  const made = make("th", "", make("bdi", "", name));
  made.setAttribute("scope", "row");
  return made;
}

/** Charts at most, milliseconds between two times that they are drawn anew, and pixels of one from top to bottom. */
const [CHARTS, ANEW_MS, TALL] = [24, 2000, 110];

/** The turn of a state, if it says so. @param {Shown} state */
function turnOf(state) {
  const turn = state.metadata?.["turn"];
  return typeof turn === "number" ? turn : null;
}

/** Every number in a value, with its name below the value's. @param {string} name @param {Json} value @returns {[string, number][]} */
function numbers(name, value) {
  if (typeof value === "number") return [[name, value]];
  return isObject(value) ? Object.entries(value).flatMap(([below, each]) => numbers(`${name}.${below}`, each)) : [];
}

/**
 * Each variable over the turns, as it was at the end of each: a series for each agent. What never changes is left out.
 * @param {readonly { seq: number; state: Shown }[]} states
 */
function courses(states) {
  /** @type {Map<number, { seq: number; state: Shown }>} */
  const turns = new Map();
  for (const each of states) {
    const turn = turnOf(each.state);
    if (turn !== null) turns.set(turn, each);
  }
  /** @type {Map<string, Map<string, Series>>} */
  const found = new Map();
  for (const [turn, { state }] of turns) {
    for (const [agent, variables] of Object.entries(state.entities)) {
      for (const [variable, value] of isObject(variables) ? numbers("", variables) : []) {
        const name = `${agent === "global" ? "global " : ""}${variable.slice(1)}`;
        const agents = found.get(name) ?? new Map();
        found.set(name, agents);
        const series = agents.get(agent) ?? { name: agent, points: [] };
        agents.set(agent, series);
        series.points.push([turn, value]);
      }
    }
  }
  const moving = [...found].filter(([, agents]) =>
    [...agents.values()].some(({ points }) => points.some(([, value]) => value !== points[0]?.[1]))
  );
  return { turns, variables: moving.map(([name, agents]) => ({ name, series: [...agents.values()] })) };
}

/** @param {HTMLElement} element @param {Frames} frames @param {Cursor} cursor @param {Tools} tools */
export function panel(element, frames, cursor, tools) {
  const root = make("div", "");
  const charts = make("div", "charts");
  const told = make("p", "wl-note");
  const legend = make("ul", "legend");
  const over = make("details", "", make("summary", "", "Over turns"), legend, told, charts);
  // What an agent believed of long worlds is not at hand, and where it stands beside the truth there is less room.
  over.toggleAttribute("open", frames.agent === null);
  const whole = make("div", "simulation", root, over);
  element.append(whole);
  const endFeed = frames.agent === null
    ? tools.feed(whole, frames, cursor, "Speak", "MessageEmitted")
    : () => undefined;
  /** @type {{ line: SVGLineElement; drawn: Drawn }[]} */
  let drawings = [];
  /** The last state that is drawn, and when. */
  let [reached, drawnAt] = [-1, -Infinity];

  const point = () => {
    const state = frames.at(cursor.seq)?.state;
    const turn = state === undefined ? null : turnOf(state);
    for (const { line, drawn } of turn === null ? [] : drawings) {
      for (const end of ["x1", "x2"]) line.setAttribute(end, String(drawn.x(turn ?? 0)));
    }
  };
  const drawCharts = () => {
    if (!over.hasAttribute("open") || charts.clientWidth === 0 || performance.now() - drawnAt < ANEW_MS) return;
    const states = frames.overview();
    drawnAt = states.length === 0 ? -Infinity : performance.now();
    const last = states.at(-1)?.seq ?? -1;
    if (last === reached) return;
    reached = last;
    const { turns, variables } = courses(states);
    drawings = [];
    const names = [...new Set(variables.flatMap(({ series }) => series.map((each) => each.name)))];
    for (const each of variables.flatMap(({ series }) => series)) each.colour = names.indexOf(each.name);
    legend.replaceChildren(
      ...names.map((name, at) => make("li", "", make("span", `swatch kind-${at % 8}`), make("bdi", "", name))),
    );
    const shown = variables.slice(0, CHARTS).map(({ name, series }) => {
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", `${name} over ${turns.size} turns: ${series.map((each) => each.name).join(", ")}`);
      svg.setAttribute("height", String(TALL));
      return { svg, name, series, section: make("section", "", make("p", "title", make("bdi", "", name)), svg) };
    });
    charts.replaceChildren(...shown.map(({ section }) => section));
    for (const { svg, name, series } of shown) {
      const chart = { look: /** @type {const} */ ("lines"), x: { is: /** @type {const} */ ("number") }, series };
      const titles = /** @type {const} */ (["", ""]);
      const drawn = tools.chart(svg, { ...chart, titles }, svg.clientWidth, TALL);
      const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
      line.setAttribute("class", "now");
      line.setAttribute("y1", "0");
      line.setAttribute("y2", String(TALL - 34));
      svg.append(line);
      drawings.push({ line, drawn });
      svg.addEventListener("pointermove", ({ offsetX, offsetY }) => {
        const near = drawn.find(offsetX, offsetY);
        told.textContent = near === null ? "\u00a0" : `${near.series}, turn ${near.x}: ${name} ${near.y}`;
      });
      svg.addEventListener("click", ({ offsetX, offsetY }) => {
        const seq = turns.get(drawn.find(offsetX, offsetY)?.at ?? -1)?.seq;
        if (seq !== undefined) cursor.go(seq);
      });
    }
    const more = variables.length - CHARTS;
    told.textContent = variables.length === 0
      ? "Nothing has changed yet."
      : more > 0
      ? `${more} more are not drawn.`
      : "\u00a0";
    point();
  };
  over.addEventListener("toggle", drawCharts);
  const show = () => {
    const frame = frames.at(cursor.seq);
    if (frame === undefined) return;
    const { entities, metadata } = frame.state;
    /** @type {HTMLElement[]} */
    const inside = [];
    if (metadata !== undefined && typeof metadata["turn"] === "number") {
      const about = isObject(metadata["simulation"]) ? metadata["simulation"] : {};
      const open = about["open"] === true ? "open" : "over";
      inside.push(make("p", "wl-note", `Turn ${metadata["turn"]}, ${open}`));
    }
    const agents = Object.entries(entities).filter(([name, each]) => name !== "global" && isObject(each));
    const variables = [...new Set(agents.flatMap(([, each]) => Object.keys(each ?? {})))].filter((name) =>
      name !== "name"
    );
    const common = entities["global"];
    if (isObject(common)) {
      const rows = Object.entries(common).map((
        [name, value],
      ) => [rowHead(name), cell(frame, `/entities/global/${escaped(name)}`, value)]);
      inside.push(table("Global variables", ["global", "value"], rows));
    }
    const rows = variables.map((variable) => [
      rowHead(variable),
      ...agents.map(([name, each]) =>
        cell(
          frame,
          `/entities/${escaped(name)}/${escaped(variable)}`,
          isObject(each) && Object.hasOwn(each, variable) ? each[variable] : undefined,
        )
      ),
    ]);
    const names = agents.map(([name]) => name);
    const scroll = make("div", "scroll", table("Variables of agents", ["variable", ...names], rows));
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute(
      "aria-label",
      `Variables of agents${frames.agent === null ? "" : `, as ${frames.agent} believes`}`,
    );
    inside.push(scroll);
    root.replaceChildren(...inside);
    point();
  };
  const ends = [endFeed, cursor.subscribe(show), frames.subscribe(() => (show(), drawCharts()))];
  show();
  drawCharts();
  return () => {
    for (const end of ends) end();
    whole.remove();
  };
}
