/** The operator's box: an effect, or an intent in the name of an agent, posted by a form that its kind's schema makes. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { faults, type Field, fieldsOf, parsed, valueOf } from "../core/form.ts";
import { isObject, type Obj } from "../core/json.ts";
import { type Posted, Refused, type Vocabulary } from "../core/source.ts";
import { source, words } from "./app.ts";
import type { WorldModel } from "./model.ts";

/** The choice of a kind that the world's ruleset does not know. */
const OTHER = "";
const VERSION = "1.0.0";

/** A request's own name. Not crypto.randomUUID, which pages without TLS lack. */
function newRequest(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `console-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

export function Post({ model }: { model: WorldModel }) {
  const world = model.world.world_id;
  const known = useSignal<Vocabulary | null>(null);
  const as = useSignal<"effect" | "intent">("effect");
  const kind = useSignal<string | null>(null);
  const busy = useSignal(false);
  const posted = useSignal<Posted | null>(null);
  const error = useSignal<Error | null>(null);
  const form = useRef<HTMLFormElement>(null);
  /** Kept until it is accepted: the same request again, by a second click or after an outage, is one effect. */
  const request = useRef(newRequest());

  useEffect(() => {
    source.kinds(world).then((found) => known.value = found, (reason) => error.value = reason);
  }, []);

  const own = as.value === "intent" ? known.value?.intents ?? [] : [];
  const kinds = [...own, ...(known.value?.effects ?? []).filter((each) => !own.some(({ kind }) => kind === each.kind))];
  const chosen = kind.value ?? kinds[0]?.kind ?? OTHER;
  const schema = kinds.find((each) => each.kind === chosen)?.payload;
  const fields = schema === undefined ? [] : fieldsOf(schema);
  const wrong = error.value instanceof Refused ? faults(error.value.problems) : {};
  const isCustom = as.value === "intent" && !own.some((each) => each.kind === chosen);
  const choose = (next: () => void) => {
    next();
    posted.value = error.value = null;
  };

  const send = async () => {
    if (busy.value) return;
    const given = new FormData(form.current as HTMLFormElement);
    const text = (name: string) => String(given.get(name) ?? "");
    busy.value = true;
    posted.value = error.value = null;
    try {
      const name = chosen === OTHER ? text("kind") : chosen;
      const payload = chosen === OTHER ? free(text("payload")) : read(fields, text);
      const common = { req_id: request.current, schema_version: VERSION };
      posted.value = as.value === "effect"
        ? await source.post(world, "effects", { ...common, kind: name, payload, source_id: text("source_id") })
        : await source.post(world, "intents", {
          ...common,
          agent_id: text("agent_id"),
          kind: isCustom ? "Custom" : name,
          payload: isCustom ? { ...payload, kind: name } : payload,
          // Beyond its latest view it means that view.
          context_seq: model.head.peek(),
        });
      request.current = newRequest();
    } catch (reason) {
      error.value = reason instanceof Error ? reason : new Error(words(reason));
    }
    busy.value = false;
  };
  return (
    <section class="post" aria-label="Post">
      <form
        ref={form}
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
      >
        <div class="choices">
          <fieldset>
            <legend class="unseen">What is posted</legend>
            {(["effect", "intent"] as const).map((each) => (
              <label key={each}>
                <input
                  type="radio"
                  name="as"
                  checked={as.value === each}
                  onChange={() => choose(() => [as.value, kind.value] = [each, null])}
                />{" "}
                {each === "effect" ? "an effect" : "an intent of an agent"}
              </label>
            ))}
          </fieldset>
          <label>
            kind{" "}
            <select
              aria-label="kind to post"
              value={chosen}
              onChange={({ currentTarget }) => choose(() => kind.value = currentTarget.value)}
            >
              {kinds.map((each) => <option key={each.kind} value={each.kind}>{each.kind}</option>)}
              <option value={OTHER}>another kind …</option>
            </select>
          </label>
          {as.value === "effect"
            ? (
              <label>
                source <input name="source_id" required maxLength={200} defaultValue="operator" />
              </label>
            )
            : (
              <label>
                agent{" "}
                <select name="agent_id" aria-label="agent to post as" required>
                  {model.agents.value.map(({ agent_id }) => <option key={agent_id} value={agent_id}>{agent_id}
                  </option>)}
                </select>
              </label>
            )}
        </div>
        {typeof schema?.["description"] === "string" && <p class="about">{schema["description"]}</p>}
        <div class="fields" key={`${as.value} ${chosen}`}>
          {chosen === OTHER
            ? (
              <>
                <label>
                  <span>
                    kind <small>needed</small>
                  </span>
                  <input name="kind" required maxLength={200} />
                </label>
                <label>
                  <span>payload</span>
                  <textarea name="payload" rows={4} spellcheck={false} defaultValue="{}" />
                  <small>A JSON object.</small>
                </label>
              </>
            )
            : fields.map((field) => <Input key={field.name} field={field} wrong={wrong[field.name]} />)}
        </div>
        <p>
          <button
            type="submit"
            disabled={busy.value || known.value === null || (as.value === "intent" && model.agents.value.length === 0)}
          >
            {busy.value ? "posting …" : "Post"}
          </button>{" "}
          {as.value === "intent" && model.agents.value.length === 0 && <small>No agent is registered here.</small>}
        </p>
      </form>
      {error.value !== null && <Refusal error={error.value} />}
      {posted.value !== null && <Written model={model} posted={posted.value} />}
    </section>
  );
}

function free(text: string): Obj {
  const value = parsed("payload", text);
  if (!isObject(value)) throw new Error("payload: a JSON object");
  return value;
}

function read(fields: readonly Field[], text: (name: string) => string): Obj {
  const payload: Obj = {};
  for (const field of fields) {
    const value = valueOf(field, text(`p.${field.name}`));
    if (value !== undefined) payload[field.name] = value;
  }
  return payload;
}

function Input({ field, wrong }: { field: Field; wrong: string | undefined }) {
  const { name, widget, needed, says, options } = field;
  const given = { name: `p.${name}`, "aria-invalid": wrong !== undefined };
  return (
    <label>
      <span>
        {name} {needed && <small>needed</small>}
      </span>
      {widget === "choice"
        ? (
          <select {...given} required={needed}>
            <option value="">…</option>
            {options.map((each) => <option key={each} value={each}>{each}</option>)}
          </select>
        )
        : widget === "number"
        ? <input {...given} type="number" step="any" required={needed} />
        : widget === "numbers"
        ? <input {...given} required={needed} placeholder="1.5, 2" />
        : (
          <textarea
            {...given}
            rows={widget === "json" ? 3 : 1}
            spellcheck={widget !== "json"}
            placeholder={widget === "json" ? "JSON" : ""}
            // An empty text may be meant.
            required={needed && widget !== "text"}
          />
        )}
      {says !== "" && <small>{says}</small>}
      {wrong !== undefined && <small class="why">{wrong}</small>}
    </label>
  );
}

function Refusal({ error }: { error: Error }) {
  const refused = error instanceof Refused ? error : null;
  const several = refused !== null && refused.problems.length > 1 ? refused.problems : [];
  return (
    <div role="alert">
      <p>
        {refused === null ? "Not posted: " : "Refused: "}
        {several.length === 0 && <bdi>{error.message}</bdi>}{" "}
        {refused !== null && refused.code !== "" && <code>{refused.code}</code>}
      </p>
      {several.length > 0 && (
        <ul>
          {several.map(({ path, message }) => (
            <li key={`${path} ${message}`}>
              <code>{path}</code> <bdi>{message}</bdi>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function Written({ model, posted }: { model: WorldModel; posted: Posted }) {
  if ("held" in posted) return <p role="status">Held until tick {posted.tick} decides.</p>;
  const { global_seq, replayed } = posted;
  return (
    <p role="status">
      ✓ Written as{" "}
      <button type="button" class="link" onClick={() => model.change({ effect: global_seq })}>
        effect {global_seq}
      </button>
      {replayed && "; it had been accepted before"}
    </p>
  );
}
