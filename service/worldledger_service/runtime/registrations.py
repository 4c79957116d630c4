"""Registrations: agents with their policies and permissions, as effects in the log."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from worldledger.agent_names import check_namesake
from worldledger.errors import SimulationError, TooManyAgentsError
from worldledger.intents import registration_draft
from worldledger.observation import ObservationPolicy
from worldledger.policies import as_policy, policy_spec
from worldledger.protocols import ObservationPolicyProtocol
from worldledger.staleness import NOT_GIVEN, InterruptPolicy, Threshold

if TYPE_CHECKING:
    from worldledger.config import OrchestratorConfig
    from worldledger.world import WorldState
    from worldledger_service.runtime.following import Follower
    from worldledger_service.store import Store, WorldRecord
    from worldledger_service.store.event_log import EventLog


class _AsItStandsError(SimulationError):
    """The agent is registered so already: nothing is to be written."""


class Registrations:
    """Registers the agents of one world."""

    def __init__(self, store: Store, event_log: EventLog, follower: Follower, config: OrchestratorConfig) -> None:
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
            await self._follower.catch_up()  # somebody else may have registered it otherwise a moment ago
            if stands(self._follower.views.fold.state):
                return False
        try:
            (receipt,) = await self._log.append_judged([draft], {0: judge}, system=True)
        except _AsItStandsError:
            await self._follower.catch_up()
            return False
        await self._follower.reached(receipt.global_seq)
        return True
