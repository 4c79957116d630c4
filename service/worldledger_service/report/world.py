"""The page of a report of one world: what `worldledger_service.runtime.reporting` found, with plots of the measures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

from worldledger_service.report.blocks import Block, Column, Figure, Note, Page, Section, Table
from worldledger_service.report.charts import Bars, Line, Lines, Part
from worldledger_service.report.wording import counted, listed, moment

#: Most rows of a table, bars of a figure, plots, and lines of a plot.
_ROWS: Final = 40
_BARS: Final = 16
_PLOTS: Final = 60
_LINES: Final = 6


def page_of(found: Mapping[str, Any]) -> Page:
    """Return the page."""
    at, effects = found["at"], counted(found["effects"], "effect")
    seq = f"seq {at['global_seq']:,}"
    where = seq if at["world_id"] == found["world_id"] else f"{seq} of {at['world_id']}, before the fork"
    said = f"A world of {found['ruleset']} up to {where}: {effects}, sim_time {at['sim_time']}"
    with suppress(ValueError, TypeError, OverflowError, OSError):  # a wall_time may be no calendar time, or no time
        said += f", recorded {moment(datetime.fromtimestamp(at['wall_time'], UTC))}"
    sections = [_standing(found), *_measures(found), _effects(found), _history(found)]
    return Page(found["world_id"], f"{said}.", "report", "Made", version("worldledger"), sections)


def _standing(found: Mapping[str, Any]) -> Section:
    told = {**found["state"], **found["labels"], **found["outcome"]}
    rows = [(name.replace("_", " "), _text(value)) for name, value in told.items() if value is not None]
    columns = (Column("name", "What"), Column("value", "There"))
    return Section("standing", "How it stood", [Table("standing", "How it stood at this moment", columns, rows)])


def _text(value: Any) -> str:
    if type(value) is bool:
        return "yes" if value else "no"
    return f"{value:,}" if type(value) is int else str(value)


def _measures(found: Mapping[str, Any]) -> Iterator[Section]:
    """Plot each measure; those of one name but for what stands before its last dot (``Ann.gold``) in one plot."""
    plots: dict[str, list[Mapping[str, Any]]] = {}
    for each in found["series"]:
        plots.setdefault(each["measure"].rpartition(".")[2], []).append(each)
    figures: list[Block] = []
    left = 0
    for name, every in plots.items():
        for start in range(0, len(every), _LINES):
            some = every[start : start + _LINES]
            if len(figures) == _PLOTS:
                left += len(some)
                continue
            title = some[0]["measure"] if len(every) == 1 else name
            title += f", plot {start // _LINES + 1}" if len(every) > _LINES else ""
            figures.append(_measure(title, f"measure-{len(figures) + 1}", some, found["series_unit"]))
    if left:
        figures.append(Note(f"… and {counted(left, 'more measure')}, which --json has"))
    if figures:
        yield Section("measures", "Measures", figures)


def _measure(title: str, name: str, some: Sequence[Mapping[str, Any]], unit: str) -> Figure:
    points = [dict(zip(each["numbers"], each["values"], strict=True)) for each in some]
    numbers = sorted({number for each in points for number in each})
    labels = [each["measure"].rpartition(".")[0] or each["measure"] for each in some]
    lines = [Line(label, [*each], [*each.values()]) for label, each in zip(labels, points, strict=True)]
    columns = (
        Column("number", unit.capitalize(), "whole"),
        *(Column(f"line-{place}", label, "number") for place, label in enumerate(labels, 1)),
    )
    rows = [(number, *(each.get(number) for each in points)) for number in numbers]
    said = f"{title} by {unit}"
    return Figure(title, Lines(f"{said}: {listed(labels[:3])}.", unit, "", lines), Table(name, said, columns, rows))


def _effects(found: Mapping[str, Any]) -> Section:
    kinds = found["kinds"]
    columns = [Column("kind", "Kind", "code"), Column("effects", "Effects", "whole")]
    columns += [Column("inherited", "Of ancestors", "whole")] if len(found["history"]) > 1 else []
    table = _cut("kinds", "Effects by kind", columns, kinds)
    most = kinds[:_BARS]
    said = f"Bars: how many effects there are of each kind. Most are {listed([row['kind'] for row in most[:3]])}."
    bars = Bars(
        said,
        [row["kind"] for row in most],
        [Part("effects", [row["effects"] for row in most])],
        [f"{row['effects']:,}" for row in most],
    )
    title = table.caption if len(most) == len(kinds) else f"{table.caption}, the {len(most)} most frequent"
    sources = [{**row, "kinds": _kinds(row["kinds"])} for row in found["sources"]]
    columns = [Column("source_id", "Source"), Column("effects", "Effects", "whole"), Column("kinds", "Of which kinds")]
    blocks: list[Block] = [Figure(title, bars, table, folded=False), _cut("sources", "By source", columns, sources)]
    if found["refused"]:
        columns = [
            Column("code", "Error", "code"),
            Column("rule", "Rule", "code"),
            Column("intents", "Intents", "whole"),
            Column("agents", "Agents", "whole"),
            Column("example", "For example"),
        ]
        blocks.append(_cut("refused", "Intents that were refused, by reason", columns, found["refused"]))
    else:
        blocks.append(Note("No intent of an agent was refused."))
    return Section("effects", "Effects", blocks)


def _kinds(counts: Mapping[str, int]) -> str:
    most = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    told = [f"{kind} {count:,}" for kind, count in most[:_LINES]]
    return ", ".join([*told, f"and {counted(len(most) - _LINES, 'more kind')}"] if len(most) > _LINES else told)


def _history(found: Mapping[str, Any]) -> Section:
    columns = [Column("world_id", "World", "code"), Column("effects", "Effects up to there", "whole")]
    at = found["at"]
    rows = [
        ("seq and checksum", f"{at['global_seq']}:{at['checksum']}"),
        ("SHA-256 of the state", found["at"]["state_digest"]),
    ]
    proof = Table(
        "place", f"The last effect, in {at['world_id']}", [Column("name", "What"), Column("value", "Is", "hash")], rows
    )
    check = "A report shows what the log says and does not verify it. Whether the log holds, and has this effect, says"
    blocks: list[Block] = [proof, Note(check, f"worldledger verify {at['world_id']} --head SEQ:CHECKSUM")]
    if len(found["history"]) > 1:
        blocks.insert(0, _cut("history", "The worlds of its history, the oldest first", columns, found["history"]))
    return Section("history", "Where it is in the log", blocks)


def _cut(name: str, caption: str, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> Table:
    shown = [tuple(row[column.name] for column in columns) for row in rows[:_ROWS]]
    return Table(name, caption, columns, shown, max(0, len(rows) - _ROWS))
