"""What models made in forks and before them: the view generations_with_forks.

Revision: 0017, after 0016. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today. They stand in the file beside this one, parted by lines ``-- next``; the reasons stand in
the application (database/analytics/views.py).
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    made = Path(__file__).with_name("0017_generations_of_forks.sql").read_text(encoding="utf-8")
    for statement in made.split("\n-- next\n"):
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    op.get_bind().exec_driver_sql("drop view analytics.generations_with_forks")
