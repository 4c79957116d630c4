"""The documents of a run as typed models: rounds, messages, feedback, adaptations, policy states.

Source: docs/reference/social-rl.md, "Documents". Each field is written once, here: its type (`fields`), its default
where a run may do without it, and its meaning. Reading goes by what strict checks find wrong, so that everything is
told at once, with its path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field

from worldledger.canonical import MAX_DEPTH, child
from worldledger_social_rl.rules.fields import (
    SCHEMA_VERSION,
    AdaptationType,
    AgentId,
    Amount,
    Count,
    Fault,
    FrameworkOption,
    IfSaid,
    LeftOut,
    Mark,
    MessageRole,
    Moment,
    Needed,
    Ordinal,
    Seconds,
    Share,
    Texts,
    Word,
    field_faults,
    fields_of,
    marks_of,
    refuse,
)


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=(), allow_inf_nan=False)

    def to_value(self) -> dict[str, Any]:
        """Return it as JSON, as its file has it, without what there is not; -0.0, which no log holds, as 0.0.

        What JSON does not have is left in it, for whoever writes it to refuse.
        """
        value: dict[str, Any] = plain(self)
        return value


class ExperimentMeta(_Document):
    """What a round is of (docs/reference/social-rl.md, "Meta block")."""

    experiment_id: str = Field(description="Unique experiment identifier (directory name).")
    prar_run_id: str = Field(description="Source PRAR output directory.")
    framework: str = Field(description="Human-readable framework name.")
    framework_option: FrameworkOption = Field(description="Framework option code.")
    model: str = Field(description="LLM model identifier.")
    performer_temperature: Amount = Field(default=0.7, description="Temperature for agent generation.")
    coach_temperature: Amount = Field(default=0.1, description="Temperature for validation.")
    social_rl_version: str = Field(default=SCHEMA_VERSION, description="Schema or code version; one for a whole run.")
    timestamp: LeftOut[Moment] = Field(default=None, description="When the run was made.")


class ContextFrame(_Document):
    """What was injected into an agent's context (docs/reference/social-rl.md, "Message")."""

    base_scenario: str | None = Field(default=None, description="The scenario as everybody has it.")
    concept_a_manifestation: str | None = Field(default=None, description="How the first concept shows.")
    concept_b_manifestation: str | None = Field(default=None, description="How the second concept shows.")
    experiential_cue: str | None = Field(default=None, description="What the agent is made to notice.")
    social_feedback_summary: str | None = Field(default=None, description="What the agent is told of its feedback.")
    prar_cue: str | None = Field(default=None, description="The PRAR cue.")


class SocialRLMessage(_Document):
    """What an agent has said (docs/reference/social-rl.md, "Message"); ``internal`` ones are for coaches only."""

    agent_id: AgentId = Field(description="Who speaks.")
    content: str = Field(description="What is said.")
    round_number: Ordinal = Field(description="The running round.")
    turn_number: Ordinal = Field(description="Turn within the round.")
    timestamp: Seconds = Field(description="Unix timestamp.")
    prar_cue_used: str | None = Field(default=None, description="PRAR reasoning cue injected.")
    feedback_snapshot: dict[str, Any] | None = Field(default=None, description="Feedback at the time of the message.")
    validation_metadata: dict[str, Any] | None = Field(default=None, description="Coach validation details.")
    context_frame: IfSaid[ContextFrame] = Field(default=None, description="Dynamic context injection details.")
    role: IfSaid[MessageRole] = Field(default=None, description="Message role.")
    internal: IfSaid[bool] = Field(default=None, description="Whether it is for coaches only.")


class AgentFeedback(_Document):
    """How an agent did in a round (docs/reference/social-rl.md, "Feedback vector"); shares are from 0 to 1."""

    agent_id: AgentId = Field(description="Whose feedback it is.")
    round_number: Ordinal = Field(description="The round that it is about.")
    engagement: Share = Field(description="Participation level.")
    theoretical_alignment: Share = Field(description="Framework adherence.")
    contribution_value: Share = Field(description="Substantive contribution.")
    direct_references: Count = Field(default=0, description="Times referenced by others.")
    response_received: Count = Field(default=0, description="Responses to this agent.")
    concepts_embodied: Texts = Field(default_factory=list, description="Detected concept expressions.")
    analyst_mentions: Count = Field(default=0, description="Mentions by the analyst.")
    synthesis_inclusion: Share = Field(default=0.0, description="Inclusion in the synthesis.")


class PolicyAdaptation(_Document):
    """What became of one of an agent's cues, and why (docs/reference/social-rl.md, "Policy adaptation")."""

    agent_id: AgentId = Field(description="Whose policy changes.")
    adaptation_type: AdaptationType = Field(description="What becomes of the cue.")
    cue: Word = Field(description="The cue.")
    reason: str = Field(description="Human-readable explanation.")
    round_number: Ordinal = Field(description="When it happened.")
    feedback_trigger: Needed[dict[str, Any]] = Field(
        default_factory=dict, description="The feedback values that triggered it."
    )
    intensity: LeftOut[Share] = Field(default=None, description="The cue's intensity from here on, where it is told.")


class RoundResult(_Document):
    """A whole round (docs/reference/social-rl.md, "Round"): what stands in its file."""

    meta: LeftOut[ExperimentMeta] = Field(default=None, description="What experiment it is of.")
    round_number: Ordinal = Field(description="The number of the round; the file's name has it too.")
    round_config: LeftOut[dict[str, Any]] = Field(default=None, description="Scenario, rules, tasks: free.")
    messages: list[SocialRLMessage] = Field(description="The messages in order.")
    feedback: dict[str, AgentFeedback] = Field(default_factory=dict, description="Agent -> its feedback.")
    policy_adaptations: list[PolicyAdaptation] = Field(default_factory=list, description="The adaptations in order.")
    synthesis: str = Field(default="", description="What the round came to.")
    duration_seconds: Amount = Field(default=0.0, description="How long it took.")

    @classmethod
    def from_value(cls, value: Any, *, file: str | None = None) -> Self:
        """Read a round from JSON. Raises InvalidRunError with every problem; ``file`` is named in them."""
        refuse(round_faults(value), file=file)
        return cls.model_validate(value)


class CueState(_Document):
    """A cue of a role's policy (docs/reference/social-rl.md, "PRAR policy state")."""

    cue_id: Word = Field(description="The cue.")
    active: bool = Field(description="Whether it is used.")
    intensity: Share = Field(default=1.0, description="How strongly.")
    last_triggered: Moment | None = Field(default=None, description="When it last was.")


class RolePolicy(_Document):
    """The cues of all agents of a role."""

    role: Word = Field(description="The role of the agents.")
    cues_active: Texts = Field(default_factory=list, description="The cues in use.")
    cue_states: dict[str, CueState] = Field(default_factory=dict, description="Cue -> its state.")
    feedback_snapshot: dict[str, Any] | None = Field(default=None, description="Feedback at that time.")


class PolicyState(_Document):
    """What a PRAR run hands over: the policy of each role (docs/reference/social-rl.md, "PRAR policy state")."""

    framework_option: FrameworkOption = Field(description="Framework option code.")
    framework_name: str = Field(description="Human-readable framework name.")
    policies: list[RolePolicy] = Field(description="One policy for each role.")
    timestamp: Moment = Field(description="When it was recorded.")
    source_run_id: str = Field(description="The PRAR run that it comes from.")
    social_rl_version: Needed[str] = Field(default=SCHEMA_VERSION, description="Schema or code version.")

    @classmethod
    def from_value(cls, value: Any, *, file: str | None = None) -> Self:
        """Read a policy state from JSON. Raises InvalidRunError with every problem; ``file`` is named in them."""
        refuse(policy_faults(value), file=file)
        return cls.model_validate(value)


# -- their fields as tables, made from the models ------------------------------------------------------------

META: Final = fields_of(ExperimentMeta)
CONTEXT_FRAME: Final = fields_of(ContextFrame)
MESSAGE: Final = fields_of(SocialRLMessage)
FEEDBACK: Final = fields_of(AgentFeedback)
ADAPTATION: Final = fields_of(PolicyAdaptation)
ROUND: Final = fields_of(RoundResult)
CUE_STATE: Final = fields_of(CueState)
ROLE_POLICY: Final = fields_of(RolePolicy)
POLICY_STATE: Final = fields_of(PolicyState)


# -- what strict checks find wrong with each: no model is made, so a round of any size is judged in one pass ----


def meta_faults(value: Any, path: str = "$") -> Iterator[Fault]:
    """Return what is wrong with a meta block."""
    yield from field_faults(value, META, path, "a meta block")


def message_faults(value: Any, path: str = "$", number: int | None = None) -> Iterator[Fault]:
    """Return what is wrong with a message of the round of that number (None: of any)."""
    yield from field_faults(value, MESSAGE, path, "a message")
    if type(value) is dict:
        yield from _round_faults(value, path, number)
        if type(value.get("context_frame")) is dict:
            yield from field_faults(value["context_frame"], CONTEXT_FRAME, f"{path}.context_frame", "a context frame")


def feedback_faults(
    value: Any, path: str = "$", number: int | None = None, agent: str | None = None
) -> Iterator[Fault]:
    """Return what is wrong with a feedback vector of the agent, in the round of that number (None: of any)."""
    yield from field_faults(value, FEEDBACK, path, "a feedback vector")
    if type(value) is dict:
        yield from _round_faults(value, path, number)
        said = value.get("agent_id")
        if agent is not None and type(said) is str and said != agent:
            what = f"this is the feedback of {agent!r}, not of {said!r}"
            yield Fault(f"{path}.agent_id", what, "other_agent")


def adaptation_faults(value: Any, path: str = "$", number: int | None = None) -> Iterator[Fault]:
    """Return what is wrong with a policy adaptation of the round of that number (None: of any)."""
    yield from field_faults(value, ADAPTATION, path, "a policy adaptation")
    if type(value) is dict:
        yield from _round_faults(value, path, number)


def policy_faults(value: Any, path: str = "$") -> Iterator[Fault]:
    """Return what is wrong with a PRAR policy state."""
    yield from field_faults(value, POLICY_STATE, path, "a policy state")
    policies = value.get("policies") if type(value) is dict else None
    for index, policy in enumerate(policies if type(policies) is list else ()):
        where = child(f"{path}.policies", index)
        yield from field_faults(policy, ROLE_POLICY, where, "a role's policy")
        states = policy.get("cue_states") if type(policy) is dict else None
        for cue, state in (states if type(states) is dict else {}).items():
            place = child(f"{where}.cue_states", cue)
            yield from field_faults(state, CUE_STATE, place, "a cue's state")
            said = state.get("cue_id") if type(state) is dict else None
            if type(said) is str and said != cue:
                yield Fault(f"{place}.cue_id", f"this is the state of {cue!r}, not of {said!r}", "value")


def round_faults(value: Any, path: str = "$", number: int | None = None) -> Iterator[Fault]:
    """Return what is wrong with a whole round, its messages, feedback and adaptations included.

    ``number`` is the one that it must have, None for any.
    """
    yield from field_faults(value, ROUND, path, "a round")
    if type(value) is not dict:
        return
    yield from _round_faults(value, path, number)
    if number is None:
        number = number_of(value)
    if type(value.get("meta")) is dict:
        yield from meta_faults(value["meta"], f"{path}.meta")
    for index, message in enumerate(_list(value, "messages")):
        yield from message_faults(message, child(f"{path}.messages", index), number)
    feedback = value.get("feedback")
    for agent, vector in (feedback if type(feedback) is dict else {}).items():
        yield from feedback_faults(vector, child(f"{path}.feedback", agent), number, agent)
    for index, adaptation in enumerate(_list(value, "policy_adaptations")):
        yield from adaptation_faults(adaptation, child(f"{path}.policy_adaptations", index), number)


def number_of(value: Mapping[str, Any]) -> int | None:
    """Return the number of a round, None where it is none: then nothing can be of another round."""
    said, field = value.get("round_number"), ROUND["round_number"]
    return said if type(said) is int and field.rule is not None and field.rule(said) else None


def _list(value: Mapping[str, Any], name: str) -> list[Any]:
    found = value.get(name)
    return found if type(found) is list else []


def _round_faults(value: Mapping[str, Any], path: str, number: int | None) -> Iterator[Fault]:
    said = value.get("round_number")
    if number is not None and type(said) is int and said != number:
        yield Fault(f"{path}.round_number", f"this is of round {number}, not {said}", "other_round")


def validate_round_result(data: Any) -> None:
    """Check a round as its file has it.

    Raises InvalidRunError, a ValueError, with the path of everything that is wrong. What only a whole run can tell
    (whose feedback it may be, whether rounds follow one another) is not looked at.
    """
    refuse(round_faults(data))


def plain(value: Any, level: int = 1) -> Any:
    """Return a value with 0.0 in the place of each -0.0, documents as objects; what is too deep for a log stays."""
    if type(value) is float:
        return 0.0 if value == 0.0 else value
    if level <= MAX_DEPTH:
        if type(value) is dict:
            return {name: plain(item, level + 1) for name, item in value.items()}
        if type(value) is list:
            return [plain(item, level + 1) for item in value]
        if isinstance(value, _Document):
            unsaid = _unsaid(type(value))
            return {
                name: plain(item, level + 1)
                for name, item in vars(value).items()
                if not (item is None and name in unsaid)
            }
    return value


@cache
def _unsaid(model: type[_Document]) -> frozenset[str]:
    """Return the fields that are left out where they are None."""
    out = {Mark.LEFT_OUT, Mark.WRITTEN_IF_SAID}
    return frozenset(name for name, info in model.model_fields.items() if marks_of(info) & out)
