"""Recorded games into the log: whole or not at all, once per experiment, whatever stands beside them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import chess
import chess.pgn
import orjson
import pytest
from worldledger_chess.store.recordings import Notice, Progress, Summary, import_games
from worldledger_service.store import Store

from worldledger.errors import InvalidConfigError, StoreUnavailableError
from worldledger.genesis import NewWorld
from worldledger.names import experiment_label

if TYPE_CHECKING:
    from tests.store.helpers import Connection

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "pgn"

_numbers = itertools.count(1)


def game(moves: str, result: str = "1-0", **tags: str) -> str:
    """Write a game."""
    lines = {"Event": "?", "White": "Ann", "Black": "Bob", "Date": "2026.01.02", **tags, "Result": result}
    return "".join(f'[{name} "{value}"]\n' for name, value in lines.items()) + f"\n{moves} {result}\n\n"


SHORT = game("1. f3 e5 2. g4 Qh4#", "0-1")
LONG = game("1. e4 e5 2. Nf3 Nc6", "1/2-1/2", White="Ängström", Date="????.??.??")
BROKEN = game("1. e4 e5 2. Ke5", "1-0").replace("[Event", '[FEN "no position"]\n[Event')


@pytest.fixture
def experiment() -> str:
    """Return the name of an experiment that only this test uses."""
    return f"exp-{next(_numbers)}-{os.getpid()}"


async def names(store: Store, experiment: str | None) -> list[str]:
    """Return the worlds of an experiment."""
    return [world.world_id async for world in store.every_world(experiment=experiment)]


async def effects(store: Store, world_id: str) -> list[dict[str, object]]:
    """Return a world's effects."""
    return [orjson.loads(row.text) async for batch in store.reader.batches(world_id) for row in batch]


@pytest.mark.both_servers
async def test_a_game_becomes_a_world(store: Store, experiment: str, tmp_path: Path) -> None:
    """The world is named by experiment, players, date and digest; its genesis says where the recording was found."""
    file = tmp_path / "some games.pgn"
    file.write_text(SHORT + LONG)
    summary = await import_games(store, [file], experiment=experiment)
    assert (summary.files, summary.imported, summary.already, summary.refused) == (1, 2, 0, [])
    assert summary.effects == 1 + 1 + 4 + 1 + 1 + 1 + 4 + 1
    first, second = [await store.world(name) for name in await names(store, experiment)]
    assert first.world_id.startswith(f"{experiment}-angstrom-vs-bob-")
    assert second.world_id.startswith(f"{experiment}-ann-vs-bob-2026-01-02-")
    assert (second.ruleset, second.experiment, second.time_authority) == ("chess", experiment, "client")
    assert second.world_id.endswith(f"-{second.config['digest'][:12]}")
    assert second.config["recording"] == {"file": "some games.pgn", "game": 1, "line": 1}
    assert first.config["recording"] == {"file": "some games.pgn", "game": 2, "line": 9}
    kinds = [effect["kind"] for effect in await effects(store, second.world_id)]
    assert kinds == ["WorldCreated", "GameStarted", *["MoveMade"] * 4, "GameEnded"]


@pytest.mark.both_servers
async def test_a_second_run_adds_nothing(store: Store, experiment: str, tmp_path: Path) -> None:
    """What is there already is counted and left alone, wherever it is found and however often."""
    for place in ("a.pgn", "b.pgn"):
        (tmp_path / place).write_text(SHORT)
    first = await import_games(store, [tmp_path], experiment=experiment)
    assert (first.imported, first.already) == (1, 1)
    heads = await store.reader.head_seqs(await names(store, experiment))
    again = await import_games(store, [tmp_path, tmp_path / "a.pgn"], experiment=experiment)
    assert (again.files, again.imported, again.already, again.effects, again.refused) == (2, 0, 2, 0, [])
    assert await store.reader.head_seqs(await names(store, experiment)) == heads


async def test_experiments_are_apart(store: Store, experiment: str, tmp_path: Path) -> None:
    """The same game is a world of its own in each experiment, also where their names look alike, and in none."""
    event = next(_numbers)
    (tmp_path / "a.pgn").write_text(game("1. d4 d5", Event=f"only here {event} {os.getpid()}"))
    for name in (experiment, experiment.upper(), f"{experiment}!", None):
        assert (await import_games(store, [tmp_path], experiment=name)).imported == 1
        assert (await import_games(store, [tmp_path], experiment=name)).already == 1


@pytest.mark.parametrize(
    ("experiment", "label"),
    [
        ("plain-1", "plain-1"),
        ("Upper Case", "upper-case-"),
        ("-", "experiment-"),
        ("日本", "experiment-"),
        ("x" * 200, "x" * 33 + "-"),
        ("trailing-", "trailing-"),
    ],
)
def test_labels_of_experiments(experiment: str, label: str) -> None:
    """A short plain name stands for itself; any other gets digits of its hash, and fits into a world's name."""
    found = experiment_label(experiment)
    assert found.startswith(label)
    assert (found == experiment) == (experiment == "plain-1")
    assert len(found) <= 40
    assert NewWorld(world_id=found).checked().world_id == found


async def test_folders_are_searched_in_order(store: Store, experiment: str, tmp_path: Path) -> None:
    """Files named *.pgn in a folder and below it are read, by name; others are not."""
    for number, place in enumerate(("b/2.pgn", "a.PGN", "b/1.pgn", "b/notes.txt", "c.pgn/3.pgn")):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(game("1. c4", Round=str(number)))
    seen: list[Progress] = []
    summary = await import_games(store, [tmp_path], experiment=experiment, progress=seen.append)
    assert (summary.files, summary.imported) == (4, 4)
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.*") if path.is_file() and path.suffix != ".txt")
    assert seen[-1] == Progress(size, size, 4)
    assert [made.done for made in seen] == sorted(made.done for made in seen)
    rounds = []
    for name in await names(store, experiment):
        rounds.append((await store.world(name)).config["recording"]["file"])
    assert sorted(rounds) == ["1.pgn", "2.pgn", "3.pgn", "a.PGN"]


async def test_broken_games_and_files_are_told_while_the_rest_goes_in(
    store: Store, experiment: str, tmp_path: Path
) -> None:
    """What cannot be taken is named with file, line and game; everything else is in."""
    mixed, text, empty, binary = (tmp_path / name for name in ("mixed.pgn", "text.pgn", "empty.pgn", "binary.pgn"))
    mixed.write_text(SHORT + BROKEN + LONG)
    text.write_text("Dear diary,\n")
    empty.write_bytes(b"")
    binary.write_bytes(bytes(range(256)) * 10)
    folder = tmp_path / "folder"
    folder.mkdir()
    told: list[Notice] = []
    paths = [mixed, text, tmp_path / "absent.pgn", empty, binary, folder]
    summary = await import_games(store, paths, experiment=experiment, notice=told.append)
    assert summary.imported == 2
    assert summary.refused == [notice for notice in told if notice.refused]
    said = {(Path(notice.file).name, notice.game): str(notice) for notice in summary.refused}
    assert said.keys() == {
        ("folder", None),
        ("mixed.pgn", 2),
        ("text.pgn", None),
        ("absent.pgn", None),
        ("empty.pgn", None),
        ("binary.pgn", None),
    }
    assert said["mixed.pgn", 2].startswith(f"{mixed}:9: game 2: ")
    assert "not a PGN file" in said["text.pgn", None]
    assert "cannot be read (No such file or directory)" in said["absent.pgn", None]
    assert "the file is empty" in said["empty.pgn", None]
    assert "no file named *.pgn" in said["folder", None]


async def test_a_name_that_is_taken_is_refused(store: Store, experiment: str, tmp_path: Path) -> None:
    """Where another world has the game's name, the game is refused and that world left alone."""
    (tmp_path / "a.pgn").write_text(SHORT)
    await import_games(store, [tmp_path], experiment=f"{experiment}-first")
    (name,) = await names(store, f"{experiment}-first")
    taken = name.replace(f"{experiment}-first", experiment)
    await store.create_world(NewWorld(world_id=taken))
    summary = await import_games(store, [tmp_path], experiment=experiment)
    (notice,) = summary.refused
    assert notice.text == f"its world would be {taken}, and another world has that name"
    assert await store.reader.head_seqs([taken]) == {taken: 1}


@pytest.mark.parametrize("experiment", ["", "x" * 201, "a\x00b"])
async def test_an_experiment_that_is_no_label_is_refused(store: Store, experiment: str, tmp_path: Path) -> None:
    """An experiment's name has 1 to 200 characters, and no NUL."""
    with pytest.raises(InvalidConfigError, match="experiment"):
        await import_games(store, [tmp_path], experiment=experiment)


async def test_after_an_outage_the_rest_goes_in(
    open_store: Callable[..., Awaitable[Store]], store: Store, experiment: str, tmp_path: Path, admin: Connection
) -> None:
    """When the database goes away the error says what is in; the same command brings the rest."""
    for number in range(3):
        (tmp_path / f"{number}.pgn").write_text(game("1. c4", Round=f"{number} {experiment}"))
    short = await open_store(command_timeout=0.3)
    await import_games(store, [tmp_path / "1.pgn"], experiment=f"{experiment}-x")
    (name,) = await names(store, f"{experiment}-x")
    somebody = admin.transaction()
    await somebody.start()
    await admin.execute(
        "insert into worlds (world_id, world_uuid, ruleset, ruleset_version, config, time_authority)"
        " values ($1, gen_random_uuid(), 'chess', 1, '{}', 'client')",
        name.replace(f"{experiment}-x", experiment),
    )
    with pytest.raises(StoreUnavailableError, match=r"run the same command again for the rest .1 of this run is in"):
        await import_games(short, [tmp_path], experiment=experiment)
    await somebody.rollback()
    summary = await import_games(store, [tmp_path], experiment=experiment)
    assert (summary.imported, summary.already) == (2, 1)


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded games are not here")
async def test_recorded_games(store: Store, experiment: str, thorough: bool) -> None:
    """Sixty, or every fifth, go in, each with the last position that python-chess gives; so do illegal endings."""
    paths = sorted(SHARED.rglob("*.pgn"))[:: 1 if thorough else 5]
    summary: Summary = await import_games(store, paths, experiment=experiment)
    assert (summary.imported, summary.already, summary.refused) == (len(paths), 0, [])
    again = await import_games(store, paths, experiment=experiment)
    assert (again.imported, again.already, again.refused) == (0, len(paths), [])
    places = {path.name: path for path in SHARED.rglob("*.pgn")}
    illegal = 0
    async for world in store.every_world(experiment=experiment):
        with places[world.config["recording"]["file"]].open(encoding="utf-8") as stream:
            parsed = chess.pgn.read_game(stream)
        assert parsed is not None
        board = parsed.end().board()
        log = await effects(store, world.world_id)
        moves = [effect for effect in log if effect["kind"] == "MoveMade"]
        assert len(moves) == len(board.move_stack)
        ended = log[-1]["payload"]
        assert isinstance(ended, dict)
        assert ended["final_fen"].split()[:4] == board.fen().split()[:4]
        rejected = [effect for effect in log if effect["kind"] == "MoveRejected"]
        if rejected:
            illegal += 1
            assert (ended["status"], ended["reason"]) == ("resigned", "illegal_move")
        assert (await store.reader.verify(world.world_id)).verified
    assert illegal == (4 if thorough else 2)
