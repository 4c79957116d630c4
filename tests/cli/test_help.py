"""What the program says about itself."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version

import pytest
import typer
import typer.main
from worldledger_service.cli import main
from worldledger_service.cli.tree import Commands

from tests.warm import SCRIPT
from worldledger.kinds import installed

from .conftest import Cli
from .helpers import environment

_DATA = "numpy pandas polars pyarrow chess"
_RULESETS = " ".join(f"worldledger.rulesets.{name}" for name in ("chess", "simulation", "social_rl"))
COMMANDS = [
    ("import", "log"),
    ("worlds",),
    ("log",),
    ("state",),
    ("view",),
    ("diff",),
    ("replay",),
    ("snapshots",),
    ("snapshot",),
    ("verify",),
    ("report",),
    ("export",),
    ("world", "create"),
    ("world", "staleness"),
    ("config", "check"),
    ("checkpoint", "export"),
    ("checkpoint", "import"),
    ("agent", "run"),
    ("kind", "list"),
    ("kind", "new"),
    ("projections", "status"),
    ("projections", "rebuild"),
    ("projections", "verify"),
    ("projections", "pause"),
    ("projections", "resume"),
    ("projections", "retry"),
    ("projections", "drop"),
    ("project",),
    ("serve",),
    ("db", "upgrade"),
    ("db", "check"),
    ("db", "repair", "requests"),
    ("db", "shell"),
    ("db", "url"),
]
if "chess" in installed():
    COMMANDS += [("import", "pgn"), ("export", "pgn"), ("chess", "play"), ("chess", "show")]
GROUPS = sorted({command[:-1] for command in COMMANDS if len(command) == 2 and command[:-1] not in COMMANDS})


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(cli: Cli, command: tuple[str, ...]) -> None:
    """`--help` shows an example of the command, and the options that lead to the database."""
    result = cli(*command, "--help")
    assert (result.code, result.err) == (0, "")
    shown = result.out.partition("Example")[2]
    assert f"worldledger {' '.join(command)}" in shown
    if command in {("config", "check"), ("kind", "new"), ("agent", "run")}:
        return  # they need no database
    for option in ("--database-url", "WORLDLEDGER_DATABASE_URL", "--home", "WORLDLEDGER_HOME"):
        assert option in result.out


@pytest.mark.parametrize("command", [(), ("worlds",), ("db",), ("db", "check")], ids=" ".join)
def test_h_is_help(cli: Cli, command: tuple[str, ...]) -> None:
    """`-h` is `--help`, for the program, a group and a command of either."""
    assert cli(*command, "-h") == cli(*command, "--help")


@pytest.mark.parametrize("group", [(), *GROUPS], ids=" ".join)
def test_groups_name_their_commands(cli: Cli, group: tuple[str, ...]) -> None:
    """Without a command, what there is is listed, with an example."""
    result = cli(*group)
    assert f"worldledger {' '.join(group)}" in re.split("Example|Start here", result.out)[1]
    for command in COMMANDS:
        if command[: len(group)] == group:
            assert command[len(group)] in result.out


_narrow: dict[tuple[str, ...], str] = {}


@pytest.fixture
def narrow(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, ...], str]:
    """Return the help of each command on a terminal of 80 columns; it is written once."""
    monkeypatch.setenv("COLUMNS", "80")
    for command in ((), *COMMANDS):
        if command not in _narrow:
            _narrow[command] = cli(*command, "--help").out
    return _narrow


def test_no_option_is_cut_off(narrow: dict[tuple[str, ...], str]) -> None:
    """On a terminal of 80 columns, the names of all options can be read."""
    assert [command for command, shown in narrow.items() if re.search(r"--[a-z-]*…", shown)] == []


def test_a_flag_takes_no_value(narrow: dict[tuple[str, ...], str]) -> None:
    """No help shows a type behind a flag."""
    assert [command for command, shown in narrow.items() if "<bool>" in shown] == []


def test_version() -> None:
    """`--version` is that of the installed distribution, told by the program as anybody begins it."""
    done = subprocess.run([SCRIPT, "--version"], capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"worldledger {version('worldledger')}\n", "")


def test_wrong_usage(cli: Cli) -> None:
    """An unknown command or option, and a bad value, is exit code 2 and one sentence that leads to the help."""
    for call, what in (
        ("fly", "no such command 'fly'; see `worldledger --help`"),
        ("staet", "no such command 'staet'. Did you mean 'state', 'agent'? See `worldledger --help`"),
        ("state market --at", "option '--at' requires an argument; see `worldledger state --help`"),
        ("import w.ndjson", "no such command 'w.ndjson'. Did you mean `worldledger import log w.ndjson`? See `{}`"),
        ("import a/b.pgn", "no such command 'a/b.pgn'. Did you mean `worldledger import pgn a/b.pgn`? See `{}`"),
        ("worlds --fly", "no such option: --fly; see `worldledger worlds --help`"),
        ("log", "missing argument 'WORLD'; see `worldledger log --help`"),
        ("export w", "missing option '--output' / '-o'; see `worldledger export --help`"),
        ("verify", "name the worlds to verify, or give --all, or --file FILE; see `worldledger verify --help`"),
        ("replay w --jobs 257", "invalid value for '--jobs': must be at most 256; see `worldledger replay --help`"),
        ("sql --limit x", "invalid value for '--limit': must be a whole number; see `worldledger sql --help`"),
        ("sql --timeout x", "invalid value for '--timeout': must be a number; see `worldledger sql --help`"),
        ("project --timeout -1", "invalid value for '--timeout': must be at least 0; see `worldledger project --help`"),
    ):
        said = what.format("worldledger import --help")
        assert cli(*call.split()) == (2, "", f"worldledger: {said}\n"), call


#: Modules, and what they do not load; those of a line in one process, where each is loaded beside those before it.
_LIGHT = [
    {"worldledger_service.cli.main": "asyncpg pydantic sqlalchemy alembic fastapi uvicorn chess orjson rich"},
    {
        "worldledger_service.database.embedded.supervisor": "asyncio asyncpg pydantic structlog rich sqlalchemy",
        "worldledger.client": f"asyncpg pydantic_settings structlog rich {_DATA} {_RULESETS}",
        "worldledger_service.snapshot_worker": (
            f"asyncpg pydantic_settings sqlalchemy fastapi uvicorn {_DATA} {_RULESETS}"
        ),
        "worldledger_service.store.store": f"sqlalchemy alembic fastapi uvicorn typer {_DATA} {_RULESETS}",
    },
]


@pytest.mark.parametrize("modules", _LIGHT, ids=["program", "others"])
def test_a_start_loads_nothing_heavy(modules: dict[str, str]) -> None:
    """The program, the store, its side processes and the client start without what only some of their uses need."""
    program = "import sys\n" + "".join(
        f"import {module}\nprint('{module}', *sorted(set({heavy.split()}) & set(sys.modules)))\n"
        for module, heavy in modules.items()
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [*modules]


def test_only_the_named_command_is_put_together() -> None:
    """Each command is found when it is put together alone; a word that names none finds all commands and groups."""

    def names(*arguments: str) -> list[str]:
        return list(typer.main.get_command(main.app_for(arguments)).commands)  # type: ignore[attr-defined]

    every = names()
    for group, *within in COMMANDS:
        two = f"{group} {within[0]}" if within else group
        assert names(group, *within, "w", "--after", "3") == [two if two in every else group]
    assert names("export", "pgn-of-mine") == ["export"]
    assert names("checkpoint", "exprot") == ["checkpoint"]
    assert names("imprt", "pgn") == names("--version") == every


def test_a_docstring_is_the_help_of_its_command() -> None:
    """The lines of a paragraph are joined, and examples stand below the options; a command may have none."""

    def ring() -> None:
        """Ring the bell,
        once.

        It is loud.

        Examples:
            worldledger ring
            worldledger ring | wc
        """

    def rest() -> None:
        """Do nothing."""

    app = typer.Typer()
    commands = Commands(app)
    commands.add("ring", ring)
    commands.add("rest", rest)
    made = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert made["ring"].help == "Ring the bell, once.\n\nIt is loud."
    assert made["ring"].epilog == "Examples:\n\n  worldledger ring\n  worldledger ring | wc"
    assert (made["rest"].help, made["rest"].epilog) == ("Do nothing.", None)
