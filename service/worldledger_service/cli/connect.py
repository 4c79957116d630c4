"""From a command's options to an open database: the one way in for every command.

``--database-url`` (or its variable) names a server; without it the embedded server of ``--home`` is used, started if
it is not running, and kept alive for as long as the command needs it. The schema of the embedded database is brought up
to date by itself; that of an existing server only by ``worldledger db upgrade``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterator, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, cast

import typer

from worldledger.errors import InvalidKindError, StoreUnavailableError
from worldledger_service.cli.output import Above, say
from worldledger_service.running import run_blocking

if TYPE_CHECKING:
    from structlog.typing import Processor

    from worldledger_service.settings import Settings
    from worldledger_service.store import Store

T = TypeVar("T")


@dataclass(frozen=True)
class Target:
    """The database to use: the one at a URL or, without one, the embedded one of a home."""

    url: str | None
    settings: Settings

    @property
    def embedded(self) -> bool:
        """True for the embedded server's database."""
        return self.url is None


def target(ctx: typer.Context, database_url: str | None, home: Path | None, **given: Any) -> Target:
    """Return the database that the options name. An option that was typed beats a variable.

    ``given`` are further settings; those that are None are left to variables and defaults. Raises SimulationError for
    a setting that makes no sense.
    """
    home_was_typed = typed(ctx, "home") and not typed(ctx, "database_url")
    url = None if home_was_typed else database_url
    return Target(url, _settings(database_url=url, home=home, **given))


def own(projections: Sequence[str] | None) -> str | None:
    """Return the setting that names these projections; None leaves it to the variable."""
    return ",".join(projections) if projections else None


def typed(ctx: typer.Context, name: str) -> bool:
    """Return True for an option that was given on the command line; ``name`` is its parameter."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _settings(*, database_url: str | None, **given: Any) -> Settings:
    from pydantic import ValidationError  # noqa: PLC0415 - slow to load; `--help` needs none of it

    from worldledger_service.settings import Settings, refusal  # noqa: PLC0415

    known = {name: value for name, value in given.items() if value is not None}
    try:
        return Settings(database_url=database_url, **known)
    except ValidationError as error:
        raise refusal(error) from None


@contextmanager
def database(target: Target, *, upgrade: bool = True, serving: bool = False) -> Iterator[str]:
    """Yield the address of a database that answers; an embedded one is up to date unless ``upgrade`` is False.

    ``serving``: see `log_to_stderr`. Raises EmbeddedServerError, StoreUnavailableError or SchemaVersionError.
    """
    log_to_stderr(serving=serving)
    if target.url is not None:
        yield target.url
        return
    from worldledger_service.database.embedded import attach  # noqa: PLC0415

    with attach(target.settings.home, keep=True) as server:
        url = server.url()
        if upgrade:
            run_blocking(_bring_up_to_date(url, target.settings))
        yield url


async def _bring_up_to_date(url: str, settings: Settings) -> None:
    from worldledger_service.database.analytics import of_kinds  # noqa: PLC0415 - slow to load; `--help` needs none of it
    from worldledger_service.database.engine import connect_one  # noqa: PLC0415
    from worldledger_service.database.revision import revision_state  # noqa: PLC0415

    connection = await connect_one(url)
    try:
        state = await revision_state(connection)
        if state.status == "current" and not await of_kinds.pending(connection):
            return
    finally:
        await connection.close()
    if state.status == "newer":
        return
    from worldledger_service.database import schema  # noqa: PLC0415 - Alembic and SQLAlchemy: slow to load, rarely needed

    say("setting up the database" if state.status == "empty" else "bringing the database up to date")
    try:
        await schema.upgrade(url)
    except InvalidKindError as error:  # everything else works
        say(error.message)
    if state.status != "current":
        await make_views(url, settings)


async def make_views(url: str, settings: Settings, *, mended: bool = False) -> None:
    """Create the missing tables and views of the projections, empty, so that every query can be asked.

    With ``mended``, make anew those views that are not as this program makes them.
    Where the address's user may not work as the service does, the first run of the projections makes them.
    """
    from worldledger_service.projecting.engine import Engine  # noqa: PLC0415 - slow to load, rarely needed

    try:
        async with opened(url, settings) as store, Engine.open(store, url, settings) as projections:
            await projections.ensure(mended=mended)
    except StoreUnavailableError as error:
        if error.details.get("sqlstate") != "42501":
            raise


def with_store(target: Target, task: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
    """Open the store, do the task, close the store, and return the task's result."""
    with database(target) as url:
        return run_blocking(work(url, target.settings, task))


async def work(url: str, settings: Settings, task: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
    """Open the store, do a task with it, and return the task's result."""
    async with opened(url, settings) as store:
        return await task(store)


def opened(url: str, settings: Settings) -> AbstractAsyncContextManager[Store]:
    """Return a context manager that opens a store."""
    from worldledger_service.store import Store  # noqa: PLC0415

    return Store.open(url, settings)


def log_to_stderr(*processors: Processor, serving: bool = False) -> None:
    """Send warnings to stderr, above a progress bar; with tracebacks if this process is ``serving``."""
    from worldledger_service import logs  # noqa: PLC0415 - slow to load; `--help` needs none of it

    logs.log_to_stderr(*processors, *(() if serving else (_without_traceback,)), to=cast("TextIO", Above()))


def _without_traceback(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace a traceback by the error: the user of a command needs only what went wrong."""
    error = event.pop("exc_info", None)
    error = sys.exc_info()[1] if error is True else error
    if isinstance(error, BaseException):
        event.setdefault("error", f"{type(error).__name__}: {error}")
    return event
