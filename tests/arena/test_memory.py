"""Memory: a game that has left it is the same game, and only those leave that nobody here needs."""

from __future__ import annotations

import asyncio
import gc
from contextlib import aclosing

import asyncpg
from worldledger_chess.arena import ArenaFullError
from worldledger_chess.rules import GameSession

from tests.waiting import wait_for
from worldledger.errors import StoreUnavailableError, TamperedError

from .helpers import FEW, FOOLS_MATE, Opening, attempt, ended, new_game, of_players, played, refused, watched


async def test_leaving_and_coming_back_is_not_seen(opening: Opening) -> None:
    """With room for one game alone, several are played in turn by those who hold them, and nothing is lost."""
    arena = await opening(max_games=1)
    games = [await arena.create(new_game(game_id=f"g{number}")) for number in range(4)]
    for move in FOOLS_MATE:
        for game in games:
            await played(game, [move])
            assert len(arena.games()) == 1
    for game in games:
        await game.catch_up()
        assert game.state.status == "checkmate"
        assert [move.uci_notation for move in game.state.move_history] == list(FOOLS_MATE)


async def test_a_request_is_known_after_coming_back(opening: Opening) -> None:
    """A request made before the game left memory is answered the same after it."""
    arena = await opening(max_games=1)
    game = await arena.create(new_game())
    made = await game.move("w", "e2e4", req_id="1")
    wrong = await game.move("b", "e2e4", req_id="1")
    await arena.create(new_game())
    assert [each.game_id for each in arena.games()] != [game.game_id]
    assert await game.move("w", "e2e4", req_id="1") == made.model_copy(update={"replayed": True})
    assert await game.move("b", "e2e4", req_id="1") == wrong.model_copy(update={"replayed": True})
    assert game.attempts_left == 2


async def test_those_that_have_ended_leave_first(opening: Opening) -> None:
    """The game that has ended and was touched least lately leaves first; those that go on stay as long as they can."""
    arena = await opening(max_games=3)
    for name in ("a", "b", "c"):
        await arena.create(new_game(game_id=name))
    opening.clock.go(1)
    await (await arena.game("c")).resign("w", req_id="r")
    opening.clock.go(1)
    await (await arena.game("b")).resign("w", req_id="r")
    await arena.create(new_game(game_id="d"))
    assert sorted(game.game_id for game in arena.games()) == ["a", "b", "d"]
    await arena.create(new_game(game_id="e"))
    assert sorted(game.game_id for game in arena.games()) == ["a", "d", "e"]
    await arena.create(new_game(game_id="f"))
    assert len(arena.games()) == 3


async def test_what_is_needed_stays(opening: Opening) -> None:
    """A game that somebody watches, or that players of the service play, does not leave memory."""
    arena = await opening(max_games=1)
    game = await arena.create(new_game(game_id="watched"))
    async with aclosing(game.watch()) as events:
        await anext(events)
        await arena.create(of_players("external", "random", game_id="driven"))
        for number in range(3):
            await arena.create(new_game(game_id=f"g{number}"))
        there = {game.game_id for game in arena.games()}
        assert {"watched", "driven"} <= there
    await arena.create(new_game(game_id="last"))
    assert "watched" not in {game.game_id for game in arena.games()}


async def test_no_more_games_are_driven_than_have_room(opening: Opening) -> None:
    """A game for the service's players is refused while as many are played as may be; others are made all the same."""
    arena = await opening(max_games=2)
    games = [await arena.create(of_players("external", "random")) for _ in range(2)]
    error = await refused(arena.create(of_players("random", "random", fen=FEW)))
    assert isinstance(error, ArenaFullError)
    assert error.details == {"limit": 2}
    await arena.create(new_game())
    await games[0].resign("w", req_id="r")
    await wait_for(lambda: arena.driven == 1, "its player has left")
    await ended(await arena.create(of_players("random", "random", fen=FEW)))


async def test_many_who_ask_for_one_game(opening: Opening) -> None:
    """A game that many ask for at once is read once."""
    async with opening.until() as arena:
        await arena.create(new_game(game_id="g"))
    arena = await opening(scan_every=1e9)
    games = await asyncio.gather(*(arena.game("g") for _ in range(20)))
    assert len({id(game._table) for game in games}) == 1


async def test_sessions(opening: Opening) -> None:
    """Each live game in memory has a session: the same in every process, with its agents and who watches."""
    arena = await opening()
    game = await arena.create(new_game())
    await attempt(game, "w", "e2e5")
    await game.move("w", "e2e4", req_id="m", thinking_time=2.0)
    async with aclosing(game.watch()) as events:
        await anext(events)
        (session,) = arena.sessions()
        assert isinstance(session, GameSession)
        assert (session.game_id, session.websocket_connections, session.is_active) == (game.game_id, 1, True)
        assert session.agent_white.stats.illegal_moves_attempted == 1
        assert session.agent_white.stats.average_thinking_time == 2.0
    other = await opening()
    await other.game(game.game_id)
    assert [each.session_id for each in other.sessions()] == [session.session_id]
    await game.resign("b", req_id="r")
    (session,) = arena.sessions()
    assert not session.is_active
    assert (session.agent_white.stats.games_won, session.agent_black.stats.games_lost) == (1, 1)


async def test_closing_leaves_nothing_behind(opening: Opening) -> None:
    """After an arena is closed none of its tasks runs, and who still holds a game is told so."""
    before = asyncio.all_tasks()
    async with opening.until() as arena:
        game = await arena.create(of_players("random", "random"))
        watching = asyncio.create_task(watched(game))
        await wait_for(lambda: game.state.move_history, "it is played")
    await asyncio.gather(watching, return_exceptions=True)
    gc.collect()
    # Whatever generator is collected here, it may be another test's, has its end in a task.
    await wait_for(lambda: asyncio.all_tasks() <= before, "none of its tasks is left")
    assert isinstance(await refused(attempt(game, "w", "e2e4")), StoreUnavailableError)
    assert isinstance(await refused(arena.game(game.game_id)), StoreUnavailableError)


async def test_a_damaged_log(opening: Opening) -> None:
    """A game whose log was damaged is told to be so; the others go on."""
    damages = {
        "changed": "update effects set effect = '{}' where world_id = 'changed' and global_seq = 6",
        "missing": "delete from effects where world_id = 'missing' and global_seq = 6",
    }
    async with opening.until() as arena:
        for name in damages:
            await played(await arena.create(new_game(game_id=name)), ["e2e4", "e7e5", "d2d4"])
    connection = await asyncpg.connect(opening.url)
    await connection.execute("alter table effects disable trigger all")
    for damage in damages.values():
        await connection.execute(damage)
    await connection.close()
    arena = await opening()
    for name in damages:
        assert isinstance(await refused(arena.game(name)), TamperedError), name
    assert (await attempt(await arena.create(new_game()), "w", "e2e4")).accepted
