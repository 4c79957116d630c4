"""The paced replay of ``worldledger replay``: effects on stdout, with the pauses that lay between them."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import typer

from worldledger.errors import StoreUnavailableError, TamperedError
from worldledger_service.cli.connect import Target, with_store
from worldledger_service.cli.layout import Piece, put_lines, screen_width, shown
from worldledger_service.cli.moments import Moment, first_seq_from, seq_of, shown_duration, shown_wall_time
from worldledger_service.cli.naming import find_world
from worldledger_service.cli.output import plain, put_bytes, say
from worldledger_service.cli.stored import read_effect

if TYPE_CHECKING:
    from worldledger.chain import StoredEffect
    from worldledger_service.store import Store, WorldRecord

#: Replays and pauses that take longer than this many seconds are announced.
_LONG: Final = 60.0
#: Seconds below which a pause is no pause.
_SHORTEST: Final = 0.002
#: Seconds that a replay may be late before it gives up catching up.
_MOST_LATE: Final = 1.0
#: Seconds between two attempts while the database is away.
_PAUSE: Final = 0.5
#: Columns of a line where nobody looks.
_WIDTH: Final = 160


class Pace:
    """How fast time passes in a replay: ``speed`` times as fast as by the world's clock.

    An infinite speed has no pauses. ``now`` gives seconds that never go back.
    """

    def __init__(self, speed: float, *, wall: bool, now: Callable[[], float] = time.monotonic) -> None:
        self.speed = speed
        self.clock = "wall_time" if wall else "sim_time"
        self._now = now
        self._due: float | None = None
        self._last = 0.0

    def time_of(self, effect: dict[str, Any]) -> float:
        """Return the effect's time by the world's clock."""
        found = effect.get(self.clock)
        return float(found) if isinstance(found, int | float) else self._last

    def between(self, first: float, last: float) -> float:
        """Return how many seconds pass here while that much passes in the world."""
        return max(last - first, 0.0) / self.speed if math.isfinite(self.speed) else 0.0

    def pause(self, at: float) -> float:
        """Return how many seconds to wait before the next effect, whose time this is.

        Each is due a fixed time after the first, so that what is lost in between adds up to nothing; after a longer
        hold-up (the database was away, say) it goes on from there.
        """
        now = self._now()
        if self._due is None:
            self._due = now
        else:
            self._due += self.between(self._last, at)
        self._last = at
        if now - self._due > _MOST_LATE:
            self._due = now
        wait = self._due - now
        return wait if wait > _SHORTEST else 0.0


def replay(where: Target, world: str, start: Moment, end: Moment, pace: Pace, *, as_json: bool, quiet: bool) -> None:
    """Write the world's effects from one moment to the other."""
    with_store(where, lambda store: _Replay(store, world, pace, as_json=as_json, quiet=quiet).run(start, end))


class _Replay:
    """One run."""

    def __init__(self, store: Store, world: str, pace: Pace, *, as_json: bool, quiet: bool) -> None:
        self._store = store
        self._world = world
        self._pace = pace
        self._as_json = as_json
        self._quiet = quiet
        self._waiting: list[bytes | list[Piece]] = []
        self._position = 0
        self._widths = (0, 0)

    async def run(self, start: Moment, end: Moment) -> None:
        world = await find_world(self._store, self._world)
        self._world = world.world_id
        first = await first_seq_from(self._store, world, start)
        last = await seq_of(self._store, world, end)
        if first > last:
            raise typer.BadParameter(f"--from is seq {first}, which lies behind --to, seq {last}")
        await self._look_ahead(world, first, last)
        self._position = first - 1
        told = False
        while self._position < last:
            try:
                await self._write_rows(last)
            except StoreUnavailableError as error:
                if not told:
                    say(f"{error.message}; waiting for it")
                    told = True
                await asyncio.sleep(_PAUSE)

    async def _look_ahead(self, world: WorldRecord, first: int, last: int) -> None:
        """Say how long it will take, if that is long; see how wide the columns are to be."""
        ends = [read_effect(self._world, await self._store.reader.effect(self._world, seq)) for seq in (first, last)]
        times = [self._pace.time_of(effect) for effect in ends]
        self._widths = len(str(last)), max(len(self._shown_time(effect)) for effect in ends)
        seconds = self._pace.between(*times)
        if seconds > _LONG and not self._quiet:
            say(
                f"replaying {last - first + 1} of {world.head_seq} effects takes {shown_duration(seconds)}; "
                "a higher --speed makes it shorter, --speed max leaves the pauses out"
            )

    async def _write_rows(self, last: int) -> None:
        from worldledger.chain import Finding  # noqa: PLC0415
        from worldledger_service.store.ahead import ahead  # noqa: PLC0415

        rows = self._store.reader.batches(self._world, after_seq=self._position, until_seq=last)
        async with ahead(rows) as batches:
            async for batch in batches:
                for row in batch:
                    if row.global_seq != self._position + len(self._waiting) + 1:
                        break
                    await self._next(row)
                self._flush()
                if self._position < batch[-1].global_seq:
                    break
        if self._position < last:
            raise Finding(self._world, self._position + 1, "missing from the log; run `worldledger verify`").error()

    async def _next(self, row: StoredEffect) -> None:
        try:
            effect = read_effect(self._world, row)
        except TamperedError:
            self._flush()
            raise
        pause = self._pace.pause(self._pace.time_of(effect))
        if pause:
            self._flush()
            if pause > _LONG and not self._quiet:
                say(f"seq {row.global_seq} comes in {shown_duration(pause)}")
            await asyncio.sleep(pause)
        self._waiting.append(row.text if self._as_json else self._line(row.global_seq, effect))

    def _flush(self) -> None:
        """Write what is due."""
        waiting, self._waiting = self._waiting, []
        if self._as_json:
            put_bytes(b"".join(line + b"\n" for line in waiting if isinstance(line, bytes)))
        else:
            put_lines(line for line in waiting if isinstance(line, list))
        self._position += len(waiting)

    def _line(self, seq: int, effect: dict[str, Any]) -> list[Piece]:
        seq_width, time_width = self._widths
        who = f"{self._shown_time(effect).rjust(time_width)}  "
        kind = f"{plain(str(effect.get('kind'))).ljust(14)}  "
        source = f"{plain(str(effect.get('source_id'))).ljust(14)}  "
        used = seq_width + 2 + len(who) + len(kind) + len(source)
        room = max((screen_width() or _WIDTH) - used, 20)
        return [
            (f"{seq:>{seq_width}}  ", "dim"),
            (who, ""),
            (kind, "bold"),
            (source, "cyan"),
            (shown(_telling(effect.get("payload")), room), ""),
        ]

    def _shown_time(self, effect: dict[str, Any]) -> str:
        found = effect.get(self._pace.clock)
        return shown_wall_time(found) if self._pace.clock == "wall_time" else json.dumps(found)


def _telling(payload: Any) -> Any:
    """Leave out what says nothing (null, false, empty), so that a line has room for what does."""
    if not isinstance(payload, dict):
        return payload
    return {
        name: value
        for name, value in payload.items()
        if value not in (None, False, "", [], {}) or (value == 0 and value is not False)
    }
