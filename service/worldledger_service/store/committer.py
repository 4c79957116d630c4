"""The committer: one task takes the waiting units of all worlds and writes them in one statement.

Waiting callers make the next group larger: there is no timer and no added latency. A world whose head was moved by
another process, or with an unknown outcome, is settled separately (`settle.py`) while the others go on.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from worldledger.chain import StoredEffect, link
from worldledger.drafts import CheckedDraft
from worldledger.errors import OverloadedError, SimulationError, StoreUnavailableError
from worldledger_service.store import statements
from worldledger_service.store.authority import look_up_authority
from worldledger_service.store.outages import Outages, leaves_doubt
from worldledger_service.store.records import Head, Receipt
from worldledger_service.store.sealing import Group, Sealer, StateNeededError
from worldledger_service.store.settle import Settler
from worldledger_service.store.statements import write_groups
from worldledger_service.store.units import Unit

if TYPE_CHECKING:
    from worldledger_service.database.engine import PooledConnection
    from worldledger_service.settings import Settings
    from worldledger_service.store.states import States


# -- echoes: what this process has just written to a world, for its followers in this process -------------
#
# A follower of a world needs each effect that is written to it, and if this process has written it, it is in memory
# already: reading it back would cost more than the write. An echo holds rows exactly as they were committed, only the
# last of a world, and only while the world is followed. Effects of other processes, and older ones, are read from the
# database. Audits always read the database.


#: Most bytes of texts that are kept for all worlds together, and the least number of effects of a world that are kept.
_MOST_BYTES: Final = 32 * 1024 * 1024
_MOST_ROWS: Final = 256


class Echo:
    """The last effects of one world, consecutive, as far as this process has written them."""

    __slots__ = ("_first", "_rows", "bytes", "followers")

    def __init__(self) -> None:
        #: the number of followers of the world
        self.followers = 0
        #: the bytes in this echo
        self.bytes = 0
        self._rows: list[StoredEffect] = []
        self._first = 0

    def add(self, before: int, rows: Sequence[StoredEffect]) -> None:
        """Add rows that were committed after ``before``."""
        if before != self._first + len(self._rows) - 1:
            self.clear()
            self._first = before + 1
        self._rows += rows
        self.bytes += _size(rows)
        if len(self._rows) > 2 * _MOST_ROWS:
            self.bytes -= _size(self._rows[:-_MOST_ROWS])
            self._first += len(self._rows) - _MOST_ROWS
            del self._rows[:-_MOST_ROWS]

    def clear(self) -> None:
        """Drop all rows."""
        self._rows = []
        self.bytes = 0

    def after(self, seq: int, until: int) -> list[StoredEffect]:
        """Return the rows with seq < global_seq <= until, as far as they are here; none if the first is missing."""
        start = seq + 1 - self._first
        return self._rows[start : until + 1 - self._first] if start >= 0 and until > seq else []


class Echoes:
    """The echoes of the worlds that are followed in this process."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        #: the most recently written world comes last
        self._echoes: OrderedDict[str, Echo] = OrderedDict()

    def follow(self, world_id: str) -> Echo:
        """Keep a world's effects from now on, until `leave`."""
        echo = self._echoes.setdefault(world_id, Echo())
        echo.followers += 1
        return echo

    def leave(self, world_id: str) -> None:
        """End one `follow` of a world."""
        echo = self._echoes[world_id]
        echo.followers -= 1
        if not echo.followers:
            self._bytes -= echo.bytes
            del self._echoes[world_id]

    def __contains__(self, world_id: str) -> bool:
        return world_id in self._echoes

    def add(self, world_id: str, before: int, rows: Sequence[StoredEffect]) -> None:
        """Add rows that this process has committed after ``before``."""
        echo = self._echoes[world_id]
        self._bytes -= echo.bytes
        echo.add(before, rows)
        self._bytes += echo.bytes
        self._echoes.move_to_end(world_id)
        if self._bytes > self._most_bytes:
            self._make_room()

    def _make_room(self) -> None:
        for echo in self._echoes.values():
            self._bytes -= echo.bytes
            echo.clear()
            if self._bytes <= self._most_bytes:
                return


def _size(rows: Sequence[StoredEffect]) -> int:
    return sum(len(row.text) for row in rows)


#: Number of waiting drafts of one world from which on they are written on a connection of their own.
_WIDE = 200


class WorldQueue:
    """The committer's state of one world: its last known head, and the waiting units."""

    __slots__ = ("busy", "head", "pending", "sealer")

    def __init__(self, sealer: Sealer, head: Head | None) -> None:
        self.sealer = sealer
        self.head = head
        self.pending: deque[Unit] = deque()
        self.busy = False


class Committer:
    """Writes the units of all worlds of this process; `commit` queues one."""

    def __init__(
        self, pool: asyncpg.Pool, settings: Settings, url: str, *, outages: Outages, states: States, echoes: Echoes
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._outages = outages
        self._echoes = echoes
        self._settler = Settler(pool, settings, url, outages, states)
        self._ready: dict[WorldQueue, None] = {}
        self._waiting = 0
        self._waiting_bytes = 0
        self._running = False
        self._stopped = asyncio.Event()
        self._alone = True
        self._connection: PooledConnection | None = None
        self._aside: set[asyncio.Task[None]] = set()
        self._closing = False
        #: called with the world and its new head_seq after each commit of this process
        self.on_commit: Callable[[str, int], None] | None = None

    @property
    def waiting(self) -> int:
        """The number of effects that wait for their commit."""
        return self._waiting

    async def commit(self, queue: WorldQueue, unit: Unit) -> list[Receipt]:
        """Queue a unit, wait for its commit and return its receipts.

        Raises OverloadedError if too much waits already, StoreUnavailableError once the store is closing, and the
        reason why the unit is refused.
        """
        self._check_room(unit)
        if self._alone and not self._running and not self._ready and unit.close is None:
            # A lone caller writes by itself: a separate task would only add two turns of the event loop.
            self._begin()
            try:
                await self._lead(queue, unit)
            except asyncio.CancelledError:
                unit.future.cancel()
                raise
            finally:
                self._end()
        else:
            self._enlist(queue, unit)
            self._wake()
        return await unit.future

    async def write_alone(self, queue: WorldQueue, draft: CheckedDraft) -> Receipt | None:
        """Write the single effect of a lone caller, without a req_id, with little more than its one statement.

        This is the common case of a program that appends one effect after another, which notices every step around the
        statement. Returns None, with nothing written, if the ordinary way has to be taken: if others write or wait, if
        the head is unknown or has moved, and if the draft is refused.
        """
        head, connection = queue.head, self._connection
        if self._running or self._ready or queue.busy or self._closing or not self._alone:
            return None
        if head is None or connection is None:
            return None
        sealer = queue.sealer
        wall_time = sealer.now(head)
        try:
            decided = sealer.decide(draft, head.seq) if draft.kind in sealer.checked_kinds else draft
            text, uuid, sim_time = sealer.effect(decided, head.seq + 1, sim_time=head.sim_time, wall_time=wall_time)
        except (SimulationError, StateNeededError):
            return None
        after = Head(head.seq + 1, link(head.checksum, text), sim_time, wall_time)
        receipt = Receipt(after.seq, uuid, after.checksum.hex())
        group = None
        self._begin()
        queue.busy = True
        try:
            with self._outages.watchdog.asked():
                status = await connection.execute(
                    statements.APPEND_ONE,
                    sealer.world_id,
                    head.seq,
                    text.decode(),
                    after.checksum,
                    sim_time,
                    wall_time,
                    decided.kind,
                    decided.source_id,
                )
        except BaseException as error:
            # Settling decides again, so it gets the draft as it was given.
            group = Group.of_one(sealer.world_id, head, after, text.decode(), receipt, given=draft, decided=decided)
            self._failed(error, [(queue, group, [])])
            if isinstance(error, asyncio.CancelledError):
                group.units[0][0].future.cancel()
            if not isinstance(error, Exception):
                raise
        else:
            written = status == "INSERT 0 1"
            queue.head = after if written else None
            if written and (sealer.live is not None or sealer.recent is not None):
                sealer.confirm(head.seq, [text.decode()], [after.checksum])
            if written and sealer.world_id in self._echoes:
                row = StoredEffect(after.seq, text, after.checksum, decided.kind, decided.source_id, sim_time)
                self._echoes.add(sealer.world_id, head.seq, [row])
            self._done(queue)
            if written and self.on_commit is not None:
                self.on_commit(sealer.world_id, after.seq)
        finally:
            self._end()
        if group is not None:
            return (await group.units[0][0].future)[0]
        return receipt if written else None

    def _check_room(self, unit: Unit) -> None:
        if self._closing:
            raise StoreUnavailableError("the store is closing; nothing of this call was written")
        if (
            self._waiting + len(unit.drafts) > self._settings.max_waiting
            or self._waiting_bytes + unit.size > self._settings.max_waiting_bytes
        ):
            raise OverloadedError(
                f"{self._waiting} effects ({self._waiting_bytes} bytes) wait for their commit; try again later",
                waiting=self._waiting,
            )

    def _enlist(self, queue: WorldQueue, unit: Unit) -> None:
        self._waiting += len(unit.drafts)
        self._waiting_bytes += unit.size
        queue.pending.append(unit)
        if not queue.busy:
            self._ready[queue] = None

    async def close(self) -> None:
        """Write the waiting units, then stop. Further calls are refused."""
        self._closing = True
        while self._running or self._aside:
            if self._running:
                await self._stopped.wait()
            else:
                await asyncio.wait(self._aside)
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await self._pool.release(connection)

    # -- the main loop -------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._ready and not self._running:
            self._begin()
            self._start(self._run())

    def _begin(self) -> None:
        self._running = True
        self._stopped.clear()

    def _end(self) -> None:
        self._running = False
        self._wake()
        if not self._running:
            self._stopped.set()

    async def _lead(self, queue: WorldQueue, unit: Unit) -> None:
        """Write one unit that no other unit waits for."""
        if queue.busy or queue.head is None or self._connection is None:
            self._enlist(queue, unit)
            if self._ready:
                await self._write_next()
        else:
            queue.busy = True
            await self._write(self._connection, [(queue, [unit])])

    async def _run(self) -> None:
        """Write groups until no world is ready."""
        try:
            while self._ready:
                await self._write_next()
                if not self._alone:
                    # Callers that were just answered run now, and come back in time for the next group.
                    await asyncio.sleep(0)
        finally:
            self._end()

    async def _write_next(self) -> None:
        """Write the waiting units. The connection is kept: acquiring one costs as much as a write."""
        taken = self._take()
        self._alone = len(taken) == 1 and len(taken[0][1]) == 1
        try:
            with self._outages.watchdog.asked():
                if self._connection is None:
                    self._connection = await self._pool.acquire()
                    await self._connection.execute(statements.FOR_COMMITTING)
                    self._outages.answered()
                for queue, _ in taken:
                    if queue.head is None:
                        queue.head = await self._load_head(self._connection, queue.sealer)
        except BaseException as error:
            for queue, units in taken:
                self._settle_aside(queue, units, None)
            self._drop_connection()
            if not isinstance(error, Exception):
                raise
        else:
            await self._write(self._connection, taken)

    def _take(self) -> list[tuple[WorldQueue, list[Unit]]]:
        """Take the waiting units of the ready worlds, up to what one statement may hold."""
        taken: list[tuple[WorldQueue, list[Unit]]] = []
        room = self._settings.max_group
        for queue in list(self._ready):
            if room <= 0:
                break
            del self._ready[queue]
            units, count = self._take_units(queue)
            if (count >= _WIDE and (self._ready or taken)) or any(unit.close is not None for unit in units):
                # A long group must not delay the short ones of other worlds. And a unit that closes a tick needs its
                # lock.
                self._settle_aside(queue, units, None)
                continue
            room -= count
            taken.append((queue, units))
        return taken

    def _take_units(self, queue: WorldQueue) -> tuple[list[Unit], int]:
        queue.busy = True
        units: list[Unit] = []
        count = 0
        pending = queue.pending
        while pending and (not units or count + len(pending[0].drafts) <= self._settings.max_group):
            unit = pending.popleft()
            count += len(unit.drafts)
            units.append(unit)
            self._waiting -= len(unit.drafts)
            self._waiting_bytes -= unit.size
        return units, count

    @staticmethod
    async def _load_head(connection: PooledConnection, sealer: Sealer) -> Head:
        row = await connection.fetchrow(statements.HEAD, sealer.world_id)
        head = Head.of(sealer.world_id, row)
        await look_up_authority(connection, sealer, head.seq)
        return head

    async def _write(self, connection: PooledConnection, taken: list[tuple[WorldQueue, list[Unit]]]) -> None:
        """Write the groups in one statement and answer their callers."""
        sealed: list[tuple[WorldQueue, Group, list[Unit]]] = []
        for queue, units in taken:
            assert queue.head is not None  # noqa: S101 - loaded just before
            try:
                group, later, refused = queue.sealer.seal(queue.head, units)
            except Exception as error:  # noqa: BLE001 - a broken clock, say: its callers are told, the world goes on
                for unit in units:
                    unit.fail(error)
                self._done(queue)
                continue
            queue.pending.extendleft(reversed(later))
            self._waiting += sum(len(unit.drafts) for unit in later)
            self._waiting_bytes += sum(unit.size for unit in later)
            if group.texts:
                sealed.append((queue, group, refused))
            else:
                group.answer()
                self._go_on(queue, refused)
        if not sealed:
            return
        try:
            with self._outages.watchdog.asked():
                written = await write_groups(connection, [group for _, group, _ in sealed])
        except BaseException as error:
            self._failed(error, sealed)
            if not isinstance(error, Exception):
                raise
            return
        self._outages.answered()
        for queue, group, refused in sealed:
            if group.world_id in written:
                queue.head = group.after
                queue.sealer.confirm_group(group)
                if group.world_id in self._echoes:
                    self._echoes.add(group.world_id, group.before.seq, group.rows())
                group.answer()
                self._tell(queue)
                self._go_on(queue, refused)
            else:
                self._settle_aside(queue, [*(unit for unit, _ in group.units), *refused], None)

    def _failed(self, error: BaseException, sealed: list[tuple[WorldQueue, Group, list[Unit]]]) -> None:
        """Settle the groups of a statement that failed, or may have failed."""
        lost = leaves_doubt(error)
        for queue, group, refused in sealed:
            self._settle_aside(queue, [*(unit for unit, _ in group.units), *refused], group if lost else None)
        if lost:
            self._drop_connection()

    def _go_on(self, queue: WorldQueue, refused: list[Unit]) -> None:
        """Let the world's next units be written; a refusal is judged again under the lock before it is final."""
        if refused:
            self._settle_aside(queue, refused, None)
        else:
            self._done(queue)

    def _tell(self, queue: WorldQueue) -> None:
        """Report this world's present head to its followers (`worldledger_service.store.watch`)."""
        if self.on_commit is not None and queue.head is not None:
            self.on_commit(queue.sealer.world_id, queue.head.seq)

    def _done(self, queue: WorldQueue) -> None:
        queue.busy = False
        if queue.pending:
            self._ready[queue] = None

    def _drop_connection(self) -> None:
        """Return a broken connection to the pool, which replaces it."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(asyncpg.InterfaceError):  # the pool has noticed by itself and taken it back
                connection.terminate()
            self._start(self._pool.release(connection))

    # -- settling ------------------------------------------------------------------------------------------

    def _settle_aside(self, queue: WorldQueue, units: list[Unit], in_doubt: Group | None) -> None:
        self._start(self._settle(queue, units, in_doubt))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    async def _settle(self, queue: WorldQueue, units: list[Unit], in_doubt: Group | None) -> None:
        queue.head = None  # from here on the last known head is not reliable
        try:
            queue.head = await self._settler.settle(queue.sealer, units, in_doubt)
        finally:
            self._done(queue)
            self._tell(queue)
            self._wake()
