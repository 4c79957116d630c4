"""Ticks: in a world that is ordered by ticks, intents are held until the next one decides all of them together.

Nothing that differs from run to run decides anything: neither when an intent arrived, nor at which process, nor what
else that was doing. Staleness is judged as of the tick before, quotas are those of one tick, and the order is that of
the intents' own fields. So the same intents make the same effects, whatever way they came.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID, uuid4

import orjson
import structlog

from worldledger.aio import Backoff
from worldledger.canonical import canonical_json
from worldledger.errors import (
    AuthoritySilentError,
    CircuitBreakerOpenError,
    DeadlineExceededError,
    InvalidEffectError,
    InvalidIntentError,
    QuotaExceededError,
    SimulationError,
    StaleContextError,
    StoreUnavailableError,
)
from worldledger.intents import Accepted, CheckedIntent, Held, check_intent, checked_draft
from worldledger.remade_errors import remade
from worldledger.time_authority import TIME_SET_KIND
from worldledger_service.runtime.admission import REJECTIONS, IntentJudge, Parts, rejection_draft
from worldledger_service.runtime.sightings import Watch
from worldledger_service.store.holding import (
    Closing,
    HeldAt,
    HeldIntent,
    Key,
    Limits,
    OpenTick,
    OtherTick,
    Planned,
    RefusedAt,
    TickReceipt,
    Wanted,
    whole,
)
from worldledger_service.store.records import Receipt

if TYPE_CHECKING:
    from worldledger.answering import Telling
    from worldledger.config import OrchestratorConfig
    from worldledger.effects import Effect, EffectDraft
    from worldledger_service.runtime.attachments import Attachment
    from worldledger_service.runtime.guarding import StoreGuard
    from worldledger_service.store.holding import Holding
    from worldledger_service.store.units import Judge

#: Seconds that an intent waits for this process to see the tick before its own.
_PATIENCE: Final = 2.0
#: Seconds between two attempts to read what a tick has decided, while the database is away.
_PAUSE: Final = (0.05, 2.0)

#: The outcome of an intent that was to be held.
Answer: TypeAlias = Held | Accepted | SimulationError

log = structlog.get_logger("worldledger.runtime")


class _Waiter:
    """One who waits for what a tick decides of a request that is held for it."""

    __slots__ = ("future", "tick")

    def __init__(self, tick: int) -> None:
        self.future: asyncio.Future[Accepted | SimulationError] = asyncio.get_running_loop().create_future()
        self.tick = tick

    def tell(self, outcome: Accepted | SimulationError) -> None:
        if not self.future.done():
            self.future.set_result(outcome)


class Ticks:
    """Holds the intents of one world, tells those who wait what became of them, and closes its ticks.

    ``held`` is told the agent and req_id of each intent that is held: whatever was to become of it is made.
    """

    def __init__(self, parts: Parts, holding: Holding, guard: StoreGuard, held: Callable[[str, str], object]) -> None:
        config = parts.config
        self._parts = parts
        self._holding = holding
        self._guard = guard
        self._held = held
        self._log = parts.event_log
        self._follower = parts.follower
        self._observing = parts.observing
        self._default_priority = config.default_priority
        self._limits = Limits(config.max_pending, config.max_pending_per_agent)
        self._open: OpenTick | None = None
        #: the error for waiting callers while the time authority is silent
        self._silent: AuthoritySilentError | None = None
        self._waiters: dict[Key, list[_Waiter]] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._closed = False
        self._looking = asyncio.Lock()

    @property
    def waiting(self) -> int:
        """The number of callers that wait for a tick's decision."""
        return sum(map(len, self._waiters.values()))

    # -- holding -------------------------------------------------------------------------------------------

    async def hold(self, value: Mapping[str, Any]) -> Held | Accepted:
        """Hold one intent durably; see `Orchestrator.hold_intent`."""
        (answer,) = await self._hold_all([check_intent(value, default_priority=self._default_priority)])
        if isinstance(answer, SimulationError):
            raise answer
        return answer

    async def submit(self, value: Mapping[str, Any]) -> Accepted:
        """Hold one intent and wait for what its tick decides."""
        answer = await self.hold(value)
        return await self.decision(answer) if isinstance(answer, Held) else answer

    async def decision(self, held: Held) -> Accepted:
        """Wait for what its tick decides of a held intent; raise what it is refused with."""
        outcome = await self._outcome(held)
        if isinstance(outcome, SimulationError):
            raise outcome
        return outcome

    async def hold_each(
        self, values: Sequence[Mapping[str, Any]], *, atomic: bool, ordered: bool
    ) -> list[Held | Accepted | SimulationError]:
        """Hold several intents; return what became of each. ``atomic``: the first that cannot be held is raised."""
        intents, refused = self._checked(values, atomic=atomic)
        answers = await self._hold_all(intents, atomic=atomic, ordered=ordered)
        return _spread(len(values), answers, refused)

    async def submit_each(
        self, values: Sequence[Mapping[str, Any]], *, atomic: bool, ordered: bool
    ) -> list[Accepted | SimulationError]:
        """Hold several intents and wait for what their tick decides of each.

        Of an ``atomic`` list the refusal is raised, which names the ``index``.
        """
        return await self.decisions(await self.hold_each(values, atomic=atomic, ordered=ordered), atomic=atomic)

    async def decisions(self, answers: Sequence[Answer], *, atomic: bool) -> list[Accepted | SimulationError]:
        """Wait for what is decided of each that is held; of an ``atomic`` list the refusal is raised."""
        outcomes = await asyncio.gather(*map(self._outcome, answers))
        if atomic:
            for outcome in outcomes:
                if isinstance(outcome, SimulationError):
                    raise outcome
        return outcomes

    def _checked(
        self, values: Sequence[Mapping[str, Any]], *, atomic: bool
    ) -> tuple[list[CheckedIntent], dict[int, SimulationError]]:
        """Check intents' shapes; return those that are right, and the errors of the others by their index."""
        intents: list[CheckedIntent] = []
        refused: dict[int, SimulationError] = {}
        for index, value in enumerate(values):
            try:
                intents.append(check_intent(value, default_priority=self._default_priority))
            except InvalidEffectError as error:
                if atomic:
                    raise error.at(index) from None
                refused[index] = error
        return intents, refused

    async def _hold_all(
        self, intents: Sequence[CheckedIntent], *, atomic: bool = False, ordered: bool = True
    ) -> list[Answer]:
        """Hold intents for the open tick, those of one list together; return what became of each."""
        list_id = uuid4() if len(intents) > 1 and (atomic or ordered) else None
        with ExitStack() as holding:
            for intent in intents:
                holding.enter_context(self._observing.held(intent.agent_id))
            work = self._hold_now(intents, list_id, atomic=atomic, ordered=ordered)
            answers = await self._guard.write(work, begun=lambda: False)
        for index, (intent, answer) in enumerate(zip(intents, answers, strict=True)):
            if not isinstance(answer, SimulationError):
                self._held(intent.agent_id, intent.req_id)
            elif atomic:
                raise _at(answer, index)
        return answers

    async def _hold_now(
        self, intents: Sequence[CheckedIntent], list_id: UUID | None, *, atomic: bool, ordered: bool
    ) -> list[Answer]:
        answers: dict[int, Answer] = {}
        todo = list(range(len(intents)))
        while todo:
            tick = await self._open_tick()
            wanted: dict[int, Wanted] = {}
            for index in todo:
                try:
                    placed, refused = await self._place(intents[index], tick)
                except (StoreUnavailableError, CircuitBreakerOpenError):
                    raise  # of a list that is sent again, all or nothing has been held
                except SimulationError as error:
                    if atomic:
                        raise _at(error, index) from None
                    answers[index] = error
                    continue
                member = (list_id, None if list_id is None else index, atomic, ordered and list_id is not None)
                wanted[index] = _wanted(placed, intents[index].context_seq, tick.number, member, refused)
            found = await self._guard.call(
                self._holding.hold, self._log.world_id, list(wanted.values()), self._limits, atomic=atomic
            )
            todo = []
            for index, answer in zip(wanted, found, strict=True):
                if isinstance(answer, OtherTick):
                    todo.append(index)
                    await self._moved(answer.open)
                else:
                    answers[index] = _told(intents[index], answer)
            if todo and atomic:
                todo = list(range(len(intents)))
        return [answers[index] for index in range(len(intents))]

    async def _open_tick(self) -> OpenTick:
        """Return the tick that is open as far as is known here; its tick before is folded here."""
        if self._open is None:
            async with self._looking:  # the first ones come together
                if self._open is None:
                    await self._moved(await self._holding.open_tick(self._log.world_id))
        assert self._open is not None  # noqa: S101 - set just before
        return self._open

    async def _moved(self, tick: OpenTick) -> None:
        """Come to the tick that is open: the effect of the one before is to be folded here."""
        if self._open is None or self._open.number < tick.number:
            if tick.after_seq > self._follower.seq and not await self._follower.reached(tick.after_seq, _PATIENCE):
                await self._follower.catch_up()
            if self._open is None or self._open.number < tick.number:
                self._open = tick

    async def _place(self, intent: CheckedIntent, tick: OpenTick) -> tuple[CheckedIntent, SimulationError | None]:
        """Return an intent with what it was made from, and what it is refused with as of the tick before.

        That does not count where its request is known. A context beyond the agent's latest view means that view, as of
        now; whether it is stale follows from the context that was named. Raises UnknownAgentError.
        """
        if intent.context_seq is not None and intent.context_seq > self._follower.seq:
            await self._follower.catch_up()  # another process may have shown it to the agent
        async with self._observing.attached(intent.agent_id) as attachment:
            intent, staleness, names, refusal = self._parts.placing.place(intent)
            named = intent.context_seq
            if refusal is not None or named is None:
                return intent, refusal
            context_seq = min(named, await self._latest(attachment))
            intent = intent._replace(context_seq=context_seq)
            watch = Watch(intent.agent_id, named, staleness, names)
            await self._parts.sightings.count_as_of(watch, attachment, tick.after_seq)
            if watch.stale_at is not None:
                refusal_by = staleness.details()
                return intent, StaleContextError(intent.req_id, watch.expected_seq, context_seq, **refusal_by)
            return intent, None

    async def _latest(self, attachment: Attachment) -> int:
        """Return the view_seq of the latest view that an agent may know, the same in every process."""
        seq = attachment.view_seq
        found = attachment.origin(seq)
        return (await self._observing.view(attachment.agent_id, seq)).view_seq if found is None else found

    # -- waiting -------------------------------------------------------------------------------------------

    async def _outcome(self, answer: Answer) -> Accepted | SimulationError:
        if not isinstance(answer, Held):
            return answer
        if self._closed:
            return _closing()
        self._follower.raise_if_ended()
        key = (answer.agent_id, answer.req_id)
        waiter = _Waiter(answer.tick)
        self._waiters.setdefault(key, []).append(waiter)
        try:
            if self._open is not None and self._open.number > answer.tick:
                self._ask([key])
            elif self._silent is not None:
                return self._silent
            return await waiter.future
        finally:
            self._waiters[key].remove(waiter)
            if not self._waiters[key]:
                del self._waiters[key]

    def authority_silent(self, error: AuthoritySilentError | None) -> None:
        """Note that the time authority is silent, or is heard again (None).

        Callers that wait for the open tick's decision are told; their intents stay held for it.
        """
        self._silent = error
        if error is None:
            return
        for waiters in self._waiters.values():
            for waiter in waiters:
                if self._open is None or self._open.number <= waiter.tick:
                    waiter.tell(error)

    def seen(self, effect: Effect) -> None:
        """Note an effect that was folded here: of an intent that is waited for, or the end of a tick."""
        if self._waiters and effect["req_id"] is not None:
            for waiter in self._waiters.get((effect["source_id"], effect["req_id"]), ()):
                accepted = Accepted(effect["uuid"], global_seq=effect["global_seq"], req_id=effect["req_id"])
                waiter.tell(accepted)
        if effect["kind"] != TIME_SET_KIND or type(number := effect["payload"].get("tick")) is not int:
            return
        self._open = OpenTick(number + 1, effect["global_seq"], effect["sim_time"], effect["source_id"])
        # Intents that it has not accepted it has refused; the reason is stored with the intent.
        asked = [
            key
            for key, waiters in self._waiters.items()
            if any(not each.future.done() and each.tick <= number for each in waiters)
        ]
        if asked:
            self._ask(asked)

    def _ask(self, keys: Sequence[Key]) -> None:
        task = asyncio.get_running_loop().create_task(self._tell(keys))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell(self, keys: Sequence[Key]) -> None:
        """Tell the callers of these requests what a tick has decided."""
        backoff = Backoff(*_PAUSE)
        while True:
            try:
                found = await self._holding.known(self._log.world_id, keys)
                break
            except SimulationError as error:
                log.debug("the decision of a tick is read again", error=error.message)
                await backoff.wait()
        for key in keys:
            answer = found.get(key)
            for waiter in self._waiters.get(key, ()):
                if isinstance(answer, HeldAt):
                    waiter.tick = answer.tick
                elif answer is None:
                    waiter.tell(_forgotten(key))
                else:
                    waiter.tell(_decided(key, answer, replayed=False))

    def close(self) -> None:
        """Tell all waiting callers that no answer will come here; held intents stay held."""
        self._closed = True
        for task in self._telling:
            task.cancel()
        self.tell_all(_closing())

    def tell_all(self, error: SimulationError) -> None:
        """Release all callers that wait for a tick; held intents stay held."""
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.tell(error)

    # -- closing -------------------------------------------------------------------------------------------

    async def end(self, draft: EffectDraft) -> TickReceipt:
        """Close the open tick with its effect; all that is held for it is decided before."""
        return await self._log.close_tick(draft, _Closing(self._parts))


class _Closing(Closing):
    """One closing of a tick: the plan, and the judges."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._config = parts.config
        self._deadline_at: float | None = None

    def begin(self) -> None:
        """Begin the deadline of all that is held."""
        deadline_ms = self._config.deadline_ms
        self._deadline_at = self._parts.clock() + deadline_ms / 1000.0 if deadline_ms else None

    def plan(self, held: Sequence[HeldIntent], tick: OpenTick) -> list[Planned]:
        """Return all that is held in its order, the members of a list together; quotas are counted along it."""
        intents = {each.key: _read(each) for each in held}

        def rank(each: HeldIntent) -> tuple[int, str, int, str]:
            intent = intents[each.key]
            priority = intent.priority if isinstance(intent, CheckedIntent) else 0
            return (-priority, each.agent_id, each.place, each.req_id)

        together: dict[Any, list[HeldIntent]] = {}
        for each in held:
            together.setdefault(each.key if each.list_id is None else each.list_id, []).append(each)
        quotas = _Quotas(self._config)
        planned: list[Planned] = []
        for members in sorted(together.values(), key=lambda members: min(map(rank, members))):
            if members[0].list_ordered:
                members.sort(key=lambda each: each.list_index or 0)
            else:
                members.sort(key=rank)
            is_atomic = any(each.list_atomic for each in members)
            if is_atomic and not _is_whole(members):
                what = "the list that it was held in is not whole: a member of it was changed, or is gone"
                planned.append(Planned(members, (), {}, InvalidIntentError(what)))
                continue
            blocks = [members] if is_atomic else [[each] for each in members]
            planned += [self._planned(some, [intents[each.key] for each in some], quotas) for some in blocks]
        return planned

    def _planned(
        self, held: Sequence[HeldIntent], read: Sequence[CheckedIntent | SimulationError], quotas: _Quotas
    ) -> Planned:
        intents = []
        for each in read:
            if isinstance(each, SimulationError):
                return Planned(held, (), {}, each)
            intents.append(each)
        try:
            # The effect of each says where it stood in its tick.
            places = zip(intents, held, strict=True)
            drafts = [checked_draft(intent, tick=each.tick, order=each.place) for intent, each in places]
            quotas.charge(intents)
        except SimulationError as error:
            return Planned(held, (), {}, error)
        telling = self._parts.answering.about(intents)
        judges = {index: self._judge(intent, index, telling) for index, intent in enumerate(intents)}
        return Planned(held, drafts, judges)

    def _judge(self, intent: CheckedIntent, index: int, telling: Telling) -> Judge:
        def look() -> None:
            if self._deadline_at is not None and self._parts.clock() > self._deadline_at:
                raise DeadlineExceededError(intent.req_id, self._config.deadline_ms)

        return IntentJudge(index, telling, look)

    def rejection(self, held: HeldIntent, error: SimulationError) -> EffectDraft | None:
        """Return the IntentRejected of a refusal by permissions, validator or ruleset, where the world records them."""
        if not self._parts.records_rejections or not isinstance(error, REJECTIONS):
            return None
        return rejection_draft(check_intent(orjson.loads(held.intent)), error)

    def outcome(self, error: SimulationError) -> dict[str, Any]:
        """Return a refusal as a JSON object."""
        return {
            "code": error.code,
            "message": error.message,
            "recovery": error.recovery.value,
            "details": error.details,
        }


def _is_whole(members: Sequence[HeldIntent]) -> bool:
    """Return whether the members of an atomic list are as they were held; only others can have changed them."""
    list_id = members[0].list_id
    if list_id is None or list_id.version == 4:  # of a list whose id says nothing
        return True
    return list_id == whole(members, [each.place for each in members])


def _read(held: HeldIntent) -> CheckedIntent | SimulationError:
    """Read a held intent; return why it cannot be read, which only others can have written."""
    try:
        intent = check_intent(orjson.loads(held.intent))
    except SimulationError as error:
        return error
    except ValueError as error:
        return InvalidIntentError(f"the held intent cannot be read: {error}")
    if (intent.agent_id, intent.req_id) != held.key:
        return InvalidIntentError(f"the held intent is of {intent.agent_id!r}, {intent.req_id!r}")
    return intent


class _Quotas:
    """The use of each agent's quotas in one tick: every tick begins with full quotas."""

    def __init__(self, config: OrchestratorConfig) -> None:
        self._intents = config.intent_capacity if config.intents_per_s else None
        self._tokens = config.token_budget or None
        self._used: Counter[str] = Counter()
        self._spent: Counter[str] = Counter()

    def charge(self, intents: Sequence[CheckedIntent]) -> None:
        """Charge intents that are accepted or refused together. Raises QuotaExceededError, and charges nothing."""
        used, spent = Counter(self._used), Counter(self._spent)
        for index, intent in enumerate(intents):
            agent_id = intent.agent_id
            used[agent_id] += 1
            spent[agent_id] += intent.token_count
            for quota_type, limit, now in (
                ("intents", self._intents, used[agent_id]),
                ("tokens", self._tokens, spent[agent_id]),
            ):
                if limit is not None and now > limit:
                    error = QuotaExceededError(agent_id, quota_type, limit)
                    raise _at(error, index) if len(intents) > 1 else error
        self._used, self._spent = used, spent


def _key(intent: CheckedIntent) -> Key:
    return (intent.agent_id, intent.req_id)


def _wanted(
    intent: CheckedIntent,
    named: int | None,
    tick: int,
    member: tuple[UUID | None, int | None, bool, bool],
    refused: SimulationError | None,
) -> Wanted:
    return Wanted(
        intent.agent_id,
        intent.req_id,
        intent.order,
        canonical_json(intent.to_intent()).decode(),
        intent.digest(),
        named,
        tick,
        *member,
        refused=refused,
    )


def _told(intent: CheckedIntent, answer: HeldAt | RefusedAt | Receipt | SimulationError) -> Answer:
    if isinstance(answer, HeldAt):
        return Held(intent.agent_id, intent.req_id, answer.tick, answer.place, answer.again)
    if isinstance(answer, SimulationError):
        return answer
    return _decided(_key(intent), answer)


def _decided(key: Key, answer: RefusedAt | Receipt, *, replayed: bool = True) -> Accepted | SimulationError:
    """Return what a tick has decided of a request; ``replayed``: it was asked for after that."""
    if isinstance(answer, Receipt):
        return Accepted(answer.uuid, global_seq=answer.global_seq, req_id=key[1], replayed=replayed)
    said = answer.outcome
    return remade(said["code"], said["message"], said["details"], said.get("recovery"))


def _closing() -> SimulationError:
    what = "the world is being closed; the intent is held, and its tick decides it"
    return StoreUnavailableError(what, outcome="unknown")


def _forgotten(key: Key) -> SimulationError:
    return StoreUnavailableError(
        f"the outcome of request {key[1]!r} of {key[0]!r} is no longer kept: it was refused; send it again",
        outcome="unknown",
    )


def _at(error: SimulationError, index: int) -> SimulationError:
    """Return a refusal that names its place in the list, if it does not name another's."""
    if "index" in error.details:
        return error
    if isinstance(error, InvalidEffectError):
        return error.at(index)
    error.details["index"] = index
    return error


def _spread(count: int, answers: Sequence[Any], refused: Mapping[int, SimulationError]) -> list[Any]:
    """Put what was refused at once among the answers of the others."""
    rest = iter(answers)
    return [refused[index] if index in refused else next(rest) for index in range(count)]
