"""`worldledger db check` names everything that is not as the migrations made it."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from worldledger_projections.registry import known
from worldledger_projections.tables import Table
from worldledger_service.cli.connect import make_views
from worldledger_service.database import schema
from worldledger_service.database.catalogue import compare, expected
from worldledger_service.database.mending import by_hand, statements, tables
from worldledger_service.database.view_checks import foreign, planted, strangers, view_findings
from worldledger_service.projecting.builds import set_views
from worldledger_service.settings import Settings

from .helpers import WORLD_UUID, Row, connected, insert_effect, link, make_effect, undone, write_world

#: What somebody did to a database, and how one of the findings begins.
TAMPERINGS = {
    "a trigger is dropped": (
        "drop trigger effects_append_only on effects",
        "trigger effects_append_only on effects: missing",
    ),
    "a trigger is disabled": (
        "alter table effects disable trigger effects_append_only",
        "trigger effects_append_only on effects: but is: CREATE TRIGGER",
    ),
    "a trigger may be passed by": (
        "alter table heads enable trigger heads_no_delete",
        "trigger heads_no_delete on heads: but is",
    ),
    "a trigger function does nothing": (
        """
        create or replace function refuse_change() returns trigger language plpgsql
        as $$ begin return coalesce(new, old); end $$
        """,
        "function refuse_change(): but is",
    ),
    "a privilege is granted": (
        "grant update on effects to worldledger_service",
        "privilege on relation effects: unexpected: worldledger_service may UPDATE",
    ),
    "a privilege on a column is granted": (
        "grant update (kind) on effects to worldledger_service",
        "privilege on column effects.kind: unexpected: worldledger_service may UPDATE",
    ),
    "everybody may read": (
        "grant select on effects to public",
        "privilege on relation effects: unexpected: everybody may SELECT",
    ),
    "everybody may create": (
        "grant create on schema public to public",
        "privilege on schema public: unexpected: everybody may CREATE",
    ),
    "a privilege is revoked": (
        "revoke insert on effects from worldledger_service",
        "privilege on relation effects: missing: worldledger_service may INSERT",
    ),
    "a column is added": ("alter table effects add extra int", "column effects.extra: unexpected: integer"),
    "a column's type is changed": (
        "alter table held_intents alter tick type numeric",
        "column held_intents.tick: but is: numeric not null",
    ),
    "a column may be null": ("alter table effects alter kind drop not null", "column effects.kind: but is: text"),
    "a default is gone": ("alter table effects alter recorded_at drop default", "column effects.recorded_at: but is"),
    "an index is dropped": (
        "drop index effects_world_id_kind_global_seq_idx",
        "index effects_world_id_kind_global_seq_idx: missing",
    ),
    "an index is added": ("create index more on effects (kind)", "index more: unexpected"),
    "a check is dropped": (
        "alter table requests drop constraint requests_seqs_check",
        "constraint requests_seqs_check on requests: missing",
    ),
    "a rule swallows inserts": (
        "create rule swallow as on insert to effects do instead nothing",
        "rule swallow on effects: unexpected",
    ),
    "a table is not durable": ("alter table effects set unlogged", "relation effects: but is"),
    "rows are hidden": ("alter table effects enable row level security", "relation effects: but is"),
    "a policy is there": ("create policy p on effects for select using (false)", "policy p on effects: unexpected"),
    "a child table hides rows": (
        "create table child () inherits (effects)",
        "inheritance: unexpected: child from effects",
    ),
    "a view lies": (
        """
        create or replace view effect_verification as
        select world_id, global_seq, global_seq as expected_seq, null::text collate "C" as problem from effects
        """,
        "view effect_verification: but is",
    ),
    "the owner is another": (
        "alter table effects owner to pg_database_owner",
        "relation effects: but is: table, owner pg_database_owner",
    ),
    "a foreign table is there": ("create table theirs (x int)", "relation theirs: unexpected"),
    "a foreign function is there": (
        "create function f() returns int language sql as 'select 1'",
        "function f(): unexpected",
    ),
    "the schema of projections is gone": ("drop schema projections", "schema projections: missing"),
    "the schema of projections is another's": (
        "alter schema projections owner to worldledger_owner",
        "schema projections: but is: owner worldledger_owner",
    ),
    "others may make projections": (
        "grant create on schema projections to public",
        "privilege on schema projections: unexpected: everybody may CREATE",
    ),
    "the schema of analytics is gone": ("drop schema analytics cascade", "schema analytics: missing"),
    "the schema of analytics is another's": (
        "alter schema analytics owner to worldledger_owner",
        "schema analytics: but is: owner worldledger_owner",
    ),
    "the reader may look further": (
        "grant select on effects to worldledger_reader",
        "privilege on relation effects: unexpected: worldledger_reader may SELECT",
    ),
    "the reader may find projections": (
        "grant usage on schema projections to worldledger_reader",
        "privilege on schema projections: unexpected: worldledger_reader may USAGE",
    ),
    "the reader may not find analytics": (
        "revoke usage on schema analytics from worldledger_reader",
        "privilege on schema analytics: missing: worldledger_reader may USAGE",
    ),
    "the reader will not read projections": (
        """
        alter default privileges for role worldledger_service in schema analytics
        revoke select on tables from worldledger_reader
        """,
        "default privileges of worldledger_service in schema analytics on relations: missing",
    ),
    "everybody will read projections": (
        "alter default privileges for role worldledger_service in schema projections grant select on tables to public",
        "default privileges of worldledger_service in schema projections on relations: unexpected",
    ),
    "a view of analytics lies": (
        """
        drop view analytics.observers;
        create view analytics.observers as select 'w'::text collate "C" as world_id
        """,
        "view analytics.observers: but is",
    ),
    "a view of analytics has no comment": (
        "comment on column analytics.intent_rejected.code is null",
        "comment on view column analytics.intent_rejected.code: missing",
    ),
    "a query is not run by the guest": (
        "alter function analytics.open_query(text) security invoker",
        "function analytics.open_query(text): but is",
    ),
    "everybody may ask": (
        "grant execute on function analytics.open_query(text) to public",
        "privilege on function analytics.open_query(text): unexpected: everybody may EXECUTE",
    ),
    "a comment is gone": ("comment on column effects.kind is null", "comment on table column effects.kind: missing"),
}


#: What is tried after the rest, for it would hide that, or be told in the same line of the catalogue.
LATER = (
    {
        "a trigger is dropped",
        "a table is not durable",
        "the schema of projections is gone",
        "the schema of analytics is gone",
    },
    {"rows are hidden"},
)


async def test_check_notices(database_url: str) -> None:
    """A change to the schema is a finding, beside others as well as alone."""
    first = TAMPERINGS.keys() - set[str]().union(*LATER)
    async with connected(database_url) as connection:
        for names in (first, *LATER):
            tried = {name: told for name, told in TAMPERINGS.items() if name in names}
            async with undone(connection):
                for statement, _ in tried.values():
                    await connection.execute(statement)
                findings = compare(await schema.catalogue(connection), expected())
            for name, (_, beginning) in tried.items():
                others = [other for other, (_, told) in tried.items() if told.startswith(beginning)]
                assert others == [name]  # none is found in another's place
                assert any(finding.startswith(beginning) for finding in findings), (name, findings)
        assert compare(await schema.catalogue(connection), expected()) == []
        statement, beginning = TAMPERINGS["a comment is gone"]
        await connection.execute(statement)
    assert any(finding.startswith(beginning) for finding in await schema.check(database_url))


async def test_check_names_rows_that_no_program_writes(database_url: str) -> None:
    """Values out of range are findings beside those of the schema, whatever else is in the row; they say what to do."""
    async with connected(database_url) as connection:
        await connection.execute(
            r"""
            insert into open_ticks values (E'w\n1', 9223372036854775807, 0, 'NaN', null);
            insert into projection_leases values ('build:x_1', null, -1, 0);
            insert into projection_builds (build, projection, version, status) values ('', 'games', 2, 'live');
            create table other (n int)
            """
        )
    found = [line for line in await schema.check(database_url) if line.startswith(("row ", "relation "))]
    odd, tick = "which no program writes: delete it", r"row of open_ticks with world_id 'w\n1'"
    anew = "`worldledger projections rebuild` makes it anew"
    assert found == [
        "relation other: unexpected: table, owner postgres, permanent, options {}, row security f, replica identity d",
        rf"{tick}: world_id is w\n1, {odd}, and it is made again from the log",
        f"{tick}: tick is 9223372036854775807, {odd}, and it is made again from the log",
        f"{tick}: sim_time is NaN, {odd}, and it is made again from the log",
        f"row of projection_builds with build '': build is , which no program writes: {anew}",
        f"row of projection_leases with name 'build:x_1': token is -1, {odd} while no process feeds the projections",
    ]
    assert by_hand(found)[found[1]] == ""


async def test_check_notices_rows_that_may_be_null(database_url: str) -> None:
    """A NOT NULL that was made again without a look at the rows is named, where PostgreSQL knows such (from 18 on)."""
    async with connected(database_url) as connection, undone(connection):
        if await connection.fetchval("select current_setting('server_version_num')::int") < 180000:
            pytest.skip("this server looks at all rows")
        await connection.execute("alter table effects alter kind drop not null")
        await connection.execute("alter table effects add constraint k not null kind not valid")
        findings = compare(await schema.catalogue(connection), expected())
    assert findings == ["constraint k on effects: unexpected: NOT NULL kind NOT VALID not valid"]


async def test_rows_that_break_what_was_lost(database_url: str) -> None:
    """Where rows keep an upgrade from making a NOT NULL or a key again, the check says so until they are mended."""
    async with connected(database_url) as connection:
        for n in (1, 2):
            await connection.execute(
                "insert into held_intents (world_id, agent_id, req_id, tick, place, counted, intent, body_sha256, "
                "context_seq, list_atomic, list_ordered, bytes) "
                "values ('w', 'a', $1, 1, 1, true, '{}', sha256('x'), 1, false, false, 2)",
                f"r{n}",
            )
        await write_world(connection, "w", 3)
        await connection.execute(
            """
            alter table effects disable trigger all;
            alter table effects alter kind drop not null;
            alter table held_intents drop constraint held_intents_pkey;
            """
        )
    assert not [line for line in await schema.check(database_url) if line.startswith("row ")]
    async with connected(database_url) as connection:
        await connection.execute("update effects set kind = null; update held_intents set req_id = 'r1'")
    found = [line for line in await schema.check(database_url) if line.startswith("row ")]
    mend = "mend it before `worldledger db upgrade`"
    assert found == [
        f"row of effects: kind is NULL: {mend}, and `worldledger verify --all` names its world",
        f"row of held_intents: world_id, agent_id, req_id are those of another row: {mend}",
    ]
    assert set(by_hand(found).values()) == {""}
    assert len(await schema.upgrade(database_url)) == 2
    assert [line for line in await schema.check(database_url) if line.startswith("row ")] == found
    async with connected(database_url) as connection:
        await connection.execute("alter table effects disable trigger all")
        await connection.execute("update effects set kind = 'WorldCreated'; delete from held_intents")
    assert await schema.upgrade(database_url) == []
    assert not [line for line in await schema.check(database_url) if line.startswith(("row ", "column "))]


async def test_check_reads_the_catalogue_of_postgresql(database_url: str) -> None:
    """A view beside the tables that is named like a part of PostgreSQL's catalogue hides nothing."""
    async with connected(database_url) as connection, undone(connection):
        await connection.execute(
            """
            alter table effects disable trigger effects_append_only;
            create view pg_trigger as
            select oid, tgrelid, tgname, tgisinternal, 'A'::"char" as tgenabled from pg_catalog.pg_trigger
            """
        )
        findings = compare(await schema.catalogue(connection), expected())
    assert any(finding.startswith("trigger effects_append_only on effects: but is") for finding in findings), findings


async def test_check_ignores_extensions(database_url: str) -> None:
    """What belongs to an extension is not ours to judge; other schemas are not looked at."""
    async with connected(database_url) as connection:
        if not await connection.fetchval("select count(*) from pg_available_extensions where name = 'pg_trgm'"):
            pytest.skip("this server has no pg_trgm")
        await connection.execute("create extension pg_trgm; create schema other; create table other.t (x int)")
    assert await _check(database_url) == []


#: What somebody who works as the service's role did to a view over a projection, and how the finding begins.
HIDDEN = {
    "a view leaves a world out": (
        "create or replace view analytics.games as select * from ({games}) as g where world_id <> 'w'",
        "view analytics.games: is not the view that this program makes",
    ),
    "so does the one below it": (
        "create or replace view projections.games as select * from ({own}) as g where world_id <> 'w'",
        "view projections.games: is not the view that this program makes",
    ),
    "a view reads another table": (
        """
        create table projections.mine as select * from projections.games_1;
        create or replace view projections.games as select * from projections.mine
        """,
        "view projections.games: is not the view that this program makes",
    ),
    "a view is gone": ("drop view analytics.games", "view analytics.games: is missing"),
    "a table stands in its place": (
        "alter view analytics.games rename to was; create table analytics.games (world_id text)",
        "view analytics.games: is not the view that this program makes",
    ),
    "a view has options": (
        "alter view analytics.games set (security_invoker = true)",
        "view analytics.games: is not the view that this program makes",
    ),
    "rows are hidden": (
        "alter table projections.games_1 enable row level security",
        "view projections.games_1: is no table that keeps all of its rows",
    ),
    "rows are not kept": (
        """
        create trigger a before update on projections.games_1 for each row
        execute function suppress_redundant_updates_trigger()
        """,
        "view projections.games_1: is no table that keeps all of its rows",
    ),
    "the primary key is gone": (
        "alter table projections.games_1 drop constraint games_1_pkey",
        "view projections.games_1: the table is not as this program makes it: PRIMARY KEY (world_id) is missing",
    ),
    "rows of some worlds are refused": (
        "alter table projections.games_1 add check (world_id <> 'w')",
        "view projections.games_1: the table is not as this program makes it: CHECK ((world_id <> 'w'::text)) is unexp",
    ),
    "so are those of the same ply": (
        "create unique index on projections.games_1 (plies)",
        "view projections.games_1: the table is not as this program makes it: unique index USING btree (plies) is ",
    ),
    "a column may be null": (
        "alter table projections.games_1 alter plies drop not null",
        "view projections.games_1: the table is not as this program makes it: column plies bigint not null is missing",
    ),
    "a view of nobody's": ("create view analytics.more as select 1 as one", "view analytics.more: unexpected"),
    "the build says that it is another version's": (
        "update projection_builds set version = 99",
        "view analytics.games: cannot be compared: the live build has version 99",
    ),
    "there is no build": (
        "delete from projection_builds",
        "view analytics.games: cannot be compared: no build is live",
    ),
}
#: Privileges that are not the program's, and what makes them right.
_PRIVILEGES = """
revoke select on analytics.games from worldledger_reader;
grant insert on projections.games to public;
grant select (world_id) on projections.games_1 to worldledger_owner;
revoke delete on projections.games_1 from worldledger_service
"""
_NO_PRIVILEGES = """
revoke insert on projections.games from public;
revoke select (world_id) on projections.games_1 from worldledger_owner;
grant delete on projections.games_1 to worldledger_service
"""


@pytest.mark.both_servers
async def test_check_knows_the_views_over_builds(database_url: str) -> None:
    """What the engine makes of a build is no finding, whoever may use its schema; what is otherwise is one."""
    games = known()["games"]
    table = Table(games, "games_1")
    async with connected(database_url, role="worldledger_service") as connection:
        async with connection.transaction():
            await connection.execute(
                "insert into projection_builds (build, projection, version, status)"
                " values ('games_1', 'games', $1, 'live')",
                games.version,
            )
            for statement in table.creation():
                await connection.execute(statement)
            await set_views(cast("Any", connection), table, known().values(), [])
            await connection.execute(
                """
                create index on projections.games_1 (world_id);
                grant usage on schema projections to public;
                """
            )
        assert await _check(database_url) == []
        texts = {
            name: (await connection.fetchval("select pg_get_viewdef($1::text::regclass)", place)).rstrip("; ")
            for name, place in (("games", "analytics.games"), ("own", "projections.games"))
        }
        for name, (done, beginning) in HIDDEN.items():
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute(done.format(**texts))
            await connection.execute("set local search_path = public")
            found = [
                f"view {_plain(each.place)}: {each.what}" for each in await view_findings(connection, known().values())
            ]
            found += [f"view {_plain(place)}: unexpected" for place in await strangers(connection, known().values())]
            await transaction.rollback()
            assert any(finding.startswith(beginning) for finding in found), (name, found)
        await connection.execute(_PRIVILEGES)
    findings = await _check(database_url)
    assert findings == [
        "privilege on column projections.games_1.world_id: unexpected: worldledger_owner may SELECT",
        "privilege on relation analytics.games: missing: worldledger_reader may SELECT",
        "privilege on relation projections.games: unexpected: everybody may INSERT",
        "privilege on relation projections.games_1: missing: worldledger_service may DELETE",
    ]
    await schema.upgrade(database_url)
    assert await _check(database_url) == [line for line in findings if ": missing: " not in line]
    async with connected(database_url, role="worldledger_service") as connection:
        await connection.execute(_NO_PRIVILEGES)
        await connection.execute(HIDDEN["a view leaves a world out"][0].format(**texts))
    mended = "`worldledger projections rebuild games` makes it anew"
    assert await _check(database_url) == [f"{HIDDEN['a view leaves a world out'][1]}; {mended}"]


@pytest.mark.both_servers
async def test_what_a_dump_restores_is_no_finding(database_url: str) -> None:
    """A dump has views as PostgreSQL prints them; a database that was restored from it is as it should be."""
    await make_views(database_url, Settings())
    async with connected(database_url) as connection:
        views = await connection.fetch(
            "select c.oid::regclass::text as name, pg_get_viewdef(c.oid) as definition from pg_class c"
            " where relkind = 'v' and relnamespace in"
            " ('public'::regnamespace, 'analytics'::regnamespace, 'projections'::regnamespace)"
        )
        assert len(views) > 50
        for view in views:
            await connection.execute(f"create or replace view {view['name']} as {view['definition']}")
    assert await _check(database_url) == []


async def test_check_knows_whose_projections_are(database_url: str) -> None:
    """A table or view in schema projections that another role owns is a finding, whatever it was granted in return."""
    await make_views(database_url, Settings())
    done = "".join(
        f"alter table {place} owner to pg_database_owner; grant all on {place} to worldledger_service;"
        for place in ("projections.world_summaries_1", "projections.turns")
    )
    async with connected(database_url) as connection:
        await connection.execute(f'{done} create table projections."a b" (id serial)')
    found = await _check(database_url)
    assert [line for line in found if ": but is: " in line] == [
        'owner of projections."a b": but is: postgres',
        "owner of projections.turns: but is: pg_database_owner",
        "owner of projections.world_summaries_1: but is: pg_database_owner",
    ]
    async with connected(database_url) as connection:
        for statement in statements(by_hand(found).values()):
            await connection.execute(statement)
    assert await _check(database_url) == []


#: What somebody who works as the service's role puts where views look for functions, and how `db check` names it.
PLANTS = {
    "an aggregate": (
        """
        create function projections.lf(bigint, bigint, int, bigint) returns bigint language sql as 'select 0::bigint';
        create aggregate projections.lead(bigint, int, bigint) (sfunc = projections.lf, stype = bigint, initcond = '0')
        """,
        ["aggregate projections.lead(bigint,integer,bigint)", "function projections.lf(bigint,bigint,integer,bigint)"],
    ),
    "a function of analytics": (
        "create function analytics.json_bigint(text) returns bigint language sql as 'select 0::bigint'",
        ["function analytics.json_bigint(text)"],
    ),
    "an operator": (
        """
        create function analytics.same(text, bigint) returns boolean language sql as 'select false';
        create operator analytics.= (function = analytics.same, leftarg = text, rightarg = bigint)
        """,
        ["function analytics.same(text,bigint)", "operator analytics.=(text,bigint)"],
    ),
    "a type": ("create domain projections.text as pg_catalog.text", ["type projections.text"]),
}


@pytest.mark.both_servers
async def test_check_knows_what_views_may_call(database_url: str) -> None:
    """A function, operator or type that the service's role has put beside the views is a finding."""
    async with connected(database_url) as connection:
        await connection.execute("set role worldledger_service; set search_path = public")
        assert await planted(connection) == []
        for name, (done, found) in PLANTS.items():
            async with undone(connection):
                await connection.execute(done)
                assert await planted(connection) == found, name
        await connection.execute(PLANTS["a type"][0])
    assert await _check(database_url) == ["type projections.text: unexpected: views may call it"]


_INSTEAD = "statements may read it instead of the program's; nothing else can be compared before it is gone"
#: What a superuser has put beside PostgreSQL's own, the finding, and the SQL by which it goes.
FOREIGN = {
    "a function": (
        "create function pg_catalog.lower(json) returns text language sql as 'select null::text'",
        "function pg_catalog.lower(json): unexpected: statements may call it",
        "drop routine pg_catalog.lower(json);",
    ),
    "an operator": (
        "create operator pg_catalog.= (function = lab.same, leftarg = json, rightarg = text)",
        "operator pg_catalog.=(json,text): unexpected: statements may call it",
        "drop operator pg_catalog.=(json,text);",
    ),
    "an operator in public": (
        "create operator public.= (function = lab.same, leftarg = json, rightarg = text)",
        "operator public.=(json,text): unexpected: statements may call it",
        "drop operator public.=(json,text);",
    ),
    "a type": (
        "create domain pg_catalog.bigtext as text",
        "type pg_catalog.bigtext: unexpected: statements may name it",
        "drop type pg_catalog.bigtext;",
    ),
    "a cast": (
        "create cast (json as text) with function lab.told(json)",
        "cast (json as text): unexpected: statements may call it",
        "drop cast (json as text);",
    ),
    "an event trigger": (
        "create event trigger watch on ddl_command_end execute function lab.watch()",
        "event trigger watch: unexpected: it runs lab.watch() at ddl_command_end",
        "drop event trigger watch;",
    ),
    "a relation": (
        "set local allow_system_table_mods = on; create view pg_catalog.worlds as select 1 as x",
        f"relation pg_catalog.worlds: unexpected: view, {_INSTEAD}",
        "drop view pg_catalog.worlds;",
    ),
}


@pytest.mark.both_servers
async def test_check_knows_what_stands_beside_postgresql_s_own(database_url: str) -> None:
    """What a superuser has put where statements look names up first, or to run beside them, is told with its SQL."""
    async with connected(database_url) as connection:
        await connection.execute(
            """
            create schema lab;
            create function lab.same(json, text) returns boolean language sql as 'select true';
            create function lab.told(json) returns text language sql as 'select null::text';
            create function lab.watch() returns event_trigger language plpgsql as 'begin end';
            create type lab.own as (x int);
            create function lab.own(lab.own) returns text language sql as 'select null::text';
            create cast (lab.own as text) with function lab.own(lab.own);
            create event trigger off on ddl_command_end execute function lab.watch(); alter event trigger off disable
            """
        )
        assert await foreign(connection) == []
        for name, (done, found, mended) in FOREIGN.items():
            async with undone(connection):
                await connection.execute(done)
                assert await foreign(connection) == [found], name
                assert statements(by_hand([found]).values()) == [mended], name
                await connection.execute(mended)
                assert await foreign(connection) == [], name
        await connection.execute("create cast (json as text) with function lab.told(json)")
        assert await _check(database_url) == [FOREIGN["a cast"][1]]
        # The program's own tables look foreign then, and are not to be dropped.
        async with connection.transaction():
            await connection.execute(FOREIGN["a relation"][0])
        assert await schema.check(database_url) == [FOREIGN["a relation"][1]]


async def test_advice_can_be_copied(database_url: str) -> None:
    """The SQL that is advised has no character that a terminal would show as another, and does what it says."""
    odd = "a\n\t'\\\u200b\U000e0001b"
    async with connected(database_url) as connection:
        view, table, function, trigger = ('"' + n + odd.replace("'", '""') + '"' for n in "vtfr")
        await connection.execute("insert into prefixes values ($1), ('a\n')", odd)
        await connection.execute(
            f"""
            create view analytics.{view} as select 1 as one; alter view analytics.{view} owner to worldledger_service;
            create view analytics."Capital" as select 1 as one;
            alter view analytics."Capital" owner to worldledger_service;
            create table {table} (one int);
            create function {function}() returns int language sql as 'select 1';
            create domain "My Type" as int;
            create constraint trigger {trigger} after insert on worlds
            for each row execute function suppress_redundant_updates_trigger()
            """
        )
    found = await _check(database_url)
    advised = statements(by_hand(found).values())
    assert all(sql.isprintable() for sql in advised), advised
    assert r"delete from public.prefixes where world_id = E'a\u000a\u0009''\\\u200b\U000e0001b';" in advised
    async with connected(database_url) as connection:
        for statement in advised:
            await connection.execute(statement)
    assert await _check(database_url) == []


async def test_a_setting_of_the_owner_is_reset(database_url: str) -> None:
    """An owner's role that was made read-only is a finding, and the SQL for it makes it right."""
    async with connected(database_url) as connection, undone(connection):
        await connection.execute("alter role worldledger_owner set default_transaction_read_only = on")
        found = compare(await schema.catalogue(connection), expected())
        assert found == ["setting of role worldledger_owner: unexpected: default_transaction_read_only=on"]
        advised = statements(by_hand(found).values())
        assert advised == ["alter role worldledger_owner reset default_transaction_read_only;"]
        await connection.execute(advised[0])
        assert compare(await schema.catalogue(connection), expected()) == []


async def test_check_compares_marks_of_beginnings_with_forks(database_url: str) -> None:
    """A mark in the table prefixes is a finding where no fork goes on from the world's last effect."""
    async with connected(database_url) as connection:
        rows = await write_world(connection, "w")
        await connection.execute("insert into prefixes values ('w'), ('o''clock')")
        none, wrong = await _check(database_url)
        assert none.startswith("mark 'o''clock': by the table prefixes")
        assert none.endswith(" here, and there is no such world")
        assert wrong.startswith("mark 'w': ")
        assert "no fork here goes on from its last effect, seq 9" in wrong
        point = {"world_id": "w", "world_uuid": WORLD_UUID.hex, "global_seq": 9, "checksum": rows[-1].checksum.hex()}
        text = json.dumps(make_effect("f", 1, payload={"fork_of": point}), separators=(",", ":"), sort_keys=True)
        await insert_effect(connection, Row("f", 1, text, link(None, text), "WorldCreated", "worldledger", 2.25))
        assert await _check(database_url) == [none]
        await connection.execute("\n".join(statements(by_hand([none]).values())))
        assert await _check(database_url) == []


def _plain(place: str) -> str:
    return place.replace('"', "")


async def _check(url: str) -> list[str]:
    """Return the findings, but those of the server, and of the database that the template's copy is."""
    return [line for line in await schema.check(url) if not line.startswith(("setting ", "reader: "))]


async def test_check_without_tables(empty_database_url: str) -> None:
    """A database that was never migrated is one finding: what to run."""
    assert await schema.check(empty_database_url) == ["the database has no tables yet: run `worldledger db upgrade`"]


def test_compare() -> None:
    """A thing that is there on both sides, but otherwise, shows both; long definitions are cut."""
    wanted = ["index a: x", "index b: y", "privilege on t: r may SELECT"]
    found = ["index a: " + "z" * 400, "index c: y", "privilege on t: s may SELECT"]
    assert compare(found, wanted) == [
        "index a: should be: x",
        "index a: but is: " + "z" * 300 + "…",
        "index b: missing: y",
        "index c: unexpected: y",
        "privilege on t: missing: r may SELECT",
        "privilege on t: unexpected: s may SELECT",
    ]
    assert compare(expected(), expected()) == []


#: What `db upgrade` mends, and how `db check` names it: what may be done to one database, and then the rest.
MENDED = (
    {
        "drop view analytics.verification": "relation analytics.verification: missing",
        "drop view analytics.world_summaries": "view analytics.world_summaries: is missing",
        "drop function analytics.fetch_query": "function analytics.fetch_query",
        """
        create or replace function refuse_change() returns trigger language plpgsql
        as $$ begin return coalesce(new, old); end $$
        """: "function refuse_change(): but is",
        "alter table effects disable trigger effects_append_only": "trigger effects_append_only on effects: but is",
        "alter table heads enable trigger heads_no_delete": "trigger heads_no_delete on heads: but is",
        "revoke insert on effects from worldledger_service": (
            "privilege on relation effects: missing: worldledger_service may INSERT"
        ),
        "comment on view analytics.effects is 'x'": "comment on view analytics.effects: but is",
        "drop view analytics.game_started": "relation analytics.game_started: missing",
    },
    {
        "drop view verification cascade": "relation verification: missing",
        "drop view analytics.effects cascade; create view analytics.effects as select 1 as x": (
            "view analytics.effects: but is"
        ),
        "drop function chain_checksum cascade": "function chain_checksum",
        "drop type effect_fields cascade": "relation effect_fields: missing",
        "drop trigger effects_append_only on effects": "trigger effects_append_only on effects: missing",
        """
        drop view analytics.game_started; set role worldledger_owner;
        create view analytics.game_started as select 1 as x; reset role
        """: "view analytics.game_started: but is",
    },
)


async def test_upgrade_makes_again_what_it_can(database_url: str, thorough: bool) -> None:
    """What costs no row is made again by `db upgrade`, and `db check` names no other remedy for it."""
    await make_views(database_url, Settings())
    for done in MENDED if thorough else MENDED[:1]:
        async with connected(database_url) as connection:
            for statement in done:
                await connection.execute(statement)
        findings = await _findings(database_url)
        for beginning in done.values():
            assert any(finding.startswith(beginning) for finding in findings), (beginning, findings)
        assert by_hand(findings) == {}
        assert await schema.upgrade(database_url) == []
        await make_views(database_url, Settings())
        assert await _findings(database_url) == []


def _drops() -> dict[str, list[str]]:
    """Return the statements that drop what the catalogue has, by what it is: together, or one after the other."""
    drops: dict[str, list[str]] = {"tables": [], "parts": []}
    for line in expected():
        kind, _, name = line.partition(": ")[0].partition(" ")
        how = line.partition(": ")[2]
        part, _, table = name.partition(" on ")
        if kind == "constraint" and table != "alembic_version":
            drops["parts"].append(f"alter table {table} drop constraint if exists {part} cascade")
        elif kind == "trigger":
            drops["parts"].append(f"drop trigger if exists {part} on {table}")
        elif kind == "index" and not name.endswith(("_pkey", "_pkc")):
            drops["parts"].append(f"drop index if exists {name}")
        elif kind in {"function", "schema"}:
            drops["parts"].append(f"drop {kind} if exists {name} cascade")
        elif kind == "relation" and not how.startswith("table"):
            drops["parts"].append(f"drop {how.partition(',')[0]} if exists {name} cascade")
    kept = {"worlds", "heads", "effects", "alembic_version"}
    drops["tables"] += [f"drop table if exists {table} cascade" for table in sorted(tables() - kept)]
    return drops


async def test_upgrade_makes_again_whatever_is_dropped(database_url: str, thorough: bool) -> None:
    """Every part of the schema but the tables of history comes back from one upgrade, dropped alone or with others."""
    drops = _drops()
    groups = [drops["parts"], drops["tables"]]
    for group in [*groups, *([each] for each in [*groups[0], *groups[1]])] if thorough else groups:
        async with connected(database_url) as connection:
            for statement in group:
                await connection.execute(statement)
        assert await schema.upgrade(database_url) == [], group
        async with connected(database_url) as connection:
            assert compare(await schema.catalogue(connection), expected()) == [], group


async def test_what_is_lost_with_its_rows_is_told(database_url: str) -> None:
    """A column that is gone keeps an upgrade from nothing else, which names it; so does the check, with what to do."""
    async with connected(database_url) as connection:
        await connection.execute(
            """
            alter table held_intents drop column bytes; alter table open_ticks drop column sim_time;
            drop trigger effects_append_only on effects
            """
        )
    columns = ["column held_intents.bytes", "column open_ticks.sim_time"]
    refused = await schema.upgrade(database_url)
    assert [each.partition(": ")[0] for each in refused][:2] == columns
    findings = await _findings(database_url)
    assert [each for each in findings if each.startswith(("trigger", "column"))] == [
        "column held_intents.bytes: missing: integer not null",
        "column open_ticks.sim_time: missing: double precision",
    ]
    async with connected(database_url) as connection:
        for statement in statements(by_hand(findings).values()):
            await connection.execute(statement)
    assert await schema.upgrade(database_url) == []
    assert await _findings(database_url) == []


async def test_what_upgrade_leaves_has_its_sql(database_url: str, thorough: bool) -> None:
    """Whatever was done to a schema: `db upgrade` makes right what `db check` says, and the SQL there the rest."""
    first = TAMPERINGS.keys() - set[str]().union(*LATER)
    for names in (first, *LATER) if thorough else (first,):
        async with connected(database_url) as connection:
            for name, (statement, _) in TAMPERINGS.items():
                if name in names:
                    await connection.execute(statement)
        findings = await _findings(database_url)
        left = by_hand(findings)
        assert bool(left) == (names != {"rows are hidden"})
        assert await schema.upgrade(database_url) == []
        told = {finding.partition(": ")[0] for finding in left}
        assert {finding.partition(": ")[0] for finding in await _findings(database_url)} <= told, names
        async with connected(database_url) as connection:
            for statement in statements(left.values()):
                await connection.execute(statement)
        await schema.upgrade(database_url)
        assert await _findings(database_url) == [], names


#: What the service's role can do to views and tables of projections.
_OF_PROJECTIONS = """
set role worldledger_service;
create or replace view analytics.entities as
    select * from (select * from analytics.entities_with_forks limit 0) as x where false;
create or replace view projections.world_summaries as select * from projections.world_summaries_1 where world_id <> 'w';
alter view analytics.effect_counts set (security_invoker = true);
alter table projections.state_variables_1 enable row level security;
create table projections.more () inherits (projections.effect_counts_1);
create rule swallow as on insert to projections.turns_1 do instead nothing;
create trigger a before update on projections.world_summaries_1 for each row
execute function suppress_redundant_updates_trigger();
alter table projections.reasoning_1 set unlogged;
create rule "no" as on update to analytics.rounds do instead nothing;
alter view projections.entities alter column world_id set default 'w';
create trigger a instead of insert on analytics.messages for each row
execute function suppress_redundant_updates_trigger()
"""


async def test_upgrade_makes_views_over_projections_anew(database_url: str) -> None:
    """Views that the service's role has replaced, and tables that hide rows or show others, are made right."""
    await make_views(database_url, Settings())
    async with connected(database_url) as connection:
        await connection.execute(_OF_PROJECTIONS)
    findings = await _findings(database_url)
    assert sorted(finding.partition(": ")[0] for finding in findings) == [
        "view analytics.effect_counts",
        "view analytics.entities",
        "view analytics.messages",
        "view analytics.rounds",
        "view projections.effect_counts_1",
        "view projections.entities",
        "view projections.reasoning_1",
        "view projections.state_variables_1",
        "view projections.turns_1",
        "view projections.world_summaries",
        "view projections.world_summaries_1",
    ]
    assert by_hand(findings) == {}
    assert await schema.upgrade(database_url) == []
    await make_views(database_url, Settings(), mended=True)
    assert await _findings(database_url) == []


def test_check_says_what_stands_in_a_views_place() -> None:
    """What `db upgrade` cannot replace has its SQL, and so has a view that belongs to nothing."""
    place = "view analytics.games: is not the view that this program makes"
    stranger = "view analytics.more: unexpected, or of a projection that is not known here (--projection names one)"
    setting = "setting fsync: is off: an acknowledged effect may be lost: "
    mended = "alter system set fsync = on; select pg_reload_conf()"
    assert by_hand([f"{place}: it is a table", stranger, setting + mended]) == {
        f"{place}: it is a table": "drop table analytics.games; -- or rename it; then `worldledger db upgrade`",
        stranger: "drop view analytics.more",
        setting + mended: mended,
    }


async def _findings(url: str) -> list[str]:
    """Return what differs in the schema: not what the servers and databases of tests are like otherwise."""
    return [finding for finding in await schema.check(url) if not finding.startswith(("setting", "reader"))]
