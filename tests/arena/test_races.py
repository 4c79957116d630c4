"""Races: whoever moves at the same time, in one process or in two, one game comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from worldledger_chess.arena import Arena, LiveGame, MoveOutcome
from worldledger_chess.rules import validate_game_state
from worldledger_service.store import statements

from tests.waiting import wait_for
from worldledger.errors import IllegalEffectError, RequestConflictError, SimulationError
from worldledger.genesis import NewWorld

from .helpers import FEW, Opening, attempt, effects, ended, legal, new_game, of_players, played, posted


def _parted(found: Sequence[object]) -> tuple[list[MoveOutcome], list[SimulationError]]:
    """Part outcomes from refusals; anything else is a failure."""
    outcomes = [each for each in found if isinstance(each, MoveOutcome)]
    refusals = [each for each in found if isinstance(each, SimulationError)]
    assert len(outcomes) + len(refusals) == len(found), found
    return outcomes, refusals


async def _sound(arena: Arena, game: LiveGame) -> None:
    """Check that the log is a game by the rules."""
    await game.catch_up()
    assert validate_game_state(await effects(arena, game), game.state) == []


async def test_both_players_at_once(arena: Arena) -> None:
    """Where both move at the same time, the one whose turn it is has moved; the other may have moved after it."""
    game = await arena.create(new_game())
    found = await asyncio.gather(attempt(game, "b", "e7e5"), attempt(game, "w", "e2e4"), return_exceptions=True)
    outcomes, _ = _parted(found)
    assert any(outcome.player == "white" and outcome.ply == 1 for outcome in outcomes)
    await _sound(arena, game)


async def test_one_player_twice_at_once(arena: Arena) -> None:
    """Of several moves of one side at the same time one is made, and the others are refused as out of turn."""
    game = await arena.create(new_game())
    moves = ("e2e4", "d2d4", "c2c4", "g1f3")
    outcomes, refusals = _parted(await asyncio.gather(*(attempt(game, "w", m) for m in moves), return_exceptions=True))
    assert len(outcomes) == 1
    assert [type(error) for error in refusals] == [IllegalEffectError] * 3
    assert len(await effects(arena, game, "MoveMade")) == 1


async def test_one_request_with_two_moves_at_once(arena: Arena) -> None:
    """Of two moves under one req_id at the same time one is made, and the other is a conflict."""
    game = await arena.create(new_game())
    found = await asyncio.gather(
        *(game.move("w", move, req_id="same") for move in ("e2e4", "d2d4")), return_exceptions=True
    )
    outcomes, refusals = _parted(found)
    assert (len(outcomes), [type(error) for error in refusals]) == (1, [RequestConflictError])


async def test_a_move_and_a_resignation_at_once(arena: Arena) -> None:
    """Whatever comes first, the game has ended once, and the log is a game."""
    game = await arena.create(new_game())
    await asyncio.gather(attempt(game, "w", "e2e4"), game.resign("b", req_id="r"), return_exceptions=True)
    assert game.ended is not None
    assert len(await effects(arena, game, "GameEnded")) == 1
    await _sound(arena, game)


async def test_two_processes_play_one_game(opening: Opening) -> None:
    """White plays in one process and Black in another; each acknowledged move is the other's position at once."""
    one, two = await opening(), await opening()
    white = await one.create(new_game())
    black = await two.game(white.game_id)
    made = []
    for ply in range(20):
        game, agent = (white, "w") if ply % 2 == 0 else (black, "b")
        await game.catch_up()
        moves = legal(game)
        made.append(await attempt(game, agent, moves[ply * 7 % len(moves)]))
    assert [outcome.ply for outcome in made if outcome.accepted] == list(range(1, 21))
    assert {game.game_id: game.state.board_state.fen for game in (white,)} != {}
    await white.catch_up()
    await black.catch_up()
    assert white.state == black.state
    await _sound(one, white)


async def test_a_move_needs_no_catching_up(opening: Opening) -> None:
    """A process that has not seen the opponent's move yet looks at the log before it refuses anything."""
    one, two = await opening(), await opening()
    white = await one.create(new_game())
    black = await two.game(white.game_id)
    for number, move in enumerate(("e2e4", "e7e5", "g1f3", "b8c6", "f1c4", "g8f6")):
        game, agent = ((white, "w"), (black, "b"))[number % 2]
        assert (await attempt(game, agent, move)).ply == number + 1


def _asleep(arena: Arena) -> None:
    """Have an arena look at logs that others write only when it asks for them itself."""
    watcher = arena._seats._watcher
    wait, moved, asked = watcher.wait_beyond, watcher.moved, asyncio.Event()

    async def wait_beyond(world_id: str, seq: int, timeout: float | None = None) -> int:
        await asked.wait()
        return await wait(world_id, seq, timeout)

    def looked(world_id: str, head_seq: int) -> None:
        asked.set()
        moved(world_id, head_seq)

    watcher.wait_beyond = wait_beyond  # type: ignore[method-assign]
    watcher.moved = looked  # type: ignore[method-assign]


async def test_a_move_counts_as_the_one_that_was_due_when_it_came(opening: Opening) -> None:
    """A process that has not seen two moves yet, so that the same side is to move, takes the next one as what it is."""
    one, two = await opening(), await opening()
    game = await one.create(new_game())
    _asleep(two)
    same = await two.game(game.game_id)
    await played(game, ["e2e4", "e7e5"])
    assert same.record.ply == 0
    opening.clock.go(0.1)
    outcome = await attempt(same, "w", "g1f3")
    assert (outcome.accepted, outcome.ply) == (True, 3)
    await _sound(one, game)


async def test_one_request_in_two_processes(opening: Opening) -> None:
    """The same request sent to two processes is one effect, with one answer; another move under it is a conflict."""
    one, two = await opening(), await opening()
    game = await one.create(new_game())
    same = await two.game(game.game_id)
    for text in ("e2e5", "e2e4"):
        first, second = await asyncio.gather(*(each.move("w", text, req_id=text) for each in (game, same)))
        assert first.global_seq == second.global_seq
        assert {first.replayed, second.replayed} == {True, False}
    found = await asyncio.gather(
        game.move("b", "e7e5", req_id="x"), same.move("b", "d7d5", req_id="x"), return_exceptions=True
    )
    outcomes, refusals = _parted(found)
    assert (len(outcomes), [type(error) for error in refusals]) == (1, [RequestConflictError])
    await _sound(one, game)


async def test_illegal_attempts_in_two_processes(opening: Opening) -> None:
    """Two processes count illegal attempts together."""
    one, two = await opening(), await opening()
    game = await one.create(new_game(max_illegal=3))
    same = await two.game(game.game_id)
    many = [each.move("w", "e2e5", req_id=f"{name}{n}") for name, each in enumerate((game, same)) for n in range(5)]
    _parted(await asyncio.gather(*many, return_exceptions=True))
    told = [effect["kind"] for effect in await effects(one, game, "MoveRejected", "MoveMade", "GameEnded")]
    assert told == ["MoveRejected"] * 3 + ["GameEnded"]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2))])
async def test_many_who_know_nothing_of_each_other(opening: Opening, seed: int) -> None:
    """Sixteen callers in two processes move for both sides as they like: what comes of it is one game by the rules."""
    one, two = await opening(), await opening()
    game = await one.create(new_game(game_id=f"g{seed}", max_illegal=1000))
    same = await two.game(game.game_id)
    made: list[MoveOutcome] = []

    async def play(number: int) -> None:
        mine = (game, same)[number % 2]
        agent = ("w", "b")[number // 2 % 2]
        for _ in range(6):
            moves = legal(mine) or ["a1a1"]
            try:
                made.append(await attempt(mine, agent, moves[(number + seed) * 13 % len(moves)]))
            except IllegalEffectError:
                await asyncio.sleep(0.001)

    await asyncio.gather(*(play(number) for number in range(16)))
    accepted = {outcome.global_seq: outcome for outcome in made if outcome.accepted}
    log = await effects(one, game, "MoveMade")
    assert sorted(accepted) == [effect["global_seq"] for effect in log]
    for effect in log:
        move = accepted[effect["global_seq"]].move
        assert move is not None
        assert move.uci_notation == effect["payload"]["uci_notation"]
    await _sound(one, game)


async def test_two_processes_drive_one_game(opening: Opening) -> None:
    """Where two processes play for the same players, each move is made once, and the game comes to its end."""
    one, two = await opening(adopt_after=0.0), await opening(adopt_after=0.0)
    game = await one.create(of_players("random", "random", seed=9, fen=FEW, max_illegal=1))
    same = await two.game(game.game_id)
    await ended(game)
    await wait_for(lambda: same.ended, "the other one knows")
    assert await effects(one, game, "MoveRejected", "IntentRejected") == []
    await _sound(one, game)


async def test_the_loser_of_a_race_is_told_where_it_stands(arena: Arena) -> None:
    """After whatever came first, what is in memory is what is in the log."""
    game = await arena.create(new_game())
    await played(game, ["e2e4"])
    await asyncio.gather(*(attempt(game, "b", m) for m in ("e7e5", "c7c5", "e7e6")), return_exceptions=True)
    seq = game.seq
    await game.catch_up()
    assert game.state.move_history[-1].player == "black"
    assert game.seq >= seq


async def test_attempts_that_wait_for_one_commit(arena: Arena, game_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that are one too many nobody hears before the last that is allowed stands in the log: what follows it
    is told to them as to others.
    """
    real, gate = statements.write_groups, asyncio.Event()

    async def slowly(connection: Any, groups: Any) -> Any:
        written = await real(connection, groups)
        await asyncio.sleep(0.1)  # whoever hears now of what is not committed yet finds nothing of it in the log
        return written

    async def too_late(connection: Any, groups: Any) -> set[str]:
        await gate.wait()
        return set()  # as where another process was quicker

    game = await arena.create(new_game())
    for _ in range(2):
        await attempt(game, "w", "a1a1")
    store = arena._store
    await store.create_world(NewWorld(world_id=game_id))
    elsewhere = await store.log(game_id)
    monkeypatch.setattr("worldledger_service.store.committer.write_groups", too_late)
    monkeypatch.setattr("worldledger_service.store.settle.write_groups", slowly)
    others = asyncio.create_task(elsewhere.append_all([posted("e2e4"), posted("e7e5")]))
    await wait_for(lambda: store._committer._running, "the first statement is being written")
    tries = asyncio.gather(*(attempt(game, "w", "a1a1") for _ in range(4)), return_exceptions=True)
    await wait_for(lambda: store._committer._waiting == 4, "the attempts wait for the next one")
    gate.set()
    outcomes, refusals = _parted(await tries)
    assert len(outcomes) == 1
    assert {type(error) for error in refusals} == {IllegalEffectError}
    assert len(await effects(arena, game, "MoveRejected")) == 3
    assert len(await effects(arena, game, "GameEnded")) == 1
    await others
    await _sound(arena, game)
