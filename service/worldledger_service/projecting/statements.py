"""The engine's statements, by name. Values are always passed as parameters.

The statements that depend on a projection's columns are made by `worldledger_projections.tables`.
"""

from __future__ import annotations

from typing import Final

from worldledger.canonical import MAX_INT
from worldledger_service.database.odd_rows import IS_BUILD, told_time

# -- builds ------------------------------------------------------------------------------------------------

BUILDS: Final = f"""
select build, projection, version, status, paused, scanned_to,
       case when {IS_BUILD} then to_regclass('projections.' || build) end is not null as has_table
from projection_builds order by projection, build
"""

#: Taken before a build is begun, dropped or cancelled. It waits for every discovery under way, which knows only the
#: builds that it saw, and no later one can begin before the new build is visible: so a build misses no news between the
#: moment of the news and its first pass over the worlds.
LOCK_BUILDS: Final = "lock table projection_builds in access exclusive mode"

#: $1 build, $2 projection, $3 version, $4 status, $5 paused.
INSERT_BUILD: Final = """
insert into projection_builds (build, projection, version, status, paused, finished_at)
values ($1, $2, $3, $4, $5, case when $4 = 'live' then now() end)
"""

RETIRE: Final = "update projection_builds set status = 'retired', retired_at = now() where build = $1"

GO_LIVE: Final = "update projection_builds set status = 'live', finished_at = now() where build = $1"

LOCK_PROJECTION: Final = """
select build, status, version, paused, scanned_to from projection_builds
where projection = $1 and status <> 'retired' order by build for update
"""

SET_PAUSED: Final = """
update projection_builds set paused = $2 where projection = $1 and status <> 'retired' returning build
"""

STILL_LIVE: Final = "select from projection_builds where build = $1 and status = 'live' for share"

HAS_SCHEMA: Final = "select to_regnamespace('projections') is not null"
#: The columns of a table ($1, qualified); no row if it is not there.
COLUMNS_OF: Final = """
select attname::text as name from pg_attribute
where attrelid = to_regclass($1) and attnum > 0 and not attisdropped
"""

#: The statements that make a table ($1) keep the rows that are written, and show all of them and no others; or that
#: take from a view what is not made with it.
MENDING: Final = """
with t as (
    select oid, relkind, relrowsecurity, relpersistence from pg_class
    where oid = to_regclass($1) and relkind in ('r', 'v')
)
select format('alter table %s disable row level security', oid::regclass) as sql from t where relrowsecurity
union all
select format('alter table %s set logged', oid::regclass) from t where relpersistence = 'u'
union all
select format('drop trigger %I on %s', tgname, tgrelid::regclass)
from pg_trigger join t on tgrelid = t.oid where not tgisinternal
union all
select format('drop rule %I on %s', rulename, ev_class::regclass)
from pg_rewrite join t on ev_class = t.oid where rulename <> '_RETURN'
union all
select format('alter table %s no inherit %s', inhrelid::regclass, inhparent::regclass)
from pg_inherits join t on t.oid in (inhparent, inhrelid)
union all
select format('alter view %s alter column %I drop default', adrelid::regclass, attname)
from pg_attrdef join t on adrelid = t.oid and relkind = 'v' join pg_attribute on attrelid = adrelid and attnum = adnum
"""

DELETE_BUILD: Final = "delete from projection_builds where build = $1"

#: Everything that is kept about a build besides its table; the lease stays, so that its number is not used again.
FORGET_BUILD: Final = (
    "delete from projection_pending where build = $1",
    "delete from projection_parked where build = $1",
    "delete from projection_cursors where build = $1",
)

#: The numbers of builds follow from their leases, which outlive them.
LEASE_NAMES: Final = "select name from projection_leases where starts_with(name, 'build:')"

DROP_OLD_LEASES: Final = """
delete from projection_leases l where l.name = any($1::text[])
    and not exists (select from projection_builds b where l.name = 'build:' || b.build)
"""

#: Views over a view of the schema, direct or indirect, the last first; in the schema for users' queries, only ours.
VIEWS_UPON: Final = """
with recursive upon (oid, depth) as (
    select to_regclass('projections.' || $1::text)::oid, 0
    union
    select r.ev_class, upon.depth + 1 from upon
    join pg_depend d on d.refobjid = upon.oid and d.refclassid = 'pg_class'::regclass
        and d.classid = 'pg_rewrite'::regclass
    join pg_rewrite r on r.oid = d.objid and r.ev_class <> upon.oid)
select format('%s."%s"', n.nspname, replace(c.relname, '"', '""')) as place
from upon join pg_class c on c.oid = upon.oid join pg_namespace n on n.oid = c.relnamespace
where upon.depth > 0 and c.relkind = 'v'
  and (n.nspname = 'projections' or n.nspname = 'analytics' and pg_get_userbyid(c.relowner) = current_user)
group by 1 order by max(upon.depth) desc, 1
"""


#: Of a row of projection_parked: that the world is only skipped, because its kind is not installed (UnknownRulesetError
#: as `described` writes it).
_SKIPPED: Final = "k.error like 'UnknownRulesetError:%'"

#: Worlds in which $1, the new build, is behind $2, the live one, which may be beyond the head of a log that was cut
#: short by hand. $3: the rulesets it reads, null for all. A world that the new build has parked is not counted: see
#: PARKED_ONLY_HERE. Aggregates are looked up world by world: the planner knows nothing of rows as new as a build's,
#: takes them for a single one, and would go through all of them for each world.
BEHIND: Final = """
select l.world_id from projection_cursors l
cross join lateral (select max(head_seq) as head_seq from heads where world_id = l.world_id) h
cross join lateral (
    select max(global_seq) as global_seq from projection_cursors where build = $1 and world_id = l.world_id) n
where l.build = $2 and h.head_seq is not null and least(l.global_seq, h.head_seq) > coalesce(n.global_seq, 0)
  and exists (
    select from worlds w where w.world_id = l.world_id and ($3::text[] is null or w.ruleset = any($3::text[])))
  and (select count(*) from projection_parked k where k.build = $1 and k.world_id = l.world_id) = 0
limit 1
"""

#: How many worlds $1, the new build, has parked that $2, the live one, has not.
PARKED_ONLY_HERE: Final = """
select count(*) from projection_parked k
where k.build = $1 and not exists (select from projection_parked o where o.build = $2 and o.world_id = k.world_id)
"""

# -- leases ------------------------------------------------------------------------------------------------


def _next(counter: str) -> str:
    """Return the expression for the next number of a lease: 0 after one that no program has reached by counting."""
    return f"case when {counter} between 0 and {MAX_INT} then {counter} + 1 else 0 end"


NEW_LEASES: Final = "insert into projection_leases (name) select unnest($1::text[]) on conflict do nothing"

LEASES: Final = "select name, holder, token, beats from projection_leases where name = any($1::text[])"

#: Take the leases that are unchanged since they were seen. $1 name, $2 token, $3 beats, $4 the holder.
ACQUIRE: Final = f"""
update projection_leases l set token = {_next("l.token")}, beats = {_next("l.beats")}, holder = $4
from unnest($1::text[], $2::bigint[], $3::bigint[]) as seen (name, token, beats)
where l.name = seen.name and l.token = seen.token and l.beats = seen.beats
returning l.name, l.token
"""

#: Take the lease from any holder, which then finds that its token is no longer valid.
SEIZE: Final = f"""
update projection_leases set token = {_next("token")}, beats = {_next("beats")}, holder = $2
where name = $1 returning token
"""

#: Make every holder of the lease begin again: the lease has no holder, and the token changes.
REVOKE: Final = f"update projection_leases set token = {_next('token')}, holder = null where name = $1"

BEAT: Final = f"""
update projection_leases l set beats = {_next("l.beats")} from unnest($1::text[], $2::bigint[]) as held (name, token)
where l.name = held.name and l.token = held.token returning l.name
"""

RELEASE: Final = """
update projection_leases l set holder = null from unnest($1::text[], $2::bigint[]) as held (name, token)
where l.name = held.name and l.token = held.token
"""

STILL_HELD: Final = "select from projection_leases where name = $1 and token = $2 for share"

# -- one world, checks and status --------------------------------------------------------------------------


RULESET: Final = "select ruleset from worlds where world_id = $1"

#: $1 build, $2 world_id.
LOCK_CURSOR: Final = """
select global_seq from projection_cursors where build = $1 and world_id = $2 for update
"""

#: $1 build, $2 world_id.
UNPARK: Final = "delete from projection_parked where build = $1 and world_id = $2"

SET_CURSOR: Final = "update projection_cursors set global_seq = $3 where build = $1 and world_id = $2"

#: How far a build is in a world, for waiting calls: $1 build, $2 world_id.
REACHED: Final = """
select w.ruleset, coalesce(c.global_seq, 0) as global_seq, k.global_seq as parked
from worlds w
left join projection_cursors c on c.build = $1 and c.world_id = w.world_id
left join projection_parked k on k.build = $1 and k.world_id = w.world_id and k.error <> ''
where w.world_id = $2
"""

EXTENT: Final = """
select least(coalesce(sum(global_seq), 0), 9223372036854775807)::bigint from projection_cursors where build = $1
"""

#: $1 build, $2 after world_id, $3 limit.
CURSOR_PAGE: Final = """
select world_id, global_seq from projection_cursors where build = $1 and world_id > $2 order by world_id limit $3
"""

#: $1 build, $2 world_ids. ``head_seq`` is null where the head is gone. One row of each, though a world has two rows.
CURSORS_OF: Final = """
select c.world_id, c.global_seq,
       (select max(w.ruleset) from worlds w where w.world_id = c.world_id) as ruleset,
       (select max(h.head_seq) from heads h where h.world_id = c.world_id) as head_seq
from projection_cursors c where c.build = $1 and c.world_id = any($2::text[])
"""

#: The first world that lags behind its log though nothing is due in it: $1 build, $2 the rulesets, null for all.
OVERLOOKED: Final = """
select h.world_id, h.head_seq, coalesce(c.global_seq, 0) as global_seq
from heads h join worlds w using (world_id)
left join projection_cursors c on c.build = $1 and c.world_id = h.world_id
where not h.moved and h.head_seq > coalesce(c.global_seq, 0)
  and ($2::text[] is null or w.ruleset = any($2::text[]))
  and not exists (select from projection_pending p where p.build = $1 and p.world_id = h.world_id)
  and not exists (select from projection_parked k where k.build = $1 and k.world_id = h.world_id)
  and exists (select from projection_builds b where b.build = $1 and b.scanned_to is null)
order by h.world_id limit 1
"""

NOW: Final = """
select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
"""

SET_REPORT: Final = "update projection_builds set check_report = $2::text::json where build = $1"

#: Every build that is not retired, with how far it is behind. $1 to $3: which worlds each build reads, as in DISCOVER.
STATUS: Final = f"""
with news as materialized (
    select h.world_id, h.head_seq, w.ruleset from heads h join worlds w using (world_id) where h.moved)
select b.build, b.projection, b.version, b.status, b.paused, b.scanned_to is not null as scanning,
       b.effects_total, b.effects_done, b.check_report::text as check_report,
       {told_time("b.started_at")} as started_at,
       {told_time("b.finished_at")} as finished_at, l.holder, behind.worlds, behind.effects, behind.seconds,
       (select count(*) from projection_parked k
        where k.build = b.build and k.error <> '' and not {_SKIPPED}) as parked,
       (select count(*) from projection_parked k where k.build = b.build and {_SKIPPED}) as skipped
from projection_builds b
left join projection_leases l on l.name = 'build:' || b.build
cross join lateral (
    select count(*) as worlds, coalesce(sum(d.head_seq - coalesce(c.global_seq, 0)), 0)::bigint as effects,
           case when min(d.since) is not null
                then greatest(extract(epoch from clock_timestamp() - min(d.since)), 0)::float8 end as seconds
    from (
        select u.world_id, max(u.head_seq) as head_seq, min(u.since) as since
        from (
            select p.world_id, p.head_seq, {told_time("p.since")} as since
            from projection_pending p where p.build = b.build
            union all
            select n.world_id, n.head_seq, null from news n
            where (b.build <> all($1::text[])
                   or exists (select from unnest($2::text[], $3::text[]) as f (build, ruleset)
                              where f.build = b.build and f.ruleset = n.ruleset))
              and not exists (select from projection_parked k where k.build = b.build and k.world_id = n.world_id)
        ) u group by u.world_id
    ) d
    left join projection_cursors c on c.build = b.build and c.world_id = d.world_id
    where d.head_seq > coalesce(c.global_seq, 0)
) behind
where b.status <> 'retired'
order by b.projection, b.build
"""

PARKED: Final = f"""
select b.projection, k.build, k.world_id, k.global_seq, k.kind, k.error, k.attempts,
       {told_time("k.parked_at")} as parked_at
from projection_parked k join projection_builds b using (build)
where b.projection = $1 and b.status <> 'retired' and k.error <> '' and not {_SKIPPED}
order by k.build, k.world_id limit $2
"""

#: The rulesets of skipped worlds, how many worlds each has, and the error that says what is missing.
SKIPPED: Final = f"""
select w.ruleset, count(distinct k.world_id) as worlds, min(k.error) as error
from projection_parked k join projection_builds b using (build) join worlds w using (world_id)
where b.status <> 'retired' and {_SKIPPED} group by w.ruleset order by w.ruleset
"""


# -- a runner's work: finding what is due, and writing the results ----------------------------------------------

# -- finding what is due -----------------------------------------------------------------------------------

#: Note for every build the worlds that have moved, the first $2 after $1, and that this was noted; return how many, and
#: the last. A build in $3 reads only the worlds of the rulesets that $4 and $5 name; a build that this program does not
#: know reads all, and a program that knows it checks again. Heads that are just being moved are left for the next time.
#: Rows of both tables are locked in the order of their keys.
DISCOVER: Final = """
with picked as materialized (
    select world_id from heads where moved and world_id > $1 order by world_id limit $2
    for no key update skip locked),
news as (
    update heads h set moved = false from picked where h.world_id = picked.world_id
    returning h.world_id, h.head_seq),
noted as (
    insert into projection_pending as p (build, world_id, head_seq)
    select b.build, n.world_id, max(n.head_seq)
    from news n join worlds w using (world_id) cross join projection_builds b
    where b.status <> 'retired' and (
        b.build <> all($3::text[])
        or exists (select from unnest($4::text[], $5::text[]) as f (build, ruleset)
                   where f.build = b.build and f.ruleset = w.ruleset))
    group by b.build, n.world_id  -- one row for each, whatever the tables hold
    order by b.build, n.world_id
    on conflict (build, world_id) do update set head_seq = greatest(p.head_seq, excluded.head_seq))
select count(*), max(world_id) from news
"""

#: One page of a build's first pass over all worlds. $1 build, $2 the position of the pass, $3 its next position (null
#: at the end); the page's worlds: $4 world_id, $5 head_seq.
SCAN: Final = """
with here as (
    update projection_builds set scanned_to = $3 where build = $1 and scanned_to = $2 and status <> 'retired'
    returning build)
insert into projection_pending as p (build, world_id, head_seq)
select here.build, w.world_id, max(w.head_seq)
from here cross join unnest($4::text[], $5::bigint[]) as w (world_id, head_seq)
left join projection_cursors c on c.build = here.build and c.world_id = w.world_id
where w.head_seq > coalesce(c.global_seq, 0)
group by here.build, w.world_id
order by w.world_id
on conflict (build, world_id) do update set head_seq = greatest(p.head_seq, excluded.head_seq)
"""

#: $1 build, $2 the rulesets it reads, null for all.
COUNT_TOTAL: Final = """
update projection_builds set effects_total = (
    select coalesce(sum(h.head_seq), 0) from heads h join worlds w using (world_id)
    where $2::text[] is null or w.ruleset = any($2::text[]))
where build = $1 and effects_total is null
"""

#: What is due for some builds ($1), by world, each build's first $3 worlds after $2. ``parked`` is where the build has
#: set the world aside, unless it was released for another attempt.
DUE: Final = """
select p.build, p.world_id, p.head_seq, c.global_seq, w.ruleset, k.global_seq as parked
from unnest($1::text[]) as b (build)
cross join lateral (
    select q.build, q.world_id, q.head_seq from projection_pending q
    where q.build = b.build and q.world_id > $2 order by q.world_id limit $3) p
left join projection_cursors c on c.build = p.build and c.world_id = p.world_id
left join worlds w on w.world_id = p.world_id
left join projection_parked k on k.build = p.build and k.world_id = p.world_id and k.error <> ''
order by p.world_id, p.build
"""

#: Nothing is due any more in these worlds up to these heads. $1 build, $2 world_id, $3 head_seq.
NOT_DUE: Final = """
delete from projection_pending p using unnest($1::text[], $2::text[], $3::bigint[]) as d (build, world_id, head_seq)
where p.build = d.build and p.world_id = d.world_id and p.head_seq <= d.head_seq
"""

#: Parked worlds are not due, unless they have been released in the meantime. $1 build, $2 world_id.
NOT_DUE_WHILE_PARKED: Final = """
with parked as materialized (
    select k.build, k.world_id from unnest($1::text[], $2::text[]) as d (build, world_id)
    join projection_parked k on k.build = d.build and k.world_id = d.world_id and k.error <> ''
    order by k.build, k.world_id for update of k)
delete from projection_pending p using parked where p.build = parked.build and p.world_id = parked.world_id
"""

#: Release parked worlds for another attempt: an empty error marks them. $1 builds, $2 a world_id, null for all.
RELEASE_PARKED: Final = """
update projection_parked set error = '' where build = any($1::text[]) and ($2::text is null or world_id = $2)
returning build, world_id
"""

#: Release the skipped worlds of these rulesets ($1).
RELEASE_SKIPPED: Final = f"""
update projection_parked k set error = '' from worlds w
where w.world_id = k.world_id and w.ruleset = any($1::text[]) and {_SKIPPED}
returning k.build, k.world_id
"""

#: To be run after RELEASE_PARKED or RELEASE_SKIPPED, in a statement of its own: it sees everything that
#: NOT_DUE_WHILE_PARKED discarded. $1 build, $2 world_id.
DUE_AGAIN: Final = """
insert into projection_pending as p (build, world_id, head_seq)
select d.build, d.world_id, max(h.head_seq)
from unnest($1::text[], $2::text[]) as d (build, world_id) join heads h using (world_id)
group by d.build, d.world_id
order by d.build, d.world_id
on conflict (build, world_id) do update set head_seq = greatest(p.head_seq, excluded.head_seq)
"""

#: Whether anything is left to do for some builds ($1), or not yet noted; swaps of builds of $2 are not waited for.
LEFT_TO_DO: Final = """
select coalesce((select true from heads where moved order by world_id limit 1), false)
    or exists (
        select from projection_builds b
        where b.build = any($1::text[]) and b.status <> 'retired' and not b.paused
          and (b.scanned_to is not null or (b.status = 'building' and b.build <> all($2::text[]))
               or exists (select from projection_pending p where p.build = b.build)))
"""

#: The first world in which something is left to do for some builds ($1), how far it was read, and the build's holder.
WAITED_FOR: Final = """
select b.projection, p.world_id, coalesce(c.global_seq, 0) as global_seq, h.head_seq, l.holder
from projection_builds b
join projection_pending p on p.build = b.build
left join projection_cursors c on c.build = p.build and c.world_id = p.world_id
left join heads h on h.world_id = p.world_id
left join projection_leases l on l.name = 'build:' || b.build
where b.build = any($1::text[]) and b.status <> 'retired' and not b.paused
order by p.world_id, b.projection limit 1
"""

# -- writing -----------------------------------------------------------------------------------------------

#: Begin a transaction of the runner's. It need not be durable at once: rows and cursor are one transaction, and what a
#: crash of the server loses is done again. A holder that hangs in the middle is disconnected, so that its locks block
#: nothing. {idle} and {lock} are milliseconds.
BEGIN: Final = """
begin; set local synchronous_commit = off; set local idle_in_transaction_session_timeout = {idle};
set local lock_timeout = {lock}
"""

#: $1 build, $2 world_id. Cursors that are locked by another transaction are left out.
LOCK_CURSORS: Final = """
select c.build, c.world_id, c.global_seq from unnest($1::text[], $2::text[]) as d (build, world_id)
join projection_cursors c on c.build = d.build and c.world_id = d.world_id
order by c.build, c.world_id for update of c skip locked
"""

#: $1 build, $2 world_id, $3 global_seq. Returns those that did not exist.
NEW_CURSORS: Final = """
insert into projection_cursors (build, world_id, global_seq)
select * from unnest($1::text[], $2::text[], $3::bigint[]) as d (build, world_id, global_seq)
order by build, world_id on conflict do nothing returning build, world_id
"""

#: The last statement of a batch, which fences it: returns the builds whose lease is still held and which are neither
#: paused nor retired; if one is missing, nothing may be committed. Builds: $1 build, $2 token, $3 how many effects.
#: Worlds: $4 build, $5 world_id, $6 global_seq, $7 whether the cursor is new. Parked: $8 build, $9 world_id, $10
#: global_seq, $11 kind, $12 error.
FINISH: Final = """
with fence as materialized (
    select h.build, h.effects from unnest($1::text[], $2::bigint[], $3::bigint[]) as h (build, token, effects)
    join projection_leases l on l.name = 'build:' || h.build and l.token = h.token
    order by l.name for share of l),
counted as (
    update projection_builds b set effects_done = b.effects_done + f.effects from fence f
    where b.build = f.build and b.status <> 'retired' and not b.paused returning b.build),
reached as materialized (
    select * from unnest($4::text[], $5::text[], $6::bigint[], $7::boolean[])
        as r (build, world_id, global_seq, fresh)),
parked as materialized (
    select * from unnest($8::text[], $9::text[], $10::bigint[], $11::text[], $12::text[])
        as k (build, world_id, global_seq, kind, error)),
moved as (
    update projection_cursors c set global_seq = r.global_seq from reached r
    where not r.fresh and c.build = r.build and c.world_id = r.world_id and c.global_seq <> r.global_seq),
due as materialized (
    select p.build, p.world_id from reached r
    join projection_pending p on p.build = r.build and p.world_id = r.world_id
    where p.head_seq <= r.global_seq
       or exists (select from parked k where k.build = r.build and k.world_id = r.world_id)
    order by p.build, p.world_id for update of p),
done as (
    delete from projection_pending p using due where p.build = due.build and p.world_id = due.world_id),
set_aside as (
    insert into projection_parked as o (build, world_id, global_seq, kind, error) select * from parked
    on conflict (build, world_id) do update set
        attempts = case when o.global_seq = excluded.global_seq then o.attempts + 1 else 1 end,
        global_seq = excluded.global_seq, kind = excluded.kind, error = excluded.error, parked_at = now()),
passed as (
    delete from projection_parked o using reached r
    where o.build = r.build and o.world_id = r.world_id and o.global_seq <= r.global_seq
      and not exists (select from parked k where k.build = r.build and k.world_id = r.world_id))
select build from counted
"""
