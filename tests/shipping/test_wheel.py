"""A built wheel, installed in an environment of its own, works from another folder and needs no checkout."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from email import message_from_bytes
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from worldledger_service.database.embedded import remove, stop

from .project import ROOT, environment, pyproject, run

pytestmark = [pytest.mark.slow, pytest.mark.packaging, pytest.mark.group("wheel")]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and the source archive without downloading anything; return their folder."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)]
    run(build, cwd=ROOT, env=environment())
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    """Return the wheel."""
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel alone into a fresh environment that borrows this one's dependencies; return its scripts."""
    folder = tmp_path_factory.mktemp("a fresh environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    run([*pip, str(wheel)], cwd=folder, env=environment())
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    # A path that a .pth file names is not searched for further .pth files: the editable install stays out of sight.
    borrowed = folder / "lib" / version / "site-packages" / "borrowed.pth"
    borrowed.write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    return folder / "bin"


@pytest.fixture
def worldledger(installed: Path, tmp_path: Path) -> Callable[..., str]:
    """Return a function that runs the installed command in a folder of its own."""
    env = environment(PATH=f"{installed}:/usr/bin:/bin", HOME=str(tmp_path), COLUMNS="200")
    env.pop("PYTHONPATH", None)

    def call(*arguments: str, **variables: str) -> str:
        return run([str(installed / "worldledger"), *arguments], cwd=tmp_path, env={**env, **variables})

    return call


#: The packages of the kinds of worlds.
KINDS = {path.name for path in (ROOT / "kinds").glob("*/worldledger_*")}


def test_the_wheel_holds_what_it_needs_and_no_more(wheel: Path) -> None:
    """Code, type markers, migrations, example games and the licence are inside; tests and benchmarks are not."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        message = message_from_bytes(archive.read(metadata))
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "worldledger",
        "worldledger_projections",
        "worldledger_service",
        *KINDS,
    }
    revisions = {path.name for path in (ROOT / "migrations" / "versions").glob("*.py")}
    assert {f"worldledger_service/migrations/versions/{name}" for name in revisions} <= names
    games = {path.name for path in (ROOT / "examples" / "games").glob("*.pgn")}
    assert games
    assert {f"worldledger_service/example_games/{name}" for name in games} <= names
    market = {path.name for path in (ROOT / "examples" / "market").iterdir() if path.is_file()}
    assert "market.yaml" in market
    assert {f"worldledger_service/example_market/{name}" for name in market} == {
        name for name in names if name.startswith("worldledger_service/example_market/")
    }
    runs = {
        path.relative_to(ROOT / "examples").as_posix() for path in (ROOT / "examples" / "social_rl").rglob("*.json")
    }
    assert runs
    assert {f"worldledger_service/example_{name}" for name in runs} <= names
    assert {
        "worldledger_service/migrations/env.py",
        "worldledger_service/cli/skeleton/pyproject.toml.txt",
        "worldledger/py.typed",
        "worldledger_service/py.typed",
    } <= names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert message["License-Expression"] == "GPL-3.0-or-later"
    assert message["Version"] == pyproject()["project"]["version"]
    assert "make run" in str(message.get_payload())


def test_the_source_archive_is_a_whole_checkout(built: Path) -> None:
    """Whoever unpacks the source archive finds the Makefile and all that its commands use."""
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    wanted = {"Makefile", "constraints.txt", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "Dockerfile"}
    wanted |= {"docker-compose.yml", ".ci/run", "tests/conftest.py", "docs/architecture.md", "migrations/env.py"}
    assert wanted <= names


def _needed_by(requirements: Iterable[str]) -> Iterator[Distribution]:
    """Yield the installed distributions that requirements without extras bring along, each once."""
    waiting, seen = [Requirement(text) for text in requirements], set()
    while waiting:
        requirement = waiting.pop()
        asked = [{"extra": extra} for extra in requirement.extras] or [{"extra": ""}]
        name = canonicalize_name(requirement.name)
        if name in seen:
            continue
        seen.add(name)
        found = distribution(name)
        yield found
        for needed in map(Requirement, found.requires or ()):
            if needed.marker is None or any(needed.marker.evaluate(environment) for environment in asked):
                waiting.append(needed)


def test_without_the_server_there_are_the_client_and_the_rules(wheel: Path, tmp_path: Path) -> None:
    """With what the distribution itself needs and nothing else, both load, and the command says what it lacks."""
    packages = tmp_path / "packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
        (about,) = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
    for needed in _needed_by(pyproject()["project"]["dependencies"]):
        for top in {file.parts[0] for file in needed.files or () if file.parts[0] not in {"..", "__pycache__"}}:
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(str(needed.locate_file(top))))
    # Without `site` nothing that is installed in this environment is seen.
    python = [sys.executable, "-S", "-W", "error", "-c"]
    env = environment(PYTHONPATH=str(packages), PYTHONDONTWRITEBYTECODE="1")
    program = "from worldledger.client import Client; from worldledger.rulesets import known_rulesets, load_ruleset; "
    program += "print(Client.__name__, *[load_ruleset(name).name for name in known_rulesets()])"
    assert run([*python, program], cwd=tmp_path, env=env).split() == [
        "Client",
        "chess",
        "recorder",
        "sandbox",
        "simulation",
        "social_rl",
    ]
    module, _, function = (packages / about).read_text().partition("worldledger = ")[2].split()[0].partition(":")
    command = [*python, f"from {module} import {function}; {function}()", "worlds"]
    told = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.startswith("worldledger: the command needs the extra `server` (")
    assert told.stderr.endswith(" is not installed): pip install 'worldledger[server]'\n")


@pytest.mark.parametrize("source", ["folder", "git"])
def test_it_is_installed_into_a_project(source: str, tmp_path: Path) -> None:
    """As docs/how-to-install.md says, pip installs a checkout's folder and a commit from git, with extras."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    if source == "git" and head.returncode:
        pytest.skip("not a checkout of git")
    folder = f"{ROOT}[server,analytics,dataframes]"
    wanted = folder if source == "folder" else f"git+{ROOT.as_uri()}@{head.stdout.strip()}"
    project = tmp_path / "a project"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(project)], check=True)
    python = project / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    # What it needs, and what builds it, is borrowed: nothing is downloaded.
    borrowed = project / "lib" / version / "site-packages" / "borrowed.pth"
    borrowed.write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    env = environment()
    env.pop("PYTHONPATH", None)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index"]
    run([*pip, "--no-build-isolation", wanted], cwd=tmp_path, env=env)
    told = run(
        [str(python), "-c", "import worldledger_service; print(worldledger_service.__file__)"], cwd=tmp_path, env=env
    )
    assert told.startswith(str(project))
    shown = run([str(project / "bin" / "worldledger"), "--version"], cwd=tmp_path, env=env)
    assert shown == f"worldledger {pyproject()['project']['version']}\n"


def test_the_installed_code_is_the_one_that_runs(installed: Path, tmp_path: Path) -> None:
    """Modules and version come from the fresh environment, not from a checkout."""
    code = (
        "import worldledger_service, worldledger, sys; from importlib.metadata import version; "
        "print(worldledger_service.__file__, worldledger.__file__, version('worldledger'), sep='\\n')"
    )
    env = environment()
    env.pop("PYTHONPATH", None)
    found = run([str(installed / "python"), "-c", code], cwd=tmp_path, env=env).splitlines()
    site = str(installed.parent)
    assert found[0].startswith(site)
    assert found[1].startswith(site)
    assert found[2] == pyproject()["project"]["version"]


def test_help_is_shown(worldledger: Callable[..., str]) -> None:
    """`worldledger --help` names the commands."""
    shown = worldledger("--help")
    for command in ("import", "worlds", "log", "verify", "export", "serve", "db"):
        assert command in shown


def test_it_migrates_imports_and_verifies(
    worldledger: Callable[..., str], installed: Path, empty_database_url: str
) -> None:
    """On an empty database it migrates, imports the packaged games, adds nothing the second time, and verifies."""
    (games,) = installed.parent.glob("lib/python*/site-packages/worldledger_service/example_games")
    url = {"WORLDLEDGER_DATABASE_URL": empty_database_url}
    worldledger("db", "upgrade", **url)
    worldledger("db", "check", **url)
    worldledger("import", "pgn", str(games), "--experiment", "examples", **url)
    listed = worldledger("worlds", "--experiment", "examples", "--json", **url)
    assert '"chess"' in listed
    worldledger("import", "pgn", str(games), "--experiment", "examples", **url)
    assert worldledger("worlds", "--experiment", "examples", "--json", **url) == listed
    worldledger("verify", "--all", **url)


def test_it_plays_the_packaged_market(
    worldledger: Callable[..., str], installed: Path, empty_database_url: str, tmp_path: Path
) -> None:
    """The example market travels along, is played from where it was installed, and its turns can be asked about."""
    (market,) = installed.parent.glob("lib/python*/site-packages/worldledger_service/example_market")
    url = {"WORLDLEDGER_DATABASE_URL": empty_database_url}
    worldledger("db", "upgrade", **url)
    env = environment(HOME=str(tmp_path), **url)
    env.pop("PYTHONPATH", None)
    command = [str(installed / "python"), str(market / "play.py"), "--world", "market"]
    assert "\n  20 winter" in run(command, cwd=tmp_path, env=env)
    assert worldledger("config", "check", str(market / "market.yaml"))
    assert "hidden" in worldledger("view", "market", "Trader_1", "--at", "turn:10", "--truth", **url)


def test_it_brings_its_own_server(worldledger: Callable[..., str], tmp_path: Path) -> None:
    """Without a database it starts the embedded server under the home that is named."""
    home = tmp_path / "a home"
    try:
        assert worldledger("worlds", "--json", "--home", str(home)).strip() == "[]"
    finally:
        stop(home)
        remove(home)
