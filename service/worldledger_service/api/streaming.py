"""Streaming responses that notice at once when their client leaves, and never end as if all were well."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Final

import structlog
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from worldledger.aio import first_of

log = structlog.get_logger("worldledger.api")


#: The message that tells that a client has ended its side of the connection, and may still read. An application gets it
#: once, behind the request.
HALF_CLOSED: Final = "worldledger.half_closed"


def _end() -> Message:
    """Return the last message of an answer: a new one each time, for what compresses answers changes it."""
    return {"type": "http.response.body", "body": b"", "more_body": False}


class StreamAbortedError(Exception):
    """A stream that broke off after its headers were sent: the server must cut the connection."""


class StoppingError(StreamAbortedError):
    """The service stops before a stream is at its end, which is no fault: nothing is logged."""


def is_fault(record: logging.LogRecord) -> bool:
    """Filter the server's log: return False for a stream that was cut because the service stops."""
    return record.exc_info is None or not isinstance(record.exc_info[1], StoppingError)


class Stream(Response):
    """Sends chunks as the client takes them.

    A chunk is asked for only after the one before was handed to the network, so a slow client holds one chunk. When
    the client disconnects, the source is closed at once. When ``stopping`` is set, the stream ends cleanly between
    two chunks; so does an ``endless`` one when the client ends its side of the connection. When the source fails,
    StreamAbortedError makes the server cut the connection: the client sees an incomplete response, not a clean end.
    Whatever ends the stream, ``on_end`` is called then.
    """

    def __init__(
        self,
        source: AsyncGenerator[bytes, None],
        media_type: str,
        headers: Mapping[str, str] | None = None,
        *,
        stopping: asyncio.Event | None = None,
        endless: bool = False,
        on_end: Callable[[], object] | None = None,
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.init_headers(headers)
        self._source = source
        self._stopping = stopping
        self._is_endless = endless
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the source ends or fails, the client leaves or the service stops."""
        try:
            await self._stream(scope, receive, send)
        finally:
            if self._on_end is not None:
                self._on_end()

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        stopped = () if self._stopping is None else (self._stopping.wait(),)
        left_alone = disconnected(receive, at_half=self._is_endless)
        sent, left, *_ = await first_of(self._send(send), left_alone, *stopped)
        if sent is not None:
            error = sent.exception()
            if isinstance(error, StoppingError):
                raise error
            if error is not None:
                log.warning("a stream broke off", path=scope["path"], kind=type(error).__name__, error=str(error))
                raise StreamAbortedError(str(error)) from error
        elif left is None or not left.result():
            await send(_end())

    async def _send(self, send: Send) -> None:
        async with aclosing(self._source) as source:
            async for chunk in source:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send(_end())


async def disconnected(receive: Receive, *, at_half: bool = True) -> bool:
    """Wait until the client of a request has left; return False if it may still read.

    That is so if it has only ended its side of the connection, which is waited for with ``at_half``: one that has left
    looks the same until it is written to.
    """
    while (what := (await receive())["type"]) != "http.disconnect":
        if at_half and what == HALF_CLOSED:
            return False
    return True
