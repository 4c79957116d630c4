"""Every command that reads a world whose row in the table heads is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Cli
from .helpers import seed
from .test_broken_schema import without_constraints
from .test_verify import tamper

#: Damages of a row of heads.
DAMAGES = {
    "seq 0": "update heads set head_seq = 0 {}",
    "seq below 0": "update heads set head_seq = -1 {}",
    "seq of no log": "update heads set head_seq = 9223372036854775807 {}",
    "seq null": "update heads set head_seq = null {}",
    "checksum null": "update heads set head_checksum = null {}",
    "checksum empty": "update heads set head_checksum = '' {}",
    "checksum short": "update heads set head_checksum = '\\x01' {}",
    "sim_time null": "update heads set sim_time = null {}",
    "sim_time nan": "update heads set sim_time = 'nan' {}",
    "wall_time null": "update heads set wall_time = null {}",
    "wall_time infinite": "update heads set wall_time = 'infinity' {}",
    "row gone": "delete from heads {}",
    "row twice": "insert into heads select * from heads {}",
    "other row twice": "insert into heads select world_id, 1, head_checksum, sim_time, wall_time, moved from heads {}",
}

#: Commands about such a world, those about several, and one about a fork of it.
COMMANDS = [
    ("worlds",),
    ("log", "w"),
    ("fork", "w", "--as", "f", "--at", "3"),
    ("fork", "w", "--as", "g"),
    ("state", "w"),
    ("state", "w", "--at", "2"),
    ("view", "w", "ann"),
    ("diff", "w", "2", "4"),
    ("compare", "w", "v"),
    ("search", "w", "x"),
    ("why", "w", "3"),
    ("replay", "w"),
    ("replay", "--check", "w"),
    ("replay", "--check", "--all"),
    ("verify", "w"),
    ("verify", "--all"),
    ("report", "w", "-o", "{}/r.html"),
    ("snapshots", "w"),
    ("snapshot", "w"),
    ("snapshot", "w", "--at", "3"),
    ("export", "w", "-o", "{}/w.jsonl"),
    ("export", "html", "w", "-o", "{}/w.html"),
    ("export", "parquet", "-o", "{}/lake"),
    ("project", "--once", "--timeout", "20"),
    ("projections", "verify", "--all"),
    ("projections", "rebuild", "entities", "--world", "w"),
    ("db", "repair", "requests", "w"),
    ("db", "check"),
    ("import", "log", "{}/good.jsonl"),
    ("rerun", "child"),
]


#: Commands that read no head, or compare something else with the log.
ELSEWHERE = {("project", "--once", "--timeout", "20"), ("projections", "verify", "--all")}
PARQUET = ("export", "parquet", "-o", "{}/lake")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_head(on: Cli, database_url: str, tmp_path: Path, damage: str) -> None:
    """Whichever command comes upon it names the world and what is wrong with it, and the exit code is 1."""
    for name in "vw":
        seed(database_url, name, 9)
    assert on("export", "w", "-o", str(tmp_path / "good.jsonl")).code == 0
    assert on("fork", "w", "--as", "child", "--at", "4").code == 0
    assert on("project", "--once").code == 0
    lost = [each for each in without_constraints() if " heads " in each]
    tamper(database_url, *lost, DAMAGES[damage].format("where world_id = 'w'"))
    for command in COMMANDS:
        result = on(*(each.format(tmp_path) for each in command))
        said = result.out + result.err
        assert "Traceback" not in said, command
        if command in ELSEWHERE or (command == PARQUET and "time" in damage):
            assert result.code in {0, 1}, (command, said)
            continue
        assert result.code == 1, (command, said)
        assert "head" in said, (command, said)
    assert on("verify", "v").code == 0
