"""``worldledger view``: what an agent saw at a moment, and with --truth beside it what was true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.moments import (
    At,
    AtSeq,
    AtSimTime,
    AtTurn,
    AtWallTime,
    named_place,
    named_places,
    one_moment,
    place_of,
    shown_end,
)
from worldledger_service.cli.naming import find_world
from worldledger_service.cli.options import DatabaseUrl, Home, Quiet
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
    shown,
    table,
)

if TYPE_CHECKING:
    from worldledger.observation import ObservedEvent, View
    from worldledger.world import WorldState
    from worldledger_service.runtime.moments import Observed
    from worldledger_service.store import Store
    from worldledger_service.store.states import StateAt


#: The entity that has the global variables of a world that is counted in units.
_GLOBAL = "global"
#: The policy that blurs numbers.
_BLURRING = "matrix"
#: Longest value in a table, and in one of two moments.
_MOST = 60
_BESIDE = 24
_STYLES = {"hidden": "yellow", "unaware": "yellow", "noised": "cyan", "differs": "red", "gone": "red"}


def show_view(
    ctx: typer.Context,
    worlds: Annotated[
        list[str],
        typer.Argument(
            metavar="WORLD[@MOMENT]…", help="A world's name, and the moment, if not now; or two.", show_default=False
        ),
    ],
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
    events: Annotated[
        int,
        typer.Option("--events", metavar="N", min=0, help="Show at most so many of the last events."),
    ] = 10,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Show what an agent saw at a moment: the entities that it could see, and the last events that it observed.

    Both are worked out anew from the log, by the policy that the agent was registered with then. With --truth each
    variable has a line with what the agent saw and what was true. Marked are those that it did not see of what it saw
    (hidden), those of what it did not see at all (unaware), and numbers that were blurred (noised). So are the last
    events that it did not observe (unaware).

    Of two moments, of one world or of two, it shows where the views differ; with --truth also what was true in each.

    Examples:
        worldledger view market Trader_1
        worldledger view market Trader_1 --at step:5 --truth
        worldledger view market Trader_1 --at 120 --truth --json | jq .truth
    """
    moment = one_moment(at, seq=at_seq, sim_time=at_sim_time, wall_time=at_wall_time, turn=turn)
    if len(worlds) > 2:
        raise typer.BadParameter("give one world or two, and an agent")
    places = [named_place(worlds[0], moment)] if len(worlds) == 1 else named_places(worlds[0], worlds[1], moment)

    async def work(store: Store) -> None:
        from worldledger_service.runtime.moments import happened_by, observed_at, seen_at  # noqa: PLC0415 - slow to load

        seen = []
        for name, when in places:
            asked = await find_world(store, name)
            record, seq = await place_of(store, asked, when)
            with progress_bar(f"folding {record.world_id}", quiet=quiet) as tell:
                found = await store.states.state_at(record.world_id, seq, effects(tell))
                view = await seen_at(store, found, agent, record.head_seq)
                most = events if as_json or len(places) == 1 else 0
                observed = await observed_at(store, found, agent, most=most)
                happened = await happened_by(store, found, most=most) if truth else []
                seen.append(_Seen(found, view, observed, happened, shown_end(asked, record, seq)))
        if as_json:
            documents = [_document(each, truth=truth) for each in seen]
            put_bytes(documents[0] if len(seen) == 1 else b'{"a":%b,"b":%b}' % tuple(documents))
            put_bytes(b"\n")
        elif len(seen) == 2:
            put_fitted(_side_by_side([(each.found, each.view) for each in seen], truth=truth))
        else:
            put_fitted(_page(seen[0], truth=truth, events=events))

    with_store(target(ctx, database_url, home), work)


def _side_by_side(seen: Sequence[tuple[StateAt, View]], *, truth: bool) -> Iterator[list[Piece]]:
    """Lay out what an agent saw at two moments, a line for each variable in which anything differs."""
    told = []
    for name, (found, view) in zip("ab", seen, strict=True):
        what = f" in {found.world_id} at seq {found.global_seq}{_places(found)}"
        yield [(f"{name}  ", "cyan"), (view.agent_id, "bold"), (what, "")]
        is_noisy = found.state.metadata["agents"][view.agent_id]["policy"]["name"] == _BLURRING
        each = compared(
            view.visible_entities, found.state.entities if truth else view.visible_entities, is_noisy=is_noisy
        )
        told.append({row.path: row for row in each})
    yield []
    columns = ("a saw", "a true", "b saw", "b true") if truth else ("a saw", "b saw")
    rows = [("variable", *columns)]
    nothing = Compared("", NOTHING, NOTHING, "")
    for path in sorted({*told[0], *told[1]}):
        both = [each.get(path, nothing) for each in told]
        texts = [text for row in both for text in ((row.seen_text(_MOST), row.true_text(_MOST))[: 1 + truth])]
        if texts[: 1 + truth] != texts[1 + truth :]:
            rows.append((plain(path), *(cut(text, _BESIDE) for text in texts)))
    if len(rows) == 1:
        yield [("no difference", "green")]
        return
    for line, style in zip(table(rows), ["bold", *[""] * (len(rows) - 1)], strict=True):
        yield [(text, style) for text, _ in line]


class _Seen(NamedTuple):
    """What an agent saw at a moment, and the last events by then; ``end`` says where the log ends."""

    found: StateAt
    view: View
    observed: Observed
    happened: list[ObservedEvent]
    end: str

    @property
    def unobserved(self) -> list[ObservedEvent]:
        """The last events that it did not observe."""
        observed = {event["global_seq"] for event in self.observed.events}
        return [event for event in self.happened if event["global_seq"] not in observed]


def _document(seen: _Seen, *, truth: bool) -> bytes:
    """Return the view as the HTTP API has it, with its moment, the events, and every entity as it was."""
    import orjson  # noqa: PLC0415 - slow to load, as the next; `--help` needs none of it

    from worldledger_service.api.agents_of_worlds import in_order, view_of  # noqa: PLC0415

    found = seen.found
    value = {
        "world_id": found.world_id,
        "global_seq": found.global_seq,
        "turn": _units(found).get("turn"),
        "view": view_of(seen.view),
        "events": seen.observed.events,
        **({"truth": in_order(found.state.entities), "unobserved": seen.unobserved} if truth else {}),
    }
    return orjson.dumps(value)


def _units(found: StateAt) -> dict[str, Any]:
    """Return the units of the world's ruleset whose number its state has, such as the turn of a simulation."""
    from worldledger.rulesets import load_ruleset  # noqa: PLC0415 - slow to load; `--help` needs none of it

    metadata = found.state.metadata
    return {unit: metadata[unit] for unit in load_ruleset(found.ruleset).units if unit in metadata}


def _places(found: StateAt) -> str:
    return "".join(f", {unit} {number}" for unit, number in _units(found).items())


# -- for people ----------------------------------------------------------------------------------------------


def _page(seen: _Seen, *, truth: bool, events: int) -> Iterator[list[Piece]]:
    found, view = seen.found, seen.view
    at = f" in {found.world_id} at seq {found.global_seq} ({seen.end}){_places(found)}"
    yield [(view.agent_id, "bold"), (at, "")]
    yield [(f"view {view.view_seq}, context digest ", ""), (view.context_digest, "cyan")]
    yield from _truth(found.state, view) if truth else _seen(view, has_globals=bool(_units(found)))
    if events:
        yield from _all_events(seen) if truth else _events(seen.observed, is_all=len(seen.observed.events) < events)


def _events(observed: Observed, *, is_all: bool) -> Iterator[list[Piece]]:
    """Lay out the last events that the agent observed."""
    count = len(observed.events)
    since = f" after seq {observed.after_seq}" if observed.after_seq > observed.registered_seq else ""
    yield []
    yield [(f"{counted(count, 'event')} observed{since}" if is_all else f"last {count} events observed", "bold")]
    yield from table([_event(event) for event in observed.events], style="cyan")


def _all_events(seen: _Seen) -> Iterator[list[Piece]]:
    """Lay out the last events, and which of them the agent did not observe."""
    told = [*((event, "") for event in seen.observed.events), *((event, "unaware") for event in seen.unobserved)]
    told.sort(key=lambda each: each[0]["global_seq"])
    yield []
    yield [("last events, observed or not", "bold")]
    rows = [
        (*cells, mark, ", ".join(values)) for (*cells, values), mark in ((_event(event), mark) for event, mark in told)
    ]
    for line, (_, mark) in zip(table(rows), told, strict=True):
        yield [(text, _STYLES.get(mark, "")) for text, _ in line]


def _event(event: ObservedEvent) -> tuple[str, str, str, list[str]]:
    return str(event["global_seq"]), plain(event["kind"]), plain(event["source_id"]), _values(event["payload"])


def _seen(view: View, *, has_globals: bool) -> Iterator[list[Piece]]:
    """Lay out what the agent saw, global variables apart."""
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


# -- --truth -------------------------------------------------------------------------------------------------

#: Stands for a missing value.
NOTHING: Final = object()


class Compared(NamedTuple):
    """A variable, or a part of one, as an agent saw it and as it was; NOTHING where it was not there.

    ``mark`` is empty where both are the same. Else: ``hidden`` of a variable that the agent did not see of an entity
    that it saw; ``unaware`` of those of an entity that it did not see; ``noised`` of a number that its policy blurs;
    ``gone`` of what was not there any more, and ``differs`` of what was otherwise by then: what goes out of sight may
    stay in a view as it was last seen.
    """

    path: str
    seen: Any
    true: Any
    mark: str

    def seen_text(self, most: int) -> str:
        """Return what the agent saw as text."""
        return _text(self.seen, most)

    def true_text(self, most: int) -> str:
        """Return what was true as text."""
        return _text(self.true, most)


def _text(value: Any, most: int) -> str:
    return "-" if value is NOTHING else shown(value, most)


def compared(seen: Mapping[str, Any], true: Mapping[str, Any], *, is_noisy: bool) -> Iterator[Compared]:
    """Compare the entities of a view with those of the state, by name; ``is_noisy`` says that the policy may blur.

    Each variable is told once where it was seen as it was, and otherwise as deep as the two differ.
    """
    for name in sorted({*seen, *true}):
        if name not in seen:
            yield from _all_of(name, true[name], "unaware")
        elif name not in true:
            yield from _all_of(name, seen[name], "gone")
        else:
            yield from _members(name, seen[name], true[name], is_noisy)


def _all_of(name: str, entity: Any, mark: str) -> Iterator[Compared]:
    values = {f"{name}.{key}": entity[key] for key in sorted(entity)} if isinstance(entity, dict) and entity else {}
    for path, value in (values or {name: entity}).items():
        yield Compared(path, value, NOTHING, mark) if mark == "gone" else Compared(path, NOTHING, value, mark)


def _members(path: str, seen: Any, true: Any, is_noisy: bool) -> Iterator[Compared]:
    """Compare two values that differ or are whole entities."""
    if isinstance(seen, dict) and isinstance(true, dict) and (seen or true):
        for key in sorted({*seen, *true}):
            yield from _one(f"{path}.{key}", seen.get(key, NOTHING), true.get(key, NOTHING), is_noisy)
    elif isinstance(seen, list) and isinstance(true, list) and len(seen) == len(true) and seen:
        for index, (one, other) in enumerate(zip(seen, true, strict=True)):
            yield from _one(f"{path}[{index}]", one, other, is_noisy)
    else:
        yield Compared(path, seen, true, _mark(seen, true, is_noisy))


def _one(path: str, seen: Any, true: Any, is_noisy: bool) -> Iterator[Compared]:
    if seen is NOTHING:
        yield Compared(path, seen, true, "hidden")
    elif true is NOTHING:
        yield Compared(path, seen, true, "gone")
    elif _same(seen, true):
        yield Compared(path, seen, true, "")
    else:
        yield from _members(path, seen, true, is_noisy)


def _mark(seen: Any, true: Any, is_noisy: bool) -> str:
    if _same(seen, true):
        return ""
    return "noised" if is_noisy and _is_number(seen) and _is_number(true) else "differs"


def _same(one: Any, other: Any) -> bool:
    """Return True for equal JSON values; true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and one == other


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
