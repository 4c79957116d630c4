"""Time that is handed over: what the log says of it has columns, and a view for silences.

Revision: 0006, after 0005. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today. Those that make the views stand in the file beside this one, parted by lines ``-- next``;
the views of before are those of revision 0004.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

#: Views that get columns; their order would not allow CREATE OR REPLACE.
CHANGED = ("world_created", "world_time_set", "world_time_authority_set")
ADDED = "world_time_authority_silent"
BEFORE = "0004_analytics.sql"


def _statements(name: str) -> list[str]:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").split("\n-- next\n")


def _run(statements: list[str]) -> None:
    connection = op.get_bind()
    for statement in statements:
        connection.exec_driver_sql(statement)


def upgrade() -> None:
    _run([f"drop view analytics.{', analytics.'.join(CHANGED)}", *_statements("0006_time.sql")])


def downgrade() -> None:
    again = [
        statement
        for statement in _statements(BEFORE)
        for name in CHANGED
        if f'analytics."{name}"' in statement.split(" as\n")[0] or f"grant select on analytics.{name} " in statement
    ]
    _run([f"drop view analytics.{', analytics.'.join((*CHANGED, ADDED))}", *again])
