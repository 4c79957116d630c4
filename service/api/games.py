"""Games over HTTP: one world is one game, as the projections ``games`` and ``moves`` tell it."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from projections.games import Games
from projections.moves import Moves
from service.api.caching import REVALIDATE
from service.api.context import Services, services
from service.api.errors import GameNotFoundError
from service.api.moments import once
from service.api.openapi import header, json_of, problems
from service.api.parameters import NO_NUL, Limit, check_text, next_link, whole
from service.api.projected import MinSeq, as_told, check_game, to_json, views, wait_for
from service.store.read_models import Row
from worldledger.canonical import MAX_INT
from worldledger.drafts import MAX_WORD
from worldledger.genesis import NAME_RULE, check_world_name

router = APIRouter(tags=["games"], dependencies=[Depends(once)])

_DEFAULT: Final = 100
_GAMES: Final = Games()
_MOVES: Final = Moves()
_NEXT: Final = {"Link": header('`rel="next"`: the next page, if there is one.')}

GameId = Annotated[
    str,
    Path(
        description=f"The game's id: the name of its world ({NAME_RULE}).",
        json_schema_extra={"pattern": "^[A-Za-z0-9][A-Za-z0-9._~-]{0,199}$", "minLength": 1, "maxLength": 200},
    ),
]


@router.get(
    "/v1/games",
    operation_id="list_games",
    summary="Games by name",
    response_class=Response,
    responses={200: {**json_of("GamePage"), "description": "A page of games.", "headers": _NEXT}, **problems(422, 503)},
)
async def list_games(
    request: Request,
    experiment: Annotated[
        str | None,
        Query(min_length=1, max_length=200, description="Games of this experiment only.", json_schema_extra=NO_NUL),
    ] = None,
    agent: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=MAX_WORD,
            description="Games that this agent plays or played, with either colour.",
            json_schema_extra=NO_NUL,
        ),
    ] = None,
    status: Annotated[
        Literal["in_progress", "checkmate", "stalemate", "draw", "resigned", "timeout"] | None,
        Query(description="Games that stand so."),
    ] = None,
    after: Annotated[
        str, Query(max_length=200, description="Games whose names come after this one.", json_schema_extra=NO_NUL)
    ] = "",
    limit: Limit = None,
) -> Response:
    """Give a page of games, sorted by name, as the projection `games` has them.

    It follows the logs closely, but not at once: what was appended a moment ago may not be in it yet.
    """
    for name, text in (("experiment", experiment), ("agent", agent), ("after", after)):
        check_text(name, text)
    found = services(request)
    wanted = _wanted(found, limit)
    with views():
        rows = await found.models.games(
            experiment=experiment, status=status, agent_id=agent, after=after, limit=wanted + 1
        )
    shown = [as_told(_GAMES, row) for row in rows[:wanted]]
    position = shown[-1]["world_id"] if len(rows) > wanted else None
    headers = {"Cache-Control": REVALIDATE, **({} if position is None else next_link(request, after=position))}
    return _json({"games": shown, "next_after": position}, headers)


@router.get(
    "/v1/games/{game_id}",
    operation_id="get_game",
    summary="One game as it stands",
    response_class=Response,
    responses={200: {**json_of("Game"), "description": "The game."}, **problems(404, 409, 422, 503)},
)
async def get_game(request: Request, game_id: GameId, min_seq: MinSeq = None) -> Response:
    """Give a game as the projection `games` has it; with `min_seq`, once it has come so far, or 503 after a while."""
    found = services(request)
    await wait_for(found, _GAMES, check_world_name(game_id), min_seq)
    return _json(as_told(_GAMES, await _game(found, game_id)), {"Cache-Control": REVALIDATE})


@router.get(
    "/v1/games/{game_id}/moves",
    operation_id="list_moves",
    summary="The moves of a game",
    response_class=Response,
    responses={
        200: {**json_of("MovePage"), "description": "A page of moves.", "headers": _NEXT},
        **problems(404, 409, 422, 503),
    },
)
async def list_moves(
    request: Request,
    game_id: GameId,
    after_ply: Annotated[int, whole(0), Query(ge=0, le=MAX_INT, description="Moves after this number.")] = 0,
    limit: Limit = None,
    min_seq: MinSeq = None,
) -> Response:
    """Give a page of a game's moves in order, as the projection `moves` has them; `min_seq` as for the game."""
    found = services(request)
    await wait_for(found, _MOVES, check_world_name(game_id), min_seq)
    wanted = _wanted(found, limit)
    with views():
        rows = await found.models.moves(game_id, after=after_ply, limit=wanted + 1)
    if not rows:
        await _game(found, game_id)  # is there such a game?
    shown = [as_told(_MOVES, row) for row in rows[:wanted]]
    position = shown[-1]["ply"] if len(rows) > wanted else None
    headers = {"Cache-Control": REVALIDATE, **({} if position is None else next_link(request, after_ply=position))}
    return _json({"game_id": game_id, "moves": shown, "next_after_ply": position}, headers)


async def _game(found: Services, game_id: str) -> Row:
    """Give a game's row. Raises GameNotFoundError or ProjectionBehindError."""
    for _ in range(2):  # it may come between a look and the check
        with views():
            row = await found.models.game(game_id)
        if row is not None:
            return row
        await check_game(found, _GAMES, game_id)
    raise GameNotFoundError(f"no game {game_id!r} in the projection", game_id=game_id)


def _wanted(found: Services, limit: int | None) -> int:
    return min(_DEFAULT if limit is None else limit, found.settings.page_limit)


def _json(value: Any, headers: dict[str, str]) -> Response:
    return Response(to_json(value), 200, headers, "application/json")
