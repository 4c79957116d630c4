"""A client that never reads, beside others: it harms nobody but itself, and itself not for good."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import psutil
import pytest

from worldledger.client import Client
from worldledger.config import OrchestratorConfig
from worldledger.deltas import View, apply_delta

from .living import ALL, PATIENT, Mind, Service, Wire, event, intent, judged, living, right, serving, wired

pytestmark = pytest.mark.slow

#: Bytes of one event, and how many there are: more than the service keeps for readers who come back.
_SIZE: Final = 30_000
_EVENTS: Final = 600
_MIB: Final = 2**20


def _memory(service: Service) -> int:
    found: int = psutil.Process(service.pid).memory_info().rss
    return found


async def _talk(speakers: list[Mind], name: str) -> int:
    """Have everybody say much at once; return the last seq."""
    for start in range(0, _EVENTS, 8):
        said = await asyncio.gather(
            *(
                speakers[n % len(speakers)].act(
                    intent(speakers[n % len(speakers)].agent_id, f"{name}-{n}", "Speak", text=f"{n} ".ljust(_SIZE, "x"))
                )
                for n in range(start, start + 8)
            )
        )
        last = max(each.global_seq for each in said)
    return last


@pytest.mark.thorough  # by a process; in process: tests/runtime/test_slow_readers.py
async def test_who_never_reads_harms_nobody(database_url: str, tmp_path: Path) -> None:
    """Others hear everything, the service's memory stays as it was, and who reads again comes to the right view."""
    async with serving(database_url, tmp_path) as service, living(service) as world:
        await world.create_world(orchestrator=OrchestratorConfig(staleness_threshold=PATIENT, max_queued_deltas=50))
        speakers = [Mind(await world.register_agent(name, ALL)) for name in ("bea", "cy")]
        deaf = await world.register_agent("ada", ALL)
        assert deaf.initial_view is not None
        view = deaf.initial_view
        deaf.close()
        listener = Mind(await world.register_agent("dan", ALL))
        listener.read()
        async with wired(service, "ada", view.view_seq) as wire:
            # At first it reads: what the service keeps for anybody is there afterwards.
            last = await _talk(speakers, "first")
            view = await _read(wire, world, view, last)
            before = _memory(service)
            # Now it does not.
            last = await _talk(speakers, "second")
            grown = _memory(service) - before
            assert grown < _EVENTS * _SIZE / 2, f"{grown / _MIB} MiB"  # half of what it has not read
            messages = 0
            while view.view_seq < last:
                view = await _step(wire, world, view)
                messages += 1
            assert messages < _EVENTS
            end = await world.broadcast_event(event("end"))
            view = await _read(wire, world, view, end.global_seq)
            assert view == await world.view("ada", at_seq=end.global_seq)
        await listener.come_to(end.global_seq)
    accepted = [each for mind in speakers for each in mind.accepted.values()]
    assert len(accepted) == 2 * _EVENTS
    await judged(database_url, "town", accepted)
    await right(database_url, "town", listener)
    assert [mind.refusals for mind in speakers] == [{}, {}]


async def _read(wire: Wire, world: Client, view: View, seq: int) -> View:
    """Read on until the view is that of a seq."""
    while view.view_seq < seq:
        view = await _step(wire, world, view)
    assert view.view_seq == seq
    return view


async def _step(wire: Wire, world: Client, view: View) -> View:
    """Read the next observation; one that is too large for a message is read as a view."""
    message = await wire.receive("observation", "resync")
    if message["type"] == "observation":
        return apply_delta(view, message["delta"])
    found = await world.view("ada", at_seq=message["view_seq"])
    assert found.context_digest == message["context_digest"]
    return found
