// A game of chess: the board, the players, and the moves as they were made, commented and attempted. A position can be
// played on from, and a side that is moved by hand is moved here.

/**
 * @import { Cursor, Effect, Frames, Tools } from "../../../../console/src/core/panel.ts"
 * @import { Shown } from "../../../../console/src/core/belief.ts"
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
.chess form { display: flex; flex-wrap: wrap; gap: 0.3rem 0.8rem; align-items: center; margin: 0.4rem 0; }
.chess form[hidden] { display: none; }
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

/** Who moves the sides of a game that is played on, as `POST /v1/games` takes them, with words for people. */
const PLAYERS = [["external", "by hand"], ["random", "at random"], ["stockfish", "by Stockfish"]];

/** @param {string} label @param {string} chosen */
function choice(label, chosen) {
  const select = document.createElement("select");
  for (const [value, words] of PLAYERS) select.append(new Option(words, value, value === chosen, value === chosen));
  return { select, label: make("label", "", `${label} `, select) };
}

/** @param {string} text */
function submit(text) {
  const button = make("button", "", text);
  button.setAttribute("type", "submit");
  return button;
}

/** Do what a form asks for; what the service refuses stands below it. @param {HTMLElement} form @param {() => Promise<string>} ask */
function answering(form, ask) {
  const told = make("p", "refused");
  told.setAttribute("role", "status");
  form.append(told);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    told.textContent = "";
    ask().then((text) => told.textContent = text, (error) => told.textContent = String(error?.message ?? error));
  });
}

/** A form that forks the game at the cursor, and leads to the fork. @param {Cursor} cursor @param {Frames} frames @param {Tools} tools */
function playOn(frames, cursor, tools) {
  const [white, black] = [choice("White moves", "external"), choice("Black moves", "random")];
  const form = make("form", "", white.label, black.label, submit("Play"));
  answering(form, async () => {
    const players = { white: white.select.value, black: black.select.value };
    const { world_id } = await /** @type {NonNullable<Tools["post"]>} */ (tools.post)("/v1/games", {
      white: { agent_id: `white-${players.white}` },
      black: { agent_id: `black-${players.black}` },
      players,
      deadline_s: null,
      fork_of: { world_id: frames.world.world_id, at: `seq:${cursor.seq}` },
    });
    tools.visit(String(world_id));
    return "";
  });
  return make("details", "", make("summary", "", "Play on from here"), form);
}

/** A form for the next move of a side that is moved by hand. @param {Frames} frames @param {Tools} tools @param {() => Json | undefined} turn */
function byHand(frames, tools, turn) {
  const input = document.createElement("input");
  input.required = true;
  input.size = 8;
  input.placeholder = "e4, e2e4";
  const form = make("form", "", make("label", "", "Your move ", input), submit("Move"));
  const path = `/v1/games/${encodeURIComponent(frames.world.world_id)}/moves?tensor=false`;
  answering(form, async () => {
    const body = { player: turn() ?? "", move: input.value.trim() };
    const { accepted, detail, reason } = await /** @type {NonNullable<Tools["post"]>} */ (tools.post)(path, body);
    if (accepted !== true) return `Refused: ${detail ?? reason ?? "an illegal move"}`;
    input.value = "";
    return "";
  });
  return form;
}

/** @param {HTMLElement} element @param {Frames} frames @param {Cursor} cursor @param {Tools} tools */
export function panel(element, frames, cursor, tools) {
  const left = make("div", "");
  const forms = make("div", "");
  /** Who moves each side, if the game is played here. */
  const movers = object(object(frames.world.config["live"])["players"]);
  /** @type {Json | undefined} */
  let turn;
  const [onward, hand] = [playOn(frames, cursor, tools), byHand(frames, tools, () => turn)];
  forms.append(hand, onward);
  const list = make("ol", "");
  list.setAttribute("aria-label", "Moves");
  const root = make("div", "chess", make("div", "", left, forms), list);
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
    const frame = frames.at(cursor.seq);
    if (frame !== undefined) place(frame.state);
    // Last, as it asks where things are: the page is laid out once.
    mark();
  };
  /** @param {Shown} state */
  const place = ({ entities }) => {
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
    turn = here["turn"];
    const isPlayed = here["status"] === "in_progress" && frames.agent === null && tools.post !== undefined;
    onward.hidden = !isPlayed;
    const isLater = entries.some(({ seq }) => seq > cursor.seq);
    hand.hidden = !isPlayed || isLater || movers[String(turn)] !== "external";
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
