"""What happens now in a world, in a real browser: who is online, generations, refusals and lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.api.living import SUBPROTOCOL

from .conftest import Site
from .test_access import violations
from .test_pages import expect

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.group("console"), pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture(scope="module")
def meeting(site: Site) -> str:
    """Make a world that records refusals, with ann and ben in it; return the path of its routes."""
    site.post("/v1/worlds", {"world_id": "meeting", "orchestrator": {"record_rejections": True}})
    for agent in ("ann", "ben"):
        site.post("/v1/worlds/meeting/agents", {"agent_id": agent, "permissions": ["submit_intent", "intent:speak"]})
    return "/v1/worlds/meeting"


async def test_who_is_online_and_what_happens_is_shown_as_it_happens(page: Page, site: Site, meeting: str) -> None:
    """A socket makes its agent appear; generations, a cancellation and a refusal come without a reload, with a lag."""
    from websockets.asyncio.client import connect  # noqa: PLC0415 - a test's own client

    await page.goto("/")
    # What the page asks for every 3 s it asks for ten times as often.
    await page.evaluate("() => { const often = setInterval; window.setInterval = (ask, ms) => often(ask, ms / 10); }")
    await page.goto("/#/w/meeting?at=live&panes=effects,online")  # the same document
    online = page.get_by_role("region", name="Online", exact=True)
    log = page.get_by_role("log", name="Generations and refusals")
    await expect(online.get_by_role("status")).to_contain_text("0 of 2 registered")
    socket = f"{site.url.replace('http', 'ws', 1)}{meeting}/agents/ann/ws"
    async with connect(socket, subprotocols=[SUBPROTOCOL], proxy=None):  # type: ignore[list-item]
        agents = online.get_by_role("list", name="Agents online").get_by_role("listitem")
        await expect(agents).to_have_text("ann 1 connection, view 2")
        site.post(f"{meeting}/agents/ben/generations", {"req_id": "turn-1"})
        await expect(agents.nth(1)).to_have_text("ben no connectionsgenerates turn-1 from view 3")
        await expect(log).to_contain_text("ben begins turn-1")
        site.client.delete(f"{meeting}/agents/ben/generations/turn-1")
        await expect(log).to_contain_text("ben ✂ cancelled turn-1 user_requested")
        await expect(agents).to_have_count(1)
        refused: dict[str, Any] = {"agent_id": "ann", "kind": "Move", "payload": {"to": [1, 2]}, "req_id": "r"}
        assert site.client.post(f"{meeting}/intents", json={**refused, "context_seq": 3}).status_code == 403
        await expect(log).to_contain_text("ann ✗ refused r Move permission_denied")
        await expect(online).to_contain_text("permission_denied 1")
        assert await violations(page) == []
    await expect(agents).to_have_count(0)
    await expect(online).to_contain_text(" ms (95 % within ")
    await log.get_by_role("button").first.click()
    await expect(page.get_by_role("complementary")).to_contain_text("IntentRejected")
    assert "panes=effects,online&effect=" in page.url
    await page.reload()
    await expect(log).to_contain_text("ben begins turn-1")
