/** Playing a world: steps, a speed, the live head. */

import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { count } from "../core/text.ts";
import type { WorldModel } from "./model.ts";

const SPEEDS = [0.5, 1, 2, 4, 8, 16, 32, 64];
/** Effects a second at the speed 1. */
const PACE = 4;

export function Player({ model }: { model: WorldModel }) {
  const playing = useSignal(false);
  const speed = useSignal(1);

  useSignalEffect(() => {
    if (!playing.value) return;
    const rate = speed.value * PACE;
    let place = model.seq.peek();
    let last = performance.now();
    let frame = requestAnimationFrame(function step(now) {
      // Moved by hand meanwhile: go on from there.
      if (Math.floor(place) !== model.seq.peek()) place = model.seq.peek();
      place = Math.min(place + (rate * (now - last)) / 1000, model.head.peek());
      last = now;
      if (Math.floor(place) !== model.seq.peek()) model.move(Math.floor(place));
      if (place >= model.head.peek()) playing.value = false;
      else frame = requestAnimationFrame(step);
    });
    return () => cancelAnimationFrame(frame);
  });
  useEffect(() => {
    const toggle = () => {
      if (!playing.value && model.seq.peek() >= model.head.peek()) model.move(1);
      playing.value = !playing.value;
    };
    document.addEventListener("worldledger:play", toggle);
    return () => document.removeEventListener("worldledger:play", toggle);
  }, []);

  const live = model.here.at === "live";
  const by = (step: number) => model.move(model.seq.value + step);
  return (
    <div class="player" role="group" aria-label="Player">
      <button type="button" title="First (Home)" aria-label="First effect" onClick={() => model.move(1)}>⇤</button>
      <button type="button" title="Back (←)" aria-label="Back" onClick={() => by(-1)}>←</button>
      <button
        type="button"
        title="Play (space)"
        aria-pressed={playing.value}
        onClick={() => document.dispatchEvent(new Event("worldledger:play"))}
      >
        {playing.value ? "pause" : "play"}
      </button>
      <button type="button" title="Forward (→)" aria-label="Forward" onClick={() => by(1)}>→</button>
      <button type="button" title="Last (End)" aria-label="Last effect" onClick={() => model.move(model.head.value)}>
        ⇥
      </button>
      <select
        aria-label="Speed"
        value={speed.value}
        onChange={({ currentTarget }) => speed.value = Number(currentTarget.value)}
      >
        {SPEEDS.map((each) => <option key={each} value={each}>{each}×</option>)}
      </select>
      <button
        type="button"
        class="follow"
        aria-pressed={live}
        title="Follow the head (l)"
        onClick={() => model.change({ at: live ? model.seq.value : "live" })}
      >
        <span class={model.connected.value ? "dot on" : "dot"} aria-hidden="true" /> live
      </button>
      <label class="moment">
        <span class="unseen">Seq</span>
        <input
          type="number"
          min={1}
          max={model.head.value}
          value={model.seq.value}
          aria-label="Seq"
          onChange={({ currentTarget }) => model.move(Number(currentTarget.value) || 1, "step")}
        />{" "}
        of {count(model.head.value)}
      </label>
    </div>
  );
}
