create view analytics."generation_reported" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    e.effect #>> '{payload,req_id}' as "req_id",
    e.effect #>> '{payload,outcome}' as "outcome",
    analytics.json_bigint(e.effect #> '{payload,tokens_in}') as "tokens_in",
    analytics.json_bigint(e.effect #> '{payload,tokens_out}') as "tokens_out",
    e.effect #>> '{payload,counted}' as "counted",
    analytics.json_double(e.effect #> '{payload,price}') as "price",
    e.effect #>> '{payload,currency}' as "currency",
    analytics.json_double(e.effect #> '{payload,first_token_ms}') as "first_token_ms",
    analytics.json_double(e.effect #> '{payload,took_ms}') as "took_ms",
    e.effect #>> '{payload,finish}' as "finish",
    e.effect #> '{payload,intents}' as "intents",
    e.effect #>> '{payload,error,code}' as "error_code",
    e.effect #>> '{payload,error,message}' as "error",
    e.effect #>> '{payload,recalled,world_id}' as "recalled_world_id",
    e.effect #>> '{payload,recalled,req_id}' as "recalled_req_id",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GenerationReported' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
comment on view analytics."generation_reported" is 'GenerationReported: what a model''s generation used, and what came of it.'
-- next
comment on column analytics."generation_reported"."world_id" is 'The name of the world.'
-- next
comment on column analytics."generation_reported"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."generation_reported"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."generation_reported"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."generation_reported"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."generation_reported"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."generation_reported"."agent_id" is 'The agent.'
-- next
comment on column analytics."generation_reported"."req_id" is 'The req_id of the intent that is being made.'
-- next
comment on column analytics."generation_reported"."outcome" is 'acted, silent, refused, interrupted, stale, failed, limited or lost (docs/how-to-llm.md).'
-- next
comment on column analytics."generation_reported"."tokens_in" is 'Tokens of the prompt; null where not known.'
-- next
comment on column analytics."generation_reported"."tokens_out" is 'Tokens that the model made, also where it was cut off.'
-- next
comment on column analytics."generation_reported"."counted" is 'Who counted tokens_out: provider, or chunks: the pieces as they came.'
-- next
comment on column analytics."generation_reported"."price" is 'What it cost, by the table of who ran it; null where there was none.'
-- next
comment on column analytics."generation_reported"."currency" is 'The currency of price.'
-- next
comment on column analytics."generation_reported"."first_token_ms" is 'From asking the model to its first token, in milliseconds.'
-- next
comment on column analytics."generation_reported"."took_ms" is 'From asking the model to the end, in milliseconds.'
-- next
comment on column analytics."generation_reported"."finish" is 'Why the model stopped, in its service''s words.'
-- next
comment on column analytics."generation_reported"."intents" is 'The intents that came of it: kind, req_id, and global_seq or the code of a refusal.'
-- next
comment on column analytics."generation_reported"."error_code" is 'Why the model did not answer; null where it did.'
-- next
comment on column analytics."generation_reported"."error" is 'The same in words.'
-- next
comment on column analytics."generation_reported"."recalled_world_id" is 'The world whose log had the answer; null: a model made it.'
-- next
comment on column analytics."generation_reported"."recalled_req_id" is 'The generation there.'
-- next
comment on column analytics."generation_reported"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."generation_reported"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."generation_text" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    e.effect #>> '{payload,req_id}' as "req_id",
    e.effect #>> '{payload,part}' as "part",
    e.effect #>> '{payload,text}' as "text",
    e.effect #>> '{payload,salt}' as "salt",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GenerationText' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
comment on view analytics."generation_text" is 'GenerationText: a prompt or an output of a model, kept by itself.'
-- next
comment on column analytics."generation_text"."world_id" is 'The name of the world.'
-- next
comment on column analytics."generation_text"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."generation_text"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."generation_text"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."generation_text"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."generation_text"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."generation_text"."agent_id" is 'The agent.'
-- next
comment on column analytics."generation_text"."req_id" is 'The req_id of the intent that is being made.'
-- next
comment on column analytics."generation_text"."part" is 'prompt or output.'
-- next
comment on column analytics."generation_text"."text" is 'The text; of a prompt the JSON of the request.'
-- next
comment on column analytics."generation_text"."salt" is 'With which the prompt''s digest was made.'
-- next
comment on column analytics."generation_text"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."generation_text"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."generation_leased" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    e.effect #>> '{payload,holder}' as "holder",
    analytics.json_bigint(e.effect #> '{payload,number}') as "number",
    analytics.json_double(e.effect #> '{payload,seconds}') as "seconds",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GenerationLeased' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
comment on view analytics."generation_leased" is 'GenerationLeased: a program took an agent, kept it or gave it back.'
-- next
comment on column analytics."generation_leased"."world_id" is 'The name of the world.'
-- next
comment on column analytics."generation_leased"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."generation_leased"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."generation_leased"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."generation_leased"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."generation_leased"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."generation_leased"."agent_id" is 'The agent.'
-- next
comment on column analytics."generation_leased"."holder" is 'The program.'
-- next
comment on column analytics."generation_leased"."number" is 'The number of the lease: 1, 2, 3 … of the agent.'
-- next
comment on column analytics."generation_leased"."seconds" is 'How long it holds unless it is renewed; 0: the agent was given back.'
-- next
comment on column analytics."generation_leased"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."generation_leased"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."generations" as
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
    r.effect #>> '{payload,recalled,req_id}' as "recalled_req_id"
from (
    select distinct on (e.world_id, e.source_id, e.effect #>> '{payload,req_id}')
           e.world_id, e.source_id as agent_id, e.effect #>> '{payload,req_id}' as req_id,
           e.global_seq, e.sim_time, e.effect
    from public.effects e
    where e.kind = 'GenerationStarted' and e.world_id not in (select f.world_id from analytics.forks f)
    order by e.world_id, e.source_id, e.effect #>> '{payload,req_id}', e.global_seq
) e
left join public.worlds w on w.world_id = e.world_id
left join (
    select distinct on (r.world_id, r.source_id, r.effect #>> '{payload,req_id}')
           r.world_id, r.source_id as agent_id, r.effect #>> '{payload,req_id}' as req_id,
           r.global_seq, r.sim_time, r.effect
    from public.effects r
    where r.kind = 'GenerationReported' and r.world_id not in (select f.world_id from analytics.forks f)
    order by r.world_id, r.source_id, r.effect #>> '{payload,req_id}', r.global_seq
) r on r.world_id = e.world_id and r.agent_id = e.agent_id and r.req_id = e.req_id
left join (
    select distinct on (c.world_id, c.source_id, c.effect #>> '{payload,req_id}')
           c.world_id, c.source_id as agent_id, c.effect #>> '{payload,req_id}' as req_id,
           c.global_seq, c.sim_time, c.effect
    from public.effects c
    where c.kind = 'GenerationCancelled' and c.world_id not in (select f.world_id from analytics.forks f)
    order by c.world_id, c.source_id, c.effect #>> '{payload,req_id}', c.global_seq desc
) c on c.world_id = e.world_id and c.agent_id = e.agent_id and c.req_id = e.req_id
left join (
    select distinct on (f.world_id, f.source_id, f.effect #>> '{payload,req_id}')
           f.world_id, f.source_id as agent_id, f.effect #>> '{payload,req_id}' as req_id,
           f.global_seq, f.sim_time, f.effect
    from public.effects f
    where f.kind = 'GenerationFinished' and f.world_id not in (select f.world_id from analytics.forks f)
    order by f.world_id, f.source_id, f.effect #>> '{payload,req_id}', f.global_seq desc
) f on f.world_id = e.world_id and f.agent_id = e.agent_id and f.req_id = e.req_id
-- next
comment on view analytics."generations" is 'Every generation: by what it was made, from which view, what it used and what came of it. Forks are left out.'
-- next
comment on column analytics."generations"."world_id" is 'The name of the world.'
-- next
comment on column analytics."generations"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."generations"."agent_id" is 'The agent.'
-- next
comment on column analytics."generations"."req_id" is 'The req_id of the intent that was being made.'
-- next
comment on column analytics."generations"."global_seq" is 'Where it began in the world''s log.'
-- next
comment on column analytics."generations"."sim_time_s" is 'The world''s own time then, in seconds.'
-- next
comment on column analytics."generations"."started_at" is 'When it began.'
-- next
comment on column analytics."generations"."context_seq" is 'The view_seq of the view that it was made from; 0: of none.'
-- next
comment on column analytics."generations"."model" is 'The model; null where none was named.'
-- next
comment on column analytics."generations"."parameters" is 'What the model was asked with.'
-- next
comment on column analytics."generations"."seed" is 'The seed that the model was asked with.'
-- next
comment on column analytics."generations"."prompt_digest" is 'The salted SHA-256 of the prompt.'
-- next
comment on column analytics."generations"."outcome" is 'As reported (generation_reported); else cancelled or finished; null: it is under way.'
-- next
comment on column analytics."generations"."cancel_reason" is 'Why it was cancelled; null where it was not.'
-- next
comment on column analytics."generations"."interrupted_by_seq" is 'The effect that its agent was shown and that made it stale.'
-- next
comment on column analytics."generations"."cancel_latency_ms" is 'From what made it stale until it was cancelled, in milliseconds.'
-- next
comment on column analytics."generations"."tokens_in" is 'Tokens of the prompt; null where not known.'
-- next
comment on column analytics."generations"."tokens_out" is 'Tokens that the model made, also where it was cut off.'
-- next
comment on column analytics."generations"."counted" is 'Who counted tokens_out: provider, or chunks: the pieces as they came.'
-- next
comment on column analytics."generations"."price" is 'What it cost, by the table of who ran it; null where there was none.'
-- next
comment on column analytics."generations"."currency" is 'The currency of price.'
-- next
comment on column analytics."generations"."first_token_ms" is 'From asking the model to its first token, in milliseconds.'
-- next
comment on column analytics."generations"."took_ms" is 'From asking the model to the end, in milliseconds.'
-- next
comment on column analytics."generations"."finish" is 'Why the model stopped, in its service''s words.'
-- next
comment on column analytics."generations"."intents" is 'The intents that came of it: kind, req_id, and global_seq or the code of a refusal.'
-- next
comment on column analytics."generations"."error_code" is 'Why the model did not answer; null where it did.'
-- next
comment on column analytics."generations"."error" is 'The same in words.'
-- next
comment on column analytics."generations"."recalled_world_id" is 'The world whose log had the answer; null: a model made it.'
-- next
comment on column analytics."generations"."recalled_req_id" is 'The generation there.'
-- next
grant select on analytics.generation_reported, analytics.generation_text, analytics.generation_leased, analytics.generations to worldledger_service, worldledger_reader, worldledger_guest
