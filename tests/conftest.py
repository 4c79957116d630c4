"""Real servers for the tests: started once a session, migrated once, and a template database cloned per test.

``server_kind`` says which: ``embedded`` is the wheel's PostgreSQL 18 (or the server that
``WORLDLEDGER_TEST_DATABASE_URL`` names), ``system`` the distribution's own, 15 or newer. Tests that are marked
``both_servers`` run on both; with ``--thorough`` all of them do.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import hmac
import itertools
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, suppress
from fcntl import LOCK_EX, flock
from functools import cache
from hashlib import pbkdf2_hmac, sha256
from pathlib import Path
from shutil import disk_usage, rmtree
from tempfile import gettempdir
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest
import pytest_asyncio
import structlog
from hypothesis import is_hypothesis_test, settings
from worldledger_service.database import embedded, schema
from worldledger_service.projecting.engine import Engine
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from tests.workers import Workers
from worldledger.errors import EmbeddedServerError

_counter = itertools.count(1)
#: This run, the same in all its processes: they are forked after this was made.
_RUN: Final = uuid4().hex
#: A spacing of snapshots that no test reaches: the digests that come with them would move heads in the background.
NEVER = 10**9
#: A connection that a test has ended together with others.
LOST = (asyncpg.InterfaceError, asyncpg.PostgresConnectionError, asyncpg.AdminShutdownError, OSError)
#: Bytes that the servers' data may come to, by far.
ROOM = 8 << 30


# On a busy machine a database may take seconds to answer. That is an outage only where a test says how long one is.
os.environ.setdefault("WORLDLEDGER_OUTAGE_PATIENCE", "60")

# As the service writes its own log: rich's tracebacks, with all local variables, take a fifth of a second each.
structlog.get_config()["processors"][-1].exception_formatter = structlog.dev.plain_traceback

#: Where Hypothesis keeps a test's settings; a decorator could not change them once they are given.
_SETTINGS = "_hypothesis_internal_use_settings"
#: Folders with tests that take a minute: they begin first, so that no worker is left alone with one at the end.
FIRST = ("shipping", "arena", "faults", "projections")
#: Folders whose tests run on one loop, on which the store lives that they share, unless a file asks for another.
ONE_LOOP = ("store", "runtime")


#: Without ``--thorough``, properties are tried with this part of their examples, but with no fewer than these.
SHARE, FEWEST = 10, 5


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make test-all`."""
    parser.addoption("--workers", type=int, default=0, metavar="N", help="processes that run the tests; 0: this one")
    told = "both servers for every test that needs one, all examples of Hypothesis, full sizes, and the tests that are "
    told += "marked `packaging` or `thorough`"
    parser.addoption("--thorough", action="store_true", help=told)


def pytest_configure(config: pytest.Config) -> None:
    """Run the tests in as many processes as was asked for."""
    if count := config.getoption("workers"):
        config.pluginmanager.register(Workers(config, count, FIRST), "workers")


def pytest_sessionstart(session: pytest.Session) -> None:
    """End on SIGTERM as on Ctrl-C, so that what the tests have started is stopped, too."""

    def end(_number: int, _frame: object) -> None:
        session.shouldstop = "SIGTERM"  # after this test at the latest: asyncio cancels a task, which may swallow that
        signal.raise_signal(signal.SIGINT)

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background, for all that tests start
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, end)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run on both servers what is marked so; with --thorough, whatever needs a server."""
    if "server_kind" not in metafunc.fixturenames:
        return
    if metafunc.config.getoption("thorough") or metafunc.definition.get_closest_marker("both_servers"):
        metafunc.parametrize("server_kind", ["embedded", "system"], indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest tests first; without --thorough, leave out what is marked so and take fewer examples."""
    thorough = config.getoption("thorough")
    _set_up_properties(items, thorough=thorough)
    if not thorough:
        left_out = {item for item in items if any(map(item.get_closest_marker, ("packaging", "thorough")))}
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]

    for item in items:
        mark = item.get_closest_marker("asyncio")
        own = mark is not None and "loop_scope" in mark.kwargs
        if _folder(item) in ONE_LOOP and pytest_asyncio.is_async_test(item) and not own:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
    items.sort(key=lambda item: FIRST.index(_folder(item)) if _folder(item) in FIRST else len(FIRST))


def _folder(item: pytest.Item) -> str:
    return item.nodeid.split("/")[1]


def pytest_collection() -> None:
    """Collect no garbage while modules are loaded and tests are collected: nearly all of that stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Spare the garbage collector the thousands of tests: they stay, and every full collection would walk them.

    It looks a tenth as often as usual, too, which spares two of its three hundredths of the processor time. The little
    garbage of collection stays with the rest: to find it takes half a second of each worker.
    """
    gc.enable()
    gc.freeze()
    gc.set_threshold(7_000)


def _set_up_properties(items: list[pytest.Item], *, thorough: bool) -> None:
    """Take no property's time, for machines may be busy; without --thorough, lower the number of its examples."""
    for test in {item.obj for item in items if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)}:
        usual = getattr(test, _SETTINGS, None) or settings()
        fewer = min(usual.max_examples, max(FEWEST, usual.max_examples // SHARE))
        wanted = usual.max_examples if thorough else fewer
        setattr(test, _SETTINGS, settings(usual, deadline=None, max_examples=wanted))


def with_database(url: str, database: str) -> str:
    """Return the same server's address with another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


def system_bin_dir() -> Path | None:
    """Find the distribution's PostgreSQL server, the oldest that is supported."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    return next((path.parent for path in found if int(path.parts[4]) >= 15), None)


def _quick_password(url: str) -> str:
    """Return the statement that keeps a user's password hashed once: 4,096 times take a millisecond of a connection."""
    user, password = (unquote(part or "") for part in (urlsplit(url).username, urlsplit(url).password))
    salted = pbkdf2_hmac("sha256", password.encode(), b"tests", 1)
    client, server = (hmac.digest(salted, key, "sha256") for key in (b"Client Key", b"Server Key"))
    parts = (base64.b64encode(part).decode() for part in (b"tests", sha256(client).digest(), server))
    return "alter role \"{}\" password 'SCRAM-SHA-256$1:{}${}:{}'".format(user, *parts)


@cache
def quick_settings(**changes: Any) -> Settings:
    """Make settings, once for all tests that want the same: to look for each in the environment takes 3 ms.

    They have few connections, and take no snapshots of their own accord.
    """
    return Settings(**{"pool_size": 4, "snapshot_every": NEVER, **changes})


class Servers:
    """The servers of this test run, shared by all its worker processes and stopped after the last of them."""

    def __init__(self, folder: Path, prefix: Path, run: str, stack: ExitStack) -> None:
        self._folder = folder
        self._prefix = prefix
        self._run = run
        self._stack = stack
        self._urls: dict[str, str] = {}
        self._templates: dict[str, str] = {}
        self._homes: list[Path] = []
        # A connection for each database that is made or dropped would be a third of the work.
        self._loop = asyncio.new_event_loop()
        self._connections: dict[str, asyncpg.Connection[asyncpg.Record]] = {}

    def url(self, kind: str) -> str:
        """Return a superuser's address on the server of that kind, starting it at first use."""
        if kind not in self._urls:
            self._urls[kind] = self._start(kind)
        return self._urls[kind]

    def _start(self, kind: str) -> str:
        named = os.environ.get("WORLDLEDGER_TEST_DATABASE_URL")
        if kind == "embedded" and named:
            return named
        bin_dir = None
        if kind == "system":
            bin_dir = system_bin_dir()
            if bin_dir is None:
                pytest.skip("no PostgreSQL 15 or newer of the distribution is installed here")
        home = Path(f"{self._prefix}-{kind}")
        self._homes.append(home)
        server = self._stack.enter_context(embedded.attach(home, database="postgres", bin_dir=bin_dir))
        return server.url()

    def template(self, kind: str) -> str:
        """Return the name of a migrated database to clone; the first worker to come makes it."""
        if kind not in self._templates:
            url = self.url(kind)
            name = f"wl_{self._run[:12]}_template"
            with (self._folder / f"template-{kind}.lock").open("w") as lock:
                flock(lock, LOCK_EX)
                asyncio.run(self._make_template(url, name))
            self._templates[kind] = name
        return self._templates[kind]

    @staticmethod
    async def _make_template(url: str, name: str) -> None:
        connection = await asyncpg.connect(url)
        try:
            if await connection.fetchval("select 1 from pg_database where datname = $1", name):
                return
            await connection.execute(f"create database {name}")
            await schema.upgrade(with_database(url, name))
            if not os.environ.get("WORLDLEDGER_TEST_DATABASE_URL"):
                await connection.execute(_quick_password(url))
                # To compile a query takes longer than to answer it from tables as small as those of tests.
                await connection.execute("alter system set jit = off")
                await connection.execute("select pg_reload_conf()")
        finally:
            await connection.close()

    def create(self, kind: str, template: str | None) -> str:
        """Create a database, empty or from the template; return its address."""
        name = f"wl_{self._run[:12]}_{os.getpid()}_{next(_counter)}"
        # Copying files takes half of the time of writing every page to the WAL, and dropping such a database a quarter.
        self.execute(kind, f"create database {name} template {template or 'template1'} strategy file_copy")
        return with_database(self.url(kind), name)

    def drop(self, kind: str, url: str) -> None:
        """Drop a database that `create` made."""
        self.execute(kind, f"drop database if exists {urlsplit(url).path[1:]} with (force)")

    def drop_templates(self, *, last: bool) -> None:
        """Leave nothing behind on a server that was named from outside, once no other worker needs it."""
        if last and os.environ.get("WORLDLEDGER_TEST_DATABASE_URL") and "embedded" in self._templates:
            self.execute("embedded", f"drop database if exists {self._templates['embedded']} with (force)")

    def remove(self) -> None:
        """Delete the servers' data, which may lie outside the test folder; the last worker succeeds."""
        for home in self._homes:
            with suppress(EmbeddedServerError):
                embedded.remove(home, timeout=1)
                rmtree(home, ignore_errors=True)

    def execute(self, kind: str, statement: str) -> None:
        """Run one statement on the server's own database."""
        url = self.url(kind)  # starting a server blocks, so not inside the loop

        async def run() -> None:
            if kind not in self._connections:
                self._connections[kind] = await asyncpg.connect(url)
            await self._connections[kind].execute(statement)

        try:
            self._loop.run_until_complete(run())
        except LOST:
            del self._connections[kind]
            self._loop.run_until_complete(run())

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            connection.terminate()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


def _roomy_memory() -> Path | None:
    """Return a file system in memory, if there is one with room: thousands of databases are made and dropped.

    The servers are the same there, fsync and all; but no disk is waited for, which takes half of the time.
    """
    memory = Path("/dev/shm")
    try:
        return memory if disk_usage(memory).free >= ROOM and os.access(memory, os.W_OK | os.X_OK) else None
    except OSError:
        return None


@pytest.fixture(scope="session")
def thorough(pytestconfig: pytest.Config) -> bool:
    """Tell whether the suite runs at full strength, so that a test may be about more of the same."""
    return bool(pytestconfig.getoption("thorough"))


@pytest.fixture(scope="session")
def servers(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Hold the servers of this run."""
    base, is_worker = tmp_path_factory.getbasetemp(), pytestconfig.pluginmanager.hasplugin("workers")
    folder = base.parent if is_worker else base
    # Not below pytest's own folder: nobody but its owner may enter that, and as root the server is somebody else.
    homes = _roomy_memory() or Path(gettempdir())
    homes /= f"worldledger-tests-{_RUN[:12]}"
    with ExitStack() as stack:
        servers = Servers(folder, homes, _RUN, stack)
        stack.callback(servers.close)
        yield servers
        servers.drop_templates(last=not is_worker)
    servers.remove()


@pytest.fixture(scope="session")
def server_kind(request: pytest.FixtureRequest, servers: Servers) -> str:
    """Return the name of the server that the test runs on, which is running before a test's event loop is."""
    kind = str(getattr(request, "param", "embedded"))
    servers.url(kind)
    return kind


@pytest.fixture
def server_url(servers: Servers, server_kind: str) -> str:
    """Return a superuser's address of the server's database ``postgres``."""
    return servers.url(server_kind)


@pytest.fixture
def make_database(servers: Servers, server_kind: str) -> Iterator[Callable[..., str]]:
    """Return a maker of databases (``migrated=True`` by default), each dropped after the test."""
    made: list[str] = []

    def make(*, migrated: bool = True) -> str:
        made.append(servers.create(server_kind, servers.template(server_kind) if migrated else None))
        return made[-1]

    yield make
    for url in made:
        servers.drop(server_kind, url)


@pytest.fixture(scope="session")
def built(servers: Servers, server_kind: str) -> Iterator[str]:
    """Return the name of a database without worlds to clone, in which every projection has its table."""
    url = servers.create(server_kind, servers.template(server_kind))

    async def build() -> None:
        async with Store.open(url, quick_settings()) as store, Engine.open(store, url, quick_settings()) as engine:
            await engine.run_until_caught_up(timeout=60)

    asyncio.run(build())
    yield urlsplit(url).path[1:]
    servers.drop(server_kind, url)


@pytest.fixture
def projected() -> None:
    """Ask for a database in which every projection has its table, where `database_url` knows of such (api, cli)."""


@pytest.fixture
def database_url(make_database: Callable[..., str]) -> str:
    """Return a superuser's address of a migrated database that only this test uses."""
    return make_database()


@pytest.fixture
def empty_database_url(make_database: Callable[..., str]) -> str:
    """Return a superuser's address of an empty database that only this test uses."""
    return make_database(migrated=False)


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    """Open a store on a database of its own."""
    async with Store.open(database_url, quick_settings()) as opened:
        yield opened
