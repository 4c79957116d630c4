// The sandbox: a map of whatever has a position, with trails, and the messages up to the cursor.

/**
 * @import { Cursor, Effect, Frames } from "../../../../console/src/core/panel.ts"
 * @import { Json } from "../../../../console/src/core/json.ts"
 */

export const version = 1;

const STYLE = new CSSStyleSheet();
STYLE.replaceSync(`
.sandbox canvas { width: 100%; height: 20rem; display: block; border: 1px solid var(--line); border-radius: 5px; }
.sandbox .feed { max-height: 14rem; overflow: auto; margin: 0.4rem 0; }
.sandbox .feed li { padding: 0.1rem 0; overflow-wrap: anywhere; }
.sandbox .feed button { border: 0; background: none; padding: 0; color: var(--accent); }
`);
document.adoptedStyleSheets.push(STYLE);

/** Effects back to which trails reach, steps between two points of one, entities with names, messages in sight. */
const [TRAIL, STEP, NAMED, MESSAGES] = [64, 4, 40, 20];
/** Pixels around the map. */
const EDGE = 24;

/** @param {string} tag @param {string} className @param {...(Node | string)} inside */
function make(tag, className, ...inside) {
  const made = document.createElement(tag);
  if (className !== "") made.className = className;
  made.append(...inside);
  return made;
}

/** @param {Json | undefined} value @returns {[number, number] | null} */
function point(value) {
  if (!Array.isArray(value)) return null;
  const [x, y] = value;
  return typeof x === "number" && typeof y === "number" ? [x, y] : null;
}

/** Where everything is at a seq. @param {Frames} frames @param {number} seq @returns {Map<string, [number, number]>} */
function places(frames, seq) {
  const state = frames.at(seq)?.state;
  const found = new Map();
  if (state === undefined) return found;
  if (state.spatial_index !== undefined) {
    for (const [name, place] of Object.entries(state.spatial_index)) found.set(name, point(place));
  } else {
    for (const [name, entity] of Object.entries(state.entities)) {
      if (typeof entity === "object" && entity !== null && !Array.isArray(entity)) {
        found.set(name, point(entity["position"]));
      }
    }
  }
  for (const [name, place] of found) if (place === null) found.delete(name);
  return found;
}

/** @param {HTMLElement} element @param {Frames} frames @param {Cursor} cursor */
export function panel(element, frames, cursor) {
  const canvas = document.createElement("canvas");
  canvas.setAttribute("role", "img");
  const feed = make("ul", "feed");
  feed.setAttribute("aria-label", "Messages, the newest first");
  const root = make("div", "sandbox", canvas, feed);
  element.append(root);
  /** The part of the plane that was needed so far: it grows, so that the map does not jump. */
  const extent = { left: Infinity, right: -Infinity, bottom: Infinity, top: -Infinity };
  /** @type {Effect[]} */
  let messages = [];
  /** The size of the canvas, told by the browser: asking would have it lay out the page for each frame. So do colours. */
  /** @type {[number, number]} */
  let room = [0, 0];
  /** @type {string[]} */
  let colours = [];
  /** The last message that is shown. */
  let latest = -1;

  const drawMap = () => {
    const now = places(frames, cursor.seq);
    canvas.hidden = now.size === 0;
    if (now.size === 0) return;
    for (const [x, y] of now.values()) {
      extent.left = Math.min(extent.left, x);
      extent.right = Math.max(extent.right, x);
      extent.bottom = Math.min(extent.bottom, y);
      extent.top = Math.max(extent.top, y);
    }
    const ratio = devicePixelRatio || 1;
    const [width, height] = room;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    }
    const context = canvas.getContext("2d");
    if (context === null || width === 0) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const [ink, quiet, accent] = colours;
    const span = Math.max(extent.right - extent.left, extent.top - extent.bottom, 1e-9);
    const scale = (Math.min(width, height) - 2 * EDGE) / span;
    /** @param {[number, number]} place */
    const at = ([x, y]) => [
      width / 2 + (x - (extent.left + extent.right) / 2) * scale,
      height / 2 - (y - (extent.bottom + extent.top) / 2) * scale,
    ];
    context.strokeStyle = context.fillStyle = String(quiet);
    context.globalAlpha = 0.5;
    /** @type {Map<string, [number, number]>} */
    let before = now;
    for (let seq = cursor.seq - STEP; seq >= Math.max(1, cursor.seq - TRAIL); seq -= STEP) {
      const then = places(frames, seq);
      if (then.size === 0) break;
      context.beginPath();
      for (const [name, place] of then) {
        const next = before.get(name);
        if (next === undefined || (next[0] === place[0] && next[1] === place[1])) continue;
        context.moveTo(.../** @type {[number, number]} */ (at(place)));
        context.lineTo(.../** @type {[number, number]} */ (at(next)));
      }
      context.stroke();
      before = then;
    }
    context.globalAlpha = 1;
    const moved = new Set(
      [...frames.at(cursor.seq)?.changed ?? []].map((pointer) =>
        pointer.split("/")[2]?.replaceAll("~1", "/").replaceAll("~0", "~")
      ),
    );
    const marks = frames.at(cursor.seq)?.marks ?? new Map();
    context.font = "12px system-ui, sans-serif";
    for (const [name, place] of now) {
      const [x, y] = /** @type {[number, number]} */ (at(place));
      const pointer = `/entities/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
      const mark = marks.get(pointer) ?? marks.get(`${pointer}/position`);
      context.fillStyle = context.strokeStyle = String(moved.has(name) ? accent : ink);
      context.beginPath();
      context.arc(x, y, moved.has(name) ? 6 : 4, 0, 2 * Math.PI);
      context.setLineDash(mark === "hidden" ? [2, 2] : []);
      if (mark === undefined) context.fill();
      else context.stroke();
      if (now.size <= NAMED) context.fillText(mark === undefined ? name : `${name} ${mark}`, x + 8, y + 4);
    }
    canvas.setAttribute(
      "aria-label",
      `Map of ${now.size}: ${[...now].slice(0, NAMED).map(([name, [x, y]]) => `${name} at ${x}, ${y}`).join("; ")}`,
    );
  };
  const show = () => {
    drawMap();
    const { seq } = cursor;
    const end = messages.findLastIndex(({ global_seq }) => global_seq <= seq) + 1;
    if (end === latest) return;
    latest = end;
    // The newest is on top, so that nothing has to be scrolled.
    const said = messages.slice(Math.max(0, end - MESSAGES), end).reverse();
    feed.replaceChildren(...said.map(({ global_seq, source_id, payload }) => {
      const who = make("button", "", make("bdi", "", source_id));
      who.setAttribute("type", "button");
      who.title = `effect ${global_seq}`;
      who.addEventListener("click", () => cursor.go(global_seq));
      const text = String(payload["text"] ?? payload["message"] ?? payload["content"] ?? "");
      const to = payload["private"] === true ? ` to ${String(payload["target_id"] ?? "somebody")} alone` : "";
      return make("li", "", who, make("span", "wl-note", `${to}: `), make("bdi", "", text));
    }));
  };
  const load = async () => {
    const found = await frames.effects("Speak", "SpeakResponse", "MessageEmitted");
    if (found.length === messages.length) return;
    messages = found;
    latest = -1;
    show();
  };
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const paint = () => {
    const style = getComputedStyle(canvas);
    colours = ["--text", "--quiet", "--accent"].map((name) => style.getPropertyValue(name));
    drawMap();
  };
  scheme.addEventListener("change", paint);
  const watch = new ResizeObserver(([entry]) => {
    room = [entry?.contentRect.width ?? 0, entry?.contentRect.height ?? 0];
    paint();
  });
  watch.observe(canvas);
  const ends = [
    cursor.subscribe(show),
    frames.subscribe(() => (show(), void load())),
    () => watch.disconnect(),
    () => scheme.removeEventListener("change", paint),
  ];
  show();
  void load();
  return () => {
    for (const end of ends) end();
    root.remove();
  };
}
