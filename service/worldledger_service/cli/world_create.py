"""``worldledger world create``: a new world."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worldledger.errors import FileRefusedError, InvalidConfigError, InvalidEffectError
from worldledger.kinds import DEFAULT, parts
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.options import DatabaseUrl, Home, examples
from worldledger_service.cli.output import put
from worldledger_service.cli.world_staleness import (
    InterruptPolicy,
    MaxStalenessThreshold,
    StalenessThreshold,
    threshold_of,
)

if TYPE_CHECKING:
    from worldledger.config import OrchestratorConfig
    from worldledger.genesis import NewWorld

EXAMPLES = examples(
    "worldledger world create my-world",
    "worldledger world create island --time-authority unity --config island.json",
    "worldledger world create arena --time-authority unity --order tick",
    "worldledger world create market --config market.yaml",
)


def command(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Letters, digits and . _ - ~; the first a letter or digit.", show_default=False
        ),
    ],
    ruleset: Annotated[
        str | None,
        typer.Option(
            "--ruleset",
            metavar="NAME",
            help="The rules of the world.",
            show_default=f"{DEFAULT}; the kind that --config is of by its looks",
        ),
    ] = None,
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help="A label under which to find it.")
    ] = None,
    time_authority: Annotated[
        str,
        typer.Option(
            "--time-authority",
            metavar="WHO",
            help="Who sets sim_time: wall, client (any draft) or an adapter such as unity.",
        ),
    ] = "wall",
    order: Annotated[
        str,
        typer.Option(
            "--order",
            metavar="WHEN",
            help="When intents become effects: by arrival, or tick: all that are held at the next tick, in one order.",
        ),
    ] = "arrival",
    snapshot_every: Annotated[
        int | None,
        typer.Option(
            "--snapshot-every",
            metavar="N",
            min=2,
            max=999_999_999,
            help="Effects between two snapshots of its state, at least.",
            show_default="the service's setting, 1000",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="The ruleset's own settings: a JSON object, or a file that its kind reads, such as YAML.",
        ),
    ] = None,
    staleness_threshold: StalenessThreshold = None,
    interrupt_policy: InterruptPolicy = None,
    max_staleness_threshold: MaxStalenessThreshold = None,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Create a world; what is given here stands in its first effect for ever."""
    served: dict[str, Any] = {}
    if staleness_threshold is not None:
        served["staleness_threshold"] = threshold_of("--staleness-threshold", staleness_threshold)
    if interrupt_policy is not None:
        served["interrupt_policy"] = interrupt_policy
    if max_staleness_threshold is not None:
        served["max_staleness_threshold"] = threshold_of("--max-staleness-threshold", max_staleness_threshold)
    ruleset, value = _ruleset_and_config(ruleset, config)
    world = _world(
        world_id=name,
        ruleset=ruleset,
        experiment=experiment,
        time_authority=time_authority,
        order=order,
        snapshot_every=snapshot_every,
        config=value,
        orchestrator=_served(served) if served else None,
    )
    record = with_store(target(ctx, database_url, home), lambda store: store.create_world(world))
    put(f"created {record.world_id}, head {record.head.position}")


def _served(settings: dict[str, Any]) -> OrchestratorConfig:
    from worldledger.config import read_config  # noqa: PLC0415

    return read_config(settings)


def _world(**fields: Any) -> NewWorld:
    from pydantic import ValidationError  # noqa: PLC0415

    from worldledger.genesis import NewWorld  # noqa: PLC0415

    try:
        return NewWorld(**fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InvalidConfigError(f"{first['loc'][0]}: {first['msg']}") from None


def _ruleset_and_config(ruleset: str | None, file: Path | None) -> tuple[str, dict[str, Any]]:
    """Return the ruleset and the configuration; where no ruleset is named, the file may be of a kind by its looks."""
    if file is None:
        return ruleset or DEFAULT, {}
    for name, read in parts("read_config").items():
        if ruleset in {None, name} and (value := read(file, named=ruleset is not None)) is not None:
            return name, value
    return ruleset or DEFAULT, _read(file)


def _read(file: Path) -> dict[str, Any]:
    from worldledger.canonical import parse_text  # noqa: PLC0415

    try:
        value = parse_text(file.read_bytes())
    except OSError as error:
        raise FileRefusedError(f"cannot be read ({error.strerror})", file=str(file)) from None
    except InvalidEffectError as error:
        raise FileRefusedError(f"{error.path}: {error.reason}", file=str(file)) from None
    if not isinstance(value, dict):
        raise FileRefusedError("a config is a JSON object", file=str(file))
    return value
