/** The timeline on a canvas: how the kinds of effects share each stretch of a world. */

import { type Bin, partOf, type Stretch } from "../core/density.ts";

/** How many colours there are in style.css: `--kind-0` and so on. The last stands for all further kinds. */
export const COLOURS = 8;

/** The colour of a kind, given the kinds in the order of how frequent they are. */
export function colourOf(kinds: readonly string[], kind: string): string {
  const place = kinds.indexOf(kind);
  return `--kind-${place === -1 ? COLOURS - 1 : Math.min(place, COLOURS - 1)}`;
}

export function drawHistogram(
  canvas: HTMLCanvasElement,
  bins: readonly Bin[],
  kinds: readonly string[],
  stretch: Stretch,
): void {
  const ratio = globalThis.devicePixelRatio || 1;
  const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
  if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  if (context === null || width === 0) return;
  context.clearRect(0, 0, width, height);
  const style = getComputedStyle(canvas);
  const colours = Array.from({ length: COLOURS }, (_, place) => style.getPropertyValue(`--kind-${place}`));
  const shown = bins.filter(({ from, to }) => to >= stretch[0] && from <= stretch[1]);
  for (const { from, to, counts } of shown) {
    const left = Math.max(0, partOf(stretch, from) * width);
    const right = Math.min(width, partOf(stretch, to + 1) * width);
    const total = Object.values(counts).reduce((sum, number) => sum + number, 0);
    if (total === 0) continue;
    let y = height;
    for (const kind of [...kinds].filter((each) => counts[each] !== undefined)) {
      const tall = ((counts[kind] as number) / total) * height;
      context.fillStyle = colours[Math.min(kinds.indexOf(kind), COLOURS - 1)] ?? "gray";
      context.fillRect(left, y - tall, Math.max(right - left, 1), tall);
      y -= tall;
    }
  }
}
