"""About social-RL runs."""

from __future__ import annotations

from typing import Final

from worldledger_service.report.queries import within

#: The runs by condition and seed, $2 of them. From analytics.social_runs.
RUNS: Final = """
select run_id, condition, seed, model, rounds, messages, agents, world_id, count(*) over () as runs
from analytics.social_runs
where experiment = $1
order by condition, seed, run_id, world_id
limit $2
"""

#: The conditions, those first with the most runs. From analytics.social_runs.
CONDITIONS: Final = """
select condition, count(*) as runs, count(distinct seed) as seeds, sum(rounds)::bigint as rounds,
       sum(messages)::bigint as messages
from analytics.social_runs
where experiment = $1
group by condition
order by runs desc, condition
"""

#: Feedback by round and condition: means of the runs' means, and how far these spread. From analytics.rounds and
#: analytics.social_runs.
ROUNDS: Final = f"""
select r.condition, o.round_number, count(*) as runs,
       avg(o.mean_engagement::numeric)::double precision as engagement,
       {within("stddev_samp(o.mean_engagement::numeric)", "double precision")} as engagement_spread,
       avg(o.mean_alignment::numeric)::double precision as alignment,
       {within("stddev_samp(o.mean_alignment::numeric)", "double precision")} as alignment_spread,
       avg(o.mean_contribution::numeric)::double precision as contribution,
       {within("stddev_samp(o.mean_contribution::numeric)", "double precision")} as contribution_spread
from analytics.rounds o
join analytics.social_runs r on r.world_id = o.world_id
where o.experiment = $1 and coalesce(o.mean_engagement, o.mean_alignment, o.mean_contribution) is not null
group by r.condition, o.round_number
order by r.condition, o.round_number
"""

#: The runs' means round by round, at most $2 of them. From analytics.rounds and analytics.social_runs.
POINTS: Final = """
select r.condition, o.round_number, o.mean_engagement, o.mean_alignment, o.mean_contribution
from analytics.rounds o
join analytics.social_runs r on r.world_id = o.world_id
where o.experiment = $1 and coalesce(o.mean_engagement, o.mean_alignment, o.mean_contribution) is not null
order by r.condition, o.round_number, o.world_id
limit $2
"""

#: Adaptations by cue and type, $2 kinds of them. From analytics.policy_adaptations.
ADAPTATIONS: Final = """
select cue, adaptation_type, count(*) as adaptations, count(distinct world_id) as runs,
       avg(intensity::numeric)::double precision as intensity, count(*) over () as kinds
from analytics.policy_adaptations
where experiment = $1
group by cue, adaptation_type
order by adaptations desc, cue, adaptation_type
limit $2
"""

#: Adaptations that are told as changes of the measures, by condition and round, as older runs have them. From
#: analytics.policy_adaptations and analytics.social_runs.
DELTAS: Final = """
select r.condition, a.round_number, count(*) as adaptations,
       avg(a.engagement_delta::numeric)::double precision as engagement,
       avg(a.alignment_delta::numeric)::double precision as alignment,
       avg(a.contribution_delta::numeric)::double precision as contribution
from analytics.policy_adaptations a
join analytics.social_runs r on r.world_id = a.world_id
where a.experiment = $1 and coalesce(a.engagement_delta, a.alignment_delta, a.contribution_delta) is not null
group by r.condition, a.round_number
order by r.condition, a.round_number
"""

#: The alignment of an agent before and after a cue was activated for it: its feedback before and the next one.
#: A cue that is null stands for the spans between two feedbacks in which none was activated.
#: From analytics.feedback and analytics.policy_adaptations.
_PAIRS: Final = """
with given as materialized (
    select world_id, agent_id, global_seq as after_seq, previous_alignment as before, theoretical_alignment as after,
           coalesce(lag(global_seq) over (partition by world_id, agent_id order by global_seq), 0) as before_seq
    from analytics.feedback
    where experiment = $1
), pairs as (
    select a.cue, g.world_id, a.global_seq, g.before, g.after
    from analytics.policy_adaptations a
    join given g on g.world_id = a.world_id and g.agent_id = a.agent_id
        and a.global_seq > g.before_seq and a.global_seq < g.after_seq
    where a.experiment = $1 and a.adaptation_type = 'activate_cue' and a.cue is not null
    union all
    select null, g.world_id, g.after_seq, g.before, g.after
    from given g
    where not exists (
        select from analytics.policy_adaptations a
        where a.world_id = g.world_id and a.agent_id = g.agent_id and a.adaptation_type = 'activate_cue'
          and a.global_seq > g.before_seq and a.global_seq < g.after_seq)
)
"""

#: By cue: how often it was activated between two feedbacks, and what became of the alignment; $2 of them.
CUES: Final = f"""{_PAIRS}
select cue, count(*) as pairs, avg(before::numeric)::double precision as before,
       avg(after::numeric)::double precision as after,
       {within("avg(after::numeric - before::numeric)", "double precision")} as change,
       {within("stddev_samp(after::numeric - before::numeric)", "double precision")} as spread,
       count(*) filter (where after > before) as risen, count(*) over () as cues
from pairs
where before is not null and after is not null
group by cue
order by cue is null, pairs desc, cue
limit $2
"""

#: The single pairs of the cues $2, at most $3 of each.
CUE_PAIRS: Final = f"""{_PAIRS}
select cue, before, after
from (
    select cue, before, after, row_number() over (partition by cue order by world_id, global_seq) as place
    from pairs
    where before is not null and after is not null and (cue = any($2) or cue is null)) p
where place <= $3
order by cue, place
"""

#: Who was referred to and answered, $2 agents. From analytics.feedback.
REFERENCES: Final = f"""
select agent_id, agent_role, count(*) as feedbacks, {within("sum(direct_references)", "bigint")} as referred,
       {within("sum(response_received)", "bigint")} as answered,
       {within("sum(analyst_mentions)", "bigint")} as mentioned,
       avg(synthesis_inclusion::numeric)::double precision as inclusion, count(*) over () as agents
from analytics.feedback
where experiment = $1
group by agent_id, agent_role
having sum(coalesce(direct_references, 0) + coalesce(response_received, 0)) > 0
order by sum(coalesce(direct_references, 0) + coalesce(response_received, 0)) desc, agent_id
limit $2
"""

#: Messages by the role in the agent's id, or by the agent where its id has none; $2 of them. From analytics.messages.
MESSAGES: Final = """
select coalesce(agent_role, agent_id) as sender, count(*) filter (where not is_internal) as public,
       count(*) filter (where is_internal) as internal, count(distinct agent_id) as agents,
       avg(length(content))::double precision as characters, count(*) over () as senders
from analytics.messages
where experiment = $1
group by 1
order by count(*) desc, sender
limit $2
"""
