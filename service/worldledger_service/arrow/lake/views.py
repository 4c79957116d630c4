"""The views of a lake.

A view with one row for each of some effects (those of single kinds, intents, observations) only grows with the logs:
each export adds a file with the new rows. Any other view is written again, as a whole, if its sources have changed: the
projections' cursors for views over projections, the logs for the rest.

Each view has a file, even without rows, so that queries find its columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import md5, sha256
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from worldledger_projections.tables import WITH_FORKS

from worldledger_service.arrow.connections import Session, literal
from worldledger_service.arrow.lake.effects import ParquetFile
from worldledger_service.arrow.lake.folder import LakeFolder, LakeWorld, Part
from worldledger_service.database.odd_rows import told_time

if TYPE_CHECKING:
    from worldledger_service.arrow.choosing import WorldSpan

#: A view with one row for each effect of any kind; others are of one kind, as their definitions say.
_OF_ANY_KIND: Final = "intents"
#: The definition of a view with one row for each effect of one kind.
_OF_ONE_KIND: Final = re.compile(
    r"SELECT e\.world_id,\s(?:(?!\bOVER \()[^;])*?\be\.global_seq,(?:(?!\bOVER \()[^;])*"
    r"FROM \(?(?:public\.)?effects e"
    r"(?:\s+LEFT JOIN (?:public\.)?worlds w ON \(*w\.world_id = e\.world_id\)*)?"
    r"\s+WHERE \(*e\.kind = '(?P<kind>(?:[^']|'')+)'::text\)*"
    r"(?:\s+AND \(*NOT \(*e\.world_id IN \(\s*SELECT f\.world_id\s+FROM (?:analytics\.)?forks f\)*)?;\s*"
)
#: Views that the lake has already, and those that are computed from the whole log for every query. Those with forks are
#: left out, too: each fork would have its ancestors' effects once more.
_LEFT_OUT: Final = ("effects", "verification", "effect_verification")
#: Worlds in one statement.
_TOGETHER: Final = 1000

_VIEWS: Final = f"""
select c.relname, pg_get_viewdef(c.oid),
       exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'world_id'),
       exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'experiment'),
       exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'global_seq'),
       exists (select from pg_rewrite r join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
               join pg_class t on d.refclassid = 'pg_class'::regclass and t.oid = d.refobjid
               where r.ev_class = c.oid and t.relnamespace = to_regnamespace('projections'))
from pg_class c
where c.relnamespace = to_regnamespace('analytics') and c.relkind = 'v'
  and c.relname not in ({", ".join(map(literal, _LEFT_OUT))}) and c.relname !~ '{WITH_FORKS}$'
order by c.relname
"""

_CURSORS: Final = """
select count(*), md5(string_agg(c.build || ' ' || c.world_id || ' ' || c.global_seq, ',' order by c.build, c.world_id))
from projection_cursors c join projection_builds b using (build)
where b.status = 'live' and c.world_id = any(array[{worlds}]::text[])
"""
_SNAPSHOTS: Final = f"select count(*), max({told_time('created_at')}) from snapshots"

_NEWS: Final = """
select v.* from (values {spans}) s (world_id, after_seq, until_seq)
cross join lateral (
    select * from analytics.{view}
    where world_id = s.world_id and global_seq > s.after_seq and global_seq <= s.until_seq
    order by global_seq) v
"""
#: A large world separately: PostgreSQL may read it with several processes.
_NEWS_OF_ONE: Final = """
select * from analytics.{view}
where world_id = {world} and global_seq > {span.after_seq} and global_seq <= {span.until_seq}
order by world_id, global_seq
"""
_LARGE: Final = 20_000


class ViewOfDatabase(NamedTuple):
    """A view in the database; ``sql`` defines it."""

    name: str
    sql: str
    has_world: bool
    has_experiment: bool
    has_seq: bool
    is_projected: bool

    @property
    def grows(self) -> bool:
        """True if it has one row for each of some effects."""
        return self.name == _OF_ANY_KIND or self.kind is not None

    @property
    def kind(self) -> str | None:
        """The kind of these effects; None: any kind, or its rows are not one for each effect."""
        named = _OF_ONE_KIND.fullmatch(self.sql.strip()) if self.has_world and self.has_seq else None
        return None if named is None else named["kind"].replace("''", "'")

    @property
    def definition(self) -> str:
        """A digest of its definition."""
        return md5(self.sql.encode(), usedforsecurity=False).hexdigest()


class Sources:
    """The sources of views, as digests: if one stays the same, so do the views that are made from it."""

    def __init__(self, session: Session, worlds: Mapping[str, LakeWorld]) -> None:
        self._logs = _digest((name, world.last_seq, world.checksum) for name, world in sorted(worlds.items()))
        self._cursors = _digest(session.fetch(_CURSORS.format(worlds=", ".join(map(literal, worlds)))))
        self._snapshots = _digest(session.fetch(_SNAPSHOTS))
        self._worlds = _digest(sorted(worlds))

    def of(self, view: ViewOfDatabase) -> str:
        """Return the digest of a view's sources."""
        if view.grows:
            return view.definition
        made_from = self._cursors if view.is_projected else self._logs
        further = self._snapshots if view.name == "snapshots" else ""
        return _digest([(view.definition, self._worlds, made_from, further)])


@contextmanager
def in_parallel(session: Session) -> Iterator[None]:
    """Let PostgreSQL read with several processes, as its settings allow: views spend most of their time there."""
    session.fetch("set max_parallel_workers_per_gather to default")
    yield
    session.fetch("set max_parallel_workers_per_gather = 0")


def views_of(session: Session) -> list[ViewOfDatabase]:
    """Return the views for a lake, by name."""
    return [ViewOfDatabase(*row) for row in session.fetch(_VIEWS)]


def write_whole(
    session: Session, folder: LakeFolder, view: ViewOfDatabase, worlds: Mapping[str, LakeWorld], *, everything: bool
) -> list[Part]:
    """Write a view's rows of these worlds into one file; ``everything``: there are no others."""
    where = ""
    if view.has_world and not everything:
        where = f"where world_id = any(array[{', '.join(map(literal, worlds))}]::text[])"
    elif view.has_experiment and not everything:
        named = {world.experiment for world in worlds.values() if world.experiment is not None}
        where = f"where experiment = any(array[{', '.join(map(literal, sorted(named)))}]::text[])"
    order = ", ".join(name for name, has in (("world_id", view.has_world), ("global_seq", view.has_seq)) if has)
    statement = f"select * from analytics.{_quoted(view.name)} {where} {f'order by {order}' if order else ''}"
    return _write(session, folder, f"{view.name}/part-0.parquet", [statement], even_empty=True)


def write_news(
    session: Session,
    folder: LakeFolder,
    view: ViewOfDatabase,
    spans: Sequence[WorldSpan],
    path: str,
    *,
    even_empty: bool,
) -> list[Part]:
    """Write a growing view's rows for these effects into one file, if there are any, or ``even_empty``."""
    statements: list[str] = []
    for is_large, some in groupby(spans, lambda span: span.effects >= _LARGE):
        if is_large:
            statements += [
                _NEWS_OF_ONE.format(view=_quoted(view.name), world=literal(span.world_id), span=span) for span in some
            ]
            continue
        while together := [*islice(some, _TOGETHER)]:
            named = ", ".join(
                f"({literal(span.world_id)}, {span.after_seq}::bigint, {span.until_seq}::bigint)" for span in together
            )
            statements.append(_NEWS.format(view=_quoted(view.name), spans=named))
    if not statements:
        statements = [f"select * from analytics.{_quoted(view.name)} limit 0"]
    return _write(session, folder, path, statements, even_empty=even_empty)


def _write(
    session: Session, folder: LakeFolder, path: str, statements: Iterable[str], *, even_empty: bool
) -> list[Part]:
    file: ParquetFile | None = None
    made = folder.aside(path)
    try:
        for statement in statements:
            with session.reading(statement) as (schema, batches):
                if file is None:
                    file = ParquetFile(made, _plain_schema(schema))
                for batch in batches:
                    file.write(_plain(batch))
        if file is None or (file.is_empty and not even_empty):
            folder.forget(path)
            return []
        size = file.close()
        return [Part(path=path, rows=file.rows, bytes=size)]
    finally:
        if file is not None:
            file.__exit__(None, None, None)


# -- what Parquet cannot hold ------------------------------------------------------------------------------


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return a column's type in Parquet: numbers of any length become doubles, values without a type become texts."""
    if isinstance(kind, pa.OpaqueType):
        return pa.float64() if kind.type_name == "numeric" else kind.storage_type
    return pa.string() if pa.types.is_interval(kind) else kind


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, _plain_type(field.type)) for field in schema])


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = []
    for column in batch.columns:
        values: Any = column.storage if isinstance(column.type, pa.OpaqueType) else column
        columns.append(values.cast(_plain_type(column.type)))
    return pa.record_batch(columns, schema=_plain_schema(batch.schema))


def _digest(rows: Iterable[Any]) -> str:
    digest = sha256()
    for row in rows:
        digest.update(repr(row).encode())
    return digest.hexdigest()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
