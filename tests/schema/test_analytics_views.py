"""The views over the log: typed columns, whatever stands in a payload, and names that say what they are."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg
import pytest
from worldledger_service.database import guards
from worldledger_service.database.analytics.views import SYSTEM, VERSION, VIEWS

from worldledger.kinds import parts
from worldledger.observability.noise import noise_of

from .helpers import Row, connected, insert_effect, link, make_effect, with_user, write_derived, write_world
from .views_of_kinds import ColumnOfKind, ViewOfKind, views_of_kinds

if TYPE_CHECKING:
    from .helpers import Connection

pytestmark = pytest.mark.both_servers

#: The views of single kinds of effects: the service's own, and those that the installed kinds of worlds bring.
OF_KINDS: list[ViewOfKind] = [
    *(
        ViewOfKind(
            kind.view_name,
            kind.name,
            kind.comment,
            tuple(ColumnOfKind(each.name, each.type, each.path or each.name, each.comment) for each in kind.fields),
        )
        for kind in SYSTEM
    ),
    *views_of_kinds(),
]
#: What kinds of worlds count moments in.
UNITS = {f"{kind}_units" for kind, ruleset in parts("ruleset").items() if ruleset.units}
#: The names of all views of the schema.
NAMES = {view.name for view in VIEWS} | {view.name for view in OF_KINDS} | UNITS

#: Of which a row is none of a world's.
NO_WORLDS = {"experiments", "experiments_with_forks", "projections"} | UNITS

#: What may stand where something else is expected; nothing that the write gate refuses.
ODD = [None, True, False, 0, -7, 2**53 - 1, 1.5, 1e300, 5e-324, 1e-7, "", "7", "true", "2026-02-30T25:61:00Z",
       "0000-00-00", "2026-01-02", "1e999", [], [1, [2, {}]], {}, {"x": {"y": [1]}}, "ä\n\"\\'"]  # fmt: skip


@pytest.fixture
async def log(admin: Connection) -> Connection:
    """Return a superuser's connection to a database with one world, in a transaction that is rolled back."""
    await write_world(admin, "w")
    return admin


async def _append(connection: Connection, kind: str, payload: Any, **fields: Any) -> int:
    """Write an effect as no rules would let it through; return its global_seq."""
    seq = 1 + await connection.fetchval("select max(global_seq) from effects where world_id = 'w'")
    effect = make_effect("w", seq, kind=kind, payload=payload, **fields)
    text = json.dumps(effect, sort_keys=True, separators=(",", ":"))
    row = Row("w", seq, text, link(None, text), kind, effect["source_id"], effect["sim_time"])
    await insert_effect(connection, row)
    return int(seq)


def _nested(path: str, value: Any) -> dict[str, Any]:
    for name in reversed(path.split(",")):
        value = {name: value}
    return dict(value)


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = dict(one)
    for name, value in other.items():
        inner = both.get(name)
        both[name] = _merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return both


async def test_every_kind_has_typed_columns(log: Connection) -> None:
    """A field of the right type is there, in the type of its column."""
    right = {"text": "a", "bigint": 7, "double": 1.5, "boolean": True, "time": "2026-01-02T03:04:05+01:00", "json": [1]}
    moment = datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC)
    wanted = {**right, "time": moment, "json": "[1]"}
    await log.execute("set local timezone = 'UTC'")
    for view in OF_KINDS:
        payload: dict[str, Any] = {}
        fields = _leaves(view)
        for name, field in fields.items():
            payload = _merged(payload, _nested(name, right[field.type]))
        seq = await _append(log, view.kind, payload, caused_by=1)
        row = await log.fetchrow(f"select * from analytics.{view.name} where global_seq = $1", seq)
        assert row is not None
        assert (row["world_id"], row["experiment"], row["caused_by"]) == ("w", "e1", 1)
        assert json.loads(row["payload"]) == payload
        whole = {field.name: wanted[field.type] for field in fields.values()}
        assert {name: row[name] for name in whole} == whole, view.kind


def _fields(view: ViewOfKind) -> dict[str, ColumnOfKind]:
    """Return the columns that are a field's of the payload, by its path."""
    return {column.path: column for column in view.columns if column.path is not None}


def _leaves(view: ViewOfKind) -> dict[str, ColumnOfKind]:
    """Return those of fields that have no others in them."""
    fields = _fields(view)
    return {path: each for path, each in fields.items() if not any(other.startswith(f"{path},") for other in fields)}


async def test_no_payload_breaks_a_view(log: Connection) -> None:
    """Whatever stands in a payload, even what is no object, every view can be read as a whole by a reader."""
    for view in OF_KINDS:
        for number, odd in enumerate(ODD):
            payload: Any = {}
            for place, path in enumerate(_fields(view)):
                value = ODD[(number + place) % len(ODD)]
                payload = _merged(payload, _nested(path, value))
            await _append(log, view.kind, payload if number % 3 else odd, caused_by=odd, source_metadata=odd)
    await write_derived(log)
    await log.execute("set role worldledger_reader")
    for name in NAMES:
        await log.fetch(f"select * from analytics.{name}")
    await log.execute("reset role")


#: Texts in JSON, and whether PostgreSQL can read them.
ESCAPES = {
    r'"\u0000"': False, r'"\\u0000"': True, r'"\\\u0000"': False, r'"\\\\u0000"': True, r'{"\u0000":1}': False,
    r'"\ud800"': False, r'"\uDC00"': False, r'"\ud83d\ude00"': True, r'"\uD83D\uDE00"': True,
    r'"\ud83d\ud83d\ude00"': False, r'"\ude00\ud83d"': False, r'"\ud83dx\ude00"': False, r'"\\ud83d\udc00"': False,
    r'"\ud83d\\ude00"': False, r'"\u001b\u00e4"': True, r'"\n\"\\"': True, "[1]": True, "null": True,
}  # fmt: skip


async def test_what_postgresql_can_read_is_told_apart(log: Connection) -> None:
    """The function leaves what the operators of PostgreSQL read as it is, and nothing else."""
    for text, wanted in ESCAPES.items():
        can_read = True
        try:
            async with log.transaction():
                await log.fetchval("select json_build_array($1::text::json) #>> '{0}'", text)
                await log.fetchval("select json_build_array($1::text::json) -> 0", text)
        except asyncpg.DataError:
            can_read = False
        assert can_read is wanted, text
        assert await log.fetchval("select analytics.readable($1::text::json)::text", text) == (text if wanted else None)


UNREADABLE = ("\0", "\ud800", "\udfff\ud800")


async def test_an_effect_that_cannot_be_read_hides_no_other(log: Connection) -> None:
    """Its row is there, with what its own columns say; every other row is as it was; no function raises."""
    forks = {"fork_of": {"world_id": "w", "global_seq": 3, "world_uuid": "\0"}}
    genesis = make_effect("fork", 1, payload=forks)
    text = json.dumps(genesis, sort_keys=True, separators=(",", ":"))
    await insert_effect(log, Row("fork", 1, text, link(None, text), "WorldCreated", "worldledger", 0.0))
    seqs: dict[str, list[int]] = {}
    for number, view in enumerate(OF_KINDS):
        for odd in ("fine", UNREADABLE[number % len(UNREADABLE)]):
            payload: dict[str, Any] = {}
            for path in _leaves(view):
                payload = _merged(payload, _nested(path, odd))
            payload = _merged(payload, {"other": odd})
            said = {"intent": "Speak", "request_sha256": odd}
            seq = await _append(log, view.kind, payload, caused_by=1, source_metadata=said)
            seqs.setdefault(view.name, []).append(seq)
    await log.execute("update heads set head_seq = $1 where world_id = 'w'", max(seqs[OF_KINDS[-1].name]))
    await log.execute("set role worldledger_reader")
    for name in NAMES:
        await log.fetch(f"select * from analytics.{name}")
    for view in OF_KINDS:
        rows = await log.fetch(
            f"select * from analytics.{view.name} where global_seq = any($1) order by global_seq", seqs[view.name]
        )
        assert [row["global_seq"] for row in rows] == seqs[view.name], view.name
        assert [row["payload"] is None for row in rows] == [False, True], view.name
        assert (rows[0]["caused_by"], rows[1]["caused_by"]) == (1, None)
    rejected = await log.fetch("select global_seq, payload from analytics.intents where not is_accepted order by 1")
    assert [row["global_seq"] for row in rejected] == seqs["intent_rejected"]
    whole = await log.fetch("select global_seq, payload, effect from analytics.effects where world_id = 'w'")
    told = {row["global_seq"] for row in whole if row["payload"] is None}
    assert told == {unreadable for _, unreadable in seqs.values()}
    assert all(row["effect"] is not None for row in whole)
    assert await log.fetchval("select count(payload) from analytics.history('w')") == len(whole) - len(told)
    assert await log.fetchval("select count(*) from analytics.forks where world_id = 'fork'") == 0
    with pytest.raises(asyncpg.NoDataFoundError, match=r"effect \d+ of world w has no time that can be read"):
        async with log.transaction():
            await log.fetch("select * from analytics.place_at('w', 'wall:2100-01-01T00:00:00Z')")
    await log.execute("reset role")


async def test_no_number_of_a_row_ends_a_view(log: Connection) -> None:
    """Heads and cursors of agents and projections as far out as numbers go: every view can be read as a whole."""
    await write_world(log, "v")
    await write_derived(log)
    least, most = -(2**63), 2**63 - 1
    before = await log.fetch("select * from analytics.experiments")
    assert [row["effects"] for row in before] == [18]
    for head, reached in ((most, least), (least, most), (most, most), (least, least), (most, 0)):
        async with log.transaction():
            await log.execute("update heads set head_seq = $1, moved = true", head)
            await log.execute("update agent_cursors set view_seq = $1", reached)
            await log.execute("update projection_cursors set global_seq = $1", reached)
            await log.execute("update projection_pending set head_seq = $1", head)
        for name in NAMES:
            await log.fetch(f"select * from analytics.{name}")


VECTORS: dict[str, list[tuple[str, Any]]] = {
    "json_bigint": [("7", 7), ("-7", -7), ("9007199254740991", 2**53 - 1), ("7.0", None), ("1e3", None), ('"7"', None),
                    ("true", None), ("null", None), ("[]", None), ("1234567890123456789012", None)],
    "json_double": [("7", 7.0), ("-0.5", -0.5), ("1e3", 1000.0), ("1.7976931348623157e308", 1.7976931348623157e308),
                    ("1e999", None), ("1e-999", None), ("5e-324", 5e-324), ("0e999", 0.0), ('"7"', None), ("{}", None),
                    ("1" * 301, None), ("1e99999999999", None)],
    "json_boolean": [("true", True), ("false", False), ("1", None), ('"true"', None), ("null", None)],
    "json_time": [
        ('"2026-01-02T03:04:05Z"', datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ('"2026-01-02T03:04:05.25+02:30"', datetime(2026, 1, 2, 0, 34, 5, 250000, tzinfo=UTC)),
        ('"2026-01-02 03:04"', datetime(2026, 1, 2, 3, 4, tzinfo=UTC)),
        ('"2025-11-23T17:58:25.123456"', datetime(2025, 11, 23, 17, 58, 25, 123456, tzinfo=UTC)),
        ('"2024-02-29"', datetime(2024, 2, 29, tzinfo=UTC)),
        ("1700000000.5", datetime(2023, 11, 14, 22, 13, 20, 500000, tzinfo=UTC)),
        ("0", datetime(1970, 1, 1, tzinfo=UTC)),
        *((f'"{text}"', None) for text in (
            "2023-02-29", "2026-13-01", "2026-04-31", "2026-01-01T24:00:00Z", "2026-01-01T23:60Z", "0001-01-01",
            "2026-01-01T23:59:60Z", "2026-01-01T00:00:00+16:00", "yesterday", "now", "infinity", "", "20260102",
        )),
        ("1e300", None), ("-1e12", None), ("true", None), ("[2026]", None), (r'"\u0000"', None),
    ],
}  # fmt: skip


async def test_values_of_odd_types_are_null(log: Connection) -> None:
    """Each function gives the value of its type, and null for everything else."""
    await log.execute("set local timezone = 'Asia/Tokyo'; set local datestyle = 'German, DMY'")
    for function, vectors in VECTORS.items():
        for text, wanted in vectors:
            found = await log.fetchval(f"select analytics.{function}($1::text::json)", text)
            assert found == wanted, (function, text)
            assert type(found) is type(wanted)


async def test_noise_is_that_of_the_policy(log: Connection) -> None:
    """The draw in SQL is the draw in Python, to the bit, whatever the names are."""
    key = uuid4()
    for observer, target, path, turn in (
        ("Ann", "global", "/gold", 0),
        ('q"\\', "ä\t\u2028", "/a~1b/0", 12),
        ("", "x" * 300, "", 2**40),
    ):
        query = "select analytics.noise($1, $2, $3, $4, $5)"
        found = await log.fetchval(query, key, observer, target, path, turn)
        assert found == noise_of(key.hex, observer, target, path, turn)


async def test_names_say_what_they_are(log: Connection) -> None:
    """Moments end in _at, times in _s or _ms, what is true or not begins with is_; worlds have their experiment."""
    columns: dict[str, dict[str, str]] = {}
    for row in await log.fetch("""
        select c.relname, a.attname, format_type(a.atttypid, null) as type from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
        where c.relnamespace = 'analytics'::regnamespace order by c.relname, a.attnum
    """):
        columns.setdefault(row["relname"], {})[row["attname"]] = row["type"]
    assert set(columns) == NAMES
    for table, found in columns.items():
        assert (list(found)[:2] == ["world_id", "experiment"]) is (table not in NO_WORLDS), table
        for name, kind in found.items():
            assert (kind == "timestamp with time zone") is name.endswith("_at"), (table, name)
            assert (kind == "boolean") is name.startswith(("is_", "has_")), (table, name)
            if kind == "double precision" and any(word in name for word in ("time", "duration", "latency", "clock")):
                assert name.endswith(("_s", "_ms")), (table, name)


async def test_the_version_can_be_asked_for(log: Connection) -> None:
    """The schema's comment begins with it."""
    said = await log.fetchval("select obj_description('analytics'::regnamespace, 'pg_namespace')")
    assert said.startswith(f"Version {VERSION}. ")


# -- by whom -------------------------------------------------------------------------------------------------


async def test_readers_see_this_schema_only(log: Connection) -> None:
    """Neither the reader nor the guest may do anything with a relation of ours elsewhere, or write to one here."""
    await write_derived(log)
    for role in (guards.READER_ROLE, guards.GUEST_ROLE):
        rights = await log.fetch(
            """
            select c.oid::regclass::text, p as privilege from pg_class c
            cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) p
            where c.relkind in ('r', 'v') and has_table_privilege($1, c.oid, p)
              and c.relnamespace::regnamespace::text in ('public', 'projections', 'analytics')
            """,
            role,
        )
        assert {tuple(row) for row in rights} == {(f"analytics.{name}", "SELECT") for name in NAMES}
        for schema, may in (("analytics", True), ("projections", False)):
            assert await log.fetchval("select has_schema_privilege($1, $2, 'usage')", role, schema) is may
            assert not await log.fetchval("select has_schema_privilege($1, $2, 'create')", role, schema)


async def test_the_service_cannot_change_a_view_of_the_log(log: Connection) -> None:
    """The schema is the service's, for its own views; those over the log it can neither replace nor alter."""
    await log.execute("set role worldledger_service")
    for statement in (
        "create or replace view analytics.observers as select * from analytics.observers",
        "alter view analytics.effects set (security_barrier = true)",
        "comment on view analytics.effects is 'mine'",
        "alter function analytics.open_query(text) security invoker",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with log.transaction():
                await log.execute(statement)


async def test_who_logs_in_as_the_reader(database_url: str) -> None:
    """Their session reads only, finds the schema, is stopped after a minute, and there may be twenty of them."""
    tag = uuid4().hex[:12]
    prefix = f"wl_ask_{tag}_"
    async with connected(database_url) as admin:
        try:
            async with admin.transaction():
                for statement in guards.roles():
                    await admin.execute(statement.replace("worldledger_", prefix))
            await admin.execute(f"alter role {prefix}reader login password 'pw'")
            # What an administrator has chosen stays when somebody migrates again.
            await admin.execute(f"alter role {prefix}reader set statement_timeout = '5min'")
            async with admin.transaction():
                for statement in guards.roles():
                    await admin.execute(statement.replace("worldledger_", prefix))
            async with connected(with_user(database_url, f"{prefix}reader", "pw")) as reader:
                shown = {
                    name: await reader.fetchval(f"show {name}")
                    for name in ("default_transaction_read_only", "statement_timeout", "search_path")
                }
                assert shown == {
                    "default_transaction_read_only": "on",
                    "statement_timeout": "5min",
                    "search_path": "analytics",
                }
                with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                    await reader.execute("create temp table mine (x int)")
            limit = "select rolconnlimit from pg_roles where rolname = $1"
            assert await admin.fetchval(limit, f"{prefix}reader") == 20
            assert await admin.fetchval(limit, f"{prefix}guest") == -1
        finally:
            names = [f"{prefix}{name}" for name in ("owner", "service", "reader", "guest")]
            await admin.execute(f"drop owned by {', '.join(names)}; drop role {', '.join(names)}")
