"""Turns, values and reasons of forks of simulations: what a fork has from before, row by row."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from worldledger_service.store import Store
from worldledger_service.store.forking import NewFork
from worldledger_simulation.projections import PROJECTIONS
from worldledger_simulation.projections.state_variables import StateVariables
from worldledger_simulation.projections.turns import Turns

from tests.markets import ENDED, FIRST, HEAD, SECOND, TURNS, change, effect, market
from worldledger.errors import MomentNotFoundError
from worldledger.genesis import NewWorld
from worldledger.moments import Moment

from .helpers import append, assert_same_places
from .simulations import Values, values_of, written
from .test_by_turn import happening, log_of

if TYPE_CHECKING:
    from worldledger_service.store.records import WorldRecord

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
    await make_engine(PROJECTIONS).run_until_caught_up(timeout=100)
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


@pytest.mark.usefixtures("forks")
async def test_reasons_of_the_running_turn(store: Store, pool: Any, make_engine: Any) -> None:
    """Reasoning recorded in a fork before its first turn starts belongs to the turn in which the fork was made."""
    await store.fork("market", Moment(seq=ENDED), NewFork(world_id="dear"))
    await append(store, "dear", [effect("ReasoningRecorded", "Ann", reasoning="dear")])
    await make_engine(PROJECTIONS).run_until_caught_up(timeout=100)
    query = "select turn, reasoning from analytics.reasoning_with_forks where world_id = 'dear' and not is_inherited"
    assert await _rows(pool, query) == [(1, "dear")]


class Tally:
    """The values of worlds after each of their effects, and at the end of each turn of their histories, by folding."""

    def __init__(self, store: Store, names: Iterable[str]) -> None:
        self._store = store
        self._names = names
        self.after: dict[tuple[str, int], Values] = {}
        self.turns: dict[tuple[str, int], tuple[str, Values]] = {}
        self.lines: dict[str, list[WorldRecord]] = {}

    async def fold(self) -> Tally:
        """Fold all of them."""
        for name in self._names:
            world, states = await self._store.world(name), self._store.states
            self.lines[name] = [*reversed(await states.line(world))]
            fold = await states.fold_at(name, 1)
            for each in (await log_of(self._store, name))[1:]:
                fold.apply(each)
                self.after[name, each["global_seq"]] = values_of(fold.state)
            for turn in count():
                try:
                    place, seq = await states.place_at(world, Moment(unit=("turn", turn)))
                except MomentNotFoundError:
                    break
                self.turns[name, turn] = place.world_id, values_of((await states.fold_at(place.world_id, seq)).state)
        return self

    async def unsure(self, name: str) -> set[tuple[str, str, int]]:
        """Return what may be missing of a fork: agents, their variables, or ``*``, and the turns from which on."""
        found = set()
        for older in self.lines[name][1:]:
            turn = (await self._store.states.fold_at(older.world_id, older.head_seq)).state.metadata["turn"]
            for each in (await log_of(self._store, older.world_id))[older.head_seq :]:
                if each["kind"] == "TurnStarted":
                    break
                agent = each["payload"].get("agent_id", each["source_id"])
                agent = "global" if each["kind"] == "GlobalStateChanged" else agent
                patch = each["payload"].get("patch", [])
                found |= {(agent, operation["path"].split("/")[1], turn) for operation in patch} or {(agent, "*", turn)}
        return found


async def _play(store: Store, name: str, random: Random, turns: int) -> None:
    """Let some turns of a market or of its fork go by, and leave it at any place in one."""
    head = (await store.world(name)).head_seq
    state = (await store.states.fold_at(name, head)).state
    present = {agent: agent in state.entities for agent in ("Ann", "Bea", "Cid")}
    is_open = state.metadata["simulation"]["open"]
    drafts = [happening(random, present) for _ in range(random.randint(1, 3))]
    for _ in range(turns):
        drafts += [*[effect("TurnEnded")] * is_open, effect("TurnStarted")]
        drafts += [happening(random, present) for _ in range(random.randrange(6))]
        is_open = random.random() < 0.5
        drafts += [effect("TurnEnded"), happening(random, present)] if not is_open else []
    await append(store, name, drafts)


async def test_values_in_each_turn_of_a_history(store: Store, pool: Any, make_engine: Any) -> None:
    """Of forks and forks of forks each value at a turn's end is right; what is unsure may have no place, or be missing.

    The tally folds each log and looks up the turns as moments. SQL finds them at the same places.
    """
    random = Random(3)
    forks = ["market"]
    config = market(simulation={"name": "market"})
    await store.create_world(NewWorld(world_id="market", ruleset="simulation", config=config))
    await _play(store, "market", random, 3)
    for number in range(7):
        parent = random.choice(forks)
        head = (await store.world(parent)).head_seq
        at = Moment(seq=random.randint(max(head // 2, 2), head))
        await store.fork(parent, at, NewFork(world_id=f"fork-{number}"))
        forks.append(f"fork-{number}")
        for name in random.sample(forks, 2):
            await _play(store, name, random, random.randrange(3))
    await assert_same_places(store, pool, "turn", most=8)
    await make_engine(PROJECTIONS, batch=20).run_until_caught_up(timeout=100)
    tally = await Tally(store, forks).fold()
    told: dict[tuple[str, int], dict[tuple[str, str], str]] = {place: {} for place in tally.turns}
    placeless = missing = 0
    for row in await pool.fetch("select *, value::text as text_of from analytics.state_variables_by_turn_with_forks"):
        world, turn, seq, line = row["world_id"], row["turn"], row["global_seq"], tally.lines[row["world_id"]]
        told[world, turn][row["agent"], row["path"]] = row["text_of"]
        place = line[row["generation"]].world_id
        assert (row["is_inherited"], row["inherited_from"] or world) == (row["generation"] > 0, place)
        assert line[row["turn_generation"]].world_id == tally.turns[world, turn][0]
        value = json.loads(row["text_of"])
        of_type = {float: row["number"], int: row["number"], str: row["text"], bool: row["is_true"]}
        assert of_type.get(type(value), value) == value
        assert sum(row[name] is not None for name in ("number", "text", "is_true")) == (type(value) in of_type)
        if seq is None:
            assert (row["since_turn"], row["is_inherited"]) == (None, True)
            placeless += 1
            continue
        was, is_now = (_by_path(tally.after.get((place, at), {})) for at in (seq - 1, seq))
        assert is_now[row["agent"], row["path"]] == row["text_of"]
        assert seq <= 2 or was.get((row["agent"], row["path"])) != row["text_of"]
    unsure = {name: await tally.unsure(name) for name in forks}
    for (world, turn), (_, values) in tally.turns.items():
        assert told[world, turn].items() <= _by_path(values).items()
        for agent, keys in values:
            if (agent, written(keys)) not in told[world, turn]:
                missing += 1
                assert any(each[:2] in {(agent, keys[0]), (agent, "*")} and turn >= each[2] for each in unsure[world])
    assert placeless
    assert 0 < missing < sum(map(len, told.values())) / 5


async def test_no_turn_of_a_fork_is_told_before_its_ancestors_values_are_known(
    store: Store, pool: Any, make_engine: Any
) -> None:
    """Whichever of the two projections has not come to the fork point yet."""
    await store.create_world(NewWorld(world_id="market", ruleset="simulation", config=market()))
    engine = make_engine([StateVariables(), Turns()])
    told = "select turn, number from analytics.state_variables_by_turn_with_forks "
    told += "where world_id = '{}' and agent = 'Ann' and path = 'gold' order by 1"
    for which, turn in (("turns", 1), ("state_variables", 2)):
        await engine.run_until_caught_up(timeout=100)
        before = await _rows(pool, told.format("market"))
        await engine.pause(which)
        await append(store, "market", [effect("TurnStarted"), change("Ann", "/gold", turn), effect("TurnEnded")])
        await store.fork("market", Moment(), NewFork(world_id=which))
        await append(store, which, [effect("TurnStarted"), change("Ann", "/mood", "angry")])
        await engine.run_until_caught_up(timeout=100)
        assert await _rows(pool, told.format(which)) == before
        await engine.resume(which)
        await engine.run_until_caught_up(timeout=100)
        assert await _rows(pool, told.format(which)) == [*before, (turn, turn), (turn + 1, turn)]


def _by_path(values: Values) -> dict[tuple[str, str], str]:
    return {(agent, written(keys)): text for (agent, keys), text in values.items()}
