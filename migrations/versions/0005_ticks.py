"""Ticks: intents that worlds ordered by ticks hold until their next tick.

Revision: 0005, after 0004. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today. The reasons stand in the application (service/database/holding.py).
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

STATEMENTS = [
    """
create table held_intents (
    world_id text collate "C" not null,
    agent_id text collate "C" not null,
    req_id text collate "C" not null,
    tick bigint not null,
    place bigint not null,
    counted boolean not null,
    intent json not null,
    body_sha256 bytea not null,
    context_seq bigint,
    list_id uuid,
    list_index integer,
    list_atomic boolean not null,
    list_ordered boolean not null,
    bytes integer not null,
    received_at timestamp with time zone default now() not null,
    outcome json,
    constraint held_intents_pkey primary key (world_id, agent_id, req_id),
    constraint held_intents_body_sha256_check check (octet_length(body_sha256) = 32),
    constraint held_intents_list_check check ((list_id is null) = (list_index is null))
)
""",
    """
create table open_ticks (
    world_id text collate "C" not null,
    tick bigint not null,
    after_seq bigint not null,
    sim_time double precision,
    source_id text collate "C",
    constraint open_ticks_pkey primary key (world_id)
) with (fillfactor = 50)
""",
    "revoke all on held_intents, open_ticks from public",
    "grant select, insert, update, delete on held_intents, open_ticks to worldledger_service",
]

COMMENTS = {
    "table held_intents": (
        "Intents of worlds that are ordered by ticks, each from its arrival until its tick has decided it."
    ),
    "column held_intents.world_id": "The name of the world.",
    "column held_intents.agent_id": "The agent whose intent it is.",
    "column held_intents.req_id": "The agent's name for the request: its idempotency key.",
    "column held_intents.tick": "The number of the tick that decides it.",
    "column held_intents.place": (
        "The order field of the intent: its place among the agent's own intents of the tick."
    ),
    "column held_intents.counted": ("Whether the place was counted when it was held, because the intent stated none."),
    "column held_intents.intent": "The intent as it was checked, as canonical text.",
    "column held_intents.body_sha256": "SHA-256 of the request's body, as in requests.",
    "column held_intents.context_seq": "The context that the request names, if any.",
    "column held_intents.list_id": "The list that it came in, if its members belong together.",
    "column held_intents.list_index": "Its place in that list.",
    "column held_intents.list_atomic": "Whether all of the list are accepted, or none of them.",
    "column held_intents.list_ordered": "Whether the list keeps its inner order.",
    "column held_intents.bytes": "Bytes of the intent's text.",
    "column held_intents.received_at": (
        "When it was held, by the server's clock; informational: nothing is decided by it."
    ),
    "column held_intents.outcome": "Why its tick refused it; null while it is held.",
    "constraint held_intents_pkey on held_intents": "One request of an agent is held once.",
    "constraint held_intents_body_sha256_check on held_intents": "A SHA-256 has 32 bytes.",
    "constraint held_intents_list_check on held_intents": "Whatever came in a list has a place in it.",
    "index held_intents_pkey": "The index of the primary key.",
    "table open_ticks": (
        "The open tick of each world that is ordered by ticks; a copy of what its log says, and its lock."
    ),
    "column open_ticks.world_id": "The name of the world.",
    "column open_ticks.tick": "The number of the tick for which intents are held now.",
    "column open_ticks.after_seq": "The global_seq of the effect of the tick before; 0: none yet.",
    "column open_ticks.sim_time": "The sim_time of that effect.",
    "column open_ticks.source_id": "Who closed the tick before.",
    "constraint open_ticks_pkey on open_ticks": "One tick of a world is open.",
    "index open_ticks_pkey": "The index of the primary key.",
}

#: What is held was promised to be decided; only a tick may take it away.
DOWN = [
    """
do $held$
begin
    if exists (select from held_intents where outcome is null) then
        raise exception 'intents are held that no tick has decided yet'
            using errcode = 'dependent_objects_still_exist',
                  hint = 'Close the ticks of their worlds, and run the downgrade again.';
    end if;
end
$held$
""",
    "drop table held_intents, open_ticks",
]


def upgrade() -> None:
    connection = op.get_bind()
    for statement in STATEMENTS:
        connection.exec_driver_sql(statement)
    for thing, text in COMMENTS.items():
        quoted = text.replace("'", "''")
        connection.exec_driver_sql(f"comment on {thing} is '{quoted}'")


def downgrade() -> None:
    connection = op.get_bind()
    for statement in DOWN:
        connection.exec_driver_sql(statement)
