create or replace view analytics."snapshots" as
select
    s.world_id as "world_id",
    w.experiment as "experiment",
    s.global_seq as "global_seq",
    s.ruleset as "ruleset",
    s.ruleset_version as "ruleset_version",
    encode(s.state_digest, 'hex') as "state_digest",
    s.state_bytes as "state_bytes",
    s.state as "state",
    s.created_at as "created_at"
from public.snapshots s
left join public.worlds w on w.world_id = s.world_id
where s.world_id not in (select f.world_id from analytics.forks f)
-- next
comment on view analytics."snapshots" is 'States of worlds at some places of their logs: a cache, which can be folded again from the log. Forks are left out.'
-- next
create view analytics."snapshots_with_forks" as
select
    s.world_id as "world_id",
    w.experiment as "experiment",
    s.global_seq as "global_seq",
    s.ruleset as "ruleset",
    s.ruleset_version as "ruleset_version",
    encode(s.state_digest, 'hex') as "state_digest",
    s.state_bytes as "state_bytes",
    s.state as "state",
    s.created_at as "created_at",
    s.is_inherited as "is_inherited",
    s.inherited_from as "inherited_from",
    s.generation as "generation"
from (
    select o.world_id, o.global_seq, o.ruleset, o.ruleset_version, o.state_digest, o.state_bytes, o.state, o.created_at,
           false as is_inherited, null::text as inherited_from, 0 as generation
    from public.snapshots o
    union all
    select f.world_id, i.global_seq, i.ruleset, i.ruleset_version, i.state_digest, i.state_bytes, i.state, i.created_at,
           true as is_inherited, a.ancestor as inherited_from, a.generation
    from analytics.forks f
    cross join lateral analytics.ancestry(f.world_id) a
    join public.snapshots i on i.world_id = a.ancestor and i.global_seq <= a.until_seq
) s
left join public.worlds w on w.world_id = s.world_id
-- next
comment on view analytics."snapshots_with_forks" is 'As snapshots, with forks and what they inherit.'
-- next
comment on column analytics."snapshots_with_forks"."world_id" is 'The name of the world.'
-- next
comment on column analytics."snapshots_with_forks"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."snapshots_with_forks"."global_seq" is 'The effect after which the world had this state.'
-- next
comment on column analytics."snapshots_with_forks"."ruleset" is 'The ruleset that folded it.'
-- next
comment on column analytics."snapshots_with_forks"."ruleset_version" is 'The version of that ruleset.'
-- next
comment on column analytics."snapshots_with_forks"."state_digest" is 'SHA-256 of the state''s text, in hex.'
-- next
comment on column analytics."snapshots_with_forks"."state_bytes" is 'The length of the state''s text.'
-- next
comment on column analytics."snapshots_with_forks"."state" is 'The state: entities, relationships, spatial_index, metadata.'
-- next
comment on column analytics."snapshots_with_forks"."created_at" is 'When the snapshot was written, by the server''s clock.'
-- next
comment on column analytics."snapshots_with_forks"."is_inherited" is 'Whether it is of before the fork, in an ancestor''s log.'
-- next
comment on column analytics."snapshots_with_forks"."inherited_from" is 'That ancestor, in whose log every seq of the row is a place; null for the world''s own.'
-- next
comment on column analytics."snapshots_with_forks"."generation" is '0 for the world''s own, 1 for its parent''s, and so on.'
-- next
grant select on analytics.snapshots_with_forks to worldledger_service, worldledger_reader, worldledger_guest
