/** Some worlds side by side: where each pair parts. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { format, worldAddress } from "../core/address.ts";
import { isObject, type Json, type Obj } from "../core/json.ts";
import { plain } from "../core/text.ts";
import { source, words } from "../parts/app.ts";
import { Tree } from "../parts/tree.tsx";

export function Compare({ worlds }: { worlds: string[] }) {
  const found = useSignal<Obj | null>(null);
  const error = useSignal("");
  useEffect(() => {
    document.title = "Compare · Worldledger";
    if (worlds.length < 2) error.value = "Two worlds at least are needed";
    else source.compare(worlds).then((answer) => found.value = answer, (reason) => error.value = words(reason));
  }, []);
  return (
    <main class="compare">
      <h1>Compare</h1>
      <p>
        {worlds.map((world) => <a key={world} href={format(worldAddress(world))}>{world}</a>).flatMap((link, index) =>
          index === 0 ? [link] : [" · ", link]
        )}
      </p>
      {error.value !== "" && (
        <p role="alert">
          {error.value}. <a href="#/">All worlds</a>
        </p>
      )}
      {error.value === "" && found.value === null && <p role="status">reading the logs …</p>}
      {list(found.value?.["pairs"]).map((pair) => (
        <Pair
          key={`${plain(pair["a"])}\n${plain(pair["b"])}`}
          pair={pair}
        />
      ))}
    </main>
  );
}

function list(value: Json | undefined): Obj[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function Pair({ pair }: { pair: Obj }) {
  const [a, b] = [plain(pair["a"]), plain(pair["b"])];
  return (
    <section aria-label={`${a} and ${b}`}>
      <h2>{a} · {b}</h2>
      {pair["equal"] === true
        ? <p>Nothing differs.</p>
        : <Tree value={pair} label={`How ${a} and ${b} differ`} open={2} />}
    </section>
  );
}
