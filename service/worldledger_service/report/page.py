"""The page: HTML that stands alone. It has no script and refers to nothing outside; what the data say is escaped.

It is XML too, so any parser reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import Final

from worldledger_service.report.blocks import NUMERIC, Block, Column, Figure, Note, Report, Section, Table
from worldledger_service.report.charts import Lines
from worldledger_service.report.drawing import draw, require_drawing
from worldledger_service.report.wording import counted, moment, shown, writer

#: Nothing is loaded and nothing runs, whatever a name in the data looks like.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


#: From how many characters on a name may be broken, so that its column is given room.
_LONG: Final = 32
#: Up to how many columns a table hardly ever has to scroll. Others do, also by the keyboard.
_NARROW: Final = 4


def write_page(report: Report, *, drawn: Callable[[int], object] = lambda number: None) -> Iterator[str]:
    """Write a report as HTML, piece by piece. ``drawn`` is told the number of each chart that has been drawn.

    The same report is the same text; but for ``read_at``, which stands in one line, it follows from the log alone.
    Raises ExtraMissingError without matplotlib.
    """
    require_drawing()
    title = escape(shown(report.experiment))
    yield from (
        "<!DOCTYPE html>\n",
        '<html lang="en">\n<head>\n<meta charset="utf-8"/>\n',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"/>\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n',
        f"<title>{title} · Worldledger report</title>\n",
        f"<style>\n{_style()}</style>\n</head>\n<body>\n",
    )
    yield from _head(report, title)
    yield "<main>\n"
    numbers: list[int] = []

    def drawing(figure: Figure) -> str:
        numbers.append(len(numbers) + 1)
        drawn(numbers[-1])
        return draw(figure.chart, id=f"f{numbers[-1]}", title=shown(figure.title))

    for section in report.sections:
        yield from _section(section, drawing)
    yield "</main>\n</body>\n</html>\n"


def _style() -> str:
    return files("worldledger_service.report").joinpath("report.css").read_text(encoding="utf-8")


def _head(report: Report, title: str) -> Iterator[str]:
    facts = report.facts
    rulesets = ", ".join(f"{name} ({count:,})" for name, count in facts["rulesets"].items())
    span = " to ".join(moment(value) for value in (facts["began_at"], facts["last_recorded_at"]) if value is not None)
    yield f"<header>\n<h1>Experiment {title}</h1>\n"
    yield f'<p class="made">Read {moment(report.read_at)} by worldledger {escape(report.version)}.</p>\n'
    yield '<nav aria-label="Sections"><ul>'
    for section in report.sections:
        yield f'<li><a href="#{section.id}">{escape(section.title)}</a></li>'
    yield "</ul></nav>\n<dl>\n"
    yield _fact("Worlds", f"{facts['worlds']:,}: {escape(rulesets)}")
    yield _fact("Effects", f"{facts['effects']:,}")
    yield _fact("Recorded", escape(span))
    yield _fact("SHA-256 of all heads", f"<code>{escape(facts['heads_sha256'])}</code>")
    yield "</dl>\n"
    if report.behind:
        commands = " and ".join(f"<code>{escape(command)}</code>" for command in report.todo)
        yield '<div class="warning" role="note"><p>Some projections were behind the log, so not everything that it '
        yield f"holds is in this report. Run {commands}, and make it again.</p><ul>"
        yield "".join(f"<li>{escape(text)}</li>" for text in report.behind)
        yield "</ul></div>\n"
    else:
        yield '<p class="note">The projections that this report reads were up to date with the log.</p>\n'
    yield "</header>\n"


def _fact(name: str, value: str) -> str:
    return f"<dt>{name}</dt><dd>{value}</dd>\n"


# -- sections ------------------------------------------------------------------------------------------------


def _section(section: Section, drawing: Callable[[Figure], str]) -> Iterator[str]:
    yield f'<section aria-labelledby="{section.id}">\n<h2 id="{section.id}">{escape(section.title)}</h2>\n'
    for group, blocks in groupby(section.blocks, _group):
        if group is not None:
            yield f'<div class="{group}">\n'
        unfolded: list[Table] = []
        for block in blocks:
            yield from _block(block, drawing)
            if isinstance(block, Figure) and not block.folded:
                unfolded.append(block.numbers)
        if group is not None:
            yield "</div>\n"
        for table in unfolded:
            yield from _table(table)
    yield "</section>\n"


def _group(block: Block) -> str | None:
    """Tell how a block stands beside its neighbours: those of one height stand in rows."""
    if not isinstance(block, Figure):
        return None
    return "figures even" if isinstance(block.chart, Lines) else "figures"


def _block(block: Block, drawing: Callable[[Figure], str]) -> Iterator[str]:
    match block:
        case Note():
            yield _note(block)
        case Table():
            yield from _table(block)
        case Figure():
            yield f"<figure>\n<figcaption>{escape(shown(block.title))}</figcaption>\n"
            yield f'<div class="chart">{drawing(block)}</div>\n'
            if block.note is not None:
                yield f'<p class="note">{escape(block.note)}</p>\n'
            if block.folded:
                yield f"<details><summary>The numbers ({counted(len(block.numbers.rows), 'row')})</summary>\n"
                yield from _table(block.numbers)
                yield "</details>\n"
            yield "</figure>\n"


def _note(note: Note) -> str:
    code = "" if note.code is None else f": <code>{escape(note.code)}</code>"
    return f'<p class="{"warning" if note.warning else "note"}">{escape(note.text)}{code}</p>\n'


def _table(table: Table) -> Iterator[str]:
    caption = escape(shown(table.caption))
    wide = f' role="region" tabindex="0" aria-label="{caption}"' if len(table.columns) > _NARROW else ""
    yield f'<div class="scroll"{wide}>\n'
    yield f"<table>\n<caption>{caption}</caption>\n"
    yield "<thead><tr>"
    for column in table.columns:
        side = ' class="right"' if column.kind in NUMERIC else ""
        yield f'<th scope="col"{side}>{escape(column.label)}</th>'
    yield "</tr></thead>\n<tbody>\n"
    yield from _rows(table)
    yield "</tbody>\n</table>\n</div>\n"
    if table.more:
        sql = "" if table.sql is None else f": <code>{escape(table.sql)}</code>"
        yield f'<p class="note">… and {counted(table.more, "more row")}{sql}</p>\n'


def _rows(table: Table) -> Iterator[str]:
    columns: list[list[str]] = []
    for column, values in zip(table.columns, zip(*table.rows, strict=True), strict=False):
        write = writer(column.kind, values)
        columns.append([write(value) for value in values])
    classes = [_class(column, texts) for column, texts in zip(table.columns, columns, strict=False)]
    for texts in zip(*columns, strict=True):
        first, *rest = (f"{name}>{escape(text)}" for name, text in zip(classes, texts, strict=True))
        yield f'<tr><th scope="row"{first}</th>{"".join(f"<td{cell}</td>" for cell in rest)}</tr>\n'


def _class(column: Column, texts: Sequence[str]) -> str:
    if column.kind in NUMERIC:
        return ' class="right"'
    names = {"code": ["code"], "hash": ["hash"], "time": ["whole"]}.get(column.kind, [])
    if column.kind == "code" and max(map(len, texts)) > _LONG:
        names.append("long")
    return f' class="{" ".join(names)}"' if names else ""
