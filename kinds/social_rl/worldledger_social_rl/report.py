"""What a report says of social-RL runs: who ran, how feedback went by round and condition, how agents were coached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from worldledger_service.report.blocks import Block, Column, Figure, KindSection, Note, Section, Table
from worldledger_service.report.charts import Bars, Change, Changes, Line, Lines, Part
from worldledger_service.report.queries import within
from worldledger_service.report.wording import counted, number

if TYPE_CHECKING:
    from asyncpg import Record
    from worldledger_service.report.snapshot import Snapshot


# -- queries ------------------------------------------------------------------------------------------------


#: The runs by condition and seed, $2 of them. From analytics.social_runs.
RUNS: Final = """
select run_id, condition, seed, model, rounds, messages, agents, world_id, count(*) over () as runs
from analytics.social_runs
where experiment = $1
order by condition, seed, run_id, world_id
limit $2
"""

#: The conditions, those first with the most runs. From analytics.social_runs.
CONDITIONS: Final = """
select condition, count(*) as runs, count(distinct seed) as seeds, sum(rounds)::bigint as rounds,
       sum(messages)::bigint as messages
from analytics.social_runs
where experiment = $1
group by condition
order by runs desc, condition
"""

#: Feedback by round and condition: means of the runs' means, and how far these spread. From analytics.rounds and
#: analytics.social_runs.
ROUNDS: Final = f"""
select r.condition, o.round_number, count(*) as runs,
       avg(o.mean_engagement::numeric)::double precision as engagement,
       {within("stddev_samp(o.mean_engagement::numeric)", "double precision")} as engagement_spread,
       avg(o.mean_alignment::numeric)::double precision as alignment,
       {within("stddev_samp(o.mean_alignment::numeric)", "double precision")} as alignment_spread,
       avg(o.mean_contribution::numeric)::double precision as contribution,
       {within("stddev_samp(o.mean_contribution::numeric)", "double precision")} as contribution_spread
from analytics.rounds o
join analytics.social_runs r on r.world_id = o.world_id
where o.experiment = $1 and coalesce(o.mean_engagement, o.mean_alignment, o.mean_contribution) is not null
group by r.condition, o.round_number
order by r.condition, o.round_number
"""

#: The runs' means round by round, at most $2 of them. From analytics.rounds and analytics.social_runs.
POINTS: Final = """
select r.condition, o.round_number, o.mean_engagement, o.mean_alignment, o.mean_contribution
from analytics.rounds o
join analytics.social_runs r on r.world_id = o.world_id
where o.experiment = $1 and coalesce(o.mean_engagement, o.mean_alignment, o.mean_contribution) is not null
order by r.condition, o.round_number, o.world_id
limit $2
"""

#: Adaptations by cue and type, $2 kinds of them. From analytics.policy_adaptations.
ADAPTATIONS: Final = """
select cue, adaptation_type, count(*) as adaptations, count(distinct world_id) as runs,
       avg(intensity::numeric)::double precision as intensity, count(*) over () as kinds
from analytics.policy_adaptations
where experiment = $1
group by cue, adaptation_type
order by adaptations desc, cue, adaptation_type
limit $2
"""

#: Adaptations that are told as changes of the measures, by condition and round, as older runs have them. From
#: analytics.policy_adaptations and analytics.social_runs.
DELTAS: Final = """
select r.condition, a.round_number, count(*) as adaptations,
       avg(a.engagement_delta::numeric)::double precision as engagement,
       avg(a.alignment_delta::numeric)::double precision as alignment,
       avg(a.contribution_delta::numeric)::double precision as contribution
from analytics.policy_adaptations a
join analytics.social_runs r on r.world_id = a.world_id
where a.experiment = $1 and coalesce(a.engagement_delta, a.alignment_delta, a.contribution_delta) is not null
group by r.condition, a.round_number
order by r.condition, a.round_number
"""

#: The alignment of an agent before and after a cue was activated for it: its feedback before and the next one.
#: A cue that is null stands for the spans between two feedbacks in which none was activated.
#: From analytics.feedback and analytics.policy_adaptations.
_PAIRS_SQL: Final = """
with given as materialized (
    select world_id, agent_id, global_seq as after_seq, previous_alignment as before, theoretical_alignment as after,
           coalesce(lag(global_seq) over (partition by world_id, agent_id order by global_seq), 0) as before_seq
    from analytics.feedback
    where experiment = $1
), pairs as (
    select a.cue, g.world_id, a.global_seq, g.before, g.after
    from analytics.policy_adaptations a
    join given g on g.world_id = a.world_id and g.agent_id = a.agent_id
        and a.global_seq > g.before_seq and a.global_seq < g.after_seq
    where a.experiment = $1 and a.adaptation_type = 'activate_cue' and a.cue is not null
    union all
    select null, g.world_id, g.after_seq, g.before, g.after
    from given g
    where not exists (
        select from analytics.policy_adaptations a
        where a.world_id = g.world_id and a.agent_id = g.agent_id and a.adaptation_type = 'activate_cue'
          and a.global_seq > g.before_seq and a.global_seq < g.after_seq)
)
"""

#: By cue: how often it was activated between two feedbacks, and what became of the alignment; $2 of them.
CUES: Final = f"""{_PAIRS_SQL}
select cue, count(*) as pairs, avg(before::numeric)::double precision as before,
       avg(after::numeric)::double precision as after,
       {within("avg(after::numeric - before::numeric)", "double precision")} as change,
       {within("stddev_samp(after::numeric - before::numeric)", "double precision")} as spread,
       count(*) filter (where after > before) as risen, count(*) over () as cues
from pairs
where before is not null and after is not null
group by cue
order by cue is null, pairs desc, cue
limit $2
"""

#: The single pairs of the cues $2, at most $3 of each.
CUE_PAIRS: Final = f"""{_PAIRS_SQL}
select cue, before, after
from (
    select cue, before, after, row_number() over (partition by cue order by world_id, global_seq) as place
    from pairs
    where before is not null and after is not null and (cue = any($2) or cue is null)) p
where place <= $3
order by cue, place
"""

#: Who was referred to and answered, $2 agents. From analytics.feedback.
REFERENCES: Final = f"""
select agent_id, agent_role, count(*) as feedbacks, {within("sum(direct_references)", "bigint")} as referred,
       {within("sum(response_received)", "bigint")} as answered,
       {within("sum(analyst_mentions)", "bigint")} as mentioned,
       avg(synthesis_inclusion::numeric)::double precision as inclusion, count(*) over () as agents
from analytics.feedback
where experiment = $1
group by agent_id, agent_role
having sum(coalesce(direct_references, 0) + coalesce(response_received, 0)) > 0
order by sum(coalesce(direct_references, 0) + coalesce(response_received, 0)) desc, agent_id
limit $2
"""

#: Messages by the role in the agent's id, or by the agent where its id has none; $2 of them. From analytics.messages.
MESSAGES: Final = """
select coalesce(agent_role, agent_id) as sender, count(*) filter (where not is_internal) as public,
       count(*) filter (where is_internal) as internal, count(distinct agent_id) as agents,
       avg(length(content))::double precision as characters, count(*) over () as senders
from analytics.messages
where experiment = $1
group by 1
order by count(*) desc, sender
limit $2
"""


# -- policy adaptations, and what became of the alignment after a cue was activated -----------------------------

#: Most kinds of adaptations that are listed, most cues that are drawn, and most single pairs of a cue.
_KINDS: Final = 60
_CUES: Final = 12
_PAIRS: Final = 60

_NO_CUE: Final = "no cue told"
_NONE: Final = "(no cue activated)"
#: The documented types in the order in which they are drawn; others come after them.
_TYPES: Final = {"activate_cue": "activated", "adjust_intensity": "intensity adjusted", "deactivate_cue": "deactivated"}
_ODD: Final = "of another type, or none"


async def coaching(snapshot: Snapshot, experiment: str) -> list[Block]:
    """Return what there is to say of it."""
    kinds = await snapshot.rows(ADAPTATIONS, experiment, _KINDS)
    if not kinds:
        return [Note("No policy was adapted.")]
    told = any(row["cue"] is not None or row["adaptation_type"] is not None for row in kinds)
    count = sum(row["adaptations"] for row in kinds)
    untold = Note(f"{counted(count, 'policy adaptation')}, of which none tells a cue or a type.")
    blocks: list[Block] = [_adaptations(kinds) if told else untold]
    deltas = await snapshot.rows(DELTAS, experiment)
    if deltas:
        blocks.append(_deltas(deltas))
    cues = await snapshot.rows(CUES, experiment, _CUES + 1)
    if any(row["cue"] is not None for row in cues):
        names = [row["cue"] for row in cues if row["cue"] is not None]
        pairs = await snapshot.rows(CUE_PAIRS, experiment, names, _PAIRS + 1)
        blocks.append(_cues(cues, pairs))
    return blocks


def _adaptations(kinds: list[Record]) -> Figure:
    columns = (
        Column("cue", "Cue", "code"),
        Column("adaptation_type", "Type", "code"),
        Column("adaptations", "Adaptations", "whole"),
        Column("runs", "Runs", "whole"),
        Column("intensity", "Mean intensity", "number"),
    )
    sql = "select * from analytics.policy_adaptations where experiment = $1"
    table = Table.of("adaptations", "Policy adaptations by cue and type", columns, kinds, kinds[0]["kinds"], sql)
    counts: dict[str, dict[str, int]] = {}
    for row in kinds:
        cue, kind = row["cue"] or _NO_CUE, _TYPES.get(row["adaptation_type"], _ODD)
        of_cue = counts.setdefault(cue, {})
        of_cue[kind] = of_cue.get(kind, 0) + row["adaptations"]
    most = sorted(counts, key=lambda cue: (-sum(counts[cue].values()), cue))[:_CUES]
    drawn = [kind for kind in (*_TYPES.values(), _ODD) if any(kind in counts[cue] for cue in most)]
    parts = [Part(kind, [counts[cue].get(kind, 0) for cue in most]) for kind in drawn]
    said = f"Bars: how often each cue was activated, adjusted or deactivated. {most[0]} was adapted most often."
    remarks = [f"{sum(counts[cue].values()):,}" for cue in most]
    return Figure("Policy adaptations by cue and type", Bars(said, most, parts, remarks), table)


def _deltas(deltas: list[Record]) -> Table:
    columns = (
        Column("condition", "Condition"),
        Column("round_number", "Round", "whole"),
        Column("adaptations", "Adaptations", "whole"),
        Column("engagement", "Engagement", "number"),
        Column("alignment", "Alignment", "number"),
        Column("contribution", "Contribution", "number"),
    )
    caption = "Adaptations that are told as changes of the measures: their means by round"
    return Table.of("adaptation_deltas", caption, columns, deltas[:_KINDS], len(deltas))


# -- before and after a cue ----------------------------------------------------------------------------------


def _cues(cues: list[Record], pairs: list[Record]) -> Figure:
    columns = (
        Column("cue", "Activated cue", "code"),
        Column("pairs", "Times", "whole"),
        Column("before", "Mean before", "number"),
        Column("after", "Mean after", "number"),
        Column("change", "Mean change", "number"),
        Column("spread", "Standard deviation of the change", "number"),
        Column("risen", "Rose", "share"),
    )
    values: list[tuple[Any, ...]] = [
        (
            row["cue"] if row["cue"] is not None else _NONE,
            row["pairs"],
            row["before"],
            row["after"],
            row["change"],
            row["spread"],
            row["risen"] / row["pairs"],
        )
        for row in cues
    ]
    sql = "select * from analytics.policy_adaptations where experiment = $1 and adaptation_type = 'activate_cue'"
    table = Table.of(
        "alignment_by_cue",
        "Theoretical alignment before and after a cue was activated",
        columns,
        values,
        cues[0]["cues"],
        sql,
    )
    changes = [_change(row, pairs) for row in cues]
    said = "Means of the agents' theoretical alignment before and after a cue was activated. " + " ".join(
        f"{change.label}: from {number(change.before)} to {number(change.after)}." for change in changes
    )
    note = (
        "Before: the agent's last feedback before the cue was activated; after: the next one. A low alignment is often "
        "why a cue is activated, and may rise without it: the last row is of agents for whom none was activated "
        "meanwhile."
    )
    return Figure("Alignment before and after a cue", Changes(said, "theoretical alignment", changes), table, note)


def _change(row: Record, pairs: list[Record]) -> Change:
    label = row["cue"] if row["cue"] is not None else _NONE
    single = [(pair["before"], pair["after"]) for pair in pairs if pair["cue"] == row["cue"]]
    shown = single if len(single) <= _PAIRS else []
    return Change(label, row["before"], row["after"], f"{row['pairs']:,} \N{MULTIPLICATION SIGN}", shown)


#: What this section reads besides the log.
VIEWS: Final = ("social_runs", "rounds", "messages", "feedback", "policy_adaptations")
#: Most runs and agents that are shown.
_RUNS: Final = 100
_AGENTS: Final = 16
#: Lines of one plot: so many have colours and dashes of their own.
_LINES: Final = 6
#: Most points of single runs in a plot.
_POINTS: Final = 240
#: Most lines that have bands.
_BANDS: Final = 3
#: Most rows of a table by round and condition.
_ROUNDS: Final = 200

_MEASURES: Final = (
    ("engagement", "Engagement"),
    ("alignment", "Theoretical alignment"),
    ("contribution", "Contribution"),
)


async def section(snapshot: Snapshot, experiment: str) -> Section:
    """Return the section."""
    runs = await snapshot.rows(RUNS, experiment, _RUNS)
    if not runs:
        return Section("social", "Social-RL runs", [Note("There is no run in the projections yet.", warning=True)])
    conditions = await snapshot.rows(CONDITIONS, experiment)
    return Section(
        "social",
        "Social-RL runs",
        [
            *_runs(runs, conditions),
            *await _measures(snapshot, experiment, [row["condition"] for row in conditions]),
            *await coaching(snapshot, experiment),
            *await _messages(snapshot, experiment),
            *await _references(snapshot, experiment),
        ],
    )


def condition(name: str | None) -> str:
    """Name a condition, also one that is not told."""
    return "no condition told" if name is None else name


def _runs(runs: list[Record], conditions: list[Record]) -> Iterator[Block]:
    yield Table.of(
        "conditions",
        "Conditions",
        (
            Column("condition", "Condition"),
            Column("runs", "Runs", "whole"),
            Column("seeds", "Seeds", "whole"),
            Column("rounds", "Rounds", "whole"),
            Column("messages", "Messages", "whole"),
        ),
        conditions[:_RUNS],
        len(conditions),
    )
    yield Table.of(
        "runs",
        "Runs",
        (
            Column("run", "Run", "code"),
            Column("condition", "Condition"),
            Column("seed", "Seed", "code"),
            Column("model", "Model", "code"),
            Column("rounds", "Rounds", "whole"),
            Column("messages", "Messages", "whole"),
            Column("agents", "Agents", "whole"),
            Column("world_id", "World", "code"),
        ),
        runs,
        runs[0]["runs"],
        "select * from analytics.social_runs where experiment = $1 order by condition, seed",
    )


# -- by round and condition ----------------------------------------------------------------------------------


async def _measures(snapshot: Snapshot, experiment: str, conditions: Sequence[str | None]) -> list[Block]:
    rows = await snapshot.rows(ROUNDS, experiment)
    if not rows:
        return [Note("No round has feedback.")]
    drawn = sorted(conditions, key=lambda one: (one is None, one))
    points = await snapshot.rows(POINTS, experiment, _POINTS + 1)
    points = [] if len(points) > _POINTS else points
    bands = len(drawn) <= _BANDS
    how = "By round and condition. Lines: means of the runs' means"
    how += "; bands: one standard deviation between runs to either side" if bands else ""
    how += "; points: single runs." if points else "."
    if len(drawn) > _LINES:
        how += f" Each plot has {_LINES} conditions at most, so that lines can be told apart."
    figures: list[Block] = [Note(how)]
    for name, title in _MEASURES:
        lines = [_line(one, name, rows, points, bands=bands) for one in drawn]
        lines = [line for line in lines if line.x]
        for start in range(0, len(lines), _LINES):
            part = f", plot {start // _LINES + 1}" if len(lines) > _LINES else ""
            figures.append(_measure(name, title, part, lines[start : start + _LINES], rows))
    return figures


def _line(one: str | None, name: str, rows: list[Record], points: list[Record], *, bands: bool) -> Line:
    found = [row for row in rows if row["condition"] == one and row[name] is not None]
    around = [(row[name], row[f"{name}_spread"]) for row in found] if bands else []
    return Line(
        condition(one),
        [row["round_number"] for row in found],
        [row[name] for row in found],
        [None if spread is None else mean - spread for mean, spread in around],
        [None if spread is None else mean + spread for mean, spread in around],
        [
            (row["round_number"], row[f"mean_{name}"])
            for row in points
            if row["condition"] == one and row[f"mean_{name}"] is not None
        ],
    )


def _measure(name: str, title: str, part: str, lines: list[Line], rows: list[Record]) -> Figure:
    columns = (
        Column("condition", "Condition"),
        Column("round_number", "Round", "whole"),
        Column("runs", "Runs", "whole"),
        Column("mean", "Mean", "number"),
        Column("spread", "Standard deviation", "number"),
    )
    labels = {line.label for line in lines}
    values: list[tuple[Any, ...]] = [
        (row["condition"], row["round_number"], row["runs"], row[name], row[f"{name}_spread"])
        for row in rows
        if row[name] is not None and condition(row["condition"]) in labels
    ]
    sql = "select * from analytics.rounds join analytics.social_runs using (world_id, experiment) where experiment = $1"
    numbers = Table.of(
        f"{name}_by_round{part.replace(', plot ', '_')}",
        f"{title}{part}",
        columns,
        values[:_ROUNDS],
        len(values),
        sql,
    )
    said = f"Lines: mean {title.lower()} by round. " + " ".join(map(_course, lines))
    return Figure(f"{title}{part}", Lines(said, "round", "", lines, unit_range=True), numbers)


def _course(line: Line) -> str:
    first, last = next(iter(line.y)), next(reversed(line.y))
    if first is None or last is None or len(line.x) == 1:
        return f"{line.label}: {number(first or 0)} in round {line.x[0]:g}."
    return f"{line.label}: from {number(first)} in round {line.x[0]:g} to {number(last)} in round {line.x[-1]:g}."


# -- messages and references ---------------------------------------------------------------------------------


async def _messages(snapshot: Snapshot, experiment: str) -> list[Block]:
    rows = await snapshot.rows(MESSAGES, experiment, _AGENTS)
    if not rows:
        return []
    columns = (
        Column("sender", "Role or agent"),
        Column("public", "To all", "whole"),
        Column("internal", "For coaches only", "whole"),
        Column("agents", "Agents", "whole"),
        Column("characters", "Mean length, characters", "number"),
    )
    table = Table.of(
        "messages_by_role",
        "Messages by role",
        columns,
        rows,
        rows[0]["senders"],
        "select agent_role, agent_id, is_internal, count(*) from analytics.messages where experiment = $1 "
        "group by 1, 2, 3",
    )
    parts = [Part("to all", [row["public"] for row in rows])]
    if any(row["internal"] for row in rows):
        parts.append(Part("for coaches only", [row["internal"] for row in rows]))
    said = f"Bars: how many messages each role sent. {rows[0]['sender']} sent the most."
    remarks = [f"{row['public'] + row['internal']:,}" for row in rows]
    note = "An agent whose id has no role stands for itself."
    return [Figure("Messages by role", Bars(said, [row["sender"] for row in rows], parts, remarks), table, note)]


async def _references(snapshot: Snapshot, experiment: str) -> list[Block]:
    rows = await snapshot.rows(REFERENCES, experiment, _AGENTS)
    if not rows:
        return []
    columns = (
        Column("agent_id", "Agent", "code"),
        Column("agent_role", "Role"),
        Column("feedbacks", "Feedbacks", "whole"),
        Column("referred", "Referred to", "whole"),
        Column("answered", "Answered", "whole"),
        Column("mentioned", "Mentioned by the analyst", "whole"),
        Column("inclusion", "Mean inclusion in syntheses", "number"),
    )
    table = Table.of(
        "references",
        "Who was referred to and answered",
        columns,
        rows,
        rows[0]["agents"],
        "select * from analytics.feedback where experiment = $1",
    )
    parts = [
        Part("referred to", [row["referred"] or 0 for row in rows]),
        Part("answered", [row["answered"] or 0 for row in rows]),
    ]
    said = f"Bars: how often others referred to each agent, and answered it. {rows[0]['agent_id']} comes first."
    parts = [part for part in parts if any(part.values)]
    remarks = [f"{sum(part.values[place] for part in parts):,.0f}" for place in range(len(rows))]
    title = "Who was referred to and answered"
    if table.more:
        title += f", the first {counted(len(rows), 'agent')}"
    return [Figure(title, Bars(said, [row["agent_id"] for row in rows], parts, remarks), table)]


#: What a report says of experiments with such worlds.
SECTION: Final = KindSection(section, VIEWS)
