"""Worlds of chess in the store: their units, and two processes that play one game."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest_asyncio
from worldledger_service.store import EventLog, Store

from tests.store.helpers import draft
from tests.store.test_deciding import refused
from tests.store.units import seqs
from worldledger.effects import EffectDraft
from worldledger.genesis import NewWorld

Opener = Callable[..., Awaitable[Store]]


def move(uci: str, player: str) -> EffectDraft:
    """Make a move of a chess game."""
    return {
        "kind": "MoveMade",
        "payload": {"uci_notation": uci},
        "source_id": player,
        "schema_version": "1.0.0",
    }


@pytest_asyncio.fixture(loop_scope="session")
async def game(store: Store, world_id: str) -> EventLog:
    """Return the log of a chess game that has begun."""
    await store.create_world(NewWorld(world_id=world_id, ruleset="chess"))
    log = await store.log(world_id)
    payload = {"agents": {"white": "wanda", "black": "boris"}}
    await log.append({"kind": "GameStarted", "payload": payload, "source_id": "table", "schema_version": "1.0.0"})
    return log


async def test_a_game_is_played_by_two_processes(store: Store, open_store: Opener, game: EventLog) -> None:
    """Each process plays one side; illegal moves are refused with the rule, and the state has the whole game."""
    black = await (await open_store()).log(game.world_id)
    for one, two in [("e2e4", "e7e5"), ("g1f3", "b8c6"), ("f1b5", "a7a6")]:
        error = await refused(game, move("e2e5", "wanda"))
        assert error.details["rule"] == "illegal_move"
        await game.append(move(one, "wanda"))
        assert (await refused(game, move("d2d4", "wanda"))).details["rule"] == "not_your_turn"
        await black.append(move(two, "boris"))
    state = (await store.states.state_at(game.world_id, 8)).state
    assert state.entities["board"]["fen"] == "r1bqkbnr/1ppp1ppp/p1n5/1B2p3/4P3/5N2/PPPP1PPP/RNBQK2R w KQkq - 0 4"
    assert state.metadata["malformed_effects"] == 0


async def test_half_moves_and_moves_of_chess(store: Store, world_id: str) -> None:
    """A half-move is a step of chess; a move is both sides', by the numbers of the record."""
    await store.create_world(NewWorld(world_id=world_id, ruleset="chess"))
    log = await store.log(world_id)
    fen = "4k3/8/8/8/8/8/4q3/K7 b - - 3 40"
    agents = {"white": "ana", "black": "bo"}
    await log.append_all([draft(kind="GameStarted", payload={"agents": agents, "initial_fen": fen})])
    for uci in ("e2d2", "a1b1", "d2e2"):
        await log.append_all([draft(kind="MoveMade", payload={"uci_notation": uci})])
    await log.append_all(
        [draft(kind="MoveRejected", payload={"player": "white", "attempted": "b1b9", "reason": "illegal_move"})]
    )
    assert await seqs(store, world_id, "ply:0", "ply:1", "ply:2", "ply:3", "ply:4") == [2, 3, 4, 6, "its last is 3"]
    assert await seqs(store, world_id, "step:0", "step:1", "step:3") == [2, 3, 6]
    assert await seqs(store, world_id, "move:0", "move:40", "move:41", "move:42") == [2, 3, 6, "its last is 41"]
    assert await seqs(store, world_id, "round:1", "plies:1") == [
        "worlds of chess have no such unit, only move, ply, step",
        "worlds of chess have no such unit, only move, ply, step",
    ]
