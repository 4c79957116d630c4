"""What is said of any experiment: its worlds, their heads, its effects, and what was refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from worldledger_service.report import queries
from worldledger_service.report.blocks import Block, Column, Figure, Note, Section, Table
from worldledger_service.report.charts import Bars, Histogram, Part
from worldledger_service.report.steps import edges, step_of, steps_for
from worldledger_service.report.wording import counted, listed

if TYPE_CHECKING:
    from asyncpg import Record

    from worldledger_service.report.snapshot import Snapshot

#: Most worlds, kinds of effects, and reasons of refusals that are listed.
_WORLDS: Final = 30
_KINDS: Final = 40
_REFUSALS: Final = 20
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
    more = count - len(largest)
    caption = f"The {len(largest)} worlds with the most effects, and their heads" if more else "Worlds and their heads"
    return Table(
        "heads",
        caption,
        (
            Column("world_id", "World", "code"),
            Column("ruleset", "Ruleset", "code"),
            Column("head_seq", "Effects", "whole"),
            Column("head_checksum", "Checksum of the head", "hash"),
            Column("last_recorded_at", "Last recorded", "time"),
        ),
        [tuple(row.values()) for row in largest],
        more,
        "select * from analytics.worlds where experiment = $1 order by world_id" if more else None,
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
    more = len(kinds) - len(rows)
    sql = "select kind, count(*) from analytics.effects where experiment = $1 group by kind" if more else None
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
        Table("kinds", "Effects by kind", columns, rows, more, sql),
        folded=False,
    )
    return Section("effects", "Effects", [figure, *await _refused(snapshot, experiment)])


async def _refused(snapshot: Snapshot, experiment: str) -> list[Block]:
    rows = await snapshot.rows(queries.REFUSED, experiment, _REFUSALS)
    if not rows:
        return [Note("No intent of an agent was refused.")]
    more = rows[0]["refusals"] - len(rows)
    columns = (
        Column("code", "Error", "code"),
        Column("rule", "Rule", "code"),
        Column("intents", "Intents", "whole"),
        Column("agents", "Agents", "whole"),
        Column("example", "For example"),
    )
    table = Table(
        "refused_intents",
        "Intents that were refused, by reason",
        columns,
        [tuple(row.values())[:5] for row in rows],
        more,
        "select * from analytics.intents where experiment = $1 and not is_accepted" if more else None,
    )
    labels = [" · ".join(filter(None, (row["code"] or "not told", row["rule"]))) for row in rows[:_BARS]]
    said = f"Bars: how many intents were refused for each reason. The most frequent is {labels[0]}."
    values = [row["intents"] for row in rows[:_BARS]]
    bars = Bars(said, labels, [Part("intents", values)], [f"{value:,}" for value in values])
    return [Figure("Refused intents by reason", bars, table, folded=False)]
