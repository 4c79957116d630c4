"""The documents of a run as typed models: rounds, messages, feedback, adaptations, policy states.

Source: docs/reference/social-rl.md, "Documents". What a run may do without has a default. Reading goes by `faults`, so
that whatever is wrong is told at once, with its path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field

from worldledger.canonical import MAX_DEPTH
from worldledger.errors import InvalidRunError
from worldledger_social_rl.rules.faults import Fault, policy_faults, round_faults
from worldledger_social_rl.rules.fields import SCHEMA_VERSION, AdaptationType, FrameworkOption, MessageRole

#: Extended fields: written only where they say something (docs/reference/social-rl.md, "Message").
_EXTENDED: Final = ("context_frame", "role", "internal")


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=(), allow_inf_nan=False)

    def to_value(self) -> dict[str, Any]:
        """Return it as JSON, as its file has it; -0.0, which rounding gives and no log holds, as 0.0.

        What JSON does not have is left in it, for whoever writes it to refuse.
        """
        value: dict[str, Any] = plain(self.model_dump(warnings=False))
        return value


class ExperimentMeta(_Document):
    """What a round is of (docs/reference/social-rl.md, "Meta block")."""

    experiment_id: str
    prar_run_id: str
    framework: str
    framework_option: FrameworkOption
    model: str
    performer_temperature: float = Field(default=0.7, ge=0)
    coach_temperature: float = Field(default=0.1, ge=0)
    social_rl_version: str = SCHEMA_VERSION
    timestamp: str | None = None

    def to_value(self) -> dict[str, Any]:
        """Return it as JSON; no timestamp where there is none."""
        return {name: item for name, item in super().to_value().items() if item is not None}


class ContextFrame(_Document):
    """What was injected into an agent's context (docs/reference/social-rl.md, "Message")."""

    base_scenario: str | None = None
    concept_a_manifestation: str | None = None
    concept_b_manifestation: str | None = None
    experiential_cue: str | None = None
    social_feedback_summary: str | None = None
    prar_cue: str | None = None


class SocialRLMessage(_Document):
    """What an agent has said (docs/reference/social-rl.md, "Message"); ``internal`` ones are for coaches only."""

    agent_id: str
    content: str
    round_number: int = Field(ge=1)
    turn_number: int = Field(ge=1)
    timestamp: float = Field(ge=0)
    prar_cue_used: str | None = None
    feedback_snapshot: dict[str, Any] | None = None
    validation_metadata: dict[str, Any] | None = None
    context_frame: ContextFrame | None = None
    role: MessageRole | None = None
    internal: bool | None = None

    def to_value(self) -> dict[str, Any]:
        """Return it as JSON; the extended fields where they say something."""
        value = super().to_value()
        for name in _EXTENDED:
            if value[name] is None:
                del value[name]
        return value


class AgentFeedback(_Document):
    """How an agent did in a round (docs/reference/social-rl.md, "Feedback vector"); shares are from 0 to 1."""

    agent_id: str
    round_number: int = Field(ge=1)
    engagement: float = Field(ge=0, le=1)
    theoretical_alignment: float = Field(ge=0, le=1)
    contribution_value: float = Field(ge=0, le=1)
    direct_references: int = Field(default=0, ge=0)
    response_received: int = Field(default=0, ge=0)
    concepts_embodied: list[str] = Field(default_factory=list)
    analyst_mentions: int = Field(default=0, ge=0)
    synthesis_inclusion: float = Field(default=0.0, ge=0, le=1)


class PolicyAdaptation(_Document):
    """What became of one of an agent's cues, and why (docs/reference/social-rl.md, "Policy adaptation").

    ``intensity`` is the cue's from here on, where it is told.
    """

    agent_id: str
    adaptation_type: AdaptationType
    cue: str = Field(min_length=1)
    reason: str
    round_number: int = Field(ge=1)
    feedback_trigger: dict[str, Any] = Field(default_factory=dict)
    intensity: float | None = Field(default=None, ge=0, le=1)

    def to_value(self) -> dict[str, Any]:
        """Return it as JSON; no intensity where there is none."""
        value = super().to_value()
        if value["intensity"] is None:
            del value["intensity"]
        return value


class RoundResult(_Document):
    """A whole round (docs/reference/social-rl.md, "Round"): what stands in its file."""

    round_number: int = Field(ge=1)
    messages: list[SocialRLMessage]
    feedback: dict[str, AgentFeedback] = Field(default_factory=dict)
    policy_adaptations: list[PolicyAdaptation] = Field(default_factory=list)
    synthesis: str = ""
    duration_seconds: float = Field(default=0.0, ge=0)
    round_config: dict[str, Any] | None = None
    meta: ExperimentMeta | None = None

    @classmethod
    def from_value(cls, value: Any, *, file: str | None = None) -> Self:
        """Read a round from JSON. Raises InvalidRunError with every problem; ``file`` is named in them."""
        refuse(round_faults(value), file=file)
        return cls.model_validate(value)

    def to_value(self) -> dict[str, Any]:
        """Return it as JSON, as its file has it; meta and round_config where there are any."""
        value: dict[str, Any] = {} if self.meta is None else {"meta": self.meta.to_value()}
        value["round_number"] = self.round_number
        if self.round_config is not None:
            value["round_config"] = plain(self.round_config)
        return value | {
            "messages": [message.to_value() for message in self.messages],
            "feedback": {agent: vector.to_value() for agent, vector in self.feedback.items()},
            "policy_adaptations": [adaptation.to_value() for adaptation in self.policy_adaptations],
            "synthesis": self.synthesis,
            "duration_seconds": plain(self.duration_seconds),
        }


class CueState(_Document):
    """A cue of a role's policy (docs/reference/social-rl.md, "PRAR policy state")."""

    cue_id: str = Field(min_length=1)
    active: bool
    intensity: float = Field(default=1.0, ge=0, le=1)
    last_triggered: str | None = None


class RolePolicy(_Document):
    """The cues of all agents of a role."""

    role: str = Field(min_length=1)
    cues_active: list[str] = Field(default_factory=list)
    cue_states: dict[str, CueState] = Field(default_factory=dict)
    feedback_snapshot: dict[str, Any] | None = None


class PolicyState(_Document):
    """What a PRAR run hands over: the policy of each role (docs/reference/social-rl.md, "PRAR policy state")."""

    framework_option: FrameworkOption
    framework_name: str
    policies: list[RolePolicy]
    timestamp: str
    source_run_id: str
    social_rl_version: str = SCHEMA_VERSION

    @classmethod
    def from_value(cls, value: Any, *, file: str | None = None) -> Self:
        """Read a policy state from JSON. Raises InvalidRunError with every problem; ``file`` is named in them."""
        refuse(policy_faults(value), file=file)
        return cls.model_validate(value)


def validate_round_result(data: Any) -> None:
    """Check a round as its file has it.

    Raises InvalidRunError, a ValueError, with the path of everything that is wrong. What only a whole run can tell
    (whose feedback it may be, whether rounds follow one another) is not looked at.
    """
    refuse(round_faults(data))


def plain(value: Any, level: int = 1) -> Any:
    """Return a value with 0.0 in the place of each -0.0; what lies too deep for a log is left as it is."""
    if type(value) is float:
        return 0.0 if value == 0.0 else value
    if level <= MAX_DEPTH:
        if type(value) is dict:
            return {name: plain(item, level + 1) for name, item in value.items()}
        if type(value) is list:
            return [plain(item, level + 1) for item in value]
    return value


def refuse(faults: Iterable[Fault], *, file: str | None = None) -> None:
    """Raise InvalidRunError if there is any fault."""
    problems: list[Mapping[str, Any]] = [
        {"path": fault.path, "message": fault.message} | ({} if file is None else {"file": file}) for fault in faults
    ]
    if problems:
        raise InvalidRunError(problems)
