/** One world: its timeline, its effects, its state at the cursor. */

import { useSignal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { format, type Pane, worldAddress } from "../core/address.ts";
import type { World as WorldFound } from "../core/source.ts";
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
  // What only the service knows.
  ...(offline ? [] : [["online", "Online"], ["post", "Post"]] as const),
];

export function World({ name }: { name: string }) {
  const model = useSignal<WorldModel | null>(null);
  const error = useSignal("");
  // Before the browser has painted anything: what it waits for longest is asked for first.
  useLayoutEffect(() => {
    document.title = `${name} · Worldledger`;
    let made: WorldModel | undefined;
    let left = false;
    WorldModel.open(name).then((opened) => {
      made = opened;
      if (left) made.close();
      else model.value = made;
    }, (reason) => error.value = words(reason));
    return () => {
      left = true;
      made?.close();
    };
  }, []);
  if (model.value !== null) return <Opened model={model.value} />;
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

function Opened({ model }: { model: WorldModel }) {
  const { world } = model;
  const { panes, effect } = model.look.value;
  const toggle = (pane: Pane) =>
    model.change({ panes: panes.includes(pane) ? panes.filter((each) => each !== pane) : [...panes, pane] });
  return (
    <main class="world">
      <header>
        <h1>{world.world_id}</h1>
        <p class="about">
          {world.ruleset}
          {world.experiment !== null && (
            <>
              {" · "}
              <bdi>{world.experiment}</bdi>
            </>
          )}
          <Parent world={world} />
          {world.part !== undefined && ` · effects ${count(model.first)} to ${count(world.head_seq)} of its log`}
        </p>
        <div class="panes" role="group" aria-label="Panes">
          {PANES.map(([pane, title]) => (
            <button
              key={pane}
              type="button"
              aria-pressed={panes.includes(pane)}
              onClick={() => toggle(pane)}
            >
              {title}
            </button>
          ))}
          {!offline && <Along model={model} />}
          <Keys model={model} />
        </div>
      </header>
      <Timeline model={model} />
      <Player model={model} />
      {panes.includes("integrity") && <Integrity model={model} />}
      {panes.includes("online") && !offline && <Online model={model} />}
      {panes.includes("post") && !offline && <Post model={model} />}
      <div class="work">
        {panes.includes("effects") && <Effects model={model} />}
        {panes.includes("transcript") && <Transcript model={model} />}
        {panes.includes("state") && <States model={model} />}
        {effect !== null && <Detail model={model} seq={effect} />}
      </div>
    </main>
  );
}

/** Where the history of a fork comes from, as a link to its parent at the fork point. */
function Parent({ world: { fork_of } }: { world: WorldFound }) {
  if (fork_of === null) return null;
  const { world_id, global_seq } = fork_of;
  const words = <bdi>{`${world_id} at seq ${global_seq}`}</bdi>;
  return (
    <>
      {" · inherits the past of "}
      {offline ? words : <a href={format(worldAddress(world_id, { at: global_seq }))}>{words}</a>}
    </>
  );
}
