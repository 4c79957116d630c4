"""Nothing but its own package knows a kind of worlds: the core has no kind's words in its texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from worldledger_service.database.analytics.of_kinds import brought

from worldledger.kinds import installed, parts

from .project import ROOT

#: What may know no kind.
CORE: Final = ("worldledger", "projections", "service")


class Words(NamedTuple):
    """The words of the installed kinds: their names, the kinds of their effects, their tables and their units."""

    names: frozenset[str]
    payloads: frozenset[str]
    tables: frozenset[str]
    units: frozenset[str]


@cache
def words() -> Words:
    """Return the words, as the kinds declare them, and some by which their formats and worlds are called."""
    rulesets = parts("ruleset").values()
    projections = [each for found in parts("projections").values() for each in found]
    tables = {name for each in projections for name in (each.name, *(view.name for view in each.views))}
    sql = [script.sql for each in brought().values() for script in each.scripts]
    return Words(
        names=frozenset({*installed(), "social-rl", "pgn", "openenv", "pettingzoo"}),
        payloads=frozenset(kind for ruleset in rulesets for kind in ruleset.handlers),
        tables=frozenset(
            {*tables, *(name for each in sql for name in re.findall(r"^create view (\w+)", each, re.MULTILINE))}
        ),
        units=frozenset(unit for kind in installed().values() for unit in kind.units),
    )


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return what finds names and kinds of effects; tables and units where they are meant; and these anywhere."""
    names, payloads, tables, units = ("|".join(sorted(map(re.escape, each), key=len, reverse=True)) for each in words())
    plain = f"{tables}|{units}"
    meant = rf"\A(?:{plain})\Z|(?:\b(?:from|join|table|update|into) +(?:\w+\.)?|/v1/|--)(?:{plain})\b"
    anywhere = re.compile(rf"\b(?:(?i:(?:{names})(?=s?\b))|(?:{payloads})\b)")
    return anywhere, re.compile(rf"{meant}|\b(?:{units}):(?:\d|N\b)"), re.compile(rf"\b(?:{plain})\b")


def found_in(text: str) -> set[str]:
    """Return the kinds' words in a text. Names and kinds of effects are found anywhere, in a command all of them.

    Tables and units are plain words, too (agents, moves, a turn): they are found where a text is nothing else, in SQL,
    in the path of a route, as an option, and in a moment such as turn:5.
    """
    anywhere, meant, plain = _patterns()
    if text.startswith(("worldledger ", "curl ")):
        return {*anywhere.findall(text), *plain.findall(text)}
    last = (plain.findall(match)[-1] for match in meant.findall(text))
    return {*anywhere.findall(text), *last}


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module, with their lines; of docstrings those that are shown: of commands and routes."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    hidden = set()
    for node in nodes:
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
            continue
        is_shown = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
            node.name == "command" or any("router" in ast.unparse(each) for each in node.decorator_list)
        )
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and not is_shown:
            hidden.add(id(first.value))
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hidden:
            yield node.lineno, node.value


#: The core's own words that a kind uses, too, each with the reason; by file, or "" for all of them.
_INTENT = "an intent of every world (worldledger/intents.py), and the effect that it becomes"
_OBSERVED = (
    "what observation tells of any world by this kind of effect, whatever its ruleset (docs/reference/observation.md)"
)
_PRODUCT = "what the whole product is for"
_OLDER = "a parameter of earlier versions that still works; `at` takes the units of every kind"
_NOISE = "what noise is drawn for in any world whose state has a turn (docs/reference/observation.md)"
_PLAIN = "a plain word with its own meaning there"
ALLOWED: Final[dict[tuple[str, str], str]] = {
    ("", "agents"): "every world has agents; a projection of chess has that name, too",
    ("", "Speak"): _INTENT,
    ("", "Move"): _INTENT,
    ("", "Interact"): _INTENT,
    ("worldledger/llm/model.py", "messages"): _PLAIN,
    ("worldledger/llm/anthropic.py", "messages"): _PLAIN,
    ("worldledger/llm/openai.py", "messages"): _PLAIN,
    ("worldledger/effects.py", "MessageEmitted"): _OBSERVED,
    ("worldledger/effects.py", "SpeakResponse"): _OBSERVED,
    ("worldledger/effects.py", "EntityCreated"): _OBSERVED,
    ("worldledger/effects.py", "EntityRemoved"): _OBSERVED,
    ("worldledger/effects.py", "EntityUpdated"): _OBSERVED,
    ("worldledger/effects.py", "RelationshipRemoved"): _OBSERVED,
    ("worldledger/effects.py", "RelationshipSet"): _OBSERVED,
    ("worldledger/staleness.py", "RelationshipRemoved"): _OBSERVED,
    ("worldledger/staleness.py", "RelationshipSet"): _OBSERVED,
    ("worldledger/observability/config.py", "turn"): _NOISE,
    ("worldledger/observability/policy.py", "turn"): _NOISE,
    ("worldledger/kinds.py", "sandbox"): "the kind of worlds that name none: it has to be said somewhere, once",
    ("worldledger/patches.py", "move"): "an operation of RFC 6902",
    ("worldledger/rulesets/payloads.py", "move"): "an operation of RFC 6902",
    ("service/worldledger_service/api/openapi.py", "simulation"): _PRODUCT,
    ("service/worldledger_service/cli/main.py", "simulation"): _PRODUCT,
    ("service/worldledger_service/api/parameters.py", "turn"): _OLDER,
    ("service/worldledger_service/cli/moments.py", "turn"): _OLDER,
    (
        "service/worldledger_service/cli/view.py",
        "turn",
    ): "a member of `view --json` since before there were other units",
    ("service/worldledger_service/arrow/lake/folder.py", "moves"): _PLAIN,
    ("service/worldledger_service/database/embedded/accounts.py", "sandbox"): _PLAIN,
    ("service/worldledger_service/database/guards.py", "turn"): _PLAIN,
    ("service/worldledger_service/runtime/scheduling.py", "turn"): _PLAIN,
}


def test_the_core_has_no_words_of_kinds() -> None:
    """A text of the core has no name, kind of effect, table or unit of a kind, but for exceptions that are needed."""
    found, used = [], set()
    for path in (path for folder in CORE for path in sorted((ROOT / folder).rglob("*.py"))):
        file = path.relative_to(ROOT).as_posix()
        for line, text in _texts(path):
            for word in sorted(found_in(text)):
                allowed = {(file, word), ("", word)} & ALLOWED.keys()
                used |= allowed
                if not allowed:
                    found.append(f"{file}:{line}: {word}: {' '.join(text.split())[:100]}")
    assert found == []
    assert ALLOWED.keys() - used == set()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Games of chess become files.", "chess"),
        ("select * from analytics.turns t", "turns"),
        ("--turn", "turn"),
        ("at ply:3", "ply"),
        ("/v1/games/{game}", "games"),
        ("worldledger projections rebuild games", "games"),
        ("e.kind = 'MoveMade'", "MoveMade"),
        ("turns", "turns"),
    ],
)
def test_a_word_is_found(text: str, word: str) -> None:
    """Where a kind's word means the kind, it is found."""
    assert found_in(text) == {word}


def test_units_are_those_of_the_rules() -> None:
    """A kind declares the units of its ruleset, and a ruleset may say what a step is."""
    for name, ruleset in parts("ruleset").items():
        assert set(installed()[name].units) == {*ruleset.units} - {"step"}
