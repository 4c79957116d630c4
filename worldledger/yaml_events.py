"""The events of a YAML text, its scalars read strictly: the lower half of `worldledger.strict_yaml`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import CollectionStartEvent, Event, MappingStartEvent, ScalarEvent
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.scanner import Scanner

from worldledger.canonical import MAX_INT

_TAG: Final = "tag:yaml.org,2002:"
_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_KINDS: Final[dict[str, type]] = {"int": int, "float": float, "bool": bool, "null": type(None)}
#: Line breaks to YAML 1.1, and letters to YAML 1.2 and JSON.
_OTHER_BREAK: Final = re.compile("[\x85\u2028\u2029]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
#: Longest text of a number that is read; float() reads one of any length, slowly.
_MOST_DIGITS: Final = 1000


#: A line and a column, from 1 on.
Place: TypeAlias = tuple[int, int]


class RefusedError(ValueError):
    """What is refused of a text, and where."""

    def __init__(self, reason: str, place: Place) -> None:
        super().__init__(reason)
        self.reason = reason
        self.place = place


def decoded(data: bytes) -> str:
    """Decode UTF-8. Raises RefusedError."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise RefusedError("this is UTF-16; a configuration is UTF-8", (1, 1))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[data.rfind(b"\n", 0, error.start) + 1 : error.start].decode()
        place = data.count(b"\n", 0, error.start) + 1, len(before) + 1
        raise RefusedError(f"not UTF-8 (byte 0x{data[error.start]:02x})", place) from None


def place_of(event: Event) -> Place:
    """Tell where the text of an event begins."""
    mark = event.start_mark
    return (1, 1) if mark is None else (mark.line + 1, mark.column + 1)


class _Events(Reader, Scanner, Parser):
    """PyYAML's parser; in flow collections (and so in JSON) tabs count as spaces, as YAML has it."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)

    def scan_to_next_token(self) -> None:
        super().scan_to_next_token()
        while self.flow_level and self.peek() == "\t":
            self.forward()
            super().scan_to_next_token()


def events_of(text: str) -> Iterator[Event]:
    """Return the events of a text. Raises RefusedError where it is no YAML, after the events before."""
    if not text.isascii() and (found := _OTHER_BREAK.search(text)):
        what = f"the character U+{ord(found[0]):04X}, which may be a line break or not: write it as an escape"
        raise RefusedError(what, _place_at(text, found.start()))
    events: _Events | None = None
    try:
        events = _Events(text)
        while events.check_event():
            yield events.get_event()  # type: ignore[no-untyped-call]
    except ReaderError as error:
        what = f"the character U+{ord(text[error.position]):04X} cannot stand in a YAML text"
        raise RefusedError(what, _place_at(text, error.position)) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise RefusedError(_reason(error), (1, 1) if mark is None else (mark.line + 1, mark.column + 1)) from None
    except (YAMLError, ValueError, OverflowError) as error:  # the last two: escapes and versions that are no numbers
        place = (1, 1) if events is None else (events.line + 1, events.column + 1)
        raise RefusedError(f"not YAML: {error}", place) from None


def _place_at(text: str, index: int) -> Place:
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def _reason(error: MarkedYAMLError) -> str:
    if error.problem and "'\\t'" in error.problem:
        return "a tab: YAML is indented and separated by spaces"
    context = f" {error.context}" if error.context else ""
    return f"not YAML:{context}{',' if context else ''} {error.problem}"


def check_tag(event: CollectionStartEvent) -> None:
    """Raise RefusedError for a tag that does not belong to a list or mapping."""
    kind = "map" if isinstance(event, MappingStartEvent) else "seq"
    if event.tag is not None and event.tag != _TAG + kind:
        raise RefusedError(_tag(event.tag), place_of(event))


def read_scalar(event: ScalarEvent) -> Any:
    """Return what a scalar says: None, a bool, an int, a finite float or a string. Raises RefusedError."""
    text, tag = event.value, event.tag
    kind = None if tag is None else tag.removeprefix(_TAG)
    if tag is not None and (not tag.startswith(_TAG) or kind not in {"str", *_KINDS}):
        raise RefusedError(_tag(tag), place_of(event))
    if kind == "str" or (kind is None and not event.implicit[0]):
        return _string(text, place_of(event))
    value = _plain(text, place_of(event))
    if kind == "float" and type(value) is int:
        return float(value)
    if kind is not None and type(value) is not _KINDS[kind]:
        raise RefusedError(f"this is no value of the tag !!{kind}", place_of(event))
    return value


def _plain(text: str, place: Place) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "+-.0123456789":
        is_int = _INT.fullmatch(text) is not None
        if is_int or _FLOAT.fullmatch(text):
            if len(text) > _MOST_DIGITS:
                raise RefusedError("a number of too many digits", place)
            if is_int and abs(int(text)) > MAX_INT:
                raise RefusedError("a whole number beyond ±(2^53-1); write it as a string", place)
            if is_int:
                return int(text)
            number = float(text)
            if math.isinf(number):
                raise RefusedError("a number that is too large", place)
            return number or 0.0
        if _NOT_FINITE.fullmatch(text):
            raise RefusedError("numbers are finite; .nan and .inf are not", place)
    return _string(text, place)


def _string(text: str, place: Place) -> str:
    if "\0" in text:
        raise RefusedError("a string with a NUL character", place)
    if not text.isascii() and _SURROGATE.search(text):
        try:  # JSON writes characters beyond U+FFFF as two escapes
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise RefusedError("a string with a lone surrogate", place) from None
    return text


def _tag(tag: str) -> str:
    shown = f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag
    return f"the tag {shown} is not known here; there are !!str, !!int, !!float, !!bool, !!null, !!map and !!seq"
