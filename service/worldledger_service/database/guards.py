"""The roles of a database, and the SQL of all that SQLAlchemy cannot say about its tables: the files in ``sql/``.

- ``roles.sql``: by whoever migrates, before anything; ``turn.sql``: what each migration waits for first
- ``verification.sql``, ``log.sql``, ``tables.sql``, ``analytics.sql``, ``history.sql``, ``asking.sql``: under the
  owner's role, in this order, with the views of `worldledger_service.database.analytics.views` before the last two
- ``version_table.sql``: once Alembic has made its table; ``readers.sql``: at every upgrade

A migration that is released never changes and has its statements with it. These are what a database is to have today:
an upgrade makes from them again what is missing or changed, and tests compare both.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

OWNER_ROLE: Final = "worldledger_owner"
SERVICE_ROLE: Final = "worldledger_service"
READER_ROLE: Final = "worldledger_reader"
GUEST_ROLE: Final = "worldledger_guest"

#: Settings of the reader's role, for those who log in as it.
READER_SETTINGS: Final = {
    "default_transaction_read_only": "on",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "5min",
    "search_path": "analytics",
}

#: The condition that a membership of a role is not revoked unless its grantor is named: from PostgreSQL 16 on, where
#: another than the superuser that made the server has granted it.
HAS_LIMITED_GRANTOR: Final = "current_setting('server_version_num')::int >= 160000 and grantor <> 10"

#: Sessions at a time of those who log in as it.
READER_SESSIONS: Final = 20

_FOLDER: Final = Path(__file__).with_name("sql")
_VALUE: Final = re.compile(r"\{\{(\w+)\}\}")
#: What may have a semicolon in it, and one that ends a statement.
_PART: Final = re.compile(r"--[^\n]*|'[^']*'|(\$\w*\$).*?\1|;", re.DOTALL)
_COMMENTS: Final = re.compile(r"\A(?:\s*--[^\n]*\n)*\s*")


def statements(name: str, **values: str) -> list[str]:
    """Return the statements of a file in ``sql/``, each alone, because a prepared statement takes one.

    ``{{name}}`` in it stands for the value of that name.
    """
    text = _VALUE.sub(lambda found: values[found[1]], (_FOLDER / f"{name}.sql").read_text(encoding="utf-8"))
    made: list[str] = []
    start = 0
    for part in _PART.finditer(text):
        if part[0] == ";":
            made.append(_COMMENTS.sub("", text[start : part.start()], count=1))
            start = part.end()
    return made


def turn() -> str:
    """Return the statement that waits until no other migration of the database runs."""
    (statement,) = statements("turn")
    return statement


def roles() -> list[str]:
    """Return the statements that make the roles, and let the owner work in schema public."""
    settings = ", ".join(f"('{name}', '{value}')" for name, value in READER_SETTINGS.items())
    return [turn(), *statements("roles", reader_settings=settings, reader_sessions=str(READER_SESSIONS))]
