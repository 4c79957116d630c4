"""Real processes that race on one world."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from service.store import Store
from tests.store.helpers import assert_sound
from worldledger.genesis import NewWorld

from .helpers import environment

pytestmark = pytest.mark.slow

COUNT = 200


async def test_processes_race_on_one_world(store: Store, database_url: str) -> None:
    """Processes that write to one world at the same time make one log; the same request is one effect for all."""
    worlds = {"different": 3 * COUNT, "same": COUNT}
    for world in worlds:
        await store.create_world(NewWorld(world_id=world))
    program = str(Path(__file__).with_name("racer.py"))
    racers = [
        subprocess.Popen(
            [sys.executable, program, database_url, f"p{number}", str(COUNT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for number in range(3)
    ]
    try:
        for world, count in worlds.items():
            await _judge(store, world, count, _race(racers))
        for racer in racers:
            racer.communicate(timeout=100)
            assert racer.returncode == 0
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()


def _race(racers: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    """Have all of them race in the next world; give what they were told."""
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    return [json.loads(racer.stdout.readline()) for racer in racers if racer.stdout is not None]


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
