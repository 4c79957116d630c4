"""The runtime: worlds as their agents live in them, in this process.

``from worldledger_service.runtime import Orchestrator`` is the door for programs that run in process; the one over the
wire is ``from worldledger.client import Client``.
"""

from worldledger.aio import CancelToken, CircuitBreaker, QueueClosedError, TimedQueue
from worldledger.config import MemoryConfig, OrchestratorConfig
from worldledger.errors import ErrorRecoveryPolicy
from worldledger.intents import Accepted
from worldledger.observation import LatencyModel, ObservationPolicy, PolicyConfig, ViewCone
from worldledger.validation import DefaultEffectValidator, EffectValidator
from worldledger_service.runtime.attachments import Subscription
from worldledger_service.runtime.orchestrator import AgentHandle, MemoryManager, MemoryStats, Orchestrator

__all__ = [
    "Accepted",
    "AgentHandle",
    "CancelToken",
    "CircuitBreaker",
    "DefaultEffectValidator",
    "EffectValidator",
    "ErrorRecoveryPolicy",
    "LatencyModel",
    "MemoryConfig",
    "MemoryManager",
    "MemoryStats",
    "ObservationPolicy",
    "Orchestrator",
    "OrchestratorConfig",
    "PolicyConfig",
    "QueueClosedError",
    "Subscription",
    "TimedQueue",
    "ViewCone",
]
