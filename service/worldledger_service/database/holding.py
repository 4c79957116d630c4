"""What worlds that are ordered by ticks hold until their next tick: intents that are durable and no effects yet.

No history: an intent that a tick accepts becomes an effect, and its row goes in the same transaction. What a tick
refuses stays for a while with its outcome, for those who ask. Exported logs have none of it.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Uuid,
    text,
)

from worldledger_service.database.guards import comments
from worldledger_service.database.tables import METADATA, NAME

HELD_INTENTS = Table(
    "held_intents",
    METADATA,
    Column("world_id", NAME, nullable=False, comment="The name of the world."),
    Column("agent_id", NAME, nullable=False, comment="The agent whose intent it is."),
    Column("req_id", NAME, nullable=False, comment="The agent's name for the request: its idempotency key."),
    Column("tick", BigInteger, nullable=False, comment="The number of the tick that decides it."),
    Column(
        "place",
        BigInteger,
        nullable=False,
        comment="The order field of the intent: its place among the agent's own intents of the tick.",
    ),
    Column(
        "counted",
        Boolean,
        nullable=False,
        comment="Whether the place was counted when it was held, because the intent stated none.",
    ),
    Column("intent", JSON, nullable=False, comment="The intent as it was checked, as canonical text."),
    Column("body_sha256", LargeBinary, nullable=False, comment="SHA-256 of the request's body, as in requests."),
    Column("context_seq", BigInteger, comment="The context that the request names, if any."),
    Column("list_id", Uuid, comment="The list that it came in, if its members belong together."),
    Column("list_index", Integer, comment="Its place in that list."),
    Column("list_atomic", Boolean, nullable=False, comment="Whether all of the list are accepted, or none of them."),
    Column("list_ordered", Boolean, nullable=False, comment="Whether the list keeps its inner order."),
    Column("bytes", Integer, nullable=False, comment="Bytes of the intent's text."),
    Column(
        "received_at",
        DateTime(timezone=True),
        nullable=False,
        server_default=text("now()"),
        comment="When it was held, by the server's clock; informational: nothing is decided by it.",
    ),
    Column("outcome", JSON, comment="Why its tick refused it; null while it is held."),
    PrimaryKeyConstraint("world_id", "agent_id", "req_id"),
    CheckConstraint("octet_length(body_sha256) = 32", name="body_sha256"),
    CheckConstraint("(list_id is null) = (list_index is null)", name="list"),
    comment="Intents of worlds that are ordered by ticks, each from its arrival until its tick has decided it.",
)

OPEN_TICKS = Table(
    "open_ticks",
    METADATA,
    Column("world_id", NAME, nullable=False, comment="The name of the world."),
    Column("tick", BigInteger, nullable=False, comment="The number of the tick for which intents are held now."),
    Column(
        "after_seq", BigInteger, nullable=False, comment="The global_seq of the effect of the tick before; 0: none yet."
    ),
    Column("sim_time", Double, comment="The sim_time of that effect."),
    Column("source_id", NAME, comment="Who closed the tick before."),
    PrimaryKeyConstraint("world_id"),
    # It is locked by each that holds or closes, and written once a tick: the update is HOT and leaves the index alone.
    postgresql_with={"fillfactor": 50},
    comment="The open tick of each world that is ordered by ticks; a copy of what its log says, and its lock.",
)

PRIVILEGES: Final = [
    "revoke all on held_intents, open_ticks from public",
    "grant select, insert, update, delete on held_intents, open_ticks to worldledger_service",
]

COMMENTS: Final = comments(
    {
        "constraint held_intents_pkey on held_intents": "One request of an agent is held once.",
        "constraint held_intents_body_sha256_check on held_intents": "A SHA-256 has 32 bytes.",
        "constraint held_intents_list_check on held_intents": "Whatever came in a list has a place in it.",
        "index held_intents_pkey": "The index of the primary key.",
        "constraint open_ticks_pkey on open_ticks": "One tick of a world is open.",
        "index open_ticks_pkey": "The index of the primary key.",
    }
)
