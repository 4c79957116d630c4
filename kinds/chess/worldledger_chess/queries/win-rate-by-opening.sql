-- Win rate by opening
--
-- The results of finished games by their first moves. Ask for more plies to tell openings apart more finely. Only games
-- from the usual starting position count: elsewhere the same moves are another opening.
--
-- :experiment text = null -- Only the games of this experiment.
-- :plies bigint = 4 -- By how many first moves, of both players together.
-- :least bigint = 1 -- Only openings of so many games.
with openings as (
    select g.world_id, g.result,
           (select string_agg(m.san_notation, ' ' order by m.ply) from moves m
            where m.world_id = g.world_id and m.ply <= :plies::bigint) as opening
    from games g
    where g.result is not null and (:experiment::text is null or g.experiment = :experiment)
      and g.variant = 'standard' and g.initial_fen = 'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1'
)
select opening, count(*) as games,
       count(*) filter (where result = 'white_wins')::double precision / count(*) as white_wins,
       count(*) filter (where result = 'draw')::double precision / count(*) as draws,
       count(*) filter (where result = 'black_wins')::double precision / count(*) as black_wins
from openings
where opening is not null
group by opening
having count(*) >= :least::bigint
order by games desc, opening
