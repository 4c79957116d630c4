"""Rebuilds and `project` that are stopped, killed, cut off, or not alone."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest
from worldledger_projections.registry import known

from tests.store.exports import export_of, genesis, text
from tests.waiting import block_until

from .conftest import Cli
from .helpers import BAZAAR, Lock, Running, append, done, record, seed, sql

_EFFECTS = "lock table effects in access exclusive mode"
#: How many connections wait for that lock.
_WAITING = """
    select count(*) from pg_stat_activity
    where datname = current_database() and application_name = 'worldledger' and wait_event_type = 'Lock'
"""
#: So that what was killed is not waited for.
LEASE_TTL = "0.5"

_CTRL_C = (signal.SIGINT, 130)
_SIGTERM = (signal.SIGTERM, 143)


def fed(url: str) -> None:
    """Make some worlds that the projections have read."""
    for name in ("a", "b", "c"):
        seed(url, name, 300)
    done("project", "--once", "--database-url", url)


def live(url: str, name: str) -> Any:
    """Return the build that people read."""
    return sql(url, f"select build from projection_builds where projection = '{name}' and status = 'live'")[0][0]


def effects_read(url: str) -> int:
    """Tell how much a rebuild has read."""
    rows = sql(url, "select max(effects_done) from projection_builds where status = 'building'")
    return int(rows[0][0] or 0)


def lines(url: str) -> list[Any]:
    """Return what the tests here compare."""
    return sql(url, "select world_id, effects, kinds::text from projections.world_summaries order by 1")


@pytest.mark.usefixtures("projected")
def test_a_world_that_is_waited_for(on: Cli, database_url: str) -> None:
    """`project --once --timeout` ends when the time is over, with the world that was waited for and exit code 1."""
    seed(database_url, "w", 3)
    assert on("project", "--once").code == 0
    append(database_url, "w", 2)
    with Lock(database_url, _EFFECTS):
        result = on("project", "--once", "--timeout", "0.5")
    assert (result.code, result.out) == (1, "")
    assert "not everything was read in 0.5 s; waiting for w: " in result.err
    assert " is at seq 4 of 6" in result.err
    assert on("project", "--once", "--timeout", "100").code == 0
    assert "--timeout is for --once" in on("project", "--timeout", "1").err


@pytest.mark.usefixtures("projected")
def test_worlds_of_a_kind_that_is_not_installed(on: Cli, database_url: str, tmp_path: Path) -> None:
    """`project --once` skips them with a sentence that names the kind, and reads all others: its exit code is 0."""
    seed(database_url, "here", 3)
    file = tmp_path / "mars.ndjson"
    file.write_bytes(export_of([text(genesis(ruleset="from-mars"))]))
    assert on("import", "log", str(file), "--quiet").code == 0
    sentence = "a world is skipped until its kind is installed: the ruleset 'from-mars' is not installed here"
    for _ in range(2):
        result = on("project", "--once")
        assert (result.code, sentence in result.err) == (0, True)
    status = on("projections", "status", "entities")
    assert (sentence in status.out, "parked at" in status.out) == (True, False)
    (told,) = json.loads(on("projections", "status", "entities", "--json").out)
    assert (told["live"]["parked"], told["live"]["skipped"], told["live"]["effects_behind"]) == (0, 1, 0)
    assert sql(database_url, "select count(*) from projections.world_summaries") == [(2,)]


@pytest.mark.filled(by=fed)
@pytest.mark.parametrize(
    ("number", "code"), [_CTRL_C, pytest.param(*_SIGTERM, marks=pytest.mark.thorough)], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_rebuild_is_stopped(cli: Cli, database_url: str, number: int, code: int) -> None:
    """A rebuild that is stopped says how it goes on; what is live is untouched, and the same command finishes."""
    before = lines(database_url)
    command = ("projections", "rebuild", "world_summaries", "entities", "--database-url", database_url)
    with Lock(database_url, _EFFECTS), Running(*command) as running:
        block_until(lambda: sql(database_url, _WAITING) != [(0,)], "the rebuild reads effects")
        said = (
            "worldledger: the rebuild of world_summaries, entities is not finished; the same command goes on from there"
        )
        assert running.end(number) == (code, "", f"{said}\nworldledger: stopped\n")
    assert live(database_url, "world_summaries") == "world_summaries_1"
    assert lines(database_url) == before
    result = cli(*command)
    assert (result.code, result.err) == (0, "")
    assert sorted(result.out.splitlines()) == ["rebuilt entities, 903 effects", "rebuilt world_summaries, 903 effects"]
    assert live(database_url, "world_summaries") == "world_summaries_2"
    assert lines(database_url) == before


@pytest.mark.thorough  # as tests/projections/test_engine_kills.py has it
@pytest.mark.usefixtures("projected")
def test_a_rebuild_is_killed(cli: Cli, database_url: str, monkeypatch: pytest.MonkeyPatch, thorough: bool) -> None:
    """A rebuild that is killed halfway goes on where it was when the same command is given again."""
    for n in range(30 if thorough else 8):
        seed(database_url, f"w{n:02}", 3000)
    done("project", "--once", "--database-url", database_url)
    before = lines(database_url)
    command = ("projections", "rebuild", "world_summaries", "entities", "--database-url", database_url)
    monkeypatch.setenv("WORLDLEDGER_PROJECTION_LEASE_TTL", LEASE_TTL)
    with Running(*command, WORLDLEDGER_PROJECTION_LEASE_TTL=LEASE_TTL) as running:
        block_until(lambda: effects_read(database_url) > 0, "the rebuild has come somewhere")
        assert running.end(signal.SIGKILL).code == -9
    assert live(database_url, "world_summaries") == "world_summaries_1"
    assert lines(database_url) == before
    result = cli(*command)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("rebuilt ")
    assert live(database_url, "world_summaries") == "world_summaries_2"
    assert lines(database_url) == before
    assert cli("projections", "verify", "world_summaries", "--database-url", database_url).code == 0


@pytest.mark.filled(by=fed)
def test_two_rebuilds_at_once(database_url: str) -> None:
    """Two processes that rebuild the same are about one build, and both see its end."""
    command = ("projections", "rebuild", "world_summaries", "--database-url", database_url)
    with ExitStack() as commands:
        with Lock(database_url, _EFFECTS):
            both = [commands.enter_context(Running(*command)) for _ in range(2)]
            block_until(lambda: sql(database_url, _WAITING) != [(0,)], "one of them reads effects")
        for running in both:
            result = running.end()
            assert (result.code, result.out) == (0, "rebuilt world_summaries, 903 effects\n")
    builds = sql(
        database_url, "select build from projection_builds where projection = 'world_summaries' and status = 'live'"
    )
    assert builds in ([("world_summaries_2",)], [("world_summaries_3",)])


@pytest.mark.thorough  # as test_engine_builds has it
@pytest.mark.filled(by=fed)
def test_a_rebuild_is_cancelled_by_another(cli: Cli, database_url: str) -> None:
    """A rebuild whose build somebody cancels ends, and says so."""
    command = ("projections", "rebuild", "world_summaries", "--database-url", database_url)
    with Lock(database_url, _EFFECTS), Running(*command) as running:
        block_until(lambda: sql(database_url, _WAITING) != [(0,)], "the rebuild reads effects")
        assert cli(*command, "--cancel").out == "cancelled the rebuild of world_summaries\n"
        result = running.end()
    assert (result.code, result.out) == (2, "")
    assert "worldledger: the rebuild of world_summaries was cancelled by somebody else\n" in result.err
    assert live(database_url, "world_summaries") == "world_summaries_1"


@pytest.mark.thorough  # as test_engine_outages has it
@pytest.mark.filled(by=fed)
def test_a_rebuild_outlives_lost_connections(database_url: str) -> None:
    """When the database drops its connections a rebuild goes on."""
    cut = """
        select count(pg_terminate_backend(pid)) from pg_stat_activity
        where datname = current_database() and application_name like 'worldledger%'
    """
    with ExitStack() as commands:
        with Lock(database_url, _EFFECTS):
            command = ("projections", "rebuild", "world_summaries", "--database-url", database_url)
            running = commands.enter_context(Running(*command))
            block_until(lambda: sql(database_url, _WAITING) != [(0,)], "the rebuild reads effects")
            sql(database_url, cut)
            block_until(lambda: sql(database_url, _WAITING) != [(0,)], "it reads again")
        result = running.end()
    assert (result.code, result.out) == (0, "rebuilt world_summaries, 903 effects\n")
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.thorough)], ids=["Ctrl-C", "SIGTERM"]
)
def test_project_feeds_until_it_is_stopped(database_url: str, number: int) -> None:
    """What is appended is read soon; Ctrl-C and SIGTERM are how it is meant to end: exit code 0."""
    record(database_url, "a", BAZAAR)
    with Running("project", "--database-url", database_url) as running:

        def read() -> Any:
            try:
                return sql(database_url, "select effects from projections.world_summaries")
            except asyncpg.UndefinedTableError:
                return None

        block_until(lambda: read() == [(7,)], "it has read")
        assert "worldledger: feeding the projections (Ctrl-C stops it)\n" in running.err
        append(database_url, "a", 3)
        block_until(lambda: read() == [(10,)], "it has read on")
        result = running.end(number)
    assert (result.code, result.out) == (0, "")
    assert "Traceback" not in result.err
    assert sql(database_url, "select count(*) from projection_leases where holder is not null") == [(0,)]


@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(*_CTRL_C, marks=pytest.mark.thorough), _SIGTERM], ids=["Ctrl-C", "SIGTERM"]
)
def test_once_is_stopped(cli: Cli, database_url: str, number: int, code: int) -> None:
    """`project --once` that is stopped says that not everything was read."""
    record(database_url, "a", BAZAAR)
    command = ("project", "--once", "--database-url", database_url)
    done(*command)  # makes the tables, and views for which the lock would be waited for, too
    append(database_url, "a", 3)
    with Lock(database_url, _EFFECTS), Running(*command) as running:
        block_until(lambda: sql(database_url, _WAITING) != [(0,)], "it reads effects")
        ended = running.end(number)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.endswith(
        "worldledger: not everything has been read; the same command goes on from there\nworldledger: stopped\n"
    )
    assert cli(*command) == (0, "the projections are up to date\n", "")


def test_a_service_feeds_the_projections_unless_told_not_to(
    cli: Cli, database_url: str, make_database: Callable[..., str]
) -> None:
    """`serve` feeds them; with --no-projections, or so set, it leaves that to others."""
    other = make_database()
    serve = ("serve", "--port", "0", "--database-url")
    with (
        Running(*serve, database_url) as feeding,
        Running(*serve, other, "--no-projections") as idle,
        Running(*serve, other, WORLDLEDGER_PROJECTIONS="false") as also_idle,
    ):
        for running in (idle, also_idle, feeding):
            assert running.line().startswith("Worldledger serves ")
        count = "select count(*) from projection_builds where status = 'live'"
        block_until(lambda: sql(database_url, count) == [(len(known().values()),)], "the service feeds them")
        record(database_url, "a", BAZAAR)
        status = ("projections", "status", "world_summaries", "--json", "--database-url", database_url)

        def behind() -> Any:
            live = json.loads(cli(*status).out)[0]["live"]
            return live["scanning"], live["effects_behind"], live["effects_done"]

        block_until(lambda: behind() == (False, 0, 7), "the service has read what came")
        rebuild = ("projections", "rebuild", "world_summaries", "--database-url", database_url)
        assert cli(*rebuild).code == 0
        assert sql(other, count) == [(0,)]
        for running in (idle, also_idle, feeding):
            assert running.end(signal.SIGTERM).code == 0


def test_ctrl_c_when_the_service_has_just_begun(database_url: str) -> None:
    """Ctrl-C in a terminal ends a service in order while the process that feeds is still loading."""
    serve = ("serve", "--port", "0", "--database-url", database_url)
    with Running(*serve, start_new_session=True) as running:
        process = psutil.Process(running.process.pid)
        block_until(
            lambda: any("worldledger_service.projecting" in each.cmdline() for each in process.children()),
            "it is started",
        )
        assert running.line().startswith("Worldledger serves ")
        os.killpg(process.pid, signal.SIGINT)
        result = running.end()
    assert (result.code, "Traceback" in result.err) == (0, False), result.err
