"""Values of a program as JSON values: what a recording converts, and what it refuses."""

from __future__ import annotations

import base64
import math
from collections import deque
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from pydantic import BaseModel

from worldledger.canonical import MAX_DEPTH, MAX_INT, child
from worldledger.errors import EffectTooLargeError, InvalidEffectError

#: What becomes of a value that cannot be converted: an error with its path, or the text of its ``repr``.
Unknown: TypeAlias = Literal["refuse", "repr"]

#: Longest ``repr`` that stands for a value, in characters.
_MOST_CHARACTERS: Final = 1000
#: Bits of the largest integer that becomes a text in decimal; Python refuses to write much larger ones.
_MOST_BITS: Final = 8192
_NOT_FINITE: Final = {math.inf: "Infinity", -math.inf: "-Infinity"}


def to_plain(
    value: Any,
    told: Callable[[str], object],
    *,
    unknown: Unknown = "refuse",
    path: str = "$",
    level: int = 1,
    most: float = math.inf,
) -> Any:
    """Return a value as one that the write gate accepts (`worldledger.canonical.gate`).

    ``told`` is called with what each conversion did, such as ``numpy.int64 as a value``. Converted are numbers and
    arrays of numpy and what is like them, dates and times, Decimal, dataclasses, models of Pydantic, sets, bytes,
    UUIDs, paths, enums, keys that are no strings, and numbers that JSON does not have. Raises InvalidEffectError with
    the path of any other value, unless ``unknown`` is ``repr``; and EffectTooLargeError with the path of the value
    that makes the JSON larger than ``most`` bytes, before it is converted.
    """
    return _Converter(told, unknown, most).convert(value, path, level)


def too_large(size: int, most: float, path: str) -> EffectTooLargeError:
    """Return the refusal of a value whose JSON has at least ``size`` bytes."""
    what = f"at least {size:,} bytes as JSON; a payload has at most {most:,}: record where it is, or its digest"
    return EffectTooLargeError(what, path)


class _Converter:
    def __init__(self, told: Callable[[str], object], unknown: Unknown, most: float) -> None:
        self._told = told
        self._unknown = unknown
        self._most = most
        #: the bytes that the JSON has at least so far
        self._size = 0
        #: the values that are being converted, each within the one before it, and their paths
        self._within: dict[int, str] = {}

    def convert(self, value: Any, path: str, level: int) -> Any:
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            return self._text(value, path)
        if kind is int or kind is float:
            return self._number(value, path)
        outer = self._within.get(id(value))
        if outer is not None:
            raise InvalidEffectError(f"{type_name(value)} contains itself: it is {outer}", path)
        if level > MAX_DEPTH:
            raise InvalidEffectError(f"nested deeper than {MAX_DEPTH} levels", path)
        self._within[id(value)] = path
        try:
            if kind is dict:
                return self._object(value.items(), path, level)
            if kind is list or kind is tuple:
                return self._list(value, path, level)
            return self._converted(value, path, level)
        finally:
            del self._within[id(value)]

    def _allow(self, size: int, path: str) -> int:
        """Return how many bytes the JSON has at least with so many more. Raises EffectTooLargeError."""
        if self._size + size > self._most:
            raise too_large(self._size + size, self._most, path)
        return self._size + size

    def _converted(self, value: Any, path: str, level: int) -> Any:
        """Return what a value of any other type becomes."""
        self._allow(_least_size(value), path)
        why = "is no JSON value"
        try:
            how, plain = self._of_library(value)
            if how is None:
                how, plain = self._of_program(value)
        except Exception as error:  # noqa: BLE001 - it is code of the value's own, such as that of a tensor elsewhere
            how, why = None, f"cannot be converted ({type(error).__name__}: {error})"
        if how is not None:
            self._told(f"{type_name(value)} as {how}")
            return self.convert(plain, path, level)
        if self._unknown == "repr":
            self._told(f"{type_name(value)} as its repr")
            return self._text(_repr(value), path)
        raise InvalidEffectError(f"{type_name(value)} {why}; convert it, or record with unknown='repr'", path)

    @staticmethod
    def _of_library(value: Any) -> tuple[str | None, Any]:
        """Return how a value of the standard library is written, and that value; (None, None) for others."""
        if isinstance(value, Enum):
            return "its value", value.value
        if isinstance(value, bool | int | float):
            return "a number", int(value) if isinstance(value, int) else float(value)
        if isinstance(value, str):
            return "a text", str.__str__(value)
        if isinstance(value, datetime | date | time):
            return "ISO 8601 text", value.isoformat()
        if isinstance(value, timedelta):
            return "seconds", value.total_seconds()
        if isinstance(value, Decimal | UUID | PurePath):
            return "a text", str(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return "base64", base64.b64encode(value).decode()
        return None, None

    @staticmethod
    def _of_program(value: Any) -> tuple[str | None, Any]:
        """Return the same for what programs and their libraries define."""
        if isinstance(value, BaseModel):
            return "an object", {name: getattr(value, name) for name in type(value).model_fields}
        if is_dataclass(value) and not isinstance(value, type):
            return "an object", {field.name: getattr(value, field.name) for field in fields(value)}
        if hasattr(value, "dtype") and hasattr(value, "tolist"):  # numpy, and arrays that are like its own
            plain = _exact(value).tolist()
            return (
                (None, None) if type(plain) is type(value) else ("a list" if type(plain) is list else "a value", plain)
            )
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            return "an object", dict(value._asdict())
        if isinstance(value, Mapping):
            return "an object", dict(value.items())
        if isinstance(value, AbstractSet):
            return "a sorted list", sorted(value, key=lambda item: (str(type(item)), repr(item)))
        if isinstance(value, list | tuple | deque | range):
            return "a list", list(value)
        return None, None

    def _object(self, items: Collection[tuple[Any, Any]], path: str, level: int) -> dict[str, Any]:
        self._size = self._allow(2 * len(items), path)
        found: dict[str, Any] = {}
        for key, item in items:
            name = key
            if type(key) is not str:
                name = key if isinstance(key, str) else str(key.value if isinstance(key, Enum) else key)
                self._told(f"keys of {type_name(key)} as texts")
            name = self._text(str(name), path)
            if name in found:
                raise InvalidEffectError(f"two keys become {name!r}", path)
            found[name] = self.convert(item, child(path, name), level + 1)
        return found

    def _list(self, items: Collection[Any], path: str, level: int) -> list[Any]:
        self._size = self._allow(2 * len(items), path)
        return [self.convert(item, child(path, at), level + 1) for at, item in enumerate(items)]

    def _number(self, value: float, path: str) -> Any:
        if isinstance(value, int):
            if abs(value) <= MAX_INT:
                return value
            self._told("integers beyond ±(2^53-1) as texts")
            return self._text(str(value) if value.bit_length() <= _MOST_BITS else hex(value), path)
        if not math.isfinite(value):
            self._told("numbers that are not finite as texts")
            return _NOT_FINITE.get(value, "NaN")
        return value + 0.0  # -0.0 is 0.0

    def _text(self, value: str, path: str) -> str:
        self._size = self._allow(len(value), path)
        if "\x00" not in value:
            try:
                value.encode()
            except UnicodeEncodeError:
                pass
            else:
                return value
        if self._unknown != "repr":
            raise InvalidEffectError("a text with a NUL character or a lone surrogate", path)
        self._told("texts that JSON does not carry as their repr")
        return ascii(value)


def _least_size(value: Any) -> int:
    """Return how many bytes of JSON a value has at least, where converting it could take far more memory first."""
    if isinstance(value, bytes | bytearray | memoryview):
        return memoryview(value).nbytes
    if isinstance(value, Collection) and not hasattr(value, "dtype"):
        return 2 * len(value)
    size = getattr(value, "size", 0)  # of arrays their number of elements
    return 2 * size if type(size) is int else 0


def _repr(value: Any) -> str:
    try:
        return repr(value)[:_MOST_CHARACTERS]
    except Exception:  # noqa: BLE001 - it is code of the value's own
        return f"<{type_name(value)}>"


def _exact(value: Any) -> Any:
    """Return an array or a scalar as one whose Python values mean the same: numpy's own times become integers."""
    kind = getattr(value.dtype, "kind", "")
    if kind == "M":
        return value.astype(str)
    return value.astype("timedelta64[us]") if kind == "m" else value


def type_name(value: Any) -> str:
    """Return the name of a value's type, with its module unless that is Python's own."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
