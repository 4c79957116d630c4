"""Reading what projections have made: views that may be missing for a moment, and waiting for a projection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import Query
from worldledger_projections.base import Projection

from worldledger.canonical import MAX_INT
from worldledger.errors import WorldNotFoundError
from worldledger_service.api.context import Services
from worldledger_service.api.errors import GameNotFoundError, ProjectionBehindError, ProjectionUnavailableError
from worldledger_service.api.parameters import check_reached, whole
from worldledger_service.runtime.guarding import reading
from worldledger_service.store.read_models import Row, ViewMissingError

T = TypeVar("T")

MinSeq = Annotated[
    int | None,
    whole(1),
    Query(
        ge=1,
        le=MAX_INT,
        description="Wait until the projection has read the world up to this global_seq: what was appended is read.",
    ),
]


async def viewed(found: Services, ask: Callable[[], Awaitable[T]]) -> T:
    """Return what is read from the views. Raises ProjectionUnavailableError where one is missing, and as `reading`."""

    async def view() -> T:
        try:
            return await ask()
        except ViewMissingError as error:
            what = "what this projection has made is not to be had at the moment"
            raise ProjectionUnavailableError(what) from error

    return await reading(found.store.outages, view())


async def wait_for(found: Services, projection: Projection, world_id: str, min_seq: int | None) -> None:
    """Wait until a projection has come to a seq of a game's world.

    Raises GameNotFoundError, PositionAheadError for a seq that the world has not reached, and ProjectionBehindError
    when the patience is over, or the world is set aside.
    """
    if min_seq is None:
        return
    try:
        record = await reading(found.store.outages, found.store.world(world_id))
    except WorldNotFoundError as error:
        raise _no_game(world_id, error.message) from None
    check_reached("min_seq", min_seq, record)
    cursor = await _cursor(found, projection, world_id, min_seq, found.patience)
    if cursor < min_seq:
        raise await _behind(found, projection, world_id, cursor)


async def check_game(found: Services, projection: Projection, world_id: str) -> None:
    """Raise what is the matter with a game that a projection has no row of; nothing, where it should have one by now.

    Raises GameNotFoundError if there is no such game, ProjectionBehindError if the projection has not come to it.
    """
    try:
        cursor = await _cursor(found, projection, world_id, 1, 0)
        if cursor < 1:
            raise await _behind(found, projection, world_id, cursor)
        record = await reading(found.store.outages, found.store.world(world_id))
    except WorldNotFoundError as error:
        raise _no_game(world_id, error.message) from None
    if projection.rulesets is not None and record.ruleset not in projection.rulesets:
        raise _no_game(world_id, f"world {world_id!r} is of ruleset {record.ruleset}, which has no games")


async def _cursor(found: Services, projection: Projection, world_id: str, seq: int, patience: float) -> int:
    work = found.projections.wait_for(projection.name, world_id, seq, patience)
    return await reading(found.store.outages, work)


def _no_game(game_id: str, what: str) -> GameNotFoundError:
    return GameNotFoundError(what, game_id=game_id)


async def _behind(found: Services, projection: Projection, world_id: str, cursor: int) -> ProjectionBehindError:
    head = (await reading(found.store.outages, found.store.world(world_id))).head_seq
    return ProjectionBehindError(
        f"projection {projection.name} has come to seq {cursor} of world {world_id!r}, whose head is {head}; "
        f"see /v1/projections/{projection.name}",
        projection=projection.name,
        world_id=world_id,
        cursor=cursor,
        head_seq=head,
        lag=head - cursor,
    )


# -- rendering ---------------------------------------------------------------------------------------------


def to_json(value: Any) -> bytes:
    """Write an answer; times in UTC, with Z."""
    return orjson.dumps(value, option=orjson.OPT_UTC_Z)


def near_member(guesses: Sequence[str]) -> bytes:
    """Return the member `near` of a page, behind a comma: what may have been meant; nothing where there is nothing."""
    return b',"near":%b' % orjson.dumps(guesses) if guesses else b""


def as_told(projection: Projection, row: Row) -> Mapping[str, Any]:
    """Return a row as it is shown: JSON columns as the JSON that they hold."""
    texts = [column.name for column in projection.columns if column.type in {"json", "jsonb"}]
    return {**row, **{name: orjson.Fragment(row[name]) for name in texts if row.get(name) is not None}}
