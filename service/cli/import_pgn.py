"""``worldledger import pgn``: recorded chess games become worlds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.connect import target, with_store
from service.cli.options import DatabaseUrl, Home, Quiet, examples
from service.cli.output import put, say
from service.cli.progress import progress_bar

if TYPE_CHECKING:
    from service.store import Store
    from service.store.recordings import Notice, Summary

EXAMPLES = examples(
    "worldledger import pgn games/ --experiment first",
    "worldledger import pgn a.pgn b.pgn --experiment second",
)


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
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Import recorded chess games: each becomes a world, whole or not at all.

    A game that is there already (in the same experiment) is left as it is, so the command can be run again at any
    time. What cannot be taken is named with file, line and game, while the rest goes in; the exit code is then 1.
    """

    async def work(store: Store) -> Summary:
        from service.store.recordings import import_games  # noqa: PLC0415

        with progress_bar("importing", quiet=quiet) as tell:
            return await import_games(
                store,
                paths,
                experiment=experiment,
                progress=lambda made: tell(made.done, made.total, f"{made.games} games"),
                notice=lambda notice: _tell(notice, quiet=quiet),
            )

    summary = with_store(target(ctx, database_url, home), work)
    put(_sentence(summary))
    if summary.refused:
        raise typer.Exit(1)


def _tell(notice: Notice, *, quiet: bool) -> None:
    if notice.refused:
        say(f"refused: {notice}")
    elif not quiet:
        say(f"note: {notice}")


def _sentence(summary: Summary) -> str:
    parts = [f"imported {_games(summary.imported)} ({summary.effects} effects)"]
    if summary.already:
        parts.append(f"{summary.already} already there")
    if summary.refused:
        parts.append(f"{len(summary.refused)} refused")
    return f"{', '.join(parts)}; from {summary.files} file{'' if summary.files == 1 else 's'}"


def _games(number: int) -> str:
    return f"{number} game{'' if number == 1 else 's'}"
