"""Agent, AgentStats and the settings of an agent: their rules, each with what holds and what does not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from worldledger_chess.rules import Agent, AgentSpec, AgentStats
from worldledger_chess.rules.agents import MAX_PROMPT, code_in

from tests.cases import cases

STATS: dict[str, Any] = {
    "games_played": 10,
    "games_won": 6,
    "games_lost": 3,
    "games_drawn": 1,
    "total_moves": 245,
    "average_thinking_time": 3.42,
    "illegal_moves_attempted": 2,
    "timeouts": 0,
}
AGENT: dict[str, Any] = {
    "agent_id": "white",
    "name": "Aggressive Alpha",
    "personality": "aggressive",
    "model_name": "Qwen/Qwen2.5-32B-Instruct",
    "system_prompt": "You are an aggressive chess player. Prioritize attacking moves, control the center, develop "
    "pieces quickly. Always look for tactical opportunities.",
    "temperature": 0.7,
    "max_tokens": 2048,
    "timeout_seconds": 30,
    "stats": STATS,
}

GOOD_SETTINGS: list[dict[str, Any]] = [
    {"name": "a" * 50},
    {"temperature": 0.0},
    {"temperature": 2},
    {"max_tokens": 1},
    {"timeout_seconds": 1},
    {"model_name": "gpt2"},
    {"model_name": ""},
    {"system_prompt": ""},
    {"system_prompt": "Two lines.\n\tOpen with 1. e4; execute a plan, and castle (O-O) early."},
    {"agent_id": "Anand, Viswanathan"},
]
BAD_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"agent_id": ""}, "agent_id"),
    ({"agent_id": "a" * 201}, "agent_id"),
    ({"agent_id": "worldledger"}, "service"),
    ({"agent_id": "a\0"}, "agent_id"),
    ({"agent_id": 1}, "agent_id"),
    ({"name": ""}, "name"),
    ({"name": "a" * 51}, "name"),
    ({"personality": ""}, "personality"),
    ({"personality": None}, "personality"),
    ({"model_name": "a/b/c"}, "Hugging Face"),
    ({"model_name": "a model"}, "Hugging Face"),
    ({"model_name": "-a/b"}, "Hugging Face"),
    ({"model_name": "a..b"}, "Hugging Face"),
    ({"model_name": "a/b\n"}, "Hugging Face"),
    ({"model_name": "https://example.org/a"}, "Hugging Face"),
    ({"system_prompt": "a" * (MAX_PROMPT + 1)}, "system_prompt"),
    ({"system_prompt": "\x1b[31m"}, "plain text"),
    ({"system_prompt": "Then run this Python code: print(1)"}, "run code"),
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": float("nan")}, "temperature"),
    ({"temperature": "0.7"}, "temperature"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_tokens": True}, "max_tokens"),
    ({"timeout_seconds": 0}, "timeout_seconds"),
    ({"timeout_seconds": -1}, "timeout_seconds"),
    ({"timeout_seconds": 0.5}, "timeout_seconds"),
    ({"elo": 2800}, "elo"),
]


@cases("changes", [{}, *GOOD_SETTINGS])
def test_what_is_an_agent(changes: dict[str, Any]) -> None:
    """A plain example and its like; so are the settings alone."""
    agent = Agent(**{**AGENT, **changes})
    assert Agent.model_validate_json(agent.model_dump_json()) == agent
    spec = AgentSpec(**{name: value for name, value in {**AGENT, **changes}.items() if name != "stats"})
    assert Agent.of(spec, AgentStats(**STATS)) == agent
    assert Agent.of(spec).stats == AgentStats.from_counts()


@cases("changes, named", BAD_SETTINGS)
def test_what_is_no_agent(changes: dict[str, Any], named: str) -> None:
    """Each field in its bounds, in the agent and in the settings."""
    with pytest.raises(ValidationError, match=named):
        Agent(**{**AGENT, **changes})
    with pytest.raises(ValidationError, match=named):
        AgentSpec(**{name: value for name, value in {**AGENT, **changes}.items() if name != "stats"})


@cases("name", list(AGENT))
def test_the_documented_fields_are_needed(name: str) -> None:
    """An Agent has all of them."""
    with pytest.raises(ValidationError, match=name):
        Agent(**{field: value for field, value in AGENT.items() if field != name})


def test_settings_may_be_left_out() -> None:
    """All but the agent_id, which is the name as far as it fits."""
    spec = AgentSpec(agent_id="a" * 60)
    assert spec.model_dump() == {
        "agent_id": "a" * 60,
        "name": "a" * 50,
        "personality": "balanced",
        "model_name": "",
        "system_prompt": "",
        "temperature": 0.7,
        "max_tokens": 2048,
        "timeout_seconds": 30,
    }
    with pytest.raises(ValidationError, match="agent_id"):
        AgentSpec.model_validate({})


@cases(
    "text",
    [
        "```python\nprint(1)\n```",
        "Call eval(input) on each move",
        "import os and look around",
        "use os.system for the move",
        "Use subprocess",
        "<script>alert(1)</script>",
        "bash -c 'ls'",
        "Execute the following commands",
        "run a shell script",
        "$(whoami)",
        "rm -rf /",
    ],
)
def test_instructions_to_run_code_are_seen(text: str) -> None:
    """Common words for it, in any case."""
    assert code_in(text)
    assert code_in(text.upper()) or "`" in text


@cases(
    "text",
    [
        "",
        "Execute your plan; run down the clock; evaluate the position; import nothing from other games.",
        "Evaluate each capture (and each check), then push the passed pawn.",
        "Spend $5 on the opening (O-O).",
    ],
)
def test_instructions_to_play_are_none(text: str) -> None:
    """Chess has plans that are executed and positions that are evaluated."""
    assert code_in(text) is None


@cases(
    "changes",
    [
        {},
        {"games_played": 0, "games_won": 0, "games_lost": 0, "games_drawn": 0, "total_moves": 0},
        {"average_thinking_time": 0.0},
        {"timeouts": 5},
    ],
)
def test_what_stats_can_be(changes: dict[str, Any]) -> None:
    """A plain example and its like."""
    stats = AgentStats(**{**STATS, **changes})
    assert AgentStats.model_validate_json(stats.model_dump_json()) == stats


@cases(
    "changes, named",
    [
        *[({name: -1}, name) for name in STATS],
        *[({name: "1"}, name) for name in STATS],
        *[({name: 1.5}, name) for name in STATS if name != "average_thinking_time"],
        ({"games_won": 11}, "games_won"),
        ({"games_lost": 11}, "games_lost"),
        ({"games_drawn": 11}, "games_drawn"),
        ({"games_won": 5}, "games_played"),
        ({"games_played": 11}, "games_played"),
        ({"average_thinking_time": float("inf")}, "average_thinking_time"),
        ({"elo": 1}, "elo"),
    ],
)
def test_what_stats_cannot_be(changes: dict[str, Any], named: str) -> None:
    """Counts are not negative, and the games make their sum."""
    with pytest.raises(ValidationError, match=named):
        AgentStats(**{**STATS, **changes})


@cases("name", list(STATS))
def test_all_stats_are_needed(name: str) -> None:
    """None is left out."""
    with pytest.raises(ValidationError, match=name):
        AgentStats(**{field: value for field, value in STATS.items() if field != name})


def test_the_average_is_computed() -> None:
    """Over all moves, or over those whose time is known; without any it is 0."""
    stats = AgentStats.from_counts(games_won=2, games_lost=1, games_drawn=1, total_moves=8, total_thinking_time=2.0)
    assert (stats.games_played, stats.average_thinking_time) == (4, 0.25)
    assert AgentStats.from_counts(total_moves=8, total_thinking_time=2.0, timed_moves=4).average_thinking_time == 0.5
    assert AgentStats.from_counts(total_moves=8, timed_moves=0).average_thinking_time == 0.0
    assert AgentStats.from_counts().model_dump() == dict.fromkeys(STATS, 0)
    for timed in (-1, 9):
        with pytest.raises(ValueError, match="timed_moves"):
            AgentStats.from_counts(total_moves=8, timed_moves=timed)
    with pytest.raises(ValidationError):
        AgentStats.from_counts(games_won=-1)
