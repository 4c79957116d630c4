"""The files of SQL that a database is made from."""

from __future__ import annotations

import re
from typing import Final

import pytest
from worldledger_service.database import guards, readers, verification
from worldledger_service.database.analytics import views

_FILES: Final = {
    "turn": [guards.turn()],
    "roles": guards.roles(),
    "log": guards.statements("log"),
    "tables": guards.statements("tables"),
    "version_table": guards.statements("version_table"),
    "verification": verification.statements(),
    "analytics": views.statements(),
    "readers": [readers.bounds()],
}


@pytest.mark.parametrize("name", _FILES)
def test_statements_stand_alone(name: str) -> None:
    """Comments before a statement are left out, and no semicolon in a body, a text or a comment ends one."""
    for statement in _FILES[name]:
        assert re.match(r"(?:alter|comment|create|do|grant|revoke|set) ", statement), statement[:80]
        assert statement.count("$$") in (0, 2), statement[:80]
        assert statement.count("'") % 2 == 0 or "--" in statement, statement[:80]
        assert "{{" not in statement, statement[:80]


def test_a_value_that_a_file_needs_is_asked_for() -> None:
    """A file is not run with the name of a value in its place."""
    with pytest.raises(KeyError, match="cursor"):
        guards.statements("asking")
