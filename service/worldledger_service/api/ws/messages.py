"""The protocol ``worldledger.v1.json``: every frame is one JSON object with a ``type``, of at most 64 KiB.

This file knows how messages are written, not what becomes of them. Messages of the client may have an ``id``, a string
or a number, which the answer repeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from worldledger.canonical import gate
from worldledger.drafts import MAX_WORD
from worldledger.errors import InvalidEffectError
from worldledger_service.api.bodies import members, parse
from worldledger_service.api.problems import InvalidMessageError, encode

SUBPROTOCOL: Final = "worldledger.v1.json"
#: Most bytes of one frame, whichever way it goes.
MAX_BYTES: Final = 65_536

MessageId: TypeAlias = str | int | float | None

#: Messages of clients: the members that a message of this type must have, and those that it may have.
_SHAPES: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "intent": (("type", "intent"), ("id",)),
    "intents": (("type", "intents"), ("atomic", "ordered", "id")),
    "ack": (("type", "view_seq"), ("id",)),
    "generation": (("type", "req_id"), ("context_seq", "staleness_threshold", "about", "model", "id")),
    "cancel": (("type", "req_id"), ("id",)),
    "finished": (("type", "req_id"), ("id",)),
    "tick": (("type", "adapter", "sim_time"), ("id",)),
    "authority": (("type", "authority"), ("zero", "id")),
    "close_tick": (("type", "source"), ("id",)),
    "view": (("type",), ("at_seq", "at", "id")),
    "ping": (("type",), ("id",)),
}
#: The members of a problem that are always kept; the facts beside them may be too many for a frame.
_OF_PROBLEMS: Final = frozenset(
    {"type", "title", "status", "detail", "code", "recovery", "instance", "retry_after_s", "path", "index"}
)


class Message(NamedTuple):
    """A message of the client whose members are those of its type; their values are not looked at yet."""

    type: str
    id: MessageId
    body: dict[str, Any]


class UnreadableError(Exception):
    """A message that cannot be read, and its id where that could be."""

    def __init__(self, error: InvalidMessageError, message_id: MessageId = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.message_id = message_id


def read(text: str) -> Message:
    """Read a message as it arrived: duplicate keys and unknown members are refused. Raises UnreadableError."""
    message_id: MessageId = None
    try:
        value = parse(text.encode())
        if type(value) is not dict:
            members(value, "a message", ())
        message_id = _id(value.get("id"))
        kind = _type(value.get("type"))
        return Message(kind, message_id, members(value, f"a message of type {kind}", *_SHAPES[kind]))
    except InvalidEffectError as error:
        raise UnreadableError(InvalidMessageError(error.reason, error.path), message_id) from None


def _type(value: Any) -> str:
    if type(value) is str and value in _SHAPES:
        return value
    raise InvalidEffectError(f"type is one of {', '.join(_SHAPES)}", "$.type")


def _id(value: Any) -> MessageId:
    kind = type(value)
    if value is None or kind is int or kind is float or (kind is str and len(value) <= MAX_WORD):
        gate(value, path="$.id")
        found: MessageId = value
        return found
    raise InvalidEffectError(f"an id is a number, or a string of at most {MAX_WORD} characters", "$.id")


def write(kind: str, message_id: MessageId = None, /, **body: Any) -> str | None:
    """Write a message to the client; None if it is too large for a frame."""
    message = {"type": kind, **body} if message_id is None else {"type": kind, "id": message_id, **body}
    text = encode(message)
    return text.decode() if len(text) <= MAX_BYTES else None


def write_problem(kind: str, message_id: MessageId, problem: dict[str, Any], /, **body: Any) -> str:
    """Write a message that tells of a problem: where that has too many facts, without them."""
    problem = _shown(problem)
    text = write(kind, message_id, **body, problem=problem)
    if text is None:
        text = write(kind, message_id, **body, problem=_cut(problem))
    assert text is not None  # noqa: S101 - nothing that is kept is long
    return text


def write_results(message_id: MessageId, results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Write the results of a list of intents, in as many messages as it takes.

    Where there are several, each has the index of its ``first`` result, and says whether ``more`` follow.
    """
    results = [_shown(result) for result in results]
    text = write("results", message_id, results=results)
    if text is not None:
        yield text
        return
    room = MAX_BYTES - 1024  # for what stands around the results
    first, size, part = 0, 0, list[dict[str, Any]]()
    for index, result in enumerate(results):
        length = len(encode(result)) + 1
        if length > room:
            result = _cut(result)  # noqa: PLW2901 - what is sent in its place
            length = len(encode(result)) + 1
        if size + length > room:
            yield _part(message_id, part, first, more=True)
            first, size, part = index, 0, []
        size += length
        part.append(result)
    yield _part(message_id, part, first, more=False)


def _part(message_id: MessageId, results: list[dict[str, Any]], first: int, *, more: bool) -> str:
    text = write("results", message_id, results=results, first=first, more=more)
    assert text is not None  # noqa: S101 - it was measured
    return text


def _shown(problem: dict[str, Any]) -> dict[str, Any]:
    """Return a problem without where the world's log ends: an agent is told what it was shown, and nothing beyond."""
    return {name: value for name, value in problem.items() if name != "head_seq"}


def _cut(problem: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in problem.items() if name in _OF_PROBLEMS}
