"""Generations over two processes: the token's owner is one, and what ends the generation comes through the other."""

from __future__ import annotations

import asyncio

from tests.waiting import wait_for
from worldledger.errors import UnknownGenerationError

from .conftest import Opening
from .helpers import ALL, head_of, message, moved, refused, speak, whole
from .test_generations import reason, told


async def test_what_another_process_writes_stops_a_generation(opening: Opening) -> None:
    """The token's owner follows the log, so it does not matter who has written what makes it stale."""
    world, other = await opening(), await opening()
    await world.register_agent("a", ALL)
    token = world.issue_cancel_token("a", "r")
    receipt = await other.broadcast_event(message())
    await asyncio.wait_for(token.wait_cancelled(), 30)
    assert token.reason == reason(receipt.global_seq)


async def test_a_generation_is_cancelled_from_another_process(opening: Opening) -> None:
    """It hears of it from the log, with the reason; there it can be asked for, and cancelling it again does no harm."""
    world, other = await opening(), await opening()
    await world.register_agent("a", ALL)
    token = world.issue_cancel_token("a", "r")
    await world.flush()
    await other.reached(await head_of(world))
    assert other.generation("a", "r") is None
    await other.cancel_generation("a", "r", "enough")
    await asyncio.wait_for(token.wait_cancelled(), 30)
    assert token.reason == "enough"
    await other.cancel_generation("a", "r", "again")
    there = other.generation("a", "r")
    assert there is not None
    assert (there.reason, there.context_seq) == ("enough", token.context_seq)
    await other.flush()
    assert await told(world) == [("Started", None), ("Cancelled", "enough")]
    assert (world.generations_cancelled, other.generations_cancelled) == (1, 0)
    assert isinstance(await refused(other.cancel_generation("a", "never")), UnknownGenerationError)


async def test_a_generation_that_was_cancelled_there_is_cancelled_here(opening: Opening) -> None:
    """Also where the cancellation was the owner's; of one that has ended well nothing is known."""
    world, other = await opening(), await opening()
    a = await world.register_agent("a", ALL)
    a.issue_cancel_token("r-1")
    a.issue_cancel_token("r-2")
    await a.cancel("r-1")
    await a.submit_intent(speak(req_id="r-2"))
    await world.flush()
    await other.reached(await head_of(world))
    there = other.generation("a", "r-1")
    assert there is not None
    assert there.reason == "user_requested"
    await other.cancel_generation("a", "r-1")
    assert isinstance(await refused(other.cancel_generation("a", "r-2")), UnknownGenerationError)


async def test_an_intent_ends_a_generation_of_another_process(opening: Opening) -> None:
    """The agent generates through one process and submits through another."""
    world, other = await opening(), await opening()
    a = await world.register_agent("a", ALL)
    await other.agent("a")
    token = world.issue_cancel_token("a", "r")
    accepted = await other.submit_intent(whole("a", a.view_seq, req_id="r"))
    await world.reached(accepted.global_seq)
    assert not token.cancelled
    assert await told(world) == [("Started", None), ("Finished", None)]


async def test_both_processes_may_generate_for_one_req_id(opening: Opening) -> None:
    """Two generations of one req_id are told apart; cancelling by name stops both."""
    world, other = await opening(), await opening()
    await world.register_agent("a", ALL)
    await other.agent("a")
    tokens = [here.issue_cancel_token("a", "r") for here in (world, other)]
    for here in (world, other):
        await here.flush()
    for here in (world, other):
        await here.reached(await head_of(world))
    tokens[0].cancel("mine")
    await world.flush()
    await other.reached(await head_of(world))
    assert not tokens[1].cancelled
    again = world.issue_cancel_token("a", "r")
    await world.flush()
    await other.reached(await head_of(world))
    await other.cancel_generation("a", "r", "both")
    await wait_for(lambda: again.cancelled, "the owner hears of it")
    assert [token.reason for token in (*tokens, again)] == ["mine", "both", "both"]


async def test_generations_of_a_process_that_is_gone(opening: Opening) -> None:
    """They stay as they are in the log, and may be cancelled; what they were told of by name is not mixed up."""
    world = await opening()
    (await world.register_agent("a", ALL)).close()
    async with opening.until() as other:
        other._generations.close = lambda: None  # type: ignore[method-assign]  # as if it had been killed
        other.issue_cancel_token("a", "r")
    await head_of(world)
    await world.cancel_generation("a", "r", "nobody is there")
    assert await told(world) == [("Started", None), ("Cancelled", "nobody is there")]
    await world.broadcast_event(moved("x", 1, 1))


async def test_a_generation_that_has_just_begun_is_cancelled_elsewhere(opening: Opening) -> None:
    """A process that has yet to hear of it looks into the log before it says that there is none."""
    world, other = await opening(), await opening()
    await world.register_agent("a", ALL)
    for number in range(10):
        token = world.issue_cancel_token("a", f"r{number}")
        await world.flush()
        await other.cancel_generation("a", f"r{number}", "enough")
        await asyncio.wait_for(token.wait_cancelled(), 30)
