"""The program ``worldledger``: all commands, and how their errors are reported."""

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

from worldledger.errors import SimulationError, TamperedError
from worldledger.kinds import installed
from worldledger_service.cli import (
    agent,
    compare,
    db,
    exports,
    forks,
    kinds,
    log,
    projections,
    replay,
    report,
    serve,
    snapshots,
    sql,
    state,
    verify,
    view,
    why,
    worlds,
)
from worldledger_service.cli.output import ReaderGoneError, flush, say
from worldledger_service.cli.tree import Commands, Group

_ABOUT = "An event-sourced, tamper-evident, replayable log for multi-agent simulations, on PostgreSQL."
_EPILOG = """Start here:

  worldledger world create first
  worldledger worlds
  worldledger state first
  worldledger verify --all

Every command explains itself with --help."""


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - reads files, and is rarely needed

        typer.echo(f"worldledger {version('worldledger')}")
        raise typer.Exit


def _root(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


class _Commands(Group):
    """The commands. Some have two words, the first a command, too: ``export WORLD`` and ``export parquet``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = " ".join(args[:2])
        command = self.get_command(ctx, name)
        return super().resolve_command(ctx, args) if command is None else (name, command, args[2:])


def make_app() -> typer.Typer:
    """Create the application with all commands."""
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
    commands.group(
        "import",
        "Bring in exported logs, and what was recorded elsewhere.",
        "worldledger import log my-world.ndjson",
        "worldledger import log - < my-world.ndjson",
    )
    commands.add("import log", log.import_log, reads=(".ndjson",))
    commands.add("worlds", worlds.list_worlds)
    commands.add("log", log.show_log)
    commands.add("sql", sql.query)
    commands.add("fork", forks.fork)
    commands.add("rerun", forks.rerun)
    commands.add("state", state.show_state)
    commands.add("view", view.show_view)
    commands.add("diff", state.show_diff)
    commands.add("compare", compare.compare)
    commands.add("search", log.search_effects)
    commands.add("why", why.show_why)
    commands.add("replay", replay.replay)
    commands.add("verify", verify.verify)
    commands.add("report", report.report)
    commands.add("snapshots", snapshots.list_snapshots)
    commands.add("snapshot", snapshots.take_snapshot)
    commands.add("export", exports.export)
    commands.add("export html", exports.export_html)
    commands.add("export parquet", exports.export_parquet)
    commands.group("world", "Make worlds, and change their settings.", "worldledger world create my-world")
    commands.add("world create", worlds.create_world)
    commands.add("world staleness", worlds.set_staleness)
    commands.group(
        "agent",
        "Have language models play agents.",
        "worldledger agent run parlour --model openai:gpt-5-mini --persona parlour.yaml",
    )
    commands.add("agent run", agent.run)
    commands.group(
        "kind",
        "Look after the kinds of worlds, and begin one of your own.",
        "worldledger kind list",
        "worldledger kind new auction",
    )
    commands.add("kind list", kinds.list_kinds)
    commands.add("kind new", kinds.new_kind)
    commands.add("kind drop", kinds.drop_kind)
    commands.group(
        "projections",
        "Look after the projections: tables for queries, made from the logs.",
        "worldledger projections status",
        "worldledger projections rebuild entities",
    )
    commands.add("projections status", projections.show_status)
    commands.add("projections rebuild", projections.rebuild)
    commands.add("projections verify", projections.verify)
    commands.add("projections pause", projections.pause)
    commands.add("projections resume", projections.resume)
    commands.add("projections retry", projections.retry)
    commands.add("projections drop", projections.drop)
    commands.add("project", projections.project)
    commands.add("serve", serve.serve)
    commands.group(
        "db",
        "Look after the database.",
        "worldledger db check",
        'worldledger db shell -c "select * from verification"',
    )
    commands.add("db upgrade", db.upgrade)
    commands.add("db check", db.check_database)
    commands.group("db repair", "Make tables anew from the log.", "worldledger db repair requests --dry-run")
    commands.add("db repair requests", db.repair)
    commands.add("db url", db.show_url)
    commands.add("db shell", db.shell, allow_extra_args=True, ignore_unknown_options=True)
    for kind in installed().values():
        if kind.commands is not None:
            kind.load("commands")(commands)
    return app


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """Create the application with the commands that these arguments need: creating all of them is slow."""
    app = make_app()
    _keep(app, arguments)
    return app


def _keep(app: typer.Typer, names: Sequence[str]) -> None:
    """Keep only the command or group that is named; if none is, keep all, for the help or a hint."""
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
    """Run one command and return its exit code; each of this project's errors is one line on stderr."""
    if sys.stdout is None:  # closed by the parent process (`>&-`): writing then fails as on a full disk
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
        except ReaderGoneError:  # the reader has closed the pipe, as with `| head`
            return 0
        except TamperedError as error:  # of any command, if it does not say more about it
            say(error.message if "worldledger verify" in error.message else f"{error.message}; {_ADVICE}")
            return 1
        except SimulationError as error:
            say(error.message)
            return 2
        except KeyboardInterrupt:
            code = 130
    if code == 130:
        say("stopped")
        return 143 if terminated else 130
    return code


#: What to do about a log that was tampered with.
_ADVICE: Final = "run `worldledger verify`"


def _check_clock() -> None:
    """Raise SimulationError if the clock cannot be read: Python counts nanoseconds in 64 bits."""
    try:
        time.time()
    except OverflowError:
        raise SimulationError("the clock of this machine is beyond the year 2262; set it right and try again") from None


def _call(arguments: Sequence[str] | None) -> int:
    """Run one command, flush its output, and return the exit code."""
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


#: The libraries' messages about values, and ours.
_PLAIN: Final = {
    "Input should be a valid integer.*": "must be a whole number",
    "Input should be a valid number.*": "must be a number",
    "Input should be greater than or equal to": "must be at least",
    "Input should be less than or equal to": "must be at most",
    "Input should be": "must be",
}


def _refuse(error: UsageError) -> int:
    """Report a usage error in one sentence; for a group without a command, show its help. Return the exit code."""
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
    """Let SIGTERM end a command in order, as Ctrl-C does. Yields a list that then holds the signal."""
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
    """Run the console script. An unexpected error is exit code 2: 1 is about the data."""
    try:
        code = run()
    except Exception:  # noqa: BLE001 - the last place where it can be told
        sys.excepthook(*sys.exc_info())
        code = 2
    sys.exit(code)
