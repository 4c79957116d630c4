"""What players and their programs get wrong, one by one, against a served game.

Races and kills of several processes are in tests/arena; here they are seen from the outside.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import chess
import httpx2
import orjson
import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from worldledger_chess.arena.players import Position, RandomPlayer
from worldledger_chess.rules import BoardState, validate_game_state

from tests.api.helpers import Served, WorldClient, draft, problem
from tests.arena.test_long_games import _FEN as LONG_FEN
from tests.arena.test_long_games import _long_game
from tests.cli.helpers import Running
from tests.faults.helpers import free_port
from worldledger.effects import Effect

from .games import FOOLS_MATE
from .live import AGENTS, attempt, game_of, made, played, stands

pytestmark = pytest.mark.asyncio(loop_scope="module")

_PROMOTES = "7k/P7/8/8/8/8/7p/K7 w - - 0 1"
_CASTLES = "r3k2r/8/8/8/8/8/8/R3K2R {} KQkq - 0 1"
#: King and rooks beside each other: castling to the own squares cannot be told from a step of the king.
_STEPS = "5k1r/8/8/8/8/8/8/5K1R w Hh - 0 1"


@pytest_asyncio.fixture(loop_scope="module")
async def remote(served: Served) -> AsyncIterator[WorldClient]:
    """Talk to the service; there may be a game of the name of the client's world."""
    async with served.client() as made_client:
        yield made_client


async def _log(client: httpx2.AsyncClient, world: str) -> list[Effect]:
    """Return the whole log of a world, which must be whole."""
    verified = (await client.get(f"/v1/worlds/{world}/verification")).json()
    assert verified["verified"], verified
    log: list[Effect] = []
    while len(log) < verified["effects"]:
        page = await client.get(f"/v1/worlds/{world}/effects", params={"after_seq": len(log), "limit": 1000})
        log += page.json()["effects"]
    return log


# -- moves that are none -------------------------------------------------------------------------------------

_NO_MOVES: list[tuple[str, str, str]] = [
    # no such square
    (chess.STARTING_FEN, "i9j0", "cannot be read"),
    (chess.STARTING_FEN, "e2e9", "cannot be read"),
    (chess.STARTING_FEN, "e0e4", "cannot be read"),
    (chess.STARTING_FEN, "e2é4", "cannot be read"),
    # null moves, in every way in which they are written
    (chess.STARTING_FEN, "0000", "null move"),
    (chess.STARTING_FEN, "--", "null move"),
    (chess.STARTING_FEN, "Z0", "null move"),
    (chess.STARTING_FEN, "@@@@", "null move"),
    (chess.STARTING_FEN, "e2e2", "cannot be read"),
    # promotion missing, superfluous, to what there is not
    (_PROMOTES, "a7a8", "promotes: a7a8q"),
    (_PROMOTES, "a8", "promotes: a8=Q"),
    (_PROMOTES, "a1b1q", "nothing promotes"),
    (_PROMOTES, "a7a8k", "not legal"),
    (_PROMOTES, "a7a8p", "cannot be read"),
    (chess.STARTING_FEN, "e2e4q", "nothing promotes"),
    (chess.STARTING_FEN, "e4=Q", "not legal"),
    # the other side's pieces
    (chess.STARTING_FEN, "e7e5", "the opponent's"),
    (_CASTLES.format("w"), "e8g8", "the opponent's"),
    (_PROMOTES, "h2h1q", "the opponent's"),
    # castling to where there is no rook, through check, and past another piece
    (_CASTLES.format("w"), "e1b1", "cannot go"),
    ("4kr2/8/8/8/8/8/8/4K2R w K - 0 1", "e1h1", "cannot go"),
    ("4k3/8/8/8/8/8/8/4KB1R w K - 0 1", "O-O", "not legal"),
]


async def test_moves_that_are_none(remote: WorldClient) -> None:
    """Each is an attempt that was rejected: the answer says why, the log keeps it, and the board stays as it was."""
    for n, (fen, text, why) in enumerate(_NO_MOVES):
        name = f"{remote.world}-{n}"
        before = await made(remote, game_id=name, fen=fen)
        answer = await attempt(remote, name, "w", text)
        told = answer.json()
        assert (answer.status_code, told["accepted"], told["attempts_left"]) == (201, False, 2), (fen, text, told)
        assert why in told["detail"], (fen, text, told["detail"])
        assert told["board_state"] == before["board_state"]
        log = await _log(remote, name)
        assert (log[-1]["kind"], log[-1]["payload"]["attempted"]) == ("MoveRejected", text)
        assert validate_game_state(log, game_of(await stands(remote, name))) == []


@pytest.mark.parametrize("chess960", [False, True])
async def test_castling_in_either_notation(remote: WorldClient, thorough: bool, *, chess960: bool) -> None:
    """To the king's square or to the rook's, or as O-O: it is one move, and stands in the log as the game writes it."""
    ways = {"e1h1": "e1g1", "e1g1": "e1g1", "O-O": "e1g1", "e1a1": "e1c1", "e1c1": "e1c1", "O-O-O": "e1c1"}
    rooks = {"e1g1": "e1h1", "e1c1": "e1a1"}
    for n, (text, king) in enumerate(ways.items()):
        for side in "wb" if thorough else "wb"[n % 2]:
            name, written, wanted = f"{remote.world}-{side}{n}", text, rooks[king] if chess960 else king
            if side == "b":
                written, wanted = written.replace("1", "8"), wanted.replace("1", "8")
            await made(remote, game_id=name, fen=_CASTLES.format(side), chess960=chess960)
            told = (await attempt(remote, name, side, written, req_id="castle")).json()
            assert told["accepted"], (text, side, told)
            assert (told["move"]["uci_notation"], told["move"]["is_castling"]) == (wanted, True)
            assert told["move"]["san_notation"].startswith("O-O")
            again = await attempt(remote, name, side, wanted, req_id="castle")
            assert again.json() == {**told, "replayed": True}, "however it is written, it is the same request"
            assert BoardState.from_fen(told["board_state"]["fen"], chess960=chess960).castling_rights == (
                "kq" if side == "w" else "KQ"
            )
            assert validate_game_state(await _log(remote, name), game_of(await stands(remote, name))) == []


async def test_a_step_of_the_king_is_no_castling(remote: WorldClient) -> None:
    """In Chess960 the king's own move to where castling would lead is that move; only the rook's square is castling."""
    for what, text, castling in (("step", "f1g1", False), ("castle", "f1h1", True)):
        name = f"{remote.world}-{what}"
        await made(remote, game_id=name, fen=_STEPS, chess960=True)
        (told,) = await played(remote, name, text)
        assert (told["move"]["uci_notation"], told["move"]["is_castling"]) == (text, castling)


# -- moves at the wrong time ---------------------------------------------------------------------------------


async def test_moving_twice_and_for_the_other(remote: WorldClient) -> None:
    """Who has just moved is not to move, and no agent moves for the other; neither counts as an illegal attempt."""
    await made(remote, game_id=remote.world)
    await played(remote, remote.world, "e2e4")
    for agent, text in (("w", "d2d4"), ("w", "e7e5"), ("w", "e2e4"), ("w", "0000")):
        problem(await attempt(remote, remote.world, agent, text), 422, "illegal_effect", rule="not_your_turn")
    stood = await stands(remote, remote.world)
    assert (stood["plies"], stood["illegal_moves_attempted"], stood["attempts_left"]) == (1, 0, 3)
    assert (await attempt(remote, remote.world, "b", "e7e5")).json()["accepted"]


async def test_everybody_at_once(remote: WorldClient) -> None:
    """Of all that both send at one moment one move of each at most is made, White's first, and told of once."""
    await made(remote, game_id=remote.world, max_illegal=100)
    sent = [(agent, text) for agent, text in (("b", "e7e5"), ("w", "e2e4"), ("w", "d2d4"), ("b", "c7c5"))] * 4
    # Each names its move: what arrives after the other's answer would else be the next one.
    answers = await asyncio.gather(
        *(attempt(remote, remote.world, agent, text, ply="wb".index(agent) + 1) for agent, text in sent)
    )
    assert {answer.status_code for answer in answers} <= {201, 409, 422}, [answer.text for answer in answers]
    moves = [told for answer in answers if (told := answer.json()).get("accepted")]
    stood = await stands(remote, remote.world)
    assert sorted(told["global_seq"] for told in moves) == [
        effect["global_seq"] for effect in await _log(remote, remote.world) if effect["kind"] == "MoveMade"
    ]
    assert [move["player"] for move in stood["move_history"]] == ["white", "black"][: len(moves)]
    assert len(moves) in {1, 2}
    assert validate_game_state(await _log(remote, remote.world), game_of(stood)) == []


async def test_a_request_is_one_attempt(remote: WorldClient) -> None:
    """A req_id with another move is a conflict, whether the first was made or rejected; another agent's is its own."""
    await made(remote, game_id=remote.world)
    rejected = (await attempt(remote, remote.world, "w", "e2e5", req_id="r")).json()
    problem(await attempt(remote, remote.world, "w", "e2e4", req_id="r"), 422, "request_conflict", req_id="r")
    assert (await attempt(remote, remote.world, "w", "e2e5", req_id="r")).json() == {**rejected, "replayed": True}
    first = (await attempt(remote, remote.world, "w", "e2e4", req_id="s")).json()
    for text in ("d2d4", "e2e5", "0000", "x" * 100):
        problem(await attempt(remote, remote.world, "w", text, req_id="s"), 422, "request_conflict", req_id="s")
    for text in ("e4", "e2e4", " e2e4 "):
        assert (await attempt(remote, remote.world, "w", text, req_id="s")).json() == {**first, "replayed": True}
    other = await attempt(remote, remote.world, "b", "e7e5", req_id="s")
    assert (other.status_code, other.json()["accepted"]) == (201, True)
    resigns = await remote.post(f"/v1/games/{remote.world}/resign", json={"agent_id": "w", "req_id": "s"})
    problem(resigns, 422, "request_conflict", req_id="s")
    both = [attempt(remote, remote.world, "w", text, req_id="t") for text in ("d2d4", "c2c4")]
    assert sorted(answer.status_code for answer in await asyncio.gather(*both)) == [201, 422]
    assert (await stands(remote, remote.world))["plies"] == 3


@pytest.mark.asyncio(loop_scope="function")  # it counts games
@pytest.mark.parametrize("end", ["mate", "resignation", "illegal_move"])
async def test_moving_after_the_end(own_served: Served, end: str) -> None:
    """However a game has ended, nothing changes it any more; what was asked before has the answer that it had."""
    async with own_served.client() as remote:
        await _move_after_the_end(remote, end)


async def _move_after_the_end(remote: WorldClient, end: str) -> None:
    await made(remote, game_id=remote.world, max_illegal=1)
    first = (await attempt(remote, remote.world, "w", FOOLS_MATE[0], req_id="first")).json()
    if end == "mate":
        for agent, text in zip("bwb", FOOLS_MATE[1:], strict=True):
            assert (await attempt(remote, remote.world, agent, text)).json()["accepted"]
    elif end == "resignation":
        assert (await remote.post(f"/v1/games/{remote.world}/resign", json={"agent_id": "w"})).status_code == 201
    else:
        assert not (await attempt(remote, remote.world, "b", "e7e4")).json()["accepted"]
    over = await stands(remote, remote.world)
    assert over["status"] == ("checkmate" if end == "mate" else "resigned")
    for agent in "wb":
        for text in ("e7e5", "d2d4", "0000", "rubbish"):
            problem(await attempt(remote, remote.world, agent, text), 422, "illegal_effect", rule="game_over")
    again = await attempt(remote, remote.world, "w", FOOLS_MATE[0], req_id="first")
    assert again.json() == {**first, "replayed": True}
    told, later = await stands(remote, remote.world), ("global_seq", "last_updated")
    assert {**told, **dict.fromkeys(later)} == {**over, **dict.fromkeys(later)}
    assert validate_game_state(await _log(remote, remote.world), game_of(told)) == []
    metrics = (await remote.get("/metrics")).text
    for name, value in (("created_total", 1), ("completed_total", 1), ("in_memory", 1), ("in_progress", 0)):
        assert f"worldledger_games_{name} {value}.0\n" in metrics


# -- positions that are none ---------------------------------------------------------------------------------

_MIB = 2**20
_NO_POSITIONS: dict[str, str] = {
    "no king": "8/8/8/8/8/8/8/K7 w - - 0 1",
    "no king at all": "8/8/8/8/8/8/8/8 w - - 0 1",
    "two kings": "k7/8/8/8/8/8/8/KK6 w - - 0 1",
    "the side not to move in check": "k7/R7/8/8/8/8/8/K7 w - - 0 1",
    "huge: ranks": "8/" * (_MIB // 2 - 2000),
    "huge: castling": f"rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w {'K' * (_MIB - 2000)} - 0 1",
    "huge: a clock": f"rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 {'1' * (_MIB - 2000)}",
    "huge: pieces": "k" * (_MIB - 2000),
}


async def test_positions_that_are_none(remote: WorldClient) -> None:
    """Each is refused at every door: a new game, a world that is one, an effect that begins one; nothing is made."""
    await remote.post("/v1/worlds", json={"world_id": "empty", "ruleset": "chess"})
    before = (await remote.get("/v1/worlds")).json()
    for what, fen in _NO_POSITIONS.items():
        answer = await remote.post("/v1/games", json={**AGENTS, "fen": fen})
        problem(answer, 422, "invalid_config", path="$.fen")
        live = {"world_id": "w", "ruleset": "chess", "config": {"live": {**AGENTS, "fen": fen}}}
        problem(await remote.post("/v1/worlds", json=live), 422, "invalid_config", path="$.config.live.fen")
        start = draft(kind="GameStarted", payload={"agents": {"white": "w", "black": "b"}, "initial_fen": fen})
        answer = await remote.post("/v1/worlds/empty/effects", json=start)
        problem(answer, 422, "illegal_effect", path="$.payload.initial_fen", rule="invalid_position")
        assert len(answer.content) < 2000, what
    assert (await remote.get("/v1/worlds")).json() == before
    assert (await remote.get("/v1/worlds/empty")).json()["head_seq"] == 1


# -- games that are long -------------------------------------------------------------------------------------


@pytest.mark.thorough  # as tests/arena/test_long_games.py has it
async def test_hundreds_of_moves(served: Served, remote: WorldClient, thorough: bool) -> None:
    """A game of hundreds of moves a side is played on and told like any other, at once after most came past it."""
    count = 2000 if thorough else 240
    moves = _long_game(count)
    await made(remote, game_id="long", fen=LONG_FEN)
    await played(remote, "long", *moves[:4])
    drafts = [draft(kind="MoveMade", payload={"uci_notation": uci}, source_id="op") for uci in moves[4 : count - 6]]
    for first in range(0, len(drafts), 1000):
        assert (await remote.post("/v1/worlds/long/effects", json=drafts[first : first + 1000])).status_code == 201
    for ply, uci in enumerate(
        moves[count - 6 :], count - 5
    ):  # the first one before this process has read what was appended
        told = (await attempt(remote, "long", "bw"[ply % 2], uci)).json()
        assert (told.get("accepted"), told.get("ply")) == (True, ply), told
    told = await stands(remote, "long")
    assert [move.uci_notation for move in game_of(told).move_history] == moves
    assert (await remote.get(f"/v1/games/long/board.svg?ply={count // 2}")).status_code == 200
    async with connect(
        f"{served.url.replace('http', 'ws', 1)}/v1/games/long/watch?after_seq=4", proxy=None, open_timeout=60
    ) as socket:
        seen = [orjson.loads(await socket.recv(decode=False)) for _ in moves]
    assert [event["move"]["uci_notation"] for event in seen] == moves
    assert validate_game_state(await _log(remote, "long"), game_of(told)) == []


# -- a service that is killed --------------------------------------------------------------------------------


class _Process:
    """``worldledger serve`` in a process of its own, which can be killed and started again on its port."""

    def __init__(self, database_url: str) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self._command = ("serve", "--database-url", database_url, "--port", str(port), "--no-projections")
        self._running: Running | None = None

    async def start(self) -> None:
        self._running = Running(*self._command)
        await asyncio.to_thread(self._running.line)  # it tells its address once it answers

    async def end(self, number: signal.Signals) -> None:
        assert self._running is not None
        await asyncio.to_thread(self._running.end, number)


@asynccontextmanager
async def _process(database_url: str) -> AsyncIterator[_Process]:
    process = _Process(database_url)
    await process.start()
    try:
        yield process
    finally:
        await process.end(signal.SIGTERM)


async def _until_answered(client: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> httpx2.Response:
    """Send a request until there is an answer, as any client does whose connection was lost, or that is to wait."""
    while True:
        with suppress(httpx2.TransportError):
            answer = await client.post(path, json=body)
            if answer.status_code != 503 or answer.json()["code"] != "starting":
                return answer
        await asyncio.sleep(0.02)


async def _watch(url: str, game_id: str) -> list[dict[str, Any]]:
    """Watch a game to its end, over as many sockets as it takes."""
    seen: list[dict[str, Any]] = []
    while not seen or seen[-1]["type"] != "game_ended":
        after = seen[-1]["global_seq"] if seen else 0
        try:
            async with connect(
                f"{url}/v1/games/{game_id}/watch?after_seq={after}", proxy=None, open_timeout=60
            ) as socket:
                async for text in socket:
                    seen.append(orjson.loads(text))
        except (OSError, InvalidHandshake, ConnectionClosed):
            await asyncio.sleep(0.02)
    return seen


@pytest.mark.thorough  # as tests/arena/test_kills.py has it
@pytest.mark.slow
async def test_games_of_a_service_that_is_killed(own_url: str, thorough: bool) -> None:
    """Killed in the middle and started again, it has every attempt that it answered, once, and everybody goes on."""
    count = 20 if thorough else 5
    answered: dict[str, dict[str, int]] = {}
    killed = asyncio.Event()
    async with _process(own_url) as process, httpx2.AsyncClient(base_url=process.url, timeout=60) as client:

        async def play(number: int) -> None:
            name, board, player = f"g{number}", chess.Board(), RandomPlayer(number)
            seqs = answered.setdefault(name, {})
            while len(board.move_stack) < 8 or not killed.is_set():
                ply = len(board.move_stack)
                uci = await player.move(Position.of(board))
                wrong = ["a1a1"] if ply % 5 == number % 5 else []
                for text in (*wrong, uci):
                    body = {"agent_id": "wb"[ply % 2], "move": text, "req_id": f"{ply}-{text}"}
                    answer = await _until_answered(client, f"/v1/games/{name}/moves?tensor=false", body)
                    told = answer.json()
                    assert (told.get("accepted"), told.get("ply")) == (text == uci, ply + 1), answer.text
                    seqs[body["req_id"]] = told["global_seq"]
                board.push_uci(uci)
                if board.is_game_over(claim_draw=True):
                    return
            ended = {"agent_id": "w", "req_id": "enough"}
            answer = await _until_answered(client, f"/v1/games/{name}/resign", ended)
            seqs["enough"] = answer.json()["global_seq"]

        async def kill() -> None:
            while sum(map(len, answered.values())) < 3 * count:
                await asyncio.sleep(0.01)
            await process.end(signal.SIGKILL)
            await process.start()
            killed.set()

        for number in range(count):
            await made(client, game_id=f"g{number}")
        watching = asyncio.create_task(_watch(process.url.replace("http", "ws", 1), "g0"))
        await asyncio.gather(kill(), *map(play, range(count)))
        for name, seqs in answered.items():
            log = await _log(client, name)
            told = {effect["req_id"]: effect["global_seq"] for effect in log if effect["req_id"] in seqs}
            assert told == seqs
            assert len([effect for effect in log if effect["kind"] == "MoveMade"]) == len(
                [key for key in seqs if key != "enough" and not key.endswith("a1a1")]
            )
            assert validate_game_state(log, game_of(await stands(client, name))) == []
        seen = [event["global_seq"] for event in await watching]
        assert seen == [effect["global_seq"] for effect in await _log(client, "g0") if effect["global_seq"] in seen]
        assert set(answered["g0"].values()) <= set(seen)
