/** Checking the whole log in the browser, off the page's own thread. */

import { useEffect, useRef, useState } from "preact/hooks";
import { parsePosition, type Position } from "../core/verify.ts";
import type { Outcome } from "../core/verify.ts";
import type { Answer, Task } from "../core/verify.worker.ts";
import { count, when } from "../core/text.ts";
import { keepVerified, type Verified, verifiedOf } from "../core/verified.ts";
import { loadable, source, words } from "./app.ts";
import type { WorldModel } from "./model.ts";

declare const VERIFY_WORKER: string;

type Stage =
  | { is: "idle" }
  | { is: "running"; effects: number; of: number }
  | { is: "done"; outcome: Outcome; noted: Position | null; before: Verified | null }
  | { is: "failed"; error: string };

export function Integrity({ model }: { model: WorldModel }) {
  const [stage, turn] = useState<Stage>({ is: "idle" });
  const [text, note] = useState("");
  const worker = useRef<Worker | null>(null);
  const stop = () => {
    worker.current?.terminate();
    worker.current = null;
  };
  useEffect(() => stop, []);
  const noted = parsePosition(text);
  const unreadable = text.trim() !== "" && noted === null;
  const isBefore = noted !== null && noted.seq < model.first - 1;
  const { part } = model.world;

  const begin = async () => {
    stop();
    const before = part === undefined ? verifiedOf(model.world.world_uuid) : null;
    const keep = ({ head, breach }: Outcome) => {
      // A noted head that is not on the chain may be at fault itself, and a part is not the world.
      if ((breach !== null && noted !== null) || part !== undefined) return;
      // What was verified once stays the measure, whatever the log looks like later.
      const found = breach !== null && before !== null ? before : { ...head, at: Date.now() };
      keepVerified(model.world.world_uuid, { ...found, broken: breach?.seq ?? null });
    };
    try {
      const { head_seq: seq, head_checksum: checksum } = await source.world(model.world.world_id);
      const of = seq - model.first + 1;
      turn({ is: "running", effects: 0, of });
      const made = worker.current = new Worker(loadable(VERIFY_WORKER));
      made.onmessage = ({ data }: MessageEvent<Answer>) => {
        if ("progress" in data) turn({ is: "running", effects: data.progress, of });
        else stop();
        if ("outcome" in data) {
          turn({ is: "done", outcome: data.outcome, noted, before });
          keep(data.outcome);
        }
        if ("error" in data) turn({ is: "failed", error: data.error });
      };
      made.onerror = () => turn({ is: "failed", error: "the check could not be started" });
      const log = source.log(model.world.world_id, seq);
      // What this browser has verified before counts as noted elsewhere: elsewhere than in the service.
      const task: Task = {
        log,
        told: { seq, checksum },
        noted: [noted, before].filter((each) => each !== null),
        before: { seq: model.first - 1, checksum: part?.checksum_before ?? "" },
      };
      made.postMessage(task);
    } catch (error) {
      turn({ is: "failed", error: words(error) });
    }
  };
  return (
    <section class="integrity" aria-label="Integrity">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void begin();
        }}
      >
        <label>
          A head that you noted elsewhere{" "}
          <input
            value={text}
            placeholder="SEQ:CHECKSUM"
            aria-invalid={unreadable}
            spellcheck={false}
            onInput={({ currentTarget }) => note(currentTarget.value)}
          />
        </label>{" "}
        <button type="submit" disabled={unreadable || isBefore || stage.is === "running"}>
          Verify in this browser
        </button>{" "}
        {stage.is === "running" && (
          <button
            type="button"
            onClick={() => {
              stop();
              turn({ is: "idle" });
            }}
          >
            stop
          </button>
        )}
      </form>
      {unreadable && <p role="alert">A head is written as its seq, a colon and its checksum.</p>}
      {isBefore && <p role="alert">This file begins with effect {count(model.first)}: it cannot be checked there.</p>}
      {stage.is === "running" && (
        <p>
          <progress max={stage.of} value={stage.effects} aria-label="Effects checked" /> {count(stage.effects)} of{" "}
          {count(stage.of)}
        </p>
      )}
      {stage.is === "failed" && <p role="alert">Not checked: {stage.error}</p>}
      {stage.is === "done" && <Verdict model={model} {...stage} />}
    </section>
  );
}

function Verdict({ model, outcome, noted, before }: {
  model: WorldModel;
  outcome: Outcome;
  noted: Position | null;
  before: Verified | null;
}) {
  const { head, breach } = outcome;
  if (breach !== null) {
    return (
      <div class="verdict broken" role="alert">
        <p>
          <strong>✗ Broken at effect {breach.seq}.</strong> {breach.what}.
        </p>
        {breach.seq <= model.head.value && (
          <button
            type="button"
            onClick={() => model.move(breach.seq, "step", { effect: breach.seq })}
          >
            show it
          </button>
        )}
      </div>
    );
  }
  const position = `${head.seq}:${head.checksum}`;
  const { part } = model.world;
  if (part !== undefined && noted === null) {
    return (
      <div class="verdict sound" role="status">
        <p>
          <strong>✓ {count(outcome.effects)} effects, one chain.</strong> This is a part of the log: effects{" "}
          {count(part.first_seq)} to{" "}
          {count(head.seq)}. If the log has the position below, nothing in this part was changed;{" "}
          <code>worldledger verify WORLD --head {position}</code>{" "}
          tells. Of what lies before and behind the part this says nothing.
        </p>
        <p>
          <code class="checksum">{position}</code>
        </p>
      </div>
    );
  }
  return (
    <div class="verdict sound" role="status">
      <p>
        <strong>✓ {count(outcome.effects)} effects, one chain.</strong> {noted === null
          ? "This browser has hashed every effect, and the chain ends in the head that this service tells. It does not show that " +
            "nobody rewrote all of it: for that, compare with a head that was noted elsewhere."
          : `The chain passes through the head that you noted at ${noted.seq}: nothing up to there has been changed since.`}
        {before !== null &&
          ` It passes, too, through effect ${count(before.seq)}, up to which this browser verified it on ${
            when(before.at / 1000)
          }.`}
      </p>
      <p>
        <code class="checksum">{position}</code>{" "}
        <button
          type="button"
          onClick={() => void navigator.clipboard?.writeText(position)}
        >
          Copy the head
        </button>
      </p>
    </div>
  );
}
