"""`chess play`: games between players of this machine, each a world."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from worldledger_chess.arena import ArenaSettings
from worldledger_chess.arena.players import InvalidPlayerError, make_player
from worldledger_chess.rules import validate_game_state
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from tests.arena.helpers import ended, opened
from tests.arena.players.conftest import Engines, engines, fake_command
from tests.cases import cases
from tests.cli.conftest import Cli
from tests.cli.helpers import Running, sql, untouched
from tests.client.llm.provider import beside, says
from tests.waiting import block_until, wait_for
from worldledger.genesis import NewWorld

__all__ = ["engines"]

#: King and rook against a king: random players soon have a draw.
ENDGAME = "8/8/8/4k3/8/8/8/R3K3 w - - 90 1"
#: What the fake engines are called: their program is Python.
ENGINE = Path(sys.executable).name
RANDOM = ("chess", "play", "--white", "random", "--black", "random")


def fake(behaviour: str, *moves: str, **settings: Any) -> str:
    """Describe a fake engine."""
    path, *args = fake_command(behaviour, *moves)
    return json.dumps({"name": "uci", "path": path, "args": args, **settings})


def moves_of(url: str, world_id: str) -> list[str]:
    """Return a game's moves."""
    found = sql(
        url,
        "select effect::jsonb -> 'payload' ->> 'uci_notation' from effects"
        f" where world_id = '{world_id}' and kind = 'MoveMade' order by global_seq",
    )
    return [row[0] for row in found]


def effects_of(url: str, world_id: str) -> list[Any]:
    """Return a game's effects."""
    found = sql(url, f"select effect::text from effects where world_id = '{world_id}' order by global_seq")
    return [json.loads(row[0]) for row in found]


def played(on: Cli, *arguments: str) -> dict[str, Any]:
    """Play, and give the report; it must be whole."""
    result = on(*arguments, "--json")
    assert (result.code, result.err) == (0, "")
    report: dict[str, Any] = json.loads(result.out)
    return report


def worlds(url: str) -> list[tuple[Any, ...]]:
    """Return the names and experiments of all worlds."""
    return sql(url, "select world_id, experiment from worlds order by world_id")


def test_random_players(on: Cli, database_url: str) -> None:
    """Each game is a whole world that keeps the rules; each is a line, and each player has its sum."""
    result = on(*RANDOM, "--games", "2", "--seed", "5", "--experiment", "cup", "--fen", ENDGAME)
    assert (result.code, result.err) == (0, "")
    header, first, second, empty, *totals = result.out.splitlines()
    assert header.split() == ["GAME", "WHITE", "BLACK", "RESULT", "REASON", "PLIES", "WORLD"]
    cells = [re.split(r" {2,}", line) for line in (first, second)]
    assert [line[:3] for line in cells] == [["1", "random-1", "random-2"], ["2", "random-1", "random-2"]]
    assert sorted((line[-1], "cup") for line in cells) == worlds(database_url)
    for line in cells:
        log = effects_of(database_url, line[-1])
        assert validate_game_state(log) == []
        end = log[-1]["payload"]
        assert end["reason"].replace("_", " ") == line[4]
        assert end["plies"] == int(line[5])
    assert empty == ""
    assert totals[0].split() == ["PLAYER", "PLAYED", "WON", "DRAWN", "LOST"]
    assert [line.split()[:2] for line in totals[1:]] == [["random-1", "2"], ["random-2", "2"]]
    assert on("verify", "--all").code == 0


def test_the_same_seed_gives_the_same_games(on: Cli, database_url: str) -> None:
    """Also when several are played at the same time; a game can be played again alone by its own seed."""
    one = played(on, *RANDOM, "--games", "3", "--seed", "-1", "--fen", ENDGAME)
    other = played(on, *RANDOM, "--games", "3", "--seed", "-1", "--fen", ENDGAME, "--jobs", "3")
    games = [[moves_of(database_url, game["world_id"]) for game in report["games"]] for report in (one, other)]
    assert games[0] == games[1]
    assert len({tuple(moves) for moves in games[0]}) == 3
    assert [game["seed"] for game in one["games"]] == [-1, 0, 1]
    alone = played(on, *RANDOM, "--seed", "1", "--fen", ENDGAME)
    assert moves_of(database_url, alone["games"][0]["world_id"]) == games[0][2]


def test_a_seed_that_is_drawn_is_told(on: Cli) -> None:
    """So that the games can be had again; two drawings differ."""
    seeds = set()
    for _ in range(2):
        found = re.fullmatch(
            r"worldledger: the seed was (\d+); --seed \1 draws the same again\n", on(*RANDOM, "--fen", ENDGAME).err
        )
        assert found is not None
        seeds.add(found[1])
    assert len(seeds) == 2


@pytest.mark.usefixtures("engines")
def test_players_change_colours(on: Cli, database_url: str) -> None:
    """With --swap every other game; the sums are the players', whatever they play."""
    mate = fake("well", "f7f8q")
    fen = "7k/R4P2/6K1/8/8/8/8/8 w - - 0 1"
    report = played(on, "chess", "play", "--white", mate, "--black", "random", "--games", "3", "--swap", "--fen", fen)
    assert [game["white"] for game in report["games"]] == [ENGINE, "random", ENGINE]
    assert [game["black"] for game in report["games"]] == ["random", ENGINE, "random"]
    assert [(row["played"], row["won"] + row["drawn"] + row["lost"]) for row in report["totals"]] == [(3, 3), (3, 3)]
    assert report["totals"][0]["won"] >= 2
    assert [row["lost"] for row in report["totals"]] == [row["won"] for row in reversed(report["totals"])]
    started = effects_of(database_url, report["games"][0]["world_id"])[1]["payload"]
    assert started["white"] == f"{ENGINE}, 2000 nodes"


@pytest.mark.usefixtures("engines")
def test_engines(on: Cli, database_url: str) -> None:
    """Two engines of one program are told apart; what they attempt is in the log."""
    white, black = fake("well", "f2f3", "g2g4"), fake("well", "e7e5", "d8h4", nodes=7)
    report = played(on, "chess", "play", "--white", white, "--black", black, "--nodes", "9")
    (game,) = report["games"]
    assert (game["status"], game["result"], game["plies"]) == ("checkmate", "black_wins", 4)
    assert (game["white"], game["black"]) == (f"{ENGINE}-1", f"{ENGINE}-2")
    assert moves_of(database_url, game["world_id"]) == ["f2f3", "e7e5", "g2g4", "d8h4"]
    assert [row["player"]["nodes"] for row in report["totals"]] == [9, 7]


@pytest.mark.usefixtures("engines")
def test_illegal_moves(on: Cli) -> None:
    """An engine that attempts three of them has lost; that is an outcome like any other."""
    white = fake("well", "e2e4", "e2e4")
    report = played(on, "chess", "play", "--white", white, "--black", "random", "--seed", "1")
    (game,) = report["games"]
    assert (game["result"], game["reason"], game["plies"]) == ("black_wins", "illegal_move", 2)
    assert (game["rejected"], game["failed"]) == (3, 0)


def test_a_language_model(on: Cli, tmp_path: Path, database_url: str) -> None:
    """It is named like itself; its illegal answers are counted and told, and by choice random moves follow them."""
    file = tmp_path / "bold.yaml"
    file.write_text("character: You are bold.")
    arguments = ("--white", "llm:org/tiny", "--black", "random", "--persona", str(file), "--seed", "1")
    rest = ("--fen", ENDGAME.replace("90 1", "97 1"), "--tries", "1", "--fallback", "random", "--json")
    with beside(says("Ke9")) as provider:
        result = on("chess", "play", *arguments, "--base-url", provider.url, *rest)
    assert result.code == 0, result.err
    (game,) = json.loads(result.out)["games"]
    assert (game["white"], game["reason"], game["plies"]) == ("tiny", "fifty_moves", 3)
    assert (game["rejected"], game["random_moves"], game["failed"]) == (2, 2, 0)
    assert "has 2 random moves of the fallback" in result.err
    assert "You are bold." in provider.calls[0].asked["messages"][0]["content"]
    assert sql(database_url, "select count(*) from analytics.generations where outcome = 'refused'") == [(2,)]


@cases(
    "arguments, said",
    [
        (("--base-url", "http://127.0.0.1:1"), "neither of these players is one"),
        (("--persona", "p.yaml"), "agents are white and black here, not ann"),
    ],
)
def test_what_only_language_models_have(
    on: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    """It is refused for others, and so is a persona of somebody else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text("agents: {ann: {character: A.}}")
    result = on(*RANDOM, *arguments)
    assert result.code == 2
    assert said in result.err


@pytest.mark.usefixtures("engines")
def test_an_engine_that_crashes(on: Cli) -> None:
    """Its game is lost and the next one is played; both are named, and the exit code is 1."""
    white = fake("crash_at_go", "e2e4", "d2d4")
    result = on("chess", "play", "--white", white, "--black", "random", "--seed", "1", "--games", "2", "--json")
    assert result.code == 1
    games = json.loads(result.out)["games"]
    assert [game["result"] for game in games] == ["black_wins"] * 2
    assert all(1 <= game["failed"] <= game["rejected"] for game in games)
    assert [line for line in result.err.splitlines() if line.startswith("worldledger: ")] == [
        f"worldledger: a player gave no move: game {game['game']}, {game['world_id']}" for game in games
    ]
    assert "SIGABRT" in result.err
    result = on("chess", "play", "--white", white, "--black", "random", "--seed", "1", "--quiet")
    (line,) = [line for line in result.out.splitlines() if "0-1" in line]
    assert "  player failed  " in line
    assert result.err.startswith("worldledger: a player gave no move: game 1, ")
    assert result.err.count("\n") == 1


@pytest.mark.usefixtures("engines")
def test_an_engine_that_hangs(on: Cli) -> None:
    """Its time runs out, which ends the game; the exit code is 1."""
    white = fake("hang_at_go", "e2e4", "d2d4")
    result = on("chess", "play", "--white", white, "--black", "random", "--seed", "1", "--deadline", "2", "--json")
    assert result.code == 1
    (game,) = json.loads(result.out)["games"]
    assert (game["status"], game["result"], game["plies"]) == ("timeout", "black_wins", 2)
    assert f"a player gave no move: game 1, {game['world_id']}" in result.err


@pytest.mark.filled(by=untouched, read=True)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--white", "nobody"], "--white: there is no player 'nobody' here"),
        (["--white", "uci:/no/such"], "--white: there is no program '/no/such' here"),
        (["--white", "uci:"], "--white.path: the engine's program is wanted"),
        (["--white", "uci:/bin/true"], "/bin/true ended (exit code 0) before it said"),
        (["--white", "external"], "--white: the moves of an external player come from outside"),
        (["--white", '{"name": "stockfish"'], "--white: this is no JSON"),
        (["--white", '{"name": "stockfish", "nodes": 0}'], "--white.nodes: Input should be greater than"),
        (["--white", '{"name": "random", "x": 1}'], "--white.x: the player 'random' has no settings"),
        (["--nodes", "5"], "--nodes is how long an engine searches, and neither"),
        (["--fen", "x"], "--fen: the FEN cannot be read"),
        (["--fen", "8/8/8/8/8/8/8/K7 w - - 0 1"], "--fen: the position cannot be played"),
        (["--fen", "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"], "--fen: the game is over in this position (stalemate)"),
        (["--seed", "9007199254740991", "--games", "2"], "--seed: Input should be less than"),
        (["--deadline", "inf"], "--deadline: Input should be"),
        (["--experiment", ""], "--experiment: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_played(on: Cli, database_url: str, arguments: list[str], said: str) -> None:
    """It is said in one sentence, with exit code 2, before anything is made."""
    result = on(*RANDOM, *arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert result.err.count("\n") == 1
    assert worlds(database_url) == []


@pytest.mark.usefixtures("engines")
def test_an_engine_that_is_no_engine(on: Cli, database_url: str) -> None:
    """It is found out before anything is made."""
    result = on("chess", "play", "--white", "random", "--black", fake("crash_at_start"))
    assert (result.code, result.out) == (2, "")
    assert "is it a UCI engine, and made for this machine?" in result.err
    assert worlds(database_url) == []


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.thorough)],
    ids=["Ctrl-C", "SIGTERM"],
)
def test_it_is_stopped(database_url: str, engines: Engines, on: Cli, number: int, code: int) -> None:
    """What was played stays; the game that goes on is named; no engine is left."""
    white = fake("hang_at_go", "e2e4", "d2d4")
    command = ("chess", "play", "--white", white, "--black", "random", "--seed", "1", "--deadline", "0")
    with Running(*command, "--database-url", database_url) as running:
        block_until(
            lambda: (engines.folder / "heard").exists() and engines.heard().count("go nodes 2000") == 2, "it hangs"
        )
        result = running.end(number)
    ((world_id, _),) = worlds(database_url)
    assert (result.code, result.out) == (code, "")
    assert result.err == (
        f"worldledger: unfinished: game 1, {world_id}, after 2 plies\n"
        "worldledger: no service starts the program of --white, so time runs out for it, if it has a limit; what was"
        " played so far: `worldledger chess show WORLD`\n"
        "worldledger: stopped\n"
    )
    assert engines.wait_until_gone() == set()
    assert len(moves_of(database_url, world_id)) == 2
    assert "in progress, white to move" in on("chess", "show", world_id).out


def test_a_stopped_match_goes_on_elsewhere(database_url: str) -> None:
    """Games of players that any service has are played to their ends by one, just as they would have been here."""
    short = ("--fen", ENDGAME.replace("90", "50"))
    command = (*RANDOM, *short, "--games", "500", "--jobs", "4", "--seed", "3", "--database-url", database_url)
    with Running(*command) as running:
        running.line()
        running.line()
        result = running.end(signal.SIGINT)
    names = re.findall(r"unfinished: game (\d+), (\S+), after", result.err)
    assert result.code == 130
    assert 1 <= len(names) <= 4
    assert "a running service plays on" in result.err
    asyncio.run(_play_on(database_url, [world_id for _, world_id in names]))
    number, world_id = names[0]
    with Running(*RANDOM, *short, "--seed", str(2 + int(number)), "--database-url", database_url, "--json") as alone:
        (game,) = json.loads(alone.line())["games"]
        assert alone.end().code == 0
    assert moves_of(database_url, world_id) == moves_of(database_url, game["world_id"])


async def _play_on(url: str, names: list[str]) -> None:
    settings = ArenaSettings(scan_every=0.05, scan_pause=0.01, adopt_after=0.0)
    async with opened(url, time.time, settings) as arena:
        for name in names:
            game = await arena.game(name)
            await ended(game)
        await wait_for(lambda: arena.driven == 0, "the players rest")


def test_other_games_are_left_alone(on: Cli, database_url: str, engines: Engines) -> None:
    """A game that somebody else has begun may name any program, which is not run here."""
    live = {
        "white": {"agent_id": "w"},
        "black": {"agent_id": "b"},
        "deadline_s": None,
        "players": {"white": json.loads(fake("well")), "black": "random"},
    }

    async def make() -> None:
        async with Store.open(database_url, Settings(pool_size=2), clock=lambda: 1.7e9) as store:
            await store.create_world(NewWorld(world_id="bait", ruleset="chess", config={"live": live}))

    asyncio.run(make())
    assert len(played(on, *RANDOM, "--games", "3", "--seed", "1", "--fen", ENDGAME)["games"]) == 3
    assert engines.pids() == set()
    assert moves_of(database_url, "bait") == []


@pytest.mark.thorough  # the engine: tests/arena/players/test_stockfish.py
def test_stockfish(on: Cli, database_url: str) -> None:
    """A real engine beats the random player, plays the same again, and leaves no process."""
    try:
        make_player("stockfish", seed=1)
    except InvalidPlayerError as error:
        pytest.skip(f"{error}")
    before = set(psutil.Process().children(recursive=True))
    command = ("chess", "play", "--white", "stockfish", "--black", "random", "--nodes", "200", "--seed", "1")
    reports = [played(on, *command, "--games", "2", "--swap") for _ in range(2)]
    assert Counter(row["won"] for row in reports[0]["totals"]) == {2: 1, 0: 1}
    games = [[moves_of(database_url, game["world_id"]) for game in report["games"]] for report in reports]
    assert games[0] == games[1]
    assert set(psutil.Process().children(recursive=True)) <= before
