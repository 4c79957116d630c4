"""``worldledger export``: a world's log as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.connect import target, with_store
from service.cli.files import written_whole
from service.cli.options import DatabaseUrl, Home, Quiet, World, examples
from service.cli.output import say
from service.cli.progress import progress_bar
from worldledger.errors import TamperedError

if TYPE_CHECKING:
    from service.store import Store

EXAMPLES = examples(
    "worldledger export my-world -o my-world.ndjson", "worldledger export my-world -o - | gzip > my-world.ndjson.gz"
)


def command(
    ctx: typer.Context,
    world: World,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to write it; - is stdout. A file is replaced at the end."
        ),
    ],
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Export a world: every effect as it was hashed, one a line, and a trailer that makes the file checkable.

    What is appended while the export runs is left out. Check a file anywhere, without a database, by
    `worldledger verify --file`, and bring it in again by `worldledger import log`.

    Games of chess become a PGN file by `worldledger export pgn`; so a world that is itself named pgn goes last:
    `worldledger export -o FILE pgn`.
    """

    async def work(store: Store) -> None:
        from service.store.transfer import export_world  # noqa: PLC0415

        record = await store.world(world)
        with written_whole(output) as write, progress_bar(f"exporting {world}", quiet=quiet or output == "-") as tell:
            trailer = await export_world(
                store.reader, record, write, lambda done: tell(done, record.head_seq, f"{done} effects")
            )
        if not quiet:
            where = "" if output == "-" else f" to {output}"
            say(f"exported {world}: {trailer.count} effects, head {trailer.head}{where}")

    try:
        with_store(target(ctx, database_url, home), work)
    except TamperedError as error:
        say(f"{error.message}; a log that does not verify makes no export")
        raise typer.Exit(1) from None
