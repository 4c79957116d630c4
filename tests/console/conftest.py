"""A service with worlds of every kind, and Debian's Chromium to look at them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx2
import pytest
import pytest_asyncio
from worldledger_service.console.assets import BUILT

from tests import warm
from tests.browsers import BROWSER, FLAGS
from tests.conftest import Servers
from tests.markets import change, effect, market
from tests.shipping.project import ROOT, environment, serving

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page, ViewportSize

#: Of a page, in px.
SIZE: Final[ViewportSize] = {"width": 1280, "height": 900}
#: A game that Hasty Hal lost, for he would not stop making illegal moves.
GAME = "examples-hasty-hal-vs-cautious-cora-2026-01-03-4c8135ce83ce"
#: What an attacker may write into a payload: markup, a script, text from right to left, and a name that is none.
NASTY: dict[str, Any] = {
    "text": '<img src=x onerror="window.hurt = 1"><script>window.hurt = 1</script>',
    "right to left": "\u202eevil\u202c שלום",
    "__proto__": {"hurt": True},
    "<b>name</b>": "'\"><svg onload=window.hurt=1>",
}


class Site(NamedTuple):
    """A service that is running, the address of its database, and a client of the service."""

    url: str
    database_url: str
    client: httpx2.Client

    def post(self, path: str, body: Any) -> Any:
        """Post JSON, which must be accepted; return the answer."""
        response = self.client.post(path, json=body)
        assert response.status_code in {200, 201}, response.text
        return response.json()


def draft(kind: str, source_id: str, **payload: Any) -> dict[str, Any]:
    """Make a draft."""
    return {"kind": kind, "payload": payload, "source_id": source_id, "schema_version": "1.0.0"}


@pytest.fixture(scope="session")
def site(servers: Servers, server_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Serve worlds: example games, a small market, one with nasty payloads, and one of 3,000 effects."""
    if not (BUILT / "index.html").exists():
        pytest.skip("the console is not built here: the npm registry was out of reach when this was installed")
    folder = tmp_path_factory.mktemp("console")
    url = servers.create(server_kind, servers.template(server_kind))
    env = environment(WORLDLEDGER_DATABASE_URL=url, WORLDLEDGER_HOME=str(folder))
    games = ["import", "pgn", str(ROOT / "examples" / "games"), "--experiment", "examples"]
    done = warm.run(games, env, cwd=folder)
    assert done.returncode == 0, done.stderr
    # No connection is kept, which the service might close as the next request is sent.
    limits = httpx2.Limits(max_keepalive_connections=0)
    with (
        serving(folder, env) as address,
        httpx2.Client(base_url=f"http://{address}", timeout=60, limits=limits) as client,
    ):
        made = Site(f"http://{address}", url, client)
        _fill(made)
        yield made
    servers.drop(server_kind, url)


def _fill(site: Site) -> None:
    site.post("/v1/worlds", {"world_id": "bazaar", "ruleset": "simulation", "config": market()})
    turn = [
        effect("TurnStarted"),
        change("Ann", "/inventory/food", 4.0),
        effect("ReasoningRecorded", "Ann", reasoning="I ate too much."),
        effect("TurnEnded"),
    ]
    site.post("/v1/worlds/bazaar/effects", turn)
    site.post("/v1/worlds", {"world_id": "second-try", "fork_of": {"world_id": "bazaar", "at": "seq:4"}})
    site.post("/v1/worlds", {"world_id": "nasty"})
    site.post(
        "/v1/worlds/nasty/effects",
        [
            draft("EntityCreated", "smith", entity_id='<i id="hurt">x</i>', entity_data=NASTY, position=[1, 2]),
            draft("Speak", NASTY["text"], text=NASTY["text"]),
            draft("<script>", "smith", **NASTY, long="x" * 1_000_000),
        ],
    )
    site.post("/v1/worlds", {"world_id": "long", "time_authority": "client"})
    for hundred in range(30):
        drafts = [
            draft("Move", f"walker-{n % 7}", to=[n % 50, n // 50, 0]) for n in range(hundred * 100, hundred * 100 + 100)
        ]
        site.post("/v1/worlds/long/effects", drafts)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Run Debian's Chromium."""
    api = pytest.importorskip("playwright.async_api", reason="playwright is not installed here")
    if BROWSER is None:
        pytest.skip("Chromium is not installed here (Debian's package chromium)")
    async with api.async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=BROWSER, args=[*FLAGS])
        yield launched
        await launched.close()


class Tab:
    """The page that tests look at one after the other: to open one takes a second of a processor."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser = browser
        self._url = url
        self._page: Page | None = None

    async def open(self) -> Page:
        """Return an empty page, with nothing stored and nothing set."""
        if self._page is None:
            context = await self._browser.new_context(base_url=self._url, viewport=SIZE)
            context.set_default_timeout(20_000)
            self._page = await context.new_page()
        return self._page

    async def clear(self) -> None:
        """Leave what the page shows and undo what was set; where that fails, the next test gets another page."""
        page, self._page = self._page, None
        assert page is not None
        try:
            for other in page.context.pages:
                if other is not page:
                    await other.close()
            await page.unroute_all()
            await page.context.set_offline(False)
            await page.evaluate("location.href === 'about:blank' || localStorage.clear()")
            await page.goto("about:blank")
            await page.set_viewport_size(SIZE)
            await page.emulate_media(color_scheme="null", reduced_motion="null")
        except BaseException:
            await page.context.close()
            raise
        self._page = page


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def tab(browser: Browser, site: Site) -> Tab:
    """Keep one page for all tests."""
    return Tab(browser, site.url)


@pytest_asyncio.fixture(loop_scope="session")
async def page(tab: Tab, site: Site) -> AsyncIterator[Page]:
    """Lend the page; nothing on it may fail, ask another host, break the policy or run what a payload holds."""
    lent = await tab.open()
    said: list[str] = []
    asked: list[str] = []
    listeners: dict[Any, Callable[[Any], None]] = {
        "console": lambda message: said.append(message.text) if message.type in {"error", "warning"} else None,
        "pageerror": lambda error: said.append(str(error)),
        "request": lambda asking: asked.append(asking.url),
    }
    for event, listener in listeners.items():
        lent.on(event, listener)
    yield lent
    hurt = await lent.evaluate("window.hurt")
    await tab.clear()
    for event, listener in listeners.items():
        lent.remove_listener(event, listener)
    assert hurt is None
    # What the service refuses is told on the page; the browser writes a line of its own.
    assert [text for text in said if "status of 4" not in text] == []
    assert {url for url in asked if not url.startswith((f"{site.url}/", "file:", "blob:"))} == set()
