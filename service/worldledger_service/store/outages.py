"""The database is away: which errors pass by themselves, who is told of them, and what notices its silence."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import asyncpg
import stamina
import structlog

from worldledger.errors import SimulationError, StoreUnavailableError
from worldledger_service.database.engine import connect_one
from worldledger_service.database.failures import AWAY, ENDED, explain, has_state, passes
from worldledger_service.settings import DEFAULT_PATIENCE

if TYPE_CHECKING:
    from collections.abc import Awaitable


# The watchdog: notices that the database answers no call of this process, and releases the callers that wait for it.
#
# An outage may show at once, where connections are refused, or not at all, where the server is frozen or the network
# loses everything. Either way the database is asked, or tried again and again, and nothing is answered. Work that is
# under way then goes on by itself, because nothing that was sent may be given up; only its caller need not wait.


T = TypeVar("T")

#: Steps in which the patience runs out, and the most seconds of one.
_STEPS: Final = 8
_LONGEST_STEP: Final = 1.0
#: Seconds after which a caller may ask again.
RETRY_SECONDS: Final = 1.0
#: Seconds in which work that goes on by itself may end when all is closed.
_CLOSING_SECONDS: Final = 1.0

log = structlog.get_logger("worldledger.store")


class Watchdog:
    """Measures for how long the database has answered no call of this process while it was asked something.

    ``patience``: seconds after which it counts as silent. Time in which the event loop is held up counts for little.
    ``probe`` asks the database something easy on a connection of its own. It is called when half of the patience is
    over, because a statement that takes long, or waits for a lock, is no silence. Its errors are ignored.
    """

    def __init__(self, patience: float, probe: Callable[[], Awaitable[object]] | None = None) -> None:
        self.patience = patience
        self._probe = probe
        self._probing: asyncio.Task[None] | None = None
        #: whether the database is known to be away: then it counts as asked also between two attempts
        self.away = False
        self._asked = 0
        self._quiet = 0.0
        self._looked_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        #: the work under way, and what its caller waits for: True once it is done, False to release the caller before
        self._working: dict[asyncio.Task[Any], asyncio.Future[bool]] = {}
        #: until when callers stay through a silence
        self._staying: dict[asyncio.Future[bool], float] = {}

    @property
    def expired(self) -> bool:
        """Whether calls wait for the database, and none has had an answer for as long as the patience lasts."""
        return self._quiet >= self.patience

    @property
    def _step(self) -> float:
        """Seconds until it looks again."""
        return min(self.patience / _STEPS, _LONGEST_STEP)

    @property
    def working(self) -> int:
        """How many pieces of work are under way, whether their callers still wait or not."""
        return len(self._working)

    def answered(self) -> None:
        """Note that the database has answered."""
        self._quiet = 0.0

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Note that the database is asked something until the end of the block."""
        self._asked += 1
        try:
            yield
        finally:
            self._asked -= 1

    async def run(
        self,
        work: Coroutine[Any, Any, T],
        refusal: Callable[[bool], SimulationError],
        left: Callable[[T], object] | None = None,
        *,
        within: float | None = None,
    ) -> T:
        """Return the result of ``work``, unless the database falls silent first.

        With ``within`` the caller stays through a silence for so many seconds, and a little longer. A caller that is
        released gets the error of ``refusal``, which is told whether the work was begun; during a silence none is. Work
        that was begun goes on, and its result is handed to ``left``. It is cancelled only with its caller.
        """
        if self.expired:
            work.close()
            raise refusal(False)
        loop = asyncio.get_running_loop()
        task = loop.create_task(work)
        self._working[task] = waiting = loop.create_future()
        task.add_done_callback(self._done)
        if self._timer is None:
            self._look_later(loop)
        if within is not None:
            self._staying[waiting] = loop.time() + within
        try:
            ended = await waiting
        except asyncio.CancelledError:
            _leave(task, left)
            task.cancel()
            raise
        finally:
            if within is not None:
                del self._staying[waiting]
        if ended:
            if task.cancelled():
                raise StoreUnavailableError("the store is closing") from None
            return task.result()
        _leave(task, left)
        raise refusal(True)

    async def close(self) -> None:
        """Cancel the work that goes on by itself. Writes must have ended by now."""
        for task in self._working:
            task.cancel()
        if self._working:
            await asyncio.wait(self._working, timeout=_CLOSING_SECONDS)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._probing is not None:
            self._probing.cancel()

    def _done(self, task: asyncio.Task[Any]) -> None:
        _set(self._working.pop(task), True)
        if not self._working:  # no call waits, so nothing is known; the next one tries it
            self._quiet = 0.0

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looked_at = loop.time()
        self._timer = loop.call_later(self._step, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._working:
            return
        loop = asyncio.get_running_loop()
        if self._asked or self.away:
            # A timer that comes late says that this process is busy: answers may have come that are not read yet.
            # The later it is, the less it says about the database.
            step, passed = self._step, loop.time() - self._looked_at
            self._quiet += passed if passed <= step else step * step / passed
            if self._probe is not None and self._probing is None and self._quiet >= self.patience / 2:
                self._probing = loop.create_task(self._ask(self._probe))
        for waiting in self._working.values():
            until = self._staying.get(waiting)
            if self.expired if until is None else loop.time() >= until:
                _set(waiting, False)
        self._look_later(loop)

    async def _ask(self, probe: Callable[[], Awaitable[object]]) -> None:
        try:
            with suppress(SimulationError):
                await probe()
                self.answered()
        finally:
            self._probing = None


def unanswered() -> StoreUnavailableError:
    """Return the error of a read that was not answered."""
    return StoreUnavailableError("the database does not answer", retry_after_s=RETRY_SECONDS)


def _set(waiting: asyncio.Future[bool], ended: bool) -> None:
    if not waiting.done():
        waiting.set_result(ended)


def _leave(task: asyncio.Task[T], left: Callable[[T], object] | None) -> None:
    """Leave a task to itself."""

    def done(task: asyncio.Task[T]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            if left is not None:
                left(task.result())
        elif isinstance(error, SimulationError):
            log.debug("work whose caller has left failed", error=error.message)
        else:
            log.error("work whose caller has left failed", exc_info=error)

    task.add_done_callback(done)


#: Why a database that answers takes no writes.
_NO_WRITES: Final = {
    "25006": "it is read-only",
    "53100": "its disk is full",
    "53200": "it is out of memory",
    "58030": "it cannot write its files",
}
#: Seconds for which a write that was refused so speaks for the next one.
_SPEAKS_SECONDS: Final = 30.0


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
