"""Posting a whole round to a social-RL world: one unit of effects, once.

Source: docs/reference/social-rl.md, "Round". A round's number is its identity: the same round again is answered as it
was the first time, whatever has become of the world since, and another one of that number is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from worldledger_service.runtime.guarding import SAME_REQUEST, guarded

from worldledger.errors import (
    IllegalEffectError,
    InvalidEffectError,
    MomentNotFoundError,
    OverloadedError,
    RequestConflictError,
    SimulationError,
)
from worldledger.time_authority import CLIENT, TimeAuthority
from worldledger_social_rl.api.problems import RoundConflictError
from worldledger_social_rl.rules import RULESET
from worldledger_social_rl.rules.errors import InvalidRunError
from worldledger_social_rl.rules.recording import round_drafts, write_run
from worldledger_social_rl.rules.words import known
from worldledger_social_rl.store.rounds import Rounds
from worldledger_social_rl.store.social_runs import in_document, place_of, problem_of

if TYPE_CHECKING:
    from worldledger_service.api.context import Services
    from worldledger_service.store import WorldRecord

    from worldledger.effects import Effect, EffectDraft
    from worldledger.world import WorldState

#: How often a round is put together anew because something else was written meanwhile.
_TRIES: Final = 20


class RoundReceipt(NamedTuple):
    """What became of a round: its first and last effect, the chain's checksum (hex) at the last, and how many.

    ``replayed`` says that an earlier request has written them.
    """

    round_number: int
    first_seq: int
    last_seq: int
    checksum: str
    effects: int
    replayed: bool


class _MovedError(SimulationError):
    """The world is not where it was when the round was put together."""

    code = "moved"


async def post_round(found: Services, world_id: str, value: Any, key: str | None) -> RoundReceipt:
    """Append a round; ``key`` is the request's own idempotency key, if it has one.

    Raises InvalidRunError with every problem, RoundConflictError, RequestConflictError for a key that was used with
    another body, WorldNotFoundError, OverloadedError or StoreUnavailableError.
    """
    for last in (*(False,) * (_TRIES - 1), True):
        record = await found.store.world(world_id)
        if record.ruleset != RULESET.name:
            what = f"world {world_id!r} is of the ruleset {record.ruleset}: rounds are posted to social-RL worlds"
            raise RoundConflictError(what, world_id=world_id, ruleset=record.ruleset)
        state = (await found.store.states.state_at(world_id, record.head_seq)).state
        drafts = _drafts(record, state, value)
        number: int = drafts[0]["payload"]["round_number"]
        _refuse_too_many(drafts, found.settings.max_unit)
        if known(state)["rounds"] and number <= known(state)["round_number"]:
            return await _made_before(found, record, state, number, drafts)
        _refuse_other_order(state, number)
        try:
            return await _append(found, record, drafts, number, key)
        except _MovedError:
            continue
        except RequestConflictError:
            if last or not await _has_round(found, world_id, number):
                raise
    raise OverloadedError(f"world {world_id!r} is written to by others all the time; try again later")


def _drafts(record: WorldRecord, state: WorldState, value: Any) -> list[EffectDraft]:
    """Return the drafts of a round that is to follow a world's head. Raises InvalidRunError."""
    authority = state.metadata.get("time_authority", record.time_authority)
    try:
        return round_drafts(
            value,
            strict=known(state)["strict"],
            now=None if authority != CLIENT else _own_time(state),
            first_seq=record.head_seq + 1,
            agents=[*state.entities, *state.metadata["agents"]],
        )
    except InvalidRunError as error:
        raise _in_body(error.problems) from None


def _own_time(state: WorldState) -> float:
    """Return the world's time as drafts state it where any may."""
    client = TimeAuthority(CLIENT, state.metadata.get("time_offset", 0.0))
    return client.own_time(state.metadata["last_effect_time"])


def _in_body(problems: Sequence[Mapping[str, Any]]) -> InvalidRunError:
    """Make the error of a body, which has no file's name."""
    return InvalidRunError([{"path": problem["path"], "message": problem["message"]} for problem in problems])


def _refuse_too_many(drafts: Sequence[EffectDraft], most: int) -> None:
    if len(drafts) > most:
        what = f"the round makes {len(drafts)} effects, and a request at most {most}: post its messages one by one"
        raise InvalidRunError([{"path": "$", "message": what}])


def _refuse_other_order(state: WorldState, number: int) -> None:
    """Raise RoundConflictError where a round may not begin, or not this one. It is one that has not begun yet."""
    here = known(state)
    last = here["round_number"] if here["rounds"] else 0
    wanted = last + 1
    if here["round_open"]:
        raise _conflict(f"round {last} is running; end it before round {number} is posted", number, last, wanted)
    if here["strict"] and number != wanted:
        before = f"after round {last} comes" if here["rounds"] else "the first round is"
        raise _conflict(f"{before} round {wanted}, not round {number}", number, last, wanted)


def _conflict(what: str, number: int, last: int, wanted: int) -> RoundConflictError:
    return RoundConflictError(what, round_number=number, last_round=last, expected=wanted)


async def _append(
    found: Services, record: WorldRecord, drafts: list[EffectDraft], number: int, key: str | None
) -> RoundReceipt:
    """Append the drafts right behind the head that they were made for, or raise _MovedError."""
    head = record.head_seq

    def begins(state: WorldState) -> None:
        if state.metadata["last_effect_seq"] != head:
            raise _MovedError("the head has moved")

    def goes_on(state: WorldState) -> None:
        # Where the request was made before, its first draft is not written again; then neither are the others.
        if state.metadata["last_effect_seq"] != head + 1:
            raise _MovedError("the round is there already")

    drafts[0]["req_id"] = key or f"round:{number}"
    log = await found.store.log(record.world_id)
    try:
        work = log.append_judged(drafts, {0: begins, 1: goes_on})
        receipts = await guarded(found.store.outages, work, again=SAME_REQUEST)
    except InvalidEffectError as error:
        raise InvalidRunError(_problems(drafts, error)) from None
    found.metrics.appended(len(receipts))
    first, last = receipts[0], receipts[-1]
    return RoundReceipt(number, first.global_seq, last.global_seq, last.checksum, len(receipts), False)


def _problems(drafts: Sequence[EffectDraft], error: InvalidEffectError) -> list[dict[str, Any]]:
    """Say where in the round's document that is which an effect is refused for."""
    told = error.details.get("problems") if isinstance(error, IllegalEffectError) else None
    if not told:
        problem = problem_of(drafts, error)
        return [{"path": problem["path"], "message": problem["message"]}]
    index = error.index or 0
    _, place = place_of(drafts[: index + 1])
    return [
        {"path": in_document(drafts[index], place, problem["path"]), "message": problem["message"]} for problem in told
    ]


async def _has_round(found: Services, world_id: str, number: int) -> bool:
    try:
        await Rounds(found.store.reader).at(await found.store.world(world_id), number)
    except MomentNotFoundError:
        return False
    return True


async def _made_before(
    found: Services, record: WorldRecord, state: WorldState, number: int, drafts: Sequence[EffectDraft]
) -> RoundReceipt:
    """Return the receipt of a round that is there already, the same one. Raises RoundConflictError for another."""
    here = known(state)
    last = here["round_number"]
    rounds = Rounds(found.store.reader)
    if here["round_open"] and number == last:
        what = f"round {number} is running: what belongs to it is posted one by one until it is ended"
        raise _conflict(what, number, last, last + 1)
    try:
        at = await rounds.at(record, number)
    except MomentNotFoundError:
        what = f"the world is at round {last}, and has no round {number}; the next is round {last + 1}"
        if await found.store.states.parent(record) is not None:
            what = f"round {number} is from before the fork, and cannot be posted here; the next is round {last + 1}"
        raise _conflict(what, number, last, last + 1) from None
    (file,) = write_run(cast("Sequence[Effect]", drafts))  # it looks at kinds and payloads alone
    if at.ended_seq is None or await rounds.document(record, at) != file.value:
        what = f"round {number} is there, with another content; the next is round {last + 1}"
        raise _conflict(what, number, last, last + 1)
    ended = await found.store.reader.effect(record.world_id, at.ended_seq)
    count = at.ended_seq - at.first_seq + 1
    return RoundReceipt(number, at.first_seq, at.ended_seq, ended.checksum.hex(), count, True)
