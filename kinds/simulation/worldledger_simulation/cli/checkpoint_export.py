"""``worldledger checkpoint export``: a simulation's state as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.files import written_whole
from worldledger_service.cli.moments import At, AtSeq, AtTurn, one_moment, seq_of
from worldledger_service.cli.naming import find_world
from worldledger_service.cli.options import DatabaseUrl, Force, Home, Quiet, World, examples
from worldledger_service.cli.output import say
from worldledger_service.cli.progress import effects, progress_bar

from worldledger.errors import SimulationError

if TYPE_CHECKING:
    from worldledger_service.store import Store, WorldRecord
    from worldledger_service.store.states import StateAt

EXAMPLES = examples(
    "worldledger checkpoint export market -o market.json",
    "worldledger checkpoint export market --at turn:5 | jq .agents.Trader_1",
)


def command(
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
    """Write a state's checkpoint; return it with its turn, and whether that turn is open. Raises SimulationError."""
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
