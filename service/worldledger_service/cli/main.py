"""The program ``worldledger``: the tree of commands, and what becomes of errors."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any, Final

import typer
from typer._click.exceptions import UsageError

from worldledger.errors import SimulationError
from worldledger.kinds import installed
from worldledger_service.cli import (
    db_check,
    db_repair_requests,
    db_shell,
    db_upgrade,
    db_url,
    diff,
    export,
    export_parquet,
    import_log,
    kind_drop,
    kind_list,
    kind_new,
    log,
    project,
    projections_drop,
    projections_pause,
    projections_rebuild,
    projections_resume,
    projections_retry,
    projections_status,
    projections_verify,
    replay,
    report,
    serve,
    snapshot,
    snapshots,
    sql,
    state,
    verify,
    view,
    world_create,
    world_staleness,
    worlds,
)
from worldledger_service.cli.options import examples
from worldledger_service.cli.output import ReaderGoneError, flush, say
from worldledger_service.cli.tree import Commands, Group

_ABOUT = "An event-sourced, tamper-evident, replayable log for multi-agent simulations, on PostgreSQL."
_EPILOG = """Start here:

  worldledger world create first
  worldledger worlds
  worldledger state first
  worldledger verify --all

Every command explains itself with --help."""
_IMPORTS = examples("worldledger import log my-world.ndjson", "worldledger import log - < my-world.ndjson")
_WORLDS = examples("worldledger world create my-world")
_KINDS = examples("worldledger kind list", "worldledger kind new auction")
_PROJECTIONS = examples("worldledger projections status", "worldledger projections rebuild entities")
_REPAIRS = examples("worldledger db repair requests --dry-run")
_DATABASES = examples("worldledger db check", 'worldledger db shell -c "select * from verification"')


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - reads files, and hardly anyone asks

        typer.echo(f"worldledger {version('worldledger')}")
        raise typer.Exit


def _root(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


class _Commands(Group):
    """Commands, some of two words whose first is a command by itself: ``export WORLD`` and ``export parquet``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = " ".join(args[:2])
        command = self.get_command(ctx, name)
        return super().resolve_command(ctx, args) if command is None else (name, command, args[2:])


def make_app() -> typer.Typer:
    """Put the commands together."""
    app = typer.Typer(
        cls=_Commands,
        no_args_is_help=True,
        help=_ABOUT,
        epilog=_EPILOG,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    commands = Commands(app)
    commands.group("import", "Bring in exported logs, and what was recorded elsewhere.", _IMPORTS)
    commands.add("import log", import_log)
    commands.add("worlds", worlds)
    commands.add("log", log)
    commands.add("sql", sql)
    commands.add("state", state)
    commands.add("view", view)
    commands.add("diff", diff)
    commands.add("replay", replay)
    commands.add("verify", verify)
    commands.add("report", report)
    commands.add("snapshots", snapshots)
    commands.add("snapshot", snapshot)
    commands.add("export", export)
    commands.add("export parquet", export_parquet)
    commands.group("world", "Make worlds, and change their settings.", _WORLDS)
    commands.add("world create", world_create)
    commands.add("world staleness", world_staleness)
    commands.group("kind", "Look after the kinds of worlds, and begin one of your own.", _KINDS)
    commands.add("kind list", kind_list)
    commands.add("kind new", kind_new)
    commands.add("kind drop", kind_drop)
    commands.group("projections", "Look after the projections: tables for queries, made from the logs.", _PROJECTIONS)
    commands.add("projections status", projections_status)
    commands.add("projections rebuild", projections_rebuild)
    commands.add("projections verify", projections_verify)
    commands.add("projections pause", projections_pause)
    commands.add("projections resume", projections_resume)
    commands.add("projections retry", projections_retry)
    commands.add("projections drop", projections_drop)
    commands.add("project", project)
    commands.add("serve", serve)
    commands.group("db", "Look after the database.", _DATABASES)
    commands.add("db upgrade", db_upgrade)
    commands.add("db check", db_check)
    commands.group("db repair", "Make tables anew from the log.", _REPAIRS)
    commands.add("db repair requests", db_repair_requests)
    commands.add("db url", db_url)
    commands.add("db shell", db_shell, allow_extra_args=True, ignore_unknown_options=True)
    for kind in installed().values():
        if kind.commands is not None:
            kind.load("commands")(commands)
    return app


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """Put together the commands that these arguments need; to build all of them takes longer than most of them do."""
    app = make_app()
    _keep(app, arguments)
    return app


def _keep(app: typer.Typer, names: Sequence[str]) -> None:
    """Leave only the command or group that is named; where none is, all of them, for there is something to be told."""
    for length in (2, 1):
        name = " ".join(names[:length])
        commands = [command for command in app.registered_commands if command.name == name]
        groups = [group for group in app.registered_groups if group.name == name]
        if commands or groups:
            app.registered_commands, app.registered_groups = commands, groups
            for group in groups:
                if group.typer_instance is not None:
                    _keep(group.typer_instance, names[length:])
            return


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; whatever this project refuses is one line on stderr."""
    if sys.stdout is None:  # closed by whoever started us (`>&-`): writing to this fails like to a full disk
        sys.stdout = open(os.devnull)  # noqa: SIM115, PTH123 - kept to the end
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")
    with _terminated() as terminated:
        try:
            _check_clock()
            code = _call(arguments)
        except ReaderGoneError:  # nobody reads on, as with `| head`
            return 0
        except SimulationError as error:
            say(error.message)
            return 2
        except KeyboardInterrupt:
            code = 130
    if code == 130:
        say("stopped")
        return 143 if terminated else 130
    return code


def _check_clock() -> None:
    """Raise SimulationError where the time cannot be told: Python counts nanoseconds in 64 bits."""
    try:
        time.time()
    except OverflowError:
        raise SimulationError("the clock of this machine is beyond the year 2262; set it right and try again") from None


def _call(arguments: Sequence[str] | None) -> int:
    """Run one command and give its exit code, after everything was written."""
    code: Any = None
    try:
        app = app_for(sys.argv[1:] if arguments is None else arguments)
        code = app(args=arguments, prog_name="worldledger", standalone_mode=False)
    except UsageError as error:
        flush()
        return _refuse(error)
    except SystemExit as end:
        flush()
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except OSError as error:  # stdout's, under `--help` say; those of files are told where they arise
        flush()
        place = f"{error.filename}: " if error.filename else ""
        why = error.strerror or str(error) or "something did not come to its end in time"
        raise SimulationError(f"cannot go on: {place}{why}") from error
    flush()
    return code if isinstance(code, int) else 0


#: What is said of values in the libraries' words, and in ours.
_PLAIN: Final = {
    "Input should be a valid integer.*": "must be a whole number",
    "Input should be a valid number.*": "must be a number",
    "Input should be greater than or equal to": "must be at least",
    "Input should be less than or equal to": "must be at most",
    "Input should be": "must be",
}


def _refuse(error: UsageError) -> int:
    """Say in one sentence what is wrong with how a command was called; where nothing was said, show what there is."""
    if type(error).__name__ == "NoArgsIsHelpError" and error.ctx is not None:
        sys.stdout.write(error.ctx.get_help())
        flush()
        return error.exit_code
    what = error.format_message().rstrip(".").removeprefix("Invalid value: ")
    for said, meant in _PLAIN.items():
        what = re.sub(said, meant, what)
    path = "worldledger" if error.ctx is None else error.ctx.command_path
    see = " See" if what.endswith("?") else "; see"
    say(f"{what[:1].lower()}{what[1:]}{see} `{path} --help`")
    return error.exit_code


@contextmanager
def _terminated() -> Iterator[list[int]]:
    """Let SIGTERM end a command as Ctrl-C does: in order. Lends a list that then has the signal."""
    came: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        came.append(number)
        on_interrupt = signal.getsignal(signal.SIGINT)
        if not callable(on_interrupt):  # as a background job of a script, where SIGINT is ignored
            raise KeyboardInterrupt
        on_interrupt(signal.SIGINT, frame)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, before)


def main() -> None:
    """Be the console script. What nobody foresaw is exit code 2: 1 says something about the data."""
    try:
        code = run()
    except Exception:  # noqa: BLE001 - the last place where it can be told
        sys.excepthook(*sys.exc_info())
        code = 2
    sys.exit(code)
