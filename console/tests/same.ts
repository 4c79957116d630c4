/** What tests are made with. */

import { equal, type Json } from "../src/core/json.ts";

export function same(found: unknown, wanted: unknown): void {
  if (!equal(plain(found), plain(wanted))) {
    throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(wanted)}`);
  }
}

const plain = (value: unknown): Json => value === undefined ? null : JSON.parse(JSON.stringify(value));
