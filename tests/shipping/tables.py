"""The tables of docs/reference that are made from the code. ``make docs`` (``python -m tests.shipping.tables``) writes
them, and the console's types; a test compares them with what stands in the pages.

A page holds such a table between ``<!-- generated: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from worldledger_chess.api import problems as of_chess_routes
from worldledger_chess.api.serving import ChessSettings
from worldledger_chess.arena import errors as of_games
from worldledger_chess.arena.players import base as of_players
from worldledger_chess.rules.moves import FIELDS as OF_MOVE_MADE
from worldledger_projections import base as of_projections
from worldledger_recorder import rules as of_recorder
from worldledger_service import app, listening
from worldledger_service.api import problems
from worldledger_service.report import experiment as of_reports
from worldledger_service.settings import Settings
from worldledger_simulation.rules import sections as of_simulation_rules
from worldledger_social_rl.api import rounds as of_runs
from worldledger_social_rl.rules import errors as of_run_rules
from worldledger_social_rl.rules import models as of_social_rl
from worldledger_social_rl.rules.fields import Fields

from worldledger import errors
from worldledger.client import facades as of_steps
from worldledger.client import recording as of_recordings
from worldledger.client import transport as of_client
from worldledger.config import MemoryConfig, OrchestratorConfig
from worldledger.errors import SimulationError

from . import console_types
from .analytics_tables import columns_tables, common_table, cookbook_table, kinds_table, views_table
from .project import ROOT

_MARKED: Final = re.compile(r"(?<=<!-- generated: )(\w+) -->\n(.*?)<!-- end -->", re.DOTALL)


def errors_table() -> list[str]:
    """Return one row for each class of error: code, class, HTTP status, recovery and meaning."""
    rows = ["| code | error | HTTP | recovery | meaning |", "| --- | --- | --- | --- | --- |"]
    for error in _error_classes():
        status = str(_status(error)) if _goes_over_http(error) else "—"
        meaning = _cell(" ".join((inspect.getdoc(error) or "").split()))
        cells = (f"`{error.code}`", f"`{error.__name__}`", status, f"`{error.recovery.value}`", meaning)
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _goes_over_http(error: type[SimulationError]) -> bool:
    own = any(base in problems.table() for base in error.__mro__[: error.__mro__.index(SimulationError)])
    return own or error is SimulationError or error.__module__ == problems.__name__


def _status(error: type[SimulationError]) -> int:
    return next(problems.table()[base].status for base in error.__mro__ if base in problems.table())


def _error_classes() -> Iterator[type[SimulationError]]:
    of_rules = (errors, of_simulation_rules, of_run_rules)
    for module in (
        *of_rules,
        of_projections,
        problems,
        of_chess_routes,
        of_runs,
        of_games,
        of_players,
        app,
        listening,
        of_reports,
        of_client,
        of_steps,
        of_recorder,
        of_recordings,
    ):
        for value in vars(module).values():
            if inspect.isclass(value) and issubclass(value, SimulationError) and value.__module__ == module.__name__:
                yield value


def settings_table() -> list[str]:
    """Return one row for each setting: variable, default and meaning."""
    rows = ["| variable | default | meaning |", "| --- | --- | --- |"]
    for name, field in {**Settings.model_fields, **ChessSettings.model_fields}.items():
        default = field.default
        if name == "home":
            shown = "`~/.worldledger`"
        else:
            shown = "none" if default is None or default is PydanticUndefined else f"`{default}`"
        rows.append(f"| `WORLDLEDGER_{name.upper()}` | {shown} | {_cell(field.description or '')} |")
    return rows


def config_table(shape: type[BaseModel]) -> list[str]:
    """Return one row for each field of a world's configuration: name, default, bounds and meaning."""
    rows = ["| field | default | from | to | meaning |", "| --- | --- | --- | --- | --- |"]
    for name, field in shape.model_fields.items():
        bounds = {type(part): part for part in field.metadata}
        least = _bound(bounds.get(Ge), "ge") or _bound(bounds.get(Gt), "gt", "over ")
        default = "see below" if isinstance(field.default, BaseModel) else f"`{json.dumps(field.default)}`"
        cells = (f"`{name}`", default, least, _bound(bounds.get(Le), "le"), _cell(field.description or ""))
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _bound(part: object, name: str, words: str = "") -> str:
    value = getattr(part, name, None)
    return "" if value is None else f"{words}{int(value) if float(value).is_integer() else value}"


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


def fields_table(fields: Fields) -> list[str]:
    """Return one row for each field of a social-RL document: name, what it is, whether it is required, and meaning."""
    rows = ["| field | is | required | meaning |", "| --- | --- | --- | --- |"]
    for name, field in fields.items():
        required = "yes" if field.required else ""
        rows.append(f"| `{name}` | {_cell(field.what)} | {required} | {_cell(field.meaning)} |")
    return rows


_TYPES: Final = {
    "text": "string",
    "bigint": "whole number",
    "double precision": "number",
    "boolean": "true or false",
    "timestamptz": "time in ISO 8601",
    "json": "object or list",
}


def move_table() -> list[str]:
    """Return one row for each field of a MoveMade: name, what it is, whether it may be null, and meaning."""
    rows = ["| field | is | may be null | meaning |", "| --- | --- | --- | --- |"]
    for field in OF_MOVE_MADE:
        nullable = "yes" if field.nullable else ""
        rows.append(f"| `{field.name}` | {_TYPES[field.type]} | {nullable} | {_cell(field.says)} |")
    return rows


_SOCIAL_RL: Final = (
    *("ROUND", "META", "MESSAGE", "CONTEXT_FRAME", "FEEDBACK", "ADAPTATION"),
    *("POLICY_STATE", "ROLE_POLICY", "CUE_STATE"),
)
TABLES: Final[dict[str, Callable[[], list[str]]]] = {
    "errors": errors_table,
    "settings": settings_table,
    "orchestrator": partial(config_table, OrchestratorConfig),
    "memory": partial(config_table, MemoryConfig),
    "analytics_views": views_table,
    "analytics_kinds": kinds_table,
    "analytics_common": common_table,
    "analytics_columns": columns_tables,
    "cookbook": cookbook_table,
    "move_made": move_table,
    **{f"social_rl_{name.lower()}": partial(fields_table, getattr(of_social_rl, name)) for name in _SOCIAL_RL},
}


def with_tables(text: str) -> str:
    """Return a page's text with its generated tables as they should be today."""
    return _MARKED.sub(lambda found: f"{found[1]} -->\n" + "\n".join(TABLES[found[1]]()) + "\n<!-- end -->", text)


def generated_pages() -> list[Path]:
    """Return the pages that hold generated tables."""
    return [page for page in sorted((ROOT / "docs").rglob("*.md")) if _MARKED.search(page.read_text())]


def main() -> None:
    """Write the tables anew."""
    for page in generated_pages():
        text = page.read_text()
        wanted = with_tables(text)
        if wanted != text:
            page.write_text(wanted)
            sys.stdout.write(f"{page.relative_to(ROOT)} written\n")
    if (wanted := console_types.types()) != console_types.FILE.read_text():
        console_types.FILE.write_text(wanted)
        sys.stdout.write(f"{console_types.FILE.relative_to(ROOT)} written\n")


if __name__ == "__main__":
    main()
