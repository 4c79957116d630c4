// A simulation: its turn, the global variables, and a table of the agents' variables.

/**
 * @import { Cursor, Frame, Frames } from "../../../../console/src/core/panel.ts"
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
    const shown = make("span", "sign", ` ${sign}`);
    shown.setAttribute("aria-label", words);
    shown.title = words;
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

/** @param {HTMLElement} element @param {Frames} frames @param {Cursor} cursor */
export function panel(element, frames, cursor) {
  const root = make("div", "simulation");
  element.append(root);
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
  };
  const ends = [cursor.subscribe(show), frames.subscribe(show)];
  show();
  return () => {
    for (const end of ends) end();
    root.remove();
  };
}
