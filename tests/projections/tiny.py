"""Tiny projections that the engine's tests feed, one of each sort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import orjson
from worldledger_projections.base import Changes, Column, Projection, Row, View, WorldProjection

from worldledger.effects import Effect
from worldledger.folding import Fold


class _Counts(WorldProjection):
    def __init__(self, world_id: str, rows: Sequence[Row], step: int) -> None:
        self._world_id = world_id
        self._counts = {row[1]: row[2] for row in rows}
        self._changed: dict[str, int] = {}
        self._step = step

    def apply(self, effect: Effect) -> None:
        kind = effect["kind"]
        self._counts[kind] = self._counts.get(kind, 0) + self._step
        self._changed[kind] = effect["global_seq"]

    def take_changes(self) -> Changes:
        changed, self._changed = self._changed, {}
        return Changes(upserts=[(self._world_id, kind, self._counts[kind], seq) for kind, seq in changed.items()])


class Counts(Projection):
    """How many effects of each kind there are: rows that are read back after a restart."""

    name = "counts"
    version = 1
    comment = "Effects by kind, it's a test."
    columns: ClassVar[Sequence[Column]] = (
        Column("world_id", "text", "The world."),
        Column("kind", "text", "The kind."),
        Column("count", "bigint", "How many there are."),
        Column("last_seq", "bigint", "The last of them."),
    )
    key = ("world_id", "kind")
    indexes: ClassVar[Sequence[Sequence[str]]] = (("kind", "count"),)
    views = (
        View("count_totals", "select kind, sum(count)::bigint as count from counts group by kind", "Over all worlds."),
    )
    needs_rows = True
    step: ClassVar[int] = 1

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the fold of a world."""
        return _Counts(world_id, rows, self.step)


class DoubleCounts(Counts):
    """A later version, whose rows are others."""

    version = 2
    step = 2


class WideCounts(Counts):
    """A version with a column more and one less, so that its view cannot be replaced in place."""

    version = 3
    columns = (
        Column("world_id", "text", "The world."),
        Column("kind", "text", "The kind."),
        Column("n", "bigint", "How many there are."),
        Column("last_seq", "bigint", "The last of them."),
        Column("note", "json", "Nothing.", nullable=True),
    )
    indexes = ()
    views = (View("count_sums", "select kind, sum(n)::bigint as n from counts group by kind", "Over all worlds."),)

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the fold of a world."""
        return _WideCounts(world_id, rows, self.step)


class _WideCounts(_Counts):
    def take_changes(self) -> Changes:
        return Changes(upserts=[(*row, "{}") for row in super().take_changes().upserts])


class PoisonError(Exception):
    """What the tests' projections raise."""


class _Said(WorldProjection):
    def __init__(self, world_id: str, of: Said) -> None:
        self._world_id = world_id
        self._of = of
        self._rows: list[Row] = []

    def apply(self, effect: Effect) -> None:
        payload = effect["payload"]
        if payload.get("poison") in self._of.poisons:
            raise PoisonError(f"cannot digest {payload['poison']}\x00")
        if self._of.slow and payload.get("n", 0) % 7 == 0:
            self._of.slow()
        self._rows.append((self._world_id, effect["global_seq"], str(payload.get("text", payload.get("n")))))

    def take_changes(self) -> Changes:
        rows, self._rows = self._rows, []
        if any(row[2] in self._of.late_poisons for row in rows):
            raise PoisonError("found out late")
        return Changes(upserts=rows)


class Said(Projection):
    """A list of what was said, one kind of effect only, copied and never read back."""

    name = "said"
    version = 1
    comment = "What was said."
    columns = (
        Column("world_id", "text", "The world."),
        Column("global_seq", "bigint", "The effect."),
        Column("text", "text", "What was said."),
    )
    key = ("world_id", "global_seq")
    kinds = frozenset({"Said"})
    append_only = True

    def __init__(
        self, poisons: Sequence[str] = (), late_poisons: Sequence[str] = (), slow: Callable[[], None] | None = None
    ) -> None:
        self.poisons = set(poisons)
        self.late_poisons = set(late_poisons)
        self.bad_worlds: set[str] = set()
        self.slow = slow

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the fold of a world."""
        if world_id in self.bad_worlds:
            raise PoisonError(f"cannot begin {world_id}")
        return _Said(world_id, self)


class _Things(WorldProjection):
    def __init__(self, world_id: str, fold: Fold) -> None:
        self._world_id = world_id
        self._fold = fold
        self._rows = set(fold.state.entities)
        self._touched: set[str] = set()

    def apply(self, effect: Effect) -> None:
        touched = self._fold.apply(effect)
        if isinstance(touched, str):
            self._touched.add(touched)
        else:
            self._touched.update(self._rows | self._fold.state.entities.keys() if touched is None else touched)

    def take_changes(self) -> Changes:
        entities = self._fold.state.entities
        here = [name for name in sorted(self._touched) if name in entities]
        gone = [(self._world_id, name) for name in sorted(self._touched) if name in self._rows - entities.keys()]
        self._rows = set(entities)
        self._touched = set()
        texts = [(self._world_id, name, orjson.dumps(entities[name], option=orjson.OPT_SORT_KEYS)) for name in here]
        return Changes(upserts=[(world, name, text.decode()) for world, name, text in texts], deletes=gone)


class Things(Projection):
    """The entities of a world's state: begins with a state, deletes rows, has json."""

    name = "things"
    version = 1
    comment = "What there is."
    columns = (
        Column("world_id", "text", "The world."),
        Column("thing", "text", "The entity."),
        Column("data", "json", "All about it."),
    )
    key = ("world_id", "thing")
    rulesets = frozenset({"sandbox"})
    needs_state = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the fold of a world."""
        assert fold is not None
        return _Things(world_id, fold)


def trio() -> list[Projection]:
    """Return one projection of each sort."""
    return [Counts(), Said(), Things()]
