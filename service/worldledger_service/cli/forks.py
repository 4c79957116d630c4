"""``worldledger fork``: a world that goes on from another one's state at some moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.moments import At, one_moment
from worldledger_service.cli.naming import exact_world
from worldledger_service.cli.options import DatabaseUrl, Home, Quiet, World
from worldledger_service.cli.output import counted, effects, progress_bar, put, put_bytes

if TYPE_CHECKING:
    from worldledger_service.store import Store, WorldRecord


def fork(
    ctx: typer.Context,
    world: World,
    at: At = None,
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="The name of the fork.", show_default="WORLD~SEQ"),
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Option("--experiment", metavar="NAME", help="The experiment of the fork.", show_default="the parent's"),
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", metavar="TEXT", help="Your own words about it, kept in its genesis.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Begin with another value: ENTITY/FIELD=JSON, such as alice/gold=20; may be given several times.",
            show_default=False,
        ),
    ] = None,
    same_noise: Annotated[
        bool, typer.Option("--same-noise", help="Let its agents see through the parent's noise, not its own.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Verify all of the parent and its ancestors first.")] = False,
    anyway: Annotated[
        bool,
        typer.Option("--anyway", help="Fork although the parent does not verify; the fork's genesis says so."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Make a world that goes on from another one's state at a moment. Nothing of the parent is copied.

    Its time, turns, agents and their policies go on; the log of the parent up to there is its history, too:
    a moment of before the fork is looked up in the parent, and parent:MOMENT names one. The same command
    again finds the same fork.

    Examples:
        worldledger fork market --at turn:10 --as rich --set Trader_1/gold=200
        worldledger fork market --at 1200 --label "before the crash"
        worldledger diff rich parent:turn:9 head
    """
    moment = one_moment(at)
    given = _changes(changes or [])

    async def work(store: Store) -> tuple[WorldRecord, WorldRecord, bool]:
        from worldledger_service.store.forking import NewFork  # noqa: PLC0415 - slow to load

        parent = await exact_world(store, world)
        wanted = NewFork(
            world_id=name, experiment=experiment, label=label, changes=given, same_noise=same_noise, anyway=anyway
        )
        with progress_bar(f"verifying {world}", quiet=quiet or not verify) as tell:
            made, is_new = await store.fork(parent.world_id, moment, wanted, verify=verify, progress=effects(tell))
        origin = await store.states.parent(made)
        assert origin is not None  # noqa: S101 - it is a fork
        return made, origin, is_new

    made, origin, is_new = with_store(target(ctx, database_url, home), work)
    if as_json:
        import orjson  # noqa: PLC0415

        told = {"parent": origin.world_id, "at_seq": origin.head_seq, "made": is_new}
        put_bytes(orjson.dumps({**made.model_dump(mode="json"), "fork_of": told}) + b"\n")
        return
    done = "forked" if is_new else "already there:"
    more = f", {counted(len(given), 'change')}" if given else ""
    put(f"{done} {made.world_id}, from seq {origin.head_seq} of {origin.world_id}{more}, head {made.head.position}")


def _changes(given: Sequence[str]) -> dict[str, Any]:
    """Read the changes: each value is JSON, or else the text itself. Raises BadParameter."""
    import orjson  # noqa: PLC0415

    changes: dict[str, Any] = {}
    for each in given:
        path, sign, value = each.partition("=")
        if not sign or not path:
            raise typer.BadParameter(f"{each!r} is not PATH=VALUE, such as alice/gold=20", param_hint="'--set'")
        if path in changes:
            raise typer.BadParameter(f"{path!r} is set twice", param_hint="'--set'")
        try:
            changes[path] = orjson.loads(value)
        except orjson.JSONDecodeError:
            changes[path] = value
    return changes
