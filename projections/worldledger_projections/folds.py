"""Folding batches of effects in memory: the part of the engine that is bare computing, without a database.

An effect is read once for all projections of a world that stand at the same seq. A projection that moves a state
forward (`moves_state`) has effects of its own: states keep pieces of payloads and change them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from worldledger.chain import StoredEffect
from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.upcasting import Upcasters
from worldledger_projections.base import Changes, Projection, Row, WorldProjection
from worldledger_projections.tables import RowError, Table

#: How much is kept in memory between batches: worlds, rows they began with, and entities of states.
KEPT = 50_000

Key = tuple[str, str]
_Apply = Callable[[Effect], None]


class Held(NamedTuple):
    """A fold that stands where the cursor does."""

    seq: int
    projection: WorldProjection
    fold: Fold | None
    rows: int

    @property
    def weight(self) -> int:
        """How much room it takes."""
        return 1 + self.rows + (len(self.fold.state.entities) if self.fold is not None else 0)


@dataclass(slots=True, eq=False)
class Target:
    """One build in one world: where it stands, and what a batch makes of it."""

    table: Table
    world_id: str
    ruleset: str
    seq: int
    #: where the log is known to end
    head: int
    #: whether the cursor has no row yet
    fresh: bool
    held: Held | None = None
    #: what `begin` is handed where nothing is held
    rows: Sequence[Row] = ()
    fold: Fold | None = None
    projection: WorldProjection | None = None
    reached: int = 0
    changes: Changes = field(default_factory=Changes)
    failed: bool = False
    poison: Poison | None = None

    @property
    def key(self) -> Key:
        """Which build, and which world."""
        return self.table.build, self.world_id

    @property
    def behind(self) -> bool:
        """Whether more is due than was folded; not where the world was set aside."""
        return self.poison is None and self.reached < self.head

    def anew(self, seq: int | None = None) -> Target:
        """Return the same target, untouched; at ``seq``, where it has come to since."""
        if seq is None:
            return Target(self.table, self.world_id, self.ruleset, self.seq, self.head, self.fresh)
        return Target(self.table, self.world_id, self.ruleset, seq, self.head, fresh=False)

    def ready(self) -> WorldProjection:
        """Return the fold, begun if need be."""
        if self.projection is None:
            if self.held is not None:
                self.projection, self.fold = self.held.projection, self.held.fold
            else:
                self.projection = self.table.projection.begin(self.world_id, self.rows, self.fold)
                if not moves_state(self.table.projection):
                    self.fold = None  # it was looked at once, and stays behind
        return self.projection

    def keep(self) -> Held:
        """Return the fold as it is to be kept, now that what it made is written."""
        rows = self.held.rows if self.held is not None else len(self.rows)
        return Held(self.reached, self.ready(), self.fold, rows)


class Poison(NamedTuple):
    """What a projection could not digest: the effect, and what it raised."""

    global_seq: int
    kind: str | None
    error: str

    @classmethod
    def of(cls, row: StoredEffect, error: BaseException) -> Poison:
        """Say what is the matter with an effect."""
        return cls(row.global_seq, row.kind, described(error))


def moves_state(projection: Projection) -> bool:
    """Tell whether a projection moves its state forward: for that it has to be handed every effect."""
    return projection.needs_state and projection.kinds is None


class Group(NamedTuple):
    """Targets of one world at one seq, and the effects that follow there."""

    rows: list[StoredEffect]
    targets: list[Target]
    upcasting: Upcasters | None


def fold(groups: Sequence[Group]) -> None:
    """Fold each group's effects into its targets, and take what changed. Where one fails they are all marked."""
    for rows, targets, upcasting in groups:
        try:
            _dispatch(rows, targets, upcasting)
        except Exception:  # noqa: BLE001 - which effect, and whose fault: found out by `carefully`
            for target in targets:
                target.failed = True
            continue
        for target in targets:
            try:
                target.changes = target.table.checked(target.world_id, target.ready().take_changes())
                target.reached = rows[-1][0] if rows else target.seq
            except Exception:  # noqa: BLE001 - likewise
                target.failed = True


def _dispatch(rows: list[StoredEffect], targets: list[Target], upcasting: Upcasters | None) -> None:
    every: list[_Apply] = [t.ready().apply for t in targets if t.table.projection.kinds is None]
    handlers: dict[str, list[_Apply]] = {}
    for target in targets:
        projection = target.ready()
        for kind in target.table.projection.kinds or ():
            handlers.setdefault(kind, [*every]).append(projection.apply)
    loads = orjson.loads
    find = handlers.get
    old = upcasting.kinds if upcasting is not None else ()
    for row in rows:
        kind = row[3]
        applies = find(kind, every)
        if applies:
            effect = loads(row[1])
            if kind in old and upcasting is not None:
                effect = upcasting.apply(effect)
            for apply in applies:
                apply(effect)


def carefully(target: Target, rows: Sequence[StoredEffect], upcasting: Upcasters | None) -> None:
    """Fold one effect after another into one target, and stop before the first that cannot be digested."""
    merged = Merged(target.table)
    target.reached = target.seq
    kinds = target.table.projection.kinds
    for row in rows:
        try:
            projection = target.ready()
            if kinds is None or row.kind in kinds:
                effect: Any = orjson.loads(row.text)
                projection.apply(upcasting.apply(effect) if upcasting is not None else effect)
            merged.add(target.table.checked(target.world_id, projection.take_changes()))
        except Exception as error:  # noqa: BLE001 - whatever it is, the world is set aside because of it
            target.poison = Poison.of(row, error)
            break
        target.reached = row.global_seq
    target.changes = merged.changes()


class Merged:
    """Changes that follow one another, as one."""

    def __init__(self, table: Table) -> None:
        self._key = table.key_of
        self._rows: dict[Row, Row | None] = {}

    def add(self, changes: Changes) -> None:
        """Add what came next. Raises RowError for a key that stands in it twice."""
        keys = [*changes.deletes, *map(self._key, changes.upserts)]
        if len(set(keys)) < len(keys):
            raise RowError("a key stands twice among the rows")
        self._rows.update(zip(keys, (*[None] * len(changes.deletes), *changes.upserts), strict=True))

    def changes(self) -> Changes:
        """Return what they come to."""
        return Changes(
            upserts=[row for row in self._rows.values() if row is not None],
            deletes=[key for key, row in self._rows.items() if row is None],
        )


class Folds:
    """The folds that are kept between batches, those used last; what is taken out and not put back is forgotten."""

    def __init__(self, room: int = KEPT) -> None:
        self._room = room
        self._held: OrderedDict[Key, tuple[Held, int]] = OrderedDict()
        self._weight = 0

    def take(self, key: Key, seq: int) -> Held | None:
        """Take out a fold, if there is one and it stands at this seq."""
        found = self._held.pop(key, None)
        if found is None:
            return None
        self._weight -= found[1]
        return found[0] if found[0].seq == seq else None

    def put(self, key: Key, held: Held) -> None:
        """Keep a fold; the ones longest unused make room for it."""
        self.take(key, held.seq)
        weight = held.weight
        self._held[key] = held, weight
        self._weight += weight
        while self._weight > self._room:
            _, (_, weight) = self._held.popitem(last=False)
            self._weight -= weight

    def forget(self, build: str) -> None:
        """Forget all folds of a build: another may have written it meanwhile."""
        for key in [key for key in self._held if key[0] == build]:
            self.take(key, -1)


def described(error: BaseException) -> str:
    """Say what was raised, in a text of bounded length that PostgreSQL can hold. It is never empty."""
    text = f"{type(error).__name__}: {error}"[:2000].replace("\x00", "\\x00")
    return text.encode("utf-8", "backslashreplace").decode()
