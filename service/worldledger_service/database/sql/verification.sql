-- Verification in SQL; what it finds is in docs/reference/verification.md. It must stand hostile rows, written by
-- a superuser with every guard taken away: text with zero characters, numbers that no double holds, a megabyte of brackets.
-- So everything that touches an effect's text happens inside plpgsql functions whose handler turns any error into a finding
-- (measured: the handler costs 2 to 5 %). Views above them handle keys and short messages only.

-- STABLE and not IMMUTABLE because convert_to is: only so the planner inlines it (measured: twice as fast).
create function chain_checksum(previous bytea, effect json) returns bytea
language sql stable parallel safe
return sha256(convert_to(coalesce(encode(previous, 'hex'), '') || effect::text, 'UTF8'));

-- One pass over the text gives all fields; ->> for each of them takes several times as long.
create type effect_fields as (
    world_id text, global_seq text, kind text, source_id text, sim_time text, wall_time text, caused_by text,
    req_id text
);

create function effect_fields_of(effect json) returns effect_fields
language plpgsql stable
as $$
begin
    return json_populate_record(null::public.effect_fields, effect);
exception when others then
    return null;
end
$$;

-- A look for a few bytes spares most effects the pass over the text that each -> takes; a regular expression would cost
-- several times as much as all the rest.
create function effect_problem(
    previous_seq bigint, previous_checksum bytea, previous_sim_time double precision, previous_wall_time text,
    world_id text, global_seq bigint, effect json, checksum bytea, kind text, source_id text,
    sim_time double precision, fields effect_fields
) returns text
language plpgsql stable
as $$
declare
    uuid text;
begin
    if global_seq is distinct from greatest(previous_seq, 0) + 1 then
        return case when global_seq > greatest(previous_seq, 0)
                    then format('global_seq missing: expected %s', greatest(previous_seq, 0) + 1)
                    else 'global_seq out of order' end;
    elsif effect is null then
        return 'effect is missing';
    elsif checksum is distinct from public.chain_checksum(previous_checksum, effect) then
        return 'checksum differs';
    elsif json_typeof(effect) <> 'object' then
        return 'effect is not a JSON object';
    elsif fields is null then
        fields := json_populate_record(null::public.effect_fields, effect);  -- to be told why it cannot be read
    end if;
    uuid := effect -> 'uuid';
    return case
        when world_id is distinct from fields.world_id then 'world_id column differs from the effect'
        when global_seq::text is distinct from fields.global_seq then 'global_seq column differs from the effect'
        when kind is distinct from fields.kind then 'kind column differs from the effect'
        when source_id is distinct from fields.source_id then 'source_id column differs from the effect'
        when sim_time is distinct from fields.sim_time::double precision
            then 'sim_time column differs from the effect'
        when sim_time < previous_sim_time then 'sim_time is lower than before'
        when fields.wall_time is null then 'wall_time is missing'
        when fields.wall_time::double precision < previous_wall_time::double precision
            then 'wall_time is lower than before'
        when strpos(effect::text, '"caused_by"') > 0 and json_typeof(effect -> 'caused_by') <> 'number'
             or not fields.caused_by::bigint between 1 and global_seq - 1
            then 'caused_by does not name an earlier effect'
        when strpos(effect::text, '_time":"') > 0
             and (json_typeof(effect -> 'sim_time') <> 'number' or json_typeof(effect -> 'wall_time') <> 'number')
            then 'sim_time or wall_time is not a number'
        when uuid is null then 'uuid is missing'
        when length(uuid) <> 34 or uuid <> format('"%s"', replace(substr(uuid, 2, 32)::uuid::text, '-', ''))
            then 'uuid is not 32 hex digits in lower case'
        when kind = '{{genesis_kind}}' and global_seq <> 1 then '{{genesis_kind}} stands at seq 1 alone'
        when source_id <> '{{service_source}}' and ({{of_service}}) and kind not in ({{in_other_names}})
            then 'the kind is for effects of the service alone'
    end;
exception when others then
    return 'effect cannot be read: ' || left(sqlerrm, 200);
end
$$;

-- What was asked for by an effect with a req_id: the digest of the request, over the stored text's own bytes.
create function effect_body_sha256(effect json) returns bytea
language plpgsql stable
as $$
declare
    said constant json := effect #> '{source_metadata,request_sha256}';
begin
    if json_typeof(said) = 'string' and said #>> '{}' ~ '^[0-9a-f]{64}$' then
        return decode(said #>> '{}', 'hex');
    end if;
    return sha256(convert_to(
        format('[%s,%s,%s,%s,%s]%s', effect -> 'kind', effect -> 'source_id', effect -> 'schema_version',
               effect -> 'priority', coalesce(effect -> 'caused_by', 'null'), effect -> 'payload'), 'UTF8'));
exception when others then
    return null;
end
$$;

create function world_problem(
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
    elsif genesis ->> 'kind' is distinct from '{{genesis_kind}}' then
        return 'effect 1 is not {{genesis_kind}}';
    end if;
    made := genesis -> 'payload';
    select coalesce(rule.name, left(said.key, 100)) into field
    from json_each(made) as said
    full join (values {{genesis_fields}}) as rule (name, is_required, types) on rule.name = said.key
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
            rounding := {{roundings}} * greatest(abs(wall_time), abs(time_zero), abs(sim_time)) * 2.220446049250313e-16;
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
        when {{not_as_written}} then 'the effect of a genesis is nobody''s request: {{envelope}}'
        when made ->> 'time_authority' <> 'wall' and (made -> 'time_zero') is not null
            then 'time_zero in the genesis is for the wall clock alone'
        when abs(wall_time - time_zero - sim_time) > rounding or (rounding = 0 and sim_time <> 0)
            then 'time_zero in the genesis does not go with its wall_time and sim_time'
    end;
exception when others then
    return 'worlds row or genesis cannot be read: ' || left(sqlerrm, 200);
end
$$;

-- The keys by which the effects are found that a fork has to do with.
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
$$;

-- A parent that is not here, or not up to the fork point, is none of the fork's problems.
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
        when digest is not null and (digest ->> 'kind' is distinct from '{{digest_kind}}'
                                     or (digest #> '{payload,at_seq}')::text is distinct from '1')
            then 'effect 2 of a fork is not the {{digest_kind}} of the state at its genesis'
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
$$;

create function head_problem(
    last_seq bigint, last_effect json, last_checksum bytea, last_sim_time double precision,
    head_seq bigint, head_checksum bytea, sim_time double precision, wall_time double precision
) returns text
language plpgsql stable
as $$
begin
    return case
        when head_seq is null and last_seq is null then 'the world has no effects'
        when head_seq is null then 'the world has no heads row'
        when last_seq is null then format('the head names seq %s but the log is empty', head_seq)
        when head_seq > last_seq then format('the head names seq %s but the log ends at %s', head_seq, last_seq)
        when head_seq < last_seq then format('the head names seq %s but the log goes on to %s', head_seq, last_seq)
        when head_checksum is distinct from last_checksum then 'heads row differs from the last effect: head_checksum'
        when sim_time is distinct from last_sim_time then 'heads row differs from the last effect: sim_time'
        when wall_time is distinct from (last_effect ->> 'wall_time')::double precision
            then 'heads row differs from the last effect: wall_time'
    end;
exception when others then
    return 'last effect cannot be read: ' || left(sqlerrm, 200);
end
$$;

-- Each row's problem is named once in every query below: named twice, it would be computed twice. So are its fields, which
-- a function in FROM makes once.
create view effect_verification as
select linked.world_id,
       linked.global_seq,
       case when linked.global_seq > greatest(linked.previous_seq, 0) then greatest(linked.previous_seq, 0) + 1
            else linked.global_seq end as expected_seq,
       coalesce(
           effect_problem(linked.previous_seq, linked.previous_checksum, linked.previous_sim_time,
                          linked.previous_wall_time, linked.world_id, linked.global_seq, linked.effect, linked.checksum,
                          linked.kind, linked.source_id, linked.sim_time, linked.fields),
           case when linked.has_begun and linked.source_id = '{{service_source}}'
                     and not ({{of_service}} or starts_with(linked.kind, '{{prefix_in_other_names}}'))
                     and not starts_with(coalesce((linked.fields).req_id, ''), '{{rerun_prefix}}')
                then 'the service writes no such kind after a world''s beginning' end) as problem
from (
    select effects.world_id, effects.global_seq, effects.effect, effects.checksum, effects.kind, effects.source_id,
           effects.sim_time, fields,
           lag(effects.global_seq) over log as previous_seq,
           lag(effects.checksum) over log as previous_checksum,
           lag(effects.sim_time) over log as previous_sim_time,
           lag(fields.wall_time) over log as previous_wall_time,
           bool_or(effects.source_id <> '{{service_source}}')
               over (log rows between unbounded preceding and 1 preceding) as has_begun
    from effects
    cross join lateral effect_fields_of(effects.effect) as fields
    window log as (partition by effects.world_id order by effects.global_seq)
) as linked;

-- Both sides are gathered by UNION ALL, as in the next view. A group is one request: its effects, and its row.
create view request_verification as
select sides.world_id,
       sides.source_id,
       sides.req_id,
       coalesce(min(sides.global_seq), min(sides.first_seq)) as first_seq,
       case when count(sides.global_seq) = 0 then 'requests has a row of which the log has no effect'
            when max(sides.global_seq)::numeric - min(sides.global_seq) >= count(sides.global_seq)
                then 'the req_id comes again after other effects'
            when count(*) = count(sides.global_seq) then 'requests has no row for the req_id'
            when count(*) > count(sides.global_seq) + 1 then 'requests has several rows for the req_id'
            when min(sides.first_seq) is distinct from min(sides.global_seq)
                 or min(sides.last_seq) is distinct from max(sides.global_seq)
                then 'requests row differs from the effects: first_seq, last_seq'
            when string_agg(sides.said_sha256, ''::bytea) is distinct from
                 case count(sides.global_seq)
                     when 1 then string_agg(sides.body_sha256, ''::bytea)
                     else sha256(string_agg(sides.body_sha256, ''::bytea order by sides.global_seq)) end
                then 'requests row differs from the effects: body_sha256'
       end as problem
from (
    select effects.world_id, effects.source_id, fields.req_id, effects.global_seq,
           effect_body_sha256(effects.effect) as body_sha256,
           null::bigint as first_seq, null::bigint as last_seq, null::bytea as said_sha256
    from effects
    cross join lateral effect_fields_of(effects.effect) as fields
    where fields.req_id is not null
    union all
    select requests.world_id, requests.source_id, requests.req_id, null::bigint as global_seq,
           null::bytea as body_sha256, requests.first_seq, requests.last_seq, requests.body_sha256 as said_sha256
    from requests
) as sides
group by sides.world_id, sides.source_id, sides.req_id;

-- Every column is named, so that a dump restores to the same definition. Worlds, heads and effects are gathered by UNION ALL
-- and not by FULL JOIN, so that a condition on world_id reaches the index of effects. The first problem of a world is the
-- least text of seq and problem: a running minimum needs no memory where an ordered list of problems would.
create view verification as
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
) as head (problem) on true;

revoke all on effect_verification, request_verification, verification from public;
grant select on effect_verification, request_verification, verification to worldledger_service;

revoke all on function chain_checksum, effect_fields_of, effect_body_sha256, effect_problem, world_problem, fork_point_of,
    fork_problem, head_problem from public;

grant execute on function chain_checksum, effect_fields_of, effect_body_sha256, effect_problem, world_problem, fork_point_of,
    fork_problem, head_problem to worldledger_service, worldledger_reader, worldledger_guest;

comment on type effect_fields is 'Fields of an effect, read as text.';
comment on column effect_fields.world_id is 'The effect''s world.';
comment on column effect_fields.global_seq is 'The effect''s place in the log.';
comment on column effect_fields.kind is 'The effect''s kind.';
comment on column effect_fields.source_id is 'Who caused the effect.';
comment on column effect_fields.sim_time is 'The effect''s time in the world.';
comment on column effect_fields.wall_time is 'When the effect was accepted.';
comment on column effect_fields.caused_by is 'The global_seq of its cause, where told.';
comment on column effect_fields.req_id is 'The request''s name, where it had one.';
comment on function chain_checksum is 'SHA-256 over the hex of the previous checksum (nothing if null) and the text.';
comment on function effect_fields_of is 'The fields of an effect, or null where they cannot be read. Never raises.';
comment on function effect_body_sha256 is 'The digest of what an effect''s request asked for, over the stored bytes; null where it cannot be read. Never raises.';
comment on function effect_problem is 'What is wrong with a row of effects after the one before, or null. Never raises.';
comment on function world_problem is 'What in a row of worlds differs from the genesis effect, or null. Never raises.';
comment on function fork_point_of is 'The parent of a fork and the effect of it where the fork begins, by the fork''s genesis; null for no fork. Never raises.';
comment on function fork_problem is 'What in a fork''s beginning is not as a fork begins, or is refuted by its parent, or null. Never raises.';
comment on function head_problem is 'What in a row of heads differs from the last effect, or null. Never raises.';
comment on view effect_verification is 'Every effect with what is wrong with it: chain, order, times, causes, uuids, kinds and source of the service, columns against the text.';
comment on column effect_verification.world_id is 'The name of the world.';
comment on column effect_verification.global_seq is 'The place that the row claims.';
comment on column effect_verification.expected_seq is 'The place that a log without gap has here.';
comment on column effect_verification.problem is 'What does not hold; null when all does.';
comment on view request_verification is 'Every request with what is wrong with it: its row against its effects.';
comment on column request_verification.world_id is 'The name of the world.';
comment on column request_verification.source_id is 'Who asked.';
comment on column request_verification.req_id is 'The name of the request.';
comment on column request_verification.first_seq is 'Its first effect, by the log; where there is none, by its row.';
comment on column request_verification.problem is 'What does not hold; null when all does.';
comment on view verification is 'One row for each world: does its log hold, and do worlds, heads and requests agree with it? {{not_seen}}';
comment on column verification.world_id is 'The name of the world.';
comment on column verification.verified is 'True when everything holds.';
comment on column verification.effects is 'How many effects the log holds.';
comment on column verification.head_seq is 'The global_seq at which the log ends, by the row of heads.';
comment on column verification.head_checksum is 'The head''s checksum in hex; kept elsewhere, it exposes a rewritten log.';
comment on column verification.problem_seq is 'The first global_seq that does not hold, where one can be named.';
comment on column verification.problem is 'What does not hold there; null when all does.';
