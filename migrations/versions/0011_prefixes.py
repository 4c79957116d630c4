"""Imported beginnings of worlds are marked: nothing is appended to them, and longer exports extend them.

Revision: 0011, after 0010. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today.
"""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

TABLE = "The worlds of which only the beginning is here, imported along with a fork: nothing is appended to them."
STATEMENTS = [
    'create table prefixes (world_id text collate "C" not null, constraint prefixes_pkey primary key (world_id))',
    "revoke all on prefixes from public",
    "grant select, insert, delete on prefixes to worldledger_service",
    f"comment on table prefixes is '{TABLE}'",
    "comment on column prefixes.world_id is 'The name of the world.'",
    "comment on constraint prefixes_pkey on prefixes is 'A world is marked once.'",
    "comment on index prefixes_pkey is 'The index of the primary key.'",
]


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    op.get_bind().exec_driver_sql("drop table prefixes")
