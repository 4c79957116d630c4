import { onBySimTime, stopFrom, stops } from "../src/core/playing.ts";
import { same } from "./same.ts";

Deno.test("turns are left one by one, the last at the head", () => {
  const places = stops([4, 9, 15], 20);
  same(places, [3, 8, 14, 20]);
  same([1, 3, 10, 20].map((seq) => stopFrom(places, seq, 1)), [3, 8, 14, 20]);
  same([1, 3, 10, 20].map((seq) => stopFrom(places, seq, -1)), [1, 3, 8, 14]);
  same(stops([1, 2], 1), [1]);
});

Deno.test("by sim_time effects pass as they came, silences are short, and what is not loaded is waited for", () => {
  const times = [0, 1, 1, 2, 500];
  const timeOf = (seq: number) => times[seq - 1];
  same(onBySimTime({ seq: 1, time: 0 }, 1, 1, 5, timeOf), { seq: 3, time: 1 });
  same(onBySimTime({ seq: 1, time: 0 }, 1, 4, 5, timeOf), { seq: 4, time: 488 });
  same(onBySimTime({ seq: 4, time: 488 }, 3, 4, 5, timeOf), { seq: 5, time: 500 });
  same(onBySimTime({ seq: 5, time: 500 }, 1, 1, 9, timeOf), { seq: 5, time: 500 });
});
