"""`import social-rl` and `export social-rl`: run folders become worlds, and worlds run folders, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worldledger_service.settings import Settings
from worldledger_service.store import Store
from worldledger_social_rl.rules.recording import read_run
from worldledger_social_rl.store import RunSummary, import_runs, read_file

from tests.social_runs import ALICE, EXAMPLE, SHARED, content, feedback, message, round_of, rounds, write_run
from worldledger.genesis import NewWorld

from .conftest import Cli
from .helpers import UNGUARDED, Lock, Running, forgery, play, sql


def _worlds(on: Cli, *arguments: str) -> list[str]:
    return [line.split()[0] for line in on("worlds", *arguments).out.splitlines()[1:]]


def test_runs_go_in_once(on: Cli) -> None:
    """The summary counts runs, rounds and effects; the same command again adds nothing, and notes nothing."""
    command = ("import", "social-rl", str(EXAMPLE), "--experiment", "a village")
    assert on(*command) == (0, "imported 6 runs (24 rounds, 475 effects)\n", "")
    assert on(*command) == (0, "imported 0 runs (0 rounds, 0 effects), 6 already there\n", "")
    worlds = _worlds(on, "--experiment", "a village")
    assert [name.rpartition("-")[0] for name in worlds] == [
        f"a-village-{_digits(worlds)}-{condition}-seed{seed}"
        for condition in ("coached", "uncoached")
        for seed in (1, 2, 3)
    ]
    assert on("verify", "--all").code == 0
    found = json.loads(
        on("import", "social-rl", str(EXAMPLE), str(EXAMPLE / "coached_seed1"), "--json", "--strict").out
    )
    counts = {"runs": 6, "imported": 6, "already": 0, "refused": 0, "rounds": 24, "messages": 240, "notices": []}
    assert {name: found[name] for name in counts} == counts
    assert len(found["worlds"]) == 6
    assert not set(found["worlds"]) & set(worlds)


def _digits(worlds: list[str]) -> str:
    return worlds[0].split("-")[2]


@pytest.mark.parametrize("runs", [EXAMPLE, SHARED], ids=["example", "as found"])
def test_what_goes_out_is_what_went_in(on: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: Path) -> None:
    """Every run, small or large, comes out again with the same files and values; what was odd was told by file."""
    if not runs.is_dir():
        pytest.skip("the recorded runs are not here")
    monkeypatch.setattr("worldledger_social_rl.store.LARGE", 45_000)
    done = on("import", "social-rl", str(runs), "--json", "--quiet")
    assert (done.code, done.err) == (0, "")
    folders = sorted(path for path in runs.iterdir() if path.is_dir())
    found = json.loads(done.out)
    assert found["imported"] == len(folders)
    odd = {Path(notice["file"]).parent for notice in found["notices"]}
    for folder, world in zip(folders, found["worlds"], strict=True):
        out = tmp_path / folder.name
        assert on("export", "social-rl", world, "-o", str(out), "--quiet") == (0, "", "")
        assert content(out) == content(folder)
        naive = folder.parent == SHARED and (folder / "meta.json").exists()
        assert (folder in odd) == any("CES" in path.read_text() for path in folder.glob("round*.json")) or naive


def test_other_files_of_a_run(on: Cli, tmp_path: Path) -> None:
    """Other JSON files are kept and come out again; what else is in a folder is noted and left; links do no harm."""
    run = write_run(
        tmp_path / "runs" / "Ünï run", {**rounds(1, 2), "log.json": [1, None, {"a": "ä"}], "notes.txt": "x"}
    )
    (run / "plots").mkdir()
    (tmp_path / "runs" / "again").symlink_to(run)
    (run / "round").symlink_to(tmp_path / "runs")
    write_run(tmp_path / "runs" / "begun", {"meta.json": {"experiment_id": "x"}})
    done = on("import", "social-rl", str(tmp_path / "runs"), str(run), "--json")
    assert done.code == 0
    assert done.err.splitlines() == [
        f"worldledger: note: {tmp_path}/runs/begun: has a meta.json and no file roundN_social_rl.json; it is left out",
        f"worldledger: note: {tmp_path}/runs/again: only JSON files are kept, not notes.txt",
    ]
    (world,) = json.loads(done.out)["worlds"]
    assert world.startswith("uni-run-")
    assert on("export", "social-rl", world, "-o", str(tmp_path / "out")).err.endswith(
        f"exported 3 files (2 rounds) to {tmp_path}/out\n"
    )
    assert content(tmp_path / "out") == content(run)


_ROUND = json.dumps(round_of(1))
#: Runs that are refused: their files, the file that is named, and what is said of it.
_BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "twice": (
        {**rounds(1), "round01_social_rl.json": round_of(1)},
        "/round1_social_rl.json",
        "another file for round 1",
    ),
    "truncated": ({"round1_social_rl.json": _ROUND[:100]}, "/round1_social_rl.json", "line 1 column "),
    "nan": ({"round1_social_rl.json": _ROUND.replace("12.5", "NaN")}, "/round1_social_rl.json", "$.duration_seconds: "),
    "infinite": ({**rounds(1), "meta.json": '{"seed": 1e999}'}, "/meta.json", "$.seed: not a finite number"),
    "key twice": ({**rounds(1), "meta.json": '{"seed": 1, "seed": 2}'}, "/meta.json", "the key 'seed' stands twice"),
    "huge": ({**rounds(1), "meta.json": '{"seed": 9007199254740993}'}, "/meta.json", "$.seed: an integer beyond"),
    "latin": ({**rounds(1), "meta.json": b'{"name": "\xe9"}'}, "/meta.json", "not UTF-8 (byte 10)"),
    "nul": ({"round1_social_rl.json": _ROUND.replace("I see.", "\\u0000")}, "/round1_social_rl.json", "NUL character"),
    "deep": ({**rounds(1), "log.json": "[" * 200 + "]" * 200}, "/log.json", "nested deeper than 100 levels"),
    "too long": (
        {"round1_social_rl.json": round_of(1, synthesis="x" * 1_100_000)},
        "/round1_social_rl.json",
        "$.synthesis: the effect has ",
    ),
    "long": (
        {"round1_social_rl.json": round_of(1, messages=[message(ALICE, 1, n, "x" * n * 600_000) for n in (1, 2)])},
        "/round1_social_rl.json",
        "$.messages[1]: the effect has ",
    ),
}
#: Runs that are taken as they are: their files, and what is noted.
_ODD: dict[str, tuple[dict[str, Any], str]] = {
    "mark": ({"round1_social_rl.json": b"\xef\xbb\xbf" + _ROUND.encode()}, "begins with a byte order mark"),
    "other number": ({"round7_social_rl.json": round_of(1)}, "the file's name says round 7, not 1"),
    "gap": (rounds(1, 3), "after round 1 comes round 2, not 3"),
    "versions": (
        {f"round{n}_social_rl.json": round_of(n, meta={"social_rl_version": f"0.{n}.0"}) for n in (1, 2)},
        "the version is '0.2.0' here, and '0.1.0' before",
    ),
    "stranger": (
        {"round1_social_rl.json": round_of(1, feedback={"X+Y": feedback("X+Y", 1)})},
        "nobody of the name 'X+Y'",
    ),
    "range": (
        {"round1_social_rl.json": round_of(1, feedback={ALICE: feedback(ALICE, 1, engagement=7)})},
        "0 to 1, not 7",
    ),
}


def test_bad_input_is_named_and_the_rest_goes_in(on: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many runs those that cannot be taken are refused with file and place; odd ones are noted; exit code 1."""
    monkeypatch.setattr("worldledger_social_rl.store.LARGE", 1_500_000)
    for name, (files, *_) in (_BAD | _ODD).items():
        write_run(tmp_path / name, files)
    os.mkfifo(write_run(tmp_path / "pipe", rounds(1)) / "log.json")
    done = on("import", "social-rl", str(tmp_path))
    assert (done.code, done.out) == (1, f"imported 6 runs (8 rounds, 76 effects), {len(_BAD) + 1} refused\n")
    lines = done.err.splitlines()
    for name, (_, file, words) in {**_BAD, "pipe": ({}, "/log.json", "not a regular file")}.items():
        (line,) = [line for line in lines if line.startswith(f"worldledger: refused: {tmp_path}/{name}{file}: ")]
        assert words in line
    for name, (_, words) in _ODD.items():
        assert any(
            line.startswith(f"worldledger: note: {tmp_path}/{name}/round") and words in line for line in lines
        ), name
    assert len(_worlds(on)) == len(_ODD)
    assert on("verify", "--all").code == 0


def test_strictly_nothing_odd_is_taken(on: Cli, tmp_path: Path) -> None:
    """With --strict every problem of an odd run is told with its path, many of one run in part; others go in."""
    odd = round_of(1, messages=[message("Alice", 1, 0), *[message(ALICE, 2, n) for n in range(1, 30)]])
    write_run(tmp_path / "a", {"round1_social_rl.json": odd})
    write_run(tmp_path / "b", rounds(1))
    done = on("import", "social-rl", str(tmp_path), "--strict")
    assert (done.code, done.out) == (1, "imported 1 run (1 round, 10 effects), 1 refused\n")
    lines = done.err.splitlines()
    assert lines[0].startswith(f"worldledger: refused: {tmp_path}/a/round1_social_rl.json: $.messages[0].agent_id: ")
    assert lines[2].endswith("$.messages[1].round_number: this is of round 1, not 2")
    assert (len(lines), lines[-1].rpartition(": ")[2]) == (21, "and 12 more problems")
    (world,) = _worlds(on)
    assert json.loads(on("log", world, "--until", "1").out)["payload"]["config"]["strict"] is True


#: Runs whose own files are odd: a strict import refuses them, a lenient one notes it.
_MARKED = {"round1_social_rl.json": b"\xef\xbb\xbf" + _ROUND.encode()}
_OWN = {
    "mark": (_MARKED, "round1_social_rl.json: the file begins with a byte order mark"),
    "case": (
        {**rounds(1), "Round2_social_rl.json": round_of(2)},
        "Round2_social_rl.json: the name is nearly that of a round, or of the meta data, and is read as neither",
    ),
    "ending": (
        {**rounds(1), "round2_social_rl.JSON": round_of(2), "notes.txt": ""},
        "round2_social_rl.JSON: the name is nearly that of a round, or of the meta data, and is read as neither",
    ),
    "time": (
        {**rounds(1), "meta.json": {"timestamp": "2025-99-99T99:99:99"}},
        "meta.json: $.timestamp: timestamp is a time in ISO 8601, not '2025-99-99T99:99:99'",
    ),
}


@pytest.mark.parametrize("what", _OWN)
def test_a_run_with_odd_files_of_its_own(on: Cli, tmp_path: Path, what: str) -> None:
    """A byte order mark, a name that is nearly a round's: noted, or with --strict a reason to refuse the run."""
    files, words = _OWN[what]
    write_run(tmp_path / "run", files)
    done = on("import", "social-rl", str(tmp_path / "run"), "--strict")
    assert (done.code, done.out) == (1, "imported 0 runs (0 rounds, 0 effects), 1 refused\n")
    assert done.err.splitlines() == [f"worldledger: refused: {tmp_path}/run/{words}"]
    done = on("import", "social-rl", str(tmp_path / "run"))
    assert (done.code, len(done.err.splitlines())) == (0, 1)
    assert done.err.startswith("worldledger: note: ")


def test_foreign_files_are_no_reason_to_refuse_a_run(on: Cli, tmp_path: Path) -> None:
    """What is no JSON file is noted and left out, with --strict too; so is a folder in which no round is."""
    write_run(tmp_path / "run", {**rounds(1), "notes.txt": "x", "._round1_social_rl.json": "x"})
    write_run(tmp_path / "begun", {"meta.json": {}})
    done = on("import", "social-rl", str(tmp_path), "--strict")
    assert (done.code, done.out) == (0, "imported 1 run (1 round, 10 effects)\n")
    assert [line.partition(": ")[2] for line in done.err.splitlines()] == [
        f"note: {tmp_path}/begun: has a meta.json and no file roundN_social_rl.json; it is left out",
        f"note: {tmp_path}/run: only JSON files are kept, not ._round1_social_rl.json, notes.txt",
    ]


def test_a_deep_field_of_a_file_is_named_by_its_place(on: Cli, tmp_path: Path) -> None:
    """Effects have it deeper, in a member that the file does not have."""
    deep: Any = 1
    for _ in range(98):
        deep = {"a": deep}
    names = ("round1_social_rl.json", "meta.json", "log.json")
    for name in names:
        files: dict[str, Any] = {**rounds(1), "meta.json": {}}
        files[name] = {**files.get(name, {}), "mood": deep}
        write_run(tmp_path / name, files)
    done = on("import", "social-rl", str(tmp_path))
    assert done.code == 1
    refused = [line for line in done.err.splitlines() if "refused" in line]
    for name in names:
        (line,) = [line for line in refused if f"/{name}/{name}: " in line]
        assert f": $.mood{'.a' * 97}: nested deeper" in line, name


def test_a_run_that_grew_is_one_run(on: Cli, tmp_path: Path, database_url: str) -> None:
    """New rounds go to its world, a shorter folder is there already, another history is refused; large runs, too."""
    first, whole = (
        {**rounds(1, 2), "log.json": [1]},
        {**rounds(1, 2, 3), "log.json": [1, 2], "meta.json": {"condition": 1}},
    )
    short, long = write_run(tmp_path / "short" / "G", first), write_run(tmp_path / "long" / "G", whole)
    changed = write_run(tmp_path / "changed" / "G", {**whole, "round2_social_rl.json": round_of(2, synthesis="no")})
    command = ("import", "social-rl", "--experiment", "e")
    assert on(*command, str(short)).out == "imported 1 run (2 rounds, 20 effects)\n"
    assert on(*command, str(long)).out == "imported 0 runs (1 round, 11 effects), 1 grown\n"
    for folder in (long, short):
        assert on(*command, str(folder)).out == "imported 0 runs (0 rounds, 0 effects), 1 already there\n"
    refused = on(*command, str(changed), "--json")
    (world,) = _worlds(on)
    assert (refused.code, json.loads(refused.out)["refused"]) == (1, 1)
    assert refused.err == (
        f"worldledger: refused: {changed}/round2_social_rl.json: $.synthesis: "
        f'this is "no" here, and "Round 2 went well." in the log; world {world} has another history of this run\n'
    )
    assert on("export", "social-rl", "--experiment", "e", "-o", str(tmp_path / "out")).code == 0
    assert content(tmp_path / "out" / "G") == content(long)
    assert on("verify", world).code == 0
    # other runs of the same folder's name: those that say so, and those of another experiment
    other = write_run(tmp_path / "other" / "G", {**whole, "meta.json": {"condition": True}})
    assert on(*command, str(other), str(changed)).out == "imported 1 run (3 rounds, 30 effects), 1 refused\n"
    assert on("import", "social-rl", str(changed)).out == "imported 1 run (3 rounds, 30 effects)\n"
    names = (
        sorted(path.name for path in (tmp_path / "out2").iterdir())
        if on("export", "social-rl", "--experiment", "e", "-o", str(tmp_path / "out2")).code == 0
        else []
    )
    assert names == sorted(_worlds(on, "--experiment", "e"))
    # both states of a run in one import
    both = on("import", "social-rl", str(tmp_path / "short"), str(tmp_path / "long"), "--experiment", "f")
    assert both.out == "imported 1 run (3 rounds, 31 effects), 1 grown\n"


def test_a_run_of_an_earlier_version_and_imports_at_once(on: Cli, database_url: str, tmp_path: Path) -> None:
    """A world that is named by the digest of all its files is the run's; two imports at once append a round once."""
    short, long = write_run(tmp_path / "a" / "G", rounds(1)), write_run(tmp_path / "b" / "G", rounds(1, 2, 3))

    async def work() -> list[RunSummary]:
        async with Store.open(database_url, Settings(pool_size=4)) as store:
            run = read_run([read_file(path)[0] for path in short.glob("*.json")], strict=False)
            config = {"strict": False, "digest": run.digest, "recording": {"folder": "G"}}
            old = NewWorld(world_id="g-0123456789ab", ruleset="social_rl", time_authority="client", config=config)
            await store.import_world(old, run.drafts)
            imports = [import_runs(store, [long]) for _ in range(3)]
            more = [import_runs(store, [folder], experiment="e") for folder in (short, long, long)]
            return await asyncio.gather(*imports, *more)

    summaries = asyncio.run(work())
    assert {name for summary in summaries[:3] for name in summary.worlds} == {"g-0123456789ab"}
    assert (sum(summary.grown for summary in summaries[:3]), sum(summary.rounds for summary in summaries[:3])) == (1, 2)
    assert not [notice for summary in summaries for notice in summary.notices]
    (world,) = {name for summary in summaries[3:] for name in summary.worlds}
    assert sum(summary.rounds for summary in summaries[3:]) == 3
    for name in ("g-0123456789ab", world):
        assert on("export", "social-rl", name, "-o", str(tmp_path / name)).code == 0
        assert content(tmp_path / name) == content(long)
    assert on("verify", "--all").code == 0


@pytest.mark.parametrize(
    ("size", "killed"),
    [
        pytest.param(1, False, id="small, both go on"),
        pytest.param(700_000, True, id="large, the first is killed"),
        pytest.param(1, True, id="small, the first is killed", marks=pytest.mark.thorough),
        pytest.param(700_000, False, id="large, both go on", marks=pytest.mark.thorough),
    ],
)
def test_first_imports_of_one_run_at_once(on: Cli, database_url: str, tmp_path: Path, size: int, killed: bool) -> None:
    """Two processes that import a run for the first time make one world of it, though only one knows its meta data."""
    files = {f"log{n}.json": [str(n) * size] for n in range(6)}
    short = write_run(tmp_path / "a" / "G", {**rounds(1), **files})
    long = write_run(tmp_path / "b" / "G", {**rounds(1, 2), **files, "meta.json": {"condition": "coached", "seed": 1}})
    command = ("import", "social-rl", "--database-url", database_url, "--experiment", "e", "--json", "--quiet")
    with (
        Lock(database_url, "lock table worlds in share row exclusive mode") as lock,
        Running(*command, str(short)) as first,
    ):
        lock.wait_for_waiter()
        with Running(*command, str(long)) as second:
            lock.wait_for_waiter(2)
            if killed:
                first.end(signal.SIGKILL)
            lock.release()
            results = [second.end()] if killed else [first.end(), second.end()]
    summaries = [json.loads(result.out) for result in results]
    counts = [(found["imported"], found["grown"], found["rounds"], found["refused"]) for found in summaries]
    assert counts == ([(1, 0, 2, 0)] if killed else [(1, 0, 1, 0), (0, 1, 1, 0)])
    (world,) = _worlds(on)
    assert [found["worlds"] for found in summaries] == [[world]] * len(summaries)
    assert on("export", "social-rl", world, "-o", str(tmp_path / "out")).code == 0
    assert content(tmp_path / "out") == content(long)
    assert on("verify", world).code == 0
    assert sql(database_url, "select count(*) from projection_leases") == [(0,)]


def test_a_folder_with_the_name_of_a_round(on: Cli, tmp_path: Path) -> None:
    """It is told, and strictly a reason to refuse the run; alone it is no run."""
    run = write_run(tmp_path / "run", rounds(1))
    (run / "round2_social_rl.json").mkdir()
    what = f"{run}/round2_social_rl.json: a folder, which has the name of a round's file"
    done = on("import", "social-rl", str(run))
    assert (done.code, done.err) == (0, f"worldledger: note: {what}; it is left out\n")
    done = on("import", "social-rl", str(run), "--strict", "--experiment", "s")
    assert (done.code, done.err) == (1, f"worldledger: refused: {what}\n")
    (tmp_path / "alone" / "round1_social_rl.json").mkdir(parents=True)
    done = on("import", "social-rl", str(tmp_path / "alone"))
    assert (done.code, "has the name of a round's file" in done.err) == (2, True)


def test_notes_of_one_kind_are_summed_up(on: Cli, tmp_path: Path) -> None:
    """The first is told with its place, then how many more there were; --timezone settles what it asks."""
    for number in range(9):
        told = {"timestamp": "2025-11-23T17:58:25", "seed": number}
        write_run(tmp_path / f"run{number}", {**rounds(1), "meta.json": told})
    lines = on("import", "social-rl", str(tmp_path)).err.splitlines()
    assert len(lines) == 2
    assert lines[-1].startswith("worldledger: note: 8 more in 8 files: timestamp has no offset from UTC")
    done = on("import", "social-rl", str(tmp_path), "--experiment", "e", "--timezone", "Europe/Berlin")
    assert (done.code, done.err) == (0, "")
    (world, *_) = _worlds(on, "--experiment", "e")
    assert json.loads(on("log", world, "--kind", "ExperimentStarted").out)["payload"]["meta"]["timestamp"].endswith(
        "+01:00"
    )
    assert on("import", "social-rl", str(tmp_path), "--timezone", "Europe/Nowhere").code == 2


def test_nothing_could_be_found(on: Cli, tmp_path: Path) -> None:
    """A mistyped path, a file, and a folder without rounds are exit code 2; a run beside them makes it 1."""
    empty = tmp_path / "empty"
    empty.mkdir()
    file = write_run(tmp_path / "run", rounds(1)) / "round1_social_rl.json"
    for path, why in {
        tmp_path / "nosuch": "cannot be read (No such file or directory)",
        file: "not a folder: give the folder of a run, or one with such folders in it",
        empty: "no file roundN_social_rl.json in this folder, or below it",
    }.items():
        done = on("import", "social-rl", str(path))
        assert (done.code, done.err) == (2, f"worldledger: refused: {path}: {why}\n")
    assert on("import", "social-rl", str(tmp_path / "run"), str(empty)).code == 1
    assert on("import", "social-rl", str(tmp_path / "run"), "--experiment", "x" * 201).code == 2


def test_a_run_that_is_too_large(on: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with more bytes than are held at once is refused before it is read."""
    monkeypatch.setattr("worldledger_social_rl.store.MOST_BYTES", 1000)
    write_run(tmp_path, rounds(1))
    done = on("import", "social-rl", str(tmp_path))
    assert (done.code, done.err.partition(": the run has ")[2].partition(" ")[2]) == (
        1,
        "bytes of JSON; at most 1000\n",
    )


@pytest.fixture
def live(database_url: str) -> Callable[..., None]:
    """Return what appends to the world ``live``, a run that is played."""
    play(database_url, "live", [], ruleset="social_rl", config={"meta": {"experiment_id": "e1", "condition": "A"}})

    def append(kind: str, **payload: Any) -> None:
        draft: Any = {"kind": kind, "payload": payload, "source_id": "coach", "schema_version": "1.0.0"}
        play(database_url, "live", [draft])

    return append


def test_a_run_that_is_played_has_files(on: Cli, tmp_path: Path, live: Callable[..., None]) -> None:
    """A live run is exported as far as it has come, which is noted; into a folder with files only if forced."""
    out = tmp_path / "new" / "out"
    export = ("export", "social-rl", "live", "-o", str(out))
    live("RoundStarted", round_number=1)
    live("MessageEmitted", **message(ALICE, 1, 1))
    done = on(*export)
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines() == [
        "worldledger: note: round 1 is not over; what there is of it was exported",
        f"worldledger: exported 2 files (1 round) to {out}",
    ]
    found = content(out)
    assert found["meta.json"] == {"experiment_id": "e1", "condition": "A"}
    assert found["round1_social_rl.json"]["messages"] == [message(ALICE, 1, 1)]
    live("RoundEnded", round_number=1, duration_seconds=2.0)
    write_run(out, {"round2_social_rl.json": {}, "mine.txt": "x"})
    refused = on(*export)
    assert (refused.code, refused.err) == (2, f"worldledger: {out}: the folder is not empty; --force writes into it\n")
    done = on(*export, "--force")
    assert (
        done.err.splitlines()[0] == f"worldledger: note: {out} also has round2_social_rl.json, which is not of this run"
    )
    assert content(out)["round1_social_rl.json"]["duration_seconds"] == 2.0
    assert not list(out.glob(".*"))


def _bring(url: str, world: NewWorld, drafts: list[Any]) -> None:
    """Import a log as it is: no rule is asked."""

    async def work() -> None:
        async with Store.open(url, Settings(pool_size=2)) as store:
            await store.import_world(world, drafts)

    asyncio.run(work())


def test_no_effect_takes_the_place_of_a_round(on: Cli, database_url: str, tmp_path: Path) -> None:
    """In a log that has a round's name twice the round keeps its file; the other is beside it, and is told of."""
    policy = {"framework_option": "A", "policies": [], "name": "round1_social_rl.json"}
    drafts: list[Any] = [
        *[("RoundStarted", {"round_number": 1}), ("RoundEnded", {"round_number": 1})],
        *[("PolicyStateRecorded", policy), ("ArtifactRecorded", {"name": "meta.json", "content": "gone"})],
        ("ExperimentStarted", {"meta": {"model": "m"}}),
    ]
    made: Any = [
        {"kind": kind, "payload": payload, "source_id": "x", "schema_version": "1.0.0"} for kind, payload in drafts
    ]
    _bring(database_url, NewWorld(world_id="older", ruleset="social_rl"), made)
    out = tmp_path / "out"
    done = on("export", "social-rl", "older", "-o", str(out), "--quiet")
    assert (done.code, done.out) == (0, "")
    for seq, name, beside in (
        (4, "round1_social_rl.json", "round1_social_rl.effect4.json"),
        (5, "meta.json", "meta.effect5.json"),
    ):
        what = f"effect {seq} calls {name} what was written as {beside}: that name is another's, or too long"
        assert f"worldledger: note: {what}" in done.err.splitlines()
    found = content(out)
    assert found.pop("round1_social_rl.json")["round_number"] == 1
    assert found == {
        "meta.json": {"model": "m"},
        "meta.effect5.json": "gone",
        "round1_social_rl.effect4.json": {"framework_option": "A", "policies": []},
    }


def test_two_names_of_one_file(on: Cli, tmp_path: Path, live: Callable[..., None]) -> None:
    """Where a folder has one file for two names, as disks without case have, nothing is written over."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "Log.json").symlink_to(out / "log.json")
    live("RoundStarted", round_number=1)
    live("ArtifactRecorded", name="log.json", content=1)
    live("ArtifactRecorded", name="Log.json", content=2)
    done = on("export", "social-rl", "live", "-o", str(out), "--force")
    assert (done.code, done.err) == (
        2,
        f"worldledger: {out}/Log.json: the same file there as another one of this run; export it to another folder\n",
    )
    assert content(out)["log.json"] == 1


def test_what_cannot_be_exported(on: Cli, database_url: str, tmp_path: Path, live: Callable[..., None]) -> None:
    """Other worlds, runs without rounds, files in the way, logs that do not verify: told, and nothing is written."""
    play(database_url, "town", [], ruleset="sandbox")
    play(database_url, "bare", [], ruleset="social_rl")
    out = tmp_path / "out"
    for world, code, words in (
        ("town", 2, "is no social-RL run; its ruleset is sandbox"),
        ("nowhere", 2, "no world named"),
        ("bare", 2, "no round was begun in 'bare'"),
    ):
        done = on("export", "social-rl", world, "-o", str(out))
        assert done.code == code
        assert words in done.err
    (tmp_path / "file").touch()
    assert "not a folder" in on("export", "social-rl", "live", "-o", str(tmp_path / "file")).err
    live("RoundStarted", round_number=1)
    sql(
        database_url,
        UNGUARDED,
        "update effects set effect = replace(effect::text, 'coach', 'couch')::json where global_seq = 3",
    )
    done = on("export", "social-rl", "live", "-o", str(out))
    assert done.code == 1
    assert "a log that does not verify makes no export" in done.err
    assert not out.exists()


def test_a_log_that_breaks_the_rules_makes_no_files(
    on: Cli, database_url: str, tmp_path: Path, live: Callable[..., None]
) -> None:
    """A forged effect whose chain holds, but which no log may have, is told before anything is written."""
    live("RoundStarted", round_number=1)
    sql(database_url, *forgery("live", "WorldCreated"))
    done = on("export", "social-rl", "live", "-o", str(tmp_path / "out"))
    assert done.code == 1
    assert "WorldCreated stands at seq 1 alone; a log that does not verify makes no export" in done.err
    assert not (tmp_path / "out").exists()


def test_an_experiment_with_a_tampered_run(on: Cli, tmp_path: Path, database_url: str) -> None:
    """Of an experiment, a run whose log does not verify is named and left out; the others are exported, exit code 1."""
    folders = [write_run(tmp_path / name, rounds(1, 2)) for name in ("A", "B", "C")]
    assert on("import", "social-rl", *map(str, folders), "--experiment", "e").code == 0
    _, broken, _ = worlds = sorted(_worlds(on, "--experiment", "e"))
    sql(database_url, UNGUARDED, f"update effects set kind = 'X' where world_id = '{broken}' and global_seq = 5")
    done = on("export", "social-rl", "--experiment", "e", "-o", str(tmp_path / "out"), "--quiet")
    assert len(worlds) == 3
    assert done.code == 1
    assert done.err.startswith(f"worldledger: world {broken}, seq 5: column kind is 'X'")
    assert done.err.endswith("a log that does not verify makes no export\n")
    assert {path.name: content(path) for path in (tmp_path / "out").iterdir()} == {
        path.name: content(path) for path in (folders[0], folders[2])
    }
