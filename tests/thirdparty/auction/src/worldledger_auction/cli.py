"""The commands of auctions: import one, show one."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.options import DatabaseUrl, Home, World
from worldledger_service.cli.output import put

from worldledger.errors import FileRefusedError, InvalidEffectError, WorldExistsError
from worldledger.genesis import NewWorld
from worldledger.names import labelled, slug
from worldledger_auction.reading import read_auction

if TYPE_CHECKING:
    from worldledger_service.cli.tree import Commands
    from worldledger_service.store import Store

    from worldledger.effects import EffectDraft


def import_auction(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of JSON lines.", show_default=False)],
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help="The label under which to find the auction.")
    ] = None,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Import a recorded auction, whole or not at all; the world is named like the file.

    Each line is one effect: kind, source_id, sim_time and payload. A file that was imported before is left as it is.

    Example:
        worldledger import auction spring.jsonl --experiment prices
    """
    drafts, digest = _read(file)
    world = NewWorld(
        world_id=labelled(slug(file.stem) or "auction", experiment),
        ruleset="auction",
        experiment=experiment,
        time_authority="client",
        config={"file_sha256": digest},
    )

    async def work(store: Store) -> str:
        try:
            await store.import_world(world, drafts)
        except InvalidEffectError as error:
            line = None if error.index is None else error.index + 1
            raise FileRefusedError(f"{error.path}: {error.reason}", file=str(file), line=line) from None
        except WorldExistsError:
            if (await store.world(world.world_id)).config != world.config:
                raise
            return "already there:"
        return "imported"

    put(f"{with_store(target(ctx, database_url, home), work)} {world.world_id}, {len(drafts)} effects")


def _read(file: Path) -> tuple[list[EffectDraft], str]:
    """Return the drafts of a file, and its digest. Raises FileRefusedError."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise FileRefusedError(f"cannot be read ({error.strerror})", file=str(file)) from None
    drafts: list[EffectDraft] = []
    for number, line in enumerate(data.splitlines(), 1):
        try:
            draft = json.loads(line)
        except ValueError as error:
            raise FileRefusedError(f"this is no JSON ({error})", file=str(file), line=number) from None
        if not isinstance(draft, dict):
            raise FileRefusedError("a line is a JSON object", file=str(file), line=number)
        drafts.append(cast("EffectDraft", {"schema_version": "1.0.0", **draft}))
    return drafts, sha256(data).hexdigest()


def show(ctx: typer.Context, world: World, database_url: DatabaseUrl = None, home: Home = None) -> None:
    """Show the lots of an auction, one a line.

    Example:
        worldledger auction show spring
    """
    auction = with_store(target(ctx, database_url, home), lambda store: read_auction(store, world))
    for lot in auction["lots"]:
        put(f"{lot['lot']}. {lot['title'] or 'untitled'}: {_standing(lot)}")


def _standing(lot: dict[str, Any]) -> str:
    bids = f"{lot['bids']} bid{'' if lot['bids'] == 1 else 's'}"
    if lot["bidder"] is None:
        return f"{lot['status']}, {bids}"
    return f"{lot['status']}, {bids}, {lot['price']} by {lot['bidder']}"


def add(commands: Commands) -> None:
    """Add the commands to the program's."""
    commands.add("import auction", import_auction)
    commands.group("auction", "Look at auctions.", "worldledger auction show spring")
    commands.add("auction show", show)
