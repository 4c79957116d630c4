"""The errors of intents, agents, their policies and their generations.

Source: docs/reference/contracts.md, "Errors and recovery".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from worldledger.errors.base import RecoveryAction, SimulationError
from worldledger.errors.log import InvalidEffectError
from worldledger.near import meant

# -- intents: their faults, and those of the moment at which they come ---------------------------------------


class InvalidIntentError(InvalidEffectError):
    """An intent whose shape or payload does not fit its kind; details: ``path``, ``index`` in a list."""

    code = "invalid_intent"
    what = "intent"


class IntentRefusedError(SimulationError):
    """An intent that the world's validator refuses; details: ``req_id``, ``agent_id``, ``kind``."""

    code = "intent_refused"
    recovery = RecoveryAction.MODIFY_INTENT

    def __init__(
        self, intent: Mapping[str, Any], reason: str = "the world's validator refuses it", **more: Any
    ) -> None:
        named = {name: intent.get(name) for name in ("req_id", "agent_id", "kind")}
        super().__init__(f"{named['kind']} {named['req_id']!r} of {named['agent_id']!r}: {reason}", **named, **more)
        self.intent = intent


class ValidatorError(SimulationError):
    """The world's validator failed on an intent; nothing was written. Details: ``req_id``, ``agent_id``."""

    code = "validator_failed"


class StaleContextError(SimulationError):
    """Too much was shown to an agent since the view on which its intent is based.

    ``expected_seq`` is the oldest context that would pass now. Details name the ``setting`` that decided ("intent",
    "generation", "agent" or "world"), its ``staleness_threshold``, and the ``interrupt_policy``.
    """

    code = "stale_context"
    recovery = RecoveryAction.REGENERATE

    def __init__(
        self,
        req_id: str,
        expected_seq: int,
        actual_seq: int,
        *,
        setting: str | None = None,
        staleness_threshold: int | None = None,
        interrupt_policy: str | None = None,
    ) -> None:
        what = f"request {req_id!r} was made at seq {actual_seq}; at least {expected_seq} is needed"
        if setting is not None:
            what += (
                f" (the {setting}'s staleness_threshold is {staleness_threshold}, interrupt_policy {interrupt_policy})"
            )
        super().__init__(
            what,
            req_id=req_id,
            expected_seq=expected_seq,
            actual_seq=actual_seq,
            setting=setting,
            staleness_threshold=staleness_threshold,
            interrupt_policy=interrupt_policy,
        )
        self.req_id = req_id
        self.expected_seq = expected_seq
        self.actual_seq = actual_seq


class IntentConflictError(SimulationError):
    """An intent assumes what has changed in the world; details: ``req_id``, ``agent_id``, ``conflicting_effects``.

    ``conflicting_effects`` are the effects since the intent's context_seq that changed it, as far as the agent observed
    them: the attribute has the events as they were shown, the details name each by ``global_seq``, ``kind`` and
    ``source_id``.
    """

    code = "intent_conflict"
    recovery = RecoveryAction.MODIFY_INTENT

    def __init__(
        self,
        intent: Mapping[str, Any],
        conflicting_effects: Sequence[Mapping[str, Any]],
        reason: str = "it assumes what is not so in the world",
        **details: Any,
    ) -> None:
        named = {name: intent.get(name) for name in ("req_id", "agent_id", "kind")}
        effects = [{name: it.get(name) for name in ("global_seq", "kind", "source_id")} for it in conflicting_effects]
        message = f"{named['kind']} {named['req_id']!r} of {named['agent_id']!r}: {reason}"
        super().__init__(message, **named, conflicting_effects=effects, **details)
        self.intent = intent
        self.conflicting_effects = list(conflicting_effects)
        self.reason = reason


class PermissionDeniedError(SimulationError):
    """An agent lacks a permission that its intent needs; details: ``agent_id``, ``permission``."""

    code = "permission_denied"

    def __init__(self, agent_id: str, permission: str) -> None:
        what = f"agent {agent_id!r} lacks the permission {permission!r}"
        super().__init__(what, agent_id=agent_id, permission=permission)
        self.agent_id = agent_id
        self.permission = permission


class DeadlineExceededError(SimulationError):
    """An intent waited past its deadline, and nothing was written; details: ``req_id``, ``deadline_ms``."""

    code = "deadline_exceeded"
    recovery = RecoveryAction.REGENERATE

    def __init__(self, req_id: str, deadline_ms: float) -> None:
        what = f"request {req_id!r} waited longer than {deadline_ms:g} ms; nothing was written"
        super().__init__(what, req_id=req_id, deadline_ms=deadline_ms)
        self.req_id = req_id
        self.deadline_ms = deadline_ms


# -- intents: too many of them -----------------------------------------------------------------------------


class QuotaExceededError(SimulationError):
    """An agent has used up a quota; details: ``agent_id``, ``quota_type``, ``limit``, ``retry_after_s``.

    ``retry_after_s``: seconds until the quota has refilled far enough; absent if waiting does not help.
    """

    code = "quota_exceeded"
    recovery = RecoveryAction.DEFER

    def __init__(self, agent_id: str, quota_type: str, limit: float, retry_after_s: float | None = None) -> None:
        super().__init__(
            f"agent {agent_id!r} has used up its quota of {quota_type} ({limit:g})"
            + ("" if retry_after_s is None else f"; try again in {retry_after_s:.3g} s"),
            agent_id=agent_id,
            quota_type=quota_type,
            limit=limit,
            retry_after_s=retry_after_s,
        )
        self.agent_id = agent_id
        self.quota_type = quota_type
        self.limit = limit
        self.retry_after_s = retry_after_s


class BackpressureError(SimulationError):
    """Too many intents wait, and this one was dropped; details: ``agent_id``, ``policy``.

    Under ``shed_oldest`` (then with that recovery) newer ones took its place, so it may no longer be needed.
    """

    code = "backpressure"
    recovery = RecoveryAction.RETRY_WITH_DELAY

    def __init__(self, agent_id: str, policy: str) -> None:
        what = f"too many intents are waiting; this one of {agent_id!r} was dropped (policy {policy})"
        super().__init__(what, agent_id=agent_id, policy=policy)
        self.agent_id = agent_id
        self.policy = policy
        if policy == RecoveryAction.SHED_OLDEST.value:
            self.recovery = RecoveryAction.SHED_OLDEST


class CircuitBreakerOpenError(SimulationError):
    """Calls have failed or are not answered, so none is tried for a while; details: ``retry_after_s``."""

    code = "circuit_open"
    recovery = RecoveryAction.RETRY_WITH_DELAY

    def __init__(self, retry_after_s: float | None = None) -> None:
        when = "" if retry_after_s is None else f"; try again in {retry_after_s:.3g} s"
        super().__init__(
            f"earlier calls have failed or are not answered, so none is tried for a while{when}",
            retry_after_s=retry_after_s,
        )
        self.retry_after_s = retry_after_s


# -- agents, their policies and generations ----------------------------------------------------------------


class UnknownAgentError(SimulationError):
    """No agent of that name is registered in the world, or none was at a moment; details: ``agent_id``, ``world_id``.

    For a moment, ``global_seq`` is its seq, and ``registered_seq`` is set if the agent was registered later. ``near``
    has similar names of agents.
    """

    code = "unknown_agent"

    def __init__(
        self,
        agent_id: str,
        world_id: str,
        *,
        at_seq: int | None = None,
        registered_seq: int = 0,
        near: Sequence[str] = (),
    ) -> None:
        where = f"world {world_id}" if world_id else "the world"
        text = f"{where} has no agent {agent_id!r}{meant(near)}"
        more: dict[str, Any] = {"near": [*near]} if near else {}
        if at_seq is not None and registered_seq:
            text = f"at seq {at_seq} {where} had no agent {agent_id!r}: it was registered with seq {registered_seq}"
            more = {"global_seq": at_seq, "registered_seq": registered_seq}
        super().__init__(text, agent_id=agent_id, world_id=world_id, **more)
        self.agent_id = agent_id
        self.world_id = world_id


class TooManyAgentsError(SimulationError):
    """The world has as many agents as its setting ``max_agents`` allows; details: ``world_id``, ``limit``."""

    code = "too_many_agents"

    def __init__(self, world_id: str, limit: int) -> None:
        super().__init__(
            f"world {world_id} has {limit} agents already, and no room for more", world_id=world_id, limit=limit
        )
        self.world_id = world_id
        self.limit = limit


class UnregisteredPolicyError(SimulationError):
    """A policy or latency model is not registered; the message says how to. Details: ``name``, ``known``."""

    code = "unregistered_policy"
    recovery = RecoveryAction.MODIFY_INTENT


class InvalidPolicyError(SimulationError):
    """A policy whose shape or configuration is refused; details: ``path`` (JSON path)."""

    code = "invalid_policy"
    recovery = RecoveryAction.MODIFY_INTENT

    def __init__(self, reason: str, path: str = "$", **details: Any) -> None:
        super().__init__(f"{path}: {reason}", path=path, **details)
        self.reason = reason
        self.path = path


class PolicyFailedError(SimulationError):
    """An agent's policy raised an error, so the agent's view is not known; details: ``agent_id``.

    Register the agent again with a policy that works.
    """

    code = "policy_failed"

    def __init__(self, agent_id: str, error: Exception | str) -> None:
        # No more than the class: the text of an exception may hold what is hidden from the agent.
        why = error if isinstance(error, str) else type(error).__name__
        super().__init__(f"the policy of agent {agent_id!r} failed ({why})", agent_id=agent_id)
        self.agent_id = agent_id


class UnknownGenerationError(SimulationError):
    """The agent has no generation of that req_id under way; details: ``agent_id``, ``req_id``."""

    code = "unknown_generation"

    def __init__(self, agent_id: str, req_id: str) -> None:
        super().__init__(f"agent {agent_id!r} has no generation {req_id!r}", agent_id=agent_id, req_id=req_id)
        self.agent_id = agent_id
        self.req_id = req_id


class QueueClosedError(SimulationError):
    """A handle, a subscription or a queue was closed: nothing can be taken from it or put into it."""

    code = "closed"

    def __init__(self) -> None:
        super().__init__("the queue is closed")
