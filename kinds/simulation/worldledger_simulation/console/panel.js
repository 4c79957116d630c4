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
.simulation .scroll th:first-child { position: sticky; left: 0; background: var(--raised); }
.simulation .read { position: sticky; bottom: 0; margin: 0; background: var(--raised); overflow-wrap: anywhere; }
.simulation table { font-size: 0.9em; table-layout: fixed; --column: 8em; }
.simulation td, .simulation th { overflow-wrap: break-word; font-variant-numeric: tabular-nums; vertical-align: top; }
.simulation .line { display: flex; flex-wrap: wrap; column-gap: 0.3em; }
.simulation .line > bdi { min-width: 0; display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 6; overflow: hidden; white-space: pre-line; }
.simulation .line.mark-outdated, .simulation .line.mark-noised { border-left: 3px solid; padding-left: 0.3em; }
.columns:not(.of-1) .simulation table { font-size: 0.8em; --column: 9em; }
.columns:not(.of-1) .simulation :is(td, th) { padding-inline: 0.3rem; }
.columns:not(.of-1) .simulation .line { display: grid; grid-template: 1.4em 1.3em / minmax(3em, max-content) minmax(1.1em, 1fr); gap: 0 0.3em; padding-block: 0; line-height: 1.3; white-space: nowrap; }
.columns:not(.of-1) .simulation .line > * { display: block; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.columns:not(.of-1) .simulation .line > small { grid-area: 2 / 1 / 3 / 3; font-size: inherit; }
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

/** @param {number} value */
const rounded = (value) => String(Math.round(value * 1000) / 1000);

/**
 * A value in a cell: objects as `name value` pairs.
 * @param {Json | undefined} value @param {(value: number) => string} number writes numbers @returns {string}
 */
function text(value, number = rounded) {
  if (value === undefined || value === null) return value === null ? "none" : "";
  if (typeof value === "number") return number(value);
  if (Array.isArray(value)) return value.map((each) => text(each, number)).join(", ");
  if (isObject(value)) return Object.entries(value).map(([name, each]) => `${name} ${text(each, number)}`).join("\n");
  return String(value);
}

/** Digits of a wrong number, unless it takes more to tell it from the right one. */
const DIGITS = 4;

/**
 * A wrong value and the right one in few digits, and yet as different texts.
 * @param {Json | undefined} value @param {Json | undefined} like @returns {[string, string]}
 */
function brief(value, like) {
  if (Array.isArray(value) && Array.isArray(like) && value.length === like.length) {
    const both = value.map((each, index) => brief(each, like[index]));
    return [both.map(([here]) => here).join(", "), both.map(([, there]) => there).join(", ")];
  }
  if (typeof value === "number" && typeof like === "number" && value !== like) {
    for (let digits = DIGITS; digits < 16; digits++) {
      const [here, there] = [value, like].map((each) =>
        String(Math.abs(each) < 10 ** digits ? Number(each.toPrecision(digits)) : Math.round(each))
      );
      if (here !== undefined && there !== undefined && here !== there) return [here, there];
    }
  }
  return [text(value), text(like)];
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
    if (mark === undefined) return { mark, signs: [], wrong: "" };
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
    return { mark, signs: [shown], wrong: mark !== "hidden" && like !== undefined ? sign : "" };
  };
  /**
   * A line, what it says in full, and whether that is wrong.
   * @param {string} pointer @param {string} name @param {Json | undefined} value @param {Json | undefined} like
   */
  const line = (pointer, name, value, like) => {
    const { mark, signs, wrong } = signed(pointer, value, like);
    const isWrong = wrong !== "";
    const [here, there] = isWrong ? brief(value, like) : [text(value), ""];
    const told = make("bdi", "", `${name} ${here}`.trim());
    const made = make("span", mark === undefined ? "line" : `line mark-${mark}`, told, ...signs);
    if (isWrong) made.append(make("small", "wl-note", "is ", make("bdi", "", there)));
    const full = `${name} ${text(value, String)}${isWrong ? ` ${wrong} is ${text(like, String)}` : ""}`.trim();
    return { made, full, isWrong };
  };
  /** @param {string} pointer @param {Json | undefined} value @param {Json | undefined} like beside a belief: as it is */
  return (pointer, value, like) => {
    const made = make("td", value === undefined ? "missing" : "");
    if (changed(pointer)) made.classList.add("changed");
    const isInner = isObject(value) || (value === undefined && isObject(like));
    const [here, there] = [isObject(value) ? value : {}, isObject(like) ? like : {}];
    const names = isInner ? [...new Set([...Object.keys(there), ...Object.keys(here)])] : [""];
    const inner = (/** @type {string} */ name) =>
      line(`${pointer}/${escaped(name)}`, name, own(here, name), own(there, name));
    const lines = names.slice(0, LINES).map(isInner ? inner : () => line(pointer, "", value, like));
    made.append(...lines.map((each) => each.made));
    const rest = names.slice(LINES);
    if (rest.length > 0) {
      const wrong = rest.filter((name) =>
        signed(`${pointer}/${escaped(name)}`, here[name], there[name]).mark !== undefined
      );
      made.append(
        make("span", "line wl-note", `… ${rest.length} more${wrong.length > 0 ? `, ${wrong.length} marked` : ""}`),
      );
    }
    const full = [...lines.map((each) => each.full), ...rest.map((name) => `${name} ${text(here[name], String)}`)];
    made.title = full.join("\n");
    // What is wrong can be reached with keys, and is told in full.
    if (lines.some(({ isWrong }) => isWrong)) made.tabIndex = 0;
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
  made.style.width = `max(100%, ${heads.length} * var(--column))`;
  made.append(make("tbody", "", ...rows.map((row) => make("tr", "", ...row))));
  return made;
}

/** @param {string} name */
function rowHead(name) {
  // A long name is broken between its words.
  const [first = "", ...rest] = name.split(/(?<=_)/);
  const told = make("bdi", "", first, ...rest.flatMap((word) => [make("wbr", ""), word]));
  const made = make("th", "", told);
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
  /** What the cell says in full that was clicked or reached by keys. */
  const read = make("p", "read");
  read.setAttribute("role", "status");
  const whole = make("div", "simulation", root, read, over);
  element.append(whole);
  for (const how of /** @type {const} */ (["click", "focusin"])) {
    root.addEventListener(how, ({ target }) => {
      const cell = target instanceof Element ? target.closest("td") : null;
      if (cell === null) return;
      const row = cell.parentElement?.firstElementChild?.textContent;
      const column = cell.closest("table")?.rows[0]?.cells[cell.cellIndex]?.textContent;
      read.textContent = `${column} › ${row}: ${cell.title.replaceAll("\n", ", ")}`;
    });
  }
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
    const { entities } = frame.state;
    // Beside the truth a belief has the truth's rows and columns, so that what is one beside the other lies so.
    const beside = frames.truth?.at(cursor.seq)?.state;
    const truth = beside?.entities ?? {};
    const metadata = frame.state.metadata ?? beside?.metadata;
    const cell = writer(frame);
    /** @type {HTMLElement[]} */
    const inside = [];
    if (metadata !== undefined && typeof metadata["turn"] === "number") {
      const about = isObject(metadata["simulation"]) ? metadata["simulation"] : {};
      const within = about["open"] === true ? "under way" : "at its end";
      inside.push(make("p", "wl-note", `Turn ${metadata["turn"]}, ${within}`));
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
    if (read.textContent !== "") read.textContent = "";
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
