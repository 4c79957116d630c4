"""The system kinds that the core folds itself, whatever the ruleset, and how they change the state.

- ``AgentRegistered {agent_id, policy, permissions, weight, staleness_threshold?, interrupt_policy?}``: the agent stands
  in ``metadata["agents"]``
- ``WorldTimeAuthoritySet {authority, offset}``: ``metadata["time_authority"]`` says who sets sim_time from here on,
  ``metadata["time_offset"]`` what is added to its own time; effects from before offsets existed have no ``offset``
- ``WorldTimeAuthoritySilent {authority, last_tick_seq, reason}``: ``metadata["time_authority_silent"]`` says so, until
  the next ``WorldTimeSet`` or ``WorldTimeAuthoritySet``
- ``GenerationLeased {agent_id, holder, number, seconds}``: ``metadata["leases"]`` has the agent's ``{holder, number,
  until}``, ``until`` being the effect's wall_time and the seconds; 0 seconds give the lease back
- ``WorldStalenessSet {staleness_threshold?, interrupt_policy?, max_staleness_threshold?}``: these settings of the world
  stand in ``metadata["staleness"]`` from here on

The other system kinds named here record what happened around the world and do not change it. (The genesis and state
digests have their own modules, `worldledger.genesis` and `worldledger.folding`.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeGuard

from worldledger.canonical import MAX_INT
from worldledger.drafts import MAX_WORD
from worldledger.effects import Effect
from worldledger.errors import InvalidEffectError
from worldledger.rulesets.base import Handler, MalformedEffectError, Touched
from worldledger.staleness import check_interrupt_policy, check_threshold
from worldledger.time_authority import TIME_AUTHORITY_KIND, TIME_SET_KIND, TIME_SILENT_KIND, Silence, TimeAuthority
from worldledger.world import WorldState

AGENT_REGISTERED_KIND: Final = "AgentRegistered"
STALENESS_KIND: Final = "WorldStalenessSet"
#: The digest of what an agent was shown: ``{agent_id, at_seq, digest}``.
VIEW_DIGEST_KIND: Final = "ViewDigest"
#: An intent that the world's validator or ruleset refused.
INTENT_REJECTED_KIND: Final = "IntentRejected"
GENERATION_STARTED_KIND: Final = "GenerationStarted"
#: ``{agent_id, req_id, reason, latency_ms}``
GENERATION_CANCELLED_KIND: Final = "GenerationCancelled"
GENERATION_FINISHED_KIND: Final = "GenerationFinished"
#: What a generation of a model used and what came of it: ``{agent_id, req_id, outcome, …}``.
GENERATION_REPORTED_KIND: Final = "GenerationReported"
#: A prompt or an output, by itself so that it can be erased: ``{agent_id, req_id, part, text, salt?}``.
GENERATION_TEXT_KIND: Final = "GenerationText"
#: Who may run an agent, and for how long.
GENERATION_LEASED_KIND: Final = "GenerationLeased"

#: What became of a generation of a model:
#:
#: - ``acted``: at least one of its intents was accepted
#: - ``silent``: it ended, and there was nothing to do
#: - ``refused``: the model refused to answer, or all of its intents were refused
#: - ``interrupted``: it was cancelled on the way
#: - ``stale``: it ended, but its intent came too late
#: - ``failed``: the model, or the way to it, failed
#: - ``limited``: a budget was used up, and the model was not asked
#: - ``lost``: its program ended before it could say
Outcome: TypeAlias = Literal["acted", "silent", "refused", "interrupted", "stale", "failed", "limited", "lost"]

_NOTHING: Final = ()
_SILENT: Final = "time_authority_silent"
#: The staleness settings that an agent and a world may have, and their checks.
_OF_AGENTS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "staleness_threshold": check_threshold,
    "interrupt_policy": check_interrupt_policy,
}
_OF_WORLDS: Final[Mapping[str, Callable[[Any], Any]]] = {**_OF_AGENTS, "max_staleness_threshold": check_threshold}


def register(state: WorldState, effect: Effect) -> Touched:
    """AgentRegistered: set the agent's policy, permissions and weight; the newest registration counts.

    ``registered_seq`` is the global_seq of the agent's first registration.
    """
    payload = effect["payload"]
    agent_id = payload.get("agent_id")
    if not _is_word(agent_id):
        raise MalformedEffectError("agent_id is a string of 1 to 200 characters")
    policy, permissions, weight = payload.get("policy"), payload.get("permissions"), payload.get("weight")
    if not _is_spec(policy):
        raise MalformedEffectError("policy is an object of name, version and config")
    if not isinstance(permissions, list) or not all(map(_is_word, permissions)):
        raise MalformedEffectError("permissions is a list of names")
    if type(weight) is not int or weight < 1:
        raise MalformedEffectError("weight is a whole number from 1 on")
    own = _staleness(payload, _OF_AGENTS)
    agents = state.metadata["agents"]
    before = agents.get(agent_id)
    agents[agent_id] = {
        "policy": {name: policy[name] for name in ("name", "version", "config")},
        "permissions": sorted(set(permissions)),
        "weight": weight,
        "registered_seq": effect["global_seq"] if before is None else before["registered_seq"],
        **own,
    }
    return _NOTHING


def set_authority(state: WorldState, effect: Effect) -> Touched:
    """WorldTimeAuthoritySet: set the authority over sim_time from here on."""
    payload = effect["payload"]
    try:
        authority = TimeAuthority.of_setting(payload, effect["global_seq"])
    except ValueError as error:
        raise MalformedEffectError(str(error)) from None
    state.metadata["time_authority"] = authority.name
    if "offset" in payload:
        state.metadata["time_offset"] = authority.offset
    else:
        state.metadata.pop("time_offset", None)
    state.metadata.pop(_SILENT, None)
    return _NOTHING


def note_silence(state: WorldState, effect: Effect) -> Touched:
    """WorldTimeAuthoritySilent: note that the adapter with the authority has fallen silent."""
    try:
        silence = Silence.of(effect["payload"], effect["global_seq"])
    except ValueError as error:
        raise MalformedEffectError(str(error)) from None
    state.metadata[_SILENT] = silence._asdict()
    return _NOTHING


def end_silence(state: WorldState, effect: Effect) -> Touched:
    """WorldTimeSet: note that the adapter ticks again."""
    state.metadata.pop(_SILENT, None)
    return _NOTHING


def set_staleness(state: WorldState, effect: Effect) -> Touched:
    """WorldStalenessSet: set the settings that it names from here on."""
    state.metadata["staleness"] = {
        **state.metadata.get("staleness", {}),
        **_staleness(effect["payload"], _OF_WORLDS),
    }
    return _NOTHING


def note_lease(state: WorldState, effect: Effect) -> Touched:
    """GenerationLeased: note who runs an agent, and until when; with 0 seconds nobody does."""
    payload = effect["payload"]
    agent_id, holder, number, seconds = map(payload.get, ("agent_id", "holder", "number", "seconds"))
    if not (_is_word(agent_id) and _is_word(holder)):
        raise MalformedEffectError("agent_id and holder are strings of 1 to 200 characters")
    if type(number) is not int or number < 1:
        raise MalformedEffectError("number is a whole number from 1 on")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0:
        raise MalformedEffectError("seconds is a number from 0 on")
    until = float(effect["wall_time"] + seconds) if seconds else 0.0
    lease = {"holder": holder, "number": number, "until": until}
    state.metadata["leases"] = {**state.metadata.get("leases", {}), agent_id: lease}
    return _NOTHING


#: kind -> its handler; a system kind without one does not change the state.
HANDLERS: Final[Mapping[str, Handler]] = {
    AGENT_REGISTERED_KIND: register,
    TIME_AUTHORITY_KIND: set_authority,
    TIME_SET_KIND: end_silence,
    TIME_SILENT_KIND: note_silence,
    STALENESS_KIND: set_staleness,
    GENERATION_LEASED_KIND: note_lease,
}


def _staleness(payload: Mapping[str, Any], checks: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """Return the staleness settings of a payload."""
    try:
        return {name: check(payload[name]) for name, check in checks.items() if name in payload}
    except InvalidEffectError as error:
        raise MalformedEffectError(error.reason) from None


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_WORD


def _is_spec(value: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a value has the shape of a stored policy; such a policy need not exist."""
    return (
        isinstance(value, dict)
        and _is_word(value.get("name"))
        and type(value.get("version")) is int
        and 1 <= value["version"] <= MAX_INT
        and isinstance(value.get("config"), dict)
    )
