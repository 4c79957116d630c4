create or replace view verification as
select log.world_id,
       coalesce(case when worlds.world_id is null then 'the world has no worlds row' end,
                substr(log.problem, strpos(log.problem, ' ') + 1), genesis.problem, head.problem,
                log.request_problem) is null as verified,
       log.effects,
       heads.head_seq,
       encode(substr(heads.head_checksum, 1, 32), 'hex') as head_checksum,
       case when worlds.world_id is null then null
            when genesis.problem is not null and coalesce(split_part(log.problem, ' ', 1)::bigint, 2) > 1 then 1
            when log.problem is not null then split_part(log.problem, ' ', 1)::bigint
            when head.problem is null then split_part(log.request_problem, ' ', 1)::bigint
            when heads.world_id is null then null
            when heads.head_seq = log.last_seq then log.last_seq
            else least(heads.head_seq, coalesce(log.last_seq, 0)) + 1 end as problem_seq,
       case when worlds.world_id is null then 'the world has no worlds row'
            when genesis.problem is not null and coalesce(split_part(log.problem, ' ', 1)::bigint, 2) > 1
                then genesis.problem
            when log.problem is not null then substr(log.problem, strpos(log.problem, ' ') + 1)
            else coalesce(head.problem, substr(log.request_problem, strpos(log.request_problem, ' ') + 1))
            end as problem
from (
    select parts.world_id,
           sum(parts.effects)::bigint as effects,
           max(parts.last_seq) as last_seq,
           min(parts.problem) as problem,
           min(parts.request_problem) as request_problem
    from (
        select worlds.world_id, 0::bigint as effects, null::bigint as last_seq, null::text as problem,
               null::text as request_problem
        from worlds
        union all
        select heads.world_id, 0::bigint as effects, null::bigint as last_seq, null::text as problem,
               null::text as request_problem
        from heads
        union all
        select effect_verification.world_id,
               count(*) as effects,
               max(effect_verification.global_seq) as last_seq,
               min(to_char(coalesce(effect_verification.expected_seq, 0), 'FM0000000000000000000')
                   || ' ' || effect_verification.problem) as problem,
               null::text as request_problem
        from effect_verification
        group by effect_verification.world_id
        union all
        select request_verification.world_id, 0::bigint as effects, null::bigint as last_seq, null::text as problem,
               min(to_char(greatest(request_verification.first_seq, 0), 'FM0000000000000000000')
                   || ' ' || request_verification.problem) as request_problem
        from request_verification
        group by request_verification.world_id
    ) as parts
    group by parts.world_id
) as log
left join worlds on worlds.world_id = log.world_id
left join heads on heads.world_id = log.world_id
left join lateral (
    select effects.effect from effects where effects.world_id = log.world_id and effects.global_seq = 1 limit 1
) as first on true
left join lateral (
    select effects.effect, effects.checksum, effects.sim_time
    from effects where effects.world_id = log.world_id and effects.global_seq = log.last_seq limit 1
) as last on true
left join lateral world_problem(
    first.effect, worlds.world_uuid, worlds.ruleset, worlds.ruleset_version, worlds.config, worlds.experiment,
    worlds.time_authority
) as genesis (problem) on true
left join lateral head_problem(
    log.last_seq, last.effect, last.checksum, last.sim_time,
    heads.head_seq, heads.head_checksum, heads.sim_time, heads.wall_time
) as head (problem) on true
-- next
create or replace function world_problem(
    genesis json, world_uuid uuid, ruleset text, ruleset_version integer, config json, experiment text,
    time_authority text
) returns text
language plpgsql stable
as $$
declare
    made json;
    time_zero double precision;
    wall_time double precision;
    sim_time double precision := 0;
    rounding double precision := 0;
begin
    if genesis is null then
        return null;  -- that effect 1 is missing is said of the effect
    elsif genesis ->> 'kind' is distinct from 'WorldCreated' then
        return 'effect 1 is not WorldCreated';
    end if;
    made := genesis -> 'payload';
    if made ->> 'time_authority' = 'wall' then
        time_zero := made ->> 'time_zero';
        wall_time := genesis ->> 'wall_time';
        if json_typeof(made -> 'fork_of') = 'object' then  -- its times are sums, which double floats round
            sim_time := genesis ->> 'sim_time';
            rounding := 4 * greatest(abs(wall_time), abs(time_zero), abs(sim_time)) * 2.220446049250313e-16;
        end if;
    end if;
    return case
        when made ->> 'world_uuid' is distinct from replace(world_uuid::text, '-', '')
            then 'worlds row differs from genesis: world_uuid'
        when made ->> 'ruleset' is distinct from ruleset then 'worlds row differs from genesis: ruleset'
        when made ->> 'ruleset_version' is distinct from ruleset_version::text
            then 'worlds row differs from genesis: ruleset_version'
        when (made -> 'config')::text is distinct from config::text then 'worlds row differs from genesis: config'
        when made ->> 'experiment' is distinct from experiment then 'worlds row differs from genesis: experiment'
        when made ->> 'time_authority' is distinct from time_authority
            then 'worlds row differs from genesis: time_authority'
        when made ->> 'canonical_profile' is distinct from 'orjson-sorted/1'
            then 'the canonical profile is unknown to this version'
        when abs(wall_time - time_zero - sim_time) > rounding
            then 'time_zero in the genesis does not go with its wall_time and sim_time'
    end;
exception when others then
    return 'worlds row or genesis cannot be read: ' || left(sqlerrm, 200);
end
$$
-- next
drop function fork_problem
-- next
drop function fork_point_of
