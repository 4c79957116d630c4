"""A few ADBC connections to the database: COPY in C, straight into Arrow, on threads of their own.

The driver blocks, so each use runs in a thread; if the waiting caller is cancelled, so is the statement. The sessions
are read-only and work under one of this project's roles, whatever user the address names.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import asyncpg
import pyarrow as pa
from adbc_driver_manager import Error
from adbc_driver_postgresql import StatementOptions, dbapi

from worldledger.errors import SimulationError, StoreUnavailableError
from worldledger_service.database.address import describe
from worldledger_service.database.engine import APPLICATION_NAME, AS_WRITTEN
from worldledger_service.database.failures import ENDED, explain
from worldledger_service.database.guards import SERVICE_ROLE

T = TypeVar("T")

#: Bytes after which the driver passes on what it has read: small enough for a processor's cache, large enough for
#: vectors.
BATCH_BYTES: Final = 4 * 1024 * 1024
#: libpq's settings, unless the address sets them: seconds to connect, and seconds of silence until the end.
_DEFAULTS: Final = {
    "application_name": f"{APPLICATION_NAME} arrow",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}


def dsn(url: str) -> str:
    """Return the database's address in libpq's form, with the default limits where it sets none."""
    parts = urlsplit(url)
    query = {**_DEFAULTS, **dict(parse_qsl(parts.query, keep_blank_values=True))}
    return urlunsplit(parts._replace(query=urlencode(query, quote_via=quote)))


class StoppedError(Exception):
    """The caller of a statement no longer waits for it."""


class BrokenOffError(Exception):
    """A statement failed after it had returned rows."""


class Session:
    """One connection, used by one thread at a time; `cancel` may come from any."""

    def __init__(self, url: str, role: str, timeout: float) -> None:
        self._connection = dbapi.connect(dsn(url), autocommit=True)
        self._stopped = False
        settings = {
            "role": role,
            **AS_WRITTEN,
            "default_transaction_read_only": "on",
            # The rows of a statement come in the order of its one plan.
            "max_parallel_workers_per_gather": "0",
        }
        try:
            self.allow(timeout)
            self.fetch("select " + ", ".join(f"set_config('{name}', '{to}', false)" for name, to in settings.items()))
        except BaseException:
            self.close()
            raise

    def allow(self, seconds: float) -> None:
        """Set the time limit of statements; 0 for no limit."""
        self.fetch(f"set statement_timeout = {int(seconds * 1000)}")

    def begin(self) -> None:
        """Reset an earlier cancellation."""
        self._stopped = False

    def cancel(self) -> None:
        """Cancel the running statement, and refuse later ones of the same use."""
        self._stopped = True
        with suppress(Error):
            self._connection.adbc_cancel()

    def check(self) -> None:
        """Raise StoppedError if the use was cancelled."""
        if self._stopped:
            raise StoppedError

    def fetch(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its few rows."""
        self.check()
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def reading(self, statement: str) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        """Run a statement and lend its rows, some MiB at a time; leaving early cancels it."""
        self.check()
        finished = False

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal finished
            while True:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    break
                except (OSError, pa.ArrowException) as error:  # the driver's own, passed on by Arrow
                    raise BrokenOffError(str(error)) from error
                self.check()
                yield batch
            finished = True

        cursor = self._connection.cursor()
        try:
            cursor.adbc_statement.set_options(**{StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(BATCH_BYTES)})
            cursor.execute(statement)
            reader = cursor.fetch_record_batch()
            yield reader.schema, rows()
        finally:
            if not finished:
                with suppress(Error):  # otherwise the unread rows would be read now
                    cursor.adbc_cancel()
            cursor.close()

    def close(self) -> None:
        """End the session."""
        with suppress(Error):
            self._connection.close()


class _Use:
    """One use of a session: it can be cancelled once there is a session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._cancelled = False

    @contextmanager
    def of(self, session: Session) -> Iterator[None]:
        with self._lock:
            session.begin()
            if self._cancelled:
                raise StoppedError
            self._session = session
        try:
            yield
        finally:
            with self._lock:
                self._session = None

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._session is not None:
                self._session.cancel()


class Connections:
    """At most ``most`` sessions of one address and role, each lent to one task at a time.

    ``timeout``: seconds that a statement may take, and that a task is waited for.
    """

    def __init__(self, url: str, *, role: str = SERVICE_ROLE, most: int = 4, timeout: float = 60.0) -> None:
        self._url = url
        self._role = role
        self._timeout = timeout
        self._slots = asyncio.Semaphore(most)
        self._idle: list[Session] = []
        self._uses: set[_Use] = set()
        # One thread more than sessions: a cancellation must not wait for the task that it ends.
        self._threads = ThreadPoolExecutor(most + 1, "arrow")

    async def run(self, work: Callable[[Session], T], *, patient: bool = False) -> T:
        """Run a task with a session in a thread; if the waiting is cancelled, so is its statement.

        ``patient`` tasks have no time limit. Raises StoreUnavailableError or SchemaVersionError if the database
        refuses.
        """
        await self._slots.acquire()
        use = _Use()
        self._uses.add(use)
        task = partial(self._work, use, self._unhurried(work) if patient else work)
        done: asyncio.Future[T] = asyncio.get_running_loop().run_in_executor(self._threads, task)

        def ended(future: asyncio.Future[T]) -> None:
            self._uses.discard(use)
            self._slots.release()
            if not future.cancelled():
                future.exception()  # retrieved, even if the call is no longer waited for

        done.add_done_callback(ended)
        try:
            async with asyncio.timeout(None if patient else self._timeout):
                return await asyncio.shield(done)
        except TimeoutError:
            self._threads.submit(use.cancel)
            raise StoreUnavailableError(f"{describe(self._url)} did not answer in time") from None
        except asyncio.CancelledError:
            self._threads.submit(use.cancel)
            raise
        except (Error, BrokenOffError) as error:
            raise explained(error, self._url) from error

    def _unhurried(self, work: Callable[[Session], T]) -> Callable[[Session], T]:
        def longer(session: Session) -> T:
            session.allow(0)
            found = work(session)
            session.allow(self._timeout)
            return found

        return longer

    def _work(self, use: _Use, work: Callable[[Session], T]) -> T:
        try:
            return self._work_once(use, work, self._idle.pop())
        except IndexError:
            pass
        except Error as error:
            if not is_gone(error):
                raise
        return self._work_once(use, work, None)

    def _work_once(self, use: _Use, work: Callable[[Session], T], session: Session | None) -> T:
        if session is None:
            session = Session(self._url, self._role, self._timeout)
        try:
            with use.of(session):
                found = work(session)
        except BaseException:
            session.close()
            raise
        self._idle.append(session)
        return found

    async def close(self) -> None:
        """End running statements, and all sessions."""
        for use in tuple(self._uses):
            self._threads.submit(use.cancel)
        await asyncio.to_thread(self._threads.shutdown)
        while self._idle:
            self._idle.pop().close()


def is_gone(error: Error) -> bool:
    """Return whether an error means that the connection is lost: idle ones may have ended unnoticed."""
    return error.sqlstate is None or error.sqlstate.startswith(ENDED)


def explained(error: Exception, url: str) -> SimulationError:
    """Return this project's error for one of the driver; see `worldledger_service.database.failures`."""
    said = " ".join(str(error).split())
    _, found, message = said.partition("ERROR: ")
    message = message.partition(" LINE 1:")[0].partition(" SQLSTATE:")[0].partition(" CONTEXT:")[0].strip(" .")
    state = error.sqlstate if isinstance(error, Error) else None
    if state is None:
        if found:
            return StoreUnavailableError(f"{describe(url)} broke off a statement ({message})")
        return StoreUnavailableError(f"{describe(url)} cannot be reached ({said})")
    return explain(asyncpg.PostgresError.new({"C": state, "M": message or said, "S": "ERROR"}), url)


def literal(text: str) -> str:
    """Write a text as a literal. The driver accepts parameters only where it cannot COPY."""
    return "'" + text.replace("'", "''") + "'"
