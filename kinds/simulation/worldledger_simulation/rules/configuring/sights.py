"""Reading who observes what, with every problem there is: names are looked up also where something else is wrong.

Source: docs/reference/contracts.md, "Observability".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from worldledger.errors.simulations import Path
from worldledger.observability import (
    DefaultObservability,
    ObservabilityConfig,
    ObservabilityEntry,
    ObservabilityLevel,
    VariableVisibilityConfig,
)
from worldledger_simulation.rules.configuring.parts import Parts, kind_of

_PATH: Final[Path] = ("observability",)
_MEMBERS: Final = ("enabled", "variable_visibility", "matrix", "default", "noise_scope")
_ENTRY: Final = ("observer", "target", "level", "noise")
#: Begins what stands for a name that cannot be read; no string of a configuration has this character.
_NO_NAME: Final = "\0"


def read_observability(parts: Parts, value: Any, context: Mapping[str, set[str]]) -> ObservabilityConfig | None:
    """Return the section that a value says, None where something is wrong with it: ``parts`` has what.

    ``context`` has the names that there are, as `ObservabilityConfig.problems` takes them.
    """
    if not parts.is_mapping(value, _PATH):
        return None
    before = len(parts.problems)
    parts.known(value, _MEMBERS, _PATH)
    enabled = value.get("enabled")
    if type(enabled) is not bool:
        missing = "enabled" not in value
        message = "required: true or false" if missing else f"must be true or false, not {kind_of(enabled)}"
        parts.wrong((*_PATH, "enabled"), message)
    matrix = value.get("matrix")
    if not isinstance(matrix, list):
        what = "required: a list of [observer, target, level, noise]"
        parts.wrong((*_PATH, "matrix"), what if matrix is None else f"must be a list, not {kind_of(matrix)}")
        matrix = []
    default = value.get("default")
    usual = None if default is None else parts.required(DefaultObservability, default, (*_PATH, "default"))
    given: dict[str, Any] = {} if usual is None else {"default": usual}
    scope = value.get("noise_scope")
    if scope in ("turn", "value"):
        given["noise_scope"] = scope
    elif scope is not None:
        parts.wrong((*_PATH, "noise_scope"), f"must be turn or value, not {scope!r}")
    config = ObservabilityConfig.model_construct(
        enabled=enabled,
        variable_visibility=_visibility(parts, value.get("variable_visibility")),
        matrix=[_entry(parts, item, at) for at, item in enumerate(matrix)],
        **given,
    )
    for at, message in config.problems(context):
        if _NO_NAME not in message:
            parts.wrong((*_PATH, *at), message)
    parts.problems[before:] = [
        problem._replace(path=_in_list(problem.path, matrix)) for problem in parts.problems[before:]
    ]
    return config if len(parts.problems) == before else None


def _visibility(parts: Parts, value: Any) -> VariableVisibilityConfig:
    """Read the two lists of names, as far as they can be."""
    path = (*_PATH, "variable_visibility")
    before = len(parts.problems)
    read = parts.required(VariableVisibilityConfig, value, path)
    if read is not None:
        return read
    given = value if isinstance(value, dict) else {}
    external, internal = (
        [
            name if isinstance(name, str) else f"{_NO_NAME}{which}{at}"
            for at, name in enumerate(given[which] if isinstance(given.get(which), list) else ())
        ]
        for which in ("external", "internal")
    )
    found = VariableVisibilityConfig.model_construct(external=external, internal=internal)
    overlap = found.overlap()
    if overlap is not None and all(problem.message != overlap for problem in parts.problems[before:]):
        parts.wrong(path, overlap)
    return found


def _entry(parts: Parts, item: Any, index: int) -> ObservabilityEntry:
    """Read an entry; of one that cannot be used, the names of the two, as far as they can be read."""
    read = parts.required(ObservabilityEntry, item, (*_PATH, "matrix", index))
    if read is not None:
        return read
    given = dict(zip(_ENTRY, item, strict=False)) if isinstance(item, list) else item if isinstance(item, dict) else {}
    observer, target = (
        given[which] if isinstance(given.get(which), str) else f"{_NO_NAME}{index}" for which in ("observer", "target")
    )
    level = ObservabilityLevel.UNAWARE
    return ObservabilityEntry.model_construct(observer=observer, target=target, level=level, noise=None)


def _in_list(path: Path, matrix: list[Any]) -> Path:
    """Return the path of an entry's member as it was written: by its index where the entry is a list."""
    if len(path) > 3 and path[1] == "matrix" and path[3] in _ENTRY and isinstance(matrix[int(path[2])], list):
        return (*path[:3], _ENTRY.index(str(path[3])), *path[4:])
    return path
