-- Effects by kind
--
-- What happened how often, in how many worlds. Forks are left out.
--
-- :experiment text = null -- Only the worlds of this experiment.
select k.kind, sum(k.count::bigint)::bigint as effects, count(*) as worlds,
       string_agg(distinct s.ruleset, ', ' order by s.ruleset) as rulesets
from world_summaries s
cross join lateral json_each_text(s.kinds) k (kind, count)
where s.parent is null and (:experiment::text is null or s.experiment = :experiment)
group by k.kind
order by effects desc, k.kind
