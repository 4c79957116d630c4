"""The cookbook on a million effects of all rulesets: how long each query takes, over all worlds and without a filter.

Half of the effects tell of games and social-RL runs, the others of simulations and of a sandbox in which agents intend,
interact and answer.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from typing import Any

from worldledger_service.database.analytics.asking import ask
from worldledger_service.database.analytics.cookbook import NamedQuery, queries
from worldledger_service.database.engine import connect_one
from worldledger_service.projecting.engine import Engine
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from benchmarks.harness import Goal, Report, say
from benchmarks.projections import random_games
from worldledger.genesis import NewWorld

COUNT = 1_000_000
MOST_SECONDS = 1.0
ROUNDS = 3
#: What the queries need to be told.
GIVEN = {
    "variable-over-turns": {"path": "gold"},
    "belief-against-truth": {"world": "market-0"},
    "acceptance-by-agent": {"world": "town-0"},
}
_AGENTS = 10
_TURNS = 200

Draft = dict[str, Any]


async def run(report: Report, url: str, store: Store, count: int = COUNT) -> None:
    """Fill a database, let the projections catch up, and ask."""
    say("cookbook")
    start = time.perf_counter()
    await _fill(store, count)
    async with Engine.open(store, url, Settings()) as projections:
        await projections.run_until_caught_up()
    say(f"  filled and projected in {time.perf_counter() - start:.0f} s")
    connection = await connect_one(url, role="worldledger_service")
    admin = await connect_one(url)
    await admin.execute("vacuum analyze")
    await admin.close()
    slowest, seconds = "", 0.0
    for query in queries().values():
        took = [await _ask(connection, query) for _ in range(ROUNDS)]
        say(f"    {query.name}: {min(took) * 1000:.0f} ms")
        if min(took) > seconds:
            slowest, seconds = query.name, min(took)
    await connection.close()
    what = f"cookbook: the slowest of {len(queries())} queries on {count:,} effects ({slowest})"
    report.note(Goal(what, seconds, MOST_SECONDS, at_least=False, unit="s"))


async def _ask(connection: Any, query: NamedQuery) -> float:
    start = time.perf_counter()
    given = query.arguments(GIVEN.get(query.name, {}))
    async with ask(connection, query.sql, given, timeout_s=300, cells="json") as answer:
        async for _ in answer.batches():
            pass
    return time.perf_counter() - start


# -- filling -----------------------------------------------------------------------------------------------


async def _fill(store: Store, count: int) -> None:
    games = random_games()
    made = number = 0
    while made < 0.3 * count:
        drafts = games[number % len(games)]
        world = NewWorld(world_id=f"game-{number}", ruleset="chess", experiment="games", time_authority="client")
        made += len(drafts)
        await store.import_world(world, drafts)  # type: ignore[arg-type]
        number += 1
    await _make(store, "run", "social_rl", 0.3 * count, 2500, _run)
    await _make(store, "market", "simulation", 0.2 * count, _TURNS * (_AGENTS + 3), _market, config=_config())
    await _make(store, "town", "sandbox", 0.2 * count, 20_000, _town)
    await asyncio.sleep(0)


async def _make(store: Store, name: str, ruleset: str, count: float, size: int, drafts: Any, **fields: Any) -> None:
    for number in range(max(round(count / size), 1)):
        experiment = f"{ruleset}-{number % 5}"
        world = NewWorld(
            world_id=f"{name}-{number}", ruleset=ruleset, experiment=experiment, time_authority="client", **fields
        )
        await store.import_world(world, drafts(number, size))


def _draft(kind: str, source_id: str, sim_time: float, **payload: Any) -> Draft:
    return {"kind": kind, "payload": payload, "source_id": source_id, "schema_version": "1.0.0", "sim_time": sim_time}


def _run(number: int, size: int) -> Iterator[Draft]:
    pick = random.Random(number)
    seq = 2
    meta, extra = {"model": f"owner/model-{number % 3}"}, {"condition": "ab"[number % 2], "seed": number}
    yield _draft("ExperimentStarted", "coach", 0.0, meta=meta, extra=extra)
    for round_number in range(1, size // 50 + 1):
        now = float(round_number)
        yield _draft("RoundStarted", "coach", now, round_number=round_number)
        for turn in range(1, 29):
            said = {"agent_id": f"Worker+{turn % 8}", "turn_number": turn, "content": "so we said " * 20}
            moment = {"round_number": round_number, "timestamp": 1.7e9 + now + turn / 100}
            yield _draft("MessageEmitted", said["agent_id"], now, **said, **moment)  # type: ignore[arg-type]
        for agent in range(8):
            metrics = {name: pick.random() for name in ("engagement", "theoretical_alignment", "contribution_value")}
            heard = {"direct_references": pick.randrange(5), "response_received": 1, "synthesis_inclusion": 0.5}
            of = {"agent_id": f"Worker+{agent}", "round_number": round_number}
            yield _draft("FeedbackRecorded", "coach", now, **of, **metrics, **heard)
        for agent in range(8):
            of = {"agent_id": f"Worker+{agent}", "round_number": round_number}
            cue = {"adaptation_type": "activate_cue", "cue": f"cue-{pick.randrange(6)}", "intensity": pick.random()}
            yield {**_draft("PolicyAdapted", "coach", now, **of, **cue), "caused_by": seq + 30 + agent}
        yield _draft("RoundSynthesised", "coach", now, round_number=round_number, synthesis="It went well. " * 9)
        yield _draft("RoundEnded", "coach", now, round_number=round_number, duration_seconds=pick.random() * 90)
        seq += 47


def _config() -> dict[str, Any]:
    names = [f"agent-{n}" for n in range(_AGENTS)]
    matrix = [
        [one, other, "insider" if one == other else "external", 0.0 if one == other else 0.1]
        for one in names
        for other in [*names, "global"]
    ]
    variables = {"gold": {"type": "float", "default": 100.0}, "food": {"type": "float", "default": 5.0}}
    return {
        "simulation": {"name": "market", "max_turns": _TURNS},
        "engine": {"actions_per_turn": 9},
        "agents": [{"name": name} for name in names],
        "state_variables": {
            "agent_vars": variables,
            "global_vars": {"price": {"type": "float", "default": 2.0}},
        },
        "observability": {
            "enabled": True,
            "variable_visibility": {"external": ["gold", "price"], "internal": ["food"]},
            "matrix": matrix,
        },
    }


def _market(number: int, size: int) -> Iterator[Draft]:
    pick = random.Random(number)
    agents = [f"agent-{n}" for n in range(_AGENTS)]
    for turn in range(1, size // (_AGENTS + 3) + 1):
        yield _draft("TurnStarted", "engine", float(turn), turn=turn)
        for agent in agents:
            patch = [{"op": "replace", "path": "/gold", "value": pick.random() * 200}]
            yield _draft("AgentStateChanged", "engine", float(turn), agent_id=agent, patch=patch)
        yield _draft("ReasoningRecorded", f"agent-{turn % _AGENTS}", float(turn), reasoning="because", token_count=9)
        yield _draft("TurnEnded", "engine", float(turn), turn=turn)


def _town(number: int, size: int) -> Iterator[Draft]:
    pick = random.Random(number)
    for n in range(size):
        agent, now = f"agent-{pick.randrange(_AGENTS)}", n / 10
        made = _draft("Move", agent, now, to=[pick.random(), 1.5, 0.0], speed=1.5, note="n" * 60)
        if n % 10 == 0:
            made = _draft("Interact", agent, now, target_id=f"agent-{pick.randrange(_AGENTS)}")
        elif n % 10 == 1:
            made = {**_draft("Answered", agent, now, text="yes"), "caused_by": n}
        if n % 2 == 0:
            made["source_metadata"] = {"intent": made["kind"], "context_seq": n}
        yield made
