"""JSON Schemas of social-RL runs' files: rounds, and policies of roles."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from worldledger_service.api.published import Published, document

from worldledger_social_rl.documents import PolicyState, RoundResult

TITLES: Final = {
    "social-rl-policy-state": "The policies of the roles of a social-RL run",
    "social-rl-round": "A round of a social-RL run",
}


@cache
def social_rl_round() -> dict[str, Any]:
    """Return the schema of a round of a social-RL run."""
    made = RoundResult.model_json_schema()
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
