"""``worldledger snapshot``: keep a world's present state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.moments import HEAD, At, one_moment, seq_of
from worldledger_service.cli.naming import exact_world
from worldledger_service.cli.options import DatabaseUrl, Home, Quiet, World, examples
from worldledger_service.cli.output import put, put_bytes
from worldledger_service.cli.progress import effects, progress_bar

if TYPE_CHECKING:
    from worldledger_service.store import Store
    from worldledger_service.store.snapshots import SnapshotRecord

EXAMPLES = examples("worldledger snapshot my-world", "worldledger snapshot my-world --at step:1000")


def command(
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
        else:
            put(_sentence(snapshot, new=snapshot not in before))

    with_store(target(ctx, database_url, home), work)


def _sentence(snapshot: SnapshotRecord, *, new: bool) -> str:
    what = f"{snapshot.state_bytes} bytes, digest {snapshot.state_digest}"
    if not new:
        return f"nothing has happened in {snapshot.world_id} since its snapshot at seq {snapshot.global_seq} ({what})"
    noted = "" if snapshot.digest_seq is None else f"; seq {snapshot.digest_seq} of the log says so"
    return f"took a snapshot of {snapshot.world_id} at seq {snapshot.global_seq} ({what}){noted}"
