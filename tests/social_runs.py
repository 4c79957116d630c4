"""Rounds of social-RL runs for tests, as docs/reference/social-rl.md has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

#: Runs that others have recorded; tests that use them are skipped where they are not there.
SHARED: Final = Path(__file__).resolve().parents[2] / "shared" / "data" / "social_rl"
EXAMPLE: Final = Path(__file__).resolve().parents[1] / "examples" / "social_rl"

ALICE: Final = "Worker+Alice"
BEN: Final = "Worker+Ben"
COACH: Final = "Coach+Carla"


def message(agent_id: str, number: int, turn: int, content: str = "I see.", **fields: Any) -> dict[str, Any]:
    """Make a message."""
    return {
        "agent_id": agent_id,
        "content": content,
        "round_number": number,
        "turn_number": turn,
        "timestamp": 1_700_000_000.0 + 1000 * number + turn,
        **fields,
    }


def feedback(agent_id: str, number: int, **fields: Any) -> dict[str, Any]:
    """Make a feedback vector."""
    return {
        "agent_id": agent_id,
        "round_number": number,
        "engagement": 0.8,
        "theoretical_alignment": 0.4,
        "contribution_value": 0.65,
        "direct_references": 1,
        "response_received": 0,
        "concepts_embodied": ["labor"],
        "analyst_mentions": 0,
        "synthesis_inclusion": 0.5,
        **fields,
    }


def adaptation(
    agent_id: str, number: int, kind: str = "activate_cue", cue: str = "ask", **fields: Any
) -> dict[str, Any]:
    """Make a policy adaptation."""
    return {
        "agent_id": agent_id,
        "adaptation_type": kind,
        "cue": cue,
        "reason": "alignment is low",
        "round_number": number,
        "feedback_trigger": {"alignment": 0.4},
        **fields,
    }


def round_of(number: int, **fields: Any) -> dict[str, Any]:
    """Make a round: two agents speak, the coach remarks for itself, and one of them is given a cue."""
    return {
        "round_number": number,
        "round_config": {"scenario": "a workshop", "rules": "by turns", "tasks": "say what you need"},
        "messages": [
            message(ALICE, number, 1, prar_cue_used="[REFLECT] Why?", feedback_snapshot=None),
            message(BEN, number, 2, context_frame={"base_scenario": "a workshop"}, role="assistant"),
            message(COACH, number, 3, "Alice is far off.", internal=True),
        ],
        "feedback": {ALICE: feedback(ALICE, number), BEN: feedback(BEN, number, theoretical_alignment=1.0)},
        "policy_adaptations": [adaptation(ALICE, number)],
        "synthesis": f"Round {number} went well.",
        "duration_seconds": 12.5,
        **fields,
    }


#: How many effects such a round makes.
EFFECTS: Final = 9


def write_run(folder: Path, files: Mapping[str, Any]) -> Path:
    """Write a run's folder: values as JSON, bytes and texts as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        path = folder / name
        if isinstance(value, bytes):
            path.write_bytes(value)
        else:
            path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return folder


def rounds(*numbers: int) -> dict[str, Any]:
    """Return the files of these rounds."""
    return {f"round{number}_social_rl.json": round_of(number) for number in numbers}


def content(folder: Path) -> dict[str, Any]:
    """Return what the JSON files of a folder hold."""
    return {path.name: json.loads(path.read_bytes()) for path in folder.glob("*.json")}
