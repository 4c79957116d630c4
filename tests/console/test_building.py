"""The build hook of the console: what it asks for, when it builds, and what becomes of an installation without npm."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.shipping import console_types
from tests.shipping.project import ROOT, SCRIPTS, environment, pyproject

DIST = Path("service/worldledger_service/console/dist")


class _Warned:
    """Hatchling's application, as far as the hook needs it."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def display_warning(self, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    """Return the module of the hook, which no package holds."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "console" / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with the console's sources and nothing built."""
    shutil.copytree(
        ROOT / "console", tmp_path / "console", ignore=shutil.ignore_patterns("node_modules", "__pycache__")
    )
    (tmp_path / DIST).mkdir(parents=True)
    return tmp_path


@pytest.fixture
def deno(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that puts a Deno on the PATH which is this shell script."""

    def put(script: str) -> None:
        folder = tmp_path / "programs"
        folder.mkdir(exist_ok=True)
        (folder / "deno").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "deno").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return put


def _hook(hooks: ModuleType, root: Path) -> tuple[Any, _Warned]:
    app = _Warned()
    made = hooks.ConsoleHook(str(root), {}, None, None, str(root), "wheel", app)
    return made, app


def test_it_builds_once_for_the_same_sources(hooks: ModuleType, checkout: Path, deno: Callable[[str], None]) -> None:
    """Deno is asked for and run where sources are new; then neither, until one of them changes."""
    deno(f'echo "$@" >> "{checkout}/calls"')
    hook, _ = _hook(hooks, checkout)
    assert hook.dependencies() == [hooks.DENO]
    hook.initialize("standard", {})
    assert (checkout / "calls").read_text() == "install --frozen\nrun --frozen --allow-all build.ts\n"
    again, _ = _hook(hooks, checkout)
    assert again.dependencies() == []
    again.initialize("standard", {})
    assert (checkout / "calls").read_text().count("\n") == 2
    (checkout / "console" / "src" / "main.tsx").write_text("another")
    changed, _ = _hook(hooks, checkout)
    assert changed.dependencies() == [hooks.DENO]


def test_an_editable_installation_goes_on_without_npm(
    hooks: ModuleType, checkout: Path, deno: Callable[[str], None]
) -> None:
    """Where the libraries cannot be had it warns, in Deno's words, and the next installation tries again."""
    deno("echo no registry >&2; exit 1")
    hook, app = _hook(hooks, checkout)
    hook.initialize("editable", {})
    (warning,) = app.warnings
    assert "deno install --frozen" in warning
    assert "no registry" in warning
    assert _hook(hooks, checkout)[0].dependencies() == [hooks.DENO]


def test_a_wheel_is_not_built_without_npm(hooks: ModuleType, checkout: Path, deno: Callable[[str], None]) -> None:
    """Nobody gets a wheel that lacks its console: the build fails."""
    deno("echo no registry >&2; exit 1")
    hook, _ = _hook(hooks, checkout)
    with pytest.raises(RuntimeError, match="no registry"):
        hook.initialize("standard", {})


def test_the_deno_that_builds_is_the_one_that_checks(hooks: ModuleType) -> None:
    """The hook's version of Deno is that of the extra `test`."""
    assert hooks.DENO in pyproject()["project"]["optional-dependencies"]["test"]


def test_the_types_of_answers_are_those_of_the_service() -> None:
    """What the console takes answers for is what the OpenAPI document says of the routes that it asks (`make docs`)."""
    assert console_types.FILE.read_text() == console_types.types()


def test_the_lock_names_no_place(hooks: ModuleType) -> None:
    """Libraries are locked by version and hash; where they are fetched is for the machine to say."""
    text = (ROOT / "console" / "deno.lock").read_text()
    assert "integrity" in text
    assert "http" not in text


def test_the_units_of_the_core(tmp_path: Path) -> None:
    """`deno test` passes: addresses, patches, blocks, pages, beliefs and the chain, without a browser."""
    deno = shutil.which(
        "deno", path=f"{SCRIPTS}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    if deno is None:
        pytest.skip("Deno is not installed here")
    if not (ROOT / "console" / "node_modules").is_dir():
        pytest.skip("the console's libraries are not here: the npm registry was out of reach when this was installed")
    env = environment(DENO_DIR=str(tmp_path), DENO_NO_UPDATE_CHECK="1", NO_COLOR="1")
    done = subprocess.run(
        [deno, "test", "--frozen"],
        cwd=ROOT / "console",
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed" in done.stdout
