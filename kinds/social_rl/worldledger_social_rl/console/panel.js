// A social-RL run: its rounds, that at the cursor with its messages, and each agent's feedback and cues.

/**
 * @import { Cursor, Effect, Frames } from "../../../../console/src/core/panel.ts"
 * @import { Json, Obj } from "../../../../console/src/core/json.ts"
 */

export const version = 1;

const STYLE = new CSSStyleSheet();
STYLE.replaceSync(`
.social-rl table { font-size: 0.9em; } .social-rl td:last-child { min-width: 9em; }
.social-rl .feed { max-height: 26rem; overflow: auto; margin: 0.4rem 0; }
.social-rl .feed li { border-left: 3px solid var(--line); padding: 0.15rem 0 0.15rem 0.6rem; margin: 0.3rem 0; }
.social-rl .feed li.latest { border-color: var(--accent); }
.social-rl .feed li.internal { border-left-style: dashed; }
.social-rl .content { display: block; white-space: pre-wrap; overflow-wrap: anywhere; }
.social-rl button { border: 0; background: none; padding: 0; color: var(--accent); }
.social-rl meter { width: 5em; }
.social-rl .rounds { display: flex; flex-wrap: wrap; gap: 0.1rem 0.8rem; max-height: 6rem; overflow: auto; }
.social-rl .rounds [aria-current] { background: var(--here); }
`);
document.adoptedStyleSheets.push(STYLE);

const METRICS = ["engagement", "theoretical_alignment", "contribution_value"];

/** @param {unknown} value @returns {Obj} */
const object = (value) => typeof value === "object" && value !== null ? /** @type {Obj} */ (value) : {};

/** @param {string} tag @param {string} className @param {...(Node | string)} inside */
function make(tag, className, ...inside) {
  const made = document.createElement(tag);
  if (className !== "") made.className = className;
  made.append(...inside);
  return made;
}

/** @param {Json | undefined} value @param {string} what */
function meter(value, what) {
  if (typeof value !== "number") return make("td", "");
  const made = document.createElement("meter");
  [made.min, made.max, made.value] = [0, 1, value];
  made.setAttribute("aria-label", what);
  return make("td", "", made, ` ${value.toFixed(2)}`);
}

/** Names that may be broken between their words. @param {string} names */
function broken(names) {
  const [first = "", ...rest] = names.split(/(?<=_)/);
  return make("bdi", "", first, ...rest.flatMap((word) => [make("wbr", ""), word]));
}

/** @param {HTMLElement} element @param {Frames} frames @param {Cursor} cursor */
export function panel(element, frames, cursor) {
  const about = make("p", "wl-note");
  const feed = make("ul", "feed");
  feed.setAttribute("aria-label", "Messages of the round");
  const agents = make("div", "scroll");
  agents.tabIndex = 0;
  agents.setAttribute("role", "region");
  agents.setAttribute("aria-label", "Agents");
  const rounds = make("div", "rounds");
  rounds.setAttribute("role", "group");
  rounds.setAttribute("aria-label", "Rounds");
  const root = make("div", "social-rl", rounds, about, feed, agents);
  element.append(root);
  /** @type {Effect[]} */
  let messages = [];

  /** @type {Effect[]} */
  let begun = [];
  /** The rounds, each a link to the last effect before the next: there it is complete. */
  const loadRounds = async () => {
    const found = await frames.effects("RoundStarted", "RoundEnded");
    if (found.length === begun.length) return;
    begun = found;
    /** @type {Map<Json | undefined, number>} */
    const ends = new Map(found.map(({ payload, global_seq }) => [payload["round_number"], global_seq]));
    rounds.replaceChildren(...[...ends].map(([number, seq]) => {
      const button = make("button", "", `Round ${String(number)}`);
      button.setAttribute("type", "button");
      button.dataset["round"] = String(number);
      button.addEventListener("click", () => cursor.go(seq));
      return button;
    }));
    show();
  };
  const load = async () => {
    const found = await frames.effects("MessageEmitted", "RoundSynthesised");
    if (found.length === messages.length) return;
    messages = found;
    show();
  };
  /** @param {Effect} effect @param {boolean} latest */
  const message = ({ global_seq: seq, kind, payload, source_id }, latest) => {
    const who = make("button", "", make("bdi", "", String(payload["agent_id"] ?? source_id)));
    who.setAttribute("type", "button");
    who.title = `effect ${seq}`;
    who.addEventListener("click", () => cursor.go(seq));
    const internal = payload["internal"] === true;
    const notes = [kind === "RoundSynthesised" ? "synthesis" : "", internal ? "for coaches only" : ""];
    const cue = payload["prar_cue_used"];
    if (typeof cue === "string" && cue !== "") notes.push(`cue: ${cue}`);
    const told = notes.filter((each) => each !== "").join(", ");
    const content = String(payload["content"] ?? payload["text"] ?? payload["synthesis"] ?? "");
    return make(
      "li",
      `${latest ? "latest" : ""} ${internal ? "internal" : ""}`.trim(),
      who,
      make("span", "wl-note", told === "" ? "" : ` ${told}`),
      make("bdi", "content", content),
    );
  };
  const show = () => {
    const { seq } = cursor;
    const frame = frames.at(seq);
    if (frame === undefined) return;
    const { entities, metadata } = frame.state;
    const run = object(metadata?.["social_rl"]);
    const round = run["round_number"];
    about.textContent = metadata === undefined
      ? ""
      : `Round ${round ?? "?"}${run["round_open"] === true ? ", running" : ""}${
        typeof run["condition"] === "string" ? ` · ${run["condition"]}` : ""
      }`;
    for (const button of rounds.querySelectorAll("button")) {
      button.toggleAttribute("aria-current", button.dataset["round"] === String(round));
    }
    const said = messages.filter((each) =>
      each.global_seq <= seq && (round === undefined || each.payload["round_number"] === round)
    );
    feed.replaceChildren(...said.map((each, index) => message(each, index === said.length - 1)));
    const head = ["agent", "messages", ...METRICS.map((each) => each.replaceAll("_", " ")), "cues in use"];
    const rows = Object.entries(entities).map(([name, value]) => {
      const agent = object(value);
      const feedback = object(agent["feedback"]);
      const cues = Object.entries(object(agent["cues"])).filter(([, cue]) => object(cue)["active"] === true);
      return make(
        "tr",
        "",
        make("th", "", make("bdi", "", name)),
        make("td", "", String(agent["messages"] ?? "")),
        ...METRICS.map((metric) => meter(feedback[metric], metric)),
        make("td", "", broken(cues.map(([cue]) => cue).join(", "))),
      );
    });
    const top = make("tr", "", ...head.map((each) => make("th", "", each)));
    agents.replaceChildren(
      make("table", "", make("caption", "unseen", "Agents"), make("thead", "", top), make("tbody", "", ...rows)),
    );
    // Last, as it asks how high the messages are: the page is laid out once.
    feed.scrollTop = feed.scrollHeight;
  };
  const ends = [cursor.subscribe(show), frames.subscribe(() => (show(), void load(), void loadRounds()))];
  show();
  void load();
  void loadRounds();
  return () => {
    for (const end of ends) end();
    root.remove();
  };
}
