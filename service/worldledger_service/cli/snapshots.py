"""``worldledger snapshots``: which states of a world are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.naming import whole_name
from worldledger_service.cli.options import DatabaseUrl, Home, World, examples
from worldledger_service.cli.output import json_list, say
from worldledger_service.cli.rows import put_rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from worldledger_service.store import Store
    from worldledger_service.store.snapshots import SnapshotRecord

EXAMPLES = examples("worldledger snapshots my-world", "worldledger snapshots my-world --json | jq '.[-1]'")

_HEADER = ("SEQ", "BYTES", "STATE DIGEST", "RULESET", "STATUS", "DIGEST IN SEQ", "TAKEN")
_PAGE = 500


def command(
    ctx: typer.Context,
    world: World,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON: a list of objects, with whole digests.")] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """List a world's snapshots: states kept beside the log, so that none has to be folded from the beginning.

    They are a cache. Those that another version of the ruleset made are stale, and not used. DIGEST IN SEQ is the
    effect StateDigest by which the log itself says what the state was.
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
