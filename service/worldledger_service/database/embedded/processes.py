"""Processes: identifying the process of a pid, and ending a server with its supervisor.

A pid in a file proves little: it may have been given to another process since. Before acting on one, ``relation`` asks
the system what that process is.
"""

from __future__ import annotations

import ctypes
import enum
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from worldledger_service.database.embedded.accounts import CLEAN_ENVIRONMENT, Account, refusal, run_as

# The mark of our servers on their command lines, and in the process list.
CLUSTER_NAME: Final = "worldledger"

Guard = Literal["signal", "pipe"]
# Linux can signal a process when its parent dies; elsewhere a small watcher does it.
DEFAULT_GUARD: Final[Guard] = "signal" if sys.platform == "linux" else "pipe"

_PR_SET_PDEATHSIG: Final = 1


class Relation(enum.Enum):
    """The relation of a pid found in a file to us."""

    GONE = "gone"
    OURS = "ours"  # a server on this data folder, started by a supervisor
    FOREIGN = "foreign"  # a server on this data folder that was started in another way
    STRANGER = "stranger"  # an unrelated process that was given the same pid


def relation(pid: int, data: Path) -> Relation:
    """Return the relation of the process ``pid`` to the data folder."""
    command = _command_line(pid)
    if command is None:
        return Relation.GONE
    program = Path(command[0]).name if command else ""
    if program not in {"postgres", "postmaster"} or not _works_in(pid, command, data):
        return Relation.STRANGER
    return Relation.OURS if f"cluster_name={CLUSTER_NAME}" in command else Relation.FOREIGN


def _command_line(pid: int) -> list[str] | None:
    """Return a process's arguments; empty for one without any (a zombie), None if there is no such process."""
    if not _exists(pid):
        return None
    if Path("/proc/self/cmdline").exists():
        try:
            text = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return [] if _exists(pid) else None
        return [os.fsdecode(part) for part in text.rstrip(b"\0").split(b"\0") if part]
    account = Account("", os.geteuid(), os.getegid(), switch=False)
    answer = run_as(account, ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)])
    return answer.stdout.split() if answer.returncode == 0 else None


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True


def _works_in(pid: int, command: list[str], data: Path) -> bool:
    """Return whether a server's process works in the data folder: it changes to it, and -D names it."""
    try:
        return Path(f"/proc/{pid}/cwd").samefile(data)
    except OSError:
        # No /proc, or no permission: use the arguments. Joined, because ps gives no quotes around spaces.
        return f" -D {data} " in f" {' '.join(command)} "


# -- a server ends with its supervisor ---------------------------------------------------------------------


def launch(
    command: list[str],
    account: Account,
    *,
    output: int,
    environment: dict[str, str] | None = None,
    ends_with_us: signal.Signals | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program as the server's user, from ``/``, with its output going to the descriptor ``output``.

    With ``ends_with_us`` (Linux only) the kernel sends that signal to it when this process dies in any way. Call it
    from the main thread: the kernel watches the thread that started the program. Raises ``EmbeddedServerError`` if the
    program cannot be started.
    """
    try:
        return subprocess.Popen(  # noqa: S603 - the programs that binaries.py found, our own arguments
            command,
            cwd="/",
            env={**CLEAN_ENVIRONMENT, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # This process has one thread, so running Python between fork and exec is safe.
            preexec_fn=_death_signal(ends_with_us) if ends_with_us is not None else None,  # noqa: PLW1509
            **account.popen(),
        )
    except OSError as error:
        raise refusal(error, f"run as the user {account.name!r}", Path(command[0])) from error
    except subprocess.SubprocessError as error:
        raise refusal(OSError(0, str(error)), "start", Path(command[0])) from error


def _death_signal(number: signal.Signals) -> Callable[[], None]:
    """Return a function that the child runs just before exec.

    It runs after the change of user, which would have cleared the setting again (prctl(2), PR_SET_PDEATHSIG).
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def arm() -> None:
        # If the parent died before prctl, no signal will come.
        if prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0) != 0 or os.getppid() != parent:
            os._exit(127)

    return arm


class Watcher:
    """Sends SIGINT to a server when this process dies: for systems without a signal for that.

    A shell waits on a pipe that only this process can write to, and never does: the end of the pipe is our death.
    """

    def __init__(self, pid: int, account: Account) -> None:
        read_end, self._write_end = os.pipe()
        try:
            self._shell = subprocess.Popen(  # noqa: S603 - a fixed program
                ["/bin/sh", "-c", 'read -r nothing; kill -INT "$1"', "sh", str(pid)],
                cwd="/",
                env=CLEAN_ENVIRONMENT,
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                **account.popen(),
            )
        except OSError as error:
            os.close(self._write_end)
            raise refusal(error, "run", Path("/bin/sh")) from error
        finally:
            os.close(read_end)

    def dismiss(self) -> None:
        """End the watch without a signal; the server has ended (its pid may be reused soon)."""
        self._shell.kill()
        self._shell.wait()
        os.close(self._write_end)
