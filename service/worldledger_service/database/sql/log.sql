-- The log's tables: history is protected twice (docs/architecture.md, promise 6). Privileges refuse the service, the reader
-- and even the owner; triggers refuse everyone else, superusers included. Either holds alone: Citus has no triggers.

-- ENABLE ALWAYS, or session_replication_role = replica would pass them by. Row triggers, because replication workers fire
-- no statement triggers for rows. None is for INSERT: an append pays nothing.
create function refuse_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'history is append-only: % of % is refused', tg_op, tg_table_name
        using errcode = 'restrict_violation',
              hint = 'What has happened stays in the log; append an effect that corrects it.';
end
$$;

create trigger worlds_append_only before update or delete on worlds
for each row execute function refuse_change();

create trigger worlds_no_truncate before truncate on worlds
for each statement execute function refuse_change();

alter table worlds enable always trigger worlds_append_only;
alter table worlds enable always trigger worlds_no_truncate;

create trigger effects_append_only before update or delete on effects
for each row execute function refuse_change();

create trigger effects_no_truncate before truncate on effects
for each statement execute function refuse_change();

alter table effects enable always trigger effects_append_only;
alter table effects enable always trigger effects_no_truncate;

create trigger requests_append_only before update or delete on requests
for each row execute function refuse_change();

create trigger requests_no_truncate before truncate on requests
for each statement execute function refuse_change();

alter table requests enable always trigger requests_append_only;
alter table requests enable always trigger requests_no_truncate;
create trigger heads_no_delete before delete on heads for each row execute function refuse_change();
create trigger heads_no_truncate before truncate on heads for each statement execute function refuse_change();
alter table heads enable always trigger heads_no_delete;
alter table heads enable always trigger heads_no_truncate;

-- Also without a single trigger nobody below a superuser changes history. The owner could grant itself the privileges
-- again; `worldledger db check` would show it.
revoke all on worlds, heads, effects, requests from public;
revoke update, delete, truncate on worlds, heads, effects, requests from worldledger_owner;
grant select, insert on worlds, heads, effects, requests to worldledger_service;
grant update (head_seq, head_checksum, sim_time, wall_time, moved) on heads to worldledger_service;
revoke all on function refuse_change from public;

comment on constraint worlds_pkey on worlds is 'One world of a name in this database.';
comment on constraint worlds_world_id_check on worlds is 'A world has a name.';
comment on constraint worlds_ruleset_version_check on worlds is 'Versions count from 0.';
comment on constraint heads_pkey on heads is 'One head for each world.';
comment on constraint effects_pkey on effects is 'One effect at each place of a world''s log.';
comment on constraint requests_pkey on requests is 'A req_id is used once by each source in a world.';
comment on constraint requests_body_sha256_check on requests is 'A SHA-256 has 32 bytes.';
comment on constraint requests_seqs_check on requests is 'A request made at least one effect.';
comment on index worlds_experiment_world_id_idx is 'Lists the worlds of an experiment by name.';
comment on index effects_world_id_kind_global_seq_idx is 'Finds a world''s effects of one kind, in order.';
comment on index effects_forks_idx is 'Finds the worlds that are forks, by their geneses.';
comment on index effects_caused_idx is 'Finds the effects that name their cause (caused_by), in order.';
comment on index heads_moved_idx is 'Finds the worlds with news, for a runner that polls, without looking at idle ones.';
comment on trigger heads_no_delete on heads is 'Refuses DELETE to everyone.';
comment on trigger heads_no_truncate on heads is 'Refuses TRUNCATE to everyone.';
comment on function refuse_change is 'Trigger: refuses to change what has been written.';
comment on index worlds_pkey is 'The index of the primary key.';
comment on index effects_pkey is 'The index of the primary key.';
comment on index requests_pkey is 'The index of the primary key.';
comment on index heads_pkey is 'The index of the primary key.';
comment on trigger worlds_append_only on worlds is 'Refuses UPDATE and DELETE to everyone.';
comment on trigger effects_append_only on effects is 'Refuses UPDATE and DELETE to everyone.';
comment on trigger requests_append_only on requests is 'Refuses UPDATE and DELETE to everyone.';
comment on trigger worlds_no_truncate on worlds is 'Refuses TRUNCATE to everyone.';
comment on trigger effects_no_truncate on effects is 'Refuses TRUNCATE to everyone.';
comment on trigger requests_no_truncate on requests is 'Refuses TRUNCATE to everyone.';
