"""The user's side: find the home's server, or start its supervisor, and wait until it answers.

See ``supervisor.py`` for the protocol of the two locks.
"""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import structlog

import worldledger.errors
from worldledger.errors import EmbeddedServerError
from worldledger_service.database.embedded.accounts import refusal
from worldledger_service.database.embedded.home import USER, FileLock, Home, ServerState, log_size, log_tail
from worldledger_service.running import run_blocking

# Seconds between two checks of a lock or of the server's state.
_LOOK_SECONDS: Final = 0.02

# Most supervisors of one user that may end without a message before it gives up.
_STARTS: Final = 3


def take_share(users: FileLock, deadline: float, home: Home) -> None:
    """Take the users' lock; if a supervisor is just stopping, wait for it."""
    while not users.try_shared():
        if time.monotonic() > deadline:
            raise EmbeddedServerError(
                f"the PostgreSQL of {home.path} is being stopped, and does not come to an end: see {home.server_log}",
                home=str(home.path),
            )
        time.sleep(_LOOK_SECONDS)
    users.touch()


class Starter:
    """Waits for a home's server, and starts its supervisor if there is none. The users' lock is held."""

    def __init__(
        self,
        home: Home,
        *,
        linger: float,
        tcp_port: int | None,
        bin_dir: Path | None,
        deadline: float,
        leaving: threading.Event | None = None,
    ) -> None:
        self._home = home
        self._linger = linger
        self._tcp_port = tcp_port
        self._bin_dir = bin_dir
        self._deadline = deadline
        self._leaving = leaving
        self._report: int | None = None
        self._mark = 0
        self._starts = 0
        self._server_mark = log_size(home.server_log)
        self._trouble = ""

    def wait(self, database: str) -> ServerState:
        """Return the state of a server that answers and has the database (created if missing).

        Raises ``EmbeddedServerError``, with the supervisor's reason if this process started it.
        """
        try:
            while True:
                self._start_if_none()
                state = self._home.read_state()
                if state is not None and state.state == "ready":
                    self._check_port(state)
                    # The state before and after the answer is the same: this server answered.
                    if self._answers(state, database) and self._home.read_state() == state:
                        return state
                if self._report is None:
                    time.sleep(_LOOK_SECONDS)
                else:
                    self._hear_report(_LOOK_SECONDS)
                if time.monotonic() > self._deadline:
                    raise self._too_late(state)
                if self._leaving is not None and self._leaving.is_set():
                    raise EmbeddedServerError("nobody waits for the server any more", home=str(self._home.path))
        finally:
            self._close_report()

    # -- starting ------------------------------------------------------------------------------------------

    def _start_if_none(self) -> None:
        lock = FileLock(self._home.supervisor_lock)
        try:
            if not lock.try_exclusive():
                return
            # The supervisor that this process started, if it did, has ended, perhaps with a reason.
            self._hear_report(max(0.0, self._deadline - time.monotonic()))
            self._starts += 1
            if self._starts > _STARTS:
                said = log_tail(self._home.supervisor_log, self._mark)
                raise EmbeddedServerError(
                    f"the supervisor of PostgreSQL ended {_STARTS} times without a reason; the last lines of"
                    f" {self._home.supervisor_log}: {said or '(none)'}",
                    home=str(self._home.path),
                )
            self._home.delete("server.json")  # published by a supervisor that was killed
            self._spawn(lock)
        finally:
            lock.forget()  # the supervisor, if there is one now, keeps it

    def _spawn(self, lock: FileLock) -> None:
        self._close_report()
        self._report, theirs = os.pipe()
        self._home.rotate_logs()
        self._mark = log_size(self._home.supervisor_log)
        log = self._home.open_log(self._home.supervisor_log)
        command = [
            sys.executable,
            "-m",
            "worldledger_service.database.embedded.supervisor",
            "--home",
            str(self._home.path),
        ]
        command += ["--linger", str(self._linger), "--lock-fd", str(lock.fd), "--report-fd", str(theirs), "--detach"]
        if self._tcp_port is not None:
            command += ["--tcp-port", str(self._tcp_port)]
        if self._bin_dir is not None:
            command += ["--bin-dir", str(self._bin_dir)]
        try:
            code = subprocess.Popen(  # noqa: S603 - this very interpreter, our own module
                command,
                cwd="/",
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(lock.fd, theirs),
            ).wait()
        except OSError as error:
            raise refusal(error, "run", Path(sys.executable)) from error
        finally:
            os.close(theirs)
            os.close(log)
        if code != 0:
            raise EmbeddedServerError(
                f"the supervisor of PostgreSQL could not be started (code {code}):"
                f" {log_tail(self._home.supervisor_log, self._mark, lines=3)}",
                home=str(self._home.path),
            )

    def _hear_report(self, seconds: float) -> None:
        """Wait up to this long for the supervisor that this process started to report its failure, and raise it."""
        if self._report is not None and select.select([self._report], [], [], seconds)[0]:
            with os.fdopen(self._report, "rb") as pipe:
                self._report = None
                text = pipe.read().decode("utf-8", errors="replace")
            if text:
                raise EmbeddedServerError(text, home=str(self._home.path), log=str(self._home.supervisor_log))

    def _close_report(self) -> None:
        if self._report is not None:
            os.close(self._report)
            self._report = None

    # -- the server ----------------------------------------------------------------------------------------

    def _check_port(self, state: ServerState) -> None:
        if self._tcp_port is not None and state.tcp_port != self._tcp_port:
            runs = "without TCP" if state.tcp_port is None else f"at TCP port {state.tcp_port}"
            raise EmbeddedServerError(
                f"the PostgreSQL of {self._home.path} is in use {runs}, so TCP port {self._tcp_port} cannot be had"
                " now: let its users end first, or do without that port",
                home=str(self._home.path),
            )

    def _answers(self, state: ServerState, database: str) -> bool:
        password = self._home.password()
        if password is None:
            return False
        # A separate loop, which leaves the thread's current one as it is; the caller may be a coroutine.
        return run_blocking(self._connect(state, password, database), loop_factory=asyncio.new_event_loop)

    async def _connect(self, state: ServerState, password: str, database: str) -> bool:
        """Return whether the server answers and has the database; create the database if not."""
        import asyncpg  # noqa: PLC0415 - the supervisor imports this package and needs no driver

        passing = (  # the server is being started, or started again, or is full for the moment
            asyncpg.OperatorInterventionError,
            asyncpg.PostgresConnectionError,
            asyncpg.TooManyConnectionsError,
            asyncpg.InterfaceError,
            OSError,  # includes TimeoutError
        )
        login: dict[str, Any] = {"host": state.socket_dir, "port": state.port, "user": USER, "password": password}
        login |= {"timeout": max(1.0, self._deadline - time.monotonic()), "ssl": False}
        try:
            try:
                connection = await asyncpg.connect(database=database, **login)
            except asyncpg.InvalidCatalogNameError:
                connection = await asyncpg.connect(database="postgres", **login)
                try:
                    await connection.execute(f"CREATE DATABASE {_quoted(database)}")
                finally:
                    await connection.close()
                return False  # the next check connects to it
            await connection.close()
        except (asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
            return False  # another process was first
        except passing as error:
            self._trouble = str(error) or type(error).__name__
            return False
        except asyncpg.InvalidAuthorizationSpecificationError as error:
            raise EmbeddedServerError(
                f"the PostgreSQL of {self._home.path} refuses the password in {self._home.path / 'password'}"
                f" ({error}): delete that file while nobody uses the server, and run this again to get a new one",
                home=str(self._home.path),
            ) from error
        except asyncpg.PostgresError as error:
            raise EmbeddedServerError(
                f"the PostgreSQL of {self._home.path} cannot give the database {database!r}: {error}",
                home=str(self._home.path),
            ) from error
        return True

    def _too_late(self, state: ServerState | None) -> EmbeddedServerError:
        what = "has not told its state" if state is None else f"is {state.state}"
        trouble = self._trouble or log_tail(self._home.server_log, self._server_mark, lines=1) or "none"
        return EmbeddedServerError(
            f"the PostgreSQL of {self._home.path} did not answer in time (it {what}; last words: {trouble}). If it"
            f" recovers from a crash it goes on doing so: run this again later; its log is {self._home.server_log}",
            home=str(self._home.path),
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _environment() -> dict[str, str]:
    """Return the supervisor's environment: it must find our packages, however they came onto our path."""
    environment = dict(os.environ)
    ours = [str(path.resolve()) for path in (Path(worldledger.__file__).parents[1], Path(__file__).parents[3])]
    roots = [root for root in ours if root not in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}]
    if roots:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (*roots, environment.get("PYTHONPATH"))))
    return environment


# -- the keeper: a long-lived user's watch over the supervisor, which starts it again if it was killed ----
#
# A supervisor that ends in order (SIGTERM, ``stop``) removes ``server.json``; one that was killed, or could not keep
# the server for the time being, leaves it behind. The keeper acts only in the latter case, so that an ordered stop is
# final. The address stays the same, and connection pools recover by themselves.


# All in seconds.
_WATCH_SECONDS: Final = 0.5
_ATTEMPT_SECONDS: Final = 60.0  # for one attempt to have the server back
_END_SECONDS: Final = 5.0  # for the thread to end

log = structlog.get_logger("worldledger.embedded")


class Keeper:
    """Watches from a thread of its own, for as long as the block runs. The users' lock is held meanwhile."""

    def __init__(
        self, home: Home, users: FileLock, starter: Callable[[float, threading.Event], Starter], database: str
    ) -> None:
        """Keep the supervisor of ``home``; ``starter`` takes a deadline and an event that tells it to give up."""
        self._home = home
        self._users = users
        self._starter = starter
        self._database = database
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="worldledger-keeper", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.set()
        self._thread.join(_END_SECONDS)

    def _watch(self) -> None:
        failing = False
        while not self._leaving.wait(_WATCH_SECONDS) and self._users.in_place():
            try:
                if not failing and not self._was_killed():
                    continue
                if not failing:
                    log.warning("the supervisor of the embedded PostgreSQL was killed; starting it again")
                self._starter(time.monotonic() + _ATTEMPT_SECONDS, self._leaving).wait(self._database)
            except EmbeddedServerError as error:
                if not failing and not self._leaving.is_set():
                    log.warning("the embedded PostgreSQL cannot be started; going on trying", error=error.message)
                failing = True
            else:
                failing = False

    def _was_killed(self) -> bool:
        with FileLock(self._home.supervisor_lock) as lock:
            if not lock.try_shared():
                return False
            state = self._home.read_state()
            return state is not None and state.state != "stopping"
