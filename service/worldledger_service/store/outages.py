"""Which of the database's errors pass by themselves, so that trying again makes sense, and who is told of them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import asyncpg
import stamina
import structlog

from worldledger.errors import SimulationError, StoreUnavailableError
from worldledger_service.database.engine import connect_one
from worldledger_service.database.failures import AWAY, ENDED, explain, has_state, passes
from worldledger_service.settings import DEFAULT_PATIENCE
from worldledger_service.store.watchdog import Watchdog

#: Why a database that answers takes no writes.
_NO_WRITES: Final = {
    "25006": "it is read-only",
    "53100": "its disk is full",
    "53200": "it is out of memory",
    "58030": "it cannot write its files",
}
#: Seconds for which a write that was refused so speaks for the next one.
_SPEAKS_SECONDS: Final = 30.0

log = structlog.get_logger("worldledger.store")


def is_worth_retrying(error: BaseException) -> bool:
    """Return whether an error passes soon: the database was away or busy, and did not refuse the work itself."""
    if isinstance(error, StoreUnavailableError) and error.__cause__ is not None:
        return is_worth_retrying(error.__cause__)
    return passes(error)


def leaves_doubt(error: BaseException) -> bool:
    """Tell whether after this error of a statement or commit it is not known if it was carried out.

    What PostgreSQL reports by itself was rolled back, unless it reports that the connection ends; and an error of
    ours is a decision, made before anything was committed.
    """
    if isinstance(error, SimulationError):
        return False
    return has_state(error, ENDED) if isinstance(error, asyncpg.PostgresError) else True


def retrying(deadline: float, on: Callable[[Exception], bool] = is_worth_retrying) -> AsyncIterator[stamina.Attempt]:
    """Return attempts at something that an outage may stand in the way of, soon and often, for ``deadline`` seconds."""
    # stamina's own jitter, a second, would make nearly every pause the longest.
    pauses = {"wait_initial": 0.02, "wait_jitter": 0.1, "wait_max": 0.5}
    return stamina.retry_context(on=on, attempts=None, timeout=deadline, **pauses).__aiter__()


class Outages:
    """Tells the log once when the database goes away and once when it is back, whoever notices it first.

    ``watchdog`` is told of every answer, and releases callers when there was none for ``patience`` seconds.
    ``over`` counts the outages that are over.
    """

    def __init__(
        self, url: str, clock: Callable[[], float] = time.monotonic, *, patience: float = DEFAULT_PATIENCE
    ) -> None:
        self._url = url
        self._clock = clock
        self._since: float | None = None
        self._no_writes: tuple[float, str] | None = None
        self.watchdog = Watchdog(patience, self._probe)
        self.over = 0

    async def _probe(self) -> None:
        """Connect, which needs a process of the server to answer."""
        connection = await connect_one(self._url)
        await connection.close()

    @contextmanager
    def noticed(self) -> Iterator[None]:
        """Note what becomes of a use of the database that is tried again if it fails."""
        try:
            yield
        except Exception as error:
            self.failed(error)
            raise
        self.answered()

    @property
    def takes_no_writes(self) -> str | None:
        """Why the database refused the last write, if that was lately and it would refuse any; None otherwise."""
        if self._no_writes is None or self._clock() - self._no_writes[0] > _SPEAKS_SECONDS:
            return None
        return self._no_writes[1]

    def written(self) -> None:
        """Note that something was written."""
        self._no_writes = None

    def failed(self, error: Exception) -> None:
        """Note an error; only one that says that the database is away begins an outage."""
        if (why := _NO_WRITES.get(_sqlstate(error))) is not None:
            self._no_writes = (self._clock(), why)
        if self._since is None and _is_away(error):
            self._since = self._clock()
            self.watchdog.away = True
            log.warning("the database is away; trying again until it is back", error=explain(error, self._url).message)

    def answered(self) -> None:
        """Note that the database has answered."""
        self.watchdog.answered()
        if self._since is not None:
            seconds, self._since = self._clock() - self._since, None
            self.watchdog.away = False
            self.over += 1
            log.warning("the database is back", seconds=round(seconds, 1))


def _sqlstate(error: BaseException) -> str:
    if isinstance(error, StoreUnavailableError):
        return str(error.details.get("sqlstate"))
    return error.sqlstate or "" if isinstance(error, asyncpg.PostgresError) else ""


def _is_away(error: BaseException) -> bool:
    if isinstance(error, StoreUnavailableError) and error.__cause__ is not None:
        return _is_away(error.__cause__)
    return has_state(error, AWAY) or isinstance(error, OSError)
