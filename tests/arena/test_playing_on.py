"""Playing on: a live game that is a fork, from any moment of another game, recorded or live."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from worldledger_chess.arena import Arena, GameNotLiveError, LiveGame, NoSuchGameError, PlayFrom
from worldledger_chess.arena.arena import session_of
from worldledger_chess.rules import AgentSpec, validate_game_state
from worldledger_chess.rules.state import game_continued
from worldledger_chess.store.recordings import import_games
from worldledger_service.runtime.comparing import compare

from tests.waiting import wait_for
from worldledger.effects import Effect, EffectDraft
from worldledger.errors import InvalidConfigError, WorldExistsError
from worldledger.genesis import NewWorld
from worldledger.moments import Moment
from worldledger.rulesets.base import MalformedEffectError

from .helpers import (
    FOOLS_MATE,
    REPETITION,
    Clock,
    Opening,
    after,
    attempt,
    effects,
    ended,
    new_game,
    of_players,
    played,
    refused,
    rule_of,
    watched,
)


def at(ply: int) -> Moment:
    """Return the moment after so many moves."""
    return Moment(unit=("ply", ply))


def others(**fields: Any) -> Any:
    """Return a game of other agents."""
    return new_game(white=AgentSpec(agent_id="x"), black=AgentSpec(agent_id="y", name="Yu"), **fields)


async def moved(game: LiveGame, *moves: str) -> None:
    """Make moves of the agents x and y."""
    for move in moves:
        outcome = await attempt(game, "x" if game.board.turn else "y", move)
        assert outcome.accepted, outcome


async def test_a_live_game_is_played_on_by_others(arena: Arena, game_id: str) -> None:
    """A fork of a live game goes on from the ply with the moves before it; what is played there is its own."""
    await played(await arena.create(new_game(game_id=game_id)), FOOLS_MATE)
    game = await arena.create(others(), PlayFrom(game_id, at(2)))
    await moved(game, "b1c3", "b8c6")
    assert [move.uci_notation for move in game.state.move_history] == ["f2f3", "e7e5", "b1c3", "b8c6"]
    log = await effects(arena, game)
    assert [effect["kind"] for effect in log[:3]] == ["WorldCreated", "StateDigest", "GameContinued"]
    assert log[0]["payload"]["fork_of"]["world_id"] == game_id
    assert [effect["source_id"] for effect in log if effect["kind"] == "MoveMade"] == ["x", "y"]
    whole = [
        effect
        for effect in await effects(arena, game_id)
        if effect["global_seq"] <= log[0]["payload"]["fork_of"]["global_seq"]
    ]
    assert validate_game_state([*whole, *log], game.state) == []
    table = arena._seats.known(game.game_id)
    assert table is not None
    session = session_of(table)
    assert session is not None
    assert (session.agent_white.agent_id, session.agent_white.stats.total_moves) == ("x", 1)


async def test_a_recorded_game_is_played_on(arena: Arena, game_id: str) -> None:
    """A game that was written by other means is played on like a live one; the end is by its whole history."""
    await arena._store.create_world(NewWorld(world_id=game_id, ruleset="chess", experiment="old"))
    log = await arena._store.log(game_id)
    start = {"agents": {"white": "a", "black": "b"}}
    drafts: list[Any] = [{"kind": "GameStarted", "payload": start, "source_id": "pgn", "schema_version": "1.0.0"}]
    drafts += [
        {
            "kind": "MoveMade",
            "payload": {"uci_notation": uci, "clock": 9.0},
            "source_id": "pgn",
            "schema_version": "1.0.0",
        }
        for uci in REPETITION[:6]
    ]
    await log.append_all(drafts)
    game = await arena.create(others(), PlayFrom(game_id))
    assert game.record.entities["white"]["clock"] is None
    assert game.live is not None
    assert game.live.experiment == "old"
    await moved(game, "f3g1")
    outcome = await attempt(game, "y", "f6g8")
    assert outcome.ended is not None
    assert outcome.ended.reason == "threefold_repetition"


async def test_games_that_were_played_on_part_at_a_move(arena: Arena, game_id: str, tmp_path: Path) -> None:
    """Compared with its parent, or another fork, a game parts at the first other move, whoever made those before it."""
    file = tmp_path / "game.pgn"
    file.write_text(f'[White "{game_id}"]\n[Black "b"]\n\n1. f3 {{[%clk 0:01:00] weak}} e5 2. g4 $4 {{!}} Qh4# 0-1\n')
    store = arena._store
    await import_games(store, [file], experiment=game_id)
    (parent,) = await store.worlds(experiment=game_id)
    forks = [await arena.create(others(), PlayFrom(parent.world_id, at(2))) for _ in "ab"]
    await moved(forks[0], "g2g4", "b8c6")
    await moved(forks[1], "g2g4", "b8c6", "b1c3")
    names = [parent.world_id, *(game.game_id for game in forks)]
    for one, other, ply, moves in (
        (0, 1, 4, ["d8h4", "b8c6"]),
        (1, 0, 4, ["b8c6", "d8h4"]),
        (1, 2, 5, [None, "b1c3"]),
        (2, 1, 5, ["b1c3", None]),
    ):
        found = await compare(store, [await store.world(names[place]) for place in (one, other)])
        (pair,) = found["pairs"]
        assert (pair["divergence"]["unit"], pair["divergence"]["number"], pair["beginnings"]) == ("ply", ply, [])
        told = []
        for side in (pair["divergence"]["a"], pair["divergence"]["b"]):
            log = [] if side is None else await effects(arena, side["world_id"])
            told.append(None if side is None else log[side["global_seq"] - 1]["payload"]["uci_notation"])
        assert told == moves


async def test_what_is_over_is_not_played_on(arena: Arena, game_id: str) -> None:
    """A game that is over at the moment is refused, and so is a world without a game at it; nothing is made."""
    await played(await arena.create(new_game(game_id=game_id)), FOOLS_MATE)
    error = await refused(arena.create(others(game_id=f"{game_id}-on"), PlayFrom(game_id)))
    assert isinstance(error, GameNotLiveError)
    assert "the game is over there (black wins, checkmate)" in error.message
    assert isinstance(await refused(arena.create(others(), PlayFrom(game_id, Moment(seq=1)))), NoSuchGameError)
    positioned = others(fen="4k3/8/8/8/8/8/4P3/4K3 w - - 0 1")
    assert isinstance(await refused(arena.create(positioned, PlayFrom(game_id, at(1)))), InvalidConfigError)
    game = await arena.create(others(game_id=f"{game_id}-on"), PlayFrom(game_id, at(1)))
    again = await refused(arena.create(others(game_id=game.game_id), PlayFrom(game_id, at(1))))
    assert isinstance(again, WorldExistsError)


async def test_mate_that_nobody_has_declared_is_over(arena: Arena, game_id: str) -> None:
    """A game that the rules have ended is not played on either, though its record goes no further."""
    await played(await arena.create(new_game(game_id=game_id)), FOOLS_MATE)
    last = next(effect for effect in await effects(arena, game_id, "GameEnded"))["global_seq"] - 1
    error = await refused(arena.create(others(), PlayFrom(game_id, Moment(seq=last))))
    assert "over there by the rules (black wins, checkmate)" in error.message


async def test_a_fork_that_is_not_played_on_is_left_alone(arena: Arena, game_id: str) -> None:
    """A plain fork of a live game is not played, though it has the configuration of its parent."""
    await played(await arena.create(new_game(game_id=game_id)), FOOLS_MATE[:2])
    fork, _ = await arena._store.fork(game_id)
    assert isinstance(await refused(arena.game(fork.world_id)), NoSuchGameError)


async def test_the_time_for_the_first_move_begins_with_the_fork(opening: Opening, clock: Clock) -> None:
    """A deadline counts from the beginning of the fork; the answers to requests of the parent are not the fork's."""
    arena = await opening()
    parent = await arena.create(new_game(game_id="parent"))
    await attempt(parent, "w", "e2e4", req_id="1")
    clock.go(1000)
    game = await arena.create(new_game(deadline_s=10.0), PlayFrom("parent"))
    assert game.deadline_at == clock() + 10
    outcome = await attempt(game, "b", "e7e5", req_id="1")
    assert (outcome.replayed, outcome.ply) == (False, 2)
    clock.go(11)
    await ended(game)
    assert game.ended is not None
    assert game.ended.reason == "timeout"


async def test_a_fork_goes_on_elsewhere(opening: Opening) -> None:
    """A fork whose process is gone is played on by the next one to the same end; so is a fork of a fork."""
    async with opening.until() as arena:
        parent = await arena.create(of_players("random", "random", seed=9, game_id="parent"))
        await wait_for(lambda: len(parent.state.move_history) > 12, "it has begun")
    async with opening.until() as arena:
        first = await arena.create(of_players("random", "random", seed=3, max_illegal=5), PlayFrom("parent", at(9)))
        await wait_for(lambda: len(first.state.move_history) > 12, "it has begun")
        game = await arena.create(of_players("random", "random", seed=4), PlayFrom(first.game_id, at(11)))
        await wait_for(lambda: len(game.state.move_history) > 14, "it has begun")
    opening.clock.go(60)
    arena = await opening()
    again = await arena.game(game.game_id)
    await wait_for(lambda: len(again.state.move_history) > 30 or again.ended is not None, "it is played on")
    assert again.state.move_history[:11] == first.state.move_history[:11]
    assert again.state.move_history[:9] == parent.state.move_history[:9]
    assert arena.driven


async def test_who_watches_a_fork_is_told_of_it_alone(arena: Arena, game_id: str) -> None:
    """Events begin with the position and the players of the fork; moves of before are not told again."""
    await played(await arena.create(new_game(game_id=game_id)), FOOLS_MATE)
    game = await arena.create(others(), PlayFrom(game_id, at(1)))
    await attempt(game, "y", "d7d5")
    begun, move = [event.data for event in await watched(game, most=2)]
    assert (begun["type"], begun["white"]["agent_id"], begun["black"]["name"]) == ("game_started", "x", "Yu")
    assert begun["fen"] == after(FOOLS_MATE[:1]).fen()
    assert (move["type"], move["ply"], move["agent_id"]) == ("move_made", 2, "y")


async def test_a_game_of_chess960_is_played_on(arena: Arena, game_id: str) -> None:
    """The variant and the position are those of the game, castling rights included."""
    fen = "1rk5/8/8/8/8/8/8/1RK3R1 w BGb - 0 1"
    await played(await arena.create(new_game(game_id=game_id, fen=fen, chess960=True)), ("c1g1",))
    game = await arena.create(others(), PlayFrom(game_id))
    assert (await attempt(game, "y", "c8b8")).accepted
    assert game.board == after(("c1g1", "c8b8"), fen, chess960=True)
    assert game.state.variant == "chess960"


async def test_only_the_service_lets_others_go_on(arena: Arena, game_id: str) -> None:
    """A client cannot say that other agents go on with a game; a log that has it from one is folded without it."""
    game = await arena.create(new_game(game_id=game_id))
    draft: EffectDraft = {
        "kind": "GameContinued",
        "payload": {"agents": {"white": "b", "black": "w"}},
        "source_id": "w",
        "schema_version": "1.0.0",
    }
    log = await arena._store.log(game_id)
    assert await rule_of(log.append(draft)) == "not_for_clients"
    state = game.record._fold.state.copy_deep()
    with pytest.raises(MalformedEffectError):
        game_continued(state, cast("Effect", {**draft, "wall_time": 1.0}))
    assert state.entities == game.record.entities
