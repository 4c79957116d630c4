"""``worldledger why``: the causes of an effect, and its consequences."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from worldledger.errors import TamperedError
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.moments import moment_rule, place_of, read_moment
from worldledger_service.cli.naming import find_world
from worldledger_service.cli.options import DatabaseUrl, Home, World
from worldledger_service.cli.output import (
    COLUMNS,
    Piece,
    broken,
    counted,
    cut_inside,
    cut_line,
    guide,
    plain,
    put_bytes,
    put_lines,
    screen_width,
)

if TYPE_CHECKING:
    from worldledger.causes import Link, LinkKind, Node, Place
    from worldledger_service.store import Store
    from worldledger_service.store.why import Found, Why

#: Most characters of another world's name in the tree.
_NAMED: Final = 32
_STYLES: Final[dict[LinkKind, str]] = {"told": "green", "request": "cyan", "context": "yellow", "same entity": "dim"}


def show_why(
    ctx: typer.Context,
    world: World,
    seq: Annotated[
        str, typer.Argument(metavar="SEQ", help=f"The effect: {moment_rule()}: its last one.", show_default=False)
    ],
    back: Annotated[bool, typer.Option("--back", help="Show what it came of: the default.")] = False,
    forward: Annotated[bool, typer.Option("--forward", help="Show what came of it.")] = False,
    depth: Annotated[int, typer.Option("--depth", metavar="N", min=0, max=100, help="Go so many links far.")] = 5,
    width: Annotated[
        int,
        typer.Option("--width", metavar="N", min=1, max=1000, help="Of each kind, follow so many links of an effect."),
    ] = 3,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="Show at most so many effects.")
    ] = 100,
    window: Annotated[
        int,
        typer.Option(
            "--window",
            metavar="N",
            min=1,
            max=20_000,
            help="In so many effects, find out what was touched and what agents were shown.",
        ),
    ] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
    as_dot: Annotated[bool, typer.Option("--dot", help="Write a graph for Graphviz.")] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Show what an effect came of: its causes, the views that were decided from, and what made those views.

    Each link says by its kind how it is known: told (the effect names its cause), request (the same agent and req_id: a
    generation, a refusal), context (what the agent had been shown), same entity (the effect before it that may
    have changed the same entity). Behind each effect are the first 8 digits of its checksum. Where one does not hold,
    that is said, and the exit code is 1.

    Examples:
        worldledger why my-world 120
        worldledger why my-world 120 --forward --depth 3
        worldledger why my-fork parent:120 --forward
        worldledger why my-world head --dot | dot -Tsvg > why.svg
    """
    if back and forward:
        raise typer.BadParameter("give one of --back and --forward")
    if as_json and as_dot:
        raise typer.BadParameter("give one of --json and --dot")
    moment = read_moment(seq, "SEQ")

    async def work(store: Store) -> None:
        from worldledger_service.store.why import Asked, document, why  # noqa: PLC0415 - slow to load

        record = await find_world(store, world)
        asked = Asked("forward" if forward else "back", depth, width, limit, window)
        place, at_seq = await place_of(store, record, moment)
        found = await why(store, record, at_seq, asked, place.world_id)
        if as_json:
            put_bytes(json.dumps(document(found), ensure_ascii=False).encode() + b"\n")
        elif as_dot:
            put_lines([(line, "")] for line in _dot(found))
        else:
            put_lines(_page(found))
        if found.tampered:
            what = f"world {found.root.world_id}: what is shown here was tampered with"
            raise TamperedError(what, world_id=found.root.world_id, global_seq=found.root.global_seq, what="why")

    with_store(target(ctx, database_url, home), work)


# -- the tree --------------------------------------------------------------------------------------------------


def _page(found: Why) -> Iterator[list[Piece]]:
    what = "back to what it came of" if found.asked.direction == "back" else "forward to what came of it"
    most = screen_width() or COLUMNS
    yield from broken(
        [(cut_inside(found.root.world_id, most), "bold"), (f" seq {found.root.global_seq}, {what}", "")], most
    )
    for line in _Tree(found).lines():
        yield cut_line(line, most)
    for note in _remarks(found):
        yield from broken([(note, "dim")], most)


class _Tree:
    """The effects as a tree: each is followed where it was reached first, by the fewest links."""

    def __init__(self, found: Why) -> None:
        self._by_place = {each.place: each for each in found.effects}
        self._root = found.root
        self._parents: dict[Place, Place] = {}
        for each in found.effects:
            for link in each.node.links:
                if self._by_place[link.place].node.depth == each.node.depth + 1:
                    self._parents.setdefault(link.place, each.place)

    def lines(self) -> Iterator[list[Piece]]:
        """Draw it."""
        root = self._by_place[self._root]
        yield self._effect(root)
        yield from self._below(root.node, "")

    def _below(self, node: Node, indent: str) -> Iterator[list[Piece]]:
        more = ", ".join(f"{count} by {kind}" for kind, count in node.left_out.items())
        drawn: set[Place] = set()
        for number, link in enumerate(node.links, 1):
            last = number == len(node.links) and not more
            each = self._by_place[link.place]
            is_here = self._parents.get(link.place) == node.place and link.place not in drawn
            drawn.add(link.place)
            yield [guide(indent + ("└ " if last else "├ ")), *self._link(link, each, is_here=is_here)]
            if is_here:
                yield from self._below(each.node, indent + ("  " if last else "│ "))
        if more:
            yield [guide(indent + "└ "), (f"… more: {more}", "dim")]

    def _link(self, link: Link, each: Found, *, is_here: bool) -> list[Piece]:
        entities: list[Piece] = [(f" {', '.join(map(plain, link.entities))}", "dim")] if link.entities else []
        if is_here:
            return [(f"{link.kind} ", _STYLES[link.kind]), *self._effect(each), *entities]
        return [
            (f"{link.kind} ", _STYLES[link.kind]),
            (self._name(link.place), "bold"),
            (" (elsewhere)", "dim"),
            *entities,
        ]

    def _name(self, place: Place) -> str:
        is_own = place.world_id == self._root.world_id
        return str(place.global_seq) if is_own else f"{cut_inside(place.world_id, _NAMED)}@{place.global_seq}"

    def _effect(self, each: Found) -> list[Piece]:
        line: list[Piece] = [
            (self._name(each.place), "bold"),
            (f" {plain(each.kind)} by {plain(each.source_id)} ", ""),
            (each.checksum[:8], "dim"),
        ]
        if each.context is not None:
            line.append((f" from view {each.context.view_seq}", "yellow"))
        if each.refused is not None:
            told = " ".join(text for text in each.refused if text)
            line.append((f" refused: {told}", "red"))
        if each.problem is not None:
            line.append((f" {each.problem}", "red"))
        return line


def _remarks(found: Why) -> Iterator[str]:
    """Say which parts were not searched."""
    from worldledger_service.store.why import Onward  # noqa: PLC0415 - slow to load

    if found.asked.direction == "back" and found.from_seq > 1:
        yield f"before {found.from_seq} only what effects record themselves is followed (--window)"
    if found.asked.direction == "forward":
        own = Onward(found.root.world_id, found.head_seq, found.to_seq, found.told_to_seq or 0)
        for number, each in enumerate([own, *found.forks]):
            if each.to_seq < each.head_seq:
                end = "head" if number == len(found.forks) else "fork point"
                where = f"in {each.world_id} " * (number > 0) + f"after {each.to_seq} " * (each.to_seq > 0)
                told = f"to the {end}" if each.told_to_seq == each.head_seq else f"to {each.told_to_seq}"
                yield f"{where}only told links are followed, {told} of {each.head_seq} (--window)"
    ends = sum(not each.node.is_expanded for each in found.effects)
    if ends:
        yield f"{counted(ends, 'effect')} at the depth of {found.asked.depth} not followed (--depth)"
    yield from map(plain, found.notes)


# -- Graphviz --------------------------------------------------------------------------------------------------


def _dot(found: Why) -> Iterator[str]:
    """Return a graph whose edges go from causes to what came of them."""
    yield "digraph why {"
    yield "  node [shape=box];"
    for each in found.effects:
        name = f"{each.place.world_id}@{each.place.global_seq}"
        label = f"{each.place.global_seq} {plain(each.kind)}\n{plain(each.source_id)}\n{each.checksum[:8]}"
        yield f"  {_quoted(name)} [label={_quoted(label)}];"
    for each in found.effects:
        for link in each.node.links:
            ends = [f"{place.world_id}@{place.global_seq}" for place in (link.place, each.place)]
            cause, effect = map(_quoted, ends if found.asked.direction == "back" else reversed(ends))
            yield f"  {cause} -> {effect} [label={_quoted(link.kind)}];"
    yield "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
