"""Tools of these tests: the program in a process of its own, worlds to work on, waiting for something to be true."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, NamedTuple, Self

import asyncpg
import structlog
from worldledger_service.cli.main import run
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from tests.conftest import quick_settings
from tests.waiting import block_until
from tests.warm import SCRIPT, Process
from worldledger.effects import EffectDraft
from worldledger.genesis import NewWorld
from worldledger.kinds import installed

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "pgn"

GAME = '[Event "Cup"]\n[White "Ann"]\n[Black "Bob"]\n[Round "{}"]\n[Result "0-1"]\n\n1. f3 e5 2. g4 Qh4# 0-1\n\n'


class Result(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


def environment(**more: str) -> dict[str, str]:
    """Return an environment without settings of ours but those that are given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WORLDLEDGER_", "PG"))}
    return {**kept, "COLUMNS": "100", "TERM": "dumb", **more}


def call(*arguments: str, stdin: bytes = b"", **env: str) -> Result:
    """Run the program to its end."""
    with Running(*arguments, stdin=stdin, **env) as running:  # type: ignore[arg-type]
        return running.end()


def done(*arguments: str) -> None:
    """Run a command in this process, which must do."""
    try:
        assert run(arguments) == 0
    finally:
        structlog.reset_defaults()


def into_a_closed_pipe(*arguments: str) -> tuple[str, Result]:
    """Run the program, and close its stdout after a line, as `head` does; return the line, and how it ended."""
    with Running(*arguments, lines=1) as running:
        return running.line(), running.end()


class Running:
    """The program in a process of its own, its stdout line by line; a context manager that leaves none behind."""

    def __init__(
        self,
        *arguments: str,
        program: Path = SCRIPT,
        stdin: bytes = b"",
        lines: int = -1,
        start_new_session: bool = False,
        **env: str,
    ) -> None:
        given, said, complained = os.pipe(), os.pipe(), os.pipe()
        self._in = open(given[1], "wb")  # noqa: PTH123, SIM115 - no paths, and open till it ends
        self._out, self._err = (open(pipe[0], newline="\n") for pipe in (said, complained))  # noqa: PTH123, SIM115
        streams = (given[0], said[1], complained[1])
        try:
            told = environment(**env)
            self.process = Process(arguments, streams, told, program=program, start_new_session=start_new_session)
        finally:
            for stream in streams:
                os.close(stream)
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._said: list[str] = []
        reading = threading.Thread(target=self._read_out, args=(lines,))
        self._threads = [
            threading.Thread(target=self._write, args=(stdin,)),
            reading,
            threading.Thread(target=self._read_err),
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, data: bytes) -> None:
        with suppress(BrokenPipeError), self._in as stream:
            stream.write(data)

    def _read_out(self, lines: int) -> None:
        with self._out as stream:
            for line in itertools.islice(stream, lines if lines >= 0 else None):
                self._lines.put(line)
        self._lines.put("")

    def _read_err(self) -> None:
        with self._err as stream:
            for line in stream:
                self._said.append(line)

    @property
    def err(self) -> str:
        """What it has said on stderr so far."""
        return "".join(self._said)

    def line(self) -> str:
        """Return its next line; fail if there is none."""
        line = self._lines.get(timeout=120)
        assert line, f"it ended: {self.err}"
        return line.rstrip("\n")

    def end(self, number: int | None = None) -> Result:
        """Send it a signal if one is given, wait for its end, and give what it had still to say."""
        if number is not None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=120)
        for thread in self._threads:
            thread.join()
        rest = []
        while line := self._lines.get():
            rest.append(line)
        return Result(code, "".join(rest), self.err)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.end()
        for thread in self._threads:
            thread.join()


def drafts(count: int) -> Iterable[EffectDraft]:
    """Make drafts of two kinds and two sources."""
    for n in range(count):
        yield {
            "kind": "Said" if n % 2 else "Moved",
            "payload": {"n": n, "text": "ä" * 50},
            "source_id": f"a{n % 3}",
            "schema_version": "1.0.0",
        }


def seed(url: str, world_id: str, count: int = 9, **fields: Any) -> None:
    """Make a world with ``count`` effects after its genesis, and no snapshots."""

    async def work() -> None:
        async with Store.open(url, quick_settings(pool_size=2)) as store:
            await store.import_world(NewWorld(world_id=world_id, **fields), drafts(count))

    asyncio.run(work())


def _settings() -> Settings:
    """Return settings with as many snapshots as usual."""
    return quick_settings(pool_size=2, snapshot_every=Settings.model_fields["snapshot_every"].default)


def append(url: str, world_id: str, count: int = 1) -> None:
    """Append effects to a world."""

    async def work() -> None:
        async with Store.open(url, _settings()) as store:
            await (await store.log(world_id)).append_all(list(drafts(count)))

    asyncio.run(work())


def say(source: str, kind: str, sim_time: float, **payload: Any) -> EffectDraft:
    """Make a draft of the sandbox's vocabulary, for a world whose clients set the time."""
    return {
        "kind": kind,
        "payload": payload,
        "source_id": source,
        "schema_version": "1.0.0",
        "sim_time": sim_time,
    }


#: A little world: two who move, speak and meet; the time jumps.
BAZAAR = [
    say("alice", "EntityCreated", 1.0, entity_id="alice", entity_data={"role": "seller"}, position=[0.0, 1.5, 0.0]),
    say("bob", "EntityCreated", 1.0, entity_id="bob", entity_data={"coins": 9}),
    say("bob", "Move", 2.5, to=[2.0, 3.0, 0.0]),
    say("alice", "Speak", 4.0, text="figs!"),
    say("bob", "Interact", 8.0, target_id="alice"),
    say("bob", "Sneezed", 9.0),
]


def record(url: str, world_id: str, effects: Sequence[EffectDraft], *, wall_time: float = 1.7e9, **fields: Any) -> None:
    """Make a world, or append to one, at a time of the wall clock."""

    async def work() -> None:
        async with Store.open(url, _settings(), clock=lambda: wall_time) as store:
            if (await store.reader.head_seqs([world_id])).get(world_id):
                await store.bulk_append(world_id, effects)
            else:
                await store.import_world(NewWorld(world_id=world_id, time_authority="client", **fields), effects)

    asyncio.run(work())


def play(url: str, world_id: str, drafts: Sequence[EffectDraft], *, system: bool = False, **fields: Any) -> None:
    """Make a world if ``fields`` are given, and append to it what its ruleset lets through."""

    async def work() -> None:
        async with Store.open(url, _settings()) as store:
            if fields:
                await store.create_world(NewWorld(world_id=world_id, **fields))
            await (await store.log(world_id)).append_all(drafts, system=system)

    asyncio.run(work())


#: Takes the guards of the log away, so that it can be tampered with.
UNGUARDED = "alter table effects disable trigger all"


def sql(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements, and give the rows of the last."""

    async def work() -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(url)
        try:
            rows: list[asyncpg.Record] = []
            for statement in statements:
                rows = await connection.fetch(statement)
            return [tuple(row) for row in rows]
        finally:
            await connection.close()

    return asyncio.run(work())


def forgery(world_id: str, kind: str) -> list[str]:
    """Return statements that make a world's last effect one of another kind, and compute the chain anew."""
    last = f"world_id = '{world_id}' and global_seq = (select head_seq from heads where world_id = '{world_id}')"
    return [
        UNGUARDED,
        f"""update effects set kind = '{kind}',
            effect = replace(effect::text, '"kind":"' || kind || '"', '"kind":"{kind}"')::json where {last}""",
        f"""update effects e set checksum = chain_checksum((select p.checksum from effects p
            where p.world_id = e.world_id and p.global_seq = e.global_seq - 1), effect) where {last}""",
        f"""update heads h set head_checksum = (select e.checksum from effects e
            where e.world_id = h.world_id and e.global_seq = h.head_seq) where world_id = '{world_id}'""",
    ]


class Lock:
    """A lock that somebody else holds on the database, so that a command has to wait in the middle of its work."""

    def __init__(self, url: str, statement: str) -> None:
        self._url = url
        self._statement = statement
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Self:
        self._connection = self._loop.run_until_complete(asyncpg.connect(self._url))
        self._loop.run_until_complete(self._connection.execute(f"begin; {self._statement}"))
        return self

    def wait_for_waiter(self, count: int = 1) -> None:
        """Wait until a command waits for the lock, or as many as are given for it or for each other."""
        statement = """
            select count(*) from pg_stat_activity
            where datname = current_database() and application_name = 'worldledger' and wait_event_type = 'Lock'
        """
        block_until(lambda: sql(self._url, statement) == [(count,)], "a command waits for the lock")

    def release(self) -> None:
        """Let the lock go."""
        self._loop.run_until_complete(self._connection.execute("rollback"))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._loop.run_until_complete(self._connection.close())
        except (OSError, asyncpg.InterfaceError):  # the server has ended the connection
            self._connection.terminate()
            self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()


# -- projections ---------------------------------------------------------------------------------------------

#: The projections there are.
KNOWN = [
    "effect_counts",
    "entities",
    "feedback",
    "messages",
    "policy_adaptations",
    "reasoning",
    "rounds",
    "social_runs",
    "state_variables",
    "turns",
    "world_summaries",
]
if "chess" in installed():
    KNOWN = sorted([*KNOWN, "agent_stats", "agents", "games", "moves"])
UP_TO_DATE = "the projections are up to date\n"


def untouched(url: str) -> None:
    """Leave a database empty, for tests of what is refused or needs no world."""


def fed_worlds(url: str) -> None:
    """Make two little worlds and, with chess, a game, all of them read by the projections."""
    for name in ("a", "b"):
        record(url, name, BAZAAR)
    if "chess" in installed():
        with TemporaryDirectory() as folder:
            (Path(folder) / "a.pgn").write_text(GAME.format(1))
            done("import", "pgn", folder, "--database-url", url)
    done("project", "--once", "--database-url", url)


def rows(url: str, name: str) -> list[tuple[str, ...]]:
    """Return what people read of a projection, as texts."""
    return sql(url, f"select t::text from projections.{name} t order by t::text")


def lose(url: str, world_id: str) -> None:
    """Take an effect out of a log, so that nothing that reads it can go on; keep it to put it back."""
    sql(
        url,
        UNGUARDED,
        f"create table lost as select * from effects where world_id = '{world_id}' and global_seq = 4",
        f"delete from effects where world_id = '{world_id}' and global_seq = 4",
    )


def put_back(url: str) -> None:
    """Put it back."""
    columns = sql(
        url,
        """
        select string_agg(quote_ident(attname), ', ') from pg_attribute
        where attrelid = 'effects'::regclass and attnum > 0 and attgenerated = '' and not attisdropped
        """,
    )[0][0]
    sql(url, f"insert into effects ({columns}) select {columns} from lost")


# -- comparing -----------------------------------------------------------------------------------------------


def compared(on: Callable[..., Result], *arguments: str) -> Any:
    """Compare as JSON."""
    result = on("compare", *arguments, "--json")
    assert (result.code, result.err) == (0, "")
    return json.loads(result.out)
