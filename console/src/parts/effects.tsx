/** The list of effects: of a million only those in sight exist. With a filter or a search it is the list of what was found. */

import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Effect } from "../core/panel.ts";
import type { Hit } from "../core/source.ts";
import { count, oneLine, short, summary } from "../core/text.ts";
import { colourOf } from "../draw/histogram.ts";
import { source, words } from "./app.ts";
import type { WorldModel } from "./model.ts";
import { SearchField } from "./search.tsx";

/** Pixels of a row; style.css has the same. */
const ROW = 26;
/** Pixels that browsers let a box be high, well within: beyond, a pixel of scrolling is more than a row. */
const TALLEST = 8_000_000;
/** Milliseconds after the last key until payloads are searched. */
const TYPED_MS = 300;

interface Line {
  seq: number;
  kind: string;
  source: string;
  text: string;
}

/** Lines by their effects: one that is the same has its row left as it is. */
const known = new WeakMap<Effect, Line>();
function lineOf(effect: Effect): Line {
  let line = known.get(effect);
  if (line === undefined) {
    line = { seq: effect.global_seq, kind: effect.kind, source: effect.source_id, text: summary(effect) };
    known.set(effect, line);
  }
  return line;
}
const lineOfHit = ({ global_seq, kind, source_id, excerpt }: Hit): Line => {
  return { seq: global_seq, kind, source: source_id, text: short(oneLine(excerpt), 200) };
};

export function Effects({ model }: { model: WorldModel }) {
  const { kind, source: by, q } = model.look.value;
  const filtered = kind !== "" || by !== "" || q !== "";
  const kinds = model.kinds.value;
  const search = useRef<HTMLInputElement>(null);
  return (
    <section class="effects" aria-label="Effects">
      <form
        class="filters"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          model.change({ q: search.current?.value ?? "" });
        }}
      >
        <SearchField
          field={search}
          label="Search payloads"
          placeholder="search payloads  ( / )"
          value={q}
          delay={TYPED_MS}
          onTyped={(text) => model.change({ q: text }, "move")}
        />
        <select
          aria-label="Kind"
          value={kind}
          onChange={({ currentTarget }) => model.change({ kind: currentTarget.value })}
        >
          <option value="">every kind</option>
          {[...new Set([...kinds, ...(kind === "" ? [] : [kind])])].map((each) => (
            <option key={each} value={each}>{each}</option>
          ))}
        </select>
        <input
          aria-label="Source"
          placeholder="source"
          list="sources"
          value={by}
          onChange={({ currentTarget }) => model.change({ source: currentTarget.value })}
        />
        <datalist id="sources">
          {model.agents.value.map(({ agent_id }) => <option key={agent_id} value={agent_id} />)}
        </datalist>
        {filtered && <button type="button" onClick={() => model.change({ kind: "", source: "", q: "" })}>all</button>}
      </form>
      {filtered ? <Found key={`${kind}\n${by}\n${q}`} model={model} /> : <All model={model} />}
    </section>
  );
}

function All({ model }: { model: WorldModel }) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const room = useSignal(12);
  /** Where it is scrolled to: asked while rows are rendered, the browser would lay out the page in between. */
  const place = useRef(0);
  const length = model.head.value - model.first + 1;
  const tall = Math.min(length * ROW, TALLEST);
  const scaled = length * ROW > TALLEST;

  useEffect(() => {
    const element = box.current as HTMLDivElement;
    const watch = new ResizeObserver(() => room.value = Math.max(3, Math.ceil(element.clientHeight / ROW)));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);

  /** The index of the first row in sight. */
  const first = () => {
    const element = box.current as HTMLDivElement;
    place.current = element.scrollTop;
    if (!scaled) return Math.floor(place.current / ROW);
    const most = element.scrollHeight - element.clientHeight;
    return Math.round(
      (place.current / Math.max(1, most)) * Math.max(0, model.head.peek() - model.first - room.peek() + 2),
    );
  };
  // The list follows the cursor, unless its row is in sight already.
  useSignalEffect(() => {
    const seq = model.seq.value;
    const rows = room.value;
    const element = box.current;
    if (element === null) return;
    const index = seq - model.first;
    const all = model.head.peek() - model.first + 1;
    const begin = top.peek();
    if (index >= begin && index < begin + rows - 1 && element.scrollTop > 0) return;
    const wanted = Math.max(0, index - Math.floor(rows / 2));
    const most = element.scrollHeight - element.clientHeight;
    element.scrollTop = scaled
      ? (wanted / Math.max(1, all - rows + 1)) * most
      : Math.min(wanted * ROW, Math.max(0, all * ROW - element.clientHeight));
    top.value = first();
  });
  useSignalEffect(() => model.pages.want(model.first + top.value, model.first + top.value + room.value));

  void model.loaded.value;
  const cursor = model.seq.value;
  const from = top.value;
  const rows = Math.min(room.value + 1, length - from);
  const offset = scaled ? place.current : from * ROW;
  return (
    <div
      ref={box}
      class="rows"
      role="grid"
      aria-label="Every effect"
      aria-rowcount={length}
      tabIndex={0}
      onScroll={() => top.value = first()}
    >
      <div style={{ height: `${tall}px` }} role="presentation">
        <div style={{ transform: `translateY(${offset}px)` }} role="rowgroup">
          {Array.from({ length: Math.max(0, rows) }, (_, index) => {
            const seq = model.first + from + index;
            const effect = model.pages.at(seq);
            return <Row key={index} model={model} seq={seq} here={seq === cursor} line={effect && lineOf(effect)} />;
          })}
        </div>
      </div>
    </div>
  );
}

function Row({ model, seq, here, line }: { model: WorldModel; seq: number; here: boolean; line: Line | undefined }) {
  const kinds = model.kinds.value;
  return (
    <div
      role="row"
      class={`row${here ? " here" : ""}`}
      aria-rowindex={seq - model.first + 1}
      aria-selected={here}
      onClick={() => model.move(seq, "step", { effect: seq })}
    >
      <span role="gridcell" class="seq">{seq}</span>
      <span role="gridcell" class="kind">
        {line && <span class={`swatch ${colourOf(kinds, line.kind).slice(2)}`} aria-hidden="true" />}
        <bdi>{line?.kind ?? "…"}</bdi>
      </span>
      <span role="gridcell" class="source">
        <bdi>{line?.source}</bdi>
      </span>
      <span role="gridcell" class="text">
        <bdi>{line?.text}</bdi>
      </span>
    </div>
  );
}

function Found({ model }: { model: WorldModel }) {
  const { kind, source: by, q } = model.look.value;
  const lines = useSignal<Line[]>([]);
  const said = useSignal("looking …");
  const next = useSignal<number | null>(null);
  const filter = { kind, source: by };
  const name = model.world.world_id;

  const more = async (after: number) => {
    const page = await source.effects(name, after, null, 200, filter);
    lines.value = [...lines.value, ...page.effects.map(lineOf)];
    next.value = page.next;
    said.value = page.next === null ? `${count(lines.value.length)} found` : `the first ${count(lines.value.length)}`;
  };
  useEffect(() => {
    const request = new AbortController();
    const failed = (error: unknown) => {
      if (!request.signal.aborted) said.value = words(error);
    };
    if (q === "") more(0).catch(failed);
    else {
      const told = {
        hit: (hit: Hit) => lines.value = [...lines.value, lineOfHit(hit)],
        progress: (scanned: number, of: number) => said.value = `looked through ${count(scanned)} of ${count(of)} …`,
      };
      source.search(name, q, filter, told, request.signal).then((complete) => {
        said.value = `${complete ? "" : "the newest "}${count(lines.value.length)} found`;
      }, failed);
    }
    return () => request.abort();
  }, []);
  return (
    <>
      <p class="said" role="status">{said.value}</p>
      <div class="rows" role="grid" aria-label="Effects found" tabIndex={0}>
        {lines.value.map((line) => (
          <Row key={line.seq} model={model} seq={line.seq} here={line.seq === model.seq.value} line={line} />
        ))}
        {next.value !== null && <button type="button" onClick={() => void more(next.value as number)}>more</button>}
      </div>
    </>
  );
}
