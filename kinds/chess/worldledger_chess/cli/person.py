"""A person who plays at this terminal: boards and questions on stderr, moves from stdin."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import uuid
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from worldledger_service.cli.output import plain

from worldledger.errors import IllegalEffectError, SimulationError
from worldledger_chess.arena.attempts import read_attempt
from worldledger_chess.cli.games import board_lines

if TYPE_CHECKING:
    from worldledger_chess.arena import LiveGame

_RESIGN = "resign"
_MOST_BYTES = 4096


class Person:
    """Moves by what is typed. What is no legal move is said, and asked again: it is no attempt."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._reading: threading.Thread | None = None

    async def play(self, game: LiveGame, agents: Collection[str]) -> None:
        """Make the moves of these agents until the game has ended. Raises SimulationError if nothing more is typed."""
        while True:
            await game.turn_of(*agents)
            record = game.record
            if not record.in_progress:
                return
            agent, colour, ply = record.agent(record.turn), record.turn, record.ply + 1
            for line in board_lines(record.entities):
                _tell("".join(text for text, _ in line) + "\n")
            _tell(f"ply {ply}: your move, {colour} ({_RESIGN} gives up)? ")
            text = (await self._line(game)).strip()
            try:
                if text == _RESIGN:
                    await game.resign(agent, req_id=uuid.uuid4().hex)
                elif (why := read_attempt(game.board, text).why) != "":
                    _tell(f"{plain(text)}: {why}\n")
                else:
                    await game.move(agent, text, req_id=uuid.uuid4().hex, ply=ply)
            except IllegalEffectError:  # the game has gone on or ended meanwhile
                await game.catch_up()

    async def _line(self, game: LiveGame) -> str:
        if self._reading is None:
            # Not by the event loop's own threads, which are waited for at the end, and not by sys.stdin, whose lock
            # would be held then.
            loop = asyncio.get_running_loop()
            self._reading = threading.Thread(target=self._read, args=(loop,), daemon=True)
            self._reading.start()
        line = await self._lines.get()
        if line is None:
            self._lines.put_nowait(None)
            _tell("\n")
            what = f"nothing more is typed: the game {game.game_id} waits for a move"
            raise SimulationError(what, game_id=game.game_id)
        return line

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        def put(line: bytes | None) -> None:
            text = None if line is None else line.decode(errors="replace")
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._lines.put_nowait, text)

        rest = b""
        with suppress(OSError):
            while chunk := os.read(sys.stdin.fileno(), _MOST_BYTES):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    put(line)
        if rest:
            put(rest)
        put(None)


def _tell(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
