/** One world: its timeline, its effects, its state at the cursor. */

import { useSignal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { format, type Pane, worldAddress } from "../core/address.ts";
import { count } from "../core/text.ts";
import { Along } from "../parts/along.tsx";
import { offline, words } from "../parts/app.ts";
import { Detail } from "../parts/detail.tsx";
import { Effects } from "../parts/effects.tsx";
import { Integrity } from "../parts/integrity.tsx";
import { Keys } from "../parts/keys.tsx";
import { Online } from "../parts/online.tsx";
import { WorldModel } from "../parts/model.ts";
import { Player } from "../parts/player.tsx";
import { Post } from "../parts/post.tsx";
import { States } from "../parts/state.tsx";
import { Timeline } from "../parts/timeline.tsx";
import { Transcript } from "../parts/transcript.tsx";

const PANES: readonly (readonly [Pane, string])[] = [
  ["effects", "Effects"],
  ["state", "State"],
  ["transcript", "Transcript"],
  ["integrity", "Integrity"],
  ["online", "Online"],
  ["post", "Post"],
];
/** The panes of what only the service knows. */
const NOW: readonly Pane[] = ["online", "post"];

export function World({ name, parents }: { name: string; parents: number }) {
  const model = useSignal<WorldModel | null>(null);
  const error = useSignal("");
  // Before the browser has painted anything: what it waits for longest is asked for first.
  useLayoutEffect(() => {
    document.title = `${name} · Worldledger`;
    let made: WorldModel | undefined;
    let left = false;
    WorldModel.open(name, parents).then((opened) => {
      made = opened;
      if (left) made.close();
      else model.value = made;
    }, (reason) => error.value = words(reason));
    return () => {
      left = true;
      made?.close();
    };
  }, []);
  if (model.value !== null) return <Opened model={model.value} name={name} />;
  return (
    <main class="world">
      <h1>{name}</h1>
      {error.value === "" ? <p role="status">loading …</p> : (
        <p role="alert">
          {error.value}. <a href="#/">All worlds</a>
        </p>
      )}
    </main>
  );
}

function Opened({ model, name }: { model: WorldModel; name: string }) {
  const { world } = model;
  const { panes, effect } = model.look.value;
  /** What happens now is not in a past. */
  const isNow = !offline && model.until === null;
  const toggle = (pane: Pane) =>
    model.change({ panes: panes.includes(pane) ? panes.filter((each) => each !== pane) : [...panes, pane] });
  return (
    <main class="world">
      <header>
        <h1>{name}</h1>
        <p class="about">
          {world.ruleset}
          {world.experiment !== null && (
            <>
              {" · "}
              <bdi>{world.experiment}</bdi>
            </>
          )}
          <Outcome model={model} />
          <Parent model={model} />
          {world.part !== undefined && ` · effects ${count(model.first)} to ${count(world.head_seq)} of its log`}
        </p>
        <div class="panes" role="group" aria-label="Panes">
          {PANES.filter(([pane]) => isNow || !NOW.includes(pane)).map(([pane, title]) => (
            <button
              key={pane}
              type="button"
              aria-pressed={panes.includes(pane)}
              onClick={() => toggle(pane)}
            >
              {title}
            </button>
          ))}
          {isNow && <Along model={model} />}
          <Keys model={model} />
        </div>
      </header>
      {model.until !== null && <Past model={model} name={name} until={model.until} />}
      <Timeline model={model} />
      <Player model={model} />
      {panes.includes("integrity") && <Integrity model={model} />}
      {panes.includes("online") && isNow && <Online model={model} />}
      {panes.includes("post") && isNow && <Post model={model} />}
      <div class="work">
        {panes.includes("effects") && <Effects model={model} />}
        {panes.includes("transcript") && <Transcript model={model} />}
        {panes.includes("state") && <States model={model} />}
        {effect !== null && <Detail model={model} seq={effect} />}
      </div>
    </main>
  );
}

/** How the world stood when the page was opened, as long as nothing has happened since. */
function Outcome({ model }: { model: WorldModel }) {
  const { outcome, head_seq } = model.world;
  if (outcome == null || model.until !== null || model.head.value !== head_seq) return null;
  return (
    <>
      {" · "}
      <bdi class="outcome">{outcome}</bdi>
    </>
  );
}

/** Where the history of a fork comes from, as a link to the last moment of that past. */
function Parent({ model }: { model: WorldModel }) {
  const { fork_of } = model.world;
  if (fork_of === null) return null;
  const { world_id, global_seq: at } = fork_of;
  const words = <bdi>{`${world_id} at seq ${at}`}</bdi>;
  const look = model.look.value;
  const before = { ...look, parents: look.parents + 1, at, effect: null, zoom: null };
  return (
    <>
      {" · inherits the past of "}
      {offline ? words : <a href={format(before)}>{words}</a>}
    </>
  );
}

/** Says that what is shown is not the world's own log, and leads to whose it is, and back. */
function Past({ model, name, until }: { model: WorldModel; name: string; until: number }) {
  const { world_id } = model.world;
  return (
    <p class="past" role="note">
      The past of <bdi>{name}</bdi>, inherited from{" "}
      <a href={format(worldAddress(world_id, { at: until }))}>
        <bdi>{world_id}</bdi>
      </a>{" "}
      up to effect {count(until)}.{" "}
      <button type="button" onClick={() => model.cross(-model.look.peek().parents, 1, "step")}>back to the fork</button>
    </p>
  );
}
