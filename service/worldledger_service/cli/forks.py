"""``worldledger fork``: a world that goes on from another one's state at some moment; ``rerun``: run on in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worldledger.errors import InvalidEffectError, TamperedError
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.moments import HEAD, At, one_moment, read_moment
from worldledger_service.cli.naming import exact_world
from worldledger_service.cli.options import DatabaseUrl, Home, Quiet, World
from worldledger_service.cli.output import counted, effects, plain, progress_bar, put_bytes, put_text, say

if TYPE_CHECKING:
    from worldledger.effects import EffectDraft
    from worldledger_service.store import Store, WorldRecord
    from worldledger_service.store.rerunning import Report


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

    try:
        made, origin, is_new = with_store(target(ctx, database_url, home), work)
    except TamperedError as error:
        if anyway:
            raise
        say(f"{error.message}; --anyway forks it all the same")
        raise typer.Exit(1) from None
    if as_json:
        import orjson  # noqa: PLC0415

        told = {"parent": origin.world_id, "at_seq": origin.head_seq, "made": is_new}
        put_bytes(orjson.dumps({**made.model_dump(mode="json"), "fork_of": told}) + b"\n")
        return
    if quiet:
        return
    done = "forked" if is_new else "already there:"
    more = f", {counted(len(given), 'change')}" if given else ""
    put_text(
        f"{done} {made.world_id}, from seq {origin.head_seq} of {origin.world_id}{more}, head {made.head.position}"
    )


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


# -- rerun ---------------------------------------------------------------------------------------------------


def rerun(
    ctx: typer.Context,
    fork: Annotated[str, typer.Argument(metavar="FORK", help="The name of a fork.", show_default=False)],
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="MOMENT", help="Up to this moment of the parent.", show_default="the parent's head"
        ),
    ] = None,
    skip: Annotated[
        list[int] | None,
        typer.Option("--skip", metavar="SEQ", help="Leave out this effect of the parent; may be given several times."),
    ] = None,
    replace: Annotated[
        list[str] | None,
        typer.Option(
            "--replace",
            metavar="SEQ=FILE",
            help="Submit what a JSON file has (kind, payload or both) in place of this effect of the parent.",
        ),
    ] = None,
    play: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="MODULE:FUNCTION",
            help="Ask a function of yours what an agent does instead: function(agent_id, view, {kind, payload}).",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Run on in a fork: submit what its parent got from outside after the fork point, in order, to be decided again.

    That is the intents of agents and the effects of engines, with their recorded times; staleness, quotas and
    latency are off. What the fork's state refuses is named, and where its state first differs from the
    parent's. Agents would perhaps have acted otherwise: this shows what the recorded actions lead to. The
    same command again goes on where it was stopped, and reports the whole.

    Examples:
        worldledger rerun rich
        worldledger rerun rich --until turn:20 --skip 412
        worldledger rerun rich --with my_policies:cautious --json
    """
    end = HEAD if until is None else read_moment(until, "--until")
    replaced = _replacements(replace or [], skip or [])
    playing = None if play is None else _function(play)

    async def work(store: Store) -> Report:
        from worldledger_service.store.rerunning import Asked  # noqa: PLC0415 - slow to load

        world = await exact_world(store, fork)
        asked = Asked(frozenset(skip or ()), replaced, playing)
        with progress_bar(f"running on in {fork}", quiet=quiet) as tell:
            return await store.rerun(world.world_id, until=end, asked=asked, progress=effects(tell))

    report = with_store(target(ctx, database_url, home), work)
    if as_json:
        import orjson  # noqa: PLC0415

        put_bytes(orjson.dumps(report, default=lambda refusal: refusal._asdict()) + b"\n")
    elif report.refused or not quiet:
        for line in _told(report):
            put_text(line)


#: Refusals that are shown to people; of more, which follow from the first as a rule, only that is.
_SHOWN = 5


def _told(report: Report) -> Iterator[str]:
    """Say what became of a rerun."""
    come_to = report.resumed_after
    is_done = come_to is not None and come_to >= report.until_seq
    if is_done:
        yield f"nothing to run on in {report.world_id}: an earlier rerun had come to seq {come_to} of {report.parent}"
    else:
        yield from _ran(report)
    more = f", {len(report.newly_accepted)} of them refused in the parent" if report.newly_accepted else ""
    submitted = f"{counted(report.issued, 'draft')} submitted" + ("" if come_to is None else " in all")
    yield f"  {submitted}, {report.accepted} accepted{more}, {report.refused} refused"
    if report.left_out:
        kinds = ", ".join(f"{count} {plain(kind)}" for kind, count in report.left_out.items())
        yield f"  not submitted: {kinds}"
    if report.differs_at is not None:
        yield f"  the states first differ after seq {report.differs_after}, at {plain(report.differs_at)}"
    else:
        yield f"  the states are alike {'there' if is_done else 'to the end'}"
    for refusal in report.refusals[: 1 if report.refused > _SHOWN else _SHOWN]:
        what = f"seq {refusal.seq} {plain(refusal.kind)} of {plain(refusal.source_id)}"
        yield f"  refused: {what}: {plain(refusal.reason)}"
    if report.refused > _SHOWN:
        yield f"  and {report.refused - 1} more after it (--json)"


def _ran(report: Report) -> Iterator[str]:
    span = f"seq {report.after_seq + 1} to {report.until_seq} of {report.parent}"
    if report.after_seq == report.until_seq:
        span = f"nothing after seq {report.after_seq} of {report.parent}"
    yield f"ran on in {report.world_id}: {span}, head {report.head_seq}"
    if report.resumed_after is not None:
        yield f"  went on after seq {report.resumed_after}, which an earlier rerun had come to"


def _replacements(texts: Sequence[str], skip: Sequence[int]) -> dict[int, EffectDraft]:
    """Read what is to be replaced. Raises BadParameter, also for an effect that is to be skipped or has two files."""
    replaced: dict[int, EffectDraft] = {}
    for seq, draft in map(_replacement, texts):
        if seq in skip:
            raise typer.BadParameter(f"seq {seq} is to be left out as well: --skip", param_hint="'--replace'")
        if seq in replaced:
            raise typer.BadParameter(f"seq {seq} is replaced twice", param_hint="'--replace'")
        replaced[seq] = draft
    return replaced


def _replacement(text: str) -> tuple[int, EffectDraft]:
    """Read SEQ=FILE. Raises BadParameter."""
    from worldledger_service.store.rerunning import read_replacement  # noqa: PLC0415

    seq, sign, file = text.partition("=")
    if not sign or not seq.isdecimal():
        raise typer.BadParameter(f"{text!r} is not SEQ=FILE", param_hint="'--replace'")
    try:
        return int(seq), read_replacement(Path(file).read_bytes())
    except OSError as error:
        what = f"{file} cannot be read ({error.strerror or error})"
        raise typer.BadParameter(what, param_hint="'--replace'") from None
    except InvalidEffectError as error:
        raise typer.BadParameter(f"{file}: {error.reason}", param_hint="'--replace'") from None


def _function(place: str) -> Any:
    """Load a function of the user's. Raises BadParameter."""
    module, _, name = place.partition(":")
    if not module or not name:
        raise typer.BadParameter(f"{place!r} is not MODULE:FUNCTION", param_hint="'--with'")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # as `python -m` has it: the file may lie in this folder
    try:
        found = getattr(import_module(module), name, None)
    except Exception as error:  # noqa: BLE001 - a user's module may raise anything
        what = f"{module} cannot be loaded ({type(error).__name__}: {error})"
        raise typer.BadParameter(what, param_hint="'--with'") from None
    if not callable(found):
        raise typer.BadParameter(f"the module {module} has no function {name}", param_hint="'--with'")
    return found
