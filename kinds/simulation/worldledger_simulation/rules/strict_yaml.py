"""YAML, read strictly: nothing is guessed, nothing is dropped, and the position of every value is known.

JSON is read by the same function. The differences from YAML 1.1 as PyYAML's ``safe_load`` reads it:

- numbers, booleans and null are those of JSON, more or less: ``yes``, ``no``, ``on``, ``off``, dates, ``1_000``,
  ``0x1F``, ``010`` and ``12:30`` are strings, ``1e5`` is a number; -0.0 is 0.0
- keys are strings or whole numbers, and none stands twice (``1`` and ``"1"`` are one key)
- no tags but those of YAML's own strings, numbers, booleans, null, lists and mappings; no NaN, no infinities, no
  whole numbers beyond ±(2^53-1), no NUL and no lone surrogates; U+0085, U+2028 and U+2029 as escapes only
- one document, a mapping; of bounded size, depth and number of nodes, the aliases written out

Aliases and merge keys (``<<``) work. An alias of a node around it gives a value that contains itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
)
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.scanner import Scanner

from worldledger.canonical import MAX_INT
from worldledger.errors import Path, Problem
from worldledger_simulation.rules.sections import InvalidSimulationConfigError

# -- the events of a YAML text, its scalars read strictly ---------------------------------------------------------

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
#: Characters that are line breaks in YAML 1.1, and ordinary ones in YAML 1.2 and JSON.
_OTHER_BREAK: Final = re.compile("[\x85\u2028\u2029]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
#: Longest text of a number that is read; float() reads one of any length, slowly.
_MOST_DIGITS: Final = 1000


#: A line and a column, from 1 on.
Place: TypeAlias = tuple[int, int]


class RefusedError(ValueError):
    """The reason why a text is refused, and the place."""

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
    """Return the place where an event begins in the text."""
    mark = event.start_mark
    return (1, 1) if mark is None else (mark.line + 1, mark.column + 1)


class _Events(Reader, Scanner, Parser):
    """PyYAML's parser; in flow collections (and so in JSON) tabs count as spaces, as YAML specifies."""

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
    """Yield the events of a text. Raises RefusedError if it is not YAML, after the events before that."""
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
    except (YAMLError, ValueError, OverflowError) as error:  # the last two: invalid escapes and versions
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
    """Return the value of a scalar: None, a bool, an int, a finite float or a string. Raises RefusedError."""
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


#: Largest text, in bytes; the strings in it may not be longer altogether when the aliases are written out.
MAX_BYTES: Final = 4 * 2**20
#: Deepest nesting, the document itself being level 1.
MAX_DEPTH: Final = 100
#: Most values, the aliases written out; keys are not counted.
MAX_NODES: Final = 100_000
#: Reading stops after this many problems.
MAX_PROBLEMS: Final = 1000

_NAMES: Final = {list: "a list", str: "a string", type(None): "empty", bool: "a boolean"}


class Document:
    """The value of a text, and the places of its parts.

    ``value`` is a dict whose keys are strings, or ints where the text has whole numbers; nodes that aliases share
    are shared, and a node may contain itself.
    """

    def __init__(self, value: dict[str | int, Any], name: str, places: dict[int, dict[str, Place]]) -> None:
        self.value = value
        self.name = name
        self._places = places  # id of a container in value -> member -> place; value keeps the containers alive

    def place(self, path: Sequence[str | int]) -> Place:
        """Return the line and column (from 1 on) at which the member at a path begins: its key, or the item of a list.

        If there is no such member, that is the place of the nearest one around it. Values from an alias or a merge have
        the place of their anchor.
        """
        here: Any = self.value
        found = (1, 1)
        for part in path:
            members = self._places.get(id(here))
            if members is None or str(part) not in members:
                break
            found = members[str(part)]
            if isinstance(here, list):
                here = here[int(part)]
            else:
                here = here[part] if part in here else here[int(part) if isinstance(part, str) else str(part)]
        return found


def parse(data: bytes | str, *, name: str, max_bytes: int = MAX_BYTES) -> Document:
    """Read a YAML or JSON text; ``name`` is what its errors call it.

    Raises InvalidSimulationConfigError: its problems have the name, line and column, and the path if there is one.
    """
    size = len(data) if isinstance(data, bytes) else len(data.encode(errors="surrogatepass"))
    if size > max_bytes:
        raise InvalidSimulationConfigError([Problem((), f"more than {max_bytes} bytes", name)])
    try:
        text = decoded(data) if isinstance(data, bytes) else data
    except RefusedError as error:
        raise InvalidSimulationConfigError([Problem((), error.reason, name, *error.place)]) from None
    return _Builder(text.removeprefix("\ufeff"), name, max_bytes).document()


class _Mark:
    """Stands in place of a key."""


_NO_KEY: Final = _Mark()
_MERGE: Final = _Mark()
#: A key that was refused: its value is read and dropped.
_BAD_KEY: Final = _Mark()


class _Size:
    """The size of a value with its aliases written out; the depth of a scalar is 0."""

    def __init__(self, nodes: int = 1, letters: int = 0, depth: int = 0) -> None:
        self.nodes = nodes
        self.letters = letters
        self.depth = depth


class _Frame:
    """A collection that is being read; ``own`` are its own members, ``merged`` those that come by <<."""

    def __init__(self, container: dict[Any, Any] | list[Any], place: Place, level: int) -> None:
        self.container = container
        self.place = place
        self.level = level
        self.key: Any = _NO_KEY
        self.key_place = place
        self.keys: dict[str | _Mark, Place] = {}
        self.own: dict[str | int, Any] = {}
        self.places: dict[str, Place] = {}
        self.merged: list[dict[Any, Any]] = []
        self.size = _Size(depth=1)
        self.open = True


class _Builder:
    """Builds a value from the parser's events, without recursion."""

    def __init__(self, text: str, name: str, max_letters: int) -> None:
        self._text = text
        self._name = name
        self._max_letters = max_letters
        self._problems: list[Problem] = []
        self._stack: list[_Frame] = []
        self._frames: dict[int, _Frame] = {}  # by id of the container, which the frame keeps alive
        self._anchors: dict[str, Any] = {}
        self._root: Any = None

    def document(self) -> Document:
        """Read the whole text. Raises InvalidSimulationConfigError with all problems, up to where reading ends."""
        try:
            self._read()
        except RefusedError as error:
            self._problems.append(Problem((), error.reason, self._name, *error.place))
        else:
            if not isinstance(self._root, dict):
                what = _NAMES.get(type(self._root), "a number")
                message = f"a configuration is a mapping of names to values, this is {what}"
                self._problems.append(Problem((), message, self._name, 1, 1))
        if self._problems:
            raise InvalidSimulationConfigError(self._problems)
        return Document(self._root, self._name, {key: frame.places for key, frame in self._frames.items()})

    def _read(self) -> None:
        documents = 0
        for event in events_of(self._text):
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise RefusedError("a second document begins here; a configuration is one", place_of(event))
            elif isinstance(event, CollectionStartEvent):
                self._begin(event)
            elif isinstance(event, CollectionEndEvent):
                self._end()
            elif isinstance(event, AliasEvent):
                if event.anchor not in self._anchors:
                    raise RefusedError(f"there is no anchor &{event.anchor} before this alias", place_of(event))
                self._put(self._anchors[event.anchor], place_of(event))
            elif isinstance(event, ScalarEvent):
                self._scalar(event)

    # -- nodes -----------------------------------------------------------------------------------------------

    def _begin(self, event: CollectionStartEvent) -> None:
        container: dict[Any, Any] | list[Any] = {} if isinstance(event, MappingStartEvent) else []
        try:
            check_tag(event)
        except RefusedError as error:
            self._refuse(error.reason, error.place)
        frame = _Frame(container, place_of(event), len(self._stack) + 1)
        self._frames[id(container)] = frame
        if event.anchor is not None:
            self._anchors[event.anchor] = container
        self._stack.append(frame)
        if frame.level > MAX_DEPTH:
            raise RefusedError(f"nested deeper than {MAX_DEPTH} levels", place_of(event))

    def _end(self) -> None:
        frame = self._stack.pop()
        if isinstance(frame.container, dict):
            for merged in frame.merged:
                for key, value in merged.items():
                    if str(key) not in frame.places:  # its own keys take precedence, then those that came first
                        frame.container[key] = value
                        frame.places[str(key)] = self._frames[id(merged)].places[str(key)]
                        self._grow(frame, value, frame.place)
            frame.container.update(frame.own)
        frame.open = False
        self._put(frame.container, frame.place)

    def _scalar(self, event: ScalarEvent) -> None:
        value: Any = None
        if event.value == "<<" and event.implicit[0] and event.tag is None and self._awaits_key():
            value = _MERGE
        else:
            try:
                value = read_scalar(event)
            except RefusedError as error:
                self._refuse(error.reason, error.place)
                value = _BAD_KEY if self._awaits_key() else None
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        self._put(value, place_of(event))

    def _awaits_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1].container, dict) and self._stack[-1].key is _NO_KEY

    # -- putting them together -------------------------------------------------------------------------------

    def _put(self, value: Any, place: Place) -> None:
        """Put a complete node into its place."""
        if not self._stack:
            self._root = value
            return
        frame = self._stack[-1]
        if isinstance(frame.container, list):
            frame.places[str(len(frame.container))] = place
            self._grow(frame, value, place)
            frame.container.append(value)
        elif frame.key is _NO_KEY:
            frame.key, frame.key_place = self._key(frame, value, place), place
        else:
            key, frame.key = frame.key, _NO_KEY
            if key is _MERGE:
                self._merge(frame, value, place)
            elif key is not _BAD_KEY:
                self._grow(frame, value, place, len(str(key)))
                frame.own[key] = value
                frame.places[str(key)] = frame.key_place

    def _key(self, frame: _Frame, value: Any, place: Place) -> Any:
        if value is _BAD_KEY:
            return value
        if isinstance(value, dict | list):
            self._refuse("a key is a string; this is a collection", place)
            return _BAD_KEY
        if value is None or isinstance(value, bool | float):
            kind = "null" if value is None else "a boolean" if isinstance(value, bool) else "a number"
            self._refuse(f"keys are strings, this is {kind}: quote it", place)
            return _BAD_KEY
        name = value if value is _MERGE else str(value)
        if name in frame.keys:
            shown = "<<" if value is _MERGE else name
            hint = "; several mappings are merged as a list" if value is _MERGE else ""
            message = f"the key {shown!r} stands twice, first in line {frame.keys[name][0]}{hint}"
            self._refuse(message, place, () if value is _MERGE else (value,))
            return _BAD_KEY
        frame.keys[name] = place
        return value

    def _merge(self, frame: _Frame, value: Any, place: Place) -> None:
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, dict):
                self._refuse("<< merges a mapping, or a list of mappings", place)
                return
            if self._frames[id(each)].open:
                self._refuse("<< merges a mapping into itself", place)
                return
            frame.merged.append(each)

    def _grow(self, frame: _Frame, value: Any, place: Place, letters: int = 0) -> None:
        """Count a value that a collection gets; an incomplete one (it contains itself) counts as one node."""
        inner = self._frames[id(value)] if isinstance(value, dict | list) else None
        if inner is None:
            size = _Size(letters=len(value) if isinstance(value, str) else 0)
        else:
            size = _Size() if inner.open else inner.size
        whole = frame.size
        whole.nodes += size.nodes
        whole.letters += size.letters + letters
        whole.depth = max(whole.depth, size.depth + 1)
        if whole.nodes > MAX_NODES:
            raise RefusedError(f"more than {MAX_NODES} values, aliases written out", place)
        if whole.letters > self._max_letters:
            raise RefusedError(f"more than {self._max_letters} characters, aliases written out", place)
        if frame.level + size.depth > MAX_DEPTH:
            raise RefusedError(f"nested deeper than {MAX_DEPTH} levels, aliases written out", place)

    def _refuse(self, message: str, place: Place, below: Path = ()) -> None:
        path: Path = ()
        for frame in self._stack:
            if isinstance(frame.container, list):
                path += (len(frame.container),)
            elif not isinstance(frame.key, _Mark):
                path += (frame.key,)
        self._problems.append(Problem(path + below, message, self._name, *place))
        if len(self._problems) == MAX_PROBLEMS:
            raise RefusedError(f"{MAX_PROBLEMS} problems; the rest was not read", place)
