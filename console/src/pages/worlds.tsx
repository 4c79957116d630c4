/** All worlds: facets, a filter as one types, which are live, which is whose fork, and some of them to compare. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { format, worldAddress, type WorldsAddress } from "../core/address.ts";
import type { Facet, Question, World, WorldsPage } from "../core/source.ts";
import { count, quoted, when } from "../core/text.ts";
import { standing, verifiedOf } from "../core/verified.ts";
import { bars } from "../draw/spark.ts";
import { address, go, source, words } from "../parts/app.ts";
import { SearchField } from "../parts/search.tsx";

/** A world is recent when its last effect came within so many seconds: the service counts as live by the same. */
const RECENT_SECONDS = 300;
/** Milliseconds after the last key until the address follows, and between two looks for news. */
const TYPED_MS = 150;
const NEWS_MS = 5000;

export function Worlds({ here }: { here: WorldsAddress }) {
  const page = useSignal<WorldsPage | null>(null);
  const error = useSignal("");
  /** The worlds that have grown since the list was asked for before. */
  const growing = useSignal<ReadonlySet<string>>(new Set());
  const { q, ruleset, experiment, live, selected } = here;
  const change = (more: Partial<WorldsAddress>, how: "step" | "move" = "step") => {
    const now = address.value;
    if (now.page === "worlds") go({ ...now, ...more }, how);
  };

  useEffect(() => {
    document.title = "Worlds · Worldledger";
    const request = new AbortController();
    const ask = async () => {
      try {
        const found = await source.worlds({ q, ruleset, experiment, live, after: null }, request.signal);
        const before = new Map(page.value?.worlds.map(({ world_uuid, head_seq }) => [world_uuid, head_seq] as const));
        const grown = found.worlds.filter(({ world_uuid, head_seq }) =>
          head_seq > (before.get(world_uuid) ?? head_seq)
        );
        growing.value = new Set(grown.map(({ world_uuid }) => world_uuid));
        page.value = found;
        error.value = "";
      } catch (reason) {
        if (!request.signal.aborted) error.value = words(reason);
      }
    };
    // The address changes once typing has paused: nothing else is to be waited for.
    void ask();
    // What was added by "more" stays until the question changes.
    const news = setInterval(() => {
      if (!document.hidden && (page.value?.worlds.length ?? 0) <= 100) void ask();
    }, NEWS_MS);
    return () => {
      request.abort();
      clearInterval(news);
    };
  }, [q, ruleset, experiment, live]);

  const more = async (after: string) => {
    const next = await source.worlds({ q, ruleset, experiment, live, after }, new AbortController().signal);
    page.value = { ...next, worlds: [...(page.value?.worlds ?? []), ...next.worlds] };
  };
  const found = page.value;
  const facets = found?.facets ?? null;
  const select = (world: string) =>
    change({ selected: selected.includes(world) ? selected.filter((each) => each !== world) : [...selected, world] });
  return (
    <main class="worlds">
      <h1>Worlds</h1>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <SearchField
          label="Filter worlds"
          placeholder="filter by name or experiment  ( / )"
          value={q}
          delay={TYPED_MS}
          onTyped={(text) => change({ q: text }, "move")}
        />
        <label title="the last effect came within the last five minutes">
          <input type="checkbox" checked={live} onChange={() => change({ live: !live })} /> recent
          {facets && ` (${count(facets.live)})`}
        </label>
      </form>
      <div class="listing">
        <nav class="facets" aria-label="Facets">
          <Facets
            title="Ruleset"
            facets={facets?.rulesets}
            chosen={ruleset}
            choose={(value) => change({ ruleset: value })}
          />
          <Facets
            title="Experiment"
            facets={facets?.experiments}
            chosen={experiment}
            choose={(value) => change({ experiment: value })}
          />
        </nav>
        <section aria-label="Worlds found">
          {error.value !== "" && <p role="alert">{error.value}</p>}
          {experiment !== "" && <Experiment key={experiment} name={experiment} />}
          <p class="said" role="status">
            {found === null ? "loading …" : facets === null ? "" : `${count(facets.total)} worlds`}
          </p>
          {(found?.worlds.length ?? 0) > 1 && selected.length === 0 && (
            <p class="about">To compare worlds, tick two or more.</p>
          )}
          {selected.length > 0 && (
            <p class="selected">
              {selected.length < 2
                ? "Tick another one to compare."
                : (
                  <a href={format({ page: "compare", worlds: selected, group: "", view: "" })}>
                    Compare {selected.length} worlds
                  </a>
                )} <button type="button" onClick={() => change({ selected: [] })}>none</button>
            </p>
          )}
          <table>
            <thead>
              <tr>
                <th scope="col">
                  <span class="unseen">Select</span>
                </th>
                <th scope="col">World</th>
                <th scope="col" class="roomy">Ruleset</th>
                <th scope="col" class="wide">Experiment</th>
                <th scope="col" class="number">Effects</th>
                <th scope="col" class="wide">Activity</th>
                <th scope="col" class="wide">Last effect</th>
              </tr>
            </thead>
            <tbody>
              {tree(found?.worlds ?? []).map(({ world, depth }) => (
                <tr key={world.world_id}>
                  <td>
                    <input
                      type="checkbox"
                      aria-label={`Select ${world.world_id}`}
                      checked={selected.includes(world.world_id)}
                      onChange={() => select(world.world_id)}
                    />
                  </td>
                  <td class={`name depth-${Math.min(depth, 4)}`}>
                    {depth > 0 && <span aria-hidden="true">↳</span>}
                    <a href={format(worldAddress(world.world_id, { at: world.head_seq }))}>{world.world_id}</a>
                    <Standing world={world} />
                    <Recency world={world} isGrowing={growing.value.has(world.world_uuid)} />
                    {world.outcome != null && (
                      <small class="outcome">
                        <bdi>{world.outcome}</bdi>
                      </small>
                    )}
                    {world.fork_of !== null && (
                      <small class="origin">
                        fork of {world.fork_of.world_id} at{" "}
                        <a href={format(worldAddress(world.fork_of.world_id, { at: world.fork_of.global_seq }))}>
                          effect {count(world.fork_of.global_seq)}
                        </a>
                      </small>
                    )}
                  </td>
                  <td class="roomy">{world.ruleset}</td>
                  <td class="wide">
                    <bdi>{world.experiment}</bdi>
                  </td>
                  <td class="number">{count(world.head_seq)}</td>
                  <td class="wide">
                    <Activity numbers={world.activity ?? []} />
                  </td>
                  <td class="wide">
                    <time dateTime={new Date(world.wall_time * 1000).toISOString()} title={String(world.wall_time)}>
                      {when(world.wall_time)}
                    </time>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          {found?.next && <button type="button" onClick={() => void more(found.next as string)}>more</button>}
          {found !== null && found.worlds.length === 0 && <p>No world is like that.</p>}
        </section>
      </div>
    </main>
  );
}

function Facets({ title, facets, chosen, choose }: {
  title: string;
  facets: Facet[] | undefined;
  chosen: string;
  choose: (value: string) => void;
}) {
  const named = (facets ?? []).filter(({ value }) => value !== null) as { value: string; worlds: number }[];
  if (named.length === 0 && chosen === "") return null;
  return (
    <section>
      <h2>{title}</h2>
      <ul>
        {named.slice(0, 12).map(({ value, worlds }) => (
          <li key={value}>
            <button type="button" aria-pressed={chosen === value} onClick={() => choose(chosen === value ? "" : value)}>
              <bdi>{value}</bdi> <span class="size">{count(worlds)}</span>
            </button>
          </li>
        ))}
        {chosen !== "" && !named.some(({ value }) => value === chosen) && (
          <li>
            <button type="button" aria-pressed="true" onClick={() => choose("")}>
              <bdi>{chosen}</bdi>
            </button>
          </li>
        )}
      </ul>
    </section>
  );
}

/** How a world's activity rose and fell over its sim_time. */
function Activity({ numbers }: { numbers: readonly number[] }) {
  if (numbers.length === 0) return null;
  const most = `at most ${count(Math.max(...numbers))} effects in a ${numbers.length}th of the sim_time`;
  return (
    <svg class="spark" viewBox="0 0 96 20" width="96" height="20" role="img" aria-label={`Activity: ${most}`}>
      <title>{most}</title>
      <path d={bars(numbers, 96, 20)} />
    </svg>
  );
}

/** Whether this browser has verified the world, and up to where. */
function Standing({ world }: { world: World }) {
  const { sign, words } = standing(verifiedOf(world.world_uuid), {
    seq: world.head_seq,
    checksum: world.head_checksum,
  });
  if (sign === "") return null;
  return (
    <span class={sign === "✗" ? "standing broken" : "standing"} role="img" aria-label={words} title={words}>
      {sign}
    </span>
  );
}

/** What can be asked of an experiment: the questions with names that take one, and a report. */
function Experiment({ name }: { name: string }) {
  const questions = useSignal<Question[]>([]);
  useEffect(() => {
    source.questions().then((found) => {
      questions.value = found.filter(({ parameters }) =>
        parameters.some((each) => each.name === "experiment") &&
        parameters.every((each) => each.name === "experiment" || !each.is_required)
      );
    }, () => undefined);
  }, []);
  const file = `${name.replace(/[^\w.-]+/g, "-")}.html`;
  return (
    <section class="experiment" aria-label={`Experiment ${name}`}>
      <h2>
        <bdi>{name}</bdi>
      </h2>
      <details>
        <summary>Questions about it</summary>
        <ul class="inline">
          {questions.value.map(({ name: question, title, description }) => (
            <li key={question}>
              <a
                title={description}
                href={format({ page: "sql", name: question, params: { experiment: name }, query: "", chart: null })}
              >
                {title}
              </a>
            </li>
          ))}
        </ul>
      </details>
      <p class="about">
        A report of it as one file: <code>worldledger report {quoted(name)} -o {file}</code>
      </p>
    </section>
  );
}

/** A mark for a world that grows while one looks, and another for one that did lately: it may be over. */
function Recency({ world, isGrowing }: { world: World; isGrowing: boolean }) {
  if (isGrowing) return <span class="live" title="effects are coming now">live</span>;
  if (Date.now() / 1000 - world.wall_time >= RECENT_SECONDS) return null;
  return <span class="live recent" title="its last effect came within the last five minutes">recent</span>;
}

/** Forks below their parents, where both are listed; otherwise in the order given. */
function tree(worlds: readonly World[]): { world: World; depth: number }[] {
  const listed = new Set(worlds.map(({ world_uuid }) => world_uuid));
  const forks = new Map<string, World[]>();
  for (const world of worlds) {
    const parent = world.fork_of?.world_uuid ?? "";
    const place = listed.has(parent) ? parent : "";
    forks.set(place, [...(forks.get(place) ?? []), world]);
  }
  const found: { world: World; depth: number }[] = [];
  const walk = (parent: string, depth: number): void => {
    for (const world of forks.get(parent) ?? []) {
      found.push({ world, depth });
      walk(world.world_uuid, depth + 1);
    }
  };
  walk("", 0);
  return found;
}
