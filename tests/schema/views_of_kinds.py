"""The views that the installed kinds bring, read from their files: for tests, and for the tables of the docs."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from worldledger_service.database.analytics.of_kinds import brought

_VIEW: Final = re.compile(
    r"^create view (\w+) as\nselect\n(.*?)\nfrom .*?where e\.kind = '(\w+)';$", re.DOTALL | re.MULTILINE
)
_SAYS: Final = re.compile(r"^comment on (?:view|column) ([\w.]+) is '(.*)';$", re.MULTILINE)
_NAME: Final = re.compile(r"(?: as |\.)(\w+)$")
_FIELD: Final = re.compile(r"(?:analytics\.json_(\w+)\()?e\.effect (#>>?) '\{payload,([^}]*)\}'\)? as \w+")
_COMMON: Final = {"global_seq": "bigint", "sim_time_s": "double"}


class ColumnOfKind(NamedTuple):
    """A column; ``path`` is where its value stands in the payload, None where it is no field's alone."""

    name: str
    type: str
    path: str | None
    says: str


class ViewOfKind(NamedTuple):
    """A view over the effects of one kind."""

    name: str
    kind: str
    says: str
    columns: tuple[ColumnOfKind, ...]


def views_of_kinds() -> list[ViewOfKind]:
    """Return the views, in the order of the kinds and of their files."""
    found = []
    for bring in brought().values():
        sql = "\n".join(script.sql for script in bring.scripts)
        says = {place: text.replace("''", "'") for place, text in _SAYS.findall(sql)}
        for name, columns, kind in _VIEW.findall(sql):
            of_view = (_column(name, each.strip(), says) for each in re.split(r",\n    (?=\S)", columns))
            found.append(ViewOfKind(name, kind, says[name], tuple(of_view)))
    return found


def _column(view: str, text: str, says: dict[str, str]) -> ColumnOfKind:
    named = _NAME.search(text)
    assert named is not None, text
    name, field, read = named[1], _FIELD.fullmatch(text), re.search(r"json_(\w+)\(", text)
    if read is not None:
        kind = read[1]
    elif "#>>" in text:
        kind = "text"
    else:
        kind = "json" if "e.effect" in text else _COMMON.get(name, "text")
    return ColumnOfKind(name, kind, None if field is None else field[3], says[f"{view}.{name}"])
