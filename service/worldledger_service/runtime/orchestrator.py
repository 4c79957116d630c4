"""The orchestrator: one world as its agents live in it, durable, in this process.

Source: docs/reference/contracts.md, "Orchestrator and handles". Any number of processes may have an orchestrator of the
same world: what they share is the log, and each follows it.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence, Sized
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from worldledger.aio import CancelToken
from worldledger.answering import Answering
from worldledger.config import OrchestratorConfig, read_config
from worldledger.deltas import ObservationDelta
from worldledger.effects import SCHEMA_VERSION, EffectDraft
from worldledger.errors import (
    AgentLeasedError,
    InvalidEffectError,
    InvalidIntentError,
    RequestConflictError,
    SimulationError,
    TooManyAgentsError,
    UnknownGenerationError,
)
from worldledger.genesis import NewWorld, Order
from worldledger.intents import Accepted, Held, registration_draft
from worldledger.kinds import DEFAULT
from worldledger.moments import HEAD, Moment, parse_moment, seq_or_moment
from worldledger.names import check_namesake
from worldledger.observation import ObservationPolicy, ObservedEvent, View
from worldledger.policies import as_policy, policy_spec
from worldledger.protocols import ObservationPolicyProtocol
from worldledger.staleness import (
    NOT_GIVEN,
    InterruptPolicy,
    Threshold,
    WorldStaleness,
    check_about,
)
from worldledger.time_authority import TimeAuthority
from worldledger.validation import DefaultEffectValidator, EffectValidator
from worldledger_service.runtime.admission import Admission, IntentLists, Parts
from worldledger_service.runtime.attachments import Attachment, Attachments, Subscription
from worldledger_service.runtime.clocks import Clocks, Tick
from worldledger_service.runtime.following import ViewFollower
from worldledger_service.runtime.generations import Generations, UnderWay, check_model, lease_draft, reports_of
from worldledger_service.runtime.observing import Observing, Outbox
from worldledger_service.runtime.replays import past_view
from worldledger_service.runtime.sightings import Placing, Sightings, StalenessSettings, sights_of
from worldledger_service.runtime.ticks import Ticks
from worldledger_service.settings import Settings
from worldledger_service.store import Receipt, Store
from worldledger_service.store.units import have_req_ids
from worldledger_service.store.watch import HeadWatcher

if TYPE_CHECKING:
    from worldledger.config import MemoryConfig
    from worldledger.effects import Effect
    from worldledger.rulesets import Ruleset
    from worldledger.time_authority import Silence
    from worldledger.views import Sighting, Views
    from worldledger.world import WorldState
    from worldledger_service.runtime.guarding import StoreGuard
    from worldledger_service.runtime.scheduling import Quotas
    from worldledger_service.store import WorldRecord
    from worldledger_service.store.event_log import EventLog
    from worldledger_service.store.forking import NewFork
    from worldledger_service.store.holding import TickReceipt


# -- memory of a world's orchestrator: its contents, their size, and eviction -----------------------------
#
# Source: docs/reference/contracts.md, "Memory". Everything in it can be computed again from the log. (The log itself
# is not compacted in this version.)


#: Bytes that one of each takes, roughly, as measured on a sandbox world with small entities.
_ENTITY: Final = 1_000
_SEEN_ENTITY: Final = 600
_DELTA: Final = 1_000  # besides what is in it
_TOKEN: Final = 700
_REQUEST: Final = 500
#: Seconds for which a report waits until the end that it tells of is written.
_END_SECONDS: Final = 2.0


class MemoryStats(NamedTuple):
    """The memory of one world in this process, in numbers of objects and roughly in bytes."""

    entities: int
    attached_agents: int
    seen_entities: int
    queued_deltas: int
    kept_deltas: int
    live_tokens: int
    remembered_requests: int
    estimated_bytes: int


class MemoryManager:
    """Estimates the memory in use, and evicts what is not in use."""

    def __init__(
        self,
        config: MemoryConfig,
        *,
        attachments: Attachments,
        views: Callable[[], Views],
        generations: Sized,
        requests: Sized,
    ) -> None:
        self.view_cache_size = config.view_cache_size
        self.max_log_entries = config.max_log_entries
        self.compaction_threshold = config.compaction_threshold
        self._attachments = attachments
        self._views = views
        self._generations = generations
        self._requests = requests

    def evict_old_views(self, agent_handles: Mapping[str, Any] | None = None) -> int:
        """Evict views of agents that are not in use here, beyond ``view_cache_size``; return how many.

        An agent with an open handle, a reader or a live token keeps its view, whatever ``agent_handles`` names.
        """
        del agent_handles
        return self._attachments.evict()

    def estimate_memory_usage(self) -> MemoryStats:
        """Return what is kept now."""
        views = self._views()
        entities = len(views.fold.state.entities)
        seen = sum(views.size(each.agent_id) for each in self._attachments)
        queued = sum(len(subscription) for each in self._attachments for subscription in each.subscriptions)
        kept = sum(each.kept for each in self._attachments)
        tokens, requests = len(self._generations), len(self._requests)
        estimated = (
            entities * _ENTITY
            + seen * _SEEN_ENTITY
            + (queued + kept) * _DELTA
            + sum(each.kept_bytes + sum(reader.size for reader in each.subscriptions) for each in self._attachments)
            + tokens * _TOKEN
            + requests * _REQUEST
        )
        return MemoryStats(entities, len(self._attachments), seen, queued, kept, tokens, requests, estimated)


# -- who is online -----------------------------------------------------------------------------------------


class OnlineAgent(NamedTuple):
    """An agent whose observations are read through this process, or that has a generation under way.

    ``readers`` are its sockets, streams, waiting requests and handles, ``queued`` the observations that wait for them;
    ``view_seq`` is that of the latest view that it may know, None where it has no reader here.
    """

    agent_id: str
    readers: int
    queued: int
    view_seq: int | None
    generations: list[UnderWay]


# -- handles: an agent's own interface to its world ----------------------------------------------------------------


class AgentHandle:
    """One agent (docs/reference/contracts.md, "Orchestrator and handles"); returned by `Orchestrator.register_agent`.

    ``view_seq`` is that of the last observation that was returned; ``initial_view`` is the view that the first one
    applies to. ``context_seq`` is the newest that the agent got through this handle, as an observation or a view: its
    next intent is based on that.
    """

    def __init__(self, agent_id: str, orchestrator: Orchestrator, subscription: Subscription) -> None:
        self.agent_id = agent_id
        self.orchestrator = orchestrator
        self.view_seq = subscription.view_seq
        self.context_seq = subscription.view_seq
        self.initial_view = None if subscription.view is None else subscription.view.model_copy(deep=True)
        self._subscription = subscription

    async def next_observation(self) -> ObservationDelta:
        """Wait for the next observation. Asking for it acknowledges the one before.

        Raises QueueClosedError once the handle is closed, or another one of the agent was opened.
        """
        self.orchestrator.acknowledge(self.agent_id, self.view_seq)
        delta = await self._subscription.get()
        self.view_seq = delta["view_seq"]
        self.context_seq = max(self.context_seq, self.view_seq)
        # Agents that see the same share the delta; the caller gets a copy that it may change.
        return ObservationDelta(orjson.loads(orjson.dumps(delta)))

    async def submit_intent(self, intent: Mapping[str, Any]) -> Accepted:
        """Submit an intent; missing fields are filled in.

        ``agent_id`` is this agent, ``context_seq`` that of the generation of its req_id if one is under way, and this
        handle's otherwise, ``req_id`` a random one. Raises as `Orchestrator.submit_intent`.
        """
        return await self.orchestrator.submit_intent(self._complete(intent))

    async def hold_intent(self, intent: Mapping[str, Any]) -> Held | Accepted:
        """Hold an intent until the next tick; missing fields are filled in. See `Orchestrator.hold_intent`."""
        return await self.orchestrator.hold_intent(self._complete(intent))

    async def cancel(self, req_id: str) -> None:
        """Cancel a generation of this agent, if there is one of this req_id (reason: ``user_requested``)."""
        with suppress(UnknownGenerationError):
            await self.orchestrator.cancel_generation(self.agent_id, req_id)

    def issue_cancel_token(
        self,
        req_id: str,
        context_seq: int | None = None,
        *,
        staleness_threshold: Threshold = NOT_GIVEN,
        about: Collection[str] | None = None,
        model: Mapping[str, Any] | None = None,
    ) -> CancelToken:
        """Begin a generation from what this handle returned last (`Orchestrator.issue_cancel_token`)."""
        if context_seq is None and self.orchestrator.generation_context(self.agent_id, req_id, here=True) is None:
            context_seq = self.context_seq
        return self.orchestrator.issue_cancel_token(
            self.agent_id, req_id, context_seq, staleness_threshold=staleness_threshold, about=about, model=model
        )

    async def view(self, at_seq: int | None = None, *, at: str | None = None) -> View:
        """Return the agent's whole view; see `Orchestrator.view`. Its next intent is based on the latest one."""
        view = (await self.orchestrator.view(self.agent_id, at_seq=at_seq, at=at)).model_copy(deep=True)
        if at_seq is None and at in {None, "head"}:
            self.context_seq = max(self.context_seq, view.view_seq)
        return view

    def get_view_seq(self) -> int:
        """Return the view_seq of the last observation that was returned."""
        return self.view_seq

    def close(self) -> None:
        """Close the handle; the agent stays registered. Closing twice does no harm."""
        self.orchestrator.acknowledge(self.agent_id, self.view_seq)
        self._subscription.close()
        self.orchestrator.forget_handle(self)

    def _complete(self, intent: Mapping[str, Any]) -> dict[str, Any]:
        """Fill in the fields that an agent may leave out of its own intents."""
        req_id = intent.get("req_id")
        begun = self.orchestrator.generation_context(self.agent_id, req_id) if isinstance(req_id, str) else None
        return {
            "agent_id": self.agent_id,
            "context_seq": self.context_seq if begun is None else begun,
            "req_id": uuid.uuid4().hex,
            "schema_version": SCHEMA_VERSION,
            **intent,
        }


# -- registrations: agents with their policies and permissions, as effects in the log ------------------------------


class _AsItStandsError(SimulationError):
    """The agent is registered so already: nothing is to be written."""


class Registrations:
    """Registers the agents of one world."""

    def __init__(self, store: Store, event_log: EventLog, follower: ViewFollower, config: OrchestratorConfig) -> None:
        self._store = store
        self._log = event_log
        self._follower = follower
        self._config = config
        self._world: WorldRecord | None = None

    async def register(
        self,
        agent_id: str,
        policy: ObservationPolicyProtocol | None,
        permissions: Collection[str] | None,
        weight: int,
        staleness_threshold: Threshold = NOT_GIVEN,
        interrupt_policy: InterruptPolicy | None = None,
    ) -> bool:
        """Write an agent's registration, unless it stands so already; tell whether it was written.

        Without a policy it gets the one that the world's ruleset has for it. On return this process has folded it.
        """
        world = self._world
        if world is None:  # what is asked of it never changes
            world = self._world = await self._store.world(self._log.world_id)
        ruleset = self._follower.views.fold.ruleset
        if policy is None:
            policy = ruleset.policy_for(agent_id, world.config) or ObservationPolicy()
        spec = policy_spec(as_policy(policy).for_world(world.world_uuid))
        draft = registration_draft(agent_id, spec, permissions, weight, staleness_threshold, interrupt_policy)
        wanted = draft["payload"]

        def stands(state: WorldState) -> bool:
            known = state.metadata["agents"].get(agent_id)
            if known is None:
                return False
            stated = {name: value for name, value in known.items() if name != "registered_seq"}
            return {"agent_id": agent_id, **stated} == wanted

        def judge(state: WorldState) -> None:
            agents = state.metadata["agents"]
            if agent_id not in agents and len(agents) >= self._config.max_agents:
                raise TooManyAgentsError(self._log.world_id, self._config.max_agents)
            if stands(state):
                raise _AsItStandsError("it is registered so already")
            if agent_id not in agents:
                check_namesake(agent_id, ruleset.agent_names(state))

        if stands(self._follower.views.fold.state):
            await self._follower.catch_up()  # another process may have registered it otherwise a moment ago
            if stands(self._follower.views.fold.state):
                return False
        try:
            (receipt,) = await self._log.append_judged([draft], {0: judge}, system=True)
        except _AsItStandsError:
            await self._follower.catch_up()
            return False
        await self._follower.reached(receipt.global_seq)
        return True


# -- the orchestrator itself ---------------------------------------------------------------------------------------


class Orchestrator:
    """One world: agents observe it, submit intents to it, and are interrupted when what they know has gone stale.

    Get it from `Orchestrator.open`. It is safe for any number of concurrent callers on its event loop.
    """

    def __init__(
        self,
        store: Store,
        watcher: HeadWatcher,
        event_log: EventLog,
        config: OrchestratorConfig,
        ruleset: Ruleset,
        effect_validator: EffectValidator | None = None,
        *,
        order: Order = "arrival",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.world_id = event_log.world_id
        self.config = config
        self.effect_validator: EffectValidator = effect_validator or DefaultEffectValidator()
        self.event_log = event_log
        #: how many intents, or atomic lists of them, the service's routes refused since this was opened, by code
        self.refused: Counter[str] = Counter()
        #: every open handle
        self.agent_handles: dict[str, AgentHandle] = {}
        self._store = store
        self._outbox = Outbox(event_log)
        self._follower = ViewFollower(
            store, watcher, self.world_id, self._on_effect, max_patch_ops=config.max_patch_ops
        )
        self._sightings = Sightings(store, self._follower, lambda: self._observing, max_patch_ops=config.max_patch_ops)
        self._attachments = Attachments(
            config.memory.view_cache_size, arrived=self._sightings.arrived, let_go=self._let_go, upkeep=self._upkeep
        )
        self._lists = IntentLists()
        self._generations = Generations(
            config, self._outbox.put, self._attachments.hold, self._sightings, self._lists, uuid.uuid4().hex[:12]
        )
        self._observing = Observing(store, self._follower, self._attachments, self._outbox, config)
        self._staleness = StalenessSettings(event_log, self._follower, config)
        self._registrations = Registrations(store, event_log, self._follower, config)
        parts = Parts(
            event_log,
            config,
            follower=self._follower,
            observing=self._observing,
            sightings=self._sightings,
            placing=Placing(self._generations, self._staleness),
            answering=Answering(ruleset, self.effect_validator),
            clock=clock,
        )
        self._admission = Admission(parts, self._generations, self._lists, store.outages)
        #: what holds intents until the next tick, in a world that is ordered by ticks
        self._ticks: Ticks | None = None
        if order == "tick":
            self._ticks = Ticks(parts, store.holding, self._admission.guard, self._generations.finish)
        self._clocks = Clocks(event_log, self._ticks, silence_s=config.authority_silence_s)
        self.memory = MemoryManager(
            config.memory,
            attachments=self._attachments,
            views=lambda: self._follower.views,
            generations=self._generations,
            requests=self._admission.requests,
        )

    # -- opening -------------------------------------------------------------------------------------------

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        database_url: str,
        *,
        world_id: str = "default",
        config: OrchestratorConfig | None = None,
        effect_validator: EffectValidator | None = None,
        ruleset: str = DEFAULT,
        world_config: dict[str, Any] | None = None,
        time_authority: str = "wall",
        order: Order = "arrival",
        settings: Settings | None = None,
    ) -> AsyncIterator[Orchestrator]:
        """Open a world in this process, with a connection pool of its own; a world that is not there is created.

        ``config`` goes before the one in the world's genesis; a new world gets it as its own. ``ruleset``,
        ``world_config`` (the ruleset's own), ``time_authority`` and ``order`` (``tick``: intents are held until the
        next tick) are for a new world. Raises StoreUnavailableError, SchemaVersionError, InvalidNameError,
        UnknownRulesetError, InvalidConfigError, FoldError or TamperedError.
        """
        settings = settings or Settings()
        async with (
            Store.open(database_url, settings) as store,
            HeadWatcher.over(store, interval=settings.poll_interval, url=database_url) as watcher,
        ):
            given: dict[str, Any] = {"config": world_config or {}, "time_authority": time_authority, "order": order}
            await store.ensure_world(NewWorld(world_id=world_id, ruleset=ruleset, orchestrator=config, **given))
            async with cls.over(store, watcher, world_id, config=config, effect_validator=effect_validator) as world:
                yield world

    @classmethod
    @asynccontextmanager
    async def over(
        cls,
        store: Store,
        watcher: HeadWatcher,
        world_id: str,
        *,
        config: OrchestratorConfig | None = None,
        effect_validator: EffectValidator | None = None,
    ) -> AsyncIterator[Orchestrator]:
        """Open a world of an open store.

        Raises WorldNotFoundError, InvalidConfigError (of the genesis), FoldError, TamperedError, StoreUnavailableError.
        """
        event_log = await store.log(world_id)
        rules = await store.states.rules(world_id)
        if config is None:
            config = OrchestratorConfig() if rules.orchestrator is None else read_config(rules.orchestrator)
        world = cls(store, watcher, event_log, config, rules.ruleset, effect_validator, order=rules.order)
        await world._follower.start()
        try:
            await world._begin_watching()
            yield world
        finally:
            await world._close()

    async def _begin_watching(self) -> None:
        seq = self._follower.seq
        self._clocks.begin(await self._store.time_authority(self.world_id, seq), seq)

    async def _close(self) -> None:
        """Stop; waiting callers are told. Effects so far are written, unless the database is away for long."""
        self._generations.close()
        self._clocks.close()
        for handle in list(self.agent_handles.values()):
            handle.close()
        self._attachments.close()
        if self._ticks is not None:
            self._ticks.close()
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self._observing.close)
            closing.push_async_callback(self._outbox.close)
            closing.push_async_callback(self._clocks.settled)
            closing.push_async_callback(self._sightings.close)
            closing.push_async_callback(self._follower.close)

    @property
    def world_state(self) -> WorldState:
        """The world's state as far as it is followed here; it goes on changing, and is only to be read."""
        return self._follower.views.fold.state

    async def orchestrator_config(self) -> OrchestratorConfig:
        """Return how the world's agents are served here: ``config``, for programs that run over the wire too."""
        return self.config

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
    ) -> AgentHandle:
        """Register an agent, or give a registered one this policy, and these permissions (None: the usual five).

        A registration is an effect, so that it survives; the same again writes nothing. ``weight`` is the agent's
        share among those that wait. Without a policy the world's ruleset gives it one; ``staleness_threshold`` and
        ``interrupt_policy`` are the world's where they are left out. Raises UnregisteredPolicyError,
        InvalidPolicyError, TooManyAgentsError, InvalidEffectError and what an append raises.
        """
        self._staleness.world.check(staleness_threshold)
        await self._guard.write(
            self._registrations.register(agent_id, policy, permissions, weight, staleness_threshold, interrupt_policy)
        )
        return await self.agent(agent_id)

    async def agent(self, agent_id: str, *, view_seq: int | None = None) -> AgentHandle:
        """Return the handle of a registered agent; its observations go on after ``view_seq``, or where it acknowledged.

        One handle of an agent is open at a time: an earlier one is closed. Raises UnknownAgentError, and
        MomentNotFoundError for a view_seq that the log has not come to.
        """
        start = self._observing.acknowledged(agent_id) if view_seq is None else view_seq
        subscription = self._observing.subscribe_here(agent_id, start, with_view=True) if start is not None else None
        if subscription is None:
            subscription = await self._guard.read(self._observing.resume(agent_id, view_seq), Subscription.close)
        before = self.agent_handles.get(agent_id)
        if before is not None:
            before.close()
        handle = self.agent_handles[agent_id] = AgentHandle(agent_id, self, subscription)
        return handle

    async def acknowledged(self, agent_id: str) -> int:
        """Return the view_seq after which an agent's observations go on if it names none. Raises UnknownAgentError."""
        found = self._observing.acknowledged(agent_id)
        return (await self._guard.read(self._observing.attach(agent_id))).acknowledged if found is None else found

    async def agents(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what is known of every registered agent: policy, permissions, weight, registered_seq."""
        return self._observing.agents

    def forget_handle(self, handle: AgentHandle) -> None:
        """Note that a handle was closed."""
        if self.agent_handles.get(handle.agent_id) is handle:
            del self.agent_handles[handle.agent_id]

    # -- intents and events --------------------------------------------------------------------------------

    async def submit_intent(self, intent: Mapping[str, Any]) -> Accepted:
        """Pass an intent through all stages of `worldledger_service.runtime.admission`; return its effect's uuid.

        The same req_id of the agent again returns the first answer. Raises InvalidIntentError, UnknownAgentError,
        StaleContextError, QuotaExceededError, BackpressureError, DeadlineExceededError, PermissionDeniedError,
        IntentConflictError, IntentRefusedError, IllegalEffectError, RequestConflictError, CircuitBreakerOpenError,
        StoreUnavailableError and the other errors of an append. In a world that is ordered by ticks the intent is held,
        and this returns when the next tick has decided it.
        """
        if self._ticks is not None:
            return await self._ticks.submit(intent)
        return await self._admission.one(intent)

    async def submit_intents(
        self, intents: Sequence[Mapping[str, Any]], *, atomic: bool = False, ordered: bool = True
    ) -> list[Accepted | SimulationError]:
        """Submit several intents: ``atomic`` all or none, else each by itself, in this order as far as they wait.

        By themselves each gets its answer or its error. Atomic, the first refusal is raised and names the ``index``.
        In a world that is ordered by ticks a list keeps its inner order, unless it is not ``ordered``.
        """
        if self._ticks is not None:
            return await self._ticks.submit_each(intents, atomic=atomic, ordered=ordered)
        return list(await self._admission.together(intents)) if atomic else await self._admission.each(intents)

    async def hold_intent(self, intent: Mapping[str, Any]) -> Held | Accepted:
        """Hold an intent until the next tick of a world that is ordered by ticks; return once that is durable.

        The same req_id again returns its outcome: still held, accepted, or the error that refused it; a request that
        was refused may be made again from another context, or with another body. Raises InvalidIntentError (also
        in a world that is ordered by arrival), UnknownAgentError, StaleContextError (as of the tick before),
        BackpressureError, OverloadedError, RequestConflictError, CircuitBreakerOpenError and StoreUnavailableError.
        """
        return await self._holding().hold(intent)

    async def hold_intents(
        self, intents: Sequence[Mapping[str, Any]], *, atomic: bool = False, ordered: bool = True
    ) -> list[Held | Accepted | SimulationError]:
        """Hold several intents until the next tick; see `hold_intent` and `submit_intents`."""
        return await self._holding().hold_each(intents, atomic=atomic, ordered=ordered)

    async def decision(self, held: Held) -> Accepted:
        """Wait for what its tick decides of an intent that is held; raise what it is refused with.

        Raises StoreUnavailableError once this process lets the world go: the intent stays held.
        """
        return await self._holding().decision(held)

    async def decisions(
        self, answers: Sequence[Held | Accepted | SimulationError], *, atomic: bool = False
    ) -> list[Accepted | SimulationError]:
        """Wait for what is decided of each that is held of these (`hold_intents`); the others stay as they are.

        Of an ``atomic`` list the refusal is raised.
        """
        return await self._holding().decisions(answers, atomic=atomic)

    @property
    def holds_intents(self) -> bool:
        """True if intents are held until the next tick: the world is ordered by ticks."""
        return self._ticks is not None

    def _holding(self) -> Ticks:
        if self._ticks is None:
            raise InvalidIntentError(f"world {self.world_id!r} is ordered by arrival: no intent is held in it")
        return self._ticks

    async def broadcast_event(self, draft: EffectDraft) -> Receipt:
        """Append an effect as the world's operator, and return once its observers' tokens were looked at here.

        No pipeline and no permissions: agents submit intents. A draft without a req_id is waited for until
        ``append_deadline``, even if the database is silent, because nothing could be asked about it later. Raises the
        errors of `EventLog.append`, and, before anything is written, CircuitBreakerOpenError and the error that has
        ended the following of the world.
        """
        self._follower.raise_if_ended()
        append = self._guard.call(self.event_log.append_all, [draft])
        (receipt,) = await (self._guard.write(append) if have_req_ids([draft]) else append)
        with suppress(SimulationError):  # what was written stays so, whether it is seen to come here or not
            await self._guard.read(self._follower.reached(receipt.global_seq))
        return receipt

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
        """Issue the token of a generation that begins now, live at once; the effect GenerationStarted follows.

        ``context_seq`` is the view it is made from, by default the agent's latest; however far the agent reads
        meanwhile, it stays so. ``staleness_threshold`` goes before the agent's and the world's; ``about`` names what it
        concerns, for the policy ``only_conflict``, and ``model`` by what it is made, for the log. A context that is
        stale already gives a token that is cancelled. Raises UnknownAgentError, RequestConflictError and
        InvalidIntentError.
        """
        try:
            named = check_about(about)
            check_model(model)
            self._staleness.world.check(staleness_threshold)
        except InvalidEffectError as error:
            raise InvalidIntentError(error.reason, error.path) from None
        with self._observing.held(agent_id):
            attachment = self._observing.attach_now(agent_id)
            staleness = self._staleness.of(agent_id, staleness_threshold, "generation")
            return self._generations.issue(
                attachment,
                req_id,
                context_seq,
                staleness,
                head_seq=self._follower.seq,
                staleness_threshold=staleness_threshold,
                about=named,
                model=model,
            )

    async def cancel_if_stale(self, agent_id: str, req_id: str, new_view_seq: int) -> bool:
        """Cancel a generation if what its agent was shown up to this view makes it stale; tell if it did."""
        if self._generations.get(agent_id, req_id) is None:
            return False
        return await self._guard.read(self._cancel_if_stale(agent_id, req_id, new_view_seq))

    async def _cancel_if_stale(self, agent_id: str, req_id: str, new_view_seq: int) -> bool:
        async with self._observing.attached(agent_id) as attachment:
            return await self._generations.cancel_if_stale(attachment, req_id, new_view_seq)

    async def cancel_generation(self, agent_id: str, req_id: str, reason: str = "user_requested") -> None:
        """Cancel a generation, wherever it runs. Raises UnknownGenerationError."""
        try:
            self._generations.cancel(agent_id, req_id, reason)
        except UnknownGenerationError:
            await self._guard.read(self._follower.catch_up())  # another process may have begun it a moment ago
            self._generations.cancel(agent_id, req_id, reason)

    async def finish_generation(self, agent_id: str, req_id: str) -> bool:
        """Note that a generation has ended without an intent of its req_id; return False if none runs here."""
        return self._generations.finish(agent_id, req_id)

    async def report_generation(
        self, agent_id: str, req_id: str, report: Mapping[str, Any], texts: Sequence[Mapping[str, Any]] = ()
    ) -> Receipt:
        """Record what a generation used and what came of it; return the receipt once that is durable. It ends.

        ``report`` has an ``outcome`` and what else is to be in the effect GenerationReported. Each of ``texts`` is an
        effect GenerationText before it, {part, text}. The same again is written once. Raises InvalidEffectError,
        RequestConflictError for another report of the same generation, and what an append raises.
        """
        drafts = reports_of(agent_id, req_id, report, texts)
        if report["outcome"] == "lost":
            with suppress(UnknownGenerationError):
                self._generations.cancel(agent_id, req_id, "lost")
        else:
            self._generations.finish(agent_id, req_id)
        await self._outbox.flush(_END_SECONDS)  # so that the end is in the log before what is told of it
        return (await self._write_own(drafts))[-1]

    async def lease_agent(
        self, agent_id: str, holder: str, seconds: float, *, instead_of: str | None = None
    ) -> dict[str, Any]:
        """Lease an agent to the program ``holder`` for so many seconds, or renew its lease; 0 seconds give it back.

        An agent has one lease at a time, in the log. The program ``instead_of``, which the caller knows to have ended,
        loses its lease. Returns {holder, number, until}, ``until`` in epoch seconds. Raises AgentLeasedError,
        InvalidEffectError, and what an append raises.
        """
        await self._guard.read(self._follower.catch_up())
        while True:
            held = self._lease(agent_id)
            if held is not None:
                remains = held["until"] - time.time()
                if remains > 0 and held["holder"] not in {holder, instead_of}:
                    raise AgentLeasedError(agent_id, held["holder"], round(remains, 3))
                if seconds == 0 and held["holder"] != holder:
                    return held
            number = 1 if held is None else held["number"] + 1
            try:
                await self._write_own([lease_draft(agent_id, holder, number, seconds)])
            except RequestConflictError:  # another program was first
                await self._guard.read(self._follower.catch_up())
                if (now := self._lease(agent_id)) is None or now["number"] < number:
                    raise
                continue
            if (now := self._lease(agent_id)) is not None and now["number"] >= number:
                return now
            return {"holder": holder, "number": number, "until": time.time() + seconds if seconds else 0.0}

    def _lease(self, agent_id: str) -> dict[str, Any] | None:
        """Return who runs an agent, as far as the world is followed here."""
        found: dict[str, Any] | None = self.world_state.metadata.get("leases", {}).get(agent_id)
        return None if found is None else dict(found)

    async def _write_own(self, drafts: Sequence[EffectDraft]) -> list[Receipt]:
        """Append effects of the service's own, each with a req_id, and wait until they are folded here."""
        self._follower.raise_if_ended()
        receipts = await self._guard.write(self._guard.call(self.event_log.append_all, drafts, system=True))
        with suppress(SimulationError):
            await self._guard.read(self._follower.reached(receipts[-1].global_seq))
        return receipts

    def generation(self, agent_id: str, req_id: str) -> CancelToken | None:
        """Return the token of a generation of this process, also for a while after it has ended."""
        return self._generations.get(agent_id, req_id)

    def generation_context(self, agent_id: str, req_id: str, *, here: bool = False) -> int | None:
        """Return the context of a generation under way, in this process (``here``) or any; None where none is."""
        begun = self._generations.begun(agent_id, req_id, here=here)
        return None if begun is None else begun.context_seq

    # -- staleness -----------------------------------------------------------------------------------------

    @property
    def staleness(self) -> WorldStaleness:
        """The world's settings of staleness, as they stand."""
        return self._staleness.world

    async def fork(self, fork: NewFork | None = None, *, at: str = "head") -> str:
        """Make a world that goes on from this one's state at a moment; return its name. Nothing is copied.

        The same request again finds the same fork. Open it as any world. Raises UnreadableMomentError, and as
        `Store.fork` does.
        """
        world, _ = await self._store.fork(self.world_id, parse_moment(at), fork)
        return world.world_id

    async def set_staleness(
        self,
        *,
        staleness_threshold: Threshold = NOT_GIVEN,
        interrupt_policy: InterruptPolicy | None = None,
        max_staleness_threshold: Threshold = NOT_GIVEN,
    ) -> Receipt:
        """Set when what agents are about to do is stale, for what begins from now on; what is left out stays.

        Raises InvalidEffectError where the threshold would exceed the maximum, and what an append raises.
        """
        setting = self._staleness.set(staleness_threshold, interrupt_policy, max_staleness_threshold)
        return await self._guard.write(setting)

    # -- observation ---------------------------------------------------------------------------------------

    async def view(self, agent_id: str, *, at_seq: int | None = None, at: str | None = None) -> View:
        """Return an agent's view: the latest that it may know, or the one that it had at a seq or a moment (``at``).

        Either way its view_seq is that of the effect which made it: the last up to there that gave the agent a delta.
        Raises UnknownAgentError (also where it was not registered then), MomentNotFoundError, and
        UnreadableMomentError (a ValueError) for what is no moment (`worldledger.moments`).
        """
        moment = seq_or_moment(at_seq, at)
        if moment not in {HEAD, Moment(seq=moment.seq)}:
            world_id, seq = await self._guard.read(self._place_at(moment))
            if world_id != self.world_id:
                return await self._guard.read(past_view(self._store, world_id, agent_id, seq))
            at_seq = seq
        else:
            at_seq = moment.seq
        found = self._observing.view_here(agent_id, at_seq)
        return await self._guard.read(self._observing.view(agent_id, at_seq)) if found is None else found

    async def _place_at(self, moment: Moment) -> tuple[str, int]:
        record, seq = await self._store.states.place_at(await self._store.world(self.world_id), moment)
        return record.world_id, seq

    async def subscribe(self, agent_id: str, *, view_seq: int | None = None) -> Subscription:
        """Return the agent's observations after a view, or, where none is named, from now on, the view first.

        Raises UnknownAgentError, and MomentNotFoundError for a view_seq that the log has not come to.
        """
        with_view = view_seq is None
        found = self._observing.subscribe_here(agent_id, view_seq, with_view=with_view)
        if found is not None:
            return found
        subscribing = self._observing.subscribe(agent_id, view_seq, with_view=with_view)
        return await self._guard.read(subscribing, Subscription.close)

    def acknowledge(self, agent_id: str, view_seq: int) -> None:
        """Note that the agent has a view; if it comes back without naming one, it continues after it."""
        self._observing.acknowledge(agent_id, view_seq)

    async def observed_events(
        self,
        agent_id: str,
        *,
        after_seq: int = 0,
        until_seq: int | None = None,
        kinds: Collection[str] | None = None,
        limit: int = 100,
    ) -> tuple[list[ObservedEvent], int]:
        """Return events of the past that the agent could see, from the log, and the seq to go on after.

        Raises UnknownAgentError and MomentNotFoundError.
        """
        return await self._guard.read(self._observing.events(agent_id, after_seq, until_seq, kinds, limit))

    # -- time ----------------------------------------------------------------------------------------------

    def set_sim_time_authority(
        self, authority: str, *, zero: float | None = None, force: bool = True
    ) -> Awaitable[Receipt]:
        """Let an adapter ("unity", "unreal" …) set sim_time from now on, any "client", or ("none") the wall clock.

        ``zero`` is the world's sim_time at the authority's own 0.0: by default the world's when the effect is written,
        and 0.0 for "client". The wall clock continues from the world's sim_time. Without ``force``, which is for
        operators, an adapter takes over only from another one that is silent.

        The call returns at once: its effect follows, before any later tick of this process. Await the result for the
        effect's receipt; that raises InvalidEffectError for a name that no adapter can have, and without ``force``
        TimeAuthorityHeldError.
        """
        return self._clocks.set_authority(authority, zero, force=force)

    async def time_authority(self) -> TimeAuthority:
        """Return who sets sim_time as of the world's head, what is added to its own time, and whether it is silent."""
        return await self._guard.read(self._store.time_authority(self.world_id))

    @property
    def authority_silent(self) -> Silence | None:
        """The silence of the adapter that has the time authority, until its next tick; None while it is heard."""
        return self._clocks.authority.silence

    def on_authority_silent(self, listener: Callable[[Silence], None]) -> Callable[[], None]:
        """Call a function whenever the time authority falls silent; the returned function ends that."""
        return self._clocks.on_silence(listener)

    async def wait_for_tick(self) -> Tick:
        """Wait for the next tick that is seen here.

        Raises AuthoritySilentError where the time authority is silent or falls silent, StoreUnavailableError where the
        world is closed meanwhile.
        """
        return await self._clocks.wait_for_tick()

    def authority_disconnected(self, adapter: str, tick_seq: int | None, since_seq: int = 1) -> None:
        """Note that the connection over which an adapter's tick came has ended.

        If no tick came over it, only the message that the adapter takes over, ``tick_seq`` is None and ``since_seq`` is
        of the effect WorldTimeAuthoritySet (1: the genesis). If the time authority was not heard since, the effect
        WorldTimeAuthoritySilent follows.
        """
        self._clocks.disconnected(TimeAuthority(adapter, since_seq=since_seq, last_tick_seq=tick_seq))

    async def tick(self, adapter: str, sim_time: float) -> Receipt | TickReceipt:
        """Move sim_time on, to the adapter's own time plus its offset.

        In a world that is ordered by ticks this closes the tick: all intents that are held become effects or are
        refused, in one order and one transaction, before time moves on. There each tick is later than the one before.

        Raises TimeAuthorityError for a foreign adapter, SimTimeOrderError for going backwards.
        """
        return await self._clocks.tick(adapter, sim_time)

    async def close_tick(self, source: str) -> TickReceipt:
        """Close the tick of a world that is ordered by ticks without setting sim_time.

        ``source`` names the caller: the adapter, if one has the authority over time. Raises
        TimeAuthorityError, and InvalidEffectError in a world that is ordered by arrival.
        """
        return await self._clocks.close_tick(source)

    # -- memory --------------------------------------------------------------------------------------------

    def memory_stats(self) -> MemoryStats:
        """Return what this world takes of this process' memory."""
        return self.memory.estimate_memory_usage()

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until the effects that follow what has happened so far are written, at most ``timeout`` seconds."""
        await self._outbox.flush(self._patience(timeout))

    async def fold_known(self, timeout: float) -> None:
        """Wait, at most so many seconds, until what this process knows to be in the log is folded."""
        await self._follower.fold_known(timeout if self._guard.closed else 0.0)

    async def reached(self, seq: int, timeout: float | None = None) -> bool:
        """Wait until this process has folded an effect; return False if it has not after ``timeout`` seconds."""
        return await self._follower.reached(seq, self._patience(timeout))

    def _patience(self, timeout: float | None) -> float | None:
        """Return a limit for waiting: while the database answers no call, no caller waits without one."""
        return timeout if timeout is None or self._guard.closed else 0.0

    @property
    def _guard(self) -> StoreGuard:
        return self._admission.guard

    # -- inside --------------------------------------------------------------------------------------------

    def _on_effect(self, effect: Effect, sightings: list[Sighting], size: int) -> None:
        self._lists.note_effect(effect)
        self._clocks.seen(effect)
        if self._ticks is not None:
            self._ticks.seen(effect)
        self._generations.seen(effect)  # first: an intent's own effect ends its generation
        for sighting, sight in zip(sightings, sights_of(effect, sightings), strict=True):
            self._attachments.deliver(sighting, size, sight)
        for agent_id in self._observing.seen(effect["kind"], sightings):
            self._generations.cancel_all(agent_id, "policy_failed")

    def _upkeep(self, agent_id: str) -> int:
        try:
            views = self._follower.views
            return views.size(agent_id) if views.policy(agent_id).remove_operations else 0
        except (SimulationError, KeyError):  # the following has ended, or the policy has failed
            return 0

    def _let_go(self, attachment: Attachment) -> None:
        self._observing.let_go(attachment)

    # -- gauges, for metrics and for deciding whether the world stays open ----------------------------------

    @property
    def quotas(self) -> Quotas:
        """The agents' quotas as they stand."""
        return self._admission.quotas

    @property
    def waiting(self) -> int:
        """The number of intents that wait for their turn or for the decision of a tick."""
        return self._admission.scheduler.waiting + (0 if self._ticks is None else self._ticks.waiting)

    @property
    def seq(self) -> int:
        """The last effect that is folded here."""
        return self._follower.seq

    def online(self) -> list[OnlineAgent]:
        """Return the agents that are online, by name."""
        read = {each.agent_id: each for each in self._attachments if each.subscriptions}
        under_way: dict[str, list[UnderWay]] = {agent_id: [] for agent_id in read}
        for generation in self._generations.under_way():
            under_way.setdefault(generation.agent_id, []).append(generation)
        found = []
        for agent_id, generations in sorted(under_way.items()):
            attachment = read.get(agent_id)
            readers = () if attachment is None else attachment.subscriptions
            view_seq = None if attachment is None else attachment.view_seq
            queued = sum(map(len, readers))
            found.append(OnlineAgent(agent_id, len(readers), queued, view_seq, generations))
        return found

    @property
    def generations_cancelled(self) -> int:
        """The number of generations that were cancelled here."""
        return self._generations.cancelled

    @property
    def in_use(self) -> bool:
        """True if the world is in use here, so that it has to stay open."""
        busy = self._attachments.in_use or self._observing.in_use or self._admission.requests.in_flight > 0
        if self._ticks is not None and self._ticks.waiting > 0:
            return True
        return busy or len(self._outbox) > 0 or self._clocks.in_use

    @property
    def broken(self) -> bool:
        """True if the world can no longer be followed: its log is damaged, or cannot be folded."""
        return self._follower.error is not None
