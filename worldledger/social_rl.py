"""The short door to the seed's schemas: ``from worldledger.social_rl import RoundResult, validate_round_result``.

Source: seeds/social_rl.md. Everything here is in `worldledger.rulesets.social_rl`, with the ruleset itself.
"""

from worldledger.rulesets.social_rl.fields import SCHEMA_VERSION
from worldledger.rulesets.social_rl.files import create_experiment_meta, load_round_result, save_round_result
from worldledger.rulesets.social_rl.models import (
    AgentFeedback,
    ContextFrame,
    CueState,
    ExperimentMeta,
    PolicyAdaptation,
    PolicyState,
    RolePolicy,
    RoundResult,
    SocialRLMessage,
    validate_round_result,
)

__all__ = [
    "SCHEMA_VERSION",
    "AgentFeedback",
    "ContextFrame",
    "CueState",
    "ExperimentMeta",
    "PolicyAdaptation",
    "PolicyState",
    "RolePolicy",
    "RoundResult",
    "SocialRLMessage",
    "create_experiment_meta",
    "load_round_result",
    "save_round_result",
    "validate_round_result",
]
