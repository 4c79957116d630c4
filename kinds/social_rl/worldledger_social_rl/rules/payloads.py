"""The JSON Schemas of the payloads of social-RL worlds, as strict ones want them: made from the models of documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from worldledger.rulesets.payloads import ANY, NAME, OBJECT, TEXT, Schema, payload, says
from worldledger_social_rl.rules import words
from worldledger_social_rl.rules.models import (
    AgentFeedback,
    ExperimentMeta,
    PolicyAdaptation,
    PolicyState,
    RoundResult,
    SocialRLMessage,
)


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
        {"name": says(NAME, "The file's name."), "content": says(ANY, "What it holds: any JSON value.")},
    ),
}
