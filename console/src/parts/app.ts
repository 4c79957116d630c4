/** What all pages share: the address, which is the one state of the page, and the source of its data. */

import { signal } from "@preact/signals";
import { type Address, format, parse, worldAddress } from "../core/address.ts";
import { EmbeddedSource } from "../core/embedded.ts";
import { HttpSource } from "../core/http.ts";
import type { PanelModule } from "../core/panel.ts";
import type { Source } from "../core/source.ts";
import type { Unit } from "../core/transcript.ts";

const embedded = document.querySelector("#embedded")?.textContent ?? null;
/** Whether the page is a file that holds one world. */
export const offline = embedded !== null;
export const source: Source = embedded === null ? new HttpSource() : await EmbeddedSource.of(embedded);

/** Where a script is loaded from: the service, or the page itself. */
export function loadable(path: string): string {
  const text = source instanceof EmbeddedSource ? source.assets.get(path) : undefined;
  return text === undefined ? path : URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
}

/** The address of the page; of a file that was opened without one, that at which it was taken along. */
function read(): Address {
  const given = document.querySelector<HTMLMetaElement>('meta[name="worldledger-address"]')?.content ?? "";
  const found = parse(location.hash === "" ? given : location.hash);
  return source instanceof EmbeddedSource && found.page !== "world"
    ? worldAddress(source.only.world_id, { at: 1 })
    : found;
}

export const address = signal<Address>(read());

/** Milliseconds after the last move of a cursor until the address bar says so: browsers limit how often it may change. */
const LATER_MS = 200;
let pending: number | undefined;

function write(): void {
  clearTimeout(pending);
  pending = undefined;
  const text = format(address.value);
  if (text !== location.hash) history.replaceState(null, "", text);
}

/** Go to an address: as a step that the back button undoes, or in place of the present one. */
export function go(next: Address, how: "step" | "move" = "step"): void {
  if (how === "move") {
    address.value = next;
    clearTimeout(pending);
    pending = setTimeout(write, LATER_MS);
    return;
  }
  write();
  address.value = next;
  const text = format(next);
  if (text !== location.hash) history.pushState(null, "", text);
}

/** Follow a link of the page without loading it anew. */
function follow(): void {
  clearTimeout(pending);
  pending = undefined;
  address.value = read();
}

globalThis.addEventListener("popstate", follow);
globalThis.addEventListener("hashchange", follow);
globalThis.addEventListener("pagehide", write);

/** What the page's head says of each kind of worlds. */
function told<T>(name: string): Record<string, T> {
  try {
    return JSON.parse(document.querySelector<HTMLMetaElement>(`meta[name="worldledger-${name}"]`)?.content ?? "{}");
  } catch {
    return {};
  }
}

/** The modules of kinds' panels, by the kind. */
export const panels = told<string>("panels");
/** The units in which kinds count, by the kind and their names. */
export const units = told<Record<string, Unit>>("units");

const modules = new Map<string, Promise<PanelModule>>();

/** The module of a kind's panel, loaded once; undefined if the kind has none. */
export function panelOf(kind: string): Promise<PanelModule> | undefined {
  const url = Object.hasOwn(panels, kind) ? panels[kind] : undefined;
  if (url === undefined) return undefined;
  let found = modules.get(url);
  if (found === undefined) {
    found = import(loadable(url)) as Promise<PanelModule>;
    modules.set(url, found);
    // Asked again after a failure, not before.
    found.catch(() => modules.delete(url));
  }
  return found;
}

/** Save a file in the browser's folder of downloads. */
export function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** An error as people read it. */
export function words(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
