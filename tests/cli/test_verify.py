"""`verify`: exit code 0, 1 or 2, and what differs by world and seq."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from .conftest import Cli
from .helpers import SCRIPT, append, environment, seed, sql

_CHANGE = """
    update effects set effect = replace(effect::text, '"n":3', '"n":4')::json where world_id = 'w' and global_seq = 5
"""


def tamper(url: str, *statements: str) -> None:
    """Change history as a superuser who takes the guards away."""
    tables = ("worlds", "heads", "effects", "requests")
    sql(url, *(f"alter table {table} disable trigger all" for table in tables), *statements)


def head_of(on: Cli, world_id: str = "w") -> str:
    """Give the head as verify prints it."""
    result = on("verify", world_id)
    found = re.fullmatch(rf"verified {world_id} \d+ effects, head (\d+:[0-9a-f]{{64}})\n", result.out)
    assert found, result
    return found[1]


def test_whole_worlds(on: Cli, database_url: str) -> None:
    """Each world is a line with its number of effects and its head; --all means every one."""
    for world_id in ("w", "v", "u"):
        seed(database_url, world_id)
    result = on("verify", "w", "v", "w")
    assert (result.code, result.err) == (0, "")
    assert [line.split(" effects, head 10:")[0] for line in result.out.splitlines()] == [
        "verified w 10",
        "verified v 10",
    ]
    assert [line.split()[1] for line in on("verify", "--all").out.splitlines()] == ["u", "v", "w"]


def test_nothing_to_verify(on: Cli) -> None:
    """In an empty database --all finds nothing wrong."""
    assert on("verify", "--all") == (0, "", "worldledger: there are no worlds to verify\n")
    assert on("verify", "--all", "--json") == (0, "[]\n", "worldledger: there are no worlds to verify\n")


def test_a_changed_value(on: Cli, database_url: str) -> None:
    """A changed value is exit code 1; world, seq and what differs are named; the other worlds are still verified."""
    seed(database_url, "w")
    seed(database_url, "x")
    tamper(database_url, _CHANGE)
    result = on("verify", "--all")
    assert (result.code, result.err) == (1, "")
    first, second = result.out.splitlines()
    assert first.startswith("TAMPERED w at seq 5: checksum differs: stored ")
    assert second.startswith("verified x 10 effects")


def test_json(on: Cli, database_url: str) -> None:
    """--json has an object for each world, with the finding where there is one."""
    seed(database_url, "w")
    seed(database_url, "x")
    head = head_of(on, "x")
    tamper(database_url, _CHANGE)
    result = on("verify", "w", "x", "--json")
    assert result.code == 1
    changed, whole = json.loads(result.out)
    assert (changed["world_id"], changed["verified"], changed["finding"]["global_seq"]) == ("w", False, 5)
    assert changed["finding"]["what"].startswith("checksum differs")
    assert whole == {
        "world_id": "x",
        "verified": True,
        "effects": 10,
        "head_seq": 10,
        "head_checksum": head.split(":")[1],
        "position": head,
        "finding": None,
    }


def test_a_world_that_is_not_there(on: Cli, database_url: str) -> None:
    """An unknown world is exit code 2, after the others were verified; a finding outweighs it."""
    seed(database_url, "w")
    result = on("verify", "nowhere", "w")
    assert (result.code, result.err) == (2, "worldledger: no world named 'nowhere'\n")
    assert result.out.startswith("verified w 10 effects")
    tamper(database_url, _CHANGE)
    assert on("verify", "nowhere", "w").code == 1


def test_a_rewritten_chain_is_found_by_a_noted_head(on: Cli, database_url: str) -> None:
    """A log that was recomputed from some seq on, or cut off with its head, verifies, except against a noted head."""
    seed(database_url, "w")
    head = head_of(on)
    append(database_url, "w")
    later = head_of(on)
    assert on("verify", "w", "--head", head, "--head", later).code == 0
    tamper(
        database_url,
        "delete from effects where global_seq > 9",
        "update heads set (head_seq, head_checksum, sim_time, wall_time) = (select 9, checksum, sim_time,"
        " (effect ->> 'wall_time')::float8 from effects where global_seq = 9)",
    )
    assert on("verify", "w").code == 0
    result = on("verify", "w", "--head", head)
    assert result.code == 1
    assert "the log ends at seq 9, before the given head 10" in result.out


def test_from_a_trusted_position(on: Cli, database_url: str) -> None:
    """--from looks at what came since only."""
    seed(database_url, "w")
    head = head_of(on)
    tamper(database_url, _CHANGE)
    append(database_url, "w")
    result = on("verify", "w", "--from", head)
    assert result.code == 0
    assert result.out.startswith("verified w 1 effects since seq 10, head 11:")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name the worlds"),
        (["w", "--all"], "name the worlds"),
        (["w", "--file", "f"], "name the worlds"),
        (["w", "v", "--head", "HEAD"], "about one world"),
        (["--all", "--from", "HEAD"], "about one world"),
        (["--file", "f", "--from", "HEAD"], "--from is of no use with"),
        (["w", "--head", "17"], "is not SEQ:CHECKSUM"),
    ],
)
def test_wrong_usage(on: Cli, arguments: list[str], said: str) -> None:
    """What makes no sense together is exit code 2, and says so."""
    result = on("verify", *(argument.replace("HEAD", f"1:{'0' * 64}") for argument in arguments))
    assert (result.code, result.out) == (2, "")
    assert said in " ".join(result.err.replace("│", " ").split())


# -- files ---------------------------------------------------------------------------------------------------


@pytest.fixture
def file(on: Cli, database_url: str, tmp_path: Path) -> Path:
    """An export of the world w."""
    seed(database_url, "w")
    path = tmp_path / "w.ndjson"
    assert on("export", "w", "-o", str(path), "--quiet") == (0, "", "")
    return path


def test_a_file_is_verified_offline(cli: Cli, on: Cli, file: Path) -> None:
    """Without any database a file is verified; its head is the world's."""
    result = cli("verify", "--file", str(file), "--home", "/dev/null/nowhere")
    head = head_of(on)
    assert result == (0, f"verified {file}: w 10 effects, head {head}\n", "")
    (found,) = json.loads(cli("verify", "--file", str(file), "--json").out)
    assert (found["file"], found["world_id"], found["verified"], found["position"]) == (str(file), "w", True, head)
    assert cli("verify", "--file", str(file), "--head", head).code == 0
    assert cli("verify", "--file", str(file), "--head", f"10:{'0' * 64}").code == 1


def test_a_changed_file(cli: Cli, file: Path) -> None:
    """A changed file is exit code 1, and the line is named."""
    file.write_bytes(file.read_bytes().replace(b'"n":3', b'"n":4'))
    assert cli("verify", "--file", str(file)) == (
        1,
        f"TAMPERED {file} at line 5 (world w): this line was changed: from here on the checksums differ\n",
        "",
    )
    (found,) = json.loads(cli("verify", "--file", str(file), "--json").out)
    assert (found["world_id"], found["verified"], found["finding"]["line"]) == ("w", False, 5)


def test_files_that_are_no_exports(cli: Cli, tmp_path: Path) -> None:
    """What is no export is refused; what cannot be read is exit code 2."""
    for name, data in {
        "empty": b"",
        "game": b'[Event "x"]\n',
        "binary": bytes(range(256)),
        "long": b"a" * 50_000_000,
    }.items():
        (tmp_path / name).write_bytes(data)
        result = cli("verify", "--file", str(tmp_path / name))
        assert result.code == 1
        assert result.out.startswith(f"REFUSED {tmp_path / name} at line 1: ")
    for path in (tmp_path, tmp_path / "absent"):
        result = cli("verify", "--file", str(path))
        assert (result.code, result.out) == (2, "")
        assert "cannot be read" in result.err


def test_on_a_terminal(database_url: str) -> None:
    """On a terminal a bar moves, and the lines above it stay whole, so that a head can be copied."""
    seed(database_url, "w", 3000)
    above, below = pty.openpty()
    with subprocess.Popen(
        [SCRIPT, "verify", "w", "nowhere", "--database-url", database_url],
        stdin=subprocess.DEVNULL,
        stdout=below,
        stderr=below,
        env=environment(COLUMNS="60", TERM="xterm"),
    ) as process:
        os.close(below)
        shown = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while data := os.read(above, 4096):
                shown += data
        assert process.wait(timeout=60) == 2
    os.close(above)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r", "\n").splitlines()
    assert any(re.fullmatch(r"verified w 3001 effects, head 3001:[0-9a-f]{64}", line) for line in lines)
    assert "worldledger: no world named 'nowhere'" in lines
    assert any(line.startswith("verifying ") for line in lines)
