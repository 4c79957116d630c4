"""The tables of docs/reference/analytics.md: the views of the schema ``analytics``, their columns, and the cookbook.

Those over the log are told from the catalogue of a migrated database
(service/worldledger_service/database/catalogue.txt) and from the files of the installed kinds, those over projections
from the projections' definitions, of which the engine makes the views.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from worldledger_projections.base import ANALYTICS
from worldledger_projections.registry import known
from worldledger_projections.tables import WITH_FORKS, further_views
from worldledger_service.database import catalogue
from worldledger_service.database.analytics.cookbook import queries
from worldledger_service.database.analytics.views import SYSTEM, VIEWS

from tests.schema.views_of_kinds import views_of_kinds

_COLUMN: Final = "column analytics."
_SAYS: Final = "comment on view column analytics."
_VIEW: Final = "comment on view analytics."
_SHORT: Final = {"time": "timestamptz", "timestamp with time zone": "timestamptz", "double precision": "double"}


class ColumnTold(NamedTuple):
    """A column: its name, its type and what it says."""

    name: str
    type: str
    says: str


class ViewTold(NamedTuple):
    """A view: what it says, and its columns."""

    says: str
    columns: list[ColumnTold]


def of_the_log() -> dict[str, ViewTold]:
    """Return the views over the log, by name."""
    found: dict[str, ViewTold] = {}
    types: dict[str, str] = {}
    says: dict[str, str] = {}
    for line in catalogue.expected():
        what, _, how = line.partition(": ")
        if what.startswith(_VIEW):
            found[what.removeprefix(_VIEW)] = ViewTold(how, [])
        elif what.startswith(_COLUMN):
            types[what.removeprefix(_COLUMN)] = _type(how)
        elif what.startswith(_SAYS):
            says[what.removeprefix(_SAYS)] = how
    for view in VIEWS:
        places = [f"{view.name}.{column.name}" for column in view.columns]
        columns = [ColumnTold(place.partition(".")[2], types[place], says[place]) for place in places]
        found[view.name].columns.extend(columns)
    for of_kind in views_of_kinds():
        columns = [ColumnTold(each.name, _type(each.type), each.says) for each in of_kind.columns]
        found[of_kind.name] = ViewTold(of_kind.says, columns)
    return found


def _kinds() -> list[str]:
    """Return the names of the views of single kinds of effects: the service's own first."""
    return [*(kind.view_name for kind in SYSTEM), *(view.name for view in views_of_kinds())]


def of_projections() -> dict[str, ViewTold]:
    """Return the views over projections, by name."""
    found: dict[str, ViewTold] = {}
    for projection in known().values():
        types = {column.name: column.type for column in projection.columns}
        types |= {new: types[old] for old, new in (projection.published or {}).items()}
        for view in further_views(projection):
            if view.schema == ANALYTICS:
                columns = [
                    ColumnTold(name, _type(types.get(name, _OTHERS.get(name, "?"))), says)
                    for name, says in view.columns.items()
                ]
                found[view.name] = ViewTold(view.comment, columns)
    return found


#: Columns that published views have besides those of a projection.
_OTHERS: Final = {"experiment": "text", "since_turn": "bigint"}


def views_table() -> list[str]:
    """Return one row for each view: its name, what it is made from, and what it says."""
    rows = ["| view | made from | what it tells |", "| --- | --- | --- |"]
    kinds = {*_kinds()}
    for name, view in sorted(of_the_log().items()):
        if name not in kinds:
            rows.append(f"| [`{name}`](#{name.removesuffix(WITH_FORKS)}) | the log | {_cell(view.says)} |")
    for name, view in sorted(of_projections().items()):
        rows.append(f"| [`{name}`](#{name.removesuffix(WITH_FORKS)}) | the projection | {_cell(view.says)} |")
    return rows


def kinds_table() -> list[str]:
    """Return one row for each view of a kind of effect."""
    rows = ["| view | what it tells |", "| --- | --- |"]
    log = of_the_log()
    return rows + [f"| [`{name}`](#{name}) | {_cell(log[name].says)} |" for name in _kinds()]


def columns_tables() -> list[str]:
    """Return a section for each view, with its columns; of the kinds' those that not every kind has."""
    return list(_sections({**of_the_log(), **of_projections()}))


def common_table() -> list[str]:
    """Return one row for each column that the views of all kinds have."""
    return [*_HEAD, *map(_row, (column for column in of_the_log()["world_created"].columns if column.name in _COMMON))]


def _sections(views: dict[str, ViewTold]) -> Iterator[str]:
    kinds = {*_kinds()}
    for number, (name, view) in enumerate(sorted((n, v) for n, v in views.items() if not n.endswith(WITH_FORKS))):
        yield from ([] if number == 0 else [""])
        yield from (f"### {name}", "", _cell(view.says), "", *_HEAD)
        for column in view.columns:
            if name not in kinds or column.name not in _COMMON:
                yield _row(column)


_HEAD: Final = ("| column | type | what it says |", "| --- | --- | --- |")
_COMMON: Final = (*("world_id", "experiment", "global_seq", "sim_time_s", "recorded_at", "source_id"),
                  *("caused_by", "payload"))  # fmt: skip


def _row(column: ColumnTold) -> str:
    return f"| `{column.name}` | {column.type} | {_cell(column.says)} |"


def cookbook_table() -> list[str]:
    """Return one row for each query of the cookbook."""
    rows = ["| query | what it tells | parameters |", "| --- | --- | --- |"]
    for query in queries().values():
        given = ", ".join(f"`{p.name}`" if p.is_required else f"[`{p.name}`]" for p in query.parameters)
        rows.append(f"| `{query.name}` | {_cell(query.title)}. {_cell(query.description)} | {given} |")
    return rows


def _type(how: str) -> str:
    kind = how.partition(" collate")[0].partition(" not null")[0]
    return _SHORT.get(kind, kind)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<seq>", "SEQ")
