create or replace function analytics.ancestry(world text) returns table (ancestor text, until_seq bigint, generation integer)
language plpgsql stable strict parallel safe rows 1
as $$
declare
    step record;
begin
    generation := 0;
    loop
        select f.parent, f.parent_seq into step
        from analytics.forks f
        join analytics.worlds w on w.world_id = f.parent and replace(w.world_uuid::text, '-', '') = f.parent_uuid
        where f.world_id = world;
        exit when not found or generation >= 100;
        world := step.parent;
        ancestor := step.parent;
        until_seq := step.parent_seq;
        generation := generation + 1;
        return next;
    end loop;
end
$$
-- next
revoke all on function analytics.ancestry(text) from public
-- next
grant execute on function analytics.ancestry(text) to worldledger_service, worldledger_reader, worldledger_guest
-- next
comment on function analytics.ancestry(text) is 'The worlds that a fork goes on from, its parent first, each with the last of its effects that is the fork''s history, too.'
-- next
create view analytics."forks" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.effect #>> '{payload,fork_of,world_id}' as "parent",
    e.effect #>> '{payload,fork_of,world_uuid}' as "parent_uuid",
    analytics.json_bigint(e.effect #> '{payload,fork_of,global_seq}') as "parent_seq",
    e.effect #>> '{payload,fork_of,checksum}' as "parent_checksum",
    coalesce(analytics.json_bigint(e.effect #> '{payload,fork_of,depth}'), 1) as "depth",
    e.effect #>> '{payload,fork_of,label}' as "label"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.global_seq = 1 and strpos(e.effect::text, '"fork_of":{') > 0
  and case when strpos(e.effect::text, '"fork_of":{') > 0 then json_typeof(e.effect #> '{payload,fork_of}') = 'object' else false end
-- next
comment on view analytics."forks" is 'Every fork: the world that it goes on from, and from where in that world''s log, as its genesis says.'
-- next
comment on column analytics."forks"."world_id" is 'The name of the world.'
-- next
comment on column analytics."forks"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."forks"."parent" is 'The world that it is a fork of.'
-- next
comment on column analytics."forks"."parent_uuid" is 'The world_uuid of that world: 32 hex digits.'
-- next
comment on column analytics."forks"."parent_seq" is 'The parent''s last effect that is its history, too.'
-- next
comment on column analytics."forks"."parent_checksum" is 'The checksum of that effect, in hex.'
-- next
comment on column analytics."forks"."depth" is 'How many ancestors it has.'
-- next
comment on column analytics."forks"."label" is 'What was said when it was made; null for nothing.'
-- next
create view analytics."lineage" as
select
    l.world_id as "world_id",
    w.experiment as "experiment",
    l.ancestor as "ancestor",
    l.until_seq as "until_seq",
    l.generation as "generation"
from (
    select o.world_id, o.world_id as ancestor, null::bigint as until_seq, 0 as generation
    from public.worlds o
    union all
    select f.world_id, a.ancestor, a.until_seq, a.generation
    from analytics.forks f
    cross join lateral analytics.ancestry(f.world_id) a
) l
left join public.worlds w on w.world_id = l.world_id
-- next
comment on view analytics."lineage" is 'The history of each world: its own effects, and those of its ancestors up to the fork points.'
-- next
comment on column analytics."lineage"."world_id" is 'The name of the world.'
-- next
comment on column analytics."lineage"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."lineage"."ancestor" is 'A world whose effects are its history: itself, its parent, its parent''s parent …'
-- next
comment on column analytics."lineage"."until_seq" is 'The last effect of the ancestor that is; null for the world itself: all of them.'
-- next
comment on column analytics."lineage"."generation" is '0 for the world itself, 1 for its parent, and so on.'
-- next
create or replace view analytics."experiments" as
select
    w.experiment as "experiment",
    count(*) as "worlds",
    string_agg(distinct w.ruleset, ', ' order by w.ruleset) as "rulesets",
    coalesce(sum(h.head_seq), 0)::bigint as "effects",
    min(w.created_at) as "first_created_at",
    max(w.created_at) as "last_created_at",
    case when max(h.wall_time) >= -62135596800 and max(h.wall_time) < 253402300800 then to_timestamp(max(h.wall_time)) end as "last_recorded_at"
from public.worlds w
left join public.heads h on h.world_id = w.world_id
where w.experiment is not null and w.world_id not in (select f.world_id from analytics.forks f)
group by w.experiment
-- next
comment on view analytics."experiments" is 'Every experiment: the label under which worlds are found together. Forks are left out.'
-- next
create view analytics."experiments_with_forks" as
select
    w.experiment as "experiment",
    count(*) as "worlds",
    string_agg(distinct w.ruleset, ', ' order by w.ruleset) as "rulesets",
    coalesce(sum(h.head_seq), 0)::bigint as "effects",
    min(w.created_at) as "first_created_at",
    max(w.created_at) as "last_created_at",
    case when max(h.wall_time) >= -62135596800 and max(h.wall_time) < 253402300800 then to_timestamp(max(h.wall_time)) end as "last_recorded_at"
from public.worlds w
left join public.heads h on h.world_id = w.world_id
where w.experiment is not null
group by w.experiment
-- next
comment on view analytics."experiments_with_forks" is 'As experiments, with forks and their own effects. Nothing that a fork inherits is counted.'
-- next
comment on column analytics."experiments_with_forks"."experiment" is 'The experiment.'
-- next
comment on column analytics."experiments_with_forks"."worlds" is 'How many worlds it has.'
-- next
comment on column analytics."experiments_with_forks"."rulesets" is 'Their rulesets, by name.'
-- next
comment on column analytics."experiments_with_forks"."effects" is 'How many effects those worlds have in all.'
-- next
comment on column analytics."experiments_with_forks"."first_created_at" is 'When the first of those worlds was made.'
-- next
comment on column analytics."experiments_with_forks"."last_created_at" is 'When the last of those worlds was made.'
-- next
comment on column analytics."experiments_with_forks"."last_recorded_at" is 'When the last effect of any of them was accepted.'
-- next
create or replace view analytics."effects" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.kind as "kind",
    e.source_id as "source_id",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.recorded_at as "stored_at",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect #>> '{req_id}' as "req_id",
    analytics.json_bigint(e.effect #> '{priority}') as "priority",
    e.effect #>> '{schema_version}' as "schema_version",
    e.effect #>> '{uuid}' as "uuid",
    e.effect -> 'payload' as "payload",
    e.effect -> 'source_metadata' as "source_metadata",
    e.effect as "effect",
    encode(e.checksum, 'hex') as "checksum"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.world_id not in (select f.world_id from analytics.forks f)
-- next
comment on view analytics."effects" is 'The log: every effect of every world, with its payload. Forks are left out. Views of single kinds have typed columns.'
-- next
create view analytics."effects_with_forks" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.kind as "kind",
    e.source_id as "source_id",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.recorded_at as "stored_at",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect #>> '{req_id}' as "req_id",
    analytics.json_bigint(e.effect #> '{priority}') as "priority",
    e.effect #>> '{schema_version}' as "schema_version",
    e.effect #>> '{uuid}' as "uuid",
    e.effect -> 'payload' as "payload",
    e.effect -> 'source_metadata' as "source_metadata",
    e.effect as "effect",
    encode(e.checksum, 'hex') as "checksum",
    e.is_inherited as "is_inherited",
    e.inherited_from as "inherited_from",
    e.generation as "generation"
from (
    select o.world_id, o.global_seq, o.effect, o.checksum, o.kind, o.source_id, o.sim_time, o.recorded_at,
           false as is_inherited, null::text as inherited_from, 0 as generation
    from public.effects o
    union all
    select f.world_id, i.global_seq, i.effect, i.checksum, i.kind, i.source_id, i.sim_time, i.recorded_at,
           true as is_inherited, a.ancestor as inherited_from, a.generation
    from analytics.forks f
    cross join lateral analytics.ancestry(f.world_id) a
    join public.effects i on i.world_id = a.ancestor and i.global_seq <= a.until_seq
) e
left join public.worlds w on w.world_id = e.world_id
-- next
comment on view analytics."effects_with_forks" is 'As effects, with forks and what they inherit.'
-- next
comment on column analytics."effects_with_forks"."world_id" is 'The name of the world.'
-- next
comment on column analytics."effects_with_forks"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."effects_with_forks"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."effects_with_forks"."kind" is 'What happened. The view of the kind is its name in snake_case.'
-- next
comment on column analytics."effects_with_forks"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."effects_with_forks"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."effects_with_forks"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."effects_with_forks"."stored_at" is 'When the row was written, by the server''s clock; cheaper to ask for.'
-- next
comment on column analytics."effects_with_forks"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."effects_with_forks"."req_id" is 'The idempotency key of the request; null for none.'
-- next
comment on column analytics."effects_with_forks"."priority" is 'Among drafts that waited together, higher went first.'
-- next
comment on column analytics."effects_with_forks"."schema_version" is 'The version of the payload''s shape.'
-- next
comment on column analytics."effects_with_forks"."uuid" is 'The effect''s identity: 32 hex digits.'
-- next
comment on column analytics."effects_with_forks"."payload" is 'The facts.'
-- next
comment on column analytics."effects_with_forks"."source_metadata" is 'Facts about the source, where there are any.'
-- next
comment on column analytics."effects_with_forks"."effect" is 'The whole effect: the canonical text, exactly as hashed.'
-- next
comment on column analytics."effects_with_forks"."checksum" is 'The chain checksum, in hex.'
-- next
comment on column analytics."effects_with_forks"."is_inherited" is 'Whether it is of before the fork, in an ancestor''s log.'
-- next
comment on column analytics."effects_with_forks"."inherited_from" is 'That ancestor, in whose log every seq of the row is a place; null for the world''s own.'
-- next
comment on column analytics."effects_with_forks"."generation" is '0 for the world''s own, 1 for its parent''s, and so on.'
-- next
create or replace view analytics."intents" as
select
    intended.world_id as "world_id",
    intended.experiment as "experiment",
    intended.global_seq as "global_seq",
    intended.agent_id as "agent_id",
    intended.req_id as "req_id",
    intended.is_accepted as "is_accepted",
    intended.intent_kind as "intent_kind",
    intended.effect_kind as "effect_kind",
    intended.context_seq as "context_seq",
    intended.code as "code",
    intended.rule as "rule",
    intended.reason as "reason",
    intended.sim_time as "sim_time_s",
    analytics.json_time(intended.wall_time) as "recorded_at",
    intended.payload as "payload"
from (
    select
        e.world_id, w.experiment, e.global_seq, e.source_id as agent_id, e.effect #>> '{req_id}' as req_id,
        true as is_accepted, e.effect #>> '{source_metadata,intent}' as intent_kind, e.kind as effect_kind,
        analytics.json_bigint(e.effect #> '{source_metadata,context_seq}') as context_seq,
        null::text as code, null::text as rule, null::text as reason, e.sim_time,
        e.effect #> '{wall_time}' as wall_time, e.effect -> 'payload' as payload
    from public.effects e
    left join public.worlds w on w.world_id = e.world_id
    where case when strpos(e.effect::text, '"source_metadata":{') > 0
               then e.effect #>> '{source_metadata,intent}' end is not null
      and e.world_id not in (select f.world_id from analytics.forks f)
    union all
    select
        e.world_id, w.experiment, e.global_seq, e.effect #>> '{payload,agent_id}' as agent_id,
        e.effect #>> '{payload,req_id}' as req_id, false as is_accepted,
        e.effect #>> '{payload,kind}' as intent_kind, null::text as effect_kind,
        analytics.json_bigint(e.effect #> '{payload,context_seq}') as context_seq,
        e.effect #>> '{payload,code}' as code, e.effect #>> '{payload,rule}' as rule,
        e.effect #>> '{payload,reason}' as reason, e.sim_time, e.effect #> '{wall_time}' as wall_time,
        e.effect #> '{payload,payload}' as payload
    from public.effects e
    left join public.worlds w on w.world_id = e.world_id
    where e.kind = 'IntentRejected'
      and e.world_id not in (select f.world_id from analytics.forks f)
) intended
-- next
comment on view analytics."intents" is 'What agents intended, and what became of it: the effect of that intent, or its rejection. Forks are left out.'
-- next
create view analytics."intents_with_forks" as
select
    intended.world_id as "world_id",
    intended.experiment as "experiment",
    intended.global_seq as "global_seq",
    intended.agent_id as "agent_id",
    intended.req_id as "req_id",
    intended.is_accepted as "is_accepted",
    intended.intent_kind as "intent_kind",
    intended.effect_kind as "effect_kind",
    intended.context_seq as "context_seq",
    intended.code as "code",
    intended.rule as "rule",
    intended.reason as "reason",
    intended.sim_time as "sim_time_s",
    analytics.json_time(intended.wall_time) as "recorded_at",
    intended.payload as "payload",
    intended.is_inherited as "is_inherited",
    intended.inherited_from as "inherited_from",
    intended.generation as "generation"
from (
    select
        e.world_id, w.experiment, e.global_seq, e.is_inherited, e.inherited_from, e.generation, e.source_id as agent_id, e.effect #>> '{req_id}' as req_id,
        true as is_accepted, e.effect #>> '{source_metadata,intent}' as intent_kind, e.kind as effect_kind,
        analytics.json_bigint(e.effect #> '{source_metadata,context_seq}') as context_seq,
        null::text as code, null::text as rule, null::text as reason, e.sim_time,
        e.effect #> '{wall_time}' as wall_time, e.effect -> 'payload' as payload
    from (
    select o.world_id, o.global_seq, o.effect, o.checksum, o.kind, o.source_id, o.sim_time, o.recorded_at,
           false as is_inherited, null::text as inherited_from, 0 as generation
    from public.effects o
    union all
    select f.world_id, i.global_seq, i.effect, i.checksum, i.kind, i.source_id, i.sim_time, i.recorded_at,
           true as is_inherited, a.ancestor as inherited_from, a.generation
    from analytics.forks f
    cross join lateral analytics.ancestry(f.world_id) a
    join public.effects i on i.world_id = a.ancestor and i.global_seq <= a.until_seq
) e
    left join public.worlds w on w.world_id = e.world_id
    where case when strpos(e.effect::text, '"source_metadata":{') > 0
               then e.effect #>> '{source_metadata,intent}' end is not null
    union all
    select
        e.world_id, w.experiment, e.global_seq, e.is_inherited, e.inherited_from, e.generation, e.effect #>> '{payload,agent_id}' as agent_id,
        e.effect #>> '{payload,req_id}' as req_id, false as is_accepted,
        e.effect #>> '{payload,kind}' as intent_kind, null::text as effect_kind,
        analytics.json_bigint(e.effect #> '{payload,context_seq}') as context_seq,
        e.effect #>> '{payload,code}' as code, e.effect #>> '{payload,rule}' as rule,
        e.effect #>> '{payload,reason}' as reason, e.sim_time, e.effect #> '{wall_time}' as wall_time,
        e.effect #> '{payload,payload}' as payload
    from (
    select o.world_id, o.global_seq, o.effect, o.checksum, o.kind, o.source_id, o.sim_time, o.recorded_at,
           false as is_inherited, null::text as inherited_from, 0 as generation
    from public.effects o
    union all
    select f.world_id, i.global_seq, i.effect, i.checksum, i.kind, i.source_id, i.sim_time, i.recorded_at,
           true as is_inherited, a.ancestor as inherited_from, a.generation
    from analytics.forks f
    cross join lateral analytics.ancestry(f.world_id) a
    join public.effects i on i.world_id = a.ancestor and i.global_seq <= a.until_seq
) e
    left join public.worlds w on w.world_id = e.world_id
    where e.kind = 'IntentRejected'
) intended
-- next
comment on view analytics."intents_with_forks" is 'As intents, with forks and what they inherit.'
-- next
comment on column analytics."intents_with_forks"."world_id" is 'The name of the world.'
-- next
comment on column analytics."intents_with_forks"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."intents_with_forks"."global_seq" is 'The effect that the intent became, or the IntentRejected.'
-- next
comment on column analytics."intents_with_forks"."agent_id" is 'The agent that intended it.'
-- next
comment on column analytics."intents_with_forks"."req_id" is 'The intent''s idempotency key.'
-- next
comment on column analytics."intents_with_forks"."is_accepted" is 'Whether it became an effect.'
-- next
comment on column analytics."intents_with_forks"."intent_kind" is 'Speak, Move, Interact or Custom.'
-- next
comment on column analytics."intents_with_forks"."effect_kind" is 'The kind of the effect that it became; null where it was rejected.'
-- next
comment on column analytics."intents_with_forks"."context_seq" is 'The view_seq of the view that it was made from; 0: of none.'
-- next
comment on column analytics."intents_with_forks"."code" is 'The code of the error where it was rejected: permission_denied, illegal_effect …'
-- next
comment on column analytics."intents_with_forks"."rule" is 'The ruleset''s rule that refused it; null where it was no rule.'
-- next
comment on column analytics."intents_with_forks"."reason" is 'The message of the error where it was rejected.'
-- next
comment on column analytics."intents_with_forks"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."intents_with_forks"."recorded_at" is 'When it was accepted or refused: the wall_time.'
-- next
comment on column analytics."intents_with_forks"."payload" is 'The intent''s payload.'
-- next
comment on column analytics."intents_with_forks"."is_inherited" is 'Whether it is of before the fork, in an ancestor''s log.'
-- next
comment on column analytics."intents_with_forks"."inherited_from" is 'That ancestor, in whose log every seq of the row is a place; null for the world''s own.'
-- next
comment on column analytics."intents_with_forks"."generation" is '0 for the world''s own, 1 for its parent''s, and so on.'
-- next
create or replace view analytics."observations" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    analytics.json_bigint(e.effect #> '{payload,at_seq}') as "view_seq",
    e.effect #>> '{payload,digest}' as "view_digest",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'ViewDigest' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
comment on view analytics."observations" is 'What agents were shown, as far as the log has digests of it: which view, after which effect. Forks are left out.'
-- next
create view analytics."observations_with_forks" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    analytics.json_bigint(e.effect #> '{payload,at_seq}') as "view_seq",
    e.effect #>> '{payload,digest}' as "view_digest",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.is_inherited as "is_inherited",
    e.inherited_from as "inherited_from",
    e.generation as "generation"
from (
    select o.world_id, o.global_seq, o.effect, o.checksum, o.kind, o.source_id, o.sim_time, o.recorded_at,
           false as is_inherited, null::text as inherited_from, 0 as generation
    from public.effects o
    union all
    select f.world_id, i.global_seq, i.effect, i.checksum, i.kind, i.source_id, i.sim_time, i.recorded_at,
           true as is_inherited, a.ancestor as inherited_from, a.generation
    from analytics.forks f
    cross join lateral analytics.ancestry(f.world_id) a
    join public.effects i on i.world_id = a.ancestor and i.global_seq <= a.until_seq
) e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'ViewDigest'
-- next
comment on view analytics."observations_with_forks" is 'As observations, with forks and what they inherit.'
-- next
comment on column analytics."observations_with_forks"."world_id" is 'The name of the world.'
-- next
comment on column analytics."observations_with_forks"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."observations_with_forks"."global_seq" is 'The ViewDigest that tells of it.'
-- next
comment on column analytics."observations_with_forks"."agent_id" is 'The agent.'
-- next
comment on column analytics."observations_with_forks"."view_seq" is 'The effect after which the agent was shown the view.'
-- next
comment on column analytics."observations_with_forks"."view_digest" is 'SHA-256 of the view''s text, in hex.'
-- next
comment on column analytics."observations_with_forks"."sim_time_s" is 'The world''s own time when that was written, in seconds.'
-- next
comment on column analytics."observations_with_forks"."recorded_at" is 'When that was written: the effect''s wall_time.'
-- next
comment on column analytics."observations_with_forks"."is_inherited" is 'Whether it is of before the fork, in an ancestor''s log.'
-- next
comment on column analytics."observations_with_forks"."inherited_from" is 'That ancestor, in whose log every seq of the row is a place; null for the world''s own.'
-- next
comment on column analytics."observations_with_forks"."generation" is '0 for the world''s own, 1 for its parent''s, and so on.'
-- next
create or replace view analytics."world_created" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,world_uuid}' as "world_uuid",
    e.effect #>> '{payload,ruleset}' as "ruleset",
    analytics.json_bigint(e.effect #> '{payload,ruleset_version}') as "ruleset_version",
    e.effect #>> '{payload,time_authority}' as "time_authority",
    analytics.json_time(e.effect #> '{payload,time_zero}') as "time_zero_at",
    e.effect #>> '{payload,canonical_profile}' as "canonical_profile",
    e.effect #> '{payload,config}' as "config",
    e.effect #> '{payload,orchestrator}' as "orchestrator",
    analytics.json_bigint(e.effect #> '{payload,snapshot_every}') as "snapshot_every",
    e.effect #>> '{payload,parent,world_id}' as "parent_world_id",
    analytics.json_bigint(e.effect #> '{payload,parent,global_seq}') as "parent_seq",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'WorldCreated' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
comment on column analytics."world_created"."parent_world_id" is 'The world that an old genesis calls its parent, unchecked; forks are in the view forks.'
-- next
create or replace view analytics."state_digest" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.json_bigint(e.effect #> '{payload,at_seq}') as "at_seq",
    e.effect #>> '{payload,state_digest}' as "state_digest",
    e.effect #>> '{payload,ruleset}' as "ruleset",
    analytics.json_bigint(e.effect #> '{payload,ruleset_version}') as "ruleset_version",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'StateDigest' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."view_digest" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    analytics.json_bigint(e.effect #> '{payload,at_seq}') as "at_seq",
    e.effect #>> '{payload,digest}' as "digest",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'ViewDigest' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."agent_registered" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    e.effect #>> '{payload,policy,name}' as "policy_name",
    e.effect #>> '{payload,policy,version}' as "policy_version",
    e.effect #> '{payload,policy,config}' as "policy_config",
    e.effect #> '{payload,permissions}' as "permissions",
    analytics.json_bigint(e.effect #> '{payload,weight}') as "weight",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentRegistered' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."world_time_set" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,adapter}' as "adapter",
    analytics.json_double(e.effect #> '{payload,time}') as "time_s",
    analytics.json_bigint(e.effect #> '{payload,tick}') as "tick",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'WorldTimeSet' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."world_time_authority_set" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,authority}' as "authority",
    analytics.json_double(e.effect #> '{payload,offset}') as "offset_s",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'WorldTimeAuthoritySet' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."world_time_authority_silent" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,authority}' as "authority",
    analytics.json_bigint(e.effect #> '{payload,last_tick_seq}') as "last_tick_seq",
    e.effect #>> '{payload,reason}' as "reason",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'WorldTimeAuthoritySilent' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."intent_rejected" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    e.effect #>> '{payload,req_id}' as "req_id",
    e.effect #>> '{payload,kind}' as "intent_kind",
    e.effect #> '{payload,payload}' as "intent_payload",
    analytics.json_bigint(e.effect #> '{payload,context_seq}') as "context_seq",
    e.effect #>> '{payload,code}' as "code",
    e.effect #>> '{payload,reason}' as "reason",
    e.effect #>> '{payload,rule}' as "rule",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'IntentRejected' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."generation_started" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    e.effect #>> '{payload,req_id}' as "req_id",
    e.effect #>> '{payload,generation_id}' as "generation_id",
    analytics.json_bigint(e.effect #> '{payload,context_seq}') as "context_seq",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GenerationStarted' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."generation_cancelled" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    e.effect #>> '{payload,req_id}' as "req_id",
    e.effect #>> '{payload,generation_id}' as "generation_id",
    e.effect #>> '{payload,reason}' as "reason",
    analytics.json_double(e.effect #> '{payload,latency_ms}') as "latency_ms",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GenerationCancelled' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."generation_finished" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    e.effect #>> '{payload,req_id}' as "req_id",
    e.effect #>> '{payload,generation_id}' as "generation_id",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GenerationFinished' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
grant select on analytics.forks, analytics.lineage, analytics.experiments_with_forks, analytics.effects_with_forks, analytics.intents_with_forks, analytics.observations_with_forks to worldledger_service, worldledger_reader, worldledger_guest
-- next
set local role worldledger_service
-- next
comment on schema analytics is 'Version 2. What is in the log and what follows from it, for questions: typed columns, names that explain themselves.'
-- next
set local role worldledger_owner
