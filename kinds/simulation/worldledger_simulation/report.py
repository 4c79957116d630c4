"""The section of a report about simulations: their turns, and how global variables changed over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from worldledger_service.report.blocks import Block, Column, Figure, KindSection, Note, Section, Table
from worldledger_service.report.charts import Line, Lines, step_of
from worldledger_service.report.queries import within
from worldledger_service.report.wording import counted, number

if TYPE_CHECKING:
    from asyncpg import Record
    from worldledger_service.report.snapshot import Snapshot


# -- queries ------------------------------------------------------------------------------------------------

#: The worlds with the most turns, $2 of them. From analytics.turns.
WORLDS: Final = """
select world_id, max(turn) as turns, count(ended_seq) as ended, sum(changes)::bigint as changes,
       count(*) over () as worlds
from analytics.turns
where experiment = $1
group by world_id
order by turns desc, world_id
limit $2
"""

#: Global variables that are numbers, the most frequently changed first; $2 of them. From analytics.state_variables.
VARIABLES: Final = """
select path, count(*) as changes, count(distinct world_id) as worlds, max(turn) as last_turn,
       min(number) as least, avg(number::numeric)::double precision as mean, max(number) as most,
       count(*) over () as variables
from analytics.state_variables
where experiment = $1 and agent = 'global' and number is not null
group by path
order by changes desc, path
limit $2
"""

#: The values of the variables $2 in the worlds $3: the last one in each $4 turns. From analytics.state_variables.
COURSES: Final = """
select distinct on (path, world_id, turn / $4) path, world_id, turn, number
from analytics.state_variables
where experiment = $1 and agent = 'global' and path = any($2) and world_id = any($3) and number is not null
order by path, world_id, turn / $4, turn desc
"""

#: The variables $2 in all worlds, every $3 turns. From analytics.state_variables_by_turn.
RANGES: Final = """
select path, turn, count(*) as worlds, min(number) as least, avg(number::numeric)::double precision as mean,
       max(number) as most
from analytics.state_variables_by_turn
where experiment = $1 and agent = 'global' and path = any($2) and turn % $3 = 0 and number is not null
group by path, turn
order by path, turn
"""

#: How often agents stated their reasoning, by model. From analytics.reasoning.
REASONING: Final = f"""
select model, count(*) as reasonings, count(distinct agent_id) as agents,
       {within("sum(token_count)", "bigint")} as tokens
from analytics.reasoning
where experiment = $1
group by model
order by reasonings desc, model
"""


#: The views that this section reads besides the log.
VIEWS: Final = ("turns", "state_variables", "state_variables_by_turn", "reasoning")
#: Most worlds in a list, most worlds with a line each, most variables, and most turns of a line.
_WORLDS: Final = 50
_LINES: Final = 6
_VARIABLES: Final = 12
_TURNS: Final = 200
#: Most turns in a summary of all worlds.
_SUMMED: Final = 60
#: Most rows of a table of numbers.
_ROWS: Final = 400


async def section(snapshot: Snapshot, experiment: str) -> Section:
    """Return the section."""
    worlds = await snapshot.rows(WORLDS, experiment, _WORLDS)
    if not worlds:
        note = Note("There is no turn in the projections yet.", warning=True)
        return Section("simulation", "Simulations", [note])
    blocks: list[Block] = [_turns(worlds)]
    variables = await snapshot.rows(VARIABLES, experiment, _VARIABLES)
    if variables:
        count = worlds[0]["worlds"]
        blocks.append(_ranges(variables))
        moved = [row for row in variables if row["changes"] > row["worlds"]]
        if moved:
            blocks += await (_courses if count <= _LINES else _sums)(snapshot, experiment, moved, worlds)
    else:
        blocks.append(Note("No global variable is a number."))
    blocks += await _reasoning(snapshot, experiment)
    return Section("simulation", "Simulations", blocks)


def _turns(worlds: list[Record]) -> Table:
    columns = (
        Column("world_id", "World", "code"),
        Column("turns", "Turns", "whole"),
        Column("ended", "Turns that are over", "whole"),
        Column("changes", "Changes of variables", "whole"),
    )
    sql = "select world_id, max(turn) from analytics.turns where experiment = $1 group by world_id"
    return Table.of("turns", "Simulations and their turns", columns, worlds, worlds[0]["worlds"], sql)


def _ranges(variables: list[Record]) -> Table:
    columns = (
        Column("variable", "Global variable", "code"),
        Column("changes", "Values", "whole"),
        Column("worlds", "Worlds", "whole"),
        Column("last_turn", "Last changed in turn", "whole"),
        Column("least", "Least", "number"),
        Column("mean", "Mean of the values", "number"),
        Column("most", "Most", "number"),
    )
    sql = "select * from analytics.state_variables where experiment = $1 and agent = 'global'"
    count = variables[0]["variables"]
    return Table.of("global_variables", "Global variables that are numbers", columns, variables, count, sql)


async def _courses(snapshot: Snapshot, experiment: str, variables: list[Record], worlds: list[Record]) -> list[Block]:
    """Return a plot for each variable, with a line for each world."""
    last = max(row["turns"] for row in worlds)
    step = step_of(0, last, _TURNS)
    names = sorted(row["world_id"] for row in worlds)
    paths = [row["path"] for row in variables]
    rows = await snapshot.rows(COURSES, experiment, paths, names, step)
    ends = {row["world_id"]: row["turns"] for row in worlds}
    return [_course(path, [row for row in rows if row["path"] == path], names, ends, step) for path in paths]


def _course(path: str, rows: list[Record], names: list[str], ends: dict[str, int], step: int) -> Figure:
    lines: list[Line] = []
    for name in names:
        found = [(row["turn"], row["number"]) for row in rows if row["world_id"] == name]
        if found:
            if found[-1][0] < ends[name]:  # it has not changed since
                found.append((ends[name], found[-1][1]))
            lines.append(Line(name, [turn for turn, _ in found], [value for _, value in found]))
    columns = (Column("world_id", "World", "code"), Column("turn", "Turn", "whole"), Column("value", "Value", "number"))
    values = [(row["world_id"], row["turn"], row["number"]) for row in rows]
    table = _numbers(path, columns, values)
    said = f"Steps: the global variable {path} by turn. " + " ".join(_said(line) for line in lines)
    note = None if step == 1 else f"The last value in each {step} turns."
    return Figure(path, Lines(said, "turn", "", lines, steps=True), table, note)


def _said(line: Line) -> str:
    first, last = line.y[0], line.y[-1]
    return f"{line.label}: from {number(first or 0)} to {number(last or 0)}."


async def _sums(snapshot: Snapshot, experiment: str, variables: list[Record], worlds: list[Record]) -> list[Block]:
    """Return a plot for each variable, with the mean over all worlds and the range around it."""
    step = step_of(0, max(row["turns"] for row in worlds), _SUMMED)
    paths = [row["path"] for row in variables]
    rows = await snapshot.rows(RANGES, experiment, paths, step)
    return [_sum(path, [row for row in rows if row["path"] == path]) for path in paths]


def _sum(path: str, rows: list[Record]) -> Figure:
    columns = (
        Column("turn", "Turn", "whole"),
        Column("worlds", "Worlds", "whole"),
        Column("least", "Least", "number"),
        Column("mean", "Mean", "number"),
        Column("most", "Most", "number"),
    )
    line = Line(
        "mean",
        [row["turn"] for row in rows],
        [row["mean"] for row in rows],
        [row["least"] for row in rows],
        [row["most"] for row in rows],
    )
    table = _numbers(path, columns, [tuple(row.values())[1:] for row in rows])
    worlds = max((row["worlds"] for row in rows), default=0)
    said = f"Line: the mean of the global variable {path} over up to {counted(worlds, 'world')}, by turn."
    note = "Line: the mean over the worlds that have that turn. Band: from the least to the most."
    return Figure(path, Lines(said, "turn", "", [line]), table, note)


def _numbers(path: str, columns: tuple[Column, ...], values: Sequence[tuple[object, ...]]) -> Table:
    sql = (
        "select * from analytics.state_variables_by_turn where experiment = $1 and agent = 'global' and path = '"
        + path.replace("'", "''")
        + "'"
    )
    return Table.of(f"global_{path}", f"{path} by turn", columns, values[:_ROWS], len(values), sql)


async def _reasoning(snapshot: Snapshot, experiment: str) -> list[Block]:
    rows = await snapshot.rows(REASONING, experiment)
    if not rows:
        return []
    columns = (
        Column("model", "Model", "code"),
        Column("reasonings", "Reasonings", "whole"),
        Column("agents", "Agents", "whole"),
        Column("tokens", "Tokens", "whole"),
    )
    caption = "What agents told of their reasons, by model"
    return [Table.of("reasoning", caption, columns, rows[:_WORLDS], len(rows))]


#: The section for reports on experiments with such worlds.
SECTION: Final = KindSection(section, VIEWS)
