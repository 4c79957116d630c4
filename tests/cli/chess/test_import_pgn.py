"""`import pgn`: what is good goes in, what is not is named, and a second run adds nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.conftest import Cli
from tests.cli.helpers import GAME, SHARED, sql
from tests.cli.test_full_stdout import FULL, run


def test_games_go_in_once(on: Cli, tmp_path: Path) -> None:
    """The summary counts games and effects; the same command again adds nothing."""
    (tmp_path / "a.pgn").write_text(GAME.format(1) + GAME.format(2))
    (tmp_path / "b.pgn").write_text(GAME.format(3))
    assert on("import", "pgn", str(tmp_path), "--experiment", "cup") == (
        0,
        "imported 3 games (21 effects) from 2 files\n",
        "",
    )
    assert on("import", "pgn", str(tmp_path), "--experiment", "cup") == (
        0,
        "imported 0 games (0 effects) from 2 files, 3 already there\n",
        "",
    )
    assert len(on("worlds", "--experiment", "cup").out.splitlines()) == 4
    assert on("verify", "--all").code == 0


def test_bad_input_is_named_and_the_rest_goes_in(on: Cli, tmp_path: Path) -> None:
    """Broken games, files that are none, an empty and an absent one, and a line of 50 MB: told, exit code 1."""
    files = {name: tmp_path / f"{name}.pgn" for name in ("mixed", "text", "empty", "long", "absent")}
    files["mixed"].write_text(
        GAME.format(1) + GAME.format(2).replace("[Event", '[FEN "none"]\n[Event') + GAME.format(3)
    )
    files["text"].write_text("This is not a game.\n")
    files["empty"].touch()
    files["long"].write_bytes(b"x" * 50_000_000)
    result = on("import", "pgn", *map(str, files.values()), "--experiment", "cup")
    assert (result.code, result.out) == (1, "imported 2 games (14 effects) from 5 files, 5 refused\n")
    lines = result.err.splitlines()
    assert len(lines) == 5
    for line, (place, why) in zip(
        lines,
        (
            (f"{files['mixed']}:9: game 2: ", "FEN"),
            (f"{files['text']}:1: ", "not a PGN file"),
            (f"{files['empty']}:1: ", "the file is empty"),
            (f"{files['long']}:1: ", "not a PGN file"),
            (f"{files['absent']}: ", "cannot be read (No such file or directory)"),
        ),
        strict=True,
    ):
        assert line.startswith(f"worldledger: refused: {place}")
        assert why in line


def test_what_was_odd_is_noted(on: Cli, tmp_path: Path) -> None:
    """A game that was taken with a remark is noted, unless --quiet; the exit code stays 0."""
    file = tmp_path / "a.pgn"
    file.write_text("Some words before.\n\n" + GAME.format(1))
    result = on("import", "pgn", str(file), "--experiment", "a")
    assert result.code == 0
    assert result.err.startswith(f"worldledger: note: {file}:3: game 1: ")
    assert on("import", "pgn", str(file), "--experiment", "b", "--quiet").err == ""


def test_nothing_could_be_read(on: Cli, tmp_path: Path) -> None:
    """A mistyped path, a folder without games, a pipe and a device alone are exit code 2, at once."""
    pipe, empty = tmp_path / "pipe.pgn", tmp_path / "empty"
    os.mkfifo(pipe)
    empty.mkdir()
    for path, why in {
        tmp_path / "nosuch": "the file cannot be read (No such file or directory)",
        empty: "no file named *.pgn in this folder",
        pipe: "not a regular file: give files and folders",
        Path("/dev/zero"): "not a regular file: give files and folders",
    }.items():
        result = on("import", "pgn", str(path))
        assert (result.code, result.err) == (2, f"worldledger: refused: {path}: {why}\n")
    (tmp_path / "a.pgn").write_text(GAME.format(1))
    assert on("import", "pgn", str(tmp_path)).code == 1


def test_what_others_write_is_understood(on: Cli, database_url: str, tmp_path: Path) -> None:
    """Results, promotions and numbers as many programs write them, a file in Windows-1252; strictly, notes refuse."""
    promotion = '[SetUp "1"]\n[FEN "8/P7/8/8/7k/8/7K/8 w - - 0 1"]\n\n1. a8(Q) Kh5 '
    texts = {
        "star": '[Result "*"]\n\n1. e4 e5 1-0\n',
        "spaced": "1) e4 e5 1 - 0\n",
        "forfeit": '[Result "1-0 forfeit"]\n\n1. e4 e5 1-0 forfeit\n',
        "promotion": f"{promotion} 1:0\n",
        "comment": '1. e4 {see\n\n[Event "fake"]\nend} e5 1-0\n',
        "960": '[Variant "Chess960"]\n\n1. e4 e5 1-0\n',
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.pgn").write_bytes(
            f'[Event "{name}"]\n[White "O\u2019Kelly"]\n'.encode("cp1252") + text.encode()
        )
    result = on("import", "pgn", str(tmp_path), "--experiment", "strict", "--strict")
    assert (result.code, result.out) == (1, "imported 4 games (20 effects) from 6 files, 2 refused\n")
    refused = [line.split(": ", 4)[2:] for line in result.err.splitlines()]
    assert [place.rpartition("/")[2] for place, _, _ in refused] == ["960.pgn:1", "star.pgn:1"]
    assert refused[0][2].startswith("Chess960 without a start position")
    lenient = on("import", "pgn", str(tmp_path), "--experiment", "all")
    assert (lenient.code, lenient.out) == (0, "imported 6 games (30 effects) from 6 files\n")
    assert len(lenient.err.splitlines()) == 2
    ends = "select effect::jsonb -> 'payload' ->> 'result' from effects where kind = 'GameEnded'"
    assert sql(database_url, ends) == [("white_wins",)] * 10
    assert sql(
        database_url, "select distinct effect::jsonb -> 'payload' ->> 'white' from effects where kind = 'GameStarted'"
    ) == [("O\u2019Kelly",)]


def test_a_file_in_utf_16_is_noted(on: Cli, tmp_path: Path) -> None:
    """That a file was taken for UTF-16 is told once."""
    file = tmp_path / "a.pgn"
    file.write_text(GAME.format(1) + GAME.format(2), encoding="utf-16")
    result = on("import", "pgn", str(file))
    assert (result.code, result.err) == (
        0,
        f"worldledger: note: {file}:1: game 1: the file is in UTF-16; it was read as that\n",
    )


def test_an_experiment_that_cannot_be_one(on: Cli, database_url: str, tmp_path: Path) -> None:
    """An experiment's name that is too long is exit code 2, before anything is read."""
    (tmp_path / "a.pgn").write_text(GAME.format(1))
    result = on("import", "pgn", str(tmp_path), "--experiment", "x" * 201)
    assert (result.code, result.out) == (2, "")
    assert "200 characters" in result.err
    assert sql(database_url, "select count(*) from worlds") == [(0,)]


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded games are not here")
def test_recorded_games(on: Cli, database_url: str, tmp_path: Path, thorough: bool) -> None:
    """All of a folder of real games go in, none twice, and the log verifies, in the program and in SQL."""
    paths = sorted(SHARED.rglob("*.pgn"))[:: 1 if thorough else 5]
    for path in paths:
        shutil.copy(path, tmp_path)
    count = len(paths)
    assert on("import", "pgn", str(tmp_path), "--experiment", "real").out.startswith(f"imported {count} games (")
    again = on("import", "pgn", str(tmp_path), "--experiment", "real")
    assert f" from {count} files, {count} already there" in again.out
    assert len(on("verify", "--all").out.splitlines()) == count
    rejected = "select count(*) from effects where kind = 'MoveRejected'"
    assert sql(database_url, rejected) == [(4 if thorough else 2,)]
    assert sql(database_url, "select count(*) from verification where verified is not true") == [(0,)]


def test_a_read_only_database(on: Cli, database_url: str, tmp_path: Path) -> None:
    """A database that takes no writes, as a standby, is named as such; nothing is counted as imported."""
    (tmp_path / "a.pgn").write_text(GAME.format(1))
    sql(database_url, f"alter database {urlsplit(database_url).path[1:]} set default_transaction_read_only = on")
    result = on("import", "pgn", str(tmp_path))
    assert (result.code, result.out) == (2, "")
    assert "is read-only" in result.err
    assert "run the same command again for the rest (0 of this run are in)" in result.err


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
def test_a_full_stdout(database_url: str, tmp_path: Path) -> None:
    """A stdout that is full is exit code 2 and one sentence."""
    (tmp_path / "a.pgn").write_text(GAME.format(1))
    with FULL.open("wb") as full:
        result = run("import", "pgn", str(tmp_path), "--database-url", database_url, stdout=full)
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1] == "worldledger: stdout cannot be written (No space left on device)"
