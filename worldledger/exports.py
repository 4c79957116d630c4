"""Exports: one world's log as a file. Pure; `worldledger.transfer` reads and checks what is written here.

Format ``worldledger-export/1`` (UTF-8, lines end in LF, the last LF may be missing)

- line n is the canonical effect with global_seq n, exactly as it was hashed, from the genesis to the head;
- the last line is the trailer, ``{"trailer":{…}}``, see `Trailer`.

So the file alone says whether it is whole: the chain over the lines must end in the trailer's head_checksum. Which line
was changed, where its text does not show it, is told by the trailer's `Marks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson
from pydantic import BaseModel, ConfigDict, Field

from worldledger.canonical import PROFILE, canonical_json
from worldledger.chain import Finding, Position, StoredEffect, Verifier
from worldledger.repeats import Spill

#: Name of the export's format, with its version; it stands in the trailer.
FORMAT: Final = "worldledger-export/1"
#: How a trailer's line begins, and no effect's.
TRAILER_START: Final = b'{"trailer":'
#: Most bytes of a trailer's line.
MAX_TRAILER: Final = 128 * 1024
#: Most marks in a trailer.
MAX_MARKS: Final = 4096
#: Hex digits of a checksum that make a mark.
MARK_DIGITS: Final = 8


class Marks:
    """The first digits of the checksum at every n-th effect.

    ``every`` is the smallest power of two that keeps the marks few. So it follows from the number of effects alone,
    and a log of up to 4,096 effects has a mark for each line.
    """

    def __init__(self) -> None:
        self.every = 1
        self._seq = 0
        self._marks: list[str] = []

    def add(self, checksum: str) -> None:
        """Take the checksum (hex) of the next effect."""
        self._seq += 1
        if self._seq % self.every == 0:
            self._marks.append(checksum[:MARK_DIGITS])
            if len(self._marks) > MAX_MARKS:
                del self._marks[::2]  # what stays are the marks at even multiples
                self.every *= 2

    def written(self) -> WrittenMarks:
        """Return the marks as they stand in a trailer."""
        return WrittenMarks(every=self.every, checksums="".join(self._marks))

    def first_difference(self, other: WrittenMarks) -> tuple[int, int] | None:
        """Compare with the marks of another log of as many effects.

        Gives the seqs between which, both included, the first difference lies; None where the other marks are none.
        """
        mine = self.written()
        if other.every != mine.every or len(other.checksums) != len(mine.checksums):
            return None
        for index, mark in enumerate(self._marks):
            if other.checksums[index * MARK_DIGITS : (index + 1) * MARK_DIGITS] != mark:
                return index * self.every + 1, (index + 1) * self.every
        after = len(self._marks) * self.every
        return (after + 1, self._seq) if after < self._seq else None


class WrittenMarks(BaseModel):
    """Marks as they stand in a trailer, one behind the other."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    every: int
    checksums: str


class Trailer(BaseModel):
    """Which world an export holds, and where its log ended when it was exported.

    ``count`` (effects) and ``head_seq`` are the same number: an export begins with the genesis. Without ``marks`` a
    file is as safe, but which of its lines was changed can no longer be told.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: str = FORMAT
    profile: str = PROFILE
    world_id: str
    world_uuid: str
    ruleset: str
    count: int
    head_seq: int
    head_checksum: str = Field(pattern=r"^[0-9a-f]{64}$")
    marks: WrittenMarks | None = None

    @property
    def head(self) -> Position:
        """Where the exported log ends."""
        return Position(self.head_seq, bytes.fromhex(self.head_checksum))

    def line(self) -> bytes:
        """Write the trailer's line, without its end."""
        return canonical_json({"trailer": self.model_dump(exclude_none=True)})


class ExportWriter:
    """Turns a world's rows, ascending and batch by batch, into an export.

    On the way the log is held to all that `Verifier` looks at; ``spill`` is handed to it. Whoever lends files closes
    the writer at the end.
    """

    def __init__(self, world_id: str, head: Position, spill: Spill | None = None) -> None:
        self._verifier = Verifier(world_id, spill=spill)
        self._head = head
        self._marks = Marks()
        self._genesis: dict[str, Any] = {}

    def lines(self, rows: Sequence[StoredEffect]) -> bytes:
        """Return the lines of the next rows. Raises TamperedError where the log does not hold."""
        if not self._verifier.feed(rows):
            raise self._finding().error()
        if not self._genesis:
            self._genesis = _payload(rows[0].text)
        for row in rows:
            self._marks.add(row.checksum.hex())
        return b"\n".join([row.text for row in rows]) + b"\n"

    def trailer(self) -> Trailer:
        """Close the export. Raises TamperedError if the log does not end at the head, or has twice what it must not."""
        if not self._verifier.finish(self._head).verified:
            raise self._finding().error()
        return Trailer(
            world_id=self._verifier.world_id,
            world_uuid=str(self._genesis.get("world_uuid")),
            ruleset=str(self._genesis.get("ruleset")),
            count=self._head.global_seq,
            head_seq=self._head.global_seq,
            head_checksum=self._head.checksum.hex(),
            marks=self._marks.written(),
        )

    def close(self) -> None:
        """Return the files that were lent."""
        self._verifier.close()

    def _finding(self) -> Finding:
        return self._verifier.finding or Finding(self._verifier.world_id, 1, "the log cannot be read")


def _payload(text: bytes) -> dict[str, Any]:
    try:
        payload = orjson.loads(text)["payload"]
    except (ValueError, TypeError, KeyError):
        return {}
    return payload if isinstance(payload, dict) else {}
