-- Cues that preceded a rise in alignment
--
-- What became of an agent's alignment in the feedback that came next after a cue was activated (or adjusted): how often
-- it rose, and by how much on the average. What precedes is not yet what causes: compare conditions and seeds.
--
-- :experiment text = null -- Only the runs of this experiment.
-- :least bigint = 1 -- Only cues that were given at least this often.
select coalesce(p.cue, '(no cue told)') as cue, p.adaptation_type, count(*) as times,
       count(*) filter (where n.rise > 0) as rises,
       count(*) filter (where n.rise > 0)::double precision / count(*) as share_of_rises,
       avg(n.rise) as mean_rise
from policy_adaptations p
cross join lateral (
    select f.theoretical_alignment - f.previous_alignment as rise
    from feedback f
    where f.world_id = p.world_id and f.agent_id = p.agent_id and f.global_seq > p.global_seq
    order by f.global_seq limit 1
) n
where n.rise is not null and (:experiment::text is null or p.experiment = :experiment)
  and p.adaptation_type is distinct from 'deactivate_cue'
group by p.cue, p.adaptation_type
having count(*) >= :least::bigint
order by mean_rise desc, times desc, cue
