"""Turns, values and reasons of forks of simulations: what a fork has from before, row by row."""

from __future__ import annotations

from typing import Any

import pytest
from worldledger_projections.registry import known
from worldledger_service.store import Store
from worldledger_service.store.forking import NewFork

from tests.markets import ENDED, FIRST, HEAD, SECOND, TURNS, change, effect, market
from worldledger.genesis import NewWorld
from worldledger.moments import Moment

from .helpers import append

#: Where the next turn begins in a fork: behind genesis, digest, three agents with the fork's noise, and a turn's end.
NEXT = 7
#: What is appended to each fork: its turn ends, and the next one begins.
ON = [effect("TurnEnded"), effect("TurnStarted"), change("Ann", "/gold", 50)]


@pytest.fixture
async def forks(store: Store, pool: Any, make_engine: Any) -> dict[str, int]:
    """Have a market and its forks by the seq that each goes on from: after a turn, within one, and at the head."""
    await store.create_world(NewWorld(world_id="market", ruleset="simulation", config=market()))
    reason = effect("ReasoningRecorded", "Ann", reasoning="cheap")
    assert await append(store, "market", [*TURNS, reason]) == HEAD + 1
    made = {"within": ENDED - 1, "after": ENDED, "later": HEAD + 1}
    for name, seq in made.items():
        await store.fork("market", Moment(seq=seq), NewFork(world_id=name))
    await append(store, "within", ON)
    await append(store, "later", ON)
    await make_engine([*known().values()]).run_until_caught_up(timeout=100)
    return made


async def _rows(pool: Any, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await pool.fetch(query)]


@pytest.mark.usefixtures("forks")
async def test_turns_that_were_over_are_inherited(pool: Any) -> None:
    """A turn that ended before the fork is its own, too; one that went on at the fork point is the parent's alone."""
    query = "select turn, started_seq, ended_seq, inherited_from from analytics.turns_with_forks where world_id = '{}' "
    query += "order by generation desc, turn"
    zero, first = (0, 2, None, "market"), (1, FIRST, ENDED, "market")
    assert await _rows(pool, query.format("after")) == [zero, first]
    assert await _rows(pool, query.format("within")) == [zero, (2, NEXT, None, None)]
    assert await _rows(pool, query.format("later")) == [zero, first, (3, NEXT, None, None)]
    assert await _rows(pool, "select turn from analytics.turns order by 1") == [(0,), (1,), (2,)]
    assert await _rows(pool, "select distinct world_id from analytics.turns") == [("market",)]
    assert SECOND > ENDED


async def test_values_and_reasons_up_to_the_fork_are_inherited(pool: Any, forks: dict[str, int]) -> None:
    """Each row of the parent is in the forks that were made after its effect, and in no others."""
    for view in ("state_variables", "reasoning"):
        columns = "turn, global_seq" if view == "reasoning" else "agent, path, turn, global_seq"
        parent = sorted(await _rows(pool, f"select {columns} from analytics.{view}"))
        assert parent
        for name, seq in forks.items():
            inherited = f"select {columns} from analytics.{view}_with_forks where world_id = '{name}' and is_inherited"
            assert sorted(await _rows(pool, inherited)) == [row for row in parent if row[-1] <= seq]
    own = "select world_id, path, number from analytics.state_variables_with_forks where not is_inherited and {} "
    assert await _rows(pool, own.format("world_id <> 'market'") + "order by 1") == [
        ("later", "gold", 50.0),
        ("within", "gold", 50.0),
    ]
    values = await pool.fetchval("select count(*) from analytics.state_variables_by_turn where world_id <> 'market'")
    assert values == 0
    with_forks = "select distinct world_id from analytics.state_variables_by_turn_with_forks order by 1"
    assert await _rows(pool, with_forks) == [("later",), ("market",), ("within",)]


@pytest.mark.usefixtures("forks")
async def test_reasons_of_the_running_turn(store: Store, pool: Any, make_engine: Any) -> None:
    """Reasoning recorded in a fork before its first turn starts belongs to the turn in which the fork was made."""
    await store.fork("market", Moment(seq=ENDED), NewFork(world_id="dear"))
    await append(store, "dear", [effect("ReasoningRecorded", "Ann", reasoning="dear")])
    await make_engine([*known().values()]).run_until_caught_up(timeout=100)
    query = "select turn, reasoning from analytics.reasoning_with_forks where world_id = 'dear' and not is_inherited"
    assert await _rows(pool, query) == [(1, "dear")]
