"""Verification finds what a superuser did to the tables, and names the right seq."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import pytest_asyncio
from worldledger_service.store import EventLog, Store
from worldledger_service.store.authority import authority_at
from worldledger_service.store.forking import NewFork
from worldledger_service.store.lineage import check_inherited
from worldledger_service.store.records import WorldRecord
from worldledger_service.store.transfer import export_world
from worldledger_service.store.verification import every_world, verify_world

from tests.rules.chains import chained
from worldledger.chain import ORIGIN, Position, Verdict
from worldledger.errors import TamperedError, WorldNotFoundError
from worldledger.genesis import NewWorld
from worldledger.moments import Moment

from .helpers import draft, guards_down

if TYPE_CHECKING:
    from .helpers import Connection

COUNT = 9


@pytest_asyncio.fixture(loop_scope="session")
async def intruder(database_url: str) -> AsyncIterator[Connection]:
    """Return a superuser's connection, with the guards taken away until the test is over."""
    async with guards_down(database_url) as connection:
        yield connection


@pytest_asyncio.fixture(loop_scope="session")
async def world(store: Store, world_id: str) -> WorldRecord:
    """Return a world of nine effects, with the neighbour it is attacked from: its name and ``.v``."""
    return await _make(store, world_id)


async def _make(store: Store, world_id: str) -> WorldRecord:
    for name in (world_id, f"{world_id}.v"):
        await store.create_world(
            NewWorld(world_id=name, time_authority="client", config={"size": 8, "on": True}, experiment="e")
        )
        log = await store.log(name)
        await log.append_all([draft(n, kind=f"K{n % 2}", sim_time=n / 4, req_id=f"r{n}") for n in range(2, COUNT + 1)])
    return await store.world(world_id)


async def _positions(store: Store, world_id: str) -> list[Position]:
    rows = [row async for batch in store.reader.batches(world_id) for row in batch]
    return [ORIGIN, *(Position(row.global_seq, row.checksum) for row in rows)]


async def _verify(store: Store, world_id: str, *, start: Position = ORIGIN, noted: Sequence[Position] = ()) -> Verdict:
    return await verify_world(store.reader, world_id, start=start, noted=noted)


_EDIT = "update effects set effect = replace(effect::text, '\"n\":5', '\"n\":55')::json where {w} and global_seq = 5"
_SWAP = """
    update effects e set {columns} from effects o
    where e.world_id = '{world}' and o.world_id = '{world}' and (e.global_seq, o.global_seq) in ((4, 6), (6, 4))
"""
_SHIFT_UP = "update effects set global_seq = global_seq + {by} where {w} and global_seq >= {start}"
_COPY = """
    insert into effects select world_id, {to}, effect, checksum, kind, source_id, sim_time
    from effects where {w} and global_seq = {seq}
"""
_TO_HEAD = """
    update heads h set head_seq = e.global_seq, head_checksum = e.checksum, sim_time = e.sim_time,
                       wall_time = (e.effect ->> 'wall_time')::float8
    from effects e where h.world_id = '{world}' and e.world_id = '{world}' and e.global_seq = {seq}
"""
_DIGESTS = """
    update requests q set body_sha256 = effect_body_sha256(e.effect) from effects e
    where q.world_id = $1 and e.world_id = q.world_id and e.global_seq = q.first_seq
"""
_WORLD = "update worlds set {change} where {w}"
_HEAD = "update heads set {change} where {w}"
_ROW = "update effects set {change} where {w} and global_seq = 5"

ATTACKS: dict[str, tuple[list[str], int, str]] = {
    "a value is changed": ([_EDIT], 5, "checksum differs"),
    "a text is spelt otherwise": ([_ROW.format(change="effect = (' ' || effect::text)::json", w="{w}")], 5, "checksum"),
    "a checksum is changed": ([_ROW.format(change="checksum = sha256('')", w="{w}")], 5, "checksum differs"),
    "the column kind is changed": ([_ROW.format(change="kind = 'Other'", w="{w}")], 5, "column kind is 'Other'"),
    "the column source_id is changed": ([_ROW.format(change="source_id = 'x'", w="{w}")], 5, "column source_id is 'x'"),
    "the column sim_time is changed": ([_ROW.format(change="sim_time = 1.26", w="{w}")], 5, "column sim_time is 1.26"),
    "the column sim_time is no number": (
        [_ROW.format(change="sim_time = 'NaN'", w="{w}")],
        5,
        "column sim_time is nan",
    ),
    "the column world_id is changed": ([_ROW.format(change="world_id = '{world}.x'", w="{w}")], 5, "missing"),
    "an effect is deleted": (["delete from effects where {w} and global_seq = 5"], 5, "missing"),
    "the genesis is deleted": (["delete from effects where {w} and global_seq = 1"], 1, "missing"),
    "the last effect is deleted": (["delete from effects where {w} and global_seq = 9"], 9, "the head names seq 9"),
    "all effects are deleted": (["delete from effects where {w}"], 1, "the head names seq 9, the log ends at seq 0"),
    "all is deleted and the head put back": (
        ["delete from effects where {w}", _HEAD.format(change="head_seq = 0, head_checksum = null", w="{w}")],
        1,
        "head_checksum is NULL in this world's row of the table heads; give it that of the last effect",
    ),
    "two texts change places": ([_SWAP.replace("{columns}", "effect = o.effect")], 4, "checksum differs"),
    "two effects change places": (
        [_SWAP.replace("{columns}", "effect = o.effect, checksum = o.checksum, sim_time = o.sim_time")],
        4,
        "checksum differs",
    ),
    "an effect is inserted": (
        [
            _SHIFT_UP.format(by=1000, start=6, w="{w}"),
            _SHIFT_UP.format(by=-999, start=1000, w="{w}"),
            _COPY.format(seq=7, to=6, w="{w}"),
        ],
        7,
        "checksum differs",
    ),
    "an effect is added behind the head": (
        [_COPY.format(seq=9, to=10, w="{w}")],
        10,
        "goes on beyond its head",
    ),
    "an effect is added far behind the head": ([_SHIFT_UP.format(by=991, start=9, w="{w}")], 9, "the head names seq 9"),
    "an effect is renumbered": (
        ["update effects set global_seq = 100 where {w} and global_seq = 5"],
        5,
        "missing: the next effect in the log is seq 6",
    ),
    "an effect is deleted and the rest renumbered": (
        [
            "delete from effects where {w} and global_seq = 5",
            _SHIFT_UP.format(by=1000, start=6, w="{w}"),
            _SHIFT_UP.format(by=-1001, start=1000, w="{w}"),
        ],
        5,
        "checksum differs",
    ),
    "another world's effect stands in its place": (
        [
            "delete from effects where {w} and global_seq = 5",
            "update effects set world_id = '{world}' where world_id = '{world}.v' and global_seq = 5",
        ],
        5,
        "checksum differs",
    ),
    "the tail is cut off": (["delete from effects where {w} and global_seq > 6"], 7, "the head names seq 9"),
    "the head is put back": ([_TO_HEAD.replace("{seq}", "6")], 7, "goes on beyond its head (seq 6)"),
    "the head is put forward": ([_HEAD.format(change="head_seq = 12", w="{w}")], 10, "the head names seq 12"),
    "the head's checksum is changed": (
        [_HEAD.format(change="head_checksum = sha256('')", w="{w}")],
        9,
        "the head's checksum",
    ),
    "the head's sim_time is changed": (
        [_HEAD.format(change="sim_time = 99", w="{w}")],
        9,
        "the head's sim_time is 99.0",
    ),
    "the head's wall_time is changed": (
        [_HEAD.format(change="wall_time = 99", w="{w}")],
        9,
        "the head's wall_time is 99.0",
    ),
    "the world's row is deleted": (["delete from worlds where {w}"], 1, "missing from the table worlds"),
    "the head's row is deleted": (["delete from heads where {w}"], 1, "missing from the table heads"),
    **{
        f"the world's {change.split()[0]} is changed": (
            [_WORLD.format(change=change, w="{w}")],
            1,
            f"column {change.split()[0]}",
        )
        for change in (
            "world_uuid = gen_random_uuid()",
            "ruleset = 'chess'",
            "ruleset_version = 9",
            "experiment = null",
            "time_authority = 'wall'",
            """config = '{{"on":true,"size":9}}'""",
        )
    },
    "the world's config is spelt otherwise": (
        [_WORLD.format(change="""config = '{{ "on":true,"size":8}}'""", w="{w}")],
        1,
        "column config",
    ),
    "the world's config is changed to what Python calls equal": (
        [_WORLD.format(change="""config = '{{"on":1,"size":8.0}}'""", w="{w}")],
        1,
        "column config",
    ),
}


async def test_finds_what_was_done(
    store: Store, world_id: str, intruder: Connection, subtests: pytest.Subtests
) -> None:
    """Whatever was done to a world's rows, its verification says so and names the first seq concerned."""
    for number, (attack, (statements, seq, what)) in enumerate(ATTACKS.items()):
        with subtests.test(attack=attack):
            name = (await _make(store, f"{world_id}.{number}")).world_id
            assert (await _verify(store, name)).verified
            for statement in statements:
                await intruder.execute(statement.format(world=name, w=f"world_id = '{name}'"))
            verdict = await _verify(store, name)
            assert verdict.finding is not None
            assert (verdict.finding.world_id, verdict.finding.global_seq) == (name, seq), verdict.finding
            assert what in verdict.finding.what


async def _recompute(
    intruder: Connection, world_id: str, start: int, fields: dict[str, Any] | None = None, **payload: Any
) -> None:
    """Change the effect at ``start`` and compute all that follows, head and requests, as an able forger does."""
    rows = await intruder.fetch("select * from effects where world_id = $1 order by global_seq", world_id)
    loaded = [orjson.loads(row["effect"]) for row in rows[start - 1 :]]
    loaded[0] |= fields or {}
    loaded[0]["payload"] |= payload
    for row in chained(loaded, rows[start - 2]["checksum"].hex() if start > 1 else None):
        await intruder.execute(
            "update effects set effect = $3::text::json, checksum = $4, kind = $5, sim_time = $6 "
            "where world_id = $1 and global_seq = $2",
            *(world_id, row.global_seq, row.text.decode(), row.checksum, row.kind, row.sim_time),
        )
    await intruder.execute(_TO_HEAD.format(world=world_id, seq=len(rows)))
    await intruder.execute(_DIGESTS, world_id)


async def test_a_genesis_that_makes_no_world_is_found(
    store: Store, world_id: str, intruder: Connection, subtests: pytest.Subtests
) -> None:
    """Where all is recomputed after a genesis was changed, verify and export still refuse what makes no world."""
    changes: list[tuple[str, Any]] = [
        ("order", "weird"),
        ("orchestrator", 5),
        ("orchestrator", {"max_agents": 0}),
        ("parent", 5),
        ("snapshot_every", 1),
        ("snapshot_every", "5"),
        ("time_zero", "x"),
        ("time_authority", ""),
        ("time_authority", "worldledger"),
    ]
    for number, (name, value) in enumerate(changes):
        with subtests.test(name=name, value=value):
            forged = (await _make(store, f"{world_id}.g{number}")).world_id
            if name == "time_authority":
                await intruder.execute("update worlds set time_authority = $2 where world_id = $1", forged, value)
            await _recompute(intruder, forged, 1, **{name: value})
            verdict = await _verify(store, forged)
            assert verdict.finding is not None
            assert verdict.finding.global_seq == 1
            assert name in verdict.finding.what
            with pytest.raises(TamperedError, match=name):
                await export_world(store.reader, await store.world(forged), lambda _: None)


#: What is changed in a fork at seq 5, at which of its effects, and what verify says, and the view, which sees less.
_REFUTED: dict[str, tuple[int, dict[str, Any], str, str | None]] = {
    "sim_time goes back": (1, {"fields": {"sim_time": 1.0}}, "$.sim_time: 1.0 in the fork", "sim_time"),
    "it is deeper": (1, {"depth": 5}, "$.payload.fork_of.depth: 5 in the fork", "depth"),
    "an offset": (1, {"time_offset": 5.0}, "$.payload.fork_of.time_offset: 5.0 in the fork", None),
    "it has fallen silent": (1, {"silence": "no_tick"}, "$.payload.fork_of.silence: 'no_tick' in the fork", None),
    "without its digest": (2, {"fields": {"kind": "K0"}}, "$.kind: the second effect of a fork", "effect 2 of a fork"),
}


async def test_a_fork_that_its_parent_refutes_is_found(
    store: Store, world: WorldRecord, intruder: Connection, subtests: pytest.Subtests
) -> None:
    """Where a fork's beginning was changed and all recomputed, verify, export and the view find what they can see."""
    viewed = "select verified, problem from verification where world_id = $1"
    for number, (what, (seq, changed, said, seen)) in enumerate(_REFUTED.items()):
        with subtests.test(what=what):
            fork, _ = await store.fork(world.world_id, Moment(seq=5), NewFork(world_id=f"{world.world_id}.f{number}"))
            name = fork.world_id
            assert (await _verify(store, name)).verified
            assert tuple(await intruder.fetchrow(viewed, name) or ()) == (True, None)
            point = orjson.loads((await store.reader.effect(name, 1)).text)["payload"]["fork_of"]
            await _recompute(intruder, name, seq, **changed if "fields" in changed else {"fork_of": point | changed})
            verdict = await _verify(store, name)
            assert verdict.finding is not None
            assert (verdict.finding.world_id, verdict.finding.global_seq) == (name, seq)
            assert verdict.finding.what.startswith(said)
            with pytest.raises(TamperedError):
                await check_inherited(store.reader, name)
                await export_world(store.reader, await store.world(name), lambda _: None)
            row = await intruder.fetchrow(viewed, name)
            assert row is not None
            assert row["verified"] is (seen is None)
            assert seen is None or seen in row["problem"]


async def test_a_fork_cut_off_after_its_genesis_is_found(
    store: Store, world: WorldRecord, intruder: Connection
) -> None:
    """A fork of which the genesis alone is left, head and all, lacks the digest of the state that it begins with."""
    fork, _ = await store.fork(world.world_id, Moment(seq=5), NewFork(world_id=f"{world.world_id}.cut"))
    for table, column in (("effects", "global_seq"), ("requests", "last_seq")):
        await intruder.execute(f"delete from {table} where world_id = $1 and {column} > 1", fork.world_id)
    await intruder.execute(_TO_HEAD.format(world=fork.world_id, seq=1))
    finding = (await _verify(store, fork.world_id)).finding
    assert finding is not None
    assert (finding.global_seq, finding.what.split(":")[0]) == (2, "missing")


@pytest.mark.parametrize("seq", [1, 5, *(pytest.param(n, marks=pytest.mark.thorough) for n in (2, 9))])
async def test_a_recomputed_chain_is_found_with_a_noted_head(
    store: Store, world: WorldRecord, intruder: Connection, seq: int
) -> None:
    """A chain recomputed from some seq on, head and all, is found by whoever noted a position from there on."""
    honest = await _positions(store, world.world_id)
    await _recompute(intruder, world.world_id, seq, snapshot_every=7)
    assert (await _verify(store, world.world_id)).verified
    for noted in honest[1:]:
        verdict = await _verify(store, world.world_id, noted=[noted])
        assert verdict.verified is (noted.global_seq < seq)
        assert verdict.finding is None or verdict.finding.global_seq == noted.global_seq
    verdict = await _verify(store, world.world_id, start=honest[seq - 1], noted=honest[seq:])
    assert verdict.finding is not None
    assert verdict.finding.global_seq == seq


async def test_a_tail_cut_off_with_its_head_is_found_with_a_noted_head(
    store: Store, world: WorldRecord, intruder: Connection
) -> None:
    """A tail cut off with the head put back to match is found by whoever noted a later position."""
    honest = await _positions(store, world.world_id)
    await intruder.execute("delete from effects where world_id = $1 and global_seq > 6", world.world_id)
    await intruder.execute("delete from requests where world_id = $1 and last_seq > 6", world.world_id)
    await intruder.execute(_TO_HEAD.format(world=world.world_id, seq=6))
    assert (await _verify(store, world.world_id)).verified
    assert (await _verify(store, world.world_id, noted=honest[1:7])).verified
    for noted in honest[7:]:
        verdict = await _verify(store, world.world_id, noted=[noted])
        assert verdict.finding is not None
        assert verdict.finding.global_seq == 7


async def test_a_check_can_begin_anywhere(store: Store, world: WorldRecord, intruder: Connection) -> None:
    """From a trusted position on only what comes after it is looked at, and found."""
    honest = await _positions(store, world.world_id)
    for start in range(COUNT + 1):
        verdict = await _verify(store, world.world_id, start=honest[start])
        assert (verdict.verified, verdict.effects, verdict.position) == (True, COUNT - start, honest[-1])
    await intruder.execute(_EDIT.format(w=f"world_id = '{world.world_id}'"))
    for start in range(COUNT + 1):
        verdict = await _verify(store, world.world_id, start=honest[start])
        assert verdict.verified is (start >= 5)
        assert verdict.finding is None or verdict.finding.global_seq == 5


async def test_a_start_beyond_the_head_is_found(store: Store, world: WorldRecord) -> None:
    """A position that the log does not reach is a finding, and a wrong one at the head too."""
    for start in (Position(COUNT + 3, bytes(32)), Position(COUNT, bytes(32))):
        verdict = await _verify(store, world.world_id, start=start)
        assert verdict.finding is not None
        assert verdict.finding.global_seq in {COUNT, COUNT + 1}


async def test_what_a_check_is_told_as_it_goes(store: Store, log: EventLog) -> None:
    """A long check tells its progress, and writing goes on meanwhile without disturbing it."""
    await store.bulk_append(log.world_id, (draft(n) for n in range(2500)))
    told: list[tuple[int, int]] = []
    verdict = await verify_world(store.reader, log.world_id, progress=lambda done, total: told.append((done, total)))
    assert verdict.verified
    assert told[-1] == (2501, 2501)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


async def test_the_log_s_validation_says_no(world: WorldRecord, store: Store, intruder: Connection) -> None:
    """EventLog.validate_integrity is true for an honest log and false for one that was changed."""
    log = await store.log(world.world_id)
    assert await log.validate_integrity()
    await intruder.execute(_EDIT.format(w=f"world_id = '{world.world_id}'"))
    assert not await log.validate_integrity()


async def test_orphans_are_found_through_their_names(store: Store, world: WorldRecord, intruder: Connection) -> None:
    """Effects whose world and head were deleted are found by their name, as are a head without effects, and a mark."""
    name = world.world_id
    await intruder.execute("delete from worlds where world_id = any($1)", [name, f"{name}.v"])
    await intruder.execute("delete from heads where world_id = $1", name)
    await intruder.execute("delete from effects where world_id = $1", f"{name}.v")
    await intruder.execute("insert into prefixes values ($1)", f"{name}.mark")
    names = {found async for found in every_world(store.reader)}
    orphans = {name, f"{name}.v", f"{name}.mark"}
    assert orphans <= names
    for orphan in orphans:
        verdict = await _verify(store, orphan)
        assert verdict.finding is not None
        assert (verdict.finding.global_seq, "missing from the table worlds" in verdict.finding.what) == (1, True)


@pytest.mark.parametrize("escape", ["\\u0000", "\\ud800"])
async def test_a_text_that_postgresql_cannot_read_is_a_finding_of_its_world(
    store: Store, world: WorldRecord, intruder: Connection, escape: str
) -> None:
    """Whatever reads many worlds goes on without it; what reads this one names the effect, as tampered with."""
    name, other = world.world_id, f"{world.world_id}.v"
    fork, _ = await store.fork(other, Moment(seq=5), NewFork(world_id=f"{name}.f"))
    for seq in (1, 5):
        place = "where world_id = $1 and global_seq = $2"
        said = await intruder.fetchval(f"select effect::text from effects {place}", name, seq)
        text = said.replace('"schema_version":"', f'"schema_version":"{escape}')
        await intruder.execute(f"update effects set effect = $3::text::json {place}", name, seq, text)
    points = await store.fork_points([name, other, fork.world_id])
    assert points.keys() == {fork.world_id}
    await store.states.know([name, other])
    with pytest.raises(TamperedError) as caught:
        await store.reader.fetch("select effect ->> 'kind' from effects where world_id = $1", name)
    assert (caught.value.details["world_id"], caught.value.details["global_seq"]) == (name, 1)
    with pytest.raises(TamperedError):
        await store.states.state_at(name, 5)


async def test_a_genesis_without_a_payload_is_named_by_what_reads_it(
    store: Store, world: WorldRecord, intruder: Connection
) -> None:
    """Who sets the time of such a world cannot be told; the genesis is named, as tampered with."""
    place = "where world_id = $1 and global_seq = 1"
    said = await intruder.fetchval(f"select effect::text from effects {place}", world.world_id)
    text = orjson.dumps({**orjson.loads(said), "payload": 0}).decode()
    await intruder.execute(f"update effects set effect = $2::text::json {place}", world.world_id, text)
    async with store.reader.connection() as connection:
        with pytest.raises(TamperedError, match="payload: not an object"):
            await authority_at(connection, world.world_id, 5)


async def test_an_orphan_without_a_name_is_found(store: Store, world: WorldRecord, intruder: Connection) -> None:
    """Effects of a world whose name is no text at all are found by it, like those of any other orphan."""
    copied = "insert into effects select '', global_seq, effect, checksum, kind, source_id, sim_time from effects"
    await intruder.execute(f"{copied} where world_id = $1", world.world_id)
    try:
        assert "" in {found async for found in every_world(store.reader)}
        assert (await _verify(store, "")).finding is not None
    finally:
        await intruder.execute("delete from effects where world_id = ''")


async def test_a_table_of_the_same_name_stands_in_for_none(
    store: Store, world: WorldRecord, intruder: Connection
) -> None:
    """In a schema that is named like the role, where PostgreSQL looks first, nothing hides what was done."""
    await intruder.execute(_EDIT.format(w=f"world_id = '{world.world_id}'"))
    await intruder.execute(
        """
        create schema worldledger_service authorization worldledger_service;
        create view worldledger_service.effects as
        select world_id, global_seq, replace(effect::text, '"n":55', '"n":5')::json as effect, checksum, kind,
               source_id, sim_time, recorded_at
        from public.effects;
        grant select on worldledger_service.effects to worldledger_service
        """
    )
    try:
        assert (await _verify(store, world.world_id)).finding is not None
    finally:
        await intruder.execute("drop schema worldledger_service cascade")


async def test_a_world_without_a_trace_is_not_found(store: Store) -> None:
    """A world of which nothing stands anywhere cannot be verified."""
    with pytest.raises(WorldNotFoundError):
        await _verify(store, "nobodys")


async def test_a_world_without_its_head_is_told_as_such(store: Store, world: WorldRecord, intruder: Connection) -> None:
    """Where a world's row in heads is gone, nobody says that there is no such world, or that it is empty."""
    await intruder.execute("delete from heads where world_id = $1", world.world_id)
    with pytest.raises(TamperedError, match="missing from the table heads"):
        await store.world(world.world_id)
