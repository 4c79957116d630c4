"""What a process has just written, kept for those in it that follow the world."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hypothesis import given
from hypothesis import strategies as st
from worldledger_service.store import Store
from worldledger_service.store import committer as module
from worldledger_service.store.committer import Echoes
from worldledger_service.store.event_log import EventLog

from worldledger.chain import StoredEffect

from .helpers import draft, guards_down

END = 2**62


def row(seq: int, text: bytes = b"{}") -> StoredEffect:
    """Make a row of which only the seq counts."""
    return StoredEffect(seq, text, b"", "Said", "a1", 0.0)


def rows(first: int, last: int) -> list[StoredEffect]:
    """Make several."""
    return [row(seq) for seq in range(first, last + 1)]


async def test_an_echo_is_what_was_stored(store: Store, log: EventLog) -> None:
    """However effects are appended, alone, in a unit, by request or beside others, their echo is their rows."""
    echo = store.echoes.follow(log.world_id)
    await log.append(draft("äöü"))
    await log.append(draft(1, sim_time=2.5))
    await log.append_all([draft(n, req_id=f"r-{n}") for n in range(5)])
    await log.append(draft(2, req_id="r"), source_metadata={"how": "so"})
    stored = [each async for batch in store.reader.batches(log.world_id, after_seq=1) for each in batch]
    assert echo.after(1, END) == stored
    assert len(stored) == 8
    assert echo.after(3, 5) == stored[2:4]
    assert echo.after(9, END) == echo.after(5, 5) == []
    assert echo.after(0, END) == [], "effect 1 was written before anybody followed"


async def test_what_another_has_written_is_not_in_it(
    log: EventLog, store: Store, open_store: Callable[..., Awaitable[Store]]
) -> None:
    """An echo has no gaps: it begins anew after the effects of another process."""
    echo = store.echoes.follow(log.world_id)
    await log.append(draft(1))
    await (await (await open_store()).log(log.world_id)).append(draft(2))
    await log.append(draft(3))  # settled aside, for the head was another one
    await log.append(draft(4))
    assert echo.after(1, END) == []
    assert [each.global_seq for each in echo.after(4, END)] == [5]


async def test_it_is_no_way_to_the_log(store: Store, log: EventLog, database_url: str) -> None:
    """Who reads the log, or verifies it, reads the database, whatever is in the echo."""
    store.echoes.follow(log.world_id)
    await log.append(draft(1))
    async with guards_down(database_url) as admin:
        await admin.execute("update effects set effect = '{}' where world_id = $1 and global_seq = 2", log.world_id)
    assert [each.text async for batch in store.reader.batches(log.world_id, after_seq=1) for each in batch] == [b"{}"]
    assert not (await store.reader.verify(log.world_id)).verified


async def test_worlds_that_nobody_follows_have_none(store: Store, log: EventLog) -> None:
    """It is kept for those who follow, and forgotten with the last of them."""
    others = store.echoes._bytes
    await log.append(draft(1))
    assert log.world_id not in store.echoes
    first = store.echoes.follow(log.world_id)
    assert store.echoes.follow(log.world_id) is first
    store.echoes.leave(log.world_id)
    await log.append(draft(2))
    assert [each.global_seq for each in first.after(2, END)] == [3]
    store.echoes.leave(log.world_id)
    assert log.world_id not in store.echoes
    assert store.echoes._bytes == others


@given(st.lists(st.integers(1, 700), min_size=1, max_size=8))
def test_the_latest_of_a_world_are_kept(counts: list[int]) -> None:
    """However much is written, the last effects are there, in order, and not many more of them."""
    echoes = Echoes()
    echo = echoes.follow("w")
    head = 0
    for count in counts:
        echoes.add("w", head, rows(head + 1, head + count))
        head += count
    kept = min(head, module._MOST_ROWS)
    assert echo.after(head - kept, END) == rows(head - kept + 1, head)
    assert len(echo._rows) <= 2 * module._MOST_ROWS
    assert echo.bytes == echoes._bytes == 2 * len(echo._rows)


def test_all_worlds_together_are_bounded() -> None:
    """Where there is too much, those go that were written to longest ago."""
    echoes = Echoes(most_bytes=300)
    kept = {name: echoes.follow(name) for name in "abcd"}
    for name in "abc":
        echoes.add(name, 0, [row(1, b"x" * 90)])
    echoes.add("a", 1, [row(2, b"x" * 20)])
    assert echoes._bytes == 290
    echoes.add("d", 0, [row(1, b"x" * 90)])
    assert {name: bool(echo.after(0, END)) for name, echo in kept.items()} == {
        "a": True, "b": False, "c": True, "d": True
    }  # fmt: skip
    echoes.add("b", 1, [row(2, b"x" * 10)])
    assert [each.global_seq for each in kept["b"].after(1, END)] == [2]
    assert echoes._bytes == 300
    echoes.add("c", 1, [row(2, b"x" * 1000)])
    assert echoes._bytes == 0
