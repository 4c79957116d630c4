/** The keys of a world's page, and the list of them. */

import { useLayoutEffect, useRef } from "preact/hooks";
import type { Pane } from "../core/address.ts";
import { zoomed } from "../core/density.ts";
import { offline } from "./app.ts";
import type { WorldModel } from "./model.ts";

const KEYS: readonly (readonly [string, string])[] = [
  ["space", "play, pause"],
  ["← →", "one effect back, forward"],
  ["Shift ← →", "a hundred back, forward"],
  ["Home, End", "the first, the last"],
  ["[ ]", "the turn, round or ply before, after"],
  ["w, s", "zoom in, out"],
  ["Enter", "details of the effect at the cursor"],
  ["t", "transcript"],
  ["v", "integrity"],
  ...(offline ? [] : [["l", "follow the head"], ["o", "who is online"], ["p", "post an effect or an intent"]] as const),
  ["/", "search"],
  ["?", "these keys"],
  ["Escape", "close the details"],
];

/** Whether keys go where one types. */
function types(target: EventTarget | null): boolean {
  return target instanceof HTMLElement &&
    (target.isContentEditable || ["TEXTAREA", "SELECT"].includes(target.tagName) ||
      (target instanceof HTMLInputElement && !["checkbox", "radio"].includes(target.type)));
}

export function Keys({ model }: { model: WorldModel }) {
  const dialog = useRef<HTMLDialogElement>(null);
  // Before the page is seen: a key may be pressed at once.
  useLayoutEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (document.querySelector("dialog[open]") !== null) return;
      if (event.key === "Escape" && model.here.effect !== null) model.change({ effect: null });
      if (types(event.target)) return;
      const within = (what: string) => event.target instanceof Element && event.target.closest(what) !== null;
      const wide = event.shiftKey ? 100 : 1;
      const scale = (factor: number) => {
        const [from, to] = zoomed(model.stretch.peek(), model.seq.peek(), factor, model.head.peek(), model.first);
        model.change({ zoom: to - from >= model.head.peek() - model.first ? null : [from, to] }, "move");
      };
      const panes = model.here.panes;
      const toggle = (pane: Pane) =>
        model.change({ panes: panes.includes(pane) ? panes.filter((each) => each !== pane) : [...panes, pane] });
      const actions: Record<string, () => void> = {
        ArrowLeft: () => model.step(-wide),
        ArrowRight: () => model.step(wide),
        Home: () => model.toFirst(),
        End: () => model.toLast(),
        "[": () => document.dispatchEvent(new CustomEvent("worldledger:unit", { detail: -1 })),
        "]": () => document.dispatchEvent(new CustomEvent("worldledger:unit", { detail: 1 })),
        w: () => scale(0.5),
        s: () => scale(2),
        t: () => toggle("transcript"),
        v: () => toggle("integrity"),
        ...(offline ? {} : { l: () => model.toggleLive() }),
        ...(offline || model.until !== null ? {} : { o: () => toggle("online"), p: () => toggle("post") }),
        "/": () => document.querySelector<HTMLInputElement>("#search")?.focus(),
        "?": () => dialog.current?.showModal(),
        // What has the focus may have a use for these itself.
        ...(within("button, a, summary, label")
          ? {}
          : { " ": () => document.dispatchEvent(new Event("worldledger:play")) }),
        ...(within("button, a, summary") ? {} : { Enter: () => model.change({ effect: model.seq.peek() }) }),
      };
      const action = Object.hasOwn(actions, event.key) ? actions[event.key] : undefined;
      if (action === undefined) return;
      event.preventDefault();
      action();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [model]);
  return (
    <>
      <button type="button" title="Keys (?)" onClick={() => dialog.current?.showModal()}>keys</button>
      <dialog ref={dialog} aria-labelledby="keys">
        <h2 id="keys">Keys</h2>
        <dl>
          {KEYS.map(([key, what]) => (
            <div key={key}>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
        <form method="dialog">
          <button type="submit">close</button>
        </form>
      </dialog>
    </>
  );
}
