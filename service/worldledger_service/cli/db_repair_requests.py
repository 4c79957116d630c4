"""``worldledger db repair requests``: the table of requests, made from the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worldledger.errors import InvalidNameError, WorldNotFoundError
from worldledger_service.cli.connect import database, opened, target
from worldledger_service.cli.naming import not_found
from worldledger_service.cli.options import DatabaseUrl, Home, Json, Quiet, examples
from worldledger_service.cli.output import json_list, put, say
from worldledger_service.cli.progress import effects, progress_bar
from worldledger_service.running import run_blocking

if TYPE_CHECKING:
    from worldledger_service.store import Store
    from worldledger_service.store.repairing import Repaired

EXAMPLES = examples(
    "worldledger db repair requests --dry-run", "worldledger db repair requests my-world --database-url postgresql://…"
)


def command(
    ctx: typer.Context,
    worlds: Annotated[
        list[str] | None, typer.Argument(metavar="WORLD", help="Worlds' names; without one, all.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Make the rows of the table requests those that follow from the log, where `verify` says that they do not.

    Each log is verified first: of one that does not hold nothing is made, and the exit code is 1. Rows that are right
    are not touched. The user of the address works as the owner of the tables, as for `db upgrade`.
    """
    where = target(ctx, database_url, home)
    names = list(dict.fromkeys(worlds or []))

    async def work(url: str, told: Callable[[Repaired], object]) -> tuple[int, int]:
        async with opened(url, where.settings) as store:
            return await _repair(store, url, names, told, dry_run=dry_run, quiet=quiet or as_json)

    def tell(done: Repaired) -> None:
        if done.finding is not None or done.changed or not quiet:
            put(_sentence(done, dry_run=dry_run))

    with database(where) as url:
        if as_json:
            with json_list() as item:
                refused, absent = run_blocking(work(url, lambda done: item(_object(done, dry_run=dry_run))))
        else:
            refused, absent = run_blocking(work(url, tell))
    if refused or absent:
        raise typer.Exit(1 if refused else 2)


async def _repair(
    store: Store, url: str, names: list[str], told: Callable[[Repaired], object], *, dry_run: bool, quiet: bool
) -> tuple[int, int]:
    """Repair worlds one after another; return how many were refused, and how many are not there."""
    from worldledger_service.store.repairing import repair_requests  # noqa: PLC0415
    from worldledger_service.store.verification import every_world  # noqa: PLC0415

    refused = absent = 0
    for name in names or [name async for name in every_world(store.reader)]:
        try:
            with progress_bar(f"verifying {name}", quiet=quiet) as bar:
                done = await repair_requests(store.reader, url, name, dry_run=dry_run, progress=effects(bar))
        except InvalidNameError as error:
            absent += 1
            say(error.message)
            continue
        except WorldNotFoundError:
            absent += 1
            say(await not_found(store, name, whole=True))
            continue
        refused += done.finding is not None
        told(done)
    return refused, absent


def _sentence(done: Repaired, *, dry_run: bool) -> str:
    if done.finding is not None:
        where = f"{done.world_id} at seq {done.finding.global_seq}: {done.finding.what}"
        return f"REFUSED {where}; no requests follow from a log that does not hold"
    if not done.changed:
        return f"as it should be: {done.world_id}"
    counts = f"{done.world_id}: rows removed: {done.removed}, written: {done.written}"
    return f"would repair {counts}" if dry_run else f"repaired {counts}"


def _object(done: Repaired, *, dry_run: bool) -> dict[str, Any]:
    finding = done.finding
    return {
        "world_id": done.world_id,
        "repaired": done.changed and not dry_run,
        "removed": done.removed,
        "written": done.written,
        "finding": None if finding is None else {"global_seq": finding.global_seq, "what": finding.what},
    }
