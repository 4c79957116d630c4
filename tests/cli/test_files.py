"""`export` and `import log`: files that are whole or not there, and worlds that come back."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from worldledger_service.cli.output import put
from worldledger_service.store.snapshotter import Snapshotter

from tests.store.exports import export_of, genesis, text

from .conftest import Cli
from .helpers import UNGUARDED, append, call, seed, sql, untouched


@pytest.fixture
def other(cli: Cli, make_database: Callable[..., str]) -> Cli:
    """Return a function that runs one command on a second database."""
    url = make_database()
    return lambda *arguments: cli(*arguments, "--database-url", url)


def test_there_and_back(on: Cli, other: Cli, database_url: str, tmp_path: Path) -> None:
    """A world that is exported and imported elsewhere exports the same file there, and verifies."""
    seed(database_url, "w", experiment="e")
    file, again = tmp_path / "w.ndjson", tmp_path / "again.ndjson"
    result = on("export", "w", "-o", str(file))
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith("worldledger: exported w: 10 effects, head 10:")
    result = other("import", "log", str(file))
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("imported w, 10 effects, head 10:")
    assert other("export", "w", "-o", str(again)).code == 0
    assert again.read_bytes() == file.read_bytes()
    assert other("verify", "--all").code == 0
    assert other("worlds", "--experiment", "e", "--json").out.count("world_id") == 1


def test_a_world_that_comes_back_has_its_snapshots(
    on: Cli, other: Cli, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are taken before the command ends, and nothing of them is written into the log."""
    monkeypatch.setenv("WORLDLEDGER_SNAPSHOT_EVERY", "4")
    seed(database_url, "w")
    file = tmp_path / "w.ndjson"
    on("export", "w", "-o", str(file))
    assert other("import", "log", str(file)).out.startswith("imported w, 10 effects, head 10:")
    assert [each["global_seq"] for each in json.loads(other("snapshots", "w", "--json").out)] == [4, 8]


def test_an_import_is_told_before_its_snapshots_are_there(
    on: Cli, other: Cli, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as the world is in; the command then waits for them, but not for long."""
    seed(database_url, "w")
    file = tmp_path / "w.ndjson"
    on("export", "w", "-o", str(file))

    close = Snapshotter.close

    async def wait(snapshotter: Snapshotter) -> None:
        put("waiting for snapshots")
        await close(snapshotter)

    monkeypatch.setattr(Snapshotter, "close", wait)
    said = other("import", "log", str(file)).out.splitlines()
    assert [line.split(",")[0] for line in said] == ["imported w", "waiting for snapshots"]


def test_import_again(on: Cli, database_url: str, tmp_path: Path) -> None:
    """What is there already is no error; a log that has gone on is."""
    seed(database_url, "w")
    file = str(tmp_path / "w.ndjson")
    on("export", "w", "-o", file)
    result = on("import", "log", file)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("already there, nothing to do: w, 10 effects, head 10:")
    append(database_url, "w")
    result = on("import", "log", file)
    assert (result.code, result.out) == (2, "")
    assert "has the whole file and goes on, to seq 11; the file ends at seq 10; nothing was imported" in result.err


#: What is done to the lines of a file, the line that is named then, and why.
_DAMAGES: dict[str, tuple[Callable[[list[bytes]], list[bytes]], int]] = {
    "truncated": (lambda lines: lines[:4], 4),
    "out of order": (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], 3),
    "changed": (lambda lines: [line.replace(b'"n":3', b'"n":4') for line in lines], 5),
    "empty": (lambda _: [], 1),
}


def test_a_file_that_does_not_hold(
    on: Cli, other: Cli, database_url: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A truncated, reordered, edited or empty file is refused by its line, and nothing of it is written."""
    seed(database_url, "w")
    whole, file = tmp_path / "w.ndjson", tmp_path / "damaged.ndjson"
    on("export", "w", "-o", str(whole))
    for reason, (change, line) in _DAMAGES.items():
        with subtests.test(reason):
            file.write_bytes(b"".join(change(whole.read_bytes().splitlines(keepends=True))))
            result = other("import", "log", str(file))
            assert (result.code, result.out) == (1, "")
            assert result.err.startswith(f"worldledger: {file}:{line}: ")
            assert reason in result.err
            assert result.err.endswith("; nothing was imported\n")
            assert other("worlds", "--json").out == "[]\n"


def test_through_pipes(on: Cli, database_url: str, make_database: Callable[..., str]) -> None:
    """`-` is stdout and stdin: a world goes from one database to another through a pipe."""
    seed(database_url, "w", 3000)
    url = make_database()
    data = call("export", "w", "-o", "-", "--quiet", "--database-url", database_url).out.encode()
    result = call("import", "log", "-", "--database-url", url, stdin=data)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("imported w, 3001 effects")
    assert call("verify", "--file", "-", stdin=data).out.startswith("verified -: w 3001 effects")


def test_an_export_replaces_a_file_at_its_end(on: Cli, database_url: str, tmp_path: Path) -> None:
    """A file of that name is replaced by the whole export if --force says so, also behind a link; else it stays."""
    seed(database_url, "w")
    file, link = tmp_path / "w.ndjson", tmp_path / "link"
    file.write_text("old")
    link.symlink_to(file)
    sql(
        database_url, "alter table effects disable trigger all", "update effects set effect = '{}' where global_seq = 3"
    )
    refused = on("export", "w", "-o", str(link))
    assert refused == (2, "", f"worldledger: {link}: is already there; --force replaces it\n")
    result = on("export", "w", "-o", str(link), "--force")
    assert (result.code, result.out) == (1, "")
    assert "world w, seq 3: checksum differs" in result.err
    assert file.read_text() == "old"
    sql(database_url, "delete from effects where global_seq >= 3")
    seed(database_url, "v")
    assert on("export", "v", "-o", str(link), "--force").code == 0
    assert link.is_symlink()
    assert file.read_text().count("\n") == 11
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~umask
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "w.ndjson"]


#: An effect has the uuid of the one before; its checksum and the head are made anew.
_UUID_TWICE = (
    """
    update effects e set effect = replace(e.effect::text, e.effect ->> 'uuid', b.effect ->> 'uuid')::json
    from effects b where b.world_id = e.world_id and b.global_seq = e.global_seq - 1 and {}
    """,
    """
    update effects e set checksum = chain_checksum(b.checksum, e.effect)
    from effects b where b.world_id = e.world_id and b.global_seq = e.global_seq - 1 and {}
    """,
    "update heads h set head_checksum = e.checksum from effects e where h.world_id = e.world_id and {}",
)


def test_all_worlds(on: Cli, database_url: str, tmp_path: Path) -> None:
    """`export --all` makes a file of each world; none is replaced unless forced, and a tampered one stops no other."""
    for name in ("a", "b", "c"):
        seed(database_url, name)
    folder = tmp_path / "new" / "backup"
    assert on("export", "--all", "-o", str(folder)) == (0, "", f"worldledger: exported 3 of 3 worlds to {folder}\n")
    assert sorted(path.name for path in folder.iterdir()) == ["a.ndjson", "b.ndjson", "c.ndjson"]
    for path in folder.iterdir():
        assert on("verify", "--file", str(path)).code == 0
    (folder / "a.ndjson").unlink()
    refused = on("export", "--all", "-o", str(folder))
    assert (refused.code, "b.ndjson: is already there; --force" in refused.err) == (2, True)
    assert not (folder / "a.ndjson").exists()
    sql(database_url, UNGUARDED, "update effects set effect = '{}' where world_id = 'b' and global_seq = 3")
    result = on("export", "--all", "-o", str(folder), "--force")
    assert (result.code, "exported 2 of 3 worlds" in result.err, "world b, seq 3" in result.err) == (1, True, True)
    assert (folder / "a.ndjson").exists()
    sql(database_url, *(statement.format("e.world_id = 'c' and e.global_seq = 10") for statement in _UUID_TWICE))
    result = on("export", "c", "-o", str(tmp_path / "c"))
    assert (result.code, result.out) == (1, "")
    assert "world c, seq 10: the uuid is that of seq 9, too" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert "exported 1 of 3 worlds" in on("export", "--all", "-o", str(folder), "--force").err
    seed(database_url, "d", experiment="e")
    assert "exported 1 of 1 worlds" in on("export", "--experiment", "e", "-o", str(tmp_path / "e")).err
    assert [path.name for path in (tmp_path / "e").iterdir()] == ["d.ndjson"]
    for arguments in (("w", "--all"), ("--all", "--experiment", "e"), ()):
        assert "name a world, or give" in on("export", *arguments, "-o", str(folder)).err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_places_that_cannot_be_written(on: Cli, database_url: str, tmp_path: Path) -> None:
    """A full device, an absent folder, a folder: exit code 2, and why."""
    seed(database_url, "w")
    for place, why in {
        "/dev/full": "No space left",
        tmp_path / "no" / "f": "No such file",
        tmp_path: "Is a direc",
    }.items():
        result = on("export", "w", "-o", str(place))
        assert (result.code, result.out) == (2, "")
        assert f"{place}: cannot be written ({why}" in result.err
    assert Path("/dev/full").is_char_device()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filled(by=untouched, read=True)
def test_unknown_things(on: Cli, tmp_path: Path) -> None:
    """An unknown world or file is exit code 2, and leaves no file."""
    assert on("export", "nowhere", "-o", str(tmp_path / "f")) == (
        2,
        "",
        "worldledger: no world named 'nowhere'; `worldledger worlds` lists all\n",
    )
    assert list(tmp_path.iterdir()) == []
    result = on("import", "log", str(tmp_path / "absent"))
    assert (result.code, result.out) == (2, "")
    assert "absent: cannot be read (No such file or directory)" in result.err


def test_an_unknown_ruleset_is_mentioned(on: Cli, other: Cli, database_url: str, tmp_path: Path) -> None:
    """A world whose ruleset is not installed is imported, with a remark; its log is read and exported as any other."""
    file = tmp_path / "mars.ndjson"
    file.write_bytes(export_of([text(genesis(ruleset="from-mars"))]))
    result = on("import", "log", str(file))
    assert result.code == 0
    assert "the ruleset 'from-mars' of this world is not installed" in result.err
    log, exported = on("log", "w"), on("export", "w", "-o", str(tmp_path / "again.ndjson"))
    assert ((log.code, exported.code), "from-mars" in log.out) == ((0, 0), True), (log, exported)
    assert other("import", "log", str(file), "--quiet").err == ""
