"""The interface of a world to its agents: both the Orchestrator in this process and the Client have it.

A program that is written against `World` and `Agent` runs in process and over the wire without change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from worldledger.aio import CancelToken
from worldledger.deltas import ObservationDelta, ObservedEvent, View, replacing
from worldledger.effects import EffectDraft, EventLogEntry
from worldledger.errors import SimulationError
from worldledger.intents import Accepted, Held
from worldledger.protocols import ObservationPolicyProtocol
from worldledger.staleness import NOT_GIVEN, InterruptPolicy, Threshold
from worldledger.time_authority import Silence, TimeAuthority

if TYPE_CHECKING:
    from worldledger.config import OrchestratorConfig


class Receipt(Protocol):
    """The facts about an effect once it is durable; ``checksum`` is lower-case hex."""

    @property
    def global_seq(self) -> int:
        """The effect's place in the log."""
        ...

    @property
    def uuid(self) -> str:
        """The effect's uuid."""
        ...

    @property
    def checksum(self) -> str:
        """The chain's checksum after it."""
        ...

    @property
    def replayed(self) -> bool:
        """Whether an earlier request with the same req_id made the effect."""
        ...


class Observations(Protocol):
    """One reader's way through the observations of an agent, in order."""

    @property
    def agent_id(self) -> str:
        """The agent whose observations these are."""
        ...

    @property
    def view_seq(self) -> int:
        """The view_seq of the last delta that was returned; at first, where they begin."""
        ...

    @property
    def view(self) -> View | None:
        """The view that the first delta applies to; None if the reader brought one."""
        ...

    async def get(self) -> ObservationDelta:
        """Wait for the next delta and return it. Raises QueueClosedError once this is closed."""
        ...

    def get_due(self, limit: int | None = None) -> list[ObservationDelta]:
        """Return the deltas that have arrived, without waiting."""
        ...

    def close(self) -> None:
        """End the subscription."""
        ...


class Agent(Protocol):
    """One agent's own interface (docs/reference/contracts.md, "Orchestrator and handles")."""

    @property
    def agent_id(self) -> str:
        """The agent's name."""
        ...

    @property
    def view_seq(self) -> int:
        """The view_seq of the last observation that was returned."""
        ...

    @property
    def context_seq(self) -> int:
        """The newest seq that the agent was handed through this handle, by an observation or a view."""
        ...

    @property
    def initial_view(self) -> View | None:
        """The view that the first observation applies to."""
        ...

    async def next_observation(self) -> ObservationDelta:
        """Wait for the next observation; asking for it acknowledges the one before."""
        ...

    async def submit_intent(self, intent: Mapping[str, Any]) -> Accepted:
        """Submit an intent; agent_id, context_seq, req_id and schema_version are filled in where missing."""
        ...

    async def hold_intent(self, intent: Mapping[str, Any]) -> Held | Accepted:
        """Hold an intent until the next tick; return once that is durable."""
        ...

    async def cancel(self, req_id: str) -> None:
        """Cancel a generation of this agent."""
        ...

    def issue_cancel_token(
        self,
        req_id: str,
        context_seq: int | None = None,
        *,
        staleness_threshold: Threshold = NOT_GIVEN,
        about: Collection[str] | None = None,
        model: Mapping[str, Any] | None = None,
    ) -> CancelToken:
        """Begin a generation, from the newest view that was handed out unless a context is named."""
        ...

    async def view(self, at_seq: int | None = None, *, at: str | None = None) -> View:
        """Return the agent's whole view, the latest or the one that it had at a seq or another moment."""
        ...

    def get_view_seq(self) -> int:
        """Return ``view_seq``."""
        ...

    def close(self) -> None:
        """Close the handle; the agent stays registered."""
        ...


class Log(Protocol):
    """A world's log, for reading."""

    async def get_entries_since(self, since_seq: int, limit: int | None = None) -> list[EventLogEntry]:
        """Return the entries after ``since_seq``, ascending; at most ``limit`` if given."""
        ...


class World(Protocol):
    """One world (docs/reference/contracts.md, "Orchestrator and handles").

    `worldledger_service.runtime.Orchestrator` says what each method promises and raises; a `Client` raises the same
    errors, and ServiceUnavailableError if the service cannot be reached.
    """

    @property
    def world_id(self) -> str:
        """The world's name."""
        ...

    @property
    def event_log(self) -> Log:
        """The world's log."""
        ...

    async def orchestrator_config(self) -> OrchestratorConfig:
        """Return how the world's agents are served."""
        ...

    # -- agents --------------------------------------------------------------------------------------------

    async def register_agent(
        self,
        agent_id: str,
        policy: ObservationPolicyProtocol | None = None,
        permissions: Collection[str] | None = None,
        *,
        weight: int = 1,
        staleness_threshold: Threshold = NOT_GIVEN,
        interrupt_policy: InterruptPolicy | None = None,
    ) -> Agent:
        """Register an agent, or update a registered one's policy and permissions; return its handle."""
        ...

    async def agent(self, agent_id: str, *, view_seq: int | None = None) -> Agent:
        """Return the handle of a registered agent; its observations continue after a view, or where it acknowledged."""
        ...

    async def agents(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the registration of every agent: policy, permissions, weight, registered_seq."""
        ...

    # -- intents and events --------------------------------------------------------------------------------

    async def submit_intent(self, intent: Mapping[str, Any]) -> Accepted:
        """Submit an intent; return its effect's uuid."""
        ...

    async def hold_intent(self, intent: Mapping[str, Any]) -> Held | Accepted:
        """Hold an intent until the next tick; return once that is durable."""
        ...

    async def submit_intents(
        self, intents: Sequence[Mapping[str, Any]], *, atomic: bool = False, ordered: bool = True
    ) -> list[Accepted | SimulationError]:
        """Submit several intents: ``atomic`` all or none, else each by itself with its own answer."""
        ...

    async def broadcast_event(self, draft: EffectDraft) -> Receipt:
        """Append an effect as the world's operator."""
        ...

    # -- interruption --------------------------------------------------------------------------------------

    def issue_cancel_token(
        self,
        agent_id: str,
        req_id: str,
        context_seq: int | None = None,
        *,
        staleness_threshold: Threshold = NOT_GIVEN,
        about: Collection[str] | None = None,
        model: Mapping[str, Any] | None = None,
    ) -> CancelToken:
        """Issue the token of a generation that begins now; it is live at once."""
        ...

    async def cancel_if_stale(self, agent_id: str, req_id: str, new_view_seq: int) -> bool:
        """Cancel a generation if this view makes it stale; return whether it did."""
        ...

    async def cancel_generation(self, agent_id: str, req_id: str, reason: str = "user_requested") -> None:
        """Cancel a generation, wherever it runs."""
        ...

    async def finish_generation(self, agent_id: str, req_id: str) -> bool:
        """Note that a generation has ended without an intent of its req_id; return False if none runs."""
        ...

    async def report_generation(
        self, agent_id: str, req_id: str, report: Mapping[str, Any], texts: Sequence[Mapping[str, Any]] = ()
    ) -> Receipt:
        """Record what a generation used and what came of it, and the texts that are to be kept of it."""
        ...

    async def lease_agent(
        self, agent_id: str, holder: str, seconds: float, *, instead_of: str | None = None
    ) -> Mapping[str, Any]:
        """Lease an agent to one program, or renew its lease; 0 seconds give it back."""
        ...

    def generation(self, agent_id: str, req_id: str) -> CancelToken | None:
        """Return the token of a generation that was begun here; it is remembered for a while after its end."""
        ...

    def generation_context(self, agent_id: str, req_id: str) -> int | None:
        """Return the context of a generation that is under way; None if there is none."""
        ...

    # -- staleness -----------------------------------------------------------------------------------------

    async def set_staleness(
        self,
        *,
        staleness_threshold: Threshold = NOT_GIVEN,
        interrupt_policy: InterruptPolicy | None = None,
        max_staleness_threshold: Threshold = NOT_GIVEN,
    ) -> object:
        """Set when intents and generations that begin from now on are stale; omitted settings stay."""
        ...

    # -- observation ---------------------------------------------------------------------------------------

    async def view(self, agent_id: str, *, at_seq: int | None = None, at: str | None = None) -> View:
        """Return an agent's view, the latest that it may know or the one that it had at a seq or another moment.

        Its view_seq is that of the effect that made it: the last up to there that gave the agent a delta.
        """
        ...

    async def subscribe(self, agent_id: str, *, view_seq: int | None = None) -> Observations:
        """Return the agent's observations after a view, or from now on with the view to begin with."""
        ...

    def acknowledge(self, agent_id: str, view_seq: int) -> None:
        """Note that the agent has a view: if it returns without naming one, it continues from there."""
        ...

    async def observed_events(
        self,
        agent_id: str,
        *,
        after_seq: int = 0,
        until_seq: int | None = None,
        kinds: Collection[str] | None = None,
        limit: int = 100,
    ) -> tuple[list[ObservedEvent], int]:
        """Return events of the past that the agent could see, and the seq to continue after."""
        ...

    # -- time ----------------------------------------------------------------------------------------------

    def set_sim_time_authority(
        self, authority: str, *, zero: float | None = None, force: bool = True
    ) -> Awaitable[object]:
        """Make an adapter set sim_time from here on, or ("none") the wall clock; awaiting it waits for the effect.

        ``zero``: the world's sim_time at which the authority's own 0.0 lies; None: the world's present time. Without
        ``force`` an adapter takes over only from another one that is silent.
        """
        ...

    async def time_authority(self) -> TimeAuthority:
        """Return the authority that sets sim_time, what is added to its own time, and whether it is silent."""
        ...

    def on_authority_silent(self, listener: Callable[[Silence], None]) -> Callable[[], None]:
        """Register a listener for silences of the time authority; call the result to unregister it."""
        ...

    async def tick(self, adapter: str, sim_time: float) -> Receipt:
        """Advance sim_time."""
        ...

    async def close_tick(self, source: str) -> Receipt:
        """Close the tick of a world that is ordered by ticks without setting sim_time."""
        ...


# -- keeping collapsed deltas within the world's limit on patches -----------------------------------------


async def fitted(world: World, agent_id: str, delta: ObservationDelta) -> ObservationDelta:
    """Return a delta as it is, or one with the whole view if it has more operations than the world's ``max_patch_ops``.

    Only a delta that stands for several can have that many. Its events stay. Raises as `World.view`.
    """
    if "collapsed" not in delta or len(delta.patches) <= (await world.orchestrator_config()).max_patch_ops:
        return delta
    view = await world.view(agent_id, at_seq=delta.view_seq)
    return ObservationDelta(delta, patches=replacing(view.visible_entities, view.visible_relationships))
