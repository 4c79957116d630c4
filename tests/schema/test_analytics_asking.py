"""Somebody's query: what it may do, what it is told when it goes wrong, and that there is no way out of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from worldledger_service.database.analytics import asking
from worldledger_service.database.analytics.asking import Cells, Column, ask
from worldledger_service.database.engine import connect_one, connect_pool

from worldledger.errors import QueryRefusedError, QueryTimeoutError, SchemaVersionError

from .helpers import connected, write_world

if TYPE_CHECKING:
    from .helpers import Connection


@pytest.fixture(scope="module")
def asked_url(servers: Any, server_kind: str) -> Any:
    """Return a superuser's address of a database with one world, which no query of this module can change."""
    url = servers.create(server_kind, servers.template(server_kind))
    yield url
    servers.drop(server_kind, url)


@pytest.fixture
async def service(asked_url: str) -> AsyncIterator[Connection]:
    """Return a connection as the service has it, of a user who is a superuser: the worst to get out to."""
    async with connected(asked_url) as admin:
        if not await admin.fetchval("select count(*) from worlds"):
            await write_world(admin, "w")
    connection = await connect_one(asked_url, role="worldledger_service")
    yield connection
    # Whatever was asked, the connection is as it was.
    assert await connection.fetchval("select current_user") == "worldledger_service"
    assert (
        await connection.fetchval(
            "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
        )
        == 0
    )
    assert not connection.is_in_transaction()
    await connection.close()


async def _ask(connection: Any, query: str, params: Any = (), *, cells: Cells = "values", **more: Any) -> list[Any]:
    rows: list[Any] = []
    async with ask(connection, query, params, cells=cells, timeout_s=more.pop("timeout_s", 20.0), **more) as answer:
        async for batch in answer.batches():
            rows += batch
    return rows


async def _refused(connection: Any, query: str, params: Any = (), **more: Any) -> QueryRefusedError:
    with pytest.raises(QueryRefusedError) as caught:
        await _ask(connection, query, params, **more)
    return caught.value


async def test_who_leaves_at_the_end_leaves_no_transaction(service: Connection) -> None:
    """Where whoever asked is cancelled while the question is undone, it is undone nevertheless."""

    async def asking() -> None:
        async with ask(service, "select 1 as one", timeout_s=20.0) as answer:
            assert [row async for batch in answer.batches() for row in batch] == [(1,)]
            asyncio.get_running_loop().call_soon(task.cancel)

    task = asyncio.create_task(asking())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not service.is_in_transaction()
    assert await service.fetchval("select 1") == 1


# -- answers -----------------------------------------------------------------------------------------------


@pytest.mark.both_servers
async def test_a_query_is_answered(service: Connection) -> None:
    """Views are found without their schema; columns have names and types, rows are the driver's values."""
    async with ask(
        service, "select world_id, global_seq, payload from effects order by 2 desc", timeout_s=20
    ) as answer:
        assert answer.columns == (Column("world_id", "text"), Column("global_seq", "bigint"), Column("payload", "json"))
        rows = [row async for batch in answer.batches() for row in batch]
    assert rows[0] == ("w", 9, '{"x":9}')
    assert (answer.rows, answer.is_cut) == (9, False)


FORMS: list[tuple[str, list[Any]]] = [
    ("select 1 -- the end", [(1,)]),
    ("select 1;", [(1,)]),
    ("  /* before */ values (1, 'a'), (2, null) ;  ", [(1, "a"), (2, None)]),
    ("select 1 as x, 2 as x, 3", [(1, 2, 3)]),
    ("table experiments limit 0", []),
    ("with a as (select 1 as x) select x from a", [(1,)]),
    ("show statement_timeout", [("20s",)]),
    ("select row(1, 'a')::text, '{a,\"b c\"}'::text[], 'c'::char(3), 1.50::numeric(5,2)::text",
     [("(1,a)", ["a", "b c"], "c  ", "1.50")]),
]  # fmt: skip


@pytest.mark.both_servers
async def test_forms_of_queries(service: Connection, subtests: pytest.Subtests) -> None:
    """Comments, semicolons, names that come twice, no rows: whatever gives columns is a query."""
    for query, rows in FORMS:
        with subtests.test(query=query):
            assert await _ask(service, query) == rows


async def test_cells(service: Connection) -> None:
    """Cells come as values, as PostgreSQL's text, or as the text of their JSON, where NaN is a string."""
    query = """
        select 'NaN'::float8, '-Infinity'::numeric, timestamptz '2026-01-02 03:04Z', null, '{"x": 1e2}'::json, true,
               'infinity'::timestamptz
    """
    assert await _ask(service, query, cells="text") == [
        ("NaN", "-Infinity", "2026-01-02 03:04:00+00", None, '{"x": 1e2}', "true", "infinity")
    ]
    assert await _ask(service, query, cells="json") == [
        ('"NaN"', '"-Infinity"', '"2026-01-02T03:04:00+00:00"', None, '{"x": 1e2}', "true", '"infinity"')
    ]


@pytest.mark.both_servers
async def test_columns_of_domains(service: Connection) -> None:
    """They come as their base type, where PostgreSQL tells (16); else what to do is said."""
    query = "select table_name, 1::information_schema.cardinal_number from information_schema.tables where false"
    if service.get_server_version().major < 16:
        assert "cast it to text" in (await _refused(service, query)).message
        return
    async with ask(service, query, timeout_s=20) as answer:
        assert answer.columns == (Column("table_name", "name"), Column("cardinal_number", "integer"))
    query = "select 'a'::information_schema.sql_identifier, 1::information_schema.cardinal_number, 2"
    assert await _ask(service, query) == [("a", 1, 2)]
    assert await _ask(service, query, cells="json") == [('"a"', "1", "2")]


async def test_rows_are_bounded(service: Connection) -> None:
    """Of more rows than are wanted the first are given, and that there are more is told; nothing else is fetched."""
    for rows, most, cut in ((10, 10, False), (11, 10, True), (10**9, 5000, True), (10, 0, True), (0, 0, False)):
        async with ask(service, f"select generate_series(1, {rows})", timeout_s=20, most=most) as answer:
            found = [row[0] async for batch in answer.batches() for row in batch]
        assert (found, answer.is_cut) == (list(range(1, min(rows, most) + 1)), cut)


async def test_batches_are_small_where_rows_are_large(service: Connection) -> None:
    """However large rows are, about two million characters of them are held at once."""
    async with ask(service, "select repeat('x', 300000) from generate_series(1, 100)", timeout_s=60) as answer:
        sizes = [len(batch) async for batch in answer.batches()]
    assert sum(sizes) == 100
    assert max(sizes[1:]) <= 6


async def test_leaving_early_ends_it(service: Connection) -> None:
    """Whoever has seen enough goes, and the next query on the connection is a new one."""
    async with ask(service, "select generate_series(1, 1000000)", timeout_s=20) as answer:
        async for _ in answer.batches():
            break
    assert await _ask(service, "select 1") == [(1,)]


async def test_from_a_pool_and_as_the_reader(asked_url: str, service: Connection) -> None:
    """A pool lends a connection; whoever is only a reader may ask in the same way."""
    pool = await connect_pool(asked_url, role="worldledger_reader", max_size=1)
    assert await _ask(pool, "select count(*) from effects") == [(9,)]
    assert await _ask(pool, "select current_user::text") == [("worldledger_guest",)]
    await pool.close()
    assert await _ask(service, "select current_user::text") == [("worldledger_guest",)]


# -- parameters --------------------------------------------------------------------------------------------


async def test_parameters(service: Connection) -> None:
    """By name or by number, as often as wanted, of the types that the query wants; what only looks like one is none."""
    query = "select :n::int + :n, ':n', \"a:n\", 'x'::text, (array[1, 2, 3])[1:2] -- :n\n from (select 1 as \"a:n\") q"
    assert await _ask(service, query, {"n": "20"}) == [(40, ":n", 1, "x", [1, 2])]
    assert await _ask(
        service, "select global_seq from effects where world_id = $1 and global_seq = $2", ["w", "3"]
    ) == [(3,)]
    query = "select :a::text[], :b::json ->> 'k', :c::text, $$:a$$, /* /* */ :a */ :d::timestamptz::text, :e::float8"
    values = {"a": ["x", None, 'q"\\'], "b": {"k": "v'"}, "c": "it's \\ '' :a", "d": "2026-01-01", "e": float("inf")}
    assert await _ask(service, query, values) == [
        (["x", None, 'q"\\'], "v'", "it's \\ '' :a", ":a", "2026-01-01 00:00:00+00", float("inf"))
    ]
    assert await _ask(service, "select :x", {"x": None}) == [(None,)]
    assert await _ask(service, "select 1 limit :most", {"most": 1}) == [(1,)]


async def test_parameters_that_are_wrong(service: Connection) -> None:
    """A value that does not fit is told by its parameter; one too many or too few before anything is sent."""
    error = await _refused(service, "select *\nfrom effects where global_seq = :n", {"n": "three"})
    assert str(error) == 'the parameter n: invalid input syntax for type bigint: "three"'
    assert (error.details["line"], error.details["column"]) == (2, 33)
    assert str(await _refused(service, "select 1", {"n": 1})) == "the query has no parameter :n"
    assert str(await _refused(service, "select $1, $2", ["a"])) == "the parameter $2 has no value"
    error = await _refused(service, "select :n + 1", {})
    assert error.details["hint"] == "a parameter needs a value: --param NAME=VALUE, or params over HTTP"
    assert "NUL" in str(await _refused(service, "select :n", {"n": "a\0"}))
    assert "which is no value of SQL" in str(await _refused(service, "select :n", {"n": object()}))


async def test_a_parameter_is_never_sql(service: Connection) -> None:
    """Whatever a value is, it is a value."""
    for value in ("'; drop table effects; --", "\\'; select 1", "$$", "') or true --", "E'\\x27'"):
        assert await _ask(service, "select :v", {"v": value}) == [(value,)]


# -- what is refused ---------------------------------------------------------------------------------------

ESCAPES = {
    "a change of role": "select set_config('role', 'none', true)",
    "a change of role for the session": "select set_config('role', 'worldledger_service', false)",
    "a change of user": "select set_config('session_authorization', 'default', false)",
    "a change of role in a query in a query": (
        "select query_to_xml('select set_config(''role'', ''none'', true)', true, true, '')::text"
    ),
    "writing in the transaction": "select set_config('transaction_read_only', 'off', true)",
    "passing triggers by": "select set_config('session_replication_role', 'replica', true)",
    "the log": "select * from public.effects",
    "the log in a query in a query": "select query_to_xml('select * from public.effects', true, true, '')::text",
    "the log by its name": "select table_to_xml('public.effects', true, true, '')::text",
    "projections": "select * from projections.games",
    "the write-ahead log": "select pg_logical_emit_message(false, 'a', 'x')",
    "the write-ahead log in a query in a query": (
        "select query_to_xml('select pg_logical_emit_message(true, ''a'', ''x''::bytea)', true, true, '')::text"
    ),
    "a file": "select pg_read_file('/etc/passwd')",
    "a folder": "select pg_ls_dir('/')",
    "a file as a large object": "select lo_import('/etc/passwd')",
    "passwords": "select * from pg_authid",
    "writing by a CTE": "with gone as (delete from effects returning world_id) select * from gone",
    "writing and reading": "insert into worlds (world_id) values ('x') returning world_id",
    "locking rows": "select * from worlds for update",
    "code": "do $$ begin perform 1; end $$",
    "two at once": "select 1; select 2",
    "a transaction": "commit",
    "another role": "set role none",
    "a program": "copy (select 1) to program 'true'",
    "a copy": "copy worlds to stdout",
    "a table": "create temp table mine (x int)",
    "a table made of a query": "create temp table mine as select 1",
    "a lock of a table": "lock table worlds",
    "a listener": "listen news",
    "a prepared statement": "execute mine",
    "a cursor": "declare mine cursor for select 1",
    "its own cursor": "fetch all from worldledger_query",
    "a query in its query": "select analytics.open_query('select 1')::text",
    "its own end": "select pg_terminate_backend(pg_backend_pid())::text",
    "no columns": "select from worlds",
    "nothing": " -- nothing",
    "a syntax error": "select from where",
    "a view that is not there": "select * from analytics.nothing",
    "no value": "select pg_sleep(0)",
    "a division by zero": "select 1 / 0",
    "a bad cast": "select 'x'::int",
}


@pytest.mark.both_servers
async def test_what_is_no_question_is_refused(service: Connection, asked_url: str) -> None:
    """It says why, the connection is as it was, and nothing was written; nor are large objects (PostgreSQL 15)."""
    said: dict[str, str] = {}
    for what, query in ESCAPES.items():
        try:
            await _ask(service, query)
        except QueryRefusedError as error:
            said[what] = error.message
        assert await service.fetchval("select current_user") == "worldledger_service"
    assert said.keys() == ESCAPES.keys()
    assert all(message and not message.endswith("\n") for message in said.values())
    with suppress(QueryRefusedError):
        await _ask(service, "select lo_create(0)::text")
    async with connected(asked_url) as admin:
        assert await admin.fetchval("select count(*) from pg_largeobject_metadata") == 0
        assert await admin.fetchval("select count(*) from effects") == 9
        assert await admin.fetchval("select verified from verification")


async def test_messages_help(service: Connection) -> None:
    """Where it goes wrong is told; what was meant is named; only questions can be asked."""
    error = await _refused(service, "select *\nfrom effects\nwhere knd = 'x'")
    assert error.message == 'column "knd" does not exist'
    assert (error.details["line"], error.details["column"], error.details["position"]) == (3, 7, 29)
    assert error.details["hint"] == 'Perhaps you meant to reference the column "effects.kind".'
    error = await _refused(service, "select * from public.effects")
    assert error.message == "permission denied for table effects"
    assert error.details["hint"] == "ask analytics.effects instead"
    error = await _refused(service, "select * from heads")
    assert error.details["hint"].endswith("`worldledger sql --tables` lists the views that can be asked")
    error = await _refused(service, "select * from efects")
    assert error.details["hint"].startswith("did you mean effects")
    assert "`worldledger sql --tables`" in error.details["hint"]
    error = await _refused(service, "select * from zzzzzz")
    assert error.details["hint"] == "`worldledger sql --tables` lists the views that can be asked"
    error = await _refused(service, "select * from games")
    assert error.details["hint"] == (
        "analytics.games is there once somebody feeds the projections: run `worldledger project`"
    )
    for view in ("state_variables_by_turn", "state_variables"):
        error = await _refused(service, f"select * from {view}")
        assert error.details["hint"].startswith(f"analytics.{view} is there once somebody feeds the projections")
    empty = ("select from worlds", "select", " (select from worlds)", "with a as (select 1) select from a")
    for query in (*empty, "/* x */ select", "-- c\nselect from worlds"):
        assert (await _refused(service, query)).message.startswith("the query gives no columns")
    assert "only questions can be asked" in (await _refused(service, "select 1; select 2")).message
    assert "only questions can be asked" in (await _refused(service, "drop view effects")).message
    assert (await _refused(service, ESCAPES["writing and reading"])).message == "a query may read, and changes nothing"
    assert "cast it to text" in (await _refused(service, "select pg_sleep(0)")).message
    assert "at most 1,000,000" in (await _refused(service, "select '" + "x" * 1_000_000 + "'")).message


async def test_locks_do_not_outlive_it(service: Connection, asked_url: str) -> None:
    """An advisory lock, the migrations' even, is let go with the query; so are settings."""
    query = "select pg_advisory_lock(512919627634)::text, set_config('work_mem', '64kB', false)"
    assert "permission denied" in (await _refused(service, query)).message
    async with connected(asked_url) as admin:  # where no superuser has upgraded the database
        await admin.execute("grant execute on function pg_advisory_lock(bigint) to public")
    assert await _ask(service, query) == [("", "64kB")]
    assert await service.fetchval("show work_mem") != "64kB"
    async with connected(asked_url) as other:
        assert await other.fetchval("select pg_try_advisory_lock(512919627634)")
        await other.execute("revoke execute on function pg_advisory_lock(bigint) from public")


async def test_no_query_runs_for_ever(service: Connection) -> None:
    """It is stopped when its time is over, says so, and the connection goes on."""
    for query in (
        "select pg_sleep(1000)::text",
        "select count(*) from generate_series(1, 100000000000) g",
        "select set_config('statement_timeout', '0', true), pg_sleep(1000)::text",
        "with recursive r as (select 1 as n union all select n + 1 from r) select max(n) from r",
    ):
        with pytest.raises(QueryTimeoutError, match=r"stopped after 0.2 s"):
            await _ask(service, query, timeout_s=0.2)
        assert await _ask(service, "select 1") == [(1,)]


async def test_time_is_of_all_batches(service: Connection) -> None:
    """A query that takes its time row by row does not get its time anew with every batch."""
    query = "select set_config('statement_timeout', '0', true), pg_sleep(0.002)::text from generate_series(1, 1000000)"
    with pytest.raises(QueryTimeoutError):
        await _ask(service, query, timeout_s=0.5)


async def test_disk_space_is_bounded(asked_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the user of the address may say so, a query that would fill the disk is refused."""
    monkeypatch.setattr(asking, "_BOUND_FILES", asking._BOUND_FILES.replace("4GB", "1MB"))
    connection = await connect_one(asked_url, role="worldledger_service")
    error = await _refused(connection, "select count(*) from (select * from generate_series(1, 10000000)) g")
    assert "more temporary space" in error.message
    await connection.close()


async def test_silence_ends_it(asked_url: str) -> None:
    """Whoever does not take the rows for long gives the connection up."""
    connection = await connect_one(asked_url, role="worldledger_service")
    async with ask(connection, "select generate_series(1, 1000000)", timeout_s=20, idle_s=0.05) as answer:
        batches = answer.batches()
        await anext(batches)
        async with connected(asked_url) as admin:
            while await admin.fetchval(
                "select count(*) from pg_stat_activity where application_name = 'worldledger'"
                " and datname = current_database()"
            ):
                pass
        with pytest.raises(Exception, match=r"nobody took the rows|lost"):
            await anext(batches)
    assert connection.is_closed()


async def test_a_database_without_the_schema(empty_database_url: str) -> None:
    """The error says what to run."""
    async with connected(empty_database_url) as connection:
        with pytest.raises(SchemaVersionError, match="worldledger db upgrade"):
            await _ask(connection, "select 1")


async def test_a_query_in_a_transaction_that_writes_is_refused(service: Connection) -> None:
    """The functions that run queries do so in read-only transactions alone, whoever calls them."""
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        await service.execute("select analytics.open_query('select 1')")


async def test_a_seed_does_not_outlive_its_question(service: Connection) -> None:
    """Random numbers of one question do not follow from what another has set, by the function or by the setting."""
    for seeding in ("select setseed(0.5)::text", "select set_config('seed', '0.5', false)"):
        numbers = set()
        for _ in range(2):
            await _ask(service, seeding)
            numbers.add((await _ask(service, "select random()"))[0])
        assert len(numbers) == 2
