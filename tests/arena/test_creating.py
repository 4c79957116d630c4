"""Games that cannot be: each is refused before there is a world, and says what is wrong and where."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from pydantic import ValidationError
from worldledger_chess.arena import Arena, ArenaFullError, LiveGame, NewGame, NoSuchGameError
from worldledger_chess.arena.arena import LiveGames
from worldledger_chess.arena.players import InvalidPlayerError, registry
from worldledger_chess.rules import AgentSpec

from tests.waiting import wait_for
from worldledger.errors import InvalidConfigError, InvalidNameError, WorldExistsError, WorldNotFoundError
from worldledger.genesis import NewWorld

from .helpers import Opening, attempt, new_game, of_players, refused


@pytest.mark.parametrize(
    "wrong",
    [
        {"fen": "8/8/8/8/8/8/8/K7 w - - 0 1"},
        {"fen": "kk6/8/8/8/8/8/8/K7 w - - 0 1"},
        {"fen": "k7/8/8/8/8/8/8/KK6 w - - 0 1"},
        {"fen": "k7/8/8/8/8/8/8/R6K w - - 0 1"},
        {"fen": "P6k/8/8/8/8/8/8/K7 w - - 0 1"},
        {"fen": "not a position"},
        {"fen": ""},
        {"fen": "k7/8/8/8/8/8/8/K7 w - - 0 1" + " " * 100_000},
        {"fen": "k7/8/8/8/8/8/8/K7 w - - 999999 1"},
        {"black": AgentSpec(agent_id="w")},
        {"max_illegal": 0},
        {"deadline_s": 0.0},
        {"deadline_s": float("inf")},
        {"fallback": "sulk"},
        {"game_id": "../etc"},
        {"unknown": 1},
    ],
)
async def test_what_no_game_can_be_made_of(wrong: dict[str, Any]) -> None:
    """Positions without a king, with two, with one to be taken; huge texts; one agent twice; limits that are none."""
    with pytest.raises(ValidationError):
        new_game(**wrong)


_NOBODY: Final[tuple[tuple[dict[str, Any], str], ...]] = (
    ({"players": {"white": "nobody"}}, "unknown_player"),
    ({"players": {"white": "uci:/bin/sh"}}, "invalid_player"),
    ({"players": {"white": {"name": "random", "x": 1}}}, "invalid_player"),
    ({"white": AgentSpec(agent_id="arena")}, "invalid_config"),
)


async def test_players_that_cannot_be(arena: Arena, game_id: str, subtests: pytest.Subtests) -> None:
    """Unknown players, programs that are not allowed, and the arena's own name are refused; no world is made."""
    for fields, code in _NOBODY:
        with subtests.test(fields=fields):
            error = await refused(arena.create(new_game(game_id=game_id, **fields)))
            assert error.code == code
            assert error.details["path"].startswith("$.")
            assert isinstance(await refused(arena.game(game_id)), WorldNotFoundError)


async def test_a_name_that_is_taken(arena: Arena, game_id: str) -> None:
    """A game has a name of its own."""
    await arena.create(new_game(game_id=game_id))
    assert isinstance(await refused(arena.create(new_game(game_id=game_id))), WorldExistsError)


async def test_the_config_is_checked_for_whoever_makes_the_world(arena: Arena, game_id: str) -> None:
    """A world that says it is a live game must be one, whoever makes it."""
    live = new_game().to_value() | {"fen": "8/8/8/8/8/8/8/K7 w - - 0 1"}
    world = NewWorld(world_id=game_id, ruleset="chess", config={"live": live})
    error = await refused(arena._store.create_world(world))
    assert isinstance(error, InvalidConfigError)
    assert error.details["path"] == "$.config.live.fen"


async def test_a_world_made_by_itself_can_be_played(arena: Arena, game_id: str) -> None:
    """A live game that was made as a world is a game like any other."""
    live: dict[str, Any] = new_game().to_value()
    await arena._store.create_world(NewWorld(world_id=game_id, ruleset="chess", config={"live": live}))
    game = await arena.game(game_id)
    assert game.live == NewGame.model_validate(live)
    assert (await attempt(game, "w", "e2e4")).accepted


async def test_worlds_that_are_no_games(arena: Arena, game_id: str, subtests: pytest.Subtests) -> None:
    """A world of another ruleset, or one in which no game has begun, is no game."""
    for ruleset in ("chess", "sandbox"):
        with subtests.test(ruleset=ruleset):
            name = f"{game_id}-{ruleset}"
            await arena._store.create_world(NewWorld(world_id=name, ruleset=ruleset))
            assert isinstance(await refused(arena.game(name)), NoSuchGameError)
            assert arena.games() == []


async def test_forks_of_live_games_are_left_alone(arena: Arena, game_id: str) -> None:
    """A fork has its parent's configuration, but nobody has begun to play it: it is not found, and asking says so."""
    game = await arena.create(new_game(game_id=game_id))
    await attempt(game, "w", "e2e4")
    fork, _ = await arena._store.fork(game_id)
    error = await refused(arena.game(fork.world_id))
    assert isinstance(error, NoSuchGameError)
    assert "is a fork" in error.message
    going, _ = await LiveGames(arena._store.reader).page()
    assert game_id in {row.game_id for row in going}
    assert fork.world_id not in {row.game_id for row in going}


async def test_games_that_are_not_there(arena: Arena) -> None:
    """A name that no world has, or can have."""
    assert isinstance(await refused(arena.game("nowhere")), WorldNotFoundError)
    assert isinstance(await refused(arena.game("no/name")), InvalidNameError)


async def _imported(arena: Arena, game_id: str) -> LiveGame:
    await arena._store.create_world(NewWorld(world_id=game_id, ruleset="chess"))
    log = await arena._store.log(game_id)
    for kind, payload in (
        ("GameStarted", {"white": "Anderssen", "black": "Kieseritzky"}),
        ("MoveMade", {"san_notation": "e4"}),
    ):
        await log.append({"kind": kind, "payload": payload, "source_id": "pgn", "schema_version": "1.0.0"})
    return await arena.game(game_id)


async def test_a_game_that_nobody_plays_here_can_be_looked_at(arena: Arena, game_id: str) -> None:
    """A recorded game has a state and events; moving in it is refused."""
    game = await _imported(arena, game_id)
    assert game.live is None
    assert [move.san_notation for move in game.state.move_history] == ["e4"]
    assert (await refused(attempt(game, "Kieseritzky", "e5"))).code == "game_not_live"
    assert (await refused(game.resign("Kieseritzky", req_id="r"))).code == "game_not_live"
    assert arena.sessions() == []


async def test_a_program_that_is_missing_is_told_at_once(
    arena: Arena, game_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A game whose engine is not installed is not made: whoever asks learns of it, and the log has nothing."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(registry, "_GAMES", ())
    with pytest.raises(InvalidPlayerError, match=r"\$\.players\.white"):
        await arena.create(of_players("stockfish", "external", game_id=game_id))
    with pytest.raises(WorldNotFoundError):
        await arena.game(game_id)


async def test_no_more_games_are_played_than_there_may_be(opening: Opening) -> None:
    """Of many that are made at once as many begin as have a place; the others are refused, and leave no place taken."""
    arena = await opening(max_games=2, scan_every=1e9)
    made = await asyncio.gather(
        *(arena.create(of_players("external", "random", game_id=f"g{n}")) for n in range(6)), return_exceptions=True
    )
    games = [each for each in made if isinstance(each, LiveGame)]
    assert (len(games), arena.driven) == (2, 2)
    assert sum(isinstance(each, ArenaFullError) for each in made) == 4
    await games[0].resign("w", req_id="r")
    await wait_for(lambda: arena.driven == 1, "a place is free")
    with pytest.raises(WorldExistsError):
        await arena.create(of_players("external", "random", game_id=games[1].game_id))
    await arena.create(of_players("external", "random"))
    assert arena.driven == 2


async def test_nobody_takes_over_more_than_there_is_place_for(opening: Opening) -> None:
    """Games that are found and games that are made share the places."""
    async with opening.until(scan_every=1e9) as arena:
        for _ in range(3):
            await arena.create(of_players("external", "random"))
    opening.clock.go(60)
    arena = await opening(max_games=2)
    made = await asyncio.gather(
        *(arena.create(of_players("external", "random")) for _ in range(3)), return_exceptions=True
    )
    await wait_for(lambda: arena._scanner.rounds > 2, "it has looked around")
    assert arena.driven == 2
    assert all(isinstance(each, (LiveGame, ArenaFullError)) for each in made)
