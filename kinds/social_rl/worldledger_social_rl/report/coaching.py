"""What is said of policy adaptations, and of what became of the alignment after a cue was activated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from worldledger_service.report.blocks import Block, Column, Figure, Note, Table
from worldledger_service.report.charts import Bars, Change, Changes, Part
from worldledger_service.report.wording import counted, number

from worldledger_social_rl.report import queries as social

if TYPE_CHECKING:
    from asyncpg import Record
    from worldledger_service.report.snapshot import Snapshot

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
    kinds = await snapshot.rows(social.ADAPTATIONS, experiment, _KINDS)
    if not kinds:
        return [Note("No policy was adapted.")]
    told = any(row["cue"] is not None or row["adaptation_type"] is not None for row in kinds)
    count = sum(row["adaptations"] for row in kinds)
    untold = Note(f"{counted(count, 'policy adaptation')}, of which none tells a cue or a type.")
    blocks: list[Block] = [_adaptations(kinds) if told else untold]
    deltas = await snapshot.rows(social.DELTAS, experiment)
    if deltas:
        blocks.append(_deltas(deltas))
    cues = await snapshot.rows(social.CUES, experiment, _CUES + 1)
    if any(row["cue"] is not None for row in cues):
        names = [row["cue"] for row in cues if row["cue"] is not None]
        pairs = await snapshot.rows(social.CUE_PAIRS, experiment, names, _PAIRS + 1)
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
    more = kinds[0]["kinds"] - len(kinds)
    sql = "select * from analytics.policy_adaptations where experiment = $1" if more else None
    rows = [tuple(row.values())[:5] for row in kinds]
    table = Table("adaptations", "Policy adaptations by cue and type", columns, rows, more, sql)
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
    rows = [tuple(row.values()) for row in deltas[:_KINDS]]
    caption = "Adaptations that are told as changes of the measures: their means by round"
    return Table("adaptation_deltas", caption, columns, rows, max(0, len(deltas) - _KINDS))


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
    more = cues[0]["cues"] - len(cues)
    sql = "select * from analytics.policy_adaptations where experiment = $1 and adaptation_type = 'activate_cue'"
    table = Table(
        "alignment_by_cue",
        "Theoretical alignment before and after a cue was activated",
        columns,
        values,
        more,
        sql if more else None,
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
