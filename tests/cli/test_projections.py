"""`projections` and `project`: looking after the tables that are made from the logs."""

from __future__ import annotations

import json

import pytest

from .conftest import Cli
from .helpers import BAZAAR, KNOWN, UP_TO_DATE, append, fed_worlds, lose, put_back, record, seed, sql, untouched

# -- status and once -----------------------------------------------------------------------------------------


def test_a_database_that_nobody_has_fed(on: Cli) -> None:
    """Before anything fed them the projections are listed, with what to know about them."""
    result = on("projections", "status")
    assert (result.code, result.err) == (0, "")
    header, *lines = result.out.splitlines()
    assert header.split("  ")[0] == "PROJECTION"
    assert [line.split()[0] for line in lines[: len(KNOWN)]] == KNOWN
    assert all("never built" in line for line in lines[: len(KNOWN)])
    assert lines[len(KNOWN)].startswith(f"{KNOWN[0]}: ")


@pytest.mark.filled(by=fed_worlds)
def test_status_as_a_table(on: Cli, database_url: str) -> None:
    """Each projection is a row that says how far it is behind."""
    append(database_url, "a", 3)
    result = on("projections", "status", "turns", "world_summaries")
    assert (result.code, result.err) == (0, "")
    turns, summaries = (line.split() for line in result.out.splitlines()[1:])
    assert turns == ["turns", "1", "live", "0", "0", "-"]
    assert " ".join(summaries).startswith("world_summaries 2 live 3 in 1 world")


@pytest.mark.filled(by=fed_worlds, read=True)
def test_status_as_json(on: Cli) -> None:
    """--json is a list of objects with both builds and the parked worlds."""
    found = json.loads(on("projections", "status", "--json").out)
    assert [status["name"] for status in found] == KNOWN
    (first,) = [status for status in found if status["name"] == "entities"]
    assert set(first) == {"name", "version", "live", "building", "note", "parked_worlds"}
    assert (first["version"], first["building"], first["note"], first["parked_worlds"]) == (1, None, None, [])
    assert (first["live"]["build"], first["live"]["effects_behind"]) == ("entities_1", 0)
    assert "T" in first["live"]["started_at"]


@pytest.mark.filled(by=fed_worlds)
def test_status_of_a_row_that_no_program_writes(on: Cli, database_url: str) -> None:
    """Times that are none are told as the nearest day, or not at all; a check names the row."""
    report = '{"verified": true, "checked_at": "soon"}'
    change = f"started_at = 'infinity', finished_at = '4000-01-01 BC', check_report = '{report}'"
    sql(database_url, f"update projection_builds set {change} where build = 'turns_1'")
    assert on("projections", "status", "turns").out.splitlines()[1].split()[-1] == "verified"
    (found,) = json.loads(on("projections", "status", "turns", "--json").out)
    assert found["live"]["started_at"] == "9999-12-30T00:00:00+00:00"
    assert found["live"]["finished_at"] == "0001-01-02T00:00:00+00:00"
    checked = on("db", "check")
    assert (checked.code, checked.out.count("row of projection_builds with build 'turns_1': ")) == (1, 2)


@pytest.mark.filled(by=fed_worlds)
def test_once_reads_what_is_due(on: Cli, database_url: str) -> None:
    """`project --once` feeds what came since, and ends; where nothing did it does nothing, --quiet without a word."""
    append(database_url, "a", 3)
    assert on("project", "--once", "--quiet") == (0, "", "")
    assert on("project", "--once") == (0, UP_TO_DATE, "")
    assert sql(database_url, "select effects from projections.world_summaries where world_id = 'a'") == [(10,)]


@pytest.mark.filled(by=untouched, read=True)
@pytest.mark.parametrize("order", ["status", "rebuild", "verify", "pause", "resume", "retry"])
def test_unknown_names(on: Cli, database_url: str, order: str) -> None:
    """An unknown name lists those that there are, and nothing is done for the others."""
    result = on("projections", order, "entities", "entitise")
    assert (result.code, result.out) == (2, "")
    assert result.err == f"worldledger: there is no projection 'entitise'; there are {', '.join(KNOWN)}\n"
    assert sql(database_url, "select count(*) from projection_builds") == [(0,)]


@pytest.mark.filled(by=untouched, read=True)
@pytest.mark.parametrize("order", ["rebuild", "verify", "pause", "resume", "retry"])
def test_no_names(on: Cli, order: str) -> None:
    """These commands are told which projections they are about."""
    result = on("projections", order)
    assert (result.code, result.out) == (2, "")
    assert "name projections, or give --all" in result.err


# -- pause, resume and retry ---------------------------------------------------------------------------------


@pytest.mark.filled(by=fed_worlds)
def test_pause_and_resume(on: Cli, database_url: str) -> None:
    """What is paused is not written, by `project` or by a rebuild, until it is resumed."""
    assert on("projections", "pause", "entities", "turns") == (0, "paused entities\npaused turns\n", "")
    record(database_url, "a", BAZAAR[5:])
    assert on("project", "--once").code == 0
    status = on("projections", "status", "entities").out
    assert " paused " in status
    assert " 1 in 1 world" in status
    assert "entities: it is paused: `worldledger projections resume entities` lets it go on\n" in status
    result = on("projections", "rebuild", "entities")
    assert (result.code, result.out) == (2, "")
    assert "paused" in result.err
    assert on("projections", "resume", "entities") == (0, "resumed entities\n", "")
    assert on("projections", "resume", "entities").code == 0
    assert on("project", "--once").out == UP_TO_DATE


def test_pause_before_the_first_build(on: Cli, database_url: str) -> None:
    """A projection can be paused before anything has fed it."""
    record(database_url, "a", BAZAAR)
    assert on("projections", "pause", "entities").code == 0
    assert on("project", "--once").code == 0
    assert sql(database_url, "select count(*) from projections.entities") == [(0,)]
    assert sql(database_url, "select count(*) from projections.world_summaries") == [(1,)]


@pytest.mark.usefixtures("projected")
def test_parked_worlds(on: Cli, database_url: str) -> None:
    """A world that cannot be read is parked while the others go on; it is listed, and can be tried again."""
    for name in ("a", "b"):
        record(database_url, name, BAZAAR)
    lose(database_url, "a")
    result = on("project", "--once")
    assert (result.code, result.out) == (1, UP_TO_DATE)
    assert result.err.endswith("worlds are parked; see `worldledger projections status`\n")
    assert "Traceback" not in result.err
    assert sql(database_url, "select world_id, effects from projections.world_summaries order by 1") == [
        ("a", 3),
        ("b", 7),
    ]
    status = on("projections", "status", "world_summaries").out
    assert "world_summaries: world a is parked at seq 4, " in status
    assert "tried once" in status
    (found,) = json.loads(on("projections", "status", "world_summaries", "--json").out)
    assert [(world["world_id"], world["global_seq"]) for world in found["parked_worlds"]] == [("a", 4)]
    retry = ("projections", "retry", "world_summaries")
    assert on(*retry, "--world", "nowhere").code == 2
    assert on(*retry, "--world", "b").out == "released 0 worlds of world_summaries\n"
    assert on(*retry, "--world", "a").out == "released 1 world of world_summaries\n"
    assert on("project", "--once").code == 1
    assert "tried 2 times" in on("projections", "status", "world_summaries").out
    put_back(database_url)
    assert on("projections", "retry", *KNOWN).code == 0
    assert on("project", "--once").code == 0
    assert on("projections", "verify", *KNOWN).code == 0


def test_a_position_beyond_the_head(on: Cli, database_url: str) -> None:
    """A position that no log reaches is told as such, with the command that makes it anew."""
    seed(database_url, "v", 3)
    seed(database_url, "w", 3)
    assert on("project", "--once").code == 0
    sql(database_url, "update projection_cursors set global_seq = 9223372036854775807 where world_id = 'w'")
    result = on("projections", "verify", "effect_counts")
    order = "projections rebuild effect_counts --world w"
    what = f"the position is seq 9223372036854775807, beyond the head, which is 4; `worldledger {order}` makes it anew"
    assert (result.code, result.out) == (1, f"DIFFERS effect_counts: world w: {what}\n")
    assert on(*order.split()).code == 0
    assert on("projections", "verify", "effect_counts").code == 0


#: What was taken from a live build, what the check says is missing, and the command before `projections rebuild`.
LOST = {
    "alter table projections.entities_1 rename to was": ('the table projections."entities_1"', ()),
    "drop table projections.entities_1 cascade": ('the table projections."entities_1"', ()),
    "alter table projections.entities_1 drop column updated_seq cascade": (
        'the column updated_seq of the table projections."entities_1"',
        (),
    ),
    "alter schema projections rename to was": ("the schema projections", ("db", "upgrade")),
    "drop schema projections cascade": ("the schema projections", ("db", "upgrade")),
}


@pytest.mark.parametrize("statement", LOST)
def test_what_a_live_build_has_lost(on: Cli, database_url: str, statement: str) -> None:
    """A check says which table, column or schema of a projection is missing, and what it tells to run mends it."""
    record(database_url, "a", BAZAAR)
    assert on("project", "--once").code == 0
    sql(database_url, statement)
    result = on("projections", "verify", "entities")
    what, first = LOST[statement]
    assert (result.code, result.out.partition(";")[0]) == (1, f"DIFFERS entities: {what} is missing")
    assert "`worldledger projections rebuild entities`" in result.out
    if first:
        assert f"`worldledger {' '.join(first)}`" in result.out
        assert on(*first).code == 0
    assert on("projections", "rebuild", "entities").code == 0
    assert on("projections", "verify", "entities").code == 0


#: Tables and columns that no projection makes, and that a check of one needs.
NEEDED = (
    "effects",
    "heads",
    "projection_builds",
    "projection_cursors",
    "projection_parked",
    "worlds",
    "effects.effect",
    "heads.head_seq",
    "projection_builds.check_report",
    "worlds.experiment",
)


def test_what_no_projection_has_lost(on: Cli, database_url: str) -> None:
    """A table or column of the log, or of the engine's own, that is missing is no difference: no check can be run."""
    record(database_url, "a", BAZAAR)
    assert on("project", "--once").code == 0
    for place in NEEDED:
        table, _, column = place.partition(".")
        gone = f"{table} rename column {column} to was" if column else f"{table} rename to was"
        back = f"{table} rename column was to {column}" if column else f"was rename to {table}"
        sql(database_url, f"alter table {gone}")
        result = on("projections", "verify", "entities")
        sql(database_url, f"alter table {back}")
        assert (result.code, result.out) == (2, ""), place
        assert f"{column or table}" in result.err
        assert "lacks what this program needs" in result.err
        assert "Traceback" not in result.err
