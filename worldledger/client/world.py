"""A world that lives in a service, and handles of its agents, with the methods of those in this process."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, cast

import httpx2
import orjson
from pydantic import BaseModel

from worldledger.aio import CancelToken
from worldledger.canonical import gate
from worldledger.client.link import DeltaQueue, Links, MessageTooLargeError
from worldledger.client.protocol import fitted
from worldledger.client.transport import Transport, error_of, path_of
from worldledger.deltas import ObservationDelta, ObservedEvent, View
from worldledger.drafts import check_draft
from worldledger.effects import SCHEMA_VERSION, EffectDraft, EventLogEntry
from worldledger.errors import (
    InvalidConfigError,
    InvalidEffectError,
    InvalidIntentError,
    SimulationError,
    WorldExistsError,
)
from worldledger.intents import Accepted, Held, check_intent
from worldledger.kinds import DEFAULT
from worldledger.policies import policy_spec
from worldledger.protocols import ObservationPolicyProtocol
from worldledger.staleness import NOT_GIVEN, InterruptPolicy, Threshold, check_about, check_threshold, stale_by
from worldledger.time_authority import Silence, TimeAuthority

if TYPE_CHECKING:
    from worldledger.causes import Direction
    from worldledger.client.link import Link
    from worldledger.config import OrchestratorConfig
    from worldledger.genesis import Order


class RemoteHandle:
    """One agent (docs/reference/contracts.md, "Orchestrator and handles"). Get it from `RemoteWorld.register_agent`.

    It does what `worldledger_service.runtime.AgentHandle` does, over a WebSocket that reconnects whenever it is lost:
    no observation is missed, and an intent becomes one effect however often it had to be sent.

    ``view_seq`` is that of the last observation that was returned; ``initial_view`` is the view that the first one
    applies to. ``context_seq`` is the newest seq that the agent was handed through this handle, by an observation or a
    view: its next intent is made from that.
    """

    def __init__(self, agent_id: str, world: RemoteWorld, subscription: RemoteSubscription, initial_view: View) -> None:
        self.agent_id = agent_id
        self.world = world
        self.view_seq = subscription.view_seq
        self.context_seq = max(subscription.view_seq, initial_view.view_seq)
        self.initial_view: View | None = initial_view
        self._subscription = subscription

    async def next_observation(self) -> ObservationDelta:
        """Wait for the next observation. Asking for it acknowledges the one before.

        Raises QueueClosedError once the handle is closed, or this client has opened another one for the agent, and the
        error of a service that refuses to go on.
        """
        self.world.acknowledge(self.agent_id, self.view_seq)
        delta = await self._subscription.get()
        self.view_seq = delta["view_seq"]
        self.context_seq = max(self.context_seq, self.view_seq)
        return delta

    async def submit_intent(self, intent: Mapping[str, Any]) -> Accepted:
        """Submit an intent; missing members are filled in.

        ``agent_id`` is this agent, ``context_seq`` that of the generation of its req_id if one is under way, and this
        handle's otherwise, ``req_id`` a random one. While the service is away this call waits for it. Raises as
        `RemoteWorld.submit_intent`.
        """
        return await self.world.submit_intent(self._complete(intent))

    async def hold_intent(self, intent: Mapping[str, Any]) -> Held | Accepted:
        """Hold an intent until the next tick; missing members are filled in. See `RemoteWorld.hold_intent`."""
        return await self.world.hold_intent(self._complete(intent))

    async def cancel(self, req_id: str) -> None:
        """Cancel this agent's generation of this req_id, if there is one (reason: ``user_requested``)."""
        token = self.world.generation(self.agent_id, req_id)
        if token is not None:
            token.cancel("user_requested")
        else:
            await self.world.cancel_generation(self.agent_id, req_id)

    def issue_cancel_token(
        self,
        req_id: str,
        context_seq: int | None = None,
        *,
        staleness_threshold: Threshold = NOT_GIVEN,
        about: Collection[str] | None = None,
        model: Mapping[str, Any] | None = None,
    ) -> CancelToken:
        """Begin a generation from what this handle returned last; see `RemoteWorld.issue_cancel_token`."""
        if context_seq is None and self.world.generation_context(self.agent_id, req_id) is None:
            context_seq = self.context_seq
        return self.world.issue_cancel_token(
            self.agent_id, req_id, context_seq, staleness_threshold=staleness_threshold, about=about, model=model
        )

    async def view(self, at_seq: int | None = None, *, at: str | None = None) -> View:
        """Return the agent's whole view; see `RemoteWorld.view`. If it is the latest, the agent acts from it next."""
        view = await self.world.view(self.agent_id, at_seq=at_seq, at=at)
        if at_seq is None and at in {None, "head"}:
            self.context_seq = max(self.context_seq, view.view_seq)
        return view

    def get_view_seq(self) -> int:
        """Return the view_seq of the last observation that was returned."""
        return self.view_seq

    def close(self) -> None:
        """Close the handle; the agent stays registered. Closing twice is harmless."""
        self.world.acknowledge(self.agent_id, self.view_seq)
        self._subscription.close()
        self.world.forget_handle(self)

    def _complete(self, intent: Mapping[str, Any]) -> dict[str, Any]:
        req_id = intent.get("req_id")
        begun = self.world.generation_context(self.agent_id, req_id) if isinstance(req_id, str) else None
        return completed(intent, self.agent_id, self.context_seq if begun is None else begun)


def completed(intent: Mapping[str, Any], agent_id: str, context_seq: int | None) -> dict[str, Any]:
    """Fill in what an agent may leave out of its own intents."""
    return {
        "agent_id": agent_id,
        "context_seq": context_seq,
        "req_id": uuid.uuid4().hex,
        "schema_version": SCHEMA_VERSION,
        **intent,
    }


# -- subscriptions over the wire: the observations of one agent, for one reader ---------------------------


class RemoteSubscription:
    """One reader's queue of an agent's deltas, over a connection of its own. Get it from `RemoteWorld.subscribe`.

    ``view_seq`` is that of the last delta that was returned (at first, where it begins); ``view`` is the view that the
    first delta applies to, if the reader did not bring one. Lost connections are replaced, and missed observations
    arrive too; an observation too large for a message arrives as the whole view. A reader that does not keep up holds
    no more than ``most`` deltas (`worldledger.deltas`). ``fitted`` is called with each delta before it is returned,
    and may replace it by the whole view.
    """

    def __init__(
        self, agent_id: str, *, most: int, fitted: Callable[[ObservationDelta], Awaitable[ObservationDelta]]
    ) -> None:
        self.agent_id = agent_id
        self._fitted = fitted
        self.view_seq = 0
        self.view: View | None = None
        self.deltas = DeltaQueue(most)
        self._link: Link | None = None

    async def begin(self, link: Link) -> None:
        """Wait until it is known where the observations begin. Raises the service's error if it refuses."""
        self._link = link
        try:
            self.view = await link.stream.begun
        except BaseException:
            self.close()
            raise
        # What has arrived since then waits in the queue.
        self.view_seq = link.stream.began_at

    async def get(self) -> ObservationDelta:
        """Wait for the next delta and return it.

        Raises QueueClosedError once the subscription is closed, and the error of a service that refuses to go on.
        """
        delta = await self._fitted(await self.deltas.get())
        self.view_seq = delta["view_seq"]
        return delta

    def get_due(self, limit: int | None = None) -> list[ObservationDelta]:
        """Return the deltas that have arrived, without waiting. Raises as `get`."""
        due = self.deltas.get_due(limit)
        if due:
            self.view_seq = due[-1]["view_seq"]
        return due

    def close(self) -> None:
        """End the subscription; waiting calls are woken. Closing twice is harmless."""
        self.deltas.close()
        if self._link is not None:
            self._link.release()
            self._link = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aiter__(self) -> AsyncIterator[ObservationDelta]:
        while True:
            yield await self.get()


# -- a world's log over the wire, for reading ---------------------------------------------------------------

_PAGE: Final = 1000


class RemoteEventLog:
    """Reads one world's effects, as they are stored (docs/reference/contracts.md, "Event log")."""

    def __init__(self, transport: Transport, world_id: str) -> None:
        self.world_id = world_id
        self._transport = transport
        self._path = f"{path_of('v1', 'worlds', world_id)}/effects"

    async def get_entries_since(self, since_seq: int, limit: int | None = None) -> list[EventLogEntry]:
        """Return the entries after ``since_seq``, ascending, for replay or catch-up; at most ``limit`` if given."""
        entries: list[EventLogEntry] = []
        after: int | None = since_seq
        while after is not None and (limit is None or len(entries) < limit):
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(entries))
            page = (await self._transport.call("GET", self._path, params={"after_seq": after, "limit": wanted})).value
            entries += map(EventLogEntry.of, page["effects"], page["checksums"])
            after = page["next_after_seq"]
        return entries

    async def config(self) -> OrchestratorConfig:
        """Return the world's configuration of how its agents are served, as its genesis has it, or the default."""
        from worldledger.config import OrchestratorConfig, read_config  # noqa: PLC0415 - few programs ask

        (genesis,) = await self.get_entries_since(0, limit=1)
        own = genesis.effect["payload"].get("orchestrator")
        return OrchestratorConfig() if own is None else read_config(own)


#: Most intents of one list.
_LIST: Final = 1000
#: Seconds for which the service is asked to wait for a tick; then it is asked again.
_WAIT_SECONDS: Final = 10.0
#: How the hits of a search arrive: a line of JSON for each.
_LINES: Final = "application/x-ndjson"


class RemoteReceipt(NamedTuple):
    """The service's answer about one accepted effect, after it is durable; ``checksum`` is lower-case hex.

    For a closed tick, its number and how many intents it ``accepted`` and ``refused``.
    """

    global_seq: int
    uuid: str
    checksum: str
    replayed: bool = False
    tick: int | None = None
    accepted: int | None = None
    refused: int | None = None


class RemoteWorld:
    """One world of a service. Get it from `Client`, or from `Client.world`; it is closed with the client.

    It raises the errors that the service raised, with their attributes, recovery and details.
    """

    def __init__(self, transport: Transport, world_id: str, *, max_queued: int) -> None:
        self.world_id = world_id
        self.event_log = RemoteEventLog(transport, world_id)
        #: the open handles, by agent
        self.agent_handles: dict[str, RemoteHandle] = {}
        self._transport = transport
        self._path = path_of("v1", "worlds", world_id)
        self._links = Links(transport, world_id)
        self._acknowledged: dict[str, int] = {}
        self._max_queued = max_queued
        self._tasks: set[asyncio.Task[Any]] = set()
        self._authority: asyncio.Task[int] | None = None
        self._config: OrchestratorConfig | None = None

    def world(self, world_id: str) -> RemoteWorld:
        """Return another world of the service, over the same connections."""
        return RemoteWorld(self._transport, world_id, max_queued=self._max_queued)

    async def create_world(
        self,
        *,
        ruleset: str = DEFAULT,
        config: dict[str, Any] | None = None,
        experiment: str | None = None,
        time_authority: str = "wall",
        order: Order = "arrival",
        snapshot_every: int | None = None,
        orchestrator: OrchestratorConfig | dict[str, Any] | None = None,
        checkpoint: dict[str, Any] | None = None,
    ) -> bool:
        """Create the world; return False if it exists already, whatever it is like.

        The parameters are those of `worldledger.genesis.NewWorld`: ``config`` is the ruleset's own, ``orchestrator``
        says how the world's agents are served, ``checkpoint`` what it begins with; with ``order="tick"`` intents are
        held until the next tick. Raises InvalidConfigError, InvalidNameError or UnknownRulesetError.
        """
        if isinstance(orchestrator, BaseModel):
            orchestrator = orchestrator.model_dump(mode="json")
        new = {
            "world_id": self.world_id,
            "ruleset": ruleset,
            "config": {} if config is None else config,
            "experiment": experiment,
            "time_authority": time_authority,
            "snapshot_every": snapshot_every,
            "orchestrator": orchestrator,
            "checkpoint": checkpoint,
        }
        if order != "arrival":
            new["order"] = order
        try:
            gate(new, level=2)  # refuses what JSON would change on the way
        except InvalidEffectError as error:
            raise InvalidConfigError(f"{error.path}: {error.reason}", path=error.path) from None
        try:
            await self._transport.call("POST", "/v1/worlds", body=new)
        except WorldExistsError:
            return False
        return True

    async def fork(
        self,
        world_id: str | None = None,
        *,
        at: str = "head",
        experiment: str | None = None,
        label: str | None = None,
        changes: Mapping[str, Any] | None = None,
        same_noise: bool = False,
        verify: bool = False,
        anyway: bool = False,
    ) -> str:
        """Make a world that goes on from this one's state at a moment; return its name. Nothing is copied.

        ``changes`` are values that it begins with instead: ``{"alice/gold": 20}``. Without a name it has this world's,
        with ``~`` and the seq. The same call again finds the same fork. `Client.world` gives the world of the name. The
        parameters are those of ``fork_of`` of ``POST /v1/worlds``. Raises MomentNotFoundError, WorldExistsError,
        InvalidConfigError, TamperedError.
        """
        fork_of = {
            "world_id": self.world_id,
            "at": at,
            "label": label,
            "changes": dict(changes or {}),
            "same_noise": same_noise,
            "verify": verify,
            "anyway": anyway,
        }
        new: dict[str, Any] = {"experiment": experiment, "fork_of": fork_of}
        if world_id is not None:
            new["world_id"] = world_id
        try:
            gate(new, level=2)  # refuses what JSON would change on the way
        except InvalidEffectError as error:
            raise InvalidConfigError(f"{error.path}: {error.reason}", path=error.path) from None
        made: str = (await self._transport.call("POST", "/v1/worlds", body=new)).value["world_id"]
        return made

    async def orchestrator_config(self) -> OrchestratorConfig:
        """Return how the world's agents are served, as its genesis says. The service is asked once."""
        if self._config is None:
            self._config = await self.event_log.config()
        return self._config

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
    ) -> RemoteHandle:
        """Register an agent, or update a registered one's policy and permissions (None: the usual five).

        The policy's class must be registered here and in the service, under the same name and version. The same call
        again writes nothing. Without a policy the agent has the one that the world's ruleset gives it; without
        ``staleness_threshold`` and ``interrupt_policy`` the world's hold. Raises UnregisteredPolicyError,
        InvalidPolicyError, TooManyAgentsError, InvalidEffectError.
        """
        wanted: dict[str, Any] = {
            "agent_id": agent_id,
            "policy": None if policy is None else policy_spec(policy),
            "permissions": None if permissions is None else sorted(permissions),
            "weight": weight,
            **_given(staleness_threshold=staleness_threshold),
        }
        if interrupt_policy is not None:
            wanted["interrupt_policy"] = interrupt_policy
        answer = await self._transport.call("POST", f"{self._path}/agents", body=wanted)
        view = View.model_validate(answer.value["view"])
        if self._acknowledged.get(agent_id, 0) > view.view_seq:  # it is still on its way
            view = await self.view(agent_id, at_seq=self._acknowledged[agent_id])
        return await self._handle(agent_id, view)

    async def agent(self, agent_id: str, *, view_seq: int | None = None) -> RemoteHandle:
        """Return a registered agent's handle; its observations continue after ``view_seq``, or where it acknowledged.

        One handle of an agent is open at a time in one client: an earlier one is closed. Raises UnknownAgentError, and
        MomentNotFoundError for a view_seq that the log has not reached.
        """
        told = (await self._transport.call("GET", f"{self._path}{path_of('agents', agent_id)}")).value
        if view_seq is None:
            # What was acknowledged here may still be on its way.
            view_seq = max(told["view_seq"], self._acknowledged.get(agent_id, 0))
        view_seq = max(view_seq, told["registered_seq"])
        return await self._handle(agent_id, await self.view(agent_id, at_seq=view_seq))

    async def _handle(self, agent_id: str, view: View) -> RemoteHandle:
        subscription = await self.subscribe(agent_id, view_seq=view.view_seq)
        before = self.agent_handles.get(agent_id)
        if before is not None:
            before.close()
        handle = self.agent_handles[agent_id] = RemoteHandle(agent_id, self, subscription, view)
        return handle

    async def agents(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the registration of every agent: policy, permissions, weight, registered_seq."""
        found: dict[str, Mapping[str, Any]] = {}
        after: str | None = ""
        while after is not None:
            params = {"after": after, "limit": _PAGE}
            page = (await self._transport.call("GET", f"{self._path}/agents", params=params)).value
            for each in page["agents"]:
                found[each["agent_id"]] = {name: value for name, value in each.items() if name != "agent_id"}
            after = page["next_after"]
        return found

    def forget_handle(self, handle: RemoteHandle) -> None:
        """Note that a handle was closed."""
        if self.agent_handles.get(handle.agent_id) is handle:
            del self.agent_handles[handle.agent_id]

    # -- intents and events --------------------------------------------------------------------------------

    async def submit_intent(self, intent: Mapping[str, Any]) -> Accepted:
        """Submit an intent; return its effect's uuid. The same req_id of the agent again returns the first answer.

        It goes over the agent's own connection if there is one, and otherwise over HTTP. Raises InvalidIntentError,
        UnknownAgentError, StaleContextError, QuotaExceededError, BackpressureError, DeadlineExceededError,
        PermissionDeniedError, IntentConflictError, IntentRefusedError, IllegalEffectError, RequestConflictError,
        CircuitBreakerOpenError, StoreUnavailableError.
        """
        checked = check_intent(intent)  # refuses what JSON would change on the way
        # A connection would assume that it is made from what was handed out there last: the agent has to say that.
        intent = {"context_seq": None, **intent}
        link = self._links.of(checked.agent_id, checked.req_id)
        if link is not None:
            try:
                return _accepted(await link.request("intent", req_id=checked.req_id, intent=dict(intent)))
            except MessageTooLargeError:
                pass
        told = (await self._transport.call("POST", f"{self._path}/intents", body=dict(intent))).value
        self._links.over(checked.agent_id, checked.req_id)
        while told.get("held"):
            params = {"wait": _WAIT_SECONDS}
            path = f"{self._path}/intents"
            told = (await self._transport.call("POST", path, body=dict(intent), params=params)).value | {
                "replayed": False
            }
        return _accepted(told)

    async def submit_intents(
        self, intents: Sequence[Mapping[str, Any]], *, atomic: bool = False, ordered: bool = True
    ) -> list[Accepted | SimulationError]:
        """Submit several intents: ``atomic`` all or none (at most 1,000), else each by itself, in this order.

        By themselves each gets its answer or its error. Atomic, the first refusal is raised and names the ``index``. In
        a world ordered by ticks this waits for the next tick, in which a list keeps its inner order unless it is not
        ``ordered``.
        """
        results: list[Accepted | Held | SimulationError] = await self.hold_intents(
            intents, atomic=atomic, ordered=ordered
        )
        while held := [index for index, result in enumerate(results) if isinstance(result, Held)]:
            # Of an atomic list either all are held or none.
            again = [intents[index] for index in held]
            decided = await self._post_list(again, {"atomic": atomic, "ordered": ordered}, _WAIT_SECONDS)
            for index, told in zip(held, decided, strict=True):
                if isinstance(told, Accepted):
                    told.replayed = False
                results[index] = told
        return [result for result in results if not isinstance(result, Held)]

    async def hold_intent(self, intent: Mapping[str, Any]) -> Held | Accepted:
        """Hold an intent until the next tick of a world ordered by ticks; return once that is durable.

        The same req_id again returns its outcome. Raises as `submit_intent` does; in a world ordered by arrival the
        intent is decided at once.
        """
        checked = check_intent(intent)
        told = (await self._transport.call("POST", f"{self._path}/intents", body=dict(intent))).value
        self._links.over(checked.agent_id, checked.req_id)
        return _held(told) if told.get("held") else _accepted(told)

    async def hold_intents(
        self, intents: Sequence[Mapping[str, Any]], *, atomic: bool = False, ordered: bool = True
    ) -> list[Accepted | Held | SimulationError]:
        """Hold several intents until the next tick; see `hold_intent` and `submit_intents`."""
        results: list[Accepted | Held | SimulationError] = []
        options: dict[str, Any] = {"atomic": atomic} | ({} if ordered else {"ordered": False})
        for start in range(0, len(intents), len(intents) if atomic else _LIST):
            part = intents if atomic else intents[start : start + _LIST]
            results += await self._post_list(part, options)
        return results

    async def _post_list(
        self, intents: Sequence[Mapping[str, Any]], options: Mapping[str, Any], wait: float = 0.0
    ) -> list[Accepted | Held | SimulationError]:
        results: list[Accepted | Held | SimulationError] = []
        body = {"intents": list(map(dict, intents)), **options}
        params = {"wait": wait} if wait else None
        answer = await self._transport.call("POST", f"{self._path}/intents", body=body, params=params)
        for told in answer.value["results"]:
            if "uuid" in told or told.get("held"):
                self._links.over(told["agent_id"], told["req_id"])
                results.append(_held(told) if told.get("held") else _accepted(told))
            else:
                results.append(error_of(told))
        return results

    async def broadcast_event(self, draft: EffectDraft) -> RemoteReceipt:
        """Append an effect as the world's operator, once: a draft without a req_id gets a random one.

        Raises InvalidEffectError, TimeAuthorityError, SimTimeOrderError, RequestConflictError, OverloadedError.
        """
        check_draft(draft)  # refuses what JSON would change on the way
        once = {**draft, "req_id": draft.get("req_id") or uuid.uuid4().hex}
        return RemoteReceipt(**(await self._transport.call("POST", f"{self._path}/effects", body=once)).value)

    async def call(self, method: str, *path: str, body: Any = None, params: Mapping[str, Any] | None = None) -> Any:
        """Call a route below the world's address, such as one of its kind's; return the JSON of the answer.

        ``await world.call("GET", "rounds", "3")`` asks for ``/v1/worlds/{world}/rounds/3``. Raises the error that the
        service answers with.
        """
        return (await self._transport.call(method, f"{self._path}{path_of(*path)}", body=body, params=params)).value

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
        """Issue the token of a generation that begins now, live at once here; the service is told next.

        ``context_seq`` is the view that it is made from, by default the agent's latest that has arrived here; it stays
        so, however far the agent reads meanwhile. ``staleness_threshold`` takes precedence over the agent's and the
        world's; ``about`` names what it concerns, for the policy ``only_conflict``, ``model`` by what it is made, for
        the log. A generation that the service refuses is cancelled with the reason ``refused: CODE``. Raises
        RequestConflictError and InvalidIntentError.
        """
        stated = _given(staleness_threshold=staleness_threshold)
        try:
            if named := check_about(about):
                stated["about"] = sorted(named)
            check_threshold(stated.get("staleness_threshold"))
            if model is not None:
                gate(dict(model), path="$.model", level=3)
                stated["model"] = dict(model)
        except InvalidEffectError as error:
            raise InvalidIntentError(error.reason, error.path) from None
        return self._links.issue(agent_id, req_id, context_seq, stated)

    async def cancel_if_stale(self, agent_id: str, req_id: str, new_view_seq: int) -> bool:
        """Return whether what the agent was shown up to this view has made a generation stale, which cancels it.

        The service counts that itself, and has sent its cancellations by the time it answers.
        """
        token = self.generation(agent_id, req_id)
        link = self._links.of(agent_id, req_id)
        if token is not None and not token.cancelled and link is not None:
            await link.request("ping")
        seq = None if token is None else stale_by(token.reason)
        return seq is not None and seq <= new_view_seq

    async def cancel_generation(self, agent_id: str, req_id: str, reason: str = "user_requested") -> None:
        """Cancel a generation, wherever it runs. Raises UnknownGenerationError.

        The reason is for the token, if it is live here; the service writes ``user_requested``.
        """
        await self._links.cancel(agent_id, req_id, reason)

    async def finish_generation(self, agent_id: str, req_id: str) -> bool:
        """Note that a generation has ended without an intent of its req_id; return False if none is live."""
        return await self._links.finish(agent_id, req_id)

    async def report_generation(
        self, agent_id: str, req_id: str, report: Mapping[str, Any], texts: Sequence[Mapping[str, Any]] = ()
    ) -> RemoteReceipt:
        """Record what a generation used and what came of it; it ends, if it has not. The same again is one report.

        ``report`` has an ``outcome`` and what the body of the route ``…/report`` may have besides; ``texts`` are to be
        kept, each {part, text}. Raises UnknownAgentError, InvalidEffectError, and RequestConflictError for another
        report of the same generation.
        """
        link = self._links.of(agent_id, req_id)
        self._links.over(agent_id, req_id)
        if link is not None:
            with suppress(SimulationError):  # what was said over the connection comes first
                await link.request("ping")
        body = {**report, "texts": [dict(text) for text in texts]}
        path = f"{self._path}{path_of('agents', agent_id, 'generations', req_id, 'report')}"
        return RemoteReceipt(**(await self._transport.call("POST", path, body=body)).value)

    async def lease_agent(
        self, agent_id: str, holder: str, seconds: float, *, instead_of: str | None = None
    ) -> dict[str, Any]:
        """Lease an agent to the program ``holder`` for so many seconds, or renew its lease; 0 seconds give it back.

        Returns {holder, number, until}, ``until`` in epoch seconds. ``instead_of`` is a program that is known to have
        ended. Raises AgentLeasedError while another program has the agent, and UnknownAgentError.
        """
        body = {"holder": holder, "seconds": seconds, "instead_of": instead_of}
        path = f"{self._path}{path_of('agents', agent_id, 'lease')}"
        return cast("dict[str, Any]", (await self._transport.call("POST", path, body=body)).value)

    def generation_context(self, agent_id: str, req_id: str) -> int | None:
        """Return the context of a generation that is live here; None if there is none."""
        return self._links.context_of(agent_id, req_id)

    def generation(self, agent_id: str, req_id: str) -> CancelToken | None:
        """Return the token of a generation that was begun here; it is remembered for a while after its end."""
        return self._links.generation(agent_id, req_id)

    # -- staleness -----------------------------------------------------------------------------------------

    async def staleness(self) -> dict[str, Any]:
        """Return the world's present staleness settings."""
        return cast("dict[str, Any]", (await self._transport.call("GET", f"{self._path}/staleness")).value)

    async def set_staleness(
        self,
        *,
        staleness_threshold: Threshold = NOT_GIVEN,
        interrupt_policy: InterruptPolicy | None = None,
        max_staleness_threshold: Threshold = NOT_GIVEN,
    ) -> int:
        """Set when intents and generations that begin from now on are stale; omitted settings stay.

        Returns the effect's global_seq. Raises InvalidEffectError if the threshold would exceed the maximum.
        """
        body = _given(staleness_threshold=staleness_threshold, max_staleness_threshold=max_staleness_threshold)
        if interrupt_policy is not None:
            body["interrupt_policy"] = interrupt_policy
        answer = await self._transport.call("PUT", f"{self._path}/staleness", body=body)
        return cast(int, answer.value["global_seq"])

    # -- observation ---------------------------------------------------------------------------------------

    async def view(self, agent_id: str, *, at_seq: int | None = None, at: str | None = None) -> View:
        """Return an agent's view: the latest that it may know, or the one that it had at a seq or a moment (``at``).

        In both cases its view_seq is that of the effect that made it: the last up to there that gave the agent a delta.
        Raises UnknownAgentError (also if it was not registered then), MomentNotFoundError, and UnreadableMomentError (a
        ValueError) for an invalid moment (`worldledger.moments`).
        """
        return await self._links.view(agent_id, at_seq, at)

    async def why(
        self,
        seq: int | str,
        *,
        direction: Direction = "back",
        depth: int | None = None,
        width: int | None = None,
        limit: int | None = None,
        window: int | None = None,
    ) -> dict[str, Any]:
        """Return what an effect came of, or (``forward``) what came of it: the answer of the route ``…/why``.

        In a fork, ``seq`` may name an effect of before the fork point as ``parent:42``; forward goes on in the fork.
        ``depth``: most links to go, ``width``: most links of each kind at one effect, ``limit``: most effects,
        ``window``: effects in which it is found out what was touched and shown. Defaults: docs/reference/http.md.
        Raises WorldNotFoundError, EffectNotFoundError and, after a fork point, MomentNotFoundError.
        """
        params = {"direction": direction, "depth": depth, "width": width, "limit": limit, "window": window}
        given = {name: value for name, value in params.items() if value is not None}
        place = seq if isinstance(seq, str) else f"{seq:d}"
        answer = await self._transport.call("GET", f"{self._path}{path_of('effects', place, 'why')}", params=given)
        return cast("dict[str, Any]", answer.value)

    async def density(
        self, *, bins: int | None = None, by: str | None = None, until_seq: int | None = None
    ) -> dict[str, Any]:
        """Return how many effects of which kinds there are along the log: the answer of the route ``…/density``.

        ``bins``: at most so many, ``by``: what all bins have as much of: seq, sim_time or a unit of the ruleset,
        ``until_seq``: the last effect that is counted.
        """
        asked = {"bins": bins, "by": by, "until_seq": until_seq}
        given = {name: value for name, value in asked.items() if value is not None}
        answer = await self._transport.call("GET", f"{self._path}/density", params=given)
        return cast("dict[str, Any]", answer.value)

    async def frames(
        self,
        *,
        from_seq: int | None = None,
        to_seq: int | None = None,
        every: int | None = None,
        agent_id: str | None = None,
    ) -> dict[str, Any]:
        """Return states of a range, or what an agent saw: the answer of the route ``…/frames``.

        It is a whole state and columns of what changes. A long range is cut: ``next_from_seq`` is where to go on.
        """
        asked = {"from_seq": from_seq, "to_seq": to_seq, "every": every}
        given = {name: value for name, value in asked.items() if value is not None}
        of = "" if agent_id is None else path_of("agents", agent_id)
        answer = await self._transport.call("GET", f"{self._path}{of}/frames", params=given)
        return cast("dict[str, Any]", answer.value)

    async def search(
        self,
        text: str,
        *,
        kind: str | None = None,
        source_id: str | None = None,
        order: Literal["newest", "oldest"] = "newest",
        limit: int | None = None,
        after_seq: int = 0,
        until_seq: int | None = None,
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the effects whose payload has a text, as they are found: the hits of the route ``…/search``.

        A hit has ``global_seq``, ``kind``, ``source_id``, ``sim_time`` and ``excerpt``, what stands around the text.
        Without ``limit`` the whole range is searched. Leaving early ends the search in the service;
        `contextlib.aclosing` does so at once. Raises WorldNotFoundError and MomentNotFoundError, and
        ServiceUnavailableError if the answer breaks off.
        """
        path = f"{self._path}/search"
        asked: dict[str, Any] = {"q": text, "kind": kind, "source_id": source_id, "order": order}
        asked |= {"after_seq": after_seq, "until_seq": until_seq}
        params = {name: value for name, value in asked.items() if value is not None}
        while limit is None or limit > 0:
            params["limit"] = _PAGE if limit is None else min(limit, _PAGE)
            end: dict[str, Any] | None = None
            rest = b""
            try:
                async with self._transport.stream("GET", path, accept=_LINES, params=params) as response:
                    async for chunk in response.aiter_raw():
                        *lines, rest = (rest + chunk).split(b"\n")
                        for line in map(orjson.loads, lines):
                            if "hit" in line:
                                yield line["hit"]
                            end = line.get("end", end)
            except httpx2.TransportError as error:
                raise self._transport.cut_off(error) from error
            if end is None:
                raise self._transport.cut_off(None)
            if end["next"] is None:
                return
            params |= end["next"]
            limit = None if limit is None else limit - end["hits"]

    async def subscribe(self, agent_id: str, *, view_seq: int | None = None) -> RemoteSubscription:
        """Return the agent's observations after a view; without one, from now on, the view first.

        Raises UnknownAgentError, and PositionAheadError for a view_seq that the log has not reached.
        """
        subscription = RemoteSubscription(
            agent_id, most=self._max_queued, fitted=lambda delta: fitted(self, agent_id, delta)
        )
        await subscription.begin(self._links.open(agent_id, view_seq, subscription.deltas))
        return subscription

    def acknowledge(self, agent_id: str, view_seq: int) -> None:
        """Note that the agent has a view; if it returns without naming one, it continues from there."""
        if view_seq <= self._acknowledged.get(agent_id, 0):
            return
        self._acknowledged[agent_id] = view_seq
        link = self._links.of(agent_id)
        if link is not None:
            link.acknowledge(view_seq)
        else:
            self._later(self._acknowledge(agent_id, view_seq))

    async def _acknowledge(self, agent_id: str, view_seq: int) -> None:
        path = f"{self._path}{path_of('agents', agent_id, 'observations')}"
        await self._transport.call("GET", path, params={"after": view_seq, "limit": 1})

    async def observed_events(
        self,
        agent_id: str,
        *,
        after_seq: int = 0,
        until_seq: int | None = None,
        kinds: Collection[str] | None = None,
        limit: int = 100,
    ) -> tuple[list[ObservedEvent], int]:
        """Return events of the past that the agent could see, from the log, and the seq to continue after.

        Raises UnknownAgentError and PositionAheadError.
        """
        wanted = None if kinds is None else frozenset(kinds)
        params: dict[str, Any] = {"after_seq": after_seq, "limit": min(limit, _PAGE)}
        if until_seq is not None:
            params["until_seq"] = until_seq
        if wanted is not None and len(wanted) == 1:
            (params["kind"],) = wanted
        path = f"{self._path}{path_of('agents', agent_id, 'events')}"
        found: list[ObservedEvent] = []
        while True:
            page = (await self._transport.call("GET", path, params=params)).value
            found += [event for event in page["events"] if wanted is None or event["kind"] in wanted]
            through: int = page["through_seq"]
            if len(found) >= limit or page["next_after_seq"] is None:
                break
            params["after_seq"] = page["next_after_seq"]
        if len(found) > limit:
            found = found[:limit]
            through = found[-1]["global_seq"]
        return found, through

    # -- time ----------------------------------------------------------------------------------------------

    def set_sim_time_authority(
        self, authority: str, *, zero: float | None = None, force: bool = True
    ) -> Awaitable[int]:
        """Make an adapter ("unity", "unreal" …) set sim_time from here on, any "client", or ("none") the wall clock.

        ``zero`` is the world's sim_time at which the authority's own 0.0 lies: by default the world's time when the
        effect is written, and for "client" 0.0. The wall clock continues from the world's time. Without ``force``,
        which needs an operator, an adapter takes over only from another one that is silent.

        The call returns at once: its effect follows, before any later tick of this client. The result may be awaited
        for the effect's global_seq; that raises InvalidEffectError for an invalid adapter name, and without ``force``
        TimeAuthorityHeldError.
        """
        wanted: dict[str, Any] = {"authority": authority}
        wanted |= {} if zero is None else {"zero": zero}
        wanted |= {} if force else {"force": False}
        before = self._authority
        self._authority = self._later(self._set_authority(wanted, before))
        return self._authority

    async def time_authority(self) -> TimeAuthority:
        """Return the world's present time authority: which it is, its offset, and whether it is silent."""
        told = (await self._transport.call("GET", f"{self._path}/time-authority")).value
        silence = None if told["silence"] is None else Silence(**told["silence"])
        return TimeAuthority(told["authority"], told["offset"], told["since_seq"], told["last_tick_seq"], silence)

    def on_authority_silent(self, listener: Callable[[Silence], None]) -> Callable[[], None]:
        """Register a listener for silences of the time authority; call the result to unregister it.

        The service reports it over the agents' connections: there is no report without a handle, subscription or
        generation.
        """
        return self._links.on_silence(listener)

    async def _set_authority(self, body: dict[str, Any], before: asyncio.Task[int] | None) -> int:
        if before is not None:
            await asyncio.wait([before])
        answer = await self._transport.call("PUT", f"{self._path}/time-authority", body=body)
        return cast(int, answer.value["global_seq"])

    async def tick(self, adapter: str, sim_time: float) -> RemoteReceipt:
        """Advance sim_time to the adapter's own time plus its offset.

        Raises TimeAuthorityError for a foreign adapter, SimTimeOrderError for going backwards.
        """
        if self._authority is not None:
            await asyncio.wait([self._authority])
        body = {"adapter": adapter, "sim_time": sim_time}
        return RemoteReceipt(**(await self._transport.call("POST", f"{self._path}/time", body=body)).value)

    async def close_tick(self, source: str) -> RemoteReceipt:
        """Close the tick of a world ordered by ticks without setting sim_time.

        ``source`` names the closer: if an adapter has the authority over time, that adapter. Raises TimeAuthorityError,
        InvalidEffectError in a world ordered by arrival, and ServiceUnavailableError if it is unknown whether the tick
        was closed.
        """
        if self._authority is not None:
            await asyncio.wait([self._authority])
        call = self._transport.call("POST", f"{self._path}/ticks", body={"source": source}, again=False)
        return RemoteReceipt(**(await call).value)

    async def shut(self) -> None:
        """End what is under way: live generations are cancelled, handles and subscriptions closed."""
        for handle in list(self.agent_handles.values()):
            handle.close()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._links.close()

    # -- inside --------------------------------------------------------------------------------------------

    def _later(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # an awaiting caller gets it


def _given(**settings: Threshold) -> dict[str, Any]:
    """Return the settings that are given."""
    return {name: value for name, value in settings.items() if value is not NOT_GIVEN}


def _accepted(told: Mapping[str, Any]) -> Accepted:
    return Accepted(
        told["uuid"], global_seq=told["global_seq"], req_id=told["req_id"], replayed=told.get("replayed", False)
    )


def _held(told: Mapping[str, Any]) -> Held:
    return Held(told["agent_id"], told["req_id"], told["tick"], told["order"], told["replayed"])
