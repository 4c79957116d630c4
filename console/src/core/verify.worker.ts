/** Verification off the page's own thread. It is sent one `Task` and answers `Progress` until an `Answer`. */

import { bestHash, lines, type Outcome, type Position, verify } from "./verify.ts";

export interface Task {
  /** The log, or where it is read. */
  log: Blob | string;
  told: Position;
  noted: Position[];
  /** Of a part of a log, the position before it. */
  before: Position;
}
export type Answer = { progress: number } | { outcome: Outcome } | { error: string };

async function opened(log: Blob | string): Promise<ReadableStream<Uint8Array>> {
  if (typeof log !== "string") return log.stream();
  const answer = await fetch(log, { headers: { Accept: "application/x-ndjson" } });
  if (!answer.ok || answer.body === null) throw new Error(`the service answers ${answer.status}`);
  return answer.body;
}

async function* read(log: Blob | string): AsyncGenerator<Uint8Array> {
  const reader = (await opened(log)).getReader();
  for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) yield chunk.value;
}

const tell = (answer: Answer) => globalThis.postMessage(answer);

globalThis.addEventListener("message", async ({ data }: MessageEvent<Task>) => {
  try {
    const { log, told, noted, before } = data;
    const outcome = await verify(lines(read(log)), told, noted, bestHash(), (progress) => tell({ progress }), before);
    tell({ outcome });
  } catch (error) {
    tell({ error: error instanceof Error ? error.message : String(error) });
  }
});
