"""Whatever is in a row beside the log: no answer says that the database is away, and `db check` names the row."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import pytest
from worldledger_service.database.odd_rows import odd_rows

from .helpers import WorldClient, catch_up, problem
from .living import intent, register

if TYPE_CHECKING:
    from worldledger_service.api.context import Services

pytestmark = pytest.mark.usefixtures("projected")

#: Values of each type that no program writes; of json, whatever else may be in a column of it.
_ODD: Final = {
    "timestamptz": ("infinity", "-infinity", "0044-03-15 BC", "294276-12-31"),
    "int8": (str(-(2**63)), str(2**63 - 1)),
    "int4": (str(-(2**31)),),
    "float8": ("NaN", "-Infinity"),
    "text": ("", "a" * 2000),
}
#: Columns of texts that may be any, and that of a row which reading makes anew.
_ANY: Final = ("error", "holder", "scanned_to", "ruleset")
_JSON: Final = ("null", "[]", "5", '"\\u0000"', "{}", '{"checked_at": "soon", "verified": []}')
_READ: Final = (
    *("/v1/projections", "/v1/projections/entities", "/readyz", "/metrics", "/v1/worlds", "agents", "online"),
    *("snapshots", "state", "agents/alice", "agents/alice/view", "time-authority", "density"),
)
_COLUMNS: Final = """
select c.relname as table, a.attname as column, t.typname as type
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 join pg_type t on t.oid = a.atttypid
where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and t.typname = any($1) and c.relname <> all($2)
order by c.relname, a.attnum
"""
_LOG: Final = ("worlds", "heads", "effects", "requests", "prefixes", "alembic_version")


@pytest.fixture
async def admin(database_url: str) -> AsyncIterator[Any]:
    """Return a superuser's connection."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest.fixture
async def filled(client: WorldClient, services: Services, admin: Any) -> WorldClient:
    """Have a row in every table beside the log; every tick of the world is closed by `unity`."""
    body = {"world_id": client.world, "time_authority": "unity", "order": "tick"}
    assert (await client.post("/v1/worlds", json=body)).status_code == 201
    await register(client, "alice")
    assert (await client.post("intents", json=intent("r0"))).status_code == 202
    assert (await client.post("time", json={"adapter": "unity", "sim_time": 1.5})).status_code == 201
    assert (await client.post("intents", json=intent("r1"))).status_code == 202
    assert (await client.post("snapshots")).status_code == 201
    await catch_up(services)
    await admin.execute(
        """
        insert into projection_parked (build, world_id, global_seq, error) values ('entities_1', 'elsewhere', 2, 'no');
        insert into projection_pending (build, world_id, head_seq) values ('entities_1', 'elsewhere', 9);
        insert into agent_cursors (world_id, agent_id, view_seq) values ('elsewhere', 'bob', 3);
        update projection_builds set check_report = '{}'
        """
    )
    return client


async def _columns(admin: Any, *types: str) -> list[tuple[str, str, str]]:
    found = [tuple(row) for row in await admin.fetch(_COLUMNS, types, _LOG)]
    assert found
    return found


async def _read(client: WorldClient, what: str) -> None:
    for path in _READ:
        response = await client.get(path)
        assert response.status_code == 200, (what, path, response.text)


async def _put(admin: Any, table: str, column: str, type_: str, value: str) -> bool:
    """Put a value into a row, unless a constraint refuses it; return whether it was put."""
    try:
        await admin.execute(f"create table kept as select * from {table}")
        await admin.execute(
            f"update {table} set {column} = $1::text::{type_} where ctid = (select min(ctid) from {table})", value
        )
    except asyncpg.IntegrityConstraintViolationError:
        return False
    return True


async def _put_back(admin: Any, table: str) -> None:
    await admin.execute(f"delete from {table}; insert into {table} select * from kept; drop table kept")


async def test_no_value_hides_what_is_right(filled: WorldClient, admin: Any, subtests: pytest.Subtests) -> None:
    """A text, time or number of no program's spoils no answer, and its table, key and column are named."""
    assert await odd_rows(admin) == []
    for table, column, type_ in await _columns(admin, *_ODD):
        for value in _ODD[type_]:
            what = f"{table}.{column} = {value}"
            with subtests.test(what=what):
                is_put = await _put(admin, table, column, type_, value)
                try:
                    await _read(filled, what)
                    found = await odd_rows(admin)
                finally:
                    await _put_back(admin, table)
                assert len(found) == (is_put and column not in _ANY)
                assert all(each.startswith(f"row of {table} with ") and f": {column} is " in each for each in found)


async def test_no_json_hides_what_is_right(filled: WorldClient, admin: Any, subtests: pytest.Subtests) -> None:
    """JSON of another shape spoils no answer; whatever it is of can be made again."""
    for table, column, type_ in await _columns(admin, "json"):
        for value in _JSON:
            with subtests.test(what=f"{table}.{column} = {value}"):
                await _put(admin, table, column, type_, value)
                try:
                    await _read(filled, value)
                finally:
                    await _put_back(admin, table)


async def test_an_open_tick_out_of_range_is_read_from_the_log(filled: WorldClient, admin: Any) -> None:
    """The open tick is a copy of what the log says: one that cannot be is made again, and ticks go on."""
    for n, change in enumerate(("tick = 9223372036854775807", "after_seq = -1", "sim_time = 'NaN'"), 2):
        await admin.execute(f"update open_ticks set {change}")
        held = await filled.post("intents", json=intent(f"n{n}"))
        assert (held.status_code, held.json()["tick"]) == (202, n)
        assert await odd_rows(admin) == []
        await admin.execute(f"update open_ticks set {change}")
        closed = await filled.post("time", json={"adapter": "unity", "sim_time": float(n)})
        assert (closed.status_code, closed.json()["tick"]) == (201, n)


async def test_a_held_intent_that_cannot_be_read_is_refused_by_its_tick(
    filled: WorldClient, admin: Any, subtests: pytest.Subtests
) -> None:
    """The others of the tick are accepted; who asks again is told that theirs was not, whatever was noted of that."""
    for n, text in enumerate(_JSON, 2):
        with subtests.test(intent=text):
            assert (await filled.post("intents", json=intent(f"bad{n}"))).status_code == 202
            assert (await filled.post("intents", json=intent(f"good{n}"))).status_code == 202
            await admin.execute("update held_intents set intent = $1::text::json where req_id = $2", text, f"bad{n}")
            assert (await filled.post("intents", json=intent(f"bad{n}"))).status_code == 202
            closed = (await filled.post("time", json={"adapter": "unity", "sim_time": float(n)})).json()
            assert (closed["tick"], closed["refused"]) == (n, 1)
            problem(await filled.post("intents", json=intent(f"bad{n}")), 422, "invalid_intent")
            assert (await filled.post("intents", json=intent(f"good{n}"))).status_code == 200
            await admin.execute("update held_intents set outcome = $1::text::json where req_id = $2", text, f"bad{n}")
            problem(await filled.post("intents", json=intent(f"bad{n}")), 422, "invalid_intent")


#: What becomes of a member ("c") of an atomic list, and how many of the list are accepted by its tick.
_CHANGES: Final = {
    "select $1::text": 3,
    "update held_intents set list_atomic = false where req_id = $1": 3,
    "delete from held_intents where req_id = $1": 0,
    "update held_intents set place = 9 where req_id = $1": 0,
    """update held_intents set intent = replace(intent::text, '"text":"c"', '"text":"x"')::json where req_id = $1""": 0,
}


async def test_an_atomic_list_that_is_not_whole_is_refused_by_its_tick(
    filled: WorldClient, admin: Any, subtests: pytest.Subtests
) -> None:
    """None of it is accepted once a member is gone or changed; one that was held before does not belong to it."""
    assert (await filled.post("time", json={"adapter": "unity", "sim_time": 2.0})).status_code == 201
    for n, (change, accepted) in enumerate(_CHANGES.items(), 3):
        with subtests.test(change=change):
            members = [{**intent(f"{name}{n}"), "payload": {"text": name}} for name in "abcd"]
            assert (await filled.post("intents", json=members[1])).status_code == 202
            held = await filled.post("intents", json={"intents": members, "atomic": True})
            assert held.status_code == 202, held.text
            await admin.execute(change, f"c{n}")
            closed = (await filled.post("time", json={"adapter": "unity", "sim_time": float(n)})).json()
            left = await admin.fetchval("select count(*) from held_intents where tick = $1", n)
            assert (closed["tick"], closed["accepted"], closed["refused"]) == (n, 1 + accepted, left)
            if not accepted:
                problem(await filled.post("intents", json=members[0]), 422, "invalid_intent")
