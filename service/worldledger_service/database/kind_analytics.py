"""What a database has of the views that kinds of worlds bring (`analytics.of_kinds`)."""

from __future__ import annotations

from typing import Final

from sqlalchemy import ARRAY, CheckConstraint, Column, DateTime, Integer, LargeBinary, PrimaryKeyConstraint, Table, text

from worldledger_service.database.guards import comments
from worldledger_service.database.tables import METADATA, NAME

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

PRIVILEGES: Final = [
    "revoke all on kind_analytics from public",
    "grant select on kind_analytics to worldledger_service",
]

COMMENTS: Final = comments(
    {
        "constraint kind_analytics_pkey on kind_analytics": "One version of a kind's views.",
        "constraint kind_analytics_version_check on kind_analytics": "Files are numbered from 1.",
        "constraint kind_analytics_digest_check on kind_analytics": "A SHA-256 has 32 bytes.",
        "index kind_analytics_pkey": "The index of the primary key.",
    }
)
