"""The console when things go wrong or get large: a service that goes away, two tabs, a world that grows fast."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2
import pytest
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from worldledger.genesis import NewWorld

from .conftest import Site, draft
from .test_access import PAGES
from .test_pages import SECONDS, expect, moment, state_of

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

#: How long a browser waits for what takes a second, but for the machine being busy.
PATIENCE_MS = 120_000

pytestmark = [pytest.mark.slow, pytest.mark.group("console"), pytest.mark.asyncio(loop_scope="session")]


class Road:
    """The way to a service, which can be cut: then it is as if the service had been killed."""

    def __init__(self, url: str) -> None:
        self._to = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        #: answered to every request, in place of the service; None for its own answers
        self.refusal: bytes | None = None

    async def open(self) -> None:
        """Let connections through: at the same port as before."""
        self._server = await asyncio.start_server(self._through, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """End all connections, and take no more."""
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _through(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        if self.refusal is not None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self.refusal)
            writer.close()
            return
        there, back = await asyncio.open_connection(self._to.hostname, self._to.port)
        self._writers.add(back)
        await asyncio.gather(_copied(reader, back), _copied(there, writer))


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def alone(browser: Browser, **options: Any) -> AsyncIterator[Page]:
    """Open a page on which things may fail."""
    context = await browser.new_context(**options)
    context.set_default_timeout(SECONDS * 1000)
    try:
        yield await context.new_page()
    finally:
        await context.close()


@pytest.mark.thorough
async def test_a_service_that_comes_back_is_followed_on(browser: Browser, site: Site) -> None:
    """After an outage or a refusal, the page shows the effects appended meanwhile, without being reloaded."""
    site.post("/v1/worlds", {"world_id": "outlasting"})
    road = Road(site.url)
    await road.open()
    async with alone(browser, base_url=f"http://127.0.0.1:{road.port}") as page:
        await page.goto("/#/w/outlasting?at=live&panes=effects,state,tree")
        await page.evaluate("globalThis.same = true")
        await page.wait_for_selector(".dot.on")
        await road.cut()
        await page.wait_for_selector(".dot:not(.on)")
        site.post("/v1/worlds/outlasting/effects", draft("Speak", "ann", text="while it was away"))
        road.refusal = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        await road.open()
        async with page.expect_response(lambda answer: answer.status == 503):
            pass
        road.refusal = None
        await expect(moment(page)).to_have_attribute("aria-valuenow", "2")
        await expect(state_of(page)).to_contain_text("last_effect_seq 2")
        await expect(page.get_by_role("row", name="while it was away")).to_be_visible()
        site.post("/v1/worlds/outlasting/effects", draft("Speak", "ann", text="and after that"))
        await expect(page.get_by_role("row", name="and after that")).to_be_visible()
        assert await page.evaluate("globalThis.same")
    await road.cut()


async def test_two_tabs_follow_one_world(page: Page, site: Site) -> None:
    """Both show what comes; moving in one of them leaves the other where it is."""
    site.post("/v1/worlds", {"world_id": "twofold"})
    other = await page.context.new_page()
    for each in (page, other):
        await each.goto("/#/w/twofold?at=live")
        await each.wait_for_selector(".dot.on")
    site.post("/v1/worlds/twofold/effects", [draft("Speak", "ann", text=f"word {n}") for n in range(5)])
    for each in (page, other):
        await expect(moment(each)).to_have_attribute("aria-valuenow", "6")
        await expect(each.get_by_role("list", name="Messages, the newest first")).to_contain_text("word 4")
    await page.keyboard.press("ArrowLeft")
    site.post("/v1/worlds/twofold/effects", draft("Speak", "ann", text="word 5"))
    await expect(moment(other)).to_have_attribute("aria-valuenow", "7")
    await expect(moment(page)).to_have_attribute("aria-valuenow", "5")
    await other.close()


async def put(page: Page, *, hidden: bool) -> None:
    """Hide a page as a browser does whose reader turns to another tab, or show it again."""
    await page.evaluate(
        """(hidden) => {
            Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


async def test_a_hidden_tab_is_not_followed_and_loses_nothing(page: Page, site: Site) -> None:
    """A hidden page closes its stream and says so; shown again, it goes on after the last effect that it was told."""
    site.post("/v1/worlds", {"world_id": "dozing"})
    await page.goto("/#/w/dozing?at=live")
    await page.wait_for_selector(".dot.on")
    site.post("/v1/worlds/dozing/effects", draft("Speak", "ann", text="word 0"))
    await expect(moment(page)).to_have_attribute("aria-valuenow", "2")
    async with page.expect_event("requestfailed", lambda request: "/tail?" in request.url):
        await put(page, hidden=True)
    await expect(page.get_by_text("paused while hidden")).to_be_visible()
    site.post("/v1/worlds/dozing/effects", [draft("Speak", "ann", text=f"word {n}") for n in (1, 2)])
    async with page.expect_request("**/v1/worlds/dozing/tail?after_seq=2"):
        await put(page, hidden=False)
    await expect(moment(page)).to_have_attribute("aria-valuenow", "4")
    for n in range(3):
        await expect(page.get_by_role("row", name=f"word {n}")).to_have_count(1)
    await expect(page.get_by_text("paused while hidden")).to_have_count(0)


@pytest.mark.thorough
async def test_a_seventh_tab_follows(page: Page, site: Site) -> None:
    """Browsers have six connections to a service: six tabs that are hidden leave one to the seventh, and come back."""
    site.post("/v1/worlds", {"world_id": "crowded"})
    others = [await page.context.new_page() for _ in range(6)]
    for each in others:
        await each.goto("/#/w/crowded?at=live")
        await each.wait_for_selector(".dot.on")
        await put(each, hidden=True)
    await page.goto("/#/w/crowded?at=live")
    await page.wait_for_selector(".dot.on")
    site.post("/v1/worlds/crowded/effects", draft("Speak", "ann", text="word"))
    await expect(moment(page)).to_have_attribute("aria-valuenow", "2")
    await put(others[0], hidden=False)
    await expect(moment(others[0])).to_have_attribute("aria-valuenow", "2")


@pytest.mark.thorough
async def test_any_address_can_be_loaded_again(page: Page) -> None:
    """After a reload each page shows what it showed."""
    for address, text in PAGES.values():
        await page.goto("about:blank")
        await page.goto(f"/{address}")
        await expect(page.locator("main")).to_contain_text(text)
        await expect(page.get_by_text("loading …")).to_have_count(0)
        titles = await page.get_by_role("heading").all_text_contents()
        await page.reload()
        await expect(page.locator("main")).to_contain_text(text)
        await expect(page.get_by_role("heading")).to_have_text(titles)


async def test_the_policy_keeps_foreign_scripts_from_running(browser: Browser, site: Site) -> None:
    """Even markup that got into the page would run nothing and ask no other host: the browser refuses that."""
    async with alone(browser) as page:
        await page.goto(site.url)
        await page.evaluate(
            """async () => {
                globalThis.refused = [];
                document.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => {
                    globalThis.refused.push(effectiveDirective);
                });
                const script = document.createElement("script");
                script.textContent = "globalThis.hurt = 1";
                const frame = document.createElement("iframe");
                frame.src = "http://192.0.2.1/";
                const picture = document.createElement("img");
                picture.src = "http://192.0.2.1/x.png";
                document.body.append(script, frame, picture);
                document.body.insertAdjacentHTML("beforeend", '<img src="/nothing" onerror="globalThis.hurt = 2">');
                await fetch("http://192.0.2.1/").catch(() => undefined);
            }"""
        )
        directives = ["script-src-elem", "script-src-attr", "img-src", "connect-src", "frame-src"]
        await page.wait_for_function(
            "(names) => names.every((name) => globalThis.refused.includes(name))", arg=directives
        )
        assert await page.evaluate("globalThis.hurt") is None


@pytest.mark.thorough
async def test_a_world_that_grows_fast_is_moved_through(page: Page, site: Site) -> None:
    """While a thousand effects a second come, states and rows are those of the cursor, wherever it is put."""
    # No digest of a snapshot is to come among the effects.
    site.post("/v1/worlds", {"world_id": "hurried", "snapshot_every": 100_000})
    await page.goto("/#/w/hurried?at=live&panes=effects,state,tree")
    await page.wait_for_selector(".dot.on")
    box = await page.get_by_role("slider", name="Moment").bounding_box()
    assert box is not None

    async def append() -> None:
        async with httpx2.AsyncClient(base_url=site.url) as client:
            for first in range(0, 4000, 100):
                drafts = [draft("Move", "walker", to=[first + n, 0, 0]) for n in range(100)]
                (await client.post("/v1/worlds/hurried/effects", json=drafts)).raise_for_status()
                await asyncio.sleep(0.1)

    appending = asyncio.create_task(append())
    await page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    await page.mouse.down()
    steps = 0
    while not appending.done() or steps < 60:
        steps += 1
        await page.mouse.move(box["x"] + box["width"] * (0.1 + 0.8 * (steps % 60) / 60), box["y"] + 20)
    await page.mouse.up()
    await appending
    await page.keyboard.press("End")
    await expect(moment(page)).to_have_attribute("aria-valuenow", "4001")
    await expect(state_of(page)).to_contain_text("last_effect_seq 4001")
    await page.keyboard.press("Shift+ArrowLeft")
    await expect(state_of(page)).to_contain_text("last_effect_seq 3901")
    await expect(page.get_by_role("row", selected=True)).to_contain_text("[3899")


@pytest.mark.thorough
async def test_a_world_of_a_million_effects(page: Page, site: Site) -> None:
    """It opens anywhere, goes to its ends, is searched, and never holds more rows than are in sight."""
    count = 1_000_000
    async with Store.open(site.database_url, Settings()) as store:
        drafts = (draft("Move", f"walker-{n % 100}", to=[n, 0, 0]) for n in range(count - 1))
        await store.import_world(NewWorld(world_id="immense"), drafts)  # type: ignore[arg-type]
    await page.goto("/#/w/immense?at=654321&panes=effects,state,tree")
    # Its snapshots are only being made: until then a state this far away is folded from afar.
    await expect(state_of(page)).to_contain_text("last_effect_seq 654321", timeout=PATIENCE_MS)
    await expect(page.get_by_role("row", selected=True)).to_contain_text("654319")
    for key, seq in (("Home", 1), ("End", count)):
        await page.keyboard.press(key)
        await expect(state_of(page)).to_contain_text(f"last_effect_seq {seq}", timeout=PATIENCE_MS)
        assert await page.get_by_role("row").count() < 60
    await page.keyboard.press("/")
    await page.keyboard.type("123456,")
    found = page.get_by_role("grid", name="Effects found").get_by_role("row")
    await expect(found).to_have_count(1)
    await expect(found).to_contain_text("123458")
