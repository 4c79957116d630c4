"""A PostgreSQL of our own, under a folder: real, durable, and running only while it is used.

``attach(home)`` returns a running server. The first user sets up the data folder and starts a supervisor (a process in
a session of its own); later users attach to it at once; it stops some seconds after the last one has detached. fsync
stays on: an acknowledged row survives a kill of any of the processes.

``home.py`` and ``place.py`` describe the content of a home, and why data can be elsewhere; ``supervisor.py`` describes
the locks. The wheel's own ``get_server`` is not used, because it opens parent folders to everyone, fails on spaces in
the path and can kill unrelated processes; only the wheel's programs are used.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import quote

from worldledger.errors import EmbeddedServerError
from worldledger_service.database.embedded import place
from worldledger_service.database.embedded.home import USER, FileLock, Home, ServerState, open_home

__all__ = ["EmbeddedServer", "ServerState", "attach", "remove", "status", "stop"]


@dataclass(frozen=True)
class EmbeddedServer:
    """A running server, and how to log in.

    ``host`` is the folder of its Unix socket and ``port`` the number in the socket's name (and the TCP port on
    127.0.0.1 if one was asked for, ``tcp_port``); ``version`` is PostgreSQL's major version. The process ids are
    those at the time of attaching: a server that is killed comes back with another pid, at the same address.
    """

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    data_dir: Path
    version: int
    supervisor_pid: int
    postmaster_pid: int | None
    tcp_port: int | None = None

    def url(self) -> str:
        """Return the address as a URL, for asyncpg by default, for SQLAlchemy with ``postgresql+asyncpg``."""
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
        where = f"host={quote(self.host, safe='')}&port={self.port}"
        return f"postgresql://{login}@/{quote(self.database, safe='')}?{where}"


@contextmanager
def attach(
    home: Path,
    *,
    linger: float = 3.0,
    start_timeout: float = 60.0,
    database: str = "worldledger",
    tcp_port: int | None = None,
    bin_dir: Path | None = None,
    keep: bool = False,
) -> Iterator[EmbeddedServer]:
    """Use the embedded server of ``home`` for the length of a ``with`` block.

    It may be called from a coroutine or a notebook too. It blocks until the server answers, which takes seconds if it
    has to be started: an event loop in this thread stands still meanwhile.

    The home and the database are created if missing. ``linger`` (seconds without users before the server stops),
    ``tcp_port`` (listen on 127.0.0.1 too) and ``bin_dir`` (a folder of PostgreSQL programs to use instead of those that
    are found) apply if this call starts the server; a running one keeps its own, and a ``tcp_port`` that it does not
    have is refused. ``start_timeout`` (seconds) covers everything until the server answers.

    Any number of processes may do this at once, and nest it. If the supervisor is killed the server ends with it;
    attach again to start it again, or use ``keep`` to have it watched in the background, for as long as the block runs,
    and started again at the same address. Raises ``EmbeddedServerError``.
    """
    # The supervisor, which loads this package, does not need these.
    from worldledger_service.database.embedded.client import (  # noqa: PLC0415
        Keeper,
        Starter,
        take_share,
    )

    deadline = time.monotonic() + start_timeout
    found = open_home(home)
    with FileLock(found.users_lock) as users:
        take_share(users, deadline, found)
        start = partial(Starter, found, linger=linger, bin_dir=bin_dir)
        state = start(tcp_port=tcp_port, deadline=deadline).wait(database)
        server = EmbeddedServer(
            host=state.socket_dir,
            port=state.port,
            user=USER,
            password=found.password() or "",
            database=database,
            data_dir=place.located(found) / "data",
            version=state.major,
            supervisor_pid=state.supervisor_pid,
            postmaster_pid=state.postmaster_pid,
            tcp_port=state.tcp_port,
        )

        def start_again(deadline: float, leaving: threading.Event) -> Starter:
            return start(tcp_port=state.tcp_port, deadline=deadline, leaving=leaving)

        try:
            with Keeper(found, users, start_again, database) if keep else nullcontext():
                yield server
        finally:
            with suppress(OSError):
                users.touch()  # the linger begins now


def status(home: Path) -> ServerState | None:
    """Return the state of the server of ``home``; None if it does not run. Starts and creates nothing.

    Raises ``EmbeddedServerError`` when the home cannot be read.
    """
    try:
        found = open_home(home, create=False)
    except FileNotFoundError:
        return None
    return found.read_state() if _supervised(found) else None


def _supervised(home: Home) -> bool:
    if not home.supervisor_lock.exists():
        return False
    with FileLock(home.supervisor_lock) as lock:
        return not lock.try_shared()


def stop(home: Path, *, timeout: float = 60.0) -> bool:
    """Stop the server of ``home`` in order, even with users; return whether there was one.

    Raises ``EmbeddedServerError`` when it has not stopped after ``timeout`` seconds, or is another user's.
    """
    deadline = time.monotonic() + timeout
    told: int | None = None
    while True:
        state = status(home)
        if state is None and not _runs(home):
            return told is not None
        if state is not None and state.supervisor_pid != told:
            if told is not None:
                return True  # it has stopped, and a user that came since has started another
            try:
                os.kill(state.supervisor_pid, signal.SIGTERM)
            except PermissionError as error:
                raise EmbeddedServerError(
                    f"the supervisor of {home} (pid {state.supervisor_pid}) belongs to another user: run this as root"
                    " or as that user",
                    home=str(home),
                ) from error
            except ProcessLookupError:
                pass  # it has just ended
            told = state.supervisor_pid
        if time.monotonic() > deadline:
            raise EmbeddedServerError(
                f"the PostgreSQL of {home} did not stop within {timeout:g} s: see the logs under {home / 'logs'}",
                home=str(home),
            )
        time.sleep(0.02)


def _runs(home: Path) -> bool:
    try:
        return _supervised(open_home(home, create=False))
    except FileNotFoundError:
        return False


def remove(home: Path, *, timeout: float = 10.0) -> None:
    """Delete the database of ``home`` permanently, including data outside it; logs and lock files stay.

    A server without users is stopped first. Raises ``EmbeddedServerError`` if it is still used after ``timeout``
    seconds, or cannot be deleted.
    """
    try:
        found = open_home(home, create=False)
    except FileNotFoundError:
        return
    with FileLock(found.users_lock) as users:
        deadline = time.monotonic() + timeout
        while not users.try_exclusive():
            if time.monotonic() > deadline:
                raise EmbeddedServerError(f"the PostgreSQL of {home} is in use: end its users first", home=str(home))
            time.sleep(0.02)
        stop(found.path)
        with FileLock(found.supervisor_lock) as lock:
            if not lock.try_exclusive():
                raise EmbeddedServerError(f"the PostgreSQL of {home} is being started", home=str(home))
            place.remove(found)
