"""Moments of a game as datetimes with the zone UTC."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, AwareDatetime, ConfigDict, Field, TypeAdapter, ValidationError

_EPOCH_SECONDS: Final = TypeAdapter(AwareDatetime, config=ConfigDict(val_temporal_unit="seconds"))
_UTC: Final = _EPOCH_SECONDS.validate_python(0).tzinfo
_FIRST: Final = _EPOCH_SECONDS.validate_python("0001-01-01T00:00:00Z")
_LAST: Final = _EPOCH_SECONDS.validate_python("9999-12-31T23:59:59.999999Z")


def moment(seconds: float) -> AwareDatetime:
    """Return the moment of an effect's ``wall_time`` (epoch seconds), to the microsecond, in UTC.

    The calendar has the years 1 to 9999: a moment outside, as an imported log may have, becomes the nearest end.
    """
    try:
        return _EPOCH_SECONDS.validate_python(seconds)
    except ValidationError:
        return _LAST if seconds > 0 else _FIRST


def _in_utc(value: AwareDatetime) -> AwareDatetime:
    return value.astimezone(_UTC)


#: A moment: a datetime with a zone, or its text in ISO 8601; kept in UTC. One without a zone is refused.
Moment: TypeAlias = Annotated[AwareDatetime, Field(strict=False), AfterValidator(_in_utc)]

_MOMENTS: Final = TypeAdapter(Moment)


def is_moment(value: Any) -> bool:
    """Return whether a JSON value is a moment: a text in ISO 8601 with its offset from UTC."""
    try:
        _MOMENTS.validate_python(value)
    except (ValidationError, OverflowError):
        return False
    return type(value) is str
