"""Times in rows: from the log's epoch seconds, and from texts in payloads, to what a ``timestamptz`` holds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

#: The ends of what is told: a second off those of `datetime`, which the driver takes for infinity.
EARLIEST: Final = datetime(1, 1, 1, 0, 0, 1, tzinfo=UTC)
LATEST: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)

_FIRST: Final = EARLIEST.timestamp()
_LAST: Final = LATEST.timestamp()


def moment(epoch: float) -> datetime:
    """Return a wall_time (epoch seconds) in UTC, to the microsecond.

    A time outside of the years 1 to 9999, which only an export made by hand can have, is `EARLIEST` or `LATEST`.
    """
    if _FIRST < epoch < _LAST:
        return datetime.fromtimestamp(epoch, UTC)
    return EARLIEST if epoch < 0 else LATEST


def stated_moment(value: Any) -> datetime | None:
    """Read an ISO 8601 text that a payload states; None for anything else. Without an offset it is taken as UTC."""
    if type(value) is not str:
        return None
    try:
        found = datetime.fromisoformat(value)
        told = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return told if EARLIEST <= told <= LATEST else None
