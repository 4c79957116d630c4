/** A chart as SVG, with its axes. Every text in it is text: names come from payloads. */

import { type Chart, extent, type Scale, ticks } from "../core/chart.ts";
import type { Drawn, Pointed } from "../core/panel.ts";
import { count, short } from "../core/text.ts";
import { COLOURS } from "./histogram.ts";

const SVG = "http://www.w3.org/2000/svg";
/** Pixels for the axis on the left and below, and around the rest. */
const [LEFT, BELOW, AROUND] = [52, 34, 8];
/** Series beyond the colours have them again, in dashes. */
const DASHES = ["", "6 3", "2 3"];

function draw(tag: string, attributes: Record<string, string | number>, text = ""): SVGElement {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  if (text !== "") made.textContent = text;
  return made;
}

/** The colour of the series at a place, as a variable of style.css. */
export function seriesColour(place: number): string {
  return `var(--kind-${place % COLOURS})`;
}

/** How the line of the series at a place is dashed. */
export function seriesDash(place: number): string {
  return DASHES[Math.floor(place / COLOURS) % DASHES.length] as string;
}

/** Draw a chart into an element, in place of what is there. */
export function drawChart(svg: SVGSVGElement, chart: Chart, width: number, height: number): Drawn {
  const range = extent(chart);
  const [right, bottom] = [width - AROUND, height - BELOW];
  const isWhole = chart.series.every(({ points }) => points.every(([, value]) => Number.isInteger(value ?? 0)));
  const up = ticks(range.y[0], range.y[1], Math.max(2, Math.floor(bottom / 45)), isWhole ? 1 : 0);
  const [lowest, highest] = [up[0] as number, up.at(-1) as number];
  const names = chart.x.is === "name" ? chart.x.names.length : 0;
  const [first, last] = names > 0 ? [-0.5, names - 0.5] : range.x;
  const x = (value: number) =>
    LEFT + (last === first ? 0.5 : (value - first) / (last - first)) * Math.max(1, right - LEFT);
  const y = (value: number) => bottom - ((value - lowest) / (highest - lowest || 1)) * (bottom - AROUND);

  const axes = draw("g", { class: "axes" });
  for (const value of up) {
    axes.append(
      draw("line", { x1: LEFT, x2: right, y1: y(value), y2: y(value) }),
      draw("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, short(number(value), 8)),
    );
  }
  const about = Math.max(2, Math.floor((right - LEFT) / 80));
  const told = across(chart, range.x, about).filter(([at]) => at >= first && at <= last);
  const most = names > 0 ? Math.max(3, Math.floor((right - LEFT) / told.length / 7.5)) : 20;
  for (const [at, text] of told) {
    axes.append(draw("text", { x: x(at), y: bottom + 15, "text-anchor": "middle" }, short(text, most)));
  }
  axes.append(
    draw("text", { x: right, y: height - 4, "text-anchor": "end", class: "title" }, short(chart.titles[0], 40)),
  );

  const marks: { left: number; top: number; told: Pointed }[] = [];
  const bars = chart.look === "bars" ? chart.series.length : 0;
  const wide = bars === 0 ? 0 : (x(1) - x(0)) * 0.8 / bars;
  const body = draw("g", { class: "series" });
  chart.series.forEach(({ name, points, band, faint, colour: given }, place) => {
    const colour = seriesColour(given ?? place);
    if (band !== undefined && band.length > 0) {
      const edge = [
        ...band.map(([at, , high]) => [at, high] as const),
        ...band.toReversed().map(([at, low]) => [at, low] as const),
      ];
      const d = edge.map(([at, value], index) => `${index === 0 ? "M" : "L"}${x(at)} ${y(value)}`).join("");
      body.append(draw("path", { d: `${d}Z`, fill: colour, "fill-opacity": 0.18 }));
    }
    let path = "";
    let isOn = false;
    points.forEach(([at, value]) => {
      if (value === null) {
        isOn = false;
        return;
      }
      const left = bars === 0 ? x(at) : x(at) + (place - (bars - 1) / 2) * wide;
      const top = y(value);
      if (bars > 0) {
        const [from, to] = [Math.min(top, y(0)), Math.max(top, y(0))];
        body.append(
          draw("rect", { x: left - wide / 2, y: from, width: wide, height: Math.max(to - from, 1), fill: colour }),
        );
      } else path += chart.look === "points" || !isOn ? `M${left} ${top}h0` : `L${left} ${top}`;
      isOn = true;
      marks.push({ left, top, told: { series: name, x: nameOf(chart.x, at), y: number(value), at } });
    });
    if (path === "") return;
    const thick = chart.look === "points" ? 5 : faint ? 1 : 2;
    body.append(draw("path", {
      d: path,
      fill: "none",
      stroke: colour,
      "stroke-width": thick,
      "stroke-linecap": "round",
      "stroke-linejoin": "round",
      "stroke-opacity": faint ? 0.55 : 1,
      "stroke-dasharray": chart.look === "points" ? "" : seriesDash(given ?? place),
    }));
  });
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(axes, body);
  const find = (left: number, top: number) => {
    let best: Pointed | null = null;
    let nearest = 40 ** 2;
    for (const mark of marks) {
      const distance = (mark.left - left) ** 2 + (mark.top - top) ** 2;
      if (distance < nearest) [best, nearest] = [mark.told, distance];
    }
    return best;
  };
  return { find, x };
}

function number(value: number): string {
  if (value !== 0 && (Math.abs(value) >= 1e7 || Math.abs(value) < 1e-4)) return value.toPrecision(3);
  return count(Number(value.toPrecision(6)));
}

function nameOf(scale: Scale, at: number): string {
  if (scale.is === "name") return scale.names[at] ?? "";
  return scale.is === "time" ? new Date(at).toLocaleString() : number(at);
}

/** Where there is a text along the axis, and which. */
function across({ x: scale, series }: Chart, [low, high]: [number, number], about: number): [number, string][] {
  if (scale.is === "number") {
    const isWhole = series.every(({ points }) => points.every(([at]) => Number.isInteger(at)));
    return ticks(low, high, about, isWhole ? 1 : 0).map((value) => [value, number(value)]);
  }
  if (scale.is === "name") {
    const each = Math.ceil(scale.names.length / about);
    return scale.names.flatMap((name, index): [number, string][] => index % each === 0 ? [[index, name]] : []);
  }
  const isLong = high - low > 2 * 86_400_000;
  return Array.from({ length: about }, (_, index) => {
    const at = low + ((index + 0.5) / about) * (high - low);
    const date = new Date(at);
    return [at, isLong ? date.toLocaleDateString() : date.toLocaleTimeString()];
  });
}
