"""The one error tree: everything this project refuses or cannot do, with what to do about it.

Source: seeds/simulation_core.md, "Error Types and Recovery". Every error carries

- ``code``: a stable machine name, also the last part of the problem type over HTTP (RFC 9457);
- ``recovery``: the seed's RecoveryAction that fits it;
- ``details``: the facts that matter (``world_id``, ``index``, ``path``, ``expected_seq`` …), JSON-able.

Foreign errors (asyncpg, OSError, python-chess) are mapped to these once, at the boundary where they arise.
"""

from worldledger.errors.base import RecoveryAction, SimulationError
from worldledger.errors.intents import (
    BackpressureError,
    CircuitBreakerOpenError,
    DeadlineExceededError,
    IntentConflictError,
    IntentRefusedError,
    InvalidIntentError,
    InvalidPolicyError,
    PermissionDeniedError,
    PolicyFailedError,
    QueueClosedError,
    QuotaExceededError,
    StaleContextError,
    TooManyAgentsError,
    UnknownAgentError,
    UnknownGenerationError,
    UnregisteredPolicyError,
    ValidatorError,
)
from worldledger.errors.log import (
    EffectNotFoundError,
    EffectTooLargeError,
    EmbeddedServerError,
    ExtraMissingError,
    FileRefusedError,
    FoldError,
    IllegalEffectError,
    InvalidConfigError,
    InvalidEffectError,
    InvalidNameError,
    MomentNotFoundError,
    OverloadedError,
    RateLimitedError,
    RequestConflictError,
    ReservedKindError,
    SchemaVersionError,
    SimTimeOrderError,
    StoreUnavailableError,
    TamperedError,
    TimeAuthorityError,
    UnknownRulesetError,
    WorldExistsError,
    WorldNotFoundError,
)
from worldledger.errors.queries import QueryRefusedError, QueryTimeoutError, UnknownQueryError
from worldledger.errors.simulations import (
    CircularSchemaError,
    InvalidDefinitionError,
    InvalidSimulationConfigError,
    Problem,
    dotted,
)
from worldledger.errors.social_rl import InvalidRunError

__all__ = [
    "BackpressureError",
    "CircuitBreakerOpenError",
    "CircularSchemaError",
    "DeadlineExceededError",
    "EffectNotFoundError",
    "EffectTooLargeError",
    "EmbeddedServerError",
    "ExtraMissingError",
    "FileRefusedError",
    "FoldError",
    "IllegalEffectError",
    "IntentConflictError",
    "IntentRefusedError",
    "InvalidConfigError",
    "InvalidDefinitionError",
    "InvalidEffectError",
    "InvalidIntentError",
    "InvalidNameError",
    "InvalidPolicyError",
    "InvalidRunError",
    "InvalidSimulationConfigError",
    "MomentNotFoundError",
    "OverloadedError",
    "PermissionDeniedError",
    "PolicyFailedError",
    "Problem",
    "QueryRefusedError",
    "QueryTimeoutError",
    "QueueClosedError",
    "QuotaExceededError",
    "RateLimitedError",
    "RecoveryAction",
    "RequestConflictError",
    "ReservedKindError",
    "SchemaVersionError",
    "SimTimeOrderError",
    "SimulationError",
    "StaleContextError",
    "StoreUnavailableError",
    "TamperedError",
    "TimeAuthorityError",
    "TooManyAgentsError",
    "UnknownAgentError",
    "UnknownGenerationError",
    "UnknownQueryError",
    "UnknownRulesetError",
    "UnregisteredPolicyError",
    "ValidatorError",
    "WorldExistsError",
    "WorldNotFoundError",
    "dotted",
]
