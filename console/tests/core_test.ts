import { format, lookOf, parse, worldAddress } from "../src/core/address.ts";
import { agentsWithout, compare, hiddenFrom, markOf, type Shown, told } from "../src/core/belief.ts";
import { type Bin, binned, countedTo, grown, seqAt, shifted, zoomed } from "../src/core/density.ts";
import { faults, fieldsOf, valueOf } from "../src/core/form.ts";
import { BLOCK, type BlockData, FrameStore } from "../src/core/frames.ts";
import { patchesOf } from "../src/core/http.ts";
import { apply, changed, type Json, leadWithin, type Obj, valueAt } from "../src/core/json.ts";
import { Lru } from "../src/core/lru.ts";
import { EffectPages } from "../src/core/pages.ts";
import type { Effect } from "../src/core/panel.ts";
import { isNews, present, quantile } from "../src/core/presence.ts";
import { apart, csv, summary } from "../src/core/text.ts";
import { paced, throttled } from "../src/core/throttle.ts";
import { scenes } from "../src/core/transcript.ts";
import { same } from "./same.ts";
import { bestHash, hex, lines, parsePosition, verify } from "../src/core/verify.ts";

Deno.test("the look of an address is the same one until something else than the cursor moves", () => {
  const here = worldAddress("w", { at: 12, zoom: [5, 90] });
  const look = lookOf(here);
  same(lookOf({ ...here, at: 13 }, look) === look, true);
  same(lookOf({ ...here, at: 13, kind: "Said" }, look), { ...look, kind: "Said" });
});

Deno.test("an address that was written is read as the same", () => {
  const here = worldAddress("a/b ü~1", {
    parents: 2,
    at: 12,
    agents: ["x&y=1", "<b>"],
    panes: ["state", "tree"],
    effect: 3,
    zoom: [5, 90],
    kind: "Said",
    source: "me, too",
    q: "50 % #1?",
    unit: "turn",
  });
  same(parse(format(here)), here);
  const worlds = {
    page: "worlds",
    q: "x y",
    ruleset: "chess",
    experiment: "e",
    live: true,
    selected: ["a", "b"],
  } as const;
  same(parse(format({ ...worlds, selected: ["a", "b"] })), worlds);
  const compared = { page: "compare" as const, worlds: ["a", "b"], group: "x=1", view: "me" };
  same(parse(format(compared)), compared);
});

Deno.test("a question's address keeps its parameters and its chart", () => {
  const asked = { page: "sql", name: "", params: { a: "1", "b c": "ü&=" }, query: "select 1 -- #?" } as const;
  for (const chart of [null, { look: "bars", x: "a b", y: "c&d", by: "" }] as const) {
    const here = { ...asked, chart };
    same(parse(format(here)), here);
  }
});

Deno.test("a table becomes CSV that spreadsheets read", () => {
  same(csv(["a", "b"], [["x,y", null], ['"q"', { n: 1 }]]), 'a,b\r\n"x,y",\r\n"""q""","{""n"":1}"\r\n');
  same(csv(["=a", "b"], [["\uff1d1", -1], [" @x", "a=b"]]), "'=a,b\r\n'\uff1d1,-1\r\n' @x,a=b\r\n");
});

Deno.test("an address that nobody can have written leads to something", () => {
  same(parse(""), parse("#/"));
  same(parse("#/w/%E0%A4%A").page, "world");
  const odd = parse("#/w/town?at=-3&zoom=9-4&effect=x&panes=nonsense");
  same(odd, worldAddress("town", { panes: [] }));
  same(parse("#/w/town?at=grandparent:5"), worldAddress("town"));
});

Deno.test("a moment of the past that a fork inherits is written as in the commands", () => {
  same(format(worldAddress("town", { parents: 2, at: 5 })), "#/w/town?at=parent:parent:5&panes=effects,state");
  same(parse("#/w/town?at=parent:live"), worldAddress("town", { parents: 1 }));
});

Deno.test("a patch shares what it does not touch, and takes any name for a name", () => {
  const before = { a: { deep: [1, 2] }, b: { x: 1 } };
  const after = apply(before as Json, [
    { op: "replace", path: "/b/x", value: 2 },
    { op: "add", path: "/__proto__", value: { polluted: true } },
    { op: "add", path: "/t~1o~0", value: null },
  ]) as Record<string, Json>;
  same(after["a"] === before.a, true);
  same(before.b.x, 1);
  same(valueAt(after, "/t~1o~0"), null);
  same(({} as Record<string, unknown>)["polluted"], undefined);
  same(Object.hasOwn(after, "__proto__"), true);
});

Deno.test("a row of patches copies a thing once, and the value before stays as it was", () => {
  const before = { a: { x: 1, y: 1 } };
  const own = new Set<Json[] | Obj>();
  const first = apply(before as Json, [{ op: "replace", path: "/a/x", value: 2 }], own);
  const second = apply(first, [{ op: "replace", path: "/a/y", value: 2 }], own);
  same([first === second, before], [true, { a: { x: 1, y: 1 } }]);
  const third = apply(second, [{ op: "remove", path: "/a/y" }]);
  same([second, third], [{ a: { x: 2, y: 2 } }, { a: { x: 2 } }]);
});

Deno.test("what has changed is named at the innermost place", () => {
  const found = changed({ a: 1, b: { c: [1, 2], d: 1 } }, { a: 1, b: { c: [1, 3], e: 1 } });
  same([...found].sort(), ["/b", "/b/c/1", "/b/e"]);
  same(["/b/c", "/b/c/1", "/a"].map((place) => leadWithin(found, place)), [true, false, false]);
});

Deno.test("a belief is marked hidden, outdated or noised", () => {
  const truth: Shown = { entities: { ann: { gold: 5, place: 3 }, bob: {} }, relationships: {} };
  const then: Shown = { entities: { ann: { gold: 4, place: 3 } }, relationships: {} };
  const belief: Shown = { entities: { ann: { gold: 4, place: 2 } }, relationships: {} };
  const found = compare(belief, truth, then);
  same([...found.truth], [["/entities/bob", "hidden"]]);
  same(told(found), "2 of 2 values differ from the truth, 1 hidden");
  same(told(compare(truth, truth, then)), "0 of 2 values differ from the truth");
  same([...found.belief], [["/entities/ann/gold", "outdated"], ["/entities/ann/place", "noised"]]);
  same(markOf(found.truth, "/entities/bob/x/y"), "hidden");
  same(markOf(found.truth, "/entities/bobby"), undefined);
});

Deno.test("beside several beliefs it is told from whom something is hidden", () => {
  const truth: Shown = { entities: { ann: { gold: 5, place: 3 }, bob: { gold: 1 } }, relationships: {} };
  const seen = (entities: Obj): Shown => ({ entities, relationships: {} });
  const hidden = hiddenFrom([
    { agent: "ann", belief: seen({ ann: { gold: 5, place: 3 } }) },
    { agent: "bob", belief: seen({ ann: { place: 2 }, bob: { gold: 1 } }) },
    { agent: "cid", belief: seen({ ann: { gold: 4 }, bob: {} }) },
  ], truth);
  same([...hidden], [
    ["/entities/bob", ["ann"]],
    ["/entities/ann/gold", ["bob"]],
    ["/entities/ann/place", ["cid"]],
    ["/entities/bob/gold", ["cid"]],
  ]);
  same(agentsWithout(hidden, "/entities/bob/gold"), ["ann", "cid"]);
  same(agentsWithout(hidden, "/entities/bob"), ["ann"]);
  same(agentsWithout(hidden, "/entities/bo"), []);
});

Deno.test("columns become patches, with what the last effect was", () => {
  const found = patchesOf({
    frames: { seq: [8, 9], sim_time: [1, 2], kind: ["A", "B"] },
    paths: ["/entities/x"],
    patches: { frame: [1], op: ["add"], path: [0], value: [{}] },
  });
  same(found.map(({ seq, ops }) => [seq, ops.length]), [[8, 3], [9, 4]]);
  same(found[1]?.ops.at(-1), { op: "add", path: "/entities/x", value: {} });
  const seen = patchesOf({
    frames: { seq: [8] },
    paths: ["/visible_entities/x"],
    patches: { frame: [0], op: ["add"], path: [0], value: [1] },
  });
  same(seen, [{ seq: 8, ops: [{ op: "add", path: "/entities/x", value: 1 }] }]);
});

/** A world in which the state at a seq says the seq; how often blocks were asked for is counted. */
function counting(head: number, most = BLOCK) {
  const asked: [number, number][] = [];
  const load = (from: number, until: number): Promise<BlockData> => {
    asked.push([from, until]);
    const to = Math.min(until, from + most - 1);
    const patches = [];
    for (let seq = from + 1; seq <= to; seq++) {
      patches.push({ seq, ops: [{ op: "replace" as const, path: "/entities/n", value: seq }] });
    }
    return Promise.resolve({ key: from, state: { entities: { n: from }, relationships: {} }, last: to, patches });
  };
  return { asked, store: new FrameStore(load, head) };
}

const settled = () => new Promise((resolve) => setTimeout(resolve));

Deno.test("any seq of a loaded block has its state, in whatever order it is asked", async () => {
  const { store } = counting(3000);
  store.want(1, 1);
  await settled();
  for (const seq of [1, 2, 700, 5, 1024, 699, 1025, 2048, 64, 65, 3000, 1]) same(store.at(seq)?.entities, { n: seq });
  const [earlier, kept] = [store.at(700), store.at(640)];
  store.at(720);
  same([earlier?.entities, kept?.entities], [{ n: 700 }, { n: 640 }]);
  same(store.before(1025)?.entities, { n: 1024 });
  same(store.at(3001), undefined);
});

Deno.test("a cursor that moves back finds states near those that it comes from", async () => {
  let applied = 0;
  const patches = Array.from({ length: BLOCK - 1 }, (_, index) => ({
    seq: index + 2,
    ops: [{
      op: "replace" as const,
      get path() {
        applied += 1;
        return "/entities/n";
      },
      value: index + 2,
    }],
  }));
  const state = { entities: { n: 1 }, relationships: {} };
  const store = new FrameStore(() => Promise.resolve({ key: 1, state, last: BLOCK, patches }), BLOCK);
  await store.want(1);
  store.at(1000);
  applied = 0;
  for (let seq = 999; seq > 940; seq--) {
    same([store.at(seq)?.entities, store.before(seq)?.entities], [{ n: seq }, { n: seq - 1 }]);
  }
  same(applied < 2 * 64, true);
});

Deno.test("a view is as of the last effect that told the agent something, if need be from before its block", async () => {
  const empty = { entities: {}, relationships: {} };
  const told = (from: number, to: number) => [5, 1030, 1033, 2050, 2060].filter((seq) => seq > from && seq <= to);
  const load = (from: number, to: number): Promise<BlockData> =>
    Promise.resolve({ key: from, state: empty, last: to, patches: [], told: told(from <= BLOCK ? 0 : from, to) });
  const store = new FrameStore(load, 2 * BLOCK + 2, 7);
  for (const seq of [8, 1030, 2050]) await store.want(seq);
  const asOf = (...seqs: number[]) => seqs.map((seq) => Object.values(store.asOf(seq) ?? {}));
  same(asOf(8, 1029, 1032, 1033, 2049, 2050), [
    [5, true],
    [1025, false],
    [1030, true],
    [1033, true],
    [2049, false],
    [2050, true],
  ]);
  same([1030, 1031, 1033].map((seq) => store.toldAt(seq)), [[], undefined, []]);
  await store.grow(2070, 2070);
  same(asOf(2059, 2060, 2070), [[2050, true], [2060, true], [2060, true]]);
});

Deno.test("a cursor has the blocks loaded that it moves towards, and no block twice", async () => {
  const { store, asked } = counting(5 * BLOCK);
  store.want(3 * BLOCK, -1);
  store.want(3 * BLOCK - 1, -1);
  await settled();
  same(asked.map(([from]) => from), [2 * BLOCK + 1, BLOCK + 1, 1]);
});

Deno.test("a block that the service sends in pieces is loaded to its end", async () => {
  const { store, asked } = counting(100, 40);
  store.want(1);
  await settled();
  same(asked, [[1, 100], [40, 100], [79, 100]]);
  same(store.at(100)?.entities, { n: 100 });
});

Deno.test("what happens is appended to the last block, which is not loaded again", async () => {
  const { store, asked } = counting(10);
  store.want(10);
  await settled();
  await store.grow(13, 13);
  await store.grow(15, 15);
  same(asked, [[1, 10], [10, 13], [13, 15]]);
  for (const seq of [9, 11, 13, 15]) same(store.at(seq)?.entities, { n: seq });
});

Deno.test("a world that is followed into its next block is loaded there; what nobody looks at is not", async () => {
  const { store, asked } = counting(BLOCK);
  await store.want(BLOCK);
  await store.grow(BLOCK + 1, BLOCK + 1);
  same(asked, [[1, BLOCK], [BLOCK + 1, BLOCK + 1]]);
  same(store.at(BLOCK + 1)?.entities, { n: BLOCK + 1 });
  await store.grow(BLOCK + 9, 5);
  same(asked.length, 2);
});

Deno.test("what is not loaded is shown by the nearest stored state before it", () => {
  const { store } = counting(9000);
  store.setCoarse({
    key: 1,
    state: { entities: { n: 1 }, relationships: {} },
    last: 9000,
    patches: [{ seq: 4000, ops: [{ op: "replace", path: "/entities/n", value: 4000 }] }],
  });
  same(store.near(3999), { seq: 1, state: { entities: { n: 1 }, relationships: {} } });
  same(store.near(8000)?.seq, 4000);
  same(store.at(8000), undefined);
});

Deno.test("a short world is overlooked state by state, a long one at the moments that are kept", async () => {
  const { store } = counting(5);
  same(store.overview(), []);
  store.want(1);
  await settled();
  same(store.overview().map(({ seq, state }) => [seq, state.entities["n"]]), [[1, 1], [2, 2], [3, 3], [4, 4], [5, 5]]);
  await store.grow(6, 6);
  same(store.overview().length, 6);
  const long = counting(9000).store;
  long.want(1);
  await settled();
  same(long.overview(), []);
});

Deno.test("the least recently used is forgotten", () => {
  const kept = new Lru<number, string>(2);
  kept.set(1, "a");
  kept.set(2, "b");
  kept.get(1);
  kept.set(3, "c");
  same([kept.has(1), kept.has(2), kept.has(3)], [true, false, true]);
});

Deno.test("pages of effects are loaded where they are in sight, and grow at the end", async () => {
  const effect = (global_seq: number) => ({ global_seq, kind: "K", payload: {} }) as unknown as Effect;
  const asked: number[] = [];
  const pages = new EffectPages((after, until) => {
    asked.push(after);
    // An answer may end early.
    const through = Math.min(until, after + 100);
    return Promise.resolve({
      effects: Array.from({ length: through - after }, (_, n) => effect(after + n + 1)),
      through,
    });
  }, 300);
  pages.want(200, 210);
  await settled();
  same(asked, [128, 228]);
  same([pages.at(200)?.global_seq, pages.at(1)?.global_seq], [200, undefined]);
  pages.want(300, 300);
  await settled();
  pages.append(effect(301));
  same(pages.at(301)?.global_seq, 301);
});

Deno.test("zooming keeps its place and stays within the world", () => {
  same(zoomed([1, 1000], 500, 0.5, 1000), [251, 751].map((each) => each));
  same(zoomed([1, 1000], 1000, 0.001, 1000)[1], 1000);
  same(shifted([100, 200], -500, 1000), [1, 101]);
  same(seqAt([1, 11], 0.5), 6);
});

async function* chunked(text: string, size: number): AsyncGenerator<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  for (let from = 0; from < bytes.length; from += size) yield await Promise.resolve(bytes.slice(from, from + size));
}

/** A log of so many effects, with its checksums by the rule of docs/reference/effects.md. */
async function written(count: number) {
  const texts = Array.from({ length: count }, (_, n) => `{"global_seq":${n + 1},"payload":{"ü":"${"x".repeat(n)}"}}`);
  const checksums: string[] = [];
  for (const text of texts) {
    const data = new TextEncoder().encode((checksums.at(-1) ?? "") + text);
    checksums.push(hex(new Uint8Array(await crypto.subtle.digest("SHA-256", data))));
  }
  return { texts, checksums };
}

Deno.test("bins grow with a world, and stay few", () => {
  const effects = Array.from({ length: 5000 }, (_, index) => {
    return { global_seq: index + 3, kind: index % 3 === 0 ? "__proto__" : "Move" };
  });
  const before: Bin[] = [{ from: 1, to: 2, counts: { Move: 2 } }];
  const bins = grown(grown(before, effects.slice(0, 1234), 8), effects.slice(1234), 8);
  same(bins.length <= 8 && bins.length >= 4, true);
  same(before, [{ from: 1, to: 2, counts: { Move: 2 } }]);
  same(bins.map(({ from }) => from), [1, ...bins.slice(0, -1).map(({ to }) => to + 1)]);
  same(bins.at(-1)?.to, 5002);
  const sum = (kind: string) => bins.reduce((all, { counts }) => all + (counts[kind] ?? 0), 0);
  same([sum("Move"), sum("__proto__")], [2 + 3333, 1667]);
  same(grown(before, [{ global_seq: 2, kind: "Move" }], 8), before);
});

Deno.test("effects that were not counted stay a gap in the timeline as a world grows, and are told of", () => {
  const counted: Bin[] = [{ from: 1, to: 1024, counts: { Move: 1024 } }, {
    from: 1025,
    to: 2048,
    counts: { Move: 1024 },
  }];
  same(countedTo(counted, 2050), null);
  same(countedTo(counted, 9000), 2048);
  const bins = grown(counted, [{ global_seq: 9001, kind: "Move" }, { global_seq: 9002, kind: "Move" }], 8);
  same(bins, [...counted, { from: 9001, to: 9002, counts: { Move: 2 } }]);
  same(countedTo(bins, 9002), 2048);
  const near = grown(counted, [{ global_seq: 2050, kind: "Move" }], 8);
  same([near.at(-1)?.from, countedTo(near, 2050)], [2049, null]);
});

Deno.test("what is asked for often is done at once, and then not too often", async () => {
  const wait = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));
  let done = 0;
  const work = throttled(100, () => done++);
  for (let asked = 0; asked < 5; asked++) work.ask();
  same(done, 1);
  while (done < 2) await wait(10);
  await wait(150);
  same(done, 2);
  work.ask();
  work.ask();
  work.cancel();
  await wait(150);
  same(done, 3);
});

Deno.test("work that takes its time is done once more for all that was asked meanwhile", async () => {
  const wait = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));
  const ends: (() => void)[] = [];
  const work = paced(5, () => new Promise<void>((resolve) => ends.push(resolve)));
  for (let asked = 0; asked < 5; asked++) work.ask();
  same(ends.length, 1);
  ends[0]?.();
  await wait(50);
  same(ends.length, 2);
  work.ask();
  work.cancel();
  ends[1]?.();
  await wait(50);
  same(ends.length, 2);
  work.ask();
  same(ends.length, 3);
});

Deno.test("a sound log verifies, by WebCrypto and by the library in its place", async () => {
  const { texts, checksums } = await written(40);
  const told = { seq: 40, checksum: checksums[39] as string };
  const noted = [{ seq: 7, checksum: (checksums[6] as string).slice(0, 8) }];
  const { sha256 } = await import("@noble/hashes/sha2.js");
  for (const hash of [bestHash(), sha256]) {
    const log = lines(chunked(texts.map((text) => `${text}\n`).join(""), 7));
    same(await verify(log, told, noted, hash), { effects: 40, head: told, breach: null });
  }
});

Deno.test("a log that was changed, cut, or is not the one that was noted is broken at a place", async () => {
  const { texts, checksums } = await written(9);
  const told = { seq: 9, checksum: checksums[8] as string };
  const noted = [5, 9].map((seq) => ({ seq, checksum: checksums[seq - 1] as string }));
  const check = async (changedTexts: string[], positions = noted) => {
    const log = lines(chunked(changedTexts.map((text) => `${text}\n`).join(""), 1000));
    return (await verify(log, told, positions, bestHash())).breach?.seq;
  };
  same(await check(texts), undefined);
  same(await check(texts.with(2, texts[2]?.replace("ü", "u") as string)), 5);
  same(await check(texts.with(2, texts[2]?.replace("ü", "u") as string), []), 9);
  same(await check(texts.toSpliced(3, 1)), 4);
  same(await check(texts.slice(0, 8)), 9);
  same(await check(texts.with(1, "not JSON")), 2);
  same(await check(texts, [{ seq: 12, checksum: "00000000" }]), 10);
});

Deno.test("a part of a log verifies from the position before it, and its positions are those of the log", async () => {
  const { texts, checksums } = await written(9);
  const at = (seq: number) => ({ seq, checksum: checksums[seq - 1] as string });
  const part = (from: number, to: number) => lines(chunked(texts.slice(from - 1, to).join("\n") + "\n", 7));
  const quiet = () => undefined;
  const sound = await verify(part(4, 7), at(7), [at(5), at(3)], bestHash(), quiet, at(3));
  same(sound, { effects: 4, head: at(7), breach: null });
  const moved = await verify(part(4, 7), at(7), [], bestHash(), quiet, { seq: 3, checksum: "0".repeat(64) });
  same(moved.breach?.seq, 7);
  const another = await verify(part(4, 7), at(7), [{ seq: 3, checksum: "0".repeat(64) }], bestHash(), quiet, at(3));
  same(another.breach?.seq, 3);
});

Deno.test("pages and bins of a part begin with its first effect", async () => {
  const effect = (global_seq: number) => ({ global_seq, kind: "K", payload: {} }) as unknown as Effect;
  const pages = new EffectPages(
    (after, until) => {
      const effects = Array.from({ length: until - after }, (_, n) => effect(after + n + 1));
      return Promise.resolve({ effects, through: until });
    },
    300,
    200,
  );
  pages.want(200, 300);
  await settled();
  same([199, 200, 257, 300].map((seq) => pages.at(seq)?.global_seq ?? 0), [0, 200, 257, 300]);
  same(binned(["a", "b", "b"], 200, 2), [{ from: 200, to: 200, counts: { a: 1 } }, {
    from: 201,
    to: 202,
    counts: { b: 2 },
  }]);
  same(zoomed([200, 300], 210, 2, 300, 200), [200, 300]);
});

Deno.test("a stream that ends within a line is no log", async () => {
  let failed = false;
  try {
    for await (const _ of lines(chunked('{"global_seq":1}\n{"glob', 5)));
  } catch (error) {
    failed = error instanceof TypeError;
  }
  same(failed, true);
});

Deno.test("a head is read as people note it", () => {
  same(parsePosition(" 12:ABCDEF01\n"), { seq: 12, checksum: "abcdef01" });
  same([parsePosition("12"), parsePosition("0:abcdef01"), parsePosition("3:xyz")], [null, null, null]);
});

const effectOf = (seq: number, kind: string, source_id: string, payload: Effect["payload"], more = {}): Effect => ({
  global_seq: seq,
  kind,
  source_id,
  sim_time: 0,
  wall_time: 0,
  payload,
  ...more,
});

Deno.test("effects are read as scenes, each begun by its unit", () => {
  const turn = { kinds: ["TurnStarted"], number: "turn" };
  const found = scenes(
    [
      effectOf(5, "Speak", "Ann", { text: "hello", private: true, target_id: "Bea" }),
      effectOf(6, "TurnStarted", "engine", { turn: 3 }),
      effectOf(7, "AgentStateChanged", "Ann", { patch: [{ op: "replace", path: "/gold", value: 9 }] }, {
        caused_by: 5,
        source_metadata: { context_seq: 4 },
      }),
      effectOf(8, "ViewDigest", "worldledger", { agent_id: "Ann" }),
      effectOf(9, "ViewDigest", "worldledger", { agent_id: "Bea" }),
    ],
    turn,
    2,
  );
  same(found.map(({ number, seq }) => [number, seq]), [[2, null], [3, 6]]);
  const [said] = found[0]?.lines ?? [];
  same([said?.way, said?.parts[0]?.text, said?.to, said?.alone, said?.led], ["says", "hello", "Bea", true, [7]]);
  const [, did, digests] = found[1]?.lines ?? [];
  same([did?.deed, did?.view, did?.because], ["gold 9", 4, [5]]);
  same(digests?.seqs, [8, 9]);
});

Deno.test("what was written for a cancelled generation is cut, and what was refused says why", () => {
  const [scene] = scenes([
    effectOf(2, "GenerationStarted", "Ann", { agent_id: "Ann", req_id: "r", generation_id: "g-1", context_seq: 1 }),
    effectOf(3, "Written", "Ann", { req_id: "r", text: "The " }),
    effectOf(4, "Written", "Ann", { req_id: "r", text: "moon" }),
    effectOf(5, "Speak", "Bea", { text: "Wait!" }),
    effectOf(6, "GenerationCancelled", "Ann", {
      agent_id: "Ann",
      req_id: "r",
      generation_id: "g-1",
      reason: "stale_due_to_effect_5",
    }),
    effectOf(7, "GenerationStarted", "Ann", { agent_id: "Ann", req_id: "r", generation_id: "g-2", context_seq: 5 }),
    effectOf(8, "Written", "Ann", { req_id: "r", text: "You first." }),
    effectOf(9, "IntentRejected", "worldledger", {
      agent_id: "Ann",
      req_id: "r",
      kind: "Speak",
      payload: { text: "You first." },
      code: "permission_denied",
      reason: "not now",
    }),
  ], null);
  const lines = scene?.lines ?? [];
  same(lines.map(({ way }) => way), ["begins", "writes", "says", "cut", "begins", "writes", "refused"]);
  same(lines[1]?.parts.map(({ text, cut }) => [text, cut]), [["The ", true], ["moon", true]]);
  same(lines[5]?.parts.map(({ cut }) => cut), [false]);
  same(lines[2]?.led, [6]);
  same(lines[4]?.led, [9]);
  same([lines[6]?.who, lines[6]?.parts[0]?.text, lines[6]?.why], [
    "Ann",
    "You first.",
    "permission_denied: not now",
  ]);
});

Deno.test("what a model had said when it was cut off is shown, and what it said to the end is not said twice", () => {
  const [scene] = scenes([
    effectOf(2, "GenerationStarted", "Ann", { agent_id: "Ann", req_id: "r.1", context_seq: 1 }),
    effectOf(3, "Speak", "Bea", { text: "Wait!" }),
    effectOf(4, "GenerationCancelled", "Ann", { agent_id: "Ann", req_id: "r.1", reason: "stale_due_to_effect_3" }),
    effectOf(5, "GenerationText", "Ann", { agent_id: "Ann", req_id: "r.1", part: "prompt", text: "{}" }),
    effectOf(6, "GenerationText", "Ann", { agent_id: "Ann", req_id: "r.1", part: "output", text: "The moon" }),
    effectOf(7, "GenerationStarted", "Ann", { agent_id: "Ann", req_id: "r.2", context_seq: 3 }),
    effectOf(8, "GenerationText", "Ann", { agent_id: "Ann", req_id: "r.2", part: "output", text: "You first." }),
  ], null);
  const lines = scene?.lines ?? [];
  same(lines.map(({ way }) => way), ["begins", "says", "cut", "aside", "writes", "begins", "aside"]);
  same([lines[4]?.who, lines[4]?.parts.map(({ text, cut }) => [text, cut])], ["Ann", [["The moon", true]]]);
  same(lines[6]?.parts, []);
});

Deno.test("what a model's answer took is told where it is reported", () => {
  const reported = (more: Obj) => effectOf(2, "GenerationReported", "Ann", { agent_id: "Ann", req_id: "r.1", ...more });
  const [scene] = scenes([
    reported({ outcome: "interrupted", tokens_in: 7, tokens_out: 29, took_ms: 13113.6, price: 0.25, currency: "EUR" }),
    reported({ outcome: "acted", recalled: { world_id: "before", req_id: "r" } }),
    reported({ outcome: "failed", tokens_out: 0, error: { code: "timeout", message: "silent" } }),
  ], null);
  same(scene?.lines.map(({ deed }) => deed), [
    "interrupted, 7 tokens read, 29 tokens written, 13.1 s, 0.25 EUR",
    "acted, recalled from before",
    "failed, 0 tokens written, silent",
  ]);
});

Deno.test("who is online is what the service answered and the generations that began or ended since", () => {
  const answer = {
    ...{ time: 0, is_open: true, seq: 10, agents_online: 2, intents_waiting: 0, refused: {}, generations_cancelled: 0 },
    agents: [
      { agent_id: "ann", readers: 1, queued: 0, view_seq: 9, generations: [] },
      { agent_id: "bea", readers: 0, queued: 0, view_seq: null, generations: [begun("g")] },
    ],
  };
  const news = [
    told(10, "GenerationStarted", { agent_id: "ann", req_id: "old", context_seq: 8 }),
    told(11, "GenerationStarted", { agent_id: "cid", req_id: "h", context_seq: 9 }),
    told(12, "GenerationCancelled", { agent_id: "bea", req_id: "g", reason: "user_requested" }),
    told(13, "IntentRejected", { agent_id: "ann", req_id: "r", reason: "no" }),
    told(14, "GenerationStarted", { agent_id: "ann", req_id: "i", context_seq: 9 }),
    told(15, "GenerationFinished", { agent_id: "ann", req_id: "i" }),
  ];
  same(present(answer, news), [
    { agent_id: "ann", readers: 1, queued: 0, view_seq: 9, generations: [] },
    { agent_id: "cid", readers: 0, queued: 0, view_seq: null, generations: [begun("h")] },
  ]);
  same([...news, told(16, "Speak", {})].map(isNews), [true, true, true, true, true, true, false]);

  function begun(req_id: string) {
    return { req_id, context_seq: 9, is_here: true };
  }

  function told(global_seq: number, kind: string, payload: Record<string, string | number>): Effect {
    return { global_seq, kind, payload, source_id: "worldledger", sim_time: 0, wall_time: 0 };
  }
});

Deno.test("a quantile is a value that so many do not exceed", () => {
  same([0, 0.5, 0.95, 1].map((share) => quantile([40, 10, 30, 20], share) ?? null), [10, 20, 40, 40]);
  same(quantile([], 0.5) ?? null, null);
});

Deno.test("a schema makes a form, and what is typed into it a payload", () => {
  const schema = {
    properties: {
      text: { type: "string", description: "What is said." },
      to: { type: ["array", "null"], items: { type: "number" } },
      private: { type: ["boolean", "null"] },
      turns: { anyOf: [{ type: "integer" }, { type: "null" }] },
      result: { type: ["string", "null"], enum: ["draw", null] },
      patch: { type: "array", items: { type: "object" } },
      comment: {},
      fen: { type: "string", readOnly: true },
    },
    required: ["text", "patch"],
  };
  const fields = fieldsOf(schema);
  same(fields.map(({ name, widget }) => `${name} ${widget}`), [
    ...["text text", "to numbers", "private choice", "turns number", "result choice", "patch json", "comment any"],
  ]);
  same(fields[0], { name: "text", needed: true, says: "What is said.", widget: "text", options: [] });
  const typed = ["", "1, 2.5", "true", "3", "draw", '[{"op": "test"}]', "5 o'clock"];
  same(fields.map((field, index) => valueOf(field, typed[index] as string)), [
    ...["", [1, 2.5], true, 3, "draw", [{ op: "test" }], "5 o'clock"],
  ]);
  same(fields.map((field) => valueOf(field, "") ?? null), ["", null, null, null, null, null, null]);
  same(valueOf(fields.at(-1) as typeof fields[0], '{"a": 1}'), { a: 1 });
  for (const [index, text] of [[1, "1, x"], [5, "{"]] as const) {
    let told = "";
    try {
      valueOf(fields[index] as typeof fields[0], text);
    } catch (error) {
      told = (error as Error).message;
    }
    same(told.startsWith(index === 1 ? "to: numbers" : "patch: not JSON"), true);
  }
});

Deno.test("a refusal names the fields that it speaks of", () => {
  const problems = [["$.payload.to[1]", "a"], ["$.payload.to", "b"], ["$.kind", "c"], ["$.payload", "d"]] as const;
  same(faults(problems.map(([path, message]) => ({ path, message }))), { to: "a" });
});

Deno.test("an effect that sets fields of an entity says whose and what", () => {
  const effect = { global_seq: 2, kind: "EntitySet", source_id: "recorder", sim_time: 0, wall_time: 0 };
  const values = { gold: 3, place: "the\nmarket", at: [1, 2] };
  same(summary({ ...effect, payload: { entity_id: "ann", values } }), "ann: gold 3, place the market, at [1,2]");
  same(summary({ ...effect, payload: { entity_id: "ann" } }), "ann");
  const patch: Obj[] = [{ op: "replace", path: "/bid/amount", value: 2 }, { op: "remove", path: "/ask" }];
  same(summary({ ...effect, payload: { agent_id: "ann", patch } }), "bid › amount 2, ask ✕");
});

Deno.test("an effect says what it counts, or what came of it", () => {
  const effect = { global_seq: 2, kind: "StepBegan", source_id: "recorder", sim_time: 0, wall_time: 0 };
  same(summary({ ...effect, payload: { step: 20 } }), "step 20");
  same(summary({ ...effect, payload: { duration_seconds: 0.4, round_number: 4 } }), "round_number 4");
  same(summary({ ...effect, payload: { round_number: 4, synthesis: "All agree." } }), "All agree.");
  same(summary({ ...effect, payload: { agent_id: "ann", outcome: "interrupted" } }), "interrupted");
});

Deno.test("values that differ are told in few decimals", () => {
  same(apart([5.724434585756536, 6.69], [4.35, 5.07]), ["[5.724,6.69]", "[4.35,5.07]"]);
  same(apart(0.00001, 0.00002), ["0.00001", "0.00002"]);
  same(apart(12345678.25, 12345678), ["12345678.25", "12345678"]);
  same(apart("calm", undefined), ["calm", ""]);
  same(apart({ food: 1.70843622 }, null), ['{"food":1.708}', "null"]);
});
