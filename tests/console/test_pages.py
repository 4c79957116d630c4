"""The console in a real browser: what its pages show, by keys and by mouse, at any address, whatever payloads hold."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import pyarrow as pa
import pytest

from tests import warm
from tests.shipping.project import environment

from .conftest import GAME, NASTY, Site, draft

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page, Request

pytestmark = [pytest.mark.slow, pytest.mark.group("console"), pytest.mark.asyncio(loop_scope="session")]

#: Of an input: its hint, as much as there is room for.
HINT_AND_ROOM: Final = """input => {
    const pen = document.createElement("canvas").getContext("2d"), style = getComputedStyle(input);
    pen.font = style.font;
    // The arrows of a number take up to 18 pixels.
    const room = input.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - 18;
    return input.placeholder.slice(0, pen.measureText(input.placeholder).width <= room ? undefined : -1);
}"""
#: Of a canvas: whether anything is drawn on it, and at its very edge.
INK_IN_AND_AT_THE_EDGE: Final = """canvas => {
    const { width, height } = canvas, { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    const inked = Array.from({ length: width * height }, (_, at) => at).filter(at => data[4 * at + 3] > 0);
    const isEdge = at => at < width || at >= width * (height - 1) || at % width === 0 || at % width === width - 1;
    return [inked.length > 0, inked.some(isEdge)];
}"""
#: In a browser: not at once, but after a moment.
SECONDS: Final = 20.0


def expect(locator: Locator) -> Any:
    """Return Playwright's assertions, which wait; the module is only there where the browser is."""
    from playwright.async_api import expect as made  # noqa: PLC0415

    made.set_options(timeout=SECONDS * 1000)
    return made(locator)


def moment(page: Page) -> Locator:
    """Return the cursor of a world's page."""
    return page.get_by_role("slider", name="Moment")


def state_of(page: Page, name: str = "The truth") -> Locator:
    """Return what is shown of the state, or of what an agent believed."""
    return page.get_by_role("article", name=name)


async def test_worlds_are_filtered_as_one_types_and_by_facets(page: Page) -> None:
    """Every world is listed; a part of its name and the ruleset leave some; the address says which."""
    await page.goto("/")
    await expect(page.get_by_role("link", name="bazaar")).to_be_visible()
    await expect(page.get_by_role("link", name=GAME)).to_be_visible()
    await page.keyboard.press("/")
    await page.keyboard.type("HASTY")
    await expect(page.get_by_role("link", name="bazaar")).to_have_count(0)
    await expect(page.get_by_role("link", name=GAME)).to_be_visible()
    await page.get_by_role("searchbox", name="Filter worlds").fill("")
    await page.get_by_role("navigation", name="Facets").get_by_role("button", name="simulation").click()
    await expect(page.get_by_role("link", name=GAME)).to_have_count(0)
    await expect(page.get_by_role("link", name="bazaar")).to_be_visible()
    assert "ruleset=simulation" in page.url
    await page.reload()
    await expect(page.get_by_role("link", name="bazaar")).to_be_visible()
    await expect(page.get_by_role("link", name=GAME)).to_have_count(0)


async def test_a_fork_stands_below_its_parent_and_names_where_it_begins(page: Page) -> None:
    """The row after the parent's is the fork's; a link in it leads to the effect that the fork goes on from."""
    await page.goto("/#/?ruleset=simulation")
    rows = page.get_by_role("table").get_by_role("row")
    await expect(rows).to_have_count(3)
    await expect(rows.nth(1)).to_contain_text("bazaar")
    await expect(rows.nth(2)).to_contain_text("fork of bazaar at effect 4")
    await rows.nth(2).get_by_role("link", name="effect 4").click()
    await expect(moment(page)).to_have_attribute("aria-valuenow", "4")
    assert "/w/bazaar?at=4" in page.url


async def test_a_phone_shows_names_before_rulesets(page: Page) -> None:
    """On a narrow screen worlds have what tells them apart, and room for their names."""
    await page.set_viewport_size({"width": 360, "height": 780})
    await page.goto("/")
    name = page.get_by_role("link", name=re.compile("^examples-hasty-hal")).first
    await expect(name).to_be_visible()
    await expect(page.get_by_role("columnheader", name="Ruleset")).to_be_hidden()
    box = await page.get_by_role("row").filter(has=name).get_by_role("cell").nth(1).bounding_box()
    assert box is not None
    assert box["width"] > 180
    await page.goto(f"/#/compare?world={GAME}&world=bazaar")
    await expect(page.locator("code")).to_contain_text(GAME)
    assert await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0


async def test_two_worlds_are_selected_and_compared(page: Page) -> None:
    """Two ticks lead to where the two part, each in its lane with the effect that parts them, and to their measures."""
    await page.goto("/")
    games = page.get_by_role("checkbox", name=re.compile("^Select examples-hasty"))
    await expect(page.get_by_text("To compare worlds, tick two or more.")).to_be_visible()
    await games.nth(0).check()
    await games.nth(1).check()
    # The link stays in sight, however far down a world was ticked.
    await page.set_viewport_size({"width": 1280, "height": 300})
    await page.evaluate("scrollTo(0, 200)")
    await expect(page.get_by_role("link", name="Compare 2 worlds")).to_be_in_viewport(ratio=1)
    await page.get_by_role("link", name="Compare 2 worlds").click()
    await page.set_viewport_size({"width": 1280, "height": 800})
    await expect(page.get_by_role("heading", name="Compare")).to_be_visible()
    await expect(page.locator("code")).to_have_text(re.compile(r"^worldledger compare examples\S+ examples\S+ -o "))
    lanes = page.get_by_role("region", name=re.compile("^Lane of examples-hasty"))
    await expect(lanes).to_have_count(2)
    for lane in (lanes.nth(0), lanes.nth(1)):
        await expect(lane.get_by_role("listitem").filter(has_text="here they part")).to_contain_text("MoveMade")
    await expect(page.get_by_role("img", name=re.compile("of 2 runs$")).first).to_be_visible()
    await page.get_by_role("combobox", name="Mean and quartiles").select_option("experiment")
    await expect(page.get_by_role("img", name=re.compile("mean and quartiles by experiment$")).first).to_be_visible()
    assert "group=experiment" in page.url
    await lanes.nth(0).get_by_role("link").first.click()
    await expect(page.get_by_role("complementary")).to_be_visible()


async def test_the_lanes_of_a_fork_begin_below_the_past_that_it_shares(page: Page) -> None:
    """The parent's effects up to the fork point stand once, across both lanes; each lane has its own from there on."""
    await page.goto("/#/compare?world=bazaar&world=second-try")
    shared = page.get_by_role("region", name="Shared past")
    await expect(shared.get_by_role("heading")).to_have_text("Both have effects 1 to 4 of bazaar")
    await expect(shared.get_by_role("link").first).to_have_text("1")
    await expect(page.get_by_role("region", name="Lane of bazaar").get_by_role("link").first).to_have_text("5")
    # Only the parent went on: what its next effect says stands above, and nothing of the fork's.
    await expect(page.locator(".pair summary").first).to_contain_text("only bazaar has an effect there")
    differs = page.get_by_role("table", name="What differs there")
    await expect(differs.get_by_role("row").nth(1)).to_have_text(re.compile(r"^payload\.\w+.+\u2013$"))
    fork = page.get_by_role("region", name="Lane of second-try").get_by_role("listitem")
    await expect(fork.first).to_contain_text("WorldCreated")
    await expect(shared).to_contain_text("effects of this past are compared and equal")
    # What it made of the state, from what the other one still has.
    await expect(differs.get_by_role("row", name=re.compile("^state: ")).first).to_contain_text(" → ")
    await page.get_by_role("combobox", name="Compare what was seen").select_option("Bea")
    await page.get_by_text("Where the views differ").click()
    await expect(page.get_by_role("tree", name="Where the views differ")).to_contain_text("Bea")
    assert "view=Bea" in page.url


async def test_questions_in_sql_are_answered(page: Page) -> None:
    """A question with a name has its parameters, one's own is free; the answer is a table, a chart, CSV and Arrow."""
    await page.goto("/")
    await page.get_by_role("link", name="SQL").click()
    query = page.get_by_role("textbox", name="Query")
    await query.fill("select kind, count(*) as n from effects where world_id = 'bazaar' group by kind order by kind")
    await page.get_by_role("button", name="Ask").click()
    await expect(page.get_by_role("row", name="ReasoningRecorded 1")).to_be_visible()
    await expect(page.get_by_role("status")).to_contain_text("rows")
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="CSV").click()
    assert "ReasoningRecorded,1" in Path(await (await saving.value).path()).read_text()
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="Arrow").click()
    table = pa.ipc.open_stream(Path(await (await saving.value).path()).read_bytes()).read_all()
    assert {"kind": "ReasoningRecorded", "n": 1} in table.to_pylist()
    await page.get_by_text("Views and their columns").click()
    await expect(page.locator(".views")).to_contain_text("world_summaries")
    await page.wait_for_url(re.compile("query="))
    await page.get_by_role("button", name="Chart").click()
    chart = page.get_by_role("img", name="bars: n by kind")
    await expect(chart.locator("rect")).not_to_have_count(0)
    await page.get_by_role("combobox", name="As").select_option("points")
    await page.reload()
    await expect(page.get_by_role("img", name="points: n by kind")).to_contain_text("ReasoningRec")
    await expect(query).to_have_value(re.compile("^select kind"))
    await page.get_by_role("combobox", name="Question").select_option(index=1)
    await expect(query).not_to_be_editable()


async def test_an_answer_of_many_rows_is_a_table_of_those_in_sight(page: Page) -> None:
    """Of three thousand rows few are elements, and the last one is there once it is scrolled to."""
    query = "select global_seq as n, payload ->> 'to' as place from effects where world_id = 'long' order by 1"
    await page.goto(f"/#/sql?{urlencode({'query': query})}")
    rows = page.get_by_role("region", name="Rows").get_by_role("row")
    await expect(rows.nth(1)).to_contain_text("1")
    assert await rows.count() < 80
    await page.get_by_role("region", name="Rows").evaluate("box => box.scrollTop = 2800 * 26")
    await expect(rows.filter(has_text=re.compile(r"^2,?801"))).to_be_visible()


async def test_a_game_shows_its_board_and_its_moves(page: Page) -> None:
    """The board is that of the cursor; a click on a move goes there; an illegal attempt stands among the moves."""
    await page.goto(f"/#/w/{GAME}?at=3")
    board = page.get_by_role("img", name=re.compile("^Board: "))
    await expect(board).to_have_attribute("aria-label", re.compile("black king e8"))
    await expect(page.get_by_role("list", name="Moves")).to_contain_text("h1e1: illegal move")
    await page.get_by_role("list", name="Moves").get_by_role("button", name="g6", exact=True).click()
    await expect(moment(page)).to_have_attribute("aria-valuenow", "20")
    await expect(board).to_have_attribute("aria-label", re.compile("black pawn g6"))
    assert "at=20" in page.url


async def test_a_game_leads_to_the_move_that_lost_it(page: Page) -> None:
    """The list says how games ended and if moves are commented; a game leads to the move that lost it, with its sign.

    What its loser wrote about it stands beside the board, in sight. Of a move without words, the loser's nearest words
    are one click away. A game that an illegal move ended leads there, and names what had cost most before.
    """
    await page.set_viewport_size({"width": 1366, "height": 800})
    await page.goto("/#/?q=hasty-hal-vs-cautious-cora-2026-01-04")
    row = page.get_by_role("row").filter(has_text="0-1, resignation: Hasty Hal - Cautious Cora, 4 comments")
    await expect(row).not_to_contain_text("live")
    await row.get_by_role("link").first.click()
    await expect(page.locator("main > header")).to_contain_text("0-1, resignation: Hasty Hal - Cautious Cora")
    await page.get_by_role("button", name="Where it was lost: 5. Bxe7 ??").click()
    await expect(moment(page)).to_have_attribute("aria-valuenow", "11")
    words = page.locator(".chess .words")
    await expect(words).to_contain_text("0.00 → -2.00 with Nxe7, by the recorded evaluations")
    await expect(words).to_contain_text("Hasty Hal: A pawn for nothing, I thought")
    await expect(words.get_by_text("A pawn for nothing")).to_be_in_viewport(ratio=1)
    await page.keyboard.press("End")
    await expect(words).to_contain_text("Hal has had enough.")
    await page.get_by_role("list", name="Moves").get_by_role("button", name="Rb8", exact=True).click()
    await expect(words).to_contain_text("Nothing was written about this move.")
    await words.get_by_role("button", name="5. Bxe7").click()
    await expect(words).to_contain_text("A pawn for nothing")
    await page.goto(f"/#/w/{GAME}?at=3")
    await expect(page.locator(".chess .verdict")).to_contain_text("-3.00 → -9.00 with Bxh6, by material")
    await expect(page.locator(".chess .verdict").get_by_role("button", name="12. Qxh6 ??")).to_be_visible()
    await page.get_by_role("button", name="Where it was lost: the illegal move h1e1").click()
    await expect(moment(page)).to_have_attribute("aria-valuenow", "27")


async def test_a_game_is_played_on_from_a_position(page: Page) -> None:
    """The game at the cursor is forked and played on: moves by hand are made or refused, the other side answers."""
    await page.goto(f"/#/w/{GAME}?at=10")
    await page.get_by_text("Play on from here").click()
    await expect(page.get_by_role("textbox", name="Your move")).to_have_count(0)
    await page.get_by_role("button", name="Play", exact=True).click()
    await expect(page.locator("main > header")).to_contain_text(f"inherits the past of {GAME} at seq 10")
    move = page.get_by_role("textbox", name="Your move")
    await move.fill("a1a8")
    await page.get_by_role("button", name="Move", exact=True).click()
    await expect(page.locator(".chess .refused[role=status]").first).to_contain_text("Refused: ")
    await move.fill("h3")
    await page.get_by_role("button", name="Move", exact=True).click()
    moves = page.get_by_role("list", name="Moves").get_by_role("listitem")
    await expect(moves.filter(has_text=re.compile("^5…"))).to_be_visible()
    await expect(moves.filter(has_text=re.compile(r"^5\.h3"))).to_be_visible()
    await page.goto(f"/#/w/{GAME}?at=live")
    await expect(page.get_by_role("img", name=re.compile("^Board: "))).to_be_visible()
    await expect(page.get_by_text("Play on from here")).to_be_hidden()


async def test_moves_are_made_by_clicks_on_the_board(page: Page, site: Site) -> None:
    """A click on a piece marks where it may go, as the service says; a click there moves, and asks for a promotion.

    Before the position is known there is nothing to move with.
    """
    new = {"game_id": "clicked", "fen": "4k3/P7/8/8/8/8/8/R3K3 w Q - 0 1", "deadline_s": None}
    sides = {"white": {"agent_id": "w"}, "black": {"agent_id": "b"}}
    site.post("/v1/games", {**new, **sides, "players": {"white": "external", "black": "external"}})
    board = page.get_by_role("img", name=re.compile("^Board: "))
    targets = board.locator(".target")

    async def click(square: str) -> None:
        box = await board.bounding_box()
        assert box is not None
        column, row = "abcdefgh".index(square[0]), 8 - int(square[1])
        await board.click(position={"x": box["width"] * (column + 0.5) / 8, "y": box["height"] * (row + 0.5) / 8})

    async def marked(square: str) -> None:
        await expect(board).to_have_class("movable")
        await click(square)
        legal = site.client.get("/v1/games/clicked").json()["board_state"]["legal_moves"]
        await expect(targets).to_have_count(len({move[2:4] for move in legal if move.startswith(square)}))

    held = asyncio.Event()

    async def hold(route: Any) -> None:
        await held.wait()
        await route.continue_()

    await page.route("**/v1/worlds/clicked/frames?*", hold)
    await page.goto("/#/w/clicked?at=live")
    await expect(page.get_by_role("list", name="Moves")).to_be_attached()
    await expect(page.get_by_role("textbox", name="Your move")).to_have_count(0)
    held.set()
    await marked("a1")
    await click("h8")
    await expect(targets).to_have_count(0)
    await marked("a7")
    await click("a8")
    await page.get_by_role("group", name="Promote to").get_by_role("button", name="knight").click()
    await expect(board).to_have_attribute("aria-label", re.compile("white knight a8"))
    await marked("e8")
    await click("e7")
    moves = page.get_by_role("list", name="Moves").get_by_role("listitem")
    await expect(moves.filter(has_text=re.compile("^1…Ke7"))).to_be_visible()
    await marked("e1")
    await click("c1")
    await expect(moves.filter(has_text=re.compile(r"^2\.O-O-O"))).to_be_visible()


async def test_keys_step_through_a_world(page: Page, site: Site) -> None:
    """Arrows step, with Shift by a hundred; Home and End go to the ends; the address says where one is."""
    await page.goto("/#/w/long?at=1500")
    await expect(page.get_by_role("img", name=re.compile("^Map of 7"))).to_be_visible()
    for key, seq in (
        ("ArrowRight", 1501),
        ("Shift+ArrowRight", 1601),
        ("ArrowLeft", 1600),
        ("Shift+ArrowLeft", 1500),
        ("Home", 1),
        ("ArrowLeft", 1),
    ):
        await page.keyboard.press(key)
        await expect(moment(page)).to_have_attribute("aria-valuenow", str(seq))
    await page.keyboard.press("End")
    head = site.client.get("/v1/worlds/long").json()["head_seq"]
    await expect(moment(page)).to_have_attribute("aria-valuenow", str(head))
    await page.wait_for_url(re.compile(f"at={head}"))
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.keyboard.press("/")
    await expect(page.get_by_role("searchbox", name="Search payloads")).to_be_focused()


async def test_space_plays(page: Page) -> None:
    """Space plays on from the cursor, and pauses."""
    await page.goto("/#/w/long?at=100")
    await expect(page.get_by_role("img", name=re.compile("^Map of 7"))).to_be_visible()
    await page.get_by_role("combobox", name="Speed").select_option("64")
    await page.locator("body").click(position={"x": 5, "y": 5})
    await page.keyboard.press("Space")
    await expect(moment(page)).to_have_attribute("aria-valuenow", re.compile(r"^([2-9]\d\d|\d{4})$"))
    await page.keyboard.press("Space")
    await expect(page.get_by_role("button", name="play", exact=True)).to_be_visible()


async def test_turns_and_rounds_are_stepped_and_played(page: Page, site: Site) -> None:
    """Keys and buttons lead from the end of one turn to that of the next; Space plays turn by turn, or by sim_time."""
    await page.goto("/#/w/bazaar?at=1")
    head = str(site.client.get("/v1/worlds/bazaar").json()["head_seq"])
    first = str(site.client.get("/v1/worlds/bazaar/turns/1").json()["first_seq"] - 1)
    await expect(page.locator(".panel")).to_contain_text("Turn 0")
    await page.keyboard.press("]")
    await expect(moment(page)).to_have_attribute("aria-valuenow", first)
    number = page.get_by_role("spinbutton", name="To the end of turn number")
    assert await number.evaluate(HINT_AND_ROOM) == "end of turn"
    await number.fill("1")
    await page.keyboard.press("Enter")
    await expect(moment(page)).to_have_attribute("aria-valuenow", head)
    await page.get_by_role("button", name="Previous turn").click()
    await expect(moment(page)).to_have_attribute("aria-valuenow", first)
    await page.get_by_role("button", name="Next turn").click()
    await expect(moment(page)).to_have_attribute("aria-valuenow", head)
    await page.get_by_role("button", name="Previous turn").click()
    await expect(moment(page)).to_have_attribute("aria-valuenow", first)
    for way in ("turn", "sim_time"):
        await page.get_by_role("spinbutton", name="Seq").fill("1")
        await page.get_by_role("combobox", name="Play by").select_option(way)
        await page.get_by_role("combobox", name="Speed").select_option("64")
        await page.locator("body").click(position={"x": 5, "y": 5})
        await page.keyboard.press("Space")
        await expect(moment(page)).to_have_attribute("aria-valuenow", head)
        await expect(page.get_by_role("button", name="play", exact=True)).to_be_visible()


async def test_rounds_are_links_to_their_ends(page: Page, site: Site) -> None:
    """Each round of a social-RL run leads to where it is complete, with its messages and no others."""
    site.post("/v1/worlds", {"world_id": "study", "ruleset": "social_rl", "time_authority": "client"})
    for number, words in ((1, "I see."), (2, "<b>I hear.</b>")):
        said = {"agent_id": "Worker+A", "content": words, "round_number": number, "turn_number": 1, "timestamp": number}
        site.post("/v1/worlds/study/rounds", {"round_number": number, "messages": [said]})
    await page.goto("/#/w/study?at=live")
    rounds = page.get_by_role("group", name="Rounds")
    messages = page.get_by_role("list", name="Messages of the round").get_by_role("listitem")
    await expect(rounds.locator("[aria-current]")).to_have_text("Round 2")
    await expect(messages).to_contain_text(["<b>I hear.</b>"])
    await rounds.get_by_role("button", name="Round 1").click()
    await expect(rounds.locator("[aria-current]")).to_have_text("Round 1")
    await expect(messages).to_contain_text(["I see."])
    await expect(moment(page)).to_have_attribute("aria-valuenow", "4")


async def test_a_simulation_has_charts_over_turns_and_a_map(page: Page) -> None:
    """Each number that changes is drawn over the turns; a click there leads to the turn; what has a place is mapped."""
    await page.goto("/#/w/bazaar?at=2")
    charts = page.get_by_role("img", name=re.compile("over 2 turns"))
    await expect(charts.first).to_be_visible()
    await expect(charts.filter(has=page.locator("path"))).to_have_count(await charts.count())
    food = page.get_by_role("img", name=re.compile("^inventory.food over 2 turns: Ann"))
    box = await food.bounding_box()
    assert box is not None
    line = await food.locator("path").first.get_attribute("d")
    assert line is not None
    left, top = map(float, line.rpartition("L")[2].split())
    await food.click(position={"x": left, "y": top})
    await expect(moment(page)).to_have_attribute("aria-valuenow", re.compile("^(?!2$)"))
    await expect(page.locator(".panel")).to_contain_text("Turn 1")


async def test_trails_stay_on_the_map(page: Page, site: Site) -> None:
    """A map has room for where things came from, too: nothing is drawn up to its edge."""
    site.post("/v1/worlds", {"world_id": "walkers"})
    for name in ("ann", "bob"):
        created = draft("EntityCreated", name, entity_id=name, entity_data={}, position=[20, 1])
        site.post("/v1/worlds/walkers/effects", created)
    for step in range(24):
        site.post("/v1/worlds/walkers/effects", draft("Move", "ann", to=[step, step / 2]))
    await page.goto("/#/w/walkers?at=live")
    plan = page.get_by_role("img", name=re.compile("^Map of 2: ann at 23, 11.5"))
    await expect(plan).to_be_visible()
    assert await plan.evaluate(INK_IN_AND_AT_THE_EDGE) == [True, False]


async def test_messages_say_who_could_see_them(page: Page, site: Site) -> None:
    """The feed names the agents that each message reached, and so does the transcript: those whose views tell of it."""
    site.post("/v1/worlds", {"world_id": "square"})
    for name in ("ann", "bob"):
        site.post("/v1/worlds/square/agents", {"agent_id": name})
    whisper = draft("Speak", "cid", text="<b>psst</b>", private=True, target_id="bob")
    aside = draft("Hinted", "cid", text="Soon.", sees=["ann"])
    site.post("/v1/worlds/square/effects", [aside, draft("Speak", "cid", text="Figs!"), whisper])
    await page.goto("/#/w/square?at=live")
    feed = page.get_by_role("list", name="Messages, the newest first").get_by_role("listitem")
    await expect(feed.nth(1)).to_contain_text("Figs! seen by ann, bob")
    await expect(feed.nth(0)).to_have_text("cid to bob alone: <b>psst</b> seen by bob")
    await page.goto("/#/w/square?at=live&panes=transcript")
    for words, agent in (("Soon.", "ann"), ("psst", "bob")):
        line = script_of(page).get_by_role("listitem").filter(has_text=words)
        await expect(line).to_have_text(re.compile(rf"shown to {agent}$"))


async def test_the_list_of_effects_follows_the_cursor(page: Page) -> None:
    """Of three thousand effects only those around the cursor are rows; the row of the cursor is one of them."""
    await page.goto("/#/w/long?at=2000")
    rows = page.get_by_role("grid", name="Every effect").get_by_role("row")
    await expect(rows.and_(page.locator("[aria-selected=true]"))).to_have_attribute("aria-rowindex", "2000")
    await expect(rows.and_(page.locator("[aria-rowindex='2000']"))).to_contain_text("walker-")
    assert await rows.count() < 60
    await page.keyboard.press("Home")
    await expect(rows.first).to_contain_text("WorldCreated")


async def test_a_cursor_that_moves_leaves_the_timeline_as_it_is(page: Page) -> None:
    """Steps and jumps of the cursor do not draw the bars anew; a zoom does."""
    await page.goto("/")
    await page.evaluate("""() => {
        window.drawn = 0;
        const clear = CanvasRenderingContext2D.prototype.clearRect;
        CanvasRenderingContext2D.prototype.clearRect = function (...box) {
            if (this.canvas.closest(".timeline")) window.drawn++;
            clear.apply(this, box);
        };
    }""")
    await page.goto("/#/w/long?at=2000")  # the same document
    await expect(page.get_by_role("list", name="Kinds of effects")).to_contain_text("Move")
    await expect(page.get_by_role("row", selected=True)).to_contain_text("Move")
    drawn = await page.evaluate("window.drawn")
    assert drawn > 0
    for key, seq in (("ArrowRight", 2001), ("Shift+ArrowRight", 2101), ("Home", 1)):
        await page.keyboard.press(key)
        await expect(moment(page)).to_have_attribute("aria-valuenow", str(seq))
    assert await page.evaluate("window.drawn") == drawn
    await page.keyboard.press("w")
    await page.wait_for_function("drawn => window.drawn > drawn", arg=drawn)


async def test_an_effect_is_shown_in_full(page: Page, site: Site) -> None:
    """A click on a row shows payload, checksum and the hashed bytes; the address keeps it; Escape closes it."""
    await page.goto("/#/w/bazaar?at=8")
    await page.get_by_role("row", name=re.compile("ReasoningRecorded")).click()
    detail = page.get_by_role("complementary")
    await expect(detail).to_contain_text("I ate too much.")
    seq = re.search(r"effect=(\d+)", page.url)
    assert seq is not None
    answer = site.client.get(f"/v1/worlds/bazaar/effects/{seq[1]}")
    await expect(detail).to_contain_text(answer.headers["worldledger-checksum"])
    await detail.get_by_text("Canonical bytes").click()
    await expect(detail.locator("pre")).to_have_text(answer.text)
    await page.reload()
    await expect(detail).to_contain_text("I ate too much.")
    await page.keyboard.press("Escape")
    await expect(detail).to_have_count(0)


async def test_a_cause_before_the_fork_point_is_a_link_into_the_parent(page: Page, site: Site) -> None:
    """An effect of a rerun whose cause lies in the parent's log names it, and leads there."""
    site.post("/v1/worlds", {"world_id": "echo", "fork_of": {"world_id": "nasty", "at": "seq:3"}})
    named = {"inherited_cause": {"world_id": "nasty", "global_seq": 2}}
    said = {**draft("Speak", "smith", text="Again."), "caused_by": 1, "source_metadata": named}
    head = site.post("/v1/worlds/echo/effects", said)["global_seq"]
    await page.goto(f"/#/w/echo?at={head}&effect={head}")
    await page.get_by_role("complementary").get_by_role("link", name="effect 2 of nasty").click()
    await expect(page.get_by_role("complementary", name="Effect 2")).to_contain_text("EntityCreated")
    assert "/w/nasty?at=2" in page.url


async def test_effects_are_filtered_and_searched(page: Page) -> None:
    """A kind leaves its effects; a word finds those that have it in their payloads."""
    await page.goto("/#/w/bazaar?at=5")
    await page.get_by_role("combobox", name="Kind").select_option("TurnStarted")
    found = page.get_by_role("grid", name="Effects found")
    await expect(found.get_by_role("row")).to_have_count(1)
    await page.get_by_role("button", name="all", exact=True).click()
    await page.keyboard.press("/")
    await page.keyboard.type("ATE TOO")
    await expect(found.get_by_role("row")).to_have_count(1)
    await expect(found.get_by_role("row")).to_contain_text("ReasoningRecorded")
    await expect(page.get_by_role("status").filter(has_text="1 found")).to_be_visible()


async def test_belief_stands_beside_the_truth(page: Page) -> None:
    """What an agent is not shown is marked in the truth, what it has wrong in its belief, and as of when."""
    await page.goto("/#/w/bazaar?at=live")
    await page.get_by_text("Belief of …").click()
    await page.get_by_role("checkbox", name="Bea").check()
    belief = state_of(page, "Belief of Bea")
    await expect(belief).to_contain_text("as of seq")
    hidden = state_of(page).get_by_label("not shown to the agent")
    await expect(hidden.first).to_be_visible()
    await expect(belief.locator(".mark-noised, .mark-outdated").first).to_be_visible()
    # Nobody tells Bea anything of Cid.
    await expect(state_of(page).get_by_role("columnheader", name="Cid")).to_be_visible()
    await expect(belief.locator(".wrong")).to_have_text(re.compile(r"^[1-9]\d* of \d+ values differ from the truth, "))
    # Its table has the rows and columns of the truth's, with signs for what is not there; each line has its own.
    for place in ("columnheader", "rowheader"):
        heads = await state_of(page).get_by_role(place).all_inner_texts()
        assert await belief.get_by_role(place).all_inner_texts() == heads
    boxes = [await each.get_by_role("rowheader", name="stats").bounding_box() for each in (state_of(page), belief)]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert {name: boxes[0][name] - boxes[1][name] for name in ("y", "width", "height")} == dict.fromkeys(
        ("y", "width", "height"), 0
    )
    await expect(belief.locator(".mark-noised").first).to_contain_text("≈ is ")
    # A wrong number and the right one are whole beside the effects on a small screen, and told in full.
    await page.set_viewport_size({"width": 1366, "height": 800})
    cut = "lines => lines.filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth).length"
    assert await belief.locator(".mark-noised > *").evaluate_all(cut) == 0
    await belief.get_by_role("cell").filter(has=page.locator(".mark-noised")).first.click()
    await expect(belief.get_by_role("status")).to_have_text(re.compile(r"^Ann \u203a \w+: .*[\d.]+ ≈ is [\d.]+"))
    await belief.locator(".wrong summary").click()
    wrong = belief.get_by_role("list", name="Wrong values").get_by_role("listitem")
    await expect(wrong.filter(has_text="≈").first).to_have_text(re.compile(r"^Ann \u203a .+ [\d.]+ ≈ is [\d.]+$"))
    assert "agent=Bea" in page.url
    await page.reload()
    await expect(belief).to_contain_text("as of seq")
    # On a phone it stands above the truth, with all that is said of it.
    await page.set_viewport_size({"width": 360, "height": 780})
    tops = [await each.bounding_box() for each in (belief, state_of(page))]
    assert tops[0] is not None
    assert tops[1] is not None
    assert tops[0]["y"] < tops[1]["y"]
    assert await belief.locator(".wrong summary").evaluate_all(cut) == 0


async def test_the_truth_says_from_which_of_several_agents_something_is_hidden(page: Page) -> None:
    """Beside two beliefs each place names those who are not shown it, in the panel and in the tree."""
    await page.goto("/#/w/bazaar?at=live&agent=Bea&agent=Cid&panes=state,tree")
    truth = state_of(page)
    await expect(truth.locator(".panel").get_by_label("not shown to Bea, Cid", exact=True).first).to_be_visible()
    await expect(truth.locator(".panel").get_by_label("not shown to Cid", exact=True).first).to_be_visible()
    await expect(truth.get_by_role("tree").get_by_label("not shown to Cid", exact=True).first).to_be_visible()
    await expect(state_of(page, "Belief of Bea").locator(".mark-noised, .mark-outdated").first).to_be_visible()
    await page.get_by_text("Belief of Bea, Cid").click()
    await page.get_by_role("checkbox", name="Cid").uncheck()
    await expect(truth.get_by_label("not shown to Cid", exact=True)).to_have_count(0)
    await expect(truth.locator(".panel").get_by_label("not shown to the agent").first).to_be_visible()
    await page.get_by_role("checkbox", name="Bea").uncheck()
    await expect(truth.get_by_role("img", name=re.compile("^not shown to"))).to_have_count(0)


async def test_what_an_effect_changes_is_marked(page: Page, site: Site) -> None:
    """The one value that an effect changes is marked in the tree, and in the panel of its kind.

    In the tree small entities are open, in the order of the numbers in their names.
    """
    await page.goto("/#/w/bazaar?at=live&panes=state,tree,effects")
    await page.get_by_role("row", name=re.compile("AgentStateChanged")).click()
    tree = page.get_by_role("tree", name="State")
    food = tree.get_by_role("treeitem").filter(has_text=re.compile(r"^food 4"))
    await expect(food).to_have_class(re.compile("changed"))
    await expect(page.locator(".panel td.changed")).to_have_text(re.compile("food 4"))
    site.post("/v1/worlds", {"world_id": "many"})
    made = [draft("EntityCreated", "cid", entity_id=f"one-{n}", entity_data={"gold": n}) for n in range(13, 0, -1)]
    site.post("/v1/worlds/many/effects", made)
    await page.goto("/#/w/many?at=live&panes=state,tree")
    names = tree.get_by_role("button", name=re.compile("one-"))
    await expect(names).to_contain_text([f"one-{n} " for n in range(1, 14)])
    await expect(tree.get_by_role("treeitem").filter(has_text=re.compile("^gold"))).to_have_count(13)


async def test_a_world_is_followed_live(page: Page, site: Site) -> None:
    """What is appended is shown at once, in the list and in the state, and nothing else moves the cursor."""
    site.post("/v1/worlds", {"world_id": "growing"})
    await page.goto("/#/w/growing?at=live")
    await expect(moment(page)).to_have_attribute("aria-valuenow", "1")
    await page.wait_for_selector(".dot.on")
    for n in range(3):
        site.post("/v1/worlds/growing/effects", draft("Speak", "ann", text=f"word {n}"))
        await expect(moment(page)).to_have_attribute("aria-valuenow", str(2 + n))
        await expect(page.get_by_role("list", name="Messages, the newest first")).to_contain_text(f"word {n}")
        await expect(page.get_by_role("row", name=re.compile(f"word {n}"))).to_be_visible()
    await page.keyboard.press("l")
    site.post("/v1/worlds/growing/effects", draft("Speak", "ann", text="unseen"))
    await expect(moment(page)).to_have_attribute("aria-valuemax", "5")
    await expect(moment(page)).to_have_attribute("aria-valuenow", "4")


async def test_the_page_has_its_head_before_its_script(page: Page) -> None:
    """Until the script has come the page shows its name: the first paint waits for no answer about the world."""
    held = asyncio.Event()

    async def hold(route: Any) -> None:
        await held.wait()
        await route.continue_()

    await page.route("**/assets/main-*.js", hold)
    await page.goto("/#/w/long", wait_until="commit")
    await expect(page.get_by_role("link", name="Worldledger")).to_be_visible()
    held.set()
    await expect(page.get_by_role("heading", name="long")).to_be_visible()
    await expect(page.get_by_role("link", name="Worldledger")).to_have_count(1)


async def test_a_world_is_opened_with_little(page: Page) -> None:
    """What is seen first is asked for first: one block of states, a page of effects; the coarse level comes after."""
    asked: list[str] = []

    def note(asking: Request) -> None:
        asked.append(asking.url.partition("/v1/worlds/long")[2])

    page.on("request", note)
    async with page.expect_request("**/tail?*"), page.expect_request("**/frames?frames=*"):
        await page.goto("/#/w/long?at=450")
    page.remove_listener("request", note)
    first = [path.partition("?")[0] for path in asked if path[:1] == "/" and "kind=" not in path][:4]
    assert sorted(first) == ["/agents", "/density", "/effects", "/frames"]


async def test_the_timeline_tells_what_is_not_counted(page: Page) -> None:
    """Where the service has not counted the effects of a stretch, the page says so in place of bars."""

    async def cut(route: Any) -> None:
        answer = await route.fetch()
        found = await answer.json()
        found["bins"]["end_seq"] = [end for end in found["bins"]["end_seq"] if end <= 1500]
        await route.fulfill(response=answer, json=found)

    await page.route("**/density?*", cut)
    await page.goto("/#/w/long?at=2000&zoom=1600-2400")
    timeline = page.get_by_role("region", name="Timeline")
    await expect(timeline.get_by_role("note")).to_contain_text("No bars from effect 1,497 on")
    await timeline.get_by_role("button", name="whole").click()
    await expect(timeline.get_by_role("note")).to_be_visible()
    await page.goto("/#/w/long?at=700&zoom=600-800")
    await expect(timeline.get_by_role("listitem").first).to_be_visible()
    await expect(timeline.get_by_role("note")).to_have_count(0)


async def test_back_and_forward_lead_through_what_was_looked_at(page: Page) -> None:
    """Each step has its place in the browser's history: worlds, a world, an effect."""
    await page.goto("/")
    await page.get_by_role("link", name="bazaar").click()
    await page.get_by_role("row", name=re.compile("TurnStarted")).click()
    await expect(page.get_by_role("complementary")).to_be_visible()
    await page.go_back()
    await expect(page.get_by_role("complementary")).to_have_count(0)
    await expect(page.get_by_role("heading", name="bazaar")).to_be_visible()
    await page.go_back()
    await expect(page.get_by_role("heading", name="Worlds")).to_be_visible()
    await page.go_forward()
    await page.go_forward()
    await expect(page.get_by_role("complementary")).to_be_visible()


async def test_payloads_are_text_whatever_they_hold(page: Page) -> None:
    """Markup, scripts, names that are none and long texts are shown as they are, in each pane; none of it is run."""
    await page.goto("/#/w/nasty?at=4&effect=4&panes=effects,state,tree,transcript")
    await expect(page.get_by_role("row", name=re.compile("<script>")).first).to_be_visible()
    await expect(page.get_by_role("img", name=re.compile("^Map of 1"))).to_be_visible()
    await expect(page.get_by_role("tree", name="State")).to_contain_text('<i id="hurt">x</i>')
    detail = page.get_by_role("complementary")
    await expect(detail).to_contain_text(NASTY["text"])
    await expect(detail.get_by_role("button", name="all 1000000 characters")).to_be_visible()
    await expect(script_of(page)).to_contain_text(NASTY["text"])
    await expect(script_of(page)).to_contain_text("<script>")
    assert await page.locator("#hurt, img[onerror], svg[onload]").count() == 0


async def test_names_in_charts_and_lanes_are_text(page: Page) -> None:
    """Markup in the values of a table, on the axis of its chart and in the lanes of a comparison is shown as it is."""
    query = "select source_id, count(*) as n from effects where world_id = 'nasty' group by 1"
    await page.goto(f"/#/sql?{urlencode({'query': query, 'chart': 'bars', 'x': 'source_id', 'y': 'n'})}")
    await expect(page.get_by_role("img", name="bars: n by source_id")).to_contain_text("<img src=x")
    await expect(page.get_by_role("row").filter(has_text="<script>")).to_be_visible()
    await page.goto("/#/compare?world=nasty&world=bazaar")
    await expect(page.get_by_role("alert")).to_be_visible()
    await page.goto("/#/compare?world=nasty&world=long")
    await expect(page.get_by_role("region", name="Lane of nasty")).to_contain_text(NASTY["text"])
    assert await page.locator("#hurt, img[onerror], svg[onload]").count() == 0


async def test_a_log_is_verified_in_the_browser(page: Page, site: Site) -> None:
    """The chain ends in the told head; a head noted elsewhere that is not on it breaks it, at its place."""
    world = site.client.get("/v1/worlds/long").json()
    await page.goto("/#/w/long?at=10&panes=integrity")
    await page.get_by_role("button", name="Verify in this browser").click()
    verdict = page.get_by_role("status").filter(has_text="one chain")
    await expect(verdict).to_contain_text(f"{world['head_seq']}:{world['head_checksum']}")
    await expect(verdict).to_contain_text("compare with a head that was noted elsewhere")
    effect = site.client.get("/v1/worlds/long/effects/77")
    noted = page.get_by_label("A head that you noted elsewhere")
    await noted.fill(f"77:{effect.headers['worldledger-checksum']}")
    await page.get_by_role("button", name="Verify in this browser").click()
    await expect(page.get_by_role("status").filter(has_text="the head that you noted at 77")).to_be_visible()
    await noted.fill("78:" + "0" * 64)
    await page.get_by_role("button", name="Verify in this browser").click()
    await expect(page.get_by_role("alert")).to_contain_text("Broken at effect 78")
    await page.get_by_role("button", name="show it").click()
    await expect(moment(page)).to_have_attribute("aria-valuenow", "78")
    await noted.fill("nonsense")
    await expect(page.get_by_role("button", name="Verify in this browser")).to_be_disabled()


async def test_what_this_browser_verified_is_marked_and_is_the_measure_for_later(page: Page, site: Site) -> None:
    """A verified world has its mark among the worlds; one whose log no longer passes through that head is broken."""
    await page.goto("/#/w/second-try?panes=integrity")
    await page.get_by_role("button", name="Verify in this browser").click()
    await expect(page.get_by_role("status").filter(has_text="one chain")).to_be_visible()
    await page.goto("/#/?q=second-try")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="second-try", exact=True))
    head = site.client.get("/v1/worlds/second-try").json()["head_seq"]
    await expect(row.get_by_role("img", name=f"verified in this browser, all {head} effects")).to_be_visible()
    await expect(row.get_by_role("img", name=re.compile("^Activity: at most "))).to_be_visible()
    # As if the log had been another one then.
    await page.evaluate("""() => {
        const kept = Object.entries(JSON.parse(localStorage["worldledger:verified"]));
        const other = kept.map(([uuid, found]) => [uuid, { ...found, checksum: "0".repeat(64) }]);
        localStorage["worldledger:verified"] = JSON.stringify(Object.fromEntries(other));
    }""")
    await page.reload()
    await expect(row.get_by_role("img", name=re.compile("rewritten or cut"))).to_be_visible()
    await page.goto("/#/w/second-try?panes=integrity")
    await page.get_by_role("button", name="Verify in this browser").click()
    await expect(page.get_by_role("alert")).to_contain_text(f"Broken at effect {head}")


async def test_an_experiment_has_its_questions(page: Page) -> None:
    """With an experiment chosen, its questions with names stand above its worlds; a link asks one of it."""
    await page.goto("/#/?experiment=examples")
    about = page.get_by_role("region", name="Experiment examples")
    await expect(about).to_contain_text("worldledger report examples -o examples.html")
    await about.get_by_text("Questions about it").click()
    await about.get_by_role("link", name="Effects by kind").click()
    await expect(page.get_by_role("region", name="Rows").get_by_role("row").nth(1)).to_be_visible()
    assert "p.experiment=examples" in page.url


async def test_a_fork_s_page_goes_on_into_the_past_that_it_inherits(page: Page, site: Site) -> None:
    """Before a fork's genesis lie its parent's effects up to the fork point; agents and panes stay; keys lead back."""
    point = site.client.get("/v1/worlds/bazaar").json()["head_seq"] - 1
    site.post("/v1/worlds", {"world_id": "annex", "fork_of": {"world_id": "bazaar", "at": f"seq:{point}"}})
    await page.goto("/#/w/annex?at=1&agent=Bea&panes=effects,state,integrity,post")
    await expect(page.get_by_role("link", name=f"bazaar at seq {point}")).to_be_visible()
    await page.keyboard.press("ArrowLeft")
    past = page.get_by_role("note")
    await expect(past).to_contain_text(f"The past of annex, inherited from bazaar up to effect {point}")
    await expect(page.get_by_role("heading", name="annex", exact=True)).to_be_visible()
    await expect(moment(page)).to_have_attribute("aria-valuenow", str(point))
    await expect(page.get_by_role("grid", name="Every effect")).to_have_attribute("aria-rowcount", str(point))
    await expect(page.get_by_role("list", name="Kinds of effects")).to_contain_text("TurnStarted")
    await expect(page.get_by_role("list", name="Kinds of effects")).not_to_contain_text("TurnEnded")
    await expect(state_of(page).locator(".panel")).to_contain_text("food 4")
    await expect(state_of(page, "Belief of Bea")).to_contain_text("as of seq")
    await expect(page.get_by_role("region", name="Post")).to_have_count(0)
    await page.keyboard.press("ArrowLeft")
    address = rf"/w/annex\?at=parent:{point - 1}&agent=Bea&panes=effects,state,integrity,post$"
    await page.wait_for_url(re.compile(address))
    await page.reload()
    await expect(moment(page)).to_have_attribute("aria-valuenow", str(point - 1))
    for key, seq, notes in (("End", point, 1), ("ArrowRight", 1, 0), ("Home", 1, 1), ("End", point, 1)):
        await page.keyboard.press(key)
        await expect(past).to_have_count(notes)
        await expect(moment(page)).to_have_attribute("aria-valuenow", str(seq))
    await past.get_by_role("button", name="back to the fork").click()
    await expect(past).to_have_count(0)
    await expect(page.get_by_role("region", name="Post")).to_be_visible()
    await page.goto("/#/w/annex?at=parent:2&kind=TurnEnded")
    await expect(page.get_by_role("status").filter(has_text="0 found")).to_be_visible()
    await page.goto("/#/w/annex?at=parent:parent:2")
    await expect(page.get_by_role("alert")).to_contain_text("bazaar is no fork")


async def test_a_world_that_is_not_there_is_told(page: Page, site: Site) -> None:
    """A wrong name gets the service's words and a way back."""
    await page.goto("/#/w/nowhere?at=3")
    await expect(page.get_by_role("alert")).to_contain_text("nowhere")
    await page.get_by_role("link", name="All worlds").click()
    await expect(page.get_by_role("link", name="bazaar")).to_be_visible()


async def saved(page: Page, button: str, file: Path) -> None:
    """Save what a button of the dialog for taking along makes."""
    if not await page.get_by_role("dialog").is_visible():
        await page.get_by_role("button", name="Take along").click()
    async with page.expect_download() as saving:
        await page.get_by_role("dialog").get_by_role("button", name=button).click()
    await (await saving.value).save_as(file)


async def test_a_part_and_a_report_are_taken_along(page: Page, site: Site, tmp_path: Path) -> None:
    """Two fields say from when to when; what is no moment, or no part, is told. The report is that of the cursor."""
    await page.goto("/#/w/long?at=1505")
    await saved(page, "Save the report", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert text == site.client.get("/v1/worlds/long/report?at=1505").text
    assert "A world of sandbox up to seq 1,505: 1,505 effects" in text
    dialog = page.get_by_role("dialog")
    begin, end = dialog.get_by_label("from"), dialog.get_by_label("to")
    await begin.fill("1500")
    await end.fill("noon")
    await dialog.get_by_role("button", name="Save the page").click()
    assert await end.evaluate("field => field.validity.patternMismatch")
    for moment_of_end, said in (("10", "its end lies before"), ("turn:5", "no such unit"), ("9999", "has no seq 9999")):
        await end.fill(moment_of_end)
        await dialog.get_by_role("button", name="Save the page").click()
        await expect(dialog.get_by_role("alert")).to_contain_text(said)
    await end.fill("seq:1510")
    await saved(page, "Save the page", tmp_path / "part.html")
    await expect(dialog.get_by_role("alert")).to_have_count(0)
    world = members_of((tmp_path / "part.html").read_text())[0]["world"]
    assert (world["part"]["first_seq"], world["head_seq"]) == (1500, 1510)
    for name, given, status in (
        ("long", "from=noon", 422),
        ("long", "from=10&to=9", 422),
        ("long", "to=5000", 404),
        ("second-try", "from=parent:2", 422),
        ("nowhere", "to=5", 404),
    ):
        answer = site.client.get(f"/export/{name}.html?{given}")
        assert (answer.status_code, answer.json()["status"]) == (status, status), (name, given)


async def test_a_world_is_taken_along_as_one_file(page: Page, tmp_path: Path) -> None:
    """The saved file opens from the disk without a network, with what was seen as it was taken along.

    It moves, shows beliefs, searches and verifies.
    """
    await page.goto("/#/w/bazaar?at=6&agent=Bea")
    file = tmp_path / "bazaar.html"
    await saved(page, "Save the page", file)
    told = "Saved as bazaar-6-Bea.html: bazaar from its beginning to its end; it opens at effect 6, with the belief of "
    await expect(page.get_by_role("dialog").get_by_role("status")).to_have_text(f"{told}Bea.")
    await page.context.set_offline(True)
    await page.goto(file.as_uri())
    await expect(moment(page)).to_have_attribute("aria-valuenow", "6")
    await expect(state_of(page, "Belief of Bea")).to_contain_text("as of seq")
    await expect(page.get_by_role("button", name="live")).to_have_count(0)
    await page.goto(f"{file.as_uri()}#/w/bazaar?at=5&agent=Bea&panes=effects,state,integrity")
    await expect(state_of(page, "Belief of Bea")).to_contain_text("as of seq")
    await expect(page.locator(".panel").first).to_contain_text("season")
    await page.get_by_role("button", name="Verify in this browser").click()
    await expect(page.get_by_role("status").filter(has_text="one chain")).to_be_visible()
    await page.keyboard.press("End")
    await expect(state_of(page).locator(".panel")).to_contain_text("food 4")
    await page.keyboard.press("/")
    await page.keyboard.type("ate too")
    await expect(page.get_by_role("grid", name="Effects found").get_by_role("row")).to_have_count(1)
    await page.get_by_role("button", name="Transcript").click()
    await expect(script_of(page).get_by_role("region", name="Turn 1")).to_contain_text("shown to Bea")


@pytest.mark.thorough
async def test_a_part_of_a_world_is_taken_along(page: Page, site: Site, tmp_path: Path) -> None:
    """From one moment to another: the file has these effects, moves within them, and says what its check proves."""
    env = environment(WORLDLEDGER_DATABASE_URL=site.database_url, WORLDLEDGER_HOME=str(tmp_path))
    file = tmp_path / "part.html"
    where = ["export", "html", "long", "-o", str(file), "--from", "seq:1500"]
    early = warm.run([*where, "--to", "seq:10"], env, cwd=tmp_path)
    assert early.returncode == 2
    assert "its end lies before that of its beginning" in early.stderr
    done = warm.run([*where, "--to", "seq:1600"], env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    await page.context.set_offline(True)
    await page.goto(f"{file.as_uri()}#/w/long?at=1&panes=effects,state,integrity")
    await expect(page.locator("main > header")).to_contain_text("effects 1,500 to 1,600 of its log")
    await expect(moment(page)).to_have_attribute("aria-valuenow", "1500")
    await expect(page.get_by_role("img", name=re.compile("^Map of 7"))).to_be_visible()
    rows = page.get_by_role("grid", name="Every effect").get_by_role("row")
    await expect(rows.first).to_contain_text("1500")
    await page.keyboard.press("End")
    await expect(moment(page)).to_have_attribute("aria-valuenow", "1600")
    await page.get_by_role("button", name="Verify in this browser").click()
    head = site.client.get("/v1/worlds/long/effects/1600").headers["worldledger-checksum"]
    verdict = page.get_by_role("status").filter(has_text="101 effects, one chain")
    await expect(verdict).to_contain_text(f"1600:{head}")
    await expect(verdict).to_contain_text("This is a part of the log")
    await rows.filter(has_text="1600").click()
    await expect(page.get_by_role("complementary")).to_contain_text(head)


def members_of(text: str) -> list[dict[str, Any]]:
    """Return what a file that was taken along holds."""
    packed = re.search(r'id="embedded">([^<]+)<', text)
    assert packed is not None
    return [json.loads(line) for line in gzip.decompress(base64.b64decode(packed[1])).splitlines()]


async def test_the_command_writes_the_same_file(site: Site, tmp_path: Path) -> None:
    """`worldledger export html` makes a file with the page and the world; an unknown world makes none."""
    env = environment(WORLDLEDGER_DATABASE_URL=site.database_url, WORLDLEDGER_HOME=str(tmp_path))
    file = tmp_path / "game.html"
    done = warm.run(["export", "html", GAME, "-o", str(file)], env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = file.read_text()
    members = members_of(text)
    assert members[0]["world"]["world_id"] == GAME
    log = site.client.get(f"/v1/worlds/{GAME}/effects?format=ndjson").text
    assert "".join(member["log"] for member in members if "log" in member) == log
    assert len(text) < 300_000
    belief = ["export", "html", "bazaar", "-o", str(tmp_path / "belief.html"), "--at", "turn:1", "--view"]
    done = warm.run([*belief, "Bea"], env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    head = site.client.get("/v1/worlds/bazaar").json()["head_seq"]
    address = f'<meta name="worldledger-address" content="#/w/bazaar?at={head}&amp;agent=Bea">'
    assert address in (tmp_path / "belief.html").read_text()
    for wrong, said in (("Zoe", "Zoe"), ("Bea --to seq:5", "effect")):
        refused = warm.run([*belief, *wrong.split(), "--force"], env, cwd=tmp_path)
        assert refused.returncode != 0
        assert said in refused.stderr
    lost = warm.run(["export", "html", "nowhere", "-o", str(tmp_path / "x.html")], env, cwd=tmp_path)
    assert lost.returncode == 2
    assert not (tmp_path / "x.html").exists()


def script_of(page: Page) -> Locator:
    """Return the lines of the transcript."""
    return page.get_by_role("region", name="Script", exact=True)


async def test_the_transcript_reads_turn_by_turn(page: Page) -> None:
    """A turn has what was thought and done in it, who was shown what of it, and links to the effects; keys suffice."""
    await page.goto("/#/w/bazaar?at=live&agent=Bea&panes=transcript")
    turn = script_of(page).get_by_role("region", name="Turn 1")
    thought = turn.get_by_role("listitem").filter(has_text="I ate too much.")
    await expect(thought).to_contain_text("Ann thinks")
    await expect(turn).to_contain_text(re.compile("inventory . food 4"))
    shown = turn.get_by_role("listitem").filter(has_text=re.compile("inventory . food 4")).get_by_text("shown to Bea")
    await shown.press("Enter")
    await expect(turn.get_by_role("listitem").filter(has_text=re.compile("^Bea Ann . inventory"))).to_be_visible()
    await thought.get_by_role("button", name=re.compile("^Effect ")).press("Enter")
    await expect(page.get_by_role("complementary")).to_contain_text("I ate too much.")
    await expect(thought).to_have_attribute("aria-current", "true")
    await page.keyboard.press("t")
    await expect(script_of(page)).to_have_count(0)


async def test_the_transcript_strikes_out_what_was_cut_off_and_says_why(page: Page, site: Site) -> None:
    """Words of a cancelled generation are struck out, with why; a refused intent has its words and reason."""
    config = {"record_rejections": True, "staleness_threshold": None}
    site.post("/v1/worlds", {"world_id": "cutoff", "orchestrator": config})
    site.post("/v1/worlds/cutoff/agents", {"agent_id": "Ann", "permissions": ["submit_intent"]})
    site.post("/v1/worlds/cutoff/agents/Ann/generations", {"req_id": "r1"})
    words = [draft("Written", "Ann", req_id="r1", text=word) for word in ("The ", "<b>moon</b> ", "pulls")]
    site.post("/v1/worlds/cutoff/effects", words)
    assert site.client.delete("/v1/worlds/cutoff/agents/Ann/generations/r1").status_code == 200
    intent = {"kind": "Speak", "payload": {"text": "And yet."}, "req_id": "r2", "agent_id": "Ann"}
    assert site.client.post("/v1/worlds/cutoff/intents", json=intent).status_code == 403
    await page.goto("/#/w/cutoff?at=1&panes=transcript")
    script = script_of(page)
    struck = script.get_by_role("deletion")
    await expect(struck).to_have_text(["The ", "<b>moon</b> ", "pulls"])
    await expect(script.get_by_role("listitem").filter(has_text="is cut off")).to_contain_text("user_requested")
    refused = script.get_by_role("listitem").filter(has_text="is refused")
    await expect(refused).to_contain_text("And yet.")
    await expect(refused).to_contain_text("permission_denied")
    await struck.nth(1).get_by_role("button").click()
    await expect(page.get_by_role("complementary")).to_contain_text("<b>moon</b>")


async def test_the_transcript_holds_a_part_of_a_long_world(page: Page) -> None:
    """Of three thousand effects those around the cursor are lines; more come as one asks, and with the cursor."""
    await page.goto("/#/w/long?at=1500&panes=transcript")
    lines = script_of(page).get_by_role("listitem")
    await expect(script_of(page).locator("[aria-current]")).to_have_attribute("data-seqs", "1500")
    assert await lines.count() < 400
    await script_of(page).get_by_role("button", name="earlier …").click()
    await expect(script_of(page).get_by_role("button", name="Effect 1300", exact=True)).to_be_attached()
    await page.keyboard.press("Home")
    await expect(script_of(page).locator("[aria-current]")).to_have_attribute("data-seqs", "1")
    assert await lines.count() < 400
