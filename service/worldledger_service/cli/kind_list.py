"""``worldledger kind list``: the installed kinds of worlds, and those that worlds or views in the database are of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import typer

from worldledger.kinds import GROUP, Kind, installed
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.options import DatabaseUrl, Home, Json, examples
from worldledger_service.cli.output import json_list, plain
from worldledger_service.cli.rows import put_rows

if TYPE_CHECKING:
    from worldledger_service.database.analytics.of_kinds import Recorded
    from worldledger_service.store import Store

EXAMPLES = examples("worldledger kind list", "worldledger kind list --json | jq -r '.[].kind'")

#: What is said of the views beside their version in the database; {} is the version that the package brings.
_STATES = {
    "current": "",
    "missing": " (db upgrade makes version {})",
    "older": " (db upgrade makes version {})",
    "newer": " (the package brings version {})",
    "changed": " (the package's files have changed)",
    "left": " (kind drop removes them)",
}
_HEADER = ("KIND", "PACKAGE", "VERSION", "WORLDS", "VIEWS", "PARTS")


def command(ctx: typer.Context, as_json: Json = False, database_url: DatabaseUrl = None, home: Home = None) -> None:
    """List the kinds of worlds: the package of each, how many worlds are of it, its views in the database, its parts.

    Under VIEWS stands the version of the kind's views over the log that the database has, and what is not as it should
    be with it. A kind that worlds or views are of and that is not installed is listed without a package.
    """

    async def work(store: Store) -> tuple[dict[str, int], dict[str, Recorded]]:
        from worldledger_service.database.analytics.of_kinds import recorded  # noqa: PLC0415 - as below

        async with store.reader.connection() as connection:
            return await store.rulesets(), await recorded(connection)

    found = [*_kinds(*with_store(target(ctx, database_url, home), work))]
    if as_json:
        with json_list() as item:
            for each in found:
                item(each)
    else:
        put_rows(_HEADER, [_row(each) for each in found])


def _kinds(worlds: Mapping[str, int], records: Mapping[str, Recorded]) -> Iterator[dict[str, Any]]:
    """Return an object for each kind, in the order of the names."""
    from worldledger.rulesets.registry import GROUP as RULESETS  # noqa: PLC0415 - slow to load; `--help` needs none of it
    from worldledger_service.database.analytics.of_kinds import brought, state  # noqa: PLC0415

    # A ruleset that a package offers by itself is a kind of worlds with this part alone.
    kinds = {point.name: Kind(name=point.name, ruleset=point.value) for point in entry_points(group=RULESETS)}
    kinds |= installed()
    packages = {point.name: point.dist for group in (RULESETS, GROUP) for point in entry_points(group=group)}
    bringing = brought()
    for name in sorted({*kinds, *worlds, *records}):
        kind, package = kinds.get(name), packages.get(name)
        bring, record = bringing.get(name), records.get(name)
        yield {
            "kind": name,
            "package": None if package is None else package.name,
            "version": None if package is None else package.version,
            "worlds": worlds.get(name, 0),
            "views": None
            if bring is None and record is None
            else {
                "state": state(bring, record),
                "applied": None if record is None else record.version,
                "installed": None if bring is None else bring.version,
            },
            "parts": [] if kind is None else [part.name for part in fields(kind)[1:] if getattr(kind, part.name)],
        }


def _row(kind: Mapping[str, Any]) -> tuple[str, ...]:
    package, parts = kind["package"] or "not installed", ", ".join(kind["parts"]) or "-"
    version = kind["version"] or "-"
    return tuple(map(plain, (kind["kind"], package, version, str(kind["worlds"]), _views(kind["views"]), parts)))


def _views(views: Mapping[str, Any] | None) -> str:
    if views is None:
        return "-"
    said = _STATES[views["state"]].format(views["installed"])
    return f"{views['applied'] or 'none'}{said}"
