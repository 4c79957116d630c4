/** Some worlds side by side: where each two part, in lanes, and what is measured of them, as lines. */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { type CompareAddress, format, worldAddress } from "../core/address.ts";
import type { Chart, Series } from "../core/chart.ts";
import { isObject, type Json, type Obj } from "../core/json.ts";
import type { Compared, GroupSeries, MeasureSeries, Pair } from "../core/source.ts";
import { count, patched, plain, quoted, short } from "../core/text.ts";
import { go, source, words } from "../parts/app.ts";
import { ChartView } from "../parts/chart.tsx";
import { Lanes } from "../parts/lanes.tsx";
import { Tree } from "../parts/tree.tsx";

/** Charts that are drawn at first. */
const CHARTS = 12;
/** Fields that are shown of what differs. */
const FIELDS = 8;
/** What only the comparison of two worlds has, with its title. */
const DETAILS = [["states", "Where the states differ"], ["views", "Where the views differ"], [
  "after",
  "Effects from there on",
]] as const;

export function Compare({ here }: { here: CompareAddress }) {
  const { worlds, group, view } = here;
  const agents = useSignal<string[]>([]);
  const found = useSignal<Compared | null>(null);
  const error = useSignal("");
  useEffect(() => {
    if (worlds.length !== 2) return;
    Promise.all(worlds.map((world) => source.agents(world))).then(([a = [], b = []]) => {
      const others = new Set(b.map(({ agent_id }) => agent_id));
      agents.value = a.map(({ agent_id }) => agent_id).filter((name) => others.has(name));
    }, () => undefined);
  }, []);
  useEffect(() => {
    document.title = "Compare · Worldledger";
    if (worlds.length < 2) error.value = "Two worlds at least are needed";
    else {source.compare(worlds, group, view).then((answer) =>
        found.value = answer, (reason) =>
        error.value = words(reason));}
  }, [group, view]);
  const answer = found.value;
  return (
    <main class="compare">
      <h1>Compare</h1>
      <p>
        {worlds.map((world) => <a key={world} href={format(worldAddress(world))}>{world}</a>).flatMap((link, index) =>
          index === 0 ? [link] : [" · ", link]
        )}
      </p>
      {error.value !== "" && (
        <p role="alert">
          {error.value}. <a href="#/">All worlds</a>
        </p>
      )}
      {worlds.length > 1 && (
        <p class="about">
          This as one file: <code>worldledger compare {worlds.map(quoted).join(" ")} -o compare.html</code>
        </p>
      )}
      {error.value === "" && answer === null && <p role="status">reading the logs …</p>}
      {answer !== null && (
        <>
          <section aria-label="Where they part">
            <h2>Where they part</h2>
            {answer.pairs.map((pair) => (
              <OnePair
                key={`${pair.a}\n${pair.b}`}
                pair={pair}
                only={answer.pairs.length === 1}
                states={answer.states?.divergence?.differences ?? []}
              />
            ))}
            {agents.value.length > 0 && (
              <p>
                <label>
                  Compare what was seen, too, by{" "}
                  <select value={view} onChange={({ currentTarget }) => go({ ...here, view: currentTarget.value })}>
                    <option value="">no agent</option>
                    {agents.value.map((name) => <option key={name} value={name}>{name}</option>)}
                  </select>
                </label>
              </p>
            )}
            {DETAILS.map(([name, title]) =>
              isObject(answer[name]) && (
                <details key={name}>
                  <summary>{title}</summary>
                  <Tree value={answer[name] as Obj} label={title} open={2} />
                </details>
              )
            )}
          </section>
          <Measures here={here} answer={answer} />
        </>
      )}
    </main>
  );
}

function OnePair({ pair, only, states }: { pair: Pair; only: boolean; states: Field[] }) {
  const { a, b, divergence } = pair;
  const [isOpen, open] = useState(only);
  const told = pair.equal ? "nothing differs" : divergence === null ? "they do not part" : partingOf(pair);
  return (
    <details class="pair" open={isOpen} onToggle={({ currentTarget }) => open(currentTarget.open)}>
      <summary>
        <bdi>{a}</bdi> · <bdi>{b}</bdi> <span class="about">{told}</span>
      </summary>
      {isOpen && (
        <>
          {divergence !== null && <Fields a={a} b={b} divergence={divergence} states={states} />}
          <Lanes pair={pair} />
          <details>
            <summary>Every difference</summary>
            <Tree value={pair as unknown as Obj} label={`How ${a} and ${b} differ`} open={2} />
          </details>
        </>
      )}
    </details>
  );
}

type Divergence = NonNullable<Pair["divergence"]>;
type Field = Divergence["fields"][number];

/**
 * What differs where two worlds part, in the effects and in the states after them. Of an effect that only one has it is
 * what it says, and what it made of the values that the other one still has.
 */
function Fields({ a, b, divergence, states }: { a: string; b: string; divergence: Divergence; states: Field[] }) {
  const rows = [
    ...divergence.fields.slice(0, FIELDS).map((field) => ({
      name: field.path.replace(/^\$\./, ""),
      a: valueOf(field.a, field.a_missing, field.a_bytes),
      b: valueOf(field.b, field.b_missing, field.b_bytes),
    })),
    ...states.slice(0, FIELDS).map((field) => {
      const inA = valueOf(field.a, field.a_missing, field.a_bytes);
      const inB = valueOf(field.b, field.b_missing, field.b_bytes);
      return {
        name: `state: ${field.path.replace(/^\$\.(entities\.)?/, "")}`,
        a: divergence.b === null ? `${inB} → ${inA}` : inA,
        b: divergence.a === null ? `${inA} → ${inB}` : inB,
      };
    }),
  ];
  if (rows.length === 0) return null;
  return (
    <table class="differing">
      <caption class="unseen">What differs there</caption>
      <thead>
        <tr>
          {["there", a, b].map((head) => (
            <th key={head} scope="col">
              <bdi>{head}</bdi>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.name}>
            <th scope="row">
              <bdi>{row.name}</bdi>
            </th>
            <td>
              <bdi>{row.a}</bdi>
            </td>
            <td>
              <bdi>{row.b}</bdi>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function valueOf(value: Json | undefined, isMissing = false, bytes: number | null = null): string {
  return isMissing ? "–" : bytes !== null ? `${count(bytes)} bytes` : short(patched(value) ?? plain(value), 200);
}

function partingOf({ a, b, divergence, equal_effects, shared_effects }: Pair): string {
  const { unit, number, ...its } = divergence as Divergence;
  const place = number === null ? `before the first ${unit}` : `at ${unit} ${count(number)}`;
  const shared = shared_effects > 0 ? `, ${count(shared_effects)} of them in the past that they share` : "";
  const only = its.a === null ? b : its.b === null ? a : null;
  const alone = only === null ? "" : `: only ${only} has an effect there`;
  return `part ${place}, after ${count(equal_effects)} equal effects${shared}${alone}`;
}

function Measures({ here, answer }: { here: CompareAddress; answer: Compared }) {
  const { series, worlds, groups } = answer;
  const [text, filter] = useState("");
  const [most, show] = useState(CHARTS);
  const labels = ["experiment", ...new Set(worlds.flatMap((world) => Object.keys(world.labels)))];
  const wanted = series.filter(({ measure }) => measure.toLowerCase().includes(text.toLowerCase()));
  const charts = useMemo(
    () => wanted.slice(0, most).map((each) => chartOfMeasure(each, answer)),
    [answer, text, most],
  );
  if (series.length === 0) return null;
  return (
    <section aria-label="Measures">
      <h2>Measures by {answer.series_unit}</h2>
      <div class="filters">
        <label>
          Mean and quartiles for each{" "}
          <select
            value={here.group}
            onChange={({ currentTarget }) => go({ ...here, group: currentTarget.value })}
          >
            <option value="">run alone</option>
            {labels.map((label) => <option key={label} value={label}>{label}</option>)}
          </select>
        </label>
        {series.length > CHARTS && (
          <input
            type="search"
            aria-label="Filter measures"
            placeholder="filter measures"
            onInput={({ currentTarget }) => filter(currentTarget.value)}
          />
        )}
      </div>
      <div class="measures">
        {charts.map(({ measure, chart }) => (
          <section key={measure} aria-label={measure}>
            <h3>
              <bdi>{measure}</bdi>
            </h3>
            <ChartView
              chart={chart}
              height={190}
              label={`${measure} by ${answer.series_unit}, ${
                groups === null ? `of ${worlds.length} runs` : `mean and quartiles by ${groups.by}`
              }`}
            />
          </section>
        ))}
      </div>
      {wanted.length > most && (
        <button type="button" onClick={() => show(wanted.length)}>all {count(wanted.length)} measures</button>
      )}
    </section>
  );
}

/** A line for each run; of groups the mean with a band from the first quartile to the third, before the runs. */
function chartOfMeasure({ measure, numbers, values }: MeasureSeries, { worlds, groups, series_unit }: Compared) {
  const names = [...new Set(groups?.of ?? [])];
  const runs = values.map((row, index): Series => {
    const points = row.map((value, at): [number, number | null] => [numbers[at] as number, value]);
    const name = worlds[index]?.world_id ?? "";
    return groups === null ? { name, points } : {
      name,
      points,
      faint: true,
      colour: names.indexOf(groups.of[index] as string),
    };
  });
  const means = (groups?.series ?? []).filter((each) => each.measure === measure).map((each) => meanOf(each, names));
  const chart: Chart = {
    look: "lines",
    x: { is: "number" },
    titles: [series_unit ?? "", ""],
    series: [...runs, ...means],
  };
  return { measure, chart };
}

function meanOf({ group, numbers, mean, q1, q3 }: GroupSeries, names: string[]): Series {
  return {
    name: group,
    colour: names.indexOf(group),
    points: numbers.map((number, at) => [number, mean[at] ?? null]),
    band: numbers.flatMap((number, at): [number, number, number][] => {
      const [low, high] = [q1[at] ?? null, q3[at] ?? null];
      return low === null || high === null ? [] : [[number, low, high]];
    }),
  };
}
