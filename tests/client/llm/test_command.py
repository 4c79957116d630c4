"""`worldledger agent run` as a program: it plays agents of a service, and goes on after a kill."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from worldledger_service.cli import agent
from worldledger_service.database.embedded.home import announcing

from tests.client.helpers import soon
from tests.waiting import wait_for
from worldledger.client import Client
from worldledger.errors import WorldNotFoundError
from worldledger.llm import End, Generation, ModelError, Persona, Request, Text, read_personas
from worldledger.llm.streaming import Output

from .conftest import Script, bob_says, told
from .provider import Provider, answers, begins, says

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "parlour"
_PROGRAM = Path(sys.executable).with_name("worldledger")


async def _start(room: Client, provider: Provider, file: Path, *more: str) -> asyncio.subprocess.Process:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("WORLDLEDGER_", "OPENAI"))}
    arguments = ("--model", "openai:tiny", "--base-url", provider.url, "--url", room.url, "--persona", str(file))
    return await asyncio.create_subprocess_exec(
        *(str(_PROGRAM), "agent", "run", room.world_id, *more, *arguments),
        env={**environment, "PYTHONIOENCODING": "utf-8"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


def _written(tmp_path: Path, personas: Any) -> Path:
    file = tmp_path / "personas.yaml"
    file.write_text(yaml.safe_dump(personas))
    return file


async def test_each_generation_is_a_line(room: Client, capsys: pytest.CaptureFixture[str]) -> None:
    """What the command shows is who did what with how many tokens, and what was said, safe for a terminal."""
    early = Persona(character="You are early.", begins=True, turns=1)
    model = Script([Text("Good\x1b"), Text("\nmorning."), End("stop")])
    await soon(agent._run(room, {"ann": early}, model, None, "off", quiet=False))
    output, errors = capsys.readouterr()
    assert re.fullmatch(r"ann: acted, 2 tokens, \d+\.\d s, Good\\x1b morning\.\n", output), output
    assert f"playing 1 agent of {room.world_id}; Ctrl-C stops" in errors


def test_a_line_says_what_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    """When a model that has failed is asked again, or that it is not; and which budget is used up until when."""

    def line(outcome: Any, output: Output, **more: Any) -> str:
        agent._show(Generation("ann", "r", 1, Request([]), output, outcome, **more))
        return capsys.readouterr().out

    failed = Output(error=ModelError("unreachable", "tiny: away"), took_s=1.4)
    assert line("failed", failed, again_s=8.2) == "ann: failed, 0 tokens, 1.4 s, tiny: away, asks again in 8 s\n"
    assert line("failed", failed) == "ann: failed, 0 tokens, 1.4 s, tiny: away, waits until somebody acts\n"
    assert line("failed", failed, is_last=True) == "ann: failed, 0 tokens, 1.4 s, tiny: away\n"
    assert line("limited", Output(), again_s=41.0, budget="2 calls a minute") == (
        "ann: limited, 0 tokens, 0.0 s, its budget is used up: 2 calls a minute, asks again in 41 s\n"
    )
    assert line("acted", Output(text="a\0b")).endswith(
        r"a\x00b, NUL characters and lone surrogates are replaced" + "\n"
    )


def test_the_service_of_the_home_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents are run where the home is served, at any port, unless another database is used."""
    monkeypatch.setenv("WORLDLEDGER_HOME", str(tmp_path))
    monkeypatch.delenv("WORLDLEDGER_DATABASE_URL", raising=False)
    assert agent._served() is None
    with announcing(tmp_path) as announce:
        announce("http://127.0.0.1:8619")
        assert agent._served() == "http://127.0.0.1:8619"
        monkeypatch.setenv("WORLDLEDGER_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
        assert agent._served() is None


async def test_a_world_that_is_not_there_is_told_with_the_address(room: Client) -> None:
    """Another service may be meant."""
    with pytest.raises(WorldNotFoundError) as refused:
        await agent._found(Client(room.url, "nowhere-at-all"))
    assert f"(at {room.url}; --url names another service)" in str(refused.value)


def test_the_model_of_the_example_says_how_it_is_served() -> None:
    """`--help` needs neither the model nor its library, and a port that is none is refused in a sentence."""
    program = [sys.executable, str(EXAMPLE / "local_model.py")]
    helped = subprocess.run([*program, "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert (helped.returncode, "PORT" in helped.stdout) == (0, True)
    refused = subprocess.run([*program, "many"], capture_output=True, text=True, timeout=60, check=False)
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)


@pytest.mark.thorough
async def test_agents_are_played_until_their_turns_are_used_up(room: Client, tmp_path: Path) -> None:
    """Those of the file are, also one that was not registered; each generation is a line."""
    early = {"character": "You are early.", "begins": True, "turns": 1}
    file = _written(tmp_path, {"agents": {"ann": early, "cid": early}})
    async with Provider(says("Good", " morning.")) as provider:
        process = await _start(room, provider, file)
        output, errors = await soon(process.communicate())
    assert process.returncode == 0, errors.decode()
    lines = sorted(output.decode().splitlines())
    assert [line.split(":")[0] for line in lines] == ["ann", "cid"]
    spoken = {
        entry.effect["source_id"]
        for entry in await room.event_log.get_entries_since(0)
        if entry.effect["kind"] == "Speak"
    }
    assert spoken <= {"ann", "cid"}
    assert spoken


@pytest.mark.thorough
async def test_a_killed_program_goes_on_where_it_was(room: Client, tmp_path: Path) -> None:
    """Killed in the middle of an answer, it reports that as lost when it comes back, and answers then."""
    file = _written(tmp_path, {"character": "You are brief.", "turns": 1})
    async with Provider(begins("Well"), says("Here.")) as provider:
        killed = await _start(room, provider, file, "ann")
        await bob_says(room, "Ann?")
        await soon(told(room)("GenerationStarted"))
        await wait_for(lambda: bool(provider.calls))
        killed.send_signal(signal.SIGKILL)
        await soon(killed.communicate())
        await soon(provider.calls[0].until_gone())
        again = await _start(room, provider, file, "ann")
        output, errors = await soon(again.communicate())
    assert again.returncode == 0, errors.decode()
    assert output.decode().startswith("ann: acted, 1 token, ")
    outcomes = [effect["payload"]["outcome"] for effect in await told(room)("GenerationReported", 2)]
    assert outcomes == ["lost", "acted"]


@pytest.mark.thorough
async def test_ctrl_c_keeps_what_was_said(room: Client, tmp_path: Path) -> None:
    """A program that is stopped reports what it had made until then, and gives its agent back."""
    file = _written(tmp_path, {"character": "You are brief."})
    async with Provider(begins("Well")) as provider:
        process = await _start(room, provider, file, "ann")
        await bob_says(room, "Ann?")
        await soon(told(room)("GenerationStarted"))
        await wait_for(lambda: bool(provider.calls))
        process.send_signal(signal.SIGINT)
        await soon(process.communicate())
    assert process.returncode == 130
    (report,) = await told(room)("GenerationReported")
    assert report["payload"]["outcome"] == "interrupted"
    leases = await told(room)("GenerationLeased", 2)
    assert leases[-1]["payload"]["seconds"] == 0


@pytest.mark.thorough
async def test_a_model_without_a_service_is_told_in_the_log(room: Client, tmp_path: Path) -> None:
    """The world goes on; the line and the report say what failed."""
    file = _written(tmp_path, {"character": "You are early.", "begins": True, "turns": 1})
    async with Provider(answers("401 Unauthorized")) as provider:
        process = await _start(room, provider, file, "ann")
        output, _ = await soon(process.communicate())
    assert process.returncode == 0
    assert "ann: failed, 0 tokens" in output.decode()
    assert "the service answered 401" in output.decode()


def test_the_parlour_has_three_who_may_be_played() -> None:
    """The example's personas can be read; one of them begins."""
    personas = read_personas(EXAMPLE / "parlour.yaml").of_agents
    assert list(personas) == ["ann", "bob", "cid"]
    assert [persona.begins for persona in personas.values()] == [True, False, False]
