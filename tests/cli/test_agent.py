"""`worldledger agent run`: what it needs to be told. That it plays agents, tests/client/llm shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import cases

from .conftest import Cli

_NOWHERE = "http://127.0.0.1:1"
_ONE = "character: You are brief."
_TWO = "agents: {ann: {character: A.}, bob: {character: B.}}"


@cases(
    "arguments, text, said",
    [
        (["--model", "tiny"], _ONE, "'tiny' is not openai:NAME"),
        (["ann", "--model", "other:tiny"], _ONE, "'other:tiny' is not openai:NAME"),
        (["--model", "openai:tiny"], _ONE, "name the agent"),
        (["cid", "--model", "openai:tiny"], _TWO, "has no persona for 'cid', only for ann, bob"),
        (["ann", "--model", "openai:tiny"], "mood: odd", "character: Field required"),
        (
            ["ann", "--model", "openai:tiny", "--base-url", "http://127.0.0.1:1", "--url", "x"],
            _ONE,
            "'x' is no address",
        ),
        (["ann", "--model", "openai:tiny", "--base-url", _NOWHERE, "--url", _NOWHERE], _ONE, "cannot be reached"),
    ],
)
def test_what_is_missing_is_told(cli: Cli, tmp_path: Path, arguments: list[str], text: str, said: str) -> None:
    """One sentence on stderr, and 2."""
    file = tmp_path / "p.yaml"
    file.write_text(text)
    result = cli("agent", "run", "parlour", *arguments, "--persona", str(file))
    assert result.code == 2
    assert said in result.err


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_without_a_key_a_provider_is_not_asked(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    """A service of one's own needs none; the provider's does, and that is said before anything is done."""
    pytest.importorskip(provider)
    key = f"{provider.upper()}_API_KEY"
    monkeypatch.delenv(key, raising=False)
    file = tmp_path / "p.yaml"
    file.write_text(_ONE)
    result = cli("agent", "run", "parlour", "ann", "--model", f"{provider}:tiny", "--persona", str(file))
    assert result.code == 2
    assert key in result.err
