"""What becomes of a social-RL world's state by each kind of effect.

State holds the present: each agent's latest feedback and its cues, the running round, the latest policy of each role.
Messages and past rounds stand in the log and in projections. Runs as they were found in the wild fold too: what cannot
be read of a payload is passed over, unless it is whom or which round the effect is about. An entity's members are
replaced, never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from worldledger.drafts import MAX_WORD
from worldledger.effects import Effect
from worldledger.rulesets.base import Handler, Touched
from worldledger.rulesets.reading import UnreadableError
from worldledger.world import WorldState
from worldledger_social_rl.rules import words
from worldledger_social_rl.rules.fields import ADAPTATION_TYPES, role_and_name
from worldledger_social_rl.rules.models import FEEDBACK
from worldledger_social_rl.rules.words import ENTITY_TYPE, EXTRA, PLACE, RAW, known, object_of

_METRICS: Final = tuple(name for name in FEEDBACK if name != "agent_id")
_POLICY_HEAD: Final = ("framework_option", "framework_name", "timestamp", "source_run_id", "social_rl_version")


def begin(state: WorldState, config: Mapping[str, Any]) -> None:
    """Note what the configuration says; the agents that it names are there from the beginning."""
    strict = config.get("strict")
    coaches = config.get("coaches")
    state.metadata[PLACE] = {
        "coaches": _names(coaches) if isinstance(coaches, list) else None,
        "condition": None,
        "meta": None,
        "policy_state": None,
        "round_number": 0,
        "round_open": False,
        "rounds": 0,
        "seed": None,
        "started": False,
        "strict": strict if isinstance(strict, bool) else True,
    }
    for agent_id in _names(config.get("agents")):
        _entity(state, agent_id)


def _names(value: Any) -> list[str]:
    return [name for name in value if _is_word(name)] if isinstance(value, list) else []


def _is_word(value: Any) -> bool:
    return type(value) is str and 0 < len(value) <= MAX_WORD


# -- the experiment and its rounds ---------------------------------------------------------------------------


def start_experiment(state: WorldState, effect: Effect) -> Touched:
    """ExperimentStarted: the meta data are known; condition and seed are told beside the fields of the meta block.

    A condition that is no text stands in the payload's own ``condition``, which worlds of before do not have.
    """
    here, payload = known(state), effect["payload"]
    if here["started"] and payload.get(words.REVISED) is not True:
        raise UnreadableError("the experiment has started before", "$.kind", "already_started")
    extra = object_of(payload.get(EXTRA))
    here["started"] = True
    here["meta"] = object_of(payload.get("meta"))
    told = (payload.get(words.CONDITION), extra.get(words.CONDITION))
    here["condition"] = next((condition for condition in told if type(condition) is str), None)
    here["seed"] = seed if type(seed := extra.get("seed")) is int else None
    return ()


def start_round(state: WorldState, effect: Effect) -> Touched:
    """RoundStarted: that round runs; its own meta block counts where no ExperimentStarted has come."""
    here, payload = known(state), effect["payload"]
    number = words.read_round(payload)
    if here["rounds"] and number <= here["round_number"]:
        raise UnreadableError("rounds follow one another", "$.payload.round_number", "round_order")
    here["round_number"] = number
    here["round_open"] = True
    here["rounds"] += 1
    if not here["started"] and type(payload.get("meta")) is dict:
        here["meta"] = payload["meta"]
    return ()


def end_round(state: WorldState, effect: Effect) -> Touched:
    """RoundEnded: the round is over."""
    here = known(state)
    if words.read_round(effect["payload"]) != here["round_number"] or not here["round_open"]:
        raise UnreadableError("that is not the running round", "$.payload.round_number", "round_order")
    here["round_open"] = False
    return ()


def pass_over(state: WorldState, effect: Effect) -> Touched:
    """RoundSynthesised: the log keeps it, and a projection; the state does not."""
    return ()


def record_artifact(state: WorldState, effect: Effect) -> Touched:
    """ArtifactRecorded: likewise."""
    if not words.is_plain_name(effect["payload"].get(words.NAME)):
        raise UnreadableError("name is the name of a file, without a folder", "$.payload.name")
    return ()


# -- agents --------------------------------------------------------------------------------------------------


def emit(state: WorldState, effect: Effect) -> Touched:
    """MessageEmitted: the agent has spoken; messages for coaches only are counted apart."""
    payload = effect["payload"]
    agent_id = words.read_agent(payload)
    entity = _entity(state, agent_id)
    if words.is_internal(payload):
        entity["internal_messages"] += 1
    else:
        entity["messages"] += 1
        entity["last_round"] = _latest(state)
    return agent_id


def record_feedback(state: WorldState, effect: Effect) -> Touched:
    """FeedbackRecorded: that is the agent's feedback now."""
    payload = effect["payload"]
    agent_id = words.read_agent(payload)
    if RAW in payload:
        raise UnreadableError("a feedback vector is an object", "$.payload.raw")
    entity = _entity(state, agent_id)
    entity["feedback"] = {name: payload[name] for name in _METRICS if name in payload}
    entity["feedback_round"] = entity["last_round"] = _latest(state)
    return agent_id


def adapt(state: WorldState, effect: Effect) -> Touched:
    """PolicyAdapted: one of the agent's cues is used, is not used any more, or is used with another intensity.

    An adaptation that names no cue, or no such type (as found: deltas of metrics), changes no cue.
    """
    payload = effect["payload"]
    agent_id = words.read_agent(payload)
    entity = _entity(state, agent_id)
    here = known(state)
    entity["last_round"] = _latest(state)
    kind, cue = payload.get("adaptation_type"), payload.get("cue")
    if kind in ADAPTATION_TYPES and _is_word(cue):
        before = entity["cues"].get(cue)
        after = adapted(before, kind, payload.get("intensity"), here["round_number"])
        if after is not None:
            entity["cues"] = {**entity["cues"], cue: after}
    return agent_id


def adapted(cue: dict[str, Any] | None, kind: str, intensity: Any, number: int) -> dict[str, Any] | None:
    """Return what becomes of a cue (None: there was none) by an adaptation in a round; None for no change.

    ``since_round`` is the round since which the cue is used, or is not.
    """
    said = _intensity(intensity)
    had = None if cue is None else cue["intensity"]
    if kind == "adjust_intensity":
        if said is None:
            return None
        return _cue(cue, cue is not None and cue["active"], said, number)
    if kind == "activate_cue":
        return _cue(cue, True, said if said is not None else 1.0 if had is None else had, number)
    return _cue(cue, False, had if had is not None else 1.0 if said is None else said, number)


def record_policy(state: WorldState, effect: Effect) -> Touched:
    """PolicyStateRecorded: the agents of each role have these cues and no others; so have those that come later."""
    payload = effect["payload"]
    policies = payload.get("policies")
    if type(policies) is not list:
        raise UnreadableError("policies is a list", "$.payload.policies")
    here = known(state)
    roles = {policy["role"]: policy for policy in policies if type(policy) is dict and _is_word(policy.get("role"))}
    before = here["policy_state"]
    here["policy_state"] = {
        **{name: payload.get(name) for name in _POLICY_HEAD},
        "policies": {**({} if before is None else before["policies"]), **roles},
    }
    touched = []
    for agent_id, entity in state.entities.items():
        if entity["role"] in roles:
            entity["cues"] = cues_of(roles[entity["role"]], entity["cues"], here["round_number"])
            touched.append(agent_id)
    return tuple(touched)


def cues_of(policy: Mapping[str, Any], before: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return the cues that a role's policy says, for an agent that had others before.

    ``cue_states`` says most of a cue; one that stands in ``cues_active`` alone is used, with intensity 1.
    """
    cues = {cue: _cue(before.get(cue), True, 1.0, number) for cue in _names(policy.get("cues_active"))}
    for cue, told in object_of(policy.get("cue_states")).items():
        if type(told) is dict and _is_word(cue):
            intensity = _intensity(told.get("intensity"))
            cues[cue] = _cue(
                before.get(cue), told.get("active") is True, 1.0 if intensity is None else intensity, number
            )
    return cues


def _cue(before: Mapping[str, Any] | None, active: bool, intensity: float, number: int) -> dict[str, Any]:
    since = number if before is None or before["active"] is not active else before["since_round"]
    return {"active": active, "intensity": intensity, "since_round": since}


def _intensity(value: Any) -> float | None:
    return float(value) if type(value) is float or type(value) is int else None


def _latest(state: WorldState) -> int | None:
    """Return the round that was started last, None before the first: a round may have the number 0."""
    here = known(state)
    number: int = here["round_number"]
    return number if here["rounds"] else None


def _entity(state: WorldState, agent_id: str) -> dict[str, Any]:
    """Return an agent's entity, made where there was none."""
    entity: dict[str, Any] | None = state.entities.get(agent_id)
    if entity is None:
        role, name = role_and_name(agent_id)
        here = known(state)
        policy = None if here["policy_state"] is None else here["policy_state"]["policies"].get(role)
        entity = state.entities[agent_id] = {
            "type": ENTITY_TYPE,
            "role": role,
            "name": name,
            "feedback": None,
            "feedback_round": None,
            "cues": {} if policy is None else cues_of(policy, {}, here["round_number"]),
            "messages": 0,
            "internal_messages": 0,
            "last_round": None,
        }
    return entity


HANDLERS: Final[Mapping[str, Handler]] = {
    words.EXPERIMENT_STARTED: start_experiment,
    words.ROUND_STARTED: start_round,
    words.MESSAGE_EMITTED: emit,
    words.FEEDBACK_RECORDED: record_feedback,
    words.POLICY_ADAPTED: adapt,
    words.POLICY_STATE_RECORDED: record_policy,
    words.ROUND_SYNTHESISED: pass_over,
    words.ROUND_ENDED: end_round,
    words.ARTIFACT_RECORDED: record_artifact,
}
