"""Rounds of social-RL worlds: where in the log each begins and ends, and what it is as a document.

Source: docs/reference/social-rl.md, "Round".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import orjson

from worldledger.errors import MomentNotFoundError
from worldledger_social_rl.rules import RULESET, words
from worldledger_social_rl.rules.recording import write_run

if TYPE_CHECKING:
    from worldledger_service.store.reader import Reader
    from worldledger_service.store.records import WorldRecord

    from worldledger.effects import Effect

#: Most stored bytes of a round that is put together in memory.
MOST_BYTES: Final = 64 * 1024 * 1024

#: What may stand between a round's effects, and is a file of its own.
_OTHER_FILES: Final = frozenset({words.EXPERIMENT_STARTED, words.POLICY_STATE_RECORDED, words.ARTIFACT_RECORDED})

#: Rounds, each with the effects from its RoundStarted to the last before the next one: $1 world_id, $2 after the
#: global_seq of a RoundStarted, $3 the head, $4 limit, $5 the round's number as text (null: every one). Where a number
#: stands twice, only an import has brought it; the later one counts (an export has both).
_ROUNDS: Final = """
select s.global_seq as first_seq, s.number, s.sim_time as started_sim_time, s.wall_time as started_wall_time,
       e.ended_seq, e.duration_seconds, coalesce(n.following - 1, $3) as last_seq,
       c.messages, c.agents, c.feedback, c.adaptations
from (
    select global_seq, effect -> 'payload' ->> 'round_number' as number, sim_time,
           (effect ->> 'wall_time')::float8 as wall_time
    from effects
    where world_id = $1 and kind = 'RoundStarted' and global_seq > $2 and global_seq <= $3
      and ($5::text is null or effect -> 'payload' ->> 'round_number' = $5)
    order by world_id {order}, kind {order}, global_seq {order} limit $4) s
left join lateral (
    select global_seq as following from effects
    where world_id = $1 and kind = 'RoundStarted' and global_seq > s.global_seq and global_seq <= $3
    order by world_id, kind, global_seq limit 1) n on true
left join lateral (
    select global_seq as ended_seq, (effect -> 'payload' -> 'duration_seconds')::text as duration_seconds from effects
    where world_id = $1 and kind = 'RoundEnded' and global_seq > s.global_seq
      and global_seq < coalesce(n.following, $3 + 1)
    order by world_id, kind, global_seq limit 1) e on true
cross join lateral (
    select count(*) filter (where kind = 'MessageEmitted') as messages,
           count(distinct source_id) filter (where kind = 'MessageEmitted') as agents,
           count(*) filter (where kind = 'FeedbackRecorded') as feedback,
           count(*) filter (where kind = 'PolicyAdapted') as adaptations
    from effects where world_id = $1 and global_seq >= s.global_seq and global_seq < coalesce(n.following, $3 + 1)) c
order by first_seq
"""
PAGE: Final = _ROUNDS.format(order="asc")
NUMBERED: Final = _ROUNDS.format(order="desc")

#: The last round that was begun: $1 world_id, $2 the head.
LAST: Final = """
select effect -> 'payload' ->> 'round_number' as number from effects
where world_id = $1 and kind = 'RoundStarted' and global_seq <= $2
order by world_id desc, kind desc, global_seq desc limit 1
"""


class RoundAt(NamedTuple):
    """Where a round stands in a world's log, and how much there is in it.

    ``round_number`` is None where an import has brought a round without one. ``ended_seq`` is the effect that ended it,
    if there is one yet, and ``last_seq`` the last before the next round: the head, while there is none.
    ``duration_seconds`` is what its end says; times are of its first effect. ``agents`` are those that have spoken.
    """

    round_number: int | None
    first_seq: int
    ended_seq: int | None
    last_seq: int
    started_sim_time: float
    started_wall_time: float
    duration_seconds: float | None
    messages: int
    agents: int
    feedback: int
    adaptations: int


class Rounds:
    """Finds the rounds of worlds."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def page(self, world: WorldRecord, *, after: int, limit: int) -> list[RoundAt]:
        """Return the rounds that begin after a seq, ascending."""
        rows = await self._reader.fetch(PAGE, world.world_id, after, world.head_seq, limit, None)
        return [_round(row) for row in rows]

    async def at(self, world: WorldRecord, number: int) -> RoundAt:
        """Return where a round stands. Raises MomentNotFoundError for one that the world does not have."""
        if world.ruleset != RULESET.name:
            raise missing(world, number, f"worlds of {world.ruleset} have no rounds")
        rows = await self._reader.fetch(NUMBERED, world.world_id, 0, world.head_seq, 1, str(number))
        if rows:
            return _round(rows[0])
        last = await self._reader.fetch(LAST, world.world_id, world.head_seq)
        raise missing(world, number, f"its last is {last[0]['number']}" if last else "none has begun")

    async def document(self, world: WorldRecord, at: RoundAt) -> dict[str, Any]:
        """Return a round as its document has it, as far as it has come.

        Raises MomentNotFoundError where the log's is none, or has too many bytes.
        """
        effects: list[Effect] = []
        size = 0
        async for batch in self._reader.batches(world.world_id, after_seq=at.first_seq - 1, until_seq=at.last_seq):
            size += sum(len(row.text) for row in batch)
            if size > MOST_BYTES:
                why = f"that is read at once: it has more than {MOST_BYTES} bytes; read its effects"
                raise missing(world, at.round_number, f"{why} {at.first_seq} to {at.last_seq}")
            effects += [cast("Effect", orjson.loads(row.text)) for row in batch if row.kind not in _OTHER_FILES]
        (file,) = write_run(effects)
        return cast("dict[str, Any]", file.value)


def missing(world: WorldRecord, number: int | None, why: str) -> MomentNotFoundError:
    """Make the error for a round that a world does not have."""
    what = f"world {world.world_id!r} has no round {number}; {why}"
    return MomentNotFoundError(what, world_id=world.world_id, round_number=number, head_seq=world.head_seq)


def _round(row: Any) -> RoundAt:
    number, duration = row["number"], row["duration_seconds"]
    seconds = None if duration is None else orjson.loads(duration)
    return RoundAt(
        int(number) if number is not None and number.isdecimal() else None,
        row["first_seq"],
        row["ended_seq"],
        row["last_seq"],
        row["started_sim_time"],
        row["started_wall_time"],
        float(seconds) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else None,
        row["messages"],
        row["agents"],
        row["feedback"],
        row["adaptations"],
    )
