/** Who is online in a world, and what of its effects is news to an operator. */

import type { Effect } from "./panel.ts";
import type { Online, OnlineAgent } from "./source.ts";

/** Whether an effect tells of a generation or of a refusal; what was said in one, and who runs an agent, is no news. */
export function isNews({ kind }: Effect): boolean {
  return kind.startsWith("Generation") && !/Text$|Leased$/.test(kind) || kind.endsWith("Rejected");
}

/** The agents of an answer, with the generations that began or ended in effects behind it. */
export function present(answer: Pick<Online, "seq" | "agents">, effects: readonly Effect[]): OnlineAgent[] {
  const agents = new Map(answer.agents.map((agent) => [agent.agent_id, agent]));
  for (const { global_seq, kind, payload } of effects) {
    const { agent_id, req_id, context_seq } = payload;
    if (global_seq <= answer.seq || !kind.startsWith("Generation")) continue;
    if (typeof agent_id !== "string" || typeof req_id !== "string") continue;
    const agent = agents.get(agent_id) ?? { agent_id, readers: 0, queued: 0, view_seq: null, generations: [] };
    const generations = agent.generations.filter((each) => each.req_id !== req_id);
    if (kind === "GenerationStarted") {
      generations.push({ req_id, context_seq: typeof context_seq === "number" ? context_seq : 0, is_here: true });
    }
    agents.set(agent_id, { ...agent, generations });
  }
  return [...agents.values()]
    .filter(({ readers, generations }) => readers > 0 || generations.length > 0)
    .sort((a, b) => a.agent_id < b.agent_id ? -1 : 1);
}

/** The value that a share of the values do not exceed; undefined where there is none. */
export function quantile(values: readonly number[], share: number): number | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}
