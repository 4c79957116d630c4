"""examples/interruption.py: the conversation in process and against a service."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests import warm

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "interruption.py"


def _environment(database_url: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WORLDLEDGER_")}
    return {**kept, "WORLDLEDGER_DATABASE_URL": database_url, "PYTHONIOENCODING": "utf-8"}


async def _play(database_url: str, *arguments: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", str(EXAMPLE), *arguments),
        env=_environment(database_url),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, output.decode(), errors.decode()


@pytest.mark.parametrize("where", [pytest.param("in process", marks=pytest.mark.thorough), "against a service"])
async def test_the_conversation_is_played(shared_url: str, service: str, where: str) -> None:
    """A is cut off by B's effect, takes B's words in and begins anew; C hears both in order; the log tells it all."""
    arguments = ["--url", service] if where == "against a service" else []
    code, output, errors = await _play(shared_url, *arguments)
    assert (code, errors) == (0, "")
    assert ("in this process" in output) == (where == "in process")
    assert re.search(
        r"^A  The first thing to know .*—\n   \(A is cut off: stale_due_to_effect_6; ", output, re.MULTILINE
    )
    heard = re.findall(r"\((\w) hears (\w): '(.*)', effect (\d+)\)", output)
    important, answer = "Wait, I have something important!", "Then you first, B: I am all ears."
    assert [each[:3] for each in heard] == [("A", "B", important), ("C", "B", important), ("C", "A", answer)]
    assert int(heard[1][3]) < int(heard[2][3])
    log = re.findall(r"^ +\d+  (\w+)", output, re.MULTILINE)
    assert log[:4] == ["WorldCreated", *["AgentRegistered"] * 3]
    assert sorted(log[4:]) == [
        "GenerationCancelled",
        "GenerationFinished",
        "GenerationStarted",
        "GenerationStarted",
        "Speak",
        "Speak",
    ]
    assert re.search(r"^\$ worldledger log conversation-\w+$", output, re.MULTILINE)


def test_what_keeps_it_from_playing_is_told() -> None:
    """Without a service or a database it says so in one line, and exits with 1."""
    done = warm.run([], _environment("postgresql://nobody@127.0.0.1:1/nothing"), program=EXAMPLE)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith("interruption.py: ")
    assert "cannot be reached" in done.stderr


def test_a_url_that_is_none_is_told() -> None:
    """A URL without http:// is refused in one line, with 2."""
    done = warm.run(["--url", "127.0.0.1:8611"], _environment(""), program=EXAMPLE)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr == "interruption.py: '127.0.0.1:8611' is no address of a service, such as http://127.0.0.1:8000\n"
    )


def test_make_run_points_to_it() -> None:
    """`make run` says how to play it."""
    assert "examples/interruption.py" in (EXAMPLE.parents[1] / "Makefile").read_text()
