"""Agents that are played by models of our own making, in a world of the shared service."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, TypeAlias

import pytest

from tests.waiting import wait_for
from worldledger.client import Client
from worldledger.effects import Effect
from worldledger.llm import Chunk, End, Model, Persona, Request, Text, ToolCall, run_agent
from worldledger.llm.runner import holder_name

#: A piece, what the model raises, or an event that it waits for.
Step: TypeAlias = Chunk | BaseException | asyncio.Event


class Script:
    """A model that answers each request by the next of its answers; the last one stays."""

    name = "script"

    def __init__(self, *answers: Sequence[Step]) -> None:
        self.answers = answers
        self.requests: list[Request] = []
        #: how many answers are waiting for an event, and how many were closed
        self.waiting = self.closed = 0

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Answer a request."""
        answer = self.answers[min(len(self.requests), len(self.answers) - 1)]
        self.requests.append(request)
        try:
            for step in answer:
                if isinstance(step, asyncio.Event):
                    self.waiting += 1
                    await step.wait()
                elif isinstance(step, BaseException):
                    raise step
                else:
                    yield step
        finally:
            self.closed += 1

    def asked(self, number: int) -> str:
        """Return the messages of a request as one text."""
        return "\n".join(f"{each['role']}: {each['content']}" for each in self.requests[number].messages)


def said(*words: str) -> list[Step]:
    """Answer by a text."""
    return [*map(Text, words), End("stop")]


def did(name: str, arguments: str) -> list[Step]:
    """Answer by the call of a tool."""
    return [ToolCall(name, arguments), End("tool_calls")]


def told(client: Client) -> Callable[..., Any]:
    """Return what finds the world's effects of a kind, once there are as many."""

    async def find(kind: str, count: int = 1) -> list[Effect]:
        while True:
            entries = await client.event_log.get_entries_since(0)
            found = [entry.effect for entry in entries if entry.effect["kind"] == kind]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.01)

    return find


@asynccontextmanager
async def playing(
    client: Client, model: Model, persona: Persona | None = None, agent_id: str = "ann", **settings: Any
) -> AsyncIterator[asyncio.Task[None]]:
    """Play an agent for as long as a block runs; it must not have ended with an error before."""
    persona = persona or Persona(character="You are brief.")
    task = asyncio.create_task(run_agent(client, agent_id, model, persona, **settings))
    try:
        yield task
        if task.done():
            task.result()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


Play: TypeAlias = Callable[..., AbstractAsyncContextManager[asyncio.Task[None]]]


async def online(client: Client, agent_id: str = "ann") -> None:
    """Wait until an agent is run, and has a lease."""
    while True:
        for entry in await client.event_log.get_entries_since(0):
            effect = entry.effect
            if effect["kind"] == "GenerationLeased" and effect["payload"]["agent_id"] == agent_id:
                return
        await asyncio.sleep(0.01)


@pytest.fixture
async def room(client: Client) -> Client:
    """Return the test's world; ann and bob are in it, and what one says makes stale what the other is about to say."""
    await client.register_agent("ann")
    await client.register_agent("bob")
    return client


async def bob_says(room: Client, text: str) -> int:
    """Have bob speak, from what he has seen; return the effect's seq."""
    bob = room.agent_handles.get("bob") or await room.agent("bob")
    await bob.view()
    return (await bob.submit_intent({"kind": "Speak", "payload": {"text": text}})).global_seq


async def waits(model: Script, count: int = 1) -> None:
    """Wait until as many answers of a model wait."""
    await wait_for(lambda: model.waiting >= count)


def ended_holder() -> str:
    """Return the name of a program of this machine that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    host, _, other = holder_name().rsplit("/", 2)
    return f"{host}/{process.pid}/{other}"
