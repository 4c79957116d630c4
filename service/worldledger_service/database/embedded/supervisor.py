"""The process that keeps one embedded PostgreSQL running for as long as it is used.

``python -m worldledger_service.database.embedded.supervisor --home H``; ``attach`` starts it, in a session of its own,
so that Ctrl-C in a terminal does not reach a server that others use.

The protocol (home.py has the two files)

- A user takes ``users.lock`` shared first. Holding it, it tries ``supervisor.lock``: if that is free there is no
  supervisor, and it starts one, which inherits the lock. Otherwise it waits for ``server.json`` to say "ready".
- The supervisor tries ``users.lock`` exclusively every 0.2 s. It succeeds only while the server has no users; after
  ``linger`` seconds of that it keeps the lock, stops the server, releases ``supervisor.lock``, and only then
  ``users.lock``. So a user that comes meanwhile waits for the first lock and then finds no supervisor: it never meets a
  server that is about to stop.
- The kernel releases the locks of killed users. When the supervisor is killed, the kernel (or a watcher) shuts the
  server down, and the next user's supervisor waits for its end. A long-lived user has a keeper (client.py), which
  starts that supervisor.

A server that ends unexpectedly is started again at once; what it had acknowledged is in its log. SIGTERM stops the
server in order, even with users.
"""

from __future__ import annotations

import argparse
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Final

from worldledger.backoff import Backoff
from worldledger.errors import EmbeddedServerError
from worldledger_service.database.embedded import binaries, cluster
from worldledger_service.database.embedded.cluster import DEFAULT_GUARD, Cluster, Guard, Postmaster
from worldledger_service.database.embedded.home import FileLock, Home, ServerState, open_home
from worldledger_service.database.embedded.place import drop_socket_folder, settle, socket_folder

_log = logging.getLogger("worldledger.embedded")

DEFAULT_PORT: Final = 5432  # without TCP it only names the socket

# All in seconds.
_POLL_SECONDS: Final = 0.2  # how often the users' lock is tried
_READY_POLL_SECONDS: Final = 0.02
_FIRST_START_SECONDS: Final = 15.0  # for leftovers of a killed server to end
_REVIVAL_SECONDS: Final = 30.0


class _StopOrderedError(Exception):
    """SIGTERM came while the server was being started."""


class Supervisor:
    """One home's supervisor; ``run`` is its whole life. The supervisor's lock is held already."""

    def __init__(
        self, home: Home, lock: FileLock, *, linger: float, tcp_port: int | None, guard: Guard, chosen: Path | None
    ) -> None:
        self._home = home
        self._lock = lock
        self._users = FileLock(home.users_lock)
        self._linger = linger
        self._tcp_port = tcp_port
        self._guard = guard
        self._chosen = chosen
        self._state = ServerState("starting", os.getpid(), tcp_port=tcp_port)
        self._postmaster: Postmaster | None = None
        self._served = False
        #: whether the server ran and then could not be kept: then the signs of an ordered stop are not left
        self.gave_up = False
        self._stop_ordered = False
        self._idle_since: float | None = None
        self._last_use = 0
        self._wakes, wakener = socket.socketpair()
        self._wakes.setblocking(False)
        wakener.setblocking(False)
        self._wakener = wakener

    # -- a life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Set everything up and start the server; ready when this returns. Raises ``EmbeddedServerError``."""
        self._listen_to_signals()
        self._publish(self._state)
        self._cluster = self._prepare()
        self._bring_up(_FIRST_START_SECONDS)
        self._served = True

    def serve(self) -> None:
        """Keep the server running until it has no users. Raises ``EmbeddedServerError`` if it cannot be kept."""
        try:
            self._keep()
        except EmbeddedServerError:
            self.gave_up = True
            raise

    def _keep(self) -> None:
        while (postmaster := self._postmaster) is not None:
            self._wait(_POLL_SECONDS)
            if postmaster.exit_code() is not None and not self._stop_ordered:
                _log.warning("postgres %d ended (code %s); starting it again", postmaster.pid, postmaster.exit_code())
                self._bring_up(_REVIVAL_SECONDS)
            if self._stop_ordered or not self._lock.in_place() or self._nobody_left():
                return

    def finish(self) -> None:
        """Stop the server, clean up, and release the locks in the protocol's order."""
        in_place = self._lock.in_place()
        if self._postmaster is not None and self._postmaster.exit_code() is None:
            why = ("ordered" if self._stop_ordered else "nobody uses it") if in_place else "the home was deleted"
            _log.info("stopping postgres %d: %s", self._postmaster.pid, why)
            self._publish(replace(self._state, state="stopping"))
            self._postmaster.stop(at_once=not in_place)
        try:
            if in_place and not self.gave_up:
                drop_socket_folder(self._home)
                self._home.delete("server.json")
        finally:
            self._lock.close()
            self._users.close()

    # -- starting ------------------------------------------------------------------------------------------

    def _prepare(self) -> Cluster:
        home = self._home
        port = self._tcp_port or DEFAULT_PORT
        place = settle(home)
        major = cluster.major_of(place.data)
        found = binaries.find(place.account, place.root, major=major, chosen=self._chosen)
        if major is None:
            password = home.password() or home.make_password()
            cluster.create(place, found, password, home)
            _log.info("made %s with PostgreSQL %s from %s", place.data, found.version, found.origin)
        socket_dir = socket_folder(home, place, port)
        tcp = self._tcp_port is not None
        made = Cluster(place, found, home, socket_dir, port, tcp, self._guard)
        if home.password() is None:
            made.clear_the_way(self._wait)
            cluster.set_password(place, found, home.make_password())
        self._state = replace(self._state, socket_dir=str(socket_dir), port=port, major=found.major)
        return made

    def _bring_up(self, limit: float) -> None:
        """Start the server until it is ready; retry for ``limit`` seconds if there is hope.

        There is hope if it ran before, or if only a killed server's last processes are in its way.
        """
        give_up = time.monotonic() + limit
        delays = Backoff(0.05, 1.0)
        while True:
            self._publish(replace(self._state, state="starting"))
            postmaster = self._postmaster = self._cluster.start(self._wait)
            if self._wait_until_ready(postmaster):
                self._publish(replace(self._state, state="ready", postmaster_pid=postmaster.pid))
                _log.info("postgres %d is ready (version %s)", postmaster.pid, self._cluster.binaries.version)
                return
            error, passing = postmaster.failure()
            _log.warning("%s", error)
            if time.monotonic() > give_up or not (passing or self._served):
                raise error
            self._wait(delays.next())

    def _wait_until_ready(self, postmaster: Postmaster) -> bool:
        """Wait for "ready" or the end; recovery after a crash may take its time and is not cut short."""
        while postmaster.exit_code() is None:
            if postmaster.ready():
                return True
            self._wait(_READY_POLL_SECONDS)
            if self._stop_ordered:
                raise _StopOrderedError
        return False

    def _publish(self, state: ServerState) -> None:
        self._state = state
        if not self._lock.in_place():
            return
        try:
            self._home.write_state(state)
        except EmbeddedServerError as error:
            if not self._served:
                raise
            _log.warning("%s", error)  # a full disk, say: not a reason to stop a running server

    # -- watching ------------------------------------------------------------------------------------------

    def _nobody_left(self) -> bool:
        """Return whether the server has had no users for the linger; if so, the users' lock is kept."""
        if not self._users.try_exclusive():
            self._idle_since = None
            return False
        now = time.monotonic()
        last_use = self._users.touched()
        if self._idle_since is None or last_use != self._last_use:
            # A user may have come and gone between two checks: the linger begins with the last use.
            self._idle_since, self._last_use = now, last_use
        if now - self._idle_since >= self._linger:
            return True
        self._users.release()
        return False

    def _listen_to_signals(self) -> None:
        signal.set_wakeup_fd(self._wakener.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._order_stop)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # only to wake up
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _order_stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stop_ordered = True

    def _wait(self, seconds: float) -> None:
        """Sleep, but wake up at once when a child ends or a signal comes."""
        ready, _, _ = select.select([self._wakes], [], [], seconds)
        if ready:
            self._wakes.recv(4096)


def supervise(supervisor: Supervisor, report: int | None) -> int:
    """Run a supervisor; report a failure to the process that started it (pipe ``report``)."""
    failure = ""
    try:
        supervisor.start()
        if report is not None:
            os.close(report)  # no failure to report
            report = None
        supervisor.serve()
    except _StopOrderedError:
        _log.info("stopped while starting, as ordered")
    except Exception as error:  # noqa: BLE001 - the end of a process: whatever it is must be told
        expected = isinstance(error, EmbeddedServerError)
        _log.error("%s", error, exc_info=None if expected else error)
        failure = str(error) if expected else f"the supervisor of PostgreSQL failed: {type(error).__name__}: {error}"
    try:
        supervisor.finish()
    except (EmbeddedServerError, OSError) as error:
        _log.warning("could not clean up: %s", error)
    if report is not None:
        _tell(report, failure)
    return 1 if failure else 0


def _tell(report: int, text: str) -> None:
    try:
        os.write(report, text.encode("utf-8", errors="replace")[:60_000])
    except OSError:
        _log.warning("the process that started this supervisor has gone")
    os.close(report)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a supervisor as the command line says; return the exit code.

    Exit codes: 0 after an orderly life, 1 if the server could not be started or kept, 3 if the home already has a
    supervisor.
    """
    parser = argparse.ArgumentParser(prog="supervisor", description="Keep a home's embedded PostgreSQL alive.")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--linger", type=float, default=3.0, help="seconds without users before it stops")
    parser.add_argument("--tcp-port", type=int, help="listen on 127.0.0.1 too, at this port")
    parser.add_argument("--bin-dir", type=Path, help="the folder of the PostgreSQL programs to use")
    parser.add_argument("--guard", choices=("signal", "pipe"), default=DEFAULT_GUARD)
    parser.add_argument("--lock-fd", type=int, help="the supervisor's lock, held and handed down by the starter")
    parser.add_argument("--report-fd", type=int, help="where to write why it failed")
    parser.add_argument("--detach", action="store_true", help="go on in the background")
    options = parser.parse_args(arguments)

    if options.detach and os.fork() != 0:
        os._exit(0)  # the starter waits for this process only; the child does not become a zombie
    os.umask(0o077)
    home = open_home(options.home, create=options.lock_fd is None)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s [%(process)d] %(message)s")
    with FileLock(home.supervisor_lock, options.lock_fd) as lock:
        if options.lock_fd is None and not lock.try_exclusive():
            _log.error("%s has a supervisor already", home.path)
            return 3
        if options.report_fd is not None:
            os.set_inheritable(options.report_fd, False)
        supervisor = Supervisor(
            home,
            lock,
            linger=options.linger,
            tcp_port=options.tcp_port,
            guard=options.guard,
            chosen=options.bin_dir,
        )
        return supervise(supervisor, options.report_fd)


if __name__ == "__main__":
    sys.exit(main())
