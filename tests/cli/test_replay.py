"""`replay`: a world's history passes by again, in its rhythm."""

from __future__ import annotations

import json
import signal

import pytest

from tests.waiting import block_until

from .conftest import Cli
from .helpers import BAZAAR, UNGUARDED, Running, into_a_closed_pipe, record, say, sql

#: So far apart that a test never sees the second one come.
YEARS = [say("a", "Speak", 0.0, text="now"), say("a", "Speak", 0.0, text="too"), say("b", "Speak", 9e7, text="later")]

SIGNALS = pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)


def test_a_replay_for_people(on: Cli, database_url: str) -> None:
    """Each effect is a line: seq, time, kind, source and payload; a long payload is cut off."""
    record(database_url, "bazaar", [*BAZAAR, say("ann", "Speak", 10.25, text="long " * 100)])
    result = on("replay", "bazaar", "--from", "5", "--speed", "max")
    assert (result.code, result.err) == (0, "")
    *lines, last = result.out.splitlines()
    assert lines == [
        '5    4.0  Speak           alice           {"text":"figs!"}',
        '6    8.0  Interact        bob             {"target_id":"alice"}',
        "7    9.0  Sneezed         bob             {}",
    ]
    assert last.startswith('8  10.25  Speak           ann             {"text":"long long')
    assert (last[-1], len(last)) == ("…", 160)
    assert on("replay", "bazaar", "--from", "5", "--to", "5", "--clock", "wall").out.startswith(
        "5  2023-11-14T22:13:20.000000Z  Speak "
    )


def test_a_replay_as_json_is_the_stored_bytes(on: Cli, database_url: str) -> None:
    """--json writes the stored text of each effect."""
    record(database_url, "bazaar", BAZAAR)
    stored = [row[0] for row in sql(database_url, "select effect::text from effects order by global_seq")]
    assert on("replay", "bazaar", "--json", "--speed", "0").out.splitlines() == stored
    assert on("replay", "bazaar", "--json", "--speed", "1e9").out.splitlines() == stored


def bazaar(database_url: str) -> None:
    """Record a world whose last effects came a minute after the others."""
    record(database_url, "bazaar", BAZAAR[:4])
    record(database_url, "bazaar", BAZAAR[4:], wall_time=1.7e9 + 60)


@pytest.mark.filled(by=bazaar, read=True)
@pytest.mark.parametrize(
    ("options", "seqs"),
    [
        (("--from", "3", "--to", "5"), [3, 4, 5]),
        (("--from", "head"), [7]),
        (("--from", "sim:1"), [2, 3, 4, 5, 6, 7]),
        (("--from", "sim:1.5", "--to", "sim:4"), [4, 5]),
        (("--from", "sim:-5", "--to", "sim:0.5"), [1]),
        (("--from", "wall:2023-11-14T22:13:20Z", "--to", "2"), [1, 2]),
        (("--from", "wall:2023-11-14T22:13:21Z"), [6, 7]),
        (("--from", "wall:2023-11-14T22:14:20.000000Z"), [6, 7]),
        (("--to", "wall:2023-11-14T22:14:19.999999Z"), [1, 2, 3, 4, 5]),
        (("--to", "wall:2023-11-14T22:13:21Z"), [1, 2, 3, 4, 5]),
    ],
)
def test_ranges(on: Cli, options: tuple[str, ...], seqs: list[int]) -> None:
    """--from is the first effect that is not before a moment, --to the last that is not after one."""
    out = on("replay", "bazaar", "--json", "--speed", "max", *options).out
    assert [json.loads(line)["global_seq"] for line in out.splitlines()] == seqs


@pytest.mark.filled(by=bazaar, read=True)
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "name one world"),
        (("bazaar", "other"), "name one world"),
        (("--all",), "--all is of no use without --check"),
        (("bazaar", "--all"), "--all is of no use without --check"),
        (("bazaar", "--jobs", "2"), "--jobs is of no use without --check"),
        (("bazaar", "--check", "--speed", "2"), "--speed is of no use with --check"),
        (("bazaar", "--check", "--from", "2"), "--from is of no use with --check"),
        (("bazaar", "--check", "--to", "2"), "--to is of no use with --check"),
        (("bazaar", "--check", "--clock", "sim"), "--clock is of no use with --check"),
        (("--check",), "name the worlds to check, or give --all"),
        (("--check", "--all", "bazaar"), "name the worlds to check, or give --all"),
        (("--check", "bazaar", "--jobs", "0"), "'--jobs'"),
        (("bazaar", "--speed", "-1"), "time goes forward only"),
        (("bazaar", "--speed", "nan"), "'nan' is not a finite number: give a number from 0 on, or max"),
        (("bazaar", "--speed", "fast"), "'fast' is not a finite number"),
        (("bazaar", "--clock", "moon"), "'--clock'"),
        (("bazaar", "--from", "noon"), "invalid value for '--from'"),
        (("bazaar", "--to", "wall:2023-11-14"), "invalid value for '--to'"),
        (("bazaar", "--from", "8"), "has no seq 8; its head is 7"),
        (("bazaar", "--from", "0"), "has no seq 0"),
        (("bazaar", "--from", "sim:9.1"), "no effect at or after sim_time 9.1"),
        (("bazaar", "--from", "wall:2023-11-14T22:14:21Z"), "no effect at or after 2023-11-14T22:14:21.000000Z"),
        (("bazaar", "--to", "sim:-1"), "no effect at or before sim_time -1.0"),
        (("bazaar", "--from", "5", "--to", "4"), "--from is seq 5, which lies behind --to, seq 4"),
        (("bazaar", "--from", "sim:5", "--to", "sim:6"), "--from is seq 6, which lies behind --to, seq 5"),
        (("nowhere",), "no world named 'nowhere'"),
    ],
)
def test_wrong_usage(on: Cli, arguments: tuple[str, ...], why: str) -> None:
    """What makes no sense is exit code 2 and says why."""
    result = on("replay", *arguments)
    assert (result.code, result.out) == (2, "")
    assert why in " ".join(result.err.replace("│", " ").split())
    assert "Traceback" not in result.err


@SIGNALS
def test_a_paced_replay_is_stopped(database_url: str, number: int, code: int) -> None:
    """What is due has been written when it waits; it says how long that would take, and Ctrl-C ends it in order."""
    record(database_url, "w", YEARS)
    with Running("replay", "w", "--database-url", database_url) as running:
        assert [running.line().split()[0] for _ in range(3)] == ["1", "2", "3"]
        block_until(lambda: "seq 4 comes in" in running.err, "it waits")
        said = (
            "worldledger: replaying 4 of 4 effects takes 1041 d 16 h; a higher --speed makes it shorter, "
            "--speed max leaves the pauses out\n"
            "worldledger: seq 4 comes in 1041 d 16 h\n"
            "worldledger: stopped\n"
        )
        assert running.end(number) == (code, "", said)


def test_a_paced_replay_waits_as_long_as_the_speed_says(on: Cli, database_url: str) -> None:
    """The same pauses at a speed that makes them short: nothing is said, and everything comes."""
    record(database_url, "w", YEARS)
    result = on("replay", "w", "--speed", "1e9")
    assert (result.code, len(result.out.splitlines()), result.err) == (0, 4, "")
    assert on("replay", "w", "--clock", "wall").out.count("\n") == 4
    assert on("replay", "w", "--from", "4").out.count("\n") == 1


def test_quiet(database_url: str) -> None:
    """--quiet does not say how long it takes."""
    record(database_url, "w", YEARS)
    with Running("replay", "w", "-q", "--json", "--database-url", database_url) as running:
        assert [json.loads(running.line())["global_seq"] for _ in range(3)] == [1, 2, 3]
        assert running.end(signal.SIGINT).err == "worldledger: stopped\n"


def test_a_replay_outlives_lost_connections(database_url: str) -> None:
    """When the database drops its connections during a pause, the replay goes on with the next effect."""
    times = [*range(2000), 2000.5]  # more than one batch, so that there is still something to be read
    record(database_url, "w", [say("a", "Speak", float(time), text="x") for time in times])
    with Running("replay", "w", "--speed", "5000", "--json", "--database-url", database_url) as running:
        assert json.loads(running.line())["global_seq"] == 1
        cut = """
            select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid()
        """
        block_until(lambda: sql(database_url, cut), "a connection to cut")
        result = running.end()
    assert result.code == 0
    assert [json.loads(line)["global_seq"] for line in result.out.splitlines()] == list(range(2, 2003))


def test_a_replay_into_a_closed_pipe(database_url: str) -> None:
    """A reader that stops early, as `head` does, gets what it read, and no complaint is heard."""
    record(database_url, "w", [say("a", "Speak", float(n), text="x") for n in range(3000)])
    line, result = into_a_closed_pipe("replay", "w", "--speed", "max", "--database-url", database_url)
    assert line.split()[0] == "1"
    assert result == (0, "", "")


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("delete from effects where global_seq = 4", "missing: the next effect in the log is seq 5"),
        ("update effects set effect = '[4]' where global_seq = 4", "checksum differs: stored "),
        (
            "update effects set effect = replace(effect::text, '[2.0,', '[2.5,')::json where global_seq = 4",
            "checksum differs: stored ",
        ),
    ],
)
def test_a_tampered_effect_ends_the_replay(on: Cli, database_url: str, statement: str, what: str) -> None:
    """A replay passes over nothing: what comes before an effect that is gone or changed is written, and it is named."""
    record(database_url, "bazaar", BAZAAR)
    sql(database_url, UNGUARDED, statement)
    for options in ((), ("--json",), ("--from", "2")):
        result = on("replay", "bazaar", "--speed", "max", *options)
        assert (result.code, len(result.out.splitlines())) == (1, 2 if "2" in options else 3)
        assert result.err.startswith(f"worldledger: world bazaar, seq 4: {what}")
        assert result.err.endswith("; run `worldledger verify`\n")


def test_a_replay_from_a_moment_knows_the_checksum_before_it(on: Cli, database_url: str) -> None:
    """The first effect that is written has to follow from the checksum of the one before, which has to be there."""
    record(database_url, "bazaar", BAZAAR)
    assert on("replay", "bazaar", "--from", "5", "--speed", "max").code == 0
    sql(database_url, UNGUARDED, "update effects set checksum = sha256('x') where global_seq = 4")
    result = on("replay", "bazaar", "--from", "5", "--speed", "max")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("worldledger: world bazaar, seq 5: checksum differs: ")
    sql(database_url, "delete from effects where global_seq = 4")
    result = on("replay", "bazaar", "--from", "5", "--speed", "max")
    assert (result.code, result.out) == (1, "")
    assert result.err == "worldledger: world bazaar, seq 4: missing from the log; run `worldledger verify`\n"


def test_a_replay_whose_last_effect_is_gone(on: Cli, database_url: str) -> None:
    """It ends before it begins: the last effect, which the head names, has to be there."""
    record(database_url, "bazaar", BAZAAR)
    sql(database_url, UNGUARDED, "delete from effects where global_seq = 7")
    result = on("replay", "bazaar", "--speed", "max")
    assert (result.code, result.out) == (1, "")
    assert result.err == "worldledger: world bazaar, seq 7: missing from the log; run `worldledger verify`\n"
