"""A database with several experiments, projected once for all of these tests: they only read it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import structlog
from worldledger_service.cli.main import run
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from tests.markets import effect, market
from tests.social_runs import EXAMPLE, adaptation, feedback, message, write_run
from worldledger.genesis import NewWorld

from .helpers import Page, page_of, read

GAMES = Path(__file__).resolve().parents[2] / "examples" / "games"
#: Names that would do harm where they are taken for markup, mathematics, a path of a legend or a line of a terminal.
ODD = "<script>alert(1)</script>"
NAMES = (f"Role+{ODD}", "Role+$x^2$ \\frac", "_Hid+_den", "Ctl+a\x01\x1bb\u202e", "L" * 40 + "+" + "o" * 90)


#: The largest number that a share may be to count.
MOST = 1e150


@pytest.fixture(scope="session")
def ledger(servers: Any, server_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address: experiments of runs, games and simulations, an empty one, and odd names."""
    url = servers.create(server_kind, servers.template(server_kind))
    folder = tmp_path_factory.mktemp("report")
    _write_odd(folder)
    for arguments in (
        ("import", "pgn", str(GAMES), "--experiment", "examples"),
        ("import", "social-rl", str(EXAMPLE), "--experiment", "examples"),
        ("import", "pgn", str(GAMES / "engines.pgn"), "--experiment", "games"),
        ("import", "social-rl", str(EXAMPLE), "--experiment", "social"),
        ("import", "social-rl", str(folder / "odd"), "--experiment", ODD, "--quiet"),
        ("import", "pgn", str(folder / "odd.pgn"), "--experiment", ODD),
        ("import", "social-rl", str(folder / "conditions"), "--experiment", "conditions", "--quiet"),
    ):
        assert run([*arguments, "--database-url", url]) == 0
    asyncio.run(_play(url))
    assert run(["project", "--once", "--database-url", url]) == 0
    structlog.reset_defaults()
    yield url
    servers.drop(server_kind, url)


@pytest.fixture(scope="session")
def page_for(ledger: str) -> Callable[[str], Page]:
    """Return a function that gives the page of an experiment; each is made once."""
    return lru_cache(lambda experiment: page_of(read(ledger, experiment)))


def _write_odd(folder: Path) -> None:
    rounds = {
        f"round{number}_social_rl.json": {
            "round_number": number,
            "messages": [message(name, number, 1) for name in NAMES],
            "feedback": {name: feedback(name, number, engagement=number / 4) for name in NAMES},
            "policy_adaptations": [adaptation(name, number, cue=f"{ODD} {name}") for name in NAMES],
        }
        for number in (1, 2, 3)
    }
    write_run(folder / "odd" / "a", {**rounds, "meta.json": {"experiment_id": ODD, "condition": ODD, "seed": 1}})
    extremes = {
        f"round{number}_social_rl.json": {
            "round_number": number,
            "feedback": {
                NAMES[0]: feedback(NAMES[0], number, engagement=sign * MOST, theoretical_alignment=-sign * MOST)
            },
            "policy_adaptations": [adaptation(NAMES[0], number)],
        }
        for number, sign in ((1, 1), (2, -1), (3, 1))
    }
    write_run(folder / "odd" / "c", {**extremes, "meta.json": {"experiment_id": "c", "condition": ODD, "seed": 2}})
    opposite = {"round1_social_rl.json": extremes["round2_social_rl.json"] | {"round_number": 1}}
    write_run(folder / "odd" / "d", {**opposite, "meta.json": {"experiment_id": "d", "condition": ODD, "seed": 3}})
    write_run(folder / "odd" / "b", {**rounds, "meta.json": {"experiment_id": "b", "condition": "_b$b$", "seed": 1}})
    for name, condition in enumerate([0, 1, 2, 3, 4, 5, True]):
        files = {"round1_social_rl.json": rounds["round1_social_rl.json"], "meta.json": {"condition": condition}}
        write_run(folder / "conditions" / str(name), files)
    game = '[White "{}"]\n[Black "$b$"]\n[Result "0-1"]\n\n1. f3 {{[%emt 0:00:02]}} e5 2. g4 Qh4# 0-1\n'
    (folder / "odd.pgn").write_text(game.format(ODD))


async def _play(url: str) -> None:
    async with Store.open(url, Settings(pool_size=2)) as store:
        for name in ("one", "two"):
            await _simulate(store, name, "market")
        for number in range(7):
            await _simulate(store, f"many{number}", "many")
        await store.create_world(NewWorld(world_id="nothing", experiment="empty"))
        await _talk(store)


async def _talk(store: Store) -> None:
    """Let a model make two answers, the second of which is cut off."""
    await store.create_world(NewWorld(world_id="talk", experiment="talk"))
    log = await store.log("talk")
    for number, outcome in enumerate(("acted", "interrupted"), 1):
        whose = {"agent_id": "ann", "req_id": f"g{number}"}
        used = {"tokens_in": 100, "tokens_out": 10 * number, "price": 0.25, "currency": "EUR"}
        took = {"first_token_ms": 100 * number, "took_ms": 1000 * number}
        drafts = [
            effect("GenerationStarted", "ann", **whose, context_seq=1, model={"name": ODD}),
            effect("GenerationReported", "ann", **whose, outcome=outcome, **used, **took),
        ]
        await log.append_all(drafts, system=True)


async def _simulate(store: Store, name: str, experiment: str) -> None:
    await store.create_world(NewWorld(world_id=name, experiment=experiment, ruleset="simulation", config=market()))
    log = await store.log(name)
    for turn in (1, 2, 3):
        patch = [{"op": "replace", "path": "/price", "value": turn * 1.5}]
        told = {"model": "m", "token_count": 9} if turn < 3 else {}
        drafts = [
            effect("TurnStarted", turn=turn),
            effect("GlobalStateChanged", patch=patch),
            effect("ReasoningRecorded", "Ann", reasoning="why not", **told),
            effect("TurnEnded", turn=turn),
        ]
        await log.append_all(drafts)
