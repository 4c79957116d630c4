"""How many effects of each kind every stretch of a world's log has."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

import orjson

from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger_projections.base import Changes, Column, Projection, Row, WorldProjection

#: Effects in a stretch. The first one has the seqs 1 to 1,024.
STRETCH: Final = 1024
#: So many kinds of effects are told apart in a row, so that it stays small.
MAX_KINDS: Final = 100


class _World(WorldProjection):
    def __init__(self, world_id: str, rows: Sequence[Row]) -> None:
        self._world_id = world_id
        self._rows: list[Row] = []
        self._last: Effect | None = None
        self._stretch, self._kinds, self._other = -1, dict[str, int](), 0
        if rows:
            self._stretch, self._kinds, self._other = rows[0][1], orjson.loads(rows[0][4]), rows[0][5]

    def apply(self, effect: Effect) -> None:
        stretch = (effect["global_seq"] - 1) // STRETCH
        if stretch != self._stretch:
            self._finish()
            self._stretch, self._kinds, self._other = stretch, {}, 0
        kinds, kind = self._kinds, effect["kind"]
        if kind in kinds:
            kinds[kind] += 1
        elif len(kinds) < MAX_KINDS:
            kinds[kind] = 1
        else:
            self._other += 1
        self._last = effect

    def _finish(self) -> None:
        last = self._last
        if last is not None:
            kinds = orjson.dumps(self._kinds, option=orjson.OPT_SORT_KEYS).decode()
            row = (self._world_id, self._stretch, last["global_seq"], last["sim_time"], kinds, self._other)
            self._rows.append(row)
        self._last = None

    def take_changes(self) -> Changes:
        self._finish()
        rows, self._rows = self._rows, []
        return Changes(upserts=rows)


class EffectCounts(Projection):
    """One row for each stretch of 1,024 effects of each world, of any ruleset."""

    name = "effect_counts"
    version = 1
    comment = "How many effects of each kind every stretch of 1,024 effects of a world has."
    columns = (
        Column("world_id", "text", "The name of the world."),
        Column("stretch", "bigint", "Which stretch it is: 0 is that of the effects 1 to 1024."),
        Column("last_seq", "bigint", "The global_seq of its last effect."),
        Column("last_sim_time", "double precision", "The sim_time of its last effect, in seconds."),
        Column(
            "kinds",
            "json",
            f"How many effects it has of each kind: of the {MAX_KINDS} kinds that came first, keys sorted.",
        ),
        Column("other_kinds", "bigint", "How many of its effects are of none of the kinds told apart in kinds."),
    )
    key = ("world_id", "stretch")
    published = MappingProxyType({"last_sim_time": "last_sim_time_s"})
    needs_rows = True
    newest_by = "stretch"

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the counts' fold from the row of the last stretch on."""
        return _World(world_id, rows)
