"""A move over HTTP, beside what it consists of; what the position costs; and how soon those who watch are told."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import asyncpg
import chess
import orjson
from worldledger_chess.arena import Arena, ArenaSettings, NewGame
from worldledger_chess.rules import AgentSpec, BoardState
from worldledger_chess.rules.moves import play_move
from worldledger_service.runtime.worlds import Worlds
from worldledger_service.store import Store
from worldledger_service.store.watch import HeadWatcher

from benchmarks.agents_town import process
from benchmarks.chess_players import Caller, Task, play
from benchmarks.harness import Goal, Report, say
from worldledger.effects import EffectDraft
from worldledger.genesis import NewWorld

ROUNDS = 3
PLIES = 120
WATCHERS = 20
#: Part of a move that python-chess and the commit are to be; most milliseconds for a position, and until all are told.
WANTED_PART, WANTED_BOARD, WANTED_TOLD = 0.5, 10.0, 10.0


_NAMES = (
    "move",
    "lean",
    "told",
    "in process",
    "append",
    "insert",
    "echo",
    "python-chess",
    "ours",
    "position",
    "JSON",
)


class Times:
    """Milliseconds that something took, one list for each round."""

    def __init__(self) -> None:
        self.rounds: list[list[float]] = []

    @property
    def median(self) -> float:
        """The median of the rounds' medians."""
        return statistics.median(map(statistics.median, self.rounds))

    @property
    def p95(self) -> float:
        """The median of the rounds' 95th percentiles."""
        return statistics.median(statistics.quantiles(each, n=20)[18] for each in self.rounds)


async def run(report: Report, url: str, store: Store, folder: Path) -> None:
    """Measure moves of one game at a time, in turn with their parts."""
    say("chess: moves")
    names = (
        "move",
        "lean",
        "told",
        "in process",
        "append",
        "insert",
        "echo",
        "python-chess",
        "ours",
        "position",
        "JSON",
    )
    times = {name: Times() for name in names}
    commits = folder / "commits.json"
    watched: list[list[tuple[str, int, float]]] = []
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(process("benchmarks.chess_server", url, "{port}", str(commits)))
        echo = await stack.enter_async_context(process("benchmarks.chess_echo", "{port}"))
        arena = await stack.enter_async_context(_arena(url, store))
        parts = await stack.enter_async_context(_parts(url, store, arena, echo.port, times))
        for number in range(ROUNDS + 1):  # the first does not count
            found = await play(Task(server.port, f"move-{number}", 1, PLIES))
            lean = await play(Task(server.port, f"lean-{number}", 1, PLIES, tensor=False))
            seen = await play(Task(server.port, f"told-{number}", 1, PLIES, watchers=WATCHERS, pause=0.005))
            for each in (found, lean, seen):
                if each.refused:
                    raise RuntimeError(each.refused[0])
            if len(seen.watched) != len(seen.moves):
                raise RuntimeError("not every watcher was told of every move")
            await parts([uci for _, _, uci, _, _ in found.moves])
            _add(times["move"], [answered - sent for *_, sent, answered in found.moves])
            _add(times["lean"], [answered - sent for *_, sent, answered in lean.moves])
            watched.append(seen.watched)
    committed = {(game, seq): at for game, seq, at in orjson.loads(commits.read_bytes())}
    for told in watched:
        _add(times["told"], [at - committed[game, seq] for game, seq, at in told])
    for every in times.values():
        del every.rounds[0]
    _tell(report, times)


def _tell(report: Report, times: dict[str, Times]) -> None:
    # The work in python-chess: to check the move and describe it, and to give the position with its legal moves.
    move, parts = times["move"], times["ours"].median + times["position"].median + times["append"].median
    for name, what in (
        ("move", "a move over HTTP"),
        ("lean", "a move over HTTP without the tensor"),
        ("in process", "a move in process"),
        ("append", "an append of the same effect by the store alone"),
        ("insert", "a bare INSERT of the same effect"),
        ("echo", "an echo of the same request and answer over HTTP"),
        ("python-chess", "a move in python-chess alone"),
        ("ours", "a move checked and described by python-chess (the payload)"),
        ("position", "a position and its legal moves by python-chess (the BoardState)"),
        ("JSON", "a BoardState as JSON"),
    ):
        report.tell(f"{what}: median", times[name].median, "ms")
        report.tell(f"{what}: p95", times[name].p95, "ms")
    report.note(
        Goal("the work in python-chess and the append over a move over HTTP: medians", parts / move.median, WANTED_PART)
    )
    with_echo = parts + times["echo"].median
    report.tell("the same and the echo over a move over HTTP: medians", with_echo / move.median, "")
    board = times["position"].p95 + times["JSON"].p95
    report.note(Goal("BoardState of a position, and its JSON: p95", board, WANTED_BOARD, at_least=False, unit="ms"))
    what = f"from a move's commit until the last of {WATCHERS} watchers has it: "
    report.tell(what + "median", times["told"].median, "ms")
    report.note(Goal(what + "p95", times["told"].p95, WANTED_TOLD, at_least=False, unit="ms"))


def _add(times: Times, seconds: Sequence[float]) -> None:
    times.rounds.append([each * 1000 for each in seconds])


@asynccontextmanager
async def _arena(url: str, store: Store) -> AsyncIterator[Arena]:
    """Open an arena in this process, which leaves the server's games alone."""
    async with HeadWatcher.over(store, interval=0.1, url=url) as watcher, AsyncExitStack() as stack:
        worlds = Worlds(store, watcher)
        stack.push_async_callback(worlds.close)
        yield await stack.enter_async_context(
            Arena(store, watcher, worlds, ArenaSettings(adopt=False), clock=time.time)
        )


@asynccontextmanager
async def _parts(
    url: str, store: Store, arena: Arena, port: int, times: dict[str, Times]
) -> AsyncIterator[Callable[[list[str]], Awaitable[None]]]:
    """Lend what measures the parts of given moves."""
    connection = await asyncpg.connect(url)
    await connection.execute("create table bare_moves (world_id text, seq int, text json, primary key (world_id, seq))")

    async def parts(moves: list[str]) -> None:
        name = uuid.uuid4().hex
        payloads, positions = _of_python(moves, times)
        answers = [{"move": move, "board_state": state.model_dump(mode="json")} for move, state in positions]
        white, black = AgentSpec(agent_id="white"), AgentSpec(agent_id="black")
        game = await arena.create(NewGame(game_id=f"in-{name}", deadline_s=None, white=white, black=black))
        await store.create_world(NewWorld(world_id=f"plain-{name}"))
        log = await store.log(f"plain-{name}")
        caller = await Caller.open(port)
        rounds: dict[str, list[float]] = {"in process": [], "append": [], "insert": [], "echo": []}
        for number, move in enumerate(moves):
            draft: EffectDraft = {
                "kind": "MoveMade",
                "payload": payloads[number],
                "source_id": "white",
                "schema_version": "1.0.0",
                "req_id": uuid.uuid4().hex,
            }
            text = orjson.dumps({**draft, "world_id": log.world_id, "uuid": name}).decode()
            agent = "black" if number % 2 else "white"
            rounds["in process"].append(await _taken(game.move(agent, move, req_id=uuid.uuid4().hex)))
            rounds["append"].append(await _taken(log.append(draft)))
            inserting = connection.execute("insert into bare_moves values ($1, $2, $3)", name, number, text)
            rounds["insert"].append(await _taken(inserting))
            rounds["echo"].append(await _taken(caller.post("/echo", answers[number])))
        caller.close()
        for what, taken in rounds.items():
            _add(times[what], taken)

    try:
        yield parts
    finally:
        await connection.close()


async def _taken(work: Awaitable[object]) -> float:
    start = time.perf_counter()
    await work
    return time.perf_counter() - start


def _of_python(moves: list[str], times: dict[str, Times]) -> tuple[list[dict[str, Any]], list[tuple[str, BoardState]]]:
    """Measure what needs no database; return the moves' payloads, and the positions after them."""
    payloads, positions = [], []
    theirs, ours = chess.Board(), chess.Board()
    taken: dict[str, list[float]] = {"python-chess": [], "ours": [], "position": [], "JSON": []}
    for number, uci in enumerate(moves, 1):
        marks = [time.perf_counter()]
        theirs.push(theirs.parse_uci(uci))
        theirs.fen()
        marks.append(time.perf_counter())
        payloads.append(play_move(ours, ours.parse_uci(uci), ply=number, agent_id="white"))
        marks.append(time.perf_counter())
        state = BoardState.from_board(ours)
        marks.append(time.perf_counter())
        orjson.dumps(state.model_dump(mode="json"))
        marks.append(time.perf_counter())
        positions.append((uci, state))
        for name, (start, end) in zip(taken, pairwise(marks), strict=True):
            taken[name].append(end - start)
    for name, seconds in taken.items():
        _add(times[name], seconds)
    return payloads, positions
