"""The commands of snapshots: list those of a world, take one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.moments import HEAD, At, one_moment, seq_of
from worldledger_service.cli.naming import exact_world, whole_name
from worldledger_service.cli.options import DatabaseUrl, Home, Quiet, World
from worldledger_service.cli.output import effects, json_list, progress_bar, put, put_bytes, put_rows, say

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from worldledger_service.store import Store
    from worldledger_service.store.snapshots import SnapshotRecord


_HEADER = ("SEQ", "BYTES", "STATE DIGEST", "RULESET", "STATUS", "DIGEST IN SEQ", "TAKEN")
_PAGE = 500


def list_snapshots(
    ctx: typer.Context,
    world: World,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON: a list of objects, with whole digests.")] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """List a world's snapshots: states kept beside the log, so that none has to be folded from the beginning.

    They are a cache. Those that another version of the ruleset made are stale, and not used. DIGEST IN SEQ is the
    effect StateDigest by which the log itself says what the state was.

    Examples:
        worldledger snapshots my-world
        worldledger snapshots my-world --json | jq '.[-1]'
    """

    async def work(store: Store) -> None:
        name = await whole_name(store, world)
        await (_as_json if as_json else _as_table)(store, name)

    with_store(target(ctx, database_url, home), work)


async def _pages(store: Store, world: str) -> AsyncIterator[list[SnapshotRecord]]:
    after = 0
    while page := await store.states.page(world, after=after, limit=_PAGE):
        yield page
        after = page[-1].global_seq


async def _as_json(store: Store, world: str) -> None:
    with json_list() as item:
        async for page in _pages(store, world):
            for snapshot in page:
                item(snapshot.model_dump(mode="json"))


async def _as_table(store: Store, world: str) -> None:
    header: tuple[str, ...] | None = _HEADER
    async for page in _pages(store, world):
        put_rows(header, [_row(snapshot) for snapshot in page])
        header = None
    if header is not None:
        say(f"there are no snapshots of {world} yet; `worldledger snapshot {world}` takes one")


def _row(snapshot: SnapshotRecord) -> tuple[str, ...]:
    return (
        str(snapshot.global_seq),
        str(snapshot.state_bytes),
        f"{snapshot.state_digest[:16]}…",
        f"{snapshot.ruleset} {snapshot.ruleset_version}",
        "current" if snapshot.current else "stale",
        "-" if snapshot.digest_seq is None else str(snapshot.digest_seq),
        snapshot.created_at.astimezone().strftime("%Y-%m-%d %H:%M:%S"),
    )


# -- snapshot ------------------------------------------------------------------------------------------------


def take_snapshot(
    ctx: typer.Context,
    world: World,
    at: At = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object: the snapshot.")] = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Take a snapshot of a world at its head or an earlier moment, and write the state's digest into the log.

    States near it are then quick to get, and whoever replays the log can prove that they came to the same one. Where
    nothing has happened since the last snapshot, nothing is done.

    Examples:
        worldledger snapshot my-world
        worldledger snapshot my-world --at step:1000
    """
    moment = one_moment(at)

    async def work(store: Store) -> None:
        record = await exact_world(store, world)
        seq = None if moment == HEAD else await seq_of(store, record, moment)
        before = await store.states.newest(record.world_id, seq)
        with progress_bar(f"folding {record.world_id}", quiet=quiet) as tell:
            snapshot = await store.snapshot(record.world_id, effects(tell), seq=seq)
        if as_json:
            put_bytes(snapshot.model_dump_json().encode() + b"\n")
        elif not quiet:
            put(_sentence(snapshot, new=snapshot not in before))

    with_store(target(ctx, database_url, home), work)


def _sentence(snapshot: SnapshotRecord, *, new: bool) -> str:
    what = f"{snapshot.state_bytes} bytes, digest {snapshot.state_digest}"
    if not new:
        return f"nothing has happened in {snapshot.world_id} since its snapshot at seq {snapshot.global_seq} ({what})"
    noted = "" if snapshot.digest_seq is None else f"; seq {snapshot.digest_seq} of the log says so"
    return f"took a snapshot of {snapshot.world_id} at seq {snapshot.global_seq} ({what}){noted}"
