"""A full disk: a clear error, nothing half-written, and on it goes once there is room."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from worldledger_service.database import embedded
from worldledger_service.database.embedded import EmbeddedServer
from worldledger_service.settings import Settings
from worldledger_service.store import EventLog, Receipt, Store

from tests.conftest import quick_settings
from tests.embedded.helpers import copied
from tests.store.helpers import assert_sound, draft
from worldledger.errors import RecoveryAction, StoreUnavailableError
from worldledger.genesis import NewWorld

pytestmark = pytest.mark.slow

_MIB = 2**20


def _mount(folder: Path, size: int) -> None:
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}m,mode=0755", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        folder.rmdir()
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.decode().strip()}")


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", str(folder)], check=True)
    folder.rmdir()


@pytest.fixture
def small_disk(home: Path) -> Iterator[Path]:
    """Return a file system of 12 MiB."""
    folder = home.with_name("small")
    _mount(folder, 12)
    yield folder
    embedded.stop(home)
    _unmount(folder)


@pytest.fixture
def server(home: Path, small_disk: Path) -> Iterator[EmbeddedServer]:
    """Return a server to which the small disk is open."""
    with embedded.attach(home) as attached:
        os.chown(small_disk, attached.data_dir.stat().st_uid, -1)
        yield attached


@pytest.fixture
def small_server(home: Path, migrated: Path) -> Iterator[EmbeddedServer]:
    """Return a server in a file system of its own that is just large enough for it."""
    folder = home.with_name("disk")
    _mount(folder, 160)
    small = copied(migrated, folder / "home")
    with embedded.attach(small) as attached:
        yield attached
    embedded.stop(small)
    embedded.remove(small)
    _unmount(folder)


async def _move_rows(url: str, folder: Path) -> None:
    """Let the rows be kept in a folder."""
    admin = await asyncpg.connect(url)
    await admin.execute(f"create tablespace aside location '{folder}'")
    for table in ("effects", "requests"):
        await admin.execute(f"alter table {table} set tablespace aside")
    await admin.close()


async def _fill(store: Store, log: EventLog, filled: list[Receipt]) -> StoreUnavailableError:
    """Append until the disk is full; return the error."""
    for n in range(5000):
        try:
            filled += await log.append_all(
                [draft([n, at, os.urandom(6000).hex()], req_id=f"{n}-{at}") for at in range(5)]
            )
        except StoreUnavailableError as error:
            return error
    pytest.fail("the disk never was full")


async def test_no_room_for_data(server: EmbeddedServer, small_disk: Path) -> None:
    """When there is no room for rows, appends, bulk writes and new worlds fail clearly; then they go on."""
    await _move_rows(server.url(), small_disk)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(4 * _MIB))
    async with Store.open(server.url(), Settings(pool_size=3, append_deadline=2)) as store:
        await store.create_world(NewWorld(world_id="w"))
        log = await store.log("w")
        filled: list[Receipt] = []
        error = await _fill(store, log, filled)
        assert error.details["sqlstate"] == "53100"
        assert "has no disk space left" in str(error)
        assert "outcome" not in error.details  # it is known: nothing was written
        assert store.outages.takes_no_writes == "its disk is full"
        big = [draft([n, "x" * 6000]) for n in range(1000)]
        with pytest.raises(StoreUnavailableError, match="disk space"):
            await store.bulk_append("w", big)
        with pytest.raises(StoreUnavailableError, match="disk space"):
            await store.import_world(NewWorld(world_id="w2"), big)
        assert len(await assert_sound(store, "w", filled)) == len(filled)
        ballast.unlink()
        filled += await log.append_all([draft("after")])
        assert not store.outages.takes_no_writes
        (again,) = await log.append_all([draft("after", req_id="r")])
        assert await assert_sound(store, "w", [*filled, again])
        assert len(filled) + 2 == again.global_seq
        await store.create_world(NewWorld(world_id="w2"))


async def test_no_room_for_the_servers_journal(small_server: EmbeddedServer, home: Path) -> None:
    """When the server itself has no room to go on, callers are told; with room again, nothing acknowledged is lost."""
    url = small_server.url()
    disk = small_server.data_dir.parents[1]
    roomy = home.with_name("roomy")
    roomy.mkdir()
    os.chown(roomy, small_server.data_dir.stat().st_uid, -1)
    await _move_rows(url, roomy)
    ballast = disk / "ballast"
    filled: list[Receipt] = []
    async with Store.open(url, Settings(pool_size=3, append_deadline=0.1)) as store:
        await store.create_world(NewWorld(world_id="w"))
        log = await store.log("w")
        await log.append(draft("first"))
        room = os.statvfs(disk)
        ballast.write_bytes(bytes(max(room.f_bavail * room.f_frsize - _MIB, 0)))
        error = await _fill(store, log, filled)
        assert error.recovery is RecoveryAction.RETRY_WITH_DELAY
        ballast.unlink()
    deadline = asyncio.get_running_loop().time() + 120
    while True:  # the server has to recover first
        try:
            # A digest of a state that is due would come between the looks at the log and at its head.
            async with Store.open(url, quick_settings(pool_size=3)) as store:
                receipts = await (await store.log("w")).append_all([draft("after", req_id="after")])
                await assert_sound(store, "w", [*filled, *receipts])
                return
        except StoreUnavailableError:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.1)
