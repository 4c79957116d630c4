"""The console in Chromium: opening worlds, moving through them, following one, and the file that is taken along.

What a page shows is compared with the answers of the HTTP interface before anything is timed, and the moments that are
counted are frames of the browser in which the page has what was asked for.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import shutil
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx2
from worldledger_service.console.assets import BUILT, assets
from worldledger_service.store import Store

from benchmarks.harness import ROUNDS, Goal, Report, say
from benchmarks.http import free_port, until_alive
from benchmarks.million import command
from benchmarks.states import SERVER, moved
from worldledger.genesis import NewWorld

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page

SMALL, MIDDLE, LARGE = 1_000, 20_000, 1_000_000
#: Effects of an hour at ten a second, and how many come at once: as many updates as with one every two seconds.
FOLLOWED, AT_ONCE = 36_000, 20
#: Single effects whose way to the screen is timed.
SHOWN = 60
#: Frames of a drag over the timeline, and milliseconds that 99 of 100 of them are to stay within.
FRAMES, SLOW_MS = 240, 25
#: What is measured, in this order, and the worlds that each needs; `games` are many.
MEASURES: Final[dict[str, tuple[str, ...]]] = {
    "assets": (),
    "opening": ("small", "large"),
    "scrubbing": ("large",),
    "sweeping": ("middle",),
    "shown": ("shown",),
    "followed": ("followed",),
    "taken_along": ("games", "middle"),
}
GAMES = Path(__file__).parent.parent / "examples" / "games"

#: Notes when the page has the state at its cursor, the row of the effect there and the timeline; and, from `watch` on,
#: what is shown after each frame: the time, the cursor, the seq of the state, the seq that the page says it is of, and
#: when the browser began the frame.
SCRIPT: Final = """
globalThis.bench = { frames: [], on: false };
const truth = 'article[aria-label="The truth"]';
const find = (selector) => document.querySelector(selector);
const isReady = () => {
  const kind = find('[role=row][aria-selected=true] [role=gridcell]:nth-of-type(2)');
  return kind !== null && !kind.textContent.includes('…') && find('[aria-label="Kinds of effects"] li') !== null &&
    find(`${truth} [role=img][aria-label], ${truth} [role=tree]`) !== null && find(`${truth} > [role=status]`) === null;
};
bench.ready = new Promise((done) => {
  requestAnimationFrame(function look() {
    if (isReady()) done(performance.now());
    else requestAnimationFrame(look);
  });
});
let leaf = null;
const seqOfState = () => {
  if (leaf === null || !leaf.isConnected) {
    const names = document.querySelectorAll(`${truth} [role=treeitem] > .name`);
    leaf = [...names].find((each) => each.textContent === 'last_effect_seq')?.parentElement ?? null;
  }
  return leaf === null ? null : Number(/\\d+/.exec(leaf.querySelector('.value').textContent)[0]);
};
const look = ({ data }) => {
  const cursor = Number(find('[role=slider][aria-label="Moment"]').getAttribute('aria-valuenow'));
  const said = /seq (\\d+)/.exec(find(`${truth} > [role=status]`)?.textContent ?? '');
  const shown = [cursor, seqOfState(), said && Number(said[1])];
  bench.frames.push([performance.timeOrigin + performance.now(), ...shown, performance.timeOrigin + data]);
};
const painted = new MessageChannel();
painted.port1.onmessage = look;
bench.watch = () => {
  [bench.frames, bench.on] = [[], true];
  requestAnimationFrame(function frame(begun) {
    if (!bench.on) return;
    painted.port2.postMessage(begun);
    requestAnimationFrame(frame);
  });
};
bench.stop = () => {
  bench.on = false;
  return bench.frames;
};
"""
#: Whether the page has come to the head of a world that it follows, of more than so many effects.
FOLLOWS: Final = """(least) => {
  const slider = document.querySelector('[role=slider][aria-label="Moment"]');
  return Number(slider.ariaValueNow) > least && slider.ariaValueNow === slider.ariaValueMax;
}"""
_PAINT: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


class Frame(NamedTuple):
    """The contents of a page after one frame, and the time of that frame in milliseconds since 1970."""

    time: float
    cursor: int
    shown: int | None
    said: int | None
    #: When the browser began it, on its grid of 60 a second.
    begun: float

    @property
    def is_right(self) -> bool:
        """Whether the state is that of the cursor, or is marked as that of the moment that it is of."""
        return self.shown is not None and self.shown in {self.cursor, self.said}


class Site(NamedTuple):
    """The service, the browser, and a client."""

    url: str
    browser: Browser
    client: httpx2.AsyncClient

    @asynccontextmanager
    async def page(self, address: str, **options: Any) -> AsyncIterator[Page]:
        """Open an address in a browser that has nothing cached, and wait until it is ready."""
        context = await self.browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        context.set_default_timeout(60_000)
        try:
            page = await self._open(context, address)
            yield page
        finally:
            await context.close()

    async def _open(self, context: BrowserContext, address: str) -> Page:
        await context.add_init_script(SCRIPT)
        page = await context.new_page()
        await page.goto(address if "://" in address else f"{self.url}/{address}")
        async with asyncio.timeout(60):  # the browser would wait for ever
            await page.evaluate("bench.ready")
        return page

    async def get(self, path: str) -> Any:
        """Return the JSON that a route answers."""
        return (await self.client.get(f"{self.url}{path}")).raise_for_status().json()


async def run(report: Report, url: str, store: Store, folder: Path, only: str | None = None) -> None:
    """Make the worlds, serve them, and measure: everything, or only one of ``MEASURES``."""
    say("console")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if chromium is None or not (BUILT / "index.html").exists():
        say("  not measured: Chromium is not installed, or the console is not built")
        return
    from playwright.async_api import async_playwright  # noqa: PLC0415 - a library of the tests

    measures = [only] if only is not None else [*MEASURES]
    needed = {world for measure in measures for world in MEASURES[measure]}
    for world, count in (("small", SMALL), ("middle", MIDDLE), ("large", LARGE)):
        if world not in needed:
            continue
        await store.import_world(NewWorld(world_id=world), (moved(index) for index in range(count - 1)))  # type: ignore[misc]
        await store.states.state_at(world, count)
    for world in needed & {"followed", "shown"}:
        await store.create_world(NewWorld(world_id=world))
    if "games" in needed:
        games = ["import", "pgn", str(GAMES), "--experiment", "games", "--database-url", url]
        await asyncio.to_thread(command, games)
        await asyncio.to_thread(command, ["project", "--once", "--database-url", url])
    port = free_port()
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVER, url, str(port), str("games" in needed))
    try:
        await until_alive(port)
        async with async_playwright() as playwright, httpx2.AsyncClient(timeout=120) as client:
            browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            site = Site(f"http://127.0.0.1:{port}", browser, client)
            works: dict[str, Callable[[Report, Site], Awaitable[None]]] = {
                "assets": _assets,
                "opening": _opening,
                "scrubbing": _scrubbing,
                "sweeping": _sweeping,
                "shown": _shown,
                "followed": _followed,
                "taken_along": partial(_taken_along, folder=folder),
            }
            for measure in measures:
                await works[measure](report, site)
            await browser.close()
    finally:
        server.terminate()
        await server.wait()


async def _assets(report: Report, _site: Site) -> None:
    files = [(BUILT / "index.html").read_bytes(), *assets().values()]
    size = sum(len(gzip.compress(file)) for file in files) / 1024
    report.note(Goal("console: all of its files in gzip", size, 120, at_least=False, unit="KiB"))


async def _opening(report: Report, site: Site) -> None:
    for world, count in (("small", SMALL), ("large", LARGE)):
        seq = count - count // 3
        state = await site.get(f"/v1/worlds/{world}/state?at_seq={seq}")
        places = {name: point[0] for name, point in state["state"]["spatial_index"].items()}
        paints, readies = [], []
        for _ in range(ROUNDS):
            async with site.page(f"#/w/{world}?at={seq}") as page:
                drawn = await page.get_by_role("img", name="Map of").get_attribute("aria-label")
                assert f"Map of {len(places)}: " in str(drawn), drawn
                for name, x in [*places.items()][:10]:
                    assert f"{name} at {x:.10g}, 2.25" in str(drawn), (name, x, drawn)
                paints.append(await page.evaluate(_PAINT))
                readies.append(await page.evaluate("bench.ready"))
        what = f"console: a world of {count:,} effects"
        report.note(Goal(f"{what}, first paint", statistics.median(paints), 300, at_least=False, unit="ms"))
        report.note(Goal(f"{what}, interactive", statistics.median(readies), 800, at_least=False, unit="ms"))


async def _drag(page: Page, begin: float, end: float) -> list[Frame]:
    """Drag over the timeline, from one part of its width to another, a step for each frame."""
    box = await page.get_by_role("slider", name="Moment").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    await page.mouse.move(box["x"] + begin * box["width"], y)
    await page.mouse.down()
    await page.evaluate("bench.watch()")
    start = time.perf_counter()
    for frame in range(FRAMES):
        await asyncio.sleep(max(0.0, start + frame / 60 - time.perf_counter()))
        await page.mouse.move(box["x"] + (begin + (end - begin) * frame / FRAMES) * box["width"], y)
    await page.mouse.up()
    return [Frame(*frame) for frame in await page.evaluate("bench.stop()")]


async def _scrubbing(report: Report, site: Site) -> None:
    """Drag through three blocks that are loaded, in the middle of the large world, as the page is usually laid out."""
    first = LARGE // 2 // 1024 * 1024 + 1
    worst, begun, middle, slow = [], [], [], []
    async with site.page(f"#/w/large?at={first}&zoom={first}-{first + 3 * 1024 - 1}") as page:
        await _drag(page, 0, 1)
        for _ in range(ROUNDS):
            frames = await _drag(page, 0.999, 0.001)
            assert len({frame.cursor for frame in frames}) > FRAMES / 2, "the cursor did not move with the mouse"
            times = [after.time - before.time for before, after in pairwise(frames)]
            parts = statistics.quantiles(times, n=100)
            worst.append(parts[98])
            middle.append(parts[49])
            slow.append(sum(time > SLOW_MS for time in times) / len(times))
            steps = [after.begun - before.begun for before, after in pairwise(frames)]
            begun.append(statistics.quantiles(steps, n=100)[98])
    found = statistics.median(worst)
    report.note(Goal("console: scrubbing, p99 of a frame", found, SLOW_MS, at_least=False, unit="ms"))
    report.tell("console: scrubbing, median of a frame", statistics.median(middle), "ms")
    report.tell(f"console: scrubbing, part of the frames over {SLOW_MS} ms", statistics.median(slow), "")
    report.tell("console: scrubbing, p99 from the beginning of a frame to the next", statistics.median(begun), "ms")


async def _sweeping(report: Report, site: Site) -> None:
    right, exact = [], []
    for _ in range(ROUNDS):
        async with site.page("#/w/middle?at=1&panes=effects,state,tree") as page:
            frames = await _drag(page, 0.001, 0.999)
            assert len({frame.cursor for frame in frames}) > FRAMES / 2, "the cursor did not move with the mouse"
            right.append(sum(frame.is_right for frame in frames) / len(frames))
            exact.append(sum(frame.shown == frame.cursor for frame in frames) / len(frames))
    what = f"console: first sweep over {MIDDLE:,} effects, part of the frames with"
    report.note(Goal(f"{what} a right state", statistics.median(right), 0.95))
    report.tell(f"{what} the state at the cursor", statistics.median(exact), "")


async def _shown(report: Report, site: Site) -> None:
    """Append single effects at random moments: from wall_time, just before the commit, until the state is shown."""
    chance = random.Random(7)
    async with site.page("#/w/shown?at=live&panes=effects,state,tree") as page:
        await page.wait_for_timeout(500)
        await page.evaluate("bench.watch()")
        for index in range(SHOWN):
            await asyncio.sleep(chance.uniform(0.02, 0.25))
            await _append(site, "shown", [moved(index)])
        await page.wait_for_timeout(1000)
        frames = [Frame(*frame) for frame in await page.evaluate("bench.stop()")]
    effects = (await site.get("/v1/worlds/shown/effects?after_seq=1&limit=1000"))["effects"]
    assert len(effects) == SHOWN
    waits = []
    for effect in effects:
        seq = effect["global_seq"]
        seen = next(frame.time for frame in frames if frame.shown is not None and seq <= frame.shown == frame.cursor)
        waits.append(seen - effect["wall_time"] * 1000)
    found = statistics.quantiles(waits, n=20)[18]
    report.note(Goal("console: from commit to shown, p95", found, 150, at_least=False, unit="ms"))
    report.tell("console: from commit to shown, median", statistics.median(waits), "ms")


async def _followed(report: Report, site: Site) -> None:
    # A page is ready when there is something to draw.
    await _append(site, "followed", [moved(0)])
    async with site.page("#/w/followed?at=live") as page:
        start = time.perf_counter()
        for first in range(1, FOLLOWED, AT_ONCE):
            await _append(site, "followed", [moved(index) for index in range(first, min(first + AT_ONCE, FOLLOWED))])
        seconds = time.perf_counter() - start
        # Digests of snapshots come among the effects, and after them.
        await page.wait_for_function(FOLLOWS, arg=FOLLOWED)
        row = page.get_by_role("row", selected=True)
        seq = int(await row.get_attribute("aria-rowindex") or 0)
        kind = (await site.get(f"/v1/worlds/followed/effects/{seq}"))["kind"]
        await row.get_by_text(kind, exact=True).first.wait_for()
        session = await page.context.new_cdp_session(page)
        await session.send("HeapProfiler.collectGarbage")
        used = (await session.send("Runtime.getHeapUsage"))["usedSize"] / 2**20
    report.note(Goal(f"console: heap after following {FOLLOWED:,} effects", used, 60, at_least=False, unit="MiB"))
    report.tell("console: effects a second that were followed meanwhile", FOLLOWED / seconds, "")


async def _append(site: Site, world: str, drafts: list[Any]) -> None:
    (await site.client.post(f"{site.url}/v1/worlds/{world}/effects", json=drafts)).raise_for_status()


async def _taken_along(report: Report, site: Site, folder: Path) -> None:
    games = (await site.get("/v1/worlds?ruleset=chess&limit=100"))["worlds"]
    game = max(games, key=lambda each: each["head_seq"])
    for world, seq, most in ((game["world_id"], game["head_seq"], 300), ("middle", MIDDLE, 3 * 1024)):
        file = folder / f"{world}.html"
        answer = (await site.client.get(f"{site.url}/export/{world}.html")).raise_for_status()
        file.write_bytes(answer.content)
        what = f"console: the file of {'a game' if world != 'middle' else f'{MIDDLE:,} effects'}"
        report.note(Goal(f"{what}, size", len(answer.content) / 1024, most, at_least=False, unit="KiB"))
        readies = []
        for _ in range(ROUNDS):
            async with site.page(f"{file.as_uri()}#/w/{world}?at={seq}", offline=True) as page:
                value = await page.get_by_role("slider", name="Moment").get_attribute("aria-valuenow")
                assert value == str(seq), value
                readies.append(await page.evaluate("bench.ready"))
        report.note(Goal(f"{what}, ready after", statistics.median(readies), 1500, at_least=False, unit="ms"))
        say(f"    {json.dumps([round(each) for each in readies])}")
