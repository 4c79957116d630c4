"""A social-RL run's course as its effects tell it, for the projections that follow it: its rounds, and its agents.

These are the handlers of the fold itself, so that projections and states agree: which effects count, and which do not
because they cannot be read. The state holds only the present, and is moved forward at little cost.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import orjson
from worldledger_projections.base import AppendingWorld, Projection, Row, WorldProjection, moment, needed, take_effect

from worldledger.canonical import MAX_INT
from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.genesis import GENESIS_KIND
from worldledger_social_rl.rules.fields import MESSAGE_ROLES, role_and_name
from worldledger_social_rl.rules.words import EXTRA, PLACE, ROUND_STARTED, object_of

#: The ruleset whose worlds these projections read.
RULESETS: Final = frozenset({"social_rl"})
#: What decides which round it is.
ROUND_KINDS: Final = frozenset({GENESIS_KIND, ROUND_STARTED})


class Course:
    """A run, from where it stands on. It takes the fold that it is made of for its own."""

    def __init__(self, fold: Fold | None) -> None:
        fold = needed(fold)
        self._ruleset = fold.ruleset
        self.state = fold.state

    @property
    def known(self) -> dict[str, Any]:
        """What the state knows of the experiment; nothing before the genesis."""
        found: dict[str, Any] = self.state.metadata.get(PLACE, {})
        return found

    @property
    def round_number(self) -> int:
        """The round that was started last; 0 before the first."""
        number: int = self.known.get("round_number", 0)
        return number

    def feedback_of(self, agent_id: Any) -> Mapping[str, Any]:
        """Return the feedback that an agent has had last; nothing without any."""
        entity = self.state.entities.get(agent_id) if type(agent_id) is str else None
        return object_of(None if entity is None else entity["feedback"])

    def take(self, effect: Effect) -> bool:
        """Take an effect of a kind of the ruleset, or the genesis; tell whether it counts."""
        return take_effect(self._ruleset, self.state, effect)


class OfAgents(Projection):
    """A projection with one row for each effect of a kind that says whose it is.

    Its columns are world_id, global_seq, round_number, those of `row`, and recorded_at.
    """

    #: The kind of these effects.
    effect_kind: ClassVar[str]

    key = ("world_id", "global_seq")
    rulesets = RULESETS
    indexes = (("agent_id", "world_id"),)
    inherited_by = ("global_seq",)
    needs_state = True
    append_only = True

    @staticmethod
    @abstractmethod
    def row(effect: Effect, before: Mapping[str, Any]) -> Row:
        """Return what an effect that counts says; ``before`` is its agent's feedback before it."""

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the fold of these effects from the running round on."""
        return _OfAgents(world_id, Course(fold), self.effect_kind, self.row)


class _OfAgents(AppendingWorld):
    def __init__(
        self, world_id: str, course: Course, kind: str, row: Callable[[Effect, Mapping[str, Any]], Row]
    ) -> None:
        super().__init__(world_id)
        self._course = course
        self._kind = kind
        self._row = row

    def apply(self, effect: Effect) -> None:
        if effect["kind"] != self._kind:
            self._course.take(effect)
            return
        before = self._course.feedback_of(effect["payload"].get("agent_id"))
        if self._course.take(effect):
            place = (self._world_id, effect["global_seq"], self._course.round_number)
            self._rows.append((*place, *self._row(effect, before), moment(effect["wall_time"])))


def role_of(agent_id: str, payload: Mapping[str, Any]) -> str | None:
    """Return an agent's role: the one in its id, else the recorded one."""
    role, _ = role_and_name(agent_id)
    if role is not None:
        return role
    for said in (payload.get("role"), object_of(payload.get(EXTRA)).get("role")):
        if type(said) is str and said and said not in MESSAGE_ROLES:
            return said
    return None


# -- values of columns: null where a payload has something else ----------------------------------------------

#: Means, differences and squares of numbers up to here overflow in no query.
LARGEST: Final = 1e150


def text_of(value: Any) -> str | None:
    """Return a value that is a text."""
    return value if type(value) is str else None


def number_of(value: Any) -> float | None:
    """Return a value that is a number, of a size that can be added up and multiplied."""
    return float(value) if (type(value) is float or type(value) is int) and abs(value) <= LARGEST else None


def whole_of(value: Any) -> int | None:
    """Return a value that is a whole number."""
    return value if type(value) is int and abs(value) <= MAX_INT else None


def json_of(value: Any) -> str | None:
    """Return the JSON text of a value that is an object or a list."""
    if type(value) is dict or type(value) is list:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    return None
