/** Verification off the page's own thread. It is sent one `Task` and answers `Progress` until an `Answer`. */

import { bestHash, lines, type Outcome, type Position, verify } from "./verify.ts";

export interface Task {
  url: string;
  told: Position;
  noted: Position[];
}
export type Answer = { progress: number } | { outcome: Outcome } | { error: string };

async function* read(url: string): AsyncGenerator<Uint8Array> {
  const answer = await fetch(url, { headers: { Accept: "application/x-ndjson" } });
  if (!answer.ok || answer.body === null) throw new Error(`the service answers ${answer.status}`);
  const reader = answer.body.getReader();
  for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) yield chunk.value;
}

const tell = (answer: Answer) => globalThis.postMessage(answer);

globalThis.addEventListener("message", async ({ data }: MessageEvent<Task>) => {
  try {
    const { url, told, noted } = data;
    const outcome = await verify(lines(read(url)), told, noted, bestHash(), (progress) => tell({ progress }));
    tell({ outcome });
  } catch (error) {
    tell({ error: error instanceof Error ? error.message : String(error) });
  }
});
