"""`state`, `view` and `diff` on a terminal: no line is wider than it, and nothing of a heading is lost."""

from __future__ import annotations

import pytest
from worldledger_service.cli import output

from worldledger.intents import registration_draft
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_spec

from .conftest import Cli
from .helpers import BAZAAR, play, record, say

#: A long name, of an entity and of a value in it.
LONG = "the-agent-with-a-name-that-is-much-longer-than-any-column-of-a-table-should-be"


@pytest.fixture
def world(database_url: str) -> str:
    """Have a world whose names and values are long, with an agent who sees all of it."""
    name = "bazaar-of-the-far-away-town-behind-the-seven-hills"
    data = {"note": "figs " * 60, "mood": "fine", "coins": 9, LONG: [*range(80)]}
    record(database_url, name, BAZAAR)
    registered = registration_draft(LONG, policy_spec(ObservationPolicy()))
    play(database_url, name, [registered], system=True)
    created = say("alice", "EntityCreated", 10.0, entity_id=LONG, entity_data=data)
    update = [{"op": "replace", "path": "/note", "value": "dates " * 60}]
    record(database_url, name, [created, say("alice", "EntityUpdated", 11.0, entity_id=LONG, patch=update)])
    return name


@pytest.mark.parametrize("columns", [80, pytest.param(40, marks=pytest.mark.thorough)])
def test_lines_fit_the_terminal(on: Cli, world: str, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Rows and branches are cut, headings are broken between words; without a terminal every line is whole."""
    commands = (
        ("state", world),
        ("state", f"{world}@9", f"{world}@head"),
        ("diff", world, "9", "head", "--tree"),
        ("view", world, LONG),
        ("view", world, LONG, "--truth"),
        ("view", f"{world}@9", f"{world}@head", LONG),
    )
    for command in commands:
        monkeypatch.setattr(output, "screen_width", lambda: None)
        whole = on(*command)
        assert (whole.code, whole.err) == (0, ""), command
        monkeypatch.setattr(output, "screen_width", lambda: columns)
        result = on(*command)
        assert result.out != whole.out
        longest = max(map(len, (word for line in result.out.splitlines() for word in line.split())))
        assert max(map(len, result.out.splitlines())) <= max(columns, longest + 2), command
        if columns == 80:
            assert longest <= columns
            heading = whole.out.split("\n" if command[0] == "diff" else "\n\n")[0].split()
            assert result.out.split()[: len(heading)] == heading


def test_a_line_that_fits_stays_as_it_is() -> None:
    """A heading is broken where it must be, its styles kept; a row is cut; what fits is not touched."""
    heading = [("bazaar", "bold"), (" at seq 7 (the head), sim_time 9.0", "")]
    assert [*output.fitting(heading, 80)] == [heading]
    broken = [*output.fitting(heading, 20)]
    assert broken[0][0] == ("bazaar", "bold")
    lines = ["".join(text for text, _ in line).rstrip() for line in broken]
    assert lines == ["bazaar at seq 7 (the", "  head), sim_time", "  9.0"]
    ((*_, last),) = output.fitting([("  row ", ""), ("x" * 90, "cyan")], 20)
    assert last == ("…", "")


@pytest.mark.parametrize("length", range(16, 24))
def test_members_are_cut_once(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    """A member that fits keeps its comma, and one that does not has one ellipsis, wherever the line breaks."""
    monkeypatch.setattr(output, "screen_width", lambda: 30)
    value = "x" * length
    lines = [fit for line in output.table([("name", [value, "b"])]) for fit in output.fitting(line, 30)]
    first, *_ = ["".join(text for text, _ in line) for line in lines]
    assert first.count("…") == (length > 21)
    assert "," in first
    assert len(first) <= 30
