"""`worlds` and `log`: what is in the database, on stdout and nowhere else."""

from __future__ import annotations

import json
import signal

import pytest

from tests.waiting import block_until

from .conftest import Cli
from .helpers import Running, append, call, into_a_closed_pipe, seed, sql, untouched


def test_worlds_as_a_table(on: Cli, database_url: str) -> None:
    """Worlds stand in aligned columns, by name; --experiment picks."""
    seed(database_url, "b", experiment="second try")
    seed(database_url, "a-long-name", 3)
    result = on("worlds")
    assert (result.code, result.err) == (0, "")
    header, *rows = (line.split("  ") for line in result.out.splitlines())
    assert header[0] == "WORLD"
    assert [[cell.strip() for cell in row if cell.strip()][:4] for row in rows] == [
        ["a-long-name", "sandbox", "-", "4"],
        ["b", "sandbox", "second try", "10"],
    ]
    assert len(on("worlds", "--experiment", "second try").out.splitlines()) == 2


def test_one_long_name_does_not_widen_the_table(on: Cli, database_url: str) -> None:
    """A name over the widest column stands whole in a line of its own; the other rows stay as they are."""
    long = "b" * 150
    for world_id in ("a", long, "c"):
        seed(database_url, world_id, 1)
    header, first, second, rest, third = on("worlds").out.splitlines()
    assert second == long
    assert rest[:64].isspace()
    place = header.index("RULESET")
    assert {line[place:].split()[0] for line in (first, rest, third)} == {"sandbox"}
    assert place == 66


def test_worlds_as_json(on: Cli, database_url: str) -> None:
    """--json is a list of objects with the head, an empty one where there is nothing."""
    assert on("worlds", "--json") == (0, "[]\n", "")
    seed(database_url, "w", experiment="é")
    seed(database_url, "v")
    found = json.loads(on("worlds", "--json").out)
    assert [(world["world_id"], world["ruleset"], world["experiment"], world["head_seq"]) for world in found] == [
        ("v", "sandbox", None, 10),
        ("w", "sandbox", "é", 10),
    ]
    ((checksum,),) = sql(database_url, "select encode(head_checksum, 'hex') from heads where world_id = 'v'")
    assert found[0]["head_checksum"] == checksum


@pytest.mark.filled(by=untouched, read=True)
def test_no_worlds_is_said_on_stderr(on: Cli) -> None:
    """Where there is nothing to list, stdout stays empty and a word says what to do."""
    result = on("worlds", "--experiment", "x")
    assert (result.code, result.out) == (0, "")
    assert "no worlds in the experiment 'x'" in result.err
    assert "make one with `worldledger world create`" in result.err


def test_what_would_steer_a_terminal_is_shown_as_text(on: Cli, database_url: str) -> None:
    """Control characters in a label reach no terminal."""
    seed(database_url, "w", experiment="\x1b[31mred")
    assert r"\x1b[31mred" in on("worlds").out
    assert json.loads(on("worlds", "--json").out)[0]["experiment"] == "\x1b[31mred"


def test_log_is_the_stored_bytes(on: Cli, database_url: str) -> None:
    """Each line is the stored text of an effect; ranges and filters pick lines."""
    seed(database_url, "w", 9)
    stored = [row[0] for row in sql(database_url, "select effect::text from effects order by global_seq")]
    assert on("log", "w") == (0, "".join(f"{line}\n" for line in stored), "")
    assert on("log", "w", "--after", "3", "--until", "5").out.splitlines() == stored[3:5]
    assert on("log", "w", "--after", "10").out == ""
    assert on("log", "w", "--until", "0").out == ""
    assert on("log", "w", "--kind", "Said").out.splitlines() == [line for line in stored if '"kind":"Said"' in line]
    assert on("log", "w", "--source", "a1", "--kind", "Moved").out.splitlines() == [
        line for line in stored if '"source_id":"a1"' in line and '"kind":"Moved"' in line
    ]


@pytest.mark.filled(by=untouched, read=True)
def test_log_of_an_unknown_world(on: Cli) -> None:
    """An unknown world, and a name that no world can have, are exit code 2 and one line."""
    result = on("log", "nowhere")
    assert result == (2, "", "worldledger: no world named 'nowhere'; `worldledger worlds` lists all\n")
    result = on("log", "no/where")
    assert (result.code, result.out) == (2, "")
    assert "allowed: 1 to 200 characters" in result.err


def test_log_into_a_closed_pipe(database_url: str) -> None:
    """A reader that stops early, as `head` does, gets what it read, and no complaint is heard."""
    seed(database_url, "w", 3000)
    line, result = into_a_closed_pipe("log", "w", "--database-url", database_url)
    assert json.loads(line)["global_seq"] == 1
    assert result == (0, "", "")


def test_follow_goes_on_with_new_effects(database_url: str) -> None:
    """--follow writes what comes, also behind a filter, until Ctrl-C."""
    seed(database_url, "w", 2)
    with Running("log", "w", "--follow", "--after", "1", "--database-url", database_url) as running:
        assert [json.loads(running.line())["global_seq"] for _ in range(2)] == [2, 3]
        append(database_url, "w", 2)
        assert [json.loads(running.line())["global_seq"] for _ in range(2)] == [4, 5]
        result = running.end(signal.SIGINT)
    assert result == (130, "", "worldledger: stopped\n")


def test_follow_to_an_end(database_url: str) -> None:
    """With --until, --follow ends by itself once that effect is there."""
    seed(database_url, "w", 1)
    with Running("log", "w", "-f", "--until", "4", "--kind", "Said", "--database-url", database_url) as running:
        append(database_url, "w", 2)
        assert json.loads(running.line())["global_seq"] == 4
        assert running.end().code == 0


def test_follow_outlives_lost_connections(database_url: str) -> None:
    """When the database drops its connections, --follow goes on with the next effect."""
    seed(database_url, "w", 1)
    with Running("log", "w", "--follow", "--after", "2", "--database-url", database_url) as running:
        for seq in (3, 4):
            append(database_url, "w", 1)
            assert json.loads(running.line())["global_seq"] == seq
            statement = """
                select pg_terminate_backend(pid) from pg_stat_activity
                where datname = current_database() and pid <> pg_backend_pid()
            """
            block_until(lambda statement=statement: sql(database_url, statement), "a connection to cut")  # type: ignore[misc]
        append(database_url, "w", 1)
        assert json.loads(running.line())["global_seq"] == 5
        assert running.end(signal.SIGTERM).code == 143


def test_database_named_by_a_variable(database_url: str) -> None:
    """WORLDLEDGER_DATABASE_URL names the database; a --home that is typed beats it."""
    seed(database_url, "w", 1)
    assert call("log", "w", "--until", "0", WORLDLEDGER_DATABASE_URL=database_url).code == 0
    result = call("log", "w", "--home", "/dev/null/nowhere", WORLDLEDGER_DATABASE_URL=database_url)
    assert result.code == 2
    assert "/dev/null/nowhere" in result.err
