/** What this browser has verified: of each world the head that it computed last, and where the log was broken since. */

import type { Position } from "./verify.ts";

export interface Verified extends Position {
  /** When that was, in epoch milliseconds. */
  at: number;
  /** Where the chain was broken when it was looked at last; null if it was not. */
  broken: number | null;
}

/** Of so many worlds it is kept, the latest. */
const MOST = 500;
const NAME = "worldledger:verified";

function all(): Record<string, Verified> {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(NAME) ?? "{}");
    return typeof found === "object" && found !== null ? found as Record<string, Verified> : {};
  } catch {
    return {};
  }
}

/** What was verified of a world, by its uuid. */
export function verifiedOf(uuid: string): Verified | null {
  const found = all()[uuid];
  return typeof found?.seq === "number" && typeof found.checksum === "string" ? found : null;
}

/** Keep what was verified of a world; a browser that keeps nothing forgets it. */
export function keepVerified(uuid: string, found: Verified): void {
  const latest = Object.entries({ ...all(), [uuid]: found }).sort(([, a], [, b]) => b.at - a.at).slice(0, MOST);
  try {
    localStorage.setItem(NAME, JSON.stringify(Object.fromEntries(latest)));
  } catch {
    // Such as in a private window, or where a page may not store anything.
  }
}

/** How a world's log stands to what was verified of it, with words for the reader. */
export function standing(
  found: Verified | null,
  head: Position,
): { sign: "" | "✓" | "✓…" | "✗"; words: string } {
  if (found === null) return { sign: "", words: "not verified in this browser" };
  const { seq, checksum, broken } = found;
  if (broken !== null) return { sign: "✗", words: `broken at effect ${broken}, when this browser verified it` };
  if (head.seq > seq) return { sign: "✓…", words: `verified up to effect ${seq} in this browser; more has come since` };
  if (head.seq < seq || head.checksum !== checksum) {
    return {
      sign: "✗",
      words: `this browser verified another log, up to effect ${seq}: this one was rewritten or cut`,
    };
  }
  return { sign: "✓", words: `verified in this browser, all ${seq} effects` };
}
