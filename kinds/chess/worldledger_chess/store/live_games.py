"""Finding live games of chess that go on: which they are, and when something was last done in them.

Source: docs/architecture.md, "Live games". The log alone decides, and no table says which games have ended, so all
worlds are walked by name, a page at a time. For each one that is a live game three probes of an index tell whether it
goes on, and one reads its last move: a page costs the database a few milliseconds, however many worlds there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

if TYPE_CHECKING:
    from worldledger_service.store.reader import Reader

#: The live games that go on among the worlds of one page: $1 after world_id, $2 worlds in a page. Each row has the
#: page's last world (null: there was none); one that names no game stands for a page without any.
LIVE_GAMES: Final = """
with page as materialized (
    select world_id, ruleset, config from worlds where world_id > $1 order by world_id limit $2),
going as (
    select p.world_id, p.config -> 'live' as live from page p
    where p.ruleset = 'chess' and json_typeof(p.config -> 'live') = 'object'
      and not exists (
        select from effects e where e.world_id = p.world_id and e.kind = 'GameEnded')
      and (exists (  -- a fork has the configuration of its parent, and no start of its own, unless it is played on
        select from effects e where e.world_id = p.world_id and e.kind = 'GameStarted') or exists (
        select from effects e where e.world_id = p.world_id and e.kind = 'GameContinued')))
select (select max(world_id) from page) as last, g.world_id, g.live::text as live, h.head_seq, h.wall_time,
       m.wall_time as moved_at, m.fen
from (select) one left join (
    going g join heads h using (world_id)
    left join lateral (
        select (e.effect ->> 'wall_time')::float8 as wall_time, e.effect -> 'payload' ->> 'fen' as fen from effects e
        where e.world_id = g.world_id and e.kind = 'MoveMade'
        order by e.world_id desc, e.kind desc, e.global_seq desc limit 1) m on true
    ) on true
"""


class LiveGameRow(NamedTuple):
    """A live game without a GameEnded.

    ``live`` is its configuration; ``head_seq`` and ``wall_time`` (epoch seconds) are of its last effect, ``moved_at``
    and ``fen`` (the position then) of its last move, None before the first.
    """

    game_id: str
    live: dict[str, Any]
    head_seq: int
    wall_time: float
    moved_at: float | None
    fen: str | None


class LiveGames:
    """Walks the live games that go on."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def page(self, *, after: str = "", worlds: int = 1000) -> tuple[list[LiveGameRow], str | None]:
        """Return those among the next worlds by name, and the name to go on after; None once there are no more worlds.

        Raises StoreUnavailableError.
        """
        rows = await self._reader.fetch(LIVE_GAMES, after, worlds)
        found = [
            LiveGameRow(
                row["world_id"],
                orjson.loads(row["live"]),
                row["head_seq"],
                row["wall_time"],
                row["moved_at"],
                row["fen"],
            )
            for row in rows
            if row["world_id"] is not None
        ]
        return found, rows[0]["last"]
