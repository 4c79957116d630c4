"""Configurations from files: YAML or JSON, with the place of everything that is wrong.

`load_config` is the one function of the rules that opens a file: it reads what it is told to, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath

from worldledger.errors import FileRefusedError, InvalidSimulationConfigError, Problem
from worldledger.errors.simulations import Path
from worldledger.strict_yaml import MAX_BYTES, Document, parse
from worldledger_simulation.rules.config import SimulationConfig, new_config


def load_config(source: str | os.PathLike[str] | bytes, *, name: str | None = None) -> SimulationConfig:
    """Read a simulation's configuration from the file at a path, or from the bytes of one.

    ``name`` is what errors call the file, its path unless given. Raises FileRefusedError where the file cannot be read,
    and InvalidSimulationConfigError with every problem (`FILE:LINE:COLUMN: PATH: MESSAGE` each), in the order in which
    they stand in the file. What is wrong with the YAML itself comes first, and alone.
    """
    return config_of(read_document(source, name=name))


def read_document(source: str | os.PathLike[str] | bytes, *, name: str | None = None) -> Document:
    """Read a YAML or JSON file, or the bytes of one. Raises as `load_config` does for what is no such text."""
    if isinstance(source, bytes):
        return parse(source, name=name or "configuration")
    called = name or os.fspath(source)
    try:
        with FilePath(source).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise FileRefusedError(f"cannot be read ({error.strerror or error})", file=called) from None
    except ValueError as error:  # a NUL in the path
        raise FileRefusedError(f"cannot be read ({error})", file=called) from None
    return parse(data, name=called)


def config_of(document: Document) -> SimulationConfig:
    """Make the configuration of a document. Raises InvalidSimulationConfigError with the places of the problems."""
    try:
        return new_config(SimulationConfig.from_value(document.value))
    except InvalidSimulationConfigError as error:
        raise InvalidSimulationConfigError(located(error.problems, document)) from error.__cause__


def located(problems: Iterable[Problem], document: Document) -> list[Problem]:
    """Return problems with their places in a document, in the order of these."""
    agents = _agents(document)
    found = []
    for problem in problems:
        line, column = document.place(_in_file(problem.path, agents))
        found.append(problem._replace(file=document.name, line=line, column=column))
    return sorted(found, key=lambda problem: (problem.line or 0, problem.column or 0))


def _agents(document: Document) -> dict[str, int]:
    """Return the places of the agents in their list, by name."""
    agents = document.value.get("agents")
    found: dict[str, int] = {}
    for index, agent in enumerate(agents if isinstance(agents, list) else []):
        name = agent.get("name") if isinstance(agent, dict) else agent
        if isinstance(name, str):
            found.setdefault(name, index)
    return found


def _in_file(path: Path, agents: Mapping[str, int]) -> Path:
    """Return the path as the file has it: an agent's variable stands in the state of an item of the list."""
    if len(path) > 1 and path[0] == "agents" and path[1] in agents:
        return ("agents", agents[str(path[1])], "state", *path[2:])
    return path
