"""``worldledger worlds``: which worlds there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.naming import no_experiment
from worldledger_service.cli.options import DatabaseUrl, Home, Json, examples
from worldledger_service.cli.output import json_list, plain, say
from worldledger_service.cli.rows import put_rows

if TYPE_CHECKING:
    from worldledger.chain import Finding
    from worldledger_service.store import Store, WorldRecord

EXAMPLES = examples("worldledger worlds --experiment first", "worldledger worlds --json | jq -r '.[].world_id'")

_HEADER = ("WORLD", "RULESET", "EXPERIMENT", "EFFECTS", "CREATED")


def command(
    ctx: typer.Context,
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help="Only the worlds of this experiment.")
    ] = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """List the worlds by name, with their heads.

    A world whose row cannot be read is named on stderr, and the exit code is 1.
    """
    unreadable: list[Finding] = []
    with_store(
        target(ctx, database_url, home),
        lambda store: (_as_json if as_json else _as_table)(store, experiment, unreadable),
    )
    for finding in unreadable:
        say(finding.error().message)
    if unreadable:
        raise typer.Exit(1)


async def _as_json(store: Store, experiment: str | None, unreadable: list[Finding]) -> None:
    with json_list() as item:
        async for world in store.every_world(experiment=experiment, unreadable=unreadable.append):
            item(world.model_dump(mode="json"))


async def _as_table(store: Store, experiment: str | None, unreadable: list[Finding]) -> None:
    """Write pages of aligned columns, so that no number of worlds has to be held."""
    from worldledger_service.store import WorldRecord  # noqa: PLC0415 - slow to load; `--help` needs none of it

    first = True
    after = ""
    while page := await store.worlds(experiment=experiment, after=after, limit=500):
        worlds = [world for world in page if isinstance(world, WorldRecord)]
        unreadable += [world for world in page if not isinstance(world, WorldRecord)]
        put_rows(_HEADER if first else None, [_row(world) for world in worlds])
        first = False
        after = page[-1].world_id
    if first:
        if experiment is not None and await store.experiments():
            say(await no_experiment(store, experiment))
            return
        where = "" if experiment is None else f" in the experiment {experiment!r}"
        say(f"there are no worlds{where}; make one with `worldledger world create`, or see `worldledger import --help`")


def _row(world: WorldRecord) -> tuple[str, ...]:
    created = world.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
    cells = world.world_id, world.ruleset, world.experiment or "-", str(world.head_seq), created
    return tuple(map(plain, cells))
