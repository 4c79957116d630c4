"""The operator's box in a real browser: effects and intents by forms that the kinds' schemas make."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.markets import effect, market

from .conftest import Site
from .test_access import violations
from .test_pages import expect

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.group("console"), pytest.mark.asyncio(loop_scope="session")]


async def test_effects_and_intents_are_posted_by_forms(page: Page, site: Site) -> None:
    """A double click writes one effect; a refusal stands at its field; an agent's intent is of a kind of its world."""
    site.post("/v1/worlds", {"world_id": "fair", "ruleset": "simulation", "config": market()})
    site.post("/v1/worlds/fair/effects", effect("TurnStarted"))
    await page.goto("/#/w/fair?at=live&panes=effects,post")
    box = page.get_by_role("region", name="Post", exact=True)
    kind, post = box.get_by_role("combobox", name="kind to post"), box.get_by_role("button", name="Post")
    await kind.select_option("GlobalStateChanged")
    await box.get_by_role("textbox", name="patch").fill('[{"op": "replace", "path": "/price", "value": -1}]')
    await post.click()
    await expect(box.get_by_role("alert")).to_contain_text("global_state.price")
    await expect(box.get_by_role("alert")).to_contain_text("illegal_effect")
    await box.get_by_role("textbox", name="patch").fill("price")
    await post.click()
    await expect(box.get_by_role("alert")).to_contain_text("Not posted: patch: not JSON")
    await box.get_by_role("textbox", name="patch").fill('[{"op": "replace", "path": "/price", "value": 4}]')
    await post.dblclick()
    await expect(box.get_by_role("status")).to_contain_text(re.compile("Written as effect 7"))
    await kind.select_option("AgentPaused")
    await box.get_by_role("textbox", name="agent_id").fill("Nobody" * 30)
    await post.click()
    await expect(box.get_by_role("textbox", name="agent_id")).to_have_attribute("aria-invalid", "true")
    assert await violations(page) == []
    await page.set_viewport_size({"width": 320, "height": 700})
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    await box.get_by_role("radio", name="an intent of an agent").check()
    await kind.select_option("AgentStateChanged")
    await box.get_by_role("combobox", name="agent to post as").select_option("Bea")
    await box.get_by_role("textbox", name="patch").fill('[{"op": "replace", "path": "/gold", "value": 8}]')
    await post.click()
    await box.get_by_role("button", name="effect 8").click()
    await expect(page.get_by_role("complementary", name="Effect 8")).to_contain_text("Bea")
    await box.get_by_role("radio", name="an effect", exact=True).check()
    await kind.select_option("another kind …")
    await box.get_by_role("textbox", name="kind").fill("Rain")
    await box.get_by_role("textbox", name="payload").fill('{"mm": 3}')
    await post.click()
    await expect(box.get_by_role("status")).to_contain_text("effect 9")
    told = site.client.get("/v1/worlds/fair/effects?after_seq=6").json()["effects"]
    assert [(each["kind"], each["source_id"]) for each in told] == [
        ("GlobalStateChanged", "operator"),
        ("AgentStateChanged", "Bea"),
        ("Rain", "operator"),
    ]
