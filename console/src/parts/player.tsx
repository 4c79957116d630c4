/** Playing a world: steps, a speed, the live head. */

import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { onBySimTime, stopFrom, stops } from "../core/playing.ts";
import { count } from "../core/text.ts";
import { throttled } from "../core/throttle.ts";
import { offline, units } from "./app.ts";
import type { WorldModel } from "./model.ts";

const SPEEDS = [0.5, 1, 2, 4, 8, 16, 32, 64];
/** Effects a second at the speed 1; of turns, rounds and plies, and of sim_time, it is one. */
const PACE = 4;
/** Milliseconds between two times that the seq is written. */
const WRITE_MS = 100;

export function Player({ model }: { model: WorldModel }) {
  const playing = useSignal(false);
  const speed = useSignal(1);

  /** What passes as it plays: effects, sim_time, or a unit in which the kind counts. */
  const passes = useSignal("seq");
  const counted = units[model.world.ruleset] ?? {};
  const usual = Object.keys(counted)[0];

  /** Where the turns, rounds or plies end. */
  const stopsOf = async (unit: string) => {
    const begins = await model.effectsOf(counted[unit]?.kinds ?? []);
    return stops(begins.map(({ global_seq }) => global_seq), model.head.peek());
  };
  const step = async (direction: 1 | -1) => {
    const unit = passes.peek() in counted ? passes.peek() : usual;
    if (unit !== undefined) model.move(stopFrom(await stopsOf(unit), model.seq.peek(), direction));
  };

  /** Go to the end of a turn, round or ply, by its number. */
  const toNumber = async (unit: string, text: string) => {
    const { kinds = [], number = "" } = counted[unit] ?? {};
    const begins = (await model.effectsOf(kinds)).filter(({ payload }) => String(payload[number]) === text);
    const begin = begins.at(-1)?.global_seq;
    if (begin !== undefined) model.move((await stopsOf(unit)).find((each) => each >= begin) ?? begin, "step");
  };

  useSignalEffect(() => {
    if (!playing.value) return;
    const unit = passes.value;
    const isUnit = unit in counted;
    const rate = speed.value * (unit === "seq" ? PACE : 1);
    const timeOf = (seq: number) => {
      const time = model.store(null).at(seq)?.metadata?.["last_effect_time"];
      return typeof time === "number" ? time : undefined;
    };
    let places: number[] = [];
    if (isUnit) stopsOf(unit).then((found) => places = found, () => playing.value = false);
    let place = model.seq.peek();
    let time = timeOf(place);
    /** The part of a step that has passed. */
    let part = 0;
    let last = performance.now();
    let frame = requestAnimationFrame(function next(now) {
      const seconds = (now - last) / 1000;
      last = now;
      // Moved by hand meanwhile: go on from there.
      if (place !== model.seq.peek()) [place, part, time] = [model.seq.peek(), 0, undefined];
      if (unit === "sim_time") {
        time ??= timeOf(place);
        if (time !== undefined) {
          ({ seq: place, time } = onBySimTime({ seq: place, time }, seconds, rate, model.head.peek(), timeOf));
        }
      } else {
        part += rate * seconds;
        const whole = Math.floor(part);
        part -= whole;
        if (!isUnit) place = Math.min(place + whole, model.head.peek());
        else for (let each = 0; each < whole; each++) place = stopFrom(places, place, 1);
      }
      if (place !== model.seq.peek()) model.move(place);
      if (place >= model.head.peek()) playing.value = false;
      else frame = requestAnimationFrame(next);
    });
    return () => cancelAnimationFrame(frame);
  });
  useEffect(() => {
    const toggle = () => {
      if (!playing.value && model.seq.peek() >= model.head.peek()) model.move(1);
      playing.value = !playing.value;
    };
    const byUnit = ({ detail }: Event & { detail?: unknown }) => void step(detail === -1 ? -1 : 1);
    document.addEventListener("worldledger:play", toggle);
    document.addEventListener("worldledger:unit", byUnit);
    return () => {
      document.removeEventListener("worldledger:play", toggle);
      document.removeEventListener("worldledger:unit", byUnit);
    };
  }, []);

  const live = model.live.value;
  const unitName = passes.value in counted ? passes.value : usual;
  return (
    <div class="player" role="group" aria-label="Player">
      <button type="button" title="First (Home)" aria-label="First effect" onClick={() => model.toFirst()}>⇤</button>
      <button type="button" title="Back (←)" aria-label="Back" onClick={() => model.step(-1)}>←</button>
      <button
        type="button"
        title="Play (space)"
        aria-pressed={playing.value}
        onClick={() => document.dispatchEvent(new Event("worldledger:play"))}
      >
        {playing.value ? "pause" : "play"}
      </button>
      <button type="button" title="Forward (→)" aria-label="Forward" onClick={() => model.step(1)}>→</button>
      <button type="button" title="Last (End)" aria-label="Last effect" onClick={() => model.toLast()}>
        ⇥
      </button>
      {usual !== undefined && ([-1, 1] as const).map((direction) => (
        <button
          key={direction}
          type="button"
          title={direction === 1 ? `To the end of the ${unitName} ( ] )` : `To the end of the ${unitName} before ( [ )`}
          aria-label={`${direction === 1 ? "Next" : "Previous"} ${unitName}`}
          onClick={() => void step(direction)}
        >
          {direction === 1 ? `${unitName} ⇥` : `⇤ ${unitName}`}
        </button>
      ))}
      {unitName !== undefined && (
        <input
          type="number"
          style={{ width: `calc(${unitName.length + 7}ch + 3em)` }}
          placeholder={`end of ${unitName}`}
          aria-label={`To the end of ${unitName} number`}
          title={`A number: to the end of that ${unitName}`}
          onChange={({ currentTarget }) => void toNumber(unitName, currentTarget.value)}
        />
      )}
      <select
        aria-label="Play by"
        value={passes.value}
        onChange={({ currentTarget }) => passes.value = currentTarget.value}
      >
        <option value="seq">by effect</option>
        {Object.keys(counted).map((unit) => <option key={unit} value={unit}>by {unit}</option>)}
        <option value="sim_time">by sim_time</option>
      </select>
      <select
        aria-label="Speed"
        value={speed.value}
        onChange={({ currentTarget }) => speed.value = Number(currentTarget.value)}
      >
        {SPEEDS.map((each) => <option key={each} value={each}>{each}×</option>)}
      </select>
      {!offline && (
        <button
          type="button"
          class="follow"
          aria-pressed={live}
          title="Follow the head (l)"
          onClick={() => model.toggleLive()}
        >
          <span class={model.connected.value ? "dot on" : "dot"} aria-hidden="true" /> live
        </button>
      )}
      {model.paused.value && <span class="about">paused while hidden</span>}
      <Moment model={model} />
    </div>
  );
}

/** The seq of the cursor as a number, which nobody reads while it runs: it is written some times a second. */
function Moment({ model }: { model: WorldModel }) {
  const seq = useSignal(model.seq.peek());
  useEffect(() => {
    const write = throttled(WRITE_MS, () => seq.value = model.seq.peek());
    const end = model.cursor.subscribe(write.ask);
    write.ask();
    return () => {
      end();
      write.cancel();
    };
  }, [model]);
  return (
    <label class="moment">
      <span class="unseen">Seq</span>
      <input
        type="number"
        min={model.first}
        max={model.head.value}
        value={seq.value}
        aria-label="Seq"
        onChange={({ currentTarget }) => model.move(Number(currentTarget.value) || 1, "step")}
      />{" "}
      of {count(model.head.value)}
    </label>
  );
}
