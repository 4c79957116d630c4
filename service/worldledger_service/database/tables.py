"""The tables, as SQLAlchemy sees them: the log, and what can be lost or made again.

Source: docs/architecture.md, "The log". What SQLAlchemy cannot say (roles, privileges, triggers, functions, comments on
indexes and constraints) stands in the files of ``sql/`` (`worldledger_service.database.guards`). The migrations have
frozen copies of all of it; the tests hold that a migrated database equals a fresh one.

No foreign keys, on purpose. On ``effects`` one would cost the bulk rate. On ``heads`` and ``requests`` it would
need the owner of ``worlds`` to keep the UPDATE privilege (the check locks the row that is referred to), which
the owner must not have; the view ``verification`` names a row that stands alone.
"""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
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

# -- the log --------------------------------------------------------------------------------------------------

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
    # Which worlds are forks, without reading the genesis of every world. Texts of no fork are not read as JSON, which
    # may fail where somebody has written past the service.
    Index(
        "effects_forks_idx",
        "world_id",
        postgresql_where=text("""global_seq = 1 and strpos(effect::text, '"fork_of":{') > 0"""),
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

# -- worked out from the log: snapshots of states, and projections -----------------------------------------------
#
# A snapshot keeps one state of a world, so that a later one need not be folded from the beginning. A projection keeps
# tables for queries, which a runner fills by following the log. Each version of a projection is a build: a table of its
# own in the schema ``projections``. The runner's bookkeeping about builds stands with the log in schema public. None of
# it is history: nothing here is append-only, and a downgrade may drop all of it.

_TIME = DateTime(timezone=True)

SNAPSHOTS = Table(
    "snapshots",
    METADATA,
    Column("world_id", NAME, nullable=False, comment="The name of the world."),
    Column("global_seq", BigInteger, nullable=False, comment="The effect after which the world had this state."),
    Column(
        "checksum",
        LargeBinary,
        nullable=False,
        comment="The chain checksum of the effect at global_seq: ties the state to one history.",
    ),
    Column("ruleset", NAME, nullable=False, comment="The ruleset that folded the state."),
    Column("ruleset_version", Integer, nullable=False, comment="The version of the ruleset that folded it."),
    Column("state_digest", LargeBinary, nullable=False, comment="SHA-256 of the state's text."),
    Column(
        "state",
        JSON,
        nullable=False,
        comment="The state's text in profile state/1, exactly as digested; json, because jsonb rewrites numbers.",
    ),
    Column("state_bytes", Integer, nullable=False, comment="The length of the state's text in bytes."),
    Column(
        "created_at",
        _TIME,
        nullable=False,
        server_default=text("now()"),
        comment="When the snapshot was written, by the server's clock; informational.",
    ),
    PrimaryKeyConstraint("world_id", "global_seq"),
    CheckConstraint("octet_length(state_digest) = 32", name="state_digest"),
    comment="States of worlds at some places of their logs: a cache, which can be folded again from the log.",
)

BUILDS = Table(
    "projection_builds",
    METADATA,
    Column(
        "build", NAME, nullable=False, comment="The name of the build, and of its table in schema projections: games_2."
    ),
    Column("projection", NAME, nullable=False, comment="The projection that this is a build of."),
    Column("version", Integer, nullable=False, comment="The version of the projection that fills the build."),
    Column(
        "status",
        NAME,
        nullable=False,
        comment="building: being filled; live: the one that people read; retired: replaced by a later one.",
    ),
    Column("paused", Boolean, nullable=False, server_default=text("false"), comment="True: no runner works on it."),
    Column(
        "scanned_to",
        NAME,
        server_default=text("''"),
        comment="The last world_id that the first pass over all worlds has come to; null once it is finished.",
    ),
    Column("effects_total", BigInteger, comment="How many effects there were to read when the build began."),
    Column(
        "effects_done",
        BigInteger,
        nullable=False,
        server_default=text("0"),
        comment="How many effects the build has read.",
    ),
    Column("started_at", _TIME, nullable=False, server_default=text("now()"), comment="When the build began."),
    Column("finished_at", _TIME, comment="When the build went live."),
    Column("retired_at", _TIME, comment="When the build was retired."),
    Column("check_report", JSON, comment="What the last check of the build against the log found."),
    PrimaryKeyConstraint("build"),
    CheckConstraint("status IN ('live', 'building', 'retired')", name="status"),
    Index("projection_builds_live_idx", "projection", unique=True, postgresql_where=text("status = 'live'")),
    Index("projection_builds_building_idx", "projection", unique=True, postgresql_where=text("status = 'building'")),
    comment="The builds of projections: one row for each version of a projection that has, or had, a table.",
)

CURSORS = Table(
    "projection_cursors",
    METADATA,
    Column("build", NAME, nullable=False, comment="The name of the build."),
    Column("world_id", NAME, nullable=False, comment="The name of the world."),
    Column("global_seq", BigInteger, nullable=False, comment="The last effect of the world that the build holds."),
    PrimaryKeyConstraint("build", "world_id"),
    # Every batch moves a cursor: with room on its page the update is HOT and leaves the index alone.
    postgresql_with={"fillfactor": 80},
    comment="How far each build has come in each world; written in one transaction with the rows of the build.",
)

PENDING = Table(
    "projection_pending",
    METADATA,
    Column("build", NAME, nullable=False, comment="The name of the build."),
    Column("world_id", NAME, nullable=False, comment="The name of the world."),
    Column("head_seq", BigInteger, nullable=False, comment="Where the world's log ended when this was last noted."),
    Column(
        "since",
        _TIME,
        nullable=False,
        server_default=text("clock_timestamp()"),
        comment="Since when the build is behind in this world.",
    ),
    PrimaryKeyConstraint("build", "world_id"),
    comment="The worlds that have effects which a build has still to read.",
)

PARKED = Table(
    "projection_parked",
    METADATA,
    Column("build", NAME, nullable=False, comment="The name of the build."),
    Column("world_id", NAME, nullable=False, comment="The name of the world."),
    Column("global_seq", BigInteger, nullable=False, comment="The effect that could not be digested."),
    Column("kind", NAME, comment="The kind of that effect, where it could be read."),
    Column("error", Text, nullable=False, comment="What went wrong."),
    Column("attempts", Integer, nullable=False, server_default=text("1"), comment="How often it was tried."),
    Column("parked_at", _TIME, nullable=False, server_default=text("now()"), comment="When it was set aside."),
    PrimaryKeyConstraint("build", "world_id"),
    comment="The worlds that a build has set aside, each because of one effect; the other worlds go on.",
)

# No time stands in a lease, so no two clocks have to agree: a contender watches token and beats by its own monotonic
# clock, and takes over by a compare-and-set when neither has changed for a while.
LEASES = Table(
    "projection_leases",
    METADATA,
    Column(
        "name",
        NAME,
        nullable=False,
        comment="What is leased: a build of a projection, or with claim: before it what an import makes.",
    ),
    Column("holder", Text, comment="Who holds the lease, for people; null when it was given back."),
    Column(
        "token",
        BigInteger,
        nullable=False,
        server_default=text("0"),
        comment="Rises with every change of hands; who writes under the lease checks that it is still theirs.",
    ),
    Column(
        "beats",
        BigInteger,
        nullable=False,
        server_default=text("0"),
        comment="Rises while the holder lives; when token and beats stand still, another may take over.",
    ),
    PrimaryKeyConstraint("name"),
    comment="Leases with fencing, which need no common clock: who may write projections. Imports claim names here, "
    "too, for as long as their transaction lasts.",
)

# -- observations that were delivered: a lost row costs an agent some that it is sent again -------------------------

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

# -- what worlds that are ordered by ticks hold until their next tick: intents that are durable and no effects yet --
#
# No history: an intent that a tick accepts becomes an effect, and its row goes in the same transaction. What a tick
# refuses stays for a while with its outcome, for those who ask. Exported logs have none of it.

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

# -- worlds of which only the beginning is here -------------------------------------------------------------------

PREFIXES = Table(
    "prefixes",
    METADATA,
    Column("world_id", NAME, nullable=False, comment="The name of the world."),
    PrimaryKeyConstraint("world_id"),
    comment="The worlds of which only the beginning is here, imported along with a fork: nothing is appended to them.",
)

# -- the views that kinds of worlds bring (`worldledger_service.database.analytics.of_kinds`) ----------------------

KIND_ANALYTICS = Table(
    "kind_analytics",
    METADATA,
    Column("kind", NAME, nullable=False, comment="The kind of worlds that brought the views."),
    Column("version", Integer, nullable=False, comment="The number of the last of its files that was run."),
    Column("digest", LargeBinary, nullable=False, comment="SHA-256 of these files."),
    Column("views", ARRAY(NAME), nullable=False, comment="Its views in the schema analytics."),
    Column(
        "applied_at",
        DateTime(timezone=True),
        nullable=False,
        server_default=text("now()"),
        comment="When that was, by the server's clock; informational.",
    ),
    PrimaryKeyConstraint("kind"),
    CheckConstraint("version >= 1", name="version"),
    CheckConstraint("octet_length(digest) = 32", name="digest"),
    comment="The views that kinds of worlds have brought to the schema analytics, and of which version.",
)
