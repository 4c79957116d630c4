"""A world's settings of staleness: how it was configured, and what effects have set since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from worldledger.core_kinds import STALENESS_KIND
from worldledger.effects import SCHEMA_VERSION, SERVICE_SOURCE, EffectDraft
from worldledger.errors import InvalidEffectError
from worldledger.staleness import (
    NOT_GIVEN,
    InterruptPolicy,
    Staleness,
    Threshold,
    WorldStaleness,
    check_interrupt_policy,
    check_threshold,
)

if TYPE_CHECKING:
    from worldledger.config import OrchestratorConfig
    from worldledger.world import WorldState
    from worldledger_service.runtime.following import Follower
    from worldledger_service.store import Receipt
    from worldledger_service.store.event_log import EventLog


class StalenessSettings:
    """Says what holds in one world, and sets it anew by the effect WorldStalenessSet."""

    def __init__(self, event_log: EventLog, follower: Follower, config: OrchestratorConfig) -> None:
        self._log = event_log
        self._follower = follower
        self._configured = config.staleness

    @property
    def world(self) -> WorldStaleness:
        """The world's settings, as far as this process has followed it."""
        return self._in(self._follower.views.fold.state)

    def of(self, agent_id: str, given: Threshold = NOT_GIVEN, by: str = "intent") -> Staleness:
        """Return what holds for something of a registered agent, given its own threshold."""
        return self.world.of(self._follower.views.fold.state.metadata["agents"][agent_id], given, by)

    async def set(
        self,
        staleness_threshold: Threshold,
        interrupt_policy: InterruptPolicy | None,
        max_staleness_threshold: Threshold,
    ) -> Receipt:
        """Write what is given; on return this process has folded it. Raises InvalidEffectError."""
        payload: dict[str, Any] = {}
        if staleness_threshold is not NOT_GIVEN:
            payload["staleness_threshold"] = check_threshold(staleness_threshold)
        if interrupt_policy is not None:
            payload["interrupt_policy"] = check_interrupt_policy(interrupt_policy)
        if max_staleness_threshold is not NOT_GIVEN:
            name = "max_staleness_threshold"
            payload[name] = check_threshold(max_staleness_threshold, f"$.{name}")
        if not payload:
            raise InvalidEffectError(
                "nothing is set: name staleness_threshold, interrupt_policy or max_staleness_threshold"
            )

        def judge(state: WorldState) -> None:
            after = self._in(state).set_anew(payload)
            after.check(after.threshold)

        draft: EffectDraft = {
            "kind": STALENESS_KIND,
            "payload": payload,
            "source_id": SERVICE_SOURCE,
            "schema_version": SCHEMA_VERSION,
        }
        (receipt,) = await self._log.append_judged([draft], {0: judge}, system=True)
        await self._follower.reached(receipt.global_seq)
        return receipt

    def _in(self, state: WorldState) -> WorldStaleness:
        return self._configured.set_anew(state.metadata.get("staleness"))
