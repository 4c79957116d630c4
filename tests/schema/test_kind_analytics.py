"""The views that kinds of worlds bring: applied by an upgrade, proved by a check, dropped, and handed over."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncpg
import pytest
from worldledger_service.database import schema
from worldledger_service.database.analytics import of_kinds

from worldledger.errors import InvalidKindError, StoreUnavailableError
from worldledger.kinds import Kind, installed, parts

from .helpers import connected, undone, write_world

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.conftest import Servers

FIRST = """
create view fair_bids as
select e.world_id, w.experiment, e.global_seq, analytics.json_bigint(e.effect #> '{payload,amount}') as amount
from public.effects e left join public.worlds w on w.world_id = e.world_id where e.kind = 'Bid';
comment on view fair_bids is 'Bids.';
comment on column fair_bids.amount is 'How much.';
create view fair_sums as select world_id, sum(amount) as total from fair_bids group by world_id;
"""
#: It goes on with what is made upon fair_bids, and not with what is made upon fair_sums.
SECOND = """
create or replace view fair_bids as
select
    e.world_id, w.experiment, e.global_seq, analytics.json_bigint(e.effect #> '{payload,amount}') as amount, e.source_id
from public.effects e left join public.worlds w on w.world_id = e.world_id where e.kind = 'Bid';
drop view fair_sums;
create view fair_totals as select world_id, sum(amount) as total from fair_bids group by world_id;
"""


class Fair(SimpleNamespace):
    """A kind that is installed, or not, with the files of its folder."""

    folder: Path
    there: bool

    def has(self, *files: str) -> None:
        """Have these files, numbered from 1."""
        for number, sql in enumerate(files, 1):
            (self.folder / f"{number:04}_views.sql").write_text(sql)


@pytest.fixture(scope="module")
def small(servers: Servers, server_kind: str) -> Iterator[str]:
    """Return the address of a migrated database that has the views of the kind sandbox alone."""
    url = servers.create(server_kind, servers.template(server_kind))

    async def leave_one() -> None:
        for kind in of_kinds.brought().keys() - {"sandbox"}:
            await of_kinds.drop(url, kind, force=True)

    asyncio.run(leave_one())
    yield url
    servers.drop(server_kind, url)


@pytest.fixture
def small_url(servers: Servers, server_kind: str, small: str) -> Iterator[str]:
    """Return the address of a test's own such database: to compare the views of one kind is a fifth of the work."""
    url = servers.create(server_kind, urlsplit(small).path[1:])
    yield url
    servers.drop(server_kind, url)


@pytest.fixture
def fair(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fair:
    """Return a kind of the name fair with a first file, which is installed beside those that the database has."""
    module = ModuleType("tests_fair")
    module.FOLDER = tmp_path  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tests_fair", module)
    kind = Kind(name="fair", analytics="tests_fair:FOLDER")
    made = Fair(folder=tmp_path, there=True)

    others = {"sandbox": installed()["sandbox"]} if "small_url" in request.fixturenames else installed()

    def found() -> Mapping[str, Kind]:
        return {**others, **({"fair": kind} if made.there else {})}

    monkeypatch.setattr(of_kinds, "installed", found)
    made.has(FIRST)
    return made


async def _check(url: str) -> list[str]:
    """Return the findings, but those of the server, and of the database that the template's copy is."""
    return [line for line in await schema.check(url) if not line.startswith(("setting ", "reader: "))]


async def _found(url: str) -> list[str]:
    """Return those of kinds alone, which are a fifth of the work."""
    async with connected(url) as connection:
        return await of_kinds.findings(connection)


async def _noted(url: str) -> dict[str, tuple[int, tuple[str, ...]]]:
    async with connected(url) as connection:
        records = await of_kinds.recorded(connection)
    return {kind: (record.version, record.views) for kind, record in records.items()}


async def test_views_are_applied_and_proved(database_url: str, fair: Fair) -> None:
    """An upgrade makes the views of an installed kind, as the owner, for all who read; the check knows them."""
    has, brings = "the database has none of its views", "its package brings version 1"
    assert await _check(database_url) == [f"kind fair: {has}, {brings}: run `worldledger db upgrade`"]
    await schema.upgrade(database_url)
    assert await _check(database_url) == []
    assert (await _noted(database_url))["fair"] == (1, ("fair_bids", "fair_sums"))
    async with connected(database_url, role="worldledger_reader") as reader:
        assert await reader.fetch("select total from analytics.fair_sums") == []


async def test_moments_in_sql_are_counted_in_what_the_rulesets_declare(database_url: str) -> None:
    """A kind's view of units has each with the kinds that begin one, and the member with its number if it is one."""
    async with connected(database_url, role="worldledger_reader") as reader:
        for kind, ruleset in parts("ruleset").items():
            declared = {
                (name, unit.kinds, unit.number if isinstance(unit.number, str) else None, unit.has_zero)
                for name, unit in ruleset.units.items()
            }
            rows = declared and await reader.fetch(f"select unit, kinds, member, has_zero from analytics.{kind}_units")
            assert {(row[0], tuple(row[1]), row[2], row[3]) for row in rows} == declared, kind


async def test_a_newer_version_is_applied(small_url: str, fair: Fair) -> None:
    """Files beyond the version that the database has are run, once; what others made upon the views may stay."""
    await of_kinds.apply(small_url)
    async with connected(small_url) as connection:
        await connection.execute("create view public.mine as select amount from analytics.fair_bids")
        fair.has(FIRST, SECOND)
        (finding,) = await _found(small_url)
        assert finding.startswith("kind fair: the database has version 1 of its views, its package brings version 2")
        await connection.execute("drop view public.mine")
        await of_kinds.apply(small_url)
        await of_kinds.apply(small_url)
    assert (await _noted(small_url))["fair"] == (2, ("fair_bids", "fair_totals"))
    assert await _found(small_url) == []
    (fair.folder / "0002_views.sql").unlink()
    (finding,) = await _found(small_url)
    assert finding.endswith("version 2 of its views, its package brings version 1: install a newer package")


async def test_files_that_were_changed(small_url: str, fair: Fair) -> None:
    """Another text under a version that was applied is told, and keeps later files from being run."""
    await of_kinds.apply(small_url)
    changed = FIRST.replace("How much.", "How many.")
    fair.has(changed)
    (finding,) = await _found(small_url)
    assert finding.startswith("kind fair: 0001_views.sql of its package cannot be what was applied here as version 1")
    assert "run `worldledger kind drop fair --force` and `worldledger db upgrade`" in finding
    await of_kinds.apply(small_url)
    fair.has(changed, SECOND)
    with pytest.raises(InvalidKindError) as caught:
        await of_kinds.apply(small_url)
    assert caught.value.message == finding
    await of_kinds.drop(small_url, "fair", force=True)
    await of_kinds.apply(small_url)
    assert await _found(small_url) == []


async def test_a_package_that_is_gone(small_url: str, fair: Fair) -> None:
    """That views stand whose package is not installed is told; they are read as before, and dropped without it."""
    await of_kinds.apply(small_url)
    fair.there = False
    await of_kinds.apply(small_url)
    has = "the database has version 1 of its views, its package is not installed"
    assert await _found(small_url) == [f"kind fair: {has}: install it, or `worldledger kind drop fair`"]
    async with connected(small_url, role="worldledger_reader") as reader:
        assert await reader.fetch("select total from analytics.fair_sums") == []
    dropped = await of_kinds.drop(small_url, "fair")
    assert (dropped.views, dropped.worlds) == (("fair_bids", "fair_sums"), 0)
    assert await _found(small_url) == []


#: What somebody did to the views of a kind, and how a finding begins.
TAMPERINGS = {
    "a view leaves a world out": (
        """
        create or replace view analytics.fair_sums as
        select world_id, sum(amount) as total from analytics.fair_bids where world_id <> 'w' group by world_id
        """,
        "view analytics.fair_sums: but is",
    ),
    "a view is gone": ("drop view analytics.fair_sums", "relation analytics.fair_sums: missing"),
    "a comment is another": (
        "comment on column analytics.fair_bids.amount is 'Whatever.'",
        "comment on view column analytics.fair_bids.amount: but is: Whatever.",
    ),
    "everybody may read": (
        "grant select on analytics.fair_bids to public",
        "privilege on relation analytics.fair_bids: unexpected: everybody may SELECT",
    ),
    "a reader may not": (
        "revoke select on analytics.fair_bids from worldledger_reader",
        "privilege on relation analytics.fair_bids: missing: worldledger_reader may SELECT",
    ),
    "the owner is another": (
        "alter view analytics.fair_sums owner to worldledger_service",
        "relation analytics.fair_sums: but is: view, owner worldledger_service",
    ),
    "a rule does something instead": (
        "create rule swallow as on insert to analytics.fair_bids do instead nothing",
        "rule swallow on analytics.fair_bids: unexpected",
    ),
    "a view of one of the program's names is noted": (
        "update kind_analytics set views = views || array['effects'] where kind = 'fair'",
        "relation analytics.effects: unexpected",
    ),
}


async def test_the_check_notices(small_url: str, fair: Fair, subtests: pytest.Subtests) -> None:
    """A change to the views of a kind is a finding, whichever of them it is."""
    await of_kinds.apply(small_url)
    async with connected(small_url) as connection:
        for name, (statement, beginning) in TAMPERINGS.items():
            with subtests.test(name=name):
                async with undone(connection):
                    await connection.execute(statement)
                    found = await of_kinds.findings(connection)
                assert any(finding.startswith(beginning) for finding in found), found
        assert await of_kinds.findings(connection) == []


async def test_the_names_of_the_program_are_not_hidden(small_url: str, fair: Fair) -> None:
    """A view of the program's own stays one of the catalogue, though a kind is noted to have brought it."""
    await of_kinds.apply(small_url)
    async with connected(small_url) as connection:
        before = await schema.catalogue(connection)
        await connection.execute("update kind_analytics set views = views || array['effects'] where kind = 'fair'")
        assert await schema.catalogue(connection) == before


async def test_something_is_made_upon_a_view(small_url: str, fair: Fair) -> None:
    """A version that drops it is refused by naming what, whose, and what to do; nothing of the version is there."""
    await of_kinds.apply(small_url)
    async with connected(small_url) as connection:
        user = await connection.fetchval("select current_user")
        await connection.execute("create view public.mine as select total from analytics.fair_sums")
        await connection.execute("create materialized view public.more as select * from public.mine")
        fair.has(FIRST, SECOND)
        with pytest.raises(InvalidKindError) as caught:
            await of_kinds.apply(small_url)
        message = caught.value.message
        assert message.startswith("kind fair: 0002_views.sql cannot be applied: ")
        for view in ("mine", "more"):
            assert f"public.{view} of {user} is made upon them" in message
        assert "drop that, run `worldledger db upgrade`, and make it anew" in message
        assert (await _noted(small_url))["fair"] == (1, ("fair_bids", "fair_sums"))
        with pytest.raises(
            InvalidKindError, match=r"its views cannot be dropped: public\.mine of .* is made upon them"
        ):
            await of_kinds.drop(small_url, "fair", force=True)
        await connection.execute("drop view public.mine cascade")
    await of_kinds.apply(small_url)
    assert await _found(small_url) == []


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        (
            "create view fair_bids as select 1;\nselect from nowhere",
            'views.sql:2 cannot be applied: relation "nowhere"',
        ),
        pytest.param(
            "create view effects as select 1 as one",
            'relation "effects" already exists: rename or drop what others',
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "create view analytics.fair_bids as select 1 as one",
            "are views named without a schema?",
            marks=pytest.mark.thorough,
        ),
    ],
)
async def test_files_that_cannot_be_run(small_url: str, fair: Fair, sql: str, what: str) -> None:
    """A mistake in a file is told with its line; the kind has no views then, and all other kinds have theirs."""
    fair.has(sql)
    async with connected(small_url) as connection:
        await connection.execute("set role worldledger_owner; delete from kind_analytics where kind = 'sandbox'")
        await connection.execute("drop view analytics.speak")
        views = "entity_created, entity_updated, entity_removed, move, speak_response, interact, relationship_set"
        await connection.execute(f"set search_path = analytics; drop view {views}, relationship_removed")
    with pytest.raises(InvalidKindError) as caught:
        await of_kinds.apply(small_url)
    assert what in caught.value.message
    noted = await _noted(small_url)
    assert "fair" not in noted
    assert "speak" in noted["sandbox"][1]


async def test_leftovers_are_made_again(small_url: str, fair: Fair) -> None:
    """Views that the database does not know of are a kind's own if they are what its files make, and else others'."""
    fair.has("create view fair_units as values (1, 'lot');\ncomment on view fair_units is 'Units.';")
    await of_kinds.apply(small_url)
    async with connected(small_url) as connection:
        await connection.execute("delete from kind_analytics where kind = 'fair'")
        await of_kinds.apply(small_url)
        assert (await _noted(small_url))["fair"] == (1, ("fair_units",))
        await connection.execute("delete from kind_analytics where kind = 'fair'")
        await connection.execute("comment on view analytics.fair_units is 'Mine.'")
    with pytest.raises(InvalidKindError, match='"fair_units" already exists: rename or drop what others'):
        await of_kinds.apply(small_url)


async def test_files_are_numbered(fair: Fair) -> None:
    """A number that lacks, or a name without one, is refused by naming the file and what it should be."""
    (fair.folder / "0003_more.sql").write_text(SECOND)
    with pytest.raises(InvalidKindError, match=r"0003_more\.sql should be named 0002_….sql"):
        of_kinds.brought()


@pytest.mark.thorough  # as test_migrations has it
async def test_a_lock_that_is_not_to_be_had(small_url: str, fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that waits for a reader in vain says which session it is and how it is ended."""
    monkeypatch.setattr(of_kinds, "LOCK_TIMEOUT", "300ms")
    await of_kinds.apply(small_url)
    fair.has(FIRST, SECOND)
    async with connected(small_url) as reader, reader.transaction():
        pid = await reader.fetchval("select pg_backend_pid() from (select 1) one left join analytics.fair_bids on true")
        with pytest.raises(
            InvalidKindError, match=rf"held by PID {pid}, .*SELECT pg_terminate_backend\({pid}\) ends it"
        ):
            await of_kinds.apply(small_url)
    await of_kinds.apply(small_url)
    assert await _found(small_url) == []


async def test_dropping(small_url: str, fair: Fair) -> None:
    """The views of an installed kind are dropped by force only, those of none not at all; worlds are named and stay."""
    await of_kinds.apply(small_url)
    with pytest.raises(InvalidKindError, match="it is installed, and the next `worldledger db upgrade` makes"):
        await of_kinds.drop(small_url, "fair")
    with pytest.raises(InvalidKindError, match="no views of it; it has those of fair, sandbox"):
        await of_kinds.drop(small_url, "opera")
    async with connected(small_url) as connection:
        await write_world(connection, "w")
    dropped = await of_kinds.drop(small_url, "sandbox", force=True)
    assert (dropped.worlds, dropped.names, "speak" in dropped.views) == (1, ("w",), True)
    async with connected(small_url) as connection:
        assert await connection.fetchval("select count(*) from effects") == 9
        assert await connection.fetchval("select to_regclass('analytics.speak')") is None


# -- rows that no program writes -----------------------------------------------------------------------------


@pytest.mark.parametrize("views", ["'{NULL}'", "'{{speak,b},{c,d}}'", "views || '{worlds,fair_bids}'"])
async def test_an_odd_list_of_views_is_made_right(small_url: str, fair: Fair, views: str) -> None:
    """It is found, and an upgrade makes it right; views of the program or of another kind stay as they are."""
    await of_kinds.apply(small_url)
    before = await _noted(small_url)
    async with connected(small_url) as connection:
        there = await _views(connection)
        await connection.execute(f"update kind_analytics set views = {views} where kind = 'sandbox'")
    assert await _found(small_url) != []
    await of_kinds.apply(small_url)
    assert (await _noted(small_url), await _found(small_url)) == (before, [])
    async with connected(small_url) as connection:
        now = await _views(connection)
    assert [now[name] for name in ("worlds", "fair_bids")] == [there[name] for name in ("worlds", "fair_bids")]


async def test_a_kind_of_no_name_is_told_on_one_line(small_url: str) -> None:
    """Whatever stands in its place, no line of the findings is broken."""
    async with connected(small_url) as connection:
        await connection.execute(r"update kind_analytics set kind = E'a\nb' where kind = 'sandbox'")
    assert r"kind a\nb: the database has" in "".join(found for found in await _found(small_url) if "\n" not in found)


# -- handed over by revision 0009 ----------------------------------------------------------------------------


async def _views(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, int]:
    query = "select relname, oid::bigint from pg_class where relnamespace = 'analytics'::regnamespace"
    return {row["relname"]: row["oid"] for row in await connection.fetch(query)}


@pytest.mark.thorough  # as the next two have it, of a kind that is not installed and of a database that went down
async def test_what_stands_is_handed_over(empty_database_url: str) -> None:
    """Views that revision 0004 made are those of their kinds' first version: they stay, with what is made upon them."""
    url = empty_database_url
    await schema.upgrade(url, "0008")
    async with connected(url) as connection:
        await write_world(connection, "w")
        await connection.execute("create view public.mine as select world_id from analytics.turn_started")
        before = await _views(connection)
    await schema.upgrade(url)
    async with connected(url) as connection:
        assert (await _views(connection)).items() >= before.items()
        await connection.execute("drop view public.mine")
    brought = {kind: bring.version for kind, bring in of_kinds.brought().items()}
    assert {kind: version for kind, (version, _) in (await _noted(url)).items()} == brought
    assert await _check(url) == []


async def test_nothing_stands_of_kinds_that_are_not_installed(
    two_empty_urls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new database has the views of installed kinds alone; one with worlds keeps those that it had, and tells."""
    new, old = two_empty_urls
    await schema.upgrade(old, "0008")
    async with connected(old) as connection:
        await write_world(connection, "w")
    monkeypatch.setattr(of_kinds, "installed", lambda: {"sandbox": installed()["sandbox"]})
    for url in (new, old):
        await schema.upgrade(url)
    assert set(await _noted(new)) == {"sandbox"}
    assert await _check(new) == []
    async with connected(new) as connection:
        assert {"move_made", "turn_started"}.isdisjoint(await _views(connection))
    left = [line.split(":")[0] for line in await _found(old)]
    assert left == ["kind chess", "kind simulation", "kind social_rl"]


async def test_down_and_up(database_url: str, empty_database_url: str, fair: Fair) -> None:
    """A downgrade to 0008 leaves what it had: later kinds' views are dropped, and those that lack are made again."""
    await schema.upgrade(empty_database_url, "0008")
    await of_kinds.apply(database_url)
    await of_kinds.drop(database_url, "simulation", force=True)
    await schema.downgrade(database_url, "0008")
    async with connected(database_url) as connection, connected(empty_database_url) as fresh:
        assert await schema.catalogue(connection) == await schema.catalogue(fresh)
        await connection.execute("create view public.mine as select world_id from analytics.turn_started")
    await schema.upgrade(database_url)  # without a world: handed over because of the view
    assert "turn_started" in (await _noted(database_url))["simulation"][1]
    async with connected(database_url) as connection:
        await connection.execute("drop view public.mine")
        assert await _check(database_url) == []
        await connection.execute("create view public.more as select world_id from analytics.fair_bids")
    with pytest.raises(StoreUnavailableError, match=r"views of the kind fair: .*view more.*run the downgrade again"):
        await schema.downgrade(database_url, "0008")
