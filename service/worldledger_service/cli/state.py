"""``worldledger state``: what a world is at one moment."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worldledger.kinds import installed
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.layout import Piece, fields, put_lines, shown, table
from worldledger_service.cli.moments import (
    At,
    AtSeq,
    AtSimTime,
    AtTurn,
    AtWallTime,
    one_moment,
    seq_of,
    shown_wall_time,
)
from worldledger_service.cli.naming import find_world
from worldledger_service.cli.options import DatabaseUrl, Home, Quiet, World, examples
from worldledger_service.cli.output import plain, put_bytes
from worldledger_service.cli.progress import effects, progress_bar
from worldledger_service.cli.stored import read_effect

if TYPE_CHECKING:
    from worldledger_service.store import Store
    from worldledger_service.store.states import StateAt

EXAMPLES = examples(
    "worldledger state my-world",
    "worldledger state my-world --at 1200",
    "worldledger state my-world --at sim:12.5",
    "worldledger state my-world --at 2026-01-31T12:00:00Z --json | jq .state.entities",
)


def command(
    ctx: typer.Context,
    world: World,
    at: At = None,
    at_seq: AtSeq = None,
    at_sim_time: AtSimTime = None,
    at_wall_time: AtWallTime = None,
    at_turn: AtTurn = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object, with the state's exact text.")
    ] = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Show what a world is at a moment: its entities, relationships and counters, folded from its log.

    Long values are shown cut off (…); --json has everything; in it, state_digest is the SHA-256 of the
    text of "state".
    """
    moment = one_moment(at, seq=at_seq, sim_time=at_sim_time, wall_time=at_wall_time, turn=at_turn)

    async def work(store: Store) -> None:
        record = await find_world(store, world)
        seq = await seq_of(store, record, moment)
        with progress_bar(f"folding {record.world_id}", quiet=quiet) as tell:
            found = await store.states.state_at(record.world_id, seq, effects(tell))
        if as_json:
            put_bytes(_document(found))
        else:
            row = await store.reader.effect(record.world_id, seq)
            put_lines(_page(found, read_effect(record.world_id, row), record.head_seq))

    with_store(target(ctx, database_url, home), work)


def _document(found: StateAt) -> bytes:
    """Return the state as one JSON object; the state itself is the text that was digested."""
    facts = found._asdict()
    del facts["state"]
    text: bytes = facts.pop("text")
    return json.dumps(facts, ensure_ascii=False)[:-1].encode() + b', "state": ' + text + b"}\n"


def _page(found: StateAt, effect: dict[str, Any], head_seq: int) -> Iterator[list[Piece]]:
    """Lay out a state for people; ``effect`` is the last one that is in it."""
    state, metadata = found.state, found.state.metadata
    at = "the head" if found.global_seq == head_seq else f"head {head_seq}"
    times = f"sim_time {effect.get('sim_time')}, {shown_wall_time(effect.get('wall_time'))}"
    yield [(found.world_id, "bold"), (f" at seq {found.global_seq} ({at}), {times}", "")]
    yield [("state digest ", ""), (found.state_digest, "cyan"), (f", {found.ruleset} {found.ruleset_version}", "")]
    yield [(f"last effect {metadata.get('last_effect_kind')}", ""), *map(_counted(metadata), ("unknown", "malformed"))]
    kind = installed().get(found.ruleset)
    if kind is not None and (pictured := kind.load("pictured")) is not None:
        yield from _section(*pictured(state.entities))
    entities = [
        (plain(name), _position(state.spatial_index.get(name)), _entity(value, in_space=name in state.spatial_index))
        for name, value in sorted(state.entities.items())
    ]
    if not any(position for _, position, _ in entities):
        yield from _listed("entities", [(name, data) for name, _, data in entities])
    else:
        yield from _listed("entities", entities)
    yield from _listed("relationships", _relationships(state.relationships, metadata.get("relationships")))
    agents = metadata.get("agents") or {}
    yield from _listed("agents", [(plain(name), _entity(value)) for name, value in sorted(agents.items())])
    more = {name: value for name, value in metadata.items() if name not in _KNOWN}
    yield from _listed("metadata", [(plain(name), shown(value)) for name, value in sorted(more.items())])


def _counted(metadata: dict[str, Any]) -> Callable[[str], Piece]:
    """Tell how many effects the fold could make nothing of, where there are any."""

    def counted(name: str) -> Piece:
        count = metadata.get(f"{name}_effects")
        return (f", {count} {name} effect{'' if count == 1 else 's'}" if count else ""), "yellow"

    return counted


#: What of the metadata is shown in places of its own.
_KNOWN = {
    "agents",
    "relationships",
    "last_effect_seq",
    "last_effect_time",
    "last_effect_kind",
    "unknown_effects",
    "malformed_effects",
}
_POSITION = frozenset({"position"})


def _listed(title: str, rows: list[Any]) -> Iterator[list[Piece]]:
    if title == "metadata":
        return _section(title, table(rows, style="cyan"))
    one = {"entities": "entity", "relationships": "relationship", "agents": "agent"}
    return _section(f"{len(rows)} {one[title] if len(rows) == 1 else title}", table(rows, style="cyan"))


def _section(title: str, lines: Any) -> Iterator[list[Piece]]:
    """Return the lines below a title; nothing where there are none."""
    lines = iter(lines)
    first = next(lines, None)
    if first is not None:
        yield from chain(([], [(title, "bold")], first), lines)


def _position(point: tuple[float, ...] | None) -> str:
    return "" if point is None else f"({', '.join(map(str, point))})"


def _entity(value: Any, *, in_space: bool = False) -> list[str]:
    if not isinstance(value, dict):
        return [shown(value)]
    return fields(value, but=_POSITION if in_space else frozenset()) or ["-"]


def _relationships(adjacent: dict[str, list[str]], details: Any) -> list[tuple[str, list[str]]]:
    """Return a row for each pair: from whom to whom, and what is known of it."""
    rows = []
    for one, others in sorted(adjacent.items()):
        for other in others:
            types = ((details or {}).get(one) or {}).get(other) or {}
            rows.append((f"{plain(one)} → {plain(other)}", [_relation(kind, types[kind]) for kind in sorted(types)]))
    return rows


def _relation(kind: str, detail: Any) -> str:
    if not isinstance(detail, dict):
        return f"{plain(kind)} {shown(detail)}"
    more = detail.get("metadata")
    return f"{plain(kind)} {shown(detail.get('strength'))}" + (f" {shown(more)}" if more else "")
