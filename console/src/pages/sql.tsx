/** Questions in SQL: those with names, and one's own. The service answers what the guest of the database may ask. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { SqlAddress } from "../core/address.ts";
import type { Json } from "../core/json.ts";
import type { Answer, Question } from "../core/source.ts";
import { csv, plain } from "../core/text.ts";
import { go, source, words } from "../parts/app.ts";

const MOST_ROWS = 1000;

export function Sql({ here }: { here: SqlAddress }) {
  const questions = useSignal<Question[]>([]);
  const answer = useSignal<Answer | null>(null);
  const error = useSignal("");
  const busy = useSignal(false);
  const form = useRef<HTMLFormElement>(null);
  const named = questions.value.find(({ name }) => name === here.name);

  useEffect(() => {
    document.title = "SQL · Worldledger";
    source.questions().then((found) => questions.value = found, (reason) => error.value = words(reason));
  }, []);

  const ask = async () => {
    const given = new FormData(form.current as HTMLFormElement);
    const params = Object.fromEntries(
      (named?.parameters ?? []).map(({ name }) => [name, String(given.get(`p.${name}`) ?? "")]).filter(([, value]) =>
        value
      ),
    );
    const query = String(given.get("query") ?? "");
    go({ ...here, params, query: named === undefined ? query : "" }, "move");
    busy.value = true;
    error.value = "";
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
              go({ page: "sql", name: currentTarget.value, params: {}, query: "" });
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
        <p>
          <button type="submit" disabled={busy.value}>{busy.value ? "asking …" : "Ask"}</button>
        </p>
      </form>
      {error.value !== "" && <p role="alert">{error.value}</p>}
      {answer.value !== null && <Result answer={answer.value} />}
    </main>
  );
}

function Result({ answer }: { answer: Answer }) {
  const { columns, rows, is_cut } = answer;
  const save = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv(columns.map(({ name }) => name), rows)], { type: "text/csv" }));
    link.download = "answer.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <section aria-label="Answer">
      <p role="status">
        {rows.length} rows{is_cut && ", and there are more"} <button type="button" onClick={save}>CSV</button>
      </p>
      <div class="rows-of-sql" role="region" aria-label="Rows" tabIndex={0}>
        <table>
          <thead>
            <tr>
              {columns.map(({ name, type }, index) => (
                <th key={index} scope="col" title={type}>
                  <bdi>{name}</bdi>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, index) => (
              <tr key={index}>
                {row.map((value: Json, column) => (
                  <td key={column} class={typeof value === "number" ? "number" : ""}>
                    <bdi>{value === null ? "" : plain(value)}</bdi>
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
