"""`import csv`, `import jsonl` and `import parquet`: rows become effects once, in order, and bad ones are named."""

from __future__ import annotations

import asyncio
import io
import json
import signal
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from worldledger_recorder.files import importing
from worldledger_recorder.files.importing import FileSummary, import_table
from worldledger_recorder.files.mapping import Csv, mapping_of
from worldledger_recorder.files.tables import open_table
from worldledger_service.cli import output
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from tests.waiting import block_until
from worldledger.errors import FileRefusedError, WorldExistsError

from .conftest import Cli
from .helpers import Running, record, say, sql

TOWN = """time,agent,event,price,gold,turn
0.5,alice,Sold,1.5,3,1
1,bob,Bought,2,4,1
2,alice,Sold,3,5,2
"""
MAPPING = """
time: time
step: turn
agent: agent
kind: event
entity: {id: agent, fields: [gold]}
types: {price: number, gold: integer}
"""


def _write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def _effects(url: str, world: str) -> list[tuple[str, str, float, Any]]:
    """Return what rows have become: no genesis, registrations, notes and digests."""
    rows = sql(
        url,
        f"""select kind, source_id, sim_time, effect -> 'payload' from effects where world_id = '{world}'
            and kind not in ('WorldCreated', 'AgentRegistered', 'RowsImported', 'StateDigest') order by global_seq""",
    )
    return [(kind, source, time, json.loads(payload)) for kind, source, time, payload in rows]


def test_rows_go_in_once(on: Cli, tmp_path: Path, database_url: str) -> None:
    """A file becomes a world with its agents, steps, events and state; the same command again adds nothing."""
    file, mapping = _write(tmp_path / "town.csv", TOWN), _write(tmp_path / "town.yaml", MAPPING)
    command = ("import", "csv", file, "--map", mapping, "--experiment", "pilot")
    assert on(*command) == (0, "imported 3 rows (12 effects) into pilot-town\n", "")
    assert on(*command) == (0, "imported 0 rows (0 effects), 3 already there\n", "")
    assert _effects(database_url, "pilot-town") == [
        ("StepBegan", "recorder", 0.5, {"step": 1}),
        ("Sold", "alice", 0.5, {"price": 1.5}),
        ("EntitySet", "alice", 0.5, {"entity_id": "alice", "values": {"gold": 3}}),
        ("Bought", "bob", 1.0, {"price": 2.0}),
        ("EntitySet", "bob", 1.0, {"entity_id": "bob", "values": {"gold": 4}}),
        ("StepBegan", "recorder", 2.0, {"step": 2}),
        ("Sold", "alice", 2.0, {"price": 3.0}),
        ("EntitySet", "alice", 2.0, {"entity_id": "alice", "values": {"gold": 5}}),
    ]
    assert on("verify", "--all").code == 0
    state = json.loads(on("state", "pilot-town", "--at", "step:1", "--json").out)
    assert state["state"]["entities"] == {"alice": {"gold": 3}, "bob": {"gold": 4}}
    assert on("view", "pilot-town", "bob").code == 0


def test_a_file_that_has_grown_is_gone_on_with(on: Cli, tmp_path: Path, database_url: str) -> None:
    """New rows at its end are added; where its first rows have changed, or are fewer, the file is refused."""
    file = _write(tmp_path / "town.csv", TOWN)
    assert on("import", "csv", file, "--quiet").code == 0
    _write(tmp_path / "town.csv", f"{TOWN}3,eve,Sold,oops,6,3\n")
    grown = on("import", "csv", file, "--quiet")
    assert grown.code == 1
    assert "town.csv:5: the column 'price': 'oops' is no finite number" in grown.err
    _write(tmp_path / "town.csv", f"{TOWN}3,eve,Sold,4,6,3\n")
    assert on("import", "csv", file) == (0, "imported 1 row (4 effects) into town, 3 already there\n", "")
    for changed in (TOWN, TOWN.replace("alice", "alina", 1) + "3,eve,Sold,4,6,3\n"):
        _write(tmp_path / "town.csv", changed)
        result = on("import", "csv", file)
        assert result.code == 1
        assert "the rows up to 5 are not those that were imported into town" in result.err
    assert len(_effects(database_url, "town")) == 7


def test_a_bad_row_ends_the_import_unless_it_is_passed_over(on: Cli, tmp_path: Path) -> None:
    """The rows before it are kept and the same command goes on when it is corrected; --skip-bad passes over some."""
    bad = "time,a\n1,x\nsoon,x\n2,x\n1,x\n3,x\n"
    mapping = _write(tmp_path / "m.yaml", "time: time")
    file = _write(tmp_path / "f.csv", bad)
    first = on("import", "csv", file, "--map", mapping)
    assert (first.code, first.out) == (1, "imported 1 row (3 effects) into f, 1 refused\n")
    assert first.err.splitlines() == [
        f"worldledger: refused: {file}:3: the time: 'soon' is no finite number",
        f"worldledger: {file}:3: the import stops here; the rows before are kept",
    ]
    over = on("import", "csv", file, "--map", mapping, "--skip-bad", "2", "--json", "--world", "g")
    assert over.code == 1
    told = json.loads(over.out)
    assert (told["rows"], told["imported"], told["refused"], told["ended"]) == (5, 3, 2, None)
    assert [notice["place"] for notice in told["notices"]] == [f"{file}:3", f"{file}:5"]
    _write(tmp_path / "f.csv", "time,a\n1,x\n1.5,x\n2,x\n3,x\n")
    assert on("import", "csv", file, "--map", mapping).out == "imported 3 rows (4 effects) into f, 1 already there\n"


def test_very_many_bad_rows_are_counted(on: Cli, tmp_path: Path) -> None:
    """Only the first refused rows are told one by one."""
    file = _write(tmp_path / "f.csv", "a,b\n1,2\n" + "1\n" * 30)
    result = on("import", "csv", file, "--skip-bad", "100", "--quiet")
    assert result.out == "imported 1 row (3 effects) into f, 30 refused\n"
    assert len(result.err.splitlines()) == 21
    assert result.err.endswith("refused: 10 more rows\n")


def test_each_value_of_a_column_is_a_world(on: Cli, tmp_path: Path, database_url: str) -> None:
    """Rows of several worlds may stand in any order; each world has its own time, and goes on by itself."""
    rows = [f"{run},{time},x" for time in range(3) for run in ("a", "b", "c d")]
    file = _write(tmp_path / "runs.csv", "run,time,what\n" + "\n".join(rows[:5]))
    command = ("import", "csv", file, "--experiment", "e")
    assert on(*command).out == "imported 5 rows (11 effects) into 3 worlds\n"
    _write(tmp_path / "runs.csv", "run,time,what\n" + "\n".join(rows))
    assert on(*command).out == "imported 4 rows (7 effects) into 3 worlds, 5 already there\n"
    worlds = [row[0] for row in sql(database_url, "select world_id from worlds order by world_id")]
    assert worlds[:2] == ["e-runs-a", "e-runs-b"]
    assert worlds[2].startswith("e-runs-c-d-")
    assert [[time for _, _, time, _ in _effects(database_url, world)] for world in worlds] == [[0.0, 1.0, 2.0]] * 3


def test_the_guess_of_the_first_time_counts(on: Cli, tmp_path: Path) -> None:
    """A file that is imported without a mapping keeps the one that was guessed first, which is told."""
    file = _write(tmp_path / "f.csv", "time,n\n1,5\n")
    assert "the mapping is guessed" in on("import", "csv", file).err
    _write(tmp_path / "f.csv", "time,n\n1,5\n2,x\n")
    again = on("import", "csv", file)
    assert (again.code, "guessed" in again.err) == (1, False)
    assert "the column 'n': 'x' is no integer" in again.err
    other = on("import", "csv", file, "--map", _write(tmp_path / "m.yaml", "time: time"))
    assert other.code == 2
    assert "the world f is there, imported by another mapping; --world names another one" in other.err


def test_a_dry_run_shows_the_mapping_and_writes_nothing(
    on: Cli, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each column with its use, the first effects, and bad rows are shown within 80 columns, or as JSON."""
    file = _write(tmp_path / "town.csv", TOWN + "x,y\n")
    shown = on("import", "csv", file, "--dry-run")
    assert shown.code == 0
    assert [line.split("  ")[0] for line in shown.out.splitlines()[:7]] == [
        "COLUMN", "time", "agent", "event", "price", "gold", "turn",
    ]  # fmt: skip
    assert "payload (number)" in shown.out
    assert f"refused: {file}:5: 2 cells; the header has 6" in shown.err
    assert "4 rows looked at, 1 refused; nothing was imported" in shown.err
    monkeypatch.setattr(output, "screen_width", lambda: 80)
    assert max(map(len, on("import", "csv", file, "--dry-run").out.splitlines())) <= 80
    told = json.loads(on("import", "csv", file, "--dry-run", "--json").out)
    assert told["guessed"] is True
    assert told["columns"][0] == {"name": "time", "use": "time (s)", "values": ["0.5", "1", "2"]}
    assert told["refused"] == [{"line": 5, "why": "2 cells; the header has 6"}]
    assert told["effects"][1]["payload"] == {"price": 1.5, "gold": 3}
    assert sql(database_url, "select count(*) from worlds") == [(0,)]


def test_a_mapping_is_written_for_use_again(on: Cli, tmp_path: Path, database_url: str) -> None:
    """What --write-map writes is read by --map, and imports the same; a file that is there is not replaced."""
    file, mapping = _write(tmp_path / "town.csv", TOWN), str(tmp_path / "m.yaml")
    assert on("import", "csv", file, "--write-map", mapping) == (0, "", f"worldledger: wrote {mapping}\n")
    assert sql(database_url, "select count(*) from worlds") == [(0,)]
    assert on("import", "csv", file, "--write-map", mapping).code == 2
    assert on("import", "csv", file, "--quiet").code == 0
    assert on("import", "csv", file, "--map", mapping).out == "imported 0 rows (0 effects), 3 already there\n"
    assert "column: time" in on("import", "csv", file, "--write-map", "-").out


def test_faults_of_a_mapping_are_told_by_path(on: Cli, tmp_path: Path) -> None:
    """A column that is not there, an unknown field and a file that is none end the command before anything is done."""
    file = _write(tmp_path / "town.csv", TOWN)
    mapping = _write(tmp_path / "m.yaml", "time: tme\nagent: agent\n")
    refused = on("import", "csv", file, "--map", mapping)
    assert (refused.code, refused.out) == (2, "")
    assert f"{mapping}: time.column: there is no column 'tme'; did you mean 'time'?" in refused.err
    assert on("import", "csv", file, "--map", str(tmp_path / "none.yaml")).code == 2
    lines = _write(tmp_path / "f.jsonl", '{"time": 1}\n')
    noted = on("import", "jsonl", lines, "--map", mapping)
    assert noted.code == 1  # no row has an agent
    assert "note: in the first 1 line there is no column 'tme'" in noted.err


def test_worlds_of_others_are_not_added_to(on: Cli, tmp_path: Path, database_url: str) -> None:
    """A world that no import has made, or one of another experiment, is refused with a way out."""
    record(database_url, "town", [say("a", "Said", 1.0, text="hi")])
    file = _write(tmp_path / "town.csv", TOWN)
    refused = on("import", "csv", file)
    assert refused.code == 2
    assert "the world town is there, and no import of a file, or of another experiment; --world names" in refused.err
    assert on("import", "csv", file, "--world", "other", "--quiet").code == 0
    assert on("import", "csv", file, "--world", "other", "--experiment", "e").code == 2
    assert on("import", "csv", file, "--world", "no name").code == 2


def test_stdin_needs_a_name(cli: Cli, database_url: str) -> None:
    """What comes from a pipe is read twice all the same, and needs the name of a world."""
    data = b'{"t": 1, "agent": "a"}\n{"t": 2, "agent": "b"}\n'
    on = ("--database-url", database_url)
    with Running("import", "jsonl", "-", "--world", "piped", *on, stdin=data) as running:
        assert running.end()[:2] == (0, "imported 2 rows (6 effects) into piped\n")
    assert cli("import", "jsonl", "-").code == 2


def test_parquet_is_imported_by_row(on: Cli, tmp_path: Path, database_url: str) -> None:
    """Rows of Parquet are numbered; a null is no value, and NaN is refused or, if the mapping says so, none."""
    rows = {"time": [0.0, 1.0, 2.0], "agent": ["a", "b", None], "x": [1.5, float("nan"), None]}
    file = str(tmp_path / "f.parquet")
    pq.write_table(pa.table(rows), file)
    mapping = _write(tmp_path / "m.yaml", "time: time\nagent: {column: agent, default: nobody}")
    refused = on("import", "parquet", file, "--map", mapping)
    assert (refused.code, "f.parquet: row 2: x: not a finite number" in refused.err) == (1, True)
    _write(tmp_path / "m.yaml", "time: time\nagent: {column: agent, default: nobody}\nmissing: [NaN]")
    assert on("import", "parquet", file, "--map", mapping, "--world", "w").code == 0
    assert _effects(database_url, "w") == [
        ("Row", "a", 0.0, {"x": 1.5}),
        ("Row", "b", 1.0, {}),
        ("Row", "nobody", 2.0, {}),
    ]


# -- stopping ------------------------------------------------------------------------------------------------


async def _imported(store: Store, data: str, world: str, *, stop_after: int | None = None) -> FileSummary:
    """Import rows, three in a chunk; stop after so many chunks."""
    told = 0

    def stop(_: object) -> None:
        nonlocal told
        told += 1
        if told == stop_after:
            raise KeyboardInterrupt

    found = open_table("csv", io.BytesIO(data.encode()), "f.csv", Csv())
    read = mapping_of({"time": "t", "agent": "who", "step": "t"})
    summary = FileSummary()
    try:
        await import_table(
            store, found, read, world=world, max_effect_bytes=1 << 20, progress=stop, summary=summary, skip_bad=9
        )
    except KeyboardInterrupt:
        assert stop_after is not None
    return summary


def test_an_import_that_is_stopped_goes_on(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it is stopped, the same import again makes the log that one without a stop would have made."""
    monkeypatch.setattr(importing, "_ROWS", 3)
    rows = [f"{n // 2},a{n % 3},{n}" for n in range(10)]
    data = "t,who,n\n" + "\n".join([*rows[:4], "bad", *rows[4:]])

    async def work() -> None:
        async with Store.open(database_url, Settings(pool_size=2)) as store:
            await _imported(store, data, "whole")
            for stop_after in (1, 2, 3):
                name = f"stopped-{stop_after}"
                first = await _imported(store, data, name, stop_after=stop_after)
                rest = await _imported(store, data, name)
                assert (first.imported + rest.imported, rest.already) == (10, first.imported)
                assert rest.imported > 0
                assert (await _imported(store, data, name)).imported == 0

    asyncio.run(work())
    whole = _effects(database_url, "whole")
    assert len(whole) == 14  # four steps begin
    for stop_after in (1, 2, 3):
        assert _effects(database_url, f"stopped-{stop_after}") == whole


EVERYTHING = """t;turn;who;what;run;seen;x;y;gold;data;n;note
0;0;ann;Offered;a;bob,cy;1;2;3;"{""deep"":[1,{""b"":null}]}";1.50;plain
0.25;0;bob;Accepted;a;"[""ann""]";;2;4;;-0.0;"two
lines"
0.5;1;;Offered;b c;;0;0;;;NA;ümlaut
soon;1;ann;Offered;a;;0;0;;;1;no time
0.75;1;ann;Offered;a;;0;0;;"{""n"":1}";1;a member twice
0.7;3;recorder;;a;;0;0;5;;2e3;held back
1;3;ann;WorldCreated;a;;0;0;5;;2;a kind of the service
1.5;4;eve;Offered;b c;ann;1.5;-1;;;;'the ""end""'
"""
EVERY_MAPPING = {
    "csv": {"delimiter": ";"},
    "time": {"column": "t", "unit": "min", "zero": "first", "backwards": "hold"},
    "step": "turn",
    "agent": {"column": "who", "default": "nobody"},
    "kind": {"column": "what", "default": "Row"},
    "world": {"column": "run", "prefix": "every-"},
    "sees": {"column": "seen"},
    "entity": {"id": "who", "fields": {"gold": "gold", "position": ["x", "y"]}},
    "payload": {"json": "data", "leave_out": ["gold"]},
    "types": {"x": "number", "y": "number", "gold": "integer", "n": "number"},
    "missing": ["", "NA"],
}
PLAIN_MAPPING = {"time": "t", "agent": "who", "kind": {"constant": "Said"}, "types": {"n": "integer"}}


REFUSED = [
    "f.csv:6: the time: 'soon' is no finite number",
    "f.csv:7: the object in the column 'data' has a member 'n', as the row has",
    "f.csv:9: $.kind: WorldCreated effects are written by the service alone",
]
HEADS = [
    ("every-a", 13, "5a54f7ba14b6aae1f60c34fb3418203a636167f5b240a0f6a4c9f0e8a54fb4da"),
    ("every-b-c-47d8a4a8", 11, "318b7998a8d4b691f55aca669288ba23ac3746cc09e3f34b6e5ddc7127508165"),
    ("lines", 11, "151dc65fd4545458aaf932364af53567a2f09b4fb9c3ed3afe6fa31c438ba3b9"),
    ("plain", 32, "0a5384c49e703c8c4dc03247c8fc1afcdf22c79829f4a273e9f813fd2b19c885"),
]


def test_the_bytes_of_an_import_stay_what_they_are(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one clock and one row of uuids the same file makes the same heads and refusals, however it is read."""
    monkeypatch.setattr(importing, "_ROWS", 5)
    plain = "t,who,n\n" + "".join(f"{at / 4},a{at % 3},{at}\n" for at in range(23))
    lines = "".join(f'{{"t":{at},"who":"a","n":[{at},{{"x":null}}],"s":"é\\u0001"}}\n' for at in range(7))
    uuids = map("{:032x}".format, count())

    async def work() -> None:
        async with Store.open(database_url, clock=lambda: 1.8e9, new_uuid=uuids.__next__) as store:
            for kind, data, mapping, world in (
                ("csv", EVERYTHING, EVERY_MAPPING, "every"),
                ("csv", plain, PLAIN_MAPPING, "plain"),
                ("jsonl", lines, {**PLAIN_MAPPING, "types": {}}, "lines"),
            ):
                found = open_table(
                    kind, io.BytesIO(data.encode()), f"f.{kind}", Csv(delimiter=";" if world == "every" else ",")
                )
                summary = FileSummary()
                await import_table(
                    store,
                    found,
                    mapping_of(mapping),
                    world=world,
                    max_effect_bytes=1 << 20,
                    skip_bad=9,
                    summary=summary,
                )
                refused.extend(map(str, summary.notices))

    refused: list[str] = []
    asyncio.run(work())
    heads = sql(database_url, "select world_id, head_seq, encode(head_checksum, 'hex') from heads order by world_id")
    assert refused == REFUSED
    assert heads == HEADS


def test_two_imports_of_a_file_write_it_once(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two at once one goes on, and the other says so; no row is there twice."""
    monkeypatch.setattr(importing, "_ROWS", 3)
    data = "t,who,n\n" + "".join(f"{n},a,{n}\n" for n in range(30))

    async def work() -> Sequence[object]:
        async with Store.open(database_url) as one, Store.open(database_url) as other:
            return await asyncio.gather(_imported(one, data, "w"), _imported(other, data, "w"), return_exceptions=True)

    ends = asyncio.run(work())
    assert all(isinstance(end, FileSummary | WorldExistsError) for end in ends)
    assert any(isinstance(end, FileSummary) for end in ends)
    assert [payload["n"] for kind, _, _, payload in _effects(database_url, "w") if kind == "Row"] == [
        *map(str, range(30))
    ]


def test_a_fork_of_an_import_is_not_added_to(on: Cli, tmp_path: Path) -> None:
    """A fork goes on by itself: the file is not imported into it."""
    file = _write(tmp_path / "town.csv", TOWN)
    assert on("import", "csv", file, "--quiet").code == 0
    assert on("fork", "town", "--at", "step:1", "--as", "what-if").code == 0
    refused = on("import", "csv", file, "--world", "what-if", "--quiet")
    assert (refused.code, "and a fork of one that was imported" in refused.err) == (2, True)


def test_a_file_that_cannot_be_read_to_its_end_is_refused(database_url: str, tmp_path: Path) -> None:
    """Of a Parquet file with a damaged page what comes before it is kept, and the row is named."""
    file = tmp_path / "f.parquet"
    rows = {"t": [*range(20_000)], "s": [f"text {n}" for n in range(20_000)]}
    pq.write_table(pa.table(rows), file, row_group_size=10_000, compression="gzip")
    data = bytearray(file.read_bytes())
    at = pq.read_metadata(file).row_group(1).column(0).data_page_offset + 40
    data[at : at + 200] = bytes(200)
    stream = io.BytesIO(data)

    async def work() -> FileSummary:
        async with Store.open(database_url) as store:
            found = open_table("parquet", stream, "f.parquet", Csv())
            summary = FileSummary()
            with pytest.raises(FileRefusedError, match=r"f\.parquet: row \d+ and after: "):
                await import_table(
                    store, found, mapping_of({"time": "t"}), world="w", max_effect_bytes=1 << 20, summary=summary
                )
            return summary

    assert asyncio.run(work()).imported > 0


@pytest.mark.slow
@pytest.mark.thorough
def test_an_import_that_is_killed_goes_on(on: Cli, tmp_path: Path, database_url: str) -> None:
    """After a kill the same command imports the rest, and every row is there once."""
    count = 160_000
    file = tmp_path / "long.csv"
    file.write_text("time,agent,n\n" + "".join(f"{n},a{n % 7},{n}\n" for n in range(count)))
    command = ("import", "csv", str(file))
    with Running(*command, "--database-url", database_url) as running:
        block_until(lambda: sql(database_url, "select count(*) from heads") == [(1,)], "a chunk is in")
        running.process.send_signal(signal.SIGKILL)
    (there,) = sql(database_url, "select count(*) from effects where kind = 'Row'")[0]
    assert 0 < there < count
    assert on(*command).out.endswith(f", {there} already there\n")
    found = sql(
        database_url, "select count(*), count(distinct effect -> 'payload' ->> 'n') from effects where kind = 'Row'"
    )
    assert found == [(count, count)]
    assert on("verify", "long").code == 0
