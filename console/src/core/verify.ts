/** Checking a log by its rule (docs/reference/effects.md): checksum(n) = SHA-256(hex(checksum(n-1)) + text(n)). */

import { sha256 } from "@noble/hashes/sha2.js";

export type Hash = (data: Uint8Array<ArrayBuffer>) => Promise<Uint8Array> | Uint8Array;

/** WebCrypto where the page may use it; it may not over plain HTTP from another machine. */
export function bestHash(): Hash {
  const subtle = globalThis.crypto?.subtle;
  if (subtle === undefined) return sha256;
  return async (data) => new Uint8Array(await subtle.digest("SHA-256", data));
}

export interface Position {
  seq: number;
  checksum: string;
}

export interface Outcome {
  /** How many effects were read. */
  effects: number;
  /** Where the chain ends, as computed here. */
  head: Position;
  /** The first place where it is not what it should be. */
  breach: { seq: number; what: string } | null;
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

export function hex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += HEX[byte];
  return text;
}

/** A head as people note it: SEQ:CHECKSUM. Null where it cannot be read. */
export function parsePosition(text: string): Position | null {
  const found = /^\s*([1-9]\d{0,15}):([0-9a-f]{8,64})\s*$/i.exec(text);
  return found === null ? null : { seq: Number(found[1]), checksum: (found[2] as string).toLowerCase() };
}

const NEWLINE = 10;

/** The lines of a stream of bytes. Raises TypeError if it ends within a line. */
export async function* lines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let rest = new Uint8Array(0);
  for await (const chunk of chunks) {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, from)) {
      const piece = chunk.subarray(from, end);
      yield rest.length === 0 ? piece : joined(rest, piece);
      rest = new Uint8Array(0);
      from = end + 1;
    }
    if (from < chunk.length) rest = joined(rest, chunk.subarray(from));
  }
  if (rest.length > 0) throw new TypeError("the log ends within a line");
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const made = new Uint8Array(first.length + second.length);
  made.set(first);
  made.set(second, first.length);
  return made;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * Compute the chain over the lines of a log, from its genesis on or, of a part of it, from the position `before` it.
 * `told` is the head that the log should end in, `noted` are positions through which it must pass: those that somebody
 * kept elsewhere. Noted positions before a part are not looked at.
 */
export async function verify(
  log: AsyncIterable<Uint8Array>,
  told: Position,
  noted: readonly Position[],
  hash: Hash,
  progress: (effects: number) => void = () => undefined,
  before: Position = { seq: 0, checksum: "" },
): Promise<Outcome> {
  let { seq, checksum } = before;
  let previous: Uint8Array = encoder.encode(checksum);
  const broken = (at: number, what: string): Outcome => {
    return { effects: seq - before.seq, head: { seq, checksum }, breach: { seq: at, what } };
  };
  const wanted = new Map<number, string[]>();
  for (const { seq: at, checksum: text } of [...noted, told]) wanted.set(at, [...(wanted.get(at) ?? []), text]);
  for (const start of wanted.get(before.seq) ?? []) {
    if (!checksum.startsWith(start)) {
      return broken(seq, `the part does not follow the noted head: ${start} was expected`);
    }
  }
  for await (const text of log) {
    const stated = seqOf(text);
    if (stated !== seq + 1) return broken(seq + 1, `the line says global_seq ${stated ?? "nothing"}`);
    checksum = hex(await hash(joined(previous, text)));
    previous = encoder.encode(checksum);
    seq += 1;
    for (const start of wanted.get(seq) ?? []) {
      if (!checksum.startsWith(start)) {
        const what = start === told.checksum && seq === told.seq
          ? "the log does not end in the head that the service tells"
          : "the log does not pass through the noted head";
        return broken(seq, `${what}: ${start} was expected, ${checksum} was computed`);
      }
    }
    if (seq % 2048 === 0) progress(seq - before.seq);
  }
  if (seq < told.seq) return broken(seq + 1, `the log ends at ${seq}, before the head that the service tells`);
  const beyond = noted.find((each) => each.seq > seq);
  if (beyond !== undefined) {
    return broken(seq + 1, `the noted head ${beyond.seq} lies beyond the log, which ends at ${seq}`);
  }
  return { effects: seq - before.seq, head: { seq, checksum }, breach: null };
}

/** The `global_seq` that a line states at its top level. */
function seqOf(text: Uint8Array): number | null {
  try {
    const { global_seq } = JSON.parse(decoder.decode(text)) as { global_seq?: unknown };
    return typeof global_seq === "number" ? global_seq : null;
  } catch {
    return null;
  }
}
