"""``worldledger world staleness``: when what a world's agents are about to do is stale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from worldledger.errors import InvalidConfigError
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.naming import exact_world
from worldledger_service.cli.options import DatabaseUrl, Home, World, examples
from worldledger_service.cli.output import put, put_bytes

if TYPE_CHECKING:
    from worldledger.staleness import Threshold, WorldStaleness
    from worldledger_service.store import Store

EXAMPLES = examples(
    "worldledger world staleness my-world",
    "worldledger world staleness my-world --staleness-threshold null",
    "worldledger world staleness my-world --interrupt-policy only_conflict --max-staleness-threshold 20",
)

_AGENTS = "Agents"

StalenessThreshold = Annotated[
    str | None,
    typer.Option(
        "--staleness-threshold",
        metavar="N|null",
        help="Sightings after which what an agent is about to do is stale; null: it never is.",
        rich_help_panel=_AGENTS,
    ),
]
InterruptPolicy = Annotated[
    str | None,
    typer.Option(
        "--interrupt-policy",
        metavar="NAME",
        help="Which sightings count: always (all of them) or only_conflict (those that concern it).",
        rich_help_panel=_AGENTS,
    ),
]
MaxStalenessThreshold = Annotated[
    str | None,
    typer.Option(
        "--max-staleness-threshold",
        metavar="N|null",
        help="Largest threshold that an agent, an intent or a generation may have; null: any.",
        rich_help_panel=_AGENTS,
    ),
]


def command(
    ctx: typer.Context,
    world: World,
    staleness_threshold: StalenessThreshold = None,
    interrupt_policy: InterruptPolicy = None,
    max_staleness_threshold: MaxStalenessThreshold = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Show when what a world's agents are about to do is stale, or set it for what begins from now on.

    What is set is an effect of the world; what is left out stays as it is.
    """
    import orjson  # noqa: PLC0415

    from worldledger.staleness import NOT_GIVEN, check_interrupt_policy  # noqa: PLC0415

    threshold = threshold_of("--staleness-threshold", staleness_threshold)
    maximum = threshold_of("--max-staleness-threshold", max_staleness_threshold)
    policy = None if interrupt_policy is None else check_interrupt_policy(interrupt_policy, "--interrupt-policy")
    sets = (threshold, policy, maximum) != (NOT_GIVEN, None, NOT_GIVEN)

    async def work(store: Store) -> WorldStaleness:
        from worldledger_service.runtime import Orchestrator  # noqa: PLC0415
        from worldledger_service.store.watch import HeadWatcher  # noqa: PLC0415

        name = (await exact_world(store, world)).world_id
        async with HeadWatcher.over(store, interval=0.2) as watcher, Orchestrator.over(store, watcher, name) as opened:
            if sets:
                await opened.set_staleness(
                    staleness_threshold=threshold, interrupt_policy=policy, max_staleness_threshold=maximum
                )
            return opened.staleness

    settings = with_store(target(ctx, database_url, home), work)
    told = {
        "staleness_threshold": settings.threshold,
        "interrupt_policy": settings.interrupt_policy,
        "max_staleness_threshold": settings.maximum,
    }
    if as_json:
        put_bytes(orjson.dumps({"world_id": world, **told}) + b"\n")
    else:
        put(f"{world}: " + ", ".join(f"{name} {'null' if value is None else value}" for name, value in told.items()))


def threshold_of(option: str, text: str | None) -> Threshold:
    """Read a threshold of the command line: a whole number from 0 on, or null."""
    from worldledger.staleness import NOT_GIVEN  # noqa: PLC0415

    if text is None:
        return NOT_GIVEN
    if text == "null":
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise InvalidConfigError(f"{option}: {text!r} is neither a whole number from 0 on nor null")
    return int(text)
