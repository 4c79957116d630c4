"""Every question of a report by its name: over the views of the schema ``analytics``, and nothing else.

``$1`` is the experiment. Rows come in an order that the log alone decides, and means are taken in numeric, which is
exact: so the same log gives the same report, in whatever order rows lie on the disk. Recorded values may be anything
that a double or a bigint holds; what is worked out from them is kept within these.
"""

from __future__ import annotations

from typing import Final

_MOST: Final = {"double precision": "1e308", "bigint": "9e18"}


def within(value: str, kind: str) -> str:
    """Return the SQL for a numeric value as a double precision or bigint, at the end of its range if beyond it."""
    most = _MOST[kind]
    return f"case when {value} is not null then greatest(least({value}, {most}), -{most}) end::{kind}"
