"""Tables on a terminal: a row is a line of it, and what is too long ends in an ellipsis."""

from __future__ import annotations

import io

import pytest
from worldledger_service.cli.output import progress_bar, put_lines, put_rows, table

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


@pytest.mark.filled(by=long_named, read=True)
@pytest.mark.parametrize(
    ("columns", "header"),
    [
        (124, "WORLD RULESET EXPERIMENT EFFECTS CREATED OUTCOME"),
        (110, "WORLD RULESET EXPERIMENT EFFECTS OUTCOME"),
        (100, "WORLD RULESET EFFECTS OUTCOME"),
        (90, "WORLD EFFECTS OUTCOME"),
        (80, "WORLD OUTCOME"),
        (70, "WORLD"),
        (60, "WORLD RULESET EFFECTS OUTCOME"),
    ],
)
def test_names_of_worlds_can_be_copied(on: Cli, monkeypatch: pytest.MonkeyPatch, columns: int, header: str) -> None:
    """A narrow terminal shows less of the rest, so that a name is whole, unless it is wider than the terminal."""
    monkeypatch.setattr("worldledger_service.cli.output.screen_width", lambda: columns)
    first, row = on("worlds").out.splitlines()
    assert first.split() == header.split()
    name = row.split()[0]
    if columns > len(_LONG):
        assert name == _LONG
    else:  # commands find it by how it begins; worlds of one experiment often differ only in how they end
        assert (name[:16], name[-10:], "…" in name) == (_LONG[:16], _LONG[-10:], True)
    assert max(len(first), len(row)) <= columns


def test_the_last_column_is_cut_before_another_one_goes(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Beside a whole name the end of a line is cut, down to 16 columns; to eight if nothing else is left to go."""
    rows = [("n" * 20, "middle", "w" * 30)]
    for columns, shown in (
        (60, ["middle", "w" * 30]),
        (46, ["middle", "w" * 15 + "…"]),
        (45, ["w" * 22 + "…"]),
        (30, ["wwwwwww…"]),
        (29, []),
    ):
        monkeypatch.setattr("worldledger_service.cli.output.screen_width", lambda most=columns: most)
        put_rows(None, rows, spare=[1, 2])
        assert capfd.readouterr().out.split() == ["n" * 20, *shown]


def test_names_are_cut_last(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Of long cells the names stay whole, unless they take more than 28 columns or the terminal has none to give."""
    for columns, name in ((80, "Trader_1.secret_reserves"), (40, "Trader_1.…")):
        monkeypatch.setattr("worldledger_service.cli.output.screen_width", lambda most=columns: most)
        put_lines(table([("Trader_1.secret_reserves", "s" * 60, "t" * 60, "noised")]))
        shown = capfd.readouterr().out
        assert shown.split()[0] == name
        assert len(shown.rstrip()) <= columns


def test_a_bar_has_room_beside_a_long_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is cut in the middle; how much is done stands there whole."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr("worldledger_service.cli.output._SHOWN_AFTER", 0.0)
    for name, value in {"COLUMNS": "80", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    with progress_bar(f"exporting {_LONG}") as tell:
        tell(24, 24, "24 effects")
    shown = screen.getvalue()
    assert "exporting a-world-" in shown
    assert "100%" in shown
    assert "24 effects" in shown
