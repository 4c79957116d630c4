"""The comments of projection_leases say what else is claimed there: the names of worlds that an import is to make.

Revision: 0012, after 0011. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today.
"""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

BEFORE = {
    "table projection_leases": "Who may write projections: leases with fencing, which need no common clock.",
    "column projection_leases.name": "What is leased.",
}
NOW = {
    "table projection_leases": (
        "Leases with fencing, which need no common clock: who may write projections. Imports claim names here, too, "
        "for as long as their transaction lasts."
    ),
    "column projection_leases.name": (
        "What is leased: a build of a projection, or with claim: before it what an import makes."
    ),
}


def _comment(comments: dict[str, str]) -> None:
    for what, comment in comments.items():
        op.get_bind().exec_driver_sql(f"comment on {what} is '{comment}'")


def upgrade() -> None:
    _comment(NOW)


def downgrade() -> None:
    _comment(BEFORE)
