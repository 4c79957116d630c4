"""Generations: who is stopped, why, in whichever process, and what the log tells of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from structlog.testing import capture_logs
from worldledger_service.runtime import Orchestrator, OrchestratorConfig

from worldledger.errors import (
    InvalidEffectError,
    InvalidIntentError,
    RequestConflictError,
    StoreUnavailableError,
    UnknownAgentError,
    UnknownGenerationError,
)

from .conftest import Opening
from .helpers import ALL, created, draft, effects, head_of, message, near, refused, speak


async def told(world: Orchestrator) -> list[tuple[str, Any]]:
    """Return what the log says of generations: the kind without its first word, and the reason if it has one."""
    await world.flush()
    found = [each for each in await effects(world) if each["kind"].startswith("Generation")]
    return [(each["kind"].removeprefix("Generation"), each["payload"].get("reason")) for each in found]


def reason(seq: int) -> str:
    """Return why a token is cancelled that an effect makes stale."""
    return f"stale_due_to_effect_{seq}"


# -- in one process ----------------------------------------------------------------------------------------


async def test_a_token_is_live_at_once_and_told_of_later(world: Orchestrator) -> None:
    """Issuing one does not wait; its effect says who generates what from which view, req_id in the payload only."""
    a = await world.register_agent("a", ALL)
    token = world.issue_cancel_token("a", "r")
    assert (token.agent_id, token.req_id, token.context_seq, token.cancelled) == ("a", "r", a.view_seq, False)
    assert world.generation("a", "r") is token
    assert a.issue_cancel_token("r") is token
    await world.flush()
    (effect,) = await effects(world, "GenerationStarted")
    assert effect["source_id"] == "a"
    assert effect["req_id"] is None
    payload = dict(effect["payload"])
    assert payload.pop("generation_id")
    assert payload == {"agent_id": "a", "req_id": "r", "context_seq": a.view_seq}


async def test_what_cannot_be_a_generation(world: Orchestrator) -> None:
    """Unknown agents, names that are none, settings that are none, and another context of one that is under way."""
    a = await world.register_agent("a", ALL)
    with pytest.raises(UnknownAgentError):
        world.issue_cancel_token("nobody", "r")
    for bad in ("", "r" * 201):
        with pytest.raises(InvalidEffectError):
            world.issue_cancel_token("a", bad)
    wrongs: list[dict[str, Any]] = [
        {"staleness_threshold": -1},
        {"staleness_threshold": 1.5},
        {"about": "bob"},
        {"about": [""]},
    ]
    for wrong in wrongs:
        with pytest.raises(InvalidIntentError):
            world.issue_cancel_token("a", "r", **wrong)
    world.issue_cancel_token("a", "r", a.view_seq)
    with pytest.raises(RequestConflictError):
        world.issue_cancel_token("a", "r", a.view_seq - 1)
    assert await told(world) == [("Started", None)]


async def test_only_what_the_agent_may_observe_stops_it(world: Orchestrator) -> None:
    """An effect cancels the tokens of those who see it, all of them, and neither its source's nor anybody else's."""
    for name, x in (("a", 0), ("b", 5), ("c", 100)):
        await world.broadcast_event(created(name, x, 0))
        await world.register_agent(name, near(10.0))
    tokens = [world.issue_cancel_token(name, req_id) for name in "abc" for req_id in ("r-1", "r-2")]
    receipt = await world.broadcast_event(message("hello", "b"))
    assert [token.cancelled for token in tokens] == [True] * 2 + [False] * 4
    assert {token.reason for token in tokens[:2]} == {reason(receipt.global_seq)}
    assert world.generations_cancelled == 2
    assert Counter(await told(world)) == {("Started", None): 6, ("Cancelled", reason(receipt.global_seq)): 2}
    assert not await world.cancel_if_stale("c", "r-1", receipt.global_seq)
    assert not await world.cancel_if_stale("c", "r-2", tokens[5].context_seq)
    assert not await world.cancel_if_stale("c", "r-3", 10_000)


async def test_a_stale_context_gives_a_cancelled_token(world: Orchestrator) -> None:
    """Whoever begins from a view that is old already is told at once, and so is the log."""
    a = await world.register_agent("a", ALL)
    receipt = await world.broadcast_event(message())
    token = a.issue_cancel_token("r")
    assert token.reason == reason(receipt.global_seq)
    assert not world.issue_cancel_token("a", "r").cancelled
    assert await told(world) == [("Started", None), ("Cancelled", reason(receipt.global_seq)), ("Started", None)]


async def test_the_threshold_counts_for_generations_too(opening: Opening) -> None:
    """As many sightings as the threshold may pass; the reason names the one that was too many, details the setting."""
    world = await opening(config=OrchestratorConfig(staleness_threshold=2))
    a = await world.register_agent("a", ALL)
    token = a.issue_cancel_token("r")
    for _ in range(2):
        await world.broadcast_event(message())
    assert token.context_seq == a.view_seq
    assert not token.cancelled
    receipt = await world.broadcast_event(message())
    newest = await world.broadcast_event(message())
    named = {"setting": "world", "staleness_threshold": 2, "interrupt_policy": "always"}
    assert (token.reason, token.details) == (reason(receipt.global_seq), named)
    late = a.issue_cancel_token("r-2")
    assert (late.reason, late.details) == (reason(newest.global_seq), named)
    await world.flush()
    for effect in await effects(world, "GenerationCancelled"):
        assert {name: effect["payload"][name] for name in named} == named


async def test_the_intent_of_its_req_id_ends_a_generation(world: Orchestrator) -> None:
    """Its effect is the agent's own, and stops neither what led to it nor the agent's other generations."""
    a = await world.register_agent("a", ALL)
    own, other = a.issue_cancel_token("r-1"), a.issue_cancel_token("r-2")
    accepted = await a.submit_intent(speak(req_id="r-1"))
    await world.reached(accepted.global_seq)
    assert not own.cancelled
    assert not other.cancelled
    assert world.generation("a", "r-1") is own
    assert sorted(kind for kind, _ in await told(world)) == ["Finished", "Started", "Started"]
    # The req_id is used up, and answered again; a generation that nobody needed ends too.
    again = world.issue_cancel_token("a", "r-1")
    assert (await a.submit_intent(speak(req_id="r-1"))).replayed
    assert not again.cancelled
    assert not await world.finish_generation("a", "r-1")
    assert (await told(world))[-2:] == [("Started", None), ("Finished", None)]


async def test_an_intent_whose_caller_has_gone_ends_it_too(world: Orchestrator) -> None:
    """However the effect of its req_id came into the log, it is the end of the generation and not its interruption."""
    await world.register_agent("a", ALL)
    token = world.issue_cancel_token("a", "r")
    receipt = await world.broadcast_event(draft("Speak", {"text": "hi"}, "a", req_id="r"))
    assert (await world.view("a")).view_seq == receipt.global_seq
    assert not token.cancelled
    assert await told(world) == [("Started", None), ("Finished", None)]


async def test_ending_without_an_intent(world: Orchestrator) -> None:
    """A generation that led to nothing is finished by its agent; then it cannot be cancelled."""
    a = await world.register_agent("a", ALL)
    token = a.issue_cancel_token("r")
    assert await world.finish_generation("a", "r")
    assert not await world.finish_generation("a", "r")
    await world.broadcast_event(message())
    assert not token.cancelled
    error = await refused(world.cancel_generation("a", "r"))
    assert isinstance(error, UnknownGenerationError)
    await a.cancel("r")  # nothing to cancel, nothing said
    assert isinstance(await refused(world.cancel_generation("a", "never")), UnknownGenerationError)
    assert await told(world) == [("Started", None), ("Finished", None)]


async def test_cancelling(world: Orchestrator) -> None:
    """A generation is cancelled once, for the first reason; its owner may do it, and anybody by its name."""
    a = await world.register_agent("a", ALL)
    for cancel, why in (
        (a.cancel("r-1"), "user_requested"),
        (world.cancel_generation("a", "r-2", "too long"), "too long"),
    ):
        token = a.issue_cancel_token(f"r-{1 if why == 'user_requested' else 2}")
        await cancel
        assert token.reason == why
        await world.cancel_generation("a", token.req_id, "again")
        await a.cancel(token.req_id)
        assert token.reason == why
    own = a.issue_cancel_token("r-3")
    own.cancel("its own")
    assert world.generation("a", "r-3") is own
    assert [why for kind, why in await told(world) if kind == "Cancelled"] == ["user_requested", "too long", "its own"]


async def test_the_same_req_id_again_is_another_generation(world: Orchestrator) -> None:
    """What the log says of the cancelled one comes later than the new one began, and does not stop it."""
    a = await world.register_agent("a", ALL)
    tokens = []
    for n in range(5):
        tokens.append(a.issue_cancel_token("r"))
        tokens[-1].cancel(str(n))
    last = a.issue_cancel_token("r")
    await world.flush()
    await head_of(world)
    assert [token.reason for token in tokens] == list("01234")
    assert not last.cancelled
    assert world.generation("a", "r") is last
    started = await effects(world, "GenerationStarted")
    assert len({effect["payload"]["generation_id"] for effect in started}) == 6
    await a.submit_intent(speak(req_id="r"))
    assert not last.cancelled


# -- debounce ----------------------------------------------------------------------------------------------


async def test_the_first_cancellation_comes_at_once_and_further_ones_later(opening: Opening) -> None:
    """Within the window of an agent they are held, each names what made it stale, and none is lost; others are free."""
    world = await opening(config=OrchestratorConfig(debounce_ms=3_600_000.0))
    a = await world.register_agent("a", ALL)
    await world.register_agent("b", ALL)
    first = a.issue_cancel_token("r-1")
    one = await world.broadcast_event(message(source_id="c"))
    assert first.reason == reason(one.global_seq)
    held = world.issue_cancel_token("a", "r-2")
    two = await world.broadcast_event(message(source_id="c"))
    late = world.issue_cancel_token("a", "r-3", one.global_seq)
    other = world.issue_cancel_token("b", "r", one.global_seq)
    assert other.reason == reason(two.global_seq)
    assert (held.cancelled, late.cancelled) == (False, False)
    generations = world._generations
    generations._windows["a"].cancel()
    generations._window_over("a")  # as its timer would
    assert [held.reason, late.reason] == [reason(two.global_seq)] * 2
    assert "a" in generations._windows  # which has begun anew
    again = world.issue_cancel_token("a", "r-4")
    three = await world.broadcast_event(message(source_id="c"))
    assert again.reason is None
    generations._windows["a"].cancel()
    generations._window_over("a")
    assert [again.reason] == [reason(three.global_seq)]
    generations._windows["a"].cancel()
    generations._window_over("a")
    assert "a" not in generations._windows  # there was nothing to cancel


async def test_what_was_held_is_cancelled_when_the_window_ends(opening: Opening) -> None:
    """It names the effect that made its context stale, whatever came in the meantime; the log says how long it took."""
    world = await opening(config=OrchestratorConfig(debounce_ms=50.0))
    await world.register_agent("a", ALL)
    tokens = [world.issue_cancel_token("a", f"r-{n}") for n in range(3)]
    first = await world.broadcast_event(message())
    await world.broadcast_event(message())
    assert [token.cancelled for token in tokens].count(True) >= 1
    for token in tokens:
        await asyncio.wait_for(token.wait_cancelled(), 30)
        assert token.reason == reason(first.global_seq)
    assert (await told(world)).count(("Cancelled", reason(first.global_seq))) == 3
    latencies = [effect["payload"]["latency_ms"] for effect in await effects(world, "GenerationCancelled")]
    assert max(latencies) > 0.0


async def test_what_ends_while_it_is_held_is_not_cancelled(opening: Opening) -> None:
    """Within a long window, a generation that is finished, or cancelled otherwise, stays as it is when it ends."""
    world = await opening(config=OrchestratorConfig(debounce_ms=3_600_000.0))
    a = await world.register_agent("a", ALL)
    tokens = [world.issue_cancel_token("a", f"r-{n}", a.view_seq) for n in range(4)]
    receipt = await world.broadcast_event(message())
    assert [token.cancelled for token in tokens] == [True, False, False, False]
    await world.finish_generation("a", "r-1")
    await world.cancel_generation("a", "r-2", "no more")
    assert await world.cancel_if_stale("a", "r-3", receipt.global_seq)
    stale = reason(receipt.global_seq)
    assert [token.reason for token in tokens] == [stale, None, "no more", stale]
    world._generations._windows["a"].cancel()
    world._generations._window_over("a")
    assert not world._generations._windows
    assert not world._generations._caused_at
    assert [token.reason for token in tokens] == [stale, None, "no more", stale]


async def test_what_is_held_ends_with_the_world(opening: Opening) -> None:
    """A world that is closed cancels what it holds, and leaves no timer."""
    async with opening.until(config=OrchestratorConfig(debounce_ms=3_600_000.0)) as world:
        await world.register_agent("a", ALL)
        tokens = [world.issue_cancel_token("a", f"r-{n}") for n in range(2)]
        await world.broadcast_event(message())
        assert [token.cancelled for token in tokens] == [True, False]
    assert tokens[1].reason == "orchestrator_closed"
    assert not world._generations._windows


# -- bounds ------------------------------------------------------------------------------------------------


async def test_the_table_of_tokens_is_bounded(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest token goes for the newest, and is told; of those that have ended a bounded number is remembered."""
    monkeypatch.setattr("worldledger_service.runtime.generations._REMEMBERED", 4)
    config = OrchestratorConfig.model_validate({"memory": {"max_tokens": 3, "view_cache_size": 1}})
    world, other = await opening(config=config), await opening()
    await world.register_agent("a", ALL)
    await world.register_agent("b", ALL)
    tokens = [world.issue_cancel_token("ab"[n % 2], f"r-{n}") for n in range(10)]
    assert [token.reason for token in tokens] == ["evicted"] * 7 + [None] * 3
    assert len(world._generations) == 3
    assert [world.generation("ab"[n % 2], f"r-{n}") for n in range(10)] == [None] * 3 + tokens[3:]
    await world.flush()
    await other.reached(await head_of(world))
    assert len(other._generations._elsewhere) == 3
    for token in tokens:
        await world.finish_generation(token.agent_id, token.req_id)
    await world.flush()
    await other.reached(await head_of(world))
    assert not other._generations._elsewhere
    assert not other._generations._here
    assert not world._generations._of_agent


async def test_an_agent_with_a_token_stays_attached(opening: Opening) -> None:
    """Somebody has to look at what it observes; afterwards it may go."""
    world = await opening(config=OrchestratorConfig.model_validate({"memory": {"view_cache_size": 1}}))
    for name in "abc":
        (await world.register_agent(name, ALL)).close()
    token = world.issue_cancel_token("a", "r")
    for name in "bc":
        (await world.agent(name)).close()
    assert world.in_use
    receipt = await world.broadcast_event(message())
    assert token.reason == reason(receipt.global_seq)
    (await world.agent("b")).close()
    assert [each.agent_id for each in world._attachments] == ["b"]


async def test_callbacks_that_fail_stop_nobody_else(world: Orchestrator) -> None:
    """What a token's owner wants to be called may raise; the world goes on, and other tokens are cancelled."""

    def fail() -> None:
        raise ZeroDivisionError

    await world.register_agent("a", ALL)
    tokens = [world.issue_cancel_token("a", f"r-{n}") for n in range(3)]
    tokens[0].add_callback(fail)
    tokens[1].add_callback(fail)
    with capture_logs() as said:
        receipt = await world.broadcast_event(message())
    assert {token.reason for token in tokens} == {reason(receipt.global_seq)}
    assert len([line for line in said if line["log_level"] == "error"]) == 2
    await world.broadcast_event(message())
    assert not world.broken


async def test_closing_the_world_cancels_what_is_live(opening: Opening) -> None:
    """The log says so, and from the moment on at which it begins to close no token is issued."""
    async with opening.until() as world:
        await world.register_agent("a", ALL)
        token = world.issue_cancel_token("a", "r")
        issued: list[Exception] = []

        def again() -> None:
            try:
                world.issue_cancel_token("a", "r-2")
            except StoreUnavailableError as error:
                issued.append(error)

        token.add_callback(again)
    assert token.reason == "orchestrator_closed"
    assert len(issued) == 1
    with pytest.raises(StoreUnavailableError):
        world.issue_cancel_token("a", "r-3")
    async with opening.until() as world:
        assert await told(world) == [("Started", None), ("Cancelled", "orchestrator_closed")]
