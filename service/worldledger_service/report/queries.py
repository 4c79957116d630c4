"""Every question of a report by its name: over the views of the schema ``analytics``, and nothing else.

``$1`` is the experiment. Rows come in an order that the log alone decides, and means are taken in numeric, which is
exact: so the same log gives the same report, in whatever order rows lie on the disk. Recorded values may be anything
that a double or a bigint holds; what is worked out from them is kept within these.
"""

from __future__ import annotations

from typing import Final

_MOST: Final = {"double precision": "1e308", "bigint": "9e18"}


def within(value: str, kind: str) -> str:
    """Return the SQL for a numeric value as a double precision or bigint, at the end of its range if beyond it."""
    most = _MOST[kind]
    return f"case when {value} is not null then greatest(least({value}, {most}), -{most}) end::{kind}"


# -- of any experiment: its worlds, their heads, its effects, what was refused, and how far projections are -----

#: Every experiment's name, for who mistyped one. From analytics.experiments.
EXPERIMENTS: Final = "select experiment from analytics.experiments order by experiment limit 10000"

#: The moment that everything is read at.
NOW: Final = "select now()"

#: The experiment's rulesets with their worlds and effects. From analytics.worlds.
RULESETS: Final = """
select ruleset, count(*) as worlds, sum(head_seq)::bigint as effects, min(head_seq) as least,
       percentile_disc(0.5) within group (order by head_seq) as middle, max(head_seq) as most,
       max(last_recorded_at) as last_recorded_at
from analytics.worlds w
where experiment = $1 and w.world_id not in (select f.world_id from analytics.forks f)
group by ruleset
order by ruleset
"""

#: How many forks it has, which are left out. From analytics.forks.
FORKS: Final = "select count(*) from analytics.forks where experiment = $1"

#: When the first of its worlds began. From analytics.world_created.
BEGAN: Final = "select min(recorded_at) from analytics.world_created where experiment = $1"

#: One digest of all heads: SHA-256 of lines "world_id head_seq head_checksum", by world_id. From analytics.worlds.
HEADS: Final = """
select encode(sha256(convert_to(
    string_agg(format(E'%s %s %s\\n', world_id, head_seq, head_checksum), '' order by world_id), 'UTF8')), 'hex')
from analytics.worlds w
where experiment = $1 and w.world_id not in (select f.world_id from analytics.forks f)
"""

#: The worlds with the most effects, $2 of them. From analytics.worlds.
WORLDS: Final = """
select world_id, ruleset, head_seq, head_checksum, last_recorded_at
from analytics.worlds w
where experiment = $1 and w.world_id not in (select f.world_id from analytics.forks f)
order by head_seq desc, world_id
limit $2
"""

#: How many worlds have how many effects, in steps of $2. From analytics.worlds.
EFFECTS_OF_WORLDS: Final = """
select head_seq / $2 as step, count(*) as worlds
from analytics.worlds w
where experiment = $1 and w.world_id not in (select f.world_id from analytics.forks f)
group by 1
order by 1
"""

#: Its effects by kind. From analytics.effects; no effect's text is read.
KINDS: Final = """
select kind, sum(effects)::bigint as effects, count(*) as worlds
from (select world_id, kind, count(*) as effects from analytics.effects where experiment = $1 group by 1, 2) e
group by kind
order by effects desc, kind
"""

#: Intents that were refused, by the error and rule; $2 kinds of refusal. From analytics.intents.
REFUSED: Final = """
select code, rule, count(*) as intents, count(distinct agent_id) as agents, min(reason collate "C") as example,
       count(*) over () as refusals
from analytics.intents
where experiment = $1 and not is_accepted
group by code, rule
order by intents desc, code collate "C", rule collate "C"
limit $2
"""

#: Its generations by model. From analytics.generations.
MODELS: Final = f"""
select model, count(*) as generations,
       count(*) filter (where outcome in ('interrupted', 'stale')) as interrupted,
       count(*) filter (where outcome in ('failed', 'lost')) as failed,
       percentile_disc(0.5) within group (order by first_token_ms) / 1000 as first_token_s,
       percentile_disc(0.5) within group (order by took_ms) / 1000 as took_s,
       {within("sum(tokens_in)", "bigint")} as tokens_in, {within("sum(tokens_out)", "bigint")} as tokens_out,
       {within("sum(tokens_out) filter (where outcome in ('interrupted', 'stale'))", "bigint")} as tokens_lost,
       {within("sum(price::numeric)", "double precision")} as price, currency,
       count(*) filter (where tokens_in is null and tokens_out is not null) as uncounted, count(*) over () as groups
from analytics.generations
where experiment = $1 and model is not null
group by model, currency
order by generations desc, model collate "C", currency collate "C"
limit $2
"""

#: Which of the views $1 are there: those of projections appear with their first build.
THERE: Final = "select name from unnest($1::text[]) n (name) where to_regclass('analytics.' || name) is not null"

#: How far the projections $2 are behind in worlds of the experiment; ``$3``: the rulesets that each of them reads,
#: separated by blanks, null for all. From analytics.projection_backlog and analytics.projections.
BEHIND: Final = """
select b.projection, count(*) as worlds, sum(b.effects_behind)::bigint as effects,
       count(*) filter (where b.is_parked) as parked, count(*) filter (where b.reached_seq = 0) as unread,
       bool_or(p.is_paused) as is_paused
from analytics.projection_backlog b
join analytics.projections p on p.build = b.build and p.status = 'live'
join unnest($2::text[], $3::text[]) r (projection, rulesets) on r.projection = b.projection
where b.experiment = $1 and b.world_id not in (select f.world_id from analytics.forks f)
  and (r.rulesets is null or b.ruleset = any(string_to_array(r.rulesets, ' ')))
group by b.projection
order by b.projection
"""
