"""What is kept of the delivery of observations: how far each agent has come. No history, and no effect.

A lost row costs an agent some observations that it is sent again. Like the tables of ``projecting.py`` it is not
append-only, and a downgrade may drop it.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, DateTime, PrimaryKeyConstraint, Table, text

from worldledger_service.database.guards import comments
from worldledger_service.database.tables import METADATA, NAME

AGENT_CURSORS = Table(
    "agent_cursors",
    METADATA,
    Column("world_id", NAME, nullable=False, comment="The name of the world."),
    Column("agent_id", NAME, nullable=False, comment="The agent."),
    Column(
        "view_seq",
        BigInteger,
        nullable=False,
        comment="The last view that the agent has acknowledged: the global_seq of the effect that made it.",
    ),
    Column(
        "updated_at",
        DateTime(timezone=True),
        nullable=False,
        server_default=text("now()"),
        comment="When the row was written last, by the server's clock; informational.",
    ),
    PrimaryKeyConstraint("world_id", "agent_id"),
    # A cursor moves all the time: with room on its page the update is HOT and leaves the index alone.
    postgresql_with={"fillfactor": 80},
    comment="How far each agent has come in observing its world; written now and then, not with every observation.",
)

PRIVILEGES: Final = [
    "revoke all on agent_cursors from public",
    "grant select, insert, update, delete on agent_cursors to worldledger_service",
]

COMMENTS: Final = comments(
    {
        "constraint agent_cursors_pkey on agent_cursors": "One cursor of an agent.",
        "index agent_cursors_pkey": "The index of the primary key.",
    }
)
