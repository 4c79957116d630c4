"""Sealing: turning waiting units into the rows that follow a world's head, judged by the state that is kept for it.

A group is what one statement writes to one world. Pure: no I/O, the clock is passed in.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import orjson

from worldledger.canonical import canonical_json
from worldledger.chain import Chain, StoredEffect
from worldledger.drafts import CheckedDraft, PlainDrafts, effect_text
from worldledger.errors import (
    EffectTooLargeError,
    InvalidEffectError,
    SimTimeOrderError,
    SimulationError,
    TimeAuthorityError,
    TimeAuthorityHeldError,
)
from worldledger.folding import Fold
from worldledger.rulesets import Ruleset
from worldledger.time_authority import (
    CLIENT,
    TIME_AUTHORITY_KIND,
    TIME_KINDS,
    TIME_SET_KIND,
    TIME_SILENT_KIND,
    WALL,
    TimeAuthority,
    hand_over,
)
from worldledger.world import WorldState
from worldledger_service.store.records import Head, Receipt
from worldledger_service.store.units import Unit

# -- live states: the states that rulesets decide by, kept in memory while a world is being written -------------
#
# A live state is at a seq that is known to be in the log. While a group is sealed its effects may be folded in before
# they are written, so that a draft is judged after those before it in the group; if the group is then not written, the
# state is discarded and made again from a snapshot.

#: Most confirmed effects that wait to be folded in.
_MOST_EFFECTS_BEHIND = 2000
#: Live states are counted this many times while they grow by their limit.
_COUNTINGS = 64
#: Most bytes of effects that are kept for the next snapshot of a world.
MOST_RECENT_BYTES = 8 * 1024 * 1024


class StateNeededError(Exception):
    """A check needs the state, which is not in memory; settling loads it."""


class LiveState:
    """One world's state in this process, at a seq of its log."""

    __slots__ = ("_behind", "_grown", "_judged", "fold", "provisional", "size")

    def __init__(self, fold: Fold, size: int, grown: Callable[[int], None]) -> None:
        self.fold = fold
        #: bytes, as `worldledger_service.store.snapshots.Forward` counts them
        self.size = size
        self._grown = grown
        #: whether effects are folded in that may not have been written
        self.provisional = False
        self._behind: list[str] = []
        #: bytes of effects that are folded in before they are written
        self._judged = 0

    @property
    def seq(self) -> int:
        """The seq that the state is at, or can be moved to at once."""
        return self.fold.seq + len(self._behind)

    def after(self, seq: int, texts: Sequence[str]) -> WorldState:
        """Return the state after ``texts``, which are to follow ``seq``. Raises StateNeededError if it is not here."""
        fold = self.fold
        if self._behind:
            behind, self._behind = self._behind, []
            self._fold(behind)
        if not seq <= fold.seq <= seq + len(texts):
            raise StateNeededError(f"world {fold.world_id}: the state is at seq {fold.seq}, not {seq + len(texts)}")
        if fold.seq < seq + len(texts):
            self.provisional = True
            texts = texts[fold.seq - seq :]
            self._judged += sum(map(len, texts))
            self._fold(texts)
        return fold.state

    def confirm(self, seq: int, texts: Sequence[str]) -> bool:
        """Note that ``texts`` were written after ``seq``; return False if this state must be dropped."""
        new = texts[max(self.seq - seq, 0) :] if self.seq >= seq else None
        self.provisional = False
        if new is None or self.seq > seq + len(texts) or len(self._behind) + len(new) > _MOST_EFFECTS_BEHIND:
            return False
        self._behind += new
        self.grow(self._judged + sum(map(len, new)))
        self._judged = 0
        return True

    def grow(self, size: int) -> None:
        """Note that effects of this many bytes are folded in, or will be."""
        self.size += size
        self._grown(size)

    def _fold(self, texts: Sequence[str]) -> None:
        for text in texts:
            self.fold.apply(orjson.loads(text))


class LiveStates:
    """The sealers with a live state; the least recently loaded are dropped first: limits of number and bytes.

    Only an upper bound of a state's size is known, because effects replace others in it. So a state that was written to
    for long counts for more than its size; then it is dropped first, and loaded again from its snapshot and the effects
    since.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._sealers: OrderedDict[Sealer, None] = OrderedDict()
        #: bytes since they were counted
        self._more = 0

    def keep(self, sealer: Sealer, fold: Fold, size: int) -> None:
        """Keep a sealer's live state, and drop the oldest ones if there are too many."""
        sealer.live = LiveState(fold, size, self._grown)
        self._sealers[sealer] = None
        self._sealers.move_to_end(sealer)
        while len(self._sealers) > self._most:
            self._let_go()
        self._grown(size)

    def _grown(self, size: int) -> None:
        self._more += size
        if self._more * _COUNTINGS >= self._most_bytes:
            self._more = 0
            there = sum(sealer.live.size for sealer in self._sealers if sealer.live is not None)
            while there > self._most_bytes and len(self._sealers) > 1:
                there -= self._let_go()

    def _let_go(self) -> int:
        """Drop the oldest state; return its size."""
        oldest, _ = self._sealers.popitem(last=False)
        live, oldest.live = oldest.live, None
        return 0 if live is None else live.size


class Recent:
    """The recent effects of this process in a world, for its next snapshot, so that they need not be read again.

    It is valid as long as no other process writes to the world and not too much is collected; then it is ``broken``.
    """

    __slots__ = ("_bytes", "_checksums", "_texts", "broken", "seq")

    def __init__(self, seq: int) -> None:
        #: the seq of the last effect that is here, or that is not needed
        self.seq = seq
        self.broken = False
        self._texts: list[str] = []
        self._checksums: list[bytes] = []
        self._bytes = 0

    def add(self, seq: int, texts: Sequence[str], checksums: Sequence[bytes]) -> None:
        """Add effects that were written after ``seq``."""
        self._bytes += sum(map(len, texts))
        if seq != self.seq or self._bytes > MOST_RECENT_BYTES:
            self.broken = True
            self._texts, self._checksums = [], []
        if not self.broken:
            self._texts += texts
            self._checksums += checksums
            self.seq += len(texts)

    def take(self) -> Callable[[], list[StoredEffect]]:
        """Drain the buffer; return a function that makes rows of it, with the columns that the fold reads."""
        texts, checksums, first = self._texts, self._checksums, self.seq - len(self._texts) + 1
        self._texts, self._checksums, self._bytes = [], [], 0
        return lambda: [
            StoredEffect(seq, text.encode(), checksum, "", "", 0.0)
            for seq, (text, checksum) in enumerate(zip(texts, checksums, strict=True), first)
        ]


# -- groups ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Group:
    """The rows of one write to one world, and the units that wait for them."""

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
    #: the authority over sim_time from here on, if an effect of the group changes it
    authority: TimeAuthority | None = None

    @classmethod
    def of_one(
        cls,
        world_id: str,
        before: Head,
        after: Head,
        text: str,
        receipt: Receipt,
        *,
        given: CheckedDraft,
        decided: CheckedDraft,
    ) -> Group:
        """Make the group of a single effect that was sealed separately. Its unit holds the draft as it was given."""
        kinds, sources = [decided.kind], [decided.source_id]
        group = cls(world_id, before, after, [text], [after.checksum], kinds, sources, [after.sim_time])
        group.units.append((Unit((given,), ()), {0: receipt}))
        return group

    def cut(self, mark: int) -> None:
        """Drop the rows from ``mark`` on."""
        for column in (self.texts, self.checksums, self.kinds, self.sources, self.sim_times):
            del column[mark:]

    def rows(self) -> list[StoredEffect]:
        """Return the rows as they are stored."""
        columns = (self.texts, self.checksums, self.kinds, self.sources, self.sim_times)
        return [
            StoredEffect(seq, text.encode(), checksum, kind, source_id, sim_time)
            for seq, (text, checksum, kind, source_id, sim_time) in enumerate(
                zip(*columns, strict=True), self.before.seq + 1
            )
        ]

    def answer(self) -> None:
        """Answer every caller, after the commit."""
        for unit, written in self.units:
            unit.answer(written)


class Sealer:
    """Turns the waiting units of a world into the rows that follow its head."""

    def __init__(
        self,
        world_id: str,
        authority: TimeAuthority,
        *,
        clock: Callable[[], float],
        new_uuid: Callable[[], str],
        max_effect_bytes: int,
        ruleset: Ruleset | None = None,
    ) -> None:
        self.world_id = world_id
        self.ruleset = ruleset or Ruleset()
        #: the kinds that the ruleset decides about; it is not called for others
        self.checked_kinds = self.ruleset.checked_kinds
        #: the state by which drafts are judged, if it is in memory; see `worldledger_service.store.sealing`
        self.live: LiveState | None = None
        #: recent effects, if snapshots are taken from them
        self.recent: Recent | None = None
        #: the authority over sim_time as of the effect at ``authority_seq``; see `worldledger_service.store.authority`
        self.authority = authority
        self.authority_seq = 0
        self._clock = clock
        self._new_uuid = new_uuid
        self._max_effect_bytes = max_effect_bytes

    def _check_authority(self, draft: CheckedDraft, authority: TimeAuthority, index: int | None) -> None:
        if authority.allows(draft.source_id):
            return
        who = f"the adapter {authority.name!r} alone" if authority.is_adapter else "the wall clock alone"
        path, advice = "$.sim_time", "leave sim_time out"
        if draft.kind == TIME_SET_KIND:  # a tick needs its time, and its adapter the authority
            path, advice = "$.adapter", "PUT …/time-authority (set_sim_time_authority) says who does"
        raise TimeAuthorityError(
            f"world {self.world_id}: {who} sets sim_time, not {draft.source_id!r}; {advice}",
            world_id=self.world_id,
            time_authority=authority.name,
            path=path,
            index=index,
        )

    def check_closing(self, draft: CheckedDraft, authority: TimeAuthority | None) -> None:
        """Raise TimeAuthorityError unless a tick that states no time may be closed by this draft's source.

        The authority over time closes the ticks; if it is not an adapter, any source may.
        """
        authority = self.authority if authority is None else authority
        if authority.is_adapter and not authority.allows(draft.source_id):
            raise TimeAuthorityError(
                f"world {self.world_id}: the adapter {authority.name!r} alone closes ticks, not {draft.source_id!r}",
                world_id=self.world_id,
                time_authority=authority.name,
                path="$.source",
            )

    def seal(
        self, head: Head, units: Sequence[Unit], *, final: bool = False, onto: Group | None = None
    ) -> tuple[Group, list[Unit], list[Unit]]:
        """Write the units' effects after the head, in the promised order; ``onto`` a group in the given order.

        Returns the group, the units that must wait for the next one, because they repeat a request of this one, and the
        refused ones, which take no place. A refusal is ``final``, and is kept in the unit, only if the head is locked
        and the units' requests were looked up: otherwise the head may be outdated, or the request known. Even then it
        depends on what is before it in the group: no caller is told before that is committed.
        """
        wall_time = self.now(head)
        if onto is None and self.live is not None and self.live.provisional:
            self.live = None  # effects folded into it may never have been written
        group = Group(self.world_id, head, head) if onto is None else onto
        later: list[Unit] = []
        refused: list[Unit] = []
        requested: set[tuple[str, str]] = set()
        keys: set[tuple[str, str]] = set()
        if len(units) == 1 or onto is not None:
            ordered = units
        else:
            ordered = sorted(units, key=lambda unit: unit.key(head, self.authority))
        for unit in ordered:
            if unit.future.cancelled():
                continue  # its caller was cancelled before anything was written
            if unit.requests:
                keys = {(request.source_id, request.req_id) for request in unit.requests}
                if not requested.isdisjoint(keys):
                    later.append(unit)
                    continue
            try:
                self._add(group, unit, wall_time)
            except StateNeededError:
                # Under the lock the state was there; it is gone because a unit before this one was refused midway.
                (later if final else refused).append(unit)
            except Exception as error:  # noqa: BLE001 - a judge that fails fails for its own unit
                unit.refusal = error if final else None
                refused.append(unit)
            else:
                if unit.requests:
                    requested |= keys
        return group, later, refused

    def confirm(self, seq: int, texts: Sequence[str], checksums: Sequence[bytes]) -> None:
        """Note that ``texts`` were written after ``seq``, for the live state and the recent effects."""
        if self.live is not None and not self.live.confirm(seq, texts):
            self.live = None
        if self.recent is not None:
            self.recent.add(seq, texts, checksums)

    def confirm_group(self, group: Group) -> None:
        """Note that a group was written."""
        if group.authority is not None:
            self.authority = group.authority
        if self.live is not None or self.recent is not None:
            self.confirm(group.before.seq, group.texts, group.checksums)

    def _add(self, group: Group, unit: Unit, wall_time: float) -> None:
        """Add one unit to the group; after an error the group is as before."""
        mark = len(group.texts)
        seq, checksum, sim_time, _ = group.after
        chain = Chain(checksum)
        written: dict[int, Receipt] = {}
        several = len(unit.drafts) > 1
        authority_before = group.authority
        try:
            for index, given in enumerate(unit.drafts):
                if index in unit.known or (several and unit.aliases and index in unit.aliases):
                    continue
                draft = given
                judge = unit.judges.get(index) if unit.judges else None
                if judge is not None:
                    judge(self._state(group.before.seq, group.texts))
                if given.kind in self.checked_kinds:
                    try:
                        draft = self.decide(given, group.before.seq, group.texts, index if several else None)
                    except InvalidEffectError as error:
                        if (told := getattr(judge, "told", None)) is None:
                            raise
                        raise told(error, self._state(group.before.seq, group.texts)) from error
                seq += 1
                text, uuid, sim_time = self.effect(
                    draft,
                    seq,
                    sim_time=sim_time,
                    wall_time=wall_time,
                    index=index if several else None,
                    authority=group.authority,
                )
                if draft.kind in TIME_KINDS:
                    known = self.authority if group.authority is None else group.authority
                    group.authority = known.after(draft.kind, orjson.loads(text)["payload"], seq)
                checksum = chain.append(text)
                group.texts.append(text.decode())
                group.checksums.append(checksum)
                group.kinds.append(draft.kind)
                group.sources.append(draft.source_id)
                group.sim_times.append(sim_time)
                written[index] = Receipt(seq, uuid, checksum.hex())
        except BaseException:
            if self.live is not None and self.live.provisional and len(group.texts) > mark:
                self.live = None  # it may include effects that are cut off now
            group.cut(mark)
            group.authority = authority_before
            raise
        if written:
            group.after = Head(seq, checksum, sim_time, wall_time)
        for request in unit.requests:
            if request.first in written:
                first, last = written[request.first].global_seq, written[request.last].global_seq
                group.requests.append((request.source_id, request.req_id, request.body_sha256, first, last))
        group.units.append((unit, written))

    def decide(
        self, draft: CheckedDraft, seq: int, texts: Sequence[str] = (), index: int | None = None
    ) -> CheckedDraft:
        """Let the ruleset decide about a draft that is to follow ``texts``, which follow the effect at ``seq``.

        Raises the ruleset's refusal, naming ``index`` if given, and StateNeededError if it needs the state and that is
        not in memory.
        """
        self._check_size(len(draft.payload), index)  # before rulesets read what can only be refused
        state = self._state(seq, texts) if draft.kind in self.ruleset.stateful else None
        try:
            decided = self.ruleset.decide(draft, state)
            return decided if decided is draft else decided.asked_as(draft)
        except InvalidEffectError as error:
            raise (error if index is None else error.at(index)) from None

    def _state(self, seq: int, texts: Sequence[str]) -> WorldState:
        if self.live is None:
            raise StateNeededError(f"world {self.world_id}: the state is not here")
        try:
            return self.live.after(seq, texts)
        except (SimulationError, StateNeededError):
            self.live = None  # it is behind, or was left in the middle of an effect
            raise

    def needs_state(self, units: Iterable[Unit]) -> bool:
        """Return whether the state is needed to decide on these units, by a judge or the ruleset."""
        stateful = self.ruleset.stateful
        return any(unit.judges or (stateful and any(draft.kind in stateful for draft in unit.drafts)) for unit in units)

    def effect(
        self,
        draft: CheckedDraft,
        seq: int,
        *,
        sim_time: float,
        wall_time: float,
        index: int | None = None,
        authority: TimeAuthority | None = None,
    ) -> tuple[bytes, str, float]:
        """Write the effect that a draft becomes at ``seq``, after an effect at ``sim_time``.

        ``authority`` sets sim_time there, if it is not the one of the log. The draft of a WorldTimeAuthoritySet names
        it, with its ``zero``, and with ``force: false`` an adapter that has the authority and is not silent keeps it
        (TimeAuthorityHeldError); the effect has the resulting ``offset``. The report that an authority is silent is
        refused if it has ticked since.

        Returns the canonical bytes, the uuid and the effect's sim_time. Raises TimeAuthorityError, SimTimeOrderError,
        InvalidEffectError (caused_by) and EffectTooLargeError, naming ``index`` if given.
        """
        if authority is None:
            authority = self.authority
        if draft.sim_time is not None:
            sim_time = self._stated_time(draft, draft.sim_time, sim_time, authority, index)
        elif authority.name == WALL:
            now = wall_time + authority.offset
            sim_time = now if now > sim_time else sim_time  # noqa: FURB136 - max() takes twice as long
        if draft.kind == TIME_AUTHORITY_KIND:
            draft = self._with_offset(draft, authority, sim_time, wall_time, index)
        elif draft.kind == TIME_SILENT_KIND and (authority.silence is not None or draft.req_id != authority.silence_id):
            what = f"world {self.world_id}: since then the time authority was heard, or is known to be silent"
            raise TimeAuthorityError(what, world_id=self.world_id, time_authority=authority.name, index=index)
        if draft.caused_by is not None and draft.caused_by >= seq:
            what = f"caused_by names seq {draft.caused_by}, which does not come before this effect (seq {seq})"
            raise InvalidEffectError(what, "$.caused_by", index)
        uuid = self._new_uuid()
        text = effect_text(
            draft, world_id=self.world_id, global_seq=seq, uuid=uuid, sim_time=sim_time, wall_time=wall_time
        )
        self._check_size(len(text), index)
        return text, uuid, sim_time

    def _check_size(self, size: int, index: int | None) -> None:
        if size > (most := self._max_effect_bytes):
            raise EffectTooLargeError(f"the effect has {size} bytes; at most {most}", "$", index, limit=most)

    def plain_effects(
        self, drafts: PlainDrafts, seq: int, *, sim_time: float, wall_time: float, index: int = 0
    ) -> Iterator[tuple[bytes, str, str, float]]:
        """Write the effects that drafts become from ``seq`` on: each one's text, kind, source and sim_time.

        They are those of `effect`, in a part of its time where a draft may state any time. ``index`` is the first
        draft's in its list; see `effect` for the errors.
        """
        if self.authority.name != CLIENT or self.authority.offset:
            for at, draft in enumerate(drafts):
                text, _, sim_time = self.effect(
                    draft, seq + at, sim_time=sim_time, wall_time=wall_time, index=index + at
                )
                yield text, draft.kind, draft.source_id, sim_time
            return
        most = self._max_effect_bytes
        made = drafts.effects(
            world_id=self.world_id, first_seq=seq, new_uuid=self._new_uuid, sim_time=sim_time, wall_time=wall_time
        )
        for at, effect in enumerate(made):
            if effect[3] < sim_time or len(effect[0]) > most:
                draft = next(islice(drafts, at, None))
                self.effect(draft, seq + at, sim_time=sim_time, wall_time=wall_time, index=index + at)  # it says why
            sim_time = effect[3]
            yield effect

    def now(self, head: Head) -> float:
        """Return the wall time of an effect after this head: the clock's, but never before the head's."""
        return max(self._clock(), head.wall_time)

    def _stated_time(
        self, draft: CheckedDraft, own: float, before: float, authority: TimeAuthority, index: int | None
    ) -> float:
        """Return the world's sim_time for a draft that states a time of the authority's own."""
        self._check_authority(draft, authority, index)
        sim_time = authority.sim_time(own)
        if not math.isfinite(sim_time):
            what = f"with the authority's offset of {authority.offset} this is beyond any sim_time"
            raise InvalidEffectError(what, "$.sim_time", index)
        if sim_time < before:
            shifted = f" (with the authority's offset, {sim_time})" if authority.offset else ""
            raise SimTimeOrderError(
                f"world {self.world_id}: sim_time {own}{shifted} is lower than the world's {before}",
                world_id=self.world_id,
                expected_min=authority.own_time(before),
                sim_time=own,
                path="$.sim_time",
                index=index,
            )
        return sim_time

    def _with_offset(
        self, draft: CheckedDraft, before: TimeAuthority, sim_time: float, wall_time: float, index: int | None
    ) -> CheckedDraft:
        """Return the setting of an authority with the offset of its own time from here on."""
        payload = orjson.loads(draft.payload)
        name = payload["authority"]
        if payload.get("force") is False and before.holds_against(name):
            raise TimeAuthorityHeldError(
                f"world {self.world_id}: the adapter {before.name!r} has the time authority and is not silent",
                world_id=self.world_id,
                time_authority=before.name,
                path="$.authority",
                index=index,
            )
        authority = hand_over(name, payload.get("zero"), sim_time=sim_time, wall_time=wall_time)
        return draft.rewritten(canonical_json({"authority": authority.name, "offset": authority.offset}))
