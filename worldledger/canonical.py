"""The write gate and the canonical text of effects.

Profile ``orjson-sorted/1``: ``orjson.dumps(effect, option=OPT_SORT_KEYS)``: keys sorted by code point, compact,
UTF-8. It is not RFC 8785 (JCS): that sorts by UTF-16 code unit and writes some floats otherwise. An effect is written
once, when it is accepted; afterwards only those bytes count, and no check rewrites them.

The gate refuses what would not survive: NaN and infinities, ints beyond ±(2^53-1), -0.0, NUL and lone
surrogates in strings and keys, keys that are not strings, duplicate keys in a text, values that JSON does not
have, and nesting over ``MAX_DEPTH``. Every refusal names the JSON path of the offending value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import accumulate
from typing import Any, Final
from uuid import UUID

import orjson

from worldledger.errors import InvalidEffectError

#: Name of the canonical profile of effects; every world's genesis has it.
PROFILE: Final = "orjson-sorted/1"
#: Largest magnitude of an int that every JSON reader represents exactly.
MAX_INT: Final = 2**53 - 1
#: Deepest nesting of an effect, the effect itself being level 1 and its payload level 2.
MAX_DEPTH: Final = 100

#: Texts longer than this are copied: orjson keeps far more memory than a text has bytes.
_KEPT: Final = 256
_OPTIONS: Final = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_MINUS_ZERO: Final = re.compile(rb"-0\.0(?![0-9])")
#: What a bracket adds to the depth, as a signed byte; all bytes but brackets and quotes.
_STEPS: Final = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b'{[}]"'))
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def canonical_json(value: Any) -> bytes:
    """Write a gated value in the canonical profile. The value must have passed `gate`.

    Source: docs/reference/effects.md, "Canonical text".
    """
    return orjson.dumps(value, option=_OPTIONS)


def decode(profile: str, text: bytes | str) -> Any:
    """Read the stored text of an effect that was written in the named profile.

    Raises ValueError for a profile this version does not know, or a text that is not JSON.
    """
    if profile != PROFILE:
        raise ValueError(f"unknown canonical profile {profile!r}; this version reads {PROFILE!r}")
    return orjson.loads(text)


def child(path: str, key: str | int) -> str:
    """Return the JSON path of a member or an element (RFC 9535, with dots where the key is a plain word)."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if _PLAIN_KEY.match(key):
        return f"{path}.{key}"
    return f"{path}[{json.dumps(key)}]"


def gate(value: Any, *, path: str = "$", level: int = 1) -> bytes:
    """Check a value and give its canonical bytes. A tuple is written as a list.

    ``level`` is the nesting level at which the value will stand in the effect, ``path`` its JSON path there.
    Raises InvalidEffectError with the path of the first value that would not survive.
    """
    try:
        text = orjson.dumps(value, option=_OPTIONS)
    except (orjson.JSONEncodeError, RecursionError):
        _walk(value, path, level)
        raise InvalidEffectError("this value cannot be written as JSON", path) from None
    # Most texts can be cleared at a glance; each value is looked at only if that fails.
    plain = len(text) < 2 * (MAX_DEPTH - level) and b"-0.0" not in text and b"\\u0000" not in text
    if (b"null" in text or (not plain and _needs_a_walk(text, level))) and not _is_clear(value, level):
        _walk(value, path, level)
    return text if len(text) <= _KEPT else bytes(memoryview(text))


def _needs_a_walk(text: bytes, level: int) -> bool:
    """Return whether a canonical text may hold something that the gate refuses: fast, and never wrongly False."""
    return (
        (len(text) >= 2 * (MAX_DEPTH - level) and _is_too_deep(text, level))
        or (b"-0.0" in text and _MINUS_ZERO.search(text) is not None)
        or b"\\u0000" in text
    )


def _is_too_deep(text: bytes, level: int) -> bool:
    if text.count(b"{") + text.count(b"[") + level <= MAX_DEPTH:
        return False
    steps = outside_strings(text, _NO_BRACKETS)[0].translate(_STEPS)
    return level - 1 + max(accumulate(memoryview(steps).cast("b")), default=0) > MAX_DEPTH


def outside_strings(text: bytes, left_out: bytes, *, is_inside: bool = False) -> tuple[bytes, bool, bytes]:
    """Return what stands outside the strings of a JSON text, or of a piece of one, without the bytes of ``left_out``.

    ``is_inside`` is whether a piece begins inside a string. The other results are whether it ends in one, and the
    beginning of an escape at its end, which belongs before the next piece. What is no JSON is parted somehow.
    """
    text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    rest = text[-1:] if text.endswith(b"\\") else b""
    parts = text.translate(None, left_out).replace(b'""', b"").split(b'"')
    return b"".join(parts[is_inside::2]), is_inside ^ (len(parts) % 2 == 0), rest


def _is_clear(value: Any, level: int) -> bool:
    """Return whether the gate takes a value that orjson could write; `_walk`, much slower, says what it refuses.

    orjson itself refuses integers beyond ±(2^53-1), lone surrogates, keys that are no strings, and other types.
    """
    parts: list[Iterator[Any]] = [iter((value,))]
    while parts:
        for item in parts[-1]:
            kind = type(item)
            if kind is dict or kind is list or kind is tuple:
                if level + len(parts) - 1 > MAX_DEPTH or (kind is dict and "\x00" in "".join(item)):
                    return False
                if item:
                    parts.append(iter(item.values() if kind is dict else item))
                    break
            elif kind is str:
                if "\x00" in item:
                    return False
            elif kind is float:
                if not math.isfinite(item) or (item == 0.0 and math.copysign(1.0, item) < 0):
                    return False
            elif item is not None and kind is not int and kind is not bool:
                return False
        else:
            parts.pop()
    return True


def _walk(value: Any, path: str, level: int) -> None:
    """Look at every value in turn and raise for the first that the gate refuses."""
    kind = type(value)
    if value is None or kind is bool:
        return
    if kind is str:
        _check_string(value, path)
    elif kind is int:
        if abs(value) > MAX_INT:
            raise InvalidEffectError("an integer beyond ±(2^53-1); send it as a string", path)
    elif kind is float:
        if not math.isfinite(value):
            raise InvalidEffectError("not a finite number", path)
        if value == 0.0 and math.copysign(1.0, value) < 0:
            raise InvalidEffectError("-0.0 does not survive every JSON reader; send 0.0", path)
    elif kind in {dict, list, tuple}:
        if level > MAX_DEPTH:
            raise InvalidEffectError(f"nested deeper than {MAX_DEPTH} levels", path)
        members: Iterable[tuple[str | int, Any]] = _members(value, path) if kind is dict else enumerate(value)
        for key, item in members:
            _walk(item, child(path, key), level + 1)
    elif isinstance(value, Enum):  # orjson writes its value
        _walk(value.value, path, level)
    elif not isinstance(value, UUID):  # orjson writes it as a string
        hint = "; send ISO 8601 text with an offset" if hasattr(value, "isoformat") else ""
        raise InvalidEffectError(f"{kind.__name__} is not a JSON value{hint}", path)


def _members(value: dict[Any, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        if type(key) is not str:  # orjson takes no subclass here either
            raise InvalidEffectError(f"a key that is not a string: {key!r}", path)
        _check_string(key, path, what="a key")
        yield key, item


def _check_string(value: str, path: str, what: str = "a string") -> None:
    if "\x00" in value:
        raise InvalidEffectError(f"{what} with a NUL character", path)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidEffectError(f"{what} with a lone surrogate", path) from None


# -- texts from outside ------------------------------------------------------------------------------------------


def parse_text(text: bytes, *, path: str = "$") -> Any:
    """Parse a JSON text as it arrived, keeping what a common parser drops.

    Raises InvalidEffectError for text that is not UTF-8 or not JSON, for duplicate keys, numbers too long to read and
    nesting that no reader can follow; the rest (NaN, 1e400 read as infinity …) is left to `gate`.
    """
    repeated: list[tuple[dict[str, Any], str]] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            seen: set[str] = set()
            key = next(name for name, _ in items if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            repeated.append((found, key))
        return found

    try:
        decoded = text.decode()
        try:
            # An int spelt -0 is only looked for where the text may have one: the hook costs time for every int.
            value = json.loads(decoded, object_pairs_hook=pairs, parse_int=_bounded_int if "-0" in decoded else None)
        except json.JSONDecodeError:
            raise
        except ValueError:  # an integer with more digits than int() accepts
            value = json.loads(decoded, object_pairs_hook=pairs, parse_int=_bounded_int)
    except UnicodeDecodeError as error:
        raise InvalidEffectError(f"not UTF-8 (byte {error.start})", path) from None
    except json.JSONDecodeError as error:
        raise InvalidEffectError(f"not JSON: {error.msg} at line {error.lineno} column {error.colno}", path) from None
    except RecursionError:
        raise InvalidEffectError(f"nested deeper than {MAX_DEPTH} levels", _path_at_depth(decoded, path)) from None
    if repeated:
        found_path = _find(value, {id(found) for found, _ in repeated}, path)
        key = next(key for found, key in repeated if found_path is None or id(found) == found_path[1])
        raise InvalidEffectError(f"the key {key!r} stands twice", found_path[0] if found_path else path)
    return value


def _bounded_int(digits: str) -> int | float:
    """Read an int. One that the gate refuses anyway (too long, or minus zero) may be read as another one."""
    if digits == "-0":
        return -0.0
    return int(digits) if len(digits) <= 20 else 10**20


def _find(value: Any, wanted: set[int], path: str) -> tuple[str, int] | None:
    """Find the first of the wanted objects inside a parsed value; return its path and id."""
    stack: list[tuple[Any, str]] = [(value, path)]
    while stack:
        item, where = stack.pop()
        if id(item) in wanted:
            return where, id(item)
        if isinstance(item, dict):
            stack.extend((member, child(where, key)) for key, member in reversed(item.items()))
        elif isinstance(item, list):
            stack.extend((element, child(where, index)) for index, element in reversed(list(enumerate(item))))
    return None


_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]')


def _path_at_depth(text: str, path: str) -> str:
    """Return the path at which a text goes below MAX_DEPTH, without recursion."""
    places: list[str | int] = []
    last = ""
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token in "[{":
            if len(places) >= MAX_DEPTH:
                break
            places.append(0 if token == "[" else "")
        elif token in "]}":
            places and places.pop()
        elif token == "," and places and isinstance(places[-1], int):
            places[-1] += 1
        elif token == ":" and places:
            try:
                places[-1] = json.loads(last)
            except ValueError:
                break
        last = token
    for place in places:
        path = child(path, place)
    return path


def check_stored_text(text: bytes) -> dict[str, Any]:
    """Check one line of an export and return its value; the text itself is never rewritten.

    Accepted are the bytes that some version of the profile wrote: exactly those of the value in the profile, except for
    the spelling of a float's exponent (``1e16``, ``1e+16``), which differs between versions of orjson. Raises
    InvalidEffectError.
    """
    try:
        value = orjson.loads(text)
        same = orjson.dumps(value, option=_OPTIONS) == text
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        same, value = False, None
    if not same:
        value = parse_text(text)
        _check_sorted(value, "$")
        if any(space in _STRING.sub(b"", text) for space in (b" ", b"\t", b"\r", b"\n")):
            raise InvalidEffectError("white space between values: not canonical text", "$")
    if not isinstance(value, dict):
        raise InvalidEffectError("not an object", "$")
    if not same or (_needs_a_walk(text, 1) and not _is_clear(value, 1)):
        _walk(value, "$", 1)
    if not same and _TOKENS.sub(_common_spelling, text) != _TOKENS.sub(_common_spelling, canonical_json(value)):
        raise InvalidEffectError("an escape or a number that canonical text spells otherwise: not canonical text", "$")
    return value


_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
#: A string, or a number that is a float.
_TOKENS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)')
#: A float as versions of orjson write it: no superfluous zeros, and before an exponent one digit and a small e.
#: (Python's own spelling, ``1e-07``, is the common one.)
_FLOAT: Final = re.compile(rb"-?(?:(?:0|[1-9][0-9]*)\.(?:0|[0-9]*[1-9])|[1-9](?:\.[0-9]*[1-9])?e[+-]?[1-9][0-9]*)")


def _common_spelling(match: re.Match[bytes]) -> bytes:
    """Return a string as it is, and a float as Python writes it, if the given spelling is the shortest."""
    token = match.group()
    if token.startswith(b'"') or _FLOAT.fullmatch(token) is None:
        return token
    spelt = repr(float(token)).encode()
    return spelt if _digits(token) == _digits(spelt) else token


def _digits(number: bytes) -> bytes:
    """Return the significant digits of a number."""
    return number.lower().split(b"e")[0].replace(b".", b"").lstrip(b"-0").rstrip(b"0")


def _check_sorted(value: Any, path: str) -> None:
    stack: list[tuple[Any, str]] = [(value, path)]
    while stack:
        item, where = stack.pop()
        if isinstance(item, dict):
            keys = list(item)
            if keys != sorted(keys):
                raise InvalidEffectError("keys that are not sorted: not canonical text", where)
            stack.extend((member, child(where, key)) for key, member in item.items())
        elif isinstance(item, list):
            stack.extend((element, child(where, index)) for index, element in enumerate(item))
