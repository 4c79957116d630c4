/** The timeline: what happened where in a world, with the cursor, a brush to zoom and buttons that do the same. */

import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { countedTo, partOf, seqAt, shifted, type Stretch, zoomed } from "../core/density.ts";
import { count } from "../core/text.ts";
import { colourOf, COLOURS, drawHistogram } from "../draw/histogram.ts";
import type { WorldModel } from "./model.ts";

export function Timeline({ model }: { model: WorldModel }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const area = useRef<HTMLDivElement>(null);
  const cursor = useRef<HTMLDivElement>(null);
  const brush = useSignal<readonly [number, number] | null>(null);
  /** How wide it is; and how often its colours have changed. */
  const width = useSignal(0);
  const coloured = useSignal(0);

  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => width.value = entry?.contentRect.width ?? 0);
    if (area.current) watch.observe(area.current);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => void coloured.value++;
    scheme.addEventListener("change", redraw);
    return () => {
      watch.disconnect();
      scheme.removeEventListener("change", redraw);
    };
  }, []);
  useSignalEffect(() => {
    void [width.value, coloured.value];
    if (canvas.current) drawHistogram(canvas.current, model.bins.value, model.kinds.value, model.stretch.value);
  });
  // The cursor moves with every frame: without drawing anything else.
  useSignalEffect(() => {
    const [seq, head] = [model.seq.value, model.head.value];
    const part = partOf(model.stretch.value, seq);
    area.current?.setAttribute("aria-valuemax", String(head));
    area.current?.setAttribute("aria-valuenow", String(seq));
    area.current?.setAttribute("aria-valuetext", `effect ${seq} of ${head}`);
    if (cursor.current) {
      // Whole pixels: what lies between two is blended anew for each frame.
      cursor.current.style.transform = `translateX(${Math.round(part * width.value)}px)`;
      cursor.current.hidden = part < 0 || part > 1;
    }
  });

  const zoom = (stretch: Stretch | null) => {
    const whole = stretch === null || (stretch[0] <= model.first && stretch[1] >= model.head.value);
    model.change({ zoom: whole ? null : [stretch[0], stretch[1]] }, "move");
  };
  const scale = (factor: number, around = model.seq.value) =>
    zoom(zoomed(model.stretch.value, around, factor, model.head.value, model.first));
  // Measured once for a drag: to measure at each move would have the page laid out for each.
  const box = useRef<DOMRect | null>(null);
  const measure = () => box.current = (area.current as HTMLDivElement).getBoundingClientRect();
  const partAt = (event: PointerEvent | WheelEvent) => {
    const { left, width } = box.current ?? measure();
    return (event.clientX - left) / width;
  };
  const down = (event: PointerEvent) => {
    if (event.button !== 0) return;
    measure();
    (event.currentTarget as Element).setPointerCapture(event.pointerId);
    const part = partAt(event);
    if (event.shiftKey) brush.value = [part, part];
    else model.move(seqAt(model.stretch.value, part));
  };
  const drag = (event: PointerEvent) => {
    if (!(event.currentTarget as Element).hasPointerCapture(event.pointerId)) return;
    const part = Math.min(1, Math.max(0, partAt(event)));
    if (brush.value) brush.value = [brush.value[0], part];
    else model.move(seqAt(model.stretch.value, part));
  };
  const up = () => {
    const marked = brush.value;
    brush.value = null;
    if (marked === null || Math.abs(marked[1] - marked[0]) < 0.005) return;
    const [from, to] = [...marked].sort((a, b) => a - b) as [number, number];
    zoom([seqAt(model.stretch.value, from), seqAt(model.stretch.value, to)]);
  };
  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    measure();
    const [from, to] = model.stretch.value;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      zoom(shifted([from, to], ((event.deltaX || event.deltaY) / 500) * (to - from), model.head.value, model.first));
    } else scale(event.deltaY > 0 ? 1.25 : 0.8, seqAt([from, to], partAt(event)));
  };
  useEffect(() => {
    // Not as a property: the page would scroll along.
    const element = area.current;
    element?.addEventListener("wheel", wheel, { passive: false });
    return () => element?.removeEventListener("wheel", wheel);
  }, []);

  const [from, to] = model.stretch.value;
  const kinds = model.kinds.value;
  const look = model.look.value;
  const counted = countedTo(model.bins.value, model.head.value);
  return (
    <section class="timeline" aria-label="Timeline">
      <div
        ref={area}
        class="bars"
        role="slider"
        tabIndex={0}
        aria-label="Moment"
        aria-valuemin={model.first}
        onPointerDown={down}
        onPointerMove={drag}
        onPointerUp={up}
        onPointerCancel={up}
      >
        <canvas ref={canvas} aria-hidden="true" />
        <div ref={cursor} class="cursor" />
        {brush.value && (
          <div
            class="brush"
            style={{
              left: `${Math.min(...brush.value) * 100}%`,
              width: `${Math.abs(brush.value[1] - brush.value[0]) * 100}%`,
            }}
          />
        )}
      </div>
      <div class="scale">
        <span>{count(from)}</span>
        <span class="zooms">
          <button type="button" title="Zoom in (w)" aria-label="Zoom in" onClick={() => scale(0.5)}>+</button>
          <button type="button" title="Zoom out (s)" aria-label="Zoom out" onClick={() => scale(2)}>−</button>
          <button type="button" disabled={look.zoom === null} onClick={() => zoom(null)}>whole</button>
        </span>
        <span>{count(to)}</span>
      </div>
      {counted !== null && counted < to && (
        <p class="said" role="note">
          No bars from effect {count(counted + 1)} on: the projection <code>effect_counts</code>{" "}
          has not counted further.
        </p>
      )}
      <ul class="legend" aria-label="Kinds of effects">
        {kinds.slice(0, COLOURS - 1).map((kind) => (
          <li key={kind}>
            <button
              type="button"
              aria-pressed={look.kind === kind}
              title={`Show only ${kind}`}
              onClick={() => model.change({ kind: look.kind === kind ? "" : kind })}
            >
              <span class={`swatch ${colourOf(kinds, kind).slice(2)}`} aria-hidden="true" /> <bdi>{kind}</bdi>
            </button>
          </li>
        ))}
        {kinds.length >= COLOURS && (
          <li>
            <span class={`swatch kind-${COLOURS - 1}`} aria-hidden="true" /> {kinds.length - COLOURS + 1} more
          </li>
        )}
      </ul>
    </section>
  );
}
