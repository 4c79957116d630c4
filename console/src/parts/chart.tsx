/** A chart with its legend, as wide as there is room; whoever points at it is told the value there. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Chart } from "../core/chart.ts";
import type { Drawn, Pointed } from "../core/panel.ts";
import { drawChart, seriesColour, seriesDash } from "../draw/chart.ts";

export function ChartView({ chart, label, height = 260 }: { chart: Chart; label: string; height?: number }) {
  const svg = useRef<SVGSVGElement>(null);
  const drawn = useRef<Drawn | null>(null);
  const [width, measure] = useState(0);
  const [pointed, point] = useState<Pointed | null>(null);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => measure(Math.round(entry?.contentRect.width ?? 0)));
    watch.observe(svg.current as SVGSVGElement);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    if (width > 0) drawn.current = drawChart(svg.current as SVGSVGElement, chart, width, height);
  }, [chart, width, height]);
  const named = chart.series.filter(({ faint }) => !faint);
  return (
    <figure class="chart">
      <svg
        ref={svg}
        role="img"
        aria-label={label}
        height={height}
        onPointerMove={({ offsetX, offsetY }) => point(drawn.current?.find(offsetX, offsetY) ?? null)}
        onPointerLeave={() => point(null)}
      />
      <figcaption>
        {named.length > 1 && (
          <ul class="legend">
            {named.map(({ name, colour }, place) => (
              <li key={name}>
                <Swatch place={colour ?? place} /> <bdi>{name}</bdi>
              </li>
            ))}
          </ul>
        )}
        <p class="said pointed">
          {pointed === null ? chart.titles[1] : (
            <>
              <bdi>{pointed.series}</bdi>
              {" · "}
              {chart.titles[0]} <bdi>{pointed.x}</bdi>: {pointed.y}
            </>
          )}
        </p>
      </figcaption>
    </figure>
  );
}

/** The line of a series in small. */
function Swatch({ place }: { place: number }) {
  return (
    <svg class="stroke" width="18" height="10" aria-hidden="true">
      <line
        x1="1"
        x2="17"
        y1="5"
        y2="5"
        stroke={seriesColour(place)}
        stroke-width="3"
        stroke-dasharray={seriesDash(place)}
      />
    </svg>
  );
}
