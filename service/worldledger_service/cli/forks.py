"""``worldledger fork``: a world that goes on from another one's state at some moment; ``rerun``: run on in it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from worldledger.errors import InvalidEffectError, SimulationError, TamperedError
from worldledger.extras import llm_needed
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.moments import HEAD, At, one_moment, read_moment
from worldledger_service.cli.naming import exact_world
from worldledger_service.cli.options import DatabaseUrl, Home, ModelAddress, PersonaFile, Quiet, World
from worldledger_service.cli.output import counted, effects, plain, progress_bar, put_bytes, put_text, say

if TYPE_CHECKING:
    from worldledger.effects import EffectDraft
    from worldledger.genesis import ForkPoint
    from worldledger.llm import Budget, Model, Persona
    from worldledger_service.store import Store, WorldRecord
    from worldledger_service.store.forking import NewFork
    from worldledger_service.store.rerunning import Playing, Report

T = TypeVar("T")


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
    wanted = _wanted(
        world_id=name, experiment=experiment, label=label, changes=given, same_noise=same_noise, anyway=anyway
    )

    async def work(store: Store) -> tuple[WorldRecord, ForkPoint, bool]:
        parent = await exact_world(store, world)
        with progress_bar(f"verifying {world}", quiet=quiet or not verify) as tell:
            made, is_new = await store.fork(parent.world_id, moment, wanted, verify=verify, progress=effects(tell))
        fork_of = (await store.states.rules(made.world_id)).fork_of
        assert fork_of is not None  # noqa: S101 - it is a fork
        return made, fork_of, is_new

    try:
        made, fork_of, is_new = with_store(target(ctx, database_url, home), work)
    except TamperedError as error:
        if anyway:
            raise
        say(f"{error.message}; --anyway forks it all the same")
        raise typer.Exit(1) from None
    if as_json:
        import orjson  # noqa: PLC0415

        told = {**made.model_dump(mode="json"), "fork_of": fork_of.model_dump(mode="json"), "made": is_new}
        put_bytes(orjson.dumps(told) + b"\n")
        return
    if quiet:
        return
    done = "forked" if is_new else "already there:"
    more = f", {counted(len(given), 'change')}" if given else ""
    origin = f"from seq {fork_of.global_seq} of {fork_of.world_id}"
    put_text(f"{done} {made.world_id}, {origin}{more}, head {made.head.position}")


def _wanted(**fields: Any) -> NewFork:
    """Return what is asked for. Raises BadParameter for a label or an experiment that cannot be one."""
    from pydantic import ValidationError  # noqa: PLC0415 - slow to load, as the next

    from worldledger_service.store.forking import NewFork  # noqa: PLC0415

    try:
        return NewFork(**fields)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise typer.BadParameter(problem["msg"], param_hint=f"'--{problem['loc'][0]}'") from None


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
    plays: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="[AGENT=]PLAYER",
            help="What plays an agent, or all: MODULE:FUNCTION, a function(agent_id, view, {kind, payload}) of yours, "
            "or llm:MODEL, a language model; may be given several times.",
            show_default=False,
        ),
    ] = None,
    persona: PersonaFile = None,
    base_url: ModelAddress = None,
    recall: Annotated[
        str,
        typer.Option(
            "--recall",
            metavar="ancestors|off|WORLD",
            help="With llm:MODEL: ask only where an agent sees something else than in the parent; or always; or take "
            "the answers of another world.",
        ),
    ] = "ancestors",
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Run on in a fork: submit what its parent got from outside after the fork point, in order, to be decided again.

    That is the intents of agents and the effects of engines, with their recorded times; staleness, quotas and
    latency are off. What the fork's state refuses is named, and where its state first differs from the
    parent's. Agents would perhaps have acted otherwise: this shows what the recorded actions lead to, unless
    --with has agents decide anew. A language model is asked only where its agent sees something else than it
    did in the parent. The same command again goes on where it was stopped, and reports the whole.

    Examples:
        worldledger rerun rich
        worldledger rerun rich --until turn:20 --skip 412
        worldledger rerun rich --with my_policies:cautious --json
        worldledger rerun rich --with alice=llm:gpt-5-mini --persona alice.yaml
    """
    end = HEAD if until is None else read_moment(until, "--until")
    replaced = _replacements(replace or [], skip or [])
    policies, models = _players(plays or [])
    played = _played(models, persona, base_url)

    async def work(store: Store) -> Report:
        from worldledger_service.store.rerunning import Asked  # noqa: PLC0415 - slow to load

        world = await exact_world(store, fork)
        thinking = None
        if played is not None:
            from worldledger_service.cli.rethinking import minds_of  # noqa: PLC0415 - only where the extra is installed

            waits = (lambda _: None) if quiet else say
            thinking = await minds_of(store, world, played.agents, budget=played.budget, recall=recall, tell=waits)
        asked = Asked(frozenset(skip or ()), replaced, _policy(policies), thinking)
        with progress_bar(f"running on in {fork}", quiet=quiet) as tell:
            return await store.rerun(world.world_id, until=end, asked=asked, progress=effects(tell))

    report = _with_models(lambda: with_store(target(ctx, database_url, home), work), is_asked=played is not None)
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
    if report.recalled or report.asked:
        yield f"  {counted(report.recalled, 'generation')} recalled from a log, {report.asked} asked of a model"
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


class _Played(NamedTuple):
    """The agents that language models play, and the budget that they share."""

    agents: dict[str, tuple[Model, Persona]]
    budget: Budget | None


def _players(texts: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Read what plays agents: functions of the user's, and the names of models, by agent; "": all others.

    Raises BadParameter.
    """
    functions, models = dict[str, Any](), dict[str, str]()
    for text in texts:
        agent_id, _, player = text.rpartition("=")
        if agent_id in functions or agent_id in models:
            who = f"the agent {agent_id}" if agent_id else "every agent"
            raise typer.BadParameter(f"{who} is played twice", param_hint="'--with'")
        if player.startswith("llm:"):
            models[agent_id] = player.removeprefix("llm:")
        else:
            functions[agent_id] = _function(player)
    return functions, models


def _policy(functions: Mapping[str, Any]) -> Playing | None:
    """Return one function for all agents; what no function plays does what is recorded."""

    def play(agent_id: str, view: Any, recorded: dict[str, Any]) -> Any:
        asked = functions.get(agent_id, functions.get(""))
        return recorded if asked is None else asked(agent_id, view, recorded)

    return play if functions else None


def _played(models: Mapping[str, str], persona: Path | None, base_url: str | None) -> _Played | None:
    """Return the agents that language models play; None if there are none.

    Raises BadParameter, ExtraMissingError, FileRefusedError, and SimulationError if there is no key.
    """
    if not models:
        if persona is not None or base_url is not None:
            raise typer.BadParameter(
                "--persona and --base-url are for language models: llm:MODEL", param_hint="'--with'"
            )
        return None
    if persona is None:
        raise typer.BadParameter("name a file that says whom the model plays", param_hint="'--persona'")
    from worldledger_service.cli.agent import model_of, played_as  # noqa: PLC0415

    with llm_needed():
        from worldledger.llm import read_personas  # noqa: PLC0415 - only where the extra is installed
        from worldledger.llm.providers import split  # noqa: PLC0415
    found = read_personas(persona)
    agents: dict[str, tuple[Model, Persona]] = {}
    for agent_id, name in sorted(models.items(), reverse=True):  # "" comes last: it plays the others
        model = model_of(split(name) or ("openai", name), base_url)
        for own, played in played_as(found, [agent_id] if agent_id else [], persona).items():
            agents.setdefault(own, (model, played))
    return _Played(agents, found.budget)


def _with_models(work: Callable[[], T], *, is_asked: bool) -> T:
    """Do what asks models. Raises SimulationError if one does not answer."""
    if not is_asked:
        return work()
    from worldledger.llm.model import ModelError  # noqa: PLC0415 - only where the extra is installed

    try:
        return work()
    except ModelError as error:
        what = f"{error.message}; what was decided so far is kept, and the same command goes on from there"
        raise SimulationError(what) from None


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
