"""``worldledger replay``: let a world's history pass by again, or check that it comes out the same."""

from __future__ import annotations

import math
from enum import Enum
from typing import Annotated

import typer

from worldledger_service.cli.connect import target, typed
from worldledger_service.cli.moments import moment_rule, read_moment
from worldledger_service.cli.options import DatabaseUrl, Home, examples
from worldledger_service.cli.replay_check import check
from worldledger_service.cli.replay_paced import Pace, replay

EXAMPLES = examples(
    "worldledger replay my-world",
    "worldledger replay my-world --from 100 --to sim:60 --speed 10",
    "worldledger replay my-world --clock wall --speed max --json | jq .kind",
    "worldledger replay my-world --check",
    "worldledger replay --check --all",
)

_PACED = {"start": "--from", "end": "--to", "speed": "--speed", "clock": "--clock"}
_CHECKED = {"every": "--all", "jobs": "--jobs"}


class Clock(Enum):
    """Whose time paces a replay."""

    SIM = "sim"
    WALL = "wall"


def command(
    ctx: typer.Context,
    worlds: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORLD", help="A world's name; with --check any number of them.", show_default=False),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="A", help=f"Begin with the first effect at or after this moment: {moment_rule()}."
        ),
    ] = "1",
    end: Annotated[
        str, typer.Option("--to", metavar="B", help="End with the last effect at or before this moment.")
    ] = "head",
    speed: Annotated[
        str,
        typer.Option("--speed", metavar="X", help="How many times as fast as it happened; 0 or max: without pauses."),
    ] = "1",
    clock: Annotated[
        Clock, typer.Option("--clock", help="Which time sets the pace: sim_time, or the wall_time of recording.")
    ] = Clock.SIM,
    checking: Annotated[
        bool, typer.Option("--check", help="Show no effects; compute every recorded state again and compare.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="With --check: every world of the database.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            min=1,
            max=256,
            help="With --check: at most this many processes at the same time.",
            show_default="one for each processor",
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Write the effects exactly as stored, one a line; with --check a list of objects."),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Show no progress and no remarks; with --check only what does not agree."),
    ] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Write a world's effects to stdout at the pace at which they happened. Ctrl-C stops it.

    A replay only reads the log: no agent is asked again, and nothing is written to the world.

    With --check, compute the states of worlds again from their logs, without output, and compare them with the state
    digests in the log and with the snapshots. The exit code is 0 if all agree, 1 if something differs (the world, the
    first seq and the difference are named), 2 if a check could not be run.
    """
    names = list(dict.fromkeys(worlds or []))
    wrong = _PACED if checking else _CHECKED
    for name, option in wrong.items():
        if typed(ctx, name):
            raise typer.BadParameter(f"{option} is of no use {'with' if checking else 'without'} --check")
    where = target(ctx, database_url, home)
    if checking:
        if bool(names) == every:
            raise typer.BadParameter("name the worlds to check, or give --all")
        check(where, names, jobs=jobs, as_json=as_json, quiet=quiet)
        return
    if len(names) != 1:
        raise typer.BadParameter("name one world to replay; several at once are for --check")
    pace = Pace(_speed(speed), wall=clock is Clock.WALL)
    replay(where, names[0], read_moment(start, "--from"), read_moment(end, "--to"), pace, as_json=as_json, quiet=quiet)


def _speed(text: str) -> float:
    """Read a speed; one without pauses is infinite."""
    from worldledger.moments import UnreadableMomentError, parse_number  # noqa: PLC0415

    rule = "give a number from 0 on, or max (0 and max leave the pauses out)"
    try:
        speed = math.inf if text == "max" else parse_number(text)
    except UnreadableMomentError as error:
        raise typer.BadParameter(f"{error}: {rule}", param_hint="'--speed'") from None
    if speed < 0:
        raise typer.BadParameter(f"time goes forward only: {rule}", param_hint="'--speed'")
    return speed or math.inf
