"""``worldledger import pgn``: recorded chess games become worlds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from worldledger_service.cli.connect import Target, target, with_store
from worldledger_service.cli.options import DatabaseUrl, Home, Quiet, examples
from worldledger_service.cli.output import put, say
from worldledger_service.cli.progress import progress_bar
from worldledger_service.collecting import collect_seldom

if TYPE_CHECKING:
    from worldledger_service.store import Store

    from worldledger_chess.store.recordings import Notice, Reading, Summary

EXAMPLES = examples(
    "worldledger import pgn games/ --experiment first",
    "worldledger import pgn a.pgn b.pgn --experiment second --strict",
)
#: The endings of files that are meant for this command.
READS = (".pgn", ".PGN")


def command(
    ctx: typer.Context,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER_OR_FILES", help="PGN files, and folders with *.pgn in them.", show_default=False
        ),
    ],
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help="The label under which to find the games.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse games about which anything is odd, instead of noting it.")
    ] = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Import recorded chess games: each becomes a world, whole or not at all.

    A game that is there already (in the same experiment) is left as it is, so the command can be run again at any
    time. What cannot be taken is named with file, line and game, while the rest goes in; the exit code is then 1.
    It is 2 where no file could be read at all.
    """
    from worldledger_chess.cli.reading import readers  # noqa: PLC0415 - slow to load; `--help` needs none of it

    where = target(ctx, database_url, home)
    with readers(paths, strict=strict) as reading:
        _import(where, paths, reading, experiment=experiment, strict=strict, quiet=quiet)


def _import(
    where: Target, paths: list[Path], reading: Reading | None, *, experiment: str | None, strict: bool, quiet: bool
) -> None:
    from worldledger_chess.store.recordings import Summary, import_games  # noqa: PLC0415

    summary = Summary()

    async def work(store: Store) -> None:
        collect_seldom()
        with progress_bar("importing", quiet=quiet) as tell:
            await import_games(
                store,
                paths,
                reading=reading,
                experiment=experiment,
                progress=lambda made: tell(made.done, made.total, f"{made.games} games"),
                notice=lambda notice: _tell(notice, quiet=quiet),
                summary=summary,
                strict=strict,
            )

    try:
        with_store(where, work)
    except KeyboardInterrupt:
        say(f"{_imported(summary)} before it was stopped; run the same command again for the rest")
        raise
    put(_sentence(summary))
    if summary.refused:
        raise typer.Exit(1 if summary.read else 2)


def _tell(notice: Notice, *, quiet: bool) -> None:
    if notice.refused:
        say(f"refused: {notice}")
    elif not quiet:
        say(f"note: {notice}")


def _sentence(summary: Summary) -> str:
    parts = [f"{_imported(summary)} from {summary.files} file{'' if summary.files == 1 else 's'}"]
    if summary.already:
        parts.append(f"{summary.already} already there")
    if summary.refused:
        parts.append(f"{len(summary.refused)} refused")
    return ", ".join(parts)


def _imported(summary: Summary) -> str:
    return f"imported {summary.imported} game{'' if summary.imported == 1 else 's'} ({summary.effects} effects)"
