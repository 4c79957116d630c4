"""``worldledger db check``: compare the database with what it should be."""

from __future__ import annotations

import typer

from worldledger_service.cli.connect import database, own, target
from worldledger_service.cli.options import DatabaseUrl, Home, OwnProjections, examples
from worldledger_service.cli.output import plain, put, say
from worldledger_service.running import run_blocking

EXAMPLES = examples("worldledger db check --database-url postgresql://me@localhost/worldledger")


def command(
    ctx: typer.Context, projection: OwnProjections = None, database_url: DatabaseUrl = None, home: Home = None
) -> None:
    """Compare the database with what this version makes: tables, triggers, privileges, roles.

    Each difference is a line; the exit code is then 1. What logins of readers can do that no privilege forbids is noted
    on stderr. The log's contents are checked by `worldledger verify`.
    """
    from worldledger_service.database.checking import check, mendable, notes  # noqa: PLC0415

    where = target(ctx, database_url, home, own_projections=own(projection))
    with database(where, upgrade=False) as url:
        findings = run_blocking(check(url, where.settings.own_projections))
        for note in run_blocking(notes(url)):
            say(f"note: {plain(note)}")
    for finding in findings:
        put(finding)
    if findings:
        mended = sum(map(mendable, findings))
        if mended:
            which = "makes these right" if mended == len(findings) else f"makes {mended} of these right"
            say(f"`worldledger db upgrade` {which}: it makes views, functions, triggers and privileges again")
        raise typer.Exit(1)
    put("the database is as it should be")
