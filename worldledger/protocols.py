"""Protocols: what policies and latency models need without subclassing ours, and the interfaces between layers.

Source: docs/reference/contracts.md, "Policies, validators and latency". `ObservationPolicy`, `PolicyConfig` and
`LatencyModel` have all of it, and more; classes of your own that have it are registered like theirs
(`worldledger.policies`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from worldledger.deltas import AnyDelta, View
from worldledger.effects import Effect

if TYPE_CHECKING:
    from worldledger.chain import StoredEffect
    from worldledger.folding import Fold
    from worldledger.world import WorldState


#: The members of `LatencyModelProtocol`, `PolicyConfigProtocol` and `ObservationPolicyProtocol`, by name.
MODEL_METHODS: Final = ("calculate_delay",)
CONFIG_ATTRIBUTES: Final = ("distance_limit", "relationship_filter", "field_visibility", "latency_model")
POLICY_METHODS: Final = ("filter_world_state", "should_observe_event", "calculate_observation_delta")


class LatencyModelProtocol(Protocol):
    """How long it takes until an agent sees what happened. It keeps nothing from one call to the next.

    A model is stored by its registered name and version and by the keyword arguments that make it again: the result of
    a method ``config()``, or its public attributes if it has none.
    """

    def calculate_delay(self, from_agent: str, to_agent: str, effect: Effect) -> float:
        """Return the seconds until ``to_agent`` sees an effect whose source is ``from_agent``."""
        ...


class PolicyConfigProtocol(Protocol):
    """The settings of a policy; see `worldledger.observation.PolicyConfig` for the meanings."""

    @property
    def distance_limit(self) -> float:
        """How far the agent sees, in units of the world; infinite for no limit."""
        ...

    @property
    def relationship_filter(self) -> list[str]:
        """The relationship types that the agent's view is limited to; empty for no filter."""
        ...

    @property
    def field_visibility(self) -> dict[str, bool]:
        """Field -> whether it is shown."""
        ...

    @property
    def latency_model(self) -> LatencyModelProtocol:
        """How long it takes until the agent sees what happened."""
        ...


class ObservationPolicyProtocol(PolicyConfigProtocol, Protocol):
    """Decides what an agent sees: three methods, and the four attributes of its configuration.

    The class is called with a configuration that has the four attributes. It keeps nothing from one call to the next,
    and only those four are stored with an agent. The whole view is recomputed for every effect.
    """

    def filter_world_state(self, world_state: WorldState, agent_id: str) -> View:
        """Return the agent's view of this state; only the contents of the view count."""
        ...

    def should_observe_event(self, effect: Effect, agent_id: str, world_state: WorldState) -> bool:
        """Return whether the agent observes an effect, given the state after it."""
        ...

    def calculate_observation_delta(self, old_view: View, new_view: View) -> AnyDelta:
        """Return the delta between two views of an agent. Its ``events`` are ignored, and may be left out."""
        ...


def lacking(what: object, names: Iterable[str], *, methods: bool) -> list[str]:
    """Return those of these attributes that an object lacks; those of ``methods`` must be callable."""
    found: dict[str, Any] = {name: getattr(what, name, None) for name in names}
    if methods:
        return [name for name, value in found.items() if not callable(value)]
    return [name for name in found if not hasattr(what, name)]


# -- interfaces between the layers ------------------------------------------------------------------------------


class Span(NamedTuple):
    """Some of a world's effects: those with after_seq < global_seq <= until_seq."""

    world_id: str
    after_seq: int
    until_seq: int


class WorldHead(NamedTuple):
    """A world, the ruleset that folds it, and the head of its log."""

    world_id: str
    ruleset: str
    head_seq: int


class LogReader(Protocol):
    """Reads worlds' logs; passed to the code that folds effects."""

    def batches(
        self,
        world_id: str,
        *,
        after_seq: int = 0,
        until_seq: int | None = None,
        kind: str | None = None,
        source_id: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[list[StoredEffect]]:
        """Return rows with after_seq < global_seq <= until_seq, ascending, in batches of bounded size."""
        ...

    async def head_seqs(self, world_ids: list[str]) -> dict[str, int]:
        """Return the present head_seq of each of these worlds that exists."""
        ...

    async def gather(self, spans: Sequence[Span], *, limit: int) -> list[list[StoredEffect]]:
        """Return the first rows of each span, in one query: a list for each span, in their order.

        About ``limit`` rows are returned in all, so a span may come back short or empty; ask again from where it ended.
        At least one row is returned if any span has one.
        """
        ...

    async def world_heads(self, *, after: str = "", limit: int = 1000) -> list[WorldHead]:
        """Return worlds by name, those after ``after``, with their present heads."""
        ...


class StateReader(Protocol):
    """Reads states; passed to code that needs a world's state at a seq."""

    async def fold_at(self, world_id: str, global_seq: int) -> Fold:
        """Return an independent fold at this seq. Raises WorldNotFoundError or MomentNotFoundError."""
        ...

    async def know(self, world_ids: Iterable[str]) -> None:
        """Read at once what is to be known of worlds before they are folded; what cannot be read is left out."""
        ...
