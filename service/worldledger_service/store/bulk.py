"""Bulk writing by COPY: whole worlds at once, or very many effects for one world, in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import asyncpg

from worldledger.drafts import check_draft
from worldledger.errors import InvalidEffectError
from worldledger_service.database.engine import transaction
from worldledger_service.store import statements
from worldledger_service.store.copying import copy_rows
from worldledger_service.store.records import Head
from worldledger_service.store.sealing import Sealer
from worldledger_service.store.tampering import beyond_the_head
from worldledger_service.store.units import conflict

if TYPE_CHECKING:
    from worldledger_service.database.engine import PooledConnection
    from worldledger_service.store.import_snapshots import ImportSnapshots
Row = tuple[str, int, str, bytes, str, str, float]
#: How often progress is told, in effects.
_STEP = 1000


class MovedOnError(Exception):
    """The world's head is another one than the caller has read up to: it is to read on. It never leaves the store."""


class _CallersError(Exception):
    """Carries an error of the caller's own iterable past those who explain the database's errors."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


@contextmanager
def callers_errors_as_they_are() -> Iterator[None]:
    """Raise what the caller's iterable of drafts raised, which is no trouble of the database's."""
    try:
        yield
    except _CallersError as carried:
        raise carried.error from carried.error.__cause__


def _from_caller(drafts: Iterable[Any]) -> Iterator[Any]:
    try:
        yield from drafts
    except Exception as error:
        raise _CallersError(error) from error


class BulkWriter:
    """Streams drafts into COPY after a world's locked head, and moves the head at the end.

    Order is the order given; nothing is sorted. Memory is bounded whatever the number of drafts. Requests are
    gathered along the way; one that the world has already seen makes the whole write fail. ``wall_time`` is that of
    the effects, by default the clock's. ``snapshots`` are handed the effects of a world that is imported.

    ``system``, ``default_priority`` and ``recorded``: see `check_draft`.
    """

    def __init__(
        self,
        connection: PooledConnection,
        sealer: Sealer,
        head: Head,
        *,
        system: bool = False,
        default_priority: int = 0,
        recorded: bool = False,
        wall_time: float | None = None,
        snapshots: ImportSnapshots | None = None,
    ) -> None:
        self._connection = connection
        self._sealer = sealer
        self._check = partial(check_draft, system=system, default_priority=default_priority, recorded=recorded)
        self._wall_time = wall_time
        self._snapshots = snapshots
        self.head = head
        self._requests: list[tuple[str, str, str, bytes, int, int]] = []

    async def write(self, drafts: Iterable[Any], progress: Callable[[int], None] | None = None) -> Head:
        """Write the drafts inside the caller's transaction and give the new head."""
        before = self.head
        rows = self._rows(drafts, progress)
        if self._snapshots is not None:
            rows = self._snapshots.through(rows)
        with beyond_the_head(self._sealer.world_id, before.seq):
            await copy_rows(self._connection, "effects", rows, statements.EFFECT_COLUMNS)
        if self.head == before:
            return before  # there was nothing
        await self._write_requests()
        if before.seq:
            await self._connection.execute(statements.SET_HEAD, self._sealer.world_id, *self.head, before.seq)
        else:
            await self._connection.execute(statements.INSERT_HEAD, self._sealer.world_id, *self.head)
        return self.head

    async def _write_requests(self) -> None:
        if not self._requests:
            return
        try:
            async with transaction(self._connection):  # a savepoint, so that the culprit can be looked for
                await copy_rows(self._connection, "requests", self._requests, statements.REQUEST_COLUMNS)
        except asyncpg.UniqueViolationError:
            keys = [(source_id, req_id) for _, source_id, req_id, *_ in self._requests]
            known = await self._connection.fetchrow(
                statements.KNOWN_REQUESTS, self._sealer.world_id, *map(list, zip(*keys, strict=True))
            )
            twice = next((key for key, times in Counter(keys).items() if times > 1), None)
            if known is not None:
                raise conflict(known["req_id"], global_seq=known["first_seq"]) from None
            raise conflict(twice[1] if twice else "of this import") from None

    def _rows(self, drafts: Iterable[Any], progress: Callable[[int], None] | None) -> Iterator[Row]:
        sealer = self._sealer
        world_id = sealer.world_id
        wall_time = sealer.now(self.head) if self._wall_time is None else self._wall_time
        seq, checksum, sim_time, _ = self.head
        prefix = checksum.hex().encode()
        index = -1
        check = self._check
        for index, given in enumerate(_from_caller(drafts)):
            try:
                draft = check(given)
            except InvalidEffectError as error:
                raise error.at(index) from None
            seq += 1
            text, _uuid, sim_time = sealer.effect(draft, seq, sim_time=sim_time, wall_time=wall_time, index=index)
            digest = sha256(prefix + text)
            checksum = digest.digest()
            prefix = digest.hexdigest().encode()
            if draft.req_id is not None:
                self._requests.append((world_id, draft.source_id, draft.req_id, draft.body_digest(), seq, seq))
            yield world_id, seq, text.decode(), checksum, draft.kind, draft.source_id, sim_time
            if progress is not None and index % _STEP == _STEP - 1:
                progress(_STEP)
        if progress is not None:
            progress((index + 1) % _STEP)
        if index >= 0:
            self.head = Head(seq, checksum, sim_time, wall_time)
