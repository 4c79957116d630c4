"""``worldledger import log``: an export comes back as a world."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from worldledger.errors import FileRefusedError
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.options import DatabaseUrl, Home, Quiet, examples
from worldledger_service.cli.output import put, say
from worldledger_service.cli.progress import progress_bar

if TYPE_CHECKING:
    from worldledger.chain import Position
    from worldledger.exports import CheckedExport
    from worldledger_service.store import Store

EXAMPLES = examples("worldledger import log my-world.ndjson", "gunzip -c my-world.ndjson.gz | worldledger import log -")
#: The endings of files that are meant for this command.
READS = (".ndjson",)


def command(
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
    line; the exit code is then 1), and all of it goes in by one transaction. Where the very same log is there
    already, nothing is done.
    """
    where = target(ctx, database_url, home)
    with opened(file) as stream:
        try:
            checked = check(stream, file, max_effect_bytes=where.settings.max_effect_bytes, quiet=quiet)
        except FileRefusedError as error:
            say(f"{error.message}; nothing was imported")
            raise typer.Exit(1) from None
        world = checked.world
        if not quiet and not _known(world.ruleset):
            say(f"the ruleset {world.ruleset!r} of this world is not installed here; its log is imported all the same")

        async def work(store: Store) -> None:
            with progress_bar(f"importing {world.world_id}", quiet=quiet) as tell:
                written = await store.import_log(
                    stream,
                    checked,
                    name=file,
                    progress=lambda done: tell(done, checked.trailer.count, f"{done} effects"),
                )

            what = "imported" if written else "already there, nothing to do:"
            # Before the store is closed, which waits for the world's snapshots.
            put(f"{what} {world.world_id}, {checked.trailer.count} effects, head {checked.trailer.head}")

        with_store(where, work)


@contextmanager
def opened(file: str) -> Iterator[BinaryIO]:
    """Open a file for two passes; stdin, or a pipe, is kept in a temporary file first. Raises FileRefusedError."""
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


def check(
    stream: BinaryIO, file: str, *, noted: Iterable[Position] = (), max_effect_bytes: int, quiet: bool
) -> CheckedExport:
    """Check an export with a progress bar. Raises FileRefusedError, naming the line."""
    from worldledger.exports import check_export  # noqa: PLC0415

    size = stream.seek(0, 2)
    stream.seek(0)
    with progress_bar(f"checking {file}", quiet=quiet) as tell:
        return check_export(
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
