/** An effect in full: what it says, what caused it, what came of it, its checksum and the bytes that were hashed. */

import { useEffect, useState } from "preact/hooks";
import { format, worldAddress } from "../core/address.ts";
import { isObject, type Json, type Obj } from "../core/json.ts";
import type { Effect } from "../core/panel.ts";
import { when } from "../core/text.ts";
import { offline, source, words } from "./app.ts";
import type { WorldModel } from "./model.ts";
import { Tree } from "./tree.tsx";

interface Loaded {
  seq: number;
  effect?: Effect;
  text?: string;
  checksum?: string;
  error?: string;
}

export function Detail({ model, seq }: { model: WorldModel; seq: number }) {
  const [found, load] = useState<Loaded>({ seq });
  useEffect(() => {
    let left = false;
    source.effect(model.world.world_id, seq).then(
      ({ text, checksum }) => !left && load({ seq, text, checksum, effect: JSON.parse(text) }),
      (error) => !left && load({ seq, error: words(error) }),
    );
    return () => {
      left = true;
    };
  }, [seq]);
  const effect = found.seq === seq ? found.effect : undefined;
  return (
    <aside class="detail" aria-label={`Effect ${seq}`}>
      <header>
        <h2>
          Effect {seq} {effect && <bdi class="kind">{effect.kind}</bdi>}
        </h2>
        <button type="button" aria-label="Close" title="Close" onClick={() => model.change({ effect: null })}>✕</button>
      </header>
      {found.error && <p role="alert">{found.error}</p>}
      {effect && (
        <>
          <dl>
            <dt>source</dt>
            <dd>
              <bdi>{effect.source_id}</bdi>
            </dd>
            <dt>sim_time</dt>
            <dd>{effect.sim_time}</dd>
            <dt>accepted</dt>
            <dd>
              <time dateTime={new Date(effect.wall_time * 1000).toISOString()} title={String(effect.wall_time)}>
                {when(effect.wall_time)}
              </time>
            </dd>
            {effect.caused_by != null && (
              <>
                <dt>caused by</dt>
                <dd>
                  {inherited(effect) ?? <EffectLink model={model} seq={effect.caused_by} />}
                </dd>
              </>
            )}
            <dt>consequences</dt>
            <dd>
              <Consequences model={model} seq={seq} />
            </dd>
            <dt>checksum</dt>
            <dd>
              <code class="checksum">{found.checksum}</code>
            </dd>
          </dl>
          <h3>Payload</h3>
          <Tree value={effect.payload as Obj} label="Payload" />
          <details>
            <summary>Canonical bytes</summary>
            <pre><bdi>{found.text}</bdi></pre>
          </details>
        </>
      )}
    </aside>
  );
}

/** The cause of an effect that a rerun has written, where it lies in the log of an ancestor; else null. */
function inherited({ source_metadata: told }: Effect) {
  const cause = isObject(told as Json) ? (told as Obj)["inherited_cause"] : undefined;
  if (!isObject(cause) || typeof cause["world_id"] !== "string" || typeof cause["global_seq"] !== "number") return null;
  const [world, seq] = [cause["world_id"], cause["global_seq"]];
  const words = (
    <>
      effect {seq} of <bdi>{world}</bdi>
    </>
  );
  return offline ? words : <a href={format(worldAddress(world, { at: seq, effect: seq }))}>{words}</a>;
}

function EffectLink({ model, seq }: { model: WorldModel; seq: number }) {
  return (
    <button type="button" class="link" onClick={() => model.move(seq, "step", { effect: seq })}>effect {seq}</button>
  );
}

/** The effects that name this one as their cause, found when they are asked for: all that follows is looked through. */
function Consequences({ model, seq }: { model: WorldModel; seq: number }) {
  const [found, load] = useState<{ seq: number; seqs: number[] | string } | null>(null);
  if (found === null || found.seq !== seq) {
    const ask = () =>
      source.consequences(model.world.world_id, seq).then(
        (seqs) => load({ seq, seqs: seqs.filter((each) => each <= (model.until ?? each)) }),
        (error) => load({ seq, seqs: words(error) }),
      );
    return <button type="button" class="link" onClick={() => void ask()}>what came of it?</button>;
  }
  if (typeof found.seqs === "string") return <span role="alert">{found.seqs}</span>;
  if (found.seqs.length === 0) return <span>none that the log tells</span>;
  return (
    <ul class="inline">
      {found.seqs.map((each) => (
        <li key={each}>
          <EffectLink model={model} seq={each} />
        </li>
      ))}
    </ul>
  );
}
