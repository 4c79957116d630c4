"""Games whose log was restored from elsewhere and cannot be read: told as what they are, and then let be."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from structlog.testing import capture_logs
from worldledger_chess.arena import Arena

from tests.store.exports import export_of, restored, text
from tests.waiting import wait_for
from worldledger.errors import FoldError

from .helpers import Opening, attempt, effects, new_game, refused

Change = Callable[[list[dict[str, Any]]], None]


async def restored_game(arena: Arena, change: Change, name: str = "after") -> str:
    """Restore the log of a new game under another name, changed, and with a chain that holds; return the first name."""
    game = await arena.create(new_game(deadline_s=5.0))
    await attempt(game, "w", "e2e4")
    found: list[dict[str, Any]] = json.loads(json.dumps(await effects(arena, game)))
    for each in found:
        each["world_id"] = name
    change(found)
    await restored(arena._store, export_of([text(each) for each in found], name))
    return game.game_id


def bad_position(found: list[dict[str, Any]]) -> None:
    """Have the last move lead to a position that is none, by a move that cannot be played."""
    found[-1]["payload"] |= {"fen": "zzzz/8 b KQkq - 0 1", "uci_notation": "a1a8"}


async def test_a_position_that_is_none(opening: Opening) -> None:
    """Whoever asks is told that the log cannot be read, and where; those who look after games say it once."""
    async with opening.until(scan_every=1e9) as arena:
        before = await restored_game(arena, bad_position)
        error = await refused(arena.game("after"))
        assert isinstance(error, FoldError)
        assert "the position after seq" in error.message
    opening.clock.go(3600.0)
    with capture_logs() as said:
        async with opening.until() as arena:
            await wait_for(lambda: arena._scanner.rounds > 4, "it has looked around, again and again")
            game = await arena.game(before)
            await wait_for(lambda: game.ended, "the other game's time is over")
            rounds = arena._scanner.rounds
            await wait_for(lambda: arena._scanner.rounds > rounds + 2, "and again")
    told = [entry for entry in said if entry.get("game_id") == "after"]
    assert [(entry["event"], entry["log_level"]) for entry in told] == [
        ("a game is not looked after any more", "warning")
    ]


async def test_a_time_beyond_the_calendar(arena: Arena, subtests: pytest.Subtests) -> None:
    """It is told as the calendar's last one; the game can be looked at, and watched."""
    for moment in (1e15, 1e308):
        with subtests.test(moment=moment):

            def late(found: list[dict[str, Any]]) -> None:
                found[-1]["wall_time"] = moment  # noqa: B023

            name = f"at-{moment:g}".replace("+", "")
            await restored_game(arena, late, name)
            game = await arena.game(name)
            assert [move.san_notation for move in game.state.move_history] == ["e4"]
            assert game.state.last_updated.year == 9999
            async with aclosing(game.watch()) as events:
                assert [(await anext(events)).data["timestamp"][:4] for _ in range(2)][-1] == "9999"
