"""Errors of definitions: of variables, schemas and observability, each problem with its path."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from worldledger.errors.log import InvalidConfigError

#: A place in a configuration: the keys and indexes on the way there.
Path = tuple[str | int, ...]


#: Most problems of one configuration that are listed.
MOST_TOLD: Final = 100
#: A key that can stand in a dotted path as it is.
_PLAIN: Final = re.compile(r'[^.\[\]"]+\Z')


class _Dotted(str):
    """A path that came written out, by wire."""

    __slots__ = ()


class Problem(NamedTuple):
    """One fault of a configuration.

    ``path`` has the keys on the way; ``file``, ``line`` and ``column`` (from 1 on) are set if it came from a file.
    """

    path: Path
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None


def summed_up(problems: Sequence[Problem]) -> Sequence[Problem]:
    """Return the first problems; if there are very many, the last one says how many more."""
    more = len(problems) - MOST_TOLD
    if more <= 0:
        return problems
    return [*problems[:MOST_TOLD], Problem((), f"and {more} more problem{'' if more == 1 else 's'}", problems[-1].file)]


class InvalidDefinitionError(InvalidConfigError):
    """An invalid definition of variables; details: ``problems``, each with ``path`` and ``message``.

    The text has the first MOST_TOLD of them, and the number of the others.
    """

    code: ClassVar[str] = "invalid_definition"

    def __init__(self, problems: Iterable[Problem | Mapping[str, Any]], message: str | None = None) -> None:
        """Make the error of problems, or of their ``details``, in which paths are written out, as they come by wire."""
        self.problems: Sequence[Problem] = tuple(map(_problem, problems))
        text = "\n".join(map(told, summed_up(self.problems))) if message is None else message
        super().__init__(text, problems=[_details(problem) for problem in self.problems])


class CircularSchemaError(InvalidDefinitionError):
    """A schema that contains itself; the message has the cycle, its fields and a remedy."""

    code: ClassVar[str] = "circular_schema"


def dotted(path: Sequence[str | int]) -> str:
    """Write a path as people read it: ``agents[Trader_1].inventory.food``, ``matrix[3][1]``.

    The member of ``agents`` is an agent and stands in brackets, as indexes do (docs/reference/simulation-config.md,
    "Errors").
    """
    text = ""
    for part in path:
        text = stepped(text, part)
    return text


def stepped(path: str, key: str | int) -> str:
    """Return the dotted path of a member of the value at a dotted path; "" is the whole.

    So that no two places have one path, a key with a dot, bracket or quote in it, or with nothing, is written as JSON:
    ``prices["a.b"]``.
    """
    if isinstance(key, _Dotted):
        return key
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not _PLAIN.match(key):
        return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    if not path:
        return key
    return f"{path}[{key}]" if path == "agents" else f"{path}.{key}"


def worded(path: Sequence[str | int], message: str) -> str:
    """Return the message of a problem; one about a value that exceeds a size names its field at the end."""
    if path and " exceeds maximum " in message and " at field '" not in message:
        return f"{message} at field '{dotted(path)}'"
    return message


def told(problem: Problem) -> str:
    """Write a problem as one line: ``FILE:LINE:COLUMN: PATH: MESSAGE``, without the unknown parts."""
    place = [str(part) for part in (problem.file, problem.line, problem.column) if part is not None]
    head = [":".join(place)] if place else []
    if problem.path:
        head.append(dotted(problem.path))
    return ": ".join([*head, worded(problem.path, problem.message)])


def _problem(value: Problem | Mapping[str, Any]) -> Problem:
    if isinstance(value, Problem):
        return value
    path = value.get("path")
    where = {name: value.get(name) for name in ("file", "line", "column")}
    return Problem((_Dotted(path),) if path else (), str(value.get("message")), **where)


def _details(problem: Problem) -> dict[str, Any]:
    found = {"path": dotted(problem.path), "message": worded(problem.path, problem.message)}
    where = {"file": problem.file, "line": problem.line, "column": problem.column}
    return found | {name: value for name, value in where.items() if value is not None}
