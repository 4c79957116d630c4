"""Contexts: what an intent was made from, as it is judged and as the log tells of it."""

from __future__ import annotations

from typing import Any

from worldledger_service.runtime import Orchestrator, OrchestratorConfig

from worldledger.errors import InvalidIntentError, StaleContextError
from worldledger.intents import Accepted

from .conftest import Opening
from .helpers import ALL, effects, head_of, message, refused, speak, whole


async def recorded(world: Orchestrator, accepted: Accepted) -> Any:
    """Return the context that the log tells of an intent."""
    (entry,) = await world.event_log.get_entries_since(accepted.global_seq - 1, limit=1)
    return entry.effect["source_metadata"]["context_seq"]


async def test_a_view_moves_the_context_of_its_handle(world: Orchestrator) -> None:
    """Whoever has looked knows what it has seen, and the log says that it acted upon that."""
    a = await world.register_agent("a", ALL)
    assert a.context_seq == a.view_seq
    receipt = await world.broadcast_event(message())
    assert (await a.view()).view_seq == receipt.global_seq
    assert (a.context_seq, a.view_seq) == (receipt.global_seq, receipt.global_seq - 1)
    accepted = await a.submit_intent(speak())
    assert await recorded(world, accepted) == receipt.global_seq
    assert (await a.next_observation())["view_seq"] == receipt.global_seq
    assert a.context_seq == receipt.global_seq
    assert a.get_view_seq() == receipt.global_seq


async def test_a_high_threshold_leaves_a_true_trail(opening: Opening) -> None:
    """Though nothing is refused, the log tells the view that a move was made from."""
    world = await opening(config=OrchestratorConfig(staleness_threshold=100_000))
    a = await world.register_agent("a", ALL)
    for n in range(40):
        last = await world.broadcast_event(message(str(n)))
    await a.view()
    assert await recorded(world, await a.submit_intent(speak())) == last.global_seq


async def test_a_view_of_the_past_moves_nothing(world: Orchestrator) -> None:
    """Neither forward nor back: whoever looks at what was is not told what is."""
    a = await world.register_agent("a", ALL)
    first = a.context_seq
    receipt = await world.broadcast_event(message())
    await a.view(at_seq=receipt.global_seq)
    assert a.context_seq == first
    assert isinstance(await refused(a.submit_intent(speak())), StaleContextError)
    await a.view()
    await a.view(at_seq=first)
    assert a.context_seq == receipt.global_seq
    assert isinstance(await a.submit_intent(speak()), Accepted)


async def test_reading_on_moves_no_generation(opening: Opening) -> None:
    """The intent that ends a generation is made from what that began with, however far its agent has read since."""
    world = await opening(config=OrchestratorConfig(staleness_threshold=5))
    a = await world.register_agent("a", ALL)
    token = a.issue_cancel_token("r")
    began = token.context_seq
    await world.broadcast_event(message())
    await a.next_observation()
    await a.view()
    assert a.context_seq > began
    assert a.issue_cancel_token("r") is token
    assert token.context_seq == began
    accepted = await a.submit_intent(speak(req_id="r"))
    assert await recorded(world, accepted) == began
    assert await recorded(world, await a.submit_intent(speak(req_id="another"))) == a.context_seq


async def test_a_generation_s_context_counts_wherever_its_intent_comes(opening: Opening) -> None:
    """Without a handle, and through another process, an intent without a context has that of its generation."""
    config = OrchestratorConfig(staleness_threshold=5)
    world, other = await opening(config=config), await opening(config=config)
    a = await world.register_agent("a", ALL)
    tokens = [a.issue_cancel_token(f"r{n}", staleness_threshold=7, about=["x"]) for n in range(2)]
    await world.flush()
    await other.reached(await head_of(world))
    await world.broadcast_event(message())
    for here, token in zip((world, other), tokens, strict=True):
        bare = whole("a", 0, req_id=token.req_id)
        del bare["context_seq"]
        assert await recorded(here, await here.submit_intent(bare)) == token.context_seq
    (started, _) = await effects(world, "GenerationStarted")
    assert (started["payload"]["staleness_threshold"], started["payload"]["about"]) == (7, ["x"])


async def test_a_generation_s_threshold_is_that_of_its_intent(world: Orchestrator) -> None:
    """What a generation was allowed, the intent that it leads to is allowed; the refusal names the generation."""
    a = await world.register_agent("a", ALL)
    first = a.context_seq
    token = a.issue_cancel_token("r", staleness_threshold=1)
    await world.broadcast_event(message())
    assert not token.cancelled
    assert isinstance(await a.submit_intent(speak(req_id="r")), Accepted)
    await a.view()
    a.issue_cancel_token("r2", staleness_threshold=1)
    await world.broadcast_event(message())
    error = await refused(a.submit_intent(speak(req_id="r2", context_seq=first)))
    assert isinstance(error, StaleContextError)
    assert (error.details["setting"], error.details["staleness_threshold"]) == ("generation", 1)


async def test_without_a_context_there_has_to_be_no_threshold(opening: Opening) -> None:
    """An intent that names none is recorded with null where nothing is refused as stale, and refused otherwise."""
    world = await opening()
    await world.register_agent("a", ALL)
    await world.register_agent("b", ALL, staleness_threshold=None)
    bare = whole("a", 0)
    del bare["context_seq"]
    for each in (bare, {**bare, "context_seq": None}):
        error = await refused(world.submit_intent(each))
        assert isinstance(error, InvalidIntentError)
        assert error.path == "$.context_seq"
        assert "the world's staleness_threshold is 0" in error.message
        assert (error.details["setting"], error.details["staleness_threshold"]) == ("world", 0)
    assert await recorded(world, await world.submit_intent({**bare, "staleness_threshold": None})) is None
    accepted = await world.submit_intent({**bare, "agent_id": "b"})
    assert await recorded(world, accepted) is None
    assert (await world.submit_intent({**bare, "agent_id": "b"})).replayed
    await world.set_staleness(staleness_threshold=None)
    assert await recorded(world, await world.submit_intent({**bare, "req_id": "later"})) is None
    await world.set_staleness(staleness_threshold=0)
    assert (await world.submit_intent({**bare, "req_id": "later"})).replayed  # as it was answered then
