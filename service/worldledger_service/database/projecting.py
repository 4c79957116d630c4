"""What is worked out from the log and can be made again from it: snapshots of states, and projections.

A snapshot keeps one state of a world, so that a later one need not be folded from the beginning. A projection keeps
tables for queries, which a runner fills by following the log. Each version of a projection is a build: a table of its
own in the schema ``projections``. The runner's bookkeeping about builds stands with the log in schema public.

None of it is history: nothing here is append-only, and a downgrade may drop all of it. What SQLAlchemy cannot say
(``SCHEMA``, ``PRIVILEGES``, ``COMMENTS``) stands below the tables.
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
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

from worldledger_service.database.guards import comments
from worldledger_service.database.tables import METADATA, NAME

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
    Column("name", NAME, nullable=False, comment="What is leased."),
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
    comment="Who may write projections: leases with fencing, which need no common clock.",
)

_BOOKKEEPING: Final = (BUILDS, CURSORS, PENDING, PARKED, LEASES)
_DERIVED: Final = tuple(table.name for table in (SNAPSHOTS, *_BOOKKEEPING))

#: The schema ``projections`` is the service's, because builds come and go while it runs. Only who may CREATE in the
#: database can make it, which the owner's role need not: so the user who migrates does it, and the service's role
#: the rest. LOCAL, and back to the owner's role at the end: these statements stand in a transaction of the owner's.
SCHEMA: Final = [
    "set local role none",
    """
do $projections$
begin
    if to_regnamespace('projections') is null then
        create schema projections authorization worldledger_service;
    elsif not exists (select from pg_namespace
                      where nspname = 'projections' and nspowner::regrole::text = 'worldledger_service') then
        raise exception 'the database has a schema projections of somebody else'
            using errcode = 'duplicate_schema',
                  hint = 'Use another database, or rename that schema, or give it away: '
                         'ALTER SCHEMA projections OWNER TO worldledger_service';
    end if;
exception
    when insufficient_privilege then
        raise exception 'the user % may not create the schema projections', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Migrate as the owner of the database, or as an administrator: '
                         'CREATE SCHEMA projections AUTHORIZATION worldledger_service';
end
$projections$
""",
    "set local role worldledger_service",
    *comments({"schema projections": "Tables for queries, made from the log by the service; they can be made again."}),
    "set local role worldledger_owner",
]

PRIVILEGES: Final = [
    f"revoke all on {', '.join(_DERIVED)} from public",
    f"grant select, insert, update, delete on {', '.join(_DERIVED)} to worldledger_service",
]

COMMENTS: Final = comments(
    {
        "constraint snapshots_pkey on snapshots": "One snapshot at each place of a world's log.",
        "constraint snapshots_state_digest_check on snapshots": "A SHA-256 has 32 bytes.",
        "constraint projection_builds_pkey on projection_builds": "One build of a name.",
        "constraint projection_builds_status_check on projection_builds": "There are no other statuses.",
        "constraint projection_cursors_pkey on projection_cursors": "One cursor of each build in each world.",
        "constraint projection_pending_pkey on projection_pending": "A world is noted once for each build.",
        "constraint projection_parked_pkey on projection_parked": "A build stops at one effect of a world.",
        "constraint projection_leases_pkey on projection_leases": "One lease of a name.",
        "index projection_builds_live_idx": "Allows one live build for each projection, and finds it.",
        "index projection_builds_building_idx": "Allows one build at a time for each projection, and finds it.",
        **{f"index {table}_pkey": "The index of the primary key." for table in _DERIVED},
    }
)
