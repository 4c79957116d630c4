"""Following heads: one watcher tells all waiting readers of a process that a world has grown.

Effects of this process are seen at once, because the committer tells the watcher; those of other processes when these
send a wake-up, and otherwise by polling the heads of the worlds that are waited for, with one query per interval.
Without waiting readers nothing is queried, and worlds without readers cost nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

import orjson
import structlog

from worldledger.aio import Backoff, running, until_done
from worldledger.drafts import MAX_WORD
from worldledger.errors import SimulationError, StoreUnavailableError
from worldledger.lru import Lru
from worldledger_service.database.engine import connect_one
from worldledger_service.database.failures import FOREIGN
from worldledger_service.database.guards import SERVICE_ROLE

if TYPE_CHECKING:
    from worldledger.protocols import LogReader
    from worldledger_service.database.engine import Connection
    from worldledger_service.store.outages import Outages
    from worldledger_service.store.store import Store


# -- wake-ups between processes: each process announces its commits to followers -----------------------------------
#
# They save followers the wait for their next poll of the heads, but nothing relies on them. Wake-ups are sent after the
# commit, on a connection of their own, because a NOTIFY inside the append would make commits queue up database-wide;
# those of one moment go together, and only while a process has recently announced that it follows. If they do not
# arrive (a pooler that loses LISTEN, say), followers poll the heads as before. PostgreSQL lets every login send any:
# so they say where to look, and no head is taken from them.

CHANNEL: Final = "worldledger_heads"
#: Seconds between two announcements of a process that it follows, and seconds for which an announcement is valid.
EVERY: Final = 5.0
_HOLD_SECONDS: Final = 3 * EVERY
#: Seconds between two wake-ups of a process: what is committed meanwhile goes with the next one.
_PAUSE_SECONDS: Final = 0.002
#: Most worlds in one wake-up: a payload has less than 8,000 bytes, a world's name at most 200.
_MOST_WORLDS: Final = 30
#: Seconds between two attempts to connect.
_RECONNECT: Final = (0.1, 5.0)

log = structlog.get_logger("worldledger.store")


class Wakeups:
    """Announces this process's commits to other processes, and receives theirs."""

    def __init__(self, url: str, on_news: Callable[[str, int], None]) -> None:
        self._url = url
        self._on_news = on_news
        self._news: dict[str, int] = {}
        self._stirred = asyncio.Event()
        self._lost = asyncio.Event()
        #: until when (by the loop's clock) others are known to follow, and this process is
        self._followed_until = 0.0
        self._follows_until = 0.0
        #: whether to announce that this process follows, and when to announce it next
        self._say = False
        self._say_next = 0.0
        self._pid = 0
        #: the processes that follow, and when each last said so
        self._followers: dict[int, float] = {}

    @classmethod
    @asynccontextmanager
    async def between(cls, url: str, on_news: Callable[[str, int], None]) -> AsyncIterator[Wakeups]:
        """Take part until the end of the block. A failed connection is not an error; it is retried."""
        wakeups = cls(url, on_news)
        async with running(wakeups._run()):
            yield wakeups

    def tell(self, world_id: str, head_seq: int) -> None:
        """Tell the others, if there are any, that this process has moved a head. Cheap: it follows every commit."""
        if self._followed_until and self._followed_until > asyncio.get_running_loop().time():
            self._news[world_id] = head_seq
            self._stirred.set()

    def follow(self) -> None:
        """Note that this process waits for news; call it now and then while that is so."""
        now = asyncio.get_running_loop().time()
        self._follows_until = now + _HOLD_SECONDS
        if now >= self._say_next:
            self._say_now(now)

    def _say_now(self, now: float) -> None:
        self._say_next = now + EVERY
        self._say = True
        self._stirred.set()

    async def _run(self) -> None:
        backoff = Backoff(*_RECONNECT)
        while True:
            try:
                connection = await connect_one(self._url, role=SERVICE_ROLE, application_name="worldledger follower")
            except SimulationError:
                await backoff.wait()
                continue
            backoff.reset()
            try:
                await self._serve(connection)
            except FOREIGN as error:
                log.debug("wake-ups are cut off; connecting anew", error=str(error))
            finally:
                connection.terminate()
            await asyncio.sleep(_RECONNECT[0])

    async def _serve(self, connection: Connection) -> None:
        self._lost.clear()
        self._pid = connection.get_server_pid()
        connection.add_termination_listener(self._on_lost)
        await connection.execute("set synchronous_commit = off")  # a wake-up need not reach the disk
        await connection.add_listener(CHANNEL, self._heard)
        now = asyncio.get_running_loop().time()
        if now < self._follows_until:
            self._say_now(now)
        while not self._lost.is_set():
            await self._stirred.wait()
            self._stirred.clear()
            if self._say:
                self._say = False
                await connection.execute("select pg_notify($1, '')", CHANNEL)
            while self._news:
                some = [self._news.popitem() for _ in range(min(_MOST_WORLDS, len(self._news)))]
                await connection.execute("select pg_notify($1, $2)", CHANNEL, orjson.dumps(dict(some)).decode())
                await asyncio.sleep(_PAUSE_SECONDS)

    def _on_lost(self, _: object) -> None:
        self._lost.set()
        self._stirred.set()

    def _heard_follower(self, pid: int, now: float) -> None:
        """Note that a process follows. A new one does not know of us yet: announce this process again soon."""
        self._followed_until = now + _HOLD_SECONDS
        if pid not in self._followers:
            self._followers = {other: at for other, at in self._followers.items() if at > now - _HOLD_SECONDS}
            if now < self._follows_until:
                self._say_now(now)
        self._followers[pid] = now

    def _heard(self, connection: object, pid: int, channel: str, payload: object) -> None:
        del connection, channel
        if pid == self._pid:
            return
        if not payload:
            self._heard_follower(pid, asyncio.get_running_loop().time())
            return
        try:
            heads = orjson.loads(str(payload))
            moved = [(name, head) for name, head in heads.items() if type(head) is int and len(name) <= MAX_WORD]
        except (ValueError, AttributeError):
            log.debug("what came over the channel is no wake-up", channel=CHANNEL)
            return
        for world_id, head_seq in moved:
            self._on_news(world_id, head_seq)


#: Worlds whose last known head is remembered between two waits.
_REMEMBERED = 10_000
#: Most seconds between two polls while the database is away.
_LONGEST_PAUSE_SECONDS = 1.0


class HeadWatcher:
    """Lets readers wait for a world's next effect. A head never falls, so a remembered one is a valid lower bound."""

    def __init__(self, reader: LogReader, *, interval: float, outages: Outages | None = None) -> None:
        self._reader = reader
        self._outages = outages
        self._interval = interval
        self._heads: Lru[str, int] = Lru(_REMEMBERED)
        #: the worlds of which there is said to be news, and the task that looks at those that are waited for
        self._news: Lru[str, None] = Lru(_REMEMBERED)
        self._looking: asyncio.Task[None] | None = None
        self._waiting: dict[str, dict[asyncio.Future[int], int]] = {}
        self._poller: asyncio.Task[None] | None = None
        self._wakeups: Wakeups | None = None
        self._closed = False

    @classmethod
    @asynccontextmanager
    async def over(cls, store: Store, *, interval: float, url: str | None = None) -> AsyncIterator[HeadWatcher]:
        """Watch a store's worlds, its own commits included; stop at the end.

        ``interval`` is the pause in seconds between two polls for effects of other processes. With the database's
        ``url`` wake-ups are exchanged with them, which takes one more connection.
        """
        watcher = cls(store.reader, interval=interval, outages=store.outages)
        store.on_commit = watcher.committed
        async with AsyncExitStack() as stack:
            if url is not None:
                watcher._wakeups = await stack.enter_async_context(Wakeups.between(url, watcher.said))
            try:
                yield watcher
            finally:
                store.on_commit = None
                await watcher.close()

    def committed(self, world_id: str, head_seq: int) -> None:
        """Note a commit of this process."""
        self.moved(world_id, head_seq)
        if self._wakeups is not None:
            self._wakeups.tell(world_id, head_seq)

    async def wait_beyond(self, world_id: str, seq: int, timeout: float | None = None) -> int:
        """Wait until the world's head is beyond ``seq`` and return it.

        After ``timeout`` seconds the last known head is returned, which is then not beyond ``seq`` (0 if it is not
        known). While the database is away the wait goes on. Raises StoreUnavailableError once the watcher is closed.
        """
        if self._closed:
            raise _closed()
        head = self._heads.get(world_id, 0)
        if head > seq:
            return head
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(world_id, {})
        waiting[future] = seq
        if self._wakeups is not None:
            self._wakeups.follow()
        if world_id in self._news:
            self._look_soon()
        if self._poller is None:
            self._poller = asyncio.get_running_loop().create_task(self._poll())
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            return self._heads.get(world_id, 0)
        finally:
            del waiting[future]
            if not waiting and self._waiting.get(world_id) is waiting:
                del self._waiting[world_id]

    def known_head(self, world_id: str) -> int:
        """Return a world's head as far as this process knows it, its own commits included; 0 if it does not."""
        return self._heads.get(world_id, 0)

    @property
    def waiting(self) -> int:
        """The number of waiting readers."""
        return sum(map(len, self._waiting.values()))

    def moved(self, world_id: str, head_seq: int) -> None:
        """Note a world's head and wake its waiting readers."""
        if head_seq <= self._heads.get(world_id, 0):
            return
        self._heads[world_id] = head_seq
        for future, seq in self._waiting.get(world_id, {}).items():
            if head_seq > seq and not future.done():
                future.set_result(head_seq)

    def said(self, world_id: str, head_seq: int) -> None:
        """Look soon at a head that is said to have moved: at once if somebody waits for that, else before the wait."""
        if head_seq <= self._heads.get(world_id, 0):
            return
        self._news[world_id] = None
        if world_id in self._waiting:
            self._look_soon()

    def _look_soon(self) -> None:
        if self._looking is None and not self._closed:
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        """Look at the heads that are waited for and said to have moved; if that fails, the next poll does."""
        try:
            while names := [name for name in self._news if name in self._waiting]:
                for name in names:
                    del self._news[name]
                for world_id, head_seq in (await self._reader.head_seqs(names)).items():
                    self.moved(world_id, head_seq)
        except SimulationError as error:
            log.debug("a look at heads failed; they are polled", error=error.message)
        finally:
            self._looking = None

    async def close(self) -> None:
        """Stop polling; waiting readers get an error."""
        self._closed = True
        tasks = [task for task in (self._poller, self._looking) if task is not None]
        for task in tasks:
            task.cancel()
        await until_done(tasks)
        self._fail(_closed())

    async def _poll(self) -> None:
        """Poll the heads that are waited for, until there are none."""
        pause, backoff = self._interval, Backoff(2 * self._interval, max(_LONGEST_PAUSE_SECONDS, self._interval))
        try:
            while self._waiting:
                try:
                    heads = await self._reader.head_seqs(list(self._waiting))
                except SimulationError as error:
                    if self._outages is not None:
                        self._outages.failed(error)
                    pause = backoff.next()
                else:
                    pause = self._interval
                    backoff.reset()
                    for world_id, head_seq in heads.items():
                        self.moved(world_id, head_seq)
                await self._sleep(pause)
        except Exception as error:
            log.exception("following heads failed")
            self._fail(error)
        finally:
            self._poller = None

    async def _sleep(self, pause: float) -> None:
        """Sleep for a pause, however long, announcing now and then that this process follows."""
        if self._wakeups is None:
            await asyncio.sleep(pause)
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + pause
        while self._waiting and (rest := until - loop.time()) > 0:
            self._wakeups.follow()
            await asyncio.sleep(min(rest, EVERY))

    def _fail(self, error: BaseException) -> None:
        for waiting in self._waiting.values():
            for future in waiting:
                if not future.done():
                    future.set_exception(error)


def _closed() -> StoreUnavailableError:
    return StoreUnavailableError("the service is stopping")
