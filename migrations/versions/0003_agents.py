"""Agents: how far each has come in observing its world.

Revision: 0003, after 0002. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today. The reasons stand in the application (service/database/delivery.py).
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

STATEMENTS = [
    """
create table agent_cursors (
    world_id text collate "C" not null,
    agent_id text collate "C" not null,
    view_seq bigint not null,
    updated_at timestamp with time zone default now() not null,
    constraint agent_cursors_pkey primary key (world_id, agent_id)
) with (fillfactor = 80)
""",
    "revoke all on agent_cursors from public",
    "grant select, insert, update, delete on agent_cursors to worldledger_service",
    "grant select on agent_cursors to worldledger_reader",
]

COMMENTS = {
    "table agent_cursors": (
        "How far each agent has come in observing its world; written now and then, not with every observation."
    ),
    "column agent_cursors.world_id": "The name of the world.",
    "column agent_cursors.agent_id": "The agent.",
    "column agent_cursors.view_seq": (
        "The last view that the agent has acknowledged: the global_seq of the effect that made it."
    ),
    "column agent_cursors.updated_at": "When the row was written last, by the server's clock; informational.",
    "constraint agent_cursors_pkey on agent_cursors": "One cursor of an agent.",
    "index agent_cursors_pkey": "The index of the primary key.",
}


def upgrade() -> None:
    connection = op.get_bind()
    for statement in STATEMENTS:
        connection.exec_driver_sql(statement)
    for thing, text in COMMENTS.items():
        quoted = text.replace("'", "''")
        connection.exec_driver_sql(f"comment on {thing} is '{quoted}'")


def downgrade() -> None:
    op.get_bind().exec_driver_sql("drop table agent_cursors")
