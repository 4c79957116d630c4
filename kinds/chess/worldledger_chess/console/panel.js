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
.chess .chosen { fill: #3f8f5f; fill-opacity: 0.7; } .chess .target { fill: #1f6b42; fill-opacity: 0.75; }
.chess .movable { cursor: pointer; }
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
 * @param {string} chosen the square of the piece that is to move @param {Set<string>} targets where it may move
 */
function board(fen, last, check, chosen, targets) {
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
      if (square === chosen) svg.append(draw("rect", { ...place, class: "chosen" }));
      if (figure !== undefined) {
        svg.append(draw("text", { x: column + 0.5, y: row + 0.5, class: side }, figure));
        told.push(`${side} ${NAMES[sign.toLowerCase()]} ${square}`);
      }
      if (targets.has(square)) {
        svg.append(draw("circle", { cx: column + 0.5, cy: row + 0.5, r: 0.16, class: "target" }));
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

/**
 * Do what a form asks for; what the service refuses stands below it. Returns a function that does something else so.
 * @param {HTMLElement} form @param {() => Promise<string>} ask
 */
function answering(form, ask) {
  const told = make("p", "refused");
  told.setAttribute("role", "status");
  form.append(told);
  /** @param {() => Promise<string>} work */
  const attempt = (work) => {
    told.textContent = "";
    return work().then(
      (text) => told.textContent = text,
      (error) => told.textContent = String(error?.message ?? error),
    );
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void attempt(ask);
  });
  return attempt;
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

/**
 * The next move of a side that is moved by hand: by a form, or by clicks on a piece and on where it is to go. What is
 * legal says the service, once for each position.
 * @param {Frames} frames @param {Cursor} cursor @param {Tools} tools @param {() => void} redraw
 */
function byHand(frames, cursor, tools, redraw) {
  const input = document.createElement("input");
  input.required = true;
  input.size = 8;
  input.placeholder = "e4, e2e4";
  const choices = make("div", "");
  choices.setAttribute("role", "group");
  choices.setAttribute("aria-label", "Promote to");
  const form = make("form", "", make("label", "", "Your move ", input), submit("Move"), choices);
  const path = `/v1/games/${encodeURIComponent(frames.world.world_id)}`;
  /** The position that legal moves are known of, or asked for. @type {{ fen: string; ply: Json }} */
  let position = { fen: "", ply: null };
  /** Who was last to move: a move may be sent while the page goes on to another effect. @type {Json} */
  let mover = null;
  /** @type {string[]} */
  let legal = [];
  let chosen = "";

  /** @param {Obj} body */
  const move = async (body) => {
    const post = /** @type {NonNullable<Tools["post"]>} */ (tools.post);
    const { accepted, detail, reason } = await post(`${path}/moves?tensor=false`, { player: mover, ...body });
    if (accepted !== true) return `Refused: ${detail ?? reason ?? "an illegal move"}`;
    input.value = "";
    return "";
  };
  const attempt = answering(form, () => move({ move: input.value.trim() }));
  /** @param {string} square */
  const choose = (square) => {
    chosen = square;
    choices.replaceChildren();
  };
  /** Legal moves of a position, or none while they are not known. @param {string[]} moves */
  const know = (moves) => {
    legal = moves;
    choose("");
  };
  /** @param {string} uci */
  const made = (uci) => {
    const { fen, ply } = position;
    know([]);
    redraw();
    /** It counts in this position only. @type {Obj} */
    const body = typeof ply === "number" ? { move: uci, ply: ply + 1 } : { move: uci };
    void attempt(() => move(body)).then(() => {
      // Refused, such as for another one's move: the position may be the same, and is asked about again.
      if (position.fen === fen) position = { ...position, fen: "" };
      redraw();
    });
  };
  const ask = async () => {
    const { fen } = position;
    const get = /** @type {NonNullable<Tools["get"]>} */ (tools.get);
    const told = object((await get(`${path}?tensor=false&moves=false&min_seq=${cursor.seq}`))["board_state"]);
    const placed = (/** @type {Json | undefined} */ each) => String(each).split(" ", 2).join(" ");
    if (position.fen !== fen || placed(told["fen"]) !== placed(fen)) return;
    know(/** @type {string[]} */ (told["legal_moves"]));
    redraw();
  };
  return {
    form,
    get chosen() {
      return chosen;
    },
    /** Whether a piece may be clicked at. */
    get isKnown() {
      return legal.length > 0;
    },
    /** Where the piece that is chosen may move. */
    get targets() {
      return new Set(legal.filter((each) => chosen !== "" && each.startsWith(chosen)).map((each) => each.slice(2, 4)));
    },
    /** Take what may be moved: in a position, or nothing now. @param {Obj | null} here */
    at(here) {
      form.hidden = here === null;
      const fen = here === null ? "" : String(here["fen"]);
      if (fen === position.fen) return;
      position = { fen, ply: here?.["ply"] ?? null };
      if (here !== null) mover = here["turn"] ?? null;
      know([]);
      // Without an answer moves are typed.
      if (here !== null) ask().catch(() => undefined);
    },
    /** @param {string} square */
    click(square) {
      const moves = legal.filter((each) => chosen !== "" && each.startsWith(`${chosen}${square}`));
      if (moves.length === 1) return made(/** @type {string} */ (moves[0]));
      if (moves.length === 0) choose(square !== chosen && legal.some((each) => each.startsWith(square)) ? square : "");
      else {
        choices.replaceChildren(...moves.map((each) => {
          const button = make("button", "", NAMES[each.slice(4)] ?? each);
          button.setAttribute("type", "button");
          button.addEventListener("click", () => made(each));
          return button;
        }));
        /** @type {HTMLElement} */ (choices.firstElementChild).focus();
      }
      redraw();
    },
  };
}

/** @param {HTMLElement} element @param {Frames} frames @param {Cursor} cursor @param {Tools} tools */
export function panel(element, frames, cursor, tools) {
  const left = make("div", "");
  const forms = make("div", "");
  /** Who moves each side, if the game is played here. */
  const movers = object(object(frames.world.config["live"])["players"]);
  const [onward, hand] = [playOn(frames, cursor, tools), byHand(frames, cursor, tools, () => show())];
  forms.append(hand.form, onward);
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
    const isPlayed = here["status"] === "in_progress" && frames.agent === null && tools.post !== undefined;
    onward.hidden = !isPlayed;
    const isLater = entries.some(({ seq }) => seq > cursor.seq);
    hand.at(isPlayed && !isLater && movers[String(here["turn"])] === "external" ? here : null);
    const outcome = [here["result"], here["status"] === "in_progress" ? null : here["status"], here["reason"]]
      .filter((each) => typeof each === "string" && each !== "");
    const last = String(object(here["last_move"])["uci_notation"] ?? "");
    const drawn = board(String(here["fen"] ?? ""), last, here["is_check"] === true, hand.chosen, hand.targets);
    drawn.classList.toggle("movable", hand.isKnown);
    drawn.addEventListener("click", ({ clientX, clientY }) => {
      const { left: x, top: y, width, height } = drawn.getBoundingClientRect();
      const [column, row] = [Math.floor((8 * (clientX - x)) / width), Math.floor((8 * (clientY - y)) / height)];
      hand.click(`${"abcdefgh"[column]}${8 - row}`);
    });
    left.replaceChildren(
      player("black"),
      drawn,
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
