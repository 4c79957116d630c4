"""What an agent saw beside what was true: which variables it did not see, and which it saw otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from worldledger_service.cli.layout import shown

#: Stands for a value that is not there.
NOTHING: Final = object()


class Compared(NamedTuple):
    """A variable, or a part of one, as an agent saw it and as it was; NOTHING where it was not there.

    ``mark`` is empty where both are the same. Else: ``hidden`` of a variable that the agent did not see of an entity
    that it saw; ``unaware`` of those of an entity that it did not see; ``noised`` of a number that its policy blurs;
    ``gone`` of what was not there any more, and ``differs`` of what was otherwise by then: what goes out of sight may
    stay in a view as it was last seen.
    """

    path: str
    seen: Any
    true: Any
    mark: str

    def seen_text(self, most: int) -> str:
        """Show what the agent saw."""
        return _text(self.seen, most)

    def true_text(self, most: int) -> str:
        """Show what was true."""
        return _text(self.true, most)


def _text(value: Any, most: int) -> str:
    return "-" if value is NOTHING else shown(value, most)


def compared(seen: Mapping[str, Any], true: Mapping[str, Any], *, is_noisy: bool) -> Iterator[Compared]:
    """Compare the entities of a view with those of the state, by name; ``is_noisy`` says that the policy may blur.

    Each variable is told once where it was seen as it was, and otherwise as deep as the two differ.
    """
    for name in sorted({*seen, *true}):
        if name not in seen:
            yield from _all_of(name, true[name], "unaware")
        elif name not in true:
            yield from _all_of(name, seen[name], "gone")
        else:
            yield from _members(name, seen[name], true[name], is_noisy)


def _all_of(name: str, entity: Any, mark: str) -> Iterator[Compared]:
    values = {f"{name}.{key}": entity[key] for key in sorted(entity)} if isinstance(entity, dict) and entity else {}
    for path, value in (values or {name: entity}).items():
        yield Compared(path, value, NOTHING, mark) if mark == "gone" else Compared(path, NOTHING, value, mark)


def _members(path: str, seen: Any, true: Any, is_noisy: bool) -> Iterator[Compared]:
    """Compare two values that differ or are whole entities."""
    if isinstance(seen, dict) and isinstance(true, dict) and (seen or true):
        for key in sorted({*seen, *true}):
            yield from _one(f"{path}.{key}", seen.get(key, NOTHING), true.get(key, NOTHING), is_noisy)
    elif isinstance(seen, list) and isinstance(true, list) and len(seen) == len(true) and seen:
        for index, (one, other) in enumerate(zip(seen, true, strict=True)):
            yield from _one(f"{path}[{index}]", one, other, is_noisy)
    else:
        yield Compared(path, seen, true, _mark(seen, true, is_noisy))


def _one(path: str, seen: Any, true: Any, is_noisy: bool) -> Iterator[Compared]:
    if seen is NOTHING:
        yield Compared(path, seen, true, "hidden")
    elif true is NOTHING:
        yield Compared(path, seen, true, "gone")
    elif _same(seen, true):
        yield Compared(path, seen, true, "")
    else:
        yield from _members(path, seen, true, is_noisy)


def _mark(seen: Any, true: Any, is_noisy: bool) -> str:
    if _same(seen, true):
        return ""
    return "noised" if is_noisy and _is_number(seen) and _is_number(true) else "differs"


def _same(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are the same one; true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and one == other


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
