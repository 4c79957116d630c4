"""The keeper: a long-lived user's watch over the supervisor, which starts it again if it was killed.

A supervisor that ends in order (SIGTERM, ``stop``) removes ``server.json``; one that was killed, or could not keep the
server for the time being, leaves it behind. The keeper acts only in the latter case, so that an ordered stop is final.
The address stays the same, and connection pools recover by themselves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import structlog

from worldledger.errors import EmbeddedServerError
from worldledger_service.database.embedded.client import Starter
from worldledger_service.database.embedded.home import Home
from worldledger_service.database.embedded.locks import FileLock

# All in seconds.
_LOOK_SECONDS: Final = 0.5
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
        while not self._leaving.wait(_LOOK_SECONDS) and self._users.in_place():
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
