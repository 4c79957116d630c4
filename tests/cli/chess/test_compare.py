"""Comparing games."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.conftest import Cli
from tests.cli.helpers import GAME, compared


def test_forks_of_games(on: Cli, games: list[str]) -> None:
    """A fork of a game is measured through its past, and parts by the half-move of the fork."""
    assert on("fork", games[0], "--at", "ply:2", "--as", "tried").code == 0
    found = compared(on, games[0], "tried")
    (pair,) = found["pairs"]
    assert (pair["divergence"]["number"], pair["divergence"]["b"]) == (3, None)
    assert found["series"][0]["numbers"] == [*range(1, found["worlds"][0]["outcome"]["ply"] + 1)]
    assert found["worlds"][1]["outcome"]["ply"] == 2


def test_the_same_game_played_twice(on: Cli, games: list[str]) -> None:
    """Two games of the same players and seed are equal, whatever their worlds and experiments are called."""
    play = ("chess", "play", "--white", "random", "--black", "random", "--seed", "4", "--deadline", "0", "--quiet")
    for name in ("first", "second"):
        assert on(*play, "--as", name, "--experiment", f"of-{name}").code == 0
        assert on(*play, "--as", f"{name}-on", "--from", f"{games[0]}@ply:2", "--experiment", f"of-{name}").code == 0
    for a, b in (("first", "second"), ("first-on", "second-on")):
        (pair,) = compared(on, a, b)["pairs"]
        assert (pair["equal"], pair["settings"]) == (True, [])


@pytest.fixture
def games(on: Cli, tmp_path: Path) -> list[str]:
    """Import two games that part at the third half-move, and end differently."""
    (tmp_path / "a.pgn").write_text(GAME.format(1))
    (tmp_path / "b.pgn").write_text(GAME.format(2).replace("2. g4 Qh4# 0-1", "2. e4 Nf6 3. d4 exd4 0-1"))
    assert on("import", "pgn", str(tmp_path), "--experiment", "cup").code == 0
    return [row["world_id"] for row in json.loads(on("worlds", "--experiment", "cup", "--json").out)]


def test_games_by_their_measures(on: Cli, games: list[str]) -> None:
    """Two games are aligned by half-moves; material is set side by side, and how they ended."""
    found = compared(on, *games)
    divergence = found["pairs"][0]["divergence"]
    assert (found["by"], divergence["number"]) == ("ply", 3)
    assert found["pairs"][0]["equal_effects"] == 2
    (material,) = found["series"]
    assert material["measure"] == "material"
    assert sorted(values[-1] or 0 for values in material["values"]) == [-1, 0]
    assert sorted(world["outcome"]["ply"] for world in found["worlds"]) == [4, 6]
    assert {world["labels"]["white"] for world in found["worlds"]} == {"Ann"}
    out = on("compare", *games).out
    assert "part at ply 3, after 2 effects equal\n" in out
    assert "measures by ply\n" in out


def test_groups_of_runs(on: Cli, games: list[str]) -> None:
    """Measures are told by group: mean, quartiles and n; a group that no run has is refused with those there are."""
    found = compared(on, *games, "--group", "white")["groups"]
    assert (found["by"], found["of"]) == ("white", ["Ann", "Ann"])
    (material,) = found["series"]
    assert (material["group"], material["numbers"], material["n"]) == ("Ann", [1, 2, 3, 4, 5, 6], [2, 2, 2, 2, 1, 1])
    assert material["mean"][-1] == material["q1"][-1] == -1
    result = on("compare", *games, "--group", "whit")
    assert result.code == 2
    assert "none of the worlds has 'whit' to be grouped by; they have black, config.digest" in result.err


def test_a_page_with_plots(on: Cli, games: list[str], tmp_path: Path) -> None:
    """A page stands alone: one file, with a plot for each measure; it does not replace a file unless it may."""
    pytest.importorskip("matplotlib")
    page = tmp_path / "page.html"
    result = on("compare", *games, "-o", str(page))
    assert (result.code, result.out) == (0, "")
    text = page.read_text()
    assert "part at ply 3, after 2 effects that are equal" in text
    assert text.count("<svg") == 1
    assert ET.fromstring(text.split("\n", 1)[1]) is not None
    assert on("compare", *games, "-o", str(page)).code == 2
    assert on("compare", *games, games[0], "--group", "white", "-o", str(page), "--force").code == 0
    assert "mean and quartiles by group" in page.read_text()
