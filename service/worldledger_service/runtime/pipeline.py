"""The way of an intent, stage by stage, from what an agent sent to an effect in the log.

Source: docs/architecture-agents.md, "Intents". The order:

1. *shape* (`worldledger.intents.check_intent`), and whether there is such an agent
2. *idempotency*: the same request again is answered as it was the first time, whatever has changed since
3. *staleness*: not too much was shown to the agent since the view that it was made from
4. *quota*, charged once for each req_id
5. *backpressure, priority, fairness*: a turn (`worldledger_service.runtime.scheduling`)
6. *permissions and validation* by the state that the effect will follow, staleness once more, then the ruleset
7. the store

Nothing is written until all of them have passed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar, cast

import orjson
import structlog

from worldledger.answering import REFUSALS, Answering, Telling, is_instant, position_of, truth_of, without_truth
from worldledger.canonical import canonical_json
from worldledger.core_kinds import INTENT_REJECTED_KIND
from worldledger.effects import SCHEMA_VERSION, SERVICE_SOURCE, Effect, EffectDraft
from worldledger.errors import (
    BackpressureError,
    CircuitBreakerOpenError,
    DeadlineExceededError,
    IllegalEffectError,
    IntentConflictError,
    IntentRefusedError,
    InvalidIntentError,
    PermissionDeniedError,
    QuotaExceededError,
    RequestConflictError,
    SimulationError,
    StaleContextError,
    StoreUnavailableError,
    ValidatorError,
)
from worldledger.intents import Accepted, CheckedIntent, intent_draft
from worldledger.validation import judge_intent, mentions
from worldledger.views.shown import place_of
from worldledger_service.store.records import Receipt
from worldledger_service.store.units import Judge

if TYPE_CHECKING:
    from worldledger.config import OrchestratorConfig
    from worldledger.deltas import ObservationDelta
    from worldledger.world import WorldState
    from worldledger_service.runtime.guarding import StoreGuard
    from worldledger_service.runtime.observing import Observing
    from worldledger_service.runtime.quotas import Quotas
    from worldledger_service.runtime.scheduling import Scheduler
    from worldledger_service.runtime.sightings import Watch
    from worldledger_service.store.event_log import EventLog

#: Effects that are looked through for those that an intent conflicts with, and most of them that are named.
_LOOKED_THROUGH: Final = 5000
_NAMED: Final = 100

#: What a request that was accepted before may run into, though it is to be answered as it was then.
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


class Standing(NamedTuple):
    """What the pipeline must know of an intent besides itself: its agent's weight, and what was shown to that since.

    ``refusal``: why it cannot be taken as it is, unless it was accepted before.
    """

    weight: int
    watch: Watch
    refusal: InvalidIntentError | None = None


class Pipeline:
    """Takes checked intents through the stages."""

    def __init__(
        self,
        event_log: EventLog,
        config: OrchestratorConfig,
        *,
        quotas: Quotas,
        scheduler: Scheduler,
        guard: StoreGuard,
        observing: Observing,
        answering: Answering,
        record_rejections: bool,
        clock: Callable[[], float],
    ) -> None:
        self._log = event_log
        self._config = config
        self._quotas = quotas
        self._scheduler = scheduler
        self._guard = guard
        self._observing = observing
        self._answering = answering
        self._record_rejections = record_rejections
        self._clock = clock

    async def submit(self, intents: Sequence[CheckedIntent], standings: Sequence[Standing]) -> list[Accepted]:
        """Take intents, each with its standing, through the stages together: all become effects, or none does.

        Raises what refuses the first of them that is refused; where there are several, its details name the ``index``.
        """
        drafts = [intent_draft(intent) for intent in intents]
        try:
            receipts = await self._admit(intents, drafts, standings, await self._telling(intents))
        except _PASSES_FOR_KNOWN:
            receipts = await self._recall(drafts)
            if not receipts:
                raise
        except REJECTIONS as error:
            if isinstance(error, IntentConflictError):
                await self._find_conflicts(error)
            if self._record_rejections:
                await self._record(intents, error)
            raise without_truth(error) from None
        return [
            Accepted(receipt.uuid, global_seq=receipt.global_seq, req_id=intent.req_id, replayed=receipt.replayed)
            for intent, receipt in zip(intents, receipts, strict=True)
        ]

    async def _telling(self, intents: Sequence[CheckedIntent]) -> Telling:
        """Return what says how a refusal is told, knowing where agents stand that see themselves late."""
        telling = self._answering.about(intents)
        for intent in intents:
            agent_id = intent.agent_id
            if intent.kind == "Move" and "from" in intent.payload and agent_id not in telling.positions:
                policy = self._answering.policy(self._observing.agents, agent_id)
                if policy is None or not is_instant(policy):
                    view = await self._observing.view(agent_id, None)
                    telling.positions[agent_id] = position_of(view.visible_entities.get(agent_id))
        return telling

    async def _admit(
        self,
        intents: Sequence[CheckedIntent],
        drafts: Sequence[EffectDraft],
        standings: Sequence[Standing],
        telling: Telling,
    ) -> list[Receipt]:
        deadline_at = self._clock() + self._config.deadline_ms / 1000.0 if self._config.deadline_ms else None
        several = len(intents) > 1
        for index, intent in enumerate(intents):
            try:
                _indexed(index, several, self._check_staleness, intent, standings[index])
            except (StaleContextError, InvalidIntentError):
                # In a list one that was accepted before is no reason to refuse the others.
                if not several or not await self._recall([drafts[index]]):
                    raise
        judges = {
            index: self._judge(index, telling, intent, standings[index], deadline_at)
            for index, intent in enumerate(intents)
        }
        foremost = max(range(len(intents)), key=lambda index: intents[index].priority)
        first = intents[foremost]
        charged: list[CheckedIntent] = []
        try:
            for index, intent in enumerate(intents):
                charge = self._quotas.charge
                if _indexed(index, several, charge, intent.agent_id, intent.req_id, intent.token_count):
                    charged.append(intent)
            async with self._scheduler.turn(
                first.agent_id,
                first.priority,
                standings[foremost].weight,
                deadline_at=deadline_at,
                req_id=first.req_id,
            ):
                receipts = await self._guard.call(self._log.append_judged, drafts, judges)
        except (QuotaExceededError, BackpressureError, CircuitBreakerOpenError):
            for intent in charged:  # it came to nothing by no fault of theirs
                self._quotas.refund(intent.agent_id, intent.req_id)
            raise
        for intent, receipt in zip(intents, receipts, strict=True):
            if receipt.replayed and intent in charged:  # it was paid for the first time, before this process began
                self._quotas.refund(intent.agent_id, intent.req_id)
        return receipts

    def _check_staleness(self, intent: CheckedIntent, standing: Standing) -> None:
        if standing.refusal is not None:
            raise standing.refusal
        watch = standing.watch
        if watch.stale_at is not None and intent.context_seq is not None:
            details = watch.staleness.details()
            raise StaleContextError(intent.req_id, watch.expected_seq, intent.context_seq, **details)

    def _judge(
        self, index: int, telling: Telling, intent: CheckedIntent, standing: Standing, deadline_at: float | None
    ) -> Judge:
        def look() -> None:
            if deadline_at is not None and self._clock() > deadline_at:
                raise DeadlineExceededError(intent.req_id, self._config.deadline_ms)
            self._check_staleness(intent, standing)

        return IntentJudge(index, telling, look)

    async def _recall(self, drafts: Sequence[EffectDraft]) -> list[Receipt]:
        """Return the first receipts, if every one of these requests was accepted before; else none."""
        try:
            found = [await self._log.recall(draft) for draft in drafts]
        except StoreUnavailableError:
            return []
        return [receipt for receipt in found if receipt is not None] if None not in found else []

    async def _find_conflicts(self, error: IntentConflictError) -> None:
        """Name the effects since the intent's context that concern its agent, as far as they were shown to it."""
        agent_id, context_seq = error.intent["agent_id"], error.intent["context_seq"]
        if context_seq is None:
            return  # nobody knows since when
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
        """Have the log tell of a refusal; where that cannot be done, the refusal stands all the same.

        What is tried again and again, and refused for the same reason, is told once: nobody fills the log with it.
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

    That is the event, where it was shown one. What the agent saw of itself by patches alone has no source, unless that
    is the agent.
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
    return {
        "kind": INTENT_REJECTED_KIND,
        "payload": {
            "agent_id": intent.agent_id,
            "req_id": intent.req_id,
            "kind": intent.kind,
            "payload": intent.payload,
            "context_seq": intent.context_seq,
            "code": truth.code,
            "reason": truth.message,
            "rule": truth.details.get("rule"),
        },
        "source_id": SERVICE_SOURCE,
        "schema_version": SCHEMA_VERSION,
        "req_id": f"rejected:{sha256(same).hexdigest()}",
    }


def _indexed(index: int, several: bool, check: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run a check; where there are several intents, a refusal names the one it is of."""
    try:
        return check(*args, **kwargs)
    except SimulationError as error:
        if several:
            error.details["index"] = index
        raise
