/** Two worlds in lanes: the past that forks share once across both, then what each went through around the parting. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { format, worldAddress } from "../core/address.ts";
import { common, type Segment } from "../core/lineage.ts";
import type { Effect } from "../core/panel.ts";
import type { Pair, Parting } from "../core/source.ts";
import { count, summary } from "../core/text.ts";
import { source, words } from "./app.ts";

/** Effects before a parting and from it on that are shown at first, and that are added at a time. */
const [BEFORE, AFTER, MORE] = [4, 12, 40];
/** Ancestors that are followed. */
const DEEPEST = 20;

interface Laid {
  shared: Segment | null;
  lanes: { name: string; world: string; from: number; parts: number | null }[];
}

/** The history of a world, the oldest ancestor first. */
async function history(name: string): Promise<Segment[]> {
  const first = await source.world(name);
  const found = [{ world: name, through: first.head_seq }];
  let parent = first.fork_of;
  for (let depth = 0; parent !== null && depth < DEEPEST; depth++) {
    found.unshift({ world: parent.world_id, through: parent.global_seq });
    parent = (await source.world(parent.world_id)).fork_of;
  }
  return found;
}

async function lay({ a, b, divergence }: Pair): Promise<Laid> {
  const { shared, onward } = common(await history(a), await history(b));
  const lanes = ([[a, divergence?.a], [b, divergence?.b]] as const).map(([name, parting], index) => {
    const { world, from } = onward[index] as { world: string; from: number };
    return { name, world, from, parts: placed(parting ?? null, world, from) };
  });
  return { shared, lanes };
}

/** Where a lane parts from the other: in its own log, unless the effect lies in that of an ancestor. */
function placed(parting: Parting | null, world: string, from: number): number | null {
  return parting?.world_id === world && parting.global_seq >= from ? parting.global_seq : null;
}

export function Lanes({ pair }: { pair: Pair }) {
  const laid = useSignal<Laid | null>(null);
  const error = useSignal("");
  useEffect(() => {
    lay(pair).then((found) => laid.value = found, (reason) => error.value = words(reason));
  }, []);
  if (error.value !== "") return <p role="alert">{error.value}</p>;
  if (laid.value === null) return <p role="status">loading …</p>;
  const { shared, lanes } = laid.value;
  return (
    <div class="lanes">
      {shared !== null && (
        <section class="shared" aria-label="Shared past">
          <h3>
            Both have effects 1 to {count(shared.through)} of <bdi>{shared.world}</bdi>
          </h3>
          <p class="about">
            {count(pair.shared_effects)}{" "}
            effects of this past are compared and equal: what the service notes by itself, such as digests, is left out.
          </p>
          <Lane world={shared.world} first={1} last={shared.through} begin={shared.through - BEFORE + 1} parts={null} />
        </section>
      )}
      {lanes.map(({ name, world, from, parts }) => (
        <section key={name} aria-label={`Lane of ${name}`}>
          <h3>
            <bdi>{name}</bdi>
            {world !== name && (
              <small>
                first in <bdi>{world}</bdi>
              </small>
            )}
          </h3>
          <Lane
            world={world}
            first={from}
            last={Infinity}
            begin={Math.max(from, (parts ?? from) - BEFORE)}
            parts={parts}
          />
        </section>
      ))}
    </div>
  );
}

function Lane({ world, first, last, begin, parts }: {
  world: string;
  first: number;
  last: number;
  begin: number;
  parts: number | null;
}) {
  const effects = useSignal<Effect[]>([]);
  const ended = useSignal(false);
  const error = useSignal("");
  const read = async (from: number, to: number) => {
    try {
      const page = await source.effects(world, from - 1, Math.min(to, last), to - from + 1);
      return page;
    } catch (reason) {
      error.value = words(reason);
      return null;
    }
  };
  const from = effects.value[0]?.global_seq ?? Math.max(first, begin);
  const earlier = async () => {
    const page = await read(Math.max(first, from - MORE), from - 1);
    if (page !== null) effects.value = [...page.effects, ...effects.value];
  };
  const later = async (many: number) => {
    const next = (effects.value.at(-1)?.global_seq ?? Math.max(first, begin) - 1) + 1;
    const page = await read(next, next + many - 1);
    if (page === null) return;
    effects.value = [...effects.value, ...page.effects];
    ended.value = page.next === null && page.through < next + many - 1 || page.through >= last;
  };
  useEffect(() => void later(BEFORE + AFTER), []);
  return (
    <>
      {from > first && effects.value.length > 0 && (
        <button type="button" onClick={() => void earlier()}>{count(from - first)} earlier …</button>
      )}
      <ol>
        {effects.value.map((effect) => (
          <li key={effect.global_seq} class={effect.global_seq === parts ? "parts" : ""}>
            <a href={format(worldAddress(world, { at: effect.global_seq, effect: effect.global_seq }))}>
              {effect.global_seq}
            </a>{" "}
            <bdi class="kind">{effect.kind}</bdi> <bdi class="about">{effect.source_id}</bdi>{" "}
            <bdi>{summary(effect, 120)}</bdi>
            {effect.global_seq === parts && <strong class="sign">&nbsp;← here they part</strong>}
          </li>
        ))}
      </ol>
      {error.value !== "" && <p role="alert">{error.value}</p>}
      {ended.value
        ? last === Infinity && <p class="said">the end</p>
        : effects.value.length > 0 && last === Infinity && (
          <button type="button" onClick={() => void later(MORE)}>later …</button>
        )}
    </>
  );
}
