"""The program ``worldledger``: the tree of commands, and what becomes of errors."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from service.cli import (
    checkpoint_export,
    checkpoint_import,
    chess_play,
    chess_show,
    config_check,
    config_convert,
    db_check,
    db_repair_requests,
    db_shell,
    db_upgrade,
    db_url,
    diff,
    export,
    export_parquet,
    export_pgn,
    export_social_rl,
    import_log,
    import_pgn,
    import_social_rl,
    log,
    project,
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
from service.cli.options import examples
from service.cli.output import ReaderGoneError, flush, say
from worldledger.errors import SimulationError

_ABOUT = "An event-sourced, tamper-evident, replayable log for multi-agent simulations, on PostgreSQL."
_DATABASE = "Look after the database."
_EPILOG = """Start here:

  worldledger import pgn FOLDER --experiment first
  worldledger worlds
  worldledger state WORLD
  worldledger verify --all

Every command explains itself with --help."""
_IMPORTS = examples("worldledger import pgn games/ --experiment first", "worldledger import log my-world.ndjson")
_WORLDS = examples("worldledger world create my-world")
_PROJECTIONS = examples("worldledger projections status", "worldledger projections rebuild games")
_CHESS = examples(
    "worldledger chess play --white stockfish --black random",
    "worldledger chess show GAME --at move:10 --svg board.svg",
)
_CONFIGS = examples("worldledger config check simulation.yaml")
_CHECKPOINTS = examples(
    "worldledger checkpoint export market -o market.json",
    "worldledger checkpoint import market.json --config simulation.yaml --name what-if",
)
_REPAIRS = examples("worldledger db repair requests --dry-run")
_DATABASES = examples("worldledger db check", 'worldledger db shell -c "select * from verification"')


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - reads files, and hardly anyone asks

        typer.echo(f"worldledger {version('worldledger')}")
        raise typer.Exit


def _root(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Tell the version.")] = False,
) -> None:
    pass


def _group(text: str, epilog: str) -> typer.Typer:
    return typer.Typer(no_args_is_help=True, help=text, epilog=epilog, rich_markup_mode="rich")


def _add(group: typer.Typer, name: str, module: ModuleType, **settings: bool) -> None:
    """Add a command: its help is its docstring, its lines joined to paragraphs, and its examples."""
    paragraphs = (inspect.getdoc(module.command) or "").split("\n\n")
    group.command(
        name,
        help="\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs),
        epilog=module.EXAMPLES,
        context_settings=settings,
    )(module.command)


class _Commands(TyperGroup):
    """Commands, some of them of two words whose first is a command by itself: ``export WORLD`` and ``export pgn``."""

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
    imports = _group("Bring in recorded games, social-RL runs or exports.", _IMPORTS)
    projections = _group("Look after the projections: tables for queries, made from the logs.", _PROJECTIONS)
    world, db = _group("Make worlds, and set how they are.", _WORLDS), _group(_DATABASE, _DATABASES)
    _add(imports, "pgn", import_pgn)
    _add(imports, "social-rl", import_social_rl)
    _add(imports, "log", import_log)
    app.add_typer(imports, name="import")
    _add(app, "worlds", worlds)
    _add(app, "log", log)
    _add(app, "sql", sql)
    _add(app, "state", state)
    _add(app, "view", view)
    _add(app, "diff", diff)
    _add(app, "replay", replay)
    _add(app, "verify", verify)
    _add(app, "report", report)
    _add(app, "snapshots", snapshots)
    _add(app, "snapshot", snapshot)
    _add(app, "export", export)
    _add(app, "export pgn", export_pgn)
    _add(app, "export parquet", export_parquet)
    _add(app, "export social-rl", export_social_rl)
    _add(world, "create", world_create)
    _add(world, "staleness", world_staleness)
    app.add_typer(world, name="world")
    chess = _group("Play games of chess, and look at them.", _CHESS)
    _add(chess, "play", chess_play)
    _add(chess, "show", chess_show)
    app.add_typer(chess, name="chess")
    config = _group("Look at configurations of simulations.", _CONFIGS)
    _add(config, "check", config_check)
    _add(config, "convert", config_convert)
    app.add_typer(config, name="config")
    checkpoint = _group("Take a simulation's state out, and begin another simulation with it.", _CHECKPOINTS)
    _add(checkpoint, "export", checkpoint_export)
    _add(checkpoint, "import", checkpoint_import)
    app.add_typer(checkpoint, name="checkpoint")
    _add(projections, "status", projections_status)
    _add(projections, "rebuild", projections_rebuild)
    _add(projections, "verify", projections_verify)
    _add(projections, "pause", projections_pause)
    _add(projections, "resume", projections_resume)
    _add(projections, "retry", projections_retry)
    app.add_typer(projections, name="projections")
    _add(app, "project", project)
    _add(app, "serve", serve)
    _add(db, "upgrade", db_upgrade)
    _add(db, "check", db_check)
    repair = _group("Make tables anew from the log.", _REPAIRS)
    _add(repair, "requests", db_repair_requests)
    db.add_typer(repair, name="repair")
    _add(db, "url", db_url)
    _add(db, "shell", db_shell, allow_extra_args=True, ignore_unknown_options=True)
    app.add_typer(db, name="db")
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
    try:
        app_for(sys.argv[1:] if arguments is None else arguments)(args=arguments, prog_name="worldledger")
    except SystemExit as end:
        flush()
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except OSError as error:  # stdout's, under `--help` say; those of files are told where they arise
        flush()
        place = f"{error.filename}: " if error.filename else ""
        why = error.strerror or str(error) or "something did not come to its end in time"
        raise SimulationError(f"cannot go on: {place}{why}") from error
    flush()
    return 0


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
