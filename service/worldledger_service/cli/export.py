"""``worldledger export``: a world's log as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from worldledger.errors import InvalidNameError, SimulationError, TamperedError
from worldledger_service.cli.connect import Target, target, with_store
from worldledger_service.cli.files import require_none, written_whole
from worldledger_service.cli.naming import find_world, no_experiment
from worldledger_service.cli.options import DatabaseUrl, Force, Home, Quiet, examples
from worldledger_service.cli.output import say
from worldledger_service.cli.progress import progress_bar

if TYPE_CHECKING:
    from worldledger_service.store import Store, WorldRecord

EXAMPLES = examples(
    "worldledger export my-world -o my-world.ndjson",
    "worldledger export my-world -o - | gzip > my-world.ndjson.gz",
    "worldledger export --all -o backup",
)


def command(
    ctx: typer.Context,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to write it; - is stdout. With --all the folder of the files."
        ),
    ],
    world: Annotated[str | None, typer.Argument(metavar="WORLD", help="A world's name.", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="Every world, each as WORLD.ndjson in a folder.")] = False,
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help="As --all, the worlds of this experiment.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Export a world: every effect as it was hashed, one a line, and a trailer that makes the file checkable.

    What is appended while the export runs is left out. Check a file anywhere, without a database, by
    `worldledger verify --file`, and bring it in again by `worldledger import log`. With --all a world that does not
    verify is named, and the others are exported.

    Kinds of worlds have further forms, such as `worldledger export parquet` for all of them. So a world that is itself
    named as one goes last: `worldledger export -o FILE parquet`.
    """
    if (world is not None) + every + (experiment is not None) != 1:
        raise typer.BadParameter("name a world, or give --all or --experiment")
    if world is None:
        _export_all(target(ctx, database_url, home), Path(output), experiment, force=force, quiet=quiet)
        return

    async def work(store: Store) -> None:
        record = await find_world(store, world)
        await _export(store, record, output, force=force, quiet=quiet)

    try:
        with_store(target(ctx, database_url, home), work)
    except TamperedError as error:
        say(f"{error.message}; a log that does not verify makes no export")
        raise typer.Exit(1) from None


async def _export(store: Store, record: WorldRecord, output: str, *, force: bool, quiet: bool) -> None:
    from worldledger_service.store.transfer import export_world  # noqa: PLC0415 - slow to load; `--help` needs none of it

    with (
        written_whole(output, force=force) as write,
        progress_bar(f"exporting {record.world_id}", quiet=quiet or output == "-") as tell,
    ):
        trailer = await export_world(
            store.reader, record, write, lambda done: tell(done, record.head_seq, f"{done} effects")
        )
    if not quiet:
        where = "" if output == "-" else f" to {output}"
        say(f"exported {record.world_id}: {trailer.count} effects, head {trailer.head}{where}")


def _export_all(where: Target, folder: Path, experiment: str | None, *, force: bool, quiet: bool) -> None:
    """Export every world, or an experiment's, each to a file; unless ``force`` is true only where none is there yet."""
    tampered: list[str] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimulationError(f"{folder}: cannot be made ({error.strerror or error})", file=str(folder)) from error

    async def work(store: Store) -> int:
        names: list[str] = []
        every = store.every_world(experiment=experiment, unreadable=lambda finding: names.append(finding.world_id))
        names.extend([world.world_id async for world in every])
        names.sort()
        if not names and experiment is not None:
            raise SimulationError(await no_experiment(store, experiment), experiment=experiment)
        files = {name: str(folder / f"{name}.ndjson") for name in names}
        if not force:
            for file in files.values():
                require_none(file)
        for name, file in files.items():
            try:
                await _export(store, await store.world(name), file, force=force, quiet=True)
            except (TamperedError, InvalidNameError) as error:
                say(f"{error.message}; a log that does not verify makes no export")
                tampered.append(name)
        return len(names)

    count = with_store(where, work)
    if not quiet:
        say(f"exported {count - len(tampered)} of {count} worlds to {folder}")
    if tampered:
        raise typer.Exit(1)
