"""Tables on a terminal: a row is a line of it, and what is too long ends in an ellipsis."""

from __future__ import annotations

import json

import pytest

from .conftest import Cli
from .helpers import seed

_LONG = "a-world-with-a-name-that-takes-more-than-half-of-a-screen-by-itself"


def long_named(url: str) -> None:
    """Have a world of a long name."""
    seed(url, _LONG, 2)


@pytest.mark.filled(by=long_named, read=True)
@pytest.mark.parametrize(
    "command",
    [
        ("worlds",),
        ("kind", "list"),
        ("sql", "--list"),
        ("sql", "select world_id, kind, effect from effects"),
    ],
)
def test_a_row_is_a_line(on: Cli, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    """On a terminal of 80 columns no line is longer, and long texts are cut; elsewhere and with --json none is."""
    whole = on(*command)
    for place in ("output", "sql"):
        monkeypatch.setattr(f"worldledger_service.cli.{place}.screen_width", lambda: 80)
    shown = on(*command)
    assert (shown.code, shown.err) == (whole.code, whole.err)
    lines = shown.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert max(map(len, whole.out.splitlines())) > 80
    assert any("…" in line for line in lines)
    assert len(lines) <= len(whole.out.splitlines())
    if command == ("worlds",):
        # Commands find it by how it begins; worlds of one experiment often differ only in how they end.
        assert any(line.startswith(_LONG[:16]) and f"{_LONG[-10:]} " in line for line in lines)
        assert json.loads(on(*command, "--json").out)[0]["world_id"] == _LONG
