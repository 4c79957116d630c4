"""``worldledger kind list``: the installed kinds of worlds, and those that worlds have."""

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
    from worldledger_service.store import Store

EXAMPLES = examples("worldledger kind list", "worldledger kind list --json | jq -r '.[].kind'")

_HEADER = ("KIND", "PACKAGE", "VERSION", "WORLDS", "PARTS")


def command(ctx: typer.Context, as_json: Json = False, database_url: DatabaseUrl = None, home: Home = None) -> None:
    """List the kinds of worlds: the package that each comes from, its parts, and how many worlds are of it.

    A kind that worlds are of and that is not installed is listed without a package.
    """

    async def work(store: Store) -> dict[str, int]:
        return await store.rulesets()

    found = [*_kinds(with_store(target(ctx, database_url, home), work))]
    if as_json:
        with json_list() as item:
            for each in found:
                item(each)
    else:
        put_rows(_HEADER, [_row(each) for each in found])


def _kinds(worlds: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Return an object for each kind, in the order of the names."""
    from worldledger.rulesets.registry import GROUP as RULESETS  # noqa: PLC0415 - slow to load; `--help` needs none of it

    # A ruleset that a package offers by itself is a kind of worlds with this part alone.
    kinds = {point.name: Kind(name=point.name, ruleset=point.value) for point in entry_points(group=RULESETS)}
    kinds |= installed()
    packages = {point.name: point.dist for group in (RULESETS, GROUP) for point in entry_points(group=group)}
    for name in sorted({*kinds, *worlds}):
        kind, package = kinds.get(name), packages.get(name)
        yield {
            "kind": name,
            "package": None if package is None else package.name,
            "version": None if package is None else package.version,
            "worlds": worlds.get(name, 0),
            "parts": [] if kind is None else [part.name for part in fields(kind)[1:] if getattr(kind, part.name)],
        }


def _row(kind: Mapping[str, Any]) -> tuple[str, ...]:
    package, parts = kind["package"] or "not installed", ", ".join(kind["parts"]) or "-"
    return tuple(map(plain, (kind["kind"], package, kind["version"] or "-", str(kind["worlds"]), parts)))
