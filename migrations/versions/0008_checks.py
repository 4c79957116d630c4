"""Verification in SQL sees uuids, kinds of the service, and times and causes that are no numbers.

Revision: 0008, after 0007. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today. They stand in the file beside this one, parted by lines ``-- next``; the reasons stand in
the application (service/database/verification.py). No view is made anew, so nobody who reads one is waited for.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def _statements(name: str) -> list[str]:
    statements = Path(__file__).with_name(name).read_text(encoding="utf-8").split("\n-- next\n")
    return [statement.replace("create function", "create or replace function", 1) for statement in statements]


def _begin(statement: str) -> str:
    """Return what a statement is about: its first line up to the definition."""
    return statement.strip().splitlines()[0].split(" is ")[0]


def upgrade() -> None:
    for statement in _statements("0008_checks.sql"):
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    replaced = {_begin(statement) for statement in _statements("0008_checks.sql")}
    for statement in _statements("0007_checks.sql"):
        if _begin(statement) in replaced:
            op.get_bind().exec_driver_sql(statement)
