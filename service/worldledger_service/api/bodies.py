"""Request bodies: read under a limit, and parsed as they arrived."""

from __future__ import annotations

import asyncio
import mmap
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final, TypeAlias

import orjson
from starlette.requests import ClientDisconnect, Request

from worldledger.canonical import child, outside_strings, parse_text
from worldledger.drafts import json_name
from worldledger.errors import EffectTooLargeError, InvalidEffectError
from worldledger_service.api.context import ON_END, services
from worldledger_service.api.problems import (
    BodyTooLargeError,
    InvalidParameterError,
    TooManyValuesError,
    UnsupportedMediaTypeError,
)
from worldledger_service.running import gc_paused

# -- room for large bodies: an allocation of orjson that fails ends the process ----------------------------

#: Bytes of address space that orjson asks for at most, reading or writing: for each byte of a text, and when it writes,
#: for each character and for each value in it.
_PER_BYTE: Final = 140
_PER_CHARACTER: Final = 18
_PER_VALUE: Final = 300


class Room:
    """Shares the process's address space among requests with large bodies."""

    def __init__(self) -> None:
        self._taken = 0
        self._alone = asyncio.Lock()
        self._none = asyncio.Event()
        self._none.set()

    async def take(self, size: int) -> tuple[bool, Callable[[], None]]:
        """Wait for room for a body of ``size`` bytes; return whether it is plenty, and a function that gives it back.

        A body for which there is too little room waits until the others have given theirs back, and is then alone.
        """
        needed = _PER_BYTE * size
        if not self._alone.locked() and _has_room(self._taken + needed):
            self._taken += needed
            self._none.clear()
            return True, partial(self._give_back, needed)
        await self._alone.acquire()
        try:
            await self._none.wait()
            return _has_room(needed), self._alone.release
        except BaseException:
            self._alone.release()
            raise

    def _give_back(self, needed: int) -> None:
        self._taken -= needed
        if not self._taken:
            self._none.set()


def check_room(value: Any) -> None:
    """Raise MemoryError where orjson may find no room for writing a value, or each element where it is a list."""
    if not _has_room(max(needed for needed, _ in _sizes(value))):
        raise MemoryError


def _sizes(value: Any) -> list[tuple[int, int]]:
    """Return `_size` of a value, or of each element where it is a list."""
    return [*map(_size, value)] if type(value) is list and value else [_size(value)]


def _size(value: Any) -> tuple[int, int]:
    """Return how many bytes of address space orjson asks for at most to write a value, and how many it has at least."""
    values = characters = least = 0
    parts = [[value]]
    while parts:
        part = parts.pop()
        values += len(part)
        for item in part:
            kind = type(item)
            if kind is str:
                characters += len(item) if item.isascii() else 4 * len(item)
                least += len(item)
            elif kind is list:
                parts.append(item)
            elif kind is dict:
                parts += [list(item), list(item.values())]
    return _PER_VALUE * values + _PER_CHARACTER * characters, least


def _has_room(size: int) -> bool:
    """Return whether the process could have so much more address space."""
    try:
        mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, OverflowError):
        return False
    return True


#: Bytes of a body that are looked at together, with other threads in between.
_PIECE: Final = 256 * 1024
#: All bytes but quotes and those with which another value begins.
_NO_VALUES: Final = bytes(set(range(256)) - set(b',[{"'))


def _check_values(body: bytes, most: int) -> None:
    """Raise TooManyValuesError for a text with more values than ``most``: orjson lets no other thread in between.

    Counted are commas and opening brackets outside strings.
    """
    if len(body) <= most or body.count(b",") + body.count(b"[") + body.count(b"{") <= most:
        return
    values, is_inside, rest = 0, False, b""
    for at in range(0, len(body), _PIECE):
        outside, is_inside, rest = outside_strings(rest + body[at : at + _PIECE], _NO_VALUES, is_inside=is_inside)
        values += len(outside)
        if values > most:
            raise TooManyValuesError(f"the body has more than {most} values; send it in parts", limit=most)


#: Bodies larger than this are parsed in a thread, so that other requests go on meanwhile.
_LARGE: Final = 1024 * 1024
#: Bodies up to this size need too little memory to be looked at first.
_SMALL: Final = 64 * 1024


#: What of a body is to become effects and is refused as a whole: one value, or a list.
ToBecomeEffects: TypeAlias = Callable[[Any], Any]


async def read_json(request: Request, limit: int, *, effects: ToBecomeEffects | None = None) -> Any:
    """Read and parse a JSON body of at most ``limit`` bytes; ``effects`` returns what of it is to become effects.

    Raises UnsupportedMediaTypeError, BodyTooLargeError (before more than the limit is held), TooManyValuesError and
    InvalidEffectError for what `parse_text` refuses: text that is not UTF-8 or not JSON, and duplicate keys, named by
    their path.
    """
    declared = None
    for name, value in request.scope["headers"]:
        if name == b"content-type":
            declared = value
        elif name == b"content-length":
            if value.isdigit() and int(value) > limit:
                raise _too_large(limit)
        elif name == b"content-encoding" and value.strip().lower() not in {b"", b"identity"}:
            encoding = value.decode("latin-1")
            raise UnsupportedMediaTypeError(
                f"the body's Content-Encoding is {encoding}; send it as it is", content_encoding=encoding
            )
    if declared != b"application/json":
        _check_declared(declared)
    body = await _read(request, limit)
    found = services(request)
    most = found.settings.max_body_values
    if len(body) <= _LARGE:
        _check_values(body, most)
    else:
        await asyncio.to_thread(_check_values, body, most)
    if len(body) <= _SMALL:
        return parse(body)
    plenty, request.scope[ON_END] = await found.room.take(len(body))
    largest = found.settings.max_effect_bytes

    def check(value: Any) -> None:
        if effects is not None and len(body) > largest:
            _check_effects(effects(value), largest)

    if not plenty:
        return await asyncio.to_thread(_parse_short, body, check)
    return parse(body) if len(body) <= _LARGE else await asyncio.to_thread(_parse_large, body, check)


def _parse_large(body: bytes, check: Callable[[Any], None]) -> Any:
    with gc_paused():
        return parse(body, check)


def _parse_short(body: bytes, check: Callable[[Any], None]) -> Any:
    """Parse a body where memory is short. Raises MemoryError where there is too little for orjson to write it again."""
    with gc_paused():
        value = parse_text(body)
    check(value)
    check_room(value)
    return value


def _check_effects(value: Any, largest: int) -> None:
    """Raise EffectTooLargeError for a value that is too large for an effect, before anything is made of it.

    What is made of large texts is made without a pause for other requests.
    """
    for index, (_, least) in enumerate(_sizes(value)):
        if least > largest:
            what = f"the effect has at least {least} bytes; at most {largest}"
            raise EffectTooLargeError(what, "$", index if type(value) is list else None, limit=largest)


def members(value: Any, what: str, required: Collection[str], optional: Collection[str] = ()) -> dict[str, Any]:
    """Return a value back if it is an object of these members. Raises InvalidEffectError."""
    if type(value) is not dict:
        raise InvalidEffectError(f"{what} is an object, not {json_name(value)}")
    for name in required:
        if name not in value:
            raise InvalidEffectError(f"{name} is missing", child("$", name))
    for name in value:
        if name not in required and name not in optional:
            known = ", ".join(sorted({*required, *optional}))
            raise InvalidEffectError(f"unknown field; {what} has {known}", child("$", name))
    return value


def parse(body: bytes, check: Callable[[Any], None] = lambda _: None) -> Any:
    """Parse as `parse_text` does, several times faster where a text is compact and plain.

    A text that orjson gives back unchanged has lost nothing on the way: no second key, no digit, no character.
    Raises what ``check`` raises for the value.
    """
    try:
        value = orjson.loads(body)
        check(value)
        if orjson.dumps(value) == body:
            return value
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        pass
    return parse_text(body)


def _check_declared(value: bytes | None) -> None:
    """Raise UnsupportedMediaTypeError unless a Content-Type says JSON in UTF-8.

    A body of no type is refused too: a web page may send one to any address without asking first.
    """
    if value is None:
        raise UnsupportedMediaTypeError("the body has no Content-Type; send application/json")
    declared = value.decode("latin-1")
    media_type, *parameters = [part.strip().lower() for part in declared.split(";")]
    is_json = media_type == "application/json" or (
        media_type.startswith("application/") and media_type.endswith("+json")
    )
    for parameter in parameters:
        name, _, charset = parameter.partition("=")
        is_json = is_json and (name.strip() != "charset" or charset.strip().strip('"') in {"utf-8", "utf8"})
    if not is_json:
        raise UnsupportedMediaTypeError(
            f"the body is declared as {declared}; send application/json, in UTF-8", content_type=declared
        )


async def _read(request: Request, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(limit: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"the body has more than {limit} bytes", limit=limit)


def idempotency_key(request: Request) -> str | None:
    """Return the Idempotency-Key header's value, or None; with or without the quotes of an RFC 8941 string.

    Raises InvalidParameterError for a header that stands twice, is empty or is not printable ASCII.
    """
    values = request.headers.getlist("idempotency-key")
    if not values:
        return None
    key = values[0]
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = key[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    if len(values) > 1:
        raise InvalidParameterError("Idempotency-Key", "stands more than once", "header")
    if not 0 < len(key) <= 200 or not key.isascii() or not key.isprintable():
        what = "must be 1 to 200 printable ASCII characters; anything else can be sent as the draft's req_id"
        raise InvalidParameterError("Idempotency-Key", what, "header")
    return key
