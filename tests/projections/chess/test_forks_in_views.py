"""Forks in the views that people ask: left out of totals, and with their whole history where they are asked for.

The tally reads the stored texts and follows the geneses itself.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import asyncpg
import pytest
from worldledger_projections.registry import known
from worldledger_service.database.engine import connect_pool
from worldledger_service.projecting.engine import Engine
from worldledger_service.store import Store
from worldledger_service.store.forking import NewFork

from tests.cli.chess.games import moved, posted, rejected, started
from tests.conftest import Servers, quick_settings
from tests.projections.conftest import QUICK
from tests.projections.helpers import append, assert_same_places, said, thing
from tests.store.helpers import guards_down
from worldledger.effects import EffectDraft, own_draft
from worldledger.genesis import NewWorld
from worldledger.moments import Moment

#: A fork's name, its parent, the seq that it goes on from, and what is appended to it.
FORKS: tuple[tuple[str, str, int, list[EffectDraft]], ...] = (
    ("town-1", "town", 3, [said(7), thing(8)]),
    ("town-2", "town-1", 4, [said(9)]),
    ("town-3", "town-2", 3, []),
    ("town-4", "town", 6, [thing(8), said(3), said(4)]),
    ("cup-1", "cup", 5, [moved("a7a6"), posted("GameEnded", status="resigned", result="white_wins",
                                               reason="resignation")]),
    ("cup-2", "cup-1", 3, [moved("f1c4"), moved("g8f6")]),
)  # fmt: skip


class Told(NamedTuple):
    """An effect as it is stored."""

    seq: int
    kind: str
    source: str
    time: float


class Tally:
    """What the stored texts say: the effects of each world, and where forks begin."""

    def __init__(self, texts: list[tuple[str, str]]) -> None:
        self.logs: dict[str, list[Told]] = {}
        self.parents: dict[str, tuple[str, int]] = {}
        for world, text in texts:
            effect = json.loads(text)
            told = Told(effect["global_seq"], effect["kind"], effect["source_id"], effect["sim_time"])
            self.logs.setdefault(world, []).append(told)
            origin = effect["payload"].get("fork_of") if told.seq == 1 else None
            if origin:
                self.parents[world] = origin["world_id"], origin["global_seq"]

    def history(self, world: str) -> Iterator[tuple[int, str | None, Told]]:
        """Return the world's effects and those of its ancestors, each with its generation and the ancestor."""
        yield from ((0, None, told) for told in self.logs[world])
        name, generation = world, 0
        while name in self.parents:
            name, until = self.parents[name]
            generation += 1
            yield from ((generation, name, told) for told in self.logs[name] if told.seq <= until)

    def roots(self) -> list[str]:
        """Return the worlds that are no forks."""
        return [world for world in self.logs if world not in self.parents]


@pytest.fixture(scope="module")
def forked(servers: Servers, server_kind: str) -> Iterator[str]:
    """Return the address of a database with worlds of two kinds, their forks, and forks of forks, all of them fed."""
    url = servers.create(server_kind, servers.template(server_kind))

    async def fill() -> None:
        async with Store.open(url, quick_settings()) as store:
            await _make(store)
            pool = await connect_pool(url, min_size=1, max_size=4)
            engine = Engine(pool, store.reader, store.states, [*known().values()], **QUICK)
            await engine.run_until_caught_up(timeout=100)
            await pool.close()

    asyncio.run(fill())
    yield url
    servers.drop(server_kind, url)


@pytest.fixture
def database_url(servers: Servers, server_kind: str, forked: str) -> Iterator[str]:
    """Return the address of a test's own copy of it."""
    url = servers.create(server_kind, urlsplit(forked).path[1:])
    yield url
    servers.drop(server_kind, url)


async def _make(store: Store) -> None:
    await store.create_world(NewWorld(world_id="town", experiment="towns"))
    await append(store, "town", [thing(0), said(1), thing(1), said(2), thing(2), said(5)])
    await store.create_world(NewWorld(world_id="village"))
    await append(store, "village", [said(1)])
    await store.create_world(NewWorld(world_id="cup", ruleset="chess", experiment="cups"))
    moves = [moved(uci) for uci in ("e2e4", "e7e5", "g1f3", "b8c6", "f1c4")]
    end = posted("GameEnded", status="resigned", result="black_wins", reason="resignation")
    await append(store, "cup", [started(white="Ann", black="Bo"), *moves, end])
    for name, parent, seq, drafts in FORKS:
        await store.fork(parent, Moment(seq=seq), NewFork(world_id=name))
        if drafts:
            await append(store, name, drafts)


@pytest.fixture
async def tally(pool: Any) -> Tally:
    """Return what the logs say."""
    rows = await pool.fetch("select world_id, effect::text from effects order by world_id, global_seq")
    return Tally([tuple(row) for row in rows])


async def _rows(pool: Any, query: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, await pool.fetch(query)))


@pytest.mark.both_servers
async def test_totals_leave_forks_out(pool: Any, tally: Tally) -> None:
    """Effects, intents of kinds and experiments count what is in worlds that are no forks, as the tally has it."""
    roots = tally.roots()
    assert sorted(roots) == ["cup", "town", "village"]
    counts = Counter((told.kind, told.source) for world in roots for told in tally.logs[world])
    assert await _rows(pool, "select kind, source_id, count(*) from analytics.effects group by 1, 2") == sorted(
        (*key, count) for key, count in counts.items()
    )
    for kind, view in (("MoveMade", "move_made"), ("StateDigest", "state_digest"), ("WorldCreated", "world_created")):
        wanted = sum(count for (each, _), count in counts.items() if each == kind)
        assert await pool.fetchval(f"select count(*) from analytics.{view}") == wanted
    assert await _rows(pool, "select experiment, worlds, effects from analytics.experiments") == [
        ("cups", 1, len(tally.logs["cup"])),
        ("towns", 1, len(tally.logs["town"])),
    ]
    of_forks = {name: [w for w in tally.logs if w.startswith(name[:-1])] for name in ("cups", "towns")}
    assert await _rows(pool, "select experiment, worlds, effects from analytics.experiments_with_forks") == [
        (name, len(worlds), sum(len(tally.logs[world]) for world in worlds)) for name, worlds in of_forks.items()
    ]


@pytest.mark.both_servers
async def test_a_history_ends_at_any_moment(pool: Any, tally: Tally) -> None:
    """The guest has a world's line up to a seq of its own or of an ancestor, or a time, in order; of others nothing."""
    query = "select coalesce(inherited_from, ''), global_seq, kind, generation, place, world_id"
    query += " from analytics.history({}) order by place"
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("set local role worldledger_guest")
        for world in tally.logs:
            line = sorted(tally.history(world), key=lambda each: (-each[0], each[2].seq))
            rows = [
                (name or "", told.seq, told.kind, generation, place, world)
                for place, (generation, name, told) in enumerate(line, 1)
            ]
            assert [*map(tuple, await connection.fetch(query.format("$1"), world))] == rows
            for place, (_, name, told) in enumerate(line, 1):
                call = "$1, $2" if name is None else "$1, $2, $3"
                given = (world, told.seq, *([] if name is None else [name]))
                assert [*map(tuple, await connection.fetch(query.format(call), *given))] == rows[:place]
            for time in {told.time for _, _, told in line}:
                found = await connection.fetch(query.format("$1, until_sim_time_s => $2"), world, time)
                assert [*map(tuple, found)] == rows[: sum(told.time <= time for _, _, told in line)]
        for world, moment in (("cup-2", "ply:2"), ("cup-2", "ply:5"), ("town-3", "step:2"), ("town-4", "parent:4")):
            place = await connection.fetchrow("select * from analytics.place_at($1, $2)", world, moment)
            rows = await connection.fetch(query.format("$1, until => $2"), world, moment)
            assert (rows[-1]["coalesce"] or world, rows[-1]["global_seq"]) == tuple(place)
            whole = await connection.fetch(query.format("$1"), world)
            assert rows == whole[: len(rows)] != whole
        assert await connection.fetch(query.format("$1, until => 'head'"), "nowhere") == []
        for given in (("nowhere",), ("town", 3, "town-1"), ("town-1", 3, "cup")):
            call = ", ".join(f"${n}" for n in range(1, len(given) + 1))
            assert await connection.fetch(query.format(call), *given) == []


@pytest.mark.both_servers
async def test_moments_in_sql_are_those_of_the_store(store: Store, pool: Any) -> None:
    """Place_at finds every moment of a history where the store does; what is none, or cannot be asked for, is told."""
    await assert_same_places(store, pool, "ply")
    for world, moment, told in (
        ("town", "noon", "'noon' is no moment: give seq:N"),
        ("town", "sim:soon", "is no moment"),
        ("town", "2026-01-31T12:00:00", "is no moment"),
        ("town", "9999999999999999999", "is no moment"),
        ("cup", "move:1", "the number of a move is no field of an effect"),
    ):
        with pytest.raises(asyncpg.InvalidParameterValueError, match=told):
            await pool.fetch("select * from analytics.place_at($1, $2)", world, moment)
    for world, moment, told in (
        ("town", "turn:1", "world town has no turn 1; worlds of sandbox have no such unit"),
        ("town", "parent:1", "world town is no fork"),
        ("town-1", "parent:99", "seq 99 of town is not in the history of town-1: they share its effects up to seq "),
        ("town-1", "seq:99", "world town-1 has no seq 99; its head is "),
        ("cup-1", "ply:99", "world cup-1 has no ply 99"),
    ):
        with pytest.raises(asyncpg.NoDataFoundError, match=told):
            await pool.fetch("select * from analytics.place_at($1, $2)", world, moment)


@pytest.mark.both_servers
async def test_a_view_with_forks_has_each_history_whole(pool: Any, tally: Tally) -> None:
    """Each world has its own effects and its ancestors' up to the fork points, marked; lineage says the same."""
    wanted = sorted(
        (world, generation, generation > 0, ancestor or "", told.seq, told.kind)
        for world in tally.logs
        for generation, ancestor, told in tally.history(world)
    )
    query = "select world_id, generation, is_inherited, coalesce(inherited_from, ''), global_seq, kind"
    assert await _rows(pool, f"{query} from analytics.effects_with_forks") == wanted
    for world in ("town-3", "cup-2", "town"):
        of_world = [row for row in wanted if row[0] == world]
        assert await _rows(pool, f"{query} from analytics.effects_with_forks where world_id = '{world}'") == of_world
    joined = (
        "select l.world_id, l.generation, e.global_seq from analytics.lineage l "
        "join public.effects e on e.world_id = l.ancestor and e.global_seq <= coalesce(l.until_seq, e.global_seq)"
    )
    assert await _rows(pool, joined) == sorted((row[0], row[1], row[4]) for row in wanted)
    assert await _rows(pool, "select world_id, parent, parent_seq, depth from analytics.forks") == sorted(
        (world, *origin, max(generation for generation, _, _ in tally.history(world)))
        for world, origin in tally.parents.items()
    )


async def test_snapshots_leave_forks_out_and_have_them(pool: Any, tally: Tally) -> None:
    """As any view over places of logs: without forks those of other worlds, with forks each history's, marked."""
    taken = set(await _rows(pool, "select world_id, global_seq from public.snapshots"))
    history = [
        (world, generation, ancestor or "", told.seq)
        for world in tally.logs
        for generation, ancestor, told in tally.history(world)
        if (ancestor or world, told.seq) in taken
    ]
    query = "select world_id, generation, coalesce(inherited_from, ''), global_seq from analytics.snapshots_with_forks"
    assert await _rows(pool, query) == sorted(history)
    assert ("town-2", 1, "town-1", 1) in history
    roots = sorted((world, seq) for world, seq in taken if world in tally.roots())
    assert await _rows(pool, "select world_id, global_seq from analytics.snapshots") == roots


@pytest.mark.both_servers
async def test_tables_of_a_kind_leave_forks_out_and_have_them(pool: Any, tally: Tally) -> None:
    """Games, moves and statistics of forks are in the views with forks alone; moves with those that they inherit."""
    games = [world for world in tally.logs if world.startswith("cup")]
    made = {
        world: [(world, ancestor or "", told.seq) for _, ancestor, told in tally.history(world)
                if told.kind == "MoveMade"]
        for world in games
    }  # fmt: skip
    query = "select world_id, coalesce({}, ''), global_seq from analytics.{}"
    assert await _rows(pool, query.format("''", "moves")) == sorted(made["cup"])
    assert await _rows(pool, query.format("inherited_from", "moves_with_forks")) == sorted(
        place for moves in made.values() for place in moves
    )
    assert {len(moves) for moves in made.values()} == {4, 5, 6}
    assert await _rows(pool, "select world_id from analytics.games") == [("cup",)]
    assert await _rows(pool, "select world_id from analytics.games_with_forks") == sorted((name,) for name in games)
    own = Counter({world: sum(not place[1] for place in moves) for world, moves in made.items()})
    stats = "select world_id, sum(total_moves)::bigint from analytics.agent_stats{} group by 1"
    assert await _rows(pool, stats.format("")) == [("cup", own["cup"])]
    assert await _rows(pool, stats.format("_with_forks")) == sorted(own.items())
    totals = "select sum(total_moves)::bigint from projections.agent_totals{}"
    assert await pool.fetchval(totals.format("")) == own["cup"]
    assert await pool.fetchval(totals.format("_with_forks")) == own.total()
    done = "select effects from projections.agent_directory{} where agent_id = 'a1'"
    by_a1 = {world: sum(told.source == "a1" for told in log) for world, log in tally.logs.items()}
    assert await pool.fetchval(done.format("")) == sum(by_a1[world] for world in tally.roots())
    assert await pool.fetchval(done.format("_with_forks")) == sum(by_a1.values())
    assert await pool.fetchval("select count(*) from analytics.entities where world_id like 'town-%'") == 0
    assert await pool.fetchval("select count(*) from analytics.entities_with_forks where world_id = 'town-3'") > 0


async def test_players_of_a_fork_keep_their_colours(pool: Any, tally: Tally) -> None:
    """They are agents of the fork from its genesis on, with role and name, though no GameStarted is in its log."""
    query = "select agent_id, role, name, effects, first_seq from analytics.agents_with_forks where world_id = $1"
    assert not any(told.kind == "GameStarted" for told in tally.logs["cup-2"])
    for world, seq in (("cup-1", 1), ("cup-2", 1), ("cup", 2)):
        rows = await pool.fetch(f"{query} and role is not null order by 1", world)
        assert [tuple(row) for row in rows] == [("ana", "white", "Ann", 0, seq), ("bo", "black", "Bo", 0, seq)]


async def test_another_world_of_the_parents_name_is_no_ancestor(pool: Any, database_url: str, tally: Tally) -> None:
    """Only the world whose uuid a fork's genesis names gives it effects, whatever else has that name."""
    assert tally.parents["town-2"] == ("town-1", 4)
    ancestors = "select ancestor from analytics.lineage where world_id = 'town-2' order by generation"
    assert [row[0] for row in await pool.fetch(ancestors)] == ["town-2", "town-1", "town"]
    async with guards_down(database_url) as connection:
        await connection.execute("update worlds set world_uuid = gen_random_uuid() where world_id = 'town'")
    assert [row[0] for row in await pool.fetch(ancestors)] == ["town-2", "town-1"]
    inherited = "select distinct inherited_from from analytics.effects_with_forks where world_id = 'town-2'"
    assert await _rows(pool, f"{inherited} and is_inherited") == [("town-1",)]


async def test_players_of_a_game_that_is_played_on(store: Store, pool: Any, make_engine: Any) -> None:
    """Where a fork has players of its own, those of before the fork are none of its agents, unless they act in it."""
    await store.fork("cup", Moment(seq=4), NewFork(world_id="cup-3"))
    board = (await store.states.state_at("cup", 4)).state.entities["board"]
    payload = {"agents": {"white": "cleo", "black": "bo"}, "white": "Cleo", "ply": board["ply"], "fen": board["fen"]}
    acted: EffectDraft = {**rejected("e2e5"), "source_id": "ana"}
    await append(store, "cup-3", [acted])
    await (await store.log("cup-3")).append_all([own_draft("GameContinued", payload)], system=True)
    await make_engine([*known().values()]).run_until_caught_up(timeout=100)
    query = "select agent_id, role, effects from analytics.agents_with_forks where world_id = 'cup-3'"
    assert await _rows(pool, query) == [("ana", None, 1), ("bo", "black", 0), ("cleo", "white", 0)]
