"""The one error tree: everything this project refuses or cannot do, with what to do about it.

Source: docs/reference/contracts.md, "Errors and recovery". Every error carries

- ``code``: a stable machine name, also the last part of the problem type over HTTP (RFC 9457);
- ``recovery``: the RecoveryAction that fits it;
- ``details``: the facts that matter (``world_id``, ``index``, ``path``, ``expected_seq`` …), JSON-able.

Foreign errors (asyncpg, OSError, libraries of kinds) are mapped to these once, at the boundary where they arise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple

from worldledger.near import meant

__all__ = [
    "AgentLeasedError",
    "AuthoritySilentError",
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
    "InvalidKindError",
    "InvalidNameError",
    "InvalidPolicyError",
    "MomentNotFoundError",
    "NotComparableError",
    "OverloadedError",
    "ParentMissingError",
    "PermissionDeniedError",
    "PolicyFailedError",
    "Problem",
    "QueryRefusedError",
    "QueryTimeoutError",
    "QueueClosedError",
    "QuotaExceededError",
    "RateLimitedError",
    "ReadOnlyWorldError",
    "RecoveryAction",
    "RequestConflictError",
    "RerunConflictError",
    "ReservedKindError",
    "SchemaVersionError",
    "SimTimeOrderError",
    "SimulationError",
    "StaleContextError",
    "StartingError",
    "StoreUnavailableError",
    "TamperedError",
    "TimeAuthorityError",
    "TimeAuthorityHeldError",
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


class RecoveryAction(Enum):
    """The action that a caller can take after an error (docs/reference/contracts.md, "Errors and recovery")."""

    RETRY = "retry"
    ABORT = "abort"
    REGENERATE = "regenerate"
    RETRY_WITH_DELAY = "retry_with_delay"
    MODIFY_INTENT = "modify_intent"
    DEFER = "defer"
    SHED_OLDEST = "shed_oldest"


class SimulationError(Exception):
    """Base of every error of this project: a message for people, a code and details for programs."""

    code: ClassVar[str] = "simulation_error"
    recovery: RecoveryAction = RecoveryAction.ABORT

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = {name: value for name, value in details.items() if value is not None}


# -- drafts -------------------------------------------------------------------------------------------------


class InvalidEffectError(SimulationError):
    """A draft that the write gate refuses; details: ``path`` (JSON path), ``index`` when it came in a list."""

    code = "invalid_effect"
    recovery = RecoveryAction.MODIFY_INTENT
    #: The name of the refused thing in the message.
    what: ClassVar[str] = "draft"

    def __init__(self, reason: str, path: str = "$", index: int | None = None, **details: Any) -> None:
        where = path if index is None else f"{self.what} {index}, {path}"
        super().__init__(f"{where}: {reason}", path=path, index=index, **details)
        self.reason = reason
        self.path = path
        self.index = index

    def at(self, index: int) -> InvalidEffectError:
        """Return the same refusal, naming the draft's place in its list."""
        rest = {name: value for name, value in self.details.items() if name not in {"path", "index"}}
        return type(self)(self.reason, self.path, index, **rest)


class EffectTooLargeError(InvalidEffectError):
    """An effect whose canonical text is over the size limit (1 MiB unless settings say otherwise)."""

    code = "effect_too_large"


class ReservedKindError(InvalidEffectError):
    """A client posted one of the system kinds, or the service's own source_id, which only the service writes."""

    code = "reserved_kind"


class IllegalEffectError(InvalidEffectError):
    """A draft that the world's ruleset refuses; details: ``rule``, a name that stays the same, ``path``, ``index``."""

    code = "illegal_effect"

    def __init__(
        self, reason: str, path: str = "$.payload", index: int | None = None, *, rule: str, **details: Any
    ) -> None:
        super().__init__(reason, path, index, rule=rule, **details)


class InvalidNameError(SimulationError):
    """A world name outside the allowed set of characters."""

    code = "invalid_name"
    recovery = RecoveryAction.MODIFY_INTENT


class TimeAuthorityError(SimulationError):
    """A draft that sets sim_time in a world where its source may not."""

    code = "time_authority"
    recovery = RecoveryAction.MODIFY_INTENT


class TimeAuthorityHeldError(TimeAuthorityError):
    """Another adapter has the time authority, and is not silent; details: ``time_authority``."""

    code = "time_authority_held"
    recovery = RecoveryAction.RETRY_WITH_DELAY


class AuthoritySilentError(SimulationError):
    """The adapter that has the time authority is silent, so no tick can be waited for.

    Details: ``time_authority``, ``last_tick_seq``, ``reason``. A tick ends it, or another authority.
    """

    code = "authority_silent"
    recovery = RecoveryAction.RETRY_WITH_DELAY


class SimTimeOrderError(SimulationError):
    """A draft whose sim_time is lower than the world's; details: ``expected_min``, ``sim_time``."""

    code = "sim_time_order"
    recovery = RecoveryAction.MODIFY_INTENT


class RequestConflictError(SimulationError):
    """A req_id that was used before, with another body; details: ``req_id``, ``global_seq`` of the first."""

    code = "request_conflict"
    recovery = RecoveryAction.MODIFY_INTENT


# -- worlds and rulesets -----------------------------------------------------------------------------------


class WorldNotFoundError(SimulationError):
    """No world of that name in this database.

    Details: ``near``, similar names among the 200 before and the 200 after it in the order of names.
    """

    code = "world_not_found"


class EffectNotFoundError(SimulationError):
    """The world has no effect with that global_seq; details: ``head_seq``."""

    code = "effect_not_found"


class MomentNotFoundError(SimulationError):
    """The world has no such moment: before its first effect, or beyond its head; details: ``head_seq``.

    Of an ancestor that is asked through a fork, ``fork_point``: the last seq that they share.
    """

    code = "moment_not_found"


class NotComparableError(SimulationError):
    """Worlds that cannot be compared as asked: of different kinds, too few or too many, by a unit that they lack.

    Details: ``path`` of a path that cannot be read, ``by`` of an unknown unit, ``rulesets`` of the worlds.
    """

    code = "not_comparable"
    recovery = RecoveryAction.MODIFY_INTENT


class WorldExistsError(SimulationError):
    """A world of that name is already there."""

    code = "world_exists"


class ParentMissingError(SimulationError):
    """A fork goes on from an effect of its parent that is not in this database; details: ``parent``, ``global_seq``."""

    code = "parent_missing"


class ReadOnlyWorldError(SimulationError):
    """Only the beginning of a world is here, imported along with a fork of it: nothing is appended; ``head_seq``."""

    code = "read_only_world"


class RerunConflictError(SimulationError):
    """Somebody else wrote to a fork while it was run on."""

    code = "rerun_conflict"
    recovery = RecoveryAction.RETRY


class UnknownRulesetError(SimulationError):
    """A world names a ruleset that is not installed; details: ``known``."""

    code = "unknown_ruleset"
    recovery = RecoveryAction.MODIFY_INTENT


class InvalidKindError(SimulationError):
    """An installed kind of worlds cannot be used; the message says why. Details: ``kind``, ``part``."""

    code = "invalid_kind"


class InvalidConfigError(SimulationError):
    """A world's configuration that its ruleset or the write gate refuses; details: ``path``."""

    code = "invalid_config"
    recovery = RecoveryAction.MODIFY_INTENT


# -- recorded files ----------------------------------------------------------------------------------------


class FileRefusedError(SimulationError):
    """A file with invalid contents; details: ``file``, ``line``, ``game``."""

    code = "file_refused"

    def __init__(self, reason: str, *, file: str, line: int | None = None, **details: Any) -> None:
        place = file if line is None else f"{file}:{line}"
        super().__init__(f"{place}: {reason}", file=file, line=line, **details)
        self.reason = reason


class TamperedError(SimulationError):
    """The chain does not hold; details: ``world_id``, ``global_seq``, ``what``."""

    code = "tampered"


class FoldError(SimulationError):
    """A ruleset failed on an effect, so the world has no state from there on; details: ``world_id``, ``global_seq``."""

    code = "fold_failed"


# -- the database ------------------------------------------------------------------------------------------


class StoreUnavailableError(SimulationError):
    """The database cannot be reached, refuses the login, is read-only or has no room.

    After an append the outcome may be unknown (``outcome``); retrying with the same req_id is safe. ``retry_after_s``:
    seconds after which to do so.
    """

    code = "store_unavailable"
    recovery = RecoveryAction.RETRY_WITH_DELAY


class StartingError(StoreUnavailableError):
    """The service has just been started and is not ready; nothing was carried out."""

    code = "starting"


class SchemaVersionError(SimulationError):
    """The database's schema is older or newer than this program; the message says what to run."""

    code = "schema_version"


class EmbeddedServerError(SimulationError):
    """The embedded PostgreSQL could not be set up, started or reached; the message says why and what to do."""

    code = "embedded_server"


class OverloadedError(SimulationError):
    """More appends, bodies of requests or connections wait than the configured limit allows."""

    code = "overloaded"
    recovery = RecoveryAction.RETRY_WITH_DELAY


class ExtraMissingError(SimulationError):
    """A package is needed that only an extra installs; details: ``package``, ``extra``."""

    code = "extra_missing"

    @classmethod
    def of(cls, package: str, extra: str) -> ExtraMissingError:
        """Make the error of a package that an extra would install."""
        what = f"{package} is not installed here; it comes with: pip install 'worldledger[{extra}]'"
        return cls(what, package=package, extra=extra)

    @classmethod
    @contextmanager
    def where_missing(cls, packages: Mapping[str, str], extra: str) -> Iterator[None]:
        """Wrap imports of an extra's packages, by their modules: one that is missing raises this error."""
        try:
            yield
        except ModuleNotFoundError as error:
            package = packages.get((error.name or "").partition(".")[0])
            if package is None:
                raise
            raise cls.of(package, extra) from error


class RateLimitedError(SimulationError):
    """An address has sent too many requests; details: ``limit``, ``window_s``, ``retry_after_s``.

    At most ``limit`` requests are accepted within ``window_s`` seconds, and the next one after ``retry_after_s``. A
    refused request has no effect.
    """

    code = "rate_limited"
    recovery = RecoveryAction.RETRY_WITH_DELAY


# -- errors of SQL queries: refused ones, and those that take too long ------------------------------------------


class QueryRefusedError(SimulationError):
    """A query that cannot be run; details: ``sqlstate``, ``position``, ``line``, ``column``, ``hint``, ``parameter``.

    ``position`` is the character of the query, from 1 on, at which the error is; ``line`` and ``column`` say the same.
    They are set if the database reports them, and ``parameter`` if the value of a parameter is at fault.
    """

    code: ClassVar[str] = "query_refused"
    recovery = RecoveryAction.MODIFY_INTENT


class QueryTimeoutError(SimulationError):
    """A query that did not end within its time; details: ``timeout_s``."""

    code: ClassVar[str] = "query_timeout"
    recovery = RecoveryAction.MODIFY_INTENT

    def __init__(self, timeout_s: float, message: str = "") -> None:
        what = (
            f"the query was stopped after {timeout_s:g} s: ask for less (one world, one experiment), or allow more time"
        )
        super().__init__(message or what, timeout_s=timeout_s)


class UnknownQueryError(SimulationError):
    """There is no named query of this name; details: ``name``, ``known``."""

    code: ClassVar[str] = "unknown_query"

    def __init__(self, name: str, known: list[str], **details: Any) -> None:
        super().__init__(f"there is no query {name!r}; there are {', '.join(known)}", name=name, known=known, **details)


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
    has similar names of agents, or some agents of the world if the name is that of an entity.
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
        is_entity: bool = False,
    ) -> None:
        where = f"world {world_id}" if world_id else "the world"
        text = f"{where} has no agent {agent_id!r}{'' if is_entity else meant(near)}"
        if is_entity:
            registered = f"such as {', '.join(map(repr, near))}" if near else "of which it has none"
            text += f": that is an entity, and only registered agents see anything, {registered}"
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


class AgentLeasedError(SimulationError):
    """Another program runs the agent; details: ``agent_id``, ``holder``, ``retry_after_s``, when its lease ends."""

    code = "agent_leased"
    recovery = RecoveryAction.RETRY_WITH_DELAY

    def __init__(self, agent_id: str, holder: str, retry_after_s: float) -> None:
        what = (
            f"agent {agent_id!r} is run by {holder!r}, whose lease ends in {retry_after_s:.0f} s unless it is renewed"
        )
        super().__init__(what, agent_id=agent_id, holder=holder, retry_after_s=retry_after_s)
        self.agent_id = agent_id
        self.holder = holder
        self.retry_after_s = retry_after_s


class QueueClosedError(SimulationError):
    """A handle, a subscription or a queue was closed: nothing can be taken from it or put into it."""

    code = "closed"

    def __init__(self) -> None:
        super().__init__("the queue is closed")


# -- errors of definitions: of variables, schemas and observability, each problem with its path -----------

#: A place in a configuration: the keys and indexes on the way there.
Path = tuple[str | int, ...]


#: Most problems of one configuration that are listed.
MOST_TOLD: Final = 100
#: A key that can stand in a dotted path as it is.
_PLAIN: Final = re.compile(r'[^.\[\]"]+\Z')


class _Dotted(str):
    """A path that came written out, by wire."""

    __slots__ = ()


class Problem(NamedTuple):
    """One fault of a configuration.

    ``path`` has the keys on the way; ``file``, ``line`` and ``column`` (from 1 on) are set if it came from a file.
    """

    path: Path
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None


def summed_up(problems: Sequence[Problem]) -> Sequence[Problem]:
    """Return the first problems; if there are very many, the last one says how many more."""
    more = len(problems) - MOST_TOLD
    if more <= 0:
        return problems
    return [*problems[:MOST_TOLD], Problem((), f"and {more} more problem{'' if more == 1 else 's'}", problems[-1].file)]


class InvalidDefinitionError(InvalidConfigError):
    """An invalid definition of variables; details: ``problems``, each with ``path`` and ``message``.

    The text has the first MOST_TOLD of them, and the number of the others.
    """

    code: ClassVar[str] = "invalid_definition"

    def __init__(self, problems: Iterable[Problem | Mapping[str, Any]], message: str | None = None) -> None:
        """Make the error of problems, or of their ``details``, in which paths are written out, as they come by wire."""
        self.problems: Sequence[Problem] = tuple(map(_problem, problems))
        text = "\n".join(map(told, summed_up(self.problems))) if message is None else message
        super().__init__(text, problems=[_details(problem) for problem in self.problems])


class CircularSchemaError(InvalidDefinitionError):
    """A schema that contains itself; the message has the cycle, its fields and a remedy."""

    code: ClassVar[str] = "circular_schema"


def dotted(path: Sequence[str | int]) -> str:
    """Write a path as people read it: ``agents[Trader_1].inventory.food``, ``matrix[3][1]``.

    The member of ``agents`` is an agent and stands in brackets, as indexes do (docs/reference/simulation-config.md,
    "Errors").
    """
    text = ""
    for part in path:
        text = stepped(text, part)
    return text


def stepped(path: str, key: str | int) -> str:
    """Return the dotted path of a member of the value at a dotted path; "" is the whole.

    So that no two places have one path, a key with a dot, bracket or quote in it, or with nothing, is written as JSON:
    ``prices["a.b"]``.
    """
    if isinstance(key, _Dotted):
        return key
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not _PLAIN.match(key):
        return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    if not path:
        return key
    return f"{path}[{key}]" if path == "agents" else f"{path}.{key}"


def worded(path: Sequence[str | int], message: str) -> str:
    """Return the message of a problem; one about a value that exceeds a size names its field at the end."""
    if path and " exceeds maximum " in message and " at field '" not in message:
        return f"{message} at field '{dotted(path)}'"
    return message


def told(problem: Problem) -> str:
    """Write a problem as one line: ``FILE:LINE:COLUMN: PATH: MESSAGE``, without the unknown parts."""
    place = [str(part) for part in (problem.file, problem.line, problem.column) if part is not None]
    head = [":".join(place)] if place else []
    if problem.path:
        head.append(dotted(problem.path))
    return ": ".join([*head, worded(problem.path, problem.message)])


def _problem(value: Problem | Mapping[str, Any]) -> Problem:
    if isinstance(value, Problem):
        return value
    path = value.get("path")
    where = {name: value.get(name) for name in ("file", "line", "column")}
    return Problem((_Dotted(path),) if path else (), str(value.get("message")), **where)


def _details(problem: Problem) -> dict[str, Any]:
    found = {"path": dotted(problem.path), "message": worded(problem.path, problem.message)}
    where = {"file": problem.file, "line": problem.line, "column": problem.column}
    return found | {name: value for name, value in where.items() if value is not None}


# -- what to do about an error: a caller's policy over the recoveries that errors suggest -----------------

#: The possible choices for each error.
STALE_CONTEXT: Final = (RecoveryAction.RETRY, RecoveryAction.ABORT, RecoveryAction.REGENERATE)
INTENT_CONFLICT: Final = (RecoveryAction.RETRY_WITH_DELAY, RecoveryAction.ABORT, RecoveryAction.MODIFY_INTENT)
QUOTA_EXCEEDED: Final = (RecoveryAction.DEFER, RecoveryAction.ABORT, RecoveryAction.SHED_OLDEST)


class ErrorRecoveryPolicy:
    """Chooses the reaction to errors: a configured one for three of them, for the others the one they suggest.

    Subclass it to choose by more than the class of the error. Raises ValueError for a choice that an error does not
    have: a stale intent is not merely deferred.
    """

    def __init__(
        self,
        *,
        stale_context: RecoveryAction = RecoveryAction.REGENERATE,
        intent_conflict: RecoveryAction = RecoveryAction.MODIFY_INTENT,
        quota_exceeded: RecoveryAction = RecoveryAction.DEFER,
    ) -> None:
        self.stale_context = _one_of("stale_context", stale_context, STALE_CONTEXT)
        self.intent_conflict = _one_of("intent_conflict", intent_conflict, INTENT_CONFLICT)
        self.quota_exceeded = _one_of("quota_exceeded", quota_exceeded, QUOTA_EXCEEDED)

    def handle_stale_context(self, error: StaleContextError) -> RecoveryAction:
        """Return RETRY, ABORT or REGENERATE."""
        return self.stale_context

    def handle_intent_conflict(self, error: IntentConflictError) -> RecoveryAction:
        """Return RETRY_WITH_DELAY, ABORT or MODIFY_INTENT."""
        return self.intent_conflict

    def handle_quota_exceeded(self, error: QuotaExceededError) -> RecoveryAction:
        """Return DEFER, ABORT or SHED_OLDEST."""
        return self.quota_exceeded

    def action_for(self, error: SimulationError) -> RecoveryAction:
        """Return the reaction to any error of this project."""
        if isinstance(error, StaleContextError):
            return self.handle_stale_context(error)
        if isinstance(error, IntentConflictError):
            return self.handle_intent_conflict(error)
        if isinstance(error, QuotaExceededError):
            return self.handle_quota_exceeded(error)
        return error.recovery


def _one_of(name: str, action: RecoveryAction, choices: tuple[RecoveryAction, ...]) -> RecoveryAction:
    if action not in choices:
        raise ValueError(f"{name} is one of {', '.join(choice.name for choice in choices)}, not {action}")
    return action


def on_one_line(text: str) -> str:
    """Return a text as it may stand in a message: what cannot be seen, line breaks too, is written as escapes."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
