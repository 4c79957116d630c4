"""The arena: live, durable games of chess in this process.

Source: docs/architecture-agents.md, "Live games". The log has the games, and memory is a cache. Any number of processes
may have an arena on one database: they share only the log.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from uuid import UUID

import orjson
import structlog
from worldledger_service.runtime.following import SharedReads
from worldledger_service.runtime.guarding import guarded
from worldledger_service.store.forking import NewFork

from worldledger.aio import SingleFlight, join
from worldledger.errors import (
    ExtraMissingError,
    FoldError,
    InvalidConfigError,
    ParentMissingError,
    SimulationError,
    StoreUnavailableError,
    TamperedError,
    WorldExistsError,
)
from worldledger.genesis import NewWorld
from worldledger.lru import Lru
from worldledger.moments import HEAD, Moment
from worldledger.rulesets import load_ruleset
from worldledger_chess.arena.driving import Driver, driven
from worldledger_chess.arena.errors import ArenaFullError, GameNotLiveError, NoSuchGameError
from worldledger_chess.arena.games import LiveGame
from worldledger_chess.arena.moving import Moving
from worldledger_chess.arena.outcomes import end_of
from worldledger_chess.arena.players import InvalidPlayerError, UnknownPlayerError, make_player
from worldledger_chess.arena.record import ARENA, Record
from worldledger_chess.arena.settings import ArenaSettings
from worldledger_chess.arena.settling import Deadlines, Settling
from worldledger_chess.arena.table import Table, read_history
from worldledger_chess.arena.writing import Writing
from worldledger_chess.rules import RULESET as CHESS
from worldledger_chess.rules.agents import Agent, AgentStats
from worldledger_chess.rules.endings import WINS, Player, automatic_end
from worldledger_chess.rules.entities import GameSession
from worldledger_chess.rules.live import LIVE, LiveConfig, limit_of
from worldledger_chess.rules.positions import ORTHODOX, UNREADABLE, position
from worldledger_chess.rules.state import BOARD
from worldledger_chess.rules.times import moment

if TYPE_CHECKING:
    import chess
    from worldledger_service.runtime.worlds import Worlds
    from worldledger_service.store import Store, WorldRecord
    from worldledger_service.store.reader import Reader
    from worldledger_service.store.watch import HeadWatcher


# -- finding live games of chess that go on: which they are, and when something was last done in them -----
#
# Source: docs/architecture.md, "Live games". The log alone decides, and no table says which games have ended, so all
# worlds are walked by name, a page at a time. For each one that is a live game three probes of an index tell whether
# it goes on, and one reads its last move: a page costs the database a few milliseconds, however many worlds there
# are.


#: The live games that go on among the worlds of one page: $1 after world_id, $2 worlds in a page. Each row has the
#: page's last world (null: there was none); one that names no game stands for a page without any.
LIVE_GAMES: Final = """
with page as materialized (
    select world_id, ruleset, config from worlds where world_id > $1 order by world_id limit $2),
going as (
    select p.world_id, p.config -> 'live' as live from page p
    where p.ruleset = 'chess' and json_typeof(p.config -> 'live') = 'object'
      and not exists (
        select from effects e where e.world_id = p.world_id and e.kind = 'GameEnded')
      and (exists (  -- a fork has the configuration of its parent, and no start of its own, unless it is played on
        select from effects e where e.world_id = p.world_id and e.kind = 'GameStarted') or exists (
        select from effects e where e.world_id = p.world_id and e.kind = 'GameContinued')))
select (select max(world_id) from page) as last, g.world_id, g.live::text as live, h.head_seq, h.wall_time,
       m.wall_time as moved_at, m.fen
from (select) one left join (
    going g join heads h using (world_id)
    left join lateral (
        select (e.effect ->> 'wall_time')::float8 as wall_time, e.effect -> 'payload' ->> 'fen' as fen from effects e
        where e.world_id = g.world_id and e.kind = 'MoveMade'
        order by e.world_id desc, e.kind desc, e.global_seq desc limit 1) m on true
    ) on true
"""


class LiveGameRow(NamedTuple):
    """A live game without a GameEnded.

    ``live`` is its configuration; ``head_seq`` and ``wall_time`` (epoch seconds) are of its last effect, ``moved_at``
    and ``fen`` (the position then) of its last move, None before the first.
    """

    game_id: str
    live: dict[str, Any]
    head_seq: int
    wall_time: float
    moved_at: float | None
    fen: str | None


class LiveGames:
    """Walks the live games that go on."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def page(self, *, after: str = "", worlds: int = 1000) -> tuple[list[LiveGameRow], str | None]:
        """Return those among the next worlds by name, and the name to go on after; None once there are no more worlds.

        Raises StoreUnavailableError.
        """
        rows = await self._reader.fetch(LIVE_GAMES, after, worlds)
        found = [
            LiveGameRow(
                row["world_id"],
                orjson.loads(row["live"]),
                row["head_seq"],
                row["wall_time"],
                row["moved_at"],
                row["fen"],
            )
            for row in rows
            if row["world_id"] is not None
        ]
        return found, rows[0]["last"]


# -- sessions: the GameSession of a game in memory (docs/reference/contracts.md, "Chess") -----------------------


def session_of(table: Table) -> GameSession | None:
    """Return the session of a live game; None for any other.

    Its ``session_id`` follows from the world, so that it is the same in every process, and after the game was loaded
    again. The agents' ``stats`` are of this game alone; projections have those over all games.
    """
    record = table.record
    if record.live is None or not record.started:
        return None
    return GameSession(
        session_id=session_id(record.world_uuid),
        game_id=record.game_id,
        websocket_connections=table.watchers,
        agent_white=Agent.of(record.live.white, _stats(record, "white")),
        agent_black=Agent.of(record.live.black, _stats(record, "black")),
        created_at=moment(record.started_at),
        is_active=record.in_progress,
    )


def session_id(world_uuid: str) -> str:
    """Return the UUID4 of a world's session."""
    return str(UUID(bytes=sha256(f"session:{world_uuid}".encode()).digest()[:16], version=4))


def _stats(record: Record, player: Player) -> AgentStats:
    side = record.own_side(player)
    ended = end_of(record)
    result = None if ended is None else ended.result
    return AgentStats.from_counts(
        games_won=int(result == WINS[player]),
        games_lost=int(result in WINS.values() and result != WINS[player]),
        games_drawn=int(result == "draw"),
        total_moves=side["moves"],
        total_thinking_time=side["thinking_time"],
        timed_moves=side["timed_moves"],
        illegal_moves_attempted=side["illegal_moves_attempted"],
        timeouts=int(ended is not None and ended.reason == "timeout" and player == record.turn),
    )


# -- scanning: finding unattended live games in the log, whatever became of their process -----------------------
#
# All worlds are visited, a page at a time: at once at the start, then again and again, slowly. Only the position of the
# scan is kept.

log = structlog.get_logger("worldledger.arena")


class Scanner:
    """Visits the live games in progress; ``found`` is called with each of them, every time."""

    def __init__(
        self, games: LiveGames, settings: ArenaSettings, found: Callable[[LiveGameRow], Awaitable[None]]
    ) -> None:
        self._games = games
        self._settings = settings
        self._found = found
        #: how often all worlds were visited
        self.rounds = 0

    async def run(self) -> None:
        """Scan for ever."""
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            await self._round()
            self.rounds += 1
            await asyncio.sleep(max(self._settings.scan_every - (loop.time() - begun), self._settings.scan_pause))

    async def _round(self) -> None:
        after: str | None = ""
        while after is not None:
            try:
                rows, after_these = await self._games.page(after=after, worlds=self._settings.scan_page)
            except SimulationError as error:
                log.debug("looking for games waits for the database", error=error.message)
                await asyncio.sleep(self._settings.scan_pause)
                continue
            after = after_these
            for row in rows:
                try:
                    await self._found(row)
                except SimulationError as error:
                    log.warning("a game could not be looked after", game_id=row.game_id, error=error.message)
                except Exception:
                    log.exception("looking after a game failed", game_id=row.game_id)
            if after is not None and self.rounds:
                await asyncio.sleep(self._settings.scan_pause)


# -- seats: the games in memory; one that was dropped is loaded from its log when it is requested again ------------


class Seats:
    """The games in memory, at most ``most`` as long as some can be dropped; ``on_change`` is called with each.

    ``clock`` gives epoch seconds, those of ``wall_time``.
    """

    def __init__(
        self,
        store: Store,
        watcher: HeadWatcher,
        settling: Settling,
        *,
        most: int,
        clock: Callable[[], float],
        on_change: Callable[[Table], None],
    ) -> None:
        self._store = store
        self._watcher = watcher
        self._reads = SharedReads(store.reader)
        self._settling = settling
        self._most = most
        self._clock = clock
        self._on_change = on_change
        #: the least recently requested first
        self._tables: OrderedDict[str, Table] = OrderedDict()
        self._seating: SingleFlight[str, Table] = SingleFlight()
        self._closed = False

    def __iter__(self) -> Iterator[Table]:
        return iter(list(self._tables.values()))

    def known(self, game_id: str) -> Table | None:
        """Return a game's table if it is in memory."""
        return self._tables.get(game_id)

    async def take(self, game_id: str) -> Table:
        """Return a game's table; if it is not in memory, its log is read, and what is due in it is done.

        Raises WorldNotFoundError, NoSuchGameError, InvalidNameError, StoreUnavailableError, TamperedError, FoldError.
        """
        while True:
            table = self._tables.get(game_id)
            if table is not None:
                if table.error is None:
                    table.asked_at = self._clock()
                    self._tables.move_to_end(game_id)
                    return table
                self._leave(table)  # its log was damaged when it was read; read it again
            if self._closed:
                raise StoreUnavailableError("the arena is closing")
            seating = self._seating.begin(game_id, partial(self._load, game_id))
            await guarded(self._store.outages, join(seating))  # and it may have been dropped again since

    def retire(self, seconds: float) -> None:
        """Drop ended games from memory that were neither requested nor watched for this many seconds."""
        before = self._clock() - seconds
        for table in self:
            if not (table.record.in_progress or table.needed) and max(table.asked_at, table.record.last_at) <= before:
                self._leave(table)

    async def close(self) -> None:
        """Drop all games from memory; waiting calls are told that the arena is closing."""
        self._closed = True
        await self._seating.close()
        for table in self._tables.values():
            table.stop(StoreUnavailableError("the arena is closing"))
        self._tables.clear()
        await self._reads.close()

    async def _load(self, game_id: str) -> Table:
        world = await self._store.world(game_id)
        if world.ruleset != CHESS.name:
            what = f"the world {game_id!r} is one of {world.ruleset}: there is no game of chess in it"
            raise NoSuchGameError(what, game_id=game_id)
        table = await Table.load(self._store, self._watcher, world, self._on_change, self._reads.first)
        if not table.record.started:
            self._let_go(table)
            raise NoSuchGameError(f"no game has begun in the world {game_id!r}", game_id=game_id)
        if table.record.fork_of is not None and table.record.live is None:
            self._let_go(table)
            what = (
                f"the world {game_id!r} is a fork that nobody plays: `worldledger chess show` shows its game, and "
                "`chess play --from` plays on"
            )
            raise NoSuchGameError(what, game_id=game_id)
        try:
            self._on_change(table)
            await self._settling.settle(table)
        except SimulationError as error:
            log.warning("what is due in a game is done later", game_id=game_id, error=error.message)
        except asyncio.CancelledError:
            self._let_go(table)
            raise
        self._tables[game_id] = table
        with table.in_use():
            self._make_room()
        return table

    def _make_room(self) -> None:
        """Drop games from memory: the ended ones first, then those that are neither played nor watched here."""
        surplus = len(self._tables) - self._most
        if surplus <= 0:
            return
        idle = [table for table in self._tables.values() if not table.needed]
        idle.sort(key=lambda table: (table.record.in_progress, table.record.last_at))
        for table in idle[:surplus]:
            self._leave(table)

    def _leave(self, table: Table) -> None:
        del self._tables[table.game_id]
        self._let_go(table)

    def _let_go(self, table: Table) -> None:
        table.stop(StoreUnavailableError("the game has left memory"))


#: The configuration from which a game is made; `Arena.create` adds a name if it has none.
NewGame = LiveConfig


class PlayFrom(NamedTuple):
    """Where a game is played on from: a world, and a moment of its history."""

    world_id: str
    at: Moment = HEAD


#: Seconds after which another process's game that is due to end, or needs a fallback, is attended to here.
_PATIENCE_SECONDS: Final = 1.0
#: Half-moves without a capture before which no position can have occurred three times.
_REPEATABLE: Final = 8
#: Most games of other processes that are remembered as checked.
_REMEMBERED: Final = 10_000
#: Errors for which a log cannot be read any further: no later effect will mend them.
_HOPELESS: Final = (TamperedError, FoldError, InvalidConfigError, ParentMissingError)


class Arena:
    """Live games. Use it as ``async with Arena(store, watcher, worlds) as arena:``; leaving it stops all players.

    ``clock`` gives epoch seconds and is to be the store's own; ``new_uuid`` names games that have no name.
    """

    def __init__(
        self,
        store: Store,
        watcher: HeadWatcher,
        worlds: Worlds,
        settings: ArenaSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
        new_uuid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self.settings = settings = ArenaSettings() if settings is None else settings
        self._store = store
        self._clock = clock
        self._new_uuid = new_uuid
        writing = Writing(store)
        #: the counters of this arena
        self.counters = writing.counters
        self._settling = Settling(writing, clock)
        self._worlds = worlds
        self._moving = Moving(worlds, writing, self._settling)
        self._deadlines = Deadlines(clock, self._look_at)
        self._scanner = Scanner(LiveGames(store.reader), settings, self._found)
        self._seats = Seats(
            store, watcher, self._settling, most=settings.max_games, clock=clock, on_change=self._changed
        )
        self._drivers: dict[str, asyncio.Task[None]] = {}
        #: games that are about to be played here
        self._places = 0
        #: games that are being made, by name
        self._begun: Counter[str] = Counter()
        self._running: set[asyncio.Task[None]] = set()
        #: the head at which a game was last checked, or None if it is not to be checked
        self._looked: Lru[str, int | None] = Lru(_REMEMBERED)
        self._closed = False

    async def __aenter__(self) -> Self:
        self._start(self._deadlines.run())
        self._start(self._sweep())
        if self.settings.adopt:
            self._start(self._scanner.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop all players; waiting calls are told. What was begun is in the log, or will be attended to later."""
        self._closed = True
        await self._seats.close()
        tasks = [*self._running, *self._drivers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._deadlines.close()

    # -- games ---------------------------------------------------------------------------------------------

    async def create(self, new: NewGame, play_from: PlayFrom | None = None) -> LiveGame:
        """Create a game: a world of its own, begun, with both agents registered, atomically.

        With ``play_from`` the world is a fork, in which the agents go on with another game, recorded or live, from a
        moment at which it is not over; ``new`` names neither a position nor Chess960 then, which are that game's.

        Its players that the service has begin to play. Raises InvalidConfigError, UnknownPlayerError,
        InvalidPlayerError, ArenaFullError, WorldExistsError, InvalidNameError, StoreUnavailableError; with
        ``play_from`` also GameNotLiveError, NoSuchGameError, WorldNotFoundError, MomentNotFoundError,
        ParentMissingError, TamperedError and FoldError.
        """
        await self._check(new)
        if new.game_id is None:
            new = new.model_copy(update={"game_id": self._new_uuid()})
        assert new.game_id is not None  # noqa: S101 - it was just named
        with self._place(driven(new.players)), self._beginning(new.game_id):
            if play_from is not None:
                await self._fork(new, play_from)
            else:
                config = {LIVE: new.to_value()}
                world = NewWorld(world_id=new.game_id, ruleset=CHESS.name, config=config, experiment=new.experiment)
                await self._store.create_world(world)
            self.counters.created += 1
            table = await self._seats.take(new.game_id)
            self._drive(table)
        return self._game(table)

    async def _fork(self, new: NewGame, play_from: PlayFrom) -> None:
        """Make the world of a game that goes on from another one."""
        for name in ("fen", "chess960"):
            if getattr(new, name):
                path = f"$.config.{LIVE}.{name}"
                raise InvalidConfigError(f"{path}: a game that is played on has its own", path=path)
        parent, seq = await self.place_of(play_from)
        record = await self._stands_at(parent, seq)
        live = new.model_copy(
            update={
                "fen": _playable(record, parent.world_id, seq).fen(en_passant="fen"),
                "chess960": record.entities[BOARD]["variant"] == "chess960",
                "experiment": new.experiment or parent.experiment,
            }
        )
        fork = NewFork(world_id=new.game_id, experiment=live.experiment, config={LIVE: live.to_value()})
        _, is_new = await self._store.fork(parent.world_id, Moment(seq=seq), fork)
        if not is_new:
            what = f"a world named {new.game_id!r} is already there"
            raise WorldExistsError(what, world_id=new.game_id)

    async def place_of(self, play_from: PlayFrom) -> tuple[WorldRecord, int]:
        """Return the world and the seq from which a game is to be played on. Raises as `create`."""
        world = await self._store.world(play_from.world_id)
        if world.ruleset != CHESS.name:
            what = f"the world {world.world_id!r} is one of {world.ruleset}: there is no game of chess in it"
            raise NoSuchGameError(what, game_id=world.world_id)
        return await self._store.states.place_at(world, play_from.at)

    async def _stands_at(self, world: WorldRecord, seq: int) -> Record:
        """Return the game of a world as it stood at a seq."""
        line = await self._store.states.line(world)
        record = Record(world.world_id, load_ruleset(world.ruleset))
        await read_history(self._store, record, [*line[:-1], world.model_copy(update={"head_seq": seq})])
        return record

    async def game(self, game_id: str) -> LiveGame:
        """Return a game, from memory or from its log; what is due in it is done.

        Raises WorldNotFoundError, NoSuchGameError, InvalidNameError, StoreUnavailableError, TamperedError, FoldError.
        """
        return self._game(await self._seats.take(game_id))

    def games(self) -> list[LiveGame]:
        """Return the games in memory, the most recently requested last."""
        return [self._game(table) for table in self._seats]

    def sessions(self) -> list[GameSession]:
        """Return the sessions of the live games in memory, in the order of `games`."""
        return [session for table in self._seats if (session := session_of(table)) is not None]

    @property
    def driven(self) -> int:
        """The number of games that are played here by players of the service."""
        return len(self._drivers)

    def _game(self, table: Table) -> LiveGame:
        return LiveGame(table, self._seats.take, self._moving)

    async def _check(self, new: NewGame) -> None:
        for colour, agent in new.agents.items():
            if agent.agent_id == ARENA:
                path = f"$.{colour}.agent_id"
                raise InvalidConfigError(f"{path}: {ARENA!r} is the name of the arena itself", path=path)
            # Made once to check that it can be: a program that is not installed is reported now, not at the first move.
            player = make_player(
                new.players[colour],
                seed=0,
                path=f"$.players.{colour}",
                allow_programs=self.settings.allow_programs,
            )
            await player.close()

    def begins(self, new: NewGame) -> bool:
        """Return whether a game of this name is being created here."""
        return new.game_id in self._begun

    @contextmanager
    def _beginning(self, game_id: str) -> Iterator[None]:
        self._begun[game_id] += 1
        try:
            yield
        finally:
            self._begun -= Counter((game_id,))  # this keeps what is left above zero

    @contextmanager
    def _place(self, players: object) -> Iterator[None]:
        """Reserve a place among the games played here until the end, if any of these players is the service's.

        By then the game is played here, or is not to be. Raises ArenaFullError.
        """
        if not players:
            yield
            return
        limit = self.settings.max_games
        if self.driven + self._places >= limit:
            raise ArenaFullError(f"{limit} games are being played here; wait until one has ended", limit=limit)
        self._places += 1
        try:
            yield
        finally:
            self._places -= 1

    # -- attending to games --------------------------------------------------------------------------------

    def _changed(self, table: Table) -> None:
        """Note when a game is to be checked, now that it has changed."""
        record = table.record
        at = record.deadline_at
        if record.unsettled:  # the process that caused it continues, unless it is gone
            soon = self._clock() + _PATIENCE_SECONDS
            at = soon if at is None else min(at, soon)
        self._deadlines.set(table.game_id, at)

    async def _sweep(self) -> None:
        """Drop ended games that are no longer requested from memory, for ever (docs/how-to-chess.md, "Cleanup")."""
        while True:
            await asyncio.sleep(self.settings.sweep_every)
            self._seats.retire(self.settings.keep_ended)

    async def _look_at(self, game_id: str) -> None:
        try:
            table = await self._seats.take(game_id)
        except _HOPELESS as error:
            self._leave_alone(game_id, error)
            return
        with table.in_use():
            await self._settling.settle(table)
            self._changed(table)

    def _leave_alone(self, game_id: str, error: SimulationError) -> None:
        """Stop attending to a game whose log cannot be read: no later effect will mend it."""
        if self._looked.get(game_id, 0) is not None:
            log.warning("a game is not looked after any more", game_id=game_id, error=error.message)
        self._remember(game_id, None)

    def _remember(self, game_id: str, head_seq: int | None) -> None:
        self._looked[game_id] = head_seq

    async def _found(self, row: LiveGameRow) -> None:
        """Attend to a game in progress, unless another process does."""
        try:
            await self._look_after(row)
        except _HOPELESS as error:
            self._leave_alone(row.game_id, error)

    async def _look_after(self, row: LiveGameRow) -> None:
        looked = self._looked.get(row.game_id, 0)
        if looked is None:
            return
        table = self._seats.known(row.game_id)
        if table is None:
            self._deadlines.set(row.game_id, _deadline_of(row))
        if row.game_id in self._drivers or self._clock() < row.wall_time + self.settings.adopt_after:
            return
        if driven(row.live.get("players", {})):
            with suppress(ArenaFullError), self._place(players=True):
                self._drive(await self._seats.take(row.game_id))
        elif table is None and looked != row.head_seq and _may_be_over(row):
            await self._seats.take(row.game_id)
            self._remember(row.game_id, row.head_seq)

    def _drive(self, table: Table) -> None:
        """Let the service's players of a game play here, if it has any."""
        live = table.record.live
        if live is None or not table.record.in_progress or not driven(live.players) or self._closed:
            return
        if table.game_id in self._drivers:
            return
        try:
            driver = Driver(table, self._moving, self._worlds, self.settings, self._clock)
        except (UnknownPlayerError, InvalidPlayerError, ExtraMissingError) as error:
            # Its process had the player, or allowed it. The time will run out, unless that process comes back.
            log.warning("a game cannot be played here", game_id=table.game_id, error=error.message)
            return
        table.driven = True
        task = asyncio.get_running_loop().create_task(driver.run())
        self._drivers[table.game_id] = task
        task.add_done_callback(lambda done: self._driven(table, done))

    def _driven(self, table: Table, task: asyncio.Task[None]) -> None:
        table.driven = False
        del self._drivers[table.game_id]
        if task.cancelled() or self._closed:
            return
        error = task.exception()
        if isinstance(error, SimulationError):
            log.warning("a game is no longer played here", game_id=table.game_id, error=error.message)
        elif error is not None:
            log.error("playing a game failed", game_id=table.game_id, exc_info=error)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)


def _playable(record: Record, world_id: str, seq: int) -> chess.Board:
    """Return the board of a game that can be played on. Raises NoSuchGameError, GameNotLiveError."""
    board = record.board
    if board is None:
        raise NoSuchGameError(f"no game has begun in the world {world_id!r} at seq {seq}", game_id=world_id)
    entity = record.entities[BOARD]
    why = None
    if entity["variant"] not in ORTHODOX:
        why = f"it is a game of {entity['variant']}, which is not played here"
    elif not record.in_progress:
        why = f"the game is over there ({_how(entity['result'], entity['reason'] or entity['status'])})"
        if entity["ply"] and record.last_move_seq:
            why += f"; its last move is seq:{record.last_move_seq}"
    elif record.due_end is not None:
        why = f"the game is over there by the rules ({_how(record.due_end.result, record.due_end.reason)})"
    elif len(board.move_stack) != record.ply or board.status():
        why = "its position, or a move of its record, is not legal"
    if why is not None:
        what = f"{world_id}@seq:{seq} cannot be played on: {why}"
        raise GameNotLiveError(what, game_id=world_id, global_seq=seq)
    return board


def _how(result: str | None, reason: str | None) -> str:
    return ", ".join(word.replace("_", " ") for word in (result, reason) if word)


def _deadline_of(row: LiveGameRow) -> float | None:
    """Return when the time of the side to move runs out, in epoch seconds; None if there is no limit."""
    fen = row.live.get("fen") if row.fen is None else row.fen
    limit = limit_of(row.live.get("deadline_s"), "black" if isinstance(fen, str) and " b " in fen else "white")
    return None if limit is None else (row.wall_time if row.moved_at is None else row.moved_at) + limit


def _may_be_over(row: LiveGameRow) -> bool:
    """Return whether a game may have to be ended, by its last position or by repetition."""
    if row.fen is None:
        return False
    try:
        board = position("standard", row.fen)
    except UNREADABLE:
        return True
    return board.halfmove_clock >= _REPEATABLE or automatic_end(board) is not None
