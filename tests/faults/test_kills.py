"""Processes killed under load: every acknowledged effect is there, once, in a gapless verified log."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest
from worldledger_service.database import embedded
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from tests.waiting import block_until
from tests.warm import Process
from worldledger.genesis import NewWorld

from .helpers import Service, environment

pytestmark = pytest.mark.slow

_CLIENTS = Path(__file__).with_name("clients.py")
#: About how many bytes the note of one acknowledgement has.
LINE = 200
WORLDS = ["one", "two", "three"]


def _kill_postmaster(home: Path) -> None:
    state = block_until(lambda: embedded.status(home), "the supervisor tells its state")
    pid = block_until(lambda: state.postmaster_pid or getattr(embedded.status(home), "postmaster_pid", None), "it runs")
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return

    def back() -> bool:
        now = embedded.status(home)
        return now is not None and now.state == "ready" and now.postmaster_pid != pid

    block_until(back, "the supervisor has started the server again")


async def _make_worlds(url: str) -> None:
    async with Store.open(url, Settings(pool_size=2)) as store:
        for name in WORLDS:
            await store.create_world(NewWorld(world_id=name))


async def _judge(url: str, acks: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Look at every world with every acknowledgement in hand; return the effects."""
    found: dict[str, list[dict[str, Any]]] = {}
    async with Store.open(url, Settings(pool_size=2)) as store:
        for name in WORLDS:
            rows = [row async for batch in store.reader.batches(name) for row in batch]
            assert [row.global_seq for row in rows] == list(range(1, len(rows) + 1))
            verdict = await store.reader.verify(name)
            assert verdict.verified, verdict.finding
            found[name] = [orjson.loads(row.text) for row in rows]
            for ack in acks:
                if ack["world"] == name:
                    row, effect = rows[ack["global_seq"] - 1], found[name][ack["global_seq"] - 1]
                    assert (effect["uuid"], effect["req_id"]) == (ack["uuid"], ack["req_id"])
                    assert row.checksum.hex() == ack["checksum"]
    return found


def test_kills_of_service_and_server_under_load(home: Path, tmp_path: Path, thorough: bool) -> None:
    """After many SIGKILLs under load from 16 clients, of all acknowledged effects none is lost, and none doubled."""
    kills, acknowledged = (24, 10_000) if thorough else (4, 1000)
    acks = tmp_path / "acks"
    with ExitStack() as stack:
        server = stack.enter_context(embedded.attach(home))
        service = Service(home, "--no-projections")  # their own kills are tried in tests/projections
        stack.callback(service.close)
        block_until(service.is_ready, "the service answers")
        asyncio.run(_make_worlds(server.url()))
        arguments = [str(service.port), str(tmp_path), *WORLDS]
        nothing = stack.enter_context(Path(os.devnull).open("r+b")).fileno()
        clients = Process(arguments, (nothing, nothing, 2), environment(), program=_CLIENTS)
        stack.callback(clients.end)
        block_until(acks.exists, "the clients have started")
        for kill in range(kills):
            # Each kill meets clients that are being served again, and interrupts them.
            enough = acks.stat().st_size + acknowledged // kills * LINE
            block_until(lambda: acks.stat().st_size > enough, "more is acknowledged")  # noqa: B023
            if kill % 2:
                service.kill()
                service.start_again()
            else:
                _kill_postmaster(home)
        block_until(lambda: acks.read_bytes().count(b"\n") >= acknowledged, "all is acknowledged")
        (tmp_path / "stop").touch()
        assert clients.wait(timeout=60) == 0
        assert (tmp_path / "refused").read_text() == ""
        told = [json.loads(line) for line in acks.read_text().splitlines()]
        assert len(told) >= acknowledged
        effects = asyncio.run(_judge(server.url(), told))
    keys = Counter(
        (world, effect["req_id"]) for world, log in effects.items() for effect in log if effect["req_id"] is not None
    )
    digests = {key for key in keys if key[1].startswith("digest:")}  # the service's own, of the states meanwhile
    assert set(keys.values()) == {1}
    assert set(keys) - digests == {(ack["world"], ack["req_id"]) for ack in told}
    assert sum(len(log) for log in effects.values()) == len(told) + len(WORLDS) + len(digests)
