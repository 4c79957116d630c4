/** Questions in SQL: those with names, and one's own. The service answers what the guest of the database may ask. */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { SqlAddress } from "../core/address.ts";
import { chartOf, type Choice, guess, type Look, LOOKS, MOST_SERIES, numeric } from "../core/chart.ts";
import type { Answer, Question } from "../core/source.ts";
import { count, csv, plain } from "../core/text.ts";
import { address, go, save, source, words } from "../parts/app.ts";
import { ChartView } from "../parts/chart.tsx";
import { Table } from "../parts/table.tsx";

const MOST_ROWS = 10_000;

export function Sql({ here }: { here: SqlAddress }) {
  const questions = useSignal<Question[]>([]);
  const answer = useSignal<Answer | null>(null);
  const error = useSignal("");
  const busy = useSignal(false);
  const asked = useRef<(() => Promise<Blob>) | null>(null);
  const form = useRef<HTMLFormElement>(null);
  const named = questions.value.find(({ name }) => name === here.name);

  useEffect(() => {
    document.title = "SQL · Worldledger";
    source.questions().then((found) => questions.value = found, (reason) => error.value = words(reason));
  }, []);
  // A link to a question shows its answer.
  const begins = useRef(here.query !== "" || here.name !== "");
  useEffect(() => {
    if (!begins.current || questions.value.length === 0) return;
    begins.current = false;
    if (form.current?.checkValidity()) void ask();
  }, [questions.value]);

  const ask = async () => {
    const given = new FormData(form.current as HTMLFormElement);
    const params = Object.fromEntries(
      (named?.parameters ?? []).map(({ name }) => [name, String(given.get(`p.${name}`) ?? "")]).filter(([, value]) =>
        value
      ),
    );
    const query = String(given.get("query") ?? "");
    const isSame = (named?.name ?? "") === here.name && (named !== undefined || query === here.query);
    go({ ...here, params, query: named === undefined ? query : "", chart: isSame ? here.chart : null }, "move");
    busy.value = true;
    error.value = "";
    asked.current = () => source.askArrow(named ?? query, params);
    try {
      answer.value = await source.ask(named ?? query, params, MOST_ROWS);
    } catch (reason) {
      answer.value = null;
      error.value = words(reason);
    }
    busy.value = false;
  };
  return (
    <main class="sql">
      <h1>SQL</h1>
      <form
        ref={form}
        onSubmit={(event) => {
          event.preventDefault();
          void ask();
        }}
      >
        <label>
          Question{" "}
          <select
            value={here.name}
            onChange={({ currentTarget }) => {
              answer.value = null;
              go({ page: "sql", name: currentTarget.value, params: {}, query: "", chart: null });
            }}
          >
            <option value="">your own</option>
            {questions.value.map(({ name, title }) => <option key={name} value={name}>{title}</option>)}
          </select>
        </label>
        {named !== undefined && <p class="about">{named.description}</p>}
        {named?.parameters.map(({ name, description, is_required, default: usual }) => (
          <p key={`${named.name} ${name}`}>
            <label>
              {name}{" "}
              <input
                name={`p.${name}`}
                required={is_required}
                placeholder={usual === null ? "" : plain(usual)}
                defaultValue={here.params[name] ?? ""}
              />
            </label>{" "}
            <small>{description}</small>
          </p>
        ))}
        <textarea
          key={here.name}
          name="query"
          aria-label="Query"
          rows={7}
          spellcheck={false}
          readOnly={named !== undefined}
          defaultValue={named === undefined ? here.query || "select world_id, effects from world_summaries" : named.sql}
        />
        {named === undefined && <Columns />}
        <p>
          <button type="submit" disabled={busy.value}>{busy.value ? "asking …" : "Ask"}</button>
        </p>
      </form>
      {error.value !== "" && <p role="alert">{error.value}</p>}
      {answer.value !== null && <Result answer={answer.value} chart={here.chart} arrow={asked.current} />}
    </main>
  );
}

const COLUMNS = `select table_name::text, string_agg(column_name || ' ' || data_type, ', ' order by ordinal_position)
from information_schema.columns where table_schema = 'analytics' group by 1 order by 1`;

/** The views that may be asked, with their columns; looked up when they are unfolded. */
function Columns() {
  const views = useSignal<(readonly [string, string])[] | null>(null);
  const error = useSignal("");
  const look = () => {
    if (views.value !== null) return;
    source.ask(COLUMNS, {}, MOST_ROWS).then(
      ({ rows }) => views.value = rows.map(([name, columns]) => [plain(name), plain(columns)]),
      (reason) => error.value = words(reason),
    );
  };
  return (
    <details class="views" onToggle={look}>
      <summary>Views and their columns</summary>
      {error.value !== "" && <p role="alert">{error.value}</p>}
      <dl>
        {views.value?.map(([name, columns]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class="about">{columns}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

function Result({ answer, chart, arrow }: {
  answer: Answer;
  chart: Choice | null;
  arrow: (() => Promise<Blob>) | null;
}) {
  const { columns, rows, is_cut } = answer;
  const failed = useSignal("");
  const first = useMemo(() => guess(columns, rows), [answer]);
  const show = (choice: Choice | null) => {
    const now = address.value;
    if (now.page === "sql") go({ ...now, chart: choice });
  };
  const saveArrow = async () => {
    failed.value = "";
    try {
      save(await (arrow as () => Promise<Blob>)(), "answer.arrows");
    } catch (reason) {
      failed.value = words(reason);
    }
  };
  return (
    <section aria-label="Answer">
      <p class="inline" role="status">
        {count(rows.length)} rows{is_cut && ", and there are more"}
      </p>
      <p class="inline">
        {first !== null && (
          <button
            type="button"
            aria-pressed={chart !== null}
            onClick={() => show(chart === null ? first : null)}
          >
            Chart
          </button>
        )}
        <button
          type="button"
          onClick={() =>
            save(new Blob([csv(columns.map(({ name }) => name), rows)], { type: "text/csv" }), "answer.csv")}
        >
          CSV
        </button>
        <button type="button" title="Every row, as an Arrow IPC stream" onClick={() => void saveArrow()}>Arrow</button>
      </p>
      {failed.value !== "" && <p role="alert">{failed.value}</p>}
      {chart !== null && <Drawn answer={answer} choice={chart} change={show} />}
      <Table columns={columns} rows={rows} />
    </section>
  );
}

function Drawn({ answer: { columns, rows }, choice, change }: {
  answer: Answer;
  choice: Choice;
  change: (choice: Choice) => void;
}) {
  const made = useMemo(() => {
    try {
      return { chart: chartOf(columns, rows, choice) };
    } catch (reason) {
      return { problem: words(reason) };
    }
  }, [columns, rows, choice]);
  const pick = (title: string, name: keyof Choice, values: readonly string[]) => (
    <label>
      {title}{" "}
      <select
        value={choice[name]}
        onChange={({ currentTarget }) => change({ ...choice, [name]: currentTarget.value as Look })}
      >
        {values.map((value) => <option key={value} value={value}>{value === "" ? "nothing" : value}</option>)}
      </select>
    </label>
  );
  const all = columns.map(({ name }) => name);
  const what = `${choice.y} by ${choice.x}${choice.by === "" ? "" : `, for each ${choice.by}`}`;
  return (
    <>
      <div class="filters">
        {pick("As", "look", LOOKS)}
        {pick("across", "x", all)}
        {pick("up", "y", numeric(columns, rows).map(({ name }) => name))}
        {pick("a series for each", "by", ["", ...all])}
      </div>
      {made.chart === undefined ? <p role="alert">{made.problem}</p> : (
        <>
          <ChartView chart={made.chart} label={`${choice.look}: ${what}`} height={320} />
          {made.chart.series.length === MOST_SERIES && <p class="said">The first {MOST_SERIES} series are drawn.</p>}
        </>
      )}
    </>
  );
}
