import { standing, type Verified } from "../src/core/verified.ts";
import { bars } from "../src/draw/spark.ts";
import { same } from "./same.ts";

Deno.test("a world stands by what was verified of it: as it was, grown, cut, rewritten or broken", () => {
  const found: Verified = { seq: 5, checksum: "ab", at: 0, broken: null };
  const sign = (seq: number, checksum: string, known: Verified | null = found) =>
    standing(known, { seq, checksum }).sign;
  same([sign(5, "ab"), sign(6, "cd"), sign(5, "cd"), sign(4, "ab")], ["✓", "✓…", "✗", "✗"]);
  same([sign(5, "ab", null), sign(9, "ab", { ...found, broken: 3 })], ["", "✗"]);
});

Deno.test("a bar stands for each span, and what is not nought is seen", () => {
  same(bars([0, 10, 1], 30, 5), "M10 5v-5h8v5zM20 5v-1h8v1z");
  same(bars([], 30, 5), "");
});
