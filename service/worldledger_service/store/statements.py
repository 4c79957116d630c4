"""Every statement of the store, by name. Values are always passed as parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from worldledger_service.database.odd_rows import is_told

if TYPE_CHECKING:
    import asyncpg

    from worldledger_service.database.engine import PooledConnection
    from worldledger_service.store.sealing import Group


_SPECIAL = re.compile(r"[\\%_]")


def containing(text: str) -> str:
    """Return the pattern that is like every text with this one in it."""
    return f"%{_SPECIAL.sub(lambda found: chr(92) + found[0], text)}%"


# -- append ------------------------------------------------------------------------------------------------

#: Append one effect if the head is still the known one.
#: $1 world_id, $2 known head_seq, $3 effect, $4 checksum, $5 sim_time, $6 wall_time, $7 kind, $8 source_id.
APPEND_ONE = """
with h as (
    update heads set head_seq = $2 + 1, head_checksum = $4, sim_time = $5, wall_time = $6, moved = true
    where world_id = $1 and head_seq = $2 returning 1)
insert into effects (world_id, global_seq, effect, checksum, kind, source_id, sim_time)
select $1, $2 + 1, $3::json, $4, $7, $8, $5 from h
"""

#: Append a group to one world if the head is still the known one.
#: $1 world_id, $2 known head_seq, $3 new checksum, $4 new sim_time, $5 new wall_time,
#: then an array for each column: $6 effect, $7 checksum, $8 kind, $9 source_id, $10 sim_time.
APPEND_MANY = """
with h as (
    update heads set head_seq = $2 + cardinality($6::text[]), head_checksum = $3, sim_time = $4, wall_time = $5,
                     moved = true
    where world_id = $1 and head_seq = $2 returning 1)
insert into effects (world_id, global_seq, effect, checksum, kind, source_id, sim_time)
select $1, $2 + u.ord, u.effect::json, u.checksum, u.kind, u.source_id, u.sim_time
from h, unnest($6::text[], $7::bytea[], $8::text[], $9::text[], $10::float8[])
     with ordinality u (effect, checksum, kind, source_id, sim_time, ord)
"""

#: Append groups to several worlds, each if its head is still the known one and none of its requests exists. Heads are
#: locked in world_id order, so that two processes never deadlock. A request can only have been written together with a
#: move of the head, so the check of ``requests`` is exact if head_seq is still the known one. Returns the worlds that
#: were written.
#: Groups: $1 world_id, $2 known head_seq, $3 new head_seq, $4 checksum, $5 sim_time, $6 wall_time.
#: Effects: $7 world_id, $8 global_seq, $9 effect, $10 checksum, $11 kind, $12 source_id, $13 sim_time.
#: Requests: $14 world_id, $15 source_id, $16 req_id, $17 body_sha256, $18 first_seq, $19 last_seq.
APPEND_GROUPS = """
with g as materialized (
    select * from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[], $5::float8[], $6::float8[])
        as g (world_id, known_seq, head_seq, head_checksum, sim_time, wall_time)),
r as materialized (
    select * from unnest($14::text[], $15::text[], $16::text[], $17::bytea[], $18::bigint[], $19::bigint[])
        as r (world_id, source_id, req_id, body_sha256, first_seq, last_seq)),
l as materialized (
    select h.world_id from heads h join g on h.world_id = g.world_id and h.head_seq = g.known_seq
    order by h.world_id for no key update of h),
h as (
    update heads set head_seq = g.head_seq, head_checksum = g.head_checksum,
                     sim_time = g.sim_time, wall_time = g.wall_time, moved = true
    from g, l
    where heads.world_id = g.world_id and l.world_id = g.world_id and heads.head_seq = g.known_seq
      and not exists (
        select from r join requests q
            on q.world_id = r.world_id and q.source_id = r.source_id and q.req_id = r.req_id
        where r.world_id = heads.world_id)
    returning heads.world_id),
e as (
    insert into effects (world_id, global_seq, effect, checksum, kind, source_id, sim_time)
    select u.world_id, u.global_seq, u.effect::json, u.checksum, u.kind, u.source_id, u.sim_time
    from unnest($7::text[], $8::bigint[], $9::text[], $10::bytea[], $11::text[], $12::text[], $13::float8[])
        as u (world_id, global_seq, effect, checksum, kind, source_id, sim_time)
    join h using (world_id)),
q as (
    insert into requests (world_id, source_id, req_id, body_sha256, first_seq, last_seq)
    select r.world_id, r.source_id, r.req_id, r.body_sha256, r.first_seq, r.last_seq from r join h using (world_id))
select world_id from h
"""

#: For the one connection on which the groups of all worlds are written: a head that is locked for long (by a bulk write
#: in another process) must not block the other worlds. Settling waits as long as necessary. And a plan that was made
#: while ``requests`` was nearly empty must not read all of it when it has grown.
FOR_COMMITTING = "set lock_timeout = '250ms'; set enable_seqscan = off"

#: The head, and the checksum of the effect that it names (null where there is none): what is written builds on it.
HEAD = """
select h.head_seq, h.head_checksum, h.sim_time, h.wall_time, e.checksum as last_checksum
from heads h left join effects e on e.world_id = h.world_id and e.global_seq = h.head_seq where h.world_id = $1
"""

#: Take the head's lock; its holder alone decides what comes next. Where the lock had to be waited for, and the head has
#: moved meanwhile, ``last_checksum`` is null: PostgreSQL reads the head again, and not the effect.
LOCK_HEAD = f"{HEAD}for no key update of h"

#: The last effect of each kind about the time authority: $1 world_id, $2 kinds, $3 after, $4 up to a seq.
LAST_OF_AUTHORITY = """
select k.kind, last.global_seq, last.payload from unnest($2::text[]) as k (kind)
cross join lateral (
    select global_seq, (effect -> 'payload')::text as payload from effects e
    where e.world_id = $1 and (e.kind, e.global_seq) > (k.kind, $3) and (e.kind, e.global_seq) <= (k.kind, $4)
    order by e.kind desc, e.global_seq desc limit 1) last
order by last.global_seq
"""

#: The text of a world's genesis.
GENESIS = "select effect::text from effects where world_id = $1 and global_seq = 1"

#: A page of worlds by name with their heads: $1 after world_id, $2 limit.
WORLD_HEADS = """
select world_id, w.ruleset, h.head_seq from worlds w join heads h using (world_id)
where world_id > $1 order by world_id limit $2
"""

HEADS = "select world_id, head_seq from heads where world_id = any($1::text[]) and head_seq is not null"

SET_HEAD = """
update heads set head_seq = $2, head_checksum = $3, sim_time = $4, wall_time = $5, moved = true
where world_id = $1 and head_seq = $6
"""

KNOWN_REQUESTS = """
select q.source_id, q.req_id, q.body_sha256, q.first_seq, q.last_seq
from unnest($2::text[], $3::text[]) as r (source_id, req_id)
join requests q on q.world_id = $1 and q.source_id = r.source_id and q.req_id = r.req_id
"""

#: The effect that a fork goes on from: $1 world_id and $2 global_seq of the parent. No row: no such world.
#: ``wall_time`` is text, because it may have been changed into anything.
FORK_POINT = """
select w.world_uuid, e.world_id is null as is_missing, e.checksum, e.sim_time, e.effect ->> 'wall_time' as wall_time
from worlds w
left join effects e on e.world_id = w.world_id and e.global_seq = $2 where w.world_id = $1
"""

#: Whether an effect ``e`` has an escape that JSON may have and PostgreSQL reads as no text: of a zero character, or of
#: half a surrogate pair. The write gate lets neither pass, so somebody has written past the service. A statement that
#: reads many worlds looks first: otherwise one such text would end it for all of them.
_HAS_UNREADABLE_ESCAPE = r"""
(strpos(e.effect::text, '\u') > 0 and e.effect::text ~ '(^|[^\\])(\\\\)*\\u(0000|[dD][89a-fA-F])')
""".strip()

#: The first effect of a world that PostgreSQL cannot read, although it has stored its text.
UNREADABLE_EFFECT = f"""
select e.global_seq from effects e where e.world_id = $1 and {_HAS_UNREADABLE_ESCAPE} order by e.global_seq limit 1
"""

#: Where those of some worlds ($1) begin that are forks.
FORK_POINTS = f"""
select world_id, fork_of from (
    select e.world_id, case when strpos(e.effect::text, '"fork_of":') > 0 and not {_HAS_UNREADABLE_ESCAPE}
                            then e.effect -> 'payload' ->> 'fork_of' end as fork_of
    from effects e where e.world_id = any($1::text[]) and e.global_seq = 1) genesis
where fork_of is not null
"""

CHECKSUM_AT = "select checksum from effects where world_id = $1 and global_seq = $2"

EFFECT_COLUMNS = ("world_id", "global_seq", "effect", "checksum", "kind", "source_id", "sim_time")
REQUEST_COLUMNS = ("world_id", "source_id", "req_id", "body_sha256", "first_seq", "last_seq")

# -- worlds ------------------------------------------------------------------------------------------------

INSERT_WORLD = """
insert into worlds (world_id, world_uuid, ruleset, ruleset_version, config, experiment, time_authority)
values ($1, $2, $3, $4, $5::text::json, $6, $7) on conflict (world_id) do nothing returning 1
"""

#: The same from a genesis ($5, its stored text), whose config is kept verbatim.
INSERT_WORLD_OF_GENESIS = """
insert into worlds (world_id, world_uuid, ruleset, ruleset_version, config, experiment, time_authority)
values ($1, $2, $3, $4, $5::text::json -> 'payload' -> 'config', $6, $7) on conflict (world_id) do nothing returning 1
"""

#: A row if only the beginning of a world is here: where it ends.
IS_PREFIX = "select h.head_seq from prefixes p join heads h using (world_id) where p.world_id = $1"
INSERT_PREFIX = "insert into prefixes (world_id) values ($1) on conflict do nothing"
DELETE_PREFIX = "delete from prefixes where world_id = $1"

INSERT_HEAD = """
insert into heads (world_id, head_seq, head_checksum, sim_time, wall_time) values ($1, $2, $3, $4, $5)
"""

#: ``created_at`` is null where Python has no such time: the driver could read none of the rows of an answer with it.
WORLD_COLUMNS = f"""
    w.world_id, w.world_uuid, w.ruleset, w.ruleset_version, w.config, w.experiment, w.time_authority,
    case when {is_told("w.created_at")} then w.created_at end as created_at,
    h.head_seq, h.head_checksum, h.sim_time, h.wall_time
"""

WORLD = f"""
select {WORLD_COLUMNS} from worlds w left join heads h using (world_id) where w.world_id = $1
"""

#: A page of worlds by name: $1 after world_id, $2 limit.
WORLDS = f"""
select {WORLD_COLUMNS} from worlds w left join heads h using (world_id)
where w.world_id > $1 order by w.world_id limit $2
"""

#: A page of an experiment's worlds by name: $1 after world_id, $2 limit, $3 experiment.
EXPERIMENT_WORLDS = f"""
select {WORLD_COLUMNS} from worlds w left join heads h using (world_id)
where w.experiment = $3 and w.world_id > $1 order by w.world_id limit $2
"""

#: Which worlds are looked for: a pattern that the name or the experiment is like ($1), the ruleset ($2), the experiment
#: ($3), and whether the last effect came at a time ($4, epoch seconds) or later ($5); null: any.
_LIKE = '($1::text is null or w.world_id collate "C" ilike $1 or w.experiment collate "C" ilike $1)'
_OF_RULESET = "($2::text is null or w.ruleset = $2)"
_OF_EXPERIMENT = "($3::text is null or w.experiment = $3)"
_IS_LIVE = "($5::bool is null or (coalesce(h.wall_time, 0) >= $4::float8) = $5)"
_FOUND_WORLDS = f"""
select {WORLD_COLUMNS} from worlds w left join heads h using (world_id)
where {_LIKE} and {_OF_RULESET} and {_OF_EXPERIMENT} and {_IS_LIVE} and ($6 = '' or {{after}})
order by {{order}} w.world_id limit $7
"""


def _worlds_by(key: str) -> str:
    """Return the statement for the worlds with the greatest value of a key first."""
    of_last = f"(select {key} from worlds w left join heads h using (world_id) where w.world_id = $6)"
    after = f"({key} < {of_last} or ({key} = {of_last} and w.world_id > $6))"
    return _FOUND_WORLDS.format(after=after, order=f"{key} desc,")


#: A page of the worlds that are looked for, in an order: those after a world ($6, '' for the first page), at most $7.
WORLDS_BY = {
    "name": _FOUND_WORLDS.format(after="w.world_id > $6", order=""),
    "created": _worlds_by("w.created_at"),
    "active": _worlds_by("coalesce(h.wall_time, 0)"),
    "effects": _worlds_by("coalesce(h.head_seq, 0)"),
}

#: How many worlds there are of each ruleset, of each experiment, and live ones, each among those that the other filters
#: leave; and how many in all.
WORLD_FACETS = f"""
with found as materialized (
    select w.ruleset, w.experiment, {_OF_RULESET} as a, {_OF_EXPERIMENT} as b, {_IS_LIVE} as c,
           coalesce(h.wall_time, 0) >= $4::float8 as live
    from worlds w left join heads h using (world_id) where {_LIKE})
(select 'rulesets' as facet, ruleset as value, count(*) as worlds from found where b and c
 group by ruleset order by worlds desc, ruleset limit 100)
union all
(select 'experiments', experiment, count(*) as worlds from found where a and c
 group by experiment order by worlds desc, experiment limit 100)
union all (select 'live', null, count(*) from found where a and b and live)
union all (select 'total', null, count(*) from found where a and b and c)
"""

# -- reading -----------------------------------------------------------------------------------------------

#: One batch of rows after $2 up to $3, at most $4 rows and about $5 stored bytes (always at least one row).
_BATCH = """
select global_seq, text, checksum, kind, source_id, sim_time from (
    select global_seq, convert_to(effect::text, 'UTF8') as text, checksum, kind, source_id, sim_time,
           sum(octet_length(effect::text)) over (order by global_seq) - octet_length(effect::text) as before
    from (select * from effects
          where world_id = $1 and global_seq > $2 and global_seq <= $3 {filter}
          order by global_seq limit $4) rows
) sized where before < $5 order by global_seq
"""

BATCH = _BATCH.format(filter="")
BATCH_OF_KIND = _BATCH.format(filter="and kind = $6")
BATCH_OF_SOURCE = _BATCH.format(filter="and source_id = $6")
BATCH_OF_KIND_AND_SOURCE = _BATCH.format(filter="and kind = $6 and source_id = $7")

#: Rows of several worlds in one query, about $4 stored bytes in all (always at least one row). The limit is more than
#: any span needs; it tells the planner that they are few, however large the world, so that it uses the primary key.
#: Spans: $1 world_id, $2 after global_seq, $3 up to global_seq.
GATHER = """
select n, global_seq, text, checksum, kind, source_id, sim_time from (
    select n, global_seq, convert_to(effect::text, 'UTF8') as text, checksum, kind, source_id, sim_time,
           sum(octet_length(effect::text)) over (order by n, global_seq) - octet_length(effect::text) as before
    from unnest($1::text[], $2::bigint[], $3::bigint[]) with ordinality as s (world_id, after_seq, until_seq, n)
    cross join lateral (
        select * from effects e
        where e.world_id = s.world_id and e.global_seq > s.after_seq and e.global_seq <= s.until_seq
        order by e.world_id, e.global_seq limit 10000) e
) sized where before < $4 order by n, global_seq
"""

EFFECT_AT = """
select global_seq, convert_to(effect::text, 'UTF8') as text, checksum, kind, source_id, sim_time
from effects where world_id = $1 and global_seq = $2
"""

#: Effects of several worlds, $1 world_id and $2 global_seq, each with the first one of its request, and the checksum
#: before it (null: the log has no effect there).
EFFECTS_AT = """
select e.world_id, e.global_seq, convert_to(e.effect::text, 'UTF8') as text, e.checksum, e.kind, e.source_id,
       e.sim_time, q.first_seq, case when e.global_seq = 1 then ''::bytea else p.checksum end as previous
from unnest($1::text[], $2::bigint[]) as a (world_id, global_seq)
join effects e on e.world_id = a.world_id and e.global_seq = a.global_seq
left join effects p on p.world_id = a.world_id and p.global_seq = a.global_seq - 1
left join requests q
    on q.world_id = e.world_id and q.source_id = e.source_id and q.req_id = e.effect ->> 'req_id'
"""

#: Of the first $4 effects after a seq ($2) up to $5 that name their cause: the last one (null: there is none), and how
#: many there are. Then, of those whose cause is $3 or later, their seqs and the causes, ordered by the causes; and of
#: those that say something of a cause before the fork point, their seqs and that (as JSON). Keys stand sorted, so the
#: cause stands first in the text.
EFFECTS_CAUSED = """
with looked as materialized (
    select global_seq, split_part(substring(effect::text from 14 for 20), ',', 1) as cause,
           case when starts_with(effect::text, '{"caused_by":1,') and strpos(effect::text, '"inherited_cause":') > 0
               then (effect #> '{source_metadata,inherited_cause}')::text end as inherited
    from effects
    where world_id = $1 and global_seq > $2 and global_seq <= $5 and starts_with(effect::text, '{"caused_by":')
    order by world_id, global_seq limit $4
), read as (
    select global_seq, inherited,
           case when length(cause) between 1 and 16 and translate(cause, '0123456789', '') = ''
               then cause::bigint end as cause
    from looked order by cause, global_seq
)
select max(global_seq) as last_seq, count(*) as looked,
       array_agg(global_seq) filter (where cause between $3 and global_seq - 1) as seqs,
       array_agg(cause) filter (where cause between $3 and global_seq - 1) as causes,
       array_agg(global_seq) filter (where inherited is not null) as inheriting,
       array_agg(inherited) filter (where inherited is not null) as inherited
from read
"""

#: The answer to a repeated request: the effects it made, $2 first to $3 last.
EFFECTS_BETWEEN = """
select global_seq, effect ->> 'uuid' as uuid, checksum, sim_time from effects
where world_id = $1 and global_seq between $2 and $3 order by global_seq
"""

# -- agents -------------------------------------------------------------------------------------------------

#: How far agents have come: $1 world_id, $2 agent_ids.
AGENT_CURSORS = "select agent_id, view_seq from agent_cursors where world_id = $1 and agent_id = any($2::text[])"

#: Move agents' cursors, never backwards: arrays of $1 world_id, $2 agent_id, $3 view_seq, each pair once.
MOVE_CURSORS = """
insert into agent_cursors as c (world_id, agent_id, view_seq)
select * from unnest($1::text[], $2::text[], $3::bigint[]) as u (world_id, agent_id, view_seq)
order by world_id, agent_id
on conflict (world_id, agent_id) do update set view_seq = excluded.view_seq, updated_at = now()
where c.view_seq < excluded.view_seq
"""

# -- ticks --------------------------------------------------------------------------------------------------

#: Take the lock of a world's open tick: its holder holds intents for the tick, or closes it. It is taken before the
#: lock of the head.
LOCK_TICK = "select tick, after_seq, sim_time, source_id from open_ticks where world_id = $1 for update"

#: $1 world_id, $2 tick, $3 after_seq, $4 sim_time, $5 source_id. The first writer counts: all read it from the log.
OPEN_FIRST_TICK = "insert into open_ticks values ($1, $2, $3, $4, $5) on conflict (world_id) do nothing"

#: $1 world_id, $2 tick, $3 after_seq, $4 sim_time, $5 source_id.
OPEN_NEXT_TICK = "update open_ticks set tick = $2, after_seq = $3, sim_time = $4, source_id = $5 where world_id = $1"

#: The newest effect of a kind ($2) up to a seq ($3) that closed a tick; its number is text.
LAST_TICK = """
select global_seq, effect -> 'payload' ->> 'tick' as tick, sim_time, source_id from effects
where world_id = $1 and kind = $2 and global_seq <= $3 and effect -> 'payload' ->> 'tick' is not null
order by world_id desc, kind desc, global_seq desc limit 1
"""

#: What is known of requests ($2 agent_id, $3 req_id) to be held: existing rows, and requests of the log.
#: ``made_from`` is the intent's context_seq, cut from its canonical text: JSON that cannot be read ends no statement.
HELD_OR_KNOWN = r"""
select a.agent_id, a.req_id, h.tick, h.place, h.body_sha256, h.context_seq, h.outcome,
       substring(h.intent::text from '[{,]"context_seq":(\d{1,16})[,}]')::bigint as made_from,
       q.body_sha256 as known_sha256, q.first_seq, q.last_seq
from unnest($2::text[], $3::text[]) as a (agent_id, req_id)
left join held_intents h on h.world_id = $1 and h.agent_id = a.agent_id and h.req_id = a.req_id
left join requests q on q.world_id = $1 and q.source_id = a.agent_id and q.req_id = a.req_id
where h.req_id is not null or q.req_id is not null
"""

#: How much is held for the open tick: a row for each of these agents ($2) with its count and the last place that was
#: counted for it, and one (agent_id null) for the world with its count and bytes.
HELD_NOW = """
select agent_id, count(*) as held, coalesce(max(place) filter (where counted), 0) as counted_to, 0::bigint as bytes
from held_intents where world_id = $1 and agent_id = any($2::text[]) and outcome is null group by agent_id
union all
select null, count(*), 0, coalesce(sum(bytes), 0)::bigint from held_intents where world_id = $1 and outcome is null
"""

#: Hold intents: a value for the world ($1) and the tick ($2), and an array for each other column. Rows that an earlier
#: tick refused are replaced.
HOLD = """
insert into held_intents (world_id, tick, agent_id, req_id, place, counted, intent, body_sha256, context_seq, list_id,
                          list_index, list_atomic, list_ordered, bytes)
select $1, $2, u.agent_id, u.req_id, u.place, u.counted, u.intent::json, u.body_sha256, u.context_seq, u.list_id,
       u.list_index, u.list_atomic, u.list_ordered, octet_length(u.intent)
from unnest($3::text[], $4::text[], $5::bigint[], $6::boolean[], $7::text[], $8::bytea[], $9::bigint[], $10::uuid[],
            $11::integer[], $12::boolean[], $13::boolean[])
    as u (agent_id, req_id, place, counted, intent, body_sha256, context_seq, list_id, list_index, list_atomic,
          list_ordered)
on conflict (world_id, agent_id, req_id) do update set
    tick = excluded.tick, place = excluded.place, counted = excluded.counted, intent = excluded.intent,
    body_sha256 = excluded.body_sha256, context_seq = excluded.context_seq, list_id = excluded.list_id,
    list_index = excluded.list_index, list_atomic = excluded.list_atomic, list_ordered = excluded.list_ordered,
    bytes = excluded.bytes, received_at = excluded.received_at, outcome = null
"""

#: Everything that is held for the open tick of a world.
HELD = """
select agent_id, req_id, tick, place, intent::text as intent, list_id, list_index, list_atomic, list_ordered
from held_intents where world_id = $1 and outcome is null order by agent_id, req_id
"""

#: Keep why intents were refused, for later requests: $1 world_id, $2 agent_id, $3 req_id, $4 outcome.
REFUSE_HELD = """
update held_intents h set outcome = u.outcome::json
from unnest($2::text[], $3::text[], $4::text[]) as u (agent_id, req_id, outcome)
where h.world_id = $1 and h.agent_id = u.agent_id and h.req_id = u.req_id
"""

#: Remove accepted intents, and refusals by an earlier tick ($2, or one before it).
CLEAR_HELD = "delete from held_intents where world_id = $1 and (outcome is null or tick <= $2)"

#: While a tick is closed its intents are judged in one transaction, whose session is idle meanwhile.
FOR_CLOSING = "set local idle_in_transaction_session_timeout = '60s'"

# -- verification ------------------------------------------------------------------------------------------

#: In one snapshot: the world's head and the last seq that is actually in the log.
EXTENT = """
select h.world_id is not null as has_head, h.head_seq, coalesce(h.head_checksum, ''::bytea) as head_checksum,
       h.sim_time, h.wall_time,
       (select max(global_seq) from effects where world_id = $1) as last_seq,
       (select min(global_seq) from effects where world_id = $1) as first_seq,
       exists (select from requests where world_id = $1) as has_requests,
       exists (select from prefixes where world_id = $1) as is_prefix,
       case when not exists (
           select from pg_catalog.pg_constraint where conrelid = 'public.effects'::regclass and contype = 'p'
           and pg_catalog.pg_get_constraintdef(oid) = 'PRIMARY KEY (world_id, global_seq)')
       then (select min(coalesce(global_seq, 0)) from (
           select global_seq from effects where world_id = $1 group by global_seq
           having global_seq is null or count(*) > 1) wrong) end as wrong_place
from (select $1::text as world_id) asked left join heads h using (world_id)
"""

#: Whether an effect of a world up to the seq $2 is of another source than $3. One of the first is, as a rule.
HAS_BEGUN = """
select exists (select from effects where world_id = $1 and global_seq <= $2 and source_id <> $3) as has_begun
"""

#: For the transaction in which rows of requests are compared, and wait meanwhile.
FOR_COMPARING = "set local idle_in_transaction_session_timeout = '10min'"

_REQUESTS = """
select {columns}
from requests q
where q.world_id = $1
and (q.first_seq is null or q.last_seq is null
     or ($2::bigint is null or q.first_seq > $2)
        and (q.first_seq <= $3 or q.last_seq > coalesce((select head_seq from heads where world_id = $1), 0)))
"""
_IN_ORDER = "order by q.first_seq, q.source_id, q.req_id"

#: The rows of a world's requests, in the order of the log: those after the effect $2 (null: all), up to the effect $3,
#: and all beyond the head.
REQUESTS_IN_ORDER = (
    _REQUESTS.format(columns="q.source_id, q.req_id, q.body_sha256, q.first_seq, q.last_seq") + _IN_ORDER
)
#: The same, to be copied out as they are stored; `worldledger_service.store.request_rows.copied` writes the same bytes.
COPY_OF_STORED_REQUESTS = _REQUESTS.format(columns="q.source_id, q.body_sha256, q.first_seq, q.last_seq, q.req_id")
COPY_OF_REQUESTS = COPY_OF_STORED_REQUESTS + _IN_ORDER
#: For the transaction of the former: the rows come from one process, in the order in which they lie in the table.
FOR_STORED_ORDER = """
set local enable_indexscan = off; set local max_parallel_workers_per_gather = 0; set local synchronize_seqscans = off
"""

#: Whether a request of a world has two rows, of those after the effect $2 (null: all): the primary key may be gone.
ANY_REQUEST_TWICE = """
select exists (
    select from requests
    where world_id = $1 and ($2::bigint is null or first_seq > $2)
    group by source_id, req_id having count(*) > 1)
"""

#: Allow the owner to remove rows of requests, and refuse it again: within one transaction.
GUARDS_OF_REQUESTS_DOWN = (
    "grant delete on requests to worldledger_owner",
    "alter table requests disable trigger requests_append_only",
)
GUARDS_OF_REQUESTS_UP = (
    "alter table requests enable always trigger requests_append_only",
    "revoke delete on requests from worldledger_owner",
)

#: Remove rows of a world's requests, exactly as they were read: $1 world_id, and an array for each other column.
REMOVE_REQUESTS = """
delete from requests q
using unnest($2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::bigint[])
    as u (source_id, req_id, body_sha256, first_seq, last_seq)
where q.world_id = $1 and q.source_id = u.source_id and q.req_id = u.req_id
and (q.body_sha256, q.first_seq, q.last_seq) is not distinct from (u.body_sha256, u.first_seq, u.last_seq)
"""

#: The same of rows that have no source_id or no req_id, which is never right. $1 world_id.
REMOVE_UNNAMED_REQUESTS = "delete from requests where world_id = $1 and (source_id is null or req_id is null)"

#: Write requests that follow from the log: $1 world_id, arrays of $2 body_sha256, $3 first_seq, $4 last_seq.
WRITE_REQUESTS_OF_EFFECTS = """
insert into requests (world_id, source_id, req_id, body_sha256, first_seq, last_seq)
select e.world_id, e.source_id, e.effect ->> 'req_id', u.body_sha256, u.first_seq, u.last_seq
from unnest($2::bytea[], $3::bigint[], $4::bigint[]) as u (body_sha256, first_seq, last_seq)
join effects e on e.world_id = $1 and e.global_seq = u.first_seq
"""

#: The next 500 names from $1 on in any of the tables. Distinct names of ``effects`` and ``requests`` are found by
#: skipping along their primary keys, so that the cost is per world and not per row.
EVERY_WORLD = """
with recursive hop as (
    (select world_id, 1 as n from effects where world_id >= $1 order by world_id limit 1)
    union all
    select (select e.world_id from effects e where e.world_id > hop.world_id order by e.world_id limit 1), n + 1
    from hop where hop.world_id is not null and n < 500),
asked as (
    (select world_id, 1 as n from requests where world_id >= $1 order by world_id limit 1)
    union all
    select (select q.world_id from requests q where q.world_id > asked.world_id order by q.world_id limit 1), n + 1
    from asked where asked.world_id is not null and n < 500)
select world_id from (
    select world_id from hop where world_id is not null
    union (select world_id from asked where world_id is not null)
    union (select world_id from worlds where world_id >= $1 order by world_id limit 500)
    union (select world_id from heads where world_id >= $1 order by world_id limit 500)
    union (select world_id from prefixes where world_id >= $1 order by world_id limit 500)
) named order by world_id limit 500
"""

#: How many rows of each table of the log belong to no world.
WITHOUT_WORLD = """
select 'worlds' as "table", count(*) as rows from worlds where world_id is null
union all select 'heads', count(*) from heads where world_id is null
union all select 'effects', count(*) from effects where world_id is null
union all select 'requests', count(*) from requests where world_id is null
"""

# -- states ------------------------------------------------------------------------------------------------

#: The facts of the genesis of some worlds ($1) that decide how each is handled: its ruleset, the spacing of snapshots,
#: its agents' service.
WORLD_RULES = f"""
select w.world_id, w.ruleset, e.effect -> 'payload' ->> 'snapshot_every' as snapshot_every,
       e.effect -> 'payload' ->> 'orchestrator' as orchestrator, e.effect -> 'payload' ->> 'order' as "order",
       e.effect -> 'payload' ->> 'fork_of' as fork_of
from worlds w left join effects e on e.world_id = w.world_id and e.global_seq = 1 and not {_HAS_UNREADABLE_ESCAPE}
where w.world_id = any($1::text[])
"""

_SNAPSHOT = """
select s.global_seq, s.checksum, s.ruleset, s.state_digest, s.state::text as state, e.checksum as chained,
       d.state_digest as logged
from snapshots s
left join effects e on e.world_id = s.world_id and e.global_seq = s.global_seq
left join lateral (
    select f.effect -> 'payload' ->> 'state_digest' as state_digest
    from requests q join effects f on f.world_id = q.world_id and f.global_seq = q.first_seq
    where q.world_id = s.world_id and q.source_id = 'worldledger' and q.req_id = 'digest:' || s.global_seq
      and f.kind = 'StateDigest' and f.effect -> 'payload' ->> 'ruleset_version' = s.ruleset_version::text
) d on true
where s.world_id = $1 and s.global_seq {places} and s.ruleset_version = $3
order by s.global_seq {order}
"""
#: The newest snapshot of a ruleset's version ($3) at or before a seq ($2), with what the log has at that place: the
#: checksum there, and the state digest that was written for it, if any.
SNAPSHOT_BEFORE = _SNAPSHOT.format(places="between 1 and $2", order="desc limit 1")
#: The snapshots at some seqs ($2), ascending, likewise.
SNAPSHOTS_AT = _SNAPSHOT.format(places="= any($2::bigint[])", order="asc")

#: Where a world has snapshots of a ruleset's version ($2) between two seqs, ascending; and the last one before them.
SNAPSHOT_PLACES = """
select global_seq, state_bytes from snapshots
where world_id = $1 and ruleset_version = $2 and global_seq <= $4 and global_seq >= coalesce(
    (select max(global_seq) from snapshots
     where world_id = $1 and ruleset_version = $2 and global_seq between 1 and $3), 1)
order by global_seq
"""

SNAPSHOT_AFTER = "select 1 from snapshots where world_id = $1 and global_seq > $2 and ruleset_version = $3 limit 1"

#: $1 world_id, $2 global_seq, $3 checksum, $4 ruleset, $5 ruleset_version, $6 state_digest, $7 state, $8 state_bytes.
#: An existing snapshot of that seq is stale, damaged or the same: it is replaced.
WRITE_SNAPSHOTS = """
insert into snapshots (world_id, global_seq, checksum, ruleset, ruleset_version, state_digest, state, state_bytes)
select $1, t.global_seq, t.checksum, $2, $3, t.state_digest, t.state::json, t.state_bytes
from unnest($4::bigint[], $5::bytea[], $6::bytea[], $7::text[], $8::bigint[])
    as t (global_seq, checksum, state_digest, state, state_bytes)
on conflict (world_id, global_seq) do update set
    checksum = excluded.checksum, ruleset = excluded.ruleset, ruleset_version = excluded.ruleset_version,
    state_digest = excluded.state_digest, state = excluded.state, state_bytes = excluded.state_bytes,
    created_at = excluded.created_at
"""

#: If there are more than $2 snapshots of a world, every second one of the older half is deleted.
THIN_SNAPSHOTS = """
delete from snapshots where world_id = $1 and global_seq in (
    select global_seq from (
        select global_seq, row_number() over (order by global_seq) as n, count(*) over () as count
        from snapshots where world_id = $1) numbered
    where count > $2 and n <= count / 2 and n % 2 = 1)
returning global_seq
"""

#: Whether only the digest of a snapshot ($2 its seq) came after it, up to the head ($3).
ONLY_A_DIGEST_SINCE = """
select 1 from requests q
where q.world_id = $1 and q.source_id = 'worldledger' and q.req_id = 'digest:' || $2::bigint and q.last_seq = $3
  and $3::bigint = $2::bigint + 1
  and exists (select from effects where world_id = $1 and global_seq = $3 and kind = 'StateDigest')
"""

#: A page of a world's snapshots: $1 world_id, $2 after global_seq, $3 limit.
SNAPSHOTS = """
select s.global_seq, s.checksum, s.ruleset, s.ruleset_version, s.state_digest, s.state_bytes, s.created_at,
       q.first_seq as digest_seq, c.checksum as chained
from snapshots s
left join effects c on c.world_id = s.world_id and c.global_seq = s.global_seq
left join lateral (
    select r.first_seq from requests r
    join effects e on e.world_id = r.world_id and e.global_seq = r.first_seq and e.kind = 'StateDigest'
    where r.world_id = s.world_id and r.source_id = 'worldledger' and r.req_id = 'digest:' || s.global_seq) q on true
where s.world_id = $1 and s.global_seq > $2 order by s.global_seq limit $3
"""

#: The last seq at or before a time: binary search on the key, because times never decrease along it. {time} is an
#: expression over an effect. $1 world_id, $2 head_seq, $3 the time. Returns 0 if every effect came later.
_SEQ_AT = """
with recursive search (low, high) as (
    select 0::bigint, $2::bigint
    union all
    select case when here.time <= $3 then middle else low end, case when here.time <= $3 then high else middle - 1 end
    from search
    cross join lateral (select (low + high + 1) / 2 as middle) m
    cross join lateral (
        select coalesce((select {time} from effects where world_id = $1 and global_seq = middle), 'NaN') as time) here
    where low < high)
select low from search where low = high
"""

SEQ_AT_SIM_TIME = _SEQ_AT.format(time="sim_time")
SEQ_AT_WALL_TIME = _SEQ_AT.format(time="(effect ->> 'wall_time')::float8")

_UNIT_BEGINS = """
select global_seq from effects
where world_id = $1 and kind = any($3) and global_seq <= $2
and effect -> 'payload' ->> $4 = $5 order by global_seq {order} limit 1
"""
#: Where a unit begins: the first effect of some kinds ($3) up to a seq ($2) whose payload has a number ($5, as text) in
#: a member ($4); if a number begins twice, the last one.
UNIT_BEGINS = _UNIT_BEGINS.format(order="asc")
UNIT_BEGINS_LAST = _UNIT_BEGINS.format(order="desc")

#: The first effect of some kinds ($4) between two seqs.
FIRST_OF_KINDS = """
select global_seq from effects
where world_id = $1 and global_seq > $2 and global_seq <= $3 and kind = any($4) order by global_seq limit 1
"""

#: The last number that a member ($4) of the payload has in an effect of some kinds ($3), up to a seq ($2).
LAST_UNIT = """
select effect -> 'payload' ->> $4 as number from effects
where world_id = $1 and kind = any($3) and global_seq <= $2
order by global_seq desc limit 1
"""

#: The kinds of a world's effects up to a seq ($2), sorted, each found by one index lookup.
KINDS_OF_WORLD = """
with recursive known as (
    (select kind from effects where world_id = $1 and global_seq <= $2 order by kind limit 1)
    union all
    select (select e.kind from effects e
            where e.world_id = $1 and e.kind > known.kind and e.global_seq <= $2 order by e.kind limit 1)
    from known where known.kind is not null)
select kind from known where kind is not null
"""

#: The last effect of some kinds ($3) of a world up to a seq ($2).
LAST_OF_KINDS = """
select convert_to(effect::text, 'UTF8') as text from effects
where world_id = $1 and kind = any($3) and global_seq <= $2
order by global_seq desc limit 1
"""

#: How many effects of each kind a world has after a seq ($2), up to another ($3).
KIND_COUNTS = """
select kind, count(*) as count from effects
where world_id = $1 and global_seq > $2 and global_seq <= $3 group by kind
"""

_SEARCH = """
select global_seq, kind, source_id, sim_time, (effect -> 'payload')::text as payload from effects
where world_id = $1 and global_seq > $2 and global_seq <= $3
and ($6::text is null or kind = $6) and ($7::text is null or source_id = $7)
and ($8::text is null or strpos(effect::text collate "C", $8) > 0)
and strpos(lower(effect::text collate "C"), $4) > 0
and strpos(lower((effect -> 'payload')::text collate "C"), $4) > 0
order by global_seq {order} limit $5
"""
#: The effects between two seqs ($2, $3) whose payload has a text ($4, in lower case) without regard to the case of A-Z,
#: of a kind ($6) and a source ($7) or any (null), at most $5. What costs less comes first: whether the whole text has a
#: part of $4 without letters ($8, or null), which needs no lower case; then all of $4, which needs no parsing. strpos
#: takes half the time of ilike.
SEARCH_NEWEST = _SEARCH.format(order="desc")
SEARCH_OLDEST = _SEARCH.format(order="asc")

#: The sim_time of each of a world's effects up to a seq ($2), in order.
SIM_TIMES = """
select array_agg(global_seq order by global_seq) as seqs, array_agg(sim_time order by global_seq) as sim_times
from effects where world_id = $1 and global_seq between 1 and $2
"""

#: The sim_time of about so many ($3) effects, evenly spread, of each of some worlds ($1) up to their heads ($2). The
#: first is the one after the genesis, which may lie long before all others.
SPREAD_TIMES = """
select w.world_id, array_agg(e.global_seq order by e.global_seq) as seqs,
    array_agg(e.sim_time order by e.global_seq) as sim_times
from unnest($1::text[], $2::bigint[]) as w (world_id, head_seq)
cross join lateral (
    select distinct least(2 + (w.head_seq - 2) * n / $3::bigint, w.head_seq) as global_seq
    from generate_series(0, $3::bigint) as n
) s
join effects e on e.world_id = w.world_id and e.global_seq = s.global_seq
group by w.world_id
"""

#: How many effects of each kind lie between one end ($3, ascending seqs) and the next, up to a seq ($2).
COUNT_BY_ENDS = """
select width_bucket(global_seq - 1, $3::bigint[]) as bin, kind, count(*) as effects
from effects where world_id = $1 and global_seq between 1 and $2 group by 1, 2
"""

#: What the projection ``effect_counts`` has of a world up to a seq ($2).
STRETCHES = """
select last_seq, last_sim_time, kinds::text as kinds, other_kinds
from projections.effect_counts where world_id = $1 and last_seq <= $2 order by stretch
"""

#: The same from the log, between two seqs, by stretches of $4 effects.
COUNT_STRETCHES = """
select c.last_seq, e.sim_time as last_sim_time, c.kinds, 0::bigint as other_kinds
from (
    select max(last_seq) as last_seq, json_object_agg(kind, effects)::text as kinds
    from (select (global_seq - 1) / $4::bigint as stretch, kind, count(*) as effects, max(global_seq) as last_seq
          from effects where world_id = $1 and global_seq > $2 and global_seq <= $3 group by 1, 2) k
    group by stretch) c
join effects e on e.world_id = $1 and e.global_seq = c.last_seq
order by c.last_seq
"""

#: Where the units of a world begin: the effects of some kinds ($3) up to a seq ($2), with a member ($4) of the payload.
UNIT_BEGINNINGS = """
select global_seq, effect -> 'payload' ->> $4 as number from effects
where world_id = $1 and kind = any($3) and global_seq <= $2 order by global_seq
"""

#: The sources of a world's effects up to a seq ($2).
SOURCES_OF_WORLD = """
select distinct source_id from effects where world_id = $1 and global_seq <= $2 order by source_id limit 1000
"""

#: The names of worlds around a name ($1), in their order: suggestions for a name that does not exist.
NAMES_AROUND = """
(select world_id from worlds where world_id < $1 order by world_id desc limit 200)
union all (select world_id from worlds where world_id >= $1 order by world_id limit 200)
"""

#: The names of worlds from a text ($1) on, in their order.
NAMES_FROM = "select world_id from worlds where world_id >= $1 order by world_id limit $2"

#: The rulesets of worlds, by name, and how many worlds each has.
RULESETS = "select ruleset, count(*) as worlds from worlds group by ruleset order by ruleset"

#: All experiments, by name, each found by one index lookup.
EXPERIMENTS = """
with recursive known as (
    (select experiment from worlds where experiment is not null order by experiment limit 1)
    union all
    select (select w.experiment from worlds w where w.experiment > known.experiment order by w.experiment limit 1)
    from known where known.experiment is not null)
select experiment from known where experiment is not null limit 1000
"""

#: The n-th ($2) effect of a world that is of none of some kinds ($3): n and as many as those kinds have up to there.
NTH_NOT_OF_KINDS = """
with recursive search as (
    select $2::bigint as seq
    union
    select $2 + (select count(*) from effects where world_id = $1 and kind = any($3) and global_seq <= search.seq)
    from search)
select max(seq) from search
"""

#: How many effects of a world up to a seq ($2) are of none of some kinds ($3).
NOT_OF_KINDS = """
select $2::bigint - count(*) from effects where world_id = $1 and kind = any($3) and global_seq <= $2
"""

#: The state digests in a world's log, ascending.
STATE_DIGESTS = """
select global_seq, (effect -> 'payload')::text as payload from effects
where world_id = $1 and kind = 'StateDigest' and global_seq <= $2 order by global_seq
"""

#: The snapshots of a world ($1): ``text_digest`` is what the snapshot's digest should be, ``chained`` the checksum in
#: the log.
SNAPSHOT_DIGESTS = """
select s.global_seq, s.state_digest, s.ruleset, s.ruleset_version, s.checksum, e.checksum as chained,
       sha256(convert_to(s.state::text, 'UTF8')) as text_digest
from snapshots s left join effects e on e.world_id = s.world_id and e.global_seq = s.global_seq
where s.world_id = $1 order by s.global_seq
"""


# -- sending groups to the database: which statement for which shape of group ------------------------------------


async def write_groups(connection: asyncpg.Connection | PooledConnection, groups: list[Group]) -> set[str]:
    """Write groups, each if its head is still the known one; return the worlds that were written."""
    if len(groups) == 1 and not groups[0].requests:
        group = groups[0]
        before, after = group.before, group.after
        if len(group.texts) == 1:
            status = await connection.execute(
                APPEND_ONE,
                group.world_id,
                before.seq,
                group.texts[0],
                after.checksum,
                after.sim_time,
                after.wall_time,
                group.kinds[0],
                group.sources[0],
            )
        else:
            status = await connection.execute(
                APPEND_MANY,
                group.world_id,
                before.seq,
                after.checksum,
                after.sim_time,
                after.wall_time,
                group.texts,
                group.checksums,
                group.kinds,
                group.sources,
                group.sim_times,
            )
        return {group.world_id} if status != "INSERT 0 0" else set()
    effects: list[tuple[str, int, str, bytes, str, str, float]] = []
    requests: list[tuple[str, str, str, bytes, int, int]] = []
    for group in groups:
        seqs = range(group.before.seq + 1, group.after.seq + 1)
        names = [group.world_id] * len(seqs)
        effects += zip(
            names, seqs, group.texts, group.checksums, group.kinds, group.sources, group.sim_times, strict=True
        )
        requests += [(group.world_id, *request) for request in group.requests]
    rows = await connection.fetch(
        APPEND_GROUPS,
        [group.world_id for group in groups],
        [group.before.seq for group in groups],
        [group.after.seq for group in groups],
        [group.after.checksum for group in groups],
        [group.after.sim_time for group in groups],
        [group.after.wall_time for group in groups],
        *_columns(effects, 7),
        *_columns(requests, 6),
    )
    return {row["world_id"] for row in rows}


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[Sequence[Any]]:
    return list(zip(*rows, strict=True)) if rows else [()] * width
