"""UCI engines that hang, crash and talk rubbish: an error or an attempted move, and never a process that is left."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import chess
import psutil
import pytest
from worldledger_chess.arena.players import EnginePlayer, EngineSettings, PlayerError, Position

from tests.warm import Process

from .conftest import GONE_S, Engines, MakeFake

START = Position.of(chess.Board())
#: A position for which an engine has a fifth of a second.
HASTE = Position.of(chess.Board(), remaining_s=0.2)


async def test_hanging_at_the_start(fake: MakeFake, engines: Engines) -> None:
    """An engine that does not answer at all is ended after its time-out; the error says what a UCI engine does."""
    player = fake("hang_at_start", timeout=0.2)
    with pytest.raises(PlayerError, match=r"was not ready within 0\.2 s .* answers \"uci\" with \"uciok\"") as caught:
        await player.move(START)
    assert (caught.value.reason, caught.value.details["player"]) == ("timeout", "fake")
    assert not engines.wait_until_gone()
    await player.close()


@pytest.mark.parametrize("behaviour", ["not_ready", "hang_at_go", "hang_with_child"])
async def test_hanging(fake: MakeFake, engines: Engines, behaviour: str) -> None:
    """An engine that gives no move in its time is ended, with all that it started; the error says what to do."""
    player = fake(behaviour, "e2e4", "never")
    assert await player.move(START) == "e2e4"
    with pytest.raises(PlayerError, match=r"gave no move within 0\.2 s and was ended; give it fewer nodes") as caught:
        await player.move(HASTE)
    assert caught.value.reason == "timeout"
    assert not engines.wait_until_gone()
    assert await player.move(START) == "e2e4"
    await player.close()


@pytest.mark.parametrize(
    ("behaviour", "reason", "said"),
    [
        ("crash_at_start", "cannot_start", r"exit code 3; it said \"no network file found\""),
        ("bad_option", "cannot_start", r"cannot be started|cannot be read|wheel"),
        ("flood_at_start", "rubbish", r"wrote megabytes that are no answer"),
        ("crash_at_go", "crashed", r"ended by itself \(SIGABRT; it said \"x+ segmentation\"\) .* in rnbqkbnr/"),
        ("leave_child", "crashed", r"ended by itself \(exit code 4\)"),
        ("half_a_line", "crashed", r"ended by itself \(exit code 0\)"),
        ("flood", "rubbish", r"wrote megabytes that are no answer"),
        ("flood_a_line", "rubbish", r"wrote a line that does not end"),
        ("say_nothing", "no_move", r"sent \"bestmove\" without a move"),
    ],
)
async def test_crashes_and_rubbish(fake: MakeFake, engines: Engines, behaviour: str, reason: str, said: str) -> None:
    """An engine that ends, or writes what is no answer, is an error that says what happened; asking again is safe."""
    player = fake(behaviour)
    for _ in range(2):
        with pytest.raises(PlayerError, match=said) as caught:
            await player.move(START)
        assert caught.value.reason == reason
        assert len(str(caught.value)) < 1000
    assert not engines.wait_until_gone()
    assert len(engines.pids()) >= 2
    await player.close()


@pytest.mark.parametrize(
    ("answer", "attempt"),
    [
        ("e2e5", "e2e5"),
        ("e7e5", "e7e5"),
        ("(none)", "(none)"),
        ("0000", "0000"),
        ("z9z9", "z9z9"),
        ("Nf3", "Nf3"),
        ("I resign", "I"),
        ("\x07\u2654" + "x" * 100, "\ufffd\u2654" + "x" * 62),
    ],
)
async def test_attempts_that_are_no_legal_moves(fake: MakeFake, answer: str, attempt: str) -> None:
    """What an engine sends as its move is given as it is, bounded and printable; then another process is asked."""
    player = fake("works", answer)
    assert await player.move(START) == attempt
    assert await player.move(START) == attempt
    await player.close()


async def test_a_flood_of_moves_is_one_move(fake: MakeFake) -> None:
    """The first move counts; what follows unasked is dropped, and not taken for the next answer."""
    player = fake("flood_bestmoves")
    assert await player.move(START) == "e2e4"
    await player.close()


async def test_no_time_left(fake: MakeFake) -> None:
    """A position with less time than the engine's own has that much."""
    player = fake("hang_at_go")
    for remaining in (0.2, 0.0, -1.0):
        with pytest.raises(PlayerError, match=f"within {max(0.0, remaining):g} s") as caught:
            await player.move(Position.of(chess.Board(), remaining_s=remaining))
        assert caught.value.reason == "timeout"
    await player.close()


@pytest.mark.parametrize("command", [["/nonexistent/engine"], ["/dev/null"], ["/"], ["a\0b"]])
async def test_programs_that_cannot_be_started(command: list[str]) -> None:
    """What is no program is an error of its own."""
    player = EnginePlayer(command)
    with pytest.raises(PlayerError) as caught:
        await player.move(START)
    assert caught.value.reason == "cannot_start"
    await player.close()


@pytest.mark.parametrize("behaviour", ["hang_at_start", "hang_at_go", "hang_with_child"])
async def test_cancelling(fake: MakeFake, engines: Engines, behaviour: str) -> None:
    """A cancelled move leaves no process when the cancellation comes back, and the player can be asked again."""
    player = fake(behaviour)
    move = asyncio.create_task(player.move(START))
    await _started(engines)
    move.cancel()
    with pytest.raises(asyncio.CancelledError):
        await move
    assert not engines.wait_until_gone()
    move = asyncio.create_task(player.move(START))
    await _started(engines)
    await player.close()
    with pytest.raises(PlayerError, match="closed"):
        await move


async def test_cancelling_again_and_again(fake: MakeFake, engines: Engines) -> None:
    """A move that is cancelled while its engine is being ended waits for that, and nothing is left open."""
    player = fake("hang_at_go")
    move = asyncio.create_task(player.move(START))
    await _started(engines)
    process = player._process
    assert process is not None
    while not move.done():
        move.cancel()
        await asyncio.sleep(0)
    assert process.transport is not None
    assert process.transport.is_closing()
    assert process.returncode.done()
    await player.close()


@pytest.mark.parametrize("turns", range(6))
async def test_cancelling_at_any_moment(fake: MakeFake, turns: int) -> None:
    """However far the start has come when a move is cancelled, nothing is left."""
    player = fake("hang_at_go")
    move = asyncio.create_task(player.move(START))
    for _ in range(turns):
        await asyncio.sleep(0)
    move.cancel()
    await asyncio.wait([move])
    assert move.cancelled()
    await player.close()


@pytest.mark.parametrize("turns", [0, 1, 2, 4, None])
async def test_closing_while_it_is_to_move(fake: MakeFake, engines: Engines, turns: int | None) -> None:
    """Closing ends a move that is going on, at any moment: whoever waits for it hears that the player was closed."""
    player = fake("hang_at_go")
    move = asyncio.create_task(player.move(START))
    if turns is None:
        await _started(engines)
    for _ in range(turns or 0):
        await asyncio.sleep(0)
    await player.close()
    with pytest.raises(PlayerError) as caught:
        await move
    assert caught.value.reason == "closed"
    assert not engines.alive()


@pytest.mark.usefixtures("impatient")
async def test_an_engine_that_ignores_quit_is_killed(fake: MakeFake, engines: Engines) -> None:
    """Closing waits a moment for the engine to end, and then ends it."""
    player = fake("ignore_quit")
    await player.move(START)
    await player.close()
    assert not engines.alive()


_SCRIPT = """
import asyncio, os, sys, chess
from worldledger_chess.arena.players import EnginePlayer, EngineSettings, Position
async def main():
    player = EnginePlayer(sys.argv[1:], EngineSettings())
    await player.move(Position.of(chess.Board()))
asyncio.run(main())
"""
_UVLOOP = _SCRIPT.replace("asyncio.run(main())", "import uvloop; uvloop.run(main())")
_EXITS = _SCRIPT.replace(
    "    await player",
    """    def leave():
        if any(name.isdigit() for name in os.listdir(os.environ["FAKE_ENGINE"])):
            sys.exit(9)
        asyncio.get_running_loop().call_later(0.05, leave)
    leave()
    await player""",
)


@pytest.mark.parametrize(
    ("script", "number"),
    [(_SCRIPT, signal.SIGINT), (_UVLOOP, signal.SIGINT), (_SCRIPT, signal.SIGKILL), (_EXITS, None)],
    ids=["ctrl_c", "ctrl_c_uvloop", "killed", "sys_exit"],
)
def test_the_end_of_this_process(
    fake: MakeFake, engines: Engines, tmp_path: Path, script: str, number: signal.Signals | None
) -> None:
    """Ctrl-C, exit and even SIGKILL of the process that plays end an engine that hears nothing any more."""
    if number is signal.SIGKILL and shutil.which("setpriv") is None:
        pytest.skip("no setpriv here (util-linux): only its end of input tells an engine that we were killed")
    program = tmp_path / "playing.py"
    program.write_text(script)
    with open(os.devnull, "r+b") as nothing:  # noqa: PTH123 - no path of ours
        streams = (nothing.fileno(),) * 3
        playing = Process(fake("hang_at_go")._command, streams, os.environ, program=program)
    try:
        patience = time.monotonic() + GONE_S
        while not engines.pids() and time.monotonic() < patience:
            time.sleep(0.01)
        assert engines.pids()
        if number is not None:
            playing.send_signal(number)
        playing.wait(GONE_S)
    finally:
        playing.end()
    assert not engines.wait_until_gone()


@pytest.mark.usefixtures("impatient")
def test_uvloop(fake: MakeFake, engines: Engines) -> None:
    """The service's event loop ends engines as well: idle ones, hanging ones and those with children."""
    uvloop = pytest.importorskip("uvloop")

    async def play() -> None:
        good, bad = fake("ignore_quit"), fake("hang_with_child", "d2d4", "never")
        assert await good.move(START) == "e2e4"
        assert await bad.move(START) == "d2d4"
        with pytest.raises(PlayerError, match="gave no move"):
            await bad.move(HASTE)
        crash, gone = fake("crash_at_go"), fake("leave_child")
        for player in (crash, gone):
            with pytest.raises(PlayerError, match="ended by itself"):
                await player.move(START)
        before = engines.alive()
        move = asyncio.create_task(fake("hang_at_start").move(START))
        while engines.alive() == before:
            await asyncio.sleep(0.01)
        move.cancel()
        await asyncio.wait([move])
        await asyncio.gather(good.close(), bad.close(), crash.close(), gone.close())

    uvloop.run(play())
    assert len(engines.pids()) >= 6
    assert not engines.wait_until_gone()


@pytest.mark.usefixtures("impatient")
async def test_nothing_is_left_open(fake: MakeFake) -> None:
    """After all this no descriptor of an engine is open."""
    before = psutil.Process().num_fds()
    for behaviour in ("works", "crash_at_go", "leave_child", "flood", "ignore_quit"):
        player = EnginePlayer(fake(behaviour)._command, EngineSettings(timeout=20.0))
        with suppress(PlayerError):
            await player.move(START)
        await player.close()
    await asyncio.sleep(0)
    assert psutil.Process().num_fds() <= before


async def _started(engines: Engines) -> None:
    """Wait until an engine runs."""
    patience = time.monotonic() + GONE_S
    while not engines.alive() and time.monotonic() < patience:
        await asyncio.sleep(0.01)
    assert engines.alive()
