"""Comparing a database with what this program expects: `worldledger db check`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

import asyncpg
from worldledger_projections.registry import known

from worldledger.errors import SchemaVersionError
from worldledger_service.database.analytics import of_kinds
from worldledger_service.database.catalogue import catalogue, compare, expected
from worldledger_service.database.engine import connect_one
from worldledger_service.database.failures import explained
from worldledger_service.database.guards import SERVICE_ROLE
from worldledger_service.database.readers import beyond_privileges, beyond_reading, other_settings
from worldledger_service.database.revision import require_current, revision_state
from worldledger_service.database.view_checks import planted, strangers, view_findings

if TYPE_CHECKING:
    from worldledger_projections.base import Projection

    from worldledger_service.database.engine import Connection

#: Settings of the server without which "acknowledged" does not mean "durable".
_DURABILITY: Final = """
select name, setting from pg_settings
where name in ('fsync', 'full_page_writes', 'synchronous_commit') and setting = 'off'
order by name
"""


def mendable(finding: str) -> bool:
    """Tell whether `db upgrade` makes right what a finding of `check` names: nothing of a table, nothing added."""
    what, _, how = finding.partition(": ")
    kind, _, name = what.partition(" ")
    if kind in {"relation", "column"}:
        is_view = _is_view(name if kind == "relation" else name.rpartition(".")[0])
        return is_view and (kind == "column" or not how.startswith("unexpected"))
    if how.startswith("unexpected") or what.startswith(("comment on table", "comment on column")):
        return False
    return kind in {"comment", "function", "privilege", "trigger", "type", "view"}


def _is_view(name: str) -> bool:
    if name.startswith("analytics."):
        return True
    return any(line.startswith((f"relation {name}: view,", f"relation {name}: type,")) for line in expected())


async def check(url: str, own_projections: str = "") -> list[str]:
    """Compare a database with what this program expects; no findings means that all is as it should be.

    Findings name the revision when it does not fit (and then nothing else), every table, column, constraint,
    index, trigger, function, view, comment, privilege, schema and role that is missing, changed or foreign, every view
    of a kind of worlds or over a projection that is not what this program makes, what readers may do beyond reading
    and settings of their role that are others (these begin with "reader"), and settings of the server that give up
    durability (these begin with "setting").

    Raises:
        StoreUnavailableError: the database cannot be reached.
    """
    connection = await connect_one(url)
    try:
        with explained(url):
            try:
                require_current(await revision_state(connection))
            except SchemaVersionError as error:
                return [error.message]
            weak = [
                f"setting {row['name']}: is off: an acknowledged effect may be lost when the server crashes"
                for row in await connection.fetch(_DURABILITY)
            ]
            return [
                *compare(await catalogue(connection), expected()),
                *await of_kinds.findings(connection),
                *await _views(connection, known(own_projections).values()),
                *await beyond_reading(connection),
                *await other_settings(connection),
                *weak,
            ]
    finally:
        await connection.close()


async def notes(url: str) -> list[str]:
    """Say what is no difference, but as PostgreSQL has it: what logins of readers can do that no privilege forbids."""
    connection = await connect_one(url)
    try:
        with explained(url):
            return await beyond_privileges(connection)
    finally:
        await connection.close()


async def _views(connection: Connection, projections: Collection[Projection]) -> list[str]:
    """Say which views of the service's role are not those that this program makes."""
    await connection.execute(f"set role {SERVICE_ROLE}")
    try:
        found = [f"view {_plain(view.place)}: {view.what}" for view in await view_findings(connection, projections)]
        unknown = "unexpected, or of a projection that is not known here (--projection names one)"
        found += [f"{what}: unexpected: views may call it" for what in await planted(connection)]
        return [*found, *(f"view {_plain(view)}: {unknown}" for view in await strangers(connection, projections))]
    except asyncpg.InsufficientPrivilegeError as error:
        return [f"views over projections: cannot be compared: {error}"]
    finally:
        await connection.execute("reset role")


def _plain(place: str) -> str:
    return place.replace('"', "")
