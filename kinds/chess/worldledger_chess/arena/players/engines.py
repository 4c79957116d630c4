"""UCI engines as players."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from typing import Annotated, Final

import chess
import chess.engine
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from worldledger_chess.arena.players.base import Position
from worldledger_chess.arena.players.errors import PlayerError
from worldledger_chess.arena.players.processes import EngineProcess

#: Positions that an engine looks at for a move, unless depth or movetime are given.
DEFAULT_NODES: Final = 2000
#: Seconds between "quit" and SIGKILL.
PATIENCE_S: Final = 1.0

_Seconds = Annotated[float, Field(strict=True, gt=0, le=3600, allow_inf_nan=False)]


class EngineSettings(BaseModel):
    """How an engine plays.

    ``nodes``, ``depth`` (plies), ``movetime`` (seconds): how long it searches; 2000 nodes if none is given.
    ``timeout`` (seconds): after how long without a move it is ended; less if the game leaves less. ``options``: UCI
    options by name, set once after the start.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    nodes: Annotated[StrictInt, Field(ge=1, le=10**12)] | None = None
    depth: Annotated[StrictInt, Field(ge=1, le=1000)] | None = None
    movetime: _Seconds | None = None
    timeout: _Seconds = 30.0
    options: dict[str, StrictBool | StrictInt | StrictStr | None] = Field(default_factory=dict)

    def limit(self) -> chess.engine.Limit:
        """Return the limit of a search."""
        nodes = DEFAULT_NODES if self.nodes is self.depth is self.movetime is None else self.nodes
        return chess.engine.Limit(nodes=nodes, depth=self.depth, time=self.movetime)


class EnginePlayer:
    """A UCI engine, one process a player: started at the first move, ended by `close` and by every fault.

    Each move is asked as that of a new game (ucinewgame), the whole history being sent: an engine of one thread that
    is limited by nodes or depth so plays the same in the same position, whatever was before, and a game that is
    resumed by another process goes on as it would have here. UCI knows no seed.
    """

    def __init__(self, command: Sequence[str], settings: EngineSettings | None = None, *, name: str = "uci") -> None:
        self.name = name
        self._command = tuple(command)
        self._settings = EngineSettings() if settings is None else settings
        self._process: EngineProcess | None = None
        self._lock = asyncio.Lock()
        self._closed = False

    async def move(self, position: Position) -> str:
        """Return the engine's move as UCI; if it is none that is legal, the word that it sent after "bestmove".

        Raises PlayerError. Unless the answer was a legal move the process is ended, and the next call starts another.
        Raises ValueError for a position that cannot be read.
        """
        board = position.board()
        timeout = self._settings.timeout
        limit = timeout if position.remaining_s is None else max(0.0, min(timeout, position.remaining_s))
        async with self._lock:
            legal = False
            try:
                async with asyncio.timeout(limit):
                    text, legal = await self._attempt(board)
            except PlayerError:
                raise
            except TimeoutError:
                raise self._late(limit) from None
            except chess.engine.EngineTerminatedError as error:
                raise self._ended(error, board) from error
            except Exception as error:  # python-chess meets texts that it was not made for
                raise PlayerError(
                    self.name, "failed", f"{self._command[0]}: {error}", program=self._command[0]
                ) from error
            finally:
                if not legal:
                    await self._drop()
        return text

    async def close(self) -> None:
        """End the process: politely if it is idle, at once if it is to move."""
        self._closed = True
        if self._process is not None:
            await self._process.end(0.0 if self._lock.locked() else PATIENCE_S)
        async with self._lock:
            await self._drop()

    async def _attempt(self, board: chess.Board) -> tuple[str, bool]:
        """Return the engine's answer, and whether it is a legal move."""
        used = self._process
        if used is None or used.returncode.done():
            return await self._ask(await self._start(), board)
        try:
            return await self._ask(used, board)
        except chess.engine.EngineTerminatedError:
            if used.is_searching or used.fault is not None or self._closed:
                raise
        # It had ended before it was asked: no fault in this position.
        return await self._ask(await self._start(), board)

    async def _start(self) -> EngineProcess:
        await self._drop()
        if self._closed:
            raise PlayerError(self.name, "closed", "is closed and moves no more")
        program = self._command[0]
        process = self._process = EngineProcess()
        try:
            await process.launch(self._command)
            await process.initialize()
            await process.configure(self._settings.options)
        except chess.engine.EngineTerminatedError:
            raise
        except Exception as error:  # OSError, options that the engine does not have, what python-chess cannot read
            raise PlayerError(
                self.name, "cannot_start", f"{program} cannot be started: {error}", program=program
            ) from error
        return process

    async def _ask(self, process: EngineProcess, board: chess.Board) -> tuple[str, bool]:
        process.expect_move()
        try:
            result = await process.play(board, self._settings.limit(), game=object(), info=chess.engine.INFO_NONE)
        except chess.engine.EngineTerminatedError:
            raise
        except chess.engine.EngineError:
            if not process.answer:
                raise
            return process.answer, False
        if result.move is not None:
            return result.move.uci(), result.move in board.legal_moves
        if not process.answer:
            raise PlayerError(self.name, "no_move", f'{self._command[0]} sent "bestmove" without a move')
        return process.answer, False

    async def _drop(self) -> None:
        """End the process that there is, if any; the next move is another's."""
        process, self._process = self._process, None
        if process is not None:
            await process.end()

    def _late(self, limit: float) -> PlayerError:
        process, program = self._process, self._command[0]
        if process is not None and process.initialized:
            what = f"{program} gave no move within {limit:g} s and was ended; give it fewer nodes, or more time"
        else:
            what = (
                f'{program} was not ready within {limit:g} s and was ended: a UCI engine answers "uci" with "uciok", '
                "which can be tried in a shell"
            )
        return PlayerError(self.name, "timeout", what, program=program, seconds=limit)

    def _ended(self, error: chess.engine.EngineTerminatedError, board: chess.Board) -> PlayerError:
        """Tell why a process is gone that was to answer."""
        process, program = self._process, self._command[0]
        if self._closed:
            return PlayerError(self.name, "closed", "was closed while it was to move")
        if process is None:
            return PlayerError(self.name, "crashed", f"{program}: {error}", program=program)
        if process.fault is not None:
            return PlayerError(self.name, "rubbish", f"{program} {process.fault}, and was ended", program=program)
        code = process.transport.get_returncode() if process.transport is not None else None
        how = _how(code) + (f'; it said "{process.said}"' if process.said else "")
        if not process.initialized:
            what = f'{program} ended ({how}) before it said "uciok": is it a UCI engine, and made for this machine?'
            return PlayerError(self.name, "cannot_start", what, program=program, exit_code=code)
        what = f"{program} ended by itself ({how}) when it was to move in {board.fen()}"
        return PlayerError(self.name, "crashed", what, program=program, exit_code=code)


def _how(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
