"""``worldledger import social-rl``: recorded runs of social-RL experiments become worlds."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.options import DatabaseUrl, Home, Quiet, examples
from worldledger_service.cli.output import put, put_bytes, say
from worldledger_service.cli.progress import progress_bar

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from worldledger_service.store import Store

    from worldledger_social_rl.store.social_runs import RunNotice, RunSummary

#: What differs between notes of one kind: texts in quotes, and numbers.
_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|-?[0-9]+(?:\.[0-9]+)?")
EXAMPLES = examples(
    "worldledger import social-rl outputs/ --experiment first",
    "worldledger import social-rl outputs/social_rl_2025-11-23_175825 --strict",
)


def command(
    ctx: typer.Context,
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR",
            help="Folders with roundN_social_rl.json in them, or in their subfolders.",
            show_default=False,
        ),
    ],
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help="The label under which to find the runs.")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Refuse runs that are not as the schema says, instead of saying what is odd."),
    ] = False,
    timezone: Annotated[
        str | None,
        typer.Option(
            "--timezone",
            metavar="NAME",
            help="Time zone of times without an offset in meta data, such as Europe/Berlin; by default UTC.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the summary as a JSON object to stdout.")] = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Import recorded social-RL runs: each folder with rounds becomes a world, whole or not at all.

    Runs are taken as they were found, and what is not as the schema says is noted, file by file; nothing is lost, and
    `worldledger export social-rl` writes the same files again. A run that is there already (in the same experiment) is
    left as it is, and one that has more rounds by now is appended to, so the command can be run again at any time.
    Where a round has changed the run is refused. What cannot be taken is named with file and place, while the rest goes
    in; the exit code is then 1. It is 2 where no run was found at all.
    """
    from worldledger_social_rl.store.social_runs import RunSummary, import_runs  # noqa: PLC0415

    summary = RunSummary()
    where = target(ctx, database_url, home)
    zone = None if timezone is None else _zone(timezone)
    telling = _Telling(quiet=quiet)

    async def work(store: Store) -> None:
        with progress_bar("importing", quiet=quiet) as tell:
            await import_runs(
                store,
                folders,
                max_effect_bytes=where.settings.max_effect_bytes,
                experiment=experiment,
                strict=strict,
                timezone=zone,
                progress=lambda made: tell(made.done, made.total, f"{made.runs} runs"),
                notice=telling.tell,
                summary=summary,
            )

    try:
        with_store(where, work)
    except KeyboardInterrupt:
        telling.conclude()
        say(f"{_imported(summary)} before it was stopped; run the same command again for the rest")
        raise
    telling.conclude()
    if as_json:
        put_bytes(json.dumps(_document(summary), ensure_ascii=False).encode(errors="replace") + b"\n")
    else:
        put(_sentence(summary))
    if summary.refused or summary.paths_refused:
        raise typer.Exit(1 if summary.runs else 2)


def _zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - for those who ask for it

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # KeyError: there is none of this name
        raise typer.BadParameter(f"there is no timezone {name!r}; a name is such as Europe/Berlin or UTC") from None


class _Telling:
    """Says why runs are refused, and what is odd about others: each kind of oddity once, and then summed up."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._more: dict[str, list[RunNotice]] = {}

    def tell(self, notice: RunNotice) -> None:
        """Tell of a notice, now or in the sum."""
        if notice.refused:
            say(f"refused: {notice}")
        elif not self._quiet:
            kind = _VARYING.sub("…", notice.text)
            if kind not in self._more:
                self._more[kind] = []
                say(f"note: {notice}")
            else:
                self._more[kind].append(notice)

    def conclude(self) -> None:
        """Tell how many more there were of each kind."""
        for notices in filter(None, self._more.values()):
            files = len({notice.file for notice in notices})
            places = sum(notice.count for notice in notices)
            say(f"note: {places} more in {_count(files, 'file')}: {notices[0].text}")
        self._more.clear()


def _sentence(summary: RunSummary) -> str:
    parts = [_imported(summary)]
    if summary.grown:
        parts.append(f"{summary.grown} grown")
    if summary.already:
        parts.append(f"{summary.already} already there")
    if summary.refused:
        parts.append(f"{summary.refused} refused")
    return ", ".join(parts)


def _imported(summary: RunSummary) -> str:
    return f"imported {_count(summary.imported, 'run')} ({_count(summary.rounds, 'round')}, {summary.effects} effects)"


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _document(summary: RunSummary) -> dict[str, Any]:
    return {
        "runs": summary.runs,
        "imported": summary.imported,
        "grown": summary.grown,
        "already": summary.already,
        "refused": summary.refused,
        "rounds": summary.rounds,
        "messages": summary.messages,
        "effects": summary.effects,
        "worlds": summary.worlds,
        "notices": [asdict(notice) for notice in summary.notices],
    }
