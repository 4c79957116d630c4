"""Running on: what came from outside in a parent, to be decided again in its fork. Pure.

An effect of the parent after the fork point was either asked for from outside (an agent's intent, an engine's effect),
or written by the service by itself. `FATES` says what becomes of the system kinds. The rest is a draft again: with the
time of the recorded effect, and with what names a place in the parent's log naming the fork's place for it. For what
lies before the fork point that is the genesis; a cause there is named by `worldledger.causes.INHERITED_CAUSE`, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from worldledger.causes import INHERITED_CAUSE, Place, inherited_cause, told_cause
from worldledger.core_kinds import AGENT_REGISTERED_KIND, INTENT_REJECTED_KIND, STALENESS_KIND
from worldledger.drafts import REQUEST_DIGEST
from worldledger.effects import SCHEMA_VERSION, Effect, EffectDraft, is_system_kind
from worldledger.errors import PermissionDeniedError, UnknownAgentError
from worldledger.genesis import GENESIS_SEQ
from worldledger.intents import check_intent, intent_draft
from worldledger.log_rules import RERUN_PREFIX
from worldledger.rulesets import Ruleset
from worldledger.time_authority import TIME_AUTHORITY_KIND, TIME_SET_KIND, WALL
from worldledger.validation import missing_permission
from worldledger.world import WorldState

#: What becomes of an effect: issued again, made anew by the service (or not), or left out.
Fate = Literal["again", "anew", "left out"]
#: The fates of system kinds; those that are not named are left out.
FATES: Final[Mapping[str, Fate]] = MappingProxyType(
    {
        AGENT_REGISTERED_KIND: "again",
        STALENESS_KIND: "again",
        TIME_AUTHORITY_KIND: "again",
        TIME_SET_KIND: "again",
        INTENT_REJECTED_KIND: "again",
        "StateDigest": "anew",
        "ViewDigest": "anew",
    }
)
#: The member of ``source_metadata`` with the parent's global_seq.
RERUN_OF: Final = "rerun_of"
#: What intents are called that bring their effect's kind themselves.
_CUSTOM: Final = "Custom"
_INTENDED: Final = frozenset({"Speak", "Move", "Interact"})


class Again(NamedTuple):
    """An effect of the parent as a draft for the fork; ``agent_id`` is set if it was an agent's intent."""

    seq: int
    draft: EffectDraft
    agent_id: str | None = None


def fate_of(kind: str) -> Fate:
    """Return what becomes of effects of a kind."""
    return FATES.get(kind, "left out") if is_system_kind(kind) else "again"


def again(
    effect: Effect,
    places: Mapping[int, int],
    fork_point: int,
    *,
    adapted: Callable[[dict[str, Any]], dict[str, Any]] = lambda spec: spec,
) -> Again | None:
    """Return a recorded effect as a draft for the fork, None if it is not issued again.

    ``places`` has the fork's seq of each of the parent's that was accepted there, after the ``fork_point``. A cause
    that was refused or left out there is none of the draft's. ``adapted`` makes an agent's stored policy that of the
    fork.
    """
    if fate_of(effect["kind"]) != "again":
        return None
    seq, payload = effect["global_seq"], effect["payload"]
    metadata = {name: value for name, value in effect.get("source_metadata", {}).items() if name != REQUEST_DIGEST}
    draft: EffectDraft = {
        "kind": effect["kind"],
        "payload": payload,
        "source_id": effect["source_id"],
        "schema_version": effect["schema_version"],
        "priority": effect["priority"],
    }
    agent_id = effect["source_id"] if "context_seq" in metadata else None
    if effect["kind"] == INTENT_REJECTED_KIND:
        agent_id = payload["agent_id"]
        asked = {name: payload[name] for name in ("agent_id", "kind", "payload", "context_seq")}
        more = {"req_id": f"{RERUN_PREFIX}{seq}", "priority": 0, "schema_version": SCHEMA_VERSION}
        draft = intent_draft(check_intent({**asked, **more}))
        metadata = dict(draft["source_metadata"])
    elif effect["kind"] == AGENT_REGISTERED_KIND:
        draft["payload"] = {**payload, "policy": adapted(payload["policy"])}
    elif effect["kind"] == TIME_AUTHORITY_KIND:
        more = {} if payload["authority"] == WALL else {"zero": payload.get("offset", 0.0)}
        draft["payload"] = {"authority": payload["authority"], **more}
    if metadata.get("context_seq") is not None:
        metadata["context_seq"] = places.get(metadata["context_seq"], GENESIS_SEQ)
    draft["source_metadata"] = {**metadata, RERUN_OF: seq}
    draft["req_id"] = f"{RERUN_PREFIX}{seq}"
    draft["sim_time"] = effect["sim_time"]
    cause = told_cause(effect, seq)
    before = _cause_before(effect, cause, fork_point)
    if before is not None:
        draft["caused_by"] = GENESIS_SEQ
        draft["source_metadata"][INHERITED_CAUSE] = before._asdict()
    elif cause is not None and cause in places:
        draft["caused_by"] = places[cause]
    return Again(seq, draft, agent_id)


def _cause_before(effect: Effect, cause: int | None, fork_point: int) -> Place | None:
    """Return the cause of a parent's effect that lies before the fork point, or before the parent's own."""
    if cause is None or cause > fork_point:
        return None
    inherited = inherited_cause(effect) if cause == GENESIS_SEQ else None
    return Place(effect["world_id"], cause) if inherited is None else inherited


def judge_intent_again(agent_id: str, draft: EffectDraft, ruleset: Ruleset, state: WorldState, world_id: str) -> None:
    """Raise what refuses an agent's intent by the state that its effect would follow: permissions and rules.

    Staleness, quotas and latency are not asked: what is issued again was decided on elsewhere.
    """
    agent = state.metadata["agents"].get(agent_id)
    if agent is None:
        raise UnknownAgentError(agent_id, world_id)
    kind = draft["kind"] if draft["kind"] in _INTENDED else _CUSTOM
    lacking = missing_permission(kind, agent, draft["kind"])
    if lacking is not None:
        raise PermissionDeniedError(agent_id, lacking)
    if kind == _CUSTOM:
        ruleset.check_intent(draft["kind"], draft["payload"], agent_id, state)
