/** Messages up to the cursor, the newest on top, with the agents that could see each. */

import type { Cursor, Effect, Frames } from "../core/panel.ts";
import { plain } from "../core/text.ts";

/** Messages in sight, and milliseconds for which the cursor rests before it is asked who saw them. */
const [MESSAGES, REST_MS] = [20, 250];
/** Members of payloads with what was said. */
const SAID = ["text", "message", "content"];

function make(tag: string, className: string, ...inside: (Node | string)[]): HTMLElement {
  const made = document.createElement(tag);
  if (className !== "") made.className = className;
  made.append(...inside);
  return made;
}

/** Show messages, the effects of these kinds, in an element; returns how to end that. */
export function feed(element: HTMLElement, frames: Frames, cursor: Cursor, ...kinds: string[]): () => void {
  const list = make("ul", "feed");
  list.setAttribute("aria-label", "Messages, the newest first");
  element.append(list);
  let messages: Effect[] = [];
  /** How many messages there are up to the cursor. */
  let latest = -1;
  let waiting: number | undefined;

  const item = ({ global_seq, source_id, payload }: Effect): HTMLElement => {
    const who = make("button", "link", make("bdi", "", source_id));
    who.setAttribute("type", "button");
    who.title = `effect ${global_seq}`;
    who.addEventListener("click", () => cursor.go(global_seq));
    const said = SAID.map((name) => payload[name]).find((text) => text !== undefined && text !== null);
    const alone = payload["private"] === true ? ` to ${plain(payload["target_id"] ?? "somebody")} alone` : "";
    const seen = make("small", "seen");
    seen.dataset["seq"] = String(global_seq);
    return make("li", "", who, make("span", "wl-note", `${alone}: `), make("bdi", "", plain(said)), " ", seen);
  };
  const tell = async () => {
    const places = [...list.querySelectorAll<HTMLElement>(".seen")];
    const seqs = places.map((place) => Number(place.dataset["seq"]));
    if (seqs.length === 0) return;
    const seen = await frames.seenBy(Math.min(...seqs), Math.max(...seqs)).catch(() => null);
    for (const place of seen === null ? [] : places) {
      const agents = seen?.get(Number(place.dataset["seq"])) ?? [];
      place.replaceChildren(agents.length === 0 ? "seen by no agent" : "seen by ", make("bdi", "", agents.join(", ")));
    }
  };
  const show = () => {
    const end = messages.findLastIndex(({ global_seq }) => global_seq <= cursor.seq) + 1;
    if (end === latest) return;
    latest = end;
    // The newest is on top, so that nothing has to be scrolled.
    list.replaceChildren(...messages.slice(Math.max(0, end - MESSAGES), end).reverse().map(item));
    clearTimeout(waiting);
    if (frames.agent === null) waiting = setTimeout(() => void tell(), REST_MS);
  };
  const load = async () => {
    const found = await frames.effects(...kinds);
    if (found.length === messages.length) return;
    messages = found;
    latest = -1;
    show();
  };
  const ends = [cursor.subscribe(show), frames.subscribe(() => (show(), void load()))];
  show();
  void load();
  return () => {
    for (const end of ends) end();
    clearTimeout(waiting);
    list.remove();
  };
}
