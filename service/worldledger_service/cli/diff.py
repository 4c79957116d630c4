"""``worldledger diff``: what is different between two moments of a world."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.layout import Piece, put_lines, shown
from worldledger_service.cli.moments import moment_rule, read_moment, seq_of
from worldledger_service.cli.naming import find_world
from worldledger_service.cli.options import DatabaseUrl, Home, Quiet, World, examples
from worldledger_service.cli.output import plain, put_bytes
from worldledger_service.cli.progress import effects, progress_bar

if TYPE_CHECKING:
    from worldledger_service.store import Store
    from worldledger_service.store.states import StateAt

EXAMPLES = examples(
    "worldledger diff my-world 1000 head",
    "worldledger diff my-world sim:10 sim:12.5",
    "worldledger diff my-world 2026-01-31T12:00:00Z head --patch > changes.json",
)

_MOMENT = f"A moment: {moment_rule()}. A time means the last effect at or before it."
_MARKS = {"add": ("+ ", "green"), "remove": ("- ", "red"), "replace": ("", "")}


def command(
    ctx: typer.Context,
    world: World,
    a: Annotated[str, typer.Argument(metavar="A", help=_MOMENT, show_default=False)],
    b: Annotated[str, typer.Argument(metavar="B", help="The other moment; it may be the earlier one.")],
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
    """
    if patch_only + tree_only + as_json > 1:
        raise typer.BadParameter("give one of --patch, --tree and --json; --json has the patch, too")
    moments = read_moment(a, "A"), read_moment(b, "B")

    async def work(store: Store) -> None:
        from worldledger.patches import diff  # noqa: PLC0415

        record = await find_world(store, world)
        seqs = [await seq_of(store, record, moment) for moment in moments]
        with progress_bar(f"folding {record.world_id}", quiet=quiet) as tell:
            before, after = [await store.states.state_at(record.world_id, seq, effects(tell)) for seq in seqs]
        patch = diff(before.state.to_value(), after.state.to_value())
        if as_json:
            put_bytes(_document(before, after, patch))
            return
        if not patch_only:
            put_lines(_tree(before, after, patch))
        if not (patch_only or tree_only):
            put_lines([[], [("JSON Patch (RFC 6902):", "bold")]])
        if not tree_only:
            put_bytes(_list(patch))

    with_store(target(ctx, database_url, home), work)


def _document(before: StateAt, after: StateAt, patch: list[dict[str, Any]]) -> bytes:
    facts = {
        "world_id": before.world_id,
        "from_seq": before.global_seq,
        "to_seq": after.global_seq,
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
    yield [(before.world_id, "bold"), (f" seq {before.global_seq} → {after.global_seq}", "")]
    if patch:
        old = before.state.to_value()
        yield from _branches(_grow(patch), old, "")
    else:
        yield [("no difference", "")]


def _grow(patch: list[dict[str, Any]]) -> dict[str, Any]:
    """Hang the operations into a tree of the names in their paths."""
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
