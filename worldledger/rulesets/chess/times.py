"""Moments of a game as datetimes that know their zone, which is UTC. Source: seeds/chess_openenv.md, ISO 8601."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, AwareDatetime, ConfigDict, Field, TypeAdapter

_EPOCH_SECONDS: Final = TypeAdapter(AwareDatetime, config=ConfigDict(val_temporal_unit="seconds"))
_UTC: Final = _EPOCH_SECONDS.validate_python(0).tzinfo


def moment(seconds: float) -> AwareDatetime:
    """Give the moment that an effect's ``wall_time`` (epoch seconds) says, to the microsecond, in UTC."""
    return _EPOCH_SECONDS.validate_python(seconds)


def _in_utc(value: AwareDatetime) -> AwareDatetime:
    return value.astimezone(_UTC)


#: A moment: a datetime with a zone, or its text in ISO 8601; kept in UTC. One without a zone is refused.
Moment: TypeAlias = Annotated[AwareDatetime, Field(strict=False), AfterValidator(_in_utc)]
