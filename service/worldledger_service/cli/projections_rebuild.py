"""``worldledger projections rebuild``: make a projection anew from the logs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

import typer

from worldledger.errors import SimulationError
from worldledger_service.cli.connect import Target, own, target
from worldledger_service.cli.feeding import LOOK, PAUSE, All, Feeding, Names, chosen, running, with_projections
from worldledger_service.cli.naming import exact_world
from worldledger_service.cli.options import DatabaseUrl, Home, OwnProjections, Quiet, examples
from worldledger_service.cli.output import put, say
from worldledger_service.cli.progress import Tell, effects, progress_bar

if TYPE_CHECKING:
    from worldledger_service.projecting.engine import BuildStatus, ProjectionStatus

EXAMPLES = examples(
    "worldledger projections rebuild entities",
    "worldledger projections rebuild entities world_summaries",
    "worldledger projections rebuild entities --world my-world",
    "worldledger projections rebuild entities --cancel",
)

_GO_ON: Final = "the same command goes on from there"


def command(
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
    """
    where = target(ctx, database_url, home, own_projections=own(projection))
    names = chosen(where, names, every=every)
    if cancel and world is not None:
        raise typer.BadParameter("--cancel drops a whole rebuild; that of a single --world leaves nothing to drop")
    if cancel:
        with_projections(where, names, lambda feeding: _cancel(feeding, names))
    elif world is not None:
        with_projections(where, names, lambda feeding: _rebuild_world(feeding, names, world, quiet=quiet))
    else:
        _rebuild(where, names, accept_parked=accept_parked, quiet=quiet)


async def _cancel(feeding: Feeding, names: list[str]) -> None:
    for name in names:
        if await feeding.do(feeding.engine.cancel(name)):
            put(f"cancelled the rebuild of {name}")
        else:
            put(f"no rebuild of {name} is under way")


async def _rebuild_world(feeding: Feeding, names: list[str], world: str, *, quiet: bool) -> None:
    world = (await exact_world(feeding.store, world)).world_id
    await feeding.do(feeding.engine.ensure())
    for name in names:
        with progress_bar(f"rebuilding {name}", quiet=quiet) as tell:
            head = await feeding.do(feeding.engine.rebuild_world(name, world, effects(tell)))
        put(f"rebuilt {name} of {world}, up to seq {head}")


# -- whole projections ---------------------------------------------------------------------------------------


def _rebuild(where: Target, names: list[str], *, accept_parked: bool, quiet: bool) -> None:
    run = _Run(names, accept_parked=accept_parked)
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

    def __init__(self, names: list[str], *, accept_parked: bool) -> None:
        self._names = names
        self._accept_parked = accept_parked
        #: those under way: name -> build
        self.left: dict[str, str] = {}
        #: those whose new build may not take over
        self.refused: list[str] = []
        #: those that are built beside a live one; the first build of all is live from the beginning
        self._beside: set[str] = set()
        self._done: dict[str, tuple[int, int | None]] = {}
        self._elsewhere: dict[str, int] = {}

    async def rebuild(self, feeding: Feeding, tell: Tell) -> None:
        for name in self._names:
            self.left[name] = await feeding.do(feeding.engine.rebuild(name, accept_parked=self._accept_parked))
        async with running(feeding.engine.run()):
            away = False
            while self.left:
                status = await feeding.status(self._names)
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
                    await asyncio.sleep(LOOK)
        await feeding.do(feeding.engine.drop_retired())

    def _look(self, feeding: Feeding, name: str, status: ProjectionStatus | None) -> None:
        """See how one rebuild stands."""
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
        elif filled and build.held_back is not None and not (self._accept_parked and build.parked):
            self.refused.append(name)
            del self.left[name]
            say(f"the rebuild of {name} cannot take over: {build.held_back}")
            if build.parked:
                say("(--accept-parked lets it take over without those worlds' latest effects)")

    def _took_over(self, name: str, build: BuildStatus) -> bool:
        """Tell whether a live build has all that there was to read when it was begun, if not what came since."""
        if name in self._beside:
            return True
        return not build.scanning and build.effects_total is not None and build.effects_done >= build.effects_total

    def _finish(self, name: str, build: BuildStatus) -> None:
        del self.left[name]
        put(f"rebuilt {name}, {build.effects_done} effects")
        if build.parked:
            self.refused.append(name)
            worlds = "a world is" if build.parked == 1 else f"{build.parked} worlds are"
            say(f"{worlds} parked in {name}; see `worldledger projections status {name}`")

    def _note_who(self, feeding: Feeding, name: str, build: BuildStatus) -> None:
        """Say once when another process does the work."""
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
