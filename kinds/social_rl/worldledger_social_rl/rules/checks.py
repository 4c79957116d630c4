"""What a social-RL world refuses before it becomes an effect: all that is wrong with a draft, in one error.

Each problem has its JSON path and the name of its rule. The rules of `faults` are asked in strict worlds alone; these
are asked in all of them, for without them a round could not be written as a file:

- ``already_started``: an experiment starts once
- ``round_open``, ``round_closed``, ``round_order``: rounds follow one another, each is ended before the next, and what
  belongs to a round comes while it runs
- ``agent``: it can be read whom the effect is about
- ``name``: a file's name is one, and no other file's

And in strict worlds besides: ``round_order`` without a gap; ``unknown_agent``: feedback and adaptations are for agents
that have spoken, are registered, or are named in the configuration; ``feedback_given``: once for each agent and round;
``mixed_versions``: one social_rl_version in a run. `check_intent`: ``not_for_agents``, ``not_yours``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from worldledger.canonical import child
from worldledger.drafts import MAX_WORD, CheckedDraft
from worldledger.errors import IllegalEffectError
from worldledger.rulesets import payloads
from worldledger.rulesets.base import Check
from worldledger.rulesets.payloads import ANY, OBJECT, TEXT, Schema, payload, says
from worldledger.world import WorldState
from worldledger_social_rl.rules import words
from worldledger_social_rl.rules.fields import Fault, Field, field_faults
from worldledger_social_rl.rules.models import (
    META,
    ROUND,
    AgentFeedback,
    ExperimentMeta,
    PolicyAdaptation,
    PolicyState,
    RoundResult,
    SocialRLMessage,
    adaptation_faults,
    feedback_faults,
    message_faults,
    meta_faults,
    policy_faults,
)
from worldledger_social_rl.rules.words import NAME, PARTS, PARTS_FIELD, known

#: Looks at a payload by the state that it would follow.
_Look = Callable[[dict[str, Any], WorldState], Iterator[Fault]]

_PAYLOAD: Final = "$.payload"
_NUMBER: Final = f"{_PAYLOAD}.round_number"
_OWNERS: Final[Mapping[str | None, str]] = {
    words.ROUND_STARTED: "a round's file",
    words.EXPERIMENT_STARTED: "the file of the meta data",
    words.POLICY_STATE_RECORDED: "the policy state's file",
}
#: What intents bring along in any payload (`worldledger.intents`).
_BESIDE: Final = frozenset({"kind", "token_count"})
_OBJECT: Final = frozenset({dict})
_STARTED: Final = {
    "meta": Field(_OBJECT, "an object", "The fields of the meta block that are known."),
    "extra": Field(_OBJECT, "an object", "What is told besides: condition, seed, agents …", required=False),
    words.CONDITION: Field(frozenset({str}), "a string", "The condition, where it is no text.", required=False),
}
_BEGUN: Final = {name: ROUND[name] for name in ("round_number", "round_config", "meta")} | {
    PARTS_FIELD: Field(
        frozenset({list}),
        f"a list of {', '.join(PARTS)}",
        "Which of them the round's document had, unless it had all.",
        required=False,
        rule=set(PARTS).issuperset,
    )
}
_SYNTHESISED: Final = {
    "round_number": ROUND["round_number"],
    "synthesis": ROUND["synthesis"]._replace(required=True),
}
_ENDED: Final = {name: ROUND[name] for name in ("round_number", "duration_seconds")}
_ARTIFACT: Final = {
    NAME: Field(frozenset({str}), "the name of a file, without a folder", "The file's name.", rule=words.is_plain_name)
}


# -- each kind -----------------------------------------------------------------------------------------------


def _start_experiment(payload: dict[str, Any], state: WorldState) -> Iterator[Fault]:
    if known(state)["started"]:
        yield Fault("$.kind", "the experiment has started before", "already_started")
    if known(state)["strict"]:
        yield from field_faults(payload, _STARTED, _PAYLOAD, "an experiment's start")
        meta = field_faults(words.object_of(payload.get("meta")), META, f"{_PAYLOAD}.meta", "a meta block")
        yield from (fault for fault in meta if fault.rule != "missing")


def _start_round(payload: dict[str, Any], state: WorldState) -> Iterator[Fault]:
    here = known(state)
    last, number = here["round_number"], payload.get("round_number")
    if here["strict"]:
        yield from field_faults(payload, _BEGUN, _PAYLOAD, "a round's start")
        if type(meta := payload.get("meta")) is dict:
            yield from meta_faults(meta, f"{_PAYLOAD}.meta")
            yield from _version_faults(meta, here["meta"])
    elif not words.is_number_of_round(number):
        yield Fault(_NUMBER, "round_number is a whole number from 0 on", "type")
    elif NAME in payload and not (words.is_plain_name(name := payload[NAME]) and words.is_file_of_round(name, number)):
        what = f"name is that of the round's file, such as {words.file_of_round(number)}"
        yield Fault(f"{_PAYLOAD}.name", what, "name")
    if here["round_open"]:
        yield Fault(_NUMBER, f"round {last} is not ended", "round_open")
    if words.is_number_of_round(number):
        if here["strict"] and number != (wanted := last + 1 if here["rounds"] else 1):
            before = f"after round {last} comes" if here["rounds"] else "the first round is"
            yield Fault(_NUMBER, f"{before} {wanted}, not {number}", "round_order")
        elif here["rounds"] and number <= last:
            yield Fault(_NUMBER, f"round {number} does not come after round {last}", "round_order")


def _version_faults(meta: Mapping[str, Any], before: Mapping[str, Any] | None) -> Iterator[Fault]:
    said, had = meta.get("social_rl_version"), (before or {}).get("social_rl_version")
    if said is not None and had is not None and said != had:
        what = f"the version is {said!r} here, and {had!r} before"
        yield Fault(f"{_PAYLOAD}.meta.social_rl_version", what, "mixed_versions")


def _emit(payload: dict[str, Any], state: WorldState) -> Iterator[Fault]:
    if known(state)["strict"]:
        yield from message_faults(payload, _PAYLOAD, _running(state))
    else:
        yield from _agent_faults(payload)
    yield from _open_faults(state)


def _record_feedback(payload: dict[str, Any], state: WorldState) -> Iterator[Fault]:
    agent = payload.get("agent_id")
    if known(state)["strict"]:
        yield from feedback_faults(payload, _PAYLOAD, _running(state))
        yield from _stranger_faults(agent, state)
        entity = state.entities.get(agent) if type(agent) is str else None
        if entity is not None and entity["feedback_round"] is not None and entity["feedback_round"] == _running(state):
            what = f"{agent!r} has its feedback of round {entity['feedback_round']} already"
            yield Fault(f"{_PAYLOAD}.agent_id", what, "feedback_given")
    else:
        yield from _agent_faults(payload)
        if words.RAW in payload:
            yield Fault(f"{_PAYLOAD}.{words.RAW}", "a feedback vector is an object", "type")
    yield from _open_faults(state)


def _adapt(payload: dict[str, Any], state: WorldState) -> Iterator[Fault]:
    if known(state)["strict"]:
        yield from adaptation_faults(payload, _PAYLOAD, _running(state))
        yield from _stranger_faults(payload.get("agent_id"), state)
    else:
        yield from _agent_faults(payload)
    yield from _open_faults(state)


def _record_policy(payload: dict[str, Any], state: WorldState) -> Iterator[Fault]:
    if NAME in payload:
        yield from _name_faults(payload[NAME], words.POLICY_STATE_RECORDED)
    if known(state)["strict"]:
        yield from policy_faults({name: item for name, item in payload.items() if name != NAME}, _PAYLOAD)
    elif type(payload.get("policies")) is not list:
        yield Fault(f"{_PAYLOAD}.policies", "policies is a list", "type")


def _synthesise(payload: dict[str, Any], state: WorldState) -> Iterator[Fault]:
    yield from _about_round(payload, state, _SYNTHESISED, "a synthesis")


def _end_round(payload: dict[str, Any], state: WorldState) -> Iterator[Fault]:
    yield from _about_round(payload, state, _ENDED, "a round's end")


def _about_round(payload: dict[str, Any], state: WorldState, fields: Mapping[str, Field], what: str) -> Iterator[Fault]:
    if known(state)["strict"]:
        yield from field_faults(payload, fields, _PAYLOAD, what)
    number, running = payload.get("round_number"), known(state)["round_number"]
    if not known(state)["strict"] and not words.is_number_of_round(number):
        yield Fault(_NUMBER, "round_number is a whole number from 0 on", "type")
    if _running(state) is not None and words.is_number_of_round(number) and number != running:
        yield Fault(_NUMBER, f"the running round is {running}, not {number}", "other_round")
    yield from _open_faults(state)


def _record_artifact(payload: dict[str, Any], state: WorldState) -> Iterator[Fault]:
    yield from field_faults({NAME: payload[NAME]} if NAME in payload else {}, _ARTIFACT, _PAYLOAD, "an artifact")
    if words.is_plain_name(payload.get(NAME)):
        yield from _name_faults(payload[NAME], words.ARTIFACT_RECORDED)
    if "content" not in payload:
        yield Fault(f"{_PAYLOAD}.content", "content is missing; it is any JSON value", "missing")
    if known(state)["strict"]:
        for name in payload.keys() - {NAME, "content"}:
            yield Fault(f"{_PAYLOAD}.{name}", f"{name} is no field of an artifact", "unknown_field")


# -- what they have in common --------------------------------------------------------------------------------


def _running(state: WorldState) -> int | None:
    """Return the running round, None where none runs."""
    here = known(state)
    number: int = here["round_number"]
    return number if here["round_open"] else None


def _open_faults(state: WorldState) -> Iterator[Fault]:
    here = known(state)
    if not here["round_open"]:
        what = f"no round runs: round {here['round_number']} is over" if here["rounds"] else "no round has started"
        yield Fault("$.kind", what, "round_closed")


def _agent_faults(payload: Mapping[str, Any]) -> Iterator[Fault]:
    agent = payload.get("agent_id")
    if type(agent) is not str or not 0 < len(agent) <= MAX_WORD:
        yield Fault(f"{_PAYLOAD}.agent_id", f"agent_id is a string of 1 to {MAX_WORD} characters", "agent")


def _name_faults(name: Any, kind: str) -> Iterator[Fault]:
    """See whether this is a file's name, and does not belong to effects of another kind, in whose place it would be."""
    if not words.is_plain_name(name):
        yield Fault(f"{_PAYLOAD}.name", f"name is {_ARTIFACT[NAME].what}", "name")
    elif not words.fits_a_disk(name):
        yield Fault(f"{_PAYLOAD}.name", f"name has {len(name.encode())} bytes; at most {words.MAX_FILE_BYTES}", "name")
    elif (owner := words.kind_of_file(name)) not in (None, kind):
        yield Fault(f"{_PAYLOAD}.name", f"{name} is the name of {_OWNERS[owner]}", "name")


def _stranger_faults(agent: Any, state: WorldState) -> Iterator[Fault]:
    if type(agent) is str and not words.is_known_agent(state, agent):
        what = f"nobody of the name {agent!r} has spoken so far, is registered, or is named in the configuration"
        yield Fault(f"{_PAYLOAD}.agent_id", what, "unknown_agent")


def _check(look: _Look) -> Check:
    def see(draft: CheckedDraft, payload: dict[str, Any], state: WorldState | None) -> None:
        if state is None:
            raise ValueError(f"{draft.kind} is judged by the state")
        own = {name: item for name, item in payload.items() if name not in _BESIDE}
        refuse(list(look(own, state)))

    return see


def refuse(faults: list[Fault]) -> None:
    """Raise IllegalEffectError with all that is wrong, if anything is: path and rule are the first one's."""
    if faults:
        problems = [fault._asdict() for fault in faults]
        told = "; ".join(faults[0].message if len(faults) == 1 else f"{each.path}: {each.message}" for each in faults)
        raise IllegalEffectError(told, faults[0].path, rule=faults[0].rule, problems=problems)


CHECKS: Final[Mapping[str, Check]] = {
    words.EXPERIMENT_STARTED: _check(_start_experiment),
    words.ROUND_STARTED: _check(_start_round),
    words.MESSAGE_EMITTED: _check(_emit),
    words.FEEDBACK_RECORDED: _check(_record_feedback),
    words.POLICY_ADAPTED: _check(_adapt),
    words.POLICY_STATE_RECORDED: _check(_record_policy),
    words.ROUND_SYNTHESISED: _check(_synthesise),
    words.ROUND_ENDED: _check(_end_round),
    words.ARTIFACT_RECORDED: _check(_record_artifact),
}

#: What a coach may intend besides messages; whoever runs the experiment says the rest.
_FOR_COACHES: Final = frozenset(
    {words.FEEDBACK_RECORDED, words.POLICY_ADAPTED, words.POLICY_STATE_RECORDED, words.ROUND_SYNTHESISED}
)


#: What payloads have of the files that they were made of.
_OF_IMPORTS: Final = (NAME, words.RAW, words.ABSENT, PARTS_FIELD)


def check_intent(kind: str, payload: Mapping[str, Any], agent_id: str, state: WorldState) -> None:
    """Check what an agent intends: to say something itself; a coach speaks for others too, and gives feedback."""
    if kind not in CHECKS:
        return
    coach = words.is_coach(agent_id, words.coaches_of(state))
    if kind != words.MESSAGE_EMITTED and not (coach and kind in _FOR_COACHES):
        who = "a coach" if coach else "an agent that is no coach"
        raise IllegalEffectError(f"{kind} is not for {who} to say", "$.payload.kind", rule="not_for_agents")
    if not coach and payload.get("agent_id") != agent_id:
        what = f"this intent is {agent_id!r}'s, and its message another agent's"
        raise IllegalEffectError(what, "$.payload.agent_id", rule="not_yours")
    _check_honest(payload)


def _check_honest(payload: Mapping[str, Any]) -> None:
    """Refuse what would let files tell of something else than the effect does: that is for imports."""
    for name in _OF_IMPORTS:
        if name in payload:
            what = f"{name} tells of a file that was imported; an agent has none to tell of"
            raise IllegalEffectError(what, f"{_PAYLOAD}.{name}", rule="not_for_agents")
    for name in words.object_of(payload.get(words.EXTRA)):
        if name in payload:
            what = f"{name} stands in the payload already"
            raise IllegalEffectError(what, child(f"{_PAYLOAD}.{words.EXTRA}", name), rule="not_for_agents")


# -- the JSON Schemas of payloads, as strict worlds want them: made from the models of documents ----------------


def _document(model: type[BaseModel]) -> dict[str, Any]:
    made = model.model_json_schema()
    # A payload may have more than its document: `extra`, and what intents bring along.
    del made["additionalProperties"]
    return made


def _part(description: str, *names: str, **required: Schema) -> Schema:
    """Return the schema of some members of a round."""
    whole = _document(RoundResult)
    members = {name: whole["properties"][name] for name in names if name not in required}
    needed = [name for name in names if name in whole["required"]]
    return {
        "type": "object",
        "description": description,
        "properties": members | required,
        "required": [*needed, *required],
        "$defs": {"ExperimentMeta": ExperimentMeta.model_json_schema()},
    }


PAYLOADS: Final[Mapping[str, Schema]] = {
    words.EXPERIMENT_STARTED: payload(
        "The experiment begins.",
        {"meta": says(OBJECT, "The fields of the meta block that are known.")},
        {"extra": says(OBJECT, "What is told besides: condition, seed, agents …"), "condition": TEXT},
    ),
    words.ROUND_STARTED: _part("A round begins.", "round_number", "round_config", "meta"),
    words.MESSAGE_EMITTED: _document(SocialRLMessage),
    words.FEEDBACK_RECORDED: _document(AgentFeedback),
    words.POLICY_ADAPTED: _document(PolicyAdaptation),
    words.POLICY_STATE_RECORDED: _document(PolicyState),
    words.ROUND_SYNTHESISED: _part("What the round came to.", "round_number", synthesis=TEXT),
    words.ROUND_ENDED: _part("The round ends.", "round_number", "duration_seconds"),
    words.ARTIFACT_RECORDED: payload(
        "Another JSON file of a run's folder.",
        {"name": says(payloads.NAME, "The file's name."), "content": says(ANY, "What it holds: any JSON value.")},
    ),
}
