"""A comparison of runs as a page: what `worldledger_service.runtime.comparing` found, with plots of the measures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

from worldledger_service.report.blocks import Block, Column, Figure, Note, Page, Section, Table
from worldledger_service.report.charts import Line, Lines
from worldledger_service.report.page import write_page
from worldledger_service.report.wording import counted, matrix_of, unit_place, unit_word

#: Most measures that are plotted.
_MOST: Final = 60


def write_comparison(found: Mapping[str, Any]) -> Iterator[str]:
    """Return a comparison as HTML, piece by piece. Raises ExtraMissingError without matplotlib."""
    worlds = found["worlds"]
    title = " and ".join(world["world_id"] for world in worlds) if len(worlds) == 2 else f"{len(worlds)} runs"
    said = f"Effects are aligned by {found['by']}. " + (_said_of_two(found) if len(worlds) == 2 else "")
    sections = [_worlds(found), *(_two(found) if len(worlds) == 2 else [_matrix(found)]), *_measures(found)]
    return write_page(
        Page(title, said, "comparison", "Compared", version("worldledger"), sections), template="runs.html"
    )


def _said_of_two(found: Mapping[str, Any]) -> str:
    (pair,) = found["pairs"]
    equal = counted(pair["equal_effects"], "effect")
    if pair["divergence"] is None:
        return f"The runs take the same course: {equal} are equal."
    return f"The runs part {unit_place(pair['divergence'])}, after {equal} that are equal."


def _worlds(found: Mapping[str, Any]) -> Section:
    worlds = found["worlds"]
    told = list(dict.fromkeys(name for world in worlds for name in {**world["labels"], **(world["outcome"] or {})}))
    columns = [Column("world_id", "World", "code"), Column("head_seq", "Effects", "whole")]
    has_forks = any(world["fork_of"] for world in worlds)
    columns += [Column("fork_of", "Goes on from", "code")] if has_forks else []
    columns += [Column(name, name.replace("_", " ").capitalize()) for name in told]
    rows = [
        (
            world["world_id"],
            world["head_seq"],
            *([_origin(world["fork_of"])] if has_forks else []),
            *({**world["labels"], **(world["outcome"] or {})}.get(name) for name in told),
        )
        for world in worlds
    ]
    return Section("worlds", "Runs", [Table("worlds", "The runs, and how they ended", columns, rows)])


def _origin(fork_of: Mapping[str, Any] | None) -> str | None:
    return None if fork_of is None else f"{fork_of['world_id']}@{fork_of['global_seq']}"


def _two(found: Mapping[str, Any]) -> Iterator[Section]:
    (pair,) = found["pairs"]
    blocks = _fields("settings", "Settings that differ", pair["settings"])
    for number, each in enumerate(pair["beginnings"], 1):
        caption = f"Before the first {unit_word(found['by'])}: {_effects(each, pair)}"
        blocks += _fields(f"beginning-{number}", caption, each["fields"])
    divergence = pair["divergence"]
    if divergence is not None:
        blocks.append(Note(f"The runs part {unit_place(divergence)}: {_effects(divergence, pair)}."))
        blocks += _fields("divergence", f"The first divergence, {unit_place(divergence)}", divergence["fields"])
    else:
        blocks.append(Note("No effect differs."))
    blocks += _looked("states", "States", found["states"])
    if found["views"] is not None:
        blocks += _looked("views", f"What {found['views']['agent_id']} saw", found["views"])
    yield Section("divergence", "Where they part", blocks)
    after = found["after"]
    if after is not None:
        columns = [Column("kind", "Kind", "code"), Column("a", "a", "whole"), Column("b", "b", "whole")]
        rows = [(kind, *counts) for kind, counts in after["effects"].items()]
        told: list[Block] = [Table("effects", "Effects from there on", columns, rows)]
        told += [
            Note(f"{what.capitalize()} only in {name}: {', '.join(after[what][name])}")
            for what in ("entities", "agents")
            for name in "ab"
            if after[what][name]
        ]
        yield Section("after", "What came of it", told)


def _looked(name: str, what: str, found: Mapping[str, Any]) -> Iterator[Block]:
    """Return the differences of states or views: where the runs part, where they first differ, and in the end."""
    there, first, stopped = found["divergence"], found["first"], found["stopped"]
    if there is not None:
        yield from _fields(f"{name}-divergence", f"{what} there", there["differences"], there["more"])
    if first is not None and (there is None or there["differences"] != first["differences"]):
        caption = f"{what} {unit_place(first)}, where they first differ"
        yield from _fields(f"{name}-first", caption, first["differences"], first["more"])
    if stopped is not None:
        place = unit_place(stopped).removeprefix("at ")
        until = "" if stopped["number"] is None else f" up to {place}"
        yield Note(f"{what}: alike{until}; no more was looked at.")
    yield from _fields(f"{name}-head", f"{what} in the end", found["head"]["differences"], found["head"]["more"])


def _effects(each: Mapping[str, Any], pair: Mapping[str, Any]) -> str:
    """Say which effects stand beside each other."""
    told = []
    for name in "ab":
        effect = each[name]
        if effect is None:
            told.append(f"{name} has nothing more there")
        else:
            of = "" if effect["world_id"] == pair[name] else f" of {effect['world_id']}"
            told.append(f"{name} has {effect['kind']} by {effect['source_id']} (seq {effect['global_seq']}{of})")
    return ", ".join(told)


def _fields(name: str, caption: str, fields: Sequence[Mapping[str, Any]], more: int = 0) -> list[Block]:
    if not fields:
        return []
    columns = [Column("path", "Path", "code"), Column("a", "a"), Column("b", "b")]
    rows = [(field["path"], _value(field, "a"), _value(field, "b")) for field in fields]
    return [Table(name, caption, columns, rows, more)]


def _value(field: Mapping[str, Any], name: str) -> str | None:
    if name in field:
        return json.dumps(field[name], ensure_ascii=False)
    return None if f"{name}_missing" in field else f"{field[f'{name}_bytes']:,} bytes"


def _matrix(found: Mapping[str, Any]) -> Section:
    ids = [world["world_id"] for world in found["worlds"]]
    cells = matrix_of(found["pairs"], "equal", "same course", "beginning")
    columns = [Column("run", "Run", "code"), *(Column(f"run-{n}", str(n)) for n in range(1, len(ids) + 1))]
    rows = [
        (f"{n} {one}", *(None if n == m else cells[one, other] for m, other in enumerate(ids, 1)))
        for n, one in enumerate(ids, 1)
    ]
    table = Table("matrix", f"The {unit_word(found['by'])} at which each two runs part", columns, rows)
    return Section("divergences", "First divergences", [table])


def _measures(found: Mapping[str, Any]) -> Iterator[Section]:
    """Plot each measure: a line for each run, or for each group with its quartiles as a band."""
    groups, unit = found["groups"], found["series_unit"]
    if not found["series"]:
        return
    number_column = Column("number", unit.capitalize(), "whole")
    how = "a line for each run" if groups is None else "mean and quartiles by group"
    figures: list[Block] = []
    for number, each in enumerate(found["series"][:_MOST], 1):
        if groups is None:
            names = [world["world_id"] for world in found["worlds"]]
            lines = [Line(name, each["numbers"], values) for name, values in zip(names, each["values"], strict=True)]
            columns = [
                Column("number", unit.capitalize(), "whole"),
                *(Column(f"run-{n}", name, "number") for n, name in enumerate(names, 1)),
            ]
            rows = [*zip(each["numbers"], *each["values"], strict=True)]
        else:
            mine = [row for row in groups["series"] if row["measure"] == each["measure"]]
            lines = [Line(row["group"], row["numbers"], row["mean"], row["q1"], row["q3"]) for row in mine]
            columns = [number_column, Column("group", groups["by"].capitalize())]
            columns += [Column("n", "n", "whole"), *(Column(name, name, "number") for name in _STATISTICS)]
            rows = [
                (at, row["group"], row["n"][place], *(row[name][place] for name in _STATISTICS))
                for row in mine
                for place, at in enumerate(row["numbers"])
            ]
        said = f"{each['measure']} by {unit}, {how}"
        table = Table(f"measure-{number}", said, columns, rows)
        figures.append(Figure(each["measure"], Lines(said, unit, "", lines), table))
    left = len(found["series"]) - _MOST
    more: list[Block] = [Note(f"… and {left} more measures, which --json has")] if left > 0 else []
    yield Section("measures", "Measures", [*figures, *more])


_STATISTICS: Final = ("mean", "q1", "median", "q3")
