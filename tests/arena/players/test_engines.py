"""UCI engines that do what they shall."""

from __future__ import annotations

import asyncio
import stat
import sys
from pathlib import Path

import chess
import pytest
from worldledger_chess.arena.players import EnginePlayer, PlayerError, Position, make_player

from .conftest import FAKE, Engines, MakeFake, fake_command

START = Position.of(chess.Board())


def after(*moves: str, fen: str = chess.STARTING_FEN, chess960: bool = False) -> Position:
    """Return the position after some moves, as UCI."""
    board = chess.Board(fen, chess960=chess960)
    for move in moves:
        board.push_uci(move)
    return Position.of(board)


async def test_it_moves_and_ends_when_closed(fake: MakeFake, engines: Engines) -> None:
    """One process makes all moves of a player; close ends it, and may be called again."""
    player = fake("works", "e2e4", "g1f3")
    assert not engines.pids()
    assert await player.move(START) == "e2e4"
    assert await player.move(after("e2e4", "e7e5")) == "g1f3"
    assert len(engines.alive()) == 1
    await player.close()
    assert not engines.alive()
    await player.close()
    with pytest.raises(PlayerError) as caught:
        await player.move(START)
    assert caught.value.reason == "closed"


async def test_it_hears_the_whole_game_and_the_limit(fake: MakeFake, engines: Engines) -> None:
    """Every move is asked as that of a new game, with its history and the limit of the search."""
    player = fake("works", "e2e4", "g1f3")
    await player.move(START)
    await player.move(after("e2e4", "e7e5"))
    await player.close()
    wanted = ["ucinewgame", "isready", "position startpos", "go nodes 2000"]
    wanted += ["ucinewgame", "isready", "position startpos moves e2e4 e7e5", "go nodes 2000"]
    assert engines.heard() == ["uci", *wanted, "quit"]


@pytest.mark.parametrize(
    ("settings", "heard"),
    [
        ({"nodes": 7}, "go nodes 7"),
        ({"depth": 3}, "go depth 3"),
        ({"movetime": 0.25}, "go movetime 250"),
        ({"nodes": 5, "depth": 2}, "go depth 2 nodes 5"),
    ],
)
async def test_limits_of_the_search(fake: MakeFake, engines: Engines, settings: dict[str, float], heard: str) -> None:
    """Nodes, depth and time of a move are what is given; 2000 nodes are for those who give nothing."""
    player = fake("works", **settings)
    await player.move(START)
    await player.close()
    assert heard in engines.heard()


async def test_another_beginning(fake: MakeFake, engines: Engines) -> None:
    """A game from a FEN is sent as that FEN and its moves."""
    fen = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"
    player = fake("works", "e1d2")
    assert await player.move(after("e2e4", "e8e7", fen=fen)) == "e1d2"
    await player.close()
    assert f"position fen {fen} moves e2e4 e8e7" in engines.heard()


async def test_options_are_set(fake: MakeFake) -> None:
    """The options of the settings are sent after the start."""
    player = fake("tell_option", options={"Level": 4})
    assert await player.move(START) == "name_Level_value_4"
    await player.close()


async def test_options_that_it_does_not_have(fake: MakeFake) -> None:
    """An option that is not the engine's is an error that lists those that are."""
    player = fake("works", options={"Strength": 9})
    with pytest.raises(PlayerError, match=r"cannot be started: .*Strength.*available options: Level") as caught:
        await player.move(START)
    assert caught.value.reason == "cannot_start"
    await player.close()


async def test_chess960(fake: MakeFake, engines: Engines) -> None:
    """Castling in Chess960 is the king's move to its rook, both ways; an engine without Chess960 is told off."""
    position = after("h1g1", "h8g8", fen="1k2r2r/8/8/8/8/8/8/1K2R2R w Ee - 0 1", chess960=True)
    player = fake("chess960", "b1e1")
    assert await player.move(position) == "b1e1"
    await player.close()
    assert "setoption name UCI_Chess960 value true" in engines.heard()
    player = fake("works")
    with pytest.raises(PlayerError, match="does not support UCI_Chess960") as caught:
        await player.move(position)
    assert caught.value.reason == "failed"
    await player.close()


async def test_talk_is_not_taken_for_an_answer(fake: MakeFake) -> None:
    """Greetings, rubbish and answers to nothing are passed over, before the start and after it."""
    player = fake("talk_at_start", "d2d4")
    assert await player.move(START) == "d2d4"
    await player.close()


async def test_an_engine_that_ends_between_moves_is_started_again(fake: MakeFake, engines: Engines) -> None:
    """It is no fault to be gone when nobody asks: the next move is another process's."""
    player = fake("exit_after_move", "e2e4")
    for _ in range(3):
        assert await player.move(START) == "e2e4"
    await player.close()
    assert len(engines.pids()) == 3


@pytest.mark.usefixtures("impatient")
async def test_a_script_by_its_path(engines: Engines, tmp_path: Path) -> None:
    """A program is named as uci:PATH; one that starts another in its place, or below it, leaves nothing."""
    script = tmp_path / "an engine"
    script.write_text(f"#!/bin/sh\n{sys.executable} -I -S '{FAKE}' ignore_quit c2c4\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    player = make_player(f"uci:{script}", seed=1, allow_programs=True)
    assert await player.move(START) == "c2c4"
    assert len(engines.alive()) == 1
    await player.close()


async def test_the_database_is_no_business_of_an_engine(
    engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service's settings do not stand in the engine's environment; the rest does."""
    monkeypatch.setenv("WORLDLEDGER_DATABASE_URL", "postgresql://secret@nowhere/x")
    monkeypatch.setenv("PGPASSWORD", "secret")
    script = tmp_path / "engine"
    script.write_text(f'#!/bin/sh\nenv > "$FAKE_ENGINE/environment"\nexec {" ".join(fake_command("works"))}\n')
    script.chmod(0o700)
    player = EnginePlayer([str(script)])
    await player.move(START)
    await player.close()
    environment = (engines.folder / "environment").read_text()
    assert "secret" not in environment
    assert "FAKE_ENGINE=" in environment


async def test_moves_are_one_at_a_time(fake: MakeFake) -> None:
    """Two requests at once are answered one after the other."""
    player = fake("works", "e2e4", "d2d4")
    first, second = await asyncio.gather(player.move(START), player.move(START))
    assert (first, second) == ("e2e4", "d2d4")
    await player.close()


async def test_nothing_is_left_open(fake: MakeFake, engines: Engines) -> None:
    """Once `close` is done the event loop may end at once: the process's transport is closed, not to be closed."""
    player = fake("works", "e2e4")
    await player.move(START)
    process = player._process
    assert process is not None
    assert process.transport is not None
    await player.close()
    assert process.transport.is_closing()
    assert engines.wait_until_gone() == set()
