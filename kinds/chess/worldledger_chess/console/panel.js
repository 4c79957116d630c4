// A game of chess: the board, the players, and the moves as they were made, commented and attempted, with the one that
// turned the game. A position can be played on from, and a side that is moved by hand is moved here.

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
.chess ol { margin: 0; padding: 0; list-style: none; max-height: 22rem; overflow: auto; }
.chess li { display: grid; grid-template-columns: 2.5em 1fr; gap: 0.3em; align-items: baseline; }
.chess li button { border: 0; background: none; padding: 0 0.3em; text-align: left; }
.chess li button[aria-current] { background: var(--here); }
.chess .dear { color: var(--bad); font-weight: 600; }
.chess .verdict { margin: 0 0 0.5rem; } .chess .verdict p { margin: 0.2rem 0; }
.chess .words { border-left: 3px solid var(--here); margin: 0 0 0.5rem; padding: 0.1rem 0.6rem; min-height: 6rem; max-height: 12rem; overflow: auto; }
.chess .words p { margin: 0.2rem 0; overflow-wrap: anywhere; white-space: pre-wrap; }
.chess .words .move { font-size: 0.9rem; font-weight: 600; }
.chess .later, .chess .later .wl-note { color: var(--quiet); font-style: italic; }
.chess .said { display: block; font-size: 0.9em; color: var(--quiet); white-space: pre-wrap; overflow-wrap: anywhere; }
.chess .words .said { color: var(--text); } .chess .by { color: var(--quiet); }
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

/** The usual worth of the pieces, in pawns, as in rules/measures.py. @type {Record<string, number>} */
const WORTH = { p: 1, n: 3, b: 3, r: 5, q: 9 };

/** White's material less black's, in pawns. @param {string} fen */
function material(fen) {
  let sum = 0;
  for (const sign of fen.split(/[ []/, 1)[0] ?? "") {
    const piece = sign.toLowerCase();
    sum += (sign === piece ? -1 : 1) * (WORTH[piece] ?? 0);
  }
  return sum;
}

/** What a lead of so many pawns is worth, from -1 to 1: lichess.org's winning chances. @param {number} pawns */
const chances = (pawns) => 2 / (1 + Math.exp(-0.368208 * pawns)) - 1;
/** The winning chances that a move costs, from the largest, and the sign for it: those of lichess.org. */
const DEAR = /** @type {const} */ ([[0.3, "??"], [0.2, "?"], [0.1, "?!"]]);
/** The signs of annotated moves, by their numbers (NAGs). @type {Record<number, string>} */
const NAGS = { 1: "!", 2: "?", 3: "!!", 4: "??", 5: "!?", 6: "?!" };
/** Members of a payload in which something is said of a move. Comments are the record's, the others the player's. */
const SAID = ["comment", "reasoning", "detail"];
/** Kinds of effects in which players write. */
const WRITTEN = ["GenerationText", "Speak", "MessageEmitted", "ReasoningRecorded"];

/**
 * What is known of a position: how it was evaluated, and its material, each with its winning chances and as text.
 * @typedef {{ chance: number; text: string }} Standing @typedef {Record<"evaluation" | "material", Standing | null>} Known
 * @param {Obj} payload of the move that led to it @returns {Known}
 */
function known({ san_notation: san, player, fen, evaluation }) {
  if (String(san).endsWith("#")) {
    const mated = { chance: player === "white" ? 1 : -1, text: "mate" };
    return { evaluation: mated, material: mated };
  }
  const { cp, mate } = object(evaluation);
  const chance = typeof mate === "number" ? Math.sign(mate) : typeof cp === "number" ? chances(cp / 100) : null;
  const counted = typeof fen === "string" ? material(fen) : null;
  return {
    evaluation: chance === null ? null : { chance, text: worth(evaluation) },
    material: counted === null ? null : { chance: chances(counted), text: worth({ cp: 100 * counted }) },
  };
}

/**
 * What each move cost its player. The reply shows it, and a piece that is won back with the next move was not lost. What
 * the record says of a move by itself goes before what is worked out.
 * @param {Obj[]} moves payloads @param {Known | null} start what is known of the first position
 * @returns {{ cost: number; sign: string; told: string }[]}
 */
function judged(moves, start) {
  const after = moves.map(known);
  return moves.map((move, index) => {
    const side = move["player"] === "white" ? 1 : -1;
    const nags = Array.isArray(move["nags"]) ? move["nags"] : [];
    const noted = nags.map((each) => NAGS[Number(each)]).find((each) => each !== undefined);
    const before = index === 0 ? start : after[index - 1];
    for (const by of /** @type {const} */ (["evaluation", "material"])) {
      const was = before?.[by] ?? null;
      const shown = [1, 2].flatMap((later) => {
        const standing = after[index + later]?.[by] ?? null;
        return standing === null ? [] : [{ ...standing, with: ` with ${moves[index + later]?.["san_notation"]}` }];
      });
      const own = after[index]?.[by] ?? null;
      const ends = shown.length > 0 ? shown : own === null ? [] : [{ ...own, with: "" }];
      if (was === null || ends.length === 0 || own?.text === "mate") continue;
      const end = ends.reduce((best, each) => side * each.chance > side * best.chance ? each : best);
      const cost = side * (was.chance - end.chance);
      const sign = DEAR.find(([least]) => cost >= least)?.[1] ?? "";
      const told = `${was.text} → ${end.text}${end.with}, by ${
        by === "material" ? "material" : "the recorded evaluations"
      }`;
      return { cost, sign: noted ?? sign, told: noted === undefined ? told : `noted by the record; ${told}` };
    }
    return { cost: 0, sign: noted ?? "", told: noted === undefined ? "" : "noted by the record" };
  });
}

/** Who a payload says its player is, or else its source. @param {Effect} effect */
const author = ({ payload, source_id }) => String(payload["agent_id"] ?? source_id);

/**
 * What is said in an effect, and by whom.
 * @typedef {{ by: string; said: string }} Words
 * @param {Effect} effect @param {string} annotator who wrote the comments of the record; empty where it does not say
 * @param {...string} others members in which it may be, too @returns {Words[]}
 */
function saidIn(effect, annotator, ...others) {
  return [...SAID, ...others].flatMap((name) => {
    const said = effect.payload[name];
    const by = name === "comment" ? annotator || "comment in the record" : author(effect);
    return typeof said === "string" && said !== "" ? [{ by, said }] : [];
  });
}

/** Words with their author before them. @param {string} tag @param {Words} words */
const quoted = (tag, { by, said }) => make(tag, "said", make("bdi", "by", by), ": ", make("bdi", "", said));

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
  // Until it is known whose move it is.
  hand.form.hidden = onward.hidden = true;
  forms.append(hand.form, onward);
  const list = make("ol", "");
  list.setAttribute("aria-label", "Moves");
  const verdict = make("div", "verdict");
  const words = make("div", "words");
  words.tabIndex = 0;
  words.setAttribute("role", "region");
  words.setAttribute("aria-label", `What was written${frames.agent === null ? "" : `, beside ${frames.agent}`}`);
  const root = make("div", "chess", make("div", "", left, forms), make("div", "", verdict, words, list));
  element.append(root);
  /** @type {{ seq: number; button: HTMLElement; item: HTMLElement; effect: Effect; text: string; sign: string; told: string }[]} */
  let entries = [];
  let counted = -1;
  /** Who wrote the comments of the record; empty where it does not say. */
  let annotator = "";
  /** The side that lost. @type {string | undefined} */
  let lost;
  /** The moves with which something was written. @type {({ index: number; seq: number; text: string; side: Json | undefined } & Words)[]} */
  let spoken = [];
  /** The entry of which the words are shown. @type {unknown} */
  let told;
  /** What players wrote besides their moves. @type {Effect[]} */
  let written = [];

  /** @param {Effect} effect @param {{ sign: string; told: string } | undefined} judgement */
  const entry = (effect, judgement) => {
    const { global_seq: seq, kind, payload } = effect;
    const refused = kind === "MoveRejected";
    const { sign = "", told = "" } = judgement ?? {};
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
    if (sign !== "") {
      const noted = make("span", sign.startsWith("?") ? "dear" : "", ` ${sign}`);
      noted.title = told;
      button.append(noted);
    }
    const facts = [worth(payload["evaluation"]), clock(payload["clock"])].filter((each) => each !== "").join("  ");
    const body = make("span", "", button, facts === "" ? "" : ` ${facts}`);
    for (const { said } of saidIn(effect, annotator)) body.append(make("bdi", "said", said));
    const item = make("li", "", make("span", "wl-note", number), body);
    return { seq, button, item, effect, text: refused ? text : `${number} ${text}`, sign, told };
  };
  const load = async () => {
    const effects = await frames.effects("GameStarted", "MoveMade", "MoveRejected", "GameEnded");
    if (effects.length === counted) return;
    counted = effects.length;
    const moves = effects.filter(({ kind }) => kind === "MoveMade");
    const { initial_fen: start, tags } = object(effects.find(({ kind }) => kind === "GameStarted")?.payload);
    const ended = effects.find(({ kind }) => kind === "GameEnded")?.payload;
    annotator = String(object(tags)["Annotator"] ?? "");
    lost = { white_wins: "black", black_wins: "white" }[String(ended?.["result"])];
    // A fork has no GameStarted, and its first position is not one that the game began with.
    const costs = judged(
      moves.map(({ payload }) => payload),
      typeof start === "string" ? known({ fen: start }) : null,
    );
    const of = new Map(moves.map(({ global_seq }, index) => [global_seq, costs[index]]));
    entries = effects.filter(({ kind }) => kind === "MoveMade" || kind === "MoveRejected").map((effect) =>
      entry(effect, of.get(effect.global_seq))
    );
    spoken = entries.flatMap(({ seq, text, effect }, index) =>
      saidIn(effect, annotator).slice(0, 1).map((said) => ({
        index,
        seq,
        text,
        side: effect.payload["player"],
        ...said,
      }))
    );
    list.replaceChildren(...entries.map(({ item }) => item));
    judge(ended, moves, costs);
    mark();
    written = await frames.effects(...WRITTEN);
    told = undefined;
    tellWords();
  };
  /** @param {string} title @param {number} seq */
  const leading = (title, seq) => {
    const button = make("button", "", title);
    button.setAttribute("type", "button");
    button.addEventListener("click", () => cursor.go(seq));
    return button;
  };
  /** The same in a line of text. @param {string} title @param {number} seq */
  const link = (title, seq) => {
    const button = leading(title, seq);
    button.className = "link";
    return button;
  };
  /**
   * Lead to where the game was lost: to the illegal move that ended it, or to the move that cost its loser most; of a
   * game that nobody lost, to the dearest one.
   * @param {Obj | undefined} ended @param {Effect[]} moves @param {{ cost: number; sign: string; told: string }[]} costs
   */
  const judge = (ended, moves, costs) => {
    const ofLoser = moves.map((move, index) => ({ move, cost: costs[index]?.cost ?? 0 }))
      .filter(({ move }) => lost === undefined || move.payload["player"] === lost)
      .filter(({ cost }) => cost >= DEAR[2][0]);
    const dearest = ofLoser.length === 0
      ? undefined
      : ofLoser.reduce((most, each) => each.cost > most.cost ? each : most);
    const turn = entries.find(({ effect }) => effect === dearest?.move);
    const last = entries.at(-1);
    const isIllegal = last?.effect.kind === "MoveRejected" && ended?.["reason"] === "illegal_move";
    const title = lost === undefined ? "Largest swing" : "Where it was lost";
    /** @type {(Node | string)[]} */
    const inside = [];
    if (isIllegal) inside.push(leading(`${title}: the illegal move ${last.text}`, last.seq), " ");
    if (turn !== undefined) {
      const named = `${turn.text} ${turn.sign}`.trim();
      const why = make("span", "wl-note", ` ${turn.told}`);
      if (isIllegal) inside.push(make("span", "wl-note", "before it cost most: "), link(named, turn.seq), why);
      else inside.push(leading(`${title}: ${named}`, turn.seq), why);
    } else if (lost !== undefined && !isIllegal) {
      inside.push(
        make("span", "wl-note", `No move of ${lost} shows as a mistake: nothing is known but material and mate.`),
      );
    }
    const many = spoken.length === 1 ? "one move" : `${spoken.length} moves`;
    const written = spoken.length === 0 ? [] : [make("p", "wl-note", `Something was written about ${many}.`)];
    verdict.replaceChildren(make("p", "", ...inside), ...written);
  };
  /** A link to the nearest move that something was written with, of the loser's if there is one. @param {number} at */
  const nearest = (at) => {
    const far = ({ index = 0 }) => Math.abs(index - at);
    const ofLoser = spoken.filter(({ side }) => lost !== undefined && side === lost);
    const [first, ...others] = ofLoser.length > 0 ? ofLoser : spoken;
    if (first === undefined) return [];
    const near = others.reduce((best, each) => far(each) < far(best) ? each : best, first);
    return [make("p", "wl-note", "The nearest words: ", leading(near.text, near.seq), " ", quoted("span", near))];
  };
  /** What the player of the move at the cursor wrote about it: with it, or between the moves around it. */
  const tellWords = () => {
    const at = entries.findLastIndex((each) => each.seq <= cursor.seq);
    const now = entries[at];
    words.hidden = now === undefined;
    if (now === undefined || now === told) return;
    told = now;
    const who = author(now.effect);
    const [from, to] = [entries[at - 1]?.seq ?? 0, entries[at + 1]?.seq ?? Infinity];
    const own = written.filter((each) => each.global_seq > from && each.global_seq < to && author(each) === who)
      .filter(({ kind, payload }) => kind !== "GenerationText" || payload["part"] === "output");
    const texts = [
      ...saidIn(now.effect, annotator),
      ...own.flatMap((each) => saidIn(each, annotator, "text", "content")),
    ];
    const title = make("p", "move", `${now.text} ${now.sign} by `, make("bdi", "", who));
    const why = now.told === "" || now.sign === "" ? [] : [make("p", "wl-note", now.told)];
    const said = texts.length === 0
      ? [make("p", "wl-note", "Nothing was written about this move."), ...nearest(at)]
      : texts.map((each) => quoted("p", each));
    words.replaceChildren(title, ...why, ...said);
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
    tellWords();
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
