"""What each world is and how far it has come: one row for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Final

import orjson

from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.genesis import GENESIS_KIND
from worldledger.lineage import fork_point
from worldledger_projections.base import WORLD, Changes, Column, Projection, Row, WorldProjection, moment

#: So many kinds of effects are told apart in a world's row, so that the row stays small.
MAX_KINDS: Final = 100


@dataclass(slots=True)
class _Summary:
    """A row: fields in the order of the columns; ``kinds`` as its JSON text."""

    world_id: str
    ruleset: str
    ruleset_version: int
    experiment: str | None
    time_authority: str
    effects: int
    kinds: str
    other_kinds: int
    created_at: datetime
    last_effect_at: datetime
    first_sim_time: float
    last_sim_time: float
    last_seq: int
    last_kind: str
    parent: str | None
    parent_seq: int | None
    depth: int


_row_of: Final[Callable[[_Summary], Row]] = attrgetter(*(field.name for field in fields(_Summary)))


class _World(WorldProjection):
    def __init__(self, world_id: str, rows: Sequence[Row]) -> None:
        self._world_id = world_id
        self._row = _Summary(*rows[0]) if rows else None
        self._kinds: dict[str, int] = orjson.loads(self._row.kinds) if self._row else {}
        self._last: Effect | None = None

    def apply(self, effect: Effect) -> None:
        kind = effect["kind"]
        row = self._row
        if row is None:
            row = self._row = self._begin(effect)
        kinds = self._kinds
        if kind in kinds:
            kinds[kind] += 1
        elif len(kinds) < MAX_KINDS:
            kinds[kind] = 1
        else:
            row.other_kinds += 1
        row.effects += 1
        self._last = effect

    def _begin(self, effect: Effect) -> _Summary:
        if effect["kind"] != GENESIS_KIND:
            raise ValueError(f"the world's first effect is {effect['kind']}, not {GENESIS_KIND}")
        genesis = effect["payload"]
        origin = fork_point(genesis)
        now = moment(effect["wall_time"])
        return _Summary(
            world_id=self._world_id,
            ruleset=genesis["ruleset"],
            ruleset_version=genesis["ruleset_version"],
            experiment=genesis["experiment"],
            time_authority=genesis["time_authority"],
            effects=0,
            kinds="{}",
            other_kinds=0,
            created_at=now,
            last_effect_at=now,
            first_sim_time=effect["sim_time"],
            last_sim_time=effect["sim_time"],
            last_seq=0,
            last_kind=GENESIS_KIND,
            parent=None if origin is None else origin.world_id,
            parent_seq=None if origin is None else origin.global_seq,
            depth=0 if origin is None else origin.depth,
        )

    def take_changes(self) -> Changes:
        row, last = self._row, self._last
        if row is None or last is None:
            return Changes()
        self._last = None
        row.kinds = orjson.dumps(self._kinds, option=orjson.OPT_SORT_KEYS).decode()
        row.last_effect_at = moment(last["wall_time"])
        row.last_sim_time = last["sim_time"]
        row.last_seq = last["global_seq"]
        row.last_kind = last["kind"]
        return Changes(upserts=[_row_of(row)])


class WorldSummaries(Projection):
    """One row for each world, of any ruleset, with what its genesis says and how far it has come."""

    name = "world_summaries"
    version = 2
    comment = "What each world is and how far it has come."
    columns = (
        WORLD,
        Column("ruleset", "text", "The ruleset that its genesis names."),
        Column("ruleset_version", "integer", "The version that the ruleset had when the world was made."),
        Column("experiment", "text", "The label under which worlds are found together.", nullable=True),
        Column("time_authority", "text", "Who sets sim_time: wall, client, or the name of an adapter."),
        Column("effects", "bigint", "How many effects the world has."),
        Column(
            "kinds",
            "json",
            f"How many effects there are of each kind: of the {MAX_KINDS} kinds that came first, keys sorted.",
        ),
        Column("other_kinds", "bigint", "How many effects are of none of the kinds told apart in kinds."),
        Column("created_at", "timestamptz", "The wall_time of the first effect."),
        Column("last_effect_at", "timestamptz", "The wall_time of the last effect."),
        Column("first_sim_time", "double precision", "The sim_time of the first effect, in seconds."),
        Column("last_sim_time", "double precision", "The sim_time of the last effect, in seconds."),
        Column("last_seq", "bigint", "The global_seq of the last effect."),
        Column("last_kind", "text", "The kind of the last effect."),
        Column("parent", "text", "The world that it is a fork of, null if it is none.", nullable=True),
        Column("parent_seq", "bigint", "The last effect of the parent that is its history, too.", nullable=True),
        Column("depth", "integer", "How many ancestors it has: 0 for a world that is no fork."),
    )
    key = ("world_id",)
    indexes = (("experiment", "world_id"), ("parent", "world_id"))
    published = MappingProxyType({"first_sim_time": "first_sim_time_s", "last_sim_time": "last_sim_time_s"})
    has_forks = True
    needs_rows = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the summary's fold from its row on."""
        return _World(world_id, rows)
