"""Submitting: what takes agents' intents in, one or several, and hands each the answer of its request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, cast

from service.runtime.deduplication import RequestKey, Requests
from service.runtime.guarding import StoreGuard
from service.runtime.lists import IntentList, IntentLists
from service.runtime.pipeline import Pipeline, Standing
from service.runtime.quotas import Quotas
from service.runtime.scheduling import Scheduler
from worldledger.answering import Answering
from worldledger.canonical import canonical_json
from worldledger.errors import InvalidEffectError, InvalidIntentError, SimulationError
from worldledger.intents import Accepted, CheckedIntent, check_intent

if TYPE_CHECKING:
    from service.runtime.following import Follower
    from service.runtime.observing import Observing
    from service.store.event_log import EventLog
    from service.store.outages import Outages
    from worldledger.config import OrchestratorConfig
    from worldledger.rulesets import Ruleset
    from worldledger.validation import EffectValidator

#: Seconds that an intent waits for this process to see the view that it was made from.
_PATIENCE: Final = 2.0


class Submitting:
    """The way in for the intents of one world; ``accepted`` is told the agent and req_id of each that was accepted."""

    def __init__(
        self,
        event_log: EventLog,
        config: OrchestratorConfig,
        *,
        follower: Follower,
        observing: Observing,
        validator: EffectValidator,
        ruleset: Ruleset,
        accepted: Callable[[str, str], object],
        outages: Outages,
        clock: Callable[[], float],
    ) -> None:
        self._follower = follower
        self._observing = observing
        self._accepted = accepted
        self._default_priority = config.default_priority
        self.requests: Requests[Accepted] = Requests(config.memory.max_remembered_requests, replay=_replayed)
        self.lists = IntentLists()
        self.scheduler = Scheduler(config, clock)
        self.quotas = Quotas(config, clock)
        self.guard = StoreGuard(config, clock, outages)
        recorded = config.record_rejections
        self._pipeline = Pipeline(
            event_log,
            config,
            quotas=self.quotas,
            scheduler=self.scheduler,
            guard=self.guard,
            observing=observing,
            answering=Answering(ruleset, validator),
            record_rejections=ruleset.records_rejections if recorded is None else recorded,
            clock=clock,
        )

    async def one(self, value: Mapping[str, Any], among: IntentList | None = None) -> Accepted:
        """Submit one intent, by itself or ``among`` others; see `Orchestrator.submit_intent`."""
        intent = check_intent(value, default_priority=self._default_priority)
        key, digest = (intent.agent_id, intent.req_id), _digest(intent)
        accepted = self.requests.known(key, digest)
        if accepted is not None:
            self._accepted(*key)
            return accepted
        joining = self._join(intent, key, digest, among)
        return await self.guard.write(joining, begun=lambda: self.requests.making(key))

    async def _join(self, intent: CheckedIntent, key: RequestKey, digest: bytes, among: IntentList | None) -> Accepted:
        async def make() -> Accepted:
            with self._observing.held(intent.agent_id):
                standing = await self._standing(intent, among)
                (accepted,) = await self._pipeline.submit([intent], {intent.agent_id: standing})
            return accepted

        accepted = await self.requests.join(key, digest, make)
        self._accepted(*key)
        return accepted

    async def each(self, values: Sequence[Mapping[str, Any]]) -> list[Accepted | SimulationError]:
        """Submit several intents, each by itself; give an answer or an error for each."""
        with self.lists.of(values) as among, ExitStack() as holding:
            for agent_id in among.agents:
                holding.enter_context(self._observing.held(agent_id))
            results = await asyncio.gather(*(self.one(value, among) for value in values), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, SimulationError):
                raise result
        return cast("list[Accepted | SimulationError]", results)

    async def together(self, values: Sequence[Mapping[str, Any]]) -> list[Accepted]:
        """Submit several intents that are all accepted, or none of them; a refusal names the ``index``."""
        return await self.guard.write(self._together(values))

    async def _together(self, values: Sequence[Mapping[str, Any]]) -> list[Accepted]:
        intents: list[CheckedIntent] = []
        standings: dict[str, Standing] = {}
        with ExitStack() as holding:
            for index, value in enumerate(values):
                try:
                    intent = check_intent(value, default_priority=self._default_priority)
                    holding.enter_context(self._observing.held(intent.agent_id))
                    standings[intent.agent_id] = await self._standing(intent)
                except InvalidEffectError as error:
                    raise error.at(index) from None
                except SimulationError as error:
                    error.details["index"] = index
                    raise
                intents.append(intent)
            accepted = await self._pipeline.submit(intents, standings) if intents else []
        for intent in intents:
            self._accepted(intent.agent_id, intent.req_id)
        return accepted

    async def _standing(self, intent: CheckedIntent, among: IntentList | None = None) -> Standing:
        attachment = await self._observing.attach(intent.agent_id)
        # Nobody waits for a database that is left alone: the breaker refuses at once.
        patience = _PATIENCE if self.guard.closed else 0.0
        # What was acknowledged before this intent came counts when it is asked whether the intent is stale.
        await self._follower.fold_known(patience)
        if intent.context_seq > self._follower.seq and not await self._follower.reached(intent.context_seq, patience):
            await self.guard.call(self._follower.catch_up)  # while the database is away nobody can tell
        if intent.context_seq > self._follower.seq:
            what = f"context_seq {intent.context_seq} lies beyond the world's head, {self._follower.seq}"
            raise InvalidIntentError(what, "$.context_seq", head_seq=self._follower.seq)
        if intent.context_seq < attachment.view_seq:
            await self._observing.settle(attachment)
        weight = self._observing.agents[intent.agent_id]["weight"]
        if among is None:
            return Standing(weight, lambda: attachment.view_seq)
        return Standing(weight, lambda: among.latest_view_seq(attachment))


def _replayed(accepted: Accepted) -> Accepted:
    return Accepted(accepted, global_seq=accepted.global_seq, req_id=accepted.req_id, replayed=True)


def _digest(intent: CheckedIntent) -> bytes:
    """Tell apart what makes two intents of one req_id the same: all but the view that they were made from."""
    return sha256(canonical_json([intent.kind, intent.payload, intent.priority, intent.schema_version])).digest()
