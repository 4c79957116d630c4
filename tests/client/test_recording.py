"""Programs that are recorded: into a database without a service, and to a service; and what may go wrong."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Literal

import asyncpg
import orjson
import pytest
from worldledger_recorder import writer
from worldledger_recorder.writer import Writer

from worldledger import record
from worldledger.client.recording import MOST_PAYLOAD, RecordingError, Spool, spools_in
from worldledger.client.transport import RemoteError
from worldledger.effects import is_system_kind
from worldledger.errors import InvalidEffectError, InvalidNameError, ReservedKindError, StoreUnavailableError

#: An address at which nothing listens.
NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


@pytest.fixture
def home(tmp_path: Path, shared_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home whose spools are this test's own; recordings without a URL go to the shared database."""
    monkeypatch.setenv("WORLDLEDGER_DATABASE_URL", shared_url)
    monkeypatch.setenv("WORLDLEDGER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("WORLDLEDGER_URL", raising=False)
    return tmp_path / "home"


@pytest.fixture(params=["database", "service"])
def to(request: pytest.FixtureRequest, home: Path) -> dict[str, Any]:
    """Return where to record: into the database itself, or to the service."""
    return {"url": request.getfixturevalue("service")} if request.param == "service" else {}


def log(url: str, world_id: str) -> list[dict[str, Any]]:
    """Return a world's effects."""

    async def read() -> list[dict[str, Any]]:
        connection = await asyncpg.connect(url)
        try:
            query = "select effect::text from effects where world_id = $1 order by global_seq"
            return [orjson.loads(row[0]) for row in await connection.fetch(query, world_id)]
        finally:
            await connection.close()

    return asyncio.run(read())


def effects(url: str, world_id: str) -> list[dict[str, Any]]:
    """Return a world's effects that are not of system kinds."""
    return [each for each in log(url, world_id) if not is_system_kind(each["kind"])]


def told(url: str, world_id: str) -> list[tuple[Any, ...]]:
    """Return kind, source and payload of its effects."""
    return [(each["kind"], each["source_id"], each["payload"]) for each in effects(url, world_id)]


def spools(home: Path) -> list[str]:
    """Return the names of what waits to be delivered."""
    folder = Path(f"{home}-recordings")
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def wait_until(reached: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.05)


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program of its own."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_three_lines_record_a_program(
    to: dict[str, Any], home: Path, shared_url: str, world_id: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """What happened is in the world in its order, with a digest of its end; it is said how to look at it."""
    with record(world_id, experiment="pilot", tags={"seed": 7}, **to) as run:
        run.effect("Spoke", agent="alice", text="hello", sees=["bob"])
        run.set("alice", gold=3)
        assert run.step() == 1
        run.effect("Moved", "bob", payload={"time": "noon", "to": (1, 2)})
        run.remove("alice")
        assert run.flush()
        assert len(effects(shared_url, world_id)) == 5
        assert run.step() == 2
    assert told(shared_url, world_id) == [
        ("Spoke", "alice", {"text": "hello", "sees": ["bob"]}),
        ("EntitySet", "recorder", {"entity_id": "alice", "values": {"gold": 3}}),
        ("StepBegan", "recorder", {"step": 1}),
        ("Moved", "bob", {"time": "noon", "to": [1, 2]}),
        ("EntityRemoved", "recorder", {"entity_id": "alice"}),
        ("StepBegan", "recorder", {"step": 2}),
    ]
    *_, last, digest = log(shared_url, world_id)
    assert (digest["kind"], digest["payload"]["at_seq"]) == ("StateDigest", last["global_seq"])
    assert last["kind"] == "StepBegan"
    said = capfd.readouterr().err
    assert f"recorded {world_id}: 6 effects" in said
    assert "/#/w/" in said
    assert ("--at step:2" in said) is not bool(to)
    assert "wait on disk" not in said
    assert spools(home) == []


def test_the_same_name_goes_on(
    home: Path,
    service: str,
    shared_url: str,
    world_id: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Its steps and its time follow those of before, as does the time that a program has of its own; so it says.

    Modules in the program's folder are not those of the process that delivers.
    """
    (tmp_path / "orjson.py").write_text("raise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)
    with record(world_id, url=service, quiet=True) as run:
        run.step()
        run.effect("Ate", time=50)
        run.effect("Ate")
        run.effect("Ate", time=20.5)
    with record(world_id, url=service) as run:
        assert run.step() == 2
        run.effect("Ate")
    assert f"recorded {world_id}: 2 effects, after the 1 step that it had" in capfd.readouterr().err
    found = effects(shared_url, world_id)
    times = [each["sim_time"] for each in found]
    assert times[1:4] == [50.0, 50.0, 50.0]
    assert times[3] <= times[4] <= times[5] < 60.0
    assert found[4]["payload"] == {"step": 2}


def test_what_an_earlier_program_left_on_disk_comes_first(
    home: Path, service: str, shared_url: str, world_id: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Steps, state and time follow it, and the end says what was delivered."""
    about: dict[str, Any] = {
        "experiment": None,
        "tags": {},
        "url": service,
        "home": str(home),
        "world": world_id,
        "pid": 1,
    }
    left = Spool(Path(f"{home}-recordings"), about)
    left.write(b'[".step",null,70.0,{}]\n[".set","town",80.0,{"gold":1}]\n')
    left.end()
    with record(world_id, url=service) as run:
        assert run.step() == 2
        run.set("town", gold=2)
    found = effects(shared_url, world_id)
    assert [each["payload"] for each in found] == [
        {"step": 1},
        {"entity_id": "town", "values": {"gold": 1}},
        {"step": 2},
        {"entity_id": "town", "values": {"gold": 2}},
    ]
    assert found[1]["sim_time"] == 80.0 <= found[2]["sim_time"]
    said = capfd.readouterr().err
    assert "delivered before it: what 1 earlier program had left on disk for it: 2 effects" in said
    assert spools(home) == []


class Kept:
    """A goal that keeps the kinds of what is brought there, and is away at first."""

    def __init__(self, away: int) -> None:
        self.kinds: list[str] = []
        self.away = away

    async def begin(self, about: dict[str, Any]) -> dict[str, Any]:
        """Begin with nothing."""
        return {"sim_time": 0.0, "step": 0}

    async def write(self, block_id: str, lines: Sequence[bytes], base: float) -> None:
        """Keep a block."""
        if self.away:
            self.away -= 1
            raise StoreUnavailableError("away")
        self.kinds += [orjson.loads(line)[0] for line in lines]

    def served_at(self) -> None:
        """Say that it is no service."""

    async def end(self) -> None:
        """Note the end."""
        self.kinds.append("digest")


async def test_spools_of_a_world_are_delivered_in_the_order_in_which_they_were_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later one waits behind an earlier one that cannot be delivered yet, whatever the clock said.

    What is another world's is left alone, and so is what a program is still recording.
    """

    def begun(kind: str, world: str = "town") -> Spool:
        made = Spool(tmp_path, {"world": world, "url": None, "pid": 1})
        made.write(orjson.dumps([kind, None, 0.0, {}]) + b"\n")
        return made

    kept = Kept(away=2)

    @asynccontextmanager
    async def to_kept(_: object) -> AsyncIterator[Kept]:
        yield kept

    monkeypatch.setattr(writer, "goal", to_kept)
    with monkeypatch.context() as fast:
        fast.setattr(time, "time", lambda: 3e9)
        first = begun("First")
    other, living, killed, own = begun("Other", "city"), begun("Living"), begun("Killed"), begun("Own")
    for spool in (first, other, own):
        spool.end()
    killed.forget()
    assert await Writer(str(own.prefix), has_program=False).run()
    assert kept.kinds == ["First", "Killed", writer.CUT, "Own", "digest"]
    assert {each.about["world"] for each in spools_in(tmp_path)} == {"city", "town"}
    assert {path.name.split(".")[0] for path in tmp_path.iterdir()} == {other.prefix.name, living.prefix.name}
    living.forget()


async def test_tasks_and_threads_share_a_recording(home: Path, service: str, shared_url: str, world_id: str) -> None:
    """Nothing is lost between them, and each finds its own effects in its own order.

    What is sent is as orjson writes it, so that a service need not read it more closely.
    """
    async with record(world_id, url=service, quiet=True) as run:

        def work(name: str) -> None:
            for number in range(300):
                run.effect("Counted", name, number=number, text="x" * 500)

        threads = [threading.Thread(target=work, args=(f"thread-{each}",)) for each in range(3)]
        for thread in threads:
            thread.start()
        await asyncio.gather(*(asyncio.to_thread(work, f"task-{each}") for each in range(2)))
        for thread in threads:
            thread.join()
        assert await run.flushed()
        (spool,) = Path(f"{home}-recordings").glob("*.spool")
        lines = spool.read_bytes().splitlines()
        assert [orjson.dumps(orjson.loads(line)) for line in lines] == lines
    found = await asyncio.to_thread(effects, shared_url, world_id)
    assert len(found) == 1500
    for name in {each["source_id"] for each in found}:
        numbers = [each["payload"]["number"] for each in found if each["source_id"] == name]
        assert numbers == list(range(300))


@pytest.mark.thorough
def test_processes_share_a_recording(home: Path, shared_url: str, world_id: str) -> None:
    """One that was forked, and one that was begun anew and got the recording, go on with it."""
    program = f"""
        import multiprocessing, os, sys
        from worldledger import record

        def work(run, name):
            run.effect("Worked", name)

        if __name__ == "__main__":
            with record("{world_id}", quiet=True) as run:
                run.effect("Began", "parent")
                child = os.fork()
                if child == 0:
                    run.effect("Worked", "forked")
                    run.close()
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
                process = multiprocessing.get_context("fork").Process(target=work, args=(run, "pool"))
                process.start()
                process.join()
                assert process.exitcode == 0
                run.effect("Ended", "parent")
    """
    done = run(program)
    assert (done.returncode, done.stderr) == (0, "")
    kinds = sorted((each["kind"], each["source_id"]) for each in effects(shared_url, world_id))
    assert kinds == [("Began", "parent"), ("Ended", "parent"), ("Worked", "forked"), ("Worked", "pool")]
    assert spools(home) == []


@pytest.mark.thorough
def test_a_recording_can_be_sent_to_another_process(home: Path, service: str, shared_url: str, world_id: str) -> None:
    """It is pickled as what it was asked for, and records from there."""
    with record(world_id, url=service, quiet=True) as one:
        one.effect("Ate", "one")
        with pickle.loads(pickle.dumps(one)) as other:
            other.effect("Ate", "other")
    assert {each["source_id"] for each in effects(shared_url, world_id)} == {"one", "other"}


@pytest.mark.thorough
def test_a_program_that_is_killed_loses_what_it_had_not_flushed(home: Path, shared_url: str, world_id: str) -> None:
    """What it had flushed is delivered after its end, and an effect says that the recording was cut."""
    done = run(
        f"""
        import os, signal
        from worldledger import record

        run = record("{world_id}")
        for number in range(2000):
            run.effect("Counted", number=number)
        assert run.flush()
        for number in range(2000, 4000):
            run.effect("Counted", number=number)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    assert done.returncode == -9
    wait_until(lambda: spools(home) == [])
    found = effects(shared_url, world_id)
    numbers = [each["payload"]["number"] for each in found[:-1]]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= 2000
    assert found[-1]["kind"] == "RecordingCut"


@pytest.mark.thorough
def test_a_process_that_delivers_and_is_killed_delivers_once(home: Path, shared_url: str, world_id: str) -> None:
    """Another one goes on where it was, with the same block under the same id."""
    with record(world_id, quiet=True) as run:
        for number in range(3):
            for each in range(2000):
                run.effect("Counted", number=number * 2000 + each)
            delivery = run._delivery
            assert delivery is not None
            assert delivery._process is not None
            before = delivery._process
            wait_until(lambda: delivery.lines > number * 2000)  # noqa: B023 - called at once
            before.kill()
            wait_until(lambda: delivery._process is not before)  # noqa: B023 - as above
        assert run.flush()
    assert [each["payload"]["number"] for each in effects(shared_url, world_id)] == list(range(6000))


@pytest.mark.thorough
def test_while_the_server_is_away_the_program_goes_on(
    home: Path,
    shared_url: str,
    world_id: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is told, what it records waits on disk up to a bound, and the next recording delivers it."""
    monkeypatch.setenv("WORLDLEDGER_DATABASE_URL", NOWHERE)
    with record(world_id, spool_bytes=100_000) as run:
        for number in range(10):
            run.effect("Counted", number=number)
        assert not run.flush()
        run.effect("Counted", text="x" * 99_999)
        delivery = run._delivery
        assert delivery is not None
        assert delivery._process is not None
        delivery._command = ["true"]  # it is not started again
        delivery._process.kill()
    messages = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert any("cannot be reached" in each or "refused" in each for each in messages), messages
    assert any("100,000 bytes wait to be delivered" in each for each in messages)
    assert (run.effects, run.lost) == (10, 1)
    assert "10 of them wait on disk" in capfd.readouterr().err
    assert len(spools(home)) == 4
    monkeypatch.setenv("WORLDLEDGER_DATABASE_URL", shared_url)
    with record(f"{world_id}-next", quiet=True):
        wait_until(lambda: not any(each.startswith(f"{world_id}-") and "-next" not in each for each in spools(home)))
    assert [each["payload"]["number"] for each in effects(shared_url, world_id)] == list(range(10))


def test_a_problem_does_not_end_the_program(
    home: Path, service: str, shared_url: str, world_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Unless that wants it to: what is refused is told with its path, once, and counted; the rest is recorded."""
    problems: list[Exception] = []
    with record(world_id, url=service, quiet=True, payload_bytes=4 * MOST_PAYLOAD) as run:
        wrong: list[Callable[[], object]] = [
            lambda: run.effect("Ate", food=object()),
            lambda: run.effect("WorldCreated"),
            lambda: run.effect("Ate", text="x" * 4 * MOST_PAYLOAD),
            lambda: run.effect(7),  # type: ignore[arg-type]
            lambda: run.set("", gold=1),
            lambda: run.step(0),
        ]
        for on_error in ("warn", "warn", "ignore", problems.append, "raise"):
            run._on_error = on_error
            for call in wrong:
                if on_error == "raise":
                    with pytest.raises((InvalidEffectError, ReservedKindError)):
                        call()
                else:
                    call()
        run._on_error = "warn"
        run.effect("Ate", text="x" * 3 * MOST_PAYLOAD)  # more than a block has, and than this service takes
        run.effect("Ate", food="figs")
    assert (run.effects, run.lost, len(problems)) == (2, 31, 6)
    assert [each["payload"] for each in effects(shared_url, world_id)] == [{"food": "figs"}]
    messages = [each.getMessage() for each in caplog.records if each.name == "worldledger.recording"]
    assert len(messages) == 7
    assert "WORLDLEDGER_MAX_EFFECT_BYTES of the server may be set to more" in messages[-1]
    assert any("$.payload.food" in text for text in messages)


def test_durable_calls_wait(
    home: Path, service: str, shared_url: str, world_id: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """What one has recorded is there when it returns; at the end it is said what was converted."""
    prices = [Decimal("1.10"), 1j]
    with record(world_id, url=service, durable=True, unknown="repr") as run:
        for number, price in enumerate(prices, 1):
            run.effect("Paid", price=price)
            assert len(effects(shared_url, world_id)) == number
    assert [each["payload"]["price"] for each in effects(shared_url, world_id)] == ["1.10", "1j"]
    assert run.converted == {"decimal.Decimal as a text": 1, "complex as its repr": 1}
    assert "decimal.Decimal as a text" in capfd.readouterr().err


@dataclass
class Person:
    """Somebody of a program, who cannot be a key."""

    name: str


def test_the_end_says_what_was_lost_and_why(
    home: Path, service: str, shared_url: str, world_id: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """With its place, the most frequent first, and how many sorts there were besides; so with what was converted."""
    person: Any = Person("ann")
    circle: dict[str, Any] = {}
    circle["me"] = circle
    values: list[Any] = [Decimal(1), {1}, b"", Path(), 2**60, float("inf"), range(1)]
    with record(world_id, url=service, on_error="ignore") as run:
        for _ in range(3):
            run.effect("Traded", agent=person)
        for _ in range(2):
            run.effect("Traded", time="soon")  # type: ignore[arg-type]
        run.effect("Traded", "a\0")
        run.effect("Traded", sees=[None])  # type: ignore[list-item]
        run.effect("Traded", sees=5)  # type: ignore[arg-type]
        run.effect("Traded", who=circle)
        run.set("x" * 201)
        for value in values:
            run.effect("Traded", price=value)
        run.effect("Traded", sees=[5])  # type: ignore[list-item]
    said = capfd.readouterr().err
    assert "10 could not be recorded" in said
    assert f"lost 3 times: $.agent: {Person.__module__}.Person is no name; give a text" in said
    assert "lost 2 times: $.time: a time is a finite number of seconds" in said
    assert "lost 1 time: $.agent: a string with a NUL character" in said
    assert "lost 1 time: $.sees[0]: NoneType is no name; give a text" in said
    assert "lost 1 time: $.sees: a list of agents, not int" in said
    assert "lost 2 more, of 2 other sorts" in said
    assert run._reasons["$.payload.who.me: dict contains itself: it is $.payload.who"] == 1
    assert "converted 2 more, of 2 other sorts" in said
    *_, last = effects(shared_url, world_id)
    assert last["payload"] == {"sees": ["5"]}


def test_a_process_that_comes_too_late_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another one has delivered a spool meanwhile there are no files of it afterwards."""
    (tmp_path / "town-1.live").touch()
    (tmp_path / "town-12.live").touch()
    with open(os.devnull) as nothing:  # noqa: PTH123 - as its stdin
        kept = os.dup(0)
        os.dup2(nothing.fileno(), 0)
        try:
            monkeypatch.setattr(sys, "argv", ["writer", str(tmp_path / "town-1")])
            writer.main()
        finally:
            os.dup2(kept, 0)
            os.close(kept)
    assert [path.name for path in tmp_path.iterdir()] == ["town-12.live"]


@pytest.mark.parametrize(
    ("code", "setting"),
    [("body_too_large", "WORLDLEDGER_MAX_BODY_BYTES"), ("too_many_values", "WORLDLEDGER_MAX_BODY_VALUES")],
)
async def test_a_block_that_is_too_large_is_halved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: str, setting: str
) -> None:
    """Until a service takes it; of a line that it never takes it is told how it would."""

    class Small:
        taken: ClassVar[list[tuple[str, list[Any]]]] = []

        async def begin(self, about: dict[str, Any]) -> dict[str, Any]:
            return {}

        async def end(self) -> None:
            pass

        async def write(self, block_id: str, lines: Sequence[bytes], base: float) -> None:
            if sum(map(len, lines)) > 200:
                raise RemoteError("the body has more than 200 bytes", code=code)
            self.taken.append((block_id, [orjson.loads(line)[3]["n"] for line in lines]))

        def served_at(self) -> None:
            """Say that it is no service."""

    spool = Spool(tmp_path, {"world": "town"})
    sizes = [10, 10, 10, 300, 10, 10, 10, 10, 10]
    spool.write(b"".join(orjson.dumps(["Ate", None, 0.0, {"n": n, "x": "x" * s}]) + b"\n" for n, s in enumerate(sizes)))
    delivering = Writer(str(spool.prefix), has_program=False)
    while lines := delivering._next():
        await delivering._write(Small(), lines)
    assert [number for _, numbers in Small.taken for number in numbers] == [0, 1, 2, 4, 5, 6, 7, 8]
    assert len({block_id for block_id, _ in Small.taken}) == len(Small.taken)
    assert (delivering.place.lines, delivering.place.tried) == (9, 0)
    told = capsys.readouterr().err
    assert f"more than 200 bytes; {setting} of the server may be set to more: [" in told
    assert len(told) < 500
    spool.forget()


@pytest.mark.thorough
def test_a_part_of_a_run_is_a_recording_of_its_own(home: Path, service: str, shared_url: str, world_id: str) -> None:
    """It has its world, which says of which one it is a part."""
    with record(world_id, url=service, experiment="pilot", quiet=True) as run:
        run.step()
        with run.nested("round-1", tags={"seed": 1}) as part:
            part.effect("Ate")
    assert part.name == f"{world_id}-round-1"
    assert [each["kind"] for each in effects(shared_url, part.name)] == ["Ate"]
    assert part._settings["tags"] == {"part_of": world_id, "from_step": 1, "seed": 1}
    assert part._settings["experiment"] == "pilot"


@pytest.mark.parametrize("on_error", ["raise", pytest.param("warn", marks=pytest.mark.thorough)])
async def test_a_world_of_another_kind_is_not_recorded(
    on_error: Literal["raise", "warn"],
    home: Path,
    service: str,
    client: Any,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is told at the beginning, with what to do; the program goes on if it can, and at its end it is told again."""

    def program() -> None:
        run = record(client.world_id, url=service, on_error=on_error)
        try:
            with run:
                run.effect("Ate")
        finally:
            run.close()

    if on_error == "raise":
        with pytest.raises(RecordingError, match="of the ruleset sandbox, not recorder: record under another name"):
            await asyncio.to_thread(program)
    else:
        await asyncio.to_thread(program)
    assert any("record under another name" in each.getMessage() for each in caplog.records) is (on_error == "warn")
    said = capsys.readouterr().err
    assert f"worldledger: nothing of this was recorded in {client.world_id}\n" in said
    assert "what was recorded is kept in" in said
    assert "look at it" not in said


def test_a_recording_shows_itself(home: Path) -> None:
    """With a link to the console; a name that no world can have, and an address that is none, are refused at once."""
    run = record("town", url="http://127.0.0.1:8000")
    assert run._repr_html_() == (
        'recording of <a href="http://127.0.0.1:8000/#/w/town" target="_blank">town</a>: 0 effects'
    )
    assert repr(run) == "<recording of town: 0 effects; http://127.0.0.1:8000/#/w/town>"
    run.close()
    with pytest.raises(InvalidNameError):
        record("a town")
    with pytest.raises(ValueError, match="no address"):
        record("town", url="localhost")
    assert os.environ["WORLDLEDGER_HOME"] == str(home)
