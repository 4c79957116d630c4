"""Views over all worlds leave forks out; others have them, with what they inherit.

Revision: 0010, after 0009. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today. They stand in the files beside this one, parted by lines ``-- next``: those of this
revision, and the views of before. The reasons stand in the application (database/analytics/views.py).

The view ``lineage`` was one of a projection's until now. What kinds and projections have made upon the views of this
revision goes with a downgrade: the program of that revision makes its own.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

BEFORE = [
    """create index effects_forks_idx on effects (world_id)
    where global_seq = 1 and strpos(effect::text, '"fork_of":{') > 0""",
    "comment on index effects_forks_idx is 'Finds the worlds that are forks, by their geneses.'",
    "set local role worldledger_service",
    "drop view if exists analytics.lineage",
    "set local role worldledger_owner",
]

#: What the engine of projections has made upon the views of forks.
DROP_PUBLISHED = """
do $published$
declare
    what text;
    views text;
begin
    with recursive upon (oid) as (
        select 'analytics.forks'::regclass::oid
        union
        select r.ev_class
        from upon
        join pg_catalog.pg_depend d on d.refclassid = 'pg_catalog.pg_class'::regclass and d.refobjid = upon.oid
        join pg_catalog.pg_rewrite r on d.classid = 'pg_catalog.pg_rewrite'::regclass and r.oid = d.objid
    )
    select string_agg(c.oid::regclass::text, ', ') into views
    from upon join pg_class c on c.oid = upon.oid
    where c.relowner::regrole::text = 'worldledger_service';
    if views is not null then
        set local role worldledger_service;
        execute 'drop view ' || views;
        set local role worldledger_owner;
    end if;
exception
    when dependent_objects_still_exist then
        get stacked diagnostics what = pg_exception_detail;
        raise exception 'what no projection made depends on the views of projections: %', what
            using errcode = 'dependent_objects_still_exist',
                  hint = 'Drop it, or move it elsewhere, and run the downgrade again.';
end
$published$
"""

#: The views of a kind, whose later files name those of forks.
DROP = """
do $drop$
declare
    what text;
begin
    execute 'drop view if exists {views}';
exception
    when dependent_objects_still_exist then
        get stacked diagnostics what = pg_exception_detail;
        raise exception 'what no kind made depends on the views of the kind {kind}: %', what
            using errcode = 'dependent_objects_still_exist',
                  hint = 'Drop it, or move it elsewhere, and run the downgrade again.';
end
$drop$
"""

NEW_VIEWS = (
    "observations_with_forks",
    "intents_with_forks",
    "effects_with_forks",
    "experiments_with_forks",
    "lineage",
    "forks",
)


def _run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)


def _read(name: str) -> list[str]:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").split("\n-- next\n")


def upgrade() -> None:
    _run(*BEFORE, *_read("0010_forks.sql"))


def downgrade() -> None:
    _run(DROP_PUBLISHED)
    for kind, views in op.get_bind().exec_driver_sql("select kind, views from kind_analytics").fetchall():
        if views:
            named = ", ".join('analytics."{}"'.format(view.replace('"', '""')) for view in views)
            _run(DROP.format(views=named.replace("'", "''"), kind=kind.replace("'", "''")))
    _run("delete from kind_analytics", *_read("0010_forks_before.sql"))
    _run(*(f"drop view analytics.{view}" for view in NEW_VIEWS))
    _run("drop function analytics.ancestry(text)", "drop index effects_forks_idx")
