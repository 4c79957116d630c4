"""Kills: a process that is gone in the middle of many games takes nothing with it that was acknowledged."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import chess
import orjson
import pytest
from worldledger_chess.arena.players import Position, RandomPlayer
from worldledger_chess.rules import validate_game_state
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from tests.conftest import NEVER
from tests.store.helpers import assert_sound
from tests.warm import Process
from worldledger.effects import Effect

from .helpers import FEW

_HALL = Path(__file__).with_name("hall.py")


class Hall:
    """An arena in a process of its own; who asks while it is gone waits, and asks again."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._path = folder / "hall"
        self._log = folder / "hall.log"
        self._process: Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = itertools.count(1)
        self._up = asyncio.Event()

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        self._path.unlink(missing_ok=True)
        says, told = os.pipe()
        with open(told, "wb") as out, self._log.open("ab") as log, open(os.devnull, "rb") as nothing:  # noqa: PTH123
            streams = (nothing.fileno(), out.fileno(), log.fileno())
            self._process = Process([self._url, str(self._path)], streams, os.environ, program=_HALL)
        self._said = open(says, "rb")  # noqa: PTH123, SIM115 - no path, and open until it ends
        while b"ready" not in (line := await asyncio.to_thread(self._said.readline)):
            assert line, self._log.read_text()
        self._reading_out = asyncio.create_task(asyncio.to_thread(self._said.read))
        reader, self._writer = await asyncio.open_unix_connection(str(self._path))
        self._reading = asyncio.create_task(self._read(reader))
        self._up.set()

    async def kill(self) -> None:
        """Kill it; whoever waits for an answer is told that none comes."""
        assert self._process is not None
        assert self._writer is not None
        assert self._reading is not None
        self._up.clear()
        await asyncio.to_thread(self._process.end)
        self._writer.close()
        self._reading.cancel()
        await asyncio.gather(self._reading, self._reading_out, return_exceptions=True)
        self._said.close()
        for future in self._asked.values():
            future.set_exception(ConnectionResetError())
        self._asked.clear()

    async def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Ask until there is an answer."""
        while True:
            await self._up.wait()
            number = next(self._numbers)
            future = self._asked[number] = asyncio.get_running_loop().create_future()
            assert self._writer is not None
            self._writer.write(orjson.dumps({"id": number, "do": do, **fields}) + b"\n")
            try:
                told: dict[str, Any] = await future
            except ConnectionResetError:
                continue
            return told

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            told = orjson.loads(line)
            future = self._asked.pop(told.pop("id"), None)
            if future is not None:
                future.set_result(told)


@asynccontextmanager
async def _hall(url: str, folder: Path) -> AsyncIterator[Hall]:
    hall = Hall(url, folder)
    await hall.start()
    try:
        yield hall
    finally:
        await hall.kill()
    assert "Traceback" not in (said := (folder / "hall.log").read_text()), said


async def _log(url: str, game_id: str) -> list[Effect]:
    async with Store.open(url, Settings(pool_size=2, snapshot_every=NEVER)) as store:
        await assert_sound(store, game_id)
        return [entry.effect for entry in await (await store.log(game_id)).get_entries_since(0)]


@pytest.mark.slow
async def test_a_server_that_is_killed_again_and_again(database_url: str, tmp_path: Path, thorough: bool) -> None:
    """Games are played while the process is killed again and again: each acknowledged move is there, once.

    The players send what they have no answer to again, as any client does, and play on to the end.
    """
    plies, games, kills = (60, 20, 3) if thorough else (40, 2, 2)
    acknowledged: dict[str, dict[str, int]] = {}
    async with _hall(database_url, tmp_path) as hall:

        async def play(number: int) -> None:
            game_id = f"g{number}"
            told = await hall.ask("create", driven=False, **{"with": {"game_id": game_id, "deadline_s": 300.0}})
            assert told.get("error") in {None, "world_exists"}
            board, seqs = chess.Board(), acknowledged.setdefault(game_id, {})
            player = RandomPlayer(number)
            while len(board.move_stack) < plies and not board.is_game_over(claim_draw=True):
                if number % 4 == 0 and len(board.move_stack) % 7 == 3:  # a wrong one now and then
                    req_id = f"wrong-{len(board.move_stack)}"
                    agent = "w" if board.turn else "b"
                    told = await hall.ask("move", game_id=game_id, agent_id=agent, move="a1a1", req_id=req_id)
                    assert told["accepted"] is False, told
                    seqs[req_id] = told["global_seq"]
                uci = await player.move(Position.of(board))
                req_id = f"move-{len(board.move_stack)}"
                agent = "w" if board.turn else "b"
                told = await hall.ask("move", game_id=game_id, agent_id=agent, move=uci, req_id=req_id)
                assert told.get("accepted") is True, told
                assert told["ply"] == len(board.move_stack) + 1
                seqs[req_id] = told["global_seq"]
                board.push_uci(uci)

        async def kill() -> None:
            for _ in range(kills):
                before = sum(map(len, acknowledged.values()))
                while sum(map(len, acknowledged.values())) < before + 15 * games:
                    await asyncio.sleep(0.01)
                    assert not playing.done()
                await hall.kill()
                await hall.start()

        playing = asyncio.gather(*map(play, range(games)))
        killing = asyncio.create_task(kill())
        await playing
        await killing
    for game_id, seqs in acknowledged.items():
        log = await _log(database_url, game_id)
        assert validate_game_state(log) == []
        made = {effect["req_id"]: effect["global_seq"] for effect in log if effect["kind"].startswith("Move")}
        assert made == seqs
    assert len(acknowledged) == games


async def _plies(hall: Hall, count: int) -> int:
    """Return how many moves were made in so many games."""
    return sum([(await hall.ask("look", game_id=f"g{number}"))["plies"] for number in range(count)])


@pytest.mark.thorough  # without kills: test_driving
@pytest.mark.slow
async def test_players_of_a_server_that_is_killed(database_url: str, tmp_path: Path, thorough: bool) -> None:
    """Games of the service's own players are played on by the next process, and are the games that they would be."""
    count, kills = (20, 2) if thorough else (3, 1)  # two of them have the same seed
    async with _hall(database_url, tmp_path) as hall:
        for number in range(count):
            name = {"game_id": f"g{number}", "seed": number % 2, "fen": FEW}
            await hall.ask("create", driven=True, **{"with": name})
        for _ in range(kills):
            before = await _plies(hall, count)
            while await _plies(hall, count) < before + (20 if thorough else 10) * count:
                await asyncio.sleep(0.02)
            assert "in_progress" in [(await hall.ask("look", game_id=f"g{n}"))["status"] for n in range(count)]
            await hall.kill()
            await hall.start()
        for number in range(count):
            while (await hall.ask("look", game_id=f"g{number}"))["status"] == "in_progress":
                await asyncio.sleep(0.02)
    played: dict[int, set[tuple[str, ...]]] = {0: set(), 1: set()}
    for number in range(count):
        log = await _log(database_url, f"g{number}")
        assert validate_game_state(log) == []
        moves = tuple(effect["payload"]["uci_notation"] for effect in log if effect["kind"] == "MoveMade")
        played[number % 2].add(moves)
    assert [len(each) for each in played.values()] == [1, 1]


@pytest.mark.thorough  # forks elsewhere: test_playing_on
@pytest.mark.slow
async def test_a_fork_that_is_played_on_by_a_server_that_is_killed(database_url: str, tmp_path: Path) -> None:
    """Forks of one moment and one seed are played on by the next process, after the moves of before, to one end."""
    async with _hall(database_url, tmp_path) as hall:
        await hall.ask("create", driven=True, **{"with": {"game_id": "parent", "seed": 0, "fen": FEW}})
        while (await hall.ask("look", game_id="parent"))["plies"] < 6:
            await asyncio.sleep(0.02)
        for name in ("g0", "g1"):
            await hall.ask("create", driven=True, **{"from": "parent@ply:4", "with": {"game_id": name, "seed": 1}})
        while await _plies(hall, 2) < 2 * 10:
            await asyncio.sleep(0.02)
        await hall.kill()
        await hall.start()
        for name in ("g0", "g1"):
            while (await hall.ask("look", game_id=name))["status"] == "in_progress":
                await asyncio.sleep(0.02)
    logs = [await _log(database_url, name) for name in ("g0", "g1")]
    until = logs[0][0]["payload"]["fork_of"]["global_seq"]
    before = [effect for effect in await _log(database_url, "parent") if effect["global_seq"] <= until]
    moves = [[effect["payload"]["uci_notation"] for effect in log if effect["kind"] == "MoveMade"] for log in logs]
    assert moves[0] == moves[1]
    assert validate_game_state([*before, *logs[0]]) == []
