/** The transcript: a world as a play, around the cursor. Only a part of the log is there; more is read as one asks. */

import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { FrameStore } from "../core/frames.ts";
import type { Effect } from "../core/panel.ts";
import { operation } from "../core/text.ts";
import { beginning, type Line, type Part, type Scene, scenes, type Unit } from "../core/transcript.ts";
import { source, units } from "./app.ts";
import type { WorldModel } from "./model.ts";
import { Long } from "./tree.tsx";

/** Effects that are read at a time, and most that are there at once. */
const PART = 128;
const MOST = 1024;
/** Agents of whom it is told what they were shown, if none is chosen; operations of one effect that are told. */
const AGENTS = 4;
const OPERATIONS = 12;
/** Characters of a text that are shown at first. */
const CHARACTERS = 2000;
/** Milliseconds between two times that what agents were shown of new effects is fetched. */
const GROW_MS = 300;
const NONE: Record<string, Unit> = {};

interface Begun {
  seq: number;
  number: number;
}

export function Transcript({ model }: { model: WorldModel }) {
  const { ruleset } = model.world;
  const declared = Object.hasOwn(units, ruleset) ? units[ruleset] as Record<string, Unit> : NONE;
  const names = Object.keys(declared);
  const chosen = names.includes(model.look.value.unit) ? model.look.value.unit : names[0] ?? "";
  const unit = chosen === "" ? null : declared[chosen] as Unit;
  const range = useSignal(around(model.seq.peek(), model.head.peek(), model.first));
  const begun = useSignal<Begun[]>([]);
  const box = useRef<HTMLDivElement>(null);
  /** The effect that is to be in sight, until it is. */
  const sought = useRef<number | null>(model.seq.peek());

  // What is there follows the cursor: on by a part where it just leaves it, anew where it is elsewhere.
  useSignalEffect(() => {
    const seq = model.seq.value;
    const [from, to] = range.peek();
    sought.current = seq;
    if (seq > to && seq <= to + PART) range.value = [Math.max(from, seq - MOST + 1), seq];
    else if (seq < from || seq > to) range.value = around(seq, model.head.peek(), model.first);
  });
  useSignalEffect(() => {
    void model.loaded.value;
    model.pages.want(...range.value);
  });
  useEffect(() => {
    let left = false;
    begun.value = [];
    if (unit !== null) {
      void model.effectsOf(unit.kinds).then((effects) => {
        if (!left) begun.value = beginnings(effects, unit);
      }, () => undefined);
    }
    return () => {
      left = true;
    };
  }, [unit]);

  void model.loaded.value;
  const [from, to] = range.value;
  const effects: Effect[] = [];
  for (let seq = from; seq <= Math.min(to, model.head.value); seq++) {
    const effect = model.pages.at(seq);
    if (effect !== undefined) effects.push(effect);
  }
  const before = begun.value.findLast(({ seq }) => seq < from)?.number ?? null;
  const told = useMemo(
    () => scenes(effects, unit, before),
    [from, effects.length, effects.at(-1)?.global_seq, unit, before],
  );
  const known = useMemo(() => together(begun.value, told), [begun.value, told]);
  const at = known.findLast(({ seq }) => seq <= model.seq.value);
  const place = at === undefined ? -1 : known.indexOf(at);
  const agents = model.look.value.agents.length > 0
    ? model.look.value.agents
    : model.agents.value.slice(0, AGENTS).map(({ agent_id }) => agent_id);
  const shown = useShown(model, agents, from, to);

  useEffect(() => {
    const element = box.current as HTMLDivElement;
    element.querySelector("[aria-current]")?.removeAttribute("aria-current");
    const line = element.querySelector(`[data-seqs~="${model.seq.value}"]`);
    line?.setAttribute("aria-current", "true");
    const wanted = sought.current === null ? null : element.querySelector(`[data-seqs~="${sought.current}"]`);
    if (wanted === null) return;
    sought.current = null;
    const [inner, outer] = [wanted.getBoundingClientRect(), element.getBoundingClientRect()];
    if (inner.top < outer.top || inner.bottom > outer.bottom) {
      element.scrollTop += inner.top - outer.top - outer.height / 3;
    }
  });

  const earlier = () => {
    sought.current = from;
    const begin = Math.max(model.first, from - PART);
    range.value = [begin, Math.min(to, begin + MOST - 1)];
  };
  const later = () => {
    const end = Math.min(to + PART, model.head.peek());
    range.value = [Math.max(from, end - MOST + 1), end];
  };
  const goTo = (found: Begun | undefined) => found !== undefined && model.move(found.seq, "step");
  return (
    <section class="transcript" aria-label="Transcript">
      <div class="choices" role="group" aria-label="Scenes">
        {names.length > 1 && (
          <select
            aria-label="Unit"
            value={chosen}
            onChange={({ currentTarget }) => model.change({ unit: currentTarget.value })}
          >
            {names.map((each) => <option key={each} value={each}>{each}</option>)}
          </select>
        )}
        {unit !== null && (
          <>
            <button
              type="button"
              aria-label={`Previous ${chosen}`}
              disabled={place < 1}
              onClick={() => goTo(known[place - 1])}
            >
              ‹
            </button>
            <label>
              {chosen}{" "}
              <input
                type="number"
                value={at?.number ?? ""}
                onChange={({ currentTarget }) =>
                  goTo(known.findLast(({ number }) => number === Number(currentTarget.value)))}
              />
            </label>
            <button
              type="button"
              aria-label={`Next ${chosen}`}
              disabled={place + 1 >= known.length}
              onClick={() => goTo(known[place + 1])}
            >
              ›
            </button>
          </>
        )}
        {agents.length > 0 && (
          <span class="about">
            shown to: <bdi>{agents.join(", ")}</bdi>
          </span>
        )}
      </div>
      <div
        ref={box}
        class="script"
        role="region"
        aria-label="Script"
        tabIndex={0}
        onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
          if (scrollTop + clientHeight > scrollHeight - 200 && to < model.head.peek()) later();
        }}
      >
        {from > model.first && <button type="button" onClick={earlier}>earlier …</button>}
        {told.map((scene, index) => (
          <section key={scene.seq ?? 0} aria-label={title(chosen, scene, index, from)}>
            {(scene.number !== null || index > 0) && (
              <h2>
                {title(chosen, scene, index, from)}
              </h2>
            )}
            <ol>
              {scene.lines.map((line) => <OneLine key={line.seqs[0]} model={model} line={line} shown={shown} />)}
            </ol>
          </section>
        ))}
        {effects.length < Math.min(to, model.head.value) - from + 1 && (
          <p class="said" role="status">
            loading … <button type="button" onClick={() => model.pages.want(from, to)}>again</button>
          </p>
        )}
        {to < model.head.value && <button type="button" onClick={later}>later …</button>}
      </div>
    </section>
  );
}

function around(seq: number, head: number, first: number): [number, number] {
  return [Math.max(first, seq - PART), Math.min(head, seq + PART)];
}

function beginnings(effects: readonly Effect[], unit: Unit): Begun[] {
  const found: Begun[] = [];
  for (const effect of effects) {
    const number = beginning(effect, unit);
    if (number !== null && number !== found.at(-1)?.number) found.push({ seq: effect.global_seq, number });
  }
  return found;
}

/** The beginnings that were read at first, and those of scenes that came since. */
function together(begun: readonly Begun[], told: readonly Scene[]): Begun[] {
  const last = begun.at(-1)?.seq ?? 0;
  const more = told.flatMap(({ seq, number }) =>
    seq !== null && number !== null && seq > last ? [{ seq, number }] : []
  );
  return [...begun, ...more];
}

function title(unit: string, { number, seq }: Scene, index: number, from: number): string {
  if (number === null) return index === 0 && from === 1 ? "The beginning" : "Going on";
  return `${unit.slice(0, 1).toUpperCase()}${unit.slice(1)} ${number}${seq === null ? ", going on" : ""}`;
}

/** What each agent was shown of an effect, as changes of its view; undefined for nothing, and while that is loaded. */
type Shown = readonly { agent: string; at: (seq: number) => readonly string[] | undefined }[];

function useShown(model: WorldModel, agents: readonly string[], from: number, to: number): Shown {
  const name = model.world.world_id;
  const loaded = useSignal(0);
  const key = JSON.stringify(agents);
  const stores = useMemo(() =>
    agents.map((agent) => {
      const registered = model.agents.peek().find(({ agent_id }) => agent_id === agent)?.registered_seq ?? 1;
      const first = Math.max(registered, model.first);
      const store = new FrameStore(
        (begin, end, signal) => source.block(name, agent, begin, end, signal),
        model.head.peek(),
        first,
      );
      store.subscribe(() => void loaded.value++);
      return { agent, store };
    }), [key]);
  useEffect(() => () => stores.forEach(({ store }) => store.close()), [stores]);
  useEffect(() => {
    for (const { store } of stores) [from, to].forEach((seq) => store.want(seq));
  }, [stores, from, to]);
  useEffect(() => {
    const timer = setTimeout(
      () => stores.forEach(({ store }) => void store.grow(model.head.peek(), from, model.head.peek())),
      GROW_MS,
    );
    return () => clearTimeout(timer);
  }, [stores, Math.ceil(model.head.value / 8)]);
  return useMemo(() =>
    stores.map(({ agent, store }) => ({
      agent,
      at: (seq) =>
        store.toldAt(seq)?.map(({ op, path, value }) => operation(op, path.replace(/^\/entities/, ""), value)),
    })), [stores, loaded.value]);
}

const SIGNS: Partial<Record<Line["way"], string>> = { begins: "✎", cut: "✂", refused: "✗" };
const VERBS: Partial<Record<Line["way"], string>> = {
  thinks: "thinks",
  writes: "writes",
  begins: "begins to write",
  cut: "is cut off",
  refused: "is refused",
};

function OneLine({ model, line, shown }: { model: WorldModel; line: Line; shown: Shown }) {
  const { seqs, who, way, kind, deed, notes, parts, to, alone, why, view, because, led } = line;
  const open = (seq: number) => model.move(seq, "step", { effect: seq });
  const links = (list: readonly number[]) =>
    list.map((seq) => (
      <button key={seq} type="button" class="link" onClick={() => open(seq)}>
        effect {seq}
      </button>
    ));
  const first = seqs[0] as number;
  return (
    <li class={`line ${way}`} data-seqs={seqs.join(" ")}>
      <button type="button" class="link seq" aria-label={`Effect ${first}`} onClick={() => open(first)}>{first}</button>
      <div>
        {SIGNS[way] !== undefined && <span class="sign" aria-hidden="true">{SIGNS[way]}</span>}{" "}
        <bdi class="who">{who}</bdi>{" "}
        {VERBS[way] ?? (way === "acts" || way === "aside" ? <bdi class="about">{kind}</bdi> : "")}{" "}
        {to !== "" && (
          <span class="about">
            {alone ? "to " : "→ "}
            <bdi>{to}</bdi>
            {alone && " alone"}
          </span>
        )} {deed !== "" && <bdi class="deed">{deed}</bdi>}
        {way === "writes"
          ? <Written parts={parts} open={open} />
          : parts.map(({ text, thought }, index) => (
            <p key={index}>
              <Long text={text} look={thought ? "thought" : "speech"} most={CHARACTERS} />
            </p>
          ))}
        {why !== "" && (
          <p class="why">
            <bdi>{why}</bdi>
          </p>
        )}
        {way === "aside" && seqs.length > 1 && <span class="about">{links(seqs.slice(1))}</span>}
        <p class="about">
          {notes !== "" && <bdi class="notes">{notes}</bdi>}
          {view !== null && (
            <span>
              from what <bdi>{who}</bdi> saw at{" "}
              <button type="button" class="link" onClick={() => model.move(view, "step", looking(model, who))}>
                seq {view}
              </button>
            </span>
          )}
          {because.length > 0 && <span>because of {links(because)}</span>}
          {led.length > 0 && <span>led to {links(led)}</span>}
          <WasShown seqs={seqs} shown={shown} />
        </p>
      </div>
    </li>
  );
}

/** The address in which an agent's belief stands beside the truth. */
function looking({ here, agents }: WorldModel, who: string) {
  const known = agents.peek().some(({ agent_id }) => agent_id === who);
  const panes = here.panes.includes("state") ? here.panes : [...here.panes, "state" as const];
  return known ? { agents: [who], panes } : { panes };
}

function Written({ parts, open }: { parts: readonly Part[]; open: (seq: number) => void }) {
  return (
    <p class="written">
      {parts.map(({ seq, text, cut }) => {
        const word = (
          <button key={seq} type="button" class="piece" title={`effect ${seq}`} onClick={() => open(seq)}>
            <bdi>{text}</bdi>
          </button>
        );
        return cut ? <del key={seq}>{word}</del> : word;
      })}
    </p>
  );
}

function WasShown({ seqs, shown }: { seqs: readonly number[]; shown: Shown }) {
  const told = shown.flatMap(({ agent, at }) => {
    const what = seqs.map(at).filter((each) => each !== undefined);
    return what.length === 0 ? [] : [{ agent, what: what.flat() }];
  });
  if (told.length === 0) return null;
  const changed = told.filter(({ what }) => what.length > 0);
  const names = (
    <>
      shown to <bdi>{told.map(({ agent }) => agent).join(", ")}</bdi>
    </>
  );
  // An event is in no view: there is nothing more to say.
  if (changed.length === 0) return <span>{names}</span>;
  return (
    <details>
      <summary>{names}</summary>
      <ul>
        {changed.map(({ agent, what }) => (
          <li key={agent}>
            <bdi class="who">{agent}</bdi> <bdi>{what.slice(0, OPERATIONS).join(", ")}</bdi>
            {what.length > OPERATIONS && ` and ${what.length - OPERATIONS} more`}
          </li>
        ))}
      </ul>
    </details>
  );
}
