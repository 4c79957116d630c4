"""Rows that no program of this project has written: names, times and numbers out of range in tables beside the log.

Whoever may write to the tables may put any value there that its type has. What is read is bounded (`told_time`,
`fetch_told`), so one row hides no other, and `worldledger db check` names the row (`odd_rows`). Rows of the log are
named by `verify`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from worldledger.canonical import MAX_INT
from worldledger.drafts import MAX_WORD
from worldledger.errors import on_one_line
from worldledger.genesis import NAME_PATTERN

if TYPE_CHECKING:
    import asyncpg

    from worldledger_service.database.engine import Connection, PooledConnection

#: The tables of the log.
_LOG: Final = frozenset({"worlds", "heads", "effects", "requests"})
#: The first and the last time that are told, a day off the ends of Python's years because of time zones.
_EARLIEST: Final = "timestamptz '0001-01-02 00:00Z'"
_LATEST: Final = "timestamptz '9999-12-30 00:00Z'"

_REBUILD: Final = "`worldledger projections rebuild` makes it anew"
#: The tables beside the log, and what makes a row of them right again. Source: docs/architecture.md, "The log".
_REMEDIES: Final = {
    "agent_cursors": "delete it, and the agent receives some observations again",
    "held_intents": "delete it, and that intent is lost",
    "kind_analytics": "delete it, and run `worldledger db upgrade`",
    "open_ticks": "delete it, and it is made again from the log",
    "projection_builds": _REBUILD,
    "projection_cursors": _REBUILD,
    "projection_leases": "delete it while no process feeds the projections",
    "projection_parked": "`worldledger projections retry` removes it",
    "projection_pending": _REBUILD,
    "snapshots": "delete it, and states are folded without it",
}
_BUILD: Final = "^[a-z][a-z0-9_]{0,62}$"
#: The condition that the column ``build`` holds a name that the engine gives, which is that of a table, too.
IS_BUILD: Final = f"build ~ '{_BUILD}'"
#: The conditions that a column has what no program writes, by its type. A ``place`` may be negative: `Intent.order`.
_ODD: Final = {
    "timestamptz": f"{{0}} not between {_EARLIEST} and {_LATEST}",
    "int8": f"{{0}} not between case '{{0}}' when 't.place' then -{MAX_INT} else 0 end and {MAX_INT}",
    "int4": "{0} < 0",
    "float8": "{0} in ('NaN', 'Infinity', '-Infinity')",
    "text": f"""case '{{0}}' when 't.build' then {{0}} !~ '{_BUILD}' when 't.world_id' then {{0}} !~ '{NAME_PATTERN}'
            when 't.error' then false when 't.holder' then false when 't.scanned_to' then false
            else length({{0}}) not between 1 and {MAX_WORD} end""",
    "_text": "{0}::text <> array(select e from unnest({0}) e where e <> '')::text",
}
#: The columns of these tables ($1) that have such types ($2), and those of the primary keys.
_COLUMNS: Final = """
select c.relname as table, a.attname as column, t.typname as type, coalesce(a.attnum = any(i.indkey), false) as is_key
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
join pg_type t on t.oid = a.atttypid
left join pg_index i on i.indrelid = c.oid and i.indisprimary
where c.relnamespace = to_regnamespace('public') and c.relname = any($1)
  and (t.typname = any($2) or a.attnum = any(i.indkey))
order by c.relname, a.attnum
"""
#: Rows of a table that are named at most, and characters of a value that are shown.
_MOST: Final = 10
_SHOWN: Final = 100


def is_told(column: str) -> str:
    """Return the condition that a column of a ``timestamptz`` holds a time that Python has; null where it is null."""
    return f"({column} between {_EARLIEST} and {_LATEST})"


def told_time(column: str) -> str:
    """Return the expression for a column of a ``timestamptz`` with the nearest time that Python has.

    The driver could read none of the rows of an answer with another one.
    """
    return (
        f"case when {column} < {_EARLIEST} then {_EARLIEST} when {column} > {_LATEST} then {_LATEST} else {column} end"
    )


async def fetch_told(
    connection: Connection | PooledConnection, statement: str, *arguments: Any
) -> list[asyncpg.Record]:
    """Read the rows of a query; of times that Python does not have, each is the nearest that it has."""
    try:
        return await connection.fetch(statement, *arguments)
    except OverflowError:
        columns = (await connection.prepare(statement)).get_attributes()
    told = ", ".join(
        f'{told_time(f"v.c{n}")} as "{each.name}"' if each.type.name == "timestamptz" else f'v.c{n} as "{each.name}"'
        for n, each in enumerate(columns)
    )
    names = ", ".join(f"c{n}" for n in range(len(columns)))
    return await connection.fetch(f"select {told} from ({statement}) v ({names})", *arguments)


async def odd_rows(connection: Connection) -> list[str]:
    """Name table, key and column of values that no program of this project writes, the first ones of each table."""
    found = await connection.fetch(_COLUMNS, list(_REMEDIES), list(_ODD))
    return [
        f"row of {table} with {_key(row['key'])}: {row['name']} is {_short(row['value'])}, which no program writes: "
        f"{remedy}"
        for table, remedy in _REMEDIES.items()
        if (columns := [each for each in found if each["table"] == table])
        for row in await connection.fetch(_statement(table, columns))
    ]


#: Findings of `worldledger_service.database.catalogue.compare` about a lost constraint that rows may break by now.
_MAY_BE_NULL: Final = re.compile(r"column (?P<table>\w+)\.(?P<column>\w+): should be: .* not null\b")
_MAY_BE_TWICE: Final = re.compile(r"constraint \w+ on (?P<table>\w+): missing: PRIMARY KEY \((?P<columns>[\w, ]+)\)")


async def breaking_rows(connection: Connection, findings: Iterable[str]) -> list[str]:
    """Name the rows that break a constraint which was dropped: no upgrade can make it again while they are there."""
    lines = []
    for finding in findings:
        if lost := _MAY_BE_NULL.match(finding):
            rows = f"select from public.{lost['table']} where {lost['column']} is null"
            what = f"{lost['column']} is NULL"
        elif lost := _MAY_BE_TWICE.match(finding):
            rows = f"select from public.{lost['table']} group by {lost['columns']} having count(*) > 1"
            what = f"{lost['columns']} {'are those' if ',' in lost['columns'] else 'is that'} of another row"
        else:
            continue
        if await connection.fetchval(f"select exists ({rows})"):
            names = ", and `worldledger verify --all` names its world" if lost["table"] in _LOG else ""
            lines.append(f"row of {lost['table']}: {what}: mend it before `worldledger db upgrade`{names}")
    return lines


def _statement(table: str, columns: list[Any]) -> str:
    key = ", ".join(f"'{each['column']}', t.{each['column']}::text" for each in columns if each["is_key"])
    odd = {
        each["column"]: _ODD[each["type"]].replace("{0}", f"t.{each['column']}")
        for each in columns
        if each["type"] in _ODD
    }
    values = ", ".join(f"('{name}', t.{name}::text, {how})" for name, how in odd.items())
    return (
        f"select array[{key}]::text[] as key, v.name, v.value from public.{table} t "
        f"cross join lateral (values {values}) v (name, value, is_odd) where v.is_odd limit {_MOST}"
    )


def _key(parts: list[str]) -> str:
    return ", ".join(f"{name} '{_short(value)}'" for name, value in zip(parts[::2], parts[1::2], strict=True))


def _short(text: str) -> str:
    return on_one_line(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
