"""Splitting a stream of bytes into the games of a PGN file: one at a time, in bounded memory, without knowing chess.

A game ends where the next one begins. The next one begins

- at a tag line, once the moves have begun;
- at an ``Event`` tag, or a tag that the game has already, after a blank line (a game with tags only);
- at a line that starts with a move, after a result (a game without tags);
- at a line that starts with move 1, after a blank line (a game without tags, after one without a result).

A blank line alone ends nothing: in PGN's import format white space means nothing. The content of a comment in braces is
ignored, with one exception: an ``Event`` tag after a blank line. If the next brace after it opens another comment, or
there is none, then the comment was never closed and the game ends before that tag, so that one such game does not
swallow the rest of the file. If the next brace closes the comment, the tag is part of it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, TypeAlias

from worldledger.errors import FileRefusedError

#: A line with its number, and whether its end is missing because it exceeds the limit.
_NumberedLine: TypeAlias = tuple[int, bytes, bool]

CHUNK: Final = 64 * 1024
UTF16_NOTE: Final = "the file is in UTF-16; it was read as that"
NUL_WARNING: Final = "NUL characters were replaced by U+FFFD"

_MOVE_TEXT: Final = (
    rb"(?:[PNBRQK]?[a-h]?[1-8]?[-x:]?[a-h][1-8](?:[=/]?[NBRQKnbrqk])?|[O0o]-[O0o](?:-[O0o])?|[PNBRQK]?@[a-h][1-8]"
    rb"|--|Z0|0000|@@@@)(?:e\.?p\.?)?(?=[\s!?+#$(){};*]|$)"
)
_TAG: Final = re.compile(rb"\s*\[\s*([A-Za-z0-9_][\w+#=:-]*)\s*(?:\"|$)")
_TAG_LIKE: Final = re.compile(rb"\s*\[\s*([A-Za-z0-9_][\w+#=:-]*)(?:\s|\"|$)")  # a malformed one too
_WHOLE_TAGS: Final = re.compile(rb'(?:\s*\[\s*[\w+#=:-]+\s+"(?:\\.|[^"\\])*"\s*\])+')
_RESULT: Final = rb"(?:1 ?[-:] ?0|0 ?[-:] ?1|1/2 ?[-:] ?1/2|\*)\s*$"
_MOVE: Final = re.compile(rb"\s*(?:\d+\s*[.)][.\s]*)?" + _MOVE_TEXT)
_MOVE_ONE: Final = re.compile(rb"\s*1\s*[.)][.\s]*" + _MOVE_TEXT)
_OPENING: Final = re.compile(_MOVE.pattern + rb"|\s*\{|\s*" + _RESULT)
_RESULT_LAST: Final = re.compile(rb"(?:^|[\s)}])" + _RESULT)
_EVENT: Final = re.compile(rb'\s*\[\s*Event\s+"', re.IGNORECASE)
_COMMENT_START: Final = re.compile(rb"[{;]")
_BRACE: Final = re.compile(rb"[{}]")


@dataclass(frozen=True)
class RawGame:
    """The text of one game as it is in the file, or the reason why there is none.

    ``index`` and ``line`` count from 1. Exactly one of ``text`` and ``fault`` is set.
    """

    index: int
    line: int
    text: str | None
    fault: str | None
    warnings: list[str]


def split_games(stream: BinaryIO, *, name: str, max_game_bytes: int) -> Iterator[RawGame]:
    """Yield the games of a file in order, holding at most one game and a chunk.

    Line endings become LF. UTF-8, Windows-1252 and Latin-1 are decided game by game; UTF-16 is recognised by its BOM.
    Raises FileRefusedError (with the file's ``name``) for a file without any tag or move.
    """
    splitter = _Splitter(name, max_game_bytes)
    for line in _lines(_utf8(stream, name, splitter.notes), max_game_bytes):
        raw = splitter.feed(line)
        if raw is not None:
            yield raw
        if splitter.released:
            yield from splitter.again()
    raw = splitter.release()
    if raw is not None:
        yield raw
    yield from splitter.again()
    raw = splitter.finish()
    if raw is not None:
        yield raw


class _Gathering:
    """The game that is being collected, and the lexical state that decides where it ends."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.lines: list[bytes] = []
        self.size = 0
        self.tags: set[bytes] = set()
        self.in_moves = False
        self.has_moves = False  # anything but comments
        self.comment_line: int | None = None  # where the open comment began
        self.depth = 0
        self.ended = False
        self.after_blank = False
        self.fault: str | None = None
        self.warnings: list[str] = []

    def ends_before(self, line: bytes) -> bool:
        """Return whether the next game begins at ``line``."""
        if self.comment_line is not None:
            return False
        if _TAG_LIKE.match(line):
            if self.in_moves:
                return True
            tag = _TAG.match(line)
            return self.after_blank and tag is not None and (tag[1].lower() == b"event" or tag[1] in self.tags)
        if not self.in_moves or self.depth > 0:
            return False
        if self.ended:
            return _MOVE.match(line) is not None
        return self.after_blank and self.has_moves and _MOVE_ONE.match(line) is not None

    def may_be_unclosed(self, line: bytes) -> bool:
        """Return whether ``line`` is the first of another game if the open comment is never closed."""
        return self.comment_line is not None and self.after_blank and _EVENT.match(line) is not None

    def is_never_closed(self) -> None:
        """Note that the open comment is never closed."""
        self.fault = self.fault or f"the comment that line {self.comment_line} opens is never closed"

    def add(self, number: int, line: bytes, cut: bool, limit: int) -> None:
        """Add one line; ``cut``: its end is missing because it exceeds the limit."""
        stripped = line.strip()
        if stripped and self.ended and self.comment_line is None and stripped[:1] not in {b"{", b";", b"%"}:
            if not self.warnings:
                self.warnings.append(f"line {number}: text behind the game was left out")
            return
        self._classify(number, line, stripped)
        self.after_blank = not stripped
        self.size += len(line) + 1
        if cut or self.size > limit:
            self.fault = f"the game is larger than {limit} bytes"
            self.lines.clear()
            if cut:
                self.comment_line = None
                self.in_moves = True
        elif self.fault is None:
            self.lines.append(line)

    def _classify(self, number: int, line: bytes, stripped: bytes) -> None:
        if not stripped or (line[:1] == b"%" and self.comment_line is None):
            return
        if self.in_moves:
            self._scan(number, line)
        elif tag := _TAG.match(line):
            self.tags.add(tag[1])
            whole = _WHOLE_TAGS.match(line)
            rest = line[whole.end() :] if whole else b""
            if _OPENING.match(rest):  # the moves are on the tag's line
                self.in_moves = True
                self._scan(number, rest)
        elif tag := _TAG_LIKE.match(line):
            self.tags.add(tag[1])
        elif stripped[:1] != b";" and (
            self.after_blank or not self.tags or stripped[:1] in {b"{", b"(", b"$", b"*"} or _OPENING.match(line)
        ):
            self.in_moves = True
            self._scan(number, line)

    def _scan(self, number: int, line: bytes) -> None:
        """Follow comments, sidelines and the result through one line of moves."""
        at = 0
        while True:
            if self.comment_line is not None:
                close = line.find(b"}", at)
                if close < 0:
                    return
                self.comment_line = None
                at = close + 1
            start = _COMMENT_START.search(line, at)
            outside = line[at : start.start() if start else len(line)]
            if outside.strip():
                self.has_moves = True
                self.depth = max(0, self.depth + outside.count(b"(") - outside.count(b")"))
                self.ended = self.ended or (self.depth == 0 and _RESULT_LAST.search(outside) is not None)
            if start is None or start[0] == b";":
                return
            self.comment_line = number
            at = start.end()


class _Splitter:
    """Lines in, games out."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._game: _Gathering | None = None
        self._count = 0
        self._stray = 0  # bytes of text outside any game
        self._stray_line: int | None = None
        self._last_line = 0
        # From an Event tag in an open comment on: lines of that comment, or of other games.
        self._held: list[_NumberedLine] = []
        self._held_size = 0
        self.released: list[_NumberedLine] = []  # held lines that belong to other games, to be fed again
        self.notes: list[str] = []  # about the file, reported with its first complete game

    def feed(self, numbered: _NumberedLine) -> RawGame | None:
        number, line, cut = numbered
        line = line.removeprefix(codecs.BOM_UTF8)
        self._last_line = number
        if self._held or (self._game is not None and self._game.may_be_unclosed(line)):
            return self._hold(numbered)
        done = None
        if self._game is None:
            begins = _TAG.match(line) or _OPENING.match(line)
            if begins is None:
                self._pass_over(number, line)
                return None
            self._game = _Gathering(number)
        elif self._game.ends_before(line):
            done = self._take()
            self._game = _Gathering(number)
        self._game.add(number, line, cut, self._limit)
        return done

    def _hold(self, numbered: _NumberedLine) -> RawGame | None:
        """Keep a line until it is known whether the comment is closed. Return the game if it is not."""
        _, line, cut = numbered
        self._held.append(numbered)
        self._held_size += len(line) + 1
        brace = _BRACE.search(line)
        if brace is not None and brace[0] == b"}" and self._game is not None:
            for held in self._held:
                self._game.add(*held, self._limit)
            self._held, self._held_size = [], 0
        elif brace is not None or cut or self._held_size > self._limit:
            return self.release()
        return None

    def release(self) -> RawGame | None:
        """Release the held lines as those of other games, to be fed again. Return the game that ends before them."""
        if not self._held or self._game is None:
            return None
        self._game.is_never_closed()
        self.released, self._held, self._held_size = self._held, [], 0
        return self._take()

    def again(self) -> Iterator[RawGame]:
        """Feed the released lines again; they hold no comment except one that the last of them opens."""
        lines, self.released = self.released, []
        for line in lines:
            raw = self.feed(line)
            if raw is not None:
                yield raw

    def finish(self) -> RawGame | None:
        if self._game is not None and self._game.comment_line is not None:
            self._game.is_never_closed()
        done = self._take()
        if self._count == 0:
            if self._last_line == 0:
                raise FileRefusedError("the file is empty", file=self._name, line=1)
            if self._stray == 0:
                raise FileRefusedError("there is no game in the file, only blank lines", file=self._name, line=1)
            raise FileRefusedError("not a PGN file: no tag and no move in it", file=self._name, line=1)
        return done

    def _pass_over(self, number: int, line: bytes) -> None:
        if line.strip():
            self._stray += len(line) + 1
            self._stray_line = self._stray_line or number
        if self._stray > self._limit:
            raise FileRefusedError(
                f"not a PGN file: no tag and no move in its first {self._limit} bytes", file=self._name, line=1
            )

    def _take(self) -> RawGame | None:
        """End the present game; comments alone, before the first tag, are not a game."""
        game, self._game = self._game, None
        if game is None:
            return None
        if not game.tags and not game.has_moves:
            self._stray += max(game.size, 1)
            self._stray_line = self._stray_line or game.line
            return None
        self._count += 1
        warnings = game.warnings
        if self._stray_line is not None:
            warnings.insert(0, f"line {self._stray_line}: text before the game was left out")
            self._stray_line = None
        if game.fault is not None:
            return RawGame(self._count, game.line, None, game.fault, warnings)
        warnings[:0] = self.notes
        self.notes.clear()
        return RawGame(self._count, game.line, _decode(b"\n".join(game.lines), warnings), None, warnings)


def _decode(data: bytes, warnings: list[str]) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        try:
            text = data.decode("cp1252")
        except UnicodeDecodeError:  # five byte values are not characters
            text = data.decode("latin-1")
    if "\0" in text:
        warnings.append(NUL_WARNING)
        text = text.replace("\0", "\ufffd")
    return text


def _utf8(stream: BinaryIO, name: str, notes: list[str]) -> Iterator[bytes]:
    """Read chunk by chunk; UTF-16, recognised by its BOM, becomes UTF-8, with a note."""
    chunk = stream.read(CHUNK)
    decoder = None
    if chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
        notes.append(UTF16_NOTE)
    first = True
    while chunk:
        data = chunk if decoder is None else decoder.decode(chunk).encode()
        if first and b"\0" in data and not re.search(rb'\[\s*\w+\s+"', data):
            raise FileRefusedError("not a PGN file but binary data", file=name, line=1)
        first = False
        yield data
        chunk = stream.read(CHUNK)
    if decoder is not None:
        yield decoder.decode(b"", final=True).encode()


def _lines(chunks: Iterator[bytes], limit: int) -> Iterator[_NumberedLine]:
    """Yield (number, line without its ending, whether the rest of it was dropped), for any line ending."""
    number = 0
    rest = b""
    dropping = False
    held_cr = False  # a chunk ended in CR, and LF may be next
    for piece in chunks:
        chunk = b"\r" + piece if held_cr else piece
        held_cr = chunk.endswith(b"\r")
        parts = (chunk[:-1] if held_cr else chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for part in parts[:-1]:
            if not dropping:
                number += 1
                line = rest + part
                yield number, line[:limit], len(line) > limit
            rest, dropping = b"", False
        if not dropping:
            rest += parts[-1]
            if len(rest) > limit:
                number += 1
                yield number, rest[:limit], True
                rest, dropping = b"", True
    if rest or (held_cr and not dropping):
        yield number + 1, rest, False
