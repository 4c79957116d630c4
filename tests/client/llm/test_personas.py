"""Personas come from YAML, and mistakes are told with their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldledger.errors import FileRefusedError
from worldledger.llm import Budget, Persona, read_personas


def _read(tmp_path: Path, text: str) -> object:
    file = tmp_path / "p.yaml"
    file.write_text(text)
    return read_personas(file)


def test_a_file_has_one_persona_or_one_for_each_agent(tmp_path: Path) -> None:
    """One is for any agent; several have names, and may share a budget."""
    file = tmp_path / "p.yaml"
    file.write_text("character: You sell figs.\nparameters: {max_tokens: 30}\n")
    one = read_personas(file)
    assert one.of("anyone") == Persona(character="You sell figs.", parameters={"max_tokens": 30})
    agents = "agents:\n  ann: {character: A.}\n  bob: {character: B., turns: 2}\n"
    file.write_text(f"budget: {{calls_per_minute: 9}}\n{agents}")
    several = read_personas(file)
    assert list(several.of_agents) == ["ann", "bob"]
    assert several.of("cid") is None
    assert several.budget == Budget(calls_per_minute=9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("goals: [x]", "character: Field required"),
        ("character: A.\nmood: odd", "mood: Extra inputs are not permitted"),
        ("agents: {ann: {character: A., turns: 0}}", "agents.ann.turns: Input should be greater than or equal to 1"),
        ("agents: {}", "`agents` has a persona for each agent"),
        ("a: [", "p.yaml:1: no YAML"),
        ("- x", "the persona: Input should be"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    """File, agent and field are named."""
    with pytest.raises(FileRefusedError, match=r"p\.yaml") as refused:
        _read(tmp_path, text)
    assert said in str(refused.value)


def test_the_bound_of_an_answer_is_that_of_its_parameters() -> None:
    """Without one it is 256 tokens."""
    assert Persona(character="A.").max_tokens == 256
    assert Persona(character="A.", parameters={"max_completion_tokens": 9}).max_tokens == 9


def test_a_file_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    """It is named once, with the reason."""
    with pytest.raises(FileRefusedError) as refused:
        read_personas(tmp_path / "none.yaml")
    assert str(refused.value) == f"{tmp_path}/none.yaml: cannot be read (No such file or directory)"
