"""A projection of one's own in every command: fed, asked, verified, poisoned, upgraded, checked and taken away."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import httpx2
import pytest
from worldledger_projections import registry

from tests.projections.test_own import WORDS
from tests.waiting import block_until

from .conftest import Cli
from .helpers import Result, Running, say, sql
from .helpers import record as record_world

CHECK = ("db", "check")
OWN = ("--projection", "said:Words")


@pytest.fixture
def folder(projected: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_url: str) -> Iterator[Path]:
    """Return a folder with the projection, and a world in which something is said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    write(tmp_path, WORDS)
    spoken = [say("ann", "Speak", 1.0, text="a b c"), say("bob", "Speak", 2.0, text="d")]
    record_world(database_url, "talk", spoken)
    yield tmp_path
    write(tmp_path, WORDS)  # forgets it


def write(folder: Path, text: str) -> None:
    """Write the projection's module anew, as an upgrade of it does."""
    (folder / "said.py").write_text(text)
    sys.modules.pop("said", None)
    sys.path_importer_cache.pop(str(folder), None)
    for cached in folder.glob("__pycache__/said.*"):
        cached.unlink()
    registry._known.cache_clear()


def words(url: str) -> list[tuple[int, int]]:
    """Return the projection's rows, as people ask them."""
    return sql(url, "select global_seq, words from analytics.words order by 1")


def odd_views(checked: Result) -> list[str]:
    """Return what `db check` finds about views."""
    return [line for line in checked.out.splitlines() if line.startswith("view ")]


def test_its_life(on: Cli, folder: Path, database_url: str) -> None:
    """It is fed, asked, verified, rebuilt, upgraded to version 2 and checked by the commands for built-in ones."""
    assert on("project", "--once", *OWN).code == 0
    assert words(database_url) == [(2, 3), (3, 1)]
    assert "words" in on("projections", "status", *OWN).out
    verified = on("projections", "verify", "words", *OWN)
    assert (verified.code, "words" in verified.out) == (0, True)
    assert odd_views(on(*CHECK, *OWN)) == []
    assert odd_views(on(*CHECK)) == [
        f"view {name}: unexpected, or of a projection that is not known here (--projection names one)"
        for name in ("analytics.words", "analytics.words_with_forks", "projections.words")
    ]

    sql(database_url, "update projections.words_1 set words = 99 where global_seq = 2")
    spoilt = on("projections", "verify", "words", *OWN)
    assert (spoilt.code, "99" in spoilt.out) == (1, True)
    assert on("projections", "rebuild", "words", *OWN).code == 0
    assert words(database_url) == [(2, 3), (3, 1)]

    write(folder, WORDS.replace("version = 1", "version = 2").replace(".split())", ".split()) * 10"))
    assert on("project", "--once", *OWN).code == 0
    assert words(database_url) == [(2, 30), (3, 10)]
    assert odd_views(on(*CHECK, *OWN)) == []
    assert on("project", "--once").code == 0  # without it, its rows stay as they are
    assert words(database_url) == [(2, 30), (3, 10)]


def test_an_effect_that_it_cannot_digest(on: Cli, folder: Path, database_url: str) -> None:
    """Its world is parked for this projection alone, and goes on once it is mended and retried."""
    spoken = [say("ann", "Speak", 1.0, text="fine"), say("bob", "Speak", 2.0, text="boom")]
    record_world(database_url, "odd", spoken)
    line = '        self._rows.append((self._world_id, effect["global_seq"], words))'
    write(folder, WORDS.replace(line, f'        assert effect["payload"].get("text") != "boom"\n{line}'))
    assert on("project", "--once", *OWN).code == 1
    status = on("projections", "status", "words", *OWN).out
    assert "world odd is parked at seq 3 (Speak)" in status
    assert sql(database_url, "select effects from projections.world_summaries where world_id = 'odd'") == [(3,)]
    write(folder, WORDS)
    assert on("projections", "retry", "words", *OWN).code == 0
    assert on("project", "--once", *OWN).code == 0
    rows = sql(database_url, "select global_seq, words from analytics.words where world_id = 'odd' order by 1")
    assert rows == [(2, 1), (3, 1)]


@pytest.mark.usefixtures("folder")
def test_a_command_without_it_says_how_it_is_named(on: Cli, subtests: pytest.Subtests) -> None:
    """An order for what is in the database alone names --projection and its variable; a slip lists what there is."""
    assert on("project", "--once", *OWN).code == 0
    what = "the projection 'words' is in the database, but not in this program; one of your own is named by "
    what += "--projection MODULE:CLASS or WORLDLEDGER_OWN_PROJECTIONS"
    for order in ("retry", "verify", "rebuild", "pause", "resume"):
        with subtests.test(order=order):
            assert on("projections", order, "words") == (2, "", f"worldledger: {what}\n")
            assert "there is no projection 'word'; there are " in on("projections", order, "word").err


def test_its_parked_worlds_are_listed_without_it(on: Cli, folder: Path, database_url: str) -> None:
    """`projections status` shows what is the matter with a projection that it does not have, as `project` says."""
    line = '        self._rows.append((self._world_id, effect["global_seq"], words))'
    write(folder, WORDS.replace(line, f"        assert words < 3\n{line}"))
    assert on("project", "--once", *OWN).code == 1
    hint = on("project", "--once")
    assert (hint.code, "see `worldledger projections status`" in hint.err) == (1, True)
    for names in ((), ("words",)):
        assert "words: world talk is parked at seq 2 (Speak), tried once: " in on("projections", "status", *names).out


@pytest.mark.usefixtures("folder")
def test_it_is_dropped(on: Cli, database_url: str) -> None:
    """What this program does not have is dropped at once, what it has with --force; the log stays."""
    assert on("project", "--once", *OWN).code == 0
    assert "this program has the projection words" in on("projections", "drop", "words", *OWN).err
    assert on("projections", "drop", "words") == (0, "dropped words, 1 build\n", "")
    assert "words" not in on("projections", "status").out
    assert odd_views(on(*CHECK)) == []
    assert on("projections", "drop", "words").code == 2
    assert on("project", "--once", *OWN).code == 0
    assert words(database_url) == [(2, 3), (3, 1)]
    assert on("projections", "drop", "words", "--force", *OWN).code == 0
    assert on("verify", "talk").code == 0


@pytest.mark.thorough  # as `project` feeds it
@pytest.mark.usefixtures("folder")
def test_the_service_feeds_it(database_url: str) -> None:
    """`serve` feeds what the variable names, and answers for it over HTTP."""
    arguments = ("serve", "--port", "0", "--database-url", database_url)
    with Running(*arguments, WORLDLEDGER_OWN_PROJECTIONS="said:Words") as serving:
        url = re.search(r"http://[^ ,]+", serving.line())[0]  # type: ignore[index]

        def there() -> bool:
            try:
                return words(database_url) == [(2, 3), (3, 1)]
            except asyncpg.UndefinedTableError:
                return False

        block_until(there, "its rows are there")
        found = httpx2.get(f"{url}/v1/projections/words").json()
    assert (found["name"], found["version"]) == ("words", 1)


def test_a_mistake_is_one_sentence(on: Cli, folder: Path) -> None:
    """A projection that cannot be used stops the command with exit code 2, before anything is fed."""
    write(folder, f"import time\n{WORDS}")
    done = on("project", "--once", *OWN)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1] == (
        "worldledger: projection said:Words: the module said uses time; a projection may use no clock, no randomness "
        "and no I/O, or a rebuild would give other rows"
    )


def test_a_view_of_the_log_is_not_replaced(on: Cli, folder: Path) -> None:
    """A projection with the name of a view over the log is refused."""
    write(folder, WORDS.replace('name = "words"', 'name = "effects"'))
    done = on("project", "--once", *OWN)
    assert done.code == 2
    assert "there is a view analytics.effects already; choose another name" in done.err
