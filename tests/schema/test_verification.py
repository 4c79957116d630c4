"""The view ``verification`` finds what a superuser did to the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .helpers import Row, chained, disarm, insert_effect, undone, verdict, write_world

if TYPE_CHECKING:
    from .helpers import Connection

pytestmark = pytest.mark.both_servers

_RELINK = """
do $$
declare
    place bigint;
begin
    for place in select global_seq from effects where world_id = 'w' and global_seq >= {start} order by 1 loop
        update effects as e
        set checksum = chain_checksum(
            (select p.checksum from effects p where p.world_id = 'w' and p.global_seq = place - 1), e.effect)
        where e.world_id = 'w' and e.global_seq = place;
    end loop;
end
$$;
"""
_HERE = "where world_id = 'w' and global_seq"
_EDIT = f"update effects set effect = replace(effect::text, '\"x\":5', '\"x\":6')::json {_HERE} = 5;"
_RELINK_ONE = f"""
update effects set checksum = chain_checksum((select checksum from effects {_HERE} = 4), effect) {_HERE} = 5;
"""
_SWAP = """
update effects e set {columns} from effects o
where e.world_id = 'w' and o.world_id = 'w' and (e.global_seq, o.global_seq) in ((5, 6), (6, 5));
"""
_SHIFT = "update effects set global_seq = global_seq + {by} " + _HERE + " >= {start};"
_INSERT = f"""
insert into effects
select world_id, 5, replace(effect::text, ':4,', ':5,')::json, sha256(''), kind, source_id, sim_time
from effects {_HERE} = 4;
"""
_BORROW = """
update effects e set effect = o.effect, sim_time = o.sim_time from effects o
where e.world_id = 'w' and o.world_id = 'other' and e.global_seq = 5 and o.global_seq = 5;
"""
_RENAME_GENESIS = f"""
update effects set effect = replace(effect::text, 'WorldCreated', 'Created')::json, kind = 'Created' {_HERE} = 1;
"""

_HEAD = """
update heads set head_checksum = (select checksum from effects where world_id = 'w' and global_seq = 9)
where world_id = 'w';
"""
#: Change the text of an effect, and compute the chain and the head anew as an able forger does.
_FORGE = f"update effects set effect = {{text}}::json {_HERE} = 5;" + _RELINK.format(start=5) + _HEAD
#: Let the wall clock have the authority over a world from its genesis on.
_FORGE_GENESIS = (
    f"""
update effects
set effect = replace(effect::text, '"time_authority":"client"', '"time_authority":"wall","time_zero":{{zero}}')::json
{_HERE} = 1;
update worlds set time_authority = 'wall' where world_id = 'w';
"""
    + _RELINK.format(start=1).replace("{", "{{").replace("}", "}}")
    + _HEAD
)


_FIELD = "a field of the genesis is missing, unknown or of another type"
_ASKED = "the effect of a genesis is nobody's request"


def _forged(old: str, new: str, more: str = "") -> str:
    return more + _FORGE.format(text=f"replace(effect::text, '{old}', '{new}')")


#: What is done, the first place that does not hold, and what the view says of it.
ATTACKS: dict[str, tuple[str, int | None, str]] = {
    "a value is changed": (_EDIT, 5, "checksum differs"),
    "a value and its checksum are changed": (_EDIT + _RELINK_ONE, 6, "checksum differs"),
    "the chain is recomputed from some seq on": (
        _EDIT + _RELINK.format(start=5),
        9,
        "heads row differs from the last effect: head_checksum",
    ),
    "a checksum is changed": (f"update effects set checksum = sha256('') {_HERE} = 5", 5, "checksum differs"),
    **{
        f"the column {column} is changed": (
            f"update effects set {column} = {value} {_HERE} = 5",
            5,
            f"{column} column differs from the effect",
        )
        for column, value in (("kind", "'Other'"), ("source_id", "'agent-9'"), ("sim_time", "sim_time + 1e-9"))
    },
    "a row is given to another world": (
        f"update effects set world_id = 'w2' {_HERE} = 5",
        5,
        "global_seq missing: expected 5",
    ),
    "an effect is deleted": (f"delete from effects {_HERE} = 5", 5, "global_seq missing: expected 5"),
    "the genesis is deleted": (f"delete from effects {_HERE} = 1", 1, "global_seq missing: expected 1"),
    "all effects are deleted": (f"delete from effects {_HERE} > 0", 1, "the head names seq 9 but the log is empty"),
    "an effect is deleted and the rest moves up": (
        f"delete from effects {_HERE} = 5;" + _SHIFT.format(start=6, by=-1),
        5,
        "checksum differs",
    ),
    "two effects change places": (
        _SWAP.format(columns="effect = o.effect, checksum = o.checksum"),
        5,
        "checksum differs",
    ),
    "two effects change places and the chain is recomputed": (
        _SWAP.format(columns="effect = o.effect") + _RELINK.format(start=5),
        5,
        "global_seq column differs from the effect",
    ),
    "the rest is renumbered": (_SHIFT.format(start=5, by=1000), 5, "global_seq missing: expected 5"),
    "everything is renumbered": (_SHIFT.format(start=1, by=1000), 1, "global_seq missing: expected 1"),
    "an effect is inserted": (
        _SHIFT.format(start=5, by=1000) + _SHIFT.format(start=1005, by=-999) + _INSERT + _RELINK_ONE,
        6,
        "checksum differs",
    ),
    "another world's row stands in the chain": (
        _BORROW + _RELINK.format(start=5),
        5,
        "world_id column differs from the effect",
    ),
    "sim_time goes back": (
        _forged('"sim_time":1.25', '"sim_time":0.5', f"update effects set sim_time = 0.5 {_HERE} = 5;"),
        5,
        "sim_time is lower than before",
    ),
    "wall_time goes back": (_forged('"wall_time":', '"wall_time":1e3,"x":'), 5, "wall_time is lower than before"),
    "a cause to come": (_forged('{"', '{"caused_by":5,"'), 5, "caused_by does not name an earlier effect"),
    **{
        f"a cause is {value}": (
            _forged('{"', f'{{"caused_by":{value},"'),
            5,
            "caused_by does not name an earlier effect",
        )
        for value in ("null", '"3"')
    },
    **{
        f"uuid: {what}": (_forged('"uuid":"00', new), 5, problem)
        for what, new, problem in (
            ("missing", '"source_metadata":{"uuid":"0"},"uuie":"00', "uuid is missing"),
            ("longer", '"uuid":"000', "uuid is not 32 hex digits in lower case"),
            ("in capitals", '"uuid":"0A', "uuid is not 32 hex digits in lower case"),
            ("a number", '"uuid":7,"uuie":"00', "uuid is not 32 hex digits in lower case"),
            ("no hex", '"uuid":"0x', 'effect cannot be read: invalid input syntax for type uuid: "0x'),
        )
    },
    "wall_time is a text": (
        _forged('"wall_time":1700000000.625', '"wall_time":"1700000000.625"'),
        5,
        "sim_time or wall_time is not a number",
    ),
    "a second genesis": (
        _forged(
            '"kind":"EntityMoved"', '"kind":"WorldCreated"', f"update effects set kind = 'WorldCreated' {_HERE} = 5;"
        ),
        5,
        "WorldCreated stands at seq 1 alone",
    ),
    "an agent writes a kind of the service": (
        _forged('"kind":"EntityMoved"', '"kind":"ViewDigest"', f"update effects set kind = 'ViewDigest' {_HERE} = 5;"),
        5,
        "the kind is for effects of the service alone",
    ),
    "an effect is given to the service": (
        _forged('"agent-2"', '"worldledger"', f"update effects set source_id = 'worldledger' {_HERE} = 5;"),
        5,
        "the service writes no such kind after a world's beginning",
    ),
    "the genesis has another time_zero": (
        _FORGE_GENESIS.format(zero=1.7e9),
        1,
        "time_zero in the genesis does not go with its wall_time and sim_time",
    ),
    **{
        f"the genesis {what}": (
            f"update effects set effect = replace(effect::text, '{old}', '{new}')::json {_HERE} = 1;"
            + _RELINK.format(start=1)
            + _HEAD,
            1,
            problem,
        )
        for what, old, new, problem in (
            ("has no experiment", '"experiment":"e1",', "", f"{_FIELD}: experiment"),
            ("has no canonical profile", '"canonical_profile"', '"profile"', "the canonical profile is unknown"),
            ("has an unknown field", '"experiment":', '"zzz":1,"experiment":', f"{_FIELD}: zzz"),
            ("has a text for a number", '"ruleset_version":1', '"ruleset_version":"1"', f"{_FIELD}: ruleset_version"),
            ("has a list for an order", '"experiment":', '"order":[],"experiment":', f"{_FIELD}: order"),
            ("is of another version", '"schema_version":"1.0.0"', '"schema_version":"9.0.0"', _ASKED),
            ("has a priority", '"priority":0', '"priority":1', _ASKED),
            ("was asked for", '"req_id":null', '"req_id":"g"', _ASKED),
            ("has metadata", '"source_id":', '"source_metadata":{},"source_id":', _ASKED),
            (
                "has a time_zero of its own",
                '"experiment":',
                '"time_zero":1.0,"experiment":',
                "time_zero in the genesis is",
            ),
            (
                "names no parent",
                '"experiment":',
                '"fork_of":{},"experiment":',
                "fork_of in the genesis names no effect",
            ),
            (
                "is a fork's",
                '"experiment":',
                '"fork_of":{"world_id":"p","global_seq":3},"experiment":',
                "effect 2 of a fork is not the StateDigest",
            ),
        )
    },
    "a req_id is added": (_forged('"req_id":null', '"req_id":"r9"'), 5, "requests has no row for the req_id"),
    "a req_id comes again": (
        _forged('"req_id":null', '"req_id":"r1"'),
        2,
        "the req_id comes again after other effects",
    ),
    "a request's row is deleted": (
        "delete from requests where world_id = 'w'",
        2,
        "requests has no row for the req_id",
    ),
    "a request's digest is changed": (
        "update requests set body_sha256 = sha256('') where world_id = 'w'",
        2,
        "requests row differs from the effects: body_sha256",
    ),
    "a request is planted": (
        "insert into requests values ('w', 'agent-1', 'new', sha256(''), 5, 5)",
        5,
        "requests has a row of which the log has no effect",
    ),
    "the profile is unknown": (
        f"update effects set effect = replace(effect::text, 'orjson-sorted/1', 'orjson-sorted/2')::json {_HERE} = 1;"
        + _RELINK.format(start=1),
        1,
        "the canonical profile is unknown to this version",
    ),
    "the tail is cut off": (
        f"delete from effects {_HERE} > 7",
        8,
        "the head names seq 9 but the log ends at 7",
    ),
    **{
        f"the worlds row is changed: {column}": (
            f"update worlds set {column} = {value} where world_id = 'w'",
            1,
            f"worlds row differs from genesis: {column}",
        )
        for column, value in (
            ("world_uuid", "gen_random_uuid()"),
            ("ruleset", "'chess'"),
            ("ruleset_version", "2"),
            ("config", '\'{"board": {"size": 9}}\''),
            ("experiment", "null"),
            ("time_authority", "'wall'"),
        )
    },
    "the genesis is another kind": (_RENAME_GENESIS + _RELINK.format(start=1), 1, "effect 1 is not WorldCreated"),
    "the worlds row is deleted": ("delete from worlds where world_id = 'w'", None, "the world has no worlds row"),
    "the heads row is deleted": ("delete from heads where world_id = 'w'", None, "the world has no heads row"),
    "heads and effects are deleted": (
        f"delete from heads where world_id = 'w'; delete from effects {_HERE} > 0",
        None,
        "the world has no effects",
    ),
    "the head is moved back": (
        "update heads set head_seq = 5 where world_id = 'w'",
        6,
        "the head names seq 5 but the log goes on to 9",
    ),
    **{
        f"the head is changed: {column}": (
            f"update heads set {column} = {value} where world_id = 'w'",
            9,
            f"heads row differs from the last effect: {column}",
        )
        for column, value in (("head_checksum", "sha256('')"), ("sim_time", "0"), ("wall_time", "wall_time + 0.001"))
    },
}


@pytest.fixture
async def attacked(admin: Connection) -> Connection:
    """Return a superuser's connection to a database with two honest worlds and no triggers."""
    await write_world(admin, "w")
    await write_world(admin, "other")
    await disarm(admin)
    return admin


async def test_honest(attacked: Connection) -> None:
    """Honest worlds are verified, with the count of their effects, their head and its checksum."""
    rows = await attacked.fetch("select * from verification order by world_id")
    last = chained("w", 9)[-1]
    assert [(row["world_id"], row["verified"], row["problem_seq"], row["problem"]) for row in rows] == [
        ("other", True, None, None),
        ("w", True, None, None),
    ]
    assert (rows[1]["effects"], rows[1]["head_seq"], rows[1]["head_checksum"]) == (9, 9, last.checksum.hex())
    assert await attacked.fetchval("select count(*) from effect_verification where problem is null") == 18


async def test_attack(attacked: Connection, subtests: pytest.Subtests) -> None:
    """An attack is found, its first place and what differs are named, and the other world stays verified."""
    for attack, (done, seq, problem) in ATTACKS.items():
        with subtests.test(attack=attack):
            async with undone(attacked):
                await attacked.execute(done)
                is_verified, at, told = await verdict(attacked)
                assert (is_verified, at, (told or "")[: len(problem)]) == (False, seq, problem)
                assert await verdict(attacked, "other") == (True, None, None)


async def test_orphans(attacked: Connection) -> None:
    """Effects, or a head, of a world that has no worlds row are named under that world."""
    await insert_effect(attacked, Row("lost", 1, "{}", b"\0" * 32, "k", "s", 0.0))
    await attacked.execute("insert into heads values ('ghost', 0, null, 0, 0)")
    assert await verdict(attacked, "lost") == (False, None, "the world has no worlds row")
    assert await verdict(attacked, "ghost") == (False, None, "the world has no worlds row")


async def test_rewritten_with_its_head(attacked: Connection) -> None:
    """A chain recomputed together with its head passes here: only a head that was kept elsewhere shows it."""
    before = await attacked.fetchval("select head_checksum from verification where world_id = 'w'")
    await attacked.execute(_EDIT + _RELINK.format(start=5))
    await attacked.execute(
        "update heads set head_checksum = (select checksum from effects where world_id = 'w' and global_seq = 9)"
        " where world_id = 'w'"
    )
    assert (await verdict(attacked))[0] is True
    assert await attacked.fetchval("select head_checksum from verification where world_id = 'w'") != before


async def test_every_bad_effect_is_listed(attacked: Connection) -> None:
    """``effect_verification`` lists each effect that does not hold, with the place it should have."""
    await attacked.execute(_EDIT)
    await attacked.execute("delete from effects where world_id = 'w' and global_seq = 7")
    rows = await attacked.fetch("select * from effect_verification where problem is not null order by global_seq")
    assert [(row["global_seq"], row["expected_seq"], row["problem"]) for row in rows] == [
        (5, 5, "checksum differs"),
        (8, 7, "global_seq missing: expected 7"),
    ]


async def test_roles_may_verify(attacked: Connection, subtests: pytest.Subtests) -> None:
    """Readers and the service can select from both views of the schema analytics and call the checksum function."""
    text = chained("w", 1)[0].effect
    for role in ("worldledger_reader", "worldledger_guest", "worldledger_service"):
        with subtests.test(role=role):
            async with undone(attacked):
                await attacked.execute(f"set role {role}")
                verified = "select is_verified from analytics.verification where world_id = 'w'"
                assert await attacked.fetchval(verified) is True
                assert await attacked.fetchval("select count(*) from analytics.effect_verification") == 18
                checksum = await attacked.fetchval("select chain_checksum(null, $1::text::json)", text)
                assert checksum == chained("w", 1)[0].checksum


async def test_one_world_reads_one_world(attacked: Connection) -> None:
    """Asked for one world, the view reads its rows by the primary key and no other world's."""
    await attacked.execute("set enable_seqscan = off")
    await attacked.execute("set enable_bitmapscan = off")
    plan = "\n".join(
        row[0] for row in await attacked.fetch("explain (costs off) select * from verification where world_id = 'w'")
    )
    under_window = plan.partition("WindowAgg")[2]
    assert "Index Scan using effects_pkey on effects" in under_window, plan
    assert "Index Cond: (world_id = 'w'::text)" in under_window, plan
    assert "Seq Scan on effects" not in plan, plan
