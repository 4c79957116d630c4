"""``worldledger replay``: let a world's history pass by again, or check that it comes out the same."""

from __future__ import annotations

import math
from enum import Enum
from typing import Annotated

import typer

from worldledger_service.cli.connect import target, typed
from worldledger_service.cli.moments import MOMENT_RULE, read_moment, read_number
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
        typer.Option("--from", metavar="A", help=f"Begin with the first effect that is not before: {MOMENT_RULE}."),
    ] = "1",
    end: Annotated[
        str, typer.Option("--to", metavar="B", help="End with the last effect that is not after this moment.")
    ] = "head",
    speed: Annotated[
        str, typer.Option("--speed", metavar="X", help="How many times as fast as it was; 0 or max: without pauses.")
    ] = "1",
    clock: Annotated[
        Clock, typer.Option("--clock", help="Whose time counts: sim_time, or the wall_time at which it was recorded.")
    ] = Clock.SIM,
    checking: Annotated[
        bool, typer.Option("--check", help="Show nothing, but compute every state digest anew and compare.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="With --check: every world of the database.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            min=1,
            max=256,
            help="With --check: most processes at the same time.",
            show_default="the processors there are",
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
    """Write a world's effects to stdout in the rhythm in which they happened, until Ctrl-C.

    A replay reads the log and nothing else: nothing is computed, asked or written again.

    With --check worlds are replayed at once, without output, and at each seq for which the log or a snapshot says
    what the state was, the replayed state must be that one. The exit code is 0 if all agree, 1 if something was found
    (the world, the first seq and what differs are named), 2 if a check could not be run.
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
    speed = math.inf if text == "max" else read_number(text, "--speed")
    if speed < 0:
        raise typer.BadParameter(
            "time goes forward only: give a number from 0 on (0 and max leave the pauses out)", param_hint="'--speed'"
        )
    return speed or math.inf
