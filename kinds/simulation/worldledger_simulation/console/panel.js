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
.simulation table { font-size: 0.9em; table-layout: fixed; }
.simulation td, .simulation th { overflow-wrap: break-word; font-variant-numeric: tabular-nums; vertical-align: top; }
.simulation .line { display: flex; flex-wrap: wrap; column-gap: 0.3em; }
.simulation .line > bdi { min-width: 0; display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 6; overflow: hidden; white-space: pre-line; }
.simulation .line.mark-outdated, .simulation .line.mark-noised { border-left: 3px solid; padding-left: 0.3em; }
.columns:not(.of-1) .simulation .line { flex-wrap: nowrap; white-space: nowrap; overflow: hidden; }
.columns:not(.of-1) .simulation .line > * { flex: none; min-width: 0; overflow: hidden; text-overflow: ellipsis; }
.columns:not(.of-1) .simulation .line > bdi { flex: 0 1 auto; display: block; white-space: nowrap; }
.columns:not(.of-1) .simulation .line > .sign { flex: 0 20 auto; min-width: 1.1em; }
.columns:not(.of-1) .simulation .line > small { flex: 0 400 auto; }
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

/** @param {Obj} object @param {string} name @returns {Json | undefined} */
const own = (object, name) => Object.hasOwn(object, name) ? object[name] : undefined;

/** The names in objects, those of the first one first. @param {...Obj} objects */
const merged = (...objects) => [...new Set(objects.flatMap((each) => Object.keys(each)))];

/** A value in a cell: objects as `name value` pairs. @param {Json | undefined} value @returns {string} */
function text(value) {
  if (value === undefined || value === null) return value === null ? "none" : "";
  if (typeof value === "number") return String(Math.round(value * 1000) / 1000);
  if (Array.isArray(value)) return value.map(text).join(", ");
  if (isObject(value)) return Object.entries(value).map(([name, each]) => `${name} ${text(each)}`).join("\n");
  return String(value);
}

/** Lines of a value in a cell. */
const LINES = 8;

/**
 * Look places up among pointers: what is at one, around it or else below it.
 * @template T @param {Iterable<readonly [string, T]>} pointers @returns {(pointer: string) => T | undefined}
 */
function among(pointers) {
  const exact = new Map(pointers);
  if (exact.size === 0) return () => undefined;
  /** @type {Map<string, T>} */
  const above = new Map();
  for (const [each, found] of exact) {
    for (let end = each.lastIndexOf("/"); end > 0; end = each.lastIndexOf("/", end - 1)) {
      above.set(each.slice(0, end), found);
    }
  }
  return (pointer) => {
    for (let here = pointer; here !== ""; here = here.slice(0, here.lastIndexOf("/"))) {
      const found = exact.get(here);
      if (found !== undefined) return found;
    }
    return above.get(pointer);
  };
}

/**
 * What writes cells of a frame. What has just changed is marked, and a sign says what is not as the agent believes.
 * @param {Frame} frame
 */
function writer(frame) {
  const changed = among([...frame.changed].map((each) => /** @type {const} */ ([each, true])));
  const marked = among(frame.marks);

  /** @param {string} pointer @param {Json | undefined} value @param {Json | undefined} like as it is in truth */
  const signed = (pointer, value, like) => {
    const isUnseen = value === undefined && like !== undefined;
    const mark = isUnseen ? "hidden" : marked(pointer);
    if (mark === undefined) return { mark, signs: [] };
    const [sign, words] = /** @type {[string, string]} */ (SIGNS[mark]);
    const within = (/** @type {string} */ each) =>
      each === pointer || each.startsWith(`${pointer}/`) || pointer.startsWith(`${each}/`);
    const agents = new Set([...frame.hidden].filter(([each]) => within(each)).flatMap(([, names]) => names));
    const names = [...agents].join(", ");
    const told = make("span", "", names);
    told.dir = "auto";
    const shown = make("span", "sign", ` ${sign} `, told);
    shown.setAttribute("role", "img");
    shown.title = names === "" ? words : `not shown to ${names}`;
    shown.setAttribute("aria-label", shown.title);
    const isWrong = mark !== "hidden" && like !== undefined;
    return { mark, signs: isWrong ? [shown, make("small", "wl-note", "is ", make("bdi", "", text(like)))] : [shown] };
  };
  /** @param {string} pointer @param {string} name @param {Json | undefined} value @param {Json | undefined} like */
  const line = (pointer, name, value, like) => {
    const { mark, signs } = signed(pointer, value, like);
    const told = [name, text(value)].filter((each) => each !== "").join(" ");
    return make("span", mark === undefined ? "line" : `line mark-${mark}`, make("bdi", "", told), ...signs);
  };
  /** @param {string} pointer @param {Json | undefined} value @param {Json | undefined} like beside a belief: as it is */
  return (pointer, value, like) => {
    const made = make("td", value === undefined ? "missing" : "");
    made.title = text(value);
    if (changed(pointer)) made.classList.add("changed");
    if (isObject(value) || (value === undefined && isObject(like))) {
      const [here, there] = [isObject(value) ? value : {}, isObject(like) ? like : {}];
      const names = [...new Set([...Object.keys(there), ...Object.keys(here)])];
      for (const name of names.slice(0, LINES)) {
        made.append(line(`${pointer}/${escaped(name)}`, name, here[name], there[name]));
      }
      const rest = names.slice(LINES);
      if (rest.length > 0) {
        const wrong = rest.filter((name) =>
          signed(`${pointer}/${escaped(name)}`, here[name], there[name]).mark !== undefined
        );
        made.append(
          make("span", "line wl-note", `… ${rest.length} more${wrong.length > 0 ? `, ${wrong.length} marked` : ""}`),
        );
      }
    } else made.append(line(pointer, "", value, like));
    return made;
  };
}

/** How far to the right the tables of agents are scrolled: of the truth and of beliefs alike. */
let across = 0;

/** @param {number} left */
function together(left) {
  if (left === across) return;
  across = left;
  for (const each of document.querySelectorAll(".simulation .scroll")) each.scrollLeft = left;
}

/** Least width of a column, in em. */
const COLUMN_EM = 9;

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
  // As wide as those of other beliefs: columns have widths of their own.
  made.style.maxWidth = "none";
  made.style.width = `max(100%, ${COLUMN_EM * heads.length}em)`;
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
    // Beside the truth a belief has the truth's rows and columns, so that what is one beside the other lies so.
    const truth = frames.truth?.at(cursor.seq)?.state.entities ?? {};
    const cell = writer(frame);
    /** @type {HTMLElement[]} */
    const inside = [];
    if (metadata !== undefined && typeof metadata["turn"] === "number") {
      const about = isObject(metadata["simulation"]) ? metadata["simulation"] : {};
      const open = about["open"] === true ? "open" : "over";
      inside.push(make("p", "wl-note", `Turn ${metadata["turn"]}, ${open}`));
    } else inside.push(make("p", "wl-note", "\u00a0"));
    /** Variables of an entity here, and in truth. @param {string} name @returns {[Obj, Obj]} */
    const both = (name) => {
      const [here, there] = [entities[name], truth[name]];
      return [isObject(here) ? here : {}, isObject(there) ? there : {}];
    };
    const names = merged(truth, entities).filter((name) =>
      name !== "global" && (isObject(entities[name]) || isObject(truth[name]))
    );
    const variables = merged(...names.map((name) => both(name)[1]), ...names.map((name) => both(name)[0])).filter((
      name,
    ) => name !== "name");
    const [common, trueCommon] = both("global");
    const globals = merged(trueCommon, common);
    if (globals.length > 0) {
      const rows = globals.map((name) => [
        rowHead(name),
        cell(`/entities/global/${escaped(name)}`, own(common, name), own(trueCommon, name)),
      ]);
      inside.push(table("Global variables", ["global", "value"], rows));
    }
    const rows = variables.map((variable) => [
      rowHead(variable),
      ...names.map((name) => {
        const [here, there] = both(name);
        return cell(`/entities/${escaped(name)}/${escaped(variable)}`, own(here, variable), own(there, variable));
      }),
    ]);
    const scroll = make("div", "scroll", table("Variables of agents", ["variable", ...names], rows));
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute(
      "aria-label",
      `Variables of agents${frames.agent === null ? "" : `, as ${frames.agent} believes`}`,
    );
    scroll.addEventListener("scroll", () => together(scroll.scrollLeft));
    inside.push(scroll);
    root.replaceChildren(...inside);
    if (across !== 0) scroll.scrollLeft = across;
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
