"""One program at a time runs an agent; what a killed one has left is lost, and told so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from tests.client.helpers import soon
from worldledger.client import Client
from worldledger.errors import AgentLeasedError
from worldledger.llm import Chunk, Persona, Request, Text, run_agent
from worldledger.llm.runner import has_ended, holder_name

from .conftest import Script, bob_says, ended_holder, online, playing, said, told, waits

_BRIEF = Persona(character="You are brief.")


async def test_an_agent_is_run_by_one_program(room: Client) -> None:
    """A second program is refused and told by whom; when the first has ended, another one may have it."""
    async with playing(room, Script(said("Here.")), holder="here/1/a"):
        await soon(online(room))
        async with Client(room.url, room.world_id) as other:
            with pytest.raises(AgentLeasedError) as refused:
                await soon(run_agent(other, "ann", Script(said("No.")), _BRIEF, holder="there/2/b"))
    assert refused.value.holder == "here/1/a"
    async with playing(room, Script(said("Here.")), holder="there/2/b"):
        await bob_says(room, "Ann?")
        (_, answer) = await soon(told(room)("Speak", 2))
    assert answer["payload"]["text"] == "Here."


async def test_a_lease_is_renewed(room: Client) -> None:
    """While an agent is run its lease goes on."""
    async with playing(room, Script(said("Here.")), lease_s=0.3):
        leases = await soon(told(room)("GenerationLeased", 3))
    assert [lease["payload"]["number"] for lease in leases[:3]] == [1, 2, 3]


async def test_a_program_that_has_lost_its_agent_stops(room: Client) -> None:
    """Where another one has taken the agent over, the first one ends with that error."""
    task = asyncio.create_task(run_agent(room, "ann", Script(said("No.")), _BRIEF, holder="here/1/a", lease_s=0.3))
    await soon(online(room))
    await room.lease_agent("ann", "there/2/b", 60, instead_of="here/1/a")
    with pytest.raises(AgentLeasedError):
        await soon(task)


class Reluctant:
    """A model that takes a moment to end its request."""

    name = "reluctant"

    async def stream(self, _: Request) -> AsyncGenerator[Chunk, None]:
        """Begin an answer."""
        try:
            yield Text("Well")
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.3)


async def test_nothing_of_a_program_follows_its_digest(room: Client) -> None:
    """Even if it is told twice to stop: the report is first, then the agent is given back, and the digest is last."""
    running = asyncio.create_task(run_agent(room, "ann", Reluctant(), _BRIEF))
    await soon(online(room))
    await bob_says(room, "Ann?")
    await soon(told(room)("GenerationStarted"))
    await asyncio.sleep(0.05)
    for _ in range(2):
        running.cancel()
        await asyncio.sleep(0.05)
    await asyncio.wait([running])
    kinds = [entry.effect["kind"] for entry in await room.event_log.get_entries_since(0)]
    assert kinds[-3:] == ["GenerationReported", "GenerationLeased", "StateDigest"]
    assert kinds.count("StateDigest") == 1


async def test_what_a_killed_program_left_is_lost(room: Client) -> None:
    """The next run takes the agent from a program of this machine that has ended, and reports its answer as lost."""
    left = Script([asyncio.Event()])
    killed = asyncio.create_task(run_agent(room, "ann", left, _BRIEF, holder=ended_holder()))
    await bob_says(room, "Ann?")
    await waits(left)
    (started,) = await soon(told(room)("GenerationStarted"))
    async with Client(room.url, room.world_id) as other, playing(other, Script(said("Here."))):
        (lost, report) = [effect["payload"] for effect in await soon(told(room)("GenerationReported", 2))][:2]
        (_, answer) = await soon(told(room)("Speak", 2))
    killed.cancel()
    await asyncio.wait([killed])
    assert (lost["outcome"], lost["req_id"]) == ("lost", started["payload"]["req_id"])
    assert report["outcome"] == "acted"
    assert answer["payload"]["text"] == "Here."


def test_only_programs_of_this_machine_are_known_to_have_ended() -> None:
    """Of others nothing is known, and what is no such name is nobody's."""
    assert has_ended(ended_holder())
    assert not has_ended(holder_name())
    assert not has_ended(f"elsewhere.{holder_name()}")
    for name in ("", "x", "a/b", "a/b/c", "/7/", "//"):
        assert not has_ended(name)
