"""The one place where the service is put together, and the loop that serves it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from importlib.metadata import version
from types import ModuleType

import asyncpg
import structlog
import uvicorn
import uvloop
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from worldledger.aio import first_of
from worldledger.errors import SimulationError, StoreUnavailableError
from worldledger.kinds import parts
from worldledger_service import console
from worldledger_service.api import (
    agents_of_worlds,
    clock,
    comparing,
    effect_kinds,
    effects,
    frames,
    generations,
    health,
    intents,
    metrics,
    observing,
    online,
    projections,
    published,
    reading,
    reporting,
    sql,
    states,
    verification,
    why,
    worlds,
)
from worldledger_service.api.bodies import Room
from worldledger_service.api.context import Services
from worldledger_service.api.edge import Edge, Limiter
from worldledger_service.api.health import Opening
from worldledger_service.api.hosts import allowed_hosts
from worldledger_service.api.metrics import Metrics
from worldledger_service.api.openapi import document
from worldledger_service.api.problems import on_http_exception, on_simulation_error, on_validation_error
from worldledger_service.api.projections import Jobs
from worldledger_service.api.reading import ARROW, NDJSON
from worldledger_service.api.sql import SqlPool
from worldledger_service.api.streaming import is_fault
from worldledger_service.api.wire import Turns, protocol
from worldledger_service.api.ws import handshake
from worldledger_service.api.ws.messages import MAX_BYTES
from worldledger_service.api.ws.transport import PING_INTERVAL, socket_protocol
from worldledger_service.arrow.pool import ArrowPool
from worldledger_service.database.engine import connect_one
from worldledger_service.listening import listen
from worldledger_service.projecting.engine import Engine
from worldledger_service.projecting.process import ProjectorProcess
from worldledger_service.running import allow_files, relax_gc
from worldledger_service.runtime.worlds import Worlds
from worldledger_service.settings import Settings
from worldledger_service.store import Store
from worldledger_service.store.watch import HeadWatcher

#: The routes over all worlds, in the order in which they are tried; trying costs, so those that are asked most often
#: come first. Those of kinds come behind the first three modules.
_MODULES = (
    effects,
    intents,
    reading,
    worlds,
    states,
    frames,
    verification,
    why,
    comparing,
    reporting,
    effect_kinds,
    sql,
    agents_of_worlds,
    observing,
    online,
    generations,
    clock,
    handshake,
    projections,
    published,
    health,
    metrics,
)
#: Bytes from which on an answer is compressed if the client takes that, and how hard: the higher levels take several
#: times as long and save little.
_COMPRESSED_BYTES = 1024
_COMPRESSION = 3
#: Objects between two looks of the garbage collector, and seconds for which a thread has the interpreter at a stretch.
_OBJECTS = 20_000
_SWITCH_SECONDS = 0.0005
#: Seconds beyond the deadline of appends that a stopping server waits for its requests.
_GRACE = 5
#: Seconds for which a stopping program lets the database be before it asks it, those that an answer may take, those
#: between two questions, and those in which requests are told: at most 8 altogether where it answers one question and
#: not the next.
_SILENT_STOP_SECONDS = 5.2
_ANSWER_SECONDS = 1.0
_ASKED_AGAIN_SECONDS = 0.5
_TOLD_SECONDS = 0.3
#: Seconds between two looks whether a database that is starting up answers.
_STARTING_SECONDS = 0.25

log = structlog.get_logger("worldledger.service")


def create_app(
    settings: Settings, database_url: str, *, clock: Callable[[], float] = time.time, metrics: Metrics | None = None
) -> FastAPI:
    """Put the service together. The database is opened by the application's lifespan, not here.

    The lifespan raises StoreUnavailableError or SchemaVersionError if it cannot begin.
    """
    measured = Metrics() if metrics is None else metrics

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with (
            Store.open(database_url, settings, clock=clock) as store,
            HeadWatcher.over(store, interval=settings.poll_interval, url=database_url) as watcher,
            Engine.open(store, database_url, settings) as fed,
            AsyncExitStack() as running,
        ):
            jobs = Jobs(clock)
            running.push_async_callback(jobs.close)
            projector: ProjectorProcess | None = None
            if settings.projections:
                projector = await running.enter_async_context(ProjectorProcess.beside(database_url, settings))
                store.on_commit = _both(watcher.committed, projector.wake)
            door = ArrowPool(database_url, timeout=settings.command_timeout)
            running.push_async_callback(door.close)
            asked = SqlPool(database_url)
            running.push_async_callback(asked.close)
            worlds = Worlds(store, watcher)
            running.push_async_callback(worlds.close)
            measured.watch(store, worlds)
            app.state.services = services = Services(
                settings=settings,
                store=store,
                watcher=watcher,
                worlds=worlds,
                projections=fed,
                projector=projector,
                jobs=jobs,
                metrics=measured,
                arrow=door,
                sql=asked,
                room=Room(),
                clock=clock,
            )
            for name, serves in parts("serves").items():
                services.of_kinds[name] = await running.enter_async_context(serves(services))
            try:
                yield
            finally:
                services.stopping.set()

    app = FastAPI(
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,  # it would load its programs from other servers
        redoc_url=None,
        middleware=[
            Middleware(Edge, metrics=measured, hosts=allowed_hosts(settings), limiter=Limiter.of(settings)),
            # Lines and tables are streamed as they are: what they are read for is speed.
            Middleware(
                Compression,
                minimum_size=_COMPRESSED_BYTES,
                compresslevel=_COMPRESSION,
                exclude_content_types=(*DEFAULT_EXCLUDED_CONTENT_TYPES, NDJSON, ARROW),
            ),
        ],
        exception_handlers={
            SimulationError: on_simulation_error,
            RequestValidationError: on_validation_error,
            HTTPException: on_http_exception,
        },
    )
    # The very routes: `include_router` would make each of them a second time for every application.
    of_kinds = [route for routes in parts("routes").values() for route in routes]
    first, others = (_routes(modules) for modules in (_MODULES[:3], _MODULES[3:]))
    app.router.routes += [*first, *of_kinds, *others, handshake.ROUTE, *console.routes()]
    document(app, version("worldledger"))
    return app


class Compression(GZipMiddleware):
    """Compresses answers that may be long: those that are read. What writes answer is short, and they are many."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        reads = scope["type"] == "http" and (scope["method"] == "GET" or scope["path"] == sql.PATH)
        await (super().__call__ if reads else self.app)(scope, receive, send)


def _routes(modules: Iterable[ModuleType]) -> list[BaseRoute]:
    return [route for module in modules for route in module.router.routes]


def _both(moved: Callable[[str, int], None], wake: Callable[[], None]) -> Callable[[str, int], None]:
    def committed(world_id: str, head_seq: int) -> None:
        moved(world_id, head_seq)
        wake()

    return committed


# -- serving -----------------------------------------------------------------------------------------------


def run(settings: Settings, database_url: str, *, ready: Callable[[str], None] | None = None) -> None:
    """Serve on uvloop until SIGINT or SIGTERM; see `serve`.

    A stop waits for what is being written. While the database does not answer that may never end: then requests are
    told so, and the process ends after 6 to 8 seconds, with exit code 1.
    """

    def stopping(give_up: Callable[[], None]) -> None:
        threading.Thread(target=_end_if_silent, args=(database_url, give_up), daemon=True).start()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(settings, database_url, ready=ready, stopping=stopping))


def _end_if_silent(database_url: str, give_up: Callable[[], None]) -> None:
    """End the process once the database does not answer, for as long as the process has not ended by itself.

    ``give_up`` is called before.
    """
    time.sleep(_SILENT_STOP_SECONDS)
    while asyncio.run(_answers(database_url)):
        time.sleep(_ASKED_AGAIN_SECONDS)
    log.error("the database does not answer; ending without what waits for it: whether that is written is not known")
    give_up()
    time.sleep(_TOLD_SECONDS)
    os._exit(1)


async def _answers(database_url: str) -> bool:
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            connection = await connect_one(database_url)
    except TimeoutError:
        return False
    except SimulationError as error:  # it says no, which is an answer
        return not isinstance(error.__cause__, OSError)
    connection.terminate()
    return True


async def _started(database_url: str) -> None:
    """Wait while the database is starting up, or recovers from a crash. Raises StoreUnavailableError for the rest."""
    told = False
    while True:
        try:
            connection = await connect_one(database_url)
        except StoreUnavailableError as error:
            if error.details.get("sqlstate") != asyncpg.CannotConnectNowError.sqlstate:
                raise
            if not told:
                log.warning("waiting for the database", why=error.message)
            told = True
            await asyncio.sleep(_STARTING_SECONDS)
        else:
            await connection.close()
            return


async def serve(
    settings: Settings,
    database_url: str,
    *,
    ready: Callable[[str], None] | None = None,
    stopping: Callable[[Callable[[], None]], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, or until cancelled; then stop gracefully.

    A database that is starting up is waited for. Until the service is ready, `Opening` answers. ``ready`` is called
    with the URL then; with port 0 it tells the port that was taken. ``stopping`` is called when a stop begins, with a
    function that any thread may call so that requests are waited for no longer.
    Stopping means: no new connections, tails and sockets end, requests that run are answered, what waits is written. A
    second SIGINT does not wait for the requests. Raises ListenError, StoreUnavailableError or SchemaVersionError
    before anything is served.
    """
    measured, opening, turns = Metrics(), Opening(), Turns()
    config = uvicorn.Config(
        opening,
        http=protocol(settings, turns, measured.refused_early, measured.watch_connections),  # type: ignore[arg-type]
        ws=socket_protocol(turns),  # type: ignore[arg-type]
        ws_max_size=MAX_BYTES,
        ws_ping_interval=PING_INTERVAL,
        ws_ping_timeout=None,  # whoever is slow may answer late: `api.ws.transport` tells who is gone
        ws_per_message_deflate=False,
        forwarded_allow_ips=settings.forwarded_allow_ips,
        lifespan="off",  # opened below, so that what goes wrong is raised and not logged
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=math.ceil(settings.append_deadline) + _GRACE,
    )
    logging.getLogger("uvicorn.error").addFilter(is_fault)
    listener = await asyncio.to_thread(listen, settings.host, settings.port)
    with listener:
        url, server = _url(settings.host, listener), _Server(config)

        async with _running(server, listener) as running:
            await _started(database_url)
            opening.step = "it loads its parts"
            # In a thread, because it takes a while, and requests are answered meanwhile.
            app = await asyncio.to_thread(create_app, settings, database_url, metrics=measured)
            async with app.router.lifespan_context(app):

                def stop() -> None:
                    app.state.services.stopping.set()
                    if stopping is not None:
                        stopping(server.give_up)

                # What was made up to here stays: later collections need not walk it, and agents wait for none of them
                # long.
                gc.collect()
                gc.freeze()
                relax_gc(_OBJECTS)
                allow_files()
                # What computes in a thread gives way after this; a request has to come by it several times.
                sys.setswitchinterval(_SWITCH_SECONDS)
                server.on_stop = stop
                opening.app = app
                with _signals(server):
                    await _until_stopped(server, running, lambda: ready(url) if ready is not None else None)


class _Server(uvicorn.Server):
    """uvicorn's server, told when to stop by us, and telling when it has started and when it begins to stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self.on_stop: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()

    def give_up(self) -> None:
        """Have the requests that are under way answered that their outcome is not known; from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self.server_state.tasks])

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `serve`: uvicorn would raise them anew at the end, before anything is cleaned up."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.on_stop()
        await super().shutdown(sockets)


@contextlib.asynccontextmanager
async def _running(server: _Server, listener: socket.socket) -> AsyncIterator[asyncio.Task[None]]:
    """Run the server as long as the block runs; lend its task once it listens."""
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await first_of(asyncio.wait({running}), server.listening.wait())
        if not server.listening.is_set():
            await running
        yield running
    finally:
        server.should_exit = True
        await running


async def _until_stopped(server: _Server, running: asyncio.Task[None], ready: Callable[[], None]) -> None:
    """Serve until the server stops; whatever else ends this, a graceful stop comes first."""
    try:
        ready()
        await asyncio.shield(running)
    except BaseException:
        server.should_exit = True
        await running
        raise


@contextlib.contextmanager
def _signals(server: _Server) -> Iterator[None]:
    """Stop the server on SIGINT and SIGTERM, where this thread may say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        loop.add_signal_handler(number, server.handle_exit, number, None)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _url(host: str, listener: socket.socket) -> str:
    port = listener.getsockname()[1]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host) or (f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{name}:{port}"
