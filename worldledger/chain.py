"""The checksum chain: making and verifying it. Only hashing and comparing, no I/O.

``checksum = SHA-256(hex(previous checksum) + canonical bytes)``; the first effect has no previous. The five lines of
docs/reference/effects.md, "Checksum", check any export.
"""

from __future__ import annotations

import re
from binascii import hexlify
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.json import Decoder

from worldledger.canonical import canonical_json, check_stored_text
from worldledger.drafts import UnclearRequestError, body_digest, effect_body_digest
from worldledger.effects import SERVICE_SOURCE, is_system_kind
from worldledger.errors import InvalidEffectError, SimulationError, TamperedError, on_one_line
from worldledger.genesis import is_uuid
from worldledger.log_rules import (
    FORK_DIGEST_SEQ,
    UUID_RULE,
    Heard,
    LoggedRequest,
    UsedOnce,
    begins_fork,
    effect_problem,
    fork_digest_problem,
    kind_problem,
    order_problem,
)
from worldledger.repeats import Keys, Spill

#: Characters of a digest that a message shows, if two differ among these.
_SHOWN = 16
#: How the escape of a character begins in a canonical text, and the escape of a NUL character.
_BACKSLASH = 0x5C
_ZERO = b"\\u0000"
#: Bytes of a text that may be nested too deeply for orjson, and its brackets then.
_LONG = 2000
_DEEP = 1000
#: What a number beyond every double has: at least one of these, if digits are written as 0 and E as e (`_SHAPE`).
_DIGITS = b"0" * 200
_EXPONENT = b"0e000"
_SHAPE = bytes.maketrans(b"123456789E", b"000000000e")
#: What can stand before a number in JSON; so a digest in hex, which may look like an exponent, is none.
_BEFORE_A_NUMBER = b":,[- \t\r\n"
_POSITION = re.compile(r"([1-9][0-9]{0,17}):([0-9a-fA-F]{64})\Z")


def link(previous: bytes | None, text: bytes) -> bytes:
    """Return the 32 checksum bytes of an effect's canonical text that follows the previous effect's checksum."""
    return sha256(previous.hex().encode() + text if previous else text).digest()


class Chain:
    """A chain in the making: each text's checksum follows from the one before, which is ``checksum``."""

    __slots__ = ("_prefix", "checksum")

    def __init__(self, checksum: bytes = b"") -> None:
        """Continue after a checksum of 32 bytes; b"" begins a world's chain."""
        self.checksum = checksum
        self._prefix = hexlify(checksum)

    def append(self, text: bytes) -> bytes:
        """Return the 32 checksum bytes of the canonical text that follows."""
        checksum = self.checksum = sha256(self._prefix + text).digest()
        self._prefix = hexlify(checksum)
        return checksum


def chain_checksum(effect: Mapping[str, Any] | bytes, prev_checksum: str | None) -> str:
    """Generate the hash chain checksum as lower-case hex.

    An effect given as a mapping is written in the canonical profile; stored bytes are taken as they are.
    """
    text = effect if isinstance(effect, bytes) else canonical_json(dict(effect))
    return link(bytes.fromhex(prev_checksum) if prev_checksum else None, text).hex()


class Position(NamedTuple):
    """A place in a chain: the effect's global_seq and its checksum (32 bytes; empty at seq 0)."""

    global_seq: int
    checksum: bytes

    @classmethod
    def parse(cls, text: str) -> Position:
        """Read ``SEQ:CHECKSUM`` as `verify` prints it. Raises SimulationError for anything else."""
        match = _POSITION.match(text.strip())
        if match is None:
            raise SimulationError(f"{text!r} is not SEQ:CHECKSUM (a number from 1 on, a colon, 64 hex digits)")
        return cls(int(match[1]), bytes.fromhex(match[2]))

    def __str__(self) -> str:
        return f"{self.global_seq}:{self.checksum.hex()}"


#: Before the first effect.
ORIGIN = Position(0, b"")


class StoredEffect(NamedTuple):
    """One row of the log as it is stored: the canonical bytes, the checksum and the query columns."""

    global_seq: int
    text: bytes
    checksum: bytes
    kind: str
    source_id: str
    sim_time: float


#: The same as a plain tuple.
StoredRow: TypeAlias = tuple[int, bytes, bytes, str, str, float]


class ChainRow(NamedTuple):
    """The columns of a row that the chain alone needs."""

    global_seq: int
    text: bytes
    checksum: bytes


@dataclass(frozen=True)
class Finding:
    """A violation: the world, the first global_seq concerned, and what differs there."""

    world_id: str
    global_seq: int
    what: str

    def error(self) -> TamperedError:
        """Return the finding as an error to raise. A name that no world can have does not break its line."""
        return TamperedError(
            f"world {on_one_line(self.world_id)}, seq {self.global_seq}: {self.what}",
            world_id=self.world_id,
            global_seq=self.global_seq,
            what=self.what,
        )


#: What was done about an ancestor's part of a fork's history: all of it was read; only the fork point was compared,
#: because the caller verifies that world, too; it was left out, because the caller asked for that; the ancestor is not
#: there; something does not hold.
InheritedState: TypeAlias = Literal["verified", "compared", "left out", "missing", "tampered"]


@dataclass(frozen=True)
class Inherited:
    """The outcome for what a fork has from an ancestor: that world's log up to ``until``, the fork point.

    ``effects`` of it were read. ``finding`` is there if it is tampered with; then its ancestors were not looked at.
    """

    world_id: str
    until: Position
    state: InheritedState
    effects: int = 0
    finding: Finding | None = None

    def told(self) -> dict[str, Any]:
        """Return the outcome as a JSON object."""
        finding = self.finding
        return {
            "world_id": self.world_id,
            "until_seq": self.until.global_seq,
            "until_checksum": self.until.checksum.hex(),
            "state": self.state,
            "effects": self.effects,
            "finding": None if finding is None else {"global_seq": finding.global_seq, "what": finding.what},
        }


@dataclass(frozen=True)
class Verdict:
    """The outcome for one world: how far everything holds, how many effects were read, and the finding, if any.

    ``head`` is where the log itself says that it ends; None if it does not say, or was not asked. ``inherited`` is what
    a fork has from its ancestors, the parent first. With ``only_requests`` the log itself holds, and the finding is
    about the table of requests, of which a fork has nothing.
    """

    world_id: str
    position: Position
    effects: int
    finding: Finding | None = None
    head: Position | None = None
    inherited: tuple[Inherited, ...] = ()
    only_requests: bool = False

    @property
    def verified(self) -> bool:
        """True if everything that was to be checked was there and holds."""
        return self.first_finding is None and self.missing is None

    @property
    def first_finding(self) -> Finding | None:
        """The finding in the world's own log, or else in an ancestor's."""
        return self.finding or next((part.finding for part in self.inherited if part.finding is not None), None)

    @property
    def missing(self) -> Inherited | None:
        """The ancestor that is not there, if there is one."""
        return next((part for part in self.inherited if part.state == "missing"), None)


class _Effect(Struct, gc=False, forbid_unknown_fields=True):
    """An effect as far as every one is read: of its values, payload and metadata are only found to be JSON."""

    global_seq: int
    kind: str
    payload: Raw
    priority: int
    req_id: str | None
    schema_version: str
    sim_time: int | float
    source_id: str
    uuid: str
    wall_time: int | float
    world_id: str
    caused_by: int | UnsetType = UNSET
    source_metadata: Raw | UnsetType = UNSET


_read = Decoder(_Effect).decode


class Verifier:
    """Checks one world's rows in ascending order, batch by batch; it can start at any trusted position.

    It checks the chain, the query columns, and what every log obeys (`worldledger.log_rules`): sim_time and wall_time
    never go back, an effect is caused by an earlier one, system kinds come from the service and others not,
    uuids have their form, times are numbers, no text has a NUL character, no uuid and no request occurs twice, and the
    second effect of a fork is the digest of the state that it begins with.

    - ``world_id`` is compared with the one inside each effect.
    - ``heads`` are positions noted earlier (or elsewhere): the chain must pass through each of them. That finds a chain
      that was recomputed from some seq on, or a tail that was cut off together with its head.
    - ``before`` is the stored text of the effect at ``start``; the times of the first row are compared with it.
    - ``has_begun`` says whether an effect up to ``start`` is of another source than the service.
    - ``is_full`` also holds each text to the canonical profile, and each effect to its shape.
    - ``spill`` lends files for what has to be remembered of every effect; without it, 24 bytes of each stay in memory.
    - ``heard`` is called with the requests that follow from the effects, in their order; with ``hears_repeats`` it is
      left to ``heard`` to find requests that occur twice.
    - ``uuids`` takes the keys of the uuids; without it the verifier itself finds uuids that occur twice.

    The verifier stops at its first finding and keeps it; `finish` reports what occurs twice. A caller that lends files
    closes the verifier at the end.
    """

    def __init__(
        self,
        world_id: str,
        *,
        start: Position = ORIGIN,
        heads: Iterable[Position] = (),
        before: bytes | None = None,
        has_begun: bool = False,
        is_full: bool = False,
        spill: Spill | None = None,
        heard: Heard | None = None,
        hears_repeats: bool = False,
        uuids: Keys | None = None,
    ) -> None:
        self.world_id = world_id
        self.position = start
        self.effects = 0
        self.finding: Finding | None = None
        self._heads = sorted(heads, reverse=True)
        self._is_full = is_full
        self._used = UsedOnce(spill, heard, hears_repeats=hears_repeats, uuids=uuids)
        self._sim_time = self._wall_time = float("-inf")
        self._has_begun = has_begun
        #: whether the log is a fork's; known from its genesis to its second effect
        self._is_fork = False
        if before is not None:
            effect = orjson.loads(before)
            self._sim_time, self._wall_time = effect["sim_time"], effect["wall_time"]
            self._is_fork = start.global_seq == FORK_DIGEST_SEQ - 1 and begins_fork(effect)
        for head in [head for head in self._heads if head.global_seq <= start.global_seq]:
            self._heads.remove(head)
            if head.global_seq == start.global_seq and head.checksum != start.checksum:
                self.finding = Finding(world_id, head.global_seq, "the two given positions have different checksums")
            elif head.global_seq < start.global_seq:
                self.finding = Finding(world_id, head.global_seq, "the given head lies before the start of the check")

    def close(self) -> None:
        """Return the files that were lent."""
        self._used.close()

    def feed_chain(self, rows: Iterable[ChainRow | StoredEffect]) -> bool:
        """Check seq and checksum of the rows that follow; False once something does not hold."""
        if self.finding is not None:
            return False
        seq, previous = self.position
        before = seq
        prefix = previous.hex().encode()
        for row in rows:
            seq += 1
            if row[0] != seq:
                return self._stop(seq - 1, previous, before, _gap(seq, row[0]), seq)
            checksum = sha256(prefix + row[1]).digest()
            if checksum != row[2]:
                return self._stop(seq - 1, previous, before, _differs(row[2], checksum), seq)
            previous = checksum
            prefix = hexlify(checksum)
        self.effects += seq - before
        self.position = Position(seq, previous)
        return True

    def feed(self, rows: Sequence[StoredRow]) -> bool:
        """Check the rows that follow, except for what `finish` checks; False once something does not hold."""
        if self.finding is not None:
            return False
        start = self.position
        seq, previous = start
        prefix = hexlify(previous)
        world_id, is_full = self.world_id, self._is_full
        last_sim_time, last_wall_time = self._sim_time, self._wall_time
        has_begun = self._has_begun
        uuids: list[str] = []
        asked: list[LoggedRequest] = []
        unread: list[Raw] = []
        what = None
        for row in rows:
            at, text, stored, kind, source_id, sim_time = row
            checksum = sha256(prefix + text).digest()
            try:
                said = _read(text)
                # Holds for most effects; of the others `_read_closely` says what is wrong, if anything is.
                holds = (
                    checksum == stored
                    and at == seq + 1
                    and said.global_seq == at
                    and said.kind == kind
                    and said.source_id == source_id
                    and said.sim_time == sim_time
                    and said.world_id == world_id
                    and said.wall_time >= last_wall_time
                    and sim_time >= last_sim_time
                    and (said.caused_by is UNSET or 1 <= said.caused_by < at)
                    and (
                        kind_problem(kind, source_id, at) is None
                        if is_system_kind(kind)
                        else source_id != SERVICE_SOURCE or not has_begun
                    )
                    # A NUL character is looked for here, not by a function of the database.
                    and (_BACKSLASH not in text or text.find(_ZERO) < 0)
                    and (text.isascii() or len(text.decode()) > 0)
                    and (len(text) < _LONG or text.count(b"{") + text.count(b"[") < _DEEP)
                    and not is_full
                )
                if not holds or said.req_id is None:
                    pass
                elif said.source_metadata is UNSET and said.caused_by is UNSET:
                    digest = body_digest(kind, said.payload, source_id, said.schema_version, said.priority, None)
                else:
                    digest = effect_body_digest(orjson.loads(text), text)
            except (ValueError, RecursionError, InvalidEffectError):
                holds = False
            if holds:
                uuid, req_id, wall_time = said.uuid, said.req_id, said.wall_time
                unread.append(said.payload)
                if said.source_metadata is not UNSET:
                    unread.append(said.source_metadata)
            else:
                read = self._read_closely(
                    row, Position(seq, previous), last_sim_time, last_wall_time, has_begun=has_begun
                )
                if isinstance(read, str):
                    what = read
                    break
                uuid, req_id, wall_time, digest = read
            if req_id is not None:
                asked.append((source_id, req_id, digest, at, at))
            uuids.append(uuid)
            seq, previous, prefix = at, checksum, hexlify(checksum)
            last_sim_time, last_wall_time = sim_time, wall_time
            has_begun = has_begun or source_id != SERVICE_SOURCE
        self.effects += seq - start.global_seq
        self.position = Position(seq, previous)
        self._sim_time, self._wall_time, self._has_begun = last_sim_time, last_wall_time, has_begun
        if what is not None:
            self.finding = Finding(world_id, seq + 1, what)
        self._used.requests.take(asked)
        self._use(start, rows, uuids)
        if _may_be_infinite(b",".join(unread)):
            self._read_numbers(start, rows)
        if start.global_seq < FORK_DIGEST_SEQ:
            self._begin(start, rows)
        self._pass_heads(start, rows)
        return self.finding is None

    def _read_closely(
        self, row: StoredRow, before: Position, sim_time: float, wall_time: float, *, has_begun: bool
    ) -> tuple[str, str | None, float, bytes] | str:
        """Return what does not hold in a row after this position and these times.

        If everything does, return its uuid, req_id, wall_time and the digest of its request.
        """
        at, text, *_ = row
        if at != before.global_seq + 1:
            return _gap(before.global_seq + 1, at)
        effect = read_row(row, self.world_id, before.checksum)
        if isinstance(effect, str):
            return effect
        try:
            what = order_problem(effect, at, sim_time, wall_time, has_begun=has_begun)
            if what is None and (self._is_full or text.find(_ZERO) >= 0):
                what = effect_problem(check_stored_text(text), at, self.world_id)
            digest = b"" if what or effect["req_id"] is None else effect_body_digest(effect, text)
            return what or (effect["uuid"], effect["req_id"], effect["wall_time"], digest)
        except InvalidEffectError as error:
            return f"{error.path}: {error.reason}"
        except UnclearRequestError as error:
            return f"the stored text is not an effect ({error})"
        except (ValueError, TypeError, KeyError) as error:
            return f"the stored text is not an effect ({type(error).__name__}: {error})"

    def _read_numbers(self, start: Position, rows: Sequence[StoredRow]) -> None:
        """Read good rows once more; stop before the first whose payload has a number that nobody can read."""
        for row in rows[: self.position.global_seq - start.global_seq]:
            try:
                orjson.loads(row[1])
            except ValueError as error:
                what = f"the stored text is not an effect ({type(error).__name__}: {error})"
                self._stop_before(start, rows, row[0], what)
                return

    def _begin(self, start: Position, rows: Sequence[StoredRow]) -> None:
        """Stop before the second effect, if it is among these good rows, of a fork that begins without its digest."""
        for row in rows[: min(FORK_DIGEST_SEQ, self.position.global_seq) - start.global_seq]:
            try:
                effect = orjson.loads(row[1])
            except ValueError as error:
                what = f"the stored text is not an effect ({type(error).__name__}: {error})"
                self._stop_before(start, rows, row[0], what)
                return
            if row[0] < FORK_DIGEST_SEQ:
                self._is_fork = begins_fork(effect)
            elif self._is_fork and (problem := fork_digest_problem(effect)) is not None:
                self._stop_before(start, rows, row[0], problem)

    def _use(self, start: Position, rows: Sequence[StoredRow], uuids: list[str]) -> None:
        """Collect the uuids of good rows; stop before the first bad one."""
        try:
            self._used.take_uuids(uuids, self.position.global_seq)
        except ValueError:
            place = next(at for at, uuid in enumerate(uuids) if not is_uuid(uuid))
            self._stop_before(start, rows, start.global_seq + place + 1, f"$.uuid: {UUID_RULE}")
            self._used.take_uuids(uuids[:place], self.position.global_seq)

    def finish(self, head: Position | None = None) -> Verdict:
        """Finish the check: nothing occurs twice, and the chain ends at ``head`` and has passed the noted heads."""
        self._come_again()
        reached = self.position.global_seq
        if self.finding is None and head is not None and head != self.position:
            if not self.effects and head.global_seq < reached:
                what = f"the log ends at seq {head.global_seq}, before the given start {reached}"
                self.finding = Finding(self.world_id, head.global_seq + 1, what)
            elif head.global_seq == reached:
                told, ours = told_apart(head.checksum.hex(), self.position.checksum.hex())
                what = f"the head's checksum is {told}, the log's is {ours}"
                self.finding = Finding(self.world_id, reached, what)
            else:
                what = f"the head names seq {head.global_seq}, the log ends at seq {reached}"
                self.finding = Finding(self.world_id, min(head.global_seq, reached) + 1, what)
        if self.finding is None and self._heads:
            noted = self._heads[-1]
            what = f"the log ends at seq {reached}, before the given head {noted.global_seq}"
            self.finding = Finding(self.world_id, reached + 1, what)
        return Verdict(self.world_id, self.position, self.effects, self.finding, head)

    def _come_again(self) -> None:
        """Record what occurs twice in the rows before the finding, or in all rows."""
        again = self._used.finish()
        if again is not None and (self.finding is None or again[0] < self.finding.global_seq):
            self.finding = Finding(self.world_id, *again)

    def _pass_heads(self, start: Position, rows: Sequence[StoredRow]) -> None:
        """Compare the noted heads with the good rows: one that differs comes before any finding after it."""
        while self._heads and self._heads[-1].global_seq <= self.position.global_seq:
            noted = self._heads.pop()
            row = rows[noted.global_seq - start.global_seq - 1]
            checksum = row[2]
            if checksum != noted.checksum:
                ours, told = told_apart(checksum.hex(), noted.checksum.hex())
                what = f"the checksum is {ours}, the given head says {told}"
                self._stop_before(start, rows, noted.global_seq, what)

    def _stop_before(self, start: Position, rows: Sequence[StoredRow], seq: int, what: str) -> None:
        """Go back to the row before ``seq``, one of these rows, and record the finding there."""
        self.effects -= self.position.global_seq - (seq - 1)
        place = seq - start.global_seq - 1
        self.position = Position(seq - 1, rows[place - 1][2]) if place else start
        self.finding = Finding(self.world_id, seq, what)

    def _stop(self, seq: int, previous: bytes, before: int, what: str, at: int) -> bool:
        self.effects += seq - before
        self.position = Position(seq, previous)
        self.finding = Finding(self.world_id, at, what)
        return False


def verify(
    world_id: str,
    rows: Iterable[StoredEffect],
    *,
    start: Position = ORIGIN,
    head: Position | None = None,
    noted: Iterable[Position] = (),
    is_full: bool = False,
    spill: Spill | None = None,
    batch: int = 1000,
) -> Verdict:
    """Verify one world's rows from an iterator, ascending, in memory bounded by ``batch`` rows.

    ``head`` is where the log says that it ends, ``noted`` positions that were kept earlier; ``is_full`` and ``spill``
    are those of `Verifier` (without ``spill``, 24 bytes of each effect are remembered besides). The verdict's position
    can be passed as ``start`` of a later call, which then checks only the rows since.
    """
    verifier = Verifier(world_id, start=start, heads=noted, is_full=is_full, spill=spill)
    gathered: list[StoredEffect] = []
    try:
        for row in rows:
            gathered.append(row)
            if len(gathered) >= batch:
                if not verifier.feed(gathered):
                    return verifier.finish()
                gathered.clear()
        verifier.feed(gathered)
        return verifier.finish(head)
    finally:
        verifier.close()


def _gap(expected: int, found: int) -> str:
    if found > expected:
        return f"missing: the next effect in the log is seq {found}"
    return f"seq {found} stands where seq {expected} belongs"


def _differs(stored: bytes | None, computed: bytes) -> str:
    said, ours = told_apart("NULL" if stored is None else stored.hex(), computed.hex())
    return f"checksum differs: stored {said}, computed {ours}"


def told_apart(one: str, other: str) -> tuple[str, str]:
    """Return the beginnings of two digests for a message: 16 characters, or as many as it takes to tell them apart."""
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    shown = max(_SHOWN, same + 1)
    begin, other_begin = (each if len(each) <= shown else f"{each[:shown]}…" for each in (one, other))
    return begin, other_begin


def read_row(row: StoredRow, world_id: str, previous: bytes) -> dict[str, Any] | str:
    """Return the effect of a row that follows a checksum, or what does not hold: its own checksum, a column, the text.

    What it has to do with the rows around it is not looked at.
    """
    _, text, stored, *_ = row
    checksum = link(previous, text)
    if checksum != stored:
        return _differs(stored, checksum)
    try:
        effect: dict[str, Any] = orjson.loads(text)
        return _column_difference(effect, row, world_id) or effect
    except (ValueError, TypeError, KeyError) as error:
        return f"the stored text is not an effect ({type(error).__name__}: {error})"


def _column_difference(effect: Mapping[str, Any], row: StoredRow, world_id: str) -> str | None:
    at, _, _, kind, source_id, sim_time = row
    columns = {
        "world_id": world_id,
        "global_seq": at,
        "kind": kind,
        "source_id": source_id,
        "sim_time": sim_time,
    }
    for name, column in columns.items():
        if effect[name] != column or isinstance(effect[name], bool):
            return f"column {name} is {column!r}, the effect says {effect[name]!r}"
    return None if type(effect["global_seq"]) is int else "the query columns differ from the effect"


def _may_be_infinite(texts: bytes) -> bool:
    """Return whether JSON texts, separated by commas, may have a number beyond every double, which cannot be read."""
    shape = texts.translate(_SHAPE, b"+")
    if shape.find(_DIGITS) >= 0:
        return True
    place = shape.find(_EXPONENT)
    while place >= 0:
        # Fewer than 200 digits stand on each side of a decimal point.
        if shape[max(place - 2 * len(_DIGITS), 0) : place].rstrip(b"0.")[-1:] in _BEFORE_A_NUMBER:
            return True
        place = shape.find(_EXPONENT, place + 1)
    return False
