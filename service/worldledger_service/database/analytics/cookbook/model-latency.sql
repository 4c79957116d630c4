-- Latency and cost of models
--
-- How long models took to their first token and to the end, how many tokens they made a second, and what it cost.
-- Of those that are uncounted, neither the tokens of the prompt nor what these cost are in the sums.
--
-- :world text = null -- Only this world.
-- :experiment text = null -- Only the worlds of this experiment.
select model, count(*) as generations, count(*) filter (where outcome in ('interrupted', 'stale')) as interrupted,
       count(*) filter (where outcome in ('failed', 'lost')) as failed,
       percentile_cont(0.5) within group (order by first_token_ms) as first_token_median_ms,
       percentile_cont(0.95) within group (order by first_token_ms) as first_token_p95_ms,
       percentile_cont(0.5) within group (order by took_ms) as took_median_ms,
       round((1000.0 * sum(tokens_out) / nullif(sum(took_ms), 0))::numeric, 1)::double precision as tokens_per_s,
       sum(tokens_in)::bigint as tokens_in, sum(tokens_out)::bigint as tokens_out, sum(price) as price, currency,
       count(*) filter (where tokens_in is null and tokens_out is not null) as uncounted
from generations
where outcome is not null and model is not null
  and (:world::text is null or world_id = :world)
  and (:experiment::text is null or experiment = :experiment)
group by model, currency
order by model, currency
