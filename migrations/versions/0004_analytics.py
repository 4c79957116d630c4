"""Analytics: the schema for questions in SQL, and readers who see nothing else.

Revision: 0004, after 0003. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today. Those that make the schema stand in the file beside this one, parted by lines ``-- next``.
The reasons stand in the application (service/database/analytics/schema.py).
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

DERIVED = (
    "snapshots, projection_builds, projection_cursors, projection_pending, projection_parked, projection_leases, "
    "agent_cursors"
)
READ_BEFORE = f"worlds, heads, effects, requests, effect_verification, verification, alembic_version, {DERIVED}"
VERIFYING = "chain_checksum, effect_problem, world_problem, head_problem"

# Not ON ALL TABLES, among which there may be somebody else's.
OF_PROJECTIONS = """
do $projections$
declare
    what text;
begin
    for what in
        select format('projections.%I', relname) from pg_class
        where relnamespace = 'projections'::regnamespace and relkind in ('r', 'v', 'p')
          and relowner::regrole::text = 'worldledger_service'
    loop
        execute '{change} ' || what || ' {whom} worldledger_reader';
    end loop;
end
$projections$
"""

BEFORE = [
    f"revoke select on {READ_BEFORE} from worldledger_reader",
    f"grant execute on function {VERIFYING} to worldledger_guest",
    """create index effects_caused_idx on effects (world_id, global_seq)
    where starts_with(effect::text, '{"caused_by":')""",
    "comment on index effects_caused_idx is 'Finds the effects that name their cause (caused_by), in order.'",
    "set local role worldledger_service",
    "alter default privileges in schema projections revoke select on tables from worldledger_reader",
    OF_PROJECTIONS.format(change="revoke select on", whom="from"),
    "revoke usage on schema projections from worldledger_reader",
    "set local role worldledger_owner",
]

DOWN = [
    "set local role none",
    """
do $messages$
declare
    what regprocedure;
begin
    for what in
        select oid from pg_catalog.pg_proc
        where pronamespace = 'pg_catalog'::regnamespace and proname = 'pg_logical_emit_message'
          and pg_has_role(proowner, 'usage')
    loop
        execute format('grant execute on function %s to public', what);
    end loop;
end
$messages$
""",
    "set local role worldledger_service",
    # Without CASCADE: what others made in the schema, or upon it, cannot be made again from the log.
    """
do $analytics$
declare
    views text;
    functions text;
    what text;
begin
    select string_agg(format('analytics.%I', relname), ', ') into views from pg_class
    where relnamespace = to_regnamespace('analytics') and relkind = 'v'
      and relowner::regrole::text in ('worldledger_owner', 'worldledger_service');
    select string_agg(oid::regprocedure::text, ', ') into functions from pg_proc
    where pronamespace = to_regnamespace('analytics')
      and proowner::regrole::text in ('worldledger_owner', 'worldledger_guest');
    execute 'drop view ' || views;
    execute 'drop function ' || functions;
    drop schema analytics;
exception
    when dependent_objects_still_exist then
        get stacked diagnostics what = pg_exception_detail;
        raise exception 'what no projection made depends on the schema analytics: %', what
            using errcode = 'dependent_objects_still_exist',
                  hint = 'Drop it, or move it elsewhere, and run the downgrade again.';
end
$analytics$
""",
    "grant usage on schema projections to worldledger_reader",
    OF_PROJECTIONS.format(change="grant select on", whom="to"),
    "alter default privileges in schema projections grant select on tables to worldledger_reader",
    "set local role worldledger_owner",
    "drop index effects_caused_idx",
    f"revoke execute on function {VERIFYING} from worldledger_guest",
    f"grant select on {READ_BEFORE} to worldledger_reader",
]


def _run(statements: list[str]) -> None:
    connection = op.get_bind()
    for statement in statements:
        connection.exec_driver_sql(statement)


def upgrade() -> None:
    _run(BEFORE)
    _run(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8").split("\n-- next\n"))


def downgrade() -> None:
    _run(DOWN)
