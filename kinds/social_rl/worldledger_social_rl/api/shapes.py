"""The shapes of rounds of social-RL runs and of their agents' policies. Source: docs/reference/social-rl.md."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal

from pydantic import ConfigDict, Field, JsonValue
from worldledger_service.api.openapi import CHECKSUM, HEX64, GlobalSeq, Shape, WorldName
from worldledger_service.api.published import Published, document

from worldledger.canonical import MAX_INT
from worldledger_social_rl.documents import PolicyState
from worldledger_social_rl.documents import RoundResult as _RoundResult

_AGENT = "Worker+Alice"
_RESULT: dict[str, Any] = {
    "round_number": 1,
    "messages": [
        {
            "agent_id": _AGENT,
            "content": "I understand the task.",
            "round_number": 1,
            "turn_number": 1,
            "timestamp": 1700000000.0,
            "prar_cue_used": "[REFLECT] What does the task ask of you?",
        }
    ],
    "feedback": {
        _AGENT: {
            "agent_id": _AGENT,
            "round_number": 1,
            "engagement": 0.8,
            "theoretical_alignment": 0.4,
            "contribution_value": 0.65,
        }
    },
    "policy_adaptations": [
        {
            "agent_id": _AGENT,
            "adaptation_type": "activate_cue",
            "cue": "emphasize_non_domination",
            "reason": "alignment is below threshold",
            "round_number": 1,
            "feedback_trigger": {"alignment": 0.4},
        }
    ],
    "synthesis": "Alice has understood.",
    "duration_seconds": 45.2,
}
_PLACE: dict[str, Any] = {
    "round_number": 1,
    "status": "ended",
    "first_seq": 2,
    "ended_seq": 7,
    "last_seq": 7,
    "started_sim_time": 1700000000.0,
    "started_wall_time": 1764277353.25,
    "duration_seconds": 45.2,
    "messages": 1,
    "agents": 1,
    "feedback": 1,
    "adaptations": 1,
}
_CUE: dict[str, Any] = {"active": True, "intensity": 1.0, "since_round": 1}


def _exactly(schema: dict[str, Any]) -> None:
    """Say that a member that may be left out may not be null instead."""
    for name in ("meta", "round_config"):
        member = schema["properties"][name]
        member.pop("default")
        (wanted,) = [each for each in member.pop("anyOf") if each != {"type": "null"}]
        member.update(wanted)
    schema["examples"] = [_RESULT]


class RoundResult(_RoundResult):
    """A whole round, as its file `roundN_social_rl.json` has it; the schema `social-rl-round` says the same."""

    model_config = ConfigDict(json_schema_extra=_exactly)


class RoundReceipt(Shape):
    """What became of a round that was posted."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "world_id": "my-run",
                    "round_number": 1,
                    "first_seq": 2,
                    "last_seq": 7,
                    "checksum": CHECKSUM,
                    "effects": 6,
                    "replayed": False,
                }
            ]
        },
    )

    world_id: WorldName
    round_number: int = Field(ge=0, le=MAX_INT)
    first_seq: GlobalSeq = Field(description="The round's first effect, RoundStarted.")
    last_seq: GlobalSeq = Field(description="Its last, RoundEnded.")
    checksum: str = Field(pattern=HEX64, description="The chain checksum of the last.")
    effects: int = Field(ge=2, description="How many they are.")
    replayed: bool = Field(description="Whether an earlier request has written them.")


class RoundPlace(Shape):
    """Where a round stands in the log, and how much is in it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_PLACE]})

    round_number: int | None = Field(description="Null where an import has brought a round without one.")
    status: Literal["open", "ended"]
    first_seq: GlobalSeq = Field(description="The effect that began it.")
    ended_seq: GlobalSeq | None = Field(description="The effect that ended it, if there is one.")
    last_seq: GlobalSeq = Field(description="The last effect before the next round, or of all.")
    started_sim_time: float
    started_wall_time: float
    duration_seconds: float | None = Field(description="As its end says.")
    messages: int = Field(ge=0, description="Internal ones too.")
    agents: int = Field(ge=0, description="Who has spoken.")
    feedback: int = Field(ge=0)
    adaptations: int = Field(ge=0)


class RoundPage(Shape):
    """A page of a world's rounds, in the order of the log."""

    world_id: WorldName
    rounds: list[RoundPlace]
    next_after_seq: int | None = Field(description="The after_seq of the next page; null when this is the last.")


class Round(RoundPlace):
    """A round, and what its file holds."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"world_id": "my-run", **_PLACE, "checksum": CHECKSUM, "result": _RESULT}]},
    )

    world_id: WorldName
    checksum: str = Field(pattern=HEX64, description="The chain checksum at `last_seq`.")
    result: dict[str, JsonValue] = Field(
        description="A RoundResult; what an import has brought along beside the schema's fields stands in it, too."
    )


class Cue(Shape):
    """A cue of an agent."""

    active: bool
    intensity: float
    since_round: int = Field(description="The round since which it is active, or is not.")


class AgentCues(Shape):
    """An agent's cues by name."""

    role: str | None = Field(description="The part of its id before the plus, if there is one.")
    name: str
    cues: dict[str, Cue]


class Policy(Shape):
    """The cues of all agents at a place in the chain."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "world_id": "my-run",
                    "global_seq": 7,
                    "checksum": CHECKSUM,
                    "round_number": 1,
                    "round_open": False,
                    "agents": {_AGENT: {"role": "Worker", "name": "Alice", "cues": {"emphasize_non_domination": _CUE}}},
                    "roles": {},
                    "policy_state": None,
                }
            ]
        },
    )

    world_id: WorldName
    global_seq: GlobalSeq = Field(description="The effect after which it was so.")
    checksum: str = Field(pattern=HEX64, description="The chain checksum of that effect.")
    round_number: int | None = Field(description="The last round that had begun.")
    round_open: bool
    agents: dict[str, AgentCues]
    roles: dict[str, dict[str, JsonValue]] = Field(description="The last policy of each role, as it was recorded.")
    policy_state: dict[str, JsonValue] | None = Field(
        description="What the last policy state said besides: `framework_option`, `source_run_id` …"
    )


# -- JSON Schemas of files: rounds, and policies of roles -------------------------------------------------

TITLES: Final = {
    "social-rl-policy-state": "The policies of the roles of a social-RL run",
    "social-rl-round": "A round of a social-RL run",
}


@cache
def social_rl_round() -> dict[str, Any]:
    """Return the schema of a round of a social-RL run."""
    made = _RoundResult.model_json_schema()
    return document("social-rl-round", TITLES["social-rl-round"], made, made.pop("$defs"))


@cache
def social_rl_policy_state() -> dict[str, Any]:
    """Return the schema of a PRAR policy state."""
    made = PolicyState.model_json_schema()
    return document("social-rl-policy-state", TITLES["social-rl-policy-state"], made, made.pop("$defs"))


#: They by name.
SCHEMAS: Final[Mapping[str, Published]] = {
    "social-rl-policy-state": Published(TITLES["social-rl-policy-state"], social_rl_policy_state),
    "social-rl-round": Published(TITLES["social-rl-round"], social_rl_round),
}
