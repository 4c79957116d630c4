/** What a chart shows: lines, points or bars over numbers, times or names. */

import type { Json } from "./json.ts";
import { plain } from "./text.ts";

export const LOOKS = ["lines", "points", "bars"] as const;
export type Look = (typeof LOOKS)[number];

/** Numbers are their own place, times are epoch milliseconds, and a name's place is its index. */
export type Scale = { is: "number" } | { is: "time" } | { is: "name"; names: string[] };

export interface Series {
  name: string;
  /** In ascending order of x where they are lines. A y of null interrupts the line. */
  points: [x: number, y: number | null][];
  /** A band around the line, such as from the first quartile to the third. */
  band?: [x: number, low: number, high: number][];
  /** Which of the colours it has; by default its place among the series. */
  colour?: number;
  /** One of many, behind others. */
  faint?: boolean;
}

export interface Chart {
  look: Look;
  x: Scale;
  /** What x and y are. */
  titles: readonly [x: string, y: string];
  series: Series[];
}

export interface Column {
  name: string;
  type: string;
}

/** Which columns of a table are drawn: y over x, with a series for each value of `by`, if that names a column. */
export interface Choice {
  look: Look;
  x: string;
  y: string;
  by: string;
}

/** Most names on an axis, and most series. */
const MOST_NAMES = 60;
export const MOST_SERIES = 24;
/** A column whose values are as few divides the rows into series unless asked otherwise. */
const FEW = 8;

const isNumber = (value: Json | undefined): value is number => typeof value === "number";
const isTime = ({ type }: Column) => /^(timestamp|date)/.test(type);

/** The columns that hold numbers. */
export function numeric(columns: readonly Column[], rows: readonly Json[][]): Column[] {
  return columns.filter((_, at) =>
    rows.some((row) => isNumber(row[at])) && rows.every((row) => row[at] === null || isNumber(row[at]))
  );
}

/** What is most likely wanted of a table; null where it holds no numbers. */
export function guess(columns: readonly Column[], rows: readonly Json[][]): Choice | null {
  const numbers = numeric(columns, rows);
  const last = numbers.at(-1);
  if (last === undefined) return null;
  const time = columns.find(isTime);
  const x = time ?? (numbers.length > 1 ? numbers[0] as Column : columns.find((each) => each !== last) ?? last);
  const y = numbers.find((each) => each !== x) ?? last;
  const words = columns.filter((each) => each !== x && !numbers.includes(each) && !isTime(each));
  const by = words.find((each) => {
    const values = new Set(rows.map((row) => plain(row[columns.indexOf(each)])));
    return values.size > 1 && values.size <= FEW;
  });
  const look = numbers.includes(x) || isTime(x) ? "lines" : "bars";
  return { look, x: x.name, y: y.name, by: by?.name ?? "" };
}

/** The chart of a table. Raises RangeError with what is in the way, in words for the reader. */
export function chartOf(columns: readonly Column[], rows: readonly Json[][], choice: Choice): Chart {
  const place = (name: string) => {
    const found = columns.findIndex((each) => each.name === name);
    if (found === -1) throw new RangeError(`There is no column ${name}`);
    return found;
  };
  const [x, y] = [place(choice.x), place(choice.y)];
  const by = choice.by === "" ? -1 : place(choice.by);
  if (!rows.some((row) => isNumber(row[y]))) throw new RangeError(`${choice.y} holds no numbers`);
  const column = columns[x] as Column;
  const scale = scaleOf(column, rows.map((row) => row[x] ?? null), choice.look);
  const names = new Map(scale.is === "name" ? scale.names.map((name, index) => [name, index]) : []);
  const at = (value: Json): number | null => {
    if (scale.is === "number") return isNumber(value) ? value : null;
    if (scale.is === "name") return names.get(plain(value)) ?? null;
    const found = typeof value === "string" ? Date.parse(value) : NaN;
    return Number.isNaN(found) ? null : found;
  };
  const series = new Map<string, Series>();
  for (const row of rows) {
    const [across, up] = [at(row[x] ?? null), row[y]];
    if (across === null) continue;
    const name = by === -1 ? choice.y : plain(row[by]);
    const known = series.get(name) ?? { name, points: [] };
    series.set(name, known);
    known.points.push([across, isNumber(up) ? up : null]);
  }
  const found = [...series.values()].slice(0, MOST_SERIES);
  if (choice.look === "lines") { for (const { points } of found) points.sort((a, b) => a[0] - b[0]); }
  return { look: choice.look, x: scale, titles: [choice.x, choice.y], series: found };
}

function scaleOf(column: Column, values: readonly Json[], look: Look): Scale {
  const filled = values.filter((value) => value !== null);
  if (isTime(column)) return { is: "time" };
  const numbers = filled.every(isNumber);
  if (numbers && look !== "bars") return { is: "number" };
  // Bars stand side by side, those of numbers in their order.
  const distinct = [...new Set(filled)];
  const sorted = numbers ? (distinct as number[]).sort((a, b) => a - b) : distinct;
  const names = [...new Set(sorted.map(plain))];
  if (names.length > MOST_NAMES) {
    const what = look === "bars" ? "stand side by side" : "stand along an axis";
    throw new RangeError(`${column.name} has ${names.length} values; ${MOST_NAMES} ${what} at most`);
  }
  return { is: "name", names };
}

/** Round numbers from below the least to above the greatest, about so many, no closer than `least`. */
export function ticks(low: number, high: number, about: number, least = 0): number[] {
  const span = high - low || Math.abs(high) || 1;
  const rough = Math.max(span / Math.max(1, about), least);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((each) => each * power >= rough) as number) * power;
  const found: number[] = [];
  const first = Math.floor(low / step + 1e-9);
  for (let index = first; found.length < 100; index++) {
    found.push(Number((index * step).toPrecision(12)));
    if ((found.at(-1) as number) >= high - step * 1e-9) break;
  }
  return found;
}

/** The least and the greatest of what a chart shows, across and up; bars begin at nought. */
export function extent({ look, series }: Chart): { x: [number, number]; y: [number, number] } {
  const [x, y]: [[number, number], [number, number]] = [[Infinity, -Infinity], [Infinity, -Infinity]];
  const take = (range: [number, number], value: number) => {
    range[0] = Math.min(range[0], value);
    range[1] = Math.max(range[1], value);
  };
  for (const { points, band } of series) {
    for (const [across, up] of points) {
      take(x, across);
      if (up !== null) take(y, up);
    }
    for (const [, low, high] of band ?? []) {
      take(y, low);
      take(y, high);
    }
  }
  if (look === "bars") take(y, 0);
  return { x: x[0] > x[1] ? [0, 1] : x, y: y[0] > y[1] ? [0, 1] : y };
}
