"""`replay --check`: worlds are replayed, several at the same time, and must come out as recorded."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

import psutil
import pytest

from service.cli import replay_check
from worldledger.rulesets import load_ruleset

from .conftest import Cli
from .helpers import BAZAAR, UNGUARDED, Lock, Running, call, record, seed, sql, wait_for

_EFFECTS = "lock table effects in access exclusive mode"


@pytest.fixture
def spawning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have worlds shared out among processes, however small they are."""
    monkeypatch.setattr(replay_check, "SPAWN_FROM", 0)
    monkeypatch.setattr(replay_check, "_JOB", 1)


@pytest.fixture
def worlds(on: Cli, database_url: str) -> None:
    """Make three worlds, two of them with a snapshot whose digest stands in the log."""
    for name in ("a", "b", "c"):
        record(database_url, name, BAZAAR)
    for name in ("a", "b"):
        assert on("snapshot", name).code == 0


AGREED = {
    "a": "agreed a 8 effects, 1 digest and 1 snapshot, the last at seq 7",
    "b": "agreed b 8 effects, 1 digest and 1 snapshot, the last at seq 7",
    "c": "replayed c 7 effects, nothing to compare with",
}


@pytest.mark.usefixtures("worlds")
@pytest.mark.parametrize("more", [(), ("--jobs", "1"), ("--jobs", "9")], ids=" ".join)
def test_all_agree(on: Cli, more: tuple[str, ...]) -> None:
    """Each world is a line, and the exit code is 0."""
    result = on("replay", "--check", "--all", *more)
    assert result == (0, "".join(f"{line}\n" for line in AGREED.values()), "worldledger: 3 agreed, 0 did not\n")
    assert on("replay", "b", "--check") == (0, f"{AGREED['b']}\n", "")
    assert on("replay", "c", "a", "c", "--check").out == f"{AGREED['c']}\n{AGREED['a']}\n"
    assert on("replay", "--check", "--all", "-q") == (0, "", "")


@pytest.mark.usefixtures("worlds", "spawning")
def test_all_agree_in_several_processes(on: Cli) -> None:
    """Shared out among processes it is the same, in the same order, and none of them is left."""
    result = on("replay", "--check", "--all", "--jobs", "3")
    assert result == (0, "".join(f"{line}\n" for line in AGREED.values()), "worldledger: 3 agreed, 0 did not\n")
    assert not [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]


@pytest.mark.usefixtures("worlds")
def test_json(on: Cli) -> None:
    """--json is a list of objects."""
    found = json.loads(on("replay", "--check", "a", "c", "--json").out)
    assert found == [
        {"world_id": "a", "agreed": True, "effects": 8, "digests": 1, "snapshots": 1, "agreed_seq": 7, "finding": None},
        {"world_id": "c", "agreed": True, "effects": 7, "digests": 0, "snapshots": 0, "agreed_seq": 0, "finding": None},
    ]


FINDINGS: list[tuple[str, str, str, int, str]] = [
    (
        "tampered",
        "TAMPERED",
        "update effects set effect = replace(effect::text, '2.5', '2.6')::json where world_id = 'b' and global_seq = 4",
        4,
        "checksum",
    ),
    (
        "tampered",
        "TAMPERED",
        "delete from effects where world_id = 'b' and global_seq = 5",
        5,
        "missing",
    ),
    (
        "snapshot",
        "DAMAGED",
        "update snapshots set state_digest = decode(repeat('ab', 32), 'hex') where world_id = 'b'",
        7,
        "its state is not what was digested",
    ),
]


@pytest.mark.usefixtures("worlds")
@pytest.mark.parametrize(("kind", "word", "statement", "seq", "what"), FINDINGS)
def test_findings(on: Cli, database_url: str, kind: str, word: str, statement: str, seq: int, what: str) -> None:
    """What does not come out as recorded is named by world, seq and kind; the exit code is 1, the others go on."""
    sql(database_url, UNGUARDED, statement)
    result = on("replay", "--check", "--all")
    assert result.code == 1
    first, second, third = result.out.splitlines()
    assert (first, third) == (AGREED["a"], AGREED["c"])
    assert second.startswith(f"{word} b at seq {seq}: ")
    assert what in second
    assert result.err == f"worldledger: {second}\nworldledger: 2 agreed, 1 did not\n"
    assert on("replay", "--check", "--all", "--quiet").out == f"{second}\n"
    (found,) = json.loads(on("replay", "--check", "b", "--json").out)
    assert not found["agreed"]
    assert (found["finding"]["kind"], found["finding"]["global_seq"]) == (kind, seq)
    assert what in found["finding"]["what"]


@pytest.mark.usefixtures("worlds")
def test_a_changed_ruleset(on: Cli, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ruleset that now makes other states of an old log is told as that."""
    sandbox = load_ruleset("sandbox")
    handlers = {kind: handler for kind, handler in sandbox.handlers.items() if kind != "Speak"}
    monkeypatch.setattr(type(sandbox), "handlers", handlers)
    monkeypatch.setattr(type(sandbox), "version", 2)
    result = on("replay", "--check", "--all")
    assert result.code == 1
    lines = result.out.splitlines()
    assert [line.partition(":")[0] for line in lines[:2]] == [
        "RULESET CHANGED a at seq 7",
        "RULESET CHANGED b at seq 7",
    ]
    assert "recorded under sandbox 1, replayed under sandbox 2" in lines[0]
    assert lines[2] == AGREED["c"]


@pytest.mark.usefixtures("worlds")
@pytest.mark.parametrize("table", ["worlds", "heads"])
def test_a_world_without_its_row(on: Cli, database_url: str, table: str) -> None:
    """A world whose row is gone while its log is there is tampered with, not absent."""
    sql(
        database_url,
        f"alter table {table} disable trigger all",
        f"delete from {table} where world_id = 'b'",
    )
    for command in (("--all",), ("b",)):
        result = on("replay", "--check", *command)
        assert result.code == 1
        assert f"TAMPERED b at seq 1: the row of this world is missing from the table {table}" in result.out


@pytest.mark.usefixtures("worlds")
def test_worlds_that_cannot_be_checked(on: Cli, database_url: str) -> None:
    """A world that there is not, or whose ruleset is not installed, is exit code 2; the others are checked."""
    sql(database_url, "alter table worlds disable trigger all", "update worlds set ruleset = 'go' where world_id = 'c'")
    result = on("replay", "--check", "a", "nowhere", "no/where", "c")
    assert (result.code, result.out) == (2, f"{AGREED['a']}\n")
    lines = result.err.splitlines()
    assert lines[0] == "worldledger: no world named 'nowhere'"
    assert "allowed: 1 to 200" in lines[1]
    assert "'go'" in lines[2]
    assert lines[3] == "worldledger: 1 agreed, 0 did not, 3 not checked"
    sql(database_url, "delete from snapshots", UNGUARDED, "delete from effects where world_id = 'b' and global_seq = 5")
    assert on("replay", "--check", "--all").code == 1


def test_no_worlds(on: Cli) -> None:
    """An empty database has nothing to disagree with."""
    assert on("replay", "--check", "--all") == (0, "", "worldledger: there are no worlds to replay\n")
    assert on("replay", "--check", "--all", "--json", "-q") == (0, "[]\n", "")


# -- processes -----------------------------------------------------------------------------------------------


@pytest.fixture
def large(database_url: str) -> None:
    """Make worlds that are large enough to be shared out."""
    for name in ("a", "b"):
        seed(database_url, name, replay_check.SPAWN_FROM // 2)


def offspring(process: psutil.Process) -> list[psutil.Process]:
    """Give the processes that replay worlds for another."""
    return [child for child in process.children(recursive=True) if "spawn_main" in " ".join(child.cmdline())]


def gone(processes: list[psutil.Process]) -> Callable[[], bool]:
    """Give what tells whether none of these processes is left."""
    return lambda: not any(process.is_running() and process.status() != "zombie" for process in processes)


def waiting(url: str) -> int:
    """Tell how many connections wait for a lock."""
    statement = """
        select count(*) from pg_stat_activity
        where datname = current_database() and application_name = 'worldledger' and wait_event_type = 'Lock'
    """
    ((count,),) = sql(url, statement)
    return int(count)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    ("send", "number", "code"),
    [
        (os.killpg, signal.SIGINT, 130),
        (os.kill, signal.SIGINT, 130),
        (os.kill, signal.SIGTERM, 143),
    ],
    ids=["Ctrl-C in a terminal", "SIGINT", "SIGTERM"],
)
def test_a_stopped_check_leaves_no_process(
    database_url: str, send: Callable[[int, int], None], number: int, code: int
) -> None:
    """Ctrl-C, which a terminal sends to the whole group, ends all processes in order, and one word is said."""
    command = ("replay", "--check", "a", "b", "--jobs", "2", "--database-url", database_url)
    with Lock(database_url, _EFFECTS), Running(*command, start_new_session=True) as running:
        wait_for(lambda: waiting(database_url) >= 2, "two processes wait for the lock")
        workers = offspring(psutil.Process(running.process.pid))
        assert len(workers) == 2
        send(running.process.pid, number)
        assert running.end() == (code, "", "worldledger: stopped\n")
        assert gone(workers)()


@pytest.mark.usefixtures("large")
def test_a_killed_check_leaves_no_process(database_url: str) -> None:
    """When the command is killed, its processes notice and end by themselves."""
    command = ("replay", "--check", "a", "b", "--jobs", "2", "--database-url", database_url)
    with Lock(database_url, _EFFECTS), Running(*command) as running:
        wait_for(lambda: waiting(database_url) >= 2, "two processes wait for the lock")
        workers = offspring(psutil.Process(running.process.pid))
        running.process.kill()
        wait_for(gone(workers), "the processes end")
        assert running.end().code == -9


@pytest.mark.usefixtures("large")
def test_a_process_that_is_killed(database_url: str) -> None:
    """When one of its processes is killed the check could not be run: exit code 2, and no other one is left."""
    command = ("replay", "--check", "a", "b", "--jobs", "2", "--database-url", database_url)
    with Lock(database_url, _EFFECTS), Running(*command) as running:
        wait_for(lambda: waiting(database_url) >= 2, "two processes wait for the lock")
        workers = offspring(psutil.Process(running.process.pid))
        workers[0].kill()
        result = running.end()
        assert gone(workers)()
    assert result == (2, "", "worldledger: a process that shared the work has ended (exit code -9)\n")


@pytest.mark.usefixtures("large")
def test_a_database_that_goes_away(database_url: str) -> None:
    """An outage is exit code 2 and one sentence."""
    command = ("replay", "--check", "a", "b", "--jobs", "2", "--database-url", database_url)
    with Lock(database_url, _EFFECTS), Running(*command) as running:
        wait_for(lambda: waiting(database_url) >= 2, "two processes wait for the lock")
        name = urlsplit(database_url).path[1:]
        server = urlunsplit(urlsplit(database_url)._replace(path="/postgres"))
        sql(server, f"alter database {name} allow_connections false")
        sql(server, f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'")
        result = running.end()
        sql(server, f"alter database {name} allow_connections true")
    assert (result.code, result.out) == (2, "")
    assert "Traceback" not in result.err


@pytest.mark.usefixtures("large")
def test_a_large_check(database_url: str) -> None:
    """Worlds that are shared out are all checked."""
    result = call("replay", "--check", "--all", "--jobs", "2", "--database-url", database_url)
    many = replay_check.SPAWN_FROM // 2 + 1
    assert result == (
        0,
        f"replayed a {many} effects, nothing to compare with\nreplayed b {many} effects, nothing to compare with\n",
        "worldledger: 2 agreed, 0 did not\n",
    )
