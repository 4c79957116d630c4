"""The way of an intent, stage by stage, from what an agent sent to an effect in the log.

Source: docs/architecture-agents.md, "Intents". The order:

1. *shape* (`worldledger.intents.check_intent`)
2. *idempotency*: the same request again is answered as it was the first time, whatever has changed since
3. whether there is such an agent, and *staleness*: not too much was shown to it since the view that the intent was made
   from
4. *quota*, charged once for each req_id
5. *backpressure, priority, fairness*: a turn (`worldledger_service.runtime.scheduling`)
6. deadline and staleness once more, then *permissions, validation* and the ruleset by the state that the effect will
   follow
7. the store

Nothing is written until all of them have passed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, ParamSpec, TypeAlias, TypeVar, cast
from weakref import WeakValueDictionary

import orjson
import structlog

from worldledger.answering import REFUSALS, Answering, Telling, is_instant, position_of, truth_of, without_truth
from worldledger.canonical import canonical_json
from worldledger.core_kinds import INTENT_REJECTED_KIND
from worldledger.effects import Effect, EffectDraft, own_draft
from worldledger.errors import (
    BackpressureError,
    CircuitBreakerOpenError,
    DeadlineExceededError,
    IllegalEffectError,
    IntentConflictError,
    IntentRefusedError,
    InvalidEffectError,
    InvalidIntentError,
    PermissionDeniedError,
    QuotaExceededError,
    RequestConflictError,
    SimulationError,
    StaleContextError,
    StoreUnavailableError,
    ValidatorError,
)
from worldledger.intents import Accepted, CheckedIntent, check_intent, checked_draft
from worldledger.lru import Lru
from worldledger.validation import judge_intent, mentions
from worldledger.views.shown import place_of
from worldledger_service.runtime.guarding import StoreGuard
from worldledger_service.runtime.scheduling import Quotas, Scheduler
from worldledger_service.runtime.sightings import Watch
from worldledger_service.store.records import Receipt

if TYPE_CHECKING:
    from worldledger.config import OrchestratorConfig
    from worldledger.deltas import ObservationDelta
    from worldledger.drafts import CheckedDraft
    from worldledger.world import WorldState
    from worldledger_service.runtime.following import ViewFollower
    from worldledger_service.runtime.generations import Generations
    from worldledger_service.runtime.observing import Observing
    from worldledger_service.runtime.sightings import Placing, Sightings
    from worldledger_service.store.event_log import EventLog
    from worldledger_service.store.outages import Outages


#: Seconds that an intent waits for this process to see the view that it was made from.
_PATIENCE: Final = 2.0
#: Effects that are looked through for those that an intent conflicts with, and most of them that are named.
_LOOKED_THROUGH: Final = 5000
_NAMED: Final = 100

#: Errors that a repeated request may run into though it was accepted before: it gets its first answer.
_PASSES_FOR_KNOWN: Final = (
    StaleContextError,
    QuotaExceededError,
    BackpressureError,
    DeadlineExceededError,
    InvalidIntentError,
)
#: Refusals by permission, validator or ruleset: what the log tells of as IntentRejected, where the world wants it.
REJECTIONS: Final = (IntentRefusedError, PermissionDeniedError, IntentConflictError, IllegalEffectError)

log = structlog.get_logger("worldledger.runtime")

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a world that is open here, as far as admission and ticks work with them."""

    event_log: EventLog
    config: OrchestratorConfig
    follower: ViewFollower
    observing: Observing
    sightings: Sightings
    placing: Placing
    answering: Answering
    #: monotonic, in seconds
    clock: Callable[[], float]

    @property
    def records_rejections(self) -> bool:
        """True if refusals by permission, validator or ruleset are recorded in the log."""
        recorded = self.config.record_rejections
        return self.answering.ruleset.records_rejections if recorded is None else recorded


#: Intents of a list that are begun in one turn of the event loop.
_AT_ONCE: Final = 32


class Standing(NamedTuple):
    """A checked intent with its true context: its draft, its agent's weight, and what the agent was shown since.

    ``refusal``: why it cannot be taken as it is, unless it was accepted before. ``seen``: where an agent that moves and
    sees itself late stands as far as it knows, in a tuple; None for others.
    """

    intent: CheckedIntent
    draft: CheckedDraft
    weight: int
    watch: Watch
    refusal: InvalidIntentError | None
    seen: tuple[list[float] | None] | None


class Admission:
    """Admits the intents of one world; each that is accepted ends the generation of its req_id."""

    def __init__(self, parts: Parts, generations: Generations, lists: IntentLists, outages: Outages) -> None:
        config, clock = parts.config, parts.clock
        self._parts = parts
        self._log = parts.event_log
        self._observing = parts.observing
        self._sightings = parts.sightings
        self._finish = generations.finish
        self._lists = lists
        #: held by the intent of each agent that comes to stand; there while one holds it or waits for it
        self._standing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.requests: Requests[Accepted] = Requests(config.memory.max_remembered_requests, replay=_replayed)
        self.scheduler = Scheduler(config, clock)
        self.quotas = Quotas(config, clock)
        self.guard = StoreGuard(config, clock, outages)

    # -- the ways in ---------------------------------------------------------------------------------------

    async def one(self, value: Mapping[str, Any], among: IntentList | None = None) -> Accepted:
        """Submit one intent, by itself or ``among`` others; see `Orchestrator.submit_intent`."""
        intent = check_intent(value, default_priority=self._parts.config.default_priority)
        key, digest = (intent.agent_id, intent.req_id), intent.digest()
        accepted = self.requests.known(key, digest)
        if accepted is not None:
            self._finish(*key)
            return accepted

        async def make() -> Accepted:
            with self._observing.held(intent.agent_id):
                standing = await self._stand(intent, among)
                try:
                    (accepted,) = await self._submit([standing])
                finally:
                    if among is None:
                        self._sightings.end(standing.watch)
            return accepted

        joining = self.requests.join(key, digest, make)
        return await self.guard.write(joining, begun=lambda: self.requests.making(key))

    async def each(self, values: Sequence[Mapping[str, Any]]) -> list[Accepted | SimulationError]:
        """Submit several intents, each by itself; return an answer or an error for each."""
        with self._lists.of(values) as among, ExitStack() as holding:
            for agent_id in among.agents:
                holding.enter_context(self._observing.held(agent_id))
            try:
                results = await self._begun_bit_by_bit(values, among)
            finally:
                for watch in among.watches():
                    self._sightings.end(watch)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, SimulationError):
                raise result
        return cast("list[Accepted | SimulationError]", results)

    async def _begun_bit_by_bit(
        self, values: Sequence[Mapping[str, Any]], among: IntentList
    ) -> list[Accepted | BaseException]:
        """Submit each in a task, in their order; whatever else the event loop has to do comes in between."""
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[Accepted]] = []
        try:
            for begun, value in enumerate(values, 1):
                tasks.append(loop.create_task(self.one(value, among)))
                if begun % _AT_ONCE == 0:
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            raise
        finally:
            results = await asyncio.gather(*tasks, return_exceptions=True)
        return results

    async def together(self, values: Sequence[Mapping[str, Any]]) -> list[Accepted]:
        """Submit several intents that are all accepted, or none of them; a refusal names the ``index``."""
        return await self.guard.write(self._together(values))

    async def _together(self, values: Sequence[Mapping[str, Any]]) -> list[Accepted]:
        standings: list[Standing] = []
        with ExitStack() as holding:
            for index, value in enumerate(values):
                try:
                    intent = check_intent(value, default_priority=self._parts.config.default_priority)
                    holding.enter_context(self._observing.held(intent.agent_id))
                    standing = await self._stand(intent)
                except InvalidEffectError as error:
                    raise error.at(index) from None
                except SimulationError as error:
                    error.details["index"] = index
                    raise
                holding.callback(self._sightings.end, standing.watch)
                standings.append(standing)
            return await self._submit(standings) if standings else []

    # -- the stages ----------------------------------------------------------------------------------------

    async def _stand(self, intent: CheckedIntent, among: IntentList | None = None) -> Standing:
        """Return how an intent stands; its watch goes on until the caller ends it, or its list is done.

        An agent's intents come to stand in the order in which they came, and nothing is waited for between this and
        the line for a turn: one that finds everything there passes none that has waited for it. The caller holds the
        agent.
        """
        async with self._standing.setdefault(intent.agent_id, asyncio.Lock()):
            return await self._stand_next(intent, among)

    async def _stand_next(self, intent: CheckedIntent, among: IntentList | None) -> Standing:
        """Return how the agent's next intent stands.

        Where it names no context it has that of the generation that it ends, if there is one; what lies beyond the
        agent's view is no context, and means that view.
        """
        parts, agent_id = self._parts, intent.agent_id
        follower = parts.follower
        attachment = await self._observing.attach(agent_id)
        # Effects that were acknowledged before this intent came count for its staleness. But while the breaker is open
        # the database is not waited for: the intent is refused at once.
        await follower.fold_known(_PATIENCE if self.guard.closed else 0.0)
        if intent.context_seq is not None and intent.context_seq > follower.seq:
            await self.guard.call(follower.catch_up)  # another process may have shown it to the agent
        intent, staleness, names, refusal = parts.placing.place(intent)
        context_seq = intent.context_seq
        seen_to = 0 if context_seq is None else min(context_seq, follower.seq)
        if among is None:
            watch = Watch(agent_id, seen_to, staleness, names)
        else:
            watch = among.shared(
                (agent_id, seen_to, staleness, names),
                lambda: Watch(agent_id, seen_to, staleness, names, left_out=among.own.__contains__),
            )
        self._sightings.begin(watch)
        try:
            if context_seq is not None:
                await self._sightings.count(watch, attachment)
            seen = await self._seen(intent)
        except BaseException:
            if among is None:
                self._sightings.end(watch)
            raise
        if context_seq is not None and context_seq > attachment.view_seq:
            intent = intent._replace(context_seq=attachment.view_seq)
        return Standing(intent, checked_draft(intent), self._observing.agents[agent_id]["weight"], watch, refusal, seen)

    async def _seen(self, intent: CheckedIntent) -> tuple[list[float] | None] | None:
        """Return the position from which an agent that sees itself late believes to move; None for other intents."""
        if intent.kind != "Move" or "from" not in intent.payload:
            return None
        policy = self._parts.answering.policy(self._observing.agents, intent.agent_id)
        if policy is not None and is_instant(policy):
            return None
        view = await self._observing.view(intent.agent_id, None)
        return (position_of(view.visible_entities.get(intent.agent_id)),)

    async def _submit(self, standings: Sequence[Standing]) -> list[Accepted]:
        """Pass intents through the stages together: all become effects, or none does.

        Raises the error of the first that is refused; if there are several intents, its details name the ``index``.
        """
        intents = [standing.intent for standing in standings]
        try:
            receipts = await self._admit(standings, self._telling(standings))
        except _PASSES_FOR_KNOWN:
            receipts = await self._recall(standings)
            if not receipts:
                raise
        except REJECTIONS as error:
            if isinstance(error, IntentConflictError):
                await self._find_conflicts(error)
            if self._parts.records_rejections:
                await self._record(intents, error)
            raise without_truth(error) from None
        for intent in intents:
            self._finish(intent.agent_id, intent.req_id)
        return [
            Accepted(receipt.uuid, global_seq=receipt.global_seq, req_id=intent.req_id, replayed=receipt.replayed)
            for intent, receipt in zip(intents, receipts, strict=True)
        ]

    def _telling(self, standings: Sequence[Standing]) -> Telling:
        """Return what says how a refusal is told."""
        telling = self._parts.answering.about([standing.intent for standing in standings])
        for intent, *_, seen in standings:
            if seen is not None:
                telling.positions.setdefault(intent.agent_id, *seen)
        return telling

    async def _admit(self, standings: Sequence[Standing], telling: Telling) -> list[Receipt]:
        deadline_ms = self._parts.config.deadline_ms
        deadline_at = self._parts.clock() + deadline_ms / 1000.0 if deadline_ms else None
        several = len(standings) > 1
        for index, standing in enumerate(standings):
            try:
                _indexed(index, several, self._look, standing, None)
            except (StaleContextError, InvalidIntentError):
                # In a list one that was accepted before is no reason to refuse the others.
                if not several or not await self._recall([standing]):
                    raise
        judges = {
            index: IntentJudge(index, telling, partial(self._look, standing, deadline_at))
            for index, standing in enumerate(standings)
        }
        foremost = max(standings, key=lambda standing: standing.intent.priority)
        first = foremost.intent
        charged: list[CheckedIntent] = []
        try:
            for index, (intent, *_) in enumerate(standings):
                charge = self.quotas.charge
                if _indexed(index, several, charge, intent.agent_id, intent.req_id, intent.token_count):
                    charged.append(intent)
            async with self.scheduler.turn(
                first.agent_id, first.priority, foremost.weight, deadline_at=deadline_at, req_id=first.req_id
            ):
                drafts = [standing.draft for standing in standings]
                receipts = await self.guard.call(self._log.append_judged, drafts, judges)
        except (QuotaExceededError, BackpressureError, CircuitBreakerOpenError):
            for intent in charged:  # it came to nothing by no fault of theirs
                self.quotas.refund(intent.agent_id, intent.req_id)
            raise
        for (intent, *_), receipt in zip(standings, receipts, strict=True):
            if receipt.replayed and intent in charged:  # it was paid for the first time, before this process began
                self.quotas.refund(intent.agent_id, intent.req_id)
        return receipts

    def _look(self, standing: Standing, deadline_at: float | None) -> None:
        """Raise what refuses an intent for another reason than the rules: its deadline, or that it is stale."""
        intent, watch = standing.intent, standing.watch
        if deadline_at is not None and self._parts.clock() > deadline_at:
            raise DeadlineExceededError(intent.req_id, self._parts.config.deadline_ms)
        if standing.refusal is not None:
            raise standing.refusal
        if watch.stale_at is not None and intent.context_seq is not None:
            details = watch.staleness.details()
            raise StaleContextError(intent.req_id, watch.expected_seq, intent.context_seq, **details)

    async def _recall(self, standings: Sequence[Standing]) -> list[Receipt]:
        """Return the first receipts, if every one of these requests was accepted before; else none."""
        try:
            found = [await self._log.recall(standing.draft) for standing in standings]
        except StoreUnavailableError:
            return []
        return [receipt for receipt in found if receipt is not None] if None not in found else []

    async def _find_conflicts(self, error: IntentConflictError) -> None:
        """Name the effects since the intent's context that concern its agent, as far as they were shown to it."""
        agent_id, context_seq = error.intent["agent_id"], error.intent["context_seq"]
        if context_seq is None:
            return  # it has no context to begin at
        found: deque[dict[str, Any]] = deque(maxlen=_NAMED)
        try:
            shown = {delta["view_seq"]: delta for delta in await self._observing.shown_since(agent_id, context_seq)}
            after = min(shown, default=context_seq + 1) - 1
            async for batch in self._log.batches(after_seq=after, limit=_LOOKED_THROUGH):
                for row in batch:
                    effect: Effect = orjson.loads(row.text)
                    delta = shown.get(effect["global_seq"])
                    if delta is not None and (told := shown_conflict(effect, delta, agent_id)) is not None:
                        found.append(told)
        except SimulationError:
            return  # the refusal stands; what led to it cannot be read now
        error.conflicting_effects.extend(found)
        error.details["conflicting_effects"] = [
            {name: told.get(name) for name in ("global_seq", "kind", "source_id")} for told in found
        ]

    async def _record(self, intents: Sequence[CheckedIntent], error: SimulationError) -> None:
        """Record a refusal in the log; if that fails, the refusal stands all the same.

        An attempt that is repeated and refused for the same reason is recorded once, so that it cannot fill the log.
        """
        refused, told = (intents[each.details.get("index") or 0] for each in (truth_of(error), error))
        draft = rejection_draft(refused, error, told)
        try:
            await asyncio.shield(self._log.append_all([draft], system=True))
        except RequestConflictError:
            pass  # it was refused before, from another view
        except SimulationError as failed:
            log.warning("a rejected intent could not be recorded", req_id=refused.req_id, error=failed.message)


class IntentJudge:
    """Judges one of the intents that are judged together, and says how a refusal of it is told.

    ``look`` is called first, and may raise what refuses it for another reason than the rules.
    """

    def __init__(self, index: int, telling: Telling, look: Callable[[], None]) -> None:
        self._index = index
        self._telling = telling
        self._look = look

    def __call__(self, state: WorldState) -> None:
        """Judge the intent by the state that it would follow; raise what its agent is told where it is refused."""
        telling, index = self._telling, self._index
        several = len(telling.intents) > 1
        _indexed(index, several, self._look)
        telling.judging(index, state)
        try:
            _indexed(index, several, judge_by_rules, telling.intents[index], state, telling)
        except REFUSALS as error:
            raise self.told(error, state) from error

    def told(self, error: SimulationError, state: WorldState) -> SimulationError:
        """Return what is told of a refusal by the rules."""
        return self._telling.told(self._index, error, state)


def judge_by_rules(intent: CheckedIntent, state: WorldState, telling: Telling) -> None:
    """Judge an intent by permissions, validator and ruleset. Raises what refuses it; ValidatorError where one fails."""
    answering = telling.answering
    try:
        judge_intent(intent, state, answering.validator, position=telling.position)
        if intent.kind == "Custom":
            answering.ruleset.check_intent(intent.payload["kind"], intent.payload, intent.agent_id, state)
    except SimulationError:
        raise
    except Exception as error:
        log.exception("a validator failed", kind=intent.kind, agent_id=intent.agent_id)
        what = f"the world's validator failed on {intent.req_id!r}; the service's log says more"
        raise ValidatorError(what, req_id=intent.req_id, agent_id=intent.agent_id) from error


def shown_conflict(effect: Effect, delta: ObservationDelta, agent_id: str) -> dict[str, Any] | None:
    """Return what an agent was shown of an effect that concerns it; None for one that does not, as far as it knows.

    That is the event, if it was shown one. A change of the agent itself that came as patches alone has no source but
    the agent.
    """
    for event in delta["events"]:
        if event["global_seq"] == effect["global_seq"] and mentions(cast("Effect", event), agent_id):
            return dict(event)
    own = effect["source_id"] == agent_id
    place = place_of("visible_entities", agent_id)
    if own or any(f"{operation['path']}/".startswith(f"{place}/") for operation in delta["patches"]):
        source_id = agent_id if own else None
        return {"global_seq": effect["global_seq"], "kind": effect["kind"], "source_id": source_id}
    return None


def rejection_draft(intent: CheckedIntent, error: SimulationError, told: CheckedIntent | None = None) -> EffectDraft:
    """Return the draft of the effect by which the log is told of a refusal; of the same one again it is the same.

    It has the true reason, which no agent is shown. How often it is written goes by what the agent is told: that
    ``told``, if it is another than this intent, is refused.
    """
    truth, asked = truth_of(error), told or intent
    same = canonical_json([asked.agent_id, asked.req_id, asked.kind, asked.payload, error.code, error.message])
    payload = {
        "agent_id": intent.agent_id,
        "req_id": intent.req_id,
        "kind": intent.kind,
        "payload": intent.payload,
        "context_seq": intent.context_seq,
        "code": truth.code,
        "reason": truth.message,
        "rule": truth.details.get("rule"),
    }
    return own_draft(INTENT_REJECTED_KIND, payload, f"rejected:{sha256(same).hexdigest()}")


def _indexed(index: int, several: bool, check: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run a check; where there are several intents, a refusal names the one it is of."""
    try:
        return check(*args, **kwargs)
    except SimulationError as error:
        if several:
            error.details["index"] = index
        raise


# -- lists: intents that are submitted together --------------------------------------------------------------------
#
# They were made before any of them was an effect. So an effect that came out of the list makes none of the others
# stale, however soon it is seen; what anybody else does makes those stale that are to come.


class IntentList:
    """One list that is being submitted; ``agents``: whose intents are in it."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.requests = {
            (value["agent_id"], value["req_id"])
            for value in values
            if isinstance(value, Mapping) and type(value.get("agent_id")) is type(value.get("req_id")) is str
        }
        self.agents = {agent_id for agent_id, _ in self.requests}
        #: the seqs of the effects that came out of it
        self.own: set[int] = set()
        #: what counts for several of them alike
        self._watches: dict[Any, Watch] = {}

    def note_effect(self, effect: Effect) -> None:
        """Note an effect that is about to be seen."""
        if (effect["source_id"], effect["req_id"]) in self.requests:
            self.own.add(effect["global_seq"])

    def shared(self, key: Any, make: Callable[[], Watch]) -> Watch:
        """Return the watch of all of them for which the same counts, made once."""
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = make()
        return watch

    def watches(self) -> list[Watch]:
        """Return those that were made."""
        return list(self._watches.values())


class IntentLists:
    """The lists that are being submitted to one world."""

    def __init__(self) -> None:
        self._lists: list[IntentList] = []

    @contextmanager
    def of(self, values: Sequence[Any]) -> Iterator[IntentList]:
        """Count intents as one list until the end of the block."""
        made = IntentList(values)
        self._lists.append(made)
        try:
            yield made
        finally:
            self._lists.remove(made)

    def note_effect(self, effect: Effect) -> None:
        """Note an effect that is about to be seen, for each list under way."""
        for each in self._lists:
            each.note_effect(effect)

    def same(self, agent_id: str, req_id: str, seq: int) -> bool:
        """Return whether an effect came from the list that has this request, too."""
        return any(seq in each.own and (agent_id, req_id) in each.requests for each in self._lists)


# -- idempotency: a request that was made before, or is being made, is not made again ------------------------------
#
# This is the memory of one process; that a request is one effect for ever and everywhere is the log's own promise.

A = TypeVar("A")

#: The agent of a request, and its req_id.
RequestKey: TypeAlias = tuple[str, str]
#: Distinguishes two bodies.
Digest: TypeAlias = str | bytes


class _Given(NamedTuple, Generic[A]):
    """The outcome of a request for the callers that joined it."""

    answer: A


class _Flight(Generic[A]):
    """A request that is being made, and the futures of the callers that wait for its outcome."""

    __slots__ = ("digest", "joined")

    def __init__(self, digest: Digest) -> None:
        self.digest: Final = digest
        #: None as a result: the caller that made it is gone, make it instead
        self.joined: deque[asyncio.Future[_Given[A] | Exception | None]] = deque()


class Requests(Generic[A]):
    """The requests in flight, and the answers of the last ``limit`` that succeeded.

    ``replay`` makes the answer of callers that repeat or join a request from the first one; by default it is the same.
    """

    def __init__(self, limit: int, *, replay: Callable[[A], A] = lambda answer: answer) -> None:
        self._replay = replay
        self._flights: dict[RequestKey, _Flight[A]] = {}
        self._answers: Lru[RequestKey, tuple[Digest, A]] = Lru(limit)

    def __len__(self) -> int:
        """Return how many answers are remembered."""
        return len(self._answers)

    @property
    def in_flight(self) -> int:
        """The number of different requests that are being made."""
        return len(self._flights)

    def making(self, key: RequestKey) -> bool:
        """Return whether a request is being made."""
        return key in self._flights

    def known(self, key: RequestKey, digest: Digest | None = None) -> A | None:
        """Return the answer of a request that succeeded, or None where it is not remembered.

        Raises RequestConflictError if the request had another digest than the one given.
        """
        found = self._answers.use(key)
        if found is None:
            return None
        known, answer = found
        if digest is not None:
            _must_be_same(key, known, digest, answer)
        return self._replay(answer)

    def remember(self, key: RequestKey, digest: Digest, answer: A) -> None:
        """Remember the answer of a request that succeeded; the least recently asked for is forgotten for it."""
        self._answers[key] = (digest, answer)

    async def join(self, key: RequestKey, digest: Digest, make: Callable[[], Awaitable[A]]) -> A:
        """Return the answer of this request: the remembered one, that of the same request in flight, or ``make``'s.

        The first caller makes the request, in its own task; callers that come meanwhile get the same outcome, also if
        it is an error. An error is not remembered, so the next caller makes the request again. If the caller that makes
        it is cancelled, the next of those that joined makes it instead.

        Raises RequestConflictError if the request was or is being made with another digest.
        """
        known = self.known(key, digest)
        if known is not None:
            return known
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight(digest)
        else:
            _must_be_same(key, flight.digest, digest)
            outcome = await self._outcome(key, flight)
            if isinstance(outcome, Exception):
                raise outcome
            if outcome is not None:
                return self._replay(outcome.answer)
        return await self._make(key, flight, make)

    async def _make(self, key: RequestKey, flight: _Flight[A], make: Callable[[], Awaitable[A]]) -> A:
        try:
            answer = await make()
        except Exception as error:
            self._land(key, flight, error)
            raise
        except BaseException:
            self._hand_over(key, flight)
            raise
        self.remember(key, flight.digest, answer)
        self._land(key, flight, _Given(answer))
        return answer

    async def _outcome(self, key: RequestKey, flight: _Flight[A]) -> _Given[A] | Exception | None:
        future: asyncio.Future[_Given[A] | Exception | None] = asyncio.get_running_loop().create_future()
        flight.joined.append(future)
        try:
            return await future
        except asyncio.CancelledError:
            if future in flight.joined:
                flight.joined.remove(future)
            elif not future.cancelled() and future.result() is None:  # it was to go on, and has gone away itself
                self._hand_over(key, flight)
            raise

    def _land(self, key: RequestKey, flight: _Flight[A], outcome: _Given[A] | Exception) -> None:
        del self._flights[key]
        for future in flight.joined:
            if not future.done():
                future.set_result(outcome)

    def _hand_over(self, key: RequestKey, flight: _Flight[A]) -> None:
        while flight.joined:
            future = flight.joined.popleft()
            if not future.done():
                future.set_result(None)
                return
        del self._flights[key]


def _must_be_same(key: RequestKey, known: Digest, digest: Digest, answer: object = None) -> None:
    if known != digest:
        raise RequestConflictError(
            f"request {key[1]!r} of {key[0]!r} was made before with another body",
            req_id=key[1],
            global_seq=getattr(answer, "global_seq", None),
        )


def _replayed(accepted: Accepted) -> Accepted:
    return Accepted(accepted, global_seq=accepted.global_seq, req_id=accepted.req_id, replayed=True)
