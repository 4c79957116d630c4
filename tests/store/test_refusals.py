"""What is refused is named, loses nothing of what was good, and leaves the world in order."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from worldledger_service.store import EventLog, Store

from tests.waiting import wait_for
from worldledger.drafts import CheckedDraft
from worldledger.errors import (
    EffectTooLargeError,
    InvalidEffectError,
    InvalidNameError,
    OverloadedError,
    ReservedKindError,
    StoreUnavailableError,
    UnknownRulesetError,
    WorldNotFoundError,
)
from worldledger.genesis import NewWorld
from worldledger.rulesets import Ruleset
from worldledger.world import WorldState

from .helpers import assert_sound, draft, guards_down, holding_head, start, wait_for_waiters

if TYPE_CHECKING:
    from .helpers import Connection


async def test_a_list_with_one_bad_draft_is_refused_whole(log: EventLog, store: Store) -> None:
    """Of a list with a bad draft nothing is written; the error names the draft's index and the path."""
    with pytest.raises(InvalidEffectError) as caught:
        await log.append_all([draft(0), draft(1), draft([0, math.nan])])
    assert (caught.value.index, caught.value.path) == (2, "$.payload.n[1]")
    assert await log.append(draft("good")) == 2
    assert await assert_sound(store, log.world_id) == ["good"]


async def test_what_is_no_draft_is_refused(log: EventLog, subtests: pytest.Subtests) -> None:
    """Whatever is given for a draft, by whichever door, the refusal is one of ours."""
    bad: Any
    for bad in (None, 1, "kind", [], {}, {"kind": "Said"}):
        with subtests.test(bad=bad):
            with pytest.raises(InvalidEffectError):
                await log.append(bad)
            with pytest.raises(InvalidEffectError):
                await log.append(bad, source_metadata={"a": 1})
            with pytest.raises(InvalidEffectError, match=r"draft 1, "):
                await log.append_all([draft(), bad])
            with pytest.raises(InvalidEffectError, match=r"draft 1, "):
                await log.append_request([draft(), bad], source_id="a1", req_id="r")
    assert (await log.append_request([draft()], source_id="a1", req_id="r"))[0].global_seq == 2


async def test_a_requests_key_is_checked_like_a_drafts(log: EventLog, store: Store, subtests: pytest.Subtests) -> None:
    """A req_id that no draft may have is refused for a request too, and the world goes on."""
    bad: Any
    for bad in ("", "x" * 201, "a\x00", "\ud800", 5, None):
        with subtests.test(bad=bad):
            with pytest.raises(InvalidEffectError) as caught:
                await log.append_request([draft()], source_id="a1", req_id=bad)
            assert caught.value.path == "$.req_id"
    assert await log.append(draft("good")) == 2
    assert await assert_sound(store, log.world_id) == ["good"]


async def test_the_drafts_of_a_request_have_its_source(log: EventLog) -> None:
    """A draft of another source does not belong to a request."""
    with pytest.raises(InvalidEffectError) as caught:
        await log.append_request([draft(source_id="a1"), draft(source_id="a2")], source_id="a1", req_id="r")
    assert caught.value.path == "$.source_id"


async def test_system_kinds_are_the_services_own(log: EventLog) -> None:
    """A client's draft of a system kind is refused; the service writes it."""
    with pytest.raises(ReservedKindError):
        await log.append(draft(kind="WorldCreated"))
    with pytest.raises(ReservedKindError) as caught:
        await log.append_all([draft(), draft(kind="StateDigest")])
    assert caught.value.index == 1
    assert (await log.append_all([draft(kind="StateDigest")], system=True))[0].global_seq == 2


async def test_an_effect_over_the_limit_is_refused(open_store: Callable[..., Awaitable[Store]], world_id: str) -> None:
    """An effect may have the limit's bytes and not one more, all of its text counted; a list is refused whole."""
    store = await open_store(max_effect_bytes=2000)
    await store.create_world(NewWorld(world_id=world_id))
    log = await store.log(world_id)
    await log.append(draft("x" * 1000))
    (entry,) = await log.get_entries_since(1)
    room = 2000 - len(orjson.dumps(dict(entry.effect))) + 1000 - 20  # the times may have other lengths
    assert await log.append(draft("x" * room)) == 3
    with pytest.raises(EffectTooLargeError) as caught:
        await log.append_all([draft("small"), draft("x" * 2000)])
    assert (caught.value.index, caught.value.details["limit"]) == (1, 2000)
    with pytest.raises(EffectTooLargeError):
        await log.append(draft("small"), source_metadata={"file": "é" * 1000})
    assert len(await assert_sound(store, world_id)) == 2


@pytest.mark.both_servers
async def test_an_effect_of_just_under_a_mebibyte_is_kept(log: EventLog, store: Store) -> None:
    """The default limit is 1 MiB: a text just below it goes in and comes out, one above it does not go in."""
    assert await log.append(draft("é" * (2**19 - 400))) == 2
    with pytest.raises(EffectTooLargeError, match="at most 1048576"):
        await log.append(draft("é" * 2**19))
    (written,) = await assert_sound(store, log.world_id)
    assert len(written) == 2**19 - 400


async def test_a_call_of_too_many_drafts_is_refused(open_store: Callable[..., Awaitable[Store]], world_id: str) -> None:
    """One call takes as many drafts as the settings say, and not one more."""
    store = await open_store(max_unit=3)
    await store.create_world(NewWorld(world_id=world_id))
    log = await store.log(world_id)
    with pytest.raises(InvalidEffectError, match="4 drafts in one call; at most 3"):
        await log.append_all([draft()] * 4)
    with pytest.raises(InvalidEffectError, match="4 drafts in one call; at most 3"):
        await log.append_request([draft()] * 4, source_id="a1", req_id="r")
    assert len(await log.append_all([draft()] * 3)) == 3


@pytest.mark.parametrize("limit", [{"max_waiting": 3}, {"max_waiting_bytes": 1024}])
async def test_more_than_may_wait_is_refused_and_the_rest_is_written(
    open_store: Callable[..., Awaitable[Store]],
    world_id: str,
    admin: Connection,
    database_url: str,
    limit: dict[str, int],
) -> None:
    """When too much waits, a call is refused at once and can be made again later; what waits is written."""
    store = await open_store(**limit)
    await store.create_world(NewWorld(world_id=world_id))
    log = await store.log(world_id)
    payload = "x" * 330
    async with holding_head(database_url, world_id):
        tasks = [start(log.append(draft(payload)))]
        await wait_for_waiters(admin)
        for waiting in range(1, 4):
            tasks.append(start(log.append(draft(payload))))
            await wait_for(lambda: store.waiting == waiting, "it waits")  # noqa: B023 - awaited here
        with pytest.raises(OverloadedError) as caught:
            await log.append(draft(payload))
        assert caught.value.details["waiting"] == 3
        with pytest.raises(OverloadedError):
            await log.append_all([draft(payload)] * 4)
    assert sorted(await asyncio.gather(*tasks)) == [2, 3, 4, 5]
    assert store.waiting == 0
    assert await log.append(draft(payload)) == 6


async def test_what_goes_wrong_inside_is_told_to_its_callers_and_no_more(
    open_store: Callable[..., Awaitable[Store]], world_id: str
) -> None:
    """A clock that fails takes down the calls that needed it, and the world goes on when it works again."""
    broken = False

    def clock() -> float:
        if broken:
            raise RuntimeError("the clock is broken")
        return 1.7e9

    store = await open_store(clock=clock)
    await store.create_world(NewWorld(world_id=world_id))
    log = await store.log(world_id)
    broken = True
    outcomes = await asyncio.gather(*(log.append(draft(n)) for n in range(5)), return_exceptions=True)
    assert all(isinstance(outcome, RuntimeError) for outcome in outcomes), outcomes
    broken = False
    assert await asyncio.gather(*(log.append(draft(n)) for n in range(5))) == [2, 3, 4, 5, 6]
    assert await assert_sound(store, world_id) == [0, 1, 2, 3, 4]


async def test_a_world_that_is_not_there(store: Store) -> None:
    """A world that nobody made, or that no one can make, has no log."""
    with pytest.raises(WorldNotFoundError) as caught:
        await store.log("nobodys")
    assert caught.value.details["world_id"] == "nobodys"
    for name in ("", "a b", "a\x00", "\ud800", "x" * 201):
        with pytest.raises(InvalidNameError):
            await store.log(name)


async def test_a_world_whose_ruleset_is_not_installed(store: Store, log: EventLog, admin: Connection) -> None:
    """A world made under a ruleset that is not installed here is not written to."""
    await admin.execute(
        "insert into worlds (world_id, world_uuid, ruleset, ruleset_version, config, time_authority)"
        " values ($1, gen_random_uuid(), 'go', 1, '{}', 'wall')",
        f"{log.world_id}.go",
    )
    await admin.execute(
        "insert into heads select $1, head_seq, head_checksum, sim_time, wall_time from heads where world_id = $2",
        f"{log.world_id}.go",
        log.world_id,
    )
    with pytest.raises(UnknownRulesetError):
        await store.log(f"{log.world_id}.go")


async def test_a_world_whose_head_has_vanished(store: Store, log: EventLog, database_url: str) -> None:
    """A world that somebody removed from under the service answers with an error, and others go on."""
    other = f"{log.world_id}.other"
    await store.create_world(NewWorld(world_id=other))
    async with guards_down(database_url) as intruder:
        await intruder.execute("delete from heads where world_id = $1", log.world_id)
    with pytest.raises(WorldNotFoundError):
        await log.append(draft())
    assert await (await store.log(other)).append(draft()) == 2


async def test_a_closing_store_writes_what_waits_and_takes_nothing_more(
    open_store: Callable[..., Awaitable[Store]], world_id: str, admin: Connection, database_url: str
) -> None:
    """Closing waits for what is on its way, the caller that writes by itself included, and refuses what comes after."""
    store = await open_store()
    await store.create_world(NewWorld(world_id=world_id))
    log = await store.log(world_id)
    over = asyncio.Event()

    async def long_lived() -> int:
        seq = await log.append(draft("first"))
        await over.wait()  # its task goes on for longer than the store
        return seq

    async with holding_head(database_url, world_id):
        first = start(long_lived())
        await wait_for_waiters(admin)
        others = [start(log.append(draft(n))) for n in range(3)]
        await wait_for(lambda: store.waiting == 3, "they wait")
        closing = start(store.close())
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailableError, match="nothing of this call was written"):
            await log.append(draft("late"))
        assert not closing.done()
    await closing
    assert sorted(await asyncio.gather(*others)) == [3, 4, 5]
    with pytest.raises(StoreUnavailableError):
        await log.append(draft("too late"))
    over.set()
    assert await first == 2


class _Picky(Ruleset):
    """A ruleset that refuses one kind and marks what it lets through."""

    name = "picky"

    def decide(self, draft: CheckedDraft, state: WorldState | None) -> CheckedDraft:
        if draft.kind == "Refused":
            raise InvalidEffectError("not by these rules", "$.kind")
        return draft._replace(schema_version="9.0.0")


async def test_the_ruleset_decides(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a ruleset refuses is not written, alone or in a list, and what it gives is written in place of the draft."""
    monkeypatch.setattr("worldledger_service.store.store.load_ruleset", lambda _: _Picky())
    await store.create_world(NewWorld(world_id="picky"))
    log = await store.log("picky")
    for drafts in ([draft(kind="Refused")], [draft(), draft(kind="Refused", req_id="r")]):
        with pytest.raises(InvalidEffectError, match="not by these rules"):
            await log.append_all(drafts)
    first = await log.append_all([draft(), draft(req_id="r")])
    assert [receipt.global_seq for receipt in first] == [2, 3]
    assert await log.append(draft()) == 4
    assert {entry.effect["schema_version"] for entry in await log.get_entries_since(1)} == {"9.0.0"}
    assert (await log.append_all([draft(req_id="r")]))[0].replayed
    assert await log.validate_integrity()
