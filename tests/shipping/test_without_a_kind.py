"""Worldledger without one of its kinds: its folder is deleted, and the core goes on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.cli.helpers import call

from .project import ROOT, environment, run
from .without_kind import checkout_without

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

#: The tests that are about chess, or use its games as an example of worlds: they go with it.
ABOUT_CHESS: Final = (
    "tests/arena",
    "tests/openenv",
    "tests/client/pettingzoo",
    *(
        f"tests/{folder}/chess"
        for folder in ("api", "cli", "faults", "projections", "report", "rulesets", "runtime", "store")
    ),
)
#: The folders of the core's tests that run without it.
CORE: Final = (
    "tests/aio",
    "tests/rules",
    "tests/rulesets",
    "tests/store",
    "tests/runtime",
    "tests/projections",
    "tests/schema",
    "tests/client",
    "tests/api",
    "tests/cli",
)
#: Some of them: these run each time, and all with --thorough.
SOME: Final = (
    "tests/rules/test_kinds.py",
    "tests/store/test_turns.py",
    "tests/projections/test_registry.py",
    "tests/schema/test_sql_files.py",
)
#: Tests among them that say which kinds, routes and commands there are, or whose worlds are games; one that needs the
#: script pytest in its environment, and those of the schema that look at the views of chess.
LEFT_OUT: Final = (
    "tests/rules/test_kinds.py::test_every_part_of_ours_can_be_loaded",
    "tests/projections/test_registry.py::test_every_projection_is_found_by_its_name",
    "tests/rulesets/test_payloads.py::test_what_a_schema_refuses_is_refused[chess]",
    "tests/rulesets/test_payloads.py::test_every_kind_has_a_schema[chess]",
    "tests/client/test_interrupting.py::test_sigterm_ends_the_tests",
    "tests/schema/test_analytics_asking.py::test_messages_help",
    "tests/schema/test_check.py::test_check_knows_the_views_over_builds",
    "tests/schema/test_check.py::test_upgrade_makes_again_what_it_can",
    "tests/schema/test_kind_analytics.py::test_dropping",
    "tests/schema/test_kind_analytics.py::test_what_stands_is_handed_over",
    "tests/schema/test_migrations.py::test_views_come_back_from_a_dump",
    "tests/schema/test_roles.py::test_user_who_was_granted_the_roles",
    "tests/api/test_limits.py::test_sockets_are_counted_as_they_open",
    "tests/api/test_strangers.py::test_an_address_has_so_many_connections",
    "tests/api/test_openapi.py::test_every_route_is_described",
    "tests/api/test_openapi.py::test_the_document_forbids_what_is_refused",
    "tests/cli/test_database.py::test_unreadable_files",
    "tests/cli/test_embedded.py",
    "tests/cli/test_help.py::test_wrong_usage",
    "tests/cli/test_kinds.py::test_the_kinds_are_listed",
    "tests/cli/test_kinds.py::test_what_cannot_be_written_is_refused",
    "tests/cli/test_rebuilding.py",
    "tests/cli/test_sql.py::test_the_cookbook",
    "tests/cli/test_sql.py::test_projections_that_are_behind",
)

#: Appends an effect to a world in the database of the argument, and prints how that is refused.
_APPEND: Final = """
import asyncio, sys
from worldledger.errors import UnknownRulesetError
from worldledger_service.store import Store

async def append():
    async with Store.open(sys.argv[1]) as store:
        try:
            log = await store.log(sys.argv[2])
            await log.append({"kind": "MoveMade", "payload": {}, "source_id": "ann", "schema_version": "1.0.0"})
        except UnknownRulesetError as error:
            print(error.message)

asyncio.run(append())
"""


@pytest.fixture(scope="module")
def without_chess(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a checkout without chess, and the Python of an environment in which it is installed."""
    folder = tmp_path_factory.mktemp("without") / "checkout"
    return folder, checkout_without("chess", folder, ABOUT_CHESS)


def test_no_test_of_the_core_asks_for_chess_when_it_is_loaded() -> None:
    """No module of the core's tests imports the package of chess at its top, where pytest could not collect it then."""
    asking = re.compile(r"^(from|import) worldledger_chess\b", re.MULTILINE)
    modules = {path for folder in CORE for path in (ROOT / folder).rglob("*.py")}
    about_chess = {path for place in ABOUT_CHESS for path in (ROOT / place).rglob("*.py")}
    assert len(modules - about_chess) > 200
    assert [path for path in sorted(modules - about_chess) if asking.search(path.read_text())] == []


@pytest.mark.parametrize("places", [SOME, pytest.param(CORE, marks=pytest.mark.thorough)], ids=["some", "all"])
def test_the_core_s_tests_pass(without_chess: tuple[Path, str], server_url: str, places: tuple[str, ...]) -> None:
    """The core's tests pass where no package of chess is there."""
    folder, python = without_chess
    left_out = [f"--deselect={each}" for each in LEFT_OUT]
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *places, *left_out]
    # A few do not need a server of their own.
    server = {"WORLDLEDGER_TEST_DATABASE_URL": server_url} if places is SOME else {}
    run(command, cwd=folder, env=environment(**server), seconds=3000)


@pytest.mark.thorough
def test_worlds_of_a_kind_that_is_gone(without_chess: tuple[Path, str], database_url: str, tmp_path: Path) -> None:
    """Games in a database are listed, verified and exported; states and appends are refused, and chess is named."""
    folder, python = without_chess
    at = ("--database-url", database_url)
    assert call("import", "pgn", str(ROOT / "examples" / "games"), "--experiment", "left", *at).code == 0

    def do(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [python, "-m", "worldledger_service.cli", *arguments, *at]
        return subprocess.run(
            command, cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=300
        )

    listed = do("worlds", "--experiment", "left")
    assert (listed.returncode, " chess " in listed.stdout) == (0, True)
    world = listed.stdout.splitlines()[1].split()[0]
    for command in (
        ("verify", "--all"),
        ("log", world),
        ("export", world, "-o", str(tmp_path / "world.ndjson")),
        ("sql", "select count(*) from move_made"),
    ):
        done = do(*command)
        assert done.returncode == 0, (command, done.stderr)
    assert call("verify", "--file", str(tmp_path / "world.ndjson")).code == 0
    check = do("db", "check").stdout.splitlines()
    assert [line.partition(":")[0] for line in check if line.startswith("kind ")] == ["kind chess"]
    sentence = "the ruleset 'chess' is not installed here: install the package of this kind of worlds"
    state = do("state", world)
    assert (state.returncode, sentence in state.stderr) == (2, True)
    appended = run([python, "-c", _APPEND, database_url, world], cwd=folder, env=environment())
    assert appended.startswith(sentence)
    unknown = do("import", "pgn", "games")
    assert (unknown.returncode, "no such command" in unknown.stderr.lower()) == (2, True)
