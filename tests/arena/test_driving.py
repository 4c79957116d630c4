"""Driving: the service's players play by the rules of all; whatever becomes of them, a game comes to its end."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from worldledger_chess.arena import Arena, LiveGame
from worldledger_chess.arena.players import PlayerError, Position, RandomPlayer
from worldledger_chess.rules import validate_game_state

from tests.waiting import wait_for

from .helpers import FEW, Clock, Opening, attempt, effects, ended, kinds, of_players

_FAKE = Path(__file__).parent / "players" / "fake_engine.py"


async def test_random_against_random(arena: Arena) -> None:
    """A game of two random players comes to an end by the rules, each move by its player and timed."""
    game = await ended(await arena.create(of_players("random", "random", seed=7, fen=FEW)))
    log = await effects(arena, game)
    assert validate_game_state(log, game.state) == []
    made = [effect for effect in log if effect["kind"] == "MoveMade"]
    assert {effect["source_id"] for effect in made} == {"w", "b"}
    assert all(effect["payload"]["thinking_time"] >= 0 for effect in made)
    await wait_for(lambda: not arena.driven, "the players have left")


async def test_the_same_seed_is_the_same_game(arena: Arena) -> None:
    """Two games of one seed are the same, also where other games are played beside them."""
    games = [await arena.create(of_players("random", "random", seed=seed, fen=FEW)) for seed in (6, 8, 6)]
    await asyncio.gather(*map(ended, games))
    one, other, same = ([move.uci_notation for move in game.state.move_history] for game in games)
    assert one == same != other


async def test_against_somebody_outside(arena: Arena) -> None:
    """A player of the service answers whoever plays the other side."""
    game = await arena.create(of_players("external", "random", seed=1))
    for ply in (0, 2, 4):
        await wait_for(partial(_has_come_to, game, ply), "it is white's turn")
        moves = sorted(game.board.legal_moves, key=str)
        assert (await attempt(game, "w", moves[0].uci())).accepted
    await game.resign("w", req_id="r")
    await wait_for(lambda: not arena.driven, "the player has left")


def _has_come_to(game: LiveGame, ply: int) -> bool:
    return len(game.board.move_stack) == ply


async def test_a_game_goes_on_elsewhere(opening: Opening) -> None:
    """A game whose process is gone is played on by the next one, as it would have been."""
    async with opening.until() as arena:
        whole = await ended(await arena.create(of_players("random", "random", seed=9, fen=FEW)))
    async with opening.until() as arena:
        game = await arena.create(of_players("random", "random", seed=9, fen=FEW))
        await wait_for(lambda: len(game.state.move_history) > 5, "it has begun")
    assert len(game.state.move_history) < len(whole.state.move_history)
    opening.clock.go(60)
    arena = await opening()
    again = await ended(await arena.game(game.game_id))
    assert [move.uci_notation for move in again.state.move_history] == [
        move.uci_notation for move in whole.state.move_history
    ]


async def test_nobody_takes_over_too_early(opening: Opening) -> None:
    """A game that has just gone on is left to the process that plays it."""
    one = await opening(adopt_after=10.0)
    game = await one.create(of_players("external", "random"))
    two = await opening(adopt_after=10.0)
    await wait_for(lambda: two._scanner.rounds > 2, "the other one has looked around")
    assert two.driven == 0
    opening.clock.go(11)
    await wait_for(lambda: two.driven == 1, "the other one plays, too")
    await attempt(game, "w", "e2e4")
    await wait_for(lambda: len(game.state.move_history) == 2, "somebody has answered")
    await two.game(game.game_id)
    assert await kinds(one, game) == ["MoveMade", "MoveMade"]


class _Odd:
    """A player that does what it is told: a text is attempted, an error raised, None never comes."""

    name = "odd"

    def __init__(self, *does: Any) -> None:
        self.does = list(does)
        self.closed = 0

    async def move(self, position: Position) -> str:
        """Do the next of it; after that play."""
        what = self.does.pop(0) if self.does else "play"
        if what is None:
            await asyncio.Event().wait()
        if isinstance(what, Exception):
            raise what
        return await RandomPlayer(1).move(position) if what == "play" else str(what)

    async def close(self) -> None:
        """Count it."""
        self.closed += 1


async def _odd(arena: Arena, monkeypatch: pytest.MonkeyPatch, *does: Any, **fields: Any) -> tuple[Any, _Odd]:
    """Begin a game of an odd player, with white, against somebody outside."""
    player = _Odd(*does)
    monkeypatch.setattr("worldledger_chess.arena.driving.make_player", lambda *_, **__: player)
    return await arena.create(of_players("random", "external", **fields)), player


async def test_a_player_that_fails_again_and_again(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Rubbish, illegal moves, crashes: each is recorded, and after three in a row the player has resigned."""
    ways: list[tuple[list[Any], str]] = [
        (["rubbish", "e2e5", ""], "illegal_move"),
        ([PlayerError("odd", "crashed", "it crashed")] * 3, "abandoned"),
        ([RuntimeError("a mistake of its own")] * 3, "abandoned"),
    ]
    for does, reason in ways:
        with subtests.test(does=does[0]):
            game, player = await _odd(arena, monkeypatch, *does)
            await ended(game)
            assert (game.state.status, game.state.result, game.state.reason) == ("resigned", "black_wins", reason)
            assert await kinds(arena, game) == ["MoveRejected"] * 3 + ["GameEnded"]
            await wait_for(lambda: player.closed, "it is closed")  # noqa: B023


async def test_a_player_that_fails_once(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    """A player that fails once plays on."""
    game, _ = await _odd(arena, monkeypatch, PlayerError("odd", "crashed", "it crashed"), "e2e5")
    await wait_for(lambda: game.state.move_history, "it has moved")
    rejected = await effects(arena, game, "MoveRejected")
    assert [(each["payload"]["reason"], each["payload"]["attempted"]) for each in rejected] == [
        ("player_failed", None),
        ("illegal_move", "e2e5"),
    ]
    assert game._table.record.entities["white"]["illegal_moves_attempted"] == 1


async def test_a_player_that_fails_with_a_random_fallback(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the fallback random the game goes on by another's moves."""
    game, _ = await _odd(arena, monkeypatch, *[PlayerError("odd", "crashed", "it crashed")] * 3, fallback="random")
    await wait_for(lambda: game.state.move_history, "a move was made for it")
    assert await kinds(arena, game) == ["MoveRejected"] * 3 + ["MoveMade"]


async def test_a_player_that_hangs(arena: Arena, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A player that never answers has lost when its time is over, and is closed."""
    game, player = await _odd(arena, monkeypatch, None, deadline_s=30.0)
    await wait_for(lambda: not player.does, "it is asked")
    clock.go(30)
    await ended(game)
    assert game.state.status == "timeout"
    await wait_for(lambda: player.closed, "it is closed")


async def test_resigning_while_a_player_thinks(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    """A game that ends while its player thinks is over at once."""
    game, player = await _odd(arena, monkeypatch, None)
    await wait_for(lambda: not player.does, "it is asked")
    await game.resign("b", req_id="r")
    await wait_for(lambda: player.closed, "it is closed")


async def test_a_player_that_is_not_there_any_more(opening: Opening) -> None:
    """A process that does not have a game's player leaves the game to one that has it, or to its deadline."""
    async with opening.until(allow_programs=True) as arena:
        spec = {"name": "uci", "path": sys.executable, "args": [str(_FAKE)]}
        game = await arena.create(of_players("external", spec, deadline_s=100.0))
    opening.clock.go(60)
    async with opening.until() as arena:
        await wait_for(lambda: arena._scanner.rounds > 3, "it has looked around")
        assert arena.driven == 0
        opening.clock.go(60)
        game = await arena.game(game.game_id)
        await wait_for(lambda: game.ended, "the time is over")


def _children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("leaving", ["ends", "closes"])
async def test_engines_end_with_their_games(opening: Opening, leaving: str) -> None:
    """Stockfish plays, and its process is gone when the game ends, or the arena closes."""
    before = {child.pid for child in _children()}
    async with opening.until() as arena:
        spec = {"name": "stockfish", "nodes": 50}
        game = await arena.create(of_players(spec, "external" if leaving == "closes" else "random", seed=1))
        await wait_for(lambda: game.state.move_history, "it has moved", 120)
        assert {child.pid for child in _children()} - before
        if leaving == "ends":
            await ended(game)
            assert game.state.result == "white_wins"
            await wait_for(lambda: not arena.driven, "the players have left")
    assert {child.pid for child in _children()} - before == set()


async def test_engines_that_misbehave(opening: Opening, tmp_path: Path) -> None:
    """An engine that is no engine ends in a recorded outcome."""
    program = tmp_path / "engine"
    program.write_text("#!/bin/sh\necho hello\nexit 3\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    arena = await opening(allow_programs=True)
    game = await ended(await arena.create(of_players(f"uci:{program}", "random")))
    assert (game.state.status, game.state.reason) == ("resigned", "abandoned")
    rejected = await effects(arena, game, "MoveRejected")
    assert all(each["payload"]["reason"] == "player_failed" for each in rejected)
    assert os.fspath(program) in str(rejected[0]["payload"]["detail"]) or rejected[0]["payload"]["detail"]
