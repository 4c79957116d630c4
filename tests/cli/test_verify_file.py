"""`verify --file`: exports that hold, that do not, and files of which nothing can be said."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.store.exports import effect, export_of, genesis, text, texts

from .conftest import Cli
from .helpers import Running, seed
from .test_verify import head_of


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


def test_files_that_are_no_exports(cli: Cli, file: Path, tmp_path: Path) -> None:
    """What is no export, or cannot be read, is exit code 2: nothing can be said about it."""
    for name, data in {
        "empty": b"",
        "blank": b"\n\n",
        "game": b'[Event "x"]\n',
        "object": b'{"a":1}\n',
        "binary": bytes(range(256)),
        "long": b"a" * 70_000_000,
        "BOM": b"\xef\xbb\xbf" + file.read_bytes(),
        "CRLF": file.read_bytes().replace(b"\n", b"\r\n"),
    }.items():
        path = tmp_path / name
        path.write_bytes(data)
        result = cli("verify", "--file", str(path))
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith(f"worldledger: {path}:1: could not check: ")
        assert name == "long" or "not a worldledger export: " in result.err
    for path in (tmp_path, tmp_path / "absent"):
        result = cli("verify", "--file", str(path))
        assert (result.code, result.out) == (2, "")
        assert "cannot be read" in result.err


def test_damaged_exports(cli: Cli, file: Path) -> None:
    """An export of which the beginning was damaged is refused with exit code 1, also where no world can be named."""
    lines = file.read_bytes().splitlines(keepends=True)
    for data, why in {
        b"".join(lines[1:]): "the first line is not the effect WorldCreated",
        lines[-1]: "a trailer without effects",
        lines[0][:60]: "the file ends in the middle of this line",
        lines[0].replace(b'"ruleset":', b'"ruleset": ') + b"".join(lines[1:]): "white space",
    }.items():
        file.write_bytes(data)
        result = cli("verify", "--file", str(file))
        assert (result.code, result.err) == (1, "")
        assert result.out.startswith(f"REFUSED {file} at line 1: ")
        assert why in result.out


def test_an_export_of_another_version(cli: Cli, tmp_path: Path) -> None:
    """Of a format that this version does not know nothing can be said."""
    file = tmp_path / "f"
    file.write_bytes(export_of(texts(3)).replace(b"worldledger-export/1", b"worldledger-export/9"))
    result = cli("verify", "--file", str(file))
    assert (result.code, result.out) == (2, "")
    assert "could not check: format 'worldledger-export/9' is unknown to this version" in result.err


def test_a_genesis_of_another_profile(cli: Cli, on: Cli, file: Path) -> None:
    """A genesis with an unknown canonical profile is refused with exit code 1, as by `import log`."""
    file.write_bytes(export_of([text(genesis(canonical_profile="other/1"))]))
    result = cli("verify", "--file", str(file))
    assert (result.code, result.err) == (1, "")
    assert "canonical profile 'other/1' is unknown to this version" in result.out
    assert on("import", "log", str(file)).code == 1


def test_large_effects(cli: Cli, on: Cli, tmp_path: Path) -> None:
    """An honest export with effects over this installation's limit verifies; import refuses it, and says why."""
    file = tmp_path / "large"
    file.write_bytes(export_of([*texts(2), text(effect(3, payload={"text": "x" * 3_000_000}))]))
    assert cli("verify", "--file", str(file)).out.startswith(f"verified {file}: w 3 effects")
    result = on("import", "log", str(file))
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"worldledger: {file}:3: an effect of more than 1048576 bytes, the limit here;"
        " raise WORLDLEDGER_MAX_EFFECT_BYTES to allow it; nothing was imported\n"
    )


def test_a_line_beyond_any_limit(cli: Cli, tmp_path: Path) -> None:
    """A line that is too long to be looked at is no finding; exit code 2 says what to do."""
    file = tmp_path / "huge"
    file.write_bytes(b"".join(line + b"\n" for line in texts(2)) + b"x" * (64 * 1024 * 1024 + 1))
    result = cli("verify", "--file", str(file))
    assert (result.code, result.out) == (2, "")
    assert f"{file}:3: could not check: an effect of more than 67108864 bytes" in result.err
    assert "raise WORLDLEDGER_MAX_EFFECT_BYTES" in result.err


def test_through_a_pipe(file: Path, tmp_path: Path) -> None:
    """A named pipe is read like a file, as the shell's <(…) makes one."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with Running("verify", "--file", str(pipe)) as running:
        pipe.write_bytes(file.read_bytes())
        assert running.line().startswith(f"verified {pipe}: w 10 effects")
        assert running.end().code == 0
