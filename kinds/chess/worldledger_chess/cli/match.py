"""A match: its players, and its games in this process, each a world, one after another or several at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from worldledger_service.runtime.worlds import Worlds
from worldledger_service.store.watch import HeadWatcher

from worldledger.aio import all_of, running
from worldledger.errors import SimulationError
from worldledger_chess.arena import Arena, ArenaSettings, NewGame
from worldledger_chess.rules.endings import OTHER
from worldledger_chess.rules.live import EXTERNAL

if TYPE_CHECKING:
    import chess
    from worldledger_service.settings import Settings
    from worldledger_service.store import Store

    from worldledger_chess.arena import GameEnd, LiveGame, PlayFrom
    from worldledger_chess.arena.players import PlayerSpec
    from worldledger_chess.cli.person import Person


#: Seconds between two looks whether anybody plays, and looks without anybody after which that is a fault.
_LOOK: Final = 1.0
_PATIENCE: Final = 5


@dataclass
class Entry:
    """A game of a match that has begun: its number, how it was set up, its world, and how far it has come.

    ``rejected`` counts attempts that were not taken, ``failed`` those of them where a player gave no move at all,
    ``instead`` the random moves that followed too many of them.
    """

    number: int
    setup: NewGame
    game: LiveGame | None
    world_id: str
    plies: int = 0
    rejected: int = 0
    failed: int = 0
    instead: int = 0
    _in_row: int = 0
    _end: GameEnd | None = None

    @property
    def end(self) -> GameEnd | None:
        """The end of the game; None while it goes on."""
        return self._end if self.game is None else self.game.ended

    def moved(self) -> None:
        """Count a move."""
        self.plies += 1
        self.instead += self._in_row >= self.setup.max_illegal
        self._in_row = 0

    def missed(self, *, failed: bool) -> None:
        """Count an attempt that was not taken."""
        self.rejected += 1
        self.failed += failed
        self._in_row += 1

    def close(self) -> None:
        """Keep the number of plies and the end, and drop the game."""
        if self.game is not None:
            self.plies = len(self.game.board.move_stack)
            self._end, self.game = self.game.ended, None


@asynccontextmanager
async def own_arena(store: Store, url: str, settings: Settings) -> AsyncIterator[Arena]:
    """Yield an arena whose games may have programs as players; the programs end with it."""
    async with HeadWatcher.over(store, interval=settings.poll_interval, url=url) as watcher, AsyncExitStack() as stack:
        worlds = Worlds(store, watcher)
        stack.push_async_callback(worlds.close)
        # Others' games may name any program, which must not be run here.
        own = ArenaSettings(allow_programs=True, adopt=False)
        yield await stack.enter_async_context(Arena(store, watcher, worlds, own))


class Match:
    """Plays games in an arena.

    ``entries`` gets each that begins; ``on_move`` and ``on_end`` are told of each that has gone on, or ended. With
    ``play_from`` each goes on from there; ``person`` moves for the external players.
    """

    def __init__(
        self,
        arena: Arena,
        entries: list[Entry],
        *,
        on_move: Callable[[Entry], object],
        on_end: Callable[[Entry], object],
        play_from: PlayFrom | None = None,
        person: Person | None = None,
    ) -> None:
        self._arena = arena
        self._entries = entries
        self._on_move = on_move
        self._on_end = on_end
        self._play_from = play_from
        self._person = person

    async def play(self, setups: Iterable[NewGame], *, at_once: int) -> None:
        """Play games to their ends, in order. Raises SimulationError if one cannot go on."""
        waiting = iter(enumerate(setups, 1))
        await all_of(self._play_all(waiting) for _ in range(at_once))

    async def _play_all(self, waiting: Iterator[tuple[int, NewGame]]) -> None:
        for number, setup in waiting:
            entry = await self._begin(number, setup)
            assert entry.game is not None  # noqa: S101 - it has just begun
            try:
                async with running(self._watch(entry, entry.game)) as watching:
                    if self._person is None:
                        await self._until_ended(entry, watching)
                        continue
                    agents = [setup.agents[colour].agent_id for colour in OTHER if setup.players[colour] == EXTERNAL]
                    async with running(self._person.play(entry.game, agents)) as playing:
                        await asyncio.wait({watching, playing}, return_when=asyncio.FIRST_COMPLETED)
                        if not watching.done():
                            await playing  # it has raised an error, or the end is in the log
                        await watching
            finally:
                entry.close()
                if entry.end is not None:
                    self._on_end(entry)

    async def _begin(self, number: int, setup: NewGame) -> Entry:
        """Create a game; if this is cancelled meanwhile, a game that was created is still recorded."""

        async def make() -> Entry:
            game = await self._arena.create(setup, self._play_from)
            entry = Entry(number, setup, game, game.game_id, plies=game.record.inherited)
            self._entries.append(entry)
            return entry

        making = asyncio.create_task(make())
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            await asyncio.gather(making, return_exceptions=True)
            raise

    async def _watch(self, entry: Entry, game: LiveGame) -> None:
        async with aclosing(game.watch()) as events:
            async for event in events:
                if event.type == "move_made":
                    entry.moved()
                elif event.type == "move_rejected":
                    entry.missed(failed=event.data["reason"] == "player_failed")
                self._on_move(entry)

    async def _until_ended(self, entry: Entry, watching: asyncio.Task[None]) -> None:
        """Wait for the end. Raises SimulationError if the game is no longer played; the arena has logged why."""
        alone = 0
        while alone < _PATIENCE:
            await asyncio.wait({watching}, timeout=_LOOK)
            if watching.done():
                watching.result()
                return
            alone = 0 if self._arena.driven else alone + 1
        raise SimulationError(f"the game {entry.world_id} is played no longer", game_id=entry.world_id)


# Players of ``worldledger chess play``: read from the command line, and tried before anything is made.

#: The person at this terminal, whose moves are put into the game from here.
ME: Final = "me"
_ENGINES: Final = frozenset({"stockfish", "uci"})
#: Language models, and the setting by which a player of each kind is called.
_MODEL: Final = "llm"
_CALLED_BY: Final = {"uci": "path", _MODEL: "model"}
#: Settings that limit an engine's search.
_LIMITS: Final = frozenset({"nodes", "depth", "movetime"})
#: Names that agents cannot have: those who write in a game's log besides them.
_RESERVED: Final = frozenset({"arena", "worldledger"})
#: Longest name that is taken from a player or its program; what is put behind it must fit into 50 characters.
_MAX_NAME: Final = 24


@dataclass(frozen=True)
class Contestant:
    """One of two players: the option that names it, how it is made (as a game's configuration has it), and as whom."""

    option: str
    spec: PlayerSpec
    agent_id: str

    @property
    def is_person(self) -> bool:
        """True for the one at this terminal."""
        return self.spec.name == EXTERNAL

    @property
    def is_engine(self) -> bool:
        """True for a UCI engine."""
        return self.spec.name in _ENGINES

    @property
    def is_model(self) -> bool:
        """True for a language model."""
        return self.spec.name == _MODEL

    @property
    def is_program(self) -> bool:
        """True if it needs what its description names, a program say: no service uses that for a game that it finds."""
        from worldledger_chess.arena.players import InvalidPlayerError, read_spec  # noqa: PLC0415 - slow to load

        try:
            read_spec(self.spec.to_json())
        except InvalidPlayerError:
            return True
        return False

    @property
    def name(self) -> str:
        """Its name for people: an engine's has its nodes in it."""
        nodes = self.spec.config.get("nodes") if self.is_engine else None
        return self.agent_id if nodes is None else f"{self.agent_id}, {nodes} nodes"


def read_contestants(
    white: str, black: str, nodes: int | None, base_url: str | None = None, personas: Mapping[str, Any] | None = None
) -> tuple[Contestant, Contestant]:
    """Read the players of ``--white`` and ``--black``; engines without a limit of their own search ``nodes``.

    Language models without a service of their own are asked at ``base_url``; ``personas`` by option are who they are.
    Two players of one name are told apart by a number: ``random-1`` is that of ``--white``. Raises SimulationError for
    a text that names none, UnknownPlayerError, InvalidPlayerError.
    """
    given = {}
    for option, text in (("--white", white), ("--black", black)):
        asked = {"base_url": base_url, "persona": (personas or {}).get(option)}
        given[option] = _read(option, text, nodes, {name: value for name, value in asked.items() if value is not None})
    names = [_name(spec) for spec in given.values()]
    if names[0] == names[1]:
        names = [f"{name}-{number}" for number, name in enumerate(names, 1)]
    first, second = (Contestant(option, spec, name) for (option, spec), name in zip(given.items(), names, strict=True))
    if nodes is not None and not first.is_engine and not second.is_engine:
        raise SimulationError("--nodes is how long an engine searches, and neither of these players is one")
    if (base_url is not None or personas) and not first.is_model and not second.is_model:
        what = "--base-url and --persona are for language models (llm:MODEL), and neither of these players is one"
        raise SimulationError(what)
    return first, second


def _read(option: str, text: str, nodes: int | None, asked: Mapping[str, Any]) -> PlayerSpec:
    from worldledger_chess.arena.players import PlayerSpec, read_spec  # noqa: PLC0415 - slow to load; `--help` needs none of it
    from worldledger_chess.arena.players.engines import DEFAULT_NODES  # noqa: PLC0415

    if text == ME:
        return PlayerSpec(EXTERNAL, {})
    described: Any = text
    if text.lstrip().startswith("{"):
        try:
            described = json.loads(text)
        except ValueError as error:
            raise SimulationError(f"{option}: this is no JSON: {error}", option=option) from None
    spec = read_spec(described, path=option, allow_programs=True)
    if spec.name == EXTERNAL:
        raise SimulationError(
            f"{option}: the moves of an external player come from outside, over HTTP say; nobody sends any here. "
            f"{ME!r} is the player at this terminal",
            option=option,
        )
    if spec.name == _MODEL:
        how = {**asked, **spec.config}
        return read_spec(PlayerSpec(spec.name, how).to_json(), path=option, allow_programs=True)
    if spec.name in _ENGINES and not _LIMITS & set(spec.config):
        how = {**spec.config, "nodes": DEFAULT_NODES if nodes is None else nodes}
        return read_spec(PlayerSpec(spec.name, how).to_json(), path=option, allow_programs=True)
    return spec


def _name(spec: PlayerSpec) -> str:
    """Return the agent_id that a player has by its name, an engine by its program's, a model by the model's."""
    if spec.name == EXTERNAL:
        return ME
    if spec.name not in _CALLED_BY:
        return f"{spec.name} player" if spec.name in _RESERVED else spec.name[:_MAX_NAME]
    name = PurePath(str(spec.config[_CALLED_BY[spec.name]])).name
    return name if name.isprintable() and 0 < len(name) <= _MAX_NAME and name not in _RESERVED else spec.name


async def try_out(contestants: tuple[Contestant, Contestant], board: chess.Board, deadline_s: float | None) -> None:
    """Make the players, start those that are engines, and have these search one position.

    So that no game is begun for a program that is missing, or is no engine. Raises PlayerError, UnknownPlayerError,
    InvalidPlayerError.
    """
    from worldledger_chess.arena.players import Position, make_player  # noqa: PLC0415

    for one in contestants:
        if one.is_person:
            continue
        player = make_player(_briefly(one), seed=0, path=one.option, allow_programs=True)
        try:
            if one.is_engine:
                await player.move(Position.of(board, remaining_s=deadline_s))
        finally:
            await player.close()


def _briefly(one: Contestant) -> str | Mapping[str, Any]:
    """Return a player's description for a trial: an engine searches as little as it can."""
    if not one.is_engine:
        return one.spec.to_json()
    rest = {name: value for name, value in one.spec.config.items() if name not in _LIMITS}
    return {"name": one.spec.name, **rest, "nodes": 1}
