"""`projections rebuild` and `projections verify`: rows that are made anew, and compared with the logs."""

from __future__ import annotations

import json

import pytest

from .conftest import Cli
from .helpers import BAZAAR, fed_worlds, lose, put_back, record, rows, sql

# -- rebuild -------------------------------------------------------------------------------------------------


def test_the_first_build(on: Cli, database_url: str) -> None:
    """Where a projection was never built, a rebuild builds it, and no other."""
    record(database_url, "a", BAZAAR)
    assert on("projections", "rebuild", "entities") == (0, "rebuilt entities, 7 effects\n", "")
    assert [row[0] for row in sql(database_url, "select entity_id from projections.entities order by 1")] == [
        "alice",
        "bob",
    ]
    assert sql(database_url, "select build, status from projection_builds") == [("entities_1", "live")]


@pytest.mark.filled(by=fed_worlds)
def test_a_rebuild(on: Cli, database_url: str) -> None:
    """A rebuild gives the same rows in a new build that has taken over; the old one is gone."""
    names = ("entities", "games", "moves")
    before = [rows(database_url, name) for name in names]
    sql(database_url, "update projections.games_1 set status = 'timeout'", "delete from projections.entities_1")
    result = on("projections", "rebuild", *names, "games")
    assert (result.code, result.err) == (0, "")
    assert sorted(result.out.splitlines()) == [
        "rebuilt entities, 21 effects",
        "rebuilt games, 7 effects",
        "rebuilt moves, 7 effects",
    ]
    assert [rows(database_url, name) for name in names] == before
    builds = sql(database_url, "select build from projection_builds where status = 'live' order by 1")
    assert builds == [
        ("agent_stats_1",),
        ("agents_1",),
        ("effect_counts_1",),
        ("entities_2",),
        ("feedback_1",),
        ("games_2",),
        ("messages_1",),
        ("moves_2",),
        ("policy_adaptations_1",),
        ("reasoning_1",),
        ("rounds_1",),
        ("social_runs_1",),
        ("state_variables_1",),
        ("turns_1",),
        ("world_summaries_1",),
    ]
    assert sql(database_url, "select to_regclass('projections.games_1')") == [(None,)]


@pytest.mark.filled(by=fed_worlds)
def test_a_rebuild_of_one_world(on: Cli, database_url: str) -> None:
    """--world makes the rows of that world anew, and leaves the others as they are."""
    before = rows(database_url, "entities")
    sql(database_url, "update projections.entities_1 set x = 99 where entity_id = 'bob'")
    assert on("projections", "rebuild", "entities", "agents", "--world", "a") == (
        0,
        "rebuilt entities of a, up to seq 7\nrebuilt agents of a, up to seq 7\n",
        "",
    )
    changed = set(rows(database_url, "entities")) - set(before)
    assert len(changed) == 1
    assert next(iter(changed))[0].startswith("(b,bob,")
    assert on("projections", "rebuild", "entities", "--world", "b").code == 0
    assert rows(database_url, "entities") == before


@pytest.mark.filled(by=fed_worlds, read=True)
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("games", "--world", "nowhere"), "no world named 'nowhere'"),
        (("games", "--world", "no/where"), "allowed: 1 to 200"),
        (("games", "--world", "a"), "does not read worlds of ruleset sandbox"),
        (("games", "--world", "a", "--cancel"), "--cancel drops a whole rebuild"),
    ],
)
def test_rebuilds_that_cannot_be(on: Cli, arguments: tuple[str, ...], why: str) -> None:
    """What cannot be rebuilt is exit code 2 and says why."""
    result = on("projections", "rebuild", *arguments)
    assert (result.code, result.out) == (2, "")
    assert why in " ".join(result.err.replace("│", " ").split())
    assert "Traceback" not in result.err


@pytest.mark.filled(by=fed_worlds)
def test_a_rebuild_that_may_not_take_over(on: Cli, database_url: str) -> None:
    """Where the new build has parked a world that the live one has not, people read on what is live; exit code 1."""
    before = rows(database_url, "world_summaries")
    lose(database_url, "b")
    result = on("projections", "rebuild", "world_summaries")
    assert (result.code, result.out) == (1, "")
    assert "\nworldledger: the rebuild of world_summaries cannot take over: 1 worlds are parked" in f"\n{result.err}"
    assert rows(database_url, "world_summaries") == before
    status = on("projections", "status", "world_summaries").out
    assert "live, rebuilding" in status
    assert "world_summaries: world b is parked at seq 4, " in status
    put_back(database_url)
    assert on("projections", "retry", "world_summaries").out == "released 1 world of world_summaries\n"
    assert on("projections", "rebuild", "world_summaries").out == "rebuilt world_summaries, 21 effects\n"


@pytest.mark.filled(by=fed_worlds)
def test_a_rebuild_is_cancelled(on: Cli, database_url: str) -> None:
    """--cancel drops what is under way, if anything is, and leaves what is live."""
    lose(database_url, "b")
    assert on("projections", "rebuild", "entities").code == 1
    assert on("projections", "rebuild", "entities", "games", "--cancel") == (
        0,
        "cancelled the rebuild of entities\nno rebuild of games is under way\n",
        "",
    )
    assert sql(database_url, "select count(*) from projection_builds where status = 'building'") == [(0,)]
    assert sql(database_url, "select count(*) from projections.entities where world_id = 'b'") == [(2,)]


# -- verify --------------------------------------------------------------------------------------------------


@pytest.mark.filled(by=fed_worlds)
def test_what_is_live_is_verified(on: Cli) -> None:
    """Each projection is a line, and status remembers it."""
    assert on("projections", "verify", "games", "entities") == (
        0,
        "verified games 1 rows of 1 worlds\nverified entities 7 rows of 3 worlds\n",
        "",
    )
    assert " verified " in on("projections", "status", "games").out
    found = json.loads(on("projections", "verify", "games", "--json").out)
    assert [(report["projection"], report["verified"], report["finding"]) for report in found] == [
        ("games", True, None)
    ]


@pytest.mark.filled(by=fed_worlds)
def test_a_row_that_was_edited_is_found(on: Cli, database_url: str) -> None:
    """The world, the key, the column and both values are named; the exit code is 1 and the others are checked."""
    sql(database_url, "update projections.entities_1 set x = 99 where world_id = 'b' and entity_id = 'bob'")
    result = on("projections", "verify", "entities", "games")
    assert result == (
        1,
        (
            "DIFFERS entities: world b, entity_id bob: column x differs: live is 99, the log gives 2\n"
            "verified games 1 rows of 1 worlds\n"
        ),
        "",
    )
    assert "DIFFERS" in on("projections", "status", "entities").out
    (report,) = json.loads(on("projections", "verify", "entities", "--json").out)
    finding = report["finding"]
    assert (finding["world_id"], finding["key"]["entity_id"], finding["column"]) == ("b", "bob", "x")
    assert (finding["live"], finding["expected"]) == ("99", "2")


@pytest.mark.filled(by=fed_worlds)
@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("delete from projections.entities_1 where entity_id = 'bob' and world_id = 'a'", "the row is missing"),
        (
            (
                "insert into projections.entities_1 select 'a', 'eve', entity, x, y, z, updated_seq, updated_sim_time"
                " from projections.entities_1 where entity_id = 'bob' and world_id = 'a'"
            ),
            "the row is extra",
        ),
    ],
    ids=["missing", "extra"],
)
def test_rows_that_are_too_few_or_too_many(on: Cli, database_url: str, statement: str, what: str) -> None:
    """A row that is missing, or one too many, is found as well."""
    sql(database_url, statement)
    result = on("projections", "verify", "entities")
    assert result.code == 1
    assert result.out.startswith("DIFFERS entities: world a, entity_id ")
    assert what in result.out


def test_what_was_never_built_cannot_be_verified(on: Cli, database_url: str) -> None:
    """A check that cannot be run is exit code 2; the others are run, and a finding outweighs it."""
    record(database_url, "a", BAZAAR)
    assert on("projections", "rebuild", "entities").code == 0
    result = on("projections", "verify", "games", "entities")
    assert (result.code, result.out) == (2, "verified entities 2 rows of 1 worlds\n")
    assert result.err.startswith("worldledger: projection games cannot be checked")
    sql(database_url, "delete from projections.entities_1")
    assert on("projections", "verify", "games", "entities", "--json").code == 1
