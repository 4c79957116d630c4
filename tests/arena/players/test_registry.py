"""Players by name: what is read, what is refused, and what packages offer."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chess
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_chess.arena.players import (
    EnginePlayer,
    ExternalPlayer,
    GuardedPlayer,
    InvalidPlayerError,
    PlayerError,
    Position,
    RandomPlayer,
    UnknownPlayerError,
    base,
    known_players,
    make_player,
    read_spec,
)

START = Position.of(chess.Board())


@pytest.mark.parametrize(
    ("spec", "stored", "kind"),
    [
        ("external", "external", ExternalPlayer),
        ("random", "random", RandomPlayer),
        ({"name": "random"}, "random", RandomPlayer),
        (f"uci:{sys.executable}", {"name": "uci", "path": sys.executable}, EnginePlayer),
        (
            {"name": "uci", "path": "sh", "args": ["-c", ":"], "depth": 3, "timeout": 2, "options": {"A b": True}},
            {"name": "uci", "path": "sh", "args": ["-c", ":"], "depth": 3, "timeout": 2, "options": {"A b": True}},
            EnginePlayer,
        ),
    ],
)
async def test_players_are_read_stored_and_made(spec: Any, stored: Any, kind: type) -> None:
    """A description is read as JSON that reads the same again, and made to a player of its name."""
    read = read_spec(spec, allow_programs=True)
    assert read.to_json() == stored
    assert read_spec(json.loads(json.dumps(stored)), allow_programs=True) == read
    for described in (spec, read):
        player = make_player(described, seed=1, allow_programs=True)
        assert type(player) is kind
        assert player.name == read.name
        await player.close()


@pytest.mark.parametrize(
    ("spec", "path", "said"),
    [
        (None, "$", "a name, or an object"),
        (["random"], "$", "a name, or an object"),
        ({}, "$.name", "name is wanted, such as external, random, stockfish, uci"),
        ({"name": 3}, "$.name", "name is wanted"),
        ({1: 2}, "$", "a name, or an object"),
        ("x" * 101, "$", "at most 100 characters"),
        ({"name": "random", "seed": 3}, "$.seed", "has no settings"),
        ("uci:", "$.path", "program is wanted"),
        ("uci", "$.path", "program is wanted"),
        ({"name": "uci", "path": 3}, "$.path", "program is wanted"),
        ({"name": "uci", "path": "sh", "args": "-c"}, "$.args", "list of strings"),
        ({"name": "uci", "path": "sh", "args": ["\0"]}, "$.args", "list of strings"),
        ({"name": "stockfish", "nodes": 0}, "$.nodes", "greater than or equal to 1"),
        ({"name": "stockfish", "nodes": True}, "$.nodes", "valid integer"),
        ({"name": "stockfish", "nodes": "5"}, "$.nodes", "valid integer"),
        ({"name": "stockfish", "timeout": float("nan")}, "$.timeout", "finite"),
        ({"name": "stockfish", "timeout": -1}, "$.timeout", "greater than 0"),
        ({"name": "stockfish", "Nodes": 5}, "$.Nodes", "not permitted"),
        ({"name": "stockfish", "options": {"Hash": 1.5}}, "$.options.Hash", "valid"),
    ],
)
def test_what_cannot_be_read(spec: Any, path: str, said: str) -> None:
    """The error names the place, in the path of the caller, and what is wanted there."""
    with pytest.raises(InvalidPlayerError, match=said) as caught:
        read_spec(spec, allow_programs=True)
    assert caught.value.path.startswith(path)
    with pytest.raises(InvalidPlayerError) as caught:
        make_player(spec, seed=1, path="$.players.white", allow_programs=True)
    assert caught.value.path.startswith("$.players.white" + path[1:])


@pytest.mark.parametrize("spec", ["whist", "", "Random", "uci", {"name": "x\ud800"}, "random:1"])
def test_unknown_players(spec: Any) -> None:
    """A name that nobody offers is an error that lists those that are known and says how to offer one."""
    with pytest.raises((UnknownPlayerError, InvalidPlayerError)) as caught:
        read_spec(spec)
    if spec != "uci":
        assert caught.value.code == "unknown_player"
        assert caught.value.details["known"] == known_players()
        assert "entry point in the group worldledger.players" in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ("uci:/bin/sh", "$"),
        ({"name": "uci", "path": "/bin/sh"}, "$.path"),
        ({"name": "stockfish", "path": "/bin/sh"}, "$.path"),
        ({"name": "stockfish", "args": ["bench"]}, "$.args"),
        ({"name": "stockfish", "nodes": 5, "options": {"Debug Log File": "/tmp/x"}}, "$.options"),
    ],
)
def test_strangers_name_no_programs(spec: Any, path: str) -> None:
    """Without leave, a description cannot name what is run here, nor options of an engine."""
    read_spec(spec, allow_programs=True)
    for refuse in (lambda: read_spec(spec), lambda: make_player(spec, seed=1)):
        with pytest.raises(InvalidPlayerError, match="not allowed here; the operator can allow it") as caught:
            refuse()
        assert caught.value.path == path


def test_strangers_may_say_how_long_an_engine_thinks() -> None:
    """The installed engine, and the limits of its search, are for everybody."""
    spec = {"name": "stockfish", "nodes": 50, "depth": 2, "movetime": 0.5, "timeout": 3}
    assert read_spec(spec).to_json() == spec


def test_a_program_that_is_not_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An engine is looked for when its player is made: who asks for one that is missing learns it at once."""
    monkeypatch.setattr("worldledger_chess.arena.players.registry._GAMES", (str(tmp_path),))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidPlayerError, match=r"no program 'stockfish' here .* the package stockfish"):
        make_player("stockfish", seed=1)
    for path in (tmp_path / "missing", tmp_path, "\ud800", "a\0b"):
        with pytest.raises(InvalidPlayerError, match="there is no program"):
            make_player({"name": "uci", "path": str(path)}, seed=1, allow_programs=True)


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.text() | st.sampled_from(["name", "path", "args", "nodes", "options"]),
                inner | st.sampled_from(["uci", "stockfish", "random"]),
            )
        ),
        max_leaves=20,
    )
)
def test_any_json_is_read_or_refused(spec: Any) -> None:
    """Whatever is sent, it is read or refused with a path; and what is read reads the same again."""
    paths: list[str] = []
    for allowed in (False, True):
        try:
            read = read_spec(spec, allow_programs=allowed)
        except (InvalidPlayerError, UnknownPlayerError) as error:
            paths.append(error.details["path"])
        else:
            assert read_spec(read.to_json(), allow_programs=allowed) == read
    assert all(path.startswith("$") for path in paths)


_MODULE = """
import asyncio
class Theirs:
    name = "a name of their own"
    def __init__(self, config, *, seed):
        self.how, self.seed = config.get("how", "well"), seed
        if self.how == "unmade":
            raise KeyError("how")
    async def move(self, position):
        if self.how == "slow":
            await asyncio.sleep(3600)
        if self.how == "fail":
            raise RuntimeError("no idea")
        if self.how == "time":
            raise TimeoutError("their own")
        return 5 if self.how == "number" else f"{self.how} {self.seed}"
    async def close(self):
        if self.how == "fail":
            raise RuntimeError("stuck")
        if self.how == "slow":
            await asyncio.sleep(3600)
nothing = lambda config, *, seed: object()
"""


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install packages of somebody else's that offer players, good and bad."""
    for module, offers in {
        "somebodys_players": "theirs = {0}:Theirs\nnothing = {0}:nothing\nbroken = {0}:MISSING\nboth = {0}:Theirs\n"
        "random = {0}:Theirs\n",
        "anothers_players": "both = {0}:Another\n",
    }.items():
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[worldledger.players]\n{offers.format(module)}")
    (tmp_path / "somebodys_players.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("somebodys_players", None)


async def test_installed_players_are_found_by_name(third_party: None) -> None:
    """A package's player is made of its settings and the seed, by its entry point's name; built-in names stay ours."""
    assert {"theirs", "random", "external"} <= set(known_players())
    player = make_player("theirs", seed=7)
    assert type(player) is GuardedPlayer
    assert player.name == "theirs"
    assert await player.move(START) == "well 7"
    await player.close()
    configured = make_player({"name": "theirs", "how": "badly"}, seed="s", allow_programs=True)
    assert await configured.move(START) == "badly s"
    assert type(make_player("random", seed=1)) is RandomPlayer
    with pytest.raises(InvalidPlayerError, match=r"\$\.how: the player 'theirs' with how"):
        make_player({"name": "theirs", "how": "badly"}, seed=1)


@pytest.mark.parametrize(
    ("spec", "error", "said"),
    [
        ("broken", UnknownPlayerError, r"'broken' \(somebodys_players:MISSING\) cannot be loaded: AttributeError"),
        ("both", UnknownPlayerError, r"several packages \(anothers_players:Another, somebodys_players:Theirs\)"),
        ("nothing", InvalidPlayerError, r"is a object without name, move and close"),
        ({"name": "theirs", "how": "unmade"}, InvalidPlayerError, r"cannot be made: KeyError: 'how'"),
    ],
)
def test_offers_that_are_no_players(third_party: None, spec: Any, error: type[Exception], said: str) -> None:
    """An offer that cannot be loaded or made, or is ambiguous, is an error that names it."""
    with pytest.raises(error, match=said):
        make_player(spec, seed=1, allow_programs=True)


@pytest.mark.parametrize(
    ("how", "reason", "said"),
    [
        ("slow", "timeout", "gave no move within 0.2 s"),
        ("fail", "failed", "failed: RuntimeError: no idea"),
        ("time", "failed", "failed: TimeoutError: their own"),
        ("number", "rubbish", "gave a int, not a move"),
    ],
)
async def test_installed_players_cannot_hold_up_a_game(
    third_party: None, monkeypatch: pytest.MonkeyPatch, how: str, reason: str, said: str
) -> None:
    """A package's player that hangs, fails or talks rubbish is a PlayerError, and it is closed all the same."""
    monkeypatch.setattr(base, "CLOSING_S", 0.1)
    player = make_player({"name": "theirs", "how": how}, seed=1, allow_programs=True)
    with pytest.raises(PlayerError, match=said) as caught:
        await player.move(Position.of(chess.Board(), remaining_s=0.2))
    assert (caught.value.reason, caught.value.player) == (reason, "theirs")
    await player.close()
    with pytest.raises(PlayerError) as caught:
        await player.move(START)
    assert caught.value.reason == "closed"
