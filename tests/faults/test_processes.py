"""Real processes that race on one world."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from worldledger_service.store import Store

from tests.store.helpers import assert_sound
from tests.warm import Process
from worldledger.genesis import NewWorld

from .helpers import environment

pytestmark = pytest.mark.slow

COUNT = 100
_PROGRAM = Path(__file__).with_name("racer.py")


class Racer:
    """A process that races; see racer.py."""

    def __init__(self, database_url: str, name: str) -> None:
        (hears, told), (says, speaks) = os.pipe(), os.pipe()
        self.to, self.said = open(told, "w"), open(says)  # noqa: PTH123, SIM115 - no paths, and open until it ends
        self.process = Process([database_url, name, str(COUNT)], (hears, speaks, 2), environment(), program=_PROGRAM)
        os.close(hears)
        os.close(speaks)

    def end(self) -> None:
        """Leave nothing behind."""
        self.process.end()
        self.to.close()
        self.said.close()


async def test_processes_race_on_one_world(store: Store, database_url: str) -> None:
    """Processes that write to one world at the same time make one log; the same request is one effect for all."""
    worlds = {"different": 3 * COUNT, "same": COUNT}
    for world in worlds:
        await store.create_world(NewWorld(world_id=world))
    with ExitStack() as stack:
        racers = [Racer(database_url, f"p{number}") for number in range(3)]
        for racer in racers:
            stack.callback(racer.end)
        for world, count in worlds.items():
            await _judge(store, world, count, _race(racers))
        assert [racer.process.wait(100) for racer in racers] == [0, 0, 0]


def _race(racers: list[Racer]) -> list[dict[str, Any]]:
    """Have all of them race in the next world; return what they were told."""
    for racer in racers:
        assert racer.said.readline() == "ready\n"
    for racer in racers:
        racer.to.write("go\n")
        racer.to.flush()
    return [json.loads(racer.said.readline()) for racer in racers]


async def _judge(store: Store, world: str, count: int, told: list[dict[str, Any]]) -> None:
    """Check that a world has so many effects, and each of them where everybody was told that it is."""
    await assert_sound(store, world)
    log = await store.log(world)
    written = {
        entry.req_id: (entry.global_seq, entry.effect["uuid"], entry.checksum)
        for entry in await log.get_entries_since(1)
    }
    assert len(written) == count
    for answers in told:
        assert len(answers) == COUNT
        assert {key: tuple(receipt[:3]) for key, receipt in answers.items()} == {key: written[key] for key in answers}
    first = [key for answers in told for key, receipt in answers.items() if not receipt[3]]
    assert sorted(first) == sorted(written)
