"""Verification in SQL sees effects in the service's name after a world's beginning, and the times of a genesis.

Revision: 0018, after 0017. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today. They stand in the files beside this one, parted by lines ``-- next``; the reasons stand in
the application (database/sql/verification.sql). They replace what is there, so no other view has to be made anew.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def _run(name: str) -> None:
    for statement in Path(__file__).with_name(name).read_text(encoding="utf-8").split("\n-- next\n"):
        op.get_bind().exec_driver_sql(statement)


def upgrade() -> None:
    _run("0018_checks.sql")


def downgrade() -> None:
    _run("0018_checks_before.sql")
