"""What models made: the view generations, and views of the effects that tell of it.

Revision: 0015, after 0014. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today. They stand in the file beside this one, parted by lines ``-- next``; the reasons stand in
the application (database/analytics/views.py).
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

NAMES = ("generations", "generation_leased", "generation_text", "generation_reported")


def upgrade() -> None:
    for statement in Path(__file__).with_name("0015_generations.sql").read_text(encoding="utf-8").split("\n-- next\n"):
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    for name in NAMES:
        op.get_bind().exec_driver_sql(f"drop view analytics.{name}")
