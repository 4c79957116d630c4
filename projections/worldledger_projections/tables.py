"""The SQL of one build: its table, its rows and the views upon it, made from the projection's definition.

Names come from code and are checked (`check_definitions`), so they may stand in statements; values are parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from worldledger_projections.base import ANALYTICS, SCHEMA, Changes, Projection, Row, View

#: Most rows in one statement: the driver writes a statement's parameters in one go, on the event loop.
ROWS_AT_ONCE: Final = 2000
#: What PostgreSQL takes as a name is 63 bytes; a build adds a number to it, and an index the names of columns.
LONGEST_NAME: Final = 40
#: The form of the name of a projection, a view or a column.
NAME_PATTERN: Final = "[a-z][a-z0-9_]*"
_NUMBERED: Final = re.compile(r"_[0-9]+\Z")
#: What the columns of a published view begin with.
_FIRST: Final = ("world_id", "experiment")
#: What the name of a published view has behind it that has forks, too.
WITH_FORKS: Final = "_with_forks"
#: The condition that leaves out rows of forks; ``{}`` is the table that has the world.
NO_FORK: Final = "{}.world_id not in (select f.world_id from analytics.forks f)"
#: The columns that mark rows of before the fork, with their comments.
INHERITED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "is_inherited": "Whether it is of before the fork, in an ancestor's log.",
        "inherited_from": "That ancestor, in whose log every seq of the row is a place; null for the world's own.",
        "generation": "0 for the world's own, 1 for its parent's, and so on.",
    }
)


class RowError(ValueError):
    """Rows of a projection that cannot be its rows."""


class Table:
    """A projection together with one build of it."""

    def __init__(self, projection: Projection, build: str) -> None:
        self.projection = projection
        self.build = build
        self.place = place(build)
        self._width = len(projection.columns)
        self._key_width = len(projection.key)
        self.upsert = self.upsert_into(self.place)
        self.delete = self.delete_from(self.place)

    def reads(self, ruleset: str | None) -> bool:
        """Tell whether the projection reads worlds of this ruleset."""
        return self.projection.rulesets is None or ruleset in self.projection.rulesets

    def checked(self, world_id: str, changes: Changes) -> Changes:
        """Return the changes. Raises RowError for rows of another world or shape, which would break other folds."""
        for rows, width in ((changes.upserts, self._width), (changes.deletes, self._key_width)):
            for row in rows:
                if len(row) != width or row[0] != world_id:
                    raise RowError(f"{self.projection.name} made {row!r}, which is no row of world {world_id!r}")
        return changes

    def key_of(self, row: Row) -> Row:
        """Return a row's key."""
        return tuple(row[place] for place in self._key_places)

    @cached_property
    def _key_places(self) -> list[int]:
        names = [column.name for column in self.projection.columns]
        return [names.index(name) for name in self.projection.key]

    # -- rows ----------------------------------------------------------------------------------------------

    @cached_property
    def load(self) -> str:
        """The rows of some worlds ($1) that folds begin with, in the order of the columns; json as text."""
        if self.projection.newest_by is None:
            return f"select {self.columns} from {self.place} where world_id = any($1::text[])"
        newest = quoted(self.projection.newest_by)
        columns = ", ".join(f"t.{quoted(column.name)}" for column in self.projection.columns)
        return (
            f"select {columns} from unnest($1::text[]) as w (world_id) cross join lateral "
            f"(select max({newest}) as newest from {self.place} where world_id = w.world_id) n "
            f"join {self.place} t on t.world_id = w.world_id and t.{newest} = n.newest"
        )

    @cached_property
    def columns(self) -> str:
        """The columns' names, for a statement."""
        return ", ".join(quoted(column.name) for column in self.projection.columns)

    def upsert_into(self, where: str) -> str:
        """Return the statement that writes rows into a table: a parameter, an array, for each column."""
        projection = self.projection
        values = ", ".join(_value(n, column.type) for n, column in enumerate(projection.columns, 1))
        arrays = ", ".join(f"${n}::{_sent(column.type)}[]" for n, column in enumerate(projection.columns, 1))
        names = ", ".join(f"c{n}" for n in range(1, len(projection.columns) + 1))
        statement = f"insert into {where} ({self.columns}) select {values} from unnest({arrays}) as u ({names})"
        if projection.append_only:
            return statement
        rest = [quoted(column.name) for column in projection.columns if column.name not in projection.key]
        changes = ", ".join(f"{name} = excluded.{name}" for name in rest)
        action = f"update set {changes}" if rest else "nothing"
        return f"{statement} on conflict ({_list(projection.key)}) do {action}"

    def delete_from(self, where: str) -> str:
        """Return the statement that deletes the rows with some keys: a parameter, an array, for each of its columns."""
        key = [column for name in self.projection.key for column in self.projection.columns if column.name == name]
        arrays = ", ".join(f"${n}::{_sent(column.type)}[]" for n, column in enumerate(key, 1))
        names = ", ".join(f"c{n}" for n in range(1, len(key) + 1))
        same = " and ".join(f"t.{quoted(column.name)} = {_value(n, column.type)}" for n, column in enumerate(key, 1))
        return f"delete from {where} t using unnest({arrays}) as u ({names}) where {same}"

    # -- definitions ---------------------------------------------------------------------------------------

    def creation(self) -> Iterator[str]:
        """Return the statements that create the build's table."""
        projection = self.projection
        room = "" if projection.append_only else " with (fillfactor = 80)"  # updates stay on their page
        yield f"create table {self.place} ({self._definition()}){room}"
        yield from self._indexes(self.place)
        yield f"comment on table {self.place} is {literal(projection.comment)}"
        for column in projection.columns:
            yield f"comment on column {self.place}.{quoted(column.name)} is {literal(column.comment)}"

    def shadow(self, name: str) -> str:
        """Return the statement that creates a table of the same columns and key for one transaction."""
        return f"create temp table {quoted(name)} ({self._definition()}) on commit drop"

    def temporary(self, name: str) -> Iterator[str]:
        """Return the statements that create such a table, with its indexes, for one transaction."""
        yield self.shadow(name)
        yield from self._indexes(f"pg_temp.{quoted(name)}")

    def _indexes(self, where: str) -> Iterator[str]:
        return (f"create index on {where} ({_list(index)})" for index in self.projection.indexes)

    def _definition(self) -> str:
        columns = [
            f"{quoted(column.name)} {column.type}{_collation(column.type)}{'' if column.nullable else ' not null'}"
            for column in self.projection.columns
        ]
        return ", ".join([*columns, f"primary key ({_list(self.projection.key)})"])

    def views(self) -> Iterator[str]:
        """Return the statements that let the views read this build, each view before those that are made from it.

        Those that are made upon other projections' views too are not among them: see `view`.
        """
        projection = self.projection
        view = place(projection.name)
        yield f"create or replace view {view} as {self._own_select}"
        yield f"comment on view {view} is {literal(projection.comment)}"
        for column in projection.columns:
            yield f"comment on column {view}.{quoted(column.name)} is {literal(column.comment)}"
        for further in further_views(projection):
            if not further.upon:
                yield from self.view(further)

    def view(self, further: View) -> Iterator[str]:
        """Return the statements that make one of the projection's further views."""
        view = place(further.name, further.schema)
        yield f"create or replace view {view} as {self._select(further)}"
        yield f"comment on view {view} is {literal(further.comment)}"
        for column, comment in further.columns.items():
            yield f"comment on column {view}.{quoted(column)} is {literal(comment)}"

    def selects(self) -> Iterator[tuple[str, str, list[str]]]:
        """Return each view that reads this build: its place, what it selects, and the views that it is made upon."""
        yield place(self.projection.name), self._own_select, []
        for further in further_views(self.projection):
            yield place(further.name, further.schema), self._select(further), [place(name) for name in further.upon]

    @property
    def _own_select(self) -> str:
        return f"select {self.columns} from {self.place}"

    def _select(self, further: View) -> str:
        return further.select.replace("{build}", self.build)

    # -- comparing -----------------------------------------------------------------------------------------

    def difference(self, shadow: str) -> str:
        """Return the query for the first row that differs between the build and a shadow of some worlds ($1).

        Its columns: whether the build's row is ``missing``, whether it is ``extra``, then for each column the build's
        text and the shadow's.
        """
        key = self.projection.key
        first = quoted(key[0])
        same = " and ".join(f"l.{quoted(name)} = e.{quoted(name)}" for name in key)
        pairs = [
            f"l.{quoted(column.name)}::text as l{n}, e.{quoted(column.name)}::text as e{n}"
            for n, column in enumerate(self.projection.columns)
        ]
        differs = " or ".join(
            f"l.{quoted(column.name)}::text is distinct from e.{quoted(column.name)}::text"
            for column in self.projection.columns
        )
        order = ", ".join(f"coalesce(l.{quoted(name)}, e.{quoted(name)})" for name in key)
        return (
            f"select l.{first} is null as missing, e.{first} is null as extra, {', '.join(pairs)} "
            f"from (select * from {self.place} where world_id = any($1::text[])) l "
            f"full join {quoted(shadow)} e on {same} where {differs} order by {order} limit 1"
        )

    def repeated(self) -> str:
        """Return the query for the first key of some worlds ($1) that several rows have: as texts, and how many."""
        texts = ", ".join(f"{quoted(name)}::text" for name in self.projection.key)
        key = _list(self.projection.key)
        return (
            f"select {texts}, count(*) from {self.place} where world_id = any($1::text[]) group by {key} "
            f"having count(*) > 1 order by {key} limit 1"
        )

    def stray(self) -> str:
        """Return the query for the first row of a world in which the build ($1) has no cursor, as texts."""
        texts = ", ".join(f"t.{quoted(column.name)}::text as l{n}" for n, column in enumerate(self.projection.columns))
        order = ", ".join(f"t.{quoted(name)}" for name in self.projection.key)
        return (
            f"select {texts} from {self.place} t where not exists (select from projection_cursors c "
            f"where c.build = $1 and c.world_id = t.world_id) order by {order} limit 1"
        )


def arrays(rows: Sequence[Row]) -> Iterator[list[tuple[Any, ...]]]:
    """Return rows as parameters for one statement after another: an array for each column."""
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield list(zip(*rows[start : start + ROWS_AT_ONCE], strict=True))


def check_definitions(projections: Iterable[Projection]) -> None:
    """Raise ValueError where a definition cannot be a projection's."""
    taken: set[str] = set()
    for projection in projections:
        what = f"projection {projection.name!r}"
        columns = {column.name: column for column in projection.columns}
        views = further_views(projection)
        for name in (place(projection.name), *(place(view.name, view.schema) for view in views)):
            if name in taken:
                raise ValueError(f"{what}: the name {name} is taken")
            taken.add(name)
        shown = [name for view in views for name in view.columns]
        for name in (projection.name, *(view.name for view in views), *columns, *shown):
            if not re.fullmatch(NAME_PATTERN, name) or len(name) > LONGEST_NAME:
                raise ValueError(f"{what}: {name!r} is no name for a table, view or column")
        if any(_NUMBERED.search(name) for name in (projection.name, *(view.name for view in views))):
            raise ValueError(f"{what}: a name with a number at its end is that of a build")
        if len(columns) != len(projection.columns) or not projection.key:
            raise ValueError(f"{what}: a column twice, or no key")
        if projection.columns[0].name != "world_id" or projection.key[0] != "world_id":
            raise ValueError(f"{what}: columns and key begin with world_id")
        if any(name not in columns or columns[name].nullable for name in projection.key):
            raise ValueError(f"{what}: the key is made of columns that are not nullable")
        if any(name not in columns for index in projection.indexes for name in index):
            raise ValueError(f"{what}: an index names a column that is not there")
        newest = ["world_id", projection.newest_by]
        if newest[1] is not None and newest not in [list(index[:2]) for index in (projection.key, *projection.indexes)]:
            raise ValueError(f"{what}: the newest rows by {newest[1]} are not found by an index")
        if any("[" in column.type for column in projection.columns):
            raise ValueError(f"{what}: arrays cannot be sent; use json")
        if any(name not in columns for name in (*(projection.published or ()), *projection.inherited_by)):
            raise ValueError(f"{what}: it publishes a column that is not there")


def further_views(projection: Projection) -> list[View]:
    """Return a projection's views besides its own, the published ones last."""
    views: list[View] = [*projection.views]
    if projection.published is not None:
        views += _published(projection, projection.published)
    return views


def _published(projection: Projection, names: Mapping[str, str]) -> list[View]:
    """Return the views of the schema ``analytics``: the same rows, with the world's experiment behind its name."""
    columns = {column.name: (f"p.{quoted(column.name)}", column.comment) for column in projection.columns}
    columns.setdefault("experiment", ("w.experiment", "The experiment that the world belongs to; null for none."))
    order = [*_FIRST, *(name for name in columns if name not in _FIRST)]
    selected = ", ".join(f"{columns[name][0]} as {quoted(names.get(name, name))}" for name in order)
    comments = {names.get(name, name): columns[name][1] for name in order}
    source = f"from {place(projection.name)} p left join public.worlds w on w.world_id = p.world_id"
    if projection.has_forks:
        return [View(projection.name, f"select {selected} {source}", projection.comment, (), ANALYTICS, comments)]
    own = View(
        projection.name,
        f"select {selected} {source} where {NO_FORK.format('p')}",
        f"{projection.comment} Forks are left out.",
        schema=ANALYTICS,
        columns=comments,
    )
    with_forks = f"select {selected} {source}"
    if projection.inherited_by:
        known_from = ", ".join(f"p.{quoted(name)}" for name in projection.inherited_by)
        of_fork = {"world_id": "f.world_id", "experiment": "f.experiment"}
        inherited = ", ".join(
            f"{of_fork.get(name, columns[name][0])} as {quoted(names.get(name, name))}" for name in order
        )
        with_forks = (
            f"select {selected}, false as is_inherited, null::text as inherited_from, 0 as generation {source} "
            f"union all select {inherited}, true, a.ancestor, a.generation from analytics.forks f "
            f"cross join lateral analytics.ancestry(f.world_id) a join {place(projection.name)} p "
            f"on p.world_id = a.ancestor and coalesce({known_from}) <= a.until_seq"
        )
        comments = {**comments, **INHERITED}
    what = "what they inherit" if projection.inherited_by else "their own rows"
    said = f"As {projection.name}, with forks and {what}."
    return [own, View(f"{projection.name}{WITH_FORKS}", with_forks, said, schema=ANALYTICS, columns=comments)]


def place(name: str, schema: str = SCHEMA) -> str:
    """Return the qualified name of a table or view, for a statement."""
    return f"{schema}.{quoted(name)}"


def quoted(name: str) -> str:
    """Return a name as a statement takes it, quoted where it has to be."""
    return f'"{name}"'


def literal(text: str) -> str:
    """Return a text for a statement that takes no parameters."""
    return "'" + text.replace("'", "''") + "'"


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def _collation(kind: str) -> str:
    return ' collate "C"' if kind == "text" else ""  # bytes: the same order on every machine


def _sent(kind: str) -> str:
    return "text" if kind in {"json", "jsonb"} else kind


def _value(n: int, kind: str) -> str:
    return f"u.c{n}::{kind}" if kind in {"json", "jsonb"} else f"u.c{n}"
