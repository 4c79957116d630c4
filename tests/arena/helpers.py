"""Tools of these tests: arenas, games, and what the log says of them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import chess
from worldledger_chess.arena import Arena, ArenaSettings, GameEvent, LiveGame, MoveOutcome, NewGame
from worldledger_chess.rules import AgentSpec
from worldledger_service.runtime.worlds import Worlds
from worldledger_service.settings import Settings
from worldledger_service.store import Store
from worldledger_service.store.watch import HeadWatcher

from tests.conftest import NEVER
from worldledger.effects import Effect, EffectDraft
from worldledger.errors import IllegalEffectError, SimulationError

_numbers = itertools.count(1)

#: The shortest way to a checkmate: Black wins by the fourth move.
FOOLS_MATE = ("f2f3", "e7e5", "g2g4", "d8h4")
#: Few pieces, so that a game at random is soon over.
FEW = "4k3/4p3/8/8/8/8/4P3/4K3 w - - 0 1"
#: Knights that go out and back: the position of the start stands there three times after the last.
REPETITION = ("g1f3", "g8f6", "f3g1", "f6g8", "g1f3", "g8f6", "f3g1", "f6g8")


class Clock:
    """A wall clock that stands still until it is set on."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        """Return the time, in epoch seconds."""
        return self.now

    def go(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class Opening:
    """Opens arenas, each on a store of its own, as a process of its own would."""

    def __init__(self, url: str, clock: Clock, stack: AsyncExitStack) -> None:
        self.url = url
        self.clock = clock
        self._stack = stack

    async def __call__(self, **how: Any) -> Arena:
        """Open one until the test ends; see `until`."""
        return await self._stack.enter_async_context(self.until(**how))

    @asynccontextmanager
    async def until(self, *, clock: Callable[[], float] | None = None, **settings: Any) -> AsyncIterator[Arena]:
        """Open one until the block ends; settings are the arena's own."""
        told = self.clock if clock is None else clock
        how = ArenaSettings(**{"scan_every": 0.05, "scan_pause": 0.01, "adopt_after": 5.0, **settings})
        async with opened(self.url, told, how) as arena:
            yield arena


@asynccontextmanager
async def opened(url: str, clock: Callable[[], float], settings: ArenaSettings) -> AsyncIterator[Arena]:
    """Open an arena with a store of its own."""
    of_the_store = Settings(pool_size=6, snapshot_every=NEVER, poll_interval=0.05)
    async with (
        Store.open(url, of_the_store, clock=clock) as store,
        HeadWatcher.over(store, interval=0.05, url=url) as watcher,
        AsyncExitStack() as stack,
    ):
        worlds = Worlds(store, watcher)
        stack.push_async_callback(worlds.close)
        yield await stack.enter_async_context(Arena(store, watcher, worlds, settings, clock=clock))


def new_game(**fields: Any) -> NewGame:
    """Return a game to be made, of the agents w and b, without a limit of time."""
    given: dict[str, Any] = {
        "white": AgentSpec(agent_id="w"),
        "black": AgentSpec(agent_id="b"),
        "deadline_s": None,
    }
    return NewGame(**{**given, **fields})


def of_players(white: Any, black: Any, **fields: Any) -> NewGame:
    """Return a game of two players of the service."""
    return new_game(players={"white": white, "black": black}, **fields)


def posted(uci: str) -> EffectDraft:
    """Return a move as an operator posts it to the log, past the arena."""
    return {"kind": "MoveMade", "payload": {"uci_notation": uci}, "source_id": "operator", "schema_version": "1.0.0"}


async def attempt(game: LiveGame, agent_id: str, text: str, **fields: Any) -> MoveOutcome:
    """Attempt a move, as a request of its own."""
    return await game.move(agent_id, text, **{"req_id": f"r-{next(_numbers)}", **fields})


async def played(game: LiveGame, moves: Iterable[str]) -> list[MoveOutcome]:
    """Make moves in turn, each of which must be legal."""
    outcomes = []
    for move in moves:
        agent = "w" if game.board.turn else "b"
        outcomes.append(await attempt(game, agent, move))
        assert outcomes[-1].accepted, outcomes[-1]
    return outcomes


async def refused(awaited: Coroutine[Any, Any, Any]) -> SimulationError:
    """Return the error that something is refused with."""
    try:
        result = await awaited
    except SimulationError as error:
        return error
    raise AssertionError(f"it was not refused: {result!r}")


async def rule_of(awaited: Coroutine[Any, Any, Any]) -> str:
    """Return the name of the rule by which something is refused."""
    error = await refused(awaited)
    assert isinstance(error, IllegalEffectError), error
    rule: str = error.details["rule"]
    return rule


async def effects(arena: Arena, game: LiveGame | str, *kinds: str) -> list[Effect]:
    """Return a game's effects, those of these kinds if any are named."""
    game_id = game if isinstance(game, str) else game.game_id
    entries = await (await arena._store.log(game_id)).get_entries_since(0)
    return [entry.effect for entry in entries if not kinds or entry.effect["kind"] in kinds]


async def kinds(arena: Arena, game: LiveGame) -> list[str]:
    """Return the kinds of a game's effects after its beginning."""
    return [effect["kind"] for effect in (await effects(arena, game))[4:]]


async def ended(game: LiveGame) -> LiveGame:
    """Wait until a game has ended."""
    async with aclosing(game.watch(None)) as events:
        async for _ in events:
            pass
    assert game.ended is not None
    return game


async def watched(game: LiveGame, after_seq: int | None = 0, *, most: int = 10**9) -> list[GameEvent]:
    """Return a game's events until it has ended, or the first so many of them."""
    found: list[GameEvent] = []
    async with aclosing(game.watch(after_seq)) as events:
        async for event in events:
            found.append(event)
            if len(found) == most:
                break
    return found


def legal(game: LiveGame) -> list[str]:
    """Return the legal moves, sorted."""
    board = game.board
    return sorted(board.uci(move) for move in board.legal_moves)


def after(moves: Iterable[str], fen: str = chess.STARTING_FEN, *, chess960: bool = False) -> chess.Board:
    """Return the board after moves."""
    board = chess.Board(fen, chess960=chess960)
    for move in moves:
        board.push_uci(move)
    return board
