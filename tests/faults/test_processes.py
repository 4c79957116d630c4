"""Real processes that race on one world."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from service.store import Store
from tests.store.helpers import assert_sound
from worldledger.genesis import NewWorld

from .helpers import environment

pytestmark = pytest.mark.slow

COUNT = 200


@pytest.mark.parametrize("shared", [False, True], ids=["different requests", "the same requests"])
async def test_processes_race_on_one_world(store: Store, database_url: str, shared: bool) -> None:
    """Processes that write to one world at the same time make one log; the same request is one effect for all."""
    await store.create_world(NewWorld(world_id="race"))
    program = str(Path(__file__).with_name("racer.py"))
    racers = [
        subprocess.Popen(
            [sys.executable, program, database_url, "race", f"p{number}", str(COUNT), str(int(shared))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for number in range(3)
    ]
    try:
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        told = []
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        for racer in racers:
            out, _ = racer.communicate(timeout=100)
            assert racer.returncode == 0
            told.append(json.loads(out))
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()
    await assert_sound(store, "race")
    log = await store.log("race")
    written = {
        entry.req_id: (entry.global_seq, entry.effect["uuid"], entry.checksum)
        for entry in await log.get_entries_since(1)
    }
    assert len(written) == COUNT * (1 if shared else 3)
    for answers in told:
        assert {key: tuple(receipt[:3]) for key, receipt in answers.items()} == {key: written[key] for key in answers}
    first = [key for answers in told for key, receipt in answers.items() if not receipt[3]]
    assert sorted(first) == sorted(written)
