"""Getting at the database: what can be wrong with it, told in one line; and the commands that look after it."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import psutil
import pytest
from worldledger_service.database.address import split_password
from worldledger_service.database.revision import REVISIONS

from tests.waiting import block_until
from tests.warm import SCRIPT, Process

from .conftest import Cli
from .helpers import Result, call, environment, seed, sql


def refused(result: Result) -> str:
    """Return the one line in which a command says why it could not run."""
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("worldledger: ")
    assert result.err.count("\n") == 1
    assert "Traceback" not in result.err
    return result.err


def test_an_empty_database(cli: Cli, empty_database_url: str) -> None:
    """A database without tables is left alone; the error says what to run; then every question can be asked."""
    for command in (["worlds"], ["verify", "--all"], ["world", "create", "w"]):
        assert "worldledger db upgrade" in refused(cli(*command, "--database-url", empty_database_url))
    assert cli("db", "upgrade", "--database-url", empty_database_url).out.startswith(
        f"the database is at revision {REVISIONS[-1]}"
    )
    assert cli("worlds", "--json", "--database-url", empty_database_url).out == "[]\n"
    # The views over projections are there, empty; nothing has to be fed before.
    url = ("--database-url", empty_database_url)
    for query in (
        "select count(*) from entities",
        "select count(*) from rounds",
        "select count(*) from state_variables",
    ):
        assert cli("sql", query, "--format", "csv", *url).out == "count\n0\n"
    assert cli("sql", "reasoning-by-model", *url).code == 0
    assert cli("db", "check", *url).code == 0
    assert cli("project", "--once", *url).code == 0
    assert cli("db", "upgrade", *url).code == 0


def test_a_newer_database(on: Cli, database_url: str) -> None:
    """A schema of a later version is not touched; the error says what to do."""
    sql(database_url, "update alembic_version set version_num = '9999'")
    for command in (["worlds"], ["db", "upgrade"]):
        said = refused(on(*command))
        assert "revision 9999" in said
        assert "install a newer worldledger" in said


def test_a_wrong_password(cli: Cli, database_url: str) -> None:
    """A password that is refused is said, and not shown."""
    parts = urlsplit(database_url)
    place = parts.netloc.rpartition("@")[2]
    url = urlunsplit(parts._replace(netloc=f"postgres:Tr0ub4dor@{place}"))
    said = refused(cli("worlds", "--database-url", url))
    assert "refuses the password" in said
    assert "Tr0ub4dor" not in said


def test_an_absent_server(cli: Cli, unused_tcp_port: int) -> None:
    """Where nobody answers, the address is named."""
    url = f"postgresql://postgres:secret@127.0.0.1:{unused_tcp_port}/worldledger"
    said = refused(cli("worlds", "--database-url", url))
    assert f"127.0.0.1:{unused_tcp_port}" in said
    assert "cannot be reached" in said
    assert "secret" not in said


def test_an_absent_database(cli: Cli, database_url: str) -> None:
    """A database that does not exist is named, and how to make it."""
    url = urlunsplit(urlsplit(database_url)._replace(path="/no_such_database"))
    said = refused(cli("worlds", "--database-url", url))
    assert "no_such_database" in said
    assert "createdb" in said


def test_a_read_only_database(on: Cli, database_url: str, tmp_path: Path) -> None:
    """A database that takes no writes, as a standby, is named as such; nothing is counted as imported."""
    seed(database_url, "w")
    file = str(tmp_path / "w.ndjson")
    assert on("export", "w", "-o", file).code == 0
    sql(database_url, f"alter database {urlsplit(database_url).path[1:]} set default_transaction_read_only = on")
    assert "is read-only" in refused(on("world", "create", "v"))
    assert "is read-only" in refused(on("import", "log", file))
    assert on("verify", "--all").code == 0


@pytest.mark.parametrize("url", ["mysql://x", "nonsense", "postgresql://a:p@ss@host:x/db"])
def test_an_address_that_is_none(cli: Cli, url: str) -> None:
    """What is no address is refused with the form that is expected."""
    assert "expected postgresql://user:password@host" in refused(cli("worlds", "--database-url", url))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://a:hush@127.0.0.1:99999/db",
        "postgresql://a:hush@127.0.0.1:5432,127.0.0.1:99999/db",
        "postgresql://a:hush@/db?host=127.0.0.1&port=99999",
    ],
)
def test_a_port_that_is_none(cli: Cli, url: str) -> None:
    """A database's port that is no port is said to be none; nothing is connected to."""
    for command in (("worlds",), ("serve", "--port", "0"), ("db", "upgrade")):
        said = refused(cli(*command, "--database-url", url))
        assert "99999 is no port" in said
        assert "a port is a number from 1 to 65535" in said
        assert "hush" not in said


def test_a_port_to_listen_on_that_is_none(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said in one sentence, with what to do, however it was given."""
    for port in ("99999", "-1", "http", "65536", "1e3"):
        said = refused(cli("serve", "--port", port))
        assert said.startswith(f"worldledger: cannot listen on port {port}: a port is a number up to 65535")
    monkeypatch.setenv("WORLDLEDGER_PORT", "99999")
    assert "cannot listen on port 99999" in refused(cli("serve", "--check-port"))


def test_a_home_that_cannot_be(cli: Cli, tmp_path: Path) -> None:
    """A home that cannot be used is named."""
    file = tmp_path / "file"
    file.touch()
    assert str(file) in refused(cli("worlds", "--home", str(file)))


def test_a_setting_that_makes_no_sense(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable with a value that cannot be is named."""
    monkeypatch.setenv("WORLDLEDGER_POOL_SIZE", "many")
    assert "WORLDLEDGER_POOL_SIZE" in refused(cli("worlds"))


# -- worlds ------------------------------------------------------------------------------------------------------


def test_create_a_world(on: Cli, tmp_path: Path) -> None:
    """A world gets what was given into its genesis; a second one of that name is refused."""
    config = tmp_path / "config.json"
    config.write_text('{"size": 3}')
    options = ["--experiment", "e", "--time-authority", "unity", "--order", "tick", "--config", str(config)]
    result = on("world", "create", "island", *options)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("created island, head 1:")
    log = on("log", "island").out
    for part in ('"config":{"size":3}', '"experiment":"e"', '"time_authority":"unity"', '"ruleset":"sandbox"'):
        assert part in log
    assert '"order":"tick"' in log
    assert "already there" in refused(on("world", "create", "island"))


def test_when_agents_are_stale(on: Cli) -> None:
    """Said when a world is created, and set later by an effect; what is left out stays, what cannot be is named."""
    options = ["--staleness-threshold", "null", "--interrupt-policy", "only_conflict"]
    assert on("world", "create", "calm", *options).code == 0
    assert '"staleness_threshold":null' in on("log", "calm").out
    said = "calm: staleness_threshold null, interrupt_policy only_conflict, max_staleness_threshold null\n"
    assert on("world", "staleness", "calm").out == said
    result = on("world", "staleness", "calm", "--staleness-threshold", "3", "--max-staleness-threshold", "5", "--json")
    told = {"staleness_threshold": 3, "interrupt_policy": "only_conflict", "max_staleness_threshold": 5}
    assert json.loads(result.out) == {"world_id": "calm", **told}
    assert '"kind":"WorldStalenessSet"' in on("log", "calm").out
    assert "exceeds the world's max" in refused(on("world", "staleness", "calm", "--staleness-threshold", "null"))
    assert "neither a whole number" in refused(on("world", "staleness", "calm", "--staleness-threshold", "-1"))
    assert "interrupt_policy is one of" in refused(on("world", "staleness", "calm", "--interrupt-policy", "never"))
    assert "interrupt_policy" in refused(on("world", "create", "w", "--interrupt-policy", "never"))
    wrong = ["--staleness-threshold", "5", "--max-staleness-threshold", "3"]
    assert "exceeds max_staleness_threshold" in refused(on("world", "create", "w", *wrong))


def test_worlds_that_cannot_be(on: Cli, tmp_path: Path) -> None:
    """A bad name, an unknown ruleset, a config that is none: one line each."""
    config = tmp_path / "config.json"
    for data, why in {"[]": "a config is a JSON object", "{": "not JSON", '{"a":1,"a":2}': "stands twice"}.items():
        config.write_text(data)
        said = refused(on("world", "create", "w", "--config", str(config)))
        assert str(config) in said
        assert why in said
    assert "cannot be a world's name" in refused(on("world", "create", "a b"))
    assert "cannot be a world's name" in refused(on("world", "create", "ä"))
    assert "the ruleset 'go' is not installed here" in refused(on("world", "create", "w", "--ruleset", "go"))
    assert "time_authority" in refused(on("world", "create", "w", "--time-authority", "Me!"))
    assert "order" in refused(on("world", "create", "w", "--order", "turn"))
    assert "experiment" in refused(on("world", "create", "w", "--experiment", ""))
    assert on("worlds", "--json").out == "[]\n"


# -- db ----------------------------------------------------------------------------------------------------------


_TEMPORARY = "may make temporary tables, which fill the disk: run `worldledger db upgrade` as the owner of the database"


def test_check(on: Cli, database_url: str) -> None:
    """A database as it should be is exit code 0; a missing guard is a line and exit code 1."""
    assert on("db", "check") == (1, f"reader: {_TEMPORARY}\n", "")  # for a copy of a template has privileges of its own
    assert on("db", "upgrade").code == 0
    assert on("db", "check") == (0, "the database is as it should be\n", "")
    sql(database_url, "drop trigger effects_append_only on effects")
    result = on("db", "check")
    remedy = "`worldledger db upgrade` makes these right: it makes again whatever costs no row"
    assert (result.code, result.err) == (1, f"worldledger: {remedy}\n")
    assert "trigger effects_append_only on effects: missing" in result.out
    sql(database_url, "create index more on effects (kind)", "alter table worlds drop constraint worlds_pkey cascade")
    err = on("db", "check").err
    assert err.startswith("worldledger: run this as a superuser, or as the owner of what is named:\n")
    assert re.search(r"drop index more;\n.* then `worldledger db upgrade` makes the other \d+ right: ", err)
    assert on("db", "upgrade").code == 0
    assert on("db", "check").err.splitlines()[-1] == "worldledger: drop index more;"


def test_an_upgrade_says_what_it_cannot_make_again(on: Cli, database_url: str) -> None:
    """What rows are in the way of is named, with exit code 1, and keeps nothing else from being made again."""
    seed(database_url, "w")
    sql(
        database_url,
        "alter table worlds drop constraint worlds_ruleset_version_check",
        "alter table worlds disable trigger all",
        "update worlds set ruleset_version = -1",
        "drop trigger heads_no_delete on heads",
    )
    result = on("db", "upgrade")
    assert result.code == 1
    first, last = result.err.splitlines()
    assert first.startswith(
        "worldledger: not made again: alter table worlds add constraint worlds_ruleset_version_check"
    )
    assert "is violated by some row" in first
    assert last == "worldledger: `worldledger db check` says what to do"
    found = on("db", "check").out
    assert "trigger" not in found
    assert "constraint worlds_ruleset_version_check on worlds: missing" in found


def test_a_database_that_has_lost_its_revision(on: Cli, database_url: str) -> None:
    """Where the table of the revision is gone, or its column, the message has the SQL that makes it again."""
    for statement in ("drop table alembic_version", "alter table alembic_version drop column version_num"):
        sql(database_url, statement)
        for command in (("db", "check"), ("db", "upgrade"), ("worlds",)):
            result = on(*command)
            said = result.out + result.err
            assert result.code != 0
            assert "does not say of which revision they are" in said
        statements = said.partition("run as an administrator: ")[2].partition("; then run")[0]
        sql(database_url, *statements.split("; "))
        assert on("db", "upgrade").code == 0
        assert on("db", "check").code == 0


def test_check_of_an_empty_database(cli: Cli, empty_database_url: str) -> None:
    """A database without tables is not as it should be."""
    result = cli("db", "check", "--database-url", empty_database_url)
    assert result.code == 1
    assert "worldledger db upgrade" in result.out


def test_shell(database_url: str) -> None:
    """The shell runs as a reader, or as the address's user if asked, and its exit code is ours."""
    seed(database_url, "w")
    url = ("--database-url", database_url)
    assert call("db", "shell", *url, "--csv", "-tc", "select current_user, count(*) from worlds").out == (
        "worldledger_reader,1\n"
    )
    assert call("db", "shell", *url, "--admin", "-Atc", "select current_user").out == "postgres\n"
    result = call("db", "shell", *url, "-c", "delete from worlds")
    assert result.code == 1
    assert "cannot delete from view" in result.err
    result = call("db", "shell", *url, "-c", "select from public.effects")
    assert "permission denied for table effects" in result.err
    assert call("db", "shell", *url, stdin=b"select 6 * 7 as answer \\gset\n\\echo :answer\n").out == "42\n"


def test_the_shell_leaves_nobody_in_a_pager(database_url: str, tmp_path: Path) -> None:
    """On a terminal, too, what -c asks for is printed and that is all, however wide; a pager can still be asked for."""
    paged = tmp_path / "paged"
    env = environment(PSQL_PAGER=f"touch '{paged}'; cat")
    for more, is_paged in (([], False), (["-P", "pager=on"], True)):
        terminal, theirs = pty.openpty()
        arguments = ["db", "shell", "--database-url", database_url, *more, "-c", "select repeat('wide ', 60)"]
        assert Process(arguments, (theirs, theirs, theirs), env).wait(60) == 0
        shown = os.read(terminal, 4096).decode()
        for end in (terminal, theirs):
            os.close(end)
        assert (shown.count("wide"), paged.exists()) == (60, is_paged)


def test_a_port_that_is_in_use(cli: Cli) -> None:
    """`serve` tells of a port that another program uses before it starts anything; --check-port does only that."""

    def hang_up(listener: socket.socket) -> None:
        with suppress(OSError):  # it was closed
            while True:
                listener.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        threading.Thread(target=hang_up, args=(listener,), daemon=True).start()
        for options in (["--check-port"], ["--database-url", "postgresql://nobody@127.0.0.1:1/none"]):
            told = cli("serve", *options, "--port", port)
            assert (told.code, told.out) == (2, "")
            assert f"port {port}: another program uses it" in told.err
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    assert cli("serve", "--check-port", "--port", port) == (0, "", "")


def test_an_address_of_another_machine(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """`serve` says at once that it is not this machine's, also where something answers there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        there = socket.create_connection
        monkeypatch.setattr(socket, "create_connection", lambda _, **given: there(("127.0.0.1", port), **given))
        for options in (["--check-port"], ["--database-url", "postgresql://nobody@127.0.0.1:1/none"]):
            told = cli("serve", *options, "--host", "192.0.2.1", "--port", str(port))
            assert (told.code, told.out) == (2, "")
            assert f"cannot listen on 192.0.2.1 port {port}: it is no address of this machine" in told.err


def test_an_empty_host_is_refused(cli: Cli) -> None:
    """It would be all addresses of this machine; a variable that a shell has left empty is not meant so."""
    told = cli("serve", "--host", "", "--check-port")
    assert (told.code, told.out) == (2, "")
    assert "no host is named" in told.err


def test_the_address(on: Cli, database_url: str) -> None:
    """`db url` prints an address by which other programs read as a reader, or as its own user if asked."""

    def who(url: str) -> tuple[str, bool]:
        ((user, readonly, path),) = sql(
            url, "select current_user, current_setting('transaction_read_only'), current_setting('search_path')"
        )
        return str(user), (readonly, path) == ("on", "analytics")

    told = on("db", "url")
    assert (told.code, told.err) == (0, "")
    assert who(told.out.strip()) == ("worldledger_reader", True)
    told = on("db", "url", "--admin")
    assert told == (0, f"{database_url}\n", "")


@pytest.mark.parametrize(
    ("url", "address", "password"),
    [
        ("postgresql://me@host/db", "postgresql://me@host/db", None),
        ("postgresql://me:a%40b@host:1/db?x=y", "postgresql://me@host:1/db?x=y", "a@b"),
        ("postgresql://me:s@/db?host=%2Ftmp%2Frun%20dir&port=1", "postgresql://me@/db?host=/tmp/run%20dir&port=1", "s"),
        ("postgresql:///db?user=me&password=s%26", "postgresql:///db?user=me", "s&"),
        ("postgresql://[::1]:5/db", "postgresql://[::1]:5/db", None),
    ],
)
def test_no_process_list_shows_a_password(url: str, address: str, password: str | None) -> None:
    """The shell gets the password by its environment, and the address without it."""
    assert split_password(url) == (address, password)


def test_no_process_of_ours_shows_a_password(database_url: str) -> None:
    """Neither the program nor what it starts has it among its arguments, however it was given; yet it is used."""
    parts = urlsplit(database_url)
    login = parts.netloc.rpartition("@")[0].partition(":")[0]
    password = unquote(parts.password or "") or "s3cret%word"
    url = urlunsplit(parts._replace(netloc=f"{login}:{quote(password, safe='')}@{parts.netloc.rpartition('@')[2]}"))
    command = [str(SCRIPT), "serve", "--port", "0", "--database-url", url, f"--database-url={url}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as serving:
        assert serving.stdout is not None
        assert b"Worldledger serves" in serving.stdout.readline()
        program = psutil.Process(serving.pid)
        block_until(program.children, "the process that feeds the projections is there")
        shown = [" ".join(each.cmdline()) for each in (program, *program.children(recursive=True))]
        serving.kill()
    assert any(each.count("--database-url") == each.count(parts.path) == 2 for each in shown)
    for each in shown:
        assert password not in each
        assert quote(password, safe="") not in each


def test_a_clock_that_is_beyond_time(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Python cannot tell the time, that is what is said."""

    def overflow() -> float:
        raise OverflowError("timestamp too large to convert to C _PyTime_t")

    monkeypatch.setattr(time, "time", overflow)
    assert "beyond the year 2262" in refused(cli("worlds"))


def test_an_unfit_psql(on: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any psql the error says what to install."""
    monkeypatch.setattr("worldledger_service.database.embedded.binaries.wheel_folder", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert "psql was not found" in refused(on("db", "shell"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_files(on: Cli, tmp_path: Path) -> None:
    """A file that may not be read is named."""
    file = tmp_path / "secret.pgn"
    file.touch(mode=0)
    result = on("import", "pgn", str(file))
    assert result.code == 1
    assert f"{file}: the file cannot be read (Permission denied)" in result.err
    assert "Permission denied" in refused(on("import", "log", str(file)))


def test_many_worlds_are_listed_page_by_page(on: Cli, database_url: str, make_database: Callable[..., str]) -> None:
    """More worlds than a page holds are all listed, once."""
    sql(
        database_url,
        "insert into worlds (world_id, world_uuid, ruleset, ruleset_version, config, time_authority)"
        " select 'w' || n, gen_random_uuid(), 'sandbox', 1, '{}', 'wall' from generate_series(1001, 2100) n",
        "insert into heads select world_id, 1, sha256('x'), 0, 1.7e9 from worlds",
    )
    listed = [line.split()[0] for line in on("worlds").out.splitlines()[1:]]
    assert listed == [f"w{number}" for number in range(1001, 2101)]
