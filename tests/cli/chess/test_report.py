"""`report`: one page, whole or not at all, and the numbers behind it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.helpers import GAME, append, record, sql


@pytest.fixture
def cup(on: Cli, tmp_path: Path) -> None:
    """Have two games as an experiment, which no projection has read yet."""
    (tmp_path / "a.pgn").write_text(GAME.format(1) + GAME.format(2))
    assert on("import", "pgn", str(tmp_path), "--experiment", "cup").code == 0


@pytest.mark.usefixtures("projected", "cup")
def test_a_report_is_made(on: Cli, tmp_path: Path) -> None:
    """A page in place of what was there; -o - is stdout; --json gives the numbers, beside a page or alone."""
    file = tmp_path / "report.html"
    file.write_text("old")
    command = ("report", "cup", "-o", str(file), "--force")
    assert on(*command[:-1]) == (2, "", f"worldledger: {file}: is already there; --force replaces it\n")
    nothing = "worldledger: the projections have read nothing of 'cup' yet: run `worldledger project --once` first\n"
    assert on(*command) == (2, "", nothing)
    assert file.read_text() == "old"
    assert on("project", "--once").code == 0
    assert on(*command) == (0, "", f"worldledger: reported 2 worlds (14 effects) with 3 plots to {file}\n")
    page = file.read_text()
    assert page.startswith("<!DOCTYPE html>\n")
    assert page.endswith("</html>\n")
    assert page.count("<svg") == 3
    streamed = on("report", "cup", "--output", "-", "--quiet")
    assert (streamed.code, streamed.err) == (0, "")
    assert _but_read(streamed.out) == _but_read(page)
    both = on(*command, "--json", "-q")
    alone = on("report", "cup", "--json")
    found = json.loads(both.out)
    assert {**json.loads(alone.out), "read_at": None} == {**found, "read_at": None}
    assert (both.err, alone.err) == ("", "")
    players = next(figure for figure in found["sections"][0]["figures"] if figure["id"] == "players")
    assert [(row["agent_id"], row["won"], row["lost"]) for row in players["rows"]] == [("Ann", 0, 2), ("Bob", 2, 0)]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def _but_read(page: str) -> list[str]:
    return [line for line in page.splitlines() if not line.startswith('<p class="made">Read ')]


@pytest.mark.usefixtures("projected", "cup")
def test_forks_are_left_out(on: Cli) -> None:
    """A report of an experiment is as if it had no forks, and says how many there are; of forks alone there is none."""
    assert on("project", "--once").code == 0
    before = json.loads(on("report", "cup", "--json").out)
    game = json.loads(on("worlds", "--experiment", "cup", "--json").out)[0]["world_id"]
    assert on("fork", game, "--at", "ply:2", "--as", "one").code == 0
    assert on("fork", game, "--at", "ply:1", "--as", "two", "--experiment", "what-if").code == 0
    assert on("project", "--once").code == 0
    after = json.loads(on("report", "cup", "--json").out)
    (told,) = [note for section in after["sections"] for note in section["notes"] if "left out" in note]
    assert told.startswith("1 fork is left out of everything here")
    for section in after["sections"]:
        section["notes"] = [note for note in section["notes"] if note != told]
    assert {**after, "read_at": None} == {**before, "read_at": None}
    refused = on("report", "what-if", "--json")
    assert refused.code == 2
    assert "experiment 'what-if' has 1 fork and no other world; a report leaves forks out" in refused.err


@pytest.mark.usefixtures("projected", "cup")
def test_what_is_behind_is_named(on: Cli, database_url: str, tmp_path: Path) -> None:
    """Where projections lack something of the experiment it is said which, and the report is made all the same."""
    assert on("project", "--once").code == 0
    (tmp_path / "b.pgn").write_text(GAME.format(3))
    assert on("import", "pgn", str(tmp_path / "b.pgn"), "--experiment", "cup").code == 0
    record(database_url, "elsewhere", [], experiment="other")
    done = on("report", "cup", "-o", str(tmp_path / "report.html"))
    assert done.code == 0
    assert done.err.splitlines() == [
        *(
            f"worldledger: behind the log: {name}: 7 effects behind in 1 world"
            for name in ("agent_stats", "games", "moves")
        ),
        "worldledger: run `worldledger project --once`, and make the report again, to have all of it",
        f"worldledger: reported 3 worlds (21 effects) with 3 plots to {tmp_path}/report.html",
    ]
    assert json.loads(on("report", "cup", "--json").out)["behind"] == [
        f"{name}: 7 effects behind in 1 world" for name in ("agent_stats", "games", "moves")
    ]
    again = ", and make the report again, to have all of it"
    assert on("projections", "pause", "games").code == 0
    said = on("report", "cup", "-o", str(tmp_path / "report.html"), "--force").err.splitlines()
    assert "worldledger: behind the log: games: 7 effects behind in 1 world (paused)" in said
    assert f"worldledger: run `worldledger projections resume games` and `worldledger project --once`{again}" in said
    assert on("project", "--once").code == 0
    said = on("report", "cup", "-o", str(tmp_path / "report.html"), "--force").err.splitlines()
    assert said[1] == f"worldledger: run `worldledger projections resume games`{again}"
    assert "<code>worldledger projections resume games</code>" in (tmp_path / "report.html").read_text()
    sql(database_url, "drop view analytics.moves")
    lacking = on("report", "cup", "--json", "-q")
    found = json.loads(lacking.out)
    assert found["behind"][0] == "moves: not made yet"
    assert [section["id"] for section in found["sections"]] == ["worlds", "effects"]


def test_any_experiment_has_a_report(on: Cli, database_url: str) -> None:
    """One without runs, games or simulations needs no projection; one that is not there is exit code 2."""
    record(database_url, "a", [], experiment="talk")
    append(database_url, "a", 4)
    found = json.loads(on("report", "talk", "--json").out)
    assert (found["worlds"], found["effects"], found["behind"]) == (1, 5, [])
    unknown = on("report", "talks", "--json")
    assert unknown == (2, "", "worldledger: there is no experiment 'talks'; did you mean 'talk'?\n")


def test_what_cannot_be_meant(on: Cli, tmp_path: Path) -> None:
    """A report needs somewhere to go, and stdout takes one thing; a folder that is not there is refused."""
    assert "--output" in on("report", "a").err
    assert "stdout has the page" in on("report", "a", "-o", "-", "--json").err
    assert on("report", "a", "-o", str(tmp_path / "x" / "y.html")).code == 2


@pytest.mark.parametrize("library", ["matplotlib", "jinja2"])
def test_without_the_extra(
    on: Cli, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    """A page cannot be made, and it is said what to install; the numbers can."""
    record(database_url, "a", [], experiment="talk")
    monkeypatch.setitem(sys.modules, library, None)
    done = on("report", "talk", "-o", str(tmp_path / "report.html"))
    assert done.code == 2
    assert "pip install 'worldledger[analytics]'" in done.err
    assert list(tmp_path.iterdir()) == []
    assert on("report", "talk", "--json").code == 0
