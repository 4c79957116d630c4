"""What a projection is: a fold from one world's effects to rows of its own table.

A projection is pure. It is handed effects, and, where it says so, the rows it made of the same world before and the
world's state; it gives rows. It is handed nothing with which it could touch the world outside, so replaying a log
can have no side effects. The engine (`worldledger_service.projecting.engine`) reads the log and writes the rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from worldledger.effects import Effect
from worldledger.errors import RecoveryAction, SimulationError
from worldledger.folding import Fold
from worldledger.genesis import GENESIS_KIND
from worldledger.rulesets.base import MalformedEffectError, Ruleset
from worldledger.time_authority import FORK_OF
from worldledger.world import WorldState

# -- what the engine refuses: leaves of the one error tree (`worldledger.errors`) -------------------------


class ProjectionNotFoundError(SimulationError):
    """There is no projection of that name; details: ``projection``, ``known``."""

    code = "projection_not_found"
    recovery = RecoveryAction.MODIFY_INTENT


class InvalidProjectionError(SimulationError):
    """A projection of one's own cannot be used; the message says why. Details: ``projection``, as it was named."""

    code = "invalid_projection"
    recovery = RecoveryAction.MODIFY_INTENT


class ProjectionRefusedError(SimulationError):
    """What was asked of a projection cannot be done as it is now; the message says why. Details: ``projection``."""

    code = "projection_refused"
    recovery = RecoveryAction.MODIFY_INTENT


class ProjectionFailedError(SimulationError):
    """A projection could not digest an effect; details: ``projection``, ``world_id``, ``global_seq``, ``kind``."""

    code = "projection_failed"


Row = tuple[Any, ...]

#: Where builds and their views stand, and where what people ask stands.
SCHEMA: Final = "projections"
ANALYTICS: Final = "analytics"

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Column(NamedTuple):
    """A column of a projection's table: name, SQL type (``text``, ``bigint``, ``timestamptz`` …), and what it says."""

    name: str
    type: str
    comment: str
    nullable: bool = False


#: The column that the rows of every projection begin with.
WORLD: Final = Column("world_id", "text", "The name of the world.")


class View(NamedTuple):
    """A further view: ``select`` names the projection's own view by its name.

    ``{build}`` in it is the name of the build that the view reads. ``upon`` are the other projections whose views
    ``select`` names: the view is there whenever all of them are. ``schema`` is where it stands, and ``columns`` are
    comments on its columns, by name.
    """

    name: str
    select: str
    comment: str
    upon: tuple[str, ...] = ()
    schema: str = SCHEMA
    columns: Mapping[str, str] = _NOTHING


@dataclass(slots=True)
class Changes:
    """What a batch of effects made of a world's rows, to be written together with the cursor.

    ``upserts`` are whole rows in the order of the projection's columns, at most one for each key. ``deletes`` are
    keys of rows that are no more; none of them is among the upserts.
    """

    upserts: list[Row] = field(default_factory=list)
    deletes: list[Row] = field(default_factory=list)


class WorldProjection(ABC):
    """One projection's fold of one world, in memory, at some seq."""

    @abstractmethod
    def apply(self, effect: Effect) -> None:
        """Fold the next effect of a kind that the projection handles.

        It may be handed to other projections too, and must not be changed. (Where a Fold is moved forward it was read
        for this projection alone.)

        Whatever this raises parks the effect: see `worldledger_service.projecting.engine`.
        """

    @abstractmethod
    def take_changes(self) -> Changes:
        """Return what changed since the last call, and forget it."""


class AppendingWorld(WorldProjection):
    """The fold of an ``append_only`` projection: `apply` adds whole rows to ``_rows``, and each is given once."""

    def __init__(self, world_id: str) -> None:
        self._world_id = world_id
        self._rows: list[Row] = []

    def take_changes(self) -> Changes:
        """Return the rows that are new."""
        rows, self._rows = self._rows, []
        return Changes(upserts=rows)


class Projection(ABC):
    """A read model; subclass it and name the class to `worldledger_projections.registry`.

    - ``version`` rises whenever the same log would give other rows: a build of the new version is then made beside
      the old one and takes over when it has caught up.
    - ``rulesets``: the worlds it reads, None for all. ``kinds``: the effects it is handed, None for all.
    - ``columns`` and ``key``: its table; both begin with ``world_id``. ``indexes``: further indexes, by columns.
    - ``needs_rows``: `begin` is handed the rows that the world has so far (so there must be few of a world's).
      ``newest_by`` names a column, with an index after ``world_id``: only the rows with the world's greatest value in
      it are handed over.
    - ``needs_state``: `begin` is handed a Fold at the world's cursor, of its own. Without ``kinds`` the projection
      moves it forward itself (``fold.apply(effect)`` for every effect); with ``kinds`` it only begins with it.
    - ``needs_beginning``: rulesets, of whose worlds `begin` is handed a Fold at their first effect, if it can be had: a
      fork's has its parent's state.
    - ``append_only``: no key is ever written twice and none deleted, so rows may be copied in.
    - ``published``: people ask a view of the same name in the schema ``analytics``, which has the world's experiment
      besides. What is called otherwise there is named here: a column's name, and the one that says more. None: it is
      not published.
    - ``has_forks``: whether that view has the rows of forks. Else they are left out, and a second view, with
      ``_with_forks`` behind its name, has them.
    - ``inherited_by``: columns; the first of them that is not null is the effect from which on a row stays as it is.
      The second view gives a fork the rows of its ancestors up to the fork points, too, and marks them. Without
      columns, it has forks' own rows alone.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    comment: ClassVar[str]
    columns: ClassVar[Sequence[Column]]
    key: ClassVar[Sequence[str]]
    rulesets: ClassVar[frozenset[str] | None] = None
    kinds: ClassVar[frozenset[str] | None] = None
    indexes: ClassVar[Sequence[Sequence[str]]] = ()
    views: ClassVar[Sequence[View]] = ()
    needs_rows: ClassVar[bool] = False
    newest_by: ClassVar[str | None] = None
    needs_state: ClassVar[bool] = False
    needs_beginning: ClassVar[frozenset[str]] = frozenset()
    append_only: ClassVar[bool] = False
    published: ClassVar[Mapping[str, str] | None] = _NOTHING
    has_forks: ClassVar[bool] = False
    inherited_by: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the world's fold at its cursor: at the start, or where an earlier runner left it.

        ``rows`` are the world's rows so far (those of ``newest_by`` where that is set), in the order of ``columns``,
        where ``needs_rows``; ``fold`` is there where ``needs_state``, and as ``needs_beginning`` says.
        """


def needed(fold: Fold | None) -> Fold:
    """Return the fold of a projection with ``needs_state``. Raises ValueError without one."""
    if fold is None:
        raise ValueError("the projection is made from the world's state on")
    return fold


def find(projections: Mapping[str, Projection], name: str) -> Projection:
    """Return the projection of that name. Raises ProjectionNotFoundError, which lists those that there are."""
    found = projections.get(name)
    if found is None:
        names = sorted(projections)
        what = f"there is no projection {name!r}; there are {', '.join(names)}"
        raise ProjectionNotFoundError(what, projection=name, known=names)
    return found


# -- times in rows: from the log's epoch seconds, and from texts in payloads, to what a ``timestamptz`` holds


#: The ends of what is told: a second off those of `datetime`, which the driver takes for infinity.
EARLIEST: Final = datetime(1, 1, 1, 0, 0, 1, tzinfo=UTC)
LATEST: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)

_FIRST: Final = EARLIEST.timestamp()
_LAST: Final = LATEST.timestamp()


def take_effect(ruleset: Ruleset, state: WorldState, effect: Effect) -> bool:
    """Fold the genesis, or an effect of a kind of the ruleset, into a state; return whether it counts.

    The genesis of a fork changes nothing: the state that a fork is given is its parent's.
    """
    if effect["kind"] == GENESIS_KIND:
        if effect["payload"].get(FORK_OF) is None:
            ruleset.begin(state, effect["payload"]["config"])
        return True
    try:
        ruleset.handlers[effect["kind"]](state, effect)
    except MalformedEffectError:
        return False
    return True


def moment(epoch: float) -> datetime:
    """Return a wall_time (epoch seconds) in UTC, to the microsecond.

    A time outside of the years 1 to 9999, which only an export made by hand can have, is `EARLIEST` or `LATEST`.
    """
    if _FIRST < epoch < _LAST:
        return datetime.fromtimestamp(epoch, UTC)
    return EARLIEST if epoch < 0 else LATEST


def stated_moment(value: Any) -> datetime | None:
    """Read an ISO 8601 text that a payload states; None for anything else. Without an offset it is taken as UTC."""
    if type(value) is not str:
        return None
    try:
        found = datetime.fromisoformat(value)
        told = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return told if EARLIEST <= told <= LATEST else None
