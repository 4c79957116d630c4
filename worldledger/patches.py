"""JSON Patch (RFC 6902) with JSON Pointers (RFC 6901): comparing two JSON values, and changing one.

For `diff` two values are the same if their canonical texts are: 1, 1.0 and true are three values, as in the log. The
operation ``test`` compares numbers by value (RFC 6902, 4.6).
"""

from __future__ import annotations

import re
from typing import Any, Final

import jsonpatch
import orjson

from worldledger.canonical import canonical_json, gate
from worldledger.errors import InvalidEffectError

#: Largest result of a patch in canonical bytes, and the most that it may copy and move, by default.
MAX_BYTES: Final = 16 * 2**20

_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,15}")
#: Longest excerpt of the input inside a reason.
_MOST_SHOWN_CHARACTERS: Final = 80


class PatchError(ValueError):
    """A patch that cannot be applied: ``reason``, and ``index`` of the operation at fault.

    ``index`` is None if no single operation is at fault: the patch is not a list, or its result is too large.
    """

    def __init__(self, reason: str, index: int | None = None) -> None:
        super().__init__(reason if index is None else f"operation {index}: {reason}")
        self.reason = reason
        self.index = index


# -- the difference ------------------------------------------------------------------------------------------


def diff(before: Any, after: Any, *, path: str = "") -> list[dict[str, Any]]:
    """Return the patch that turns one JSON value into the other; it depends on the values alone.

    ``path`` is the JSON Pointer of the values' place in the document that will be patched.

    Objects are compared member by member, keys in sorted order; any other difference, lists included, replaces the
    whole value, so that a path consists of ids and never of list indices (docs/reference/observation.md, "Deltas").
    Only "add", "remove" and "replace" occur. The patch shares nothing with the values.
    """
    # jsonpatch.make_patch will not do: it makes moves and puts list indices into paths, and which operations it finds
    # depends on its version (up to 1.32 at least, it takes [1], [1.0] and [true] for equal).
    operations: list[dict[str, Any]] = []
    if isinstance(before, dict) and isinstance(after, dict):
        _compare(before, after, path, operations)
    elif not _same(before, after):
        operations.append({"op": "replace", "path": path, "value": _copy(after)})
    return operations


_MISSING: Final = object()


def _compare(before: dict[str, Any], after: dict[str, Any], path: str, operations: list[dict[str, Any]]) -> None:
    for key in sorted(before.keys() | after.keys()):
        one, other = before.get(key, _MISSING), after.get(key, _MISSING)
        if one is other:
            continue
        descend = isinstance(one, dict) and isinstance(other, dict)
        if not descend and _same(one, other):
            continue
        place = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        if descend:
            _compare(one, other, place, operations)
        elif other is _MISSING:
            operations.append({"op": "remove", "path": place})
        else:
            name = "add" if one is _MISSING else "replace"
            operations.append({"op": name, "path": place, "value": _copy(other)})


def _same(one: Any, other: Any, *, as_numbers: bool = False) -> bool:
    """Return whether two values have the same canonical text. It looks at no more than the smaller one.

    ``as_numbers``: numbers are equal if they are numerically (RFC 6902, 4.6); true is no number.
    """
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and len(one) == len(other)
            and all(key in other and _same(item, other[key], as_numbers=as_numbers) for key, item in one.items())
        )
    if isinstance(one, list | tuple):
        return (
            isinstance(other, list | tuple)
            and len(one) == len(other)
            and all(_same(each, its, as_numbers=as_numbers) for each, its in zip(one, other, strict=True))
        )
    alike = type(one) is type(other) or (as_numbers and {type(one), type(other)} == {int, float})
    return alike and bool(one == other)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(item) for item in value]
    return value


# -- the application -----------------------------------------------------------------------------------------


def apply_patch(document: Any, operations: Any, *, max_bytes: int = MAX_BYTES, level: int = 1) -> Any:
    """Return the document after a patch, one operation after another; nothing is changed in place or shared.

    ``operations`` may be any JSON value. The document and the result must pass the write gate as values at the
    nesting level ``level``. The result has at most ``max_bytes`` canonical bytes, and so has all that the patch
    copies and moves, taken together. Raises PatchError, and nothing else.
    """
    if not isinstance(operations, list):
        raise PatchError("a patch is a list of operations")
    try:
        patched = orjson.loads(gate(document, level=level))
    except InvalidEffectError as error:
        raise PatchError(f"the document cannot be patched: {_unfit(error)}") from None
    # The values that a patch adds are part of its size; "copy" alone makes much of little, and like "move" takes time
    # in proportion to its value. So a limit on the sum of both bounds memory and time, which a check of the document's
    # size after each operation would not. As every value is gated for its new place, nothing ever ends up too deep.
    room = max_bytes
    for index, operation in enumerate(operations):
        try:
            patched, taken = _apply(patched, operation, room, level)
        except PatchError as error:
            raise PatchError(error.reason, index) from None
        except InvalidEffectError as error:
            raise PatchError(_unfit(error), index) from None
        except RecursionError:
            raise PatchError("nested too deeply", index) from None
        except Exception as error:  # the library has exceptions of its own, and lets some of Python's through
            raise PatchError(_shown(str(error)), index) from error
        room -= taken
    size = len(canonical_json(patched))
    if size > max_bytes:
        raise PatchError(f"the result would have {size} bytes, more than {max_bytes}")
    return patched


def _apply(document: Any, operation: Any, room: int, level: int) -> tuple[Any, int]:
    """Apply one operation in place; return the document and how many bytes were copied or moved."""
    if not isinstance(operation, dict):
        raise PatchError("an operation is an object")
    name = operation.get("op")
    if name not in ("add", "remove", "replace", "move", "copy", "test"):  # a tuple: the value may be unhashable
        raise PatchError(f"op is add, remove, replace, move, copy or test, not {_shown(repr(name))}")
    path = _tokens(operation, "path")
    if name in ("add", "replace", "test") and "value" not in operation:
        raise PatchError(f"{name} needs a value")
    if name == "test":
        # Compared here, because the library takes true for 1.
        if not _same(_find(document, path), operation["value"], as_numbers=True):
            raise PatchError(f"the test fails: another value stands at {_pointer(path)}")
    elif name in ("add", "replace"):
        if name == "replace":
            _find(document, path)
        text = gate(operation["value"], path="$.value", level=level + len(path))
        return _put(document, name, path, orjson.loads(text)), 0
    elif name == "remove":
        _find(document, path)
        _remove(document, path)
    else:
        source = _tokens(operation, "from")
        text = gate(_find(document, source), path="$.from", level=level + len(path))
        if name == "move":
            if source == path:
                return document, 0
            if path[: len(source)] == source:
                raise PatchError("a value cannot be moved into itself")
        if len(text) > room:
            raise PatchError("the patch copies and moves more than it may")
        if name == "move":
            _remove(document, source)
        return _put(document, "add", path, orjson.loads(text)), len(text)
    return document, 0


def _put(document: Any, name: str, path: list[str], value: Any) -> Any:
    """Add a value, or replace an existing one; return the document: at the root, that is the value itself."""
    if not path:
        return value
    parent = _find(document, path[:-1])
    if isinstance(parent, dict):
        name = "add"  # which replaces what is there; some versions' "replace" refuses a member named "-"
    elif not isinstance(parent, list):
        raise PatchError(f"{_pointer(path[:-1])} is neither an object nor a list")
    elif not (_INDEX.fullmatch(path[-1]) or path[-1] == "-"):
        raise PatchError(f"{_pointer(path)} is no place in a list")
    return _with_library(document, {"op": name, "path": _pointer(path, shown=False), "value": value})


def _remove(document: Any, path: list[str]) -> None:
    """Remove an existing value."""
    if not path:
        raise PatchError("the whole document cannot be removed")
    _with_library(document, {"op": "remove", "path": _pointer(path, shown=False)})


def _with_library(document: Any, operation: Any) -> Any:
    """Apply a checked operation in place with the library; return the document."""
    return jsonpatch.JsonPatch([operation]).apply(document, in_place=True)


def _tokens(operation: dict[str, Any], name: str) -> list[str]:
    """Read a JSON Pointer into its tokens."""
    pointer = operation.get(name)
    if not isinstance(pointer, str) or not _POINTER.fullmatch(pointer):
        raise PatchError(f"{operation['op']} needs a {name} that is a JSON Pointer, such as /a/b")
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def _find(document: Any, tokens: list[str]) -> Any:
    """Return the value at a place.

    Stricter than the library, some of whose versions take 01 for a list index: the same log must give the same state
    with each of them.
    """
    found = document
    for depth, token in enumerate(tokens, 1):
        if isinstance(found, dict) and token in found:
            found = found[token]
        elif isinstance(found, list) and _INDEX.fullmatch(token) and int(token) < len(found):
            found = found[int(token)]
        else:
            raise PatchError(f"there is nothing at {_pointer(tokens[:depth])}")
    return found


def _pointer(tokens: list[str], *, shown: bool = True) -> str:
    pointer = "".join(f"/{token.replace('~', '~0').replace('/', '~1')}" for token in tokens)
    return (_shown(pointer) or "the root") if shown else pointer


def _unfit(error: InvalidEffectError) -> str:
    return f"{error.reason} (at {_shown(error.path)})"


def _shown(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN_CHARACTERS else f"{text[:_MOST_SHOWN_CHARACTERS]}…"
