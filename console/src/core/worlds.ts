/** Choosing among worlds: by a part of a name, by ruleset and experiment, by what is live; with counts of what else there is. */

import type { Facet, World, WorldsPage, WorldsQuery } from "./source.ts";

/** A world is live when an effect came within so many seconds. */
export const LIVE_SECONDS = 300;
/** Worlds in a page. */
const PAGE = 100;

export function isLive({ wall_time }: World, now: number): boolean {
  return now - wall_time < LIVE_SECONDS;
}

/** The worlds that a query is about, those with the latest effect first; `now` is in seconds since 1970. */
export function choose(worlds: readonly World[], query: WorldsQuery, now: number): WorldsPage {
  const wanted = query.q.toLowerCase();
  const tests: Record<string, (world: World) => boolean> = {
    q: ({ world_id, experiment }) => `${world_id}\n${experiment ?? ""}`.toLowerCase().includes(wanted),
    ruleset: ({ ruleset }) => query.ruleset === "" || ruleset === query.ruleset,
    experiment: ({ experiment }) => query.experiment === "" || experiment === query.experiment,
    live: (world) => !query.live || isLive(world, now),
  };
  // Each facet is counted without its own test, so that the other choices stay in sight.
  const without = (left: string) =>
    worlds.filter((world) => Object.entries(tests).every(([name, test]) => name === left || test(world)));
  const found = without("").sort((a, b) => b.wall_time - a.wall_time || (a.world_id < b.world_id ? -1 : 1));
  const begin = query.after === null ? 0 : found.findIndex(({ world_id }) => world_id === query.after) + 1;
  const page = found.slice(begin, begin + PAGE);
  return {
    worlds: page,
    next: begin + PAGE < found.length ? (page.at(-1) as World).world_id : null,
    facets: {
      total: found.length,
      live: without("live").filter((world) => isLive(world, now)).length,
      rulesets: counted(without("ruleset").map(({ ruleset }) => ruleset)),
      experiments: counted(without("experiment").map(({ experiment }) => experiment)),
    },
  };
}

/** How often each value occurs, the most frequent first. */
function counted(values: readonly (string | null)[]): Facet[] {
  const counts = new Map<string | null, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([value, worlds]) => ({ value, worlds }));
}
