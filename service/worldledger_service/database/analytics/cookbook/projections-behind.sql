-- Projections that are behind
--
-- Whether what was asked for is up to date: how many worlds and effects each projection has still to read, and for how
-- long.
select p.projection, p.version, p.status, p.is_paused, p.is_scanning, p.worlds_behind, p.effects_behind,
       p.worlds_parked,
       (select extract(epoch from now() - min(b.behind_since_at))::double precision from projection_backlog b
        where b.build = p.build) as behind_s
from projections p
order by p.effects_behind desc, p.projection, p.status
