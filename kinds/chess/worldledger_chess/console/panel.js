// A game of chess: the board, the players, and the moves as they were made, commented and attempted.

/**
 * @import { Cursor, Effect, Frames } from "../../../../console/src/core/panel.ts"
 * @import { Json, Obj } from "../../../../console/src/core/json.ts"
 */

export const version = 1;

const SVG = "http://www.w3.org/2000/svg";
/** The filled figures for both sides: the outlined ones are hard to see on dark squares. @type {Record<string, string>} */
const FIGURES = { k: "♚", q: "♛", r: "♜", b: "♝", n: "♞", p: "♟" };
/** @type {Record<string, string>} */
const NAMES = { k: "king", q: "queen", r: "rook", b: "bishop", n: "knight", p: "pawn" };

const STYLE = new CSSStyleSheet();
STYLE.replaceSync(`
.chess { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 13rem), 1fr)); gap: 0.8rem; }
.chess svg { width: 100%; max-width: 26rem; display: block; border-radius: 4px; }
.chess .light { fill: #e8dcc5; } .chess .dark { fill: #a98a68; }
.chess .last { fill: #d7b53c; fill-opacity: 0.6; } .chess .check { fill: #d64545; fill-opacity: 0.6; }
.chess text { font-size: 0.86px; text-anchor: middle; dominant-baseline: central; paint-order: stroke; stroke-width: 0.05px; }
.chess .white { fill: #fffdf7; stroke: #2a2118; } .chess .black { fill: #1d1813; stroke: #efe6d6; }
.chess .at { font-size: 0.2px; fill: #3b2d1f; stroke: none; }
.chess .player { display: flex; justify-content: space-between; gap: 1em; }
.chess .turn { font-weight: 600; }
.chess ol { margin: 0; padding: 0; list-style: none; max-height: 26rem; overflow: auto; }
.chess li { display: grid; grid-template-columns: 2.5em 1fr; gap: 0.3em; align-items: baseline; }
.chess li button { border: 0; background: none; padding: 0 0.3em; text-align: left; }
.chess li button[aria-current] { background: var(--here); }
.chess .later, .chess .later .wl-note { color: var(--quiet); font-style: italic; }
.chess .said { display: block; font-size: 0.9em; color: var(--quiet); white-space: pre-wrap; overflow-wrap: anywhere; }
.chess .refused { color: var(--bad); }
`);
document.adoptedStyleSheets.push(STYLE);

/** @param {unknown} value @returns {Obj} */
const object = (value) => typeof value === "object" && value !== null ? /** @type {Obj} */ (value) : {};

/** @param {string} tag @param {string} className @param {...(Node | string)} inside */
function make(tag, className, ...inside) {
  const made = document.createElement(tag);
  if (className !== "") made.className = className;
  made.append(...inside);
  return made;
}

/** @param {string} tag @param {Record<string, string | number>} attributes @param {string} text */
function draw(tag, attributes, text = "") {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.textContent = text;
  return made;
}

/**
 * The board of a position, by its FEN.
 * @param {string} fen @param {string} last the last move in UCI @param {boolean} check
 */
function board(fen, last, check) {
  const svg = draw("svg", { viewBox: "0 0 8 8", role: "img" });
  const [placement = "", turn] = fen.split(" ");
  /** @type {string[]} */
  const told = [];
  const marked = /^[a-h][1-8][a-h][1-8]/.test(last) ? [last.slice(0, 2), last.slice(2, 4)] : [];
  for (const [row, rank] of placement.split("/").slice(0, 8).entries()) {
    let column = 0;
    for (const sign of rank.replace(/\d/g, (digits) => " ".repeat(Number(digits)))) {
      if (sign === "~" || column > 7) continue;
      const square = `${"abcdefgh"[column]}${8 - row}`;
      const place = { x: column, y: row, width: 1, height: 1 };
      svg.append(draw("rect", { ...place, class: (row + column) % 2 === 0 ? "light" : "dark" }));
      if (marked.includes(square)) svg.append(draw("rect", { ...place, class: "last" }));
      const figure = FIGURES[sign.toLowerCase()];
      const side = sign === sign.toUpperCase() ? "white" : "black";
      if (check && sign.toLowerCase() === "k" && side[0] === turn) {
        svg.append(draw("rect", { ...place, class: "check" }));
      }
      if (figure !== undefined) {
        svg.append(draw("text", { x: column + 0.5, y: row + 0.5, class: side }, figure));
        told.push(`${side} ${NAMES[sign.toLowerCase()]} ${square}`);
      }
      if (column === 0) svg.append(draw("text", { x: 0.12, y: row + 0.16, class: "at" }, String(8 - row)));
      if (row === 7) svg.append(draw("text", { x: column + 0.88, y: 7.86, class: "at" }, "abcdefgh"[column]));
      column += 1;
    }
  }
  svg.setAttribute("aria-label", told.length === 0 ? "No position is known" : `Board: ${told.join(", ")}`);
  return svg;
}

/** @param {Json | undefined} seconds */
function clock(seconds) {
  if (typeof seconds !== "number") return "";
  const whole = Math.max(0, Math.floor(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** @param {Json | undefined} evaluation */
function worth(evaluation) {
  const { cp, mate } = object(evaluation);
  if (typeof mate === "number") return `#${mate}`;
  return typeof cp === "number" ? `${cp > 0 ? "+" : ""}${(cp / 100).toFixed(2)}` : "";
}

/** @param {HTMLElement} element @param {Frames} frames @param {Cursor} cursor */
export function panel(element, frames, cursor) {
  const left = make("div", "");
  const list = make("ol", "");
  list.setAttribute("aria-label", "Moves");
  const root = make("div", "chess", left, list);
  element.append(root);
  /** @type {{ seq: number; button: HTMLElement; item: HTMLElement }[]} */
  let entries = [];
  let counted = -1;

  /** @param {Effect} effect */
  const entry = ({ global_seq: seq, kind, payload }) => {
    const refused = kind === "MoveRejected";
    const number = typeof payload["ply"] === "number" && !refused
      ? `${Math.ceil(payload["ply"] / 2)}${payload["ply"] % 2 === 1 ? "." : "…"}`
      : "✗";
    const text = String(payload["san_notation"] ?? payload["attempted"] ?? "?");
    const button = make(
      "button",
      refused ? "refused" : "",
      refused ? `${text}: ${String(payload["reason"] ?? "refused").replaceAll("_", " ")}` : text,
    );
    button.setAttribute("type", "button");
    button.addEventListener("click", () => cursor.go(seq));
    const facts = [worth(payload["evaluation"]), clock(payload["clock"])].filter((each) => each !== "").join("  ");
    const body = make("span", "", button, facts === "" ? "" : ` ${facts}`);
    for (const name of ["comment", "reasoning", "detail"]) {
      const said = payload[name];
      if (typeof said === "string" && said !== "") body.append(make("bdi", "said", said));
    }
    const item = make("li", "", make("span", "wl-note", number), body);
    return { seq, button, item };
  };
  const load = async () => {
    const effects = await frames.effects("MoveMade", "MoveRejected");
    if (effects.length === counted) return;
    counted = effects.length;
    entries = effects.map(entry);
    list.replaceChildren(...entries.map(({ item }) => item));
    mark();
  };
  const mark = () => {
    const { seq } = cursor;
    const now = entries.findLast((each) => each.seq <= seq);
    for (const each of entries) {
      each.item.classList.toggle("later", each.seq > seq);
      each.button.toggleAttribute("aria-current", each === now);
    }
    if (now !== undefined) {
      const { offsetTop, offsetHeight } = now.item;
      const above = offsetTop - list.offsetTop;
      if (above < list.scrollTop || above + offsetHeight > list.scrollTop + list.clientHeight) {
        list.scrollTop = above - list.clientHeight / 2;
      }
    }
  };
  const show = () => {
    mark();
    const frame = frames.at(cursor.seq);
    if (frame === undefined) return;
    const { entities } = frame.state;
    const here = object(entities["board"]);
    /** @param {"white" | "black"} side */
    const player = (side) => {
      const one = object(entities[side]);
      const toMove = here["turn"] === side && here["result"] === null;
      const row = make("p", toMove ? "player turn" : "player");
      row.append(
        make("bdi", "", `${toMove ? "● " : ""}${one["name"] ?? one["agent_id"] ?? side}`),
        clock(one["clock"]),
      );
      return row;
    };
    const outcome = [here["result"], here["status"] === "in_progress" ? null : here["status"], here["reason"]]
      .filter((each) => typeof each === "string" && each !== "");
    left.replaceChildren(
      player("black"),
      board(
        String(here["fen"] ?? ""),
        String(object(here["last_move"])["uci_notation"] ?? ""),
        here["is_check"] === true,
      ),
      player("white"),
      make("p", "wl-note", [...new Set(outcome)].join(" · ").replaceAll("_", " ")),
    );
  };
  const ends = [cursor.subscribe(show), frames.subscribe(() => (show(), void load()))];
  show();
  void load();
  return () => {
    for (const end of ends) end();
    root.remove();
  };
}
