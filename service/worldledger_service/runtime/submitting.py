"""Submitting: what takes agents' intents in, one or several, and hands each the answer of its request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, cast

from worldledger.answering import Answering
from worldledger.canonical import canonical_json
from worldledger.errors import InvalidEffectError, SimulationError
from worldledger.intents import Accepted, CheckedIntent, check_intent
from worldledger_service.runtime.deduplication import RequestKey, Requests
from worldledger_service.runtime.guarding import StoreGuard
from worldledger_service.runtime.lists import IntentList, IntentLists
from worldledger_service.runtime.pipeline import Pipeline, Standing
from worldledger_service.runtime.quotas import Quotas
from worldledger_service.runtime.scheduling import Scheduler
from worldledger_service.runtime.sightings import Watch

if TYPE_CHECKING:
    from worldledger.config import OrchestratorConfig
    from worldledger.rulesets import Ruleset
    from worldledger.validation import EffectValidator
    from worldledger_service.runtime.following import Follower
    from worldledger_service.runtime.generations import Generations
    from worldledger_service.runtime.observing import Observing
    from worldledger_service.runtime.placing import Placing
    from worldledger_service.runtime.sightings import Sightings
    from worldledger_service.store.event_log import EventLog
    from worldledger_service.store.outages import Outages

#: Seconds that an intent waits for this process to see the view that it was made from.
_PATIENCE: Final = 2.0


class Submitting:
    """The way in for the intents of one world; each that is accepted ends the generation of its req_id."""

    def __init__(
        self,
        event_log: EventLog,
        config: OrchestratorConfig,
        *,
        follower: Follower,
        observing: Observing,
        sightings: Sightings,
        generations: Generations,
        lists: IntentLists,
        placing: Placing,
        validator: EffectValidator,
        ruleset: Ruleset,
        outages: Outages,
        clock: Callable[[], float],
    ) -> None:
        self._follower = follower
        self._observing = observing
        self._sightings = sightings
        self._generations = generations
        self._accepted = generations.finish
        self._placing = placing
        self._default_priority = config.default_priority
        self.requests: Requests[Accepted] = Requests(config.memory.max_remembered_requests, replay=_replayed)
        self.lists = lists
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
            async with self._standing(intent, among) as (placed, standing):
                (accepted,) = await self._pipeline.submit([placed], [standing])
            return accepted

        accepted = await self.requests.join(key, digest, make)
        self._accepted(*key)
        return accepted

    async def each(self, values: Sequence[Mapping[str, Any]]) -> list[Accepted | SimulationError]:
        """Submit several intents, each by itself; return an answer or an error for each."""
        with self.lists.of(values) as among, ExitStack() as holding:
            for agent_id in among.agents:
                holding.enter_context(self._observing.held(agent_id))
            try:
                results = await asyncio.gather(*(self.one(value, among) for value in values), return_exceptions=True)
            finally:
                for watch in among.watches():
                    self._sightings.end(watch)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, SimulationError):
                raise result
        return cast("list[Accepted | SimulationError]", results)

    async def together(self, values: Sequence[Mapping[str, Any]]) -> list[Accepted]:
        """Submit several intents that are all accepted, or none of them; a refusal names the ``index``."""
        return await self.guard.write(self._together(values))

    async def _together(self, values: Sequence[Mapping[str, Any]]) -> list[Accepted]:
        intents: list[CheckedIntent] = []
        standings: list[Standing] = []
        async with AsyncExitStack() as holding:
            for index, value in enumerate(values):
                try:
                    intent = check_intent(value, default_priority=self._default_priority)
                    intent, standing = await holding.enter_async_context(self._standing(intent, None))
                except InvalidEffectError as error:
                    raise error.at(index) from None
                except SimulationError as error:
                    error.details["index"] = index
                    raise
                intents.append(intent)
                standings.append(standing)
            accepted = await self._pipeline.submit(intents, standings) if intents else []
        for intent in intents:
            self._accepted(intent.agent_id, intent.req_id)
        return accepted

    @asynccontextmanager
    async def _standing(
        self, intent: CheckedIntent, among: IntentList | None
    ) -> AsyncIterator[tuple[CheckedIntent, Standing]]:
        """Return an intent with the context that it has in truth, and how it stands, kept until the end of the block.

        Where it names no context it has that of the generation that it ends, if there is one; what lies beyond the
        agent's view is no context, and means that view.
        """
        agent_id = intent.agent_id
        with self._observing.held(agent_id):
            attachment = await self._observing.attach(agent_id)
            # Nobody waits for a database that is left alone: the breaker refuses at once.
            patience = _PATIENCE if self.guard.closed else 0.0
            # What was acknowledged before this intent came counts when it is asked whether the intent is stale.
            await self._follower.fold_known(patience)
            if intent.context_seq is not None and intent.context_seq > self._follower.seq:
                await self.guard.call(self._follower.catch_up)  # another process may have shown it to the agent
            placed = self._placing.place(intent)
            context_seq, staleness, names = placed.intent.context_seq, placed.staleness, placed.names
            seen_to = 0 if context_seq is None else min(context_seq, self._follower.seq)

            def make() -> Watch:
                left_out = None if among is None else among.own.__contains__
                return Watch(agent_id, seen_to, staleness, names, left_out=left_out)

            watch = make() if among is None else among.shared((agent_id, seen_to, staleness, names), make)
            self._sightings.begin(watch)
            try:
                if context_seq is not None:
                    await self._sightings.count(watch, attachment)
                    context_seq = min(context_seq, attachment.view_seq)
                weight = self._observing.agents[agent_id]["weight"]
                yield placed.intent._replace(context_seq=context_seq), Standing(weight, watch, placed.refusal)
            finally:
                if among is None:
                    self._sightings.end(watch)


def _replayed(accepted: Accepted) -> Accepted:
    return Accepted(accepted, global_seq=accepted.global_seq, req_id=accepted.req_id, replayed=True)


def _digest(intent: CheckedIntent) -> bytes:
    """Tell apart what makes two intents of one req_id the same: all but the view that they were made from."""
    return sha256(canonical_json([intent.kind, intent.payload, intent.priority, intent.schema_version])).digest()
