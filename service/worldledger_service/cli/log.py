"""``worldledger log``, ``search``: a world's effects as they are stored; ``import log``: an exported log as a world."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import aclosing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from worldledger.errors import FileRefusedError, ParentMissingError, StoreUnavailableError, TamperedError
from worldledger_service.cli.connect import Target, target, with_store
from worldledger_service.cli.moments import Moment, moment_rule, place_of, read_moment, seq_of
from worldledger_service.cli.naming import find_world, no_effects
from worldledger_service.cli.options import DatabaseUrl, Home, Json, Quiet, World
from worldledger_service.cli.output import counted, json_list, plain, progress_bar, put, put_bytes, put_lines, say

if TYPE_CHECKING:
    from worldledger.chain import Position, StoredEffect
    from worldledger.exports import CheckedExport
    from worldledger.genesis import NewWorld
    from worldledger_service.store import Store, WorldRecord
    from worldledger_service.store.searching import Hit


#: Where the log begins if no moment is named.
_BEGINNING = Moment(seq=0)
#: Larger than any global_seq.
_END = 2**62
#: Seconds between two attempts while the database is away.
_PAUSE = 0.5


def show_log(
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
    own: Annotated[
        bool, typer.Option("--own", help="Of a fork only its own effects, not those before the fork point.")
    ] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Write a world's effects to stdout, one canonical JSON text a line, exactly as they were hashed.

    Those of a fork come after those of its ancestors up to the fork point: "world_id" says whose each is.

    Examples:
        worldledger log my-world --kind IntentRejected | jq .payload.reason
        worldledger log my-world --after 100 --until 200
        worldledger log my-world --after step:4 --until step:5
        worldledger log my-world --follow
    """
    where = target(ctx, database_url, home)
    begin = read_moment(after, "--after")
    end = None if until is None else read_moment(until, "--until")
    with_store(where, lambda store: _Log(store, world, kind, source).run(where, begin, end, follow=follow, own=own))


class _Log:
    """One run of ``worldledger log``."""

    def __init__(self, store: Store, world: str, kind: str | None, source: str | None) -> None:
        self._store = store
        self._world = world
        self._kind = kind
        self._source = source
        self._position = 0
        self._written = False

    async def run(self, where: Target, after: Moment, until: Moment | None, *, follow: bool, own: bool) -> None:
        from worldledger_service.store.watch import HeadWatcher  # noqa: PLC0415

        world = await find_world(self._store, self._world)
        head = world.head_seq
        line = [world] if own else await self._store.states.line(world)
        names = [record.world_id for record in line]
        if after == _BEGINNING:
            first, self._position = names[0], 0
        else:
            first, self._position = await self._place(world, after, own=own)
        final, last = (world.world_id, _END) if until is None else await self._place(world, until, own=own)
        for record in line[names.index(first) : names.index(final)]:
            self._world = record.world_id
            await self._write(record.head_seq, patient=follow)
            self._position = 0
        if names.index(first) > names.index(final):
            return
        self._world = final
        if final != world.world_id:
            head, follow = last, False
        interval = where.settings.poll_interval
        async with HeadWatcher.over(self._store, interval=interval) if follow else nullcontext() as watcher:
            while True:
                await self._write(min(head, last), patient=follow)
                if watcher is None or self._position >= last:
                    break
                head = await watcher.wait_beyond(self._world, self._position)
        if not self._written and (self._kind, self._source) != (None, None):
            say(await no_effects(self._store, world, self._kind, self._source))

    async def _place(self, world: WorldRecord, moment: Moment, *, own: bool) -> tuple[str, int]:
        """Return the place of a moment; a plain seq need not exist yet."""
        if moment == Moment(seq=moment.seq) and moment.seq is not None:
            return world.world_id, min(moment.seq, _END)
        if own:
            return world.world_id, await seq_of(self._store, world, moment)
        found, seq = await place_of(self._store, world, moment)
        return found.world_id, seq

    async def _write(self, until: int, *, patient: bool) -> None:
        """Write the effects up to ``until``; with ``patient``, wait while the database is away."""
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
        from worldledger_service.store.prefetch import prefetch  # noqa: PLC0415

        rows = self._store.reader.batches(
            self._world, after_seq=self._position, until_seq=until, kind=self._kind, source_id=self._source
        )
        async with prefetch(rows) as batches:
            async for batch in batches:
                put_bytes(b"\n".join([row.text for row in batch]) + b"\n")
                self._written = True
                self._position = batch[-1].global_seq
        self._position = until


# -- stored effects ------------------------------------------------------------------------------------------


def read_effect(world_id: str, row: StoredEffect) -> dict[str, Any]:
    """Read a stored effect's text. Raises TamperedError if it is not an object; its members are not checked."""
    import orjson  # noqa: PLC0415 - slow to load; `--help` needs none of them

    from worldledger.chain import Finding  # noqa: PLC0415

    effect = orjson.loads(row.text)
    if isinstance(effect, dict):
        return effect
    raise Finding(world_id, row.global_seq, "the stored text is not an effect").error()


# -- import log ----------------------------------------------------------------------------------------------


def import_log(
    ctx: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A file that `export` wrote; - is stdin.", show_default=False)
    ],
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Restore a world from its export, to the byte: the same effects, checksums and head.

    The whole file is checked before anything is written (one that was truncated or changed is refused, naming the
    line; the exit code is then 1), and a log goes in by one transaction. Where the very same log is there already,
    nothing is done. The file of a fork has its ancestors' logs up to the fork points: they become worlds to which
    nothing can be appended, unless those worlds, with the same effects, are there. A longer export extends such a
    beginning, and an export of the world itself makes it whole.

    Examples:
        worldledger import log my-world.ndjson
        gunzip -c my-world.ndjson.gz | worldledger import log -
    """
    where = target(ctx, database_url, home)
    with open_export(file) as stream:
        try:
            logs = check_file(stream, file, max_effect_bytes=where.settings.max_effect_bytes, quiet=quiet)
        except FileRefusedError as error:
            say(f"{error.message}; nothing was imported")
            raise typer.Exit(1) from None
        ruleset = logs[-1].world.ruleset
        if not quiet and not _known(ruleset):
            say(f"the ruleset {ruleset!r} of this world is not installed here; its log is imported all the same")

        cut: list[str] = []

        async def work(store: Store) -> None:
            for checked in logs:
                is_prefix = checked is not logs[-1]
                await _import(store, stream, file, checked, cut, is_prefix=is_prefix, quiet=quiet)
            if not quiet:
                await _name_missing(store, logs[0].world)

        with_store(where, work)
        if cut:
            say(f"{', '.join(cut)} had ended within a request; run `worldledger db repair requests {' '.join(cut)}`")


async def _name_missing(store: Store, world: NewWorld) -> None:
    """Warn about an imported fork whose parent is missing here, or is another world of that name.

    Also if what its genesis says of its parent is not so here.
    """
    if world.fork_of is not None:
        from worldledger_service.store.lineage import check_inherited, check_parent  # noqa: PLC0415 - as `check_exports`

        try:
            await check_parent(store.reader, world.world_id, world.fork_of)
            await check_inherited(store.reader, world.world_id)
        except (ParentMissingError, TamperedError) as error:
            say(error.message)


async def _import(
    store: Store, stream: BinaryIO, file: str, checked: CheckedExport, cut: list[str], *, is_prefix: bool, quiet: bool
) -> None:
    world_id, count = checked.world.world_id, checked.trailer.count
    with progress_bar(f"importing {world_id}", quiet=quiet) as tell:
        written = await store.import_log(
            stream,
            checked,
            name=file,
            progress=lambda done: tell(done, count, f"{done} effects"),
            is_prefix=is_prefix,
            cut=lambda: cut.append(world_id),
        )
    if not quiet:  # before the store is closed, which waits for the world's snapshots
        what = "imported" if written else "already there, nothing to do:"
        put(f"{what} {world_id}, {count} effects, head {checked.trailer.head}")


@contextmanager
def open_export(file: str) -> Iterator[BinaryIO]:
    """Open a file for two passes; stdin or a pipe is first copied to a temporary file. Raises FileRefusedError."""
    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as stream:
            if file != "-" and stream.seekable():
                yield stream
                return
            with tempfile.TemporaryFile() as kept:
                shutil.copyfileobj(stream, kept)
                kept.seek(0)
                yield kept
    except OSError as error:
        raise FileRefusedError(f"cannot be read ({error.strerror or error})", file=file) from error


def check_file(
    stream: BinaryIO, file: str, *, noted: Iterable[Position] = (), max_effect_bytes: int, quiet: bool
) -> list[CheckedExport]:
    """Check an export with a progress bar; return its logs. Raises FileRefusedError, naming the line."""
    from worldledger.exports import check_exports  # noqa: PLC0415

    size = stream.seek(0, 2)
    stream.seek(0)
    with progress_bar(f"checking {file}", quiet=quiet) as tell:
        return check_exports(
            stream,
            name=file,
            noted=noted,
            max_effect_bytes=max_effect_bytes,
            progress=lambda effects, done: tell(done, size, f"{effects} effects"),
            spill=tempfile.TemporaryFile,
        )


def _known(ruleset: str) -> bool:
    from worldledger.rulesets import known_rulesets  # noqa: PLC0415

    return ruleset in known_rulesets()


def search_effects(
    ctx: typer.Context,
    world: World,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", help="What the payload's JSON contains: A-Z without regard to case.", show_default=False
        ),
    ],
    kind: Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only effects of this kind.")] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="ID", help="Only effects of this source (an agent, say).")
    ] = None,
    until: Annotated[
        str, typer.Option("--until", metavar="MOMENT", help=f"Look no further than to this moment: {moment_rule()}.")
    ] = "head",
    oldest: Annotated[bool, typer.Option("--oldest", help="Begin with the oldest effects, not the newest.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most so many effects.")] = 100,
    as_json: Json = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Find the effects whose payload contains a text, the newest first.

    The log is read through: a million effects take some seconds, and what is found is shown at once. Of a fork its
    ancestors up to the fork point are searched, too.

    Examples:
        worldledger search my-world "figs for two"
        worldledger search my-world timeout --kind IntentRejected --oldest --json
    """
    if not text:
        raise typer.BadParameter("the text is empty", param_hint="TEXT")
    moment = read_moment(until, "--until")

    async def work(store: Store) -> None:
        from worldledger_service.store.searching import Wanted, search  # noqa: PLC0415 - slow to load

        last, seq = await place_of(store, await find_world(store, world), moment)
        line = [(record.world_id, record.head_seq) for record in (await store.states.line(last))[:-1]]
        line.append((last.world_id, seq))
        total, done, left = sum(end for _, end in line), 0, limit
        with json_list() if as_json else nullcontext() as item, progress_bar("searching", quiet=quiet) as tell:
            for world_id, end in line if oldest else reversed(line):
                if left <= 0:
                    break
                wanted = Wanted(text, 0, end, left, not oldest, kind, source)
                async with aclosing(search(store.reader, world_id, wanted)) as slices:
                    async for reached in slices:
                        left -= len(reached.hits)
                        tell(done + reached.scanned, total, f"{limit - left} found")
                        if item is None:
                            put_lines([(place, "bold"), (rest, "")] for place, rest in _lines(world_id, reached.hits))
                        else:
                            for hit in reached.hits:
                                item({"world_id": world_id, **hit._asdict()})
                done += end
        if quiet:
            return
        if left == limit:
            say(f"no payload in {counted(total, 'effect')} contains {text!r}")
        elif left <= 0:
            say(f"{counted(limit, 'effect')} shown: there may be more, see --limit")

    with_store(target(ctx, database_url, home), work)


def _lines(world_id: str, hits: list[Hit]) -> list[tuple[str, str]]:
    """Return where each effect stands, and what it is."""
    return [(f"{world_id}:{hit.global_seq}", f"  {hit.kind}  {hit.source_id}  {plain(hit.excerpt)}") for hit in hits]
