"""Waiting for a projection of games: until it has read what was appended, or come to a game at all."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from worldledger_projections.base import Projection
from worldledger_service.api.context import Services
from worldledger_service.api.errors import ProjectionBehindError
from worldledger_service.api.parameters import check_reached, whole
from worldledger_service.runtime.guarding import reading

from worldledger.canonical import MAX_INT
from worldledger.errors import WorldNotFoundError
from worldledger_chess.api.errors import GameNotFoundError

MinSeq = Annotated[
    int | None,
    whole(1),
    Query(
        ge=1,
        le=MAX_INT,
        description="Wait until the projection has read the world up to this global_seq: what was appended is read.",
    ),
]


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
