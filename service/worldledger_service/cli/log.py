"""``worldledger log``: a world's effects as they are stored."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from worldledger.errors import StoreUnavailableError
from worldledger_service.cli.connect import Target, target, with_store
from worldledger_service.cli.moments import Moment, moment_rule, read_moment, seq_of
from worldledger_service.cli.naming import find_world, no_effects
from worldledger_service.cli.options import DatabaseUrl, Home, World, examples
from worldledger_service.cli.output import put_bytes, say

if TYPE_CHECKING:
    from worldledger_service.store import Store, WorldRecord

EXAMPLES = examples(
    "worldledger log my-world --kind IntentRejected | jq .payload.reason",
    "worldledger log my-world --after 100 --until 200",
    "worldledger log my-world --after step:4 --until step:5",
    "worldledger log my-world --follow",
)

#: Larger than any global_seq.
_END = 2**62
#: Seconds between two attempts while the database is away.
_PAUSE = 0.5


def command(
    ctx: typer.Context,
    world: World,
    after: Annotated[
        str, typer.Option("--after", metavar="MOMENT", help=f"Begin behind this moment: 0, {moment_rule()}.")
    ] = "0",
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="MOMENT", help="End with this moment.", show_default="the head"),
    ] = None,
    kind: Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only effects of this kind.")] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="ID", help="Only effects of this source (an agent, say).")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is appended from now on, until Ctrl-C.")
    ] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Write a world's effects to stdout, one canonical JSON text a line, exactly as they were hashed."""
    where = target(ctx, database_url, home)
    begin = read_moment(after, "--after")
    end = None if until is None else read_moment(until, "--until")
    with_store(where, lambda store: _Log(store, world, kind, source).run(where, begin, end, follow=follow))


class _Log:
    """One run of the command."""

    def __init__(self, store: Store, world: str, kind: str | None, source: str | None) -> None:
        self._store = store
        self._world = world
        self._kind = kind
        self._source = source
        self._position = 0
        self._written = False

    async def run(self, where: Target, after: Moment, until: Moment | None, *, follow: bool) -> None:
        from worldledger_service.store.watch import HeadWatcher  # noqa: PLC0415

        world = await find_world(self._store, self._world)
        self._world, head = world.world_id, world.head_seq
        self._position = await self._seq(world, after)
        last = _END if until is None else await self._seq(world, until)
        interval = where.settings.poll_interval
        async with HeadWatcher.over(self._store, interval=interval) if follow else nullcontext() as watcher:
            while True:
                await self._write(min(head, last), patient=follow)
                if watcher is None or self._position >= last:
                    break
                head = await watcher.wait_beyond(self._world, self._position)
        if not self._written and (self._kind, self._source) != (None, None):
            say(await no_effects(self._store, world, self._kind, self._source))

    async def _seq(self, world: WorldRecord, moment: Moment) -> int:
        """Return the seq of a moment; a plain seq need not be there (yet)."""
        return await seq_of(self._store, world, moment) if moment.seq is None else min(moment.seq, _END)

    async def _write(self, until: int, *, patient: bool) -> None:
        """Write the effects up to ``until``; the patient wait while the database is away."""
        told = False
        while self._position < until:
            try:
                await self._write_rows(until)
            except StoreUnavailableError as error:
                if not patient:
                    raise
                if not told:
                    say(f"{error.message}; waiting for it")
                    told = True
                await asyncio.sleep(_PAUSE)

    async def _write_rows(self, until: int) -> None:
        from worldledger_service.store.ahead import ahead  # noqa: PLC0415

        rows = self._store.reader.batches(
            self._world, after_seq=self._position, until_seq=until, kind=self._kind, source_id=self._source
        )
        async with ahead(rows) as batches:
            async for batch in batches:
                put_bytes(b"\n".join([row.text for row in batch]) + b"\n")
                self._written = True
                self._position = batch[-1].global_seq
        self._position = until
