"""Whatever a superuser writes into the tables, the views give a finding and never an error."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from .helpers import Row, disarm, insert_effect, link, make_effect, undone, verdict, write_world

if TYPE_CHECKING:
    from .helpers import Connection

pytestmark = pytest.mark.both_servers


def _text(seq: int = 10, **changed: object) -> str:
    return json.dumps(make_effect("w", seq, **changed), separators=(",", ":"), sort_keys=True)


#: Texts that the type json accepts, standing at seq 10 with a right checksum; and what the view says.
HOSTILE = {
    "NUL": (r'{"a":"\u0000"}', "effect cannot be read"),
    "NUL beside the right fields": (_text(payload="\0"), "effect cannot be read"),
    "a lone surrogate": (_text(payload="\ud800"), "effect cannot be read"),
    "an array": ("[1]", "effect is not a JSON object"),
    "an array of objects": ('[{"global_seq":10}]', "effect is not a JSON object"),
    "a number": ("5", "effect is not a JSON object"),
    "a string": ('"x"', "effect is not a JSON object"),
    "null": ("null", "effect is not a JSON object"),
    "an empty object": ("{}", "world_id column differs from the effect"),
    "sim_time over every double": (_text(sim_time=0).replace('"sim_time":0', '"sim_time":1e400'), "cannot be read"),
    "sim_time under every double": (_text(sim_time=0).replace('"sim_time":0', '"sim_time":1e-400'), "cannot be read"),
    "sim_time is text": (_text(sim_time="soon"), "effect cannot be read"),
    "sim_time is an object": (_text(sim_time={"s": 1}), "effect cannot be read"),
    "sim_time is null": (_text(sim_time=None), "sim_time column differs"),
    "global_seq is text": (_text(global_seq="ten"), "global_seq column differs"),
    "global_seq is a float": (_text(global_seq=10.0), "global_seq column differs"),
    "global_seq is huge": (_text(global_seq=10**400), "global_seq column differs"),
    "kind is a list": (_text(kind=["EntityMoved"]), "kind column differs"),
    "kind is null": (_text(kind=None), "kind column differs"),
    "kind comes twice": (_text()[:-1] + ',"kind":"Other"}', "kind column differs"),
    "brackets without end": ("[" * 6000 + "]" * 6000, "effect is not a JSON object"),
    "brackets in an object": (_text(payload=0).replace('"payload":0', f'"payload":{"[" * 6000}{"]" * 6000}'), None),
    "wall_time over every double": (
        _text(wall_time=0).replace('"wall_time":0', '"wall_time":1e400'),
        "effect cannot be read",
    ),
    "wall_time is missing": (_text().replace('"wall_time"', '"wall_clock"'), "wall_time"),
}


@pytest.fixture
async def world(admin: Connection) -> Connection:
    """Return a superuser's connection to a database with one honest world and no triggers."""
    await write_world(admin, "w")
    await disarm(admin)
    return admin


async def _append(connection: Connection, text: str) -> None:
    """Append a text at seq 10, with checksum, columns and head to match."""
    previous = await connection.fetchval("select head_checksum from heads where world_id = 'w'")
    row = Row("w", 10, text, link(previous, text), "EntityMoved", "agent-1", 2.5)
    await insert_effect(connection, row)
    await connection.execute(
        "update heads set head_seq = 10, head_checksum = $1, sim_time = 2.5, wall_time = $2",
        *(row.checksum, 1.7e9 + 10 / 8),
    )


async def test_hostile_text(world: Connection, subtests: pytest.Subtests) -> None:
    """A text that cannot be read, or says something else, is a finding at its seq."""
    for name, (text, expected) in HOSTILE.items():
        with subtests.test(name=name):
            async with undone(world):
                await _append(world, text)
                verified, seq, problem = await verdict(world)
            if expected is None:
                assert verified
            else:
                assert (verified, seq) == (False, 10)
                assert expected in str(problem)


async def test_stack_depth(world: Connection) -> None:
    """Brackets too deep for the reading session are a finding, not an error."""
    await _append(world, HOSTILE["brackets in an object"][0])
    await world.execute("set max_stack_depth = '100kB'")
    verified, seq, problem = await verdict(world)
    assert (verified, seq) == (False, 10)
    assert problem == "effect cannot be read: stack depth limit exceeded"


#: What a superuser can do once keys and checks are gone too; and how the finding begins.
MUTILATIONS = {
    "the effect is null": (
        "alter table effects alter effect drop not null; update effects set effect = null where global_seq = 5",
        (5, "effect is missing"),
    ),
    "the genesis is null": (
        "alter table effects alter effect drop not null; update effects set effect = null where global_seq = 1",
        (1, "effect is missing"),
    ),
    "the checksum is null": (
        "alter table effects alter checksum drop not null; update effects set checksum = null where global_seq = 5",
        (5, "checksum differs"),
    ),
    "the checksum is long": (
        """
        update effects set checksum = convert_to(repeat('x', 1000000), 'UTF8') where global_seq = 5
        """,
        (5, "checksum differs"),
    ),
    "global_seq is null": (
        """
        alter table effects drop constraint effects_pkey, alter global_seq drop not null;
        update effects set global_seq = null where global_seq = 5
        """,
        (0, "global_seq out of order"),
    ),
    "global_seq is below every number": (
        """
        update effects set global_seq = -9223372036854775808 where global_seq = 5
        """,
        (-9223372036854775808, "global_seq out of order"),
    ),
    "global_seq is above every number": (
        """
        update effects set global_seq = 9223372036854775807 where global_seq = 5;
        update heads set head_seq = 9223372036854775807
        """,
        (5, "global_seq missing: expected 5"),
    ),
    "a row stands twice": (
        """
        alter table effects drop constraint effects_pkey;
        insert into effects select * from effects where global_seq = 5
        """,
        (5, "global_seq out of order"),
    ),
    "sim_time is NaN": ("update effects set sim_time = 'NaN' where global_seq = 5", (5, "sim_time column differs")),
    "the head is no checksum": (
        "update heads set head_checksum = convert_to(repeat('x', 1000000), 'UTF8')",
        (9, "heads row differs from the last effect: head_checksum"),
    ),
    "the head is empty": (
        """
        alter table heads alter head_seq drop not null, alter sim_time drop not null, alter wall_time drop not null;
        update heads set head_seq = null, head_checksum = null, sim_time = null, wall_time = null
        """,
        (10, "the world has no heads row"),
    ),
    "the config is hostile": (
        r"""update worlds set config = '{"a": "\u0000", "b": "\ud800"}'""",
        (1, "worlds row differs from genesis: config"),
    ),
    "the worlds row is empty": (
        """
        alter table worlds alter ruleset drop not null, alter config drop not null, alter world_uuid drop not null;
        update worlds set ruleset = null, config = null, world_uuid = null
        """,
        (1, "worlds row differs from genesis: world_uuid"),
    ),
    "world_id is null": (
        """
        alter table effects drop constraint effects_pkey, alter world_id drop not null;
        update effects set world_id = null where global_seq = 5
        """,
        (5, "global_seq missing: expected 5"),
    ),
}


async def test_mutilation(world: Connection, subtests: pytest.Subtests) -> None:
    """Rows that the constraints would refuse are findings too, in the view of worlds and in that of effects."""
    for name, (done, (seq, problem)) in MUTILATIONS.items():
        with subtests.test(name=name):
            async with undone(world):
                await world.execute(done)
                verified, found_seq, found = await verdict(world)
                assert not verified
                assert (found_seq, str(found)[: len(problem)]) == (seq, problem)
                assert len(await world.fetch("select * from effect_verification")) >= 9
                assert all(not row["verified"] for row in await world.fetch("select * from verification"))


async def test_hostile_genesis(world: Connection, subtests: pytest.Subtests) -> None:
    """A hostile text as genesis, alone in its world, is a finding."""
    await world.execute("delete from effects where global_seq > 1")
    for name, (text, _) in HOSTILE.items():
        with subtests.test(name=name):
            async with undone(world):
                await world.execute(
                    "update effects set effect = $1::text::json, checksum = $2 where global_seq = 1",
                    *(text, link(None, text)),
                )
                assert (await verdict(world))[:2] == (False, 1)
                assert await world.fetchval("select count(*) from analytics.forks") == 0
