"""The example market: it is played to its end, can be stopped at any time, and tells who believed what."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import pytest
from worldledger_service.runtime import Orchestrator
from worldledger_service.store import Store
from worldledger_simulation.rules import SimulationConfig, load_config

import worldledger.client
from tests.api.helpers import serving
from tests.cli.helpers import Running
from tests.conftest import Servers
from worldledger.client import Client
from worldledger.core_kinds import VIEW_DIGEST_KIND
from worldledger.genesis import NewWorld
from worldledger.observability import construct_observation

from .project import ROOT

MARKET = ROOT / "examples" / "market"
#: Effects of a market that has been played: the genesis, the beginning, five registrations, then twenty turns; not
#: counted what the service notes of the views, at the end of each turn.
TURNS = 20
WHOLE = 367
#: Turns of a market that is played once more, for something that each of its turns shows.
FEWER = 6
#: On one worker, so that they look at one market.
once = pytest.mark.group("market")


@pytest.fixture(scope="module")
def play() -> Iterator[Any]:
    """The example's own program as a module, as long as these tests last."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(MARKET))
        yield importlib.import_module("play")
        for name in ("play", "engine", "traders"):
            sys.modules.pop(name, None)


class Played(NamedTuple):
    """A market that has been played to its end, in a database of its own, and what was told of it."""

    database_url: str
    lines: list[str]


@pytest.fixture(scope="module")
def played(play: Any, servers: Servers, server_kind: str) -> Iterator[Played]:
    """The market, played once for the tests that look at it, with an account of turn 7."""
    database_url = servers.create(server_kind, servers.template(server_kind))
    with redirect_stdout(io.StringIO()) as told:
        assert (
            asyncio.run(play.here(database_url, load_config(MARKET / "market.yaml"), _wanted(quiet=False, turn=7))) == 0
        )
    yield Played(database_url, told.getvalue().splitlines())
    servers.drop(server_kind, database_url)


def _shortened(turns: int) -> SimulationConfig:
    """Return the example's configuration with fewer turns."""
    value = load_config(MARKET / "market.yaml").to_value()
    return SimulationConfig.from_value({**value, "simulation": {**value["simulation"], "max_turns": turns}})


def _wanted(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"world": "market", "turn": 10, "quiet": True, "url": None, **given})


def _playing(database_url: str, *arguments: str, market: Path = MARKET) -> Running:
    """Play in a process of its own."""
    env = {"WORLDLEDGER_DATABASE_URL": database_url, "PYTHONUNBUFFERED": "1"}
    return Running("--world", "market", *arguments, program=market / "play.py", **env)  # type: ignore[arg-type]


async def _kinds(database_url: str, world_id: str = "market") -> dict[str, int]:
    """Count the effects of a world by kind, all but the digests of views."""
    connection = await asyncpg.connect(database_url)
    try:
        rows = await connection.fetch(
            "select kind, count(*) as effects from effects where world_id = $1 and kind <> $2 group by kind",
            world_id,
            VIEW_DIGEST_KIND,
        )
    finally:
        await connection.close()
    return {row["kind"]: row["effects"] for row in rows}


@once
async def test_it_plays_twenty_turns(played: Played) -> None:
    """In every turn each trader gives its reasons and acts once, and the engine ends it."""
    kinds = await _kinds(played.database_url)
    assert kinds["TurnStarted"] == kinds["TurnEnded"] == TURNS
    assert kinds["ReasoningRecorded"] == 5 * TURNS
    assert kinds["AgentStateChanged"] == 10 * TURNS  # each by itself, and by the engine: all of them eat
    assert kinds["GlobalStateChanged"] == TURNS
    assert sum(kinds.values()) == WHOLE


@once
async def test_what_was_believed_follows_from_what_was_true(play: Any, played: Played) -> None:
    """Of any turn, each trader's view is what the matrix and the world's uuid make of the truth, to the last digit."""
    config = load_config(MARKET / "market.yaml")
    async with Orchestrator.open(played.database_url, world_id="market") as world:
        truth = play.Truth("market", world.event_log)
        await truth.follow()
        assert sorted(truth.ended) == list(range(1, TURNS + 1))
        beliefs = set()
        for turn in (1, 10, TURNS):
            seq, state = truth.ended[turn]
            for agent in config.agents:
                seen = (await world.view(agent.name, at_seq=seq)).visible_entities
                wanted = construct_observation(agent.name, state, config.observability).to_value()
                assert seen == {**wanted["agents"], "global": wanted["global_state"]}
                beliefs.add(json.dumps(seen["Trader_4"]["gold"]))
        assert len(beliefs) == 15  # nobody sees the merchant's gold as another does, nor in two turns alike
        spy = (await world.view("Trader_5", at_seq=seq)).visible_entities
        assert {"bid", "ask", "secret_reserves"} <= set(spy["Trader_1"])
        assert not {"bid", "ask", "secret_reserves", "strategy"} & set(spy["Trader_2"])
        assert "Trader_3" not in (await world.view("Trader_2", at_seq=seq)).visible_entities


@once
def test_the_account_shows_both(played: Played) -> None:
    """It tells of each turn in a line, and of the one that was asked for what was believed and what was true."""
    lines = played.lines
    assert lines[0] == "World market: 5 traders, 20 turns"
    assert lines[1].startswith("turn season ")
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[2 : TURNS + 2]] == [str(turn) for turn in range(1, TURNS + 1)]
    assert any(line.startswith("At the end of turn 7, what ") for line in lines)
    (secret,) = [line.split() for line in lines if line.split()[:2] == ["Trader_4", "secret_reserves"]]
    assert secret[2] == "-"
    assert float(secret[3]) >= 200
    assert lines[-1] == "$ worldledger view market Trader_5 --at turn:7 --truth"


@once
async def test_playing_it_again_adds_nothing(play: Any, played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    """A market that has been played is said to be there, and its log stays as it is."""
    config = load_config(MARKET / "market.yaml")
    assert await play.here(played.database_url, config, _wanted()) == 0
    assert not capsys.readouterr().out
    assert await play.here(played.database_url, config, _wanted(quiet=False)) == 0
    assert "is there already, and all of its turns have been played" in capsys.readouterr().out
    assert sum((await _kinds(played.database_url)).values()) == WHOLE


async def test_a_world_of_that_name_that_is_something_else_is_left_alone(
    play: Any, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever has a world of that name keeps it as it is, and is told so; another name can be had."""
    config = load_config(MARKET / "market.yaml")
    other = {**config.to_value(), "simulation": {"name": "mine"}}
    async with Store.open(database_url) as store:
        await store.create_world(NewWorld(world_id="market"))
        await store.create_world(NewWorld(world_id="mine", ruleset="simulation", config=other))
    for world_id, before in (("market", 1), ("mine", 7)):
        assert await play.here(database_url, config, _wanted(world=world_id)) == 1
        assert "it is left as it is" in capsys.readouterr().err
        assert sum((await _kinds(database_url, world_id)).values()) == before


async def test_a_turn_that_was_begun_elsewhere_is_gone_on_with(
    play: Any, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where somebody has opened a turn and let a trader act in it, the others act, and the turn is ended."""
    config = _shortened(FEWER)
    new = NewWorld(world_id="market", ruleset="simulation", config=config.to_value())
    async with Store.open(database_url) as store:
        await store.create_world(new)
    async with Orchestrator.open(database_url, world_id="market") as world:
        await world.broadcast_event(play.engine.draft("TurnStarted", "mine"))
        trader = await world.agent("Trader_3")
        await trader.next_observation()
        patch = [{"op": "replace", "path": "/strategy", "value": "patient"}]
        await trader.submit_intent({"kind": "Custom", "payload": {"kind": "AgentStateChanged", "patch": patch}})
    assert await play.here(database_url, config, _wanted()) == 0
    assert "World market is there already, in turn 1: it goes on from there." in capsys.readouterr().out
    kinds = await _kinds(database_url)
    assert kinds["TurnEnded"] == FEWER
    assert kinds["ReasoningRecorded"] == 5 * FEWER - 1


@pytest.mark.slow
async def test_it_plays_in_a_service_as_it_does_here(play: Any, database_url: str) -> None:
    """Against a service the same program plays the same turns over the wire."""
    config = _shortened(FEWER)
    async with serving(database_url) as served:
        client = play.client_of(_wanted(url=served.url))
        assert await play.remotely(client, config, _wanted(quiet=False, turn=FEWER)) == 0
    kinds = await _kinds(database_url)
    assert kinds["TurnStarted"] == kinds["TurnEnded"] == FEWER
    assert sum(kinds.values()) == WHOLE - 18 * (TURNS - FEWER)


@pytest.mark.thorough  # turns and kills: tests/faults
@pytest.mark.slow
async def test_it_may_be_killed_at_any_moment(database_url: str) -> None:
    """Killed in the middle of a turn, again and again, it still plays each turn once and to its end."""
    for lines in (2, 1, 3, 4, 1):  # lines that are printed before it is killed
        with _playing(database_url) as process:
            for _ in range(lines):
                assert process.line()
            process.process.kill()
    with _playing(database_url) as process:
        done = process.end()
    assert done.code == 0, done.err
    assert "it goes on from there" in done.out
    kinds = await _kinds(database_url)
    assert kinds["TurnStarted"] == kinds["TurnEnded"] == TURNS
    assert kinds["ReasoningRecorded"] == 5 * TURNS
    assert kinds["AgentStateChanged"] == 10 * TURNS


@pytest.mark.slow
async def test_two_may_play_at_once(database_url: str, tmp_path: Path) -> None:
    """Two processes that play one world at the same time help each other, and every turn is played once."""
    market = shutil.copytree(MARKET, tmp_path / "market")
    text = (market / "market.yaml").read_text()
    assert "max_turns: 20" in text
    (market / "market.yaml").write_text(text.replace("max_turns: 20", f"max_turns: {FEWER}"))
    of_last = ("--turn", str(FEWER))
    with (
        _playing(database_url, *of_last, market=market) as one,
        _playing(database_url, *of_last, market=market) as other,
    ):
        for process in (one, other):
            done = process.end()
            assert done.code == 0, done.err
    kinds = await _kinds(database_url)
    assert kinds["TurnStarted"] == kinds["TurnEnded"] == FEWER
    assert kinds["ReasoningRecorded"] == 5 * FEWER
    assert kinds["AgentStateChanged"] == 10 * FEWER


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--url", "nonsense"], 2, "is no address of a service"),
        (["--url", "http://127.0.0.1:1"], 1, "cannot be reached"),
        (["--turn", "21"], 2, "--turn"),
        ([], 1, "cannot be reached"),
    ],
)
def test_what_keeps_it_from_playing_is_told(
    play: Any,
    arguments: list[str],
    code: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What cannot be done is one line on stderr; 2 is for arguments that make no sense."""
    monkeypatch.setenv("WORLDLEDGER_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
    monkeypatch.setattr(worldledger.client, "Client", partial(Client, patience=0.1))
    main: Callable[[list[str]], int] = play.main
    try:
        found = main(arguments)
    except SystemExit as end:  # argparse's
        found = int(end.code or 0)
    assert found == code
    error = capsys.readouterr().err
    assert told in error
    assert "Traceback" not in error
