"""`--quiet`: a command says only what it was asked for, and what went wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from worldledger_service.cli.serve import _tell

from .conftest import Cli
from .helpers import fed_worlds, sql


@pytest.mark.filled(by=fed_worlds)
def test_what_was_done_is_not_told(on: Cli, tmp_path: Path) -> None:
    """Commands that make or check something print nothing where all is well; without it each says what it did."""
    rows, log = str(tmp_path / "rows.csv"), str(tmp_path / "a.ndjson")
    Path(rows).write_text("time,agent,kind\n1,ann,Bid\n")
    for command in (
        ("projections", "rebuild", "entities"),
        ("projections", "rebuild", "entities", "--world", "a"),
        ("projections", "rebuild", "entities", "--cancel"),
        ("projections", "verify", "entities"),
        ("project", "--once"),
        ("import", "csv", rows),
        ("snapshot", "a"),
        ("fork", "a", "--at", "4", "--as", "f"),
        ("rerun", "f"),
        ("export", "a", "-o", log, "--force"),
        ("import", "log", log),
        ("verify", "--all"),
        ("replay", "--check", "--all"),
    ):
        told = on(*command)
        assert (told.code, bool(told.out or told.err)) == (0, True), command
        assert on(*command, "--quiet") == (0, "", ""), command


@pytest.mark.filled(by=fed_worlds)
def test_what_went_wrong_is_told_all_the_same(on: Cli, database_url: str, tmp_path: Path) -> None:
    """A row that was refused, and a projection that differs, are named."""
    rows = tmp_path / "rows.csv"
    rows.write_text("time,agent,kind\n1,ann,Bid\n2,ann\n")
    refused = on("import", "csv", str(rows), "--quiet")
    assert (refused.code, refused.out.endswith(" into rows, 1 refused\n")) == (1, True)
    sql(database_url, "delete from projections.entities_1")
    assert on("projections", "verify", "entities", "--quiet").out.startswith("DIFFERS entities: ")


def test_the_hints_of_a_service_fit_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    """No line is wider than 80 columns; the first hint is the console's address by itself."""
    _tell("http://127.0.0.1:8000", None)
    lines = capfd.readouterr().out.splitlines()
    assert lines[1].split()[0] == "http://127.0.0.1:8000"
    assert max(map(len, lines)) <= 80
