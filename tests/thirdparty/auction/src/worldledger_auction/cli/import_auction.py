"""``worldledger import auction``: a recorded auction becomes a world."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.options import DatabaseUrl, Home, examples
from worldledger_service.cli.output import put

from worldledger.errors import FileRefusedError, InvalidEffectError, WorldExistsError
from worldledger.genesis import NewWorld
from worldledger.names import labelled, slug

if TYPE_CHECKING:
    from worldledger_service.store import Store

    from worldledger.effects import EffectDraft

EXAMPLES = examples("worldledger import auction spring.jsonl --experiment prices")


def command(
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
