"""`verify`: exit code 0, 1 or 2, and what differs by world and seq."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from worldledger_service.cli import verify
from worldledger_service.store.spans import Hear, Span

from tests.warm import SCRIPT

from .conftest import Cli
from .helpers import append, environment, seed, sql, untouched

_CHANGE = """
    update effects set effect = replace(effect::text, '"n":3', '"n":4')::json where world_id = 'w' and global_seq = 5
"""


def tamper(url: str, *statements: str) -> None:
    """Change history as a superuser who takes the guards away."""
    tables = ("worlds", "heads", "effects", "requests")
    sql(url, *(f"alter table {table} disable trigger all" for table in tables), *statements)


def head_of(on: Cli, world_id: str = "w") -> str:
    """Return the head as verify prints it."""
    result = on("verify", world_id)
    found = re.fullmatch(rf"verified {world_id} \d+ effects, head (\d+:[0-9a-f]{{64}})\n", result.out)
    assert found, result
    return found[1]


def test_whole_worlds(on: Cli, database_url: str) -> None:
    """Each world is a line with its number of effects and its head; --all means every one."""
    for world_id in ("w", "v", "u"):
        seed(database_url, world_id)
    result = on("verify", "w", "v", "w")
    assert (result.code, result.err) == (0, "worldledger: 2 verified, 0 tampered\n")
    assert [line.split(" effects, head 10:")[0] for line in result.out.splitlines()] == [
        "verified w 10",
        "verified v 10",
    ]
    assert [line.split()[1] for line in on("verify", "--all").out.splitlines()] == ["u", "v", "w"]


def test_nothing_to_verify(on: Cli) -> None:
    """In an empty database --all finds nothing wrong."""
    assert on("verify", "--all") == (0, "", "worldledger: there are no worlds to verify\n")
    assert on("verify", "--all", "--json") == (0, "[]\n", "worldledger: there are no worlds to verify\n")


def test_requests_and_their_repair(on: Cli, database_url: str) -> None:
    """A request that was made up is found; `db repair requests` tells it, removes it, and touches nothing else."""
    seed(database_url, "v")
    seed(database_url, "w")
    tamper(database_url, "insert into requests values ('w', 'ann', 'mine', sha256('x'), 3, 3)")
    found = on("verify", "--all", "--quiet")
    what = "the table requests has a row for req_id 'mine' of 'ann' (seq 3 to 3), which is not in the log there"
    what += "; `worldledger db repair requests w` makes its rows from the log"
    assert (found.code, found.out) == (1, f"TAMPERED w at seq 3: {what}\n")
    counts = "w: rows removed: 1, written: 0\n"
    assert on("db", "repair", "requests", "w", "--dry-run") == (0, f"would repair {counts}", "")
    assert on("verify", "w").code == 1
    assert on("db", "repair", "requests") == (0, f"as it should be: v\nrepaired {counts}", "")
    assert on("verify", "w", "--full").code == 0
    assert on("db", "repair", "requests", "--quiet") == (0, "", "")
    assert json.loads(on("db", "repair", "requests", "w", "--json").out) == [
        {"world_id": "w", "repaired": False, "removed": 0, "written": 0, "finding": None}
    ]
    absent = "worldledger: no world named 'x'; `worldledger worlds` lists all\n"
    assert on("db", "repair", "requests", "x") == (2, "", absent)
    tamper(database_url, _CHANGE)
    refused = on("db", "repair", "requests", "w")
    assert (refused.code, refused.err) == (1, "")
    assert refused.out.startswith("REFUSED w at seq 5: checksum differs")


def test_a_full_check(on: Cli, database_url: str) -> None:
    """A text that is not canonical, with a chain computed anew, is found by --full, as its export is by --file."""
    seed(database_url, "w", 1)
    tamper(
        database_url,
        """update effects set effect = replace(effect::text, '"n":', '"n": ')::json where global_seq = 2""",
        """
        update effects set checksum = chain_checksum((select checksum from effects where global_seq = 1), effect)
        where global_seq = 2
        """,
        "update heads set head_checksum = (select checksum from effects where global_seq = 2)",
    )
    assert on("verify", "w").code == 0
    assert on("verify", "w", "--full").out == "TAMPERED w at seq 2: $: white space between values: not canonical text\n"


def test_a_changed_value(on: Cli, database_url: str) -> None:
    """A changed value is exit code 1; world, seq and what differs are named; the other worlds are still verified."""
    seed(database_url, "w")
    seed(database_url, "x")
    tamper(database_url, _CHANGE)
    result = on("verify", "--all")
    assert result.code == 1
    first, second = result.out.splitlines()
    assert first.startswith("TAMPERED w at seq 5: checksum differs: stored ")
    assert second.startswith("verified x 10 effects")
    assert result.err == f"worldledger: {first}\nworldledger: 1 verified, 1 tampered\n"
    assert on("verify", "--all", "--quiet") == (1, f"{first}\n", "")


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
    ((seq, checksum),) = sql(
        database_url, "select head_seq, encode(head_checksum, 'hex') from heads where world_id = 'w'"
    )
    assert (changed["head_seq"], changed["head_checksum"]) == (seq, checksum)
    assert (changed["verified_through"], changed["position"].partition(":")[0]) == (4, "4")
    assert whole == {
        "world_id": "x",
        "verified": True,
        "effects": 10,
        "head_seq": 10,
        "head_checksum": head.split(":")[1],
        "verified_through": 10,
        "position": head,
        "finding": None,
        "inherited": [],
    }


def test_a_world_that_is_not_there(on: Cli, database_url: str) -> None:
    """An unknown world is exit code 2, after the others were verified; a finding outweighs it."""
    seed(database_url, "w")
    result = on("verify", "nowhere", "w")
    unknown = "worldledger: no world named 'nowhere'; `worldledger worlds` lists all\n"
    said = f"{unknown}worldledger: 1 verified, 0 tampered, 1 not found\n"
    assert (result.code, result.err) == (2, said)
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


def test_from_a_position_that_the_log_does_not_have(on: Cli, database_url: str) -> None:
    """A --from beyond the end, or with another checksum than the log has there, is a finding that says just that."""
    seed(database_url, "w", 19)
    zeros = "0" * 64
    assert on("verify", "w", "--from", f"999:{zeros}") == (
        1,
        "TAMPERED w at seq 21: the log ends at seq 20, before the given --from 999\n",
        "",
    )
    ((checksum,),) = sql(database_url, "select encode(checksum, 'hex') from effects where global_seq = 5")
    assert on("verify", "w", "--from", f"5:{zeros}") == (
        1,
        f"TAMPERED w at seq 5: the checksum at seq 5 is {checksum[:16]}…, --from says {zeros[:16]}…\n",
        "",
    )
    (found,) = json.loads(on("verify", "w", "--from", f"5:{zeros}", "--json").out)
    assert (found["head_seq"], found["verified_through"], found["position"]) == (20, 0, None)
    tamper(database_url, "delete from effects where global_seq = 5")
    assert "seq 5: missing: there is no effect where the given --from" in on("verify", "w", "--from", f"5:{zeros}").out


def test_a_world_of_which_nothing_is_left(on: Cli, database_url: str) -> None:
    """A world without a trace is tampered with if somebody has a head of it, and else just not there."""
    seed(database_url, "w")
    head = head_of(on)
    tamper(database_url, "delete from effects", "delete from heads", "delete from requests", "delete from worlds")
    assert on("verify", "w") == (2, "", "worldledger: no world named 'w'; `worldledger worlds` lists all\n")
    for option, name in (("--head", "head"), ("--from", "--from")):
        assert on("verify", "w", option, head) == (
            1,
            f"TAMPERED w at seq 1: nothing of it is left; the given {name} names seq 10\n",
            "",
        )
    (found,) = json.loads(on("verify", "w", "--head", head, "--json").out)
    assert (found["verified"], found["head_seq"], found["head_checksum"], found["position"]) == (
        False,
        None,
        None,
        None,
    )
    assert on("verify", "no/world", "--head", head).code == 2


@pytest.mark.filled(by=untouched, read=True)
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
        (["w", "--head", "ZERO"], "is not SEQ:CHECKSUM (a number from 1 on"),
        (["w", "--from", "ZERO"], "is not SEQ:CHECKSUM (a number from 1 on"),
        (["w", "--from", "LATER", "--head", "HEAD"], "lies before --from"),
    ],
)
def test_wrong_usage(on: Cli, arguments: list[str], said: str) -> None:
    """What makes no sense together is exit code 2, and says so."""
    positions = {name: f"{seq}:{'0' * 64}" for name, seq in (("HEAD", 1), ("ZERO", 0), ("LATER", 2))}
    result = on("verify", *(positions.get(argument, argument) for argument in arguments))
    assert (result.code, result.out) == (2, "")
    assert said in " ".join(result.err.replace("│", " ").split())


def test_on_a_terminal(database_url: str) -> None:
    """On a terminal a bar moves where it takes long, and the lines above it stay whole: a head can be copied."""
    seed(database_url, "w", 3000)
    above, below = pty.openpty()
    with subprocess.Popen(
        [SCRIPT, "verify", "w", "nowhere", "--database-url", database_url],
        stdin=subprocess.DEVNULL,
        stdout=below,
        stderr=below,
        env=environment(COLUMNS="60", TERM="xterm", WORLDLEDGER_BAR_AFTER="0"),
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
    assert "worldledger: no world named 'nowhere'; `worldledger worlds` lists all" in lines
    assert any(line.startswith("verifying ") for line in lines)


#: Names, configs and times that the table of worlds takes and no world can have.
_NO_WORLDS = {
    "a": ("[]", "now"),
    "b": ("null", "now"),
    "c": ('{"a":"\\ud800"}', "now"),
    "d": ('{"a":1e400}', "now"),
    "e": ('{"a":' * 2000 + "1" + "}" * 2000, "now"),
    "../f": ("{}", "now"),
    "g": ("{}", "4000-01-01 BC"),
    "h": ("{}", "12000-01-01"),
    "i": ("{}", "-infinity"),
    "j": ("{}", "infinity"),
}


def test_a_row_that_cannot_be_read_hides_no_other_world(on: Cli, database_url: str, tmp_path: Path) -> None:
    """Worlds whose rows cannot be read are named, with exit code 1; all others are listed, verified and exported."""
    for world_id in ("v", "w"):
        seed(database_url, world_id)
    for name, (config, created_at) in _NO_WORLDS.items():
        sql(
            database_url,
            "insert into worlds (world_id, world_uuid, ruleset, ruleset_version, config, time_authority, created_at)"
            f" values ('{name}', gen_random_uuid(), 'sandbox', 1, '{config}', 'wall', '{created_at}')",
            "insert into heads (world_id, head_seq, head_checksum, sim_time, wall_time)"
            f" values ('{name}', 0, '', 0, 0)",
        )
    bad = sorted(_NO_WORLDS)
    for full in ((), ("--full",)):
        found = on("verify", "--all", "--json", *full)
        assert found.code == 1
        verdicts = {each["world_id"]: each for each in json.loads(found.out)}
        assert {name for name, each in verdicts.items() if each["verified"]} == {"v", "w"}
        assert sorted(verdicts) == sorted([*bad, "v", "w"])
        assert all("in the table worlds cannot be read" in verdicts[name]["finding"]["what"] for name in bad)
    assert on("verify", "a").out.startswith("TAMPERED a at seq 1: the row of this world in the table worlds")

    listed = on("worlds", "--json")
    assert (listed.code, [each["world_id"] for each in json.loads(listed.out)]) == (1, ["v", "w"])
    table = on("worlds")
    assert (table.code, [line.split()[0] for line in table.out.splitlines()]) == (1, ["WORLD", "v", "w"])
    assert [name for name in bad if f"world {name}, seq 1: the row" in table.err] == bad

    exported = on("export", "--all", "-o", str(tmp_path / "all"))
    assert (exported.code, sorted(path.name for path in tmp_path.rglob("*.ndjson"))) == (1, ["v.ndjson", "w.ndjson"])
    assert exported.err.endswith(f"exported 2 of 12 worlds to {tmp_path / 'all'}\n")
    replayed = on("replay", "--check", "--all")
    assert replayed.code == 1
    assert [line.split()[1] for line in replayed.out.splitlines() if not line.startswith("TAMPERED")] == ["v", "w"]
    repaired = on("db", "repair", "requests")
    assert (repaired.code, repaired.out.count("as it should be"), repaired.out.count("REFUSED")) == (1, 2, 10)
    assert on("verify", "g", "v").out.splitlines()[1].startswith("verified v ")


def test_a_head_without_a_time_hides_no_other_world(on: Cli, database_url: str) -> None:
    """Times in heads that are no numbers are a finding of their world, whatever is listed or checked."""
    for world_id in ("u", "v", "w"):
        seed(database_url, world_id)
    tamper(
        database_url,
        "update heads set sim_time = 'NaN' where world_id = 'u'",
        "update heads set wall_time = 'infinity' where world_id = 'w'",
    )
    for command in (("verify", "--all"), ("replay", "--check", "--all")):
        result = on(*command)
        assert result.code == 1
        first, second, third = result.out.splitlines()
        assert first == "TAMPERED u at seq 10: the head's sim_time is nan"
        assert second.split()[1] == "v"
        assert third == "TAMPERED w at seq 10: the head's wall_time is inf"
    listed = on("worlds", "--json")
    assert (listed.code, [each["world_id"] for each in json.loads(listed.out)]) == (1, ["v"])


def test_processes_share_a_long_log(
    on: Cli, database_url: str, monkeypatch: pytest.MonkeyPatch, thorough: bool
) -> None:
    """With --jobs, a long log is verified by other processes, too, and what is said is what one process says."""
    seed(database_url, "w", 600)
    alone = on("verify", "w", "--jobs", "1")
    assert alone.code == 0
    held: list[int] = []
    hold = verify.SpanWorkers.hold

    async def counted(self: verify.SpanWorkers, spans: Sequence[Span], hear: Hear) -> bool:
        held.append(len(spans))
        return await hold(self, spans, hear)

    monkeypatch.setattr(verify.SpanWorkers, "hold", counted)
    assert on("verify", "w", "--jobs", "3") == alone
    assert held == []  # too short to be worth a process
    monkeypatch.setattr("worldledger_service.store.verification._SPAN", 150)
    monkeypatch.setattr("worldledger_service.store.verification._HEAD_START", 50)
    with monkeypatch.context() as patched:
        patched.setattr("worldledger_service.store.verification._Log.verified", None)  # which would look again
        assert on("verify", "w", "--jobs", "3") == alone
    assert held == [2]
    if thorough:  # of a log that does not hold tests/store/test_spans.py has it
        late = "update effects set effect = replace(effect::text, '\"n\":590', '\"n\":29')::json where world_id = 'w'"
        tamper(database_url, late)
        found = on("verify", "w", "--jobs", "1")
        assert found.code == 1
        assert on("verify", "w", "--jobs", "3") == found
    assert not [child for child in psutil.Process().children(recursive=True) if "spawn_main" in str(child.cmdline())]


def test_checksums_that_begin_alike(on: Cli, database_url: str, tmp_path: Path) -> None:
    """Of two checksums that differ late, as much is shown as tells them apart."""
    seed(database_url, "w")
    head = head_of(on)
    other = head[:-4] + "".join("0" if each == "f" else "f" for each in head[-4:])
    checksum, wrong = head.partition(":")[2], other.partition(":")[2]
    result = on("verify", "w", "--head", other)
    assert result.code == 1
    assert f"the checksum is {checksum[:61]}…, the given head says {wrong[:61]}…" in result.out
    assert wrong[:61] in on("verify", "w", "--from", other).out
    file = str(tmp_path / "w.jsonl")
    assert on("export", "w", "-o", file).code == 0
    assert wrong[:61] in on("verify", "--file", file, "--head", other).out
