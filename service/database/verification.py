r"""Verification in SQL: the functions and views with which anyone at a psql prompt checks the log.

``select * from verification`` gives one row for each world, ``select * from effect_verification where world_id = …
and problem is not null`` every effect that does not hold. What they find and what they cannot is in
docs/architecture.md, "Verify"; the pure library says the same of exported bytes.

They must stand hostile rows, written by a superuser with every guard taken away: text with ``\u0000``, numbers
that no double holds, a megabyte of brackets. So everything that touches an effect's text happens inside plpgsql
functions whose handler turns any error into a finding (measured: the handler costs 2 to 5 %). Views above them
handle keys and short messages only.
"""

from __future__ import annotations

from typing import Final

from service.database.guards import comments

VIEWS: Final = [
    # STABLE and not IMMUTABLE because convert_to is: only so the planner inlines it (measured: twice as fast).
    """
create function chain_checksum(previous bytea, effect json) returns bytea
language sql stable parallel safe
return sha256(convert_to(coalesce(encode(previous, 'hex'), '') || effect::text, 'UTF8'))
""",
    # One pass over the text gives all five fields; five times ->> takes 1.5 times as long.
    """
create type effect_fields as (world_id text, global_seq text, kind text, source_id text, sim_time text)
""",
    """
create function effect_problem(
    previous_seq bigint, previous_checksum bytea,
    world_id text, global_seq bigint, effect json, checksum bytea, kind text, source_id text,
    sim_time double precision
) returns text
language plpgsql stable
as $$
declare
    fields public.effect_fields;
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
    end if;
    fields := json_populate_record(null::public.effect_fields, effect);
    return case
        when world_id is distinct from fields.world_id then 'world_id column differs from the effect'
        when global_seq::text is distinct from fields.global_seq then 'global_seq column differs from the effect'
        when kind is distinct from fields.kind then 'kind column differs from the effect'
        when source_id is distinct from fields.source_id then 'source_id column differs from the effect'
        when sim_time is distinct from fields.sim_time::double precision
            then 'sim_time column differs from the effect'
    end;
exception when others then
    return 'effect cannot be read: ' || left(sqlerrm, 200);
end
$$
""",
    """
create function world_problem(
    genesis json, world_uuid uuid, ruleset text, ruleset_version integer, config json, experiment text,
    time_authority text
) returns text
language plpgsql stable
as $$
declare
    made json;
begin
    if genesis is null then
        return null;  -- that effect 1 is missing is said of the effect
    elsif genesis ->> 'kind' is distinct from 'WorldCreated' then
        return 'effect 1 is not WorldCreated';
    end if;
    made := genesis -> 'payload';
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
    end;
exception when others then
    return 'worlds row or genesis cannot be read: ' || left(sqlerrm, 200);
end
$$
""",
    """
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
$$
""",
    # Each row's problem is named once in every query below: named twice, it would be computed twice.
    """
create view effect_verification as
select linked.world_id,
       linked.global_seq,
       case when linked.global_seq > greatest(linked.previous_seq, 0) then greatest(linked.previous_seq, 0) + 1
            else linked.global_seq end as expected_seq,
       effect_problem(linked.previous_seq, linked.previous_checksum, linked.world_id, linked.global_seq,
                      linked.effect, linked.checksum, linked.kind, linked.source_id, linked.sim_time) as problem
from (
    select effects.*,
           lag(effects.global_seq) over log as previous_seq,
           lag(effects.checksum) over log as previous_checksum
    from effects
    window log as (partition by effects.world_id order by effects.global_seq)
) as linked
""",
    # Every column is named, so that a dump restores to the same definition.
    # Worlds, heads and effects are gathered by UNION ALL and not by FULL JOIN, so that a condition on world_id
    # reaches the index of effects. The first problem of a world is the least text of seq and problem: a running
    # minimum needs no memory where an ordered list of problems would.
    """
create view verification as
select log.world_id,
       coalesce(case when worlds.world_id is null then 'the world has no worlds row' end,
                substr(log.problem, strpos(log.problem, ' ') + 1), genesis.problem, head.problem) is null as verified,
       log.effects,
       heads.head_seq,
       encode(substr(heads.head_checksum, 1, 32), 'hex') as head_checksum,
       case when worlds.world_id is null then null
            when genesis.problem is not null and coalesce(split_part(log.problem, ' ', 1)::bigint, 2) > 1 then 1
            when log.problem is not null then split_part(log.problem, ' ', 1)::bigint
            when head.problem is null or heads.world_id is null then null
            when heads.head_seq = log.last_seq then log.last_seq
            else least(heads.head_seq, coalesce(log.last_seq, 0)) + 1 end as problem_seq,
       case when worlds.world_id is null then 'the world has no worlds row'
            when genesis.problem is not null and coalesce(split_part(log.problem, ' ', 1)::bigint, 2) > 1
                then genesis.problem
            when log.problem is not null then substr(log.problem, strpos(log.problem, ' ') + 1)
            else head.problem end as problem
from (
    select parts.world_id,
           sum(parts.effects)::bigint as effects,
           max(parts.last_seq) as last_seq,
           min(parts.problem) as problem
    from (
        select worlds.world_id, 0::bigint as effects, null::bigint as last_seq, null::text as problem from worlds
        union all
        select heads.world_id, 0::bigint as effects, null::bigint as last_seq, null::text as problem from heads
        union all
        select effect_verification.world_id,
               count(*) as effects,
               max(effect_verification.global_seq) as last_seq,
               min(to_char(coalesce(effect_verification.expected_seq, 0), 'FM0000000000000000000')
                   || ' ' || effect_verification.problem) as problem
        from effect_verification
        group by effect_verification.world_id
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
""",
]

COMMENTS: Final = comments(
    {
        "type effect_fields": "The fields of an effect that stand in columns too, read as text.",
        "column effect_fields.world_id": "The effect's world.",
        "column effect_fields.global_seq": "The effect's place in the log.",
        "column effect_fields.kind": "The effect's kind.",
        "column effect_fields.source_id": "Who caused the effect.",
        "column effect_fields.sim_time": "The effect's time in the world.",
        "function chain_checksum": "SHA-256 over the hex of the previous checksum (nothing if null) and the text.",
        "function effect_problem": "What is wrong with a row of effects after the one before, or null. Never raises.",
        "function world_problem": "What in a row of worlds differs from the genesis effect, or null. Never raises.",
        "function head_problem": "What in a row of heads differs from the last effect, or null. Never raises.",
        "view effect_verification": "Every effect with what is wrong with it: chain, order, columns against the text.",
        "column effect_verification.world_id": "The name of the world.",
        "column effect_verification.global_seq": "The place that the row claims.",
        "column effect_verification.expected_seq": "The place that a log without gap has here.",
        "column effect_verification.problem": "What does not hold; null when all does.",
        "view verification": "One row for each world: does its log hold, and do worlds and heads agree with it?",
        "column verification.world_id": "The name of the world.",
        "column verification.verified": "True when everything holds.",
        "column verification.effects": "How many effects the log holds.",
        "column verification.head_seq": "The global_seq at which the log ends, by the row of heads.",
        "column verification.head_checksum": "The head's checksum in hex; kept elsewhere, it exposes a rewritten log.",
        "column verification.problem_seq": "The first global_seq that does not hold, where one can be named.",
        "column verification.problem": "What does not hold there; null when all does.",
    }
)
