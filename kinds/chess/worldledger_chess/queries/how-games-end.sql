-- How games end
--
-- Finished games by the way in which they ended, with their length.
--
-- :experiment text = null -- Only the games of this experiment.
select status, reason, result, count(*) as games, avg(plies)::double precision as plies,
       sum(illegal_moves_attempted)::bigint as illegal_attempts
from games
where result is not null and (:experiment::text is null or experiment = :experiment)
group by status, reason, result
order by games desc, status, reason, result
