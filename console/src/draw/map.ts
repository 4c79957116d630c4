/** A map of whatever has a position, with trails, on a canvas. */

import { agentsWithout, type Shown, SIGNS } from "../core/belief.ts";
import { STEP } from "../core/frames.ts";
import { below, type Json, steps } from "../core/json.ts";
import type { Cursor, Frames } from "../core/panel.ts";
import { throttled } from "../core/throttle.ts";

type Point = readonly [x: number, y: number];
type Places = ReadonlyMap<string, Point>;

/** Effects back to which trails reach, entities with names, pixels around the map. */
const [TRAIL, NAMED, EDGE] = [64, 40, 24];
/** Pixels between a point and its label, and between the lines of two labels. */
const [APART, LINE] = [8, 14];
/** Milliseconds between two times that the map is put into words. */
const WORDS_MS = 250;

function point(value: Json | undefined): Point | null {
  if (!Array.isArray(value)) return null;
  const [x, y] = value;
  return typeof x === "number" && typeof y === "number" ? [x, y] : null;
}

/** What `places` has found, by the state: those along trails are asked for with each move of the cursor. */
const known = new WeakMap<Shown, Places>();

/** Where everything is at a seq: by the index of the truth, by the entities' positions in a belief. */
export function places(frames: Frames, seq: number): Places {
  const state = frames.at(seq)?.state;
  return state === undefined ? new Map() : known.get(state) ?? placesIn(state);
}

function placesIn(state: Shown): Places {
  const found = new Map<string, Point>();
  known.set(state, found);
  const { spatial_index: index, entities } = state;
  for (const name of Object.keys(index ?? entities)) {
    const entity = entities[name];
    const place = index === undefined
      ? point(typeof entity === "object" && entity !== null && !Array.isArray(entity) ? entity["position"] : undefined)
      : point(index[name]);
    if (place !== null) found.set(name, place);
  }
  return found;
}

/** The part of the plane that the maps on a cursor have needed so far: it grows, so that they do not jump. */
interface Extent {
  left: number;
  right: number;
  bottom: number;
  top: number;
  /** Draws each of them: they have one scale. */
  draws: Set<() => void>;
}

const extents = new WeakMap<Cursor, Extent>();

/** What `moves` has found last, by where everything was before: trails are made of the same moves for many frames. */
const lastMoves = new WeakMap<Places, { to: Places; found: readonly (readonly [Point, Point])[] }>();

/** From where to where something has moved between two states. */
function moves(from: Places, to: Places): readonly (readonly [Point, Point])[] {
  const last = lastMoves.get(from);
  if (last?.to === to) return last.found;
  const found: [Point, Point][] = [];
  for (const [name, before] of from) {
    const after = to.get(name);
    if (after !== undefined && (after[0] !== before[0] || after[1] !== before[1])) found.push([before, after]);
  }
  lastMoves.set(from, { to, found });
  return found;
}

/** A label on a map: its left end, its base line and its width. */
interface Label {
  left: number;
  base: number;
  wide: number;
}

/** Where a label so wide goes: beside its point, above or below, so that it covers no other and no point if there is room. */
function placed(wide: number, [x, y]: Point, width: number, others: readonly Label[], points: readonly Point[]): Label {
  const right = { left: x + APART, base: y + 4, wide };
  const left = { ...right, left: x - APART - wide };
  const above = { left: x - wide / 2, base: y - APART, wide };
  const spots = [right, left, above, { ...above, base: y + APART + 10 }];
  const isFree = (spot: Label) =>
    spot.left >= 0 && spot.left + wide <= width &&
    others.every((other) =>
      Math.abs(other.base - spot.base) >= LINE || other.left + other.wide < spot.left || spot.left + wide < other.left
    ) &&
    points.every(([left, top]) =>
      Math.abs(top + 4 - spot.base) >= LINE / 2 || left + APART / 2 < spot.left || spot.left + wide < left - APART / 2
    );
  return spots.find(isFree) ?? (right.left + wide > width ? left : right);
}

/** Keep a map up to date on a canvas, which is hidden while nothing has a position; returns how to end that. */
export function drawMap(canvas: HTMLCanvasElement, frames: Frames, cursor: Cursor): () => void {
  const extent: Extent = extents.get(cursor) ??
    { left: Infinity, right: -Infinity, bottom: Infinity, top: -Infinity, draws: new Set() };
  extents.set(cursor, extent);
  /** The size of the canvas, told by the browser: asking would have it lay out the page for each frame. So do colours. */
  let room: readonly [number, number] = [0, 0];
  let colours: string[] = [];
  /** Widths of labels: to measure one takes longer than to draw it. */
  const widths = new Map<string, number>();
  const widthOf = (context: CanvasRenderingContext2D, text: string): number => {
    const known = widths.get(text) ?? context.measureText(text).width;
    widths.set(text, known);
    return known;
  };

  const draw = () => {
    const { seq } = cursor;
    const now = places(frames, seq);
    canvas.hidden = now.size === 0;
    if (now.size === 0) return;
    const { left, right, bottom, top } = extent;
    const widen = ([x, y]: Point) => {
      extent.left = Math.min(extent.left, x);
      extent.right = Math.max(extent.right, x);
      extent.bottom = Math.min(extent.bottom, y);
      extent.top = Math.max(extent.top, y);
    };
    for (const place of now.values()) widen(place);
    const walked: (readonly [Point, Point])[] = [];
    let next = now;
    // At multiples of the step, which stay the same for a cursor that moves on.
    for (let then = Math.ceil(seq / STEP - 1) * STEP; then >= Math.max(1, seq - TRAIL); then -= STEP) {
      const before = places(frames, then);
      if (before.size === 0) break;
      for (const move of moves(before, next)) {
        widen(move[0]);
        walked.push(move);
      }
      next = before;
    }
    if (extent.left < left || extent.right > right || extent.bottom < bottom || extent.top > top) {
      for (const other of extent.draws) if (other !== draw) other();
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
    const [ink, quiet, accent] = colours as [string, string, string];
    const span = Math.max(extent.right - extent.left, extent.top - extent.bottom, 1e-9);
    const scale = (Math.min(width, height) - 2 * EDGE) / span;
    const at = ([x, y]: Point): [number, number] => [
      width / 2 + (x - (extent.left + extent.right) / 2) * scale,
      height / 2 - (y - (extent.bottom + extent.top) / 2) * scale,
    ];
    // What looks alike is one path: to stroke and fill each line and point by itself takes several times as long.
    const trails = new Path2D();
    for (const [place, later] of walked) {
      trails.moveTo(...at(place));
      trails.lineTo(...at(later));
    }
    context.strokeStyle = quiet;
    context.globalAlpha = 0.5;
    context.setLineDash([]);
    context.stroke(trails);
    context.globalAlpha = 1;
    const frame = frames.at(seq);
    const marks = frame?.marks.size === 0 ? undefined : frame?.marks;
    const moved = new Set([...frame?.changed ?? []].map((pointer) => steps(pointer)[1]));
    context.font = "12px system-ui, sans-serif";
    const points = { [ink]: new Path2D(), [accent]: new Path2D() };
    const labels: Label[] = [];
    const named = now.size > NAMED ? [] : [...now.values()].map(at);
    for (const [name, place] of now) {
      const [x, y] = at(place);
      const pointer = below("/entities", name);
      const mark = marks && (marks.get(pointer) ?? marks.get(`${pointer}/position`));
      const [colour, radius] = moved.has(name) ? [accent, 6] : [ink, 4];
      const path = mark === undefined ? points[colour] as Path2D : new Path2D();
      path.moveTo(x + radius, y);
      path.arc(x, y, radius, 0, 2 * Math.PI);
      if (mark !== undefined || now.size <= NAMED) context.fillStyle = context.strokeStyle = colour;
      if (mark !== undefined) {
        context.setLineDash(mark === "hidden" ? [2, 2] : []);
        context.stroke(path);
      }
      if (now.size > NAMED) continue;
      const agents = mark === undefined || frame === undefined
        ? []
        : agentsWithout(frame.hidden, `${pointer}/position`);
      const told = [name, mark === undefined ? "" : SIGNS[mark], agents.join(", ")].join(" ").trim();
      const label = placed(widthOf(context, told), [x, y], width, labels, named);
      labels.push(label);
      context.fillText(told, label.left, label.base);
    }
    for (const [colour, path] of Object.entries(points)) {
      context.fillStyle = colour;
      context.fill(path);
    }
    say.ask();
  };
  const say = throttled(WORDS_MS, () => {
    const now = places(frames, cursor.seq);
    const told = [...now].slice(0, NAMED).map(([name, [x, y]]) => `${name} at ${x}, ${y}`).join("; ");
    canvas.setAttribute("aria-label", `Map of ${now.size}: ${told}`);
  });
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const paint = () => {
    const style = getComputedStyle(canvas);
    colours = ["--text", "--quiet", "--accent"].map((name) => style.getPropertyValue(name));
    draw();
  };
  scheme.addEventListener("change", paint);
  const watch = new ResizeObserver(([entry]) => {
    room = [entry?.contentRect.width ?? 0, entry?.contentRect.height ?? 0];
    paint();
  });
  watch.observe(canvas);
  const ends = [cursor.subscribe(draw), frames.subscribe(draw), () => extent.draws.delete(draw)];
  extent.draws.add(draw);
  draw();
  return () => {
    for (const end of ends) end();
    say.cancel();
    watch.disconnect();
    scheme.removeEventListener("change", paint);
  };
}
