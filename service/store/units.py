"""Units and groups: what waits for a commit, and how it becomes rows. Pure: no I/O, the clock is handed in.

A unit is what one call brought (a draft, a list, the drafts of one intent); it is written whole or not at all and
keeps its inner order. A group is what one statement writes to one world.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from service.store.records import Head, Receipt
from worldledger.drafts import CheckedDraft, check_draft, check_req_id, effect_text
from worldledger.effects import order_key
from worldledger.errors import (
    EffectTooLargeError,
    InvalidEffectError,
    RequestConflictError,
    SimTimeOrderError,
    SimulationError,
    TimeAuthorityError,
)


class Request(NamedTuple):
    """An idempotency key and the drafts of its unit that it covers, by first and last index."""

    source_id: str
    req_id: str
    body_sha256: bytes
    first: int
    last: int


class Unit:
    """The drafts of one call and the future its caller waits on."""

    __slots__ = ("aliases", "drafts", "future", "known", "requests", "size")

    def __init__(
        self, drafts: Sequence[CheckedDraft], requests: Sequence[Request], aliases: Mapping[int, int] | None = None
    ) -> None:
        self.drafts = drafts
        self.requests = requests
        #: draft index -> index of the same request's first draft in this very unit
        self.aliases = aliases
        #: draft index -> receipt, for requests that an earlier call has made already
        self.known: dict[int, Receipt] = {}
        self.size = len(drafts[0].payload) if len(drafts) == 1 else sum(len(draft.payload) for draft in drafts)
        self.future: asyncio.Future[list[Receipt]] = asyncio.get_running_loop().create_future()

    @classmethod
    def of(cls, drafts: Sequence[Any], *, limit: int, system: bool = False) -> Unit:
        """Check the drafts of one call, each with a req_id of its own or none.

        Raises InvalidEffectError naming index and path, RequestConflictError for one req_id with two bodies.
        """
        if len(drafts) > limit:
            raise InvalidEffectError(f"{len(drafts)} drafts in one call; at most {limit}", limit=limit)
        if len(drafts) == 1:
            draft = check_draft(drafts[0], system=system)
            if draft.req_id is None:
                return cls((draft,), ())
            return cls((draft,), (Request(draft.source_id, draft.req_id, draft.body_digest(), 0, 0),))
        checked = list(check_each(drafts, system=system))
        requests: list[Request] = []
        aliases: dict[int, int] = {}
        seen: dict[tuple[str, str], tuple[int, bytes]] = {}
        for index, draft in enumerate(checked):
            if draft.req_id is None:
                continue
            digest = draft.body_digest()
            key = (draft.source_id, draft.req_id)
            first = seen.setdefault(key, (index, digest))
            if first[0] == index:
                requests.append(Request(*key, digest, index, index))
            elif first[1] == digest and checked[first[0]].sim_time == draft.sim_time:
                aliases[index] = first[0]
            else:
                raise conflict(draft.req_id, index=index)
        return cls(checked, requests, aliases or None)

    @classmethod
    def of_request(cls, drafts: Sequence[Any], *, source_id: str, req_id: str, limit: int, system: bool) -> Unit:
        """Check the drafts that one request makes together; its req_id takes the place of their own."""
        if len(drafts) > limit:
            raise InvalidEffectError(f"{len(drafts)} drafts in one call; at most {limit}", limit=limit)
        check_req_id(req_id)
        unit = cls(list(check_each(drafts, system=system)), ())
        unit.drafts = [draft._replace(req_id=req_id) for draft in unit.drafts]
        if any(draft.source_id != source_id for draft in unit.drafts):
            raise InvalidEffectError("the drafts of one request have its source_id", "$.source_id")
        digest = request_digest([draft.body_digest() for draft in unit.drafts])
        unit.requests = [Request(source_id, req_id, digest, 0, len(drafts) - 1)] if drafts else []
        return unit

    def key(self, head: Head) -> tuple[float, int, str]:
        """Give the key by which waiting units are sorted; a unit without a sim_time has the world's."""
        first = self.drafts[0]
        return order_key(head.sim_time if first.sim_time is None else first.sim_time, first.priority, first.source_id)

    def answer(self, written: Mapping[int, Receipt]) -> None:
        """Tell the caller what became of each draft."""
        if self.future.done():
            return
        if not self.known and self.aliases is None:
            self.future.set_result(list(written.values()))
            return
        receipts = {**written, **self.known}
        for index, first in (self.aliases or {}).items():
            receipts[index] = receipts[first]._replace(replayed=True)
        self.future.set_result([receipts[index] for index in range(len(self.drafts))])

    def fail(self, error: BaseException) -> None:
        """Tell the caller why nothing of the unit was written (or that it is not known)."""
        if not self.future.done():
            self.future.set_exception(error)


def request_digest(digests: Sequence[bytes]) -> bytes:
    """Give the body digest of a request from the digests of its drafts (of one draft: that digest)."""
    return digests[0] if len(digests) == 1 else sha256(b"".join(digests)).digest()


def check_each(drafts: Iterable[Any], *, system: bool = False) -> Iterable[CheckedDraft]:
    """Check drafts one by one; a refusal names the draft's index."""
    for index, draft in enumerate(drafts):
        try:
            yield check_draft(draft, system=system)
        except InvalidEffectError as error:
            raise error.at(index) from None


def conflict(req_id: str, *, index: int | None = None, global_seq: int | None = None) -> RequestConflictError:
    """Make the error for a req_id that comes back with another body."""
    first = "" if global_seq is None else f" (it made seq {global_seq})"
    return RequestConflictError(
        f"req_id {req_id!r} was used before with another body{first}; use a new req_id for a new request",
        req_id=req_id,
        index=index,
        global_seq=global_seq,
    )


@dataclass(slots=True)
class Group:
    """The rows of one write to one world, and who waits for them."""

    world_id: str
    before: Head
    after: Head
    texts: list[str] = field(default_factory=list)
    checksums: list[bytes] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    sim_times: list[float] = field(default_factory=list)
    requests: list[tuple[str, str, bytes, int, int]] = field(default_factory=list)
    units: list[tuple[Unit, dict[int, Receipt]]] = field(default_factory=list)

    def cut(self, mark: int) -> None:
        """Drop the rows from ``mark`` on."""
        for column in (self.texts, self.checksums, self.kinds, self.sources, self.sim_times):
            del column[mark:]

    def answer(self) -> None:
        """Tell every caller, after the commit."""
        for unit, written in self.units:
            unit.answer(written)


class Sealer:
    """Turns the waiting units of a world into the rows that follow its head."""

    def __init__(
        self,
        world_id: str,
        authority: str,
        *,
        clock: Callable[[], float],
        new_uuid: Callable[[], str],
        max_effect_bytes: int,
    ) -> None:
        self.world_id = world_id
        self.authority = authority
        self._clock = clock
        self._new_uuid = new_uuid
        self._max_effect_bytes = max_effect_bytes

    def check_authority(self, draft: CheckedDraft, index: int | None = None) -> None:
        """Raise TimeAuthorityError if this draft may not set sim_time in this world."""
        if draft.sim_time is None or self.authority == "client":
            return
        if self.authority != "wall" and draft.source_id == self.authority:
            return
        who = "the wall clock alone" if self.authority == "wall" else f"the adapter {self.authority!r} alone"
        raise TimeAuthorityError(
            f"world {self.world_id}: {who} sets sim_time, not {draft.source_id!r}; leave sim_time out",
            world_id=self.world_id,
            time_authority=self.authority,
            path="$.sim_time",
            index=index,
        )

    def seal(self, head: Head, units: Sequence[Unit], *, final: bool = False) -> tuple[Group, list[Unit], list[Unit]]:
        """Write the units' effects after the head, in the promised order.

        Gives the group, the units that must wait for the next one, because they repeat a request of this one, and
        those that are refused; these take no place. A refusal is ``final``, and told at once, only when the head is
        locked and the units' requests were looked up: else the head may be an old one, or the request known.
        """
        wall_time = self.now(head)
        group = Group(self.world_id, head, head)
        later: list[Unit] = []
        refused: list[Unit] = []
        requested: set[tuple[str, str]] = set()
        keys: set[tuple[str, str]] = set()
        ordered = units if len(units) == 1 else sorted(units, key=lambda unit: unit.key(head))
        for unit in ordered:
            if unit.future.cancelled():
                continue  # its caller went away before anything was written
            if unit.requests:
                keys = {(request.source_id, request.req_id) for request in unit.requests}
                if not requested.isdisjoint(keys):
                    later.append(unit)
                    continue
            try:
                self._add(group, unit, wall_time)
            except SimulationError as error:
                if final:
                    unit.fail(error)
                else:
                    refused.append(unit)
            else:
                if unit.requests:
                    requested |= keys
        return group, later, refused

    def _add(self, group: Group, unit: Unit, wall_time: float) -> None:
        """Add one unit to the group; on an error the group is as it was."""
        mark = len(group.texts)
        seq, checksum, sim_time, _ = group.after
        prefix = checksum.hex().encode()
        written: dict[int, Receipt] = {}
        several = len(unit.drafts) > 1
        try:
            for index, draft in enumerate(unit.drafts):
                if index in unit.known or (several and unit.aliases and index in unit.aliases):
                    continue
                seq += 1
                text, uuid, sim_time = self.effect(
                    draft, seq, sim_time=sim_time, wall_time=wall_time, index=index if several else None
                )
                digest = sha256(prefix + text)
                checksum = digest.digest()
                hexdigest = digest.hexdigest()
                prefix = hexdigest.encode()
                group.texts.append(text.decode())
                group.checksums.append(checksum)
                group.kinds.append(draft.kind)
                group.sources.append(draft.source_id)
                group.sim_times.append(sim_time)
                written[index] = Receipt(seq, uuid, hexdigest)
        except BaseException:
            group.cut(mark)
            raise
        if written:
            group.after = Head(seq, checksum, sim_time, wall_time)
        for request in unit.requests:
            if request.first in written:
                first, last = written[request.first].global_seq, written[request.last].global_seq
                group.requests.append((request.source_id, request.req_id, request.body_sha256, first, last))
        group.units.append((unit, written))

    def effect(
        self, draft: CheckedDraft, seq: int, *, sim_time: float, wall_time: float, index: int | None = None
    ) -> tuple[bytes, str, float]:
        """Write the effect that a draft becomes at ``seq``, after an effect at ``sim_time``.

        Gives the canonical bytes, the uuid and the effect's sim_time. Raises TimeAuthorityError,
        SimTimeOrderError, InvalidEffectError (caused_by) and EffectTooLargeError, naming ``index`` if given.
        """
        if draft.sim_time is not None:
            self._check_time(draft, sim_time, index)
            sim_time = draft.sim_time
        elif self.authority == "wall":
            sim_time = max(wall_time, sim_time)
        if draft.caused_by is not None and draft.caused_by >= seq:
            what = f"caused_by names seq {draft.caused_by}, which does not come before this effect (seq {seq})"
            raise InvalidEffectError(what, "$.caused_by", index)
        uuid = self._new_uuid()
        text = effect_text(
            draft, world_id=self.world_id, global_seq=seq, uuid=uuid, sim_time=sim_time, wall_time=wall_time
        )
        if len(text) > self._max_effect_bytes:
            what = f"the effect has {len(text)} bytes; at most {self._max_effect_bytes}"
            raise EffectTooLargeError(what, "$", index, limit=self._max_effect_bytes)
        return text, uuid, sim_time

    def now(self, head: Head) -> float:
        """Give the wall time of an effect after this head: the clock's, but never before the head's."""
        return max(self._clock(), head.wall_time)

    def _check_time(self, draft: CheckedDraft, sim_time: float, index: int | None) -> None:
        self.check_authority(draft, index)
        if draft.sim_time is not None and draft.sim_time < sim_time:
            raise SimTimeOrderError(
                f"world {self.world_id}: sim_time {draft.sim_time} is lower than the world's {sim_time}",
                world_id=self.world_id,
                expected_min=sim_time,
                sim_time=draft.sim_time,
                path="$.sim_time",
                index=index,
            )
