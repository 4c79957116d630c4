"""Outages: a database that goes away in the middle of games loses nothing, and they go on when it is back."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import asyncpg
import pytest
from worldledger_chess.arena.players import Position, RandomPlayer
from worldledger_chess.rules import validate_game_state

from tests.waiting import wait_for
from worldledger.errors import CircuitBreakerOpenError, StoreUnavailableError

from .helpers import FEW, Opening, effects, ended, new_game, of_players

_CUT = (
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
    "and pid <> pg_backend_pid() and backend_type = 'client backend'"
)


@pytest.mark.slow
async def test_connections_that_are_cut(opening: Opening, thorough: bool) -> None:
    """Games are played to their ends while all connections are cut again and again; each move is in the log once."""
    arena = await opening()
    count, cuts = (4, 10) if thorough else (2, 2)
    games = [await arena.create(of_players("random", "random", seed=seed, fen=FEW)) for seed in range(count)]
    outside = await arena.create(new_game())
    seen: dict[str, list[int]] = {}

    async def play() -> None:
        player, number = RandomPlayer(1), 0
        while outside.ended is None and number < (80 if thorough else 30):
            text, agent = await player.move(Position.of(outside.board)), "w" if outside.board.turn else "b"
            while True:  # as any client does
                try:
                    outcome = await outside.move(agent, text, req_id=f"r{number}")
                except (StoreUnavailableError, CircuitBreakerOpenError):
                    await asyncio.sleep(0.01)
                else:
                    break
            assert (outcome.accepted, outcome.ply) == (True, number + 1)
            number += 1

    async def watch(number: int) -> None:
        async with aclosing(games[number].watch()) as events:
            seen[games[number].game_id] = [event.global_seq async for event in events]

    async def cut() -> None:
        connection = await asyncpg.connect(opening.url)
        for _ in range(cuts):
            before = sum(len(game.state.move_history) for game in games)
            await wait_for(
                lambda: sum(len(game.state.move_history) for game in games) >= before + 10,  # noqa: B023
                "they go on",
            )
            await connection.execute(_CUT)
        assert not all(game.ended for game in games)
        await connection.close()

    await asyncio.gather(cut(), play(), *map(watch, range(count)))
    for game in [*games, outside]:
        log = await effects(arena, game)
        assert validate_game_state(log) == []
    for game in games:
        log = await effects(arena, game)
        told = [e["global_seq"] for e in log if e["kind"] in {"GameStarted", "MoveMade", "MoveRejected", "GameEnded"}]
        assert seen[game.game_id] == told


async def test_a_watcher_that_was_busy_elsewhere(opening: Opening) -> None:
    """A watcher that did not read until the game had ended is told all of it then."""
    arena = await opening()
    game = await arena.create(of_players("random", "random", seed=2, fen=FEW))
    async with aclosing(game.watch()) as events:
        first = await anext(events)
        await ended(game)
        rest = [event async for event in events]
    assert (first.type, rest[-1].type) == ("game_started", "game_ended")
