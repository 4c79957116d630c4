"""Language models in games: what they attempt and what they used is in the log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from worldledger_chess.arena import Arena
from worldledger_chess.rules import validate_game_state

from tests.client.llm.provider import Provider, answers, says

from .helpers import FOOLS_MATE, Clock, Opening, effects, ended, of_players, played


@pytest.fixture
async def arena(shared_url: str, clock: Clock) -> AsyncIterator[Arena]:
    """Return an arena that may ask models."""
    opening = Opening(shared_url, clock, None)  # type: ignore[arg-type]
    async with opening.until(adopt=False, allow_programs=True) as made:
        yield made


def _model(provider: Provider, **more: Any) -> dict[str, Any]:
    return {"name": "llm", "model": "tiny", "base_url": provider.url, **more}


async def test_a_model_plays_and_its_attempts_are_recorded(arena: Arena) -> None:
    """An illegal answer is an attempt of its own, and is tried again; each answer is a generation of the agent."""
    _, black, _, mate = FOOLS_MATE
    persona = {"prices": {"tokens_in": 1e6, "tokens_out": 0}, "parameters": {"max_tokens": 9, "seed": 3}}
    async with Provider(says("e7", "e4"), says(black), says(f"Mate by {mate}!")) as provider:
        game = await arena.create(of_players("external", _model(provider, persona=persona)))
        await played(game, FOOLS_MATE[:1])
        await game.turn_of("w")
        await played(game, FOOLS_MATE[2:3])
        await ended(game)
    log = await effects(arena, game)
    assert validate_game_state(log, game.state) == []
    assert game.ended is not None
    assert game.ended.result == "black_wins"
    told = [effect for effect in log if effect["kind"] in {"MoveRejected", "MoveMade"} and effect["source_id"] == "b"]
    assert [effect["kind"] for effect in told] == ["MoveRejected", "MoveMade", "MoveMade"]
    assert told[0]["payload"]["attempted"] == "e7e4"
    reports = [effect["payload"] for effect in log if effect["kind"] == "GenerationReported"]
    assert [report["outcome"] for report in reports] == ["refused", "acted", "acted"]
    assert [report["req_id"] for report in reports] == [effect["req_id"] for effect in told]
    assert [report["price"] for report in reports] == [7.0, 7.0, 7.0]
    begun = [effect["payload"] for effect in log if effect["kind"] == "GenerationStarted"]
    assert {each["model"]["name"] for each in begun} == {"tiny"}
    assert begun[0]["model"]["seed"] == 3
    texts = [effect["payload"]["part"] for effect in log if effect["kind"] == "GenerationText"]
    assert texts == ["prompt", "output"] * 3
    kinds = [effect["kind"] for effect in log]
    assert "GenerationCancelled" not in kinds


async def test_too_many_illegal_answers_are_the_fallback(arena: Arena) -> None:
    """By choice a random move is made for the model, and the game goes on."""
    async with Provider(says("I resign?"), says("Ke9")) as provider:
        game = await arena.create(of_players(_model(provider), "external", max_illegal=2, fallback="random", seed=1))
        await game.turn_of("b")
        await game.resign("b", req_id="enough")
    log = await effects(arena, game)
    made = [(each["kind"], each["source_id"]) for each in log if each["kind"].startswith("Move")]
    assert made == [("MoveRejected", "w"), ("MoveRejected", "w"), ("MoveMade", "arena")]


async def test_a_model_whose_service_refuses_loses_by_that(arena: Arena) -> None:
    """Each time is an attempt without a move, which says what its service answered."""
    async with Provider(answers("401 Unauthorized")) as provider:
        game = await ended(await arena.create(of_players(_model(provider), "external", max_illegal=2)))
    assert game.ended is not None
    assert (game.ended.result, game.ended.reason) == ("black_wins", "abandoned")
    log = await effects(arena, game)
    missed = [effect["payload"] for effect in log if effect["kind"] == "MoveRejected"]
    assert [each["reason"] for each in missed] == ["player_failed"] * 2
    assert "the service answered 401" in missed[0]["detail"]
