"""The Dockerfile: its command is run as it stands, beside a database, and it ends when Docker asks it to."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.helpers import free_port

from .project import ROOT, environment, stop, wait_until_live


class Instruction(NamedTuple):
    """One instruction of a Dockerfile, its continuation lines joined."""

    name: str
    value: str


def instructions() -> list[Instruction]:
    """Read the Dockerfile."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines() if line]


def _last(name: str) -> str:
    return next(found.value for found in reversed(instructions()) if found.name == name)


@pytest.fixture
def port() -> int:
    """A port that is free at this moment; it stands in for 8000."""
    return free_port()


def test_the_command_and_the_check_are_those_of_the_service() -> None:
    """CMD serves to everybody; HEALTHCHECK runs a program of Python that asks the port of EXPOSE whether it lives."""
    assert json.loads(_last("CMD")) == ["worldledger", "serve", "--host", "0.0.0.0"]
    python, option, program = json.loads(_last("HEALTHCHECK").partition("CMD ")[2])
    assert (python, option) == ("python", "-c")
    compile(program, "HEALTHCHECK", "exec")
    assert f"http://127.0.0.1:{_last('EXPOSE')}/livez" in program


@pytest.mark.packaging
def test_the_command_serves_and_ends_at_sigterm(database_url: str, port: int, tmp_path: Path) -> None:
    """CMD, with only the port changed, serves a migrated database, passes HEALTHCHECK, and SIGTERM ends it well."""
    command = json.loads(_last("CMD"))
    env = environment(WORLDLEDGER_DATABASE_URL=database_url, WORLDLEDGER_PORT=str(port), HOME=str(tmp_path))
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            wait_until_live(f"http://127.0.0.1:{port}", process, path="/readyz")
            check = json.loads(_last("HEALTHCHECK").partition("CMD ")[2])
            assert check[0] == "python"
            subprocess.run([sys.executable, *(part.replace("8000", str(port)) for part in check[1:])], check=True)
            assert stop(process) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()


def test_the_image_runs_as_an_ordinary_user() -> None:
    """The last USER is not root, and it is set before the command."""
    names = [found.name for found in instructions()]
    assert _last("USER") not in {"root", "0"}
    assert names.index("USER") < names.index("CMD")


def test_the_port_is_the_service_s_own() -> None:
    """EXPOSE names the port that the service takes unless told otherwise."""
    from worldledger_service.settings import Settings  # noqa: PLC0415 - nothing else here needs the service

    assert int(_last("EXPOSE")) == Settings.model_fields["port"].default


def test_the_image_has_a_supported_python_and_the_pinned_versions() -> None:
    """Both stages begin from the same slim Python that the project supports, and the wheels are the pinned ones."""
    bases = {found.value.split()[0] for found in instructions() if found.name == "FROM"}
    assert len(bases) == 1
    match = re.fullmatch(r"python:3\.(\d+)-slim", bases.pop())
    assert match is not None
    assert int(match[1]) >= 11
    assert "--constraint constraints.txt" in next(found.value for found in instructions() if found.name == "RUN")


def test_the_image_is_built_from_everything_that_is_packaged() -> None:
    """.dockerignore lets every folder and file through that goes into the wheel."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    packaged = {
        *(Path(package).parts[0] for package in wheel["packages"]),
        *(Path(source).parts[0] for source in wheel["force-include"]),
    }
    let_through = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert packaged <= let_through
