"""Analytics: a number that nobody counts to, in a row beside the log, makes no sum of a view fail.

Revision: 0021, after 0020. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today. They stand in the files beside this one, parted by lines ``-- next``; the reasons stand in
the application (database/analytics/views.py). They replace what is there, so no other view has to be made anew.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def _run(name: str) -> None:
    for statement in Path(__file__).with_name(name).read_text(encoding="utf-8").split("\n-- next\n"):
        op.get_bind().exec_driver_sql(statement)


def upgrade() -> None:
    _run("0021_sums.sql")


def downgrade() -> None:
    _run("0021_sums_before.sql")
