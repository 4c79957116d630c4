/** The state at the cursor: by the panel of its kind, as a tree, and each agent's belief beside the truth. */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { worldAddress } from "../core/address.ts";
import { SIGNS } from "../core/belief.ts";
import type { Mark } from "../core/belief.ts";
import { ask, send } from "../core/http.ts";
import { type Obj, steps, valueAt } from "../core/json.ts";
import { type Frame, PANEL_VERSION, type Tools } from "../core/panel.ts";
import { apart, plain, short } from "../core/text.ts";
import { drawChart } from "../draw/chart.ts";
import { feed } from "../draw/feed.ts";
import { drawMap } from "../draw/map.ts";
import { go, offline, panelOf, panels, words } from "./app.ts";
import type { FramesOfWorld, WorldModel } from "./model.ts";
import { Tree } from "./tree.tsx";

/** Wrong values that are listed, and characters of each. */
const [WRONG, CHARACTERS] = [200, 200];

export function States({ model }: { model: WorldModel }) {
  const { agents, panes } = model.look.value;
  const shown: (string | null)[] = [null, ...agents];
  const known = model.agents.value;
  const toggle = (agent: string) =>
    model.change({ agents: agents.includes(agent) ? agents.filter((each) => each !== agent) : [...agents, agent] });
  const hasPanel = Object.hasOwn(panels, model.world.ruleset);
  return (
    <section class="states" aria-label="State">
      <div class="choices">
        {known.length > 0 && (
          <details class="agents">
            <summary>{agents.length === 0 ? "Show the belief of …" : `Belief of ${agents.join(", ")}`}</summary>
            <ul aria-label="Agents">
              {known.map(({ agent_id }) => (
                <li key={agent_id}>
                  <label>
                    <input
                      type="checkbox"
                      checked={agents.includes(agent_id)}
                      disabled={!agents.includes(agent_id) && agents.length >= 4}
                      onChange={() => toggle(agent_id)}
                    />{" "}
                    <bdi>{agent_id}</bdi>
                  </label>
                </li>
              ))}
            </ul>
          </details>
        )}
        {hasPanel && (
          <label>
            <input
              type="checkbox"
              checked={panes.includes("tree")}
              onChange={() =>
                model.change({
                  panes: panes.includes("tree") ? panes.filter((each) => each !== "tree") : [...panes, "tree"],
                })}
            />{" "}
            as a tree
          </label>
        )}
        {agents.length > 0 && (
          <ul class="signs" aria-label="Signs">
            {(Object.keys(SIGNS) as Mark[]).map((mark) => (
              <li key={mark} class={`mark-${mark}`}>
                <span class="sign">{SIGNS[mark]}</span> {mark}
              </li>
            ))}
          </ul>
        )}
      </div>
      <div class={`columns of-${shown.length}`}>
        {shown.map((agent) => <OneState key={agent ?? ""} model={model} agent={agent} named={agents.length > 0} />)}
      </div>
    </section>
  );
}

function OneState({ model, agent, named }: { model: WorldModel; agent: string | null; named: boolean }) {
  void model.loaded.value;
  const seq = model.seq.value;
  const frames = model.frames(agent);
  const frame = frames.exactly(seq);
  const { ruleset } = model.world;
  const hasPanel = Object.hasOwn(panels, ruleset);
  const asTree = !hasPanel || model.look.value.panes.includes("tree");
  const near = frame === undefined ? frames.near(seq) : undefined;
  const error = frame === undefined ? frames.error(seq) : undefined;
  const made = frames.asOf(seq);
  const asOf = made === undefined ? "" : `, as of seq ${made.seq}${made.isExact ? "" : " or before"}`;
  return (
    <article class="one" aria-label={agent === null ? "The truth" : `Belief of ${agent}`}>
      {named && (
        <h2>
          {agent === null ? "Truth" : <bdi>{agent}</bdi>}{" "}
          <small title={agent === null ? "" : "with the effect that was the last to tell it anything"}>
            at seq {seq}
            {agent !== null && asOf}
          </small>
        </h2>
      )}
      {named && (agent === null ? <p class="wrong">&nbsp;</p> : <Wrong frame={frame} frames={frames} />)}
      {frame === undefined && (
        <p class="said" role="status">
          {error ?? (near === undefined ? "loading …" : `≈ the state at seq ${near.seq}, while this one is loaded`)}
        </p>
      )}
      <Map frames={frames} model={model} />
      {hasPanel && <Panel kind={ruleset} frames={frames} model={model} />}
      {asTree && (frame !== undefined
        ? <Tree value={withoutEmpty(frame.state as unknown as Obj)} label="State" marked={frame} />
        : near !== undefined && <Tree value={withoutEmpty(near.state as unknown as Obj)} label="State nearby" />)}
    </article>
  );
}

/** How much of a belief is wrong; opened, each value that is, and beside it what is so; the title has both in full. */
function Wrong({ frame, frames }: { frame: Frame | undefined; frames: FramesOfWorld }) {
  const [isOpen, open] = useState(false);
  const truth = isOpen && frame !== undefined ? frames.truth?.exactly(frame.seq)?.state : undefined;
  const differing = (believed: unknown, pointer: string, mark: Mark) => {
    const [is, isSo] = [believed, truth].map((state) => valueAt(state as Obj, pointer));
    const [told, so] = apart(is, isSo).map((text) => short(text, CHARACTERS));
    return (
      <li key={pointer} title={short(`${plain(is)} ${SIGNS[mark]} is ${plain(isSo)}`, 2 * CHARACTERS)}>
        <bdi>{steps(pointer).slice(1).join(" › ")}</bdi> <bdi>{told}</bdi>{" "}
        <span class="sign" title={mark}>{SIGNS[mark]}</span> is <bdi>{so || "nothing"}</bdi>
      </li>
    );
  };
  return (
    <details class="wrong" onToggle={({ currentTarget }) => open(currentTarget.open)}>
      <summary title={frame?.told}>{frame?.told || "\u00a0"}</summary>
      {frame !== undefined && truth !== undefined && (
        <ul tabIndex={0} aria-label="Wrong values">
          {[...frame.marks].slice(0, WRONG).map(([pointer, mark]) => differing(frame.state, pointer, mark))}
          {frame.marks.size > WRONG && <li>… {frame.marks.size - WRONG} more</li>}
        </ul>
      )}
    </details>
  );
}

function withoutEmpty(state: Obj): Obj {
  return Object.fromEntries(Object.entries(state).filter(([, part]) => Object.keys(part ?? {}).length > 0));
}

const READING: Tools = { chart: drawChart, feed, visit: (world) => go(worldAddress(world)) };
const TOOLS: Tools = {
  ...READING,
  get: async (path) => await (await ask(path)).json(),
  post: async (path, body) => await (await send(path, body)).json(),
};

/** Where everything is, if anything has a position. */
function Map({ frames, model }: { frames: FramesOfWorld; model: WorldModel }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => drawMap(canvas.current as HTMLCanvasElement, frames, model.cursor), [frames]);
  return <canvas ref={canvas} class="map" role="img" hidden />;
}

/** A kind's own panel. It is a module of an installed package, loaded from this very service. */
function Panel({ kind, frames, model }: { kind: string; frames: FramesOfWorld; model: WorldModel }) {
  const element = useRef<HTMLDivElement>(null);
  const [error, fail] = useState<string | null>(null);
  useLayoutEffect(() => {
    let end: (() => void) | undefined;
    let left = false;
    panelOf(kind)?.then((module) => {
      if (left) return;
      if (module.version !== PANEL_VERSION) {
        throw new Error(
          `its panel is for version ${module.version} of the interface, this console has ${PANEL_VERSION}`,
        );
      }
      // What is posted would go into an ancestor's log, not into the fork's.
      const tools = offline || model.until !== null ? READING : TOOLS;
      end = module.panel(element.current as HTMLDivElement, frames, model.cursor, tools);
    }).catch((reason) => fail(words(reason)));
    return () => {
      left = true;
      end?.();
    };
  }, [kind, frames]);
  return (
    <>
      {error !== null && <p role="alert">The panel of this kind cannot be shown: {error}</p>}
      <div ref={element} class="panel" />
    </>
  );
}
