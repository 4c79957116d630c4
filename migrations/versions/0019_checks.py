"""Verification in SQL holds a genesis to all of its fields, and the beginning of a fork to its digest and its parent.

Revision: 0019, after 0018. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today. They stand in the files beside this one, parted by lines ``-- next``; the reasons stand in
the application (database/sql/verification.sql). They replace what is there, so no other view has to be made anew.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def _run(name: str) -> None:
    for statement in Path(__file__).with_name(name).read_text(encoding="utf-8").split("\n-- next\n"):
        op.get_bind().exec_driver_sql(statement)


def upgrade() -> None:
    _run("0019_checks.sql")


def downgrade() -> None:
    _run("0019_checks_before.sql")
