"""The tables of the log, as SQLAlchemy sees them.

Source: docs/architecture.md, "The log". What SQLAlchemy cannot say (roles, privileges, triggers, comments on
indexes and constraints) stands in ``guards.py``, functions and views in ``verification.py``, and what is worked out
from the log in ``projecting.py``. The migrations have frozen copies of all of it; the tests hold that a migrated
database equals a fresh one.

No foreign keys, on purpose. On ``effects`` one would cost the bulk rate. On ``heads`` and ``requests`` it would
need the owner of ``worlds`` to keep the UPDATE privilege (the check locks the row that is referred to), which
the owner must not have; the view ``verification`` names a row that stands alone.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
    text,
)

METADATA = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "ck": "%(table_name)s_%(constraint_name)s_check",
    }
)

#: Names compare byte by byte: the same order on every machine, whatever its locale, and cheaper.
NAME = Text(collation="C")

#: Rows that never change are frozen by the first vacuum that meets them, and never rewritten for it again.
_WRITTEN_ONCE = {"autovacuum_freeze_min_age": 0}

WORLDS = Table(
    "worlds",
    METADATA,
    Column("world_id", NAME, nullable=False, comment="The name of the world: its key everywhere."),
    Column(
        "world_uuid",
        Uuid,
        nullable=False,
        comment="Random identity of the world, made with it: tells two worlds of the same name apart.",
    ),
    Column("ruleset", NAME, nullable=False, comment="The ruleset that decides and folds this world."),
    Column("ruleset_version", Integer, nullable=False, comment="The version of the ruleset at creation."),
    Column("config", JSON, nullable=False, comment="The world's configuration, as text exactly as in genesis."),
    Column("experiment", NAME, comment="The experiment that the world belongs to, if any."),
    Column(
        "time_authority",
        NAME,
        nullable=False,
        comment="Who sets sim_time: wall, client, or a named adapter such as unity.",
    ),
    Column(
        "created_at",
        DateTime(timezone=True),
        nullable=False,
        server_default=text("now()"),
        comment="When the row was written, by the server's clock; informational.",
    ),
    PrimaryKeyConstraint("world_id"),
    CheckConstraint("world_id <> ''", name="world_id"),
    CheckConstraint("ruleset_version >= 0", name="ruleset_version"),
    Index(None, "experiment", "world_id"),
    comment="One row for each world, written once; a copy of its genesis effect (global_seq 1) for queries.",
)

# No CHECK on heads and effects: each costs every append 1.6 µs (its expression is compiled per statement), which
# together with a trigger that let heads only go forward was a quarter of a durable append; verification finds
# whatever they would have refused.
HEADS = Table(
    "heads",
    METADATA,
    Column("world_id", NAME, nullable=False, comment="The name of the world."),
    Column("head_seq", BigInteger, nullable=False, comment="The highest global_seq of the world."),
    Column("head_checksum", LargeBinary, comment="The checksum of the effect at head_seq; null before the first."),
    Column("sim_time", Double, nullable=False, comment="The sim_time of the effect at head_seq."),
    Column("wall_time", Double, nullable=False, comment="The wall_time of the effect at head_seq."),
    Column(
        "moved",
        Boolean,
        nullable=False,
        server_default=text("true"),
        comment="True from an append until a projection runner has taken note of it.",
    ),
    PrimaryKeyConstraint("world_id"),
    # By this index a runner that polls finds the worlds with news without looking at the idle ones. An append sets
    # moved to true; where it is true already no indexed value changes, and the update stays HOT.
    Index("heads_moved_idx", "world_id", postgresql_where=text("moved")),
    comment="Where each world's log ends: the row that every append moves forward, and that readers follow.",
)

EFFECTS = Table(
    "effects",
    METADATA,
    Column("world_id", NAME, nullable=False, comment="The world; a copy of the effect's field."),
    Column(
        "global_seq",
        BigInteger,
        nullable=False,
        comment="Place in the world's log: 1, 2, 3 … without a gap; a copy of the effect's field.",
    ),
    Column(
        "effect",
        JSON,
        nullable=False,
        comment="The canonical text exactly as hashed; json, because jsonb rewrites numbers.",
    ),
    Column(
        "checksum",
        LargeBinary,
        nullable=False,
        comment="SHA-256 over the hex of the previous checksum (nothing for the first) and the text.",
    ),
    Column("kind", NAME, nullable=False, comment="What kind of effect; a copy of the effect's field."),
    Column("source_id", NAME, nullable=False, comment="Who caused it; a copy of the effect's field."),
    Column("sim_time", Double, nullable=False, comment="Seconds of the world's own time; a copy likewise."),
    Column(
        "recorded_at",
        DateTime(timezone=True),
        nullable=False,
        # now() and not clock_timestamp(): a volatile default makes COPY insert row by row (measured: 17 % slower).
        server_default=text("now()"),
        comment="When the writing transaction began, by the server's clock; informational.",
    ),
    PrimaryKeyConstraint("world_id", "global_seq"),
    # None on source_id: a second index brings COPY from 0.53 to 0.38 of the bare rate, and without one a page
    # of one source's effects is found by the primary key at 11 million effects a second.
    Index(None, "world_id", "kind", "global_seq"),
    # Few effects name their cause, and keys stand sorted: those that do are found without reading all of the log.
    Index(
        "effects_caused_idx",
        "world_id",
        "global_seq",
        postgresql_where=text("""starts_with(effect::text, '{"caused_by":')"""),
    ),
    postgresql_with=_WRITTEN_ONCE,
    comment="The log: every effect of every world, append-only, chained by checksum within its world.",
)

REQUESTS = Table(
    "requests",
    METADATA,
    Column("world_id", NAME, nullable=False, comment="The name of the world."),
    Column("source_id", NAME, nullable=False, comment="Who asked; for intents the agent_id."),
    Column("req_id", NAME, nullable=False, comment="The caller's name for the request: its idempotency key."),
    Column("body_sha256", LargeBinary, nullable=False, comment="SHA-256 of the request's body."),
    Column("first_seq", BigInteger, nullable=False, comment="The global_seq of the request's first effect."),
    Column("last_seq", BigInteger, nullable=False, comment="The global_seq of the request's last effect."),
    PrimaryKeyConstraint("world_id", "source_id", "req_id"),
    CheckConstraint("octet_length(body_sha256) = 32", name="body_sha256"),
    CheckConstraint("first_seq >= 1 AND last_seq >= first_seq", name="seqs"),
    postgresql_with=_WRITTEN_ONCE,
    comment="Every accepted request that had a req_id: the same request twice is one effect.",
)
