"""${message}.

Revision: ${up_revision}, after ${down_revision or "nothing"}. ${create_date.date()}
"""

from __future__ import annotations

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    ${upgrades if upgrades else "op.get_bind().exec_driver_sql('')"}


def downgrade() -> None:
    ${downgrades if downgrades else "op.get_bind().exec_driver_sql('')"}
