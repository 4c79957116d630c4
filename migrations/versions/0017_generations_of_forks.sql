create view analytics."generations_with_forks" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.agent_id as "agent_id",
    e.req_id as "req_id",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "started_at",
    analytics.json_bigint(e.effect #> '{payload,context_seq}') as "context_seq",
    e.effect #>> '{payload,model,name}' as "model",
    e.effect #> '{payload,model,parameters}' as "parameters",
    analytics.json_bigint(e.effect #> '{payload,model,seed}') as "seed",
    e.effect #>> '{payload,model,prompt_digest}' as "prompt_digest",
    coalesce(r.effect #>> '{payload,outcome}', case when c.global_seq > coalesce(f.global_seq, 0) then 'cancelled' when f.global_seq is not null then 'finished' end) as "outcome",
    c.effect #>> '{payload,reason}' as "cancel_reason",
    substring(c.effect #>> '{payload,reason}' from '^stale_due_to_effect_([0-9]{1,15})$')::bigint as "interrupted_by_seq",
    analytics.json_double(c.effect #> '{payload,latency_ms}') as "cancel_latency_ms",
    analytics.json_bigint(r.effect #> '{payload,tokens_in}') as "tokens_in",
    analytics.json_bigint(r.effect #> '{payload,tokens_out}') as "tokens_out",
    r.effect #>> '{payload,counted}' as "counted",
    analytics.json_double(r.effect #> '{payload,price}') as "price",
    r.effect #>> '{payload,currency}' as "currency",
    analytics.json_double(r.effect #> '{payload,first_token_ms}') as "first_token_ms",
    analytics.json_double(r.effect #> '{payload,took_ms}') as "took_ms",
    r.effect #>> '{payload,finish}' as "finish",
    r.effect #> '{payload,intents}' as "intents",
    r.effect #>> '{payload,error,code}' as "error_code",
    r.effect #>> '{payload,error,message}' as "error",
    r.effect #>> '{payload,recalled,world_id}' as "recalled_world_id",
    r.effect #>> '{payload,recalled,req_id}' as "recalled_req_id",
    e.is_inherited as "is_inherited",
    e.inherited_from as "inherited_from",
    e.generation as "generation"
from (
    select distinct on (e.world_id, e.source_id, e.effect #>> '{payload,req_id}')
           e.world_id, e.source_id as agent_id, e.effect #>> '{payload,req_id}' as req_id,
           e.global_seq, e.sim_time, e.effect, e.is_inherited, e.inherited_from, e.generation
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
    where e.kind = 'GenerationStarted'
    order by e.world_id, e.source_id, e.effect #>> '{payload,req_id}', e.generation desc, e.global_seq
) e
left join public.worlds w on w.world_id = e.world_id
left join (
    select distinct on (r.world_id, r.source_id, r.effect #>> '{payload,req_id}')
           r.world_id, r.source_id as agent_id, r.effect #>> '{payload,req_id}' as req_id,
           r.global_seq, r.sim_time, r.effect, r.is_inherited, r.inherited_from, r.generation
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
) r
    where r.kind = 'GenerationReported'
    order by r.world_id, r.source_id, r.effect #>> '{payload,req_id}', r.generation desc, r.global_seq
) r on r.world_id = e.world_id and r.agent_id = e.agent_id and r.req_id = e.req_id
left join (
    select distinct on (c.world_id, c.source_id, c.effect #>> '{payload,req_id}')
           c.world_id, c.source_id as agent_id, c.effect #>> '{payload,req_id}' as req_id,
           c.global_seq, c.sim_time, c.effect, c.is_inherited, c.inherited_from, c.generation
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
) c
    where c.kind = 'GenerationCancelled'
    order by c.world_id, c.source_id, c.effect #>> '{payload,req_id}', c.generation, c.global_seq desc
) c on c.world_id = e.world_id and c.agent_id = e.agent_id and c.req_id = e.req_id
left join (
    select distinct on (f.world_id, f.source_id, f.effect #>> '{payload,req_id}')
           f.world_id, f.source_id as agent_id, f.effect #>> '{payload,req_id}' as req_id,
           f.global_seq, f.sim_time, f.effect, f.is_inherited, f.inherited_from, f.generation
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
) f
    where f.kind = 'GenerationFinished'
    order by f.world_id, f.source_id, f.effect #>> '{payload,req_id}', f.generation, f.global_seq desc
) f on f.world_id = e.world_id and f.agent_id = e.agent_id and f.req_id = e.req_id
-- next
comment on view analytics."generations_with_forks" is 'As generations, with forks and what they inherit.'
-- next
comment on column analytics."generations_with_forks"."world_id" is 'The name of the world.'
-- next
comment on column analytics."generations_with_forks"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."generations_with_forks"."agent_id" is 'The agent.'
-- next
comment on column analytics."generations_with_forks"."req_id" is 'The req_id of the intent that was being made.'
-- next
comment on column analytics."generations_with_forks"."global_seq" is 'Where it began in the world''s log.'
-- next
comment on column analytics."generations_with_forks"."sim_time_s" is 'The world''s own time then, in seconds.'
-- next
comment on column analytics."generations_with_forks"."started_at" is 'When it began.'
-- next
comment on column analytics."generations_with_forks"."context_seq" is 'The view_seq of the view that it was made from; 0: of none.'
-- next
comment on column analytics."generations_with_forks"."model" is 'The model; null where none was named.'
-- next
comment on column analytics."generations_with_forks"."parameters" is 'What the model was asked with.'
-- next
comment on column analytics."generations_with_forks"."seed" is 'The seed that the model was asked with.'
-- next
comment on column analytics."generations_with_forks"."prompt_digest" is 'The salted SHA-256 of the prompt.'
-- next
comment on column analytics."generations_with_forks"."outcome" is 'As reported (generation_reported); else cancelled or finished; null: it is under way.'
-- next
comment on column analytics."generations_with_forks"."cancel_reason" is 'Why it was cancelled; null where it was not.'
-- next
comment on column analytics."generations_with_forks"."interrupted_by_seq" is 'The effect that its agent was shown and that made it stale.'
-- next
comment on column analytics."generations_with_forks"."cancel_latency_ms" is 'From what made it stale until it was cancelled, in milliseconds.'
-- next
comment on column analytics."generations_with_forks"."tokens_in" is 'Tokens of the prompt; null where not known.'
-- next
comment on column analytics."generations_with_forks"."tokens_out" is 'Tokens that the model made, also where it was cut off.'
-- next
comment on column analytics."generations_with_forks"."counted" is 'Who counted tokens_out: provider, or chunks: the pieces as they came.'
-- next
comment on column analytics."generations_with_forks"."price" is 'What it cost, by the table of who ran it; null where there was none.'
-- next
comment on column analytics."generations_with_forks"."currency" is 'The currency of price.'
-- next
comment on column analytics."generations_with_forks"."first_token_ms" is 'From asking the model to its first token, in milliseconds.'
-- next
comment on column analytics."generations_with_forks"."took_ms" is 'From asking the model to the end, in milliseconds.'
-- next
comment on column analytics."generations_with_forks"."finish" is 'Why the model stopped, in its service''s words.'
-- next
comment on column analytics."generations_with_forks"."intents" is 'The intents that came of it: kind, req_id, and global_seq or the code of a refusal.'
-- next
comment on column analytics."generations_with_forks"."error_code" is 'Why the model did not answer; null where it did.'
-- next
comment on column analytics."generations_with_forks"."error" is 'The same in words.'
-- next
comment on column analytics."generations_with_forks"."recalled_world_id" is 'The world whose log had the answer; null: a model made it.'
-- next
comment on column analytics."generations_with_forks"."recalled_req_id" is 'The generation there.'
-- next
comment on column analytics."generations_with_forks"."is_inherited" is 'Whether it is of before the fork, in an ancestor''s log.'
-- next
comment on column analytics."generations_with_forks"."inherited_from" is 'That ancestor, in whose log every seq of the row is a place; null for the world''s own.'
-- next
comment on column analytics."generations_with_forks"."generation" is '0 for the world''s own, 1 for its parent''s, and so on.'
-- next
grant select on analytics.generations_with_forks to worldledger_service, worldledger_reader, worldledger_guest
