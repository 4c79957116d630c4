"""A proxy between a store and its server that loses, cuts or holds what passes, when told to.

What to act on is recognised by bytes that stand in it, such as a word of a draft's payload or ``COMMIT``. A rule
acts once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

_CHUNK = 2**20
_FIELDS = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"
#: What a server says to whoever comes too early.
_STARTING = b"E" + (len(_FIELDS) + 4).to_bytes(4) + _FIELDS
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(eq=False)
class Rule:
    """What happens to the request in which ``needle`` stands; ``done`` is set once it has happened."""

    needle: bytes
    act: Literal["lose request", "lose answer", "hold request"]
    before_cut: Callable[[], Awaitable[None]] | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)
    held: tuple[Pair, bytes] | None = None

    async def release(self) -> bytes:
        """Send a held request to the server after all and give the beginning of its answer."""
        await self.done.wait()
        assert self.held is not None
        (reader, writer), data = self.held
        writer.write(data)
        answer = await reader.read(_CHUNK)
        writer.close()
        return answer


class Proxy:
    """Listens on a port of its own and passes everything on to the server of ``url``."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._rules: list[Rule] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusing = False
        #: how many were told that the server is starting up; None: nobody is
        self.told_to_wait: int | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.url = ""

    def lose_request(self, needle: bytes, *, before_cut: Callable[[], Awaitable[None]] | None = None) -> Rule:
        """Cut the connection instead of passing the request on; ``before_cut`` runs before the store notices."""
        return self._add(Rule(needle, "lose request", before_cut))

    def lose_answer(self, needle: bytes) -> Rule:
        """Pass the request on, and cut the connection instead of passing on the answer."""
        return self._add(Rule(needle, "lose answer"))

    def hold_request(self, needle: bytes) -> Rule:
        """Keep the request, which `Rule.release` sends later, also when the store has long gone away."""
        return self._add(Rule(needle, "hold request"))

    def cut_all(self) -> None:
        """Cut every connection now."""
        for writer in list(self._writers):
            writer.transport.abort()

    def refuse_all(self) -> None:
        """Refuse every new connection until `accept_again`."""
        self._refusing = True

    def start_up(self) -> None:
        """Tell every new connection that the server is starting up, until `accept_again`."""
        self.told_to_wait = 0

    def accept_again(self) -> None:
        """End `refuse_all` and `start_up`."""
        self._refusing = False
        self.told_to_wait = None

    def freeze(self) -> None:
        """Pass nothing on, and answer nobody, until `thaw`: nothing is lost, and nothing fails."""
        self._flowing.clear()

    def thaw(self) -> None:
        """End `freeze`: what was held is passed on."""
        self._flowing.set()

    def _add(self, rule: Rule) -> Rule:
        self._rules.append(rule)
        return rule

    async def _connect(self) -> Pair:
        query = parse_qs(self._parts.query)
        if "host" in query:
            return await asyncio.open_unix_connection(f"{query['host'][0]}/.s.PGSQL.{query['port'][0]}")
        return await asyncio.open_connection(unquote(self._parts.hostname or "127.0.0.1"), self._parts.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        if self.told_to_wait is not None:
            await reader.read(_CHUNK)
            writer.write(_STARTING)
            writer.close()
            self.told_to_wait += 1
            return
        await self._flowing.wait()
        upstream = await self._connect()
        self._writers |= {writer, upstream[1]}
        answers = asyncio.get_running_loop().create_task(self._answers(upstream[0], writer))
        self._tasks.add(answers)
        keep = False
        try:
            while data := await reader.read(_CHUNK):
                await self._flowing.wait()
                rule = next((rule for rule in self._rules if rule.needle in data), None)
                if rule is None:
                    upstream[1].write(data)
                    continue
                self._rules.remove(rule)
                answers.cancel()
                await asyncio.gather(answers, return_exceptions=True)
                keep = rule.act == "hold request"
                await self._apply(rule, data, upstream, reader)
                return
        except ConnectionError:
            pass
        finally:
            writer.close()
            if not keep:
                upstream[1].close()

    @staticmethod
    async def _apply(rule: Rule, data: bytes, upstream: Pair, reader: asyncio.StreamReader) -> None:
        if rule.act == "hold request":
            rule.held = upstream, data
            rule.done.set()
            await reader.read()  # until the store gives up
            return
        if rule.act == "lose answer":
            upstream[1].write(data)
            await upstream[0].read(_CHUNK)  # the server answers after its commit
        else:
            upstream[1].close()
            if rule.before_cut is not None:
                await rule.before_cut()
        rule.done.set()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(_CHUNK):
                await self._flowing.wait()
                writer.write(data)
            writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        """Listen for as long as the block runs."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        login = self._parts.netloc.rpartition("@")[0]
        netloc = f"{login}@127.0.0.1:{port}"
        self.url = urlunsplit(self._parts._replace(netloc=netloc, query="sslmode=disable"))
        try:
            yield self
        finally:
            server.close()
            self.thaw()
            self.cut_all()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
