"""Moments in SQL: the function place_at, and history up to a moment.

Revision: 0016, after 0015. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today. The reasons stand in the application (database/sql/history.sql); the statements stand in the
file beside this one, parted by lines ``-- next``.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

PLACE = "analytics.place_at(text,text)"
BEFORE, NOW = (f"analytics.history(text,bigint,text,double precision{more})" for more in ("", ",text"))
SAID = (
    "The effects of a world and of before it in its ancestors, up to a seq of the world, or of_world, and a sim_time; "
    "order by place."
)
STATEMENTS_BEFORE = [
    """create or replace function analytics.history(
    world text, until_seq bigint default null, of_world text default null,
    until_sim_time_s double precision default null
) returns table (
    place bigint, world_id text, inherited_from text, generation integer, global_seq bigint, kind text, source_id text,
    sim_time_s double precision, recorded_at timestamptz, payload json, checksum text
)
language sql stable parallel safe
as $$
    with line as (
        select world as name, 0 as generation, 9223372036854775807 as last_seq
        union all
        select a.ancestor, a.generation, a.until_seq from analytics.ancestry(world) a
    ), cut as (
        select l.name, l.generation,
               case when l.generation > o.generation then l.last_seq
                    else least(l.last_seq, history.until_seq) end as last_seq,
               coalesce((select sum(b.last_seq) from line b where b.generation > l.generation), 0)::bigint as before
        from line o
        join line l on l.generation >= o.generation
        where o.name = coalesce(of_world, world)
    )
    select c.before + e.global_seq, world, nullif(c.name, world), c.generation, e.global_seq, e.kind, e.source_id,
           e.sim_time_s, e.recorded_at, e.payload, e.checksum
    from cut c
    join analytics.effects_with_forks e on e.world_id = c.name and not e.is_inherited and e.global_seq <= c.last_seq
    where until_sim_time_s is null or e.sim_time_s <= until_sim_time_s
$$""",
    f"revoke all on function {BEFORE} from public",
    f"grant execute on function {BEFORE} to worldledger_service, worldledger_reader, worldledger_guest",
    f"comment on function {BEFORE} is '{SAID}'",
]


def _run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)


def upgrade() -> None:
    made = Path(__file__).with_name("0016_moments.sql").read_text(encoding="utf-8").split("\n-- next\n")
    _run(f"drop function {BEFORE}", *made)


def downgrade() -> None:
    _run(f"drop function {NOW}", f"drop function {PLACE}", *STATEMENTS_BEFORE)
