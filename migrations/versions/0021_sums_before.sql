create or replace view analytics."experiments" as
select
    w.experiment as "experiment",
    count(*) as "worlds",
    string_agg(distinct w.ruleset, ', ' order by w.ruleset) as "rulesets",
    coalesce(sum(h.head_seq), 0)::bigint as "effects",
    min(w.created_at) as "first_created_at",
    max(w.created_at) as "last_created_at",
    case when max(h.wall_time) >= -62135596800 and max(h.wall_time) < 253402300800 then to_timestamp(max(h.wall_time)) end as "last_recorded_at"
from public.worlds w
left join public.heads h on h.world_id = w.world_id
where w.experiment is not null and w.world_id not in (select f.world_id from analytics.forks f)
group by w.experiment
-- next
create or replace view analytics."experiments_with_forks" as
select
    w.experiment as "experiment",
    count(*) as "worlds",
    string_agg(distinct w.ruleset, ', ' order by w.ruleset) as "rulesets",
    coalesce(sum(h.head_seq), 0)::bigint as "effects",
    min(w.created_at) as "first_created_at",
    max(w.created_at) as "last_created_at",
    case when max(h.wall_time) >= -62135596800 and max(h.wall_time) < 253402300800 then to_timestamp(max(h.wall_time)) end as "last_recorded_at"
from public.worlds w
left join public.heads h on h.world_id = w.world_id
where w.experiment is not null
group by w.experiment
-- next
create or replace view analytics."observers" as
select
    c.world_id as "world_id",
    w.experiment as "experiment",
    c.agent_id as "agent_id",
    c.view_seq as "view_seq",
    greatest(h.head_seq - c.view_seq, 0) as "effects_behind",
    c.updated_at as "noted_at"
from public.agent_cursors c
left join public.worlds w on w.world_id = c.world_id
left join public.heads h on h.world_id = c.world_id
-- next
create or replace view analytics."projection_backlog" as
select
    d.world_id as "world_id",
    w.experiment as "experiment",
    b.projection as "projection",
    b.build as "build",
    w.ruleset as "ruleset",
    coalesce(c.global_seq, 0) as "reached_seq",
    d.head_seq as "head_seq",
    d.head_seq - coalesce(c.global_seq, 0) as "effects_behind",
    k.build is not null as "is_parked",
    d.since as "behind_since_at"
from (
    select n.build, n.world_id, max(n.head_seq) as head_seq, min(n.since) as since
    from (
        select p.build, p.world_id, p.head_seq, p.since from public.projection_pending p
        union all
        select m.build, h.world_id, h.head_seq, null::timestamptz
        from public.heads h cross join public.projection_builds m
        where h.moved and m.status <> 'retired'
        union all
        select k.build, k.world_id, h.head_seq, k.parked_at
        from public.projection_parked k join public.heads h on h.world_id = k.world_id
    ) n
    group by n.build, n.world_id
) d
join public.projection_builds b on b.build = d.build and b.status <> 'retired'
left join public.worlds w on w.world_id = d.world_id
left join public.projection_cursors c on c.build = d.build and c.world_id = d.world_id
left join public.projection_parked k on k.build = d.build and k.world_id = d.world_id
where d.head_seq > coalesce(c.global_seq, 0)
-- next
create or replace view analytics."projections" as
select
    b.projection as "projection",
    b.version as "version",
    b.build as "build",
    b.status as "status",
    b.paused as "is_paused",
    b.scanned_to is not null as "is_scanning",
    coalesce(l.worlds, 0) as "worlds_behind",
    coalesce(l.effects, 0) as "effects_behind",
    coalesce(l.parked, 0) as "worlds_parked",
    b.started_at as "started_at",
    b.finished_at as "finished_at"
from public.projection_builds b
left join (
    select g.build, count(*) as worlds, sum(g.effects_behind)::bigint as effects,
           count(*) filter (where g.is_parked) as parked
    from analytics.projection_backlog g
    group by g.build
) l on l.build = b.build
where b.status <> 'retired'
