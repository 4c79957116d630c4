"""`replay --check`: worlds are replayed, several at the same time, and must come out as recorded."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psutil
import pytest
from worldledger_service.cli import replay
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from tests.waiting import block_until
from worldledger.effects import EffectDraft
from worldledger.observation import ObservationPolicy, PolicyConfig
from worldledger.rulesets import load_ruleset

from .conftest import Cli
from .helpers import BAZAAR, UNGUARDED, Lock, Running, call, done, record, seed, sql

_EFFECTS = "lock table effects in access exclusive mode"


@pytest.fixture
def spawning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have worlds shared out among processes, however small they are."""
    monkeypatch.setattr(replay, "SPAWN_FROM", 0)
    monkeypatch.setattr(replay, "_JOB", 1)


def worlds(url: str) -> None:
    """Make three worlds, two of them with a snapshot whose digest stands in the log."""
    for name in ("a", "b", "c"):
        record(url, name, BAZAAR)
    for name in ("a", "b"):
        done("snapshot", name, "--database-url", url)


AGREED = {
    "a": "agreed a 8 effects, 1 digest and 1 snapshot, the last at seq 7",
    "b": "agreed b 8 effects, 1 digest and 1 snapshot, the last at seq 7",
    "c": "replayed c 7 effects, nothing to compare with",
}


@pytest.mark.filled(by=worlds)
@pytest.mark.parametrize("more", [(), ("--jobs", "1"), ("--jobs", "9")], ids=" ".join)
def test_all_agree(on: Cli, more: tuple[str, ...]) -> None:
    """Each world is a line, and the exit code is 0."""
    result = on("replay", "--check", "--all", *more)
    assert result == (
        0,
        "".join(f"{line}\n" for line in AGREED.values()),
        _SUM,
    )
    assert on("replay", "b", "--check") == (0, f"{AGREED['b']}\n", "")
    assert on("replay", "c", "a", "c", "--check").out == f"{AGREED['c']}\n{AGREED['a']}\n"
    assert on("replay", "--check", "--all", "-q") == (0, "", "")


@pytest.mark.filled(by=worlds)
@pytest.mark.usefixtures("spawning")
def test_all_agree_in_several_processes(on: Cli) -> None:
    """Shared out among processes it is the same, in the same order, and none of them is left."""
    result = on("replay", "--check", "--all", "--jobs", "3")
    assert result == (
        0,
        "".join(f"{line}\n" for line in AGREED.values()),
        _SUM,
    )
    assert not [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]


@pytest.mark.filled(by=worlds)
def test_json(on: Cli) -> None:
    """--json is a list of objects."""
    found = json.loads(on("replay", "--check", "a", "c", "--json").out)
    views = {"views": 0, "unchecked_views": 0, "unchecked_because": None}
    a = {"world_id": "a", "agreed": True, "effects": 8, "digests": 1, "snapshots": 1, "agreed_seq": 7, "finding": None}
    c = {"world_id": "c", "agreed": None, "effects": 7, "digests": 0, "snapshots": 0, "agreed_seq": 0, "finding": None}
    assert found == [{**a, **views}, {**c, **views}]


_SUM = "worldledger: 2 agreed, 0 did not, 1 with nothing to compare with\n"

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
    (
        "snapshot",
        "DAMAGED",
        "update snapshots set checksum = decode(repeat('ab', 32), 'hex') where world_id = 'b'",
        7,
        "the log has another checksum there",
    ),
    (
        "snapshot",
        "DAMAGED",
        "update snapshots set ruleset = 'chess' where world_id = 'b'",
        7,
        "it is of ruleset chess, the world of sandbox",
    ),
    ("snapshot", "DAMAGED", "update snapshots set global_seq = 0 where world_id = 'b'", 0, "has no effect there"),
    ("snapshot", "DAMAGED", "update snapshots set global_seq = 99 where world_id = 'b'", 99, "has no effect there"),
]


@pytest.mark.filled(by=worlds)
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
    assert result.err == f"worldledger: {second}\nworldledger: 1 agreed, 1 did not, 1 with nothing to compare with\n"
    assert on("replay", "--check", "--all", "--quiet").out == f"{second}\n"
    if word == "DAMAGED" and "digested" not in what:
        assert " current " not in on("snapshots", "b").out
    (found,) = json.loads(on("replay", "--check", "b", "--json").out)
    assert not found["agreed"]
    assert (found["finding"]["kind"], found["finding"]["global_seq"]) == (kind, seq)
    assert what in found["finding"]["what"]


@pytest.mark.filled(by=worlds)
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


@pytest.mark.filled(by=worlds)
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


@pytest.mark.filled(by=worlds)
def test_worlds_that_cannot_be_checked(on: Cli, database_url: str) -> None:
    """A world that there is not, or whose ruleset is not installed, is exit code 2; the others are checked."""
    sql(database_url, "alter table worlds disable trigger all", "update worlds set ruleset = 'go' where world_id = 'c'")
    result = on("replay", "--check", "a", "nowhere", "no/where", "c")
    assert (result.code, result.out) == (2, f"{AGREED['a']}\n")
    lines = result.err.splitlines()
    assert lines[0] == "worldledger: no world named 'nowhere'; `worldledger worlds` lists all"
    assert "allowed: 1 to 200" in lines[1]
    assert "'go'" in lines[2]
    assert lines[3] == "worldledger: 1 agreed, 0 did not, 3 not checked"
    sql(database_url, "delete from snapshots", UNGUARDED, "delete from effects where world_id = 'b' and global_seq = 5")
    assert on("replay", "--check", "--all").code == 1


def test_no_worlds(on: Cli) -> None:
    """An empty database has nothing to disagree with."""
    assert on("replay", "--check", "--all") == (0, "", "worldledger: there are no worlds to replay\n")
    assert on("replay", "--check", "--all", "--json", "-q") == (0, "[]\n", "")


# -- views ---------------------------------------------------------------------------------------------------


def _says(kind: str, **payload: Any) -> EffectDraft:
    return {"kind": kind, "payload": payload, "source_id": "worldledger", "schema_version": "1.0.0"}


def _registers(agent_id: str, policy: str) -> EffectDraft:
    spec = {"name": policy, "version": 1, "config": {"distance_limit": 5.0}}
    return _says("AgentRegistered", agent_id=agent_id, policy=spec, permissions=[], weight=1)


def watched(url: str) -> None:
    """Have alice watch the worlds a (whose state has a digest at seq 7) and c, and somebody by an unknown policy."""
    worlds(url)

    async def work() -> None:
        async with Store.open(url, Settings(pool_size=2)) as store:
            for name in ("a", "c"):
                event_log = await store.log(name)
                drafts = [_registers("alice", "default"), _registers("bob", "no-such-policy")]
                *_, (seq, *_) = await event_log.append_all(drafts, system=True)
                fold = await store.states.fold_at(name, seq)
                policy = ObservationPolicy(PolicyConfig(distance_limit=5.0))
                digest = policy.filter_world_state(fold.state, "alice").context_digest
                said = [_says("ViewDigest", agent_id="alice", at_seq=seq, digest=digest)] * 2
                await event_log.append_all(said, system=True)

    asyncio.run(work())


def _view_digest(url: str, world_id: str, agent_id: str, at_seq: int) -> None:
    """Write a ViewDigest that nobody has seen the view of."""

    async def work() -> None:
        async with Store.open(url, Settings(pool_size=2)) as store:
            said = _says("ViewDigest", agent_id=agent_id, at_seq=at_seq, digest="0" * 64)
            await (await store.log(world_id)).append_all([said], system=True)

    asyncio.run(work())


WATCHED = {
    "a": "agreed a 12 effects, 1 digest and 1 snapshot, the last at seq 7; 2 views",
    "c": "agreed c 11 effects; 2 views",
}


@pytest.mark.filled(by=watched)
def test_views_agree(on: Cli) -> None:
    """How many views were proved is said, also where nothing was said of a state."""
    result = on("replay", "--check", "--all")
    lines = [WATCHED["a"], AGREED["b"], WATCHED["c"]]
    assert result == (
        0,
        "".join(f"{line}\n" for line in lines),
        "worldledger: 3 agreed, 0 did not\n",
    )
    (found,) = json.loads(on("replay", "--check", "c", "--json").out)
    assert (found["views"], found["unchecked_views"], found["agreed_seq"]) == (2, 0, 0)


@pytest.mark.filled(by=watched)
def test_unchecked_views(on: Cli, database_url: str) -> None:
    """A view by a policy that is not installed here is no finding, but it is said, with the reason."""
    _view_digest(database_url, "a", "bob", 10)
    result = on("replay", "--check", "a", "c")
    first, second = result.out.splitlines()
    agreed = WATCHED["a"].replace("12", "13")
    assert first.startswith(f"{agreed}; 1 unchecked view: there is no observation policy 'no-such-policy' version 1")
    assert (result.code, second) == (0, WATCHED["c"])
    assert result.err == "worldledger: 2 agreed, 0 did not, 1 unchecked view\n"
    (found,) = json.loads(on("replay", "--check", "a", "--json").out)
    assert (found["agreed"], found["views"], found["unchecked_views"]) == (True, 2, 1)
    assert found["unchecked_because"].startswith("there is no observation policy 'no-such-policy'")


@pytest.mark.filled(by=watched)
@pytest.mark.parametrize(
    ("agent_id", "seq", "what"),
    [
        ("alice", 9, "agent 'alice' was shown another view: the replayed view's digest is "),
        ("alice", 5, "agent 'alice' had no view, for it was not registered (ViewDigest in seq 12)"),
        ("eve", 10, "agent 'eve' had no view, for it was not registered (ViewDigest in seq 12)"),
        ("alice", 12, "this ViewDigest says what view agent 'alice' had at seq 12, which does not lie before it"),
        ("", 5, "this ViewDigest cannot be read"),
    ],
)
def test_a_view_that_differs(on: Cli, database_url: str, agent_id: str, seq: int, what: str) -> None:
    """A forged ViewDigest is told by world, seq and agent, and the others go on."""
    _view_digest(database_url, "c", agent_id, seq)
    at_seq = seq if agent_id else 12
    result = on("replay", "--check", "--all")
    assert result.code == 1
    first, second, third = result.out.splitlines()
    assert (first, second) == (WATCHED["a"], AGREED["b"])
    assert third.startswith(f"VIEW DIFFERS c at seq {at_seq}: {what}")
    assert result.err == f"worldledger: {third}\nworldledger: 2 agreed, 1 did not\n"
    (found,) = json.loads(on("replay", "--check", "c", "--json").out)
    assert (found["agreed"], found["effects"]) == (False, 12)
    assert (found["finding"]["kind"], found["finding"]["global_seq"]) == ("view_differs", at_seq)


@pytest.mark.filled(by=watched)
def test_an_edited_view_digest(on: Cli, database_url: str) -> None:
    """A ViewDigest that was edited in the database is tampering, whatever stands there now."""
    edit = """
        update effects set effect = regexp_replace(effect::text, '"digest":"..', '"digest":"\\u0000')::json
        where world_id = 'c' and global_seq = 10
    """
    sql(database_url, UNGUARDED, edit)
    result = on("replay", "--check", "c")
    assert result.code == 1
    assert result.out.startswith("TAMPERED c at seq 10: checksum differs")


# -- processes -----------------------------------------------------------------------------------------------


#: The program, which shares worlds out among processes however small they are.
SHARING = """
from worldledger_service.cli import replay
replay.SPAWN_FROM, replay._JOB = 0, 1
from worldledger_service.cli.entry import main
main()
"""


@pytest.fixture
def sharing(tmp_path: Path) -> Path:
    """Return the program that shares worlds out."""
    program = tmp_path / "sharing.py"
    program.write_text(SHARING)
    return program


def small(url: str) -> None:
    """Make worlds to be shared out."""
    for name in ("a", "b"):
        seed(url, name, 1000)


def large(url: str) -> None:
    """Make worlds that are large enough to be shared out."""
    for name in ("a", "b"):
        seed(url, name, replay.SPAWN_FROM // 2)


def offspring(process: psutil.Process) -> list[psutil.Process]:
    """Return the processes that replay worlds for another."""
    return [child for child in process.children(recursive=True) if "spawn_main" in " ".join(child.cmdline())]


def gone(processes: list[psutil.Process]) -> Callable[[], bool]:
    """Return what tells whether none of these processes is left."""
    return lambda: not any(process.is_running() and process.status() != "zombie" for process in processes)


def waiting(url: str) -> int:
    """Tell how many connections wait for a lock."""
    statement = """
        select count(*) from pg_stat_activity
        where datname = current_database() and application_name = 'worldledger' and wait_event_type = 'Lock'
    """
    ((count,),) = sql(url, statement)
    return int(count)


@pytest.mark.filled(by=small)
@pytest.mark.parametrize(
    ("send", "number", "code"),
    [
        (os.killpg, signal.SIGINT, 130),
        pytest.param(os.kill, signal.SIGINT, 130, marks=pytest.mark.thorough),
        pytest.param(os.kill, signal.SIGTERM, 143, marks=pytest.mark.thorough),
    ],
    ids=["Ctrl-C in a terminal", "SIGINT", "SIGTERM"],
)
def test_a_stopped_check_leaves_no_process(
    database_url: str, sharing: Path, send: Callable[[int, int], None], number: int, code: int
) -> None:
    """Ctrl-C, which a terminal sends to the whole group, ends all processes in order, and one word is said."""
    command = ("replay", "--check", "a", "b", "--jobs", "2", "--database-url", database_url)
    with Lock(database_url, _EFFECTS), Running(*command, program=sharing, start_new_session=True) as running:
        block_until(lambda: waiting(database_url) >= 2, "two processes wait for the lock")
        workers = offspring(psutil.Process(running.process.pid))
        assert len(workers) == 2
        send(running.process.pid, number)
        assert running.end() == (code, "", "worldledger: stopped\n")
        assert gone(workers)()


@pytest.mark.filled(by=small)
def test_a_killed_check_leaves_no_process(database_url: str, sharing: Path) -> None:
    """When the command is killed, its processes notice and end by themselves."""
    command = ("replay", "--check", "a", "b", "--jobs", "2", "--database-url", database_url)
    with Lock(database_url, _EFFECTS), Running(*command, program=sharing) as running:
        block_until(lambda: waiting(database_url) >= 2, "two processes wait for the lock")
        workers = offspring(psutil.Process(running.process.pid))
        running.process.kill()
        block_until(gone(workers), "the processes end")
        assert running.end().code == -9


@pytest.mark.filled(by=small)
def test_a_process_that_is_killed(database_url: str, sharing: Path) -> None:
    """When one of its processes is killed the check could not be run: exit code 2, and no other one is left."""
    command = ("replay", "--check", "a", "b", "--jobs", "2", "--database-url", database_url)
    with Lock(database_url, _EFFECTS), Running(*command, program=sharing) as running:
        block_until(lambda: waiting(database_url) >= 2, "two processes wait for the lock")
        workers = offspring(psutil.Process(running.process.pid))
        workers[0].kill()
        result = running.end()
        assert gone(workers)()
    assert result == (2, "", "worldledger: a process that shared the work has ended (exit code -9)\n")


@pytest.mark.thorough  # outages: test_replay, and of processes: those killed
@pytest.mark.filled(by=small)
def test_a_database_that_goes_away(database_url: str, sharing: Path) -> None:
    """An outage is exit code 2 and one sentence."""
    command = ("replay", "--check", "a", "b", "--jobs", "2", "--database-url", database_url)
    with Lock(database_url, _EFFECTS), Running(*command, program=sharing) as running:
        block_until(lambda: waiting(database_url) >= 2, "two processes wait for the lock")
        name = urlsplit(database_url).path[1:]
        server = urlunsplit(urlsplit(database_url)._replace(path="/postgres"))
        sql(server, f"alter database {name} allow_connections false")
        sql(server, f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'")
        result = running.end()
        sql(server, f"alter database {name} allow_connections true")
    assert (result.code, result.out) == (2, "")
    assert "Traceback" not in result.err


@pytest.mark.thorough
@pytest.mark.filled(by=large)
def test_a_large_check(database_url: str) -> None:
    """Worlds that are large enough are shared out, and all checked."""
    result = call("replay", "--check", "--all", "--jobs", "2", "--database-url", database_url)
    many = replay.SPAWN_FROM // 2 + 1
    assert result == (
        0,
        f"replayed a {many} effects, nothing to compare with\nreplayed b {many} effects, nothing to compare with\n",
        "worldledger: 0 agreed, 0 did not, 2 with nothing to compare with\n",
    )
