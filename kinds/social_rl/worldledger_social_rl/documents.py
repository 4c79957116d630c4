"""The documents of social-RL experiments: rounds, policies, meta data, and reading and writing them as files.

Source: docs/reference/social-rl.md, "Documents".
"""

from worldledger_social_rl.rules.errors import InvalidRunError
from worldledger_social_rl.rules.fields import SCHEMA_VERSION
from worldledger_social_rl.rules.files import create_experiment_meta, load_round_result, save_round_result
from worldledger_social_rl.rules.models import (
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
    "InvalidRunError",
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
