"""What is said of any experiment: its worlds, their heads, its effects, and what was refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from worldledger_projections.registry import known

from worldledger.errors import SimulationError
from worldledger.kinds import installed
from worldledger_service.report import queries
from worldledger_service.report.blocks import Block, Column, Figure, KindSection, Note, Report, Section, Table
from worldledger_service.report.charts import Bars, Histogram, Part, edges, step_of, steps_for
from worldledger_service.report.snapshot import Snapshot, snapshot
from worldledger_service.report.wording import counted, listed
from worldledger_service.store.reader import storable

if TYPE_CHECKING:
    from asyncpg import Record


#: Most worlds, kinds of effects, and reasons of refusals that are listed.
_WORLDS: Final = 30
_KINDS: Final = 40
_REFUSALS: Final = 20
#: Most models that are listed.
_MODELS: Final = 20
#: Most worlds that have a bar each, and most bars of a histogram.
_BARS: Final = 16
_STEPS: Final = 24


async def facts(snapshot: Snapshot, experiment: str, rulesets: list[Record]) -> Mapping[str, Any]:
    """Return what is said first."""
    return {
        "worlds": sum(row["worlds"] for row in rulesets),
        "effects": sum(row["effects"] for row in rulesets),
        "rulesets": {row["ruleset"]: row["worlds"] for row in rulesets},
        "began_at": await snapshot.value(queries.BEGAN, experiment),
        "last_recorded_at": max(filter(None, (row["last_recorded_at"] for row in rulesets)), default=None),
        "heads_sha256": await snapshot.value(queries.HEADS, experiment),
    }


async def worlds(snapshot: Snapshot, experiment: str, rulesets: list[Record]) -> Section:
    """Return the section on worlds and their heads."""
    blocks: list[Block] = [
        Table(
            "rulesets",
            "Worlds by ruleset",
            (
                Column("ruleset", "Ruleset", "code"),
                Column("worlds", "Worlds", "whole"),
                Column("effects", "Effects", "whole"),
                Column("least", "Fewest in a world", "whole"),
                Column("median", "Median", "whole"),
                Column("most", "Most in a world", "whole"),
            ),
            [tuple(row.values())[:6] for row in rulesets],
        )
    ]
    count = sum(row["worlds"] for row in rulesets)
    largest = await snapshot.rows(queries.WORLDS, experiment, _WORLDS)
    if count > _BARS:
        most = max(row["most"] for row in rulesets)
        step = step_of(0, most, steps_for(count, _STEPS))
        found = {row["step"]: row["worlds"] for row in await snapshot.rows(queries.EFFECTS_OF_WORLDS, experiment, step)}
        blocks.append(_distribution(step, most, found))
    blocks.append(_heads(largest, count))
    forks = await snapshot.value(queries.FORKS, experiment)
    if forks:
        what = f"{counted(forks, 'fork')} {'is' if forks == 1 else 'are'} left out of everything here, so that nothing "
        what += "counts twice. What became of a fork and its parent shows"
        blocks.append(Note(what, "worldledger compare FORK PARENT"))
    blocks.append(
        Note(
            "A report shows what the log says and does not verify it. The SHA-256 of all heads is that of a line of "
            "UTF-8 for each world, by name: its name, the number of its effects and the checksum of its head, with "
            "blanks between and a newline at the end. Whether a log holds, and is the one that this report is of, says",
            "worldledger verify WORLD --head SEQ:CHECKSUM",
        )
    )
    return Section("worlds", "Worlds and their heads", blocks)


def _distribution(step: int, most: int, found: Mapping[int, int]) -> Figure:
    bounds = edges(step, most)
    counts = [found.get(place, 0) for place in range(len(bounds) - 1)]
    numbers = Table(
        "effects_per_world",
        "Worlds by their number of effects",
        (Column("from", "From", "whole"), Column("below", "To below", "whole"), Column("worlds", "Worlds", "whole")),
        [*zip(bounds, bounds[1:], counts, strict=False)],
    )
    said = f"Histogram of the number of effects in each of {counted(sum(counts), 'world')}."
    return Figure("Effects per world", Histogram(said, "effects in the world", "worlds", bounds, counts), numbers)


def _heads(largest: list[Record], count: int) -> Table:
    has_more = len(largest) < count
    caption = f"The {len(largest)} worlds with the most effects, and their heads"
    return Table.of(
        "heads",
        caption if has_more else "Worlds and their heads",
        (
            Column("world_id", "World", "code"),
            Column("ruleset", "Ruleset", "code"),
            Column("head_seq", "Effects", "whole"),
            Column("head_checksum", "Checksum of the head", "hash"),
            Column("last_recorded_at", "Last recorded", "time"),
        ),
        largest,
        count,
        "select * from analytics.worlds where experiment = $1 order by world_id",
    )


async def effects(snapshot: Snapshot, experiment: str) -> Section:
    """Return the section on effects by kind, and on intents that were refused."""
    kinds = await snapshot.rows(queries.KINDS, experiment)
    total = sum(row["effects"] for row in kinds)
    rows = [(row["kind"], row["effects"], row["effects"] / total, row["worlds"]) for row in kinds[:_KINDS]]
    columns = (
        Column("kind", "Kind", "code"),
        Column("effects", "Effects", "whole"),
        Column("share", "Share", "share"),
        Column("worlds", "Worlds with it", "whole"),
    )
    sql = "select kind, count(*) from analytics.effects where experiment = $1 group by kind"
    most = rows[:_BARS]
    said = f"Bars: how many effects there are of each kind. Most are {listed([str(row[0]) for row in rows[:3]])}."
    figure = Figure(
        "Effects by kind" if len(most) == len(kinds) else f"Effects by kind, the {len(most)} most frequent",
        Bars(
            said,
            [row[0] for row in most],
            [Part("effects", [row[1] for row in most])],
            [f"{row[1]:,}" for row in most],
        ),
        Table.of("kinds", "Effects by kind", columns, rows, len(kinds), sql),
        folded=False,
    )
    return Section("effects", "Effects", [figure, *await _refused(snapshot, experiment)])


async def _refused(snapshot: Snapshot, experiment: str) -> list[Block]:
    rows = await snapshot.rows(queries.REFUSED, experiment, _REFUSALS)
    if not rows:
        return [Note("No intent of an agent was refused.")]
    columns = (
        Column("code", "Error", "code"),
        Column("rule", "Rule", "code"),
        Column("intents", "Intents", "whole"),
        Column("agents", "Agents", "whole"),
        Column("example", "For example"),
    )
    table = Table.of(
        "refused_intents",
        "Intents that were refused, by reason",
        columns,
        rows,
        rows[0]["refusals"],
        "select * from analytics.intents where experiment = $1 and not is_accepted",
    )
    labels = [" · ".join(filter(None, (row["code"] or "not told", row["rule"]))) for row in rows[:_BARS]]
    said = f"Bars: how many intents were refused for each reason. The most frequent is {labels[0]}."
    values = [row["intents"] for row in rows[:_BARS]]
    bars = Bars(said, labels, [Part("intents", values)], [f"{value:,}" for value in values])
    return [Figure("Refused intents by reason", bars, table, folded=False)]


async def models(snapshot: Snapshot, experiment: str) -> Section | None:
    """Return the section on what language models have made; None where there were none."""
    rows = await snapshot.rows(queries.MODELS, experiment, _MODELS)
    if not rows:
        return None
    table = Table.of(
        "models",
        "Generations by model",
        (
            Column("model", "Model", "code"),
            Column("generations", "Generations", "whole"),
            Column("interrupted", "Interrupted", "whole"),
            Column("failed", "Failed or lost", "whole"),
            Column("first_token_s", "First token, median", "seconds"),
            Column("took_s", "All, median", "seconds"),
            Column("tokens_in", "Tokens in", "whole"),
            Column("tokens_out", "Tokens out", "whole"),
            Column("tokens_lost", "Of these interrupted", "whole"),
            Column("price", "Price", "number"),
            Column("currency", "Currency", "code"),
            Column("uncounted", "Prompts not counted", "whole"),
        ),
        rows,
        rows[0]["groups"],
        "select * from analytics.generations where experiment = $1 and model is not null",
    )
    note = Note(
        "What each interruption cost, and what interrupted, says",
        "worldledger sql interruption-cost --param experiment=EXPERIMENT",
    )
    return Section("models", "Language models", [table, note])


# -- the whole report: what an experiment contains decides what is said of it -----------------------------


#: About how many questions there are, for who shows progress.
QUESTIONS: Final = 35
_NAMED: Final = 3


@cache
def sections_of_kinds() -> Mapping[str, KindSection]:
    """Return what installed kinds have to say of their worlds, by ruleset. Raises InvalidKindError."""
    return {kind.name: kind.load("report") for kind in installed().values() if kind.report is not None}


class UnknownExperimentError(SimulationError):
    """There is no experiment of that name, or it has forks only; details: experiment, forks or close."""

    code = "no_such_experiment"


async def make_report(url: str, name: str, *, asked: Callable[[int], object] = lambda number: None) -> Report:
    """Read everything that there is to say of an experiment, at one moment.

    ``asked`` is told the number of each question. Raises UnknownExperimentError for an experiment that is not there,
    naming those that are spelt alike; SimulationError for one of which the projections have nothing yet;
    StoreUnavailableError or SchemaVersionError for a database that cannot be asked.
    """
    views = sorted({view for section in sections_of_kinds().values() for view in section.views})
    async with snapshot(url, views, asked=asked) as (opened, there):
        read_at = await opened.value(queries.NOW)
        rulesets = await opened.rows(queries.RULESETS, name) if storable(name) else []
        if not rulesets:
            raise await _unknown(opened, name)
        behind, todo = await _behind(opened, name, rulesets, there)
        sections = [await worlds(opened, name, rulesets), await effects(opened, name)]
        for ruleset, (make, read) in sections_of_kinds().items():
            if there.issuperset(read) and any(row["ruleset"] == ruleset for row in rulesets):
                sections.append(await make(opened, name))
        if (made := await models(opened, name)) is not None:
            sections.append(made)
        said = await facts(opened, name, rulesets)
    return Report(name, read_at, version("worldledger"), said, [*sections[2:], *sections[:2]], behind, todo)


async def _unknown(opened: Snapshot, name: str) -> UnknownExperimentError:
    forks = await opened.value(queries.FORKS, name) if storable(name) else 0
    if forks:
        what = f"experiment {name!r} has {counted(forks, 'fork')} and no other world; a report leaves forks out: see "
        return UnknownExperimentError(f"{what}`worldledger compare FORK PARENT`", experiment=name, forks=forks)
    there = [row["experiment"] for row in await opened.rows(queries.EXPERIMENTS)]
    if not there:
        what = "there are no experiments; `worldledger import … --experiment NAME` and `world create` make some"
        return UnknownExperimentError(f"there is no experiment {name!r}: {what}", experiment=name)
    folded = {other.casefold(): other for other in reversed(there)}
    close = [folded[other] for other in get_close_matches(name.casefold(), folded, _NAMED)]
    meant = f"; did you mean {' or '.join(map(repr, close))}?" if close else "; see `worldledger worlds`"
    return UnknownExperimentError(f"there is no experiment {name!r}{meant}", experiment=name, close=close)


# -- what projections lack -----------------------------------------------------------------------------------


async def _behind(
    opened: Snapshot, name: str, rulesets: list[Record], there: frozenset[str]
) -> tuple[list[str], list[str]]:
    """Say what the projections lack, and which commands change that.

    Raises SimulationError where they have nothing of the experiment yet.
    """
    worlds = {row["ruleset"]: row["worlds"] for row in rulesets if row["ruleset"] in sections_of_kinds()}
    needed = dict(_needed(worlds))
    missing = [view for view in needed if view not in there]
    read = [view for view in needed if view in there]
    rows = await opened.rows(queries.BEHIND, name, read, [_rulesets_of(view) for view in read])
    unread = {row["projection"] for row in rows if row["unread"] == needed[row["projection"]]}
    paused = [row["projection"] for row in rows if row["is_paused"]]
    todo = [f"worldledger projections resume {' '.join(paused)}"] if paused else []
    if missing or len(paused) < len(rows):
        todo.append("worldledger project --once")
    if needed and {*missing, *unread} == set(needed):
        commands = " and ".join(f"`{command}`" for command in todo)
        what = f"the projections have read nothing of {name!r} yet: run {commands} first"
        raise SimulationError(what, experiment=name)
    found = [f"{listed(missing)}: not made yet"] if missing else []
    for row in rows:
        text = f"{row['projection']}: {counted(row['effects'], 'effect')} behind in {counted(row['worlds'], 'world')}"
        if row["parked"]:
            text += f", {row['parked']:,} of them parked"
        found.append(f"{text} (paused)" if row["is_paused"] else text)
    return found, todo


def _needed(worlds: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Return the projections that are read, each with the number of worlds that it reads of the experiment."""
    for ruleset, count in worlds.items():
        for view in sections_of_kinds()[ruleset].views:
            if view in known():
                yield view, count


def _rulesets_of(projection: str) -> str | None:
    rulesets = known()[projection].rulesets
    return None if rulesets is None else " ".join(sorted(rulesets))
