"""COPY, and the transaction around it: whatever becomes of the server, they end at once and say why.

asyncpg's own COPY does not always come back. It waits for room in its buffer, and a connection that breaks meanwhile
never gives it any; and what the caller's iterable raises is told to the server as a request to cancel, which nobody
answers if the server had ended the COPY before. So here rows go in pieces of bounded size, an error of the iterable
is kept until its piece has ended in order, and the end of the connection ends the COPY.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from worldledger.errors import StoreUnavailableError
from worldledger_service.database.engine import transaction
from worldledger_service.store.outages import leaves_doubt

if TYPE_CHECKING:
    from worldledger_service.database.engine import PooledConnection
    from worldledger_service.store.reader import Reader

#: Most rows in one COPY.
_ROWS: Final = 20_000
#: Seconds in which a COPY may make no progress at all before the server counts as gone.
_PATIENCE: Final = 600.0
#: The same for asyncpg, whose limit is one for the whole COPY; ours counts.
_NO_LIMIT: Final = 30 * 86_400.0
#: Seconds for a COPY whose connection has ended to notice.
_NOTICE: Final = 5.0


@asynccontextmanager
async def bulk_transaction(reader: Reader) -> AsyncIterator[PooledConnection]:
    """Lend a connection in a transaction for a bulk write, which is kept whole or not at all.

    Where the connection is lost, StoreUnavailableError says whether anything was kept.
    """
    connected = committing = False
    try:
        with reader.bulk.one():
            async with reader.connection() as connection, transaction(connection):
                connected = True
                yield connection
                committing = True
    except StoreUnavailableError as error:
        cause = error.__cause__
        if not connected or cause is None or not leaves_doubt(cause):
            raise
        details = {**error.details, "outcome": "unknown"} if committing else error.details
        what = "whether this write was kept is not known" if committing else "nothing of this write was kept"
        said = cause.__cause__ if isinstance(cause.__cause__, asyncpg.PostgresError) else cause
        why = str(said) or "it does not answer"
        raise StoreUnavailableError(f"the connection to {reader.place} was lost ({why}): {what}", **details) from cause


async def copy_rows(
    connection: PooledConnection, table: str, rows: Iterable[tuple[Any, ...]], columns: tuple[str, ...]
) -> None:
    """Copy rows into a table, in bounded memory; call it in a transaction, for some may go in before an error.

    Raises what the server says, or ConnectionDoesNotExistError, or what the iterable raised. Being cancelled ends the
    connection, so that nobody has to wait for the server.
    """
    iterator = iter(rows)
    # The loop, which would tell of the connection's end, does not run between two rows.
    ended: Callable[[], bool] = connection._transport.is_closing  # type: ignore[attr-defined]  # noqa: SLF001
    while True:
        piece = _Piece(iterator, ended)
        await _copy(connection, table, piece, columns)
        if piece.error is not None:
            raise piece.error
        if piece.last:
            return


class _Piece:
    """The next rows of an iterator. What that raises is kept, and ends the piece; so does the connection's end."""

    def __init__(self, rows: Iterator[tuple[Any, ...]], ended: Callable[[], bool]) -> None:
        self._rows = rows
        self._ended = ended
        self.count = 0
        self.last = False
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        try:
            for row in self._rows:
                self.count += 1
                yield row
                if self.count == _ROWS or self._ended():
                    return
        except Exception as error:  # noqa: BLE001 - it is raised when the COPY has ended
            self.error = error
        else:
            self.last = True


async def _copy(connection: PooledConnection, table: str, piece: _Piece, columns: tuple[str, ...]) -> None:
    loop = asyncio.get_running_loop()
    lost: asyncio.Future[None] = loop.create_future()
    protocol = connection._protocol  # type: ignore[attr-defined]  # noqa: SLF001 - there is no other way to wake it

    def on_end(_: object) -> None:
        if not lost.done():
            lost.set_result(None)

    connection.add_termination_listener(on_end)
    copying = loop.create_task(
        connection.copy_records_to_table(table, records=piece, columns=columns, timeout=_NO_LIMIT)
    )
    ends: list[asyncio.Future[Any]] = [copying, lost]
    try:
        while not copying.done() and not lost.done():
            before = piece.count
            done, _ = await asyncio.wait(ends, timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            if not done and piece.count == before:
                await _give_up(connection, copying)
                raise TimeoutError
        if not copying.done():
            protocol.resume_writing()
            await asyncio.wait({copying}, timeout=_NOTICE)
    except asyncio.CancelledError:
        await _give_up(connection, copying)
        raise
    finally:
        with suppress(asyncpg.InterfaceError):  # the pool has taken the connection back
            connection.remove_termination_listener(on_end)
        copying.cancel()
    if not lost.done():
        await copying
        return
    await asyncio.wait({copying})
    error = None if copying.cancelled() else copying.exception()
    if not isinstance(error, asyncpg.PostgresError):
        raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation") from error
    raise error


async def _give_up(connection: PooledConnection, copying: asyncio.Task[Any]) -> None:
    """End a COPY together with its connection."""
    copying.cancel()
    await asyncio.wait({copying}, timeout=_NOTICE)
    with suppress(asyncpg.InterfaceError):
        connection.terminate()
    if copying.done() and not copying.cancelled():
        copying.exception()
