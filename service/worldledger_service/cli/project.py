"""``worldledger project``: feed the projections, without serving."""

from __future__ import annotations

import asyncio
import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from worldledger_service.cli.connect import Target, own, target
from worldledger_service.cli.feeding import LOOK, PAUSE, Feeding, every_name, running, with_projections
from worldledger_service.cli.options import DatabaseUrl, Home, OwnProjections, Quiet, examples
from worldledger_service.cli.output import put, say
from worldledger_service.cli.progress import Tell, progress_bar

EXAMPLES = examples("worldledger project", "worldledger project --once --timeout 60")

#: Seconds without an effect after which the world that is waited for is named.
_LONG = 5.0


def command(
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
        async with running(feeding.engine.run()) as feeder:
            ended = asyncio.create_task(stopped.wait())
            await asyncio.wait({feeder, ended}, return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            if feeder.done():
                feeder.result()


@contextmanager
def _stopping() -> Iterator[asyncio.Event]:
    """Lend an event that Ctrl-C and SIGTERM set: both are the way in which this is meant to end."""
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
            parked = with_projections(where, every_name(where), lambda feeding: _catch_up(feeding, timeout, tell))
    except KeyboardInterrupt:
        say("not everything has been read; the same command goes on from there")
        raise
    if parked is None:
        raise typer.Exit(1)
    if parked:
        worlds = "a world is" if parked == 1 else f"{parked} worlds are"
        say(f"{worlds} parked; see `worldledger projections status`")
        raise typer.Exit(1)


async def _catch_up(feeding: Feeding, timeout: float | None, tell: Tell) -> int | None:
    """Feed what is due; return how many worlds are parked, None if the time was over before."""
    engine = feeding.engine
    async with running(_watch(feeding, tell)):
        try:
            async with asyncio.timeout(timeout):
                await feeding.do(engine.run_until_caught_up())
        except TimeoutError:
            say(f"not everything was read in {timeout:g} s; {await _waited_for(feeding)}")
            return None
    status = await feeding.do(engine.status())
    await feeding.do(engine.drop_retired())
    put("the projections are up to date")
    return sum(build.parked for each in status for build in (each.live, each.building) if build is not None)


async def _waited_for(feeding: Feeding) -> str:
    """Say which world is waited for."""
    found = await feeding.do(feeding.engine.waited_for())
    if found is None:
        return "worlds are being looked through"
    by = "" if found.holder in {None, feeding.holder} else f"; {found.holder} is at it"
    return f"waiting for {found.world_id}: {found.projection} is at seq {found.global_seq} of {found.head_seq}{by}"


async def _watch(feeding: Feeding, tell: Tell) -> None:
    """Show how much has been read of what is due, and name the world that is waited for where nothing is."""
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
