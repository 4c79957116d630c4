"""``worldledger view``: what an agent saw, and beside it what was true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worldledger.errors import UnknownAgentError
from worldledger.near import near
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.layout import Piece, fields, put_lines, shown, table
from worldledger_service.cli.moments import At, AtSeq, AtSimTime, AtTurn, AtWallTime, one_moment, seq_of
from worldledger_service.cli.naming import find_world
from worldledger_service.cli.options import DatabaseUrl, Home, Quiet, World, examples
from worldledger_service.cli.output import plain, put_bytes
from worldledger_service.cli.progress import effects, progress_bar
from worldledger_service.cli.truths import Compared, compared

if TYPE_CHECKING:
    from worldledger.observation import View
    from worldledger.world import WorldState
    from worldledger_service.store import Store
    from worldledger_service.store.states import StateAt

EXAMPLES = examples(
    "worldledger view market Trader_1",
    "worldledger view market Trader_1 --at step:5 --truth",
    "worldledger view market Trader_1 --at 120 --truth --json | jq .truth",
)

#: The entity that has the global variables of a world that is counted in units.
_GLOBAL = "global"
#: The policy that blurs numbers.
_BLURRING = "matrix"
#: Longest value in a table.
_MOST = 60
_STYLES = {"hidden": "yellow", "unaware": "yellow", "noised": "cyan", "differs": "red", "gone": "red"}


def command(
    ctx: typer.Context,
    world: World,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name.", show_default=False)],
    at: At = None,
    at_seq: AtSeq = None,
    at_sim_time: AtSimTime = None,
    at_wall_time: AtWallTime = None,
    turn: AtTurn = None,
    truth: Annotated[
        bool,
        typer.Option("--truth", help="Show beside it what was true, and what the agent did not see or saw blurred."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object: the view, with --truth the truth.")
    ] = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Show what an agent saw at a moment: the entities that it could see, with the values that it was shown.

    The view is worked out anew from the log, by the policy that the agent was registered with then. With --truth each
    variable has a line with what the agent saw and what was true. Marked are those that it did not see of what it saw
    (hidden), those of what it did not see at all (unaware), and numbers that were blurred (noised).
    """
    moment = one_moment(at, seq=at_seq, sim_time=at_sim_time, wall_time=at_wall_time, turn=turn)

    async def work(store: Store) -> None:
        from worldledger_service.runtime.origins import Origins  # noqa: PLC0415 - slow to load; `--help` needs none of it

        record = await find_world(store, world)
        seq = await seq_of(store, record, moment)
        with progress_bar(f"folding {record.world_id}", quiet=quiet) as tell:
            found = await store.states.state_at(record.world_id, seq, effects(tell))
            known = found.state.metadata["agents"].get(agent)
            if known is None:
                latest = (await store.states.state_at(record.world_id, record.head_seq)).state.metadata["agents"]
                raise UnknownAgentError(
                    agent,
                    record.world_id,
                    at_seq=seq,
                    registered_seq=latest.get(agent, {}).get("registered_seq", 0),
                    near=[] if agent in latest else near(agent, latest),
                )
            view = await Origins(store, record.world_id).view(agent, seq, registered_seq=known["registered_seq"])
        if as_json:
            put_bytes(_document(found, view, truth=truth))
        else:
            put_lines(_page(found, view, record.head_seq, truth=truth))

    with_store(target(ctx, database_url, home), work)


def _document(found: StateAt, view: View, *, truth: bool) -> bytes:
    """Return the view as it is told over HTTP, the moment that it is of, and every entity as it was."""
    import orjson  # noqa: PLC0415 - slow to load, as the next; `--help` needs none of it

    from worldledger_service.api.inhabitants import in_order, view_of  # noqa: PLC0415

    value = {
        "world_id": found.world_id,
        "global_seq": found.global_seq,
        "turn": _units(found).get("turn"),
        "view": view_of(view),
        **({"truth": in_order(found.state.entities)} if truth else {}),
    }
    return orjson.dumps(value) + b"\n"


def _units(found: StateAt) -> dict[str, Any]:
    """Return the units of the world's ruleset whose number its state has, such as the turn of a simulation."""
    from worldledger.rulesets import load_ruleset  # noqa: PLC0415 - slow to load; `--help` needs none of it

    metadata = found.state.metadata
    return {unit: metadata[unit] for unit in load_ruleset(found.ruleset).units if unit in metadata}


# -- for people ----------------------------------------------------------------------------------------------


def _page(found: StateAt, view: View, head_seq: int, *, truth: bool) -> Iterator[list[Piece]]:
    at = "the head" if found.global_seq == head_seq else f"head {head_seq}"
    units = _units(found)
    counted = "".join(f", {unit} {number}" for unit, number in units.items())
    yield [(view.agent_id, "bold"), (f" in {found.world_id} at seq {found.global_seq} ({at}){counted}", "")]
    yield [(f"view {view.view_seq}, context digest ", ""), (view.context_digest, "cyan")]
    yield from _truth(found.state, view) if truth else _seen(view, has_globals=bool(units))


def _seen(view: View, *, has_globals: bool) -> Iterator[list[Piece]]:
    """Lay out what the agent saw; global variables for themselves."""
    entities = dict(view.visible_entities)
    world = entities.pop(_GLOBAL, None) if has_globals else None
    yield []
    yield [(f"{len(entities)} {'entity' if len(entities) == 1 else 'entities'}", "bold")]
    rows = [(plain(name), _values(entity)) for name, entity in sorted(entities.items())]
    yield from table(rows, style="cyan")
    if isinstance(world, dict):
        yield []
        yield [("global variables", "bold")]
        yield from table([(plain(name), shown(value)) for name, value in sorted(world.items())], style="cyan")
    related = [(plain(name), list(map(plain, others))) for name, others in sorted(view.visible_relationships.items())]
    if related:
        yield []
        yield [("relationships", "bold")]
        yield from table(related, style="cyan")


def _values(entity: Any) -> list[str]:
    return (fields(entity) or ["-"]) if isinstance(entity, dict) else [shown(entity)]


def _truth(state: WorldState, view: View) -> Iterator[list[Piece]]:
    """Lay out what the agent saw beside what was true, a variable a line."""
    is_noisy = state.metadata["agents"][view.agent_id]["policy"]["name"] == _BLURRING
    found = list(compared(view.visible_entities, state.entities, is_noisy=is_noisy))
    yield []
    rows = [("variable", "seen", "true", ""), *map(_row, found)]
    for line, style in zip(table(rows), ["bold", *(_STYLES.get(each.mark, "") for each in found)], strict=True):
        yield [(text, style) for text, _ in line]


def _row(each: Compared) -> tuple[str, str, str, str]:
    return plain(each.path), each.seen_text(_MOST), each.true_text(_MOST), each.mark
