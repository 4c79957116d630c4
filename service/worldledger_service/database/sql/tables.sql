-- What SQLAlchemy cannot say about the tables that are no history.

-- The schema projections is the service's, because builds come and go while it runs. Only who may CREATE in the database can
-- make it, which the owner's role need not: so the user who migrates does it, and the service's role the rest. LOCAL, and
-- back to the owner's role at the end: these statements stand in a transaction of the owner's.
set local role none;

do $projections$
begin
    if to_regnamespace('projections') is null then
        create schema projections authorization worldledger_service;
    elsif not exists (select from pg_namespace
                      where nspname = 'projections' and nspowner::regrole::text = 'worldledger_service') then
        raise exception 'the database has a schema projections of somebody else'
            using errcode = 'duplicate_schema',
                  hint = 'Use another database, or rename that schema, or give it away: '
                         'ALTER SCHEMA projections OWNER TO worldledger_service';
    end if;
exception
    when insufficient_privilege then
        raise exception 'the user % may not create the schema projections', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Migrate as the owner of the database, or as an administrator: '
                         'CREATE SCHEMA projections AUTHORIZATION worldledger_service';
end
$projections$;

set local role worldledger_service;
comment on schema projections is 'Tables for queries, made from the log by the service; they can be made again.';
set local role worldledger_owner;

revoke all on snapshots, projection_builds, projection_cursors, projection_pending, projection_parked, projection_leases from public;
grant select, insert, update, delete on snapshots, projection_builds, projection_cursors, projection_pending, projection_parked, projection_leases to worldledger_service;

comment on constraint snapshots_pkey on snapshots is 'One snapshot at each place of a world''s log.';
comment on constraint snapshots_state_digest_check on snapshots is 'A SHA-256 has 32 bytes.';
comment on constraint projection_builds_pkey on projection_builds is 'One build of a name.';
comment on constraint projection_builds_status_check on projection_builds is 'There are no other statuses.';
comment on constraint projection_cursors_pkey on projection_cursors is 'One cursor of each build in each world.';
comment on constraint projection_pending_pkey on projection_pending is 'A world is noted once for each build.';
comment on constraint projection_parked_pkey on projection_parked is 'A build stops at one effect of a world.';
comment on constraint projection_leases_pkey on projection_leases is 'One lease of a name.';
comment on index projection_builds_live_idx is 'Allows one live build for each projection, and finds it.';
comment on index projection_builds_building_idx is 'Allows one build at a time for each projection, and finds it.';
comment on index snapshots_pkey is 'The index of the primary key.';
comment on index projection_builds_pkey is 'The index of the primary key.';
comment on index projection_cursors_pkey is 'The index of the primary key.';
comment on index projection_pending_pkey is 'The index of the primary key.';
comment on index projection_parked_pkey is 'The index of the primary key.';
comment on index projection_leases_pkey is 'The index of the primary key.';

revoke all on agent_cursors from public;
grant select, insert, update, delete on agent_cursors to worldledger_service;
comment on constraint agent_cursors_pkey on agent_cursors is 'One cursor of an agent.';
comment on index agent_cursors_pkey is 'The index of the primary key.';

revoke all on held_intents, open_ticks from public;
grant select, insert, update, delete on held_intents, open_ticks to worldledger_service;
comment on constraint held_intents_pkey on held_intents is 'One request of an agent is held once.';
comment on constraint held_intents_body_sha256_check on held_intents is 'A SHA-256 has 32 bytes.';
comment on constraint held_intents_list_check on held_intents is 'Whatever came in a list has a place in it.';
comment on index held_intents_pkey is 'The index of the primary key.';
comment on constraint open_ticks_pkey on open_ticks is 'One tick of a world is open.';
comment on index open_ticks_pkey is 'The index of the primary key.';

revoke all on prefixes from public;
grant select, insert, delete on prefixes to worldledger_service;
comment on constraint prefixes_pkey on prefixes is 'A world is marked once.';
comment on index prefixes_pkey is 'The index of the primary key.';
revoke all on kind_analytics from public;
grant select on kind_analytics to worldledger_service;
comment on constraint kind_analytics_pkey on kind_analytics is 'One version of a kind''s views.';
comment on constraint kind_analytics_version_check on kind_analytics is 'Files are numbered from 1.';
comment on constraint kind_analytics_digest_check on kind_analytics is 'A SHA-256 has 32 bytes.';
comment on index kind_analytics_pkey is 'The index of the primary key.';
