"""The process of a UCI engine: python-chess's protocol, with bounds on what is read and a sure end.

The engine leads a session of its own, so that Ctrl-C in a terminal reaches it through us only, and so that whatever it
starts ends with it. It is killed by `EngineProcess.kill`, at the interpreter's exit, and, where ``setpriv`` is
installed (Linux), by the kernel when this process dies of SIGKILL.
"""

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
from typing import Final

import chess.engine

#: Bytes that an engine may write for one answer; an engine at work writes some kilobytes.
MOST_OUTPUT: Final = 4 << 20
#: Bytes of a line without an end, and of what is kept of stderr.
MOST_LINE: Final = 64 << 10
MOST_STDERR: Final = 400
#: Characters of an attempted move.
MOST_ANSWER: Final = 64
#: Seconds in which a killed process is gone; longer only if the kernel cannot end it.
KILLED_S: Final = 5.0
#: Seconds for reading what an engine wrote before it ended.
_DRAINING_S: Final = 1.0

#: All lines of a UCI engine that mean something here; it may say anything else (info, greetings) at any time.
_LINES: Final = re.compile(rb"^[ \t]*(id|option|uciok|readyok|bestmove)(?![^\s])([^\n]*)$", re.MULTILINE)

#: Engines that run: process id (which is their group's, too) -> the process that started them.
_running: Final[dict[int, int]] = {}


class EngineProcess(chess.engine.UciProtocol):
    """One engine process. What it writes without having been asked for it is dropped."""

    def __init__(self) -> None:
        super().__init__()
        #: the text after "bestmove" in the latest answer
        self.answer: str | None = None
        #: what was wrong with its output, so that it was killed
        self.fault: str | None = None
        self._expected: tuple[bytes, ...] = (b"id", b"option", b"uciok")
        self._received = 0
        self._rest = b""
        self._stderr = b""
        self._doomed = False

    async def launch(self, command: Sequence[str]) -> None:
        """Start the program. Raises OSError if that cannot be done."""
        loop = asyncio.get_running_loop()
        # The database's address and password are nothing for an engine.
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
        """Let the engine write again: its answer to the next request for a move."""
        self.answer = None
        self._expected = (b"readyok",)
        self._received = 0

    @property
    def is_searching(self) -> bool:
        """Whether the engine was told the position and owes a move."""
        return b"bestmove" in self._expected

    @property
    def said(self) -> str:
        """The end of what the engine wrote to stderr, on one line."""
        return " ".join(self._stderr[-MOST_STDERR:].decode("utf-8", "replace").split())

    # -- its end ---------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """Kill the process and all of its group, now. What waits for its answer gets EngineTerminatedError."""
        self._doomed = True
        if self.transport is None:
            return  # it ends as soon as there is one
        if self.transport.get_returncode() is not None:
            self.transport.close()
            return
        _kill_group(self.transport.get_pid())
        # Closing the transport itself would take the exit status away from the event loop's watcher.
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
                with suppress(Exception):  # nobody there to be asked
                    self.send_line("quit")
                await asyncio.wait([self.returncode], timeout=patience_s)
        finally:
            self.kill()
            if self.transport is not None:
                # Also for a caller that is cancelled: else its event loop may close before it was told of the end,
                # and before it told that the pipes are gone; nothing is left open.
                try:
                    await asyncio.wait([self.returncode], timeout=KILLED_S)
                finally:
                    self.kill()

    # -- called by the event loop ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of the process."""
        super().connection_made(transport)
        if self.transport is not None and self.transport.get_returncode() is None:
            _running[self.transport.get_pid()] = os.getpid()
        if self._doomed:
            self.kill()

    def process_exited(self) -> None:
        """End what the engine has started, and read what it wrote last, unless somebody else holds its pipes."""
        super().process_exited()
        if self.transport is None:
            return
        pid = self.transport.get_pid()
        if _running.pop(pid, None) is not None:
            _kill_group(pid)
        self.loop.call_later(_DRAINING_S, self.kill)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell those who wait, and leave nothing open."""
        super().connection_lost(exc)
        self.kill()

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        """Pass on whole lines that were asked for; kill an engine that writes without end."""
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
            text = f" {first}"  # what it would ponder on is nobody's concern
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
