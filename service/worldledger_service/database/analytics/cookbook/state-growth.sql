-- How states grow
--
-- The size of each world's state at its snapshots: whether a world stays bounded. Forks are left out.
--
-- :experiment text = null -- Only the worlds of this experiment.
select world_id, count(*) as snapshots, min(global_seq) as first_seq, max(global_seq) as last_seq,
       (array_agg(state_bytes order by global_seq))[1] as first_bytes,
       (array_agg(state_bytes order by global_seq desc))[1] as last_bytes, max(state_bytes) as most_bytes
from snapshots
where :experiment::text is null or experiment = :experiment
group by world_id
order by last_bytes desc, world_id
