"""What a report is made of: sections of tables and figures. Each figure has the numbers that it shows as a table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, TypeAlias

from worldledger_service.report.charts import Chart

if TYPE_CHECKING:
    from worldledger_service.report.snapshot import Snapshot

#: What a column holds, and so how it is written: ``share`` is 0 to 1, ``code`` a name that may be
#: typed or pasted, ``hash`` one that nobody types.
Kind: TypeAlias = Literal["text", "code", "hash", "whole", "number", "share", "seconds", "time"]

#: The kinds that are set flush right.
NUMERIC: Final = frozenset({"whole", "number", "share", "seconds"})


class Column(NamedTuple):
    """A column: its name for programs, its heading for people, and what it holds."""

    name: str
    label: str
    kind: Kind = "text"


@dataclass(frozen=True, slots=True)
class Table:
    """A table. None in a row stands for what is not known or not told.

    ``more`` says how many rows there are beyond those shown, and ``sql`` is the query that gives all of them.
    """

    id: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[tuple[Any, ...]]
    more: int = 0
    sql: str | None = None

    @classmethod
    def of(
        cls,
        id: str,  # noqa: A002 - the field's name
        caption: str,
        columns: Sequence[Column],
        rows: Iterable[Iterable[Any]],
        count: int,
        sql: str | None = None,
    ) -> Self:
        """Make a table of the first rows of ``count``, each cut to the columns; ``sql`` is told if there are more."""
        shown = [tuple(row)[: len(columns)] for row in rows]
        more = count - len(shown)
        return cls(id, caption, columns, shown, more, sql if more else None)

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it: a row is an object."""
        names = [column.name for column in self.columns]
        return {
            "id": self.id,
            "caption": self.caption,
            "columns": [{"name": column.name, "label": column.label, "kind": column.kind} for column in self.columns],
            "rows": [dict(zip(names, map(_plain, row), strict=True)) for row in self.rows],
            "more_rows": self.more,
            "sql": self.sql,
        }


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with the numbers that it shows.

    ``note`` says how to read it. ``folded``: only who asks for the numbers sees them; else they follow.
    """

    title: str
    chart: Chart
    numbers: Table
    note: str | None = None
    folded: bool = True

    @property
    def id(self) -> str:
        """Its name, which is that of its numbers."""
        return self.numbers.id

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it: its numbers, and what it is called."""
        return {**self.numbers.document(), "title": self.title, "note": self.note}


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph; ``code`` is a command or a query that it ends with, and ``warning`` one that must not be missed."""

    text: str
    code: str | None = None
    warning: bool = False


Block: TypeAlias = Table | Figure | Note


def figures_first(blocks: Iterable[Block]) -> list[Block]:
    """Put figures before the rest, so that they stand together."""
    return sorted(blocks, key=lambda block: not isinstance(block, Figure))


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a report."""

    id: str
    title: str
    blocks: Sequence[Block]

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "id": self.id,
            "title": self.title,
            "notes": [block.text for block in self.blocks if isinstance(block, Note)],
            "tables": [block.document() for block in self.blocks if isinstance(block, Table)],
            "figures": [block.document() for block in self.blocks if isinstance(block, Figure)],
        }


@dataclass(frozen=True, slots=True)
class Page:
    """A page about runs: its title, what is said first, ``what`` it is, how it was ``made``, and by which version."""

    title: str
    said: str
    what: str
    made: str
    version: str
    sections: Sequence[Section]


def figures_of(sections: Iterable[Section]) -> Iterator[Figure]:
    """Return every figure of some sections."""
    for section in sections:
        for block in section.blocks:
            if isinstance(block, Figure):
                yield block


class KindSection(NamedTuple):
    """What a report says of a kind's worlds: ``make`` writes it, from these ``views`` of projections."""

    make: Callable[[Snapshot, str], Awaitable[Section]]
    views: Sequence[str]


@dataclass(frozen=True, slots=True)
class Report:
    """A report of an experiment.

    - ``read_at``: the moment of the database that it is of. Everything else follows from the log alone.
    - ``facts``: what is said first, by name.
    - ``behind``: sentences on what it lacks because projections are behind the log.
    - ``todo``: the commands that bring those up to date.
    """

    experiment: str
    read_at: datetime
    version: str
    facts: Mapping[str, Any]
    sections: Sequence[Section]
    behind: Sequence[str] = field(default_factory=tuple)
    todo: Sequence[str] = field(default_factory=tuple)

    def document(self) -> dict[str, Any]:
        """Return all its numbers as JSON has them."""
        return {
            "experiment": self.experiment,
            "read_at": _plain(self.read_at),
            "worldledger": self.version,
            **{name: _plain(value) for name, value in self.facts.items()},
            "behind": list(self.behind),
            "sections": [section.document() for section in self.sections],
        }


def _plain(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
