/** The list of effects: of a million only those in sight exist. With a filter or a search it is the list of what was found. */

import { effect, useSignal, useSignalEffect } from "@preact/signals";
import { Component } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
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
/** Rows that stay in sight behind a cursor that moves out of the list. */
const BEHIND = 2;
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
/** A line as a row has it, with the class of its colour. */
const shown = (kinds: readonly string[], line: Line | undefined) => ({
  line,
  colour: line === undefined ? "" : colourOf(kinds, line.kind).slice(2),
});
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

/** The pixels that the list of so many effects is high, and those by which a box of a height scrolls it. */
const tallOf = (length: number) => Math.min(length * ROW, TALLEST);
const mostOf = (length: number, height: number) => Math.max(0, tallOf(length) - height);

/** Where a list is scrolled to whose first row in sight has this index, with room for so many rows. */
function placeOf(index: number, length: number, rows: number, height: number): number {
  const most = mostOf(length, height);
  if (length * ROW <= TALLEST) return Math.min(index * ROW, most);
  return Math.min(Math.round((index / Math.max(1, length - rows + 1)) * most), most);
}

/** The index of the first row in sight of a list that is scrolled to a place. */
function firstAt(place: number, length: number, rows: number, height: number): number {
  if (length * ROW <= TALLEST) return Math.floor(place / ROW);
  return Math.round((place / Math.max(1, mostOf(length, height))) * (length - rows + 1));
}

/**
 * The row in sight that a cursor is put in which a step has led out of so many rows: the first ones if it moves on, the
 * last ones if it moves back, so that it goes through the others before they change again. After a leap it is the middle.
 */
function rowOf(step: number, rows: number): number {
  if (Math.abs(step) >= rows) return Math.floor(rows / 2);
  return step > 0 ? BEHIND : Math.max(0, rows - 2 - BEHIND);
}

function All({ model }: { model: WorldModel }) {
  const box = useRef<HTMLDivElement>(null);
  /** The index of the first row in sight, and how many there is room for. */
  const top = useSignal(0);
  const room = useSignal(12);
  /** Where it is scrolled to, and its height: to ask for them as the cursor moves would have the page laid out. */
  const place = useRef(0);
  const height = useRef(12 * ROW);
  /** Where it is to be scrolled to once its rows are there. */
  const wanted = useRef<number | null>(null);
  const lengthNow = () => model.head.peek() - model.first + 1;

  useEffect(() => {
    const element = box.current as HTMLDivElement;
    const watch = new ResizeObserver(() => {
      height.current = element.clientHeight;
      room.value = Math.max(3, Math.ceil(height.current / ROW));
    });
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  const scrolled = () => {
    place.current = (box.current as HTMLDivElement).scrollTop;
    top.value = firstAt(place.current, lengthNow(), room.peek(), height.current);
  };
  // The list follows the cursor, unless its row is in sight already: at once, so that a move renders the rows one time.
  useLayoutEffect(() => {
    let before = -Infinity;
    return effect(() => {
      const index = model.seq.value - model.first;
      const rows = room.value;
      const begin = top.peek();
      const step = index - before;
      before = index;
      if (index >= begin && index < begin + rows - 1) return;
      wanted.current = placeOf(Math.max(0, index - rowOf(step, rows)), lengthNow(), rows, height.current);
      place.current = wanted.current;
      top.value = firstAt(place.current, lengthNow(), rows, height.current);
    });
  }, []);
  useLayoutEffect(() => {
    if (wanted.current === null) return;
    (box.current as HTMLDivElement).scrollTop = wanted.current;
    wanted.current = null;
    scrolled();
  });
  useSignalEffect(() => model.pages.want(model.first + top.value, model.first + top.value + room.value));

  void model.loaded.value;
  const kinds = model.kinds.value;
  const cursor = model.seq.value;
  const length = model.head.value - model.first + 1;
  const from = top.value;
  const rows = Math.min(room.value + 1, length - from);
  const tall = tallOf(length);
  const offset = length * ROW > TALLEST ? place.current : from * ROW;
  return (
    <div
      ref={box}
      class="rows"
      role="grid"
      aria-label="Every effect"
      aria-rowcount={length}
      tabIndex={0}
      onScroll={scrolled}
    >
      <div style={{ height: `${tall}px` }} role="presentation">
        <div style={{ transform: `translateY(${offset}px)` }} role="rowgroup">
          {Array.from({ length: Math.max(0, rows) }, (_, index) => {
            const seq = model.first + from + index;
            const found = model.pages.at(seq);
            const line = found && lineOf(found);
            return <Row key={index} model={model} seq={seq} here={seq === cursor} {...shown(kinds, line)} />;
          })}
        </div>
      </div>
    </div>
  );
}

interface RowProps {
  model: WorldModel;
  seq: number;
  here: boolean;
  line: Line | undefined;
  colour: string;
}

/** An effect in one line, rendered again only where something of it is new. Each cell has its own direction of text. */
class Row extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    const { seq, here, line, colour } = this.props;
    return next.seq !== seq || next.here !== here || next.line !== line || next.colour !== colour;
  }

  override render({ model, seq, here, line, colour }: RowProps) {
    return (
      <div
        role="row"
        class={here ? "row here" : "row"}
        aria-rowindex={seq - model.first + 1}
        aria-selected={here}
        onClick={this.open}
      >
        <span role="gridcell" class="seq">{seq}</span>
        <span role="gridcell" class={line ? `kind ${colour}` : "kind"}>{line?.kind ?? "…"}</span>
        <span role="gridcell" class="source">{line?.source}</span>
        <span role="gridcell" class="text">{line?.text}</span>
      </div>
    );
  }

  private readonly open = () => this.props.model.move(this.props.seq, "step", { effect: this.props.seq });
}

function Found({ model }: { model: WorldModel }) {
  const { kind, source: by, q } = model.look.value;
  const lines = useSignal<Line[]>([]);
  const said = useSignal("looking …");
  const next = useSignal<number | null>(null);
  const filter = { kind, source: by };
  const name = model.world.world_id;
  const kinds = model.kinds.value;
  const cursor = model.seq.value;

  const more = async (after: number) => {
    const page = await source.effects(name, after, model.until, 200, filter);
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
      source.search(name, q, model.until, filter, told, request.signal).then((complete) => {
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
          <Row key={line.seq} model={model} seq={line.seq} here={line.seq === cursor} {...shown(kinds, line)} />
        ))}
        {next.value !== null && <button type="button" onClick={() => void more(next.value as number)}>more</button>}
      </div>
    </>
  );
}
