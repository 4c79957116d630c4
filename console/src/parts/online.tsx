/** What happens now: who is online, which generations begin, end and are cancelled, what is refused, and how late it is. */

import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Effect } from "../core/panel.ts";
import { isNews, present, quantile } from "../core/presence.ts";
import type { Online as Answer, OnlineAgent, ProjectionLag } from "../core/source.ts";
import { count, when } from "../core/text.ts";
import { lineOf } from "../core/transcript.ts";
import { source, words } from "./app.ts";
import type { WorldModel } from "./model.ts";

/** Milliseconds between two questions to the service, and effects that are looked through for the first news. */
const ASK_MS = 3000;
const LOOK = 1000;
/** News and lags that are kept. */
const MOST = 200;

export function Online({ model }: { model: WorldModel }) {
  const answer = useSignal<Answer | null>(null);
  const projections = useSignal<ProjectionLag[] | null>(null);
  const error = useSignal("");
  const news = useSignal<Effect[]>([]);
  /** Seconds from an effect's acceptance until it is shown here. */
  const lags = useSignal<number[]>([]);
  /** Seconds that the service's clock is ahead of this one. */
  const ahead = useRef<number | null>(null);
  const before = useRef(model.told.peek());
  const world = model.world.world_id;

  useEffect(() => {
    let left = false;
    const ask = async () => {
      if (document.hidden) return;
      const asked = Date.now();
      const [online, lag] = await Promise.allSettled([source.online(world), source.projections()]);
      if (left) return;
      if (online.status === "fulfilled") {
        ahead.current = online.value.time - (asked + Date.now()) / 2000;
        answer.value = online.value;
      }
      projections.value = lag.status === "fulfilled" ? lag.value : null;
      error.value = online.status === "fulfilled" ? "" : words(online.reason);
    };
    void ask();
    const timer = setInterval(() => void ask(), ASK_MS);
    const head = model.head.peek();
    void source.effects(world, Math.max(0, head - LOOK), head, LOOK).then(({ effects }) => {
      if (!left) news.value = [...news.peek(), ...effects.filter(isNews).reverse()].slice(0, MOST);
    }, (reason) => error.value = words(reason));
    return () => {
      left = true;
      clearInterval(timer);
    };
  }, []);
  useSignalEffect(() => {
    const told = model.told.value;
    if (told === before.current) return;
    const found = told.filter(isNews);
    if (found.length > 0) news.value = [...found.reverse(), ...news.peek()].slice(0, MOST);
    if (ahead.current === null || document.hidden) return;
    const clock = ahead.current;
    requestAnimationFrame(() => {
      const now = Date.now() / 1000 + clock;
      lags.value = [...lags.peek(), ...told.map(({ wall_time }) => Math.max(0, now - wall_time))].slice(-MOST);
    });
  });

  const found = answer.value;
  const refused = Object.entries(found?.refused ?? {});
  const agents = found === null ? [] : present(found, news.value.toReversed());
  return (
    <section class="online" aria-label="Online">
      {error.value !== "" && <p role="alert">{error.value}</p>}
      <div class="columns">
        <div>
          <h2>Agents online</h2>
          <p class="said" role="status">
            {found === null
              ? "asking …"
              : `${count(Math.max(agents.length, found.agents_online))} of ${
                count(model.agents.value.length)
              } registered` +
                (found.is_open ? "" : "; no agent uses this world at this process of the service")}
          </p>
          {agents.length > 0 && (
            <ul class="scroll" aria-label="Agents online" tabIndex={0}>
              {agents.map((agent) => <Present key={agent.agent_id} agent={agent} />)}
            </ul>
          )}
        </div>
        <div>
          <h2>How it stands</h2>
          <dl>
            <dt>accepted to shown</dt>
            <dd>{lagOf(lags.value)}</dd>
            <dt>projections</dt>
            <dd>
              <Projections lags={projections.value} />
            </dd>
            <dt>intents waiting</dt>
            <dd>{count(found?.intents_waiting ?? 0)}</dd>
            <dt>generations cancelled</dt>
            <dd>{count(found?.generations_cancelled ?? 0)}</dd>
            <dt>intents refused</dt>
            <dd>
              {refused.length === 0 ? "none" : (
                <ul>
                  {refused.map(([code, number]) => <li key={code}>{code} {count(number)}</li>)}
                </ul>
              )}
            </dd>
          </dl>
          <p class="said">Counted since this process of the service opened the world.</p>
        </div>
        <div>
          <h2>Generations and refusals</h2>
          <div class="scroll" role="log" aria-label="Generations and refusals" tabIndex={0}>
            {news.value.length === 0 && <p class="said">none among the latest effects</p>}
            {news.value.map((effect) => <News key={effect.global_seq} model={model} effect={effect} />)}
          </div>
        </div>
      </div>
    </section>
  );
}

function Present({ agent }: { agent: OnlineAgent }) {
  const { agent_id, readers, view_seq, queued, generations } = agent;
  const told = [
    readers === 1 ? "1 connection" : `${readers === 0 ? "no" : count(readers)} connections`,
    view_seq === null ? "" : `view ${view_seq}`,
    queued === 0 ? "" : `${count(queued)} observations waiting`,
  ];
  return (
    <li class="news">
      <bdi class="who">{agent_id}</bdi> <small>{told.filter((each) => each !== "").join(", ")}</small>
      {generations.map(({ req_id, context_seq, is_here }) => (
        <div key={req_id}>
          generates <bdi>{req_id}</bdi> <small>from view {context_seq}{is_here ? "" : ", at another process"}</small>
        </div>
      ))}
    </li>
  );
}

const MILLISECONDS = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function lagOf(lags: readonly number[]): string {
  const [half, most] = [quantile(lags, 0.5), quantile(lags, 0.95)];
  if (half === undefined || most === undefined) return "no effect came yet";
  const told = (seconds: number) => `${MILLISECONDS.format(seconds * 1000)} ms`;
  return `${told(half)} (95 % within ${told(most)}), the last ${lags.length}`;
}

function Projections({ lags }: { lags: ProjectionLag[] | null }) {
  if (lags === null) return <span>not known</span>;
  const late = lags.filter(({ effects_behind, paused, parked }) => effects_behind > 0 || paused || parked > 0);
  if (late.length === 0) return <span>all {lags.length} have read every log</span>;
  return (
    <ul>
      {late.map(({ name, effects_behind, seconds_behind, paused, parked }) => (
        <li key={name}>
          {name}: {[
            effects_behind > 0 ? `${count(effects_behind)} effects behind` : "",
            seconds_behind === null ? "" : `${count(Math.round(seconds_behind))} s`,
            paused ? "paused" : "",
            parked > 0 ? `${count(parked)} worlds set aside` : "",
          ].filter((each) => each !== "").join(", ")}
        </li>
      ))}
    </ul>
  );
}

const WAYS: Record<string, string> = { begins: "begins", cut: "✂ cancelled", refused: "✗ refused", aside: "finished" };

function News({ model, effect }: { model: WorldModel; effect: Effect }) {
  const { who, way, deed, why, view } = lineOf(effect, null);
  const { req_id } = effect.payload;
  return (
    <p class={`news ${way}`}>
      <button type="button" class="link seq" onClick={() => model.change({ effect: effect.global_seq })}>
        {effect.global_seq}
      </button>{" "}
      <bdi class="who">{who}</bdi> <span class="way">{WAYS[way] ?? effect.kind}</span>{" "}
      <bdi>{[typeof req_id === "string" ? req_id : "", deed].filter((each) => each !== "").join(" ")}</bdi>{" "}
      {why !== "" && <bdi class="why">{why}</bdi>}{" "}
      <small>
        {view !== null && `from view ${view}, `}
        <time title={String(effect.wall_time)}>{when(effect.wall_time)}</time>
      </small>
    </p>
  );
}
