"""Following one world: its effects, whoever wrote them, folded in order into the views of the agents attached here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final

import orjson
import structlog

from worldledger.aio import Backoff
from worldledger.chain import Position, StoredEffect, Verifier
from worldledger.effects import Effect
from worldledger.errors import FoldError, SimulationError, StoreUnavailableError, TamperedError
from worldledger.views import Sighting, Views

if TYPE_CHECKING:
    from worldledger_service.store import Store
    from worldledger_service.store.echoes import Echo
    from worldledger_service.store.watch import HeadWatcher

#: Effects that are folded at a stretch before others on the event loop have their turn.
_AT_ONCE: Final = 100
#: Turns of the event loop that those have first who are answered for what was written: nobody waits for the views yet.
_TURNS: Final = 3
#: Seconds between two tries while the database is away.
_PAUSE: Final = (0.05, 2.0)

log = structlog.get_logger("worldledger.runtime")

#: Seconds that catching up may take where others wait for it.
_PATIENCE: Final = 10.0

#: Told each effect, in order and right after it was folded, with what the attached agents see of it.
OnEffect = Callable[[Effect, list[Sighting], int], None]


class Follower:
    """Keeps the views of one world up with its log.

    What has gone wrong with the log itself (TamperedError, FoldError) ends it: everybody who waits is told, and so is
    whoever comes later. An outage of the database is waited out.
    """

    def __init__(
        self,
        store: Store,
        watcher: HeadWatcher,
        world_id: str,
        on_effect: OnEffect,
        *,
        max_patch_ops: int | None = None,
    ) -> None:
        self._store = store
        self._watcher = watcher
        self.world_id = world_id
        self._on_effect = on_effect
        self._max_patch_ops = max_patch_ops
        self._echo: Echo | None = None
        self._verifier: Verifier | None = None
        self._views: Views | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiting: dict[asyncio.Future[None], int] = {}
        self._error: SimulationError | None = None

    @property
    def error(self) -> SimulationError | None:
        """What has ended the following, if it has ended."""
        return self._error

    @property
    def views(self) -> Views:
        """The state of the world, and the attached agents' views of it, at `seq`. Raises what ended the following."""
        self.raise_if_ended()
        assert self._views is not None  # noqa: S101 - there from `start` on
        return self._views

    def raise_if_ended(self) -> None:
        """Raise what has ended the following, if it has ended."""
        if self._error is not None:
            raise self._error

    @property
    def seq(self) -> int:
        """The last effect that the views have."""
        return self.views.seq

    async def start(self) -> None:
        """Fold the world up to its head, and follow it from there on."""
        world = await self._store.world(self.world_id)
        base = await self._store.states.base_at(self.world_id, world.head_seq)
        self._views = Views(base.fold, max_patch_ops=self._max_patch_ops)
        self._verifier = Verifier(self.world_id, start=Position(base.fold.seq, base.checksum))
        self._echo = self._store.echoes.follow(self.world_id)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop; whoever waits is told that the service is stopping."""
        self._end(StoreUnavailableError("the world is being closed"))
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._echo is not None:
            self._echo = None
            self._store.echoes.leave(self.world_id)

    async def reached(self, seq: int, timeout: float | None = None) -> bool:
        """Wait until the views have the effect at ``seq``; return False if they have not after ``timeout`` seconds."""
        if self.seq >= seq:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = seq
        try:
            async with asyncio.timeout(timeout):
                await future
        except TimeoutError:
            return False
        finally:
            del self._waiting[future]
        return True

    async def fold_known(self, timeout: float) -> None:
        """Wait until the views have every effect that this process knows to be in the log, such as its own."""
        head = self._watcher.known_head(self.world_id)
        if head > self.seq:
            await self.reached(head, timeout)

    async def catch_up(self) -> None:
        """Wait until the views have every effect that is in the log now, though not for ever."""
        heads = await self._store.reader.head_seqs([self.world_id])
        self._watcher.moved(self.world_id, heads.get(self.world_id, 0))
        await self.reached(heads.get(self.world_id, 0), _PATIENCE)

    async def _run(self) -> None:
        backoff = Backoff(*_PAUSE)
        while self._error is None:
            try:
                head = await self._watcher.wait_beyond(self.world_id, self.seq)
                before = self.seq
                for _ in range(_TURNS):
                    await asyncio.sleep(0)
                await self._read_on(head)
                if self.seq == before:  # the head names effects that are not there
                    await asyncio.sleep(_PAUSE[0])
                backoff.reset()
            except (TamperedError, FoldError) as error:
                log.warning("the world is no longer followed", world_id=self.world_id, error=error.message)
                self._end(error)
            except SimulationError as error:
                log.debug("following waits for the database", world_id=self.world_id, error=error.message)
                await backoff.wait()
            except Exception as error:
                log.exception("following a world failed", world_id=self.world_id)
                self._end(FoldError(f"world {self.world_id}: following it failed: {error}", world_id=self.world_id))

    async def _read_on(self, head: int) -> None:
        """Take what this process has just written, and read what is then missing up to ``head``."""
        if self._echo is not None:
            await self._take_all(self._echo.after(self.seq, head))
        if self.seq < head:
            span = self._store.reader.batches(self.world_id, after_seq=self.seq, until_seq=head)
            async with aclosing(span) as batches:
                async for batch in batches:
                    await self._take_all(batch)

    async def _take_all(self, rows: list[StoredEffect]) -> None:
        assert self._verifier is not None  # noqa: S101 - there from `start` on
        if not self._verifier.feed_chain(rows):
            assert self._verifier.finding is not None  # noqa: S101 - it says why
            raise self._verifier.finding.error()
        for start in range(0, len(rows), _AT_ONCE):
            self._take(rows[start : start + _AT_ONCE])
            if len(rows) > _AT_ONCE:
                await asyncio.sleep(0)

    def _take(self, rows: list[StoredEffect]) -> None:
        views = self.views
        for row in rows:
            effect: Effect = orjson.loads(row.text)
            self._on_effect(effect, views.apply(effect), len(row.text))
        seq = views.seq
        for future, wanted in self._waiting.items():
            if wanted <= seq and not future.done():
                future.set_result(None)

    def _end(self, error: SimulationError) -> None:
        if self._error is None:
            self._error = error
        for future in self._waiting:
            with suppress(asyncio.InvalidStateError):
                future.set_exception(error)
