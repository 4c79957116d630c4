/** A table of any length: only the rows in sight are elements. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Column } from "../core/chart.ts";
import type { Json } from "../core/json.ts";
import { oneLine, plain, short } from "../core/text.ts";

/** Pixels of a row, and rows beyond the edges that are there already. */
const [ROW, BEYOND] = [26, 8];
/** Characters of the widest column, and of a cell. */
const [WIDEST, MOST] = [40, 400];
/** Rows by which the width of a column is judged. */
const JUDGED = 500;

export function Table({ columns, rows }: { columns: readonly Column[]; rows: readonly Json[][] }) {
  const box = useRef<HTMLDivElement>(null);
  const [[top, tall], look] = useState([0, 600]);
  useEffect(() => {
    const element = box.current as HTMLDivElement;
    const watch = new ResizeObserver(() => look(([top]) => [top, element.clientHeight]));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  // Widths do not depend on what is in sight: otherwise columns would move as one scrolls.
  const widths = useMemo(() =>
    columns.map(({ name }, at) => {
      const longest = rows.slice(0, JUDGED).reduce(
        (most, row) => Math.max(most, plain(row[at] ?? "").length),
        name.length,
      );
      return Math.min(longest, WIDEST) + 3;
    }), [columns, rows]);
  const from = Math.max(0, Math.floor(top / ROW) - BEYOND);
  const to = Math.min(rows.length, Math.ceil((top + tall) / ROW) + BEYOND);
  return (
    <div
      ref={box}
      class="rows-of-sql"
      role="region"
      aria-label="Rows"
      tabIndex={0}
      onScroll={({ currentTarget }) => look([currentTarget.scrollTop, currentTarget.clientHeight])}
    >
      <table aria-rowcount={rows.length + 1}>
        <colgroup>
          {widths.map((width, index) => <col key={index} style={{ width: `${width}ch` }} />)}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map(({ name, type }, index) => (
              <th
                key={index}
                scope="col"
                title={type}
                class={rows.some((row) => typeof row[index] === "number") ? "number" : ""}
              >
                <bdi>{name}</bdi>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <Space rows={from} />
          {rows.slice(from, to).map((row, index) => (
            <tr key={from + index} aria-rowindex={from + index + 2}>
              {row.map((value, column) => (
                <td key={column} class={typeof value === "number" ? "number" : ""} title={told(value)}>
                  <bdi>{value === null ? "" : oneLine(short(plain(value), MOST))}</bdi>
                </td>
              ))}
            </tr>
          ))}
          <Space rows={rows.length - to} />
        </tbody>
      </table>
    </div>
  );
}

/** The whole of a value that a cell has no room for. */
function told(value: Json): string | undefined {
  const text = plain(value);
  return text.length > WIDEST ? short(text, 10 * MOST) : undefined;
}

function Space({ rows }: { rows: number }) {
  return rows <= 0 ? null : <tr aria-hidden="true" style={{ height: `${rows * ROW}px` }} />;
}
