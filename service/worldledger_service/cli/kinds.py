"""The commands of kinds of worlds: list the installed ones, begin one of your own, drop one's views."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib.metadata import entry_points
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from worldledger.errors import SimulationError
from worldledger.kinds import GROUP, Kind, installed
from worldledger_service.cli.connect import database, target, with_store
from worldledger_service.cli.options import DatabaseUrl, Home, Json
from worldledger_service.cli.output import json_list, plain, put, put_rows, put_text
from worldledger_service.running import run_blocking

if TYPE_CHECKING:
    from worldledger_service.database.analytics.of_kinds import Recorded
    from worldledger_service.store import Store


#: Remarks on the state of a kind's views, beside their version in the database; {} is the package's version.
_STATES = {
    "current": "",
    "missing": " (db upgrade makes version {})",
    "older": " (db upgrade makes version {})",
    "newer": " (the package brings version {})",
    "changed": " (the package's files have changed)",
    "left": " (kind drop removes them)",
}
_HEADER = ("KIND", "PACKAGE", "VERSION", "WORLDS", "VIEWS", "PARTS")


def list_kinds(ctx: typer.Context, as_json: Json = False, database_url: DatabaseUrl = None, home: Home = None) -> None:
    """List the kinds of worlds: the package of each, how many worlds are of it, its views in the database, its parts.

    Under VIEWS stands the version of the kind's views over the log that the database has, and what is not as it should
    be with it. A kind that worlds or views are of and that is not installed is listed without a package.

    Examples:
        worldledger kind list
        worldledger kind list --json | jq -r '.[].kind'
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
    """Return an object for each kind, ordered by name."""
    from worldledger.rulesets import GROUP as RULESETS  # noqa: PLC0415 - slow to load; `--help` needs none of it
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
            "parts": []
            if kind is None
            else [each.name for each in fields(kind)[1:] if each.name != "units" and getattr(kind, each.name)],
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


# -- kind new ------------------------------------------------------------------------------------------------

#: Short, and in the letters that a name of a module, of a table and of a package may have.
_NAME: Final = re.compile(r"[a-z][a-z]*(?:_[a-z]+)*")
_LONGEST: Final = 30
#: Placeholders in the skeleton and in its file names: of the kind's name, and of its classes' names.
_PLACEHOLDERS: Final = ("__name__", "__Name__")


def new_kind(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lower-case letters and _.", show_default=False)],
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="FOLDER", help="Where to write it.", show_default="worldledger-NAME"),
    ] = None,
) -> None:
    """Write a package with a kind of worlds that works, to go on from: rules, a projection, and tests of both.

    A folder that is there already is refused.

    Examples:
        worldledger kind new auction
        worldledger kind new auction --folder work/auctions
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        what = f"{name!r} is no name for a kind: use lower-case letters and _, at most {_LONGEST}"
        raise SimulationError(what, kind=name)
    if name in installed():
        raise SimulationError(f"there is a kind {name!r} already; choose another name", kind=name)
    place = Path(f"worldledger-{name.replace('_', '-')}") if folder is None else folder
    _write(name, place)
    put_text(
        f"wrote {place}; install it with `pip install -e {place}`, and run its tests there with `python -m pytest`"
    )


def _write(name: str, place: Path) -> None:
    """Write the skeleton. Raises SimulationError for a folder that exists or cannot be written."""
    called = dict(zip(_PLACEHOLDERS, (name, "".join(map(str.capitalize, name.split("_")))), strict=True))

    def named(text: str) -> str:
        for placeholder, value in called.items():
            text = text.replace(placeholder, value)
        return text

    try:
        place.mkdir(parents=True)
        with as_file(files("worldledger_service") / "cli" / "skeleton") as skeleton:
            for file in sorted(skeleton.rglob("*.txt")):
                target = place / named(str(file.relative_to(skeleton).with_suffix("")))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(named(file.read_text(encoding="utf-8")), encoding="utf-8")
    except FileExistsError:
        raise SimulationError(f"{place} is there already; name another one with --folder", folder=str(place)) from None
    except OSError as error:
        what = f"{error.filename or place} cannot be written ({error.strerror or error})"
        raise SimulationError(what, folder=str(place)) from error


# -- kind drop -----------------------------------------------------------------------------------------------


def drop_kind(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The kind's name.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Drop them even if the kind is installed.")] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Drop the views that a kind of worlds has brought to the schema analytics. Worlds and their logs stay.

    It is refused while the kind is installed, because the next `worldledger db upgrade` makes the views again, and
    where something else is made upon them. They can always be made again, so nothing is asked. The kind's projections
    are dropped by `worldledger projections drop`. The user of the address works as the owner of the tables, as for
    `db upgrade`.

    Example:
        worldledger kind drop auction
    """
    from worldledger_service.database.analytics import of_kinds  # noqa: PLC0415 - slow to load; `--help` needs none of it

    with database(target(ctx, database_url, home)) as url:
        dropped = run_blocking(of_kinds.drop(url, name, force=force))
    put(f"dropped the views of {name}: {', '.join(map(plain, dropped.views))}")
    if dropped.worlds:
        names = [*map(plain, dropped.names), *(["…"] if dropped.worlds > len(dropped.names) else [])]
        put(f"worlds of this kind that are left, with their logs: {dropped.worlds}: {', '.join(names)}")
