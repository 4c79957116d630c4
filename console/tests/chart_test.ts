import { chartOf, guess, ticks } from "../src/core/chart.ts";
import type { Json } from "../src/core/json.ts";
import { common } from "../src/core/lineage.ts";
import { same } from "./same.ts";

const COLUMNS = [
  { name: "condition", type: "text" },
  { name: "round", type: "bigint" },
  { name: "mean", type: "double precision" },
];
const ROWS: Json[][] = [["b", 2, 0.5], ["a", 1, 0.25], ["a", 2, null], ["a", 3, 1], ["b", 1, 0]];

Deno.test("a table's chart is guessed: numbers over numbers, divided by what has few values", () => {
  same(guess(COLUMNS, ROWS), { look: "lines", x: "round", y: "mean", by: "condition" });
  same(guess(COLUMNS.slice(0, 1), [["a"]]), null);
  same(guess([{ name: "kind", type: "text" }, { name: "n", type: "bigint" }], [["A", 1], ["B", 2]])?.look, "bars");
});

Deno.test("a line goes by x and is interrupted where there is no value", () => {
  const { series } = chartOf(COLUMNS, ROWS, { look: "lines", x: "round", y: "mean", by: "condition" });
  same(series.map(({ name, points }) => [name, points]), [
    ["b", [[1, 0], [2, 0.5]]],
    ["a", [[1, 0.25], [2, null], [3, 1]]],
  ]);
});

Deno.test("bars stand by name, numbers in their order, and not too many of them", () => {
  const choice = { look: "bars", x: "round", y: "mean", by: "" } as const;
  same(chartOf(COLUMNS, ROWS, choice).x, { is: "name", names: ["1", "2", "3"] });
  const many = Array.from({ length: 61 }, (_, n): Json[] => ["a", n, n]);
  let said = "";
  try {
    chartOf(COLUMNS, many, choice);
  } catch (error) {
    said = String(error);
  }
  same(said.includes("round has 61 values"), true);
});

Deno.test("ticks are round numbers around what is shown", () => {
  same(ticks(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  same(ticks(-3, 12, 4), [-5, 0, 5, 10, 15]);
  same(ticks(7, 7, 3).length >= 2, true);
});

Deno.test("forks share the past up to the earlier of their fork points", () => {
  const root = (through: number) => ({ world: "root", through });
  const leaf = (world: string) => ({ world, through: 9 });
  same(common([root(90)], [root(40), leaf("b")]), {
    shared: root(40),
    onward: [{ world: "root", from: 41 }, { world: "b", from: 1 }],
  });
  same(common([root(40), leaf("a")], [root(40), leaf("b")]).onward, [{ world: "a", from: 1 }, { world: "b", from: 1 }]);
  same(common([root(40), leaf("a")], [root(30), leaf("b")]), {
    shared: root(30),
    onward: [{ world: "root", from: 31 }, { world: "b", from: 1 }],
  });
  same(common([leaf("a")], [leaf("b")]), {
    shared: null,
    onward: [{ world: "a", from: 1 }, { world: "b", from: 1 }],
  });
});
