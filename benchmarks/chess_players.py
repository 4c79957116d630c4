"""Who plays games over HTTP and watches them, in a process of its own: bare clients that note what came when.

``python -m benchmarks.chess_players < task > found``: a `Task` and what it found, a `Found`, both as JSON. Moments are
those of `time.time`, as in the log.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson
import uvloop
from websockets.asyncio.client import ClientConnection, connect

#: Seconds that the last event may take.
PATIENCE = 10.0


@dataclass(frozen=True)
class Task:
    """What is to be done: games that are played at the same time, at random and both sides by one client each.

    A game ends after ``plies``, and no move is begun after ``seconds``. ``watchers`` watch each game. With ``pause``
    seconds between two moves (on the average) what is measured of one has nothing to do with the one before.
    """

    port: int
    name: str
    games: int
    plies: int
    seconds: float = 600.0
    watchers: int = 0
    pause: float = 0.0
    tensor: bool = True


@dataclass
class Found:
    """What came.

    ``moves``: (game, global_seq, UCI, sent, answered) of each move that was acknowledged. ``watched``: (game,
    global_seq, when the last watcher had it) of each move that all watchers were told of.
    ``refused``: answers that were none.
    """

    moves: list[tuple[str, int, str, float, float]] = field(default_factory=list)
    watched: list[tuple[str, int, float]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Caller:
    """One connection that posts JSON and waits for each answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Caller:
        """Connect."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def post(self, path: str, body: Any) -> tuple[int, bytes]:
        """Post; return the status and the body of the answer."""
        text = orjson.dumps(body)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(text)}"
        )
        self._writer.write(head.encode() + b"\r\n\r\n" + text)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        at = answer.index(b"content-length:") + len(b"content-length:")
        return int(answer[9:12]), await self._reader.readexactly(int(answer[at : answer.index(b"\r", at)]))

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


class Watcher:
    """One socket; keeps what comes, with the moment, to be read when all is over."""

    def __init__(self, connection: ClientConnection) -> None:
        self.came: list[tuple[float, bytes]] = []
        self._reading = asyncio.create_task(self._read(connection))

    async def _read(self, connection: ClientConnection) -> None:
        while True:
            text = await connection.recv(decode=False)
            self.came.append((time.time(), text))

    def close(self) -> None:
        """Watch no more."""
        self._reading.cancel()


async def run(task: Task) -> Found:
    """Do it."""
    found = Found()
    async with AsyncExitStack() as stack:
        games = [f"{task.name}-{number}" for number in range(task.games)]
        callers = {}
        watchers: dict[str, list[Watcher]] = {}
        for game in games:
            callers[game] = await Caller.open(task.port)
            stack.callback(callers[game].close)
        await asyncio.gather(*(_begin(game, callers[game]) for game in games))
        for game in games:
            address = f"ws://127.0.0.1:{task.port}/v1/games/{game}/watch"
            watchers[game] = []
            for _ in range(task.watchers):
                opened = await stack.enter_async_context(connect(address, compression=None, proxy=None, max_queue=None))
                watchers[game].append(Watcher(opened))
                stack.callback(watchers[game][-1].close)
        gc.collect()
        gc.disable()  # a pause of this process would be taken for one of the server
        start = time.time()
        await asyncio.gather(*(_play(task, game, callers[game], found, start) for game in games))
        found.seconds = time.time() - start
        if task.watchers:
            await _settle(found, watchers)
            _read(found, watchers)
    return found


async def _begin(game: str, caller: Caller) -> None:
    sides = {colour: {"agent_id": colour} for colour in ("white", "black")}
    status, text = await caller.post("/v1/games", {"game_id": game, **sides, "deadline_s": None})
    if status != 201:
        raise RuntimeError(text.decode())


async def _play(task: Task, game: str, caller: Caller, found: Found, start: float) -> None:
    pick = random.Random(game)
    path = f"/v1/games/{game}/moves" + ("" if task.tensor else "?tensor=false")
    legal = [f"{file}2{file}{rank}" for file in "abcdefgh" for rank in "34"]
    for ply in range(task.plies):
        if task.pause:
            await asyncio.sleep(pick.expovariate(1 / task.pause))
        if time.time() - start > task.seconds:
            return
        move = pick.choice(legal)
        sent = time.time()
        status, text = await caller.post(path, {"player": "black" if ply % 2 else "white", "move": move})
        answered = time.time()
        outcome = orjson.loads(text)
        if status != 201 or not outcome["accepted"]:
            found.refused.append(text.decode())
            return
        found.moves.append((game, outcome["global_seq"], move, sent, answered))
        legal = outcome["board_state"]["legal_moves"]
        if outcome["ended"] is not None or not legal:
            return


async def _settle(found: Found, watchers: dict[str, list[Watcher]]) -> None:
    """Wait until every watcher has been told of every move."""
    last = {game: seq for game, seq, *_ in found.moves}
    given_up = time.time() + PATIENCE
    while not all(
        watcher.came and orjson.loads(watcher.came[-1][1])["global_seq"] >= last[game]
        for game, each in watchers.items()
        if game in last
        for watcher in each
    ):
        if time.time() > given_up:
            raise RuntimeError("not every watcher was told of every move")
        await asyncio.sleep(0.05)


def _read(found: Found, watchers: dict[str, list[Watcher]]) -> None:
    for game, each in watchers.items():
        last: dict[int, tuple[int, float]] = {}
        for watcher in each:
            for at, text in watcher.came:
                event = orjson.loads(text)
                if event["type"] == "move_made":
                    told, latest = last.get(event["global_seq"], (0, 0.0))
                    last[event["global_seq"]] = told + 1, max(latest, at)
        found.watched += [(game, seq, at) for seq, (told, at) in last.items() if told == len(each)]


async def play(task: Task) -> Found:
    """Have a process of its own do it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.chess_players", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate(orjson.dumps(asdict(task)))
    if process.returncode:
        raise RuntimeError("the players' process failed")
    return Found(**orjson.loads(output))


if __name__ == "__main__":
    sys.stdout.buffer.write(orjson.dumps(asdict(uvloop.run(run(Task(**orjson.loads(sys.stdin.buffer.read())))))))
