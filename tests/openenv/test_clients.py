"""The released clients of OpenEnv, each in an environment of its own, which `make .venv/.clients` makes."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.api.helpers import Served

from .helpers import PREFIX

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = [("openenv-core", "0.3.0"), ("openenv", "0.10.0")]


def interpreter(client: str) -> str:
    """Return the Python of a client's environment; skip the test where it is not there."""
    folder = Path(os.environ.get("WORLDLEDGER_TEST_CLIENTS", ROOT / ".venv" / "clients"))
    found = folder / client / "bin" / "python"
    if not found.exists():
        pytest.skip(f"{client} is not installed in {folder}: make .venv/.clients")
    return str(found)


async def run(client: str, *arguments: str) -> bytes:
    """Run a program in a client's environment; return what it printed."""
    process = await asyncio.create_subprocess_exec(
        interpreter(client), *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        said, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode()
    return said


@pytest.mark.parametrize(("client", "version"), CLIENTS)
def test_a_client_is_pinned_with_all_that_it_brings(client: str, version: str) -> None:
    """Its constraints are exact versions of packages, and its own is the one that the contract names."""
    heading, *pins = (ROOT / ".ci" / f"constraints-{client}.txt").read_text().splitlines()
    assert heading.startswith("# ")
    assert f"{client}=={version}" in pins
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==\S+", pin) for pin in pins)


@pytest.mark.slow
@pytest.mark.parametrize(("client", "version"), [pytest.param(*CLIENTS[0], marks=pytest.mark.thorough), *CLIENTS[1:]])
async def test_a_released_client_plays(served: Served, client: str, version: str) -> None:
    """Generic and typed, asynchronous and not: each sees what it should, and so does the example."""
    address = served.url + PREFIX
    told: dict[str, Any] = orjson.loads(await run(client, "tests/openenv/player.py", address))
    assert told["client"] == {client: version}

    seen = told["by_seed"]
    assert seen["stories"][0] == seen["stories"][1]
    assert seen["stories"][0][0] == "black"
    assert len(set(seen["episodes"])) == 2
    assert seen["moves"] == ["e2e4", "d2d4"]
    assert "$.sede: unknown field" in seen["refused"]
    assert "VALIDATION_ERROR" in seen["refused"]
    assert seen["usable"]

    game = told["typed"]
    assert game["result"] == "1/2-1/2"
    assert game["inside"] == [True, 0.0]
    assert game["rewards"] == [0.0] * game["steps"]
    assert game["state"]["step_count"] == len(game["state"]["move_history"]) == 4

    game = told["synchronous"]
    assert game["illegal"] == [-0.1, False]
    assert game["end"] == [1.0, True, "0-1", 1.0]
    assert game["moves"] == ["f2f3", "e7e5", "g2g4", "d8h4"]
    assert "EXECUTION_ERROR" in game["late"]
    assert game["again"] == [False, 20]
    assert "the end: 0-1 after 16 half-moves, reward 1.0" in told["example"]
