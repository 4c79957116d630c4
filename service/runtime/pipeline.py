"""The way of an intent, stage by stage, from what an agent sent to an effect in the log.

Source: seeds/simulation_core.md ("quota → backpressure → priority → fairness", two-phase integrity). The order:

1. *shape* (`worldledger.intents.check_intent`), and whether there is such an agent
2. *idempotency*: the same request again is answered as it was the first time, whatever has changed since
3. *staleness*: the view that it was made from is not too old
4. *quota*, charged once for each req_id
5. *backpressure, priority, fairness*: a turn (`service.runtime.scheduling`)
6. *permissions and validation* by the state that the effect will follow, staleness once more, then the ruleset
7. the store

Nothing is written until all of them have passed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple, ParamSpec, TypeVar

import orjson
import structlog

from service.store.records import Receipt
from service.store.units import Judge
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
    PermissionDeniedError,
    QuotaExceededError,
    RequestConflictError,
    SimulationError,
    StaleContextError,
    StoreUnavailableError,
    ValidatorError,
)
from worldledger.intents import Accepted, CheckedIntent, intent_draft
from worldledger.validation import EffectValidator, judge_intent, mentions

if TYPE_CHECKING:
    from service.runtime.guarding import StoreGuard
    from service.runtime.quotas import Quotas
    from service.runtime.scheduling import Scheduler
    from service.store.event_log import EventLog
    from worldledger.config import OrchestratorConfig
    from worldledger.rulesets import Ruleset
    from worldledger.world import WorldState

#: Effects that are looked through for those that an intent conflicts with, and most of them that are named.
_LOOKED_THROUGH: Final = 5000
_NAMED: Final = 100

#: What a request that was accepted before may run into, though it is to be answered as it was then.
_PASSES_FOR_KNOWN: Final = (StaleContextError, QuotaExceededError, BackpressureError, DeadlineExceededError)
#: Refusals by permission, validator or ruleset: what the log tells of as IntentRejected, where the world wants it.
REJECTIONS: Final = (IntentRefusedError, PermissionDeniedError, IntentConflictError, IllegalEffectError)

log = structlog.get_logger("worldledger.runtime")

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Standing(NamedTuple):
    """What the pipeline must know of an agent: its weight among the others, and its latest view_seq as of now."""

    weight: int
    latest_view_seq: Callable[[], int]


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
        validator: EffectValidator,
        ruleset: Ruleset,
        record_rejections: bool,
        clock: Callable[[], float],
    ) -> None:
        self._log = event_log
        self._config = config
        self._quotas = quotas
        self._scheduler = scheduler
        self._guard = guard
        self._validator = validator
        self._ruleset = ruleset
        self._record_rejections = record_rejections
        self._clock = clock

    async def submit(self, intents: Sequence[CheckedIntent], standings: Mapping[str, Standing]) -> list[Accepted]:
        """Take intents through the stages together: all become effects, or none does.

        Raises what refuses the first of them that is refused; where there are several, its details name the ``index``.
        """
        drafts = [intent_draft(intent) for intent in intents]
        try:
            receipts = await self._admit(intents, drafts, standings)
        except _PASSES_FOR_KNOWN:
            receipts = await self._recall(drafts)
            if not receipts:
                raise
        except REJECTIONS as error:
            if isinstance(error, IntentConflictError):
                await self._find_conflicts(error)
            if self._record_rejections:
                await self._record(intents[error.details.get("index") or 0], error)
            raise
        return [
            Accepted(receipt.uuid, global_seq=receipt.global_seq, req_id=intent.req_id, replayed=receipt.replayed)
            for intent, receipt in zip(intents, receipts, strict=True)
        ]

    async def _admit(
        self, intents: Sequence[CheckedIntent], drafts: Sequence[EffectDraft], standings: Mapping[str, Standing]
    ) -> list[Receipt]:
        deadline_at = self._clock() + self._config.deadline_ms / 1000.0 if self._config.deadline_ms else None
        several = len(intents) > 1
        for index, intent in enumerate(intents):
            try:
                _indexed(index, several, self._check_staleness, intent, standings[intent.agent_id])
            except StaleContextError:
                # In a list one that was accepted before is no reason to refuse the others.
                if not several or not await self._recall([drafts[index]]):
                    raise
        judges = {
            index: self._judge(index, several, intent, standings[intent.agent_id], deadline_at)
            for index, intent in enumerate(intents)
        }
        first = max(intents, key=lambda intent: intent.priority)
        charged: list[CheckedIntent] = []
        try:
            for index, intent in enumerate(intents):
                charge = self._quotas.charge
                if _indexed(index, several, charge, intent.agent_id, intent.req_id, intent.token_count):
                    charged.append(intent)
            async with self._scheduler.turn(
                first.agent_id,
                first.priority,
                standings[first.agent_id].weight,
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
        expected = standing.latest_view_seq() - self._config.staleness_threshold
        if intent.context_seq < expected:
            raise StaleContextError(intent.req_id, expected, intent.context_seq)

    def _judge(
        self, index: int, several: bool, intent: CheckedIntent, standing: Standing, deadline_at: float | None
    ) -> Judge:
        def judge(state: WorldState) -> None:
            if deadline_at is not None and self._clock() > deadline_at:
                raise DeadlineExceededError(intent.req_id, self._config.deadline_ms)
            self._check_staleness(intent, standing)
            judge_by_rules(intent, state, self._validator, self._ruleset)

        if not several:
            return judge
        return lambda state: _indexed(index, True, judge, state)

    async def _recall(self, drafts: Sequence[EffectDraft]) -> list[Receipt]:
        """Give the first receipts, if every one of these requests was accepted before; else none."""
        try:
            found = [await self._log.recall(draft) for draft in drafts]
        except StoreUnavailableError:
            return []
        return [receipt for receipt in found if receipt is not None] if None not in found else []

    async def _find_conflicts(self, error: IntentConflictError) -> None:
        """Name the effects since the intent's context that concern its agent."""
        agent_id, context_seq = error.intent["agent_id"], error.intent["context_seq"]
        found: deque[Effect] = deque(maxlen=_NAMED)
        try:
            async for batch in self._log.batches(after_seq=context_seq, limit=_LOOKED_THROUGH):
                effects = map(orjson.loads, (row.text for row in batch))
                found.extend(effect for effect in effects if mentions(effect, agent_id))
        except SimulationError:
            return  # the refusal stands; what led to it cannot be read now
        error.conflicting_effects.extend(found)
        error.details["conflicting_effects"] = [
            {"global_seq": effect["global_seq"], "kind": effect["kind"], "source_id": effect["source_id"]}
            for effect in found
        ]

    async def _record(self, intent: CheckedIntent, error: SimulationError) -> None:
        """Have the log tell of a refusal; where that cannot be done, the refusal stands all the same.

        What is tried again and again, and refused for the same reason, is told once: nobody fills the log with it.
        """
        draft = rejection_draft(intent, error)
        try:
            await asyncio.shield(self._log.append_all([draft], system=True))
        except RequestConflictError:
            pass  # it was refused before, from another view
        except SimulationError as failed:
            log.warning("a rejected intent could not be recorded", req_id=intent.req_id, error=failed.message)


def judge_by_rules(intent: CheckedIntent, state: WorldState, validator: EffectValidator, ruleset: Ruleset) -> None:
    """Judge an intent by permissions, validator and ruleset. Raises what refuses it; ValidatorError where one fails."""
    try:
        judge_intent(intent, state, validator)
        if intent.kind == "Custom":
            ruleset.check_intent(intent.payload["kind"], intent.payload, intent.agent_id, state)
    except SimulationError:
        raise
    except Exception as error:
        log.exception("a validator failed", kind=intent.kind, agent_id=intent.agent_id)
        what = f"the world's validator failed on {intent.req_id!r} ({type(error).__name__}: {error})"
        raise ValidatorError(what, req_id=intent.req_id, agent_id=intent.agent_id) from error


def rejection_draft(intent: CheckedIntent, error: SimulationError) -> EffectDraft:
    """Return the draft of the effect by which the log is told of a refusal; of the same one again it is the same."""
    same = canonical_json([intent.agent_id, intent.req_id, intent.kind, intent.payload, error.code, error.message])
    return {
        "kind": INTENT_REJECTED_KIND,
        "payload": {
            "agent_id": intent.agent_id,
            "req_id": intent.req_id,
            "kind": intent.kind,
            "payload": intent.payload,
            "context_seq": intent.context_seq,
            "code": error.code,
            "reason": error.message,
            "rule": error.details.get("rule"),
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
