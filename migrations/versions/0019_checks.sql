create or replace function world_problem(
    genesis json, world_uuid uuid, ruleset text, ruleset_version integer, config json, experiment text,
    time_authority text
) returns text
language plpgsql stable
as $$
declare
    made json;
    field text;
    time_zero double precision;
    wall_time double precision;
    sim_time double precision;
    rounding double precision := 0;
begin
    if genesis is null then
        return null;  -- that effect 1 is missing is said of the effect
    elsif genesis ->> 'kind' is distinct from 'WorldCreated' then
        return 'effect 1 is not WorldCreated';
    end if;
    made := genesis -> 'payload';
    select coalesce(rule.name, left(said.key, 100)) into field
    from json_each(made) as said
    full join (values ('canonical_profile', true, array['string']), ('config', true, array['object']), ('experiment', true, array['string', 'null']), ('ruleset', true, array['string']), ('ruleset_version', true, array['number']), ('time_authority', true, array['string']), ('world_uuid', true, array['string']), ('fork_of', false, array['object', 'null']), ('orchestrator', false, array['object', 'null']), ('order', false, array['string']), ('parent', false, array['object', 'null']), ('snapshot_every', false, array['number', 'null']), ('time_zero', false, array['number'])) as rule (name, is_required, types) on rule.name = said.key
    where case when rule.name is null then true
               when said.key is null then rule.is_required
               else json_typeof(said.value) <> all (rule.types) end
    order by 1
    limit 1;
    if made ->> 'time_authority' = 'wall' and json_typeof(made -> 'time_zero') = 'number' then
        time_zero := made ->> 'time_zero';
        wall_time := genesis ->> 'wall_time';
        sim_time := genesis ->> 'sim_time';
        if json_typeof(made -> 'fork_of') = 'object' then  -- its times are sums, which double floats round
            rounding := 4 * greatest(abs(wall_time), abs(time_zero), abs(sim_time)) * 2.220446049250313e-16;
        end if;
    end if;
    return case
        when made ->> 'canonical_profile' is distinct from 'orjson-sorted/1'
            then 'the canonical profile is unknown to this version'
        when field is not null then format('a field of the genesis is missing, unknown or of another type: %s', field)
        when made ->> 'world_uuid' is distinct from replace(world_uuid::text, '-', '')
            then 'worlds row differs from genesis: world_uuid'
        when made ->> 'ruleset' is distinct from ruleset then 'worlds row differs from genesis: ruleset'
        when made ->> 'ruleset_version' is distinct from ruleset_version::text
            then 'worlds row differs from genesis: ruleset_version'
        when (made -> 'config')::text is distinct from config::text then 'worlds row differs from genesis: config'
        when made ->> 'experiment' is distinct from experiment then 'worlds row differs from genesis: experiment'
        when made ->> 'time_authority' is distinct from time_authority
            then 'worlds row differs from genesis: time_authority'
        when (genesis -> 'schema_version')::text is distinct from '"1.0.0"' or (genesis -> 'priority')::text is distinct from '0' or genesis ->> 'req_id' is not null or genesis ->> 'source_metadata' is not null then 'the effect of a genesis is nobody''s request: schema_version, priority, req_id, source_metadata'
        when made ->> 'time_authority' <> 'wall' and (made -> 'time_zero') is not null
            then 'time_zero in the genesis is for the wall clock alone'
        when abs(wall_time - time_zero - sim_time) > rounding or (rounding = 0 and sim_time <> 0)
            then 'time_zero in the genesis does not go with its wall_time and sim_time'
    end;
exception when others then
    return 'worlds row or genesis cannot be read: ' || left(sqlerrm, 200);
end
$$
-- next
create function fork_point_of(genesis json, out parent text, out at_seq bigint)
language plpgsql stable
as $$
declare
    point json;
begin
    point := genesis -> 'payload' -> 'fork_of';
    if json_typeof(point) = 'object' then
        parent := point ->> 'world_id';
        at_seq := point ->> 'global_seq';
    end if;
exception when others then
    parent := null;
    at_seq := null;
end
$$
-- next
create function fork_problem(
    genesis json, digest json, parent_uuid uuid, parent_genesis json, parent_effect json, parent_checksum bytea
) returns text
language plpgsql stable
as $$
declare
    made json;
    point json;
begin
    made := genesis -> 'payload';
    point := made -> 'fork_of';
    if point is null or json_typeof(point) = 'null' then
        return null;
    end if;
    return case
        when point ->> 'world_id' is null or coalesce((point ->> 'global_seq')::bigint, 0) < 1
            then 'fork_of in the genesis names no effect of a parent'
        when digest is not null and (digest ->> 'kind' is distinct from 'StateDigest'
                                     or (digest #> '{payload,at_seq}')::text is distinct from '1')
            then 'effect 2 of a fork is not the StateDigest of the state at its genesis'
        when made ->> 'time_authority' = 'wall' and (coalesce((point ->> 'time_offset')::double precision, 0) <> 0
                                                     or point ->> 'silence' is not null)
            then 'fork_of in the genesis has a time_offset or silence under the wall clock'
        when parent_uuid is null or parent_checksum is null or parent_genesis is null then null
        when point ->> 'world_uuid' is distinct from replace(parent_uuid::text, '-', '')
            then 'the parent is another world: its uuid differs'
        when point ->> 'checksum' is distinct from encode(substr(parent_checksum, 1, 33), 'hex')
            then 'the parent was rewritten: its checksum at the fork point differs'
        when (genesis ->> 'sim_time')::double precision is distinct from (parent_effect ->> 'sim_time')::double precision
            then 'the genesis differs from the parent: sim_time'
        when coalesce((point ->> 'depth')::integer, 1) is distinct from
             case when json_typeof(parent_genesis #> '{payload,fork_of}') = 'object'
                  then coalesce((parent_genesis #>> '{payload,fork_of,depth}')::integer, 1) + 1 else 1 end
            then 'the genesis differs from the parent: depth'
        when made ->> 'ruleset' is distinct from parent_genesis #>> '{payload,ruleset}'
            then 'the genesis differs from the parent: ruleset'
        when coalesce(made ->> 'order', 'arrival') is distinct from
             coalesce(parent_genesis #>> '{payload,order}', 'arrival')
            then 'the genesis differs from the parent: order'
    end;
exception when others then
    return 'fork_of in the genesis, or the parent, cannot be read: ' || left(sqlerrm, 200);
end
$$
-- next
revoke all on function fork_point_of, fork_problem from public
-- next
grant execute on function fork_point_of, fork_problem to worldledger_service, worldledger_reader, worldledger_guest
-- next
comment on function fork_point_of is 'The parent of a fork and the effect of it where the fork begins, by the fork''s genesis; null for no fork. Never raises.'
-- next
comment on function fork_problem is 'What in a fork''s beginning is not as a fork begins, or is refuted by its parent, or null. Never raises.'
-- next
create or replace view verification as
select log.world_id,
       coalesce(case when worlds.world_id is null then 'the world has no worlds row' end,
                substr(log.problem, strpos(log.problem, ' ') + 1), genesis.problem, fork.problem, head.problem,
                log.request_problem) is null as verified,
       log.effects,
       heads.head_seq,
       encode(substr(heads.head_checksum, 1, 32), 'hex') as head_checksum,
       case when worlds.world_id is null then null
            when coalesce(genesis.problem, fork.problem) is not null
                 and coalesce(split_part(log.problem, ' ', 1)::bigint, 2) > 1 then 1
            when log.problem is not null then split_part(log.problem, ' ', 1)::bigint
            when head.problem is null then split_part(log.request_problem, ' ', 1)::bigint
            when heads.world_id is null then null
            when heads.head_seq = log.last_seq then log.last_seq
            else least(heads.head_seq, coalesce(log.last_seq, 0)) + 1 end as problem_seq,
       case when worlds.world_id is null then 'the world has no worlds row'
            when coalesce(genesis.problem, fork.problem) is not null
                 and coalesce(split_part(log.problem, ' ', 1)::bigint, 2) > 1
                then coalesce(genesis.problem, fork.problem)
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
left join lateral fork_point_of(first.effect) as point on true
left join lateral (
    select effects.effect from effects
    where effects.world_id = log.world_id and effects.global_seq = 2 and point.at_seq is not null limit 1
) as digest on true
left join worlds as parent on parent.world_id = point.parent
left join lateral (
    select effects.effect from effects where effects.world_id = point.parent and effects.global_seq = 1 limit 1
) as parent_first on true
left join lateral (
    select effects.effect, effects.checksum
    from effects where effects.world_id = point.parent and effects.global_seq = point.at_seq limit 1
) as parent_last on true
left join lateral fork_problem(
    first.effect, digest.effect, parent.world_uuid, parent_first.effect, parent_last.effect, parent_last.checksum
) as fork (problem) on true
left join lateral head_problem(
    log.last_seq, last.effect, last.checksum, last.sim_time,
    heads.head_seq, heads.head_checksum, heads.sim_time, heads.wall_time
) as head (problem) on true
