"""``worldledger checkpoint export`` and ``import``: a simulation's state as a file, and as another's beginning."""

from __future__ import annotations

import sys
from codecs import BOM_UTF8
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.files import written_whole
from worldledger_service.cli.moments import At, AtSeq, AtTurn, one_moment, seq_of
from worldledger_service.cli.naming import find_world
from worldledger_service.cli.options import DatabaseUrl, Force, Home, Quiet, World
from worldledger_service.cli.output import effects, progress_bar, put, say

from worldledger.errors import (
    FileRefusedError,
    InvalidEffectError,
    InvalidNameError,
    Problem,
    SimulationError,
    WorldExistsError,
)
from worldledger_simulation.rules.sections import InvalidSimulationConfigError

if TYPE_CHECKING:
    from worldledger_service.store import Store, WorldRecord
    from worldledger_service.store.states import StateAt

    from worldledger.genesis import NewWorld
    from worldledger_simulation.rules import Checkpoint, SimulationConfig


def export_checkpoint(
    ctx: typer.Context,
    world: World,
    at: At = None,
    at_seq: AtSeq = None,
    turn: AtTurn = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to write it.",
            show_default="stdout",
        ),
    ] = "-",
    force: Force = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Write what a simulation is at a moment as a JSON file that another simulation can begin with.

    It has the turn, every agent's variables and the global ones, as they are, and says where it was taken. It may be
    edited; `worldledger checkpoint import` then wants to be told so.

    Examples:
        worldledger checkpoint export market -o market.json
        worldledger checkpoint export market --at turn:5 | jq .agents.Trader_1
    """
    moment = one_moment(at, seq=at_seq, turn=turn)

    async def work(store: Store) -> None:
        record = await find_world(store, world)
        seq = await seq_of(store, record, moment)
        with progress_bar(f"folding {record.world_id}", quiet=quiet) as tell:
            found = await store.states.state_at(record.world_id, seq, effects(tell))
        text, of_turn, is_open = _checkpoint(record, found)
        with written_whole(output, force=force) as write:
            write(text)
        if not quiet:
            where = "" if output == "-" else f" to {output}"
            unfinished = "; the turn is open: a simulation that begins with this goes on after it" if is_open else ""
            say(f"exported {record.world_id} at turn {of_turn}, seq {seq}{where}{unfinished}")

    with_store(target(ctx, database_url, home), work)


def _checkpoint(record: WorldRecord, found: StateAt) -> tuple[bytes, int, bool]:
    """Write a state's checkpoint; return it with its turn, and whether that is open. Raises SimulationError."""
    import orjson  # noqa: PLC0415 - slow to load; `--help` needs none of them

    from worldledger_simulation.rules import SimulationState  # noqa: PLC0415
    from worldledger_simulation.rules.checkpoint import Source, checkpoint_value  # noqa: PLC0415

    world_id, state = record.world_id, found.state
    if "simulation" not in state.metadata:
        what = f"world {world_id!r} is of ruleset {record.ruleset}; only simulations have checkpoints"
        raise SimulationError(what, world_id=world_id)
    try:
        typed = SimulationState.of(state, world_uuid=record.world_uuid)
    except ValueError as error:
        what = f"world {world_id!r} has no checkpoint at seq {found.global_seq}: {error}"
        raise SimulationError(what, world_id=world_id, global_seq=found.global_seq) from None
    source = Source(world_id, record.world_uuid, found.global_seq, found.checksum)
    value = checkpoint_value(state, typed.to_value(), source)
    is_open: bool = state.metadata["simulation"]["open"]
    return orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n", typed.turn, is_open


# ``worldledger checkpoint import``: a simulation that begins with a checkpoint.

#: Largest file that is read, in bytes.
_MOST_BYTES: Final = 64 * 2**20


def import_checkpoint(
    ctx: typer.Context,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A checkpoint, as JSON; - is stdin.", show_default=False),
    ],
    config: Annotated[
        Path,
        typer.Option(
            "--config", metavar="FILE", help="The simulation's configuration: YAML or JSON.", show_default=False
        ),
    ],
    name: Annotated[
        str | None, typer.Option("--name", metavar="WORLD", help="The new world's name.", show_default="FILE's own")
    ] = None,
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help="A label under which to find it.")
    ] = None,
    edited: Annotated[
        bool, typer.Option("--edited", help="Take a checkpoint that was edited since it was exported.")
    ] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Make a new simulation that begins with a checkpoint instead of the defaults of its variables.

    The configuration may be another one than the checkpoint's: variables that the checkpoint lacks have their defaults;
    what the configuration does not know is refused, with everything else that does not fit, before anything is written.
    The same import once more changes nothing.

    Examples:
        worldledger checkpoint import market.json --config simulation.yaml
        worldledger checkpoint import market.json --config simulation.yaml --name what-if --edited
    """
    from worldledger_simulation.rules import load_config  # noqa: PLC0415 - slow to load

    world_id = _name(file) if name is None else name
    settings = load_config(config)
    value = _read(file)
    checkpoint = _fitting(value, settings, file, config)
    if checkpoint.edited and not edited:
        what = "it was edited since it was exported (its digest is another one); give --edited to take it as it is"
        raise FileRefusedError(what, file=file)
    world = _world(world_id, settings, value, experiment)
    record = with_store(target(ctx, database_url, home), lambda store: _create(store, world))
    if record is None:
        put(f"already there, nothing to do: {world_id}, turn {checkpoint.turn}")
    else:
        put(f"created {world_id} at turn {checkpoint.turn}, head {record.head.position}")


def _name(file: str) -> str:
    """Return the world's name as a file gives it. Raises BadParameter for an invalid one."""
    from worldledger.genesis import check_world_name  # noqa: PLC0415

    try:
        return check_world_name(Path(file).stem)
    except InvalidNameError as error:
        raise typer.BadParameter(f"{error.message}; give it another", param_hint="'--name'") from None


def _read(file: str) -> Any:
    """Read a checkpoint's JSON. Raises FileRefusedError."""
    from worldledger.canonical import gate, parse_text  # noqa: PLC0415

    try:
        if file == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:
                data = stream.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise FileRefusedError(f"it is larger than {_MOST_BYTES} bytes; no checkpoint is", file=file)
        value = parse_text(data.removeprefix(BOM_UTF8))  # some editors begin a file with it
        gate(value)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise FileRefusedError(f"cannot be read ({reason or error})", file=file) from None
    except InvalidEffectError as error:
        where = "" if error.path == "$" else f"{error.path}: "
        raise FileRefusedError(f"{where}{error.reason}", file=file) from None
    return value


def _fitting(value: Any, settings: SimulationConfig, file: str, config: Path) -> Checkpoint:
    """Read a checkpoint for a configuration. Raises InvalidSimulationConfigError with everything that does not fit."""
    from worldledger_simulation.rules import Checkpoint  # noqa: PLC0415

    try:
        return Checkpoint.read(value, settings)
    except InvalidSimulationConfigError as error:
        heading = Problem((), f"the checkpoint does not fit {config}", file)
        problems = [problem._replace(file=file) for problem in error.problems]
        raise InvalidSimulationConfigError([heading, *problems]) from None


def _world(world_id: str, settings: SimulationConfig, value: Any, experiment: str | None) -> NewWorld:
    from pydantic import ValidationError  # noqa: PLC0415

    from worldledger.genesis import NewWorld  # noqa: PLC0415

    fields = {"ruleset": "simulation", "config": settings.to_value(), "checkpoint": value, "experiment": experiment}
    try:
        return NewWorld(world_id=world_id, **fields)
    except ValidationError as error:  # the only one that has not been checked yet
        raise typer.BadParameter(error.errors(include_url=False)[0]["msg"], param_hint="'--experiment'") from None


async def _create(store: Store, world: NewWorld) -> WorldRecord | None:
    """Create the world; return None if it exists already, with this beginning."""
    try:
        return await store.create_world(world)
    except WorldExistsError:
        if await _is_there(store, world):
            return None
        raise


async def _is_there(store: Store, world: NewWorld) -> bool:
    """Return whether the existing world was made from this configuration and this checkpoint."""
    import orjson  # noqa: PLC0415

    from worldledger.rulesets import load_ruleset  # noqa: PLC0415
    from worldledger.world import state_text  # noqa: PLC0415 - texts, because to Python 1, 1.0 and True are one value

    record = await store.world(world.world_id)
    if record.ruleset != world.ruleset or world.experiment not in {None, record.experiment}:
        return False
    ruleset = load_ruleset(world.ruleset)
    opening = ruleset.opening(world.config, world_uuid=record.world_uuid, checkpoint=world.checkpoint)
    there = [record.config]
    async for batch in store.reader.batches(world.world_id, after_seq=1, limit=len(opening)):
        there += [orjson.loads(row.text)["payload"] for row in batch]
    return state_text(there) == state_text([world.config, *(draft["payload"] for draft in opening)])
