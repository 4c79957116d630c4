"""How many functions of the product a request enters: ``python -m benchmarks.hops [--names]``.

Counted are distinct functions (`sys.setprofile`) whose source is the product's, in the serving process, from the first
byte of the request on. The service and its callers share one event loop; callers are bare sockets and libraries, which
do not count. Each request is made several times, and what was entered every time counts: timers of their own do not.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Self

import orjson
from websockets.asyncio.client import connect
from worldledger_service.app import serve
from worldledger_service.database import embedded, schema
from worldledger_service.settings import Settings

from benchmarks.agents_sockets import PROTOCOL
from benchmarks.chess_players import Caller
from benchmarks.harness import Goal, say

#: Times that a request is made before it counts, and times that it counts.
WARM, TIMES = 3, 5
#: Most functions that a request may enter.
POST, INTENT, MOVE = 22, 30, 36

_HERE = Path(__file__).parent.parent
_PRODUCT = tuple(str(_HERE / name) + "/" for name in ("worldledger", "service", "projections", "kinds"))
#: Parts of a function that Python makes functions of.
_PARTS = frozenset({"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>", "<module>"})

Function = tuple[str, str, int]


class Counter:
    """Notes which functions are entered, in order; ``to_row`` is how many before the first INSERT was sent."""

    def __init__(self) -> None:
        self.entered: dict[Function, None] = {}
        self.to_row: list[Function] | None = None

    def __enter__(self) -> Self:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code.co_filename.startswith(_PRODUCT):
            if code.co_name not in _PARTS:
                name = code.co_filename.removeprefix(f"{_HERE}/")
                self.entered.setdefault((name, code.co_qualname, code.co_firstlineno))
        elif self.to_row is None and "asyncpg" in code.co_filename:
            query = frame.f_locals.get("query")
            if isinstance(query, str) and "insert into" in query.lower():
                self.to_row = list(self.entered)


async def count(request: Callable[[], Awaitable[object]]) -> tuple[list[Function], list[Function]]:
    """Return the functions that a request enters before its row is sent, and until it returns."""
    for _ in range(WARM):
        await request()
    counters = []
    for _ in range(TIMES):
        await asyncio.sleep(0.05)  # what follows from the request before is over
        with Counter() as counter:
            await request()
        counters.append(counter)
    first, *others = counters
    to_row = [each for each in first.to_row or () if all(each in (other.to_row or ()) for other in others)]
    return to_row, [each for each in first.entered if all(each in other.entered for other in others)]


async def post(port: int) -> tuple[list[Function], list[Function]]:
    """Post an effect with a req_id."""
    caller = await Caller.open(port)
    await caller.post("/v1/worlds", {"world_id": "posted"})

    async def one() -> None:
        draft = {"kind": "Noted", "payload": {"text": "a word"}, "source_id": "bench", "schema_version": "1.0.0"}
        status, text = await caller.post("/v1/worlds/posted/effects", {**draft, "req_id": uuid.uuid4().hex})
        _must(status == 201, text)

    found = await count(one)
    caller.close()
    return found


async def intent(port: int) -> tuple[list[Function], list[Function]]:
    """Send an intent over WebSocket until another agent is told what it sees of it."""
    caller = await Caller.open(port)
    await caller.post("/v1/worlds", {"world_id": "lived-in", "orchestrator": {"staleness_threshold": None}})
    for name in ("ann", "ben"):
        status, text = await caller.post("/v1/worlds/lived-in/agents", {"agent_id": name})
        _must(status < 300, text)
    caller.close()
    address = f"ws://127.0.0.1:{port}/v1/worlds/lived-in/agents/%s/ws"
    async with _socket(address % "ann") as acting, _socket(address % "ben") as seeing:

        async def one() -> None:
            req_id = uuid.uuid4().hex
            asked = {"kind": "Speak", "payload": {"text": "Good morning."}, "req_id": req_id}
            await acting.send(orjson.dumps({"type": "intent", "id": 1, "intent": asked}).decode())
            answers = [_message(acting, "accepted"), _message(seeing, "observation")]
            await asyncio.gather(*answers)

        return await count(one)


async def move(port: int) -> tuple[list[Function], list[Function]]:
    """Make a move of a game over HTTP."""
    caller = await Caller.open(port)
    agents = {color: {"agent_id": color} for color in ("white", "black")}
    status, text = await caller.post("/v1/games", {"game_id": "played", **agents, "deadline_s": None})
    _must(status == 201, text)
    moves = iter(["g1f3", "g8f6", "f3g1", "f6g8", "b1c3", "b8c6", "c3b1", "c6b8"])
    players = iter(["white", "black"] * 4)

    async def one() -> None:
        status, text = await caller.post("/v1/games/played/moves", {"player": next(players), "move": next(moves)})
        _must(status == 201, text)

    found = await count(one)
    caller.close()
    return found


def _must(kept: bool, text: bytes) -> None:
    if not kept:
        raise RuntimeError(text.decode())


async def _message(socket: Any, wanted: str) -> None:
    """Read on to a message of the wanted type."""
    while (message := orjson.loads(await socket.recv()))["type"] != wanted:
        if message["type"] in {"error", "rejected"}:
            raise RuntimeError(str(message))


@asynccontextmanager
async def _socket(address: str) -> AsyncIterator[Any]:
    async with connect(address, subprotocols=[PROTOCOL], compression=None, proxy=None, ping_interval=None) as socket:
        await _message(socket, "view")
        yield socket


@asynccontextmanager
async def serving(url: str) -> AsyncIterator[int]:
    """Serve in this event loop; give the port."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = asyncio.create_task(serve(Settings(port=0), url, ready=ready.set_result))
    try:
        server.add_done_callback(lambda _: ready.cancel())  # it has failed, if it was not ready before
        yield int((await ready).rpartition(":")[2])
    finally:
        server.cancel()
        await asyncio.wait({server})


async def run(url: str, names: bool) -> list[Goal]:
    """Count for the three requests."""
    await schema.upgrade(url)
    goals = []
    async with serving(url) as port:
        for what, request, most in (
            ("HTTP POST of an effect with req_id, to its row", post, POST),
            ("WebSocket intent, to another agent's observation", intent, INTENT),
            ("chess move over HTTP, to its answer", move, MOVE),
        ):
            to_row, entered = await request(port)
            counted = to_row if request is post else entered
            say(f"{what}: {len(counted)} functions ({len(to_row)} to the row, {len(entered)} in all)")
            if names:
                for number, (path, name, _) in enumerate(entered, 1):
                    say(f"  {number:3} {'row' if (path, name, _) in to_row else '   '} {path}: {name}")
            goals.append(Goal(f"functions entered: {what}", len(counted), most, at_least=False))
    return goals


def main() -> None:
    """Count on an embedded server of its own."""
    with tempfile.TemporaryDirectory(prefix="worldledger-hops-") as folder:
        Path(folder).chmod(0o711)  # as root, the server runs as another user and must get through
        home = Path(folder) / "home"
        with embedded.attach(home, database="postgres") as server:
            goals = asyncio.run(run(server.url(), "--names" in sys.argv))
        embedded.remove(home)
    for goal in goals:
        print(goal.line())


if __name__ == "__main__":
    main()
