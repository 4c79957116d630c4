"""A conversation with an interruption: A speaks word by word, B breaks in, A is told to stop and begins anew.

In this process, on the database that WORLDLEDGER_DATABASE_URL names or else on the embedded server:

    python examples/interruption.py

Against a service that runs, with the very same `conversation`:

    python examples/interruption.py --url http://127.0.0.1:8000
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
import uuid

from worldledger.aio import CancelToken
from worldledger.client import Agent, Client, World
from worldledger.deltas import ObservationDelta
from worldledger.effects import EventLogEntry
from worldledger.errors import SimulationError, StaleContextError
from worldledger.observation import ObservationPolicy

#: Seconds between two words, as between the tokens of a language model.
PACE = 0.025
SPEECH = "The first thing to know about tides is that the sea does not rise by itself: it is the moon that pulls it."
ANSWER = "Then you first, B: I am all ears."


async def generate(text: str, token: CancelToken, begun: asyncio.Event) -> str | None:
    """Say a text word by word; return it whole, or None if the token was cancelled on the way."""
    print("A  ", end="")
    for number, word in enumerate(text.split()):
        if number == 4:
            begun.set()  # from here on somebody may break in
        if token.cancelled:
            took = time.monotonic() - (token.cancelled_at or 0.0)
            print(f"—\n   (A is cut off: {token.reason}; it stopped {took * 1000:.0f} ms after it was told)")
            return None
        print(word, end=" ", flush=True)
        await asyncio.sleep(PACE)
    print()
    return text


async def speak(agent: Agent, begun: asyncio.Event) -> None:
    """Say something; whenever the world has moved on meanwhile, look what it is and say something else."""
    text, attempt = SPEECH, 1
    while True:
        token = agent.issue_cancel_token(f"speech-{attempt}")
        if await generate(text, token, begun) is not None:
            try:
                await agent.submit_intent({"kind": "Speak", "payload": {"text": text}, "req_id": token.req_id})
            except StaleContextError as error:
                print(f"   (A is too late: {error})")
            else:
                return
        hear("A", await agent.next_observation())
        text, attempt = ANSWER, attempt + 1


def hear(name: str, delta: ObservationDelta) -> None:
    """Print what an agent hears in an observation."""
    for event in delta["events"]:
        print(f"   ({name} hears {event['source_id']}: {event['payload']['text']!r}, effect {event['global_seq']})")


async def conversation(world: World) -> None:
    """Let three agents talk."""
    a, b, c = [await world.register_agent(name, ObservationPolicy()) for name in "ABC"]
    begun = asyncio.Event()
    speaking = asyncio.create_task(speak(a, begun))
    await begun.wait()
    await b.submit_intent({"kind": "Speak", "payload": {"text": "Wait, I have something important!"}})
    await speaking
    for _ in range(2):
        hear("C", await c.next_observation())
    print("\nIn the log:")
    for entry in await whole_log(world):
        payload = entry.effect["payload"]
        told = payload.get("text") or payload.get("reason") or payload.get("agent_id") or ""
        print(f"  {entry.global_seq:>3}  {entry.effect['kind']:<20} {entry.effect['source_id']:<12} {told}")


async def whole_log(world: World) -> list[EventLogEntry]:
    """Return the log, once it tells of the end of every generation: that is written a moment after it."""
    while True:
        entries = await world.event_log.get_entries_since(0)
        kinds = [entry.effect["kind"] for entry in entries]
        if kinds.count("GenerationStarted") == kinds.count("GenerationCancelled") + kinds.count("GenerationFinished"):
            return entries
        await asyncio.sleep(PACE)


async def remotely(client: Client) -> None:
    """Play it in a world of a service."""
    async with client:
        await client.create_world(experiment="examples")
        print(f"World {client.world_id} of {client.url}:\n")
        await conversation(client)


async def here(database_url: str, world_id: str) -> None:
    """Play it in a world of this process."""
    from worldledger_service.runtime import Orchestrator  # noqa: PLC0415 - not needed against a service

    async with Orchestrator.open(database_url, world_id=world_id) as world:
        print(f"World {world_id}, in this process:\n")
        await conversation(world)


def play(client: Client | None, world_id: str) -> None:
    """Play the conversation where the client's service is, or else in this process."""
    if client is not None:
        asyncio.run(remotely(client))
        return
    from worldledger_service.cli.connect import Target, database  # noqa: PLC0415 - not needed against a service
    from worldledger_service.settings import Settings  # noqa: PLC0415

    settings = Settings()
    named = settings.database_url
    with database(Target(named.get_secret_value() if named else None, settings)) as database_url:
        asyncio.run(here(database_url, world_id))


def main() -> int:
    """Play it in a new world. What keeps it from that is told: then give 1, or 2 for a URL that is none."""
    parser = argparse.ArgumentParser(description="A conversation in which one agent interrupts another.")
    parser.add_argument("--url", help="a running service; without it, the world lives in this process")
    url: str | None = parser.parse_args().url
    world_id = f"conversation-{uuid.uuid4().hex[:8]}"
    try:
        client = None if url is None else Client(url, world_id)
    except ValueError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    try:
        play(client, world_id)
    except SimulationError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    print(f"\n$ worldledger log {world_id}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
