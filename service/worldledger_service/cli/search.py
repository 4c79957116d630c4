"""``worldledger search``: effects of a world whose payload has a text."""

from __future__ import annotations

from contextlib import aclosing, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.moments import moment_rule, place_of, read_moment
from worldledger_service.cli.naming import find_world
from worldledger_service.cli.options import DatabaseUrl, Home, Json, Quiet, World
from worldledger_service.cli.output import counted, json_list, plain, progress_bar, put_lines, say

if TYPE_CHECKING:
    from worldledger_service.store import Store
    from worldledger_service.store.searching import Hit


def search_effects(
    ctx: typer.Context,
    world: World,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", help="What the payload's JSON contains: A-Z without regard to case.", show_default=False
        ),
    ],
    kind: Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only effects of this kind.")] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="ID", help="Only effects of this source (an agent, say).")
    ] = None,
    until: Annotated[
        str, typer.Option("--until", metavar="MOMENT", help=f"Look no further than to this moment: {moment_rule()}.")
    ] = "head",
    oldest: Annotated[bool, typer.Option("--oldest", help="Begin with the oldest effects, not the newest.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most so many effects.")] = 100,
    as_json: Json = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Find the effects whose payload contains a text, the newest first.

    The log is read through: a million effects take some seconds, and what is found is shown at once. Of a fork its
    ancestors up to the fork point are searched, too.

    Examples:
        worldledger search my-world "figs for two"
        worldledger search my-world timeout --kind IntentRejected --oldest --json
    """
    if not text:
        raise typer.BadParameter("the text is empty", param_hint="TEXT")
    moment = read_moment(until, "--until")

    async def work(store: Store) -> None:
        from worldledger_service.store.searching import Wanted, search  # noqa: PLC0415 - slow to load

        last, seq = await place_of(store, await find_world(store, world), moment)
        line = [(record.world_id, record.head_seq) for record in (await store.states.line(last))[:-1]]
        line.append((last.world_id, seq))
        total, done, left = sum(end for _, end in line), 0, limit
        with json_list() if as_json else nullcontext() as item, progress_bar("searching", quiet=quiet) as tell:
            for world_id, end in line if oldest else reversed(line):
                if left <= 0:
                    break
                wanted = Wanted(text, 0, end, left, not oldest, kind, source)
                async with aclosing(search(store.reader, world_id, wanted)) as slices:
                    async for reached in slices:
                        left -= len(reached.hits)
                        tell(done + reached.scanned, total, f"{limit - left} found")
                        if item is None:
                            put_lines([(place, "bold"), (rest, "")] for place, rest in _lines(world_id, reached.hits))
                        else:
                            for hit in reached.hits:
                                item({"world_id": world_id, **hit._asdict()})
                done += end
        if quiet:
            return
        if left == limit:
            say(f"no payload in {counted(total, 'effect')} contains {text!r}")
        elif left <= 0:
            say(f"{counted(limit, 'effect')} shown: there may be more, see --limit")

    with_store(target(ctx, database_url, home), work)


def _lines(world_id: str, hits: list[Hit]) -> list[tuple[str, str]]:
    """Return where each effect stands, and what it is."""
    return [(f"{world_id}:{hit.global_seq}", f"  {hit.kind}  {hit.source_id}  {plain(hit.excerpt)}") for hit in hits]
