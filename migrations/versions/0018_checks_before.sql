create or replace function world_problem(
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
        when made ->> 'canonical_profile' is distinct from 'orjson-sorted/1'
            then 'the canonical profile is unknown to this version'
    end;
exception when others then
    return 'worlds row or genesis cannot be read: ' || left(sqlerrm, 200);
end
$$
-- next
create or replace view effect_verification as
select linked.world_id,
       linked.global_seq,
       case when linked.global_seq > greatest(linked.previous_seq, 0) then greatest(linked.previous_seq, 0) + 1
            else linked.global_seq end as expected_seq,
       effect_problem(linked.previous_seq, linked.previous_checksum, linked.previous_sim_time,
                      linked.previous_wall_time, linked.world_id, linked.global_seq, linked.effect, linked.checksum,
                      linked.kind, linked.source_id, linked.sim_time, linked.fields) as problem
from (
    select effects.world_id, effects.global_seq, effects.effect, effects.checksum, effects.kind, effects.source_id,
           effects.sim_time, fields,
           lag(effects.global_seq) over log as previous_seq,
           lag(effects.checksum) over log as previous_checksum,
           lag(effects.sim_time) over log as previous_sim_time,
           lag(fields.wall_time) over log as previous_wall_time
    from effects
    cross join lateral effect_fields_of(effects.effect) as fields
    window log as (partition by effects.world_id order by effects.global_seq)
) as linked
-- next
comment on view effect_verification is 'Every effect with what is wrong with it: chain, order, times, causes, uuids, kinds of the service, columns against the text.'
