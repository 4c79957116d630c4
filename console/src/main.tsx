/** The page: which of its pages is shown says the address. */

import { render } from "preact";
import { address, offline } from "./parts/app.ts";
import { Compare } from "./pages/compare.tsx";
import { Sql } from "./pages/sql.tsx";
import { World } from "./pages/world.tsx";
import { Worlds } from "./pages/worlds.tsx";

function Page() {
  const here = address.value;
  return (
    <>
      <header class="top">
        <a href="#/" class="brand">Worldledger</a>
        {offline ? <span class="about">a file, as it was when it was exported</span> : (
          <>
            <a href="#/sql">SQL</a>
            <a href="/openapi.json">API</a>
          </>
        )}
      </header>
      {here.page === "worlds" && <Worlds here={here} />}
      {here.page === "world" && (
        <World
          key={`${here.world} ${here.parents}`}
          name={here.world}
          parents={here.parents}
        />
      )}
      {here.page === "sql" && <Sql here={here} />}
      {here.page === "compare" && <Compare key={here.worlds.join("\n")} here={here} />}
    </>
  );
}

document.addEventListener("keydown", (event) => {
  // On the other pages, too, / searches; a world's page has further keys.
  if (event.key !== "/" || event.defaultPrevented || address.value.page === "world") return;
  const search = document.querySelector<HTMLInputElement>("#search");
  if (search === null || event.target === search) return;
  event.preventDefault();
  search.focus();
});

render(<Page />, document.querySelector("#console") as HTMLElement);
