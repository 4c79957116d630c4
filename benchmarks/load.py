"""A lean HTTP/1.1 load: a few keep-alive connections that post the same body again and again, in a process of its own.

``python -m benchmarks.load HOST PORT PATH CONNECTIONS REQUESTS < body`` prints the seconds it took.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import cast

import uvloop


class Poster(asyncio.Protocol):
    """One connection: posts, waits for the answer, posts again."""

    def __init__(self, request: bytes, count: int) -> None:
        self._request = request
        self._left = count
        self._seen = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its class
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._seen += data
        head, found, rest = self._seen.partition(b"\r\n\r\n")
        if not found:
            return
        length = next(
            int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
        )
        if len(rest) < length:
            return
        if not head.split(b" ", 2)[1].startswith(b"2"):
            self.done.set_exception(RuntimeError(self._seen.decode()))
            return
        self._seen = b""
        self._left -= 1
        if self._left:
            self._transport.write(self._request)
        else:
            self._transport.close()
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("closed early"))


async def post(host: str, port: int, path: str, connections: int, requests: int, body: bytes) -> float:
    """Post and give the seconds it took."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    posters = [
        (await loop.create_connection(lambda: Poster(head.encode() + body, requests // connections), host, port))[1]
        for _ in range(connections)
    ]
    await asyncio.gather(*(poster.done for poster in posters))
    return time.perf_counter() - start


if __name__ == "__main__":
    seconds = uvloop.run(
        post(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.stdin.buffer.read())
    )
    print(seconds)
