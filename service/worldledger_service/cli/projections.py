"""The commands of projections: status, rebuild, verify, pause, resume, retry, drop, and ``worldledger project``."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Container, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from worldledger.aio import first_of, running
from worldledger.errors import SimulationError, StoreUnavailableError
from worldledger_service.cli.connect import Target, database, opened, own, target
from worldledger_service.cli.moments import shown_duration
from worldledger_service.cli.naming import exact_world
from worldledger_service.cli.options import DatabaseUrl, Home, Json, OwnProjections, Quiet
from worldledger_service.cli.output import Tell, counted, effects, json_list, plain, progress_bar, put, put_rows, say
from worldledger_service.running import relax_gc, run_blocking

if TYPE_CHECKING:
    from worldledger_service.projecting.engine import BuildStatus, Engine, ParkedWorld, ProjectionStatus, Report
    from worldledger_service.settings import Settings
    from worldledger_service.store import Store


T = TypeVar("T")

Names = Annotated[
    list[str] | None, typer.Argument(metavar="NAME…", help="Projections' names.", show_default="with --all, every one")
]
All = Annotated[bool, typer.Option("--all", help="All projections.")]

#: Seconds between two looks at a build's progress, and how many times longer than the last look took that is at least:
#: a look costs the database more the more worlds are due, and is not to slow down what it looks at.
LOOK: Final = 0.1
_LOOK_SHARE: Final = 10
#: Seconds between two attempts while the database is away.
PAUSE: Final = 0.5


@dataclass(frozen=True)
class Feeding:
    """Some projections on an open store."""

    store: Store
    engine: Engine
    url: str
    holder: str

    async def status(self, names: Container[str] | None = None) -> dict[str, ProjectionStatus] | None:
        """Return the status of projections (by default all), by name; None while the database is away."""
        try:
            found = await self.engine.status()
        except StoreUnavailableError:
            return None
        return {status.name: status for status in found if names is None or status.name in names}

    def is_mine(self, build: BuildStatus) -> bool:
        """Return True if this process or none holds a build's lease."""
        return build.holder in {None, self.holder}


def _known(where: Target, names: Sequence[str]) -> list[str]:
    """Return the names, each once.

    Raises ProjectionNotFoundError, which lists those that there are, or says that only the database has it.
    """
    from worldledger_projections.base import ProjectionNotFoundError, find  # noqa: PLC0415

    from worldledger_service.projecting.engine import projections_of  # noqa: PLC0415
    from worldledger_service.projecting.status import NAMED  # noqa: PLC0415

    projections = projections_of(where.settings)
    try:
        return [find(projections, name).name for name in dict.fromkeys(names)]
    except ProjectionNotFoundError as error:
        name = error.details["projection"]
        with suppress(StoreUnavailableError):
            if name in with_projections(where, (), _in_database):
                what = f"the projection {name!r} is in the database, but not in this program; {NAMED}"
                raise ProjectionNotFoundError(what, **error.details) from None
        raise


async def _in_database(feeding: Feeding) -> set[str]:
    return {status.name for status in await feeding.engine.status()}


def chosen(where: Target, names: Sequence[str] | None, *, every: bool) -> list[str]:
    """Return the names that a command is for. Raises BadParameter, or ProjectionNotFoundError as `_known` does."""
    if bool(names) == every:
        raise typer.BadParameter("name projections, or give --all for every one")
    return every_name(where) if every else _known(where, names or ())


def every_name(where: Target) -> list[str]:
    """Return the names of all projections."""
    from worldledger_service.projecting.engine import projections_of  # noqa: PLC0415

    return sorted(projections_of(where.settings))


def with_projections(
    where: Target,
    names: Sequence[str],
    work: Callable[[Feeding], Coroutine[Any, Any, T]],
    *,
    serving: bool = False,
) -> T:
    """Open the store and an engine that feeds these projections and no others, and do the work."""
    import uvloop  # noqa: PLC0415

    with database(where, serving=serving) as url:
        return run_blocking(_work(url, where.settings, names, work), loop_factory=uvloop.new_event_loop)


async def _work(
    url: str, settings: Settings, names: Sequence[str], work: Callable[[Feeding], Coroutine[Any, Any, T]]
) -> T:
    async with opened(url, settings) as store, _feeding(url, settings, store, names) as feeding:
        return await work(feeding)


@asynccontextmanager
async def _feeding(url: str, settings: Settings, store: Store, names: Sequence[str]) -> AsyncIterator[Feeding]:
    from worldledger_service.projecting.engine import Engine, projections_of  # noqa: PLC0415

    relax_gc()
    holder = f"{socket.gethostname()}/{os.getpid()}"
    projections = projections_of(settings)
    only = [projections[name] for name in names]
    async with Engine.open(store, url, settings, only=only, holder=holder) as found:
        yield Feeding(store, found, url, holder)


# -- projections status --------------------------------------------------------------------------------------

_HEADER: Final = ("PROJECTION", "VERSION", "STATE", "BEHIND", "PARKED", "LAST CHECK")
#: Parked worlds of one projection that are shown.
_PARKED: Final = 100


def show_status(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Only these projections.", show_default=False)
    ] = None,
    as_json: Json = False,
    projection: OwnProjections = None,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Show how each projection stands: which version people read, how far it is behind, and what is being built.

    BEHIND are the effects that are in the logs and not yet in the projection. PARKED are worlds that it has set
    aside because of an effect that it could not digest; they are listed below, each with the error. Below are also the
    kinds that are not installed and whose worlds are skipped therefore.

    Examples:
        worldledger projections status
        worldledger projections status entities world_summaries
        worldledger projections status --json | jq '.[] | select(.live.parked > 0)'
    """
    where = target(ctx, database_url, home, own_projections=own(projection))
    with_projections(where, every_name(where), lambda feeding: _show(feeding, names or [], as_json=as_json))


async def _show(feeding: Feeding, wanted: list[str], *, as_json: bool) -> None:
    every = await feeding.engine.status()
    there = {status.name for status in every}
    for name in wanted:
        if name not in there:
            feeding.engine.check(name)
    found = [status for status in every if not wanted or status.name in wanted]
    parked = {status.name: await feeding.engine.parked(status.name, _PARKED) for status in found}
    if as_json:
        with json_list() as item:
            for status in found:
                item(_object(status, parked.get(status.name, [])))
        return
    put_rows(_HEADER, [_row(status) for status in found])
    for status in found:
        for line in (*_remarks(status), *map(_parked, parked.get(status.name, []))):
            put(f"{status.name}: {line}")
    for line in await _skipped(feeding):
        put(line)


async def _skipped(feeding: Feeding) -> list[str]:
    """Return a sentence for each kind that is not installed and whose worlds are skipped therefore."""
    sentences = []
    for kind in await feeding.engine.missing_kinds():
        worlds = "a world is skipped until its" if kind.worlds == 1 else f"{kind.worlds} worlds are skipped until their"
        what = kind.error.removeprefix("UnknownRulesetError: ")
        sentences.append(plain(f"{worlds} kind is installed: {what}"))
    return sentences


def _row(status: ProjectionStatus) -> tuple[str, ...]:
    live, building = status.live, status.building
    version = str(live.version) if live is not None else "-"
    if building is not None and (live is None or building.version != live.version):
        version += f", then {building.version}"
    return (
        status.name,
        version,
        _state(live, building),
        "-" if live is None else _behind(live),
        "-" if live is None else str(live.parked),
        "-" if live is None else _checked(live),
    )


def _state(live: BuildStatus | None, building: BuildStatus | None) -> str:
    if live is None:
        return "never built"
    state = "paused" if live.paused else f"filling {percent(live)}" if live.scanning else "live"
    if building is None:
        return state
    return f"{state}, rebuilding {percent(building)}" + (" (paused)" if building.paused else "")


def percent(build: BuildStatus) -> str:
    """Return a build's progress; there may be more to read than there was when it began."""
    if not build.effects_total:
        return f"{build.effects_done} effects"
    return f"{min(100 * build.effects_done // build.effects_total, 100)} %"


def _behind(build: BuildStatus) -> str:
    if not build.effects_behind:
        return "0"
    since = "" if build.seconds_behind is None else f", since {shown_duration(build.seconds_behind)}"
    worlds = counted(build.worlds_behind, "world")
    return f"{build.effects_behind} in {worlds}{since}"


def _checked(build: BuildStatus) -> str:
    report = build.check_report
    if report is None:
        return "-"
    at = ""
    with suppress(
        KeyError, TypeError, ValueError, OverflowError
    ):  # whoever may write to the database may put anything there
        at = datetime.fromisoformat(report["checked_at"]).astimezone().strftime("%Y-%m-%d %H:%M")
    return f"{'verified' if report.get('verified') else 'DIFFERS'} {at}".rstrip()


def _remarks(status: ProjectionStatus) -> list[str]:
    held_back = status.building.held_back if status.building is not None else None
    paused = None
    if status.live is not None and status.live.paused:
        paused = f"it is paused: `worldledger projections resume {status.name}` lets it go on"
    return [plain(remark) for remark in (paused, status.note, held_back) if remark is not None]


def _parked(world: ParkedWorld) -> str:
    times = "once" if world.attempts == 1 else f"{world.attempts} times"
    kind = f" ({world.kind})" if world.kind else ""
    return f"world {world.world_id} is parked at seq {world.global_seq}{kind}, tried {times}: {world.error}"


def _object(status: ProjectionStatus, parked: list[ParkedWorld]) -> dict[str, Any]:
    return {**_plain(asdict(status)), "parked_worlds": [_plain(asdict(world)) for world in parked]}


def _plain(value: Any) -> Any:
    """Return a value that JSON can represent."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value.isoformat() if isinstance(value, datetime) else value


# -- projections rebuild -------------------------------------------------------------------------------------

_GO_ON: Final = "the same command goes on from there"


def rebuild(
    ctx: typer.Context,
    names: Names = None,
    every: All = False,
    world: Annotated[
        str | None, typer.Option("--world", metavar="W", help="Make the rows of this world anew, and no others.")
    ] = None,
    accept_parked: Annotated[
        bool,
        typer.Option("--accept-parked", help="Let the new build take over even if worlds are parked in it."),
    ] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Drop the rebuild that is under way instead.")] = False,
    quiet: Quiet = False,
    projection: OwnProjections = None,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Rebuild projections from the logs, beside what is live: people read on, and the new one takes over at the end.

    This process does the work, several projections in one pass over the logs; where another one is at it already,
    its progress is shown. A rebuild that was stopped or killed goes on where it was when the same command is given
    again, or by itself in whatever feeds the projections. The exit code is 1 if a new build may not take over,
    because worlds are parked in it that are not parked in the live one, or if it did with --accept-parked.

    Examples:
        worldledger projections rebuild entities
        worldledger projections rebuild entities world_summaries
        worldledger projections rebuild entities --world my-world
        worldledger projections rebuild entities --cancel
    """
    where = target(ctx, database_url, home, own_projections=own(projection))
    names = chosen(where, names, every=every)
    if cancel and world is not None:
        raise typer.BadParameter("--cancel drops a whole rebuild; that of a single --world leaves nothing to drop")
    if cancel:
        with_projections(where, names, lambda feeding: _cancel(feeding, names, quiet=quiet))
    elif world is not None:
        with_projections(where, names, lambda feeding: _rebuild_world(feeding, names, world, quiet=quiet))
    else:
        _rebuild(where, names, accept_parked=accept_parked, quiet=quiet)


async def _cancel(feeding: Feeding, names: list[str], *, quiet: bool) -> None:
    for name in names:
        what = "cancelled the rebuild of {}" if await feeding.engine.cancel(name) else "no rebuild of {} is under way"
        if not quiet:
            put(what.format(name))


async def _rebuild_world(feeding: Feeding, names: list[str], world: str, *, quiet: bool) -> None:
    world = (await exact_world(feeding.store, world)).world_id
    await feeding.engine.ensure()
    for name in names:
        with progress_bar(f"rebuilding {name}", quiet=quiet) as tell:
            head = await feeding.engine.rebuild_world(name, world, effects(tell))
        if not quiet:
            put(f"rebuilt {name} of {world}, up to seq {head}")


# -- whole projections ---------------------------------------------------------------------------------------


def _rebuild(where: Target, names: list[str], *, accept_parked: bool, quiet: bool) -> None:
    run = _Run(names, accept_parked=accept_parked, quiet=quiet)
    try:
        with progress_bar("rebuilding", quiet=quiet) as tell:
            with_projections(where, names, lambda feeding: run.rebuild(feeding, tell))
    except KeyboardInterrupt:
        if run.left:
            say(f"the rebuild of {', '.join(run.left)} is not finished; {_GO_ON}")
        raise
    if run.refused:
        raise typer.Exit(1)


class _Run:
    """Rebuilds some projections."""

    def __init__(self, names: list[str], *, accept_parked: bool, quiet: bool) -> None:
        self._names = names
        self._accept_parked = accept_parked
        self._quiet = quiet
        #: those under way: name -> build
        self.left: dict[str, str] = {}
        #: names of those whose new build may not take over
        self.refused: list[str] = []
        #: those that are built beside a live one; the first build of all is live from the beginning
        self._beside: set[str] = set()
        self._done: dict[str, tuple[int, int | None]] = {}
        self._elsewhere: dict[str, int] = {}

    async def rebuild(self, feeding: Feeding, tell: Tell) -> None:
        for name in self._names:
            self.left[name] = await feeding.engine.rebuild(name, accept_parked=self._accept_parked)
        async with running(feeding.engine.run()):
            away = False
            while self.left:
                began = time.monotonic()
                status = await feeding.status(self._names)
                took = time.monotonic() - began
                if status is None:
                    if not away:
                        say("the database is away; waiting for it")
                    away = True
                    await asyncio.sleep(PAUSE)
                    continue
                away = False
                for name in list(self.left):
                    self._look(feeding, name, status.get(name))
                self._tell(tell)
                if self.left:
                    await asyncio.sleep(max(LOOK, _LOOK_SHARE * took))
        await feeding.engine.drop_retired()

    def _look(self, feeding: Feeding, name: str, status: ProjectionStatus | None) -> None:
        """Look at the progress of one rebuild; finish it if it has taken over, or cannot."""
        wanted = self.left[name]
        builds = [] if status is None else [status.live, status.building]
        build = next((build for build in builds if build is not None and build.build == wanted), None)
        if build is None:
            raise SimulationError(f"the rebuild of {name} was cancelled by somebody else")
        if status is not None and build is status.building:
            self._beside.add(name)
        self._note_who(feeding, name, build)
        self._done[name] = build.effects_done, build.effects_total
        filled = not build.scanning and not build.effects_behind
        if status is not None and build is status.live and (filled or self._took_over(name, build)):
            self._finish(name, build)
        elif filled and build.held_back is not None and not (self._accept_parked and build.set_aside):
            self.refused.append(name)
            del self.left[name]
            say(f"the rebuild of {name} cannot take over: {build.held_back}")
            if build.set_aside:
                say("(--accept-parked lets it take over without those worlds' latest effects)")

    def _took_over(self, name: str, build: BuildStatus) -> bool:
        """Return True if a live build has read everything that was there when it was begun."""
        if name in self._beside:
            return True
        return not build.scanning and build.effects_total is not None and build.effects_done >= build.effects_total

    def _finish(self, name: str, build: BuildStatus) -> None:
        del self.left[name]
        if not self._quiet:
            put(f"rebuilt {name}, {build.effects_done} effects")
        if build.parked:
            self.refused.append(name)
            worlds = "a world is" if build.parked == 1 else f"{build.parked} worlds are"
            say(f"{worlds} parked in {name}; see `worldledger projections status {name}`")

    def _note_who(self, feeding: Feeding, name: str, build: BuildStatus) -> None:
        """Report once that another process does the work."""
        before = self._elsewhere.get(name)
        if feeding.is_mine(build) or before == -1:
            return
        if before is not None and build.effects_done > before:
            say(f"{build.holder} rebuilds {name}; this is its progress")
            self._elsewhere[name] = -1
        else:
            self._elsewhere[name] = build.effects_done

    def _tell(self, tell: Tell) -> None:
        done = sum(min(done, total or done) for done, total in self._done.values())
        totals = [total for _, total in self._done.values()]
        tell(done, None if None in totals else sum(total or 0 for total in totals), f"{done} effects")


# -- projections verify --------------------------------------------------------------------------------------


def verify(
    ctx: typer.Context,
    names: Names = None,
    every: All = False,
    as_json: Json = False,
    quiet: Quiet = False,
    projection: OwnProjections = None,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Check what is live of projections, row by row, against a replay of the logs, and the views against the program.

    The exit code is 0 if every row is what the log gives, 1 if one is not (the world, the key, the column and both
    values are named), 2 if a check could not be run. `worldledger projections rebuild` puts things right.

    Examples:
        worldledger projections verify entities
        worldledger projections verify entities world_summaries --json
    """
    from worldledger.errors import SimulationError, StoreUnavailableError  # noqa: PLC0415

    where = target(ctx, database_url, home, own_projections=own(projection))
    names = chosen(where, names, every=every)
    reports: list[Report] = []
    unchecked: list[str] = []

    async def work(feeding: Feeding, tell_report: Callable[[Report], None]) -> None:
        for name in names:
            try:
                with progress_bar(f"verifying {name}", quiet=quiet) as tell:
                    report = await feeding.engine.verify(name, effects(tell))
            except StoreUnavailableError:
                raise
            except SimulationError as error:
                unchecked.append(name)
                say(error.message)
                continue
            reports.append(report)
            tell_report(report)

    if as_json:
        with json_list() as item:
            with_projections(where, names, lambda feeding: work(feeding, item))
    else:

        def show(report: Report) -> None:
            if not (quiet and report["verified"]):
                put(_sentence(report))

        with_projections(where, names, lambda feeding: work(feeding, show))
    if any(not report["verified"] for report in reports):
        raise typer.Exit(1)
    if unchecked:
        raise typer.Exit(2)


def _sentence(report: Report) -> str:
    name, finding = report["projection"], report["finding"]
    if finding is None:
        return f"verified {name} {report['rows']} rows of {report['worlds']} worlds"
    parts = []
    if finding["world_id"] is not None:
        parts.append(f"world {finding['world_id']}")
    key = {column: value for column, value in (finding["key"] or {}).items() if column != "world_id"}
    parts += [f"{column} {value}" for column, value in key.items()]
    where = f"{', '.join(parts)}: " if parts else ""
    return f"DIFFERS {name}: {where}{finding['what']}{_values(finding)}"


def _values(finding: dict[str, Any]) -> str:
    if finding["column"] is None:
        return ""
    live, expected = ("null" if finding[side] is None else finding[side] for side in ("live", "expected"))
    return f": live is {live}, the log gives {expected}"


# -- projections pause ---------------------------------------------------------------------------------------


def pause(
    ctx: typer.Context,
    names: Names = None,
    every: All = False,
    projection: OwnProjections = None,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Pause projections: once this has returned, no process writes them until they are resumed.

    What is there can be read meanwhile; it falls behind the logs.

    Example:
        worldledger projections pause entities
    """
    where = target(ctx, database_url, home, own_projections=own(projection))
    names = chosen(where, names, every=every)

    async def work(feeding: Feeding) -> None:
        await feeding.engine.ensure()  # one that was never built can be paused, too
        for name in names:
            await feeding.engine.pause(name)
            put(f"paused {name}")

    with_projections(where, names, work)


# -- projections resume --------------------------------------------------------------------------------------


def resume(
    ctx: typer.Context,
    names: Names = None,
    every: All = False,
    projection: OwnProjections = None,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Let paused projections go on where they were, in whatever process feeds them. One that runs is left alone.

    Example:
        worldledger projections resume entities
    """
    where = target(ctx, database_url, home, own_projections=own(projection))
    names = chosen(where, names, every=every)

    async def work(feeding: Feeding) -> None:
        for name in names:
            await feeding.engine.resume(name)
            put(f"resumed {name}")

    with_projections(where, names, work)


# -- projections retry ---------------------------------------------------------------------------------------


def retry(
    ctx: typer.Context,
    names: Names = None,
    every: All = False,
    world: Annotated[str | None, typer.Option("--world", metavar="W", help="Only this world.")] = None,
    projection: OwnProjections = None,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Release the worlds that projections have parked, so that whatever feeds them tries the effect again.

    That is `worldledger serve` or `worldledger project`. A world in which it fails again is parked again.

    Examples:
        worldledger projections retry entities
        worldledger projections retry entities --world my-world
    """
    where = target(ctx, database_url, home, own_projections=own(projection))
    names = chosen(where, names, every=every)

    async def work(feeding: Feeding) -> None:
        only = None if world is None else (await exact_world(feeding.store, world)).world_id
        for name in names:
            released = await feeding.engine.retry(name, only)
            put(f"released {counted(released, 'world')} of {name}")

    with_projections(where, names, work)


# -- projections drop ----------------------------------------------------------------------------------------


def drop(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The projection's name.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Drop it even if this program has it.")] = False,
    projection: OwnProjections = None,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Drop a projection that this program does not have: its builds, their tables, and its views. The logs stay.

    Stop first whatever feeds it: a process that has the projection makes it again. It can always be made again from
    the logs, so nothing is asked.

    Example:
        worldledger projections drop words
    """
    where = target(ctx, database_url, home, own_projections=own(projection))

    async def work(feeding: Feeding) -> None:
        builds = await feeding.engine.drop(name, force=force)
        put(f"dropped {name}, {counted(builds, 'build')}")

    with_projections(where, every_name(where), work)


# -- project -------------------------------------------------------------------------------------------------

#: Seconds without an effect after which the world that is waited for is named.
_LONG = 5.0


def project(
    ctx: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="End when everything that is due has been read.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="S",
            min=0.0,
            help="With --once: wait at most this many seconds.",
            show_default="no limit",
        ),
    ] = None,
    projection: OwnProjections = None,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Feed the projections from the logs until Ctrl-C or SIGTERM, as `worldledger serve` does beside its work.

    Any number of processes may do so, on any machines: one feeds, the others stand by. With --once the exit code is
    1 if worlds are parked, or if --timeout passed before everything was read. The world that it waits for is named
    then, and whenever nothing was read for some seconds.

    Examples:
        worldledger project
        worldledger project --once --timeout 60
    """
    if timeout is not None and not once:
        raise typer.BadParameter("--timeout is for --once")
    where = target(ctx, database_url, home, own_projections=own(projection))
    if once:
        _once(where, timeout, quiet=quiet)
    else:
        with_projections(where, every_name(where), lambda feeding: _feed(feeding, quiet=quiet), serving=True)


async def _feed(feeding: Feeding, *, quiet: bool) -> None:
    if not quiet:
        say("feeding the projections (Ctrl-C stops it)")
    with _stopping() as stopped:
        fed, _ = await first_of(feeding.engine.run(), stopped.wait())
        if fed is not None:
            fed.result()


@contextmanager
def _stopping() -> Iterator[asyncio.Event]:
    """Yield an event that Ctrl-C and SIGTERM set: both are the regular end of this command."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    heard = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.getsignal(number) for number in heard}
    for number in heard:
        loop.add_signal_handler(number, stopped.set)
    try:
        yield stopped
    finally:
        for number in heard:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])


# -- once ----------------------------------------------------------------------------------------------------


def _once(where: Target, timeout: float | None, *, quiet: bool) -> None:
    try:
        with progress_bar("projecting", quiet=quiet) as tell:
            parked = with_projections(
                where, every_name(where), lambda feeding: _catch_up(feeding, timeout, tell, quiet=quiet)
            )
    except KeyboardInterrupt:
        say("not everything has been read; the same command goes on from there")
        raise
    if parked is None:
        raise typer.Exit(1)
    if parked:
        worlds = "a world is" if parked == 1 else f"{parked} worlds are"
        say(f"{worlds} parked; see `worldledger projections status`")
        raise typer.Exit(1)


async def _catch_up(feeding: Feeding, timeout: float | None, tell: Tell, *, quiet: bool) -> int | None:
    """Feed what is due; return how many worlds are parked, None on timeout."""
    from worldledger_service.database.failures import explained  # noqa: PLC0415

    engine = feeding.engine
    async with running(_watch(feeding, tell)):
        try:
            async with asyncio.timeout(timeout):
                with explained(feeding.url):
                    await engine.run_until_caught_up()
        except TimeoutError:
            say(f"not everything was read in {timeout:g} s; {await _waited_for(feeding)}")
            return None
    status = await engine.status()
    await engine.drop_retired()
    for line in await _skipped(feeding):
        say(line)
    if not quiet:
        put("the projections are up to date")
    return sum(build.parked for each in status for build in (each.live, each.building) if build is not None)


async def _waited_for(feeding: Feeding) -> str:
    """Return the message that names the world that is waited for."""
    found = await feeding.engine.waited_for()
    if found is None:
        return "worlds are being looked through"
    by = "" if found.holder in {None, feeding.holder} else f"; {found.holder} is at it"
    return f"waiting for {found.world_id}: {found.projection} is at seq {found.global_seq} of {found.head_seq}{by}"


async def _watch(feeding: Feeding, tell: Tell) -> None:
    """Show how much of what is due has been read; if nothing is read for a while, name the world that is waited for."""
    before, since = -1, time.monotonic()
    while True:
        status = await feeding.status()
        if status is None:
            await asyncio.sleep(PAUSE)
            continue
        builds = [build for each in status.values() for build in (each.live, each.building) if build is not None]
        done = feeding.engine.counters.effects
        if done != before:
            before, since = done, time.monotonic()
        elif time.monotonic() - since > _LONG:
            say(await _waited_for(feeding))
            since = math.inf  # once for each stop
        tell(done, done + sum(build.effects_behind for build in builds), f"{done} effects")
        await asyncio.sleep(LOOK)
