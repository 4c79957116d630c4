"""Social-RL worlds: one world is one run of an experiment. Source: docs/reference/social-rl.md.

- ``models.py``: the documents (`worldledger_social_rl.documents`) as typed models, each field once; what strict
  checks find wrong with each
- ``fields.py``: what fields may hold; faults, and what becomes of them
- ``words.py``: the kinds of effects, and how the documents stand in payloads
- ``recording.py``, ``rounds.py``: a run's folder as effects, and back
- ``handlers.py``: what becomes of the state (evolve)
- ``checks.py``: what is refused before it becomes an effect (decide), and the schemas of payloads
- ``config.py``: how a world is configured, and begins, and what agents are shown
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from worldledger.effects import EffectDraft
from worldledger.moments import Unit
from worldledger.observation import ObservationPolicy
from worldledger.rulesets.base import Ruleset
from worldledger.world import WorldState
from worldledger_social_rl.rules import config as _config
from worldledger_social_rl.rules import handlers
from worldledger_social_rl.rules.checks import CHECKS, PAYLOADS, check_intent
from worldledger_social_rl.rules.config import SocialRLPolicy, policy_of
from worldledger_social_rl.rules.words import ROUND_ENDED, ROUND_STARTED

__all__ = ["RULESET", "SocialRL", "SocialRLPolicy"]


class SocialRL(Ruleset):
    """Worlds of the ruleset ``social_rl``; `worldledger_social_rl.rules.config` says what their configuration is."""

    name = "social_rl"
    version = 1
    handlers = handlers.HANDLERS
    checks = CHECKS
    stateful = frozenset(CHECKS)
    payloads = PAYLOADS
    digest_after = frozenset({ROUND_ENDED})
    records_rejections = True
    judges_by_hidden = True
    units = MappingProxyType({"round": Unit((ROUND_STARTED,), "round_number", restarts=True)})

    def check_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration in its normal form. Raises InvalidConfigError with every problem."""
        return _config.check_config(config)

    def begin(self, state: WorldState, config: Mapping[str, Any]) -> None:
        """Note what the configuration says, and let its agents be there."""
        handlers.begin(state, config)

    def opening(
        self, config: Mapping[str, Any], *, world_uuid: str, checkpoint: Mapping[str, Any] | None = None
    ) -> Sequence[EffectDraft]:
        """Return ExperimentStarted, where there is meta, and the registrations of the agents."""
        super().opening(config, world_uuid=world_uuid, checkpoint=checkpoint)
        return _config.opening_effects(config)

    def policy_for(self, agent_id: str, config: Mapping[str, Any]) -> ObservationPolicy | None:
        """Return the policy ``social_rl``, that of a coach to coaches."""
        return policy_of(agent_id, config.get("coaches"))

    def check_intent(self, kind: str, payload: Mapping[str, Any], agent_id: str, state: WorldState) -> None:
        """Agents say something; coaches give feedback and adapt policies; the rest is for who runs the experiment."""
        check_intent(kind, payload, agent_id, state)


RULESET = SocialRL()
