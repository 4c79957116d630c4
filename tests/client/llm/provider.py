"""A model's service of our own making: it speaks OpenAI's protocol over a socket, as well or as badly as it is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeAlias

import orjson

from tests.waiting import wait_for

_CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}


class Call:
    """One request: what was asked, and what is answered."""

    def __init__(self, asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self.asked = asked
        self.is_gone = False
        self._writer = writer

    async def head(self, status: str = "200 OK", *headers: str) -> None:
        """Begin the answer."""
        lines = [f"HTTP/1.1 {status}", "Content-Type: text/event-stream", "Connection: close", *headers, "", ""]
        await self.write("\r\n".join(lines).encode())

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        self._writer.write(data)
        with suppress(ConnectionError):
            await self._writer.drain()

    async def event(self, value: Any) -> None:
        """Send a message of the stream."""
        await self.write(b"data: %b\n\n" % (value if isinstance(value, bytes) else orjson.dumps(value)))

    async def delta(self, finish: str | None = None, **delta: Any) -> None:
        """Send a piece."""
        await self.event({**_CHUNK, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    async def say(self, *pieces: str) -> None:
        """Send pieces of a text."""
        for piece in pieces:
            await self.delta(content=piece)

    async def end(self, finish: str = "stop", tokens_in: int | None = None, tokens_out: int = 0) -> None:
        """End the answer as it should be."""
        await self.delta(finish=finish)
        if tokens_in is not None:
            total = tokens_in + tokens_out
            usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": total}
            await self.event({**_CHUNK, "choices": [], "usage": usage})
        await self.event(b"[DONE]")

    async def until_gone(self) -> None:
        """Wait until the client has closed the connection."""
        await wait_for(lambda: self.is_gone)


Answer: TypeAlias = Callable[[Call], Awaitable[None]]


class Provider:
    """Answers each request by the next of its answers, and the last one again and again.

    ``counting`` has what its routes beside those of the protocol answer, given what they are asked; others are 404.
    """

    def __init__(self, *answers: Answer, port: int = 0) -> None:
        self.answers = list(answers)
        self.port = port
        self.calls: list[Call] = []
        self.counting: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self.url = ""
        self._answering: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    def refuse_all(self) -> None:
        """Take no more connections."""
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        watching: asyncio.Task[None] | None = None
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.split("content-length: ")[1].split("\r\n")[0])
            call = Call(orjson.loads(await reader.readexactly(length)), writer)
            path = head.split(" ")[1]
            if not path.startswith("/v1/"):
                counts = self.counting.get(path)
                body = b"{}" if counts is None else orjson.dumps(counts(call.asked))
                status = "404 Not Found" if counts is None else "200 OK"
                lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", "Connection: close", "", ""]
                return await call.write("\r\n".join(lines).encode() + body)
            answer = self.answers[min(len(self.calls), len(self.answers) - 1)]
            self.calls.append(call)
            watching = asyncio.create_task(self._watch(reader, call))
            await answer(call)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            if watching is not None:
                watching.cancel()
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()
            self._answering.discard(task)

    async def _watch(self, reader: asyncio.StreamReader, call: Call) -> None:
        with suppress(ConnectionError):
            await reader.read(1)
        call.is_gone = True


@contextmanager
def beside(*answers: Answer) -> Iterator[Provider]:
    """Run one in a thread beside a test that is no coroutine."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait(what: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(what, loop).result(60)

    provider = Provider(*answers)
    try:
        wait(provider.__aenter__())
        yield provider
        wait(provider.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def says(*pieces: str, tokens_in: int | None = 7, finish: str = "stop") -> Answer:
    """Answer by a text, piece by piece."""

    async def answer(call: Call) -> None:
        await call.head()
        await call.say(*pieces)
        await call.end(finish, tokens_in, len(pieces))

    return answer


def calls(name: str, *arguments: str) -> Answer:
    """Answer by the call of a tool, whose arguments come in pieces."""

    async def answer(call: Call) -> None:
        await call.head()
        function = {"name": name, "arguments": ""}
        await call.delta(tool_calls=[{"index": 0, "id": "t1", "type": "function", "function": function}])
        for piece in arguments:
            await call.delta(tool_calls=[{"index": 0, "function": {"arguments": piece}}])
        await call.end("tool_calls", 7, 1 + len(arguments))

    return answer


def begins(*pieces: str) -> Answer:
    """Begin an answer, and then say nothing more until the client has gone."""

    async def answer(call: Call) -> None:
        await call.head()
        await call.say(*pieces)
        await call.until_gone()

    return answer


def answers(status: str, *headers: str) -> Answer:
    """Refuse, with a status."""

    async def answer(call: Call) -> None:
        await call.head(status, *headers)
        await call.write(b'{"error": {"message": "not now"}}')

    return answer
