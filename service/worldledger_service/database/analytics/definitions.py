"""A view of the schema ``analytics``: its columns with their comments, and the statements that make it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

#: The name of the schema.
SCHEMA: Final = "analytics"


class Column(NamedTuple):
    """A column: its name, the SQL that gives it, and what it says."""

    name: str
    value: str
    comment: str


class StaticView(NamedTuple):
    """A view over the tables of the log; ``source`` is its SQL from ``from`` on."""

    name: str
    comment: str
    columns: Sequence[Column]
    source: str

    def statements(self) -> Iterator[str]:
        """Return the statements that make the view and say what it is."""
        columns = ",\n".join(f"    {column.value} as {quoted(column.name)}" for column in self.columns)
        place = f"{SCHEMA}.{quoted(self.name)}"
        yield f"create view {place} as\nselect\n{columns}\n{self.source}"
        yield f"comment on view {place} is {literal(self.comment)}"
        for column in self.columns:
            yield f"comment on column {place}.{quoted(column.name)} is {literal(column.comment)}"


def quoted(name: str) -> str:
    """Return a name as a statement takes it, quoted where it has to be."""
    return f'"{name}"'


def literal(text: str) -> str:
    """Return a text for a statement that takes no parameters."""
    return "'" + text.replace("'", "''") + "'"
