"""``worldledger state`` and ``worldledger diff``: a world's state at a moment, and between two."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from worldledger.kinds import installed
from worldledger_service.cli.compare import differing_fields
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.log import read_effect
from worldledger_service.cli.moments import (
    At,
    AtSeq,
    AtSimTime,
    AtTurn,
    AtWallTime,
    Moment,
    moment_rule,
    named_place,
    named_places,
    one_moment,
    place_of,
    read_moment,
    shown_end,
    shown_wall_time,
)
from worldledger_service.cli.naming import find_world
from worldledger_service.cli.options import DatabaseUrl, Home, OtherPlace, Place, Quiet
from worldledger_service.cli.output import (
    Piece,
    counted,
    cut,
    effects,
    fields,
    plain,
    progress_bar,
    put_bytes,
    put_fitted,
    screen_width,
    shown,
    table,
)

if TYPE_CHECKING:
    from worldledger_service.store import Store
    from worldledger_service.store.states import StateAt

#: Most differences of two states that are shown.
MOST_SHOWN: Final = 100


def show_state(
    ctx: typer.Context,
    world: Place,
    other: OtherPlace = None,
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

    Of two moments, of one world or of two, it shows where they differ, a line each; --json has both states. Long values
    are shown cut off (…); --json has everything; in it, state_digest is the SHA-256 of the
    text of "state".

    Examples:
        worldledger state my-world
        worldledger state my-world --at 1200
        worldledger state my-world --at sim:12.5
        worldledger state my-world --at 2026-01-31T12:00:00Z --json | jq .state.entities
        worldledger state run-1@step:10 run-2@step:10
    """
    moment = one_moment(at, seq=at_seq, sim_time=at_sim_time, wall_time=at_wall_time, turn=at_turn)
    if other is not None:
        places = named_places(world, other, moment)
        with_store(target(ctx, database_url, home), partial(_both_states, places=places, as_json=as_json))
        return
    world, moment = named_place(world, moment)

    async def work(store: Store) -> None:
        asked = await find_world(store, world)
        record, seq = await place_of(store, asked, moment)
        with progress_bar(f"folding {record.world_id}", quiet=quiet) as tell:
            found = await store.states.state_at(record.world_id, seq, effects(tell))
        if as_json:
            put_bytes(_document(found))
        else:
            row = await store.reader.effect(record.world_id, seq)
            put_fitted(_page(found, read_effect(record.world_id, row), shown_end(asked, record, seq)))

    with_store(target(ctx, database_url, home), work)


async def _both_states(store: Store, places: Sequence[tuple[str, Moment]], *, as_json: bool) -> None:
    from worldledger_service.runtime.moments import Place as At  # noqa: PLC0415 - slow to load, as the next
    from worldledger_service.runtime.moments import side_by_side  # noqa: PLC0415

    there = []
    for name, moment in places:
        there.append(At(*await place_of(store, await find_world(store, name), moment)))
    if as_json:
        states = [await store.states.state_at(place.record.world_id, place.seq) for place in there]
        put_bytes(b'{"a": %b, "b": %b}\n' % tuple(_document(state).rstrip() for state in states))
        return
    found = await side_by_side(store, *there)
    put_fitted(_side_by_side(found, found["states"]))


def _side_by_side(found: dict[str, Any], differing: dict[str, Any]) -> Iterator[list[Piece]]:
    for name in "ab":
        place = found[name]
        yield [(f"{name}  ", "cyan"), (place["world_id"], "bold"), (f" at seq {place['global_seq']}", "")]
    yield []
    if differing["equal"]:
        yield [("no difference", "green")]
    yield from differing_fields(differing["differences"], most=MOST_SHOWN)
    if differing["more"]:
        yield [(f"  … and {differing['more']} more: `worldledger diff` has all", "dim")]


def _document(found: StateAt) -> bytes:
    """Return the state as one JSON object; the state itself is the text that was digested."""
    facts = found._asdict()
    del facts["state"]
    text: bytes = facts.pop("text")
    return json.dumps(facts, ensure_ascii=False)[:-1].encode() + b', "state": ' + text + b"}\n"


def _page(found: StateAt, effect: dict[str, Any], end: str) -> Iterator[list[Piece]]:
    """Lay out a state for people; ``effect`` is the last one in it, ``end`` says where the log ends."""
    state, metadata = found.state, found.state.metadata
    times = f"sim_time {effect.get('sim_time')}, {shown_wall_time(effect.get('wall_time'))}"
    yield [(found.world_id, "bold"), (f" at seq {found.global_seq} ({end}), {times}", "")]
    yield [("state digest ", ""), (found.state_digest, "cyan"), (f", {found.ruleset} {found.ruleset_version}", "")]
    yield [(f"last effect {metadata.get('last_effect_kind')}", ""), *_unfolded(metadata)]
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
    yield from _agents(metadata.get("agents") or {})
    more = {name: value for name, value in metadata.items() if name not in _KNOWN}
    yield from _listed("metadata", [(plain(name), shown(value)) for name, value in sorted(more.items())])


def _unfolded(metadata: dict[str, Any]) -> Iterator[Piece]:
    """Yield how many effects left the state as it was, because their kind has no rule or they are malformed."""
    if unknown := metadata.get("unknown_effects"):
        kinds = "a kind that changes" if unknown == 1 else "kinds that change"
        yield f", {counted(unknown, 'effect')} of {kinds} no state", ""
    if malformed := metadata.get("malformed_effects"):
        yield f", {counted(malformed, 'malformed effect')}", "yellow"


#: Metadata that are shown in places of their own.
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


def _listed(title: str, rows: list[Any], beside: str = "") -> Iterator[list[Piece]]:
    if title == "metadata":
        return _section(title, table(rows, style="cyan"))
    one = {"entities": "entity", "relationships": "relationship", "agents": "agent"}
    return _section(f"{len(rows)} {one[title] if len(rows) == 1 else title}", table(rows, style="cyan"), beside)


def _section(title: str, lines: Any, beside: str = "") -> Iterator[list[Piece]]:
    """Return the lines below a title, and a text beside it; nothing if there are none."""
    lines = iter(lines)
    first = next(lines, None)
    if first is not None:
        yield from chain(([], [(title, "bold"), (beside, "")], first), lines)


def _agents(agents: dict[str, dict[str, Any]]) -> Iterator[list[Piece]]:
    """Lay out the agents; what is the same of all of them stands once."""
    first, *others = agents.values() or [{}]
    alike = {name: value for name, value in first.items() if others and all(each.get(name) == value for each in others)}
    rows = [(plain(name), fields(agent, but=frozenset(alike)) or ["-"]) for name, agent in sorted(agents.items())]
    most = screen_width()
    told = fields(alike) if most is None else [cut(each, most - 4) for each in fields(alike)]
    return _listed("agents", rows, f", each with {', '.join(told)}" if alike else "")


def _position(point: tuple[float, ...] | None) -> str:
    return "" if point is None else f"({', '.join(map(str, point))})"


def _entity(value: Any, *, in_space: bool = False) -> list[str]:
    if not isinstance(value, dict):
        return [shown(value)]
    return fields(value, but=_POSITION if in_space else frozenset()) or ["-"]


def _relationships(adjacent: dict[str, list[str]], details: Any) -> list[tuple[str, list[str]]]:
    """Return a row for each pair of related entities, with the relationship's details."""
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


# -- diff ----------------------------------------------------------------------------------------------------

_MOMENT = f"A moment: {moment_rule()}. A time means the last effect at or before it."
_MARKS = {"add": ("+ ", "green"), "remove": ("- ", "red"), "replace": ("", "")}


def show_diff(
    ctx: typer.Context,
    world: Annotated[
        str, typer.Argument(metavar="WORLD", help="A world's name; or WORLD@MOMENT, twice.", show_default=False)
    ],
    a: Annotated[str, typer.Argument(metavar="A", help=_MOMENT, show_default=False)],
    b: Annotated[str | None, typer.Argument(metavar="[B]", help="The other moment; it may be the earlier one.")] = None,
    patch_only: Annotated[bool, typer.Option("--patch", help="Write the patch and nothing else.")] = False,
    tree_only: Annotated[bool, typer.Option("--tree", help="Write the tree and nothing else.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object: the patch, both seqs and both state digests.")
    ] = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Show how a world's state at moment A differs from that at moment B.

    First a tree for people: what came (+), what went (-) and what changed (→), long values cut off (…). Then the
    JSON Patch (RFC 6902) that turns state A into state B. Both states are folded from the log.

    Examples:
        worldledger diff my-world 1000 head
        worldledger diff my-world sim:10 sim:12.5
        worldledger diff my-world 2026-01-31T12:00:00Z head --patch > changes.json
        worldledger diff run-1@turn:10 run-2@turn:10 --tree
    """
    if patch_only + tree_only + as_json > 1:
        raise typer.BadParameter("give one of --patch, --tree and --json; --json has the patch, too")
    if b is None:
        if "@" not in world or "@" not in a:
            raise typer.BadParameter("give WORLD A B, or WORLD@MOMENT WORLD@MOMENT")
        places = named_places(world, a)
    else:
        places = (world, read_moment(a, "A")), (world, read_moment(b, "B"))

    async def work(store: Store) -> None:
        from worldledger.patches import diff  # noqa: PLC0415

        states = []
        with progress_bar(f"folding {world}", quiet=quiet) as tell:
            for name, moment in places:
                record, seq = await place_of(store, await find_world(store, name), moment)
                states.append(await store.states.state_at(record.world_id, seq, effects(tell)))
        before, after = states
        patch = diff(before.state.to_value(), after.state.to_value())
        if as_json:
            put_bytes(_difference(before, after, patch))
            return
        if not patch_only:
            put_fitted(_tree(before, after, patch))
        if not (patch_only or tree_only):
            put_fitted([[], [("JSON Patch (RFC 6902):", "bold")]])
        if not tree_only:
            put_bytes(_list(patch))

    with_store(target(ctx, database_url, home), work)


def _difference(before: StateAt, after: StateAt, patch: list[dict[str, Any]]) -> bytes:
    facts = {
        "world_id": before.world_id,
        "from_seq": before.global_seq,
        "to_seq": after.global_seq,
        **({} if before.world_id == after.world_id else {"to_world": after.world_id}),
        "from_digest": before.state_digest,
        "to_digest": after.state_digest,
        "patch": patch,
    }
    return json.dumps(facts, ensure_ascii=False).encode() + b"\n"


def _list(patch: list[dict[str, Any]]) -> bytes:
    """Write the patch with an operation a line."""
    lines = ",\n".join(json.dumps(operation, ensure_ascii=False) for operation in patch)
    return f"[\n{lines}\n]\n".encode() if patch else b"[]\n"


# -- the tree ------------------------------------------------------------------------------------------------


def _tree(before: StateAt, after: StateAt, patch: list[dict[str, Any]]) -> Iterator[list[Piece]]:
    """Draw what a patch does as a tree, with the values that were there before."""
    to = "" if before.world_id == after.world_id else f"{after.world_id} seq "
    yield [(before.world_id, "bold"), (f" seq {before.global_seq} → {to}{after.global_seq}", "")]
    if patch:
        old = before.state.to_value()
        yield from _branches(_grow(patch), old, "")
    else:
        yield [("no difference", "")]


def _grow(patch: list[dict[str, Any]]) -> dict[str, Any]:
    """Arrange the operations in a tree by the names in their paths."""
    root: dict[str, Any] = {}
    for operation in patch:
        *above, last = [name.replace("~1", "/").replace("~0", "~") for name in operation["path"].split("/")[1:]]
        here = root
        for name in above:
            here = here.setdefault(name, {})
        here[last] = _Leaf((operation,))
    return root


class _Leaf(tuple[dict[str, Any]]):
    """An operation at its place in the tree."""


def _branches(branches: dict[str, Any], old: Any, indent: str) -> Iterator[list[Piece]]:
    for number, (name, branch) in enumerate(branches.items(), 1):
        last = number == len(branches)
        guide: Piece = (indent + ("└── " if last else "├── "), "dim")
        if isinstance(branch, _Leaf):
            yield [guide, *_leaf(name, branch[0], old)]
        else:
            yield [guide, (plain(name), "cyan")]
            yield from _branches(branch, old[name], indent + ("    " if last else "│   "))


def _leaf(name: str, operation: dict[str, Any], old: Any) -> Sequence[Piece]:
    mark, style = _MARKS[operation["op"]]
    if operation["op"] == "add":
        return [(f"{mark}{name} {shown(operation['value'])}", style)]
    if operation["op"] == "remove":
        return [(f"{mark}{name} {shown(old[name])}", style)]
    return [
        (f"{plain(name)} ", ""),
        (shown(old[name]), "red"),
        (" → ", ""),
        (shown(operation["value"]), "green"),
    ]
