/** What is taken along: a file that shows the world offline, or a part of it, and the report at the cursor. */

import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { format } from "../core/address.ts";
import { fetched } from "../core/http.ts";
import { save, words } from "./app.ts";
import type { WorldModel } from "./model.ts";

/** What a moment looks like; the service knows which a world has. */
const MOMENT = String.raw`head|\d+|[a-z_]+:.+|\d{4}-.+`;
const EXAMPLES = "A moment: 1200, turn:5, sim:12.5 or head";

export function Along({ model }: { model: WorldModel }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const busy = useSignal(false);
  const failed = useSignal("");
  const done = useSignal("");
  const world = model.world.world_id;
  const take = async (made: Promise<Blob>, what: string, ...named: (string | number)[]) => {
    busy.value = true;
    failed.value = done.value = "";
    const name = `${[world, ...named].join("-").replace(/[^\p{L}\p{N}.+_-]+/gu, "-")}.html`;
    try {
      save(await made, name);
      done.value = `Saved as ${name}: ${what}.`;
    } catch (reason) {
      failed.value = words(reason);
    }
    busy.value = false;
  };
  const field = (name: string, hint: string) => (
    <label>
      {name} <input name={name} pattern={MOMENT} maxLength={100} placeholder={hint} title={EXAMPLES} size={14} />
    </label>
  );
  const report = () => {
    const at = model.seq.peek();
    void take(
      fetched("/v1/worlds/{world}/report", { world }, { at }),
      `the report of ${world} up to effect ${at}`,
      at,
      "report",
    );
  };
  return (
    <>
      <button type="button" onClick={() => dialog.current?.showModal()}>Take along</button>
      <dialog ref={dialog} class="along" aria-labelledby="along">
        <h2 id="along">Take along</h2>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            const given = new FormData(event.currentTarget);
            const text = (name: string) => String(given.get(name) ?? "").trim();
            const [at, { agents }] = [model.seq.peek(), model.here];
            const wanted = { from: text("from"), to: text("to"), address: format({ ...model.here, at }) };
            const [from, to] = [wanted.from || "its beginning", wanted.to || "its end"];
            const beliefs = agents.length === 0 ? "" : `, with the belief of ${agents.join(", ")}`;
            void take(
              fetched("/export/{world}.html", { world }, wanted),
              `${world} from ${from} to ${to}; it opens at effect ${at}${beliefs}`,
              at,
              ...agents,
            );
          }}
        >
          <p>
            One file that shows this world, or a part of it, without a service or a network. It opens with what you see
            now. Without moments below it has all of the world.
          </p>
          {field("from", "its beginning")} {field("to", "its end")}{" "}
          <button type="submit" disabled={busy.value}>Save the page</button>
        </form>
        <p>How the world stands at the cursor, its measures, effects and refusals up to there.</p>
        <button type="button" disabled={busy.value} onClick={report}>Save the report</button>
        <p role="status">{busy.value ? "being made …" : done.value}</p>
        {failed.value !== "" && <p role="alert">{failed.value}</p>}
        <form method="dialog">
          <button type="submit">close</button>
        </form>
      </dialog>
    </>
  );
}
