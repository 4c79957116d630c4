"""The console for everyone: axe-core finds nothing in either colour scheme, narrow screens do, and so do keys alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from .conftest import GAME
from .test_pages import expect, moment

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.group("console"), pytest.mark.asyncio(loop_scope="session")]

OTHER_GAME: Final = "examples-cautious-cora-vs-random-rita-2026-01-01-f2d48f92d824"
#: Each page, and between them each pane, and a text that it shows once it is loaded.
PAGES: Final = {
    "worlds": ("#/", "bazaar"),
    "a game": (f"#/w/{GAME}?at=20&effect=20&panes=effects,state", "h1e1: illegal move"),
    "a simulation": ("#/w/bazaar?at=live&agent=Bea&agent=Cid&panes=state,tree,integrity", "as of seq"),
    "a transcript of an inherited past": ("#/w/second-try?at=parent:4&panes=state,transcript", "Turn 0"),
    "a search": ("#/w/bazaar?at=5&q=ate%20too", "1 found"),
    "a map": ("#/w/long?at=1500", "walker-"),
    "who is online": ("#/w/bazaar?at=live&panes=effects,online", "all "),
    "a form": ("#/w/bazaar?at=live&panes=effects,post", "Another agent joins."),
    "compare": (f"#/compare?world={OTHER_GAME}&world={GAME}", "here they part"),
    "SQL": ("#/sql?query=select+kind,count(*)+as+n+from+effects+group+by+kind&chart=bars&x=kind&y=n", "Chart"),
}
#: Tabs until something that can be reached by Tab was reached.
MOST_TABS: Final = 200


async def violations(page: Page, *rules: str) -> list[str]:
    """Return what axe-core finds on a page, with every rule or only with these."""
    from axe_playwright_python.async_playwright import Axe  # noqa: PLC0415 - there only where the browser is

    # Nothing of a page is sound or film, which is what would be loaded before.
    options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
    if rules:
        options["runOnly"] = {"type": "rule", "values": [*rules]}
    if await page.evaluate("typeof axe === 'undefined'"):
        await page.evaluate(Axe().axe_script)
    found = (await page.evaluate("options => axe.run(options)", options))["violations"]
    return [f"{each['id']}: {node['html']} {node['failureSummary']}" for each in found for node in each["nodes"][:5]]


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_is_for_everyone(page: Page, name: str) -> None:
    """axe-core finds nothing wrong, light or dark; nothing moves by itself or is wider than 320 pixels."""
    address, text = PAGES[name]
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await page.goto(f"/{address}")
    await expect(page.locator("main")).to_contain_text(text)
    await expect(page.get_by_text("loading …")).to_have_count(0)
    assert await violations(page) == []
    await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    assert await violations(page, "color-contrast") == []
    assert await page.evaluate("document.getAnimations().length") == 0
    await page.set_viewport_size({"width": 320, "height": 700})
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


async def test_keys_alone_suffice(page: Page) -> None:
    """From the list of worlds to an agent's belief and an effect, and back, without a mouse; the focus can be seen."""

    async def tab_to(name: str) -> None:
        for _ in range(MOST_TABS):
            await page.keyboard.press("Tab")
            found, outline = await page.evaluate(
                """(({ ariaLabel, labels, textContent }, style) =>
                    [ariaLabel || labels?.[0]?.textContent || textContent, style.outlineStyle])(
                    document.activeElement, getComputedStyle(document.activeElement))"""
            )
            if found.strip().startswith(name):
                assert outline != "none", f"{name} does not show that it has the focus"
                return
        raise AssertionError(f"Tab does not lead to {name}")

    await page.goto("/")
    await expect(page.get_by_role("link", name="bazaar")).to_be_visible()
    await page.keyboard.press("/")
    await page.keyboard.type("bazaar")
    await expect(page.get_by_role("link", name=GAME)).to_have_count(0)
    await tab_to("bazaar")
    await page.keyboard.press("Enter")
    await expect(moment(page)).to_be_visible()
    await page.keyboard.press("Home")
    await expect(moment(page)).to_have_attribute("aria-valuenow", "1")
    await tab_to("Show the belief of")
    await page.keyboard.press("Enter")
    await tab_to("Bea")
    await page.keyboard.press("Space")
    await expect(page.get_by_role("article", name="Belief of Bea")).to_be_visible()
    await page.keyboard.press("End")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("complementary")).to_be_visible()
    await tab_to("Close")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("complementary")).to_have_count(0)
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog", name="Keys")).to_have_count(0)
