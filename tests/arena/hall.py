"""An arena in a process of its own, which a test can kill: ``python hall.py URL SOCKET``.

It answers lines of JSON, ``{id, do, …}``, by lines of JSON, ``{id, …}``: an answer or an ``error``.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import orjson
from worldledger_chess.arena import Arena, ArenaSettings, PlayFrom

from tests.arena.helpers import new_game, of_players, opened
from worldledger.errors import SimulationError
from worldledger.moments import parse_place


async def _do(arena: Arena, asked: dict[str, Any]) -> dict[str, Any]:
    if asked["do"] == "create":
        new = of_players("random", "random", **asked["with"]) if asked["driven"] else new_game(**asked["with"])
        place = asked.get("from")
        world, moment = (None, None) if place is None else parse_place(place)
        play_from = None if world is None or moment is None else PlayFrom(world, moment)
        return {"fen": (await arena.create(new, play_from)).board.fen()}
    game = await arena.game(asked["game_id"])
    if asked["do"] == "move":
        outcome = await game.move(asked["agent_id"], asked["move"], req_id=asked["req_id"])
        return outcome.model_dump(mode="json", include={"accepted", "global_seq", "ply", "replayed"})
    state = game.state
    return {"fen": game.board.fen(), "plies": len(state.move_history), "status": state.status}


async def _serve(url: str, path: str) -> None:
    async with opened(url, time.time, ArenaSettings(scan_every=0.1, adopt_after=0.1)) as arena:
        answering: set[asyncio.Task[None]] = set()

        async def answer(asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
            try:
                told = await _do(arena, asked)
            except SimulationError as error:
                told = {"error": error.code, "message": error.message, "details": error.details}
            writer.write(orjson.dumps({"id": asked["id"], **told}, default=str) + b"\n")

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                task = asyncio.create_task(answer(orjson.loads(line), writer))
                answering.add(task)
                task.add_done_callback(answering.discard)

        server = await asyncio.start_unix_server(take, path)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        async with server:
            await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], sys.argv[2]))
