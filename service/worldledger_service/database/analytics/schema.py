"""The schema ``analytics`` itself: whose it is, who reads it, and the functions that run somebody's query.

The schema is the service's (``sql/analytics.sql``). ``worldledger_reader`` is for people: it may SELECT from the views
of this schema and nothing else. Its own settings hold where somebody logs in as it. ``worldledger_guest`` has the same
privileges and is for queries that come through the service from somebody who has no login at all. Nobody logs in as it
and no role is in it. How such a query is bounded is in ``sql/asking.sql``.
"""

from __future__ import annotations

from typing import Final

from worldledger_service.database import guards
from worldledger_service.database.analytics.views import VIEWS

#: Rises when a column or view changes its meaning or goes; what is only added changes nothing for who is there.
VERSION: Final = 1
#: The name of the cursor.
CURSOR: Final = "worldledger_query"

_CALLERS: Final = f"{guards.SERVICE_ROLE}, {guards.READER_ROLE}, {guards.GUEST_ROLE}"


def statements() -> list[str]:
    """Return every statement that makes the schema, in the order in which they are run by the owner of the log."""
    return [
        *guards.statements("analytics", version=str(VERSION)),
        *(statement for view in VIEWS for statement in view.statements()),
        f"grant select on {', '.join(f'analytics.{view.name}' for view in VIEWS)} to {_CALLERS}",
        *guards.statements("asking", cursor=CURSOR),
    ]
