"""The commands of worlds: list them, create one, say when what its agents do is stale."""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worldledger.errors import FileRefusedError, InvalidConfigError, InvalidEffectError, WorldNotFoundError
from worldledger.kinds import DEFAULT, parts
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.naming import exact_world, no_experiment
from worldledger_service.cli.options import DatabaseUrl, Home, Json, World
from worldledger_service.cli.output import (
    COLUMNS,
    Piece,
    counted,
    cut,
    cut_inside,
    cut_line,
    guide,
    json_list,
    plain,
    put,
    put_bytes,
    put_lines,
    put_rows,
    say,
    screen_width,
    width,
)

if TYPE_CHECKING:
    from worldledger.chain import Finding
    from worldledger.config import OrchestratorConfig
    from worldledger.genesis import ForkPoint, NewWorld
    from worldledger.staleness import Threshold, WorldStaleness
    from worldledger_service.store import Store, WorldRecord


#: A name in a tree is not cut to fewer characters.
_SHORTEST_NAME = 16
_HEADER = ("WORLD", "RULESET", "EXPERIMENT", "EFFECTS", "CREATED", "OUTCOME")
#: The columns that a terminal lacks which is too narrow for them, the first of them first.
_SPARE = [_HEADER.index(name) for name in ("CREATED", "EXPERIMENT", "RULESET", "EFFECTS", "OUTCOME")]


def list_worlds(
    ctx: typer.Context,
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help="Only the worlds of this experiment.")
    ] = None,
    as_json: Json = False,
    as_tree: Annotated[bool, typer.Option("--tree", help="Draw forks under their parents.")] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """List the worlds by name, with their heads, and how they stand as far as projections have come.

    Names are whole, so that they can be copied: a narrow terminal shows less of the rest. A world whose row cannot be
    read is named on stderr, and the exit code is 1.

    Examples:
        worldledger worlds --experiment first
        worldledger worlds --json | jq -r '.[].world_id'
        worldledger worlds --tree
    """
    if as_json and as_tree:
        raise typer.BadParameter("give one of --json and --tree; --json has fork_of")
    unreadable: list[Finding] = []
    with_store(
        target(ctx, database_url, home),
        lambda store: (_as_json if as_json else _as_tree if as_tree else _as_table)(store, experiment, unreadable),
    )
    for finding in unreadable:
        say(finding.error().message)
    if unreadable:
        raise typer.Exit(1)


async def _with_origins(
    store: Store, experiment: str | None, unreadable: list[Finding]
) -> AsyncIterator[tuple[WorldRecord, ForkPoint | None]]:
    """Yield the worlds by name, each with where it begins if it is a fork."""
    from worldledger.chain import Finding  # noqa: PLC0415

    after = ""
    while page := await store.worlds(experiment=experiment, after=after, limit=500):
        origins = await store.fork_points([world.world_id for world in page])
        for world in page:
            origin = origins.get(world.world_id)
            if isinstance(world, Finding):
                unreadable.append(world)
            elif isinstance(origin, Finding):
                unreadable.append(origin)
            else:
                yield world, origin
        after = page[-1].world_id


async def _as_json(store: Store, experiment: str | None, unreadable: list[Finding]) -> None:
    with json_list() as item:
        async for world, origin in _with_origins(store, experiment, unreadable):
            fork_of = None if origin is None else origin.model_dump(mode="json")
            item({**world.model_dump(mode="json"), "fork_of": fork_of})


async def _as_tree(store: Store, experiment: str | None, unreadable: list[Finding]) -> None:
    """Draw the worlds under their parents. All of their names are held in memory."""
    nodes = {
        world.world_uuid: _Node(world, origin) async for world, origin in _with_origins(store, experiment, unreadable)
    }
    roots: list[_Node] = []
    for node in nodes.values():
        parent = None if node.origin is None else nodes.get(node.origin.world_uuid)
        (roots if parent is None else parent.forks).append(node)
    if not nodes:
        await _say_none(store, experiment)
    elsewhere: set[str] = set()
    if experiment is not None:  # a parent may be in another one
        for name in sorted({root.origin.world_id for root in roots if root.origin is not None}):
            with suppress(WorldNotFoundError):
                elsewhere.add((await store.world(name)).world_uuid)
    most = screen_width() or COLUMNS
    put_lines(cut_line(line, most) for root in roots for line in _drawn(root, "", "", most, elsewhere))


class _Node:
    """A world in the tree, with its forks."""

    def __init__(self, world: WorldRecord, origin: ForkPoint | None) -> None:
        self.world_id = world.world_id
        self.head_seq = world.head_seq
        self.origin = origin
        self.forks: list[_Node] = []

    @property
    def place(self) -> tuple[int, str]:
        """Its place among the forks of one world: by fork point and name."""
        return 0 if self.origin is None else self.origin.global_seq, self.world_id


def _drawn(node: _Node, lead: str, indent: str, most: int, elsewhere: Container[str]) -> Iterator[list[Piece]]:
    """Draw a world and its forks; ``lead`` is before it, ``indent`` before what is below.

    Parents that are not drawn are named: those with a uuid in ``elsewhere`` are of another experiment, others are not
    here. Where a line is longer than ``most`` columns the name of such a parent is cut, and then that of the world.
    """
    line: list[Piece] = [guide(lead)] if lead else []
    about: list[Piece] = []
    if node.origin is not None:
        about.append((f" from seq {node.origin.global_seq}", "dim"))
    about.append((f" {counted(node.head_seq, 'effect')}", "dim"))
    if node.origin is not None and not lead:
        behind, style = ("", "dim") if node.origin.world_uuid in elsewhere else (", which is not here", "yellow")
        left = most - width(node.world_id) - sum(width(text) for text, _ in about) - len(" of " + behind)
        parent = cut_inside(node.origin.world_id, max(left, _SHORTEST_NAME))
        about.insert(1, (f" of {parent}{behind}", style))
    left = most - sum(width(text) for text, _ in [*line, *about])
    yield [*line, (cut(node.world_id, max(left, _SHORTEST_NAME)), "bold"), *about]
    for number, fork in enumerate(sorted(node.forks, key=lambda fork: fork.place), 1):
        last = number == len(node.forks)
        yield from _drawn(fork, indent + ("└ " if last else "├ "), indent + ("  " if last else "│ "), most, elsewhere)


async def _as_table(store: Store, experiment: str | None, unreadable: list[Finding]) -> None:
    """Write aligned columns a page at a time, so that memory does not grow with the number of worlds."""
    from worldledger_service.store import WorldRecord  # noqa: PLC0415 - slow to load, as the next
    from worldledger_service.store.outcomes import outcomes  # noqa: PLC0415

    first = True
    after = ""
    while page := await store.worlds(experiment=experiment, after=after, limit=500):
        worlds = [world for world in page if isinstance(world, WorldRecord)]
        unreadable += [world for world in page if not isinstance(world, WorldRecord)]
        stand = await outcomes(store.reader, worlds)
        rows = [_row(world, stand.get(world.world_id, "")) for world in worlds]
        put_rows(_HEADER if first else None, rows, spare=_SPARE)
        first = False
        after = page[-1].world_id
    if first:
        await _say_none(store, experiment)


async def _say_none(store: Store, experiment: str | None) -> None:
    if experiment is not None and await store.experiments():
        say(await no_experiment(store, experiment))
        return
    where = "" if experiment is None else f" in the experiment {experiment!r}"
    say(f"there are no worlds{where}; make one with `worldledger world create`, or see `worldledger import --help`")


def _row(world: WorldRecord, outcome: str) -> tuple[str, ...]:
    created = world.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
    cells = world.world_id, world.ruleset, world.experiment or "-", str(world.head_seq), created, outcome
    return tuple(map(plain, cells))


# -- world staleness -----------------------------------------------------------------------------------------

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


def set_staleness(
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

    Examples:
        worldledger world staleness my-world
        worldledger world staleness my-world --staleness-threshold null
        worldledger world staleness my-world --interrupt-policy only_conflict --max-staleness-threshold 20
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


# -- world create --------------------------------------------------------------------------------------------


def create_world(
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
    """Create a world; what is given here stands in its first effect for ever.

    Examples:
        worldledger world create my-world
        worldledger world create island --time-authority unity --config island.json
        worldledger world create arena --time-authority unity --order tick
        worldledger world create market --config market.yaml
    """
    served: dict[str, Any] = {}
    if staleness_threshold is not None:
        served["staleness_threshold"] = threshold_of("--staleness-threshold", staleness_threshold)
    if interrupt_policy is not None:
        served["interrupt_policy"] = interrupt_policy
    if max_staleness_threshold is not None:
        served["max_staleness_threshold"] = threshold_of("--max-staleness-threshold", max_staleness_threshold)
    ruleset, value = _ruleset_and_config(ruleset, config)
    world = _world(
        ruleset,
        world_id=name,
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


def _world(ruleset: str | None, **fields: Any) -> NewWorld:
    """Return the world to create; without a ruleset it has the default one. Raises InvalidConfigError."""
    from pydantic import ValidationError  # noqa: PLC0415

    from worldledger.genesis import NewWorld  # noqa: PLC0415

    if ruleset:
        fields["ruleset"] = ruleset
    try:
        return NewWorld(**fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InvalidConfigError(f"{first['loc'][0]}: {first['msg']}") from None


def _ruleset_and_config(ruleset: str | None, file: Path | None) -> tuple[str | None, dict[str, Any]]:
    """Return the ruleset and the configuration; if no ruleset is named, a kind may recognise the file as its own."""
    if file is None:
        return ruleset, {}
    for name, read in parts("read_config").items():
        if ruleset in {None, name} and (value := read(file, named=ruleset is not None)) is not None:
            return name, value
    return ruleset, _read(file)


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
