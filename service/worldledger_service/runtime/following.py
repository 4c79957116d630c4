"""Following a world: its effects in the order of the log, whichever process writes them, none missing and none twice.

A `Tail` reads them, one batch at a time. A `Follower` hands them on in a task of its own. `ViewFollower` folds them
into the views of the agents that are attached here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Final

import orjson
import structlog

from worldledger.aio import Backoff, until_done
from worldledger.chain import Position, StoredEffect, Verifier
from worldledger.effects import Effect
from worldledger.errors import FoldError, SimulationError, StoreUnavailableError
from worldledger.protocols import Span
from worldledger.views import Sighting, Views

if TYPE_CHECKING:
    from worldledger_service.store import Store
    from worldledger_service.store.committer import Echo
    from worldledger_service.store.reader import Reader
    from worldledger_service.store.watch import HeadWatcher

#: Effects that a follower takes before the event loop runs other tasks.
_ROWS_AT_ONCE: Final = 100
#: Most effects that are read for several worlds by one query.
_MOST_ROWS: Final = 5000
#: Turns of the event loop before new effects are read: the callers that wrote them are answered first.
_TURNS: Final = 3
#: Seconds between two attempts while the database is away.
_PAUSE_SECONDS: Final = (0.05, 2.0)
#: Seconds that catching up may take where other calls wait for it.
_PATIENCE_SECONDS: Final = 10.0

log = structlog.get_logger("worldledger.runtime")

#: Reads the first rows of a span: at least one, unless the log has none there.
Read = Callable[[Span], Awaitable[list[StoredEffect]]]
#: Told each effect, in order and right after it was folded, with what the attached agents see of it.
OnEffect = Callable[[Effect, list[Sighting], int], None]


class Tail:
    """A world's effects after ``seq``: first those in the log, then each new one once it is durable.

    Its reader asks for the next effects once it has dealt with the last, so a slow reader holds one batch and delays no
    other. With an ``echo``, effects that this process has just written are not read back; ``read`` replaces the query.
    """

    def __init__(
        self,
        store: Store,
        watcher: HeadWatcher,
        world_id: str,
        seq: int,
        *,
        echo: Echo | None = None,
        read: Read | None = None,
    ) -> None:
        self.world_id = world_id
        #: the last effect that was returned
        self.seq = seq
        self._store = store
        self._watcher = watcher
        self._echo = echo
        self._from_log: Read = self._first_batch if read is None else read

    async def next(self, timeout: float | None = None) -> list[StoredEffect]:
        """Return the next effects, or none if none have come after ``timeout`` seconds.

        While the database is away the wait goes on. Raises StoreUnavailableError once the service stops.
        """
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        backoff: Backoff | None = None
        while True:
            rest = None if until is None else max(until - loop.time(), 0)
            head = await self._watcher.wait_beyond(self.world_id, self.seq, rest)
            if head <= self.seq or (backoff is not None and rest == 0):
                return []
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            try:
                rows = await self._read(head)
            except SimulationError as error:
                log.debug("following waits for the database", world_id=self.world_id, error=error.message)
            else:
                if rows:
                    self.seq = rows[-1].global_seq
                    return rows
            # The database is away, or the head names effects that are not there.
            backoff = backoff or Backoff(*_PAUSE_SECONDS)
            await backoff.wait()

    async def _read(self, head: int) -> list[StoredEffect]:
        """Return effects that this process has just written, or else the next ones from the log."""
        rows = [] if self._echo is None else self._echo.after(self.seq, head)
        return rows or await self._from_log(Span(self.world_id, self.seq, head))

    async def _first_batch(self, span: Span) -> list[StoredEffect]:
        rows = self._store.reader.batches(span.world_id, after_seq=span.after_seq, until_seq=span.until_seq)
        async with aclosing(rows) as batches:
            return await anext(batches, [])


class SharedReads:
    """Reads for many tails: one query for all worlds that have moved since the last one."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._wanted: dict[asyncio.Future[list[StoredEffect]], Span] = {}
        self._task: asyncio.Task[None] | None = None

    async def first(self, span: Span) -> list[StoredEffect]:
        """Return the first rows of a span. Raises as a read."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[StoredEffect]] = loop.create_future()
        self._wanted[future] = span
        if self._task is None:
            self._task = loop.create_task(self._run())
        return await future

    async def close(self) -> None:
        """Stop reading, once no tail reads any more."""
        if self._task is not None:
            self._task.cancel()
            await until_done([self._task])

    async def _run(self) -> None:
        """Read until nothing is wanted."""
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, {}
                try:
                    found = await self._reader.gather([*wanted.values()], limit=_MOST_ROWS)
                except Exception as error:  # noqa: BLE001 - the tails that wait for it say what it is
                    _fail(wanted, error)
                    continue
                for future, rows in zip(wanted, found, strict=True):
                    if not future.done():
                        future.set_result(rows)
        finally:
            self._task = None


class Follower:
    """Hands a world's effects to `_take`, in order, in a task of its own.

    An error of the log itself (TamperedError, FoldError) ends it: callers that wait are told, and so are later ones. An
    outage of the database is waited out.
    """

    def __init__(self, store: Store, watcher: HeadWatcher, world_id: str) -> None:
        self.world_id = world_id
        #: the error that has ended the following, if it has ended
        self.error: SimulationError | None = None
        self._store = store
        self._watcher = watcher
        self._task: asyncio.Task[None] | None = None
        #: the seqs that are waited for: True once it is taken, False where that was not in time
        self._waiting: dict[asyncio.Future[bool], int] = {}

    @property
    def seq(self) -> int:
        """The last effect that was taken."""
        raise NotImplementedError

    def _take(self, rows: list[StoredEffect]) -> None:
        """Take the next effects."""
        raise NotImplementedError

    def follow(self, read: Read | None = None) -> None:
        """Take every effect after `seq` from now on; ``read`` as of a `Tail`."""
        echo = self._store.echoes.follow(self.world_id)
        self._tail = Tail(self._store, self._watcher, self.world_id, self.seq, echo=echo, read=read)
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self, error: SimulationError) -> asyncio.Task[None] | None:
        """End the following with an error; return the task to wait for, if it is under way."""
        self.end(error)
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            self._store.echoes.leave(self.world_id)
        return task

    def end(self, error: SimulationError) -> None:
        """Note the error that ends the following; callers that wait are told."""
        if self.error is None:
            self.error = error
        _fail(self._waiting, error)

    def raise_if_ended(self) -> None:
        """Raise the error that has ended the following, if it has ended."""
        if self.error is not None:
            raise self.error

    async def reached(self, seq: int, timeout: float | None = None) -> bool:
        """Wait until the effect at ``seq`` is taken; return False if it is not after ``timeout`` seconds.

        Raises the error that ends the following.
        """
        if self.seq >= seq:
            return True
        self.raise_if_ended()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        self._waiting[future] = seq
        timer = None if timeout is None else loop.call_later(timeout, _answer, future, False)
        try:
            return await future
        finally:
            del self._waiting[future]
            if timer is not None:
                timer.cancel()

    async def catch_up(self, timeout: float | None = _PATIENCE_SECONDS) -> None:
        """Wait until every effect that is in the log now is taken, at most ``timeout`` seconds."""
        heads = await self._store.reader.head_seqs([self.world_id])
        head = heads.get(self.world_id, 0)
        self._watcher.moved(self.world_id, head)
        await self.reached(head, timeout)

    async def _run(self) -> None:
        try:
            while self.error is None:
                rows = await self._tail.next()
                for start in range(0, len(rows), _ROWS_AT_ONCE):
                    self._take(rows[start : start + _ROWS_AT_ONCE])
                    seq = self.seq
                    for future, wanted in self._waiting.items():
                        if wanted <= seq:
                            _answer(future, True)
                    if len(rows) > _ROWS_AT_ONCE:
                        await asyncio.sleep(0)
        except SimulationError as error:
            log.warning("the world is no longer followed", world_id=self.world_id, error=error.message)
            self.end(error)
        except Exception as error:
            log.exception("following a world failed", world_id=self.world_id)
            self.end(FoldError(f"world {self.world_id}: following it failed: {error}", world_id=self.world_id))


class ViewFollower(Follower):
    """Keeps the views of one world's agents up to date with its log."""

    def __init__(
        self,
        store: Store,
        watcher: HeadWatcher,
        world_id: str,
        on_effect: OnEffect,
        *,
        max_patch_ops: int | None = None,
    ) -> None:
        super().__init__(store, watcher, world_id)
        self._on_effect = on_effect
        self._max_patch_ops = max_patch_ops
        self._verifier: Verifier | None = None
        self._views: Views | None = None

    @property
    def views(self) -> Views:
        """The state of the world, and the attached agents' views of it, at `seq`. Raises what ended the following."""
        self.raise_if_ended()
        assert self._views is not None  # noqa: S101 - there from `start` on
        return self._views

    @property
    def seq(self) -> int:
        """The last effect that the views have. Raises what ended the following."""
        return self.views.seq

    async def start(self) -> None:
        """Fold the world up to its head, and follow it from there on."""
        world = await self._store.world(self.world_id)
        base = await self._store.states.base_at(self.world_id, world.head_seq)
        self._views = Views(base.fold, max_patch_ops=self._max_patch_ops)
        self._verifier = Verifier(self.world_id, start=Position(base.fold.seq, base.checksum))
        self.follow()

    async def close(self) -> None:
        """Stop; callers that wait are told that the world is being closed."""
        task = self.stop(StoreUnavailableError("the world is being closed"))
        if task is not None:
            await until_done([task])

    async def fold_known(self, timeout: float) -> None:
        """Wait until the views have every effect that this process knows to be in the log, such as its own."""
        head = self._watcher.known_head(self.world_id)
        if head > self.seq:
            await self.reached(head, timeout)

    def _take(self, rows: list[StoredEffect]) -> None:
        assert self._verifier is not None  # noqa: S101 - there from `start` on
        if not self._verifier.feed_chain(rows):
            assert self._verifier.finding is not None  # noqa: S101 - it says why
            raise self._verifier.finding.error()
        views = self.views
        for row in rows:
            effect: Effect = orjson.loads(row.text)
            self._on_effect(effect, views.apply(effect), len(row.text))


def _answer(future: asyncio.Future[bool], reached: bool) -> None:
    if not future.done():
        future.set_result(reached)


def _fail(waiting: Iterable[asyncio.Future[Any]], error: Exception) -> None:
    for future in waiting:
        with suppress(asyncio.InvalidStateError):
            future.set_exception(error)
