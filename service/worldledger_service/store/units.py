"""Units: the work that waits for a commit. Pure: no I/O.

A unit is the content of one call (a draft, a list, the drafts of one intent); it is written completely or not at all
and keeps its inner order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from worldledger.drafts import CheckedDraft, check_draft, check_req_id, request_digest
from worldledger.effects import order_key
from worldledger.errors import InvalidEffectError, RequestConflictError
from worldledger.time_authority import TimeAuthority
from worldledger.world import WorldState
from worldledger_service.store.records import Head, Receipt

if TYPE_CHECKING:
    from worldledger_service.store.holding import Close

#: Checks the state that a draft would follow, and refuses the draft's whole unit by raising a SimulationError. One with
#: a method ``told(error, state)`` decides what is raised if the ruleset refuses the draft with an error.
Judge: TypeAlias = Callable[[WorldState], None]


class Request(NamedTuple):
    """An idempotency key and the drafts of its unit that it covers, by first and last index."""

    source_id: str
    req_id: str
    body_sha256: bytes
    first: int
    last: int


class Unit:
    """The drafts of one call and the future that its caller waits for."""

    __slots__ = ("aliases", "close", "drafts", "future", "judges", "known", "refusal", "requests", "size")

    def __init__(
        self, drafts: Sequence[CheckedDraft], requests: Sequence[Request], aliases: Mapping[int, int] | None = None
    ) -> None:
        self.drafts = drafts
        self.requests = requests
        #: draft index -> index of the same request's first draft in this unit
        self.aliases = aliases
        #: draft index -> its judge, which is asked before the ruleset
        self.judges: Mapping[int, Judge] = {}
        #: for the effect of a tick, the closing of that tick: everything that is held for it becomes effects before it
        self.close: Close | None = None
        #: draft index -> receipt, for requests that an earlier call has made already
        self.known: dict[int, Receipt] = {}
        #: why it was last refused: its caller is told once the basis of the refusal is committed
        self.refusal: Exception | None = None
        self.size = len(drafts[0].payload) if len(drafts) == 1 else sum(len(draft.payload) for draft in drafts)
        self.future: asyncio.Future[list[Receipt]] = asyncio.get_running_loop().create_future()

    @classmethod
    def of(cls, drafts: Sequence[Any], *, limit: int, system: bool = False, default_priority: int = 0) -> Unit:
        """Check the drafts of one call, each with a req_id of its own or none.

        ``system`` and ``default_priority``: see `check_draft`. Raises InvalidEffectError naming index and path,
        RequestConflictError for one req_id with two bodies.
        """
        if len(drafts) > limit:
            raise InvalidEffectError(f"{len(drafts)} drafts in one call; at most {limit}", limit=limit)
        if len(drafts) == 1:
            return cls.of_checked(check_draft(drafts[0], system=system, default_priority=default_priority))
        checked = list(check_each(drafts, system=system, default_priority=default_priority))
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
    def of_checked(cls, draft: CheckedDraft) -> Unit:
        """Make the unit of one checked draft."""
        if draft.req_id is None:
            return cls((draft,), ())
        return cls((draft,), (Request(draft.source_id, draft.req_id, draft.body_digest(), 0, 0),))

    @classmethod
    def of_request(
        cls,
        drafts: Sequence[Any],
        *,
        source_id: str,
        req_id: str,
        limit: int,
        system: bool,
        default_priority: int = 0,
    ) -> Unit:
        """Check the drafts that one request makes together; its req_id replaces their own."""
        if len(drafts) > limit:
            raise InvalidEffectError(f"{len(drafts)} drafts in one call; at most {limit}", limit=limit)
        check_req_id(req_id)
        named = [{**draft, "req_id": req_id} if isinstance(draft, Mapping) else draft for draft in drafts]
        unit = cls(list(check_each(named, system=system, default_priority=default_priority)), ())
        if any(draft.source_id != source_id for draft in unit.drafts):
            raise InvalidEffectError("the drafts of one request have its source_id", "$.source_id")
        digest = request_digest([draft.body_digest() for draft in unit.drafts])
        unit.requests = [Request(source_id, req_id, digest, 0, len(drafts) - 1)] if drafts else []
        return unit

    def key(self, head: Head, authority: TimeAuthority) -> tuple[bool, float, int, str]:
        """Return the key by which waiting units are sorted; a unit without a sim_time has the world's.

        Units with a time that the present authority does not let them state come last: they can only be written after
        an effect that gives them the authority.
        """
        first = self.drafts[0]
        sim_time, is_foreign = head.sim_time, False
        if first.sim_time is not None:
            is_foreign = not authority.allows(first.source_id)
            sim_time = first.sim_time if is_foreign else authority.sim_time(first.sim_time)
        return (is_foreign, *order_key(sim_time, first.priority, first.source_id))

    def answer(self, written: Mapping[int, Receipt]) -> None:
        """Resolve the caller's future with the receipt of each draft."""
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
        """Give the caller the reason why nothing of the unit was written (or that this is unknown)."""
        if not self.future.done():
            self.future.set_exception(error)


def check_each(drafts: Iterable[Any], *, system: bool = False, default_priority: int = 0) -> Iterable[CheckedDraft]:
    """Check drafts one by one; a refusal names the draft's index."""
    for index, draft in enumerate(drafts):
        try:
            yield check_draft(draft, system=system, default_priority=default_priority)
        except InvalidEffectError as error:
            raise error.at(index) from None


def have_req_ids(drafts: Sequence[Any]) -> bool:
    """Return whether every draft among these names its request, which then is one effect for ever."""
    return all(isinstance(draft, Mapping) and draft.get("req_id") is not None for draft in drafts)


def conflict(req_id: str, *, index: int | None = None, global_seq: int | None = None) -> RequestConflictError:
    """Make the error for a req_id that is repeated with another body."""
    first = "" if global_seq is None else f" (it made seq {global_seq})"
    return RequestConflictError(
        f"req_id {req_id!r} was used before with another body{first}; use a new req_id for a new request",
        req_id=req_id,
        index=index,
        global_seq=global_seq,
    )
