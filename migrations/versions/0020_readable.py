"""Analytics: an effect that PostgreSQL has stored and cannot read ends no query; its columns are null.

Revision: 0020, after 0019. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today. They stand in the file beside this one, parted by lines ``-- next``; the reasons stand in
the application (database/sql/analytics.sql). They replace what is there, so no other view has to be made anew.

What kinds and projections have made upon the function of this revision goes with a downgrade: the program of that
revision makes its own.
"""

from __future__ import annotations

import re
from pathlib import Path

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

#: Where a text is looked at before it is read, and what stood there before.
LOOKS = re.compile(r"analytics\.readable\(([\w.]+)\)")
LOOKING = ("create or replace view ", "create or replace function analytics.json_time(")
PLACE_AT = "create or replace function analytics.place_at("

#: What the engine of projections has made upon the function.
DROP_PUBLISHED = """
do $published$
declare
    what text;
    views text;
begin
    with recursive upon (oid) as (
        select r.ev_class
        from pg_catalog.pg_depend d
        join pg_catalog.pg_rewrite r on d.classid = 'pg_catalog.pg_rewrite'::regclass and r.oid = d.objid
        where d.refclassid = 'pg_catalog.pg_proc'::regclass
          and d.refobjid = 'analytics.readable(json)'::regprocedure
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

#: The views of a kind, whose later files name the function.
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


def _run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)


def _read(name: str) -> list[str]:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").split("\n-- next\n")


def upgrade() -> None:
    _run(*_read("0020_readable.sql"))


def downgrade() -> None:
    _run(DROP_PUBLISHED)
    for kind, views in op.get_bind().exec_driver_sql("select kind, views from kind_analytics").fetchall():
        if views:
            named = ", ".join('analytics."{}"'.format(view.replace('"', '""')) for view in views)
            _run(DROP.format(views=named.replace("'", "''"), kind=kind.replace("'", "''")))
    _run("delete from kind_analytics")
    made = [statement for statement in _read("0020_readable.sql") if "analytics.readable(json)" not in statement]
    _run(*(LOOKS.sub(r"\1", each) for each in made if each.startswith("create or replace view ")))
    _run(
        *(LOOKS.sub(r"\1", each) for each in made if each.startswith("create or replace function analytics.json_time("))
    )
    _run(*(each for each in _read("0016_moments.sql") if each.startswith(PLACE_AT)))
    _run("drop function analytics.readable(json)")
