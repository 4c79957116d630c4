"""A service that is killed in the middle of episodes: each goes on where it stood."""

from __future__ import annotations

import asyncio
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import chess
import httpx2
import pytest
from websockets.asyncio.client import connect

from tests.faults.helpers import environment, free_port
from tests.waiting import block_until
from tests.warm import Process

from .helpers import PREFIX, Socket, reset, result, state_of

STEPS = 10


class Service:
    """``worldledger serve`` on a database of the test's own; it can be killed and started again on its port."""

    def __init__(self, database_url: str, log: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._environment = {
            **environment(),
            "WORLDLEDGER_DATABASE_URL": database_url,
            "WORLDLEDGER_PROJECTIONS": "false",
        }
        self._log = log
        self.start()

    def start(self) -> None:
        """Start it, and wait until it is ready: until then, what needs the database is answered 503."""
        with self._log.open("ab") as log, open(os.devnull, "rb") as nothing:  # noqa: PTH123 - no path of ours
            streams = (nothing.fileno(), log.fileno(), log.fileno())
            self.process = Process(["serve", "--port", str(self.port)], streams, self._environment)
        block_until(self._is_ready, "it is ready")

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, self._log.read_text()
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self.process.end()


@pytest.fixture
def service(database_url: str, tmp_path: Path) -> Iterator[Service]:
    """Run a service that may be killed."""
    started = Service(database_url, tmp_path / "service.log")
    yield started
    started.kill()


@pytest.mark.thorough  # games that are killed: tests/arena/test_kills.py
@pytest.mark.slow
async def test_episodes_go_on_after_a_kill(service: Service) -> None:
    """Whatever step was answered is in the episode; the others are asked again, and are made once."""
    told: dict[str, int] = {}
    back = asyncio.Event()
    back.set()

    async def play(client: httpx2.AsyncClient, name: str, seed: int) -> list[str]:
        seen = await reset(client, episode_id=name, seed=seed, agent_color="white")
        made = []
        for number in range(STEPS):
            move = seen["legal_moves"][(number * 7 + seed) % len(seen["legal_moves"])]
            body = {"action": {"move": move}, "episode_id": name, "request_id": f"step-{number}"}
            while True:
                await back.wait()
                try:
                    response = await client.post(f"{PREFIX}/step", json=body)
                except httpx2.TransportError:
                    await asyncio.sleep(0.01)
                    continue
                if response.status_code != 503:  # it is ready again
                    break
                await asyncio.sleep(0.01)
            assert response.status_code == 200, response.text
            seen = result(response.json())
            assert seen["metadata"]["accepted"]
            made.append(move)
            told[name] = number + 1
        return made

    async with httpx2.AsyncClient(base_url=service.url, timeout=60) as client:
        names = [f"e{seed}" for seed in range(3)]
        playing = [asyncio.create_task(play(client, name, seed)) for seed, name in enumerate(names)]
        while sum(told.values()) < 12:
            await asyncio.sleep(0.01)
            assert [task.exception() for task in playing if task.done()] == []
        back.clear()
        service.kill()
        await asyncio.to_thread(service.start)
        back.set()
        for name, made in zip(names, await asyncio.gather(*playing), strict=True):
            state = await state_of(client, name)
            assert state["move_history"][::2] == made
            board = chess.Board()
            for move in state["move_history"]:
                board.push_uci(move)
            assert (state["step_count"], state["fen"]) == (2 * STEPS, board.fen(en_passant="fen"))
        # And over a socket, by the same id.
        async with connect(f"ws://127.0.0.1:{service.port}{PREFIX}/ws", proxy=None, open_timeout=60) as connection:
            socket = Socket(connection)
            seen = await socket.reset(episode_id="e0", resume=True)
            assert seen["fen"] == (await state_of(client, "e0"))["fen"]
            assert (await socket.state())["step_count"] == 2 * STEPS
