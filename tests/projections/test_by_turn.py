"""Simulations in the database: their variables turn by turn, in one query over all worlds of an experiment."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import orjson
import pytest
from worldledger_service.database.engine import connect_pool
from worldledger_service.store import Store
from worldledger_simulation.projections.state_variables import MAX_KEY, StateVariables
from worldledger_simulation.projections.turns import Reasoning, Turns

from tests.markets import change, effect, market
from tests.projections.helpers import append, assert_verified, rows_of
from tests.projections.simulations import values_by_turn, written
from worldledger.effects import Effect, EffectDraft
from worldledger.genesis import NewWorld

QUERY = """
select world_id, turn, number from analytics.state_variables_by_turn
where experiment = 'e' and agent = 'Ann' and path = 'gold' order by 1, 2
"""


def projections() -> list[Any]:
    """Return the projections of simulations."""
    return [StateVariables(), Reasoning(), Turns()]


async def make(store: Store, name: str, experiment: str | None = "e") -> str:
    """Create a world of the market."""
    world = NewWorld(
        world_id=name, ruleset="simulation", experiment=experiment, config=market(simulation={"name": name})
    )
    await store.create_world(world)
    return name


async def log_of(store: Store, world_id: str) -> list[Effect]:
    """Read a world's effects."""
    return [orjson.loads(row.text) async for batch in store.reader.batches(world_id) for row in batch]


def happening(random: Random, present: dict[str, bool]) -> EffectDraft:
    """Return something that may happen in the market; ``present``: who is there."""
    agent = random.choice([name for name, here in present.items() if here])
    which = random.randrange(12)
    if which < 5:
        draft = change(agent, "/gold", random.randrange(3))
    elif which < 7:
        draft = change(
            agent, f"/inventory/{random.choice(['food', 'a.b', 'Agriculture Town'])}", random.random(), "add"
        )
    elif which == 7:
        draft = change(agent, "/history", [str(n) for n in range(random.randrange(4))])
    elif which == 8:
        season = {"op": "replace", "path": "/season", "value": random.choice("aš")}
        draft = effect("GlobalStateChanged", patch=[season])
    elif which == 9:
        draft = effect("ReasoningRecorded", agent, reasoning={"because": random.random()})
    elif present["Cid"]:
        draft = effect("AgentRemoved", agent_id="Cid")
    else:
        draft = effect("AgentAdded", agent_id="Cid", state={"gold": random.randrange(3)})
    if draft["kind"] in ("AgentRemoved", "AgentAdded"):
        present["Cid"] = not present["Cid"]
    return draft


async def expected_values(store: Store, worlds: dict[str, str | None]) -> list[tuple[Any, ...]]:
    """Return every value of every turn, by folding the logs."""
    rows = []
    for world_id, experiment in worlds.items():
        for turn, values in values_by_turn(await log_of(store, world_id)).items():
            rows += [
                (world_id, experiment or "", turn, agent, written(keys), text) for (agent, keys), text in values.items()
            ]
    return sorted(rows)


async def told_values(pool: Any) -> list[tuple[Any, ...]]:
    """Return the same from the view."""
    rows = await pool.fetch(
        "select world_id, coalesce(experiment, ''), turn, agent, path, value::text "
        "from projections.state_variables_by_turn"
    )
    return sorted(map(tuple, rows))


@pytest.mark.both_servers
async def test_one_query_tells_how_a_variable_moved(
    store: Store, pool: Any, make_engine: Any, database_url: str
) -> None:
    """Over all worlds of an experiment, in each of their turns, whether or not it changed; a reader may ask."""
    turn = [effect("TurnStarted"), effect("TurnEnded")]
    spend = [change("Ann", "/gold", 90), change("Ann", "/gold", 80)]
    await append(store, await make(store, "w1"), [turn[0], *spend, turn[1], *turn, *turn])
    await append(store, await make(store, "w2"), [*turn, turn[0], *spend[:1]])
    await append(store, await make(store, "w3", experiment="f"), turn)
    await make_engine(projections()).run_until_caught_up(timeout=100)
    reader = await connect_pool(database_url, role="worldledger_reader", min_size=1, max_size=1)
    assert [tuple(row) for row in await reader.fetch(QUERY)] == [
        ("w1", 0, 100.0),
        ("w1", 1, 80.0),
        ("w1", 2, 80.0),
        ("w1", 3, 80.0),
        ("w2", 0, 100.0),
        ("w2", 1, 100.0),
        ("w2", 2, 90.0),
    ]
    await reader.close()


async def test_the_view_is_the_state_at_the_end_of_each_turn(store: Store, pool: Any, make_engine: Any) -> None:
    """Random markets, fed while they go on by runners that come and go: every value of every turn, and no other."""
    random = Random(5)
    worlds = {f"w{n}": random.choice(["e", "f", None]) for n in range(5)}
    there = {}
    for name, experiment in worlds.items():
        await make(store, name, experiment)
        there[name] = {"Ann": True, "Bea": True, "Cid": True}
    engine = make_engine(projections(), batch=9)
    for _ in range(4):
        for name in worlds:
            for _ in range(random.randrange(3)):
                drafts = [happening(random, there[name]) for _ in range(random.randrange(8))]
                await append(store, name, [effect("TurnStarted"), *drafts, effect("TurnEnded")])
                await append(store, name, [happening(random, there[name])])
        if random.random() < 0.7:
            engine = make_engine(projections(), batch=random.choice([3, 20, 500]))
        await engine.run_until_caught_up(timeout=100)
        assert await told_values(pool) == await expected_values(store, worlds)
    before = {name: await rows_of(pool, name) for name in ("state_variables", "reasoning", "turns")}
    for name in before:
        await engine.rebuild(name)
    await engine.run_until_caught_up(timeout=100)
    assert {name: await rows_of(pool, name) for name in before} == before
    await assert_verified(engine, *before)
    assert await told_values(pool) == await expected_values(store, worlds)
    assert min(map(len, before.values())) > 3


async def test_no_turn_is_told_before_its_values_are_known(store: Store, pool: Any, make_engine: Any) -> None:
    """Whichever of the two projections is behind: the view has the turns that both have come to."""
    name = await make(store, "w")
    engine = make_engine(projections())
    await engine.run_until_caught_up(timeout=100)
    for which in ("turns", "state_variables"):
        known = await told_values(pool)
        await engine.pause(which)
        await append(store, name, [effect("TurnStarted"), change("Ann", "/gold", 1), effect("TurnEnded")])
        await engine.run_until_caught_up(timeout=100)
        assert await told_values(pool) == known
        await engine.resume(which)
        await engine.run_until_caught_up(timeout=100)
        assert await told_values(pool) == await expected_values(store, {name: "e"})


@pytest.mark.both_servers
async def test_the_longest_path_fits_and_a_longer_one_is_parked(store: Store, pool: Any, make_engine: Any) -> None:
    """An index takes what is allowed, however little it can be compressed; the error names what is too long."""
    random = Random(1)
    letters = [chr(code) for code in range(0x4E00, 0x9000)]  # three bytes each
    key = "".join(random.choices(letters, k=(MAX_KEY - len("Ann") - len("inventory.")) // 3))
    long_world, name = await make(store, "l" * 200), await make(store, "w")
    await append(store, long_world, [effect("TurnStarted"), change("Ann", f"/inventory/{key}", 1.5, "add")])
    head = await append(
        store, name, [effect("TurnStarted"), effect("TurnEnded"), change("Ann", f"/inventory/{key}xyz", 1.5, "add")]
    )
    engine = make_engine(projections())
    await engine.run_until_caught_up(timeout=100)
    found = await pool.fetch("select path, number from projections.state_variables where length(path) > 100")
    assert [tuple(row) for row in found] == [(f"inventory.{key}", 1.5)]
    (parked,) = await engine.parked("state_variables")
    assert (parked.world_id, parked.global_seq) == (name, head)
    assert "agent 'Ann' and the path 'inventory." in parked.error
    assert parked.error.endswith(f"bytes together; a row can have {MAX_KEY}")
    assert await pool.fetchval("select max(turn) from projections.turns where world_id = $1", name) == 1
    await assert_verified(engine, "turns", "reasoning")


WHERES = (
    "agent = 'Ann' and path = 'gold'",
    "agent = 'Ann' and starts_with(path, 'stats.')",
    "world_id = 'w1' and turn = 1",
)


@pytest.mark.both_servers
async def test_what_people_ask_for_is_found_by_an_index(
    store: Store, pool: Any, make_engine: Any, subtests: pytest.Subtests
) -> None:
    """A variable of an agent over all worlds, and what a turn changed, without reading everything."""
    await make(store, "w1")
    await make_engine(projections()).run_until_caught_up(timeout=100)
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("set local enable_seqscan = off")
        for where in WHERES:
            with subtests.test(where=where):
                (plan,) = await connection.fetchrow(
                    f"explain (format json) select * from projections.state_variables where {where}"
                )
                (condition,) = re.findall(r'"Index Cond": "(.*)"', plan)
                assert condition.count(" AND ") >= where.count(" and ")
