"""Exports: writing one world's log as a file, and checking such a file. Pure: bytes in, values out.

Format ``worldledger-export/1`` (UTF-8, lines end in LF, the last LF may be missing)

- line n is the canonical effect with global_seq n, exactly as it was hashed, from the genesis to the head;
- the last line is the trailer, ``{"trailer":{…}}``, see `Trailer`.

So the file alone shows whether it is complete: the chain over the lines must end in the trailer's head_checksum. If the
text of a changed line does not show it, the trailer's `Marks` tell which it was.

The file of a fork may have the logs of its ancestors before its own, the oldest first, each up to the fork point and
with a trailer of its own. So every log but the first is a fork's whose genesis names the head of the log before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, NamedTuple

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from worldledger.canonical import PROFILE, canonical_json, check_stored_text
from worldledger.chain import Chain, Finding, Position, StoredEffect, Verifier, told_apart
from worldledger.effects import SERVICE_SOURCE
from worldledger.errors import FileRefusedError, InvalidEffectError, SimulationError
from worldledger.genesis import GENESIS_KIND, NewWorld, recorded_genesis
from worldledger.lineage import Origin, origin_problem
from worldledger.log_rules import (
    FORK_DIGEST_SEQ,
    REQUIRED,
    UsedOnce,
    effect_problem,
    fork_digest_problem,
    order_problem,
)
from worldledger.repeats import Spill
from worldledger.time_authority import TIME_KINDS, WALL, TimeAuthority

#: Name of the export's format, with its version; the trailer has it.
FORMAT: Final = "worldledger-export/1"
#: The beginning of a trailer's line, and of no effect's.
TRAILER_START: Final = b'{"trailer":'
#: Most bytes of a trailer's line.
MAX_TRAILER: Final = 128 * 1024
#: Most marks in a trailer.
MAX_MARKS: Final = 4096
#: Hex digits of a checksum that make a mark.
MARK_DIGITS: Final = 8


class Marks:
    """The first digits of the checksum at every n-th effect.

    ``every`` is the smallest power of two that keeps the marks few, so it follows from the number of effects alone. A
    log of up to 4,096 effects has a mark for each line.
    """

    def __init__(self) -> None:
        self.every = 1
        self._seq = 0
        self._marks: list[str] = []

    def add(self, checksum: str) -> None:
        """Add the checksum (hex) of the next effect."""
        self._seq += 1
        if self._seq % self.every == 0:
            self._marks.append(checksum[:MARK_DIGITS])
            if len(self._marks) > MAX_MARKS:
                del self._marks[::2]  # the marks at even multiples stay
                self.every *= 2

    def written(self) -> WrittenMarks:
        """Return the marks as a trailer holds them."""
        return WrittenMarks(every=self.every, checksums="".join(self._marks))

    def first_difference(self, other: WrittenMarks) -> tuple[int, int] | None:
        """Compare with the marks of another log with as many effects.

        Returns the seqs between which, inclusive, the first difference lies; None if the other marks are invalid.
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
    """Marks as a trailer holds them, joined to one string."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    every: int
    checksums: str


class Trailer(BaseModel):
    """Which world an export holds, and where its log ended when it was exported.

    ``count`` (effects) and ``head_seq`` are the same number: an export begins with the genesis. A file without
    ``marks`` is as safe, but which of its lines was changed can no longer be told.
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
    """Turns a world's rows, ascending and in batches, into an export.

    The log is checked as `Verifier` does; ``spill`` is passed to it. A caller that lends files closes the writer at the
    end.
    """

    def __init__(self, world_id: str, head: Position, spill: Spill | None = None) -> None:
        self._verifier = Verifier(world_id, spill=spill)
        self._head = head
        self._marks = Marks()
        self._genesis: dict[str, Any] = {}

    def lines(self, rows: Sequence[StoredEffect]) -> bytes:
        """Return the lines of the next rows. Raises TamperedError if the log does not hold."""
        if not self._verifier.feed(rows):
            raise self._finding().error()
        if not self._genesis:
            self._genesis = _payload(rows[0].text)
        for row in rows:
            self._marks.add(row.checksum.hex())
        return b"\n".join([row.text for row in rows]) + b"\n"

    def trailer(self) -> Trailer:
        """Finish the export. Raises TamperedError if the log does not end at the head, or has duplicates."""
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


# -- checking an export, line by line: bytes in, values out ---------------------------------------------------------
#
# Each line must be an effect that belongs at its place, the chain over the lines must end in the trailer's
# head_checksum, and the trailer must agree with the genesis. A file that was rewritten together with its trailer can
# only be detected by a head that was noted elsewhere.

#: Most bytes of a line that a check without a limit of its own should read: a genuine export may have large effects.
MAX_LINE: Final = 64 * 1024 * 1024
#: Called with the numbers of effects and bytes checked so far.
Progress = Callable[[int, int], None]

_AFTER_TRAILER: Final = "text after the trailer; there an export ends, or goes on with the log of a fork made there"
_MIB: Final = 1024 * 1024
_STEP: Final = 1000
#: The beginning of an export's first line, whatever else may be wrong with it.
_GENESIS_START: Final = f'{{"global_seq":1,"kind":"{GENESIS_KIND}",'.encode()


@dataclass(frozen=True)
class CheckedExport:
    """The facts about an export in which everything holds.

    ``world`` and ``ruleset_version`` are those of the genesis, ``genesis`` is its stored text; ``sim_time`` and
    ``wall_time`` are those of the last effect, ``authority`` is the authority over sim_time after it; ``longest`` is
    the number of bytes of the longest line, and ``start`` is the byte of the file at which the first one begins.
    """

    trailer: Trailer
    world: NewWorld
    ruleset_version: int
    genesis: bytes
    sim_time: float
    wall_time: float
    authority: TimeAuthority
    longest: int
    start: int = 0


def read_lines(stream: BinaryIO, *, limit: int) -> Iterator[bytes]:
    """Yield the lines with their ends; of a line over ``limit`` bytes only as much as shows its excess."""
    while line := stream.readline(limit + 2):
        yield line


def check_exports(
    stream: BinaryIO,
    *,
    name: str,
    noted: Iterable[Position] = (),
    max_effect_bytes: int = _MIB,
    progress: Progress | None = None,
    spill: Spill | None = None,
) -> list[CheckedExport]:
    """Check a whole export, line by line, in bounded memory: 24 bytes of each effect, less with ``spill`` (`Repeats`).

    Returns the logs of the file: that of the exported world is the last, after those of its ancestors, if it has them.
    ``name`` is the file's name in errors; ``noted`` are positions that were kept earlier, through which the chain of
    the last log must pass. Raises FileRefusedError with the ``line`` (counted from 1) and the reason. It has the detail
    ``unchecked`` if the reason does not speak against the file: it is not an export, is one of another version, or has
    an effect over ``max_effect_bytes``.
    """
    noted = list(noted)
    done: list[CheckedExport] = []
    size = effects = 0
    check = _Check(name, max_effect_bytes, noted, UsedOnce(spill), _After())
    try:
        for line in read_lines(stream, limit=max(max_effect_bytes, MAX_TRAILER)):
            if check.is_complete and line.startswith(_GENESIS_START):
                done.append(check.finish())
                effects += check.seq
                check.close()
                after = _After(done[-1], check.line, size)
                check = _Check(name, max_effect_bytes, noted, UsedOnce(spill), after)
            check.feed(line)
            size += len(line)
            if progress is not None and check.seq % _STEP == 0:
                progress(effects + check.seq, size)
        done.append(check.finish(is_last=True))
    finally:
        check.close()
    if progress is not None:
        progress(effects + check.seq, size)
    return done


class _After(NamedTuple):
    """What is before a log in its file: its parent's log, lines and bytes."""

    log: CheckedExport | None = None
    lines: int = 0
    bytes: int = 0


class _Check:
    """The state of the check of one log: what the next line must continue."""

    def __init__(
        self,
        name: str,
        max_effect_bytes: int,
        noted: Iterable[Position],
        used: UsedOnce,
        after: _After,
    ) -> None:
        self._name = name
        self._used = used
        self._max_effect_bytes = max_effect_bytes
        self._noted: dict[int, list[Position]] = {}
        for position in noted:
            self._noted.setdefault(position.global_seq, []).append(position)
        #: what is wrong with the first noted position that differs
        self._differs: FileRefusedError | None = None
        self._marks = Marks()
        self._after = after
        self._world: NewWorld | None = None
        self._genesis = b""
        self._payload: dict[str, Any] = {}
        self._chain = Chain()
        self._checksum = ""
        self._sim_time = self._wall_time = float("-inf")
        self._authority = TimeAuthority(WALL)
        #: whether an effect of another source than the service was read
        self._has_begun = False
        self._trailer: Trailer | None = None
        self.line = after.lines
        self._longest = 0
        self._ended = True
        self.seq = 0

    @property
    def is_complete(self) -> bool:
        """Whether the log has its trailer."""
        return self._trailer is not None

    def close(self) -> None:
        """Return the files that were lent."""
        self._used.close()

    def feed(self, line: bytes) -> None:
        """Check the next line, with its end."""
        self.line += 1
        self._longest = max(self._longest, len(line))
        if self._trailer is not None:
            raise self._refusal(_AFTER_TRAILER)
        text = line[:-1] if line.endswith(b"\n") else line
        self._ended = text is not line
        if not text.strip():
            raise self._no_export("a blank line")
        if text.endswith(b"\r"):
            raise self._no_export("the line ends in CR LF: the line ends of this file were changed")
        if text.startswith(TRAILER_START):
            self._trailer = self._read_trailer(text)
            return
        if len(text) > self._max_effect_bytes:
            what = f"an effect of more than {self._max_effect_bytes} bytes, the limit here"
            raise self._refusal(f"{what}; raise WORLDLEDGER_MAX_EFFECT_BYTES to allow it", unchecked=True)
        self._read_effect(text)

    def finish(self, *, is_last: bool = False) -> CheckedExport:
        """Finish the check at the end of the log; noted positions are about the last one of the file."""
        if self._trailer is None:
            if self.line == 0:
                self.line = 1
                raise self._no_export("the file is empty")
            raise self._refusal("the file ends here without a trailer: it was truncated")
        again = self._used.finish()
        if again is not None:
            self.line = self._after.lines + again[0]
            raise self._refusal(again[1], seq=again[0])
        if is_last and self._differs is not None:
            raise self._differs
        if is_last and self._noted:
            missing = min(self._noted)
            raise self._refusal(f"the log ends at seq {self.seq}, before the given head {missing}", seq=self.seq)
        assert self._world is not None  # noqa: S101 - a trailer without a genesis was refused
        return CheckedExport(
            trailer=self._trailer,
            world=self._world,
            ruleset_version=self._payload["ruleset_version"],
            genesis=self._genesis,
            sim_time=self._sim_time,
            wall_time=self._wall_time,
            authority=self._authority,
            longest=self._longest,
            start=self._after.bytes,
        )

    # -- effects ---------------------------------------------------------------------------------------------

    def _read_effect(self, text: bytes) -> None:
        try:
            effect = check_stored_text(text)
        except InvalidEffectError as error:
            if self._world is None and not text.startswith(_GENESIS_START):
                raise self._no_export(f"{error.path}: {error.reason}") from None
            if not self._ended:
                raise self._refusal("the file ends in the middle of this line: it was truncated") from None
            raise self._refusal(f"{error.path}: {error.reason}") from None
        if self._world is None:
            self._world = self._read_genesis(effect)
            self._genesis = text
        problem = effect_problem(effect, self.seq + 1, self._world.world_id)
        if problem is None:
            problem = order_problem(effect, self.seq + 1, self._sim_time, self._wall_time, has_begun=self._has_begun)
        if problem is None and self.seq + 1 == FORK_DIGEST_SEQ and self._world.fork_of is not None:
            problem = fork_digest_problem(effect)
        if problem is not None:
            raise self._refusal(problem, seq=self.seq + 1)
        self.seq += 1
        try:
            self._used.take(effect, text, self.seq)
        except ValueError as error:
            raise self._refusal(f"{error}", seq=self.seq) from None
        self._sim_time, self._wall_time = effect["sim_time"], effect["wall_time"]
        self._has_begun = self._has_begun or effect["source_id"] != SERVICE_SOURCE
        if effect["kind"] in TIME_KINDS:
            with suppress(ValueError):  # one that cannot be read changes nothing, as in the fold
                self._authority = self._authority.after(effect["kind"], effect["payload"], self.seq)
        self._checksum = self._chain.append(text).hex()
        self._marks.add(self._checksum)
        for noted in self._noted.pop(self.seq, ()) if self._noted else ():
            if noted.checksum.hex() != self._checksum:
                ours, told = told_apart(self._checksum, noted.checksum.hex())
                what = f"the checksum is {ours}, the given head says {told}"
                self._differs = self._differs or self._refusal(what, seq=self.seq)

    def _read_genesis(self, effect: dict[str, Any]) -> NewWorld:
        """Return the world that the first effect creates."""
        payload = effect.get("payload")
        if effect.get("kind") != GENESIS_KIND or not isinstance(payload, dict):
            what = f"the first line is not the effect {GENESIS_KIND}: this is not the beginning of an export"
            # Only exports are checked here, so a first effect of another kind means that something was removed before
            # it.
            raise self._refusal(what) if effect.keys() >= REQUIRED else self._no_export(what)
        self._payload = payload
        try:
            world = recorded_genesis(effect)
        except SimulationError as error:
            raise self._refusal(error.message, seq=1) from None
        self._authority = TimeAuthority.of_genesis(payload)
        if self._after.log is not None:
            self._follow(self._after.log, effect, world)
        return world

    def _follow(self, parent: CheckedExport, genesis: dict[str, Any], world: NewWorld) -> None:
        """Refuse a log after its parent's unless it is that of a fork made where the parent's ends."""
        before, point = parent.trailer, world.fork_of
        if (
            point is None
            or (point.world_id, point.world_uuid) != (before.world_id, before.world_uuid)
            or (point.global_seq, point.checksum) != (before.head_seq, before.head_checksum)
        ):
            raise self._refusal(_AFTER_TRAILER)
        problem = origin_problem(genesis, world, Origin(parent.world, parent.sim_time, parent.authority))
        if problem is not None:
            raise self._refusal(problem, seq=1)

    # -- the end ---------------------------------------------------------------------------------------------

    def _read_trailer(self, text: bytes) -> Trailer:
        try:
            trailer = Trailer.model_validate(check_stored_text(text)["trailer"])
        except InvalidEffectError as error:
            cut = "" if self._ended else " (the file may have been truncated)"
            raise self._refusal(f"the trailer cannot be read: {error.reason}{cut}") from None
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise self._refusal(f"the trailer cannot be read: {place}: {first['msg']}") from None
        if trailer.format != FORMAT:
            what = f"format {trailer.format!r} is unknown to this version, which reads {FORMAT!r}"
            raise self._refusal(what, unchecked=True)
        if self._world is None:
            raise self._refusal("a trailer without effects")
        self._compare(trailer, {"count": self.seq, "head_seq": self.seq})
        if trailer.head_checksum != self._checksum:
            raise self._changed(trailer)
        world_uuid = self._payload["world_uuid"]
        self._compare(trailer, {"world_id": self._world.world_id, "world_uuid": world_uuid})
        self._compare(trailer, {"ruleset": self._world.ruleset, "profile": PROFILE})
        if trailer.marks is not None and trailer.marks != self._marks.written():
            raise self._refusal("the trailer's marks were changed")
        return trailer

    def _compare(self, trailer: Trailer, expected: dict[str, Any]) -> None:
        for field, value in expected.items():
            if (said := getattr(trailer, field)) != value:
                raise self._refusal(f"the trailer's {field} is {said!r}, the lines before it say {value!r}")

    def _changed(self, trailer: Trailer) -> FileRefusedError:
        """Describe which lines differ from those for which the trailer was written."""
        found = self._marks.first_difference(trailer.marks) if trailer.marks is not None else None
        if found is None:
            ours, told = told_apart(self._checksum, trailer.head_checksum)
            what = f"the checksum over the lines before is {ours}, the trailer says {told}"
            return self._refusal(f"{what}: a line before, or the trailer, was changed")
        first, last = found
        self.line = self._after.lines + first
        if first == last:
            return self._refusal("this line was changed: from here on the checksums differ", seq=first)
        return self._refusal(f"this line or one of those up to line {self._after.lines + last} was changed", seq=first)

    def _no_export(self, reason: str) -> FileRefusedError:
        """Refuse a line that no export has: if it is the first, the file is not an export."""
        if self._world is not None or self._after.log is not None:
            return self._refusal(reason)
        return self._refusal(f"not a worldledger export: {reason}", unchecked=True)

    def _refusal(self, reason: str, *, seq: int | None = None, unchecked: bool | None = None) -> FileRefusedError:
        known = self._world or (None if self._after.log is None else self._after.log.world)
        return FileRefusedError(
            reason,
            file=self._name,
            line=self.line,
            world_id=None if known is None else known.world_id,
            global_seq=seq,
            unchecked=unchecked,
        )
