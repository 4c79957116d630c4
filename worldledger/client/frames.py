"""Tables that arrive as Arrow: as they are, batch by batch, or as a dataframe of polars or pandas.

All of this needs pyarrow (``pip install 'worldledger[analytics]'``); the dataframes need polars or pandas.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import httpx2

from worldledger.client.transport import Transport
from worldledger.errors import ExtraMissingError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

ARROW: Final = "application/vnd.apache.arrow.stream"
#: The end of a stream that was not cut off.
_END: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
#: Bytes that may wait for the reader, unless it asks for more at once.
_MOST_BYTES: Final = 32 * 1024 * 1024
_EXTRAS: Final = {"pyarrow": "analytics", "polars": "dataframes", "pandas": "dataframes"}


class Frame:
    """A table that the service makes on request: each awaited method asks anew.

    In a notebook: ``frame = await client.effects(experiment="trial").to_polars()``.
    """

    def __init__(
        self,
        transport: Transport,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: object = None,
    ) -> None:
        self._transport = transport
        self._method = method
        self._path = path
        self._params = params
        self._body = body

    async def to_arrow(self) -> pa.Table:
        """Return the whole table as a pyarrow.Table.

        Raises ServiceUnavailableError if the answer breaks off, and the errors of the service.
        """
        async with self._reading() as reader:
            return await asyncio.to_thread(self._read_all, reader)

    async def to_polars(self) -> pl.DataFrame:
        """Return the whole table as a polars.DataFrame; see `to_arrow`."""
        polars = needed("polars")
        table = await self.to_arrow()
        frame: pl.DataFrame = await asyncio.to_thread(polars.from_arrow, table)
        return frame

    async def to_pandas(self) -> pd.DataFrame:
        """Return the whole table as a pandas.DataFrame; see `to_arrow`."""
        needed("pandas")
        table = await self.to_arrow()
        return await asyncio.to_thread(table.to_pandas)

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the table piece by piece as pyarrow.RecordBatches, as they arrive; see `to_arrow`.

        Leaving early ends the query in the service; `contextlib.aclosing` does so at once.
        """
        async with self._reading() as reader:
            while (batch := await asyncio.to_thread(self._next, reader)) is not None:
                yield batch

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        return self.batches()

    def _read_all(self, reader: pa.RecordBatchReader) -> pa.Table:
        batches = [*iter(lambda: self._next(reader), None)]
        return needed("pyarrow").Table.from_batches(batches, reader.schema)

    def _next(self, reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
        try:
            batch, metadata = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            return None
        if metadata is not None:
            self._told(metadata)
        return batch

    def _told(self, metadata: Mapping[bytes, bytes]) -> None:
        """Note what the service says of a batch."""

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[pa.RecordBatchReader]:
        """Ask, and lend the answer's reader for use in threads; raise an error if the answer was incomplete."""
        arrow = needed("pyarrow")
        transport = self._transport
        async with transport.stream(
            self._method, self._path, accept=ARROW, params=self._params, body=self._body
        ) as response:
            feed = _Feed(asyncio.get_running_loop())
            pump = asyncio.get_running_loop().create_task(feed.fill(response))
            try:
                try:
                    yield await asyncio.to_thread(arrow.ipc.open_stream, feed)
                    await asyncio.to_thread(feed.drain)
                except (arrow.ArrowInvalid, OSError) as error:  # the part that arrived cannot be read
                    raise transport.cut_off(feed.error or error) from error
                if not feed.whole:
                    raise transport.cut_off(feed.error)
            finally:
                feed.close()
                pump.cancel()
                await asyncio.gather(pump, return_exceptions=True)


class _Feed:
    """A file that is read in a thread while an event loop fills it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._changed = threading.Condition()
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._wanted = 0
        self._ended = False
        self._last = b""
        self._room = asyncio.Event()
        self.closed = False
        #: the error that broke off the answer
        self.error: Exception | None = None

    # -- in the event loop ---------------------------------------------------------------------------------

    async def fill(self, response: httpx2.Response) -> None:
        """Take an answer's chunks, as the reader makes room for them."""
        try:
            async for chunk in response.aiter_raw():
                self._put(chunk)
                while self._size >= max(_MOST_BYTES, self._wanted):
                    self._room.clear()
                    await self._room.wait()
        except httpx2.TransportError as error:
            self.error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify()

    def _put(self, chunk: bytes) -> None:
        self._last = (self._last + chunk[-len(_END) :])[-len(_END) :]
        with self._changed:
            self._pieces.append(chunk)
            self._size += len(chunk)
            if self._size >= self._wanted:
                self._changed.notify()

    @property
    def whole(self) -> bool:
        """True once the complete answer has arrived."""
        return self.error is None and self._last == _END

    # -- in a thread ---------------------------------------------------------------------------------------

    def read(self, size: int = -1) -> bytes:
        """Return this many bytes, or those up to the end."""
        with self._changed:
            self._wanted = size
            if self._size < size:
                self._loop.call_soon_threadsafe(self._room.set)
            self._changed.wait_for(lambda: self._ended or self._size >= size)
            self._wanted = 0
            return self._taken(size)

    def _taken(self, size: int) -> bytes:
        found: list[bytes] = []
        left = min(size, self._size)
        self._size -= left
        while left:
            piece = self._pieces.popleft()
            if len(piece) > left:
                self._pieces.appendleft(piece[left:])
                piece = piece[:left]
            found.append(piece)
            left -= len(piece)
        self._loop.call_soon_threadsafe(self._room.set)
        return found[0] if len(found) == 1 else b"".join(found)

    def drain(self) -> None:
        """Wait for the end of the answer, which is after the end of the stream."""
        while self.read(_MOST_BYTES):
            pass

    def close(self) -> None:
        """Release the threads that wait."""
        self.closed = True
        with self._changed:
            self._ended = True
            self._changed.notify()


def needed(module: str) -> Any:
    """Return a module that an extra installs. Raises ExtraMissingError, which says what to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name != package:
            raise
        raise ExtraMissingError.of(package, _EXTRAS[package]) from error
