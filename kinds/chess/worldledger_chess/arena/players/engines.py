"""UCI engines as players."""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Final

import chess
import chess.engine
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from worldledger.aio import until_done
from worldledger_chess.arena.players.base import PlayerError, Position

# -- the process of a UCI engine: python-chess's protocol, with bounded output and a guaranteed end --------------
#
# The engine leads a session of its own, so that Ctrl-C in a terminal reaches it only through this program, and so that
# the processes it starts end with it. It is killed by `EngineProcess.kill`, at the interpreter's exit, and, where
# ``setpriv`` is installed (Linux), by the kernel when this process dies of SIGKILL.

#: Bytes that an engine may write for one answer; a working engine writes some kilobytes.
MOST_OUTPUT: Final = 4 << 20
#: Bytes of a line without an end, and of what is kept of stderr.
MOST_LINE: Final = 64 << 10
MOST_STDERR: Final = 400
#: Most characters of an attempted move.
MOST_ANSWER: Final = 64
#: Seconds after which a killed process is gone; it takes longer only if the kernel cannot end it.
KILLED_S: Final = 5.0
#: Seconds for reading what an engine wrote before it ended.
_DRAINING_S: Final = 1.0

#: The lines of a UCI engine that are used; it may write anything else (info, greetings) at any time.
_LINES: Final = re.compile(rb"^[ \t]*(id|option|uciok|readyok|bestmove)(?![^\s])([^\n]*)$", re.MULTILINE)

#: Running engines: process id (also their group's) -> the process that started them.
_running: Final[dict[int, int]] = {}


class EngineProcess(chess.engine.UciProtocol):
    """One engine process. Unrequested output is dropped."""

    def __init__(self) -> None:
        super().__init__()
        #: the text after "bestmove" in the latest answer
        self.answer: str | None = None
        #: the fault in its output for which it was killed
        self.fault: str | None = None
        self._expected: tuple[bytes, ...] = (b"id", b"option", b"uciok")
        self._received = 0
        self._rest = b""
        self._stderr = b""
        self._doomed = False

    async def launch(self, command: Sequence[str]) -> None:
        """Start the program. Raises OSError if that fails."""
        loop = asyncio.get_running_loop()
        # An engine does not get the database's address and password.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("WORLDLEDGER_", "PG"))}
        guard = shutil.which("setpriv") if sys.platform == "linux" else None
        ends_with_us = [] if guard is None else [guard, "--pdeathsig", "KILL", "--"]
        try:
            await loop.subprocess_exec(
                lambda: self,
                *ends_with_us,
                *command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except BaseException:
            self.kill()
            raise

    def expect_move(self) -> None:
        """Accept output of the engine again: its answer to the next request for a move."""
        self.answer = None
        self._expected = (b"readyok",)
        self._received = 0

    @property
    def is_searching(self) -> bool:
        """True if the engine was given the position and owes a move."""
        return b"bestmove" in self._expected

    @property
    def said(self) -> str:
        """The end of what the engine wrote to stderr, on one line."""
        return " ".join(self._stderr[-MOST_STDERR:].decode("utf-8", "replace").split())

    # -- its end ---------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """Kill the process and all of its group, now. A waiting request gets EngineTerminatedError."""
        self._doomed = True
        if self.transport is None:
            return  # it ends as soon as there is one
        if self.transport.get_returncode() is not None:
            self.transport.close()
            return
        _kill_group(self.transport.get_pid())
        # Closing the transport itself would take the exit status from the event loop's watcher.
        for fd in (0, 1, 2):
            pipe = self.transport.get_pipe_transport(fd)
            if pipe is None or pipe.is_closing():
                continue
            if isinstance(pipe, asyncio.WriteTransport):
                pipe.abort()
            else:
                pipe.close()

    async def end(self, patience_s: float = 0.0) -> None:
        """End the process: ask it to quit, wait for ``patience_s`` seconds, kill it, and wait until it is gone."""
        try:
            if self.transport is not None and not self._doomed and patience_s > 0 and not self.returncode.done():
                with suppress(Exception):  # it may be gone already
                    self.send_line("quit")
                await asyncio.wait([self.returncode], timeout=patience_s)
        finally:
            self.kill()
            if self.transport is not None:
                # Also for a caller that is cancelled: otherwise its event loop may close before the process has ended
                # and its pipes are closed; nothing is left open.
                try:
                    await until_done([self.returncode], KILLED_S)
                finally:
                    self.kill()

    # -- called by the event loop ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the process."""
        super().connection_made(transport)
        if self.transport is not None and self.transport.get_returncode() is None:
            _running[self.transport.get_pid()] = os.getpid()
        if self._doomed:
            self.kill()

    def process_exited(self) -> None:
        """End what the engine has started, and read its last output, unless another process holds its pipes."""
        super().process_exited()
        if self.transport is None:
            return
        pid = self.transport.get_pid()
        if _running.pop(pid, None) is not None:
            _kill_group(pid)
        self.loop.call_later(_DRAINING_S, self.kill)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake waiting calls, and leave nothing open."""
        super().connection_lost(exc)
        self.kill()

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        """Pass on requested lines; kill an engine that writes without end."""
        if self._doomed or isinstance(data, str):
            return
        if fd == 2:
            self._stderr = (self._stderr + data)[-MOST_LINE:]
            return
        self._received += len(data)
        whole, newline, rest = data.rpartition(b"\n")
        block, self._rest = (self._rest + whole, rest) if newline else (b"", self._rest + rest)
        if self._received > MOST_OUTPUT or len(self._rest) > MOST_LINE:
            self._blame("wrote megabytes that are no answer" if newline else "wrote a line that does not end")
            return
        try:
            for line in _LINES.finditer(block):
                self._take(line[1], line[2])
        except Exception as error:  # noqa: BLE001 - python-chess meets texts that it was not made for
            self._blame(f"wrote what cannot be read: {type(error).__name__}: {error}")

    def _take(self, word: bytes, rest: bytes) -> None:
        if word not in self._expected:
            return
        text = rest.decode("utf-8", "replace")
        if word == b"bestmove":
            first = (text.split() or [""])[0]
            self.answer = "".join(char if char.isprintable() else "\ufffd" for char in first[:MOST_ANSWER])
            text = f" {first}"  # the move to ponder on is not used
        if word in {b"uciok", b"readyok", b"bestmove"}:
            self._expected = (b"bestmove",) if word == b"readyok" else ()
        super().pipe_data_received(1, word + text.rstrip("\r").encode() + b"\n")

    def _blame(self, what: str) -> None:
        self.fault = what
        self.kill()


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


@atexit.register
def _kill_all() -> None:
    for pid, owner in list(_running.items()):
        if owner == os.getpid():  # a fork of ours has none
            _kill_group(pid)


#: Positions that an engine searches for a move, unless depth or movetime are given.
DEFAULT_NODES: Final = 2000
#: Seconds between "quit" and SIGKILL.
PATIENCE_S: Final = 1.0

_Seconds = Annotated[float, Field(strict=True, gt=0, le=3600, allow_inf_nan=False)]


class EngineSettings(BaseModel):
    """The settings of an engine.

    ``nodes``, ``depth`` (plies), ``movetime`` (seconds): how long it searches; 2000 nodes if none is given. ``timeout``
    (seconds): after this time without a move it is ended; earlier if the game leaves less. ``options``: UCI options by
    name, set once after the start.
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
    """A UCI engine, one process for each player: started at the first move, ended by `close` and by every fault.

    Each move is requested as that of a new game (ucinewgame) with the whole history: so an engine with one thread and a
    limit of nodes or depth plays the same in the same position, whatever was before, and a game that another process
    resumes goes on as it would have here. UCI has no seed.
    """

    def __init__(self, command: Sequence[str], settings: EngineSettings | None = None, *, name: str = "uci") -> None:
        self.name = name
        self._command = tuple(command)
        self._settings = EngineSettings() if settings is None else settings
        self._process: EngineProcess | None = None
        self._lock = asyncio.Lock()
        self._closed = False

    async def move(self, position: Position) -> str:
        """Return the engine's move as UCI; if it is not legal, the word that it sent after "bestmove".

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
            except Exception as error:  # python-chess fails on texts that it was not made for
                raise PlayerError(
                    self.name, "failed", f"{self._command[0]}: {error}", program=self._command[0]
                ) from error
            finally:
                if not legal:
                    await self._drop()
        return text

    async def close(self) -> None:
        """Stop the process: politely if it is idle, at once if it is to move."""
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
        # It had ended before the request: not a fault in this position.
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
        """Stop the process, if there is one; the next move starts another."""
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
        """Return the reason why a process that owed an answer is gone."""
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
