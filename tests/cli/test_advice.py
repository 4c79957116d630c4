"""Running what `worldledger db check` advises, as it is printed, repairs the database."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence

import pytest
from worldledger_service.cli.db import _find_psql

from .conftest import Cli
from .helpers import environment

#: SQL at the end of a line, and commands in it.
_SQL = re.compile(r"(?:: |; )((?:ALTER|DELETE|DROP|GRANT|REVOKE) .+?)(?:; then run `.*)?$")
_COMMAND = re.compile(r"`worldledger ([^`…]+)`")


def _psql(url: str, script: str) -> None:
    command = [_find_psql(), "--no-psqlrc", "--quiet", "--dbname", url, "--set", "ON_ERROR_STOP=1"]
    done = subprocess.run(
        command, input=script, text=True, capture_output=True, check=False, timeout=60, env=environment()
    )
    assert done.returncode == 0, (script, done.stderr)


def _follow(on: Cli, url: str) -> list[str]:
    """Do whatever `db check` says, the SQL first, as it says; return the SQL."""
    told = on("db", "check")
    assert "Traceback" not in told.err
    lines = [line.removeprefix("worldledger: ") for line in told.err.splitlines()]
    scripts = [f"{match[1]};" for line in [*told.out.splitlines(), *lines] if (match := _SQL.search(line))]
    scripts += [line for line in lines if line.endswith(";") or "; -- " in line]
    if scripts:
        _psql(url, "\n".join(scripts))
    for command in dict.fromkeys(_COMMAND.findall("\n".join([told.out, *lines]))):
        assert on(*command.split()).code == 0, command
    return scripts


#: What somebody did to a database.
DAMAGES = {
    "default privileges are more": """
        alter default privileges for role worldledger_service in schema analytics grant insert on tables to public;
        alter default privileges for role worldledger_service in schema analytics
            grant select on tables to worldledger_reader with grant option;
        alter default privileges for role worldledger_owner grant create on schemas to public;
        alter default privileges for role worldledger_owner grant usage on sequences to worldledger_reader
    """,
    "default privileges are less": """
        alter default privileges for role worldledger_service in schema analytics
            revoke select on tables from worldledger_reader;
        alter default privileges for role worldledger_owner revoke execute on functions from public;
        alter default privileges for role worldledger_owner revoke all on types from worldledger_owner
    """,
    "aggregates are there": """
        create aggregate analytics.x(*) (sfunc = int4inc, stype = int, initcond = '0');
        create function projections.lf(bigint, bigint) returns bigint language sql as 'select 0::bigint';
        create aggregate projections.lead(bigint) (sfunc = projections.lf, stype = bigint, initcond = '0');
        set role worldledger_service;
        create function analytics.y(int) returns int language sql as 'select 1';
        create view analytics.z as select analytics.y(1) as one; create view analytics.a as select * from analytics.z;
    """,
    "things depend on each other": """
        create table parent (x int); create table theirs (id serial primary key) inherits (parent);
        create view a as select * from theirs; create view b as select * from a;
        create function f(int) returns int language sql as 'select 1';
        create view c as select f(id) from b; create materialized view d as select * from c;
        create domain worded as text; create function g(worded) returns int language sql as 'select 1';
    """,
    "the log is renamed": "alter table effects rename to effects_was",
    "a view is in the place of the log": """
        alter table effects rename to effects_was;
        create view effects as select * from effects_was where world_id <> 'w';
        grant select, insert on effects to worldledger_service
    """,
    "a table is renamed": "alter table held_intents rename to held",
    "views are renamed": """
        alter view verification rename to checked; alter view analytics.effects rename to "All Effects"
    """,
    "functions are renamed": """
        alter function refuse_change() rename to rc; alter function analytics.readable(json) rename to r;
        alter type effect_fields rename to ef
    """,
    "parts are renamed": """
        alter table effects rename constraint effects_pkey to "The Key";
        alter index effects_world_id_kind_global_seq_idx rename to more;
        alter trigger effects_append_only on effects rename to "Nothing";
        alter table effects rename column kind to kinds
    """,
    "columns are renamed": "alter table open_ticks rename column tick to t",
    "views of projections are another's": """
        alter view analytics.rounds owner to worldledger_owner; alter view analytics.messages owner to postgres;
        alter view projections.turns owner to postgres; alter table projections.rounds_1 owner to postgres;
        alter view analytics.entity_created owner to postgres; alter view analytics.effects owner to postgres
    """,
    "projections are otherwise": """
        alter table projections.reasoning_1 set unlogged;
        create rule "no" as on update to analytics.rounds do instead nothing;
        alter view projections.entities alter column world_id set default 'w';
        drop view analytics.messages cascade; create table analytics.messages (x int)
    """,
    "acknowledged is not durable": """
        do $$ begin
            execute format('alter database %I set synchronous_commit = off', current_database());
            execute format('alter role %I in database %I set synchronous_commit = off', session_user,
                           current_database());
        end $$
    """,
    "sessions begin as another role": """
        do $$ begin
            execute format('alter database %I set role = worldledger_reader', current_database());
        end $$;
        create view one as select 1 as one
    """,
    "the schema public is renamed": 'alter schema public rename to "what was"',
    "there is another schema public": "alter schema public rename to was; create schema public",
    "the schemas of views are renamed": "alter schema projections rename to p; alter schema analytics rename to a",
    "the revision is there twice": "insert into alembic_version values ('0020')",
    "the revision is an older one": "update alembic_version set version_num = '0019'",
    "the revision is unknown": "update alembic_version set version_num = '9999'",
    "the revision is lost": "drop table alembic_version",
    "the table of the revision is empty": "delete from alembic_version",
    "the log is in another schema": "create schema aside; alter table effects set schema aside",
    "readers have more": """
        do $$ begin
            execute format('alter role worldledger_reader in database %I set statement_timeout = 0',
                           current_database());
            execute format('alter role worldledger_owner in database %I set default_transaction_read_only = on',
                           current_database());
            execute format('grant temporary on database %I to worldledger_reader', current_database());
        end $$;
        grant execute on function pg_advisory_lock(bigint) to worldledger_reader
    """,
    "a table is replaced by a view": "drop table held_intents cascade; create view held_intents as select 1 as x",
}


AS_IT_SHOULD_BE = (0, "the database is as it should be\n", "")


#: What is done to one database together; each is done alone, too, in the thorough tests.
TOGETHER = (
    (
        "default privileges are more",
        "aggregates are there",
        "parts are renamed",
        "columns are renamed",
        "projections are otherwise",
        "acknowledged is not durable",
        "sessions begin as another role",
    ),
    (
        "default privileges are less",
        "a view is in the place of the log",
        "a table is replaced by a view",
        "things depend on each other",
        "views of projections are another's",
    ),
    ("functions are renamed", "readers have more"),
    ("the log is in another schema",),
    ("there is another schema public",),
    ("the revision is there twice",),
)


@pytest.mark.parametrize("names", TOGETHER, ids=lambda names: names[0])
def test_advice_mends(on: Cli, database_url: str, names: tuple[str, ...]) -> None:
    """After what is advised for damages is done, nothing is advised any more."""
    _mends(on, database_url, names)


@pytest.mark.thorough
@pytest.mark.parametrize("name", DAMAGES)
def test_advice_mends_one(on: Cli, database_url: str, name: str) -> None:
    """So it is for each damage alone."""
    _mends(on, database_url, [name])


def _mends(on: Cli, url: str, names: Sequence[str]) -> None:
    assert on("db", "upgrade").code == 0
    assert on("db", "check") == AS_IT_SHOULD_BE
    for name in names:
        _psql(url, DAMAGES[name])
    told = on("db", "check")
    assert told.code == 1
    scripts = _follow(on, url)
    assert on("db", "check") == AS_IT_SHOULD_BE, (told, scripts)
