"""Deadlines: a side that does not move in time has lost, whatever became of the processes meanwhile."""

from __future__ import annotations

from typing import Any, Final

import pytest
from worldledger_chess.arena import Arena, ArenaSettings, NewGame
from worldledger_chess.rules import AgentSpec

from tests.waiting import wait_for

from .helpers import Clock, Opening, attempt, effects, kinds, new_game, played, rule_of


async def test_time_is_over(arena: Arena, clock: Clock) -> None:
    """When the time of the side to move is over the game has ended, and the other side has won."""
    game = await arena.create(new_game(deadline_s=30.0))
    await attempt(game, "w", "e2e4")
    clock.go(30)
    await wait_for(lambda: game.ended, "the time is over")
    assert (game.state.status, game.state.result, game.state.reason) == ("timeout", "white_wins", "timeout")
    assert await kinds(arena, game) == ["MoveMade", "GameEnded"]


async def test_each_move_has_its_own_time(arena: Arena, clock: Clock) -> None:
    """The time begins with the move before; what was rejected does not make it longer."""
    game = await arena.create(new_game(deadline_s=30.0))
    for agent, move in (("w", "e2e4"), ("b", "e7e5"), ("w", "d2d4")):
        clock.go(29)
        assert (await attempt(game, agent, move)).accepted
    clock.go(20)
    assert not (await attempt(game, "b", "a1a8")).accepted
    assert game.deadline_at == clock.now + 10
    clock.go(10)
    await wait_for(lambda: game.ended, "the time is over")
    assert game.state.result == "white_wins"


async def test_a_draw_where_the_other_side_cannot_win(arena: Arena, clock: Clock) -> None:
    """Time that is over is a draw if the other side has nothing to checkmate with."""
    game = await arena.create(new_game(deadline_s=5.0, fen="7k/8/8/8/8/8/8/1Q1K4 w - - 0 1"))
    clock.go(5)
    await wait_for(lambda: game.ended, "the time is over")
    assert (game.state.status, game.state.result, game.state.reason) == ("draw", "draw", "timeout")


async def test_a_move_that_comes_too_late(opening: Opening) -> None:
    """A move after the time is over is refused, also where no timer has noticed it yet."""
    async with opening.until() as arena:
        game = await arena.create(new_game(deadline_s=30.0))
    async with opening.until(scan_every=1e9) as arena:
        game = await arena.game(game.game_id)
        arena._deadlines.set(game.game_id, None)
        opening.clock.go(31)
        assert await rule_of(attempt(game, "w", "e2e4")) == "game_over"
        assert game.state.status == "timeout"


async def test_no_limit(arena: Arena, clock: Clock) -> None:
    """A game without a limit waits for ever."""
    game = await arena.create(new_game())
    assert game.deadline_at is None
    assert arena._deadlines.at(game.game_id) is None
    clock.go(1e6)
    assert (await attempt(game, "w", "e2e4")).accepted


async def test_time_goes_on_while_nobody_runs(opening: Opening) -> None:
    """A time that is over while no process runs ends the game as soon as one does, without anybody asking for it."""
    async with opening.until() as arena:
        games = [await arena.create(new_game(game_id=f"g{number}", deadline_s=30.0)) for number in range(5)]
        await played(games[0], ["e2e4"])
        await games[1].resign("w", req_id="r")
    opening.clock.go(100)
    async with opening.until() as arena:
        await wait_for(lambda: len(arena.games()) == 4, "the games are looked at")
        await wait_for(lambda: all(game.ended for game in arena.games()), "they have ended")
        results = {game.game_id: game.state.result for game in arena.games()}
        assert results == {"g0": "white_wins", "g2": "black_wins", "g3": "black_wins", "g4": "black_wins"}


async def test_time_goes_on_from_where_it_was(opening: Opening) -> None:
    """A process that takes a game over gives its side the time that is left, and no more."""
    async with opening.until() as arena:
        game = await arena.create(new_game(deadline_s=30.0))
        opening.clock.go(10)
        await attempt(game, "w", "e2e4")
        deadline = game.deadline_at
    opening.clock.go(20)
    async with opening.until() as arena:
        await wait_for(lambda: arena._deadlines.at(game.game_id), "the deadline is known")
        assert arena._deadlines.at(game.game_id) == deadline == opening.clock.now + 10
        assert (await (await arena.game(game.game_id)).move("b", "e7e5", req_id="r")).accepted


async def test_a_game_that_has_left_memory_has_its_deadline(opening: Opening) -> None:
    """A game that nobody here plays may leave memory; its time is over all the same."""
    arena = await opening(max_games=1, scan_every=1e9)
    await wait_for(lambda: arena._scanner.rounds, "it has looked around")
    first = await arena.create(new_game(deadline_s=30.0))
    await arena.create(new_game())
    assert [game.game_id for game in arena.games()] != [first.game_id]
    opening.clock.go(30)
    await wait_for(lambda: arena._deadlines.at(first.game_id) is None, "it is looked at")
    await first.catch_up()
    assert first.state.status == "timeout"


_OWN_TIMES: Final[dict[str, Any]] = {
    "white": AgentSpec(agent_id="w", timeout_seconds=100),
    "black": AgentSpec(agent_id="b", timeout_seconds=5),
}


async def test_each_agent_has_its_own_time(opening: Opening) -> None:
    """Without a limit of the game each move may take as long as its agent may, also for a process that finds it."""
    async with opening.until() as arena:
        game = await arena.create(NewGame(**_OWN_TIMES))
        assert game.deadline_at == opening.clock.now + 100
        opening.clock.go(50)
        await attempt(game, "w", "e2e4")
        assert game.deadline_at == opening.clock.now + 5
        first = await arena.create(NewGame(**_OWN_TIMES, fen="4k3/7p/8/8/8/8/P7/4K3 b - - 0 1"))
    arena = await opening(adopt_after=1e9)
    names = (game.game_id, first.game_id)
    await wait_for(lambda: all(map(arena._deadlines.at, names)), "the deadlines are known")
    assert {arena._deadlines.at(name) for name in names} == {opening.clock.now + 5}
    opening.clock.go(5)
    await wait_for(lambda: not any(map(arena._deadlines.at, names)), "they are looked at")
    game = await arena.game(game.game_id)
    assert (game.state.status, game.state.result) == ("timeout", "white_wins")


async def test_the_limit_of_a_game_counts(arena: Arena, clock: Clock) -> None:
    """A game's own limit, none included, is that of both, whatever its agents have."""
    for limit, at in ((30.0, clock.now + 30), (None, None)):
        game = await arena.create(NewGame(**_OWN_TIMES, deadline_s=limit))
        assert game.deadline_at == at
        await attempt(game, "w", "e2e4")
        assert game.deadline_at == at


async def test_two_arenas_and_one_deadline(opening: Opening) -> None:
    """Where two processes know of a deadline, the game ends once; a move in time, made in one, counts in the other."""
    one, two = await opening(), await opening()
    game = await one.create(new_game(deadline_s=30.0))
    same = await two.game(game.game_id)
    opening.clock.go(29)
    assert (await attempt(game, "w", "e2e4")).accepted
    opening.clock.go(29)
    await same.catch_up()
    assert same.ended is None
    opening.clock.go(1)
    await wait_for(lambda: game.ended and same.ended, "the time is over")
    assert len(await effects(one, game, "GameEnded")) == 1


async def test_looking_around(opening: Opening, subtests: pytest.Subtests) -> None:
    """All live games that go on are found, page by page, and nothing else."""
    async with opening.until(scan_every=1e9) as arena:
        for number in range(4):
            await arena.create(new_game(game_id=f"g{number}", deadline_s=100.0))
        await (await arena.game("g2")).resign("w", req_id="r")
        await arena.create(new_game(game_id="h0"))
    found: dict[str, Any] = {}

    async def see(row: Any) -> None:
        found[row.game_id] = row

    async with opening.until(scan_every=1e9) as arena:
        arena._scanner._found = see
        for page in (1, 3, 1000):
            with subtests.test(page=page):
                found.clear()
                arena._scanner._settings = ArenaSettings(scan_page=page, scan_pause=0.01)
                await arena._scanner._round()
                assert sorted(found) == ["g0", "g1", "g3", "h0"]
