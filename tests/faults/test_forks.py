"""Forks while processes are killed, and while other processes write the parent."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import ExitStack

import pytest
from worldledger_service.store import Store
from worldledger_service.store.forking import NewFork

from tests.cli.helpers import BAZAAR, Lock, Running, call, record, sql
from tests.store.helpers import assert_sound
from worldledger.genesis import NewWorld
from worldledger.moments import HEAD

from .test_processes import COUNT, Racer

pytestmark = pytest.mark.slow

#: The tables that a fork is written into, in the order in which that is done.
_TABLES = ("worlds", "effects", "requests", "heads", "snapshots")


def _rows(url: str, world_id: str) -> list[int]:
    """Return the number of the world's rows in each table."""
    counts = (f"select count(*) from {table} where world_id = '{world_id}'" for table in _TABLES)
    return [count for (count,) in sql(url, " union all ".join(counts))]


def test_a_fork_whose_process_is_killed(database_url: str) -> None:
    """A process that is killed before any of its writes leaves nothing; the same request again makes the fork."""
    record(database_url, "bazaar", BAZAAR)
    for table in _TABLES:
        name = f"at-{table}"
        command = (
            "fork",
            "bazaar",
            "--at",
            "5",
            "--as",
            name,
            "--set",
            "bob/coins=100",
            "--database-url",
            database_url,
        )
        with Lock(database_url, f"lock table {table} in share mode") as lock, Running(*command) as running:
            lock.wait_for_waiter()
            running.end(signal.SIGKILL)
        again = call(*command)
        assert (again.code, again.out.startswith(f"forked {name}, from seq 5 of bazaar, 1 change, ")) == (0, True), (
            table
        )
        assert _rows(database_url, name) == [1, 3, 1, 1, 1]
        assert call(*command).out.startswith(f"already there: {name}")
        assert call("replay", "--check", name, "--database-url", database_url).code == 0
    assert call("verify", "--all", "--database-url", database_url).code == 0


def test_a_killed_process_leaves_nothing_of_a_fork(database_url: str) -> None:
    """After the last write and before the commit, a fork is not there at all."""
    record(database_url, "bazaar", BAZAAR)
    command = ("fork", "bazaar", "--as", "child", "--database-url", database_url)
    with Lock(database_url, "lock table snapshots in share mode") as lock, Running(*command) as running:
        lock.wait_for_waiter()
        running.end(signal.SIGKILL)
        assert _rows(database_url, "child") == [0, 0, 0, 0, 0]
    assert "child" not in call("worlds", "--database-url", database_url).out


async def test_forks_at_the_head_of_a_world_that_is_written(store: Store, database_url: str) -> None:
    """While other processes append, each fork at the head goes on from the very effect that it names."""
    for world in ("different", "same"):
        await store.create_world(NewWorld(world_id=world))
    forks: list[tuple[str, int]] = []
    with ExitStack() as stack:
        racers = [Racer(database_url, f"p{number}") for number in range(2)]
        for racer in racers:
            stack.callback(racer.end)
        await store.fork("different", HEAD, NewFork(world_id="fork-0"))
        forks.append(("fork-0", 1))
        for racer in racers:
            assert await asyncio.to_thread(racer.said.readline) == "ready\n"
            racer.to.write("go\n")
            racer.to.flush()
        while (head := (await store.world("different")).head_seq) < 2 * COUNT + 1:
            fork, _ = await store.fork("different", HEAD, NewFork(world_id=f"fork-{len(forks)}"))
            forks.append((fork.world_id, head))
        for racer in racers:
            assert len(json.loads(await asyncio.to_thread(racer.said.readline))) == COUNT
    await assert_sound(store, "different")
    seqs = []
    for name, head in forks:
        await assert_sound(store, name)
        point = (await store.states.rules(name)).fork_of
        assert point is not None
        assert point.global_seq >= head
        assert (await store.reader.effect("different", point.global_seq)).checksum.hex() == point.checksum
        parent, own = await store.states.state_at("different", point.global_seq), await store.states.state_at(name, 1)
        assert own.state.metadata["last_effect_time"] == parent.state.metadata["last_effect_time"]
        assert own.state.entities == parent.state.entities
        seqs.append(point.global_seq)
    assert len(set(seqs)) > 1
    assert seqs == sorted(seqs)
