"""Beginnings of worlds that came along with a fork's export: read-only, extended by longer exports, made whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from worldledger.genesis import NewWorld

from .conftest import Cli
from .helpers import BAZAAR, record, say, sql
from .test_forks import REWRITTEN
from .test_verify import tamper

#: Another database, asked as `cli` is.
Elsewhere = Callable[..., tuple[int, str, str]]


@pytest.fixture
def files(on: Cli, database_url: str, tmp_path: Path) -> dict[str, str]:
    """Return exports: of a fork at seq 3, of one at seq 5, of the whole world and of the world when it was shorter."""
    record(database_url, "bazaar", BAZAAR)
    names = {name: str(tmp_path / f"{name}.ndjson") for name in ("early", "late", "whole", "longer")}
    for name, at in (("early", "3"), ("late", "5")):
        assert on("fork", "bazaar", "--at", at, "--as", name).code == 0
        assert on("export", name, "-o", names[name]).code == 0
    assert on("export", "bazaar", "-o", names["whole"]).code == 0
    record(database_url, "bazaar", [say("Ann", "Late", 99.0)])
    assert on("export", "bazaar", "-o", names["longer"]).code == 0
    return names


@pytest.fixture
def elsewhere(cli: Cli, make_database: Callable[..., str]) -> tuple[str, Elsewhere]:
    """Return the address of another database, and a way to ask it."""
    url = make_database()

    def run(*arguments: str) -> tuple[int, str, str]:
        done = cli(*arguments, "--database-url", url)
        return done.code, done.out, " ".join(done.err.split())

    return url, run


def test_a_beginning_takes_no_appends(files: dict[str, str], elsewhere: tuple[str, Elsewhere]) -> None:
    """What came along with a fork is read and forked, but not appended to; the refusal says what to do."""
    url, run = elsewhere
    assert run("import", "log", files["early"])[0] == 0
    assert run("state", "bazaar")[0] == run("verify", "bazaar")[0] == 0
    code, _, told = run("snapshot", "bazaar")
    assert code != 0
    assert "of world 'bazaar' only the beginning is here, up to seq 3" in told
    assert "Import an export of the whole world, or fork it" in told
    assert run("fork", "bazaar", "--at", "2", "--as", "mine")[0] == 0
    assert run("snapshot", "mine")[0] == run("snapshot", "early")[0] == 0
    assert sql(url, "select head_seq from heads where world_id = 'bazaar'") == [(3,)]


def test_a_mark_that_stands_already_is_no_obstacle(files: dict[str, str], elsewhere: tuple[str, Elsewhere]) -> None:
    """A mark of a world that does not exist is found by verify and db check; an import of the world goes through."""
    url, run = elsewhere
    sql(url, "insert into prefixes values ('bazaar') returning 1")
    code, out, _ = run("verify", "--all")
    assert (code, "missing from the table worlds" in out) == (1, True)
    assert "mark 'bazaar': by the table prefixes" in run("db", "check")[1]
    assert run("import", "log", files["early"])[0] == 0
    assert run("verify", "--all")[0] == 0
    assert "mark " not in run("db", "check")[1]
    assert run("import", "log", files["whole"])[0] == run("snapshot", "bazaar")[0] == 0


def test_longer_exports_extend_a_beginning(
    files: dict[str, str], elsewhere: tuple[str, Elsewhere], tmp_path: Path
) -> None:
    """A fork from further on extends it, and the whole world makes it one that takes appends, byte for byte."""
    url, run = elsewhere
    again = tmp_path / "again.ndjson"
    for name, seq in (("early", 3), ("late", 5), ("early", 5)):
        code, out, told = run("import", "log", files[name])
        assert (code, told) == (0, "")
        assert sql(url, "select head_seq from heads where world_id = 'bazaar'") == [(seq,)]
        assert run("verify", "--all", "--full")[0] == 0
        assert run("snapshot", "bazaar")[0] != 0
    assert "already there, nothing to do: bazaar, 3 effects" in out
    assert run("import", "log", files["whole"])[1].startswith("imported bazaar, 7 effects, head 7:")
    assert run("export", "bazaar", "-o", str(again))[0] == 0
    assert again.read_text() == Path(files["whole"]).read_text()
    assert run("verify", "--all", "--full")[0] == 0
    assert run("snapshot", "bazaar")[0] == 0


def test_a_whole_world_is_not_extended(files: dict[str, str], elsewhere: tuple[str, Elsewhere]) -> None:
    """A world that was imported itself takes appends of its own, so a longer export of it is refused."""
    _, run = elsewhere
    assert run("import", "log", files["whole"])[0] == 0
    code, _, told = run("import", "log", files["longer"])
    assert code == 2
    assert "its log ends at seq 7, where the file goes on to seq 8; import it into another database" in told


def test_the_same_end_makes_a_beginning_whole(
    on: Cli, files: dict[str, str], elsewhere: tuple[str, Elsewhere], tmp_path: Path
) -> None:
    """An export of the world itself that ends where the beginning does has nothing to write, and lifts the mark."""
    _, run = elsewhere
    file = str(tmp_path / "all.ndjson")
    assert on("fork", "bazaar", "--as", "last").code == on("export", "last", "-o", file).code == 0
    assert run("import", "log", file)[0] == 0
    assert run("snapshot", "bazaar")[0] != 0
    assert run("import", "log", files["longer"])[0] == 0
    assert run("snapshot", "bazaar")[0] == 0


def test_another_history_is_refused(
    on: Cli, database_url: str, files: dict[str, str], elsewhere: tuple[str, Elsewhere], tmp_path: Path
) -> None:
    """A longer export that is not that of the beginning names the first effect that differs, and changes nothing."""
    url, run = elsewhere
    assert run("import", "log", files["late"])[0] == 0
    tamper(database_url, REWRITTEN)
    other = str(tmp_path / "other.ndjson")
    assert on("export", "bazaar", "-o", other).code == 0
    code, out, told = run("import", "log", other)
    assert (code, out) == (2, "")
    assert "a world named 'bazaar' is already there, and its log differs from seq 5 on" in told
    assert sql(url, "select head_seq from heads where world_id = 'bazaar'") == [(5,)]
    assert run("snapshot", "bazaar")[0] != 0


def test_a_beginning_that_ends_within_a_request(
    on: Cli, database_url: str, elsewhere: tuple[str, Elsewhere], tmp_path: Path
) -> None:
    """Extended, the request's row is that of its beginning; the command that mends it is named, and does."""
    _, run = elsewhere
    part, whole = str(tmp_path / "part.ndjson"), str(tmp_path / "whole.ndjson")

    asked = [say("ann", "Noted", float(n)) for n in range(6)]

    async def ask() -> None:
        async with Store.open(database_url, Settings(pool_size=2)) as store:
            await store.create_world(NewWorld(world_id="bazaar", time_authority="client"))
            await (await store.log("bazaar")).append_request(asked, source_id="ann", req_id="r1")

    asyncio.run(ask())
    assert on("fork", "bazaar", "--at", "4", "--as", "half").code == on("export", "half", "-o", part).code == 0
    assert on("export", "bazaar", "-o", whole).code == 0
    assert run("import", "log", part)[0] == run("verify", "bazaar")[0] == 0
    code, _, told = run("import", "log", whole)
    assert (code, told) == (
        0, "worldledger: bazaar had ended within a request; run `worldledger db repair requests bazaar`"
    )  # fmt: skip
    assert run("verify", "bazaar")[0] == 1
    assert run("db", "repair", "requests", "bazaar")[0] == 0
    assert run("verify", "bazaar")[0] == 0


def test_a_parent_that_is_not_here_is_named(
    on: Cli, files: dict[str, str], elsewhere: tuple[str, Elsewhere], tmp_path: Path
) -> None:
    """A fork that is imported without its past says what it goes on from, unless that is here."""
    _, run = elsewhere
    file = str(tmp_path / "own.ndjson")
    assert on("export", "late", "--own", "-o", file).code == 0
    code, _, told = run("import", "log", file)
    assert code == 0
    assert "world 'late' goes on from seq 5 of world 'bazaar', which is not in this database" in told
    assert run("import", "log", files["early"])[0] == 0
    assert "which is not in this database; import a longer export of it" in run("import", "log", file)[2]
    assert run("import", "log", files["whole"])[0] == 0
    assert run("import", "log", file)[2] == ""
    assert run("verify", "late")[0] == 0
