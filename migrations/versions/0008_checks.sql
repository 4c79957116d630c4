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
        when kind = 'WorldCreated' and global_seq <> 1 then 'WorldCreated stands at seq 1 alone'
        when source_id <> 'worldledger' and (starts_with(kind, 'World') or starts_with(kind, 'Intent') or kind in ('AgentRegistered', 'StateDigest', 'ViewDigest')) and kind not in ('IntentRejected', 'WorldTimeSet')
            then 'the kind is for effects of the service alone'
    end;
exception when others then
    return 'effect cannot be read: ' || left(sqlerrm, 200);
end
$$
-- next
comment on view effect_verification is 'Every effect with what is wrong with it: chain, order, times, causes, uuids, kinds of the service, columns against the text.'
-- next
comment on view verification is 'One row for each world: does its log hold, and do worlds, heads and requests agree with it? Not looked at, for it would cost more than all the rest: that no uuid stands twice, which JSON type the values of other fields than uuid, sim_time, wall_time and caused_by have, and that texts are canonical. `worldledger verify` sees the first, `verify --full` all.'
-- next
comment on view analytics."verification" is 'Does each world''s log hold, and do worlds, heads and requests agree with it? Worked out anew for each row asked for. Not looked at, for it would cost more than all the rest: that no uuid stands twice, which JSON type the values of other fields than uuid, sim_time, wall_time and caused_by have, and that texts are canonical. `worldledger verify` sees the first, `verify --full` all.'
-- next
comment on view analytics."effect_verification" is 'Every effect with what is wrong with it: chain, order, times, causes, uuids, kinds of the service, columns against the text.'
