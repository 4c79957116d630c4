"""Games and their agents over HTTP: one world is one game, as its log and the projections tell it."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

import chess
import chess.svg
from fastapi import APIRouter, Depends, Path, Query
from pydantic import AfterValidator
from starlette.requests import Request
from starlette.responses import Response
from worldledger_projections.base import Projection
from worldledger_service.api.agents_of_worlds import word
from worldledger_service.api.answers import REVALIDATE, as_told, not_modified, to_json, viewed
from worldledger_service.api.context import Services, services
from worldledger_service.api.openapi import header, json_of, problems
from worldledger_service.api.parameters import NO_NUL, Limit, Text, check_reached, next_link, once, whole
from worldledger_service.api.problems import ProjectionBehindError
from worldledger_service.runtime.guarding import guarded
from worldledger_service.store.reader import Row

from worldledger.canonical import MAX_INT
from worldledger.drafts import MAX_WORD
from worldledger.errors import MomentNotFoundError, WorldNotFoundError
from worldledger.genesis import check_world_name
from worldledger.near import meant
from worldledger_chess.api.problems import AgentNotFoundError, GameNotFoundError
from worldledger_chess.api.serving import (
    NOTHING,
    GameId,
    WithMoves,
    WithTensor,
    board_at,
    game_of,
    game_row,
    reach,
    told,
)
from worldledger_chess.api.shapes import AgentPage, AgentStats, Game, GamePage, MovePage
from worldledger_chess.projections.games import Games
from worldledger_chess.projections.moves import Moves
from worldledger_chess.store.read_models import ReadModels

# -- waiting for a projection of games: until it has read an append, or reached a game -----------------------------

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
        record = await guarded(found.store.outages, found.store.world(world_id))
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
        record = await guarded(found.store.outages, found.store.world(world_id))
    except WorldNotFoundError as error:
        raise _no_game(world_id, error.message) from None
    if projection.rulesets is not None and record.ruleset not in projection.rulesets:
        raise _no_game(world_id, f"world {world_id!r} is of ruleset {record.ruleset}, which has no games")


async def _cursor(found: Services, projection: Projection, world_id: str, seq: int, patience: float) -> int:
    work = found.projections.wait_for(projection.name, world_id, seq, patience)
    return await guarded(found.store.outages, work)


def _no_game(game_id: str, what: str) -> GameNotFoundError:
    return GameNotFoundError(what, game_id=game_id)


async def _behind(found: Services, projection: Projection, world_id: str, cursor: int) -> ProjectionBehindError:
    head = (await guarded(found.store.outages, found.store.world(world_id))).head_seq
    return ProjectionBehindError(
        f"projection {projection.name} has come to seq {cursor} of world {world_id!r}, whose head is {head}; "
        f"see /v1/projections/{projection.name}",
        projection=projection.name,
        world_id=world_id,
        cursor=cursor,
        head_seq=head,
        lag=head - cursor,
    )


router = APIRouter(tags=["games"], dependencies=[Depends(once)])

_DEFAULT: Final = 100
_GAMES: Final = Games()
_MOVES: Final = Moves()
_NEXT: Final = {"Link": header('`rel="next"`: the next page, if there is one.')}


@router.get(
    "/v1/games",
    operation_id="list_games",
    summary="Games by name",
    response_class=Response,
    responses={200: {**json_of(GamePage), "description": "A page of games.", "headers": _NEXT}, **problems(422, 503)},
)
async def list_games(
    request: Request,
    experiment: Annotated[
        Text | None,
        Query(min_length=1, max_length=200, description="Games of this experiment only."),
    ] = None,
    agent: Annotated[
        Text | None,
        Query(
            min_length=1,
            max_length=MAX_WORD,
            description="Games that this agent plays or played, with either colour.",
        ),
    ] = None,
    status: Annotated[
        Literal["in_progress", "checkmate", "stalemate", "draw", "resigned", "timeout"] | None,
        Query(description="Games that stand so."),
    ] = None,
    after: Annotated[Text, Query(max_length=200, description="Games whose names come after this one.")] = "",
    limit: Limit = None,
) -> Response:
    """Return a page of games, sorted by name, as the projection `games` has them.

    It follows the logs closely, but not at once: what was appended a moment ago may not be in it yet.
    """
    found = services(request)
    wanted = _wanted(found, limit)
    models = ReadModels(found.store.reader)
    rows = await viewed(
        found,
        lambda: models.games(experiment=experiment, status=status, agent_id=agent, after=after, limit=wanted + 1),
    )
    shown = [as_told(_GAMES, row) for row in rows[:wanted]]
    position = shown[-1]["world_id"] if len(rows) > wanted else None
    headers = {"Cache-Control": REVALIDATE, **({} if position is None else next_link(request, after=position))}
    page: dict[str, Any] = {"games": shown, "next_after": position}
    if not shown and not after:
        guesses: list[str] = []
        if experiment is not None:
            guesses += await guarded(found.store.outages, found.store.near_experiments(experiment))
        if agent is not None:
            guesses += await viewed(found, lambda: models.near_agents(agent))
        page |= {"near": guesses} if guesses else {}
    return _json(page, headers)


@router.get(
    "/v1/games/{game_id}",
    operation_id="get_game",
    summary="One game in its present state",
    response_class=Response,
    responses={200: {**json_of(Game), "description": "The game."}, **problems(404, 409, 422, 503)},
)
async def get_game(
    request: Request, game_id: GameId, min_seq: MinSeq = None, tensor: WithTensor = True, moves: WithMoves = True
) -> Response:
    """Return a game: its row, and the Game with its position.

    A live game is told from its log, at once after a move. The row of any other is that of the projection `games`; with
    `min_seq`, once that has come so far, or 503 after a while.
    """
    found = services(request)
    check_world_name(game_id)
    try:
        game = await game_of(found, game_id)
    except GameNotFoundError:
        game = None
    if game is not None and min_seq is not None:
        await reach(found, game, "min_seq", min_seq)
    if game is not None and game.live is not None:
        shown = game_row(game)
    else:
        await wait_for(found, _GAMES, game_id, min_seq)
        shown = dict(as_told(_GAMES, await _game(found, game_id)))
    shown |= NOTHING if game is None else told(game, tensor=tensor, moves=moves)
    return _json(shown, {"Cache-Control": REVALIDATE})


@router.get(
    "/v1/games/{game_id}/moves",
    operation_id="list_moves",
    summary="The moves of a game",
    response_class=Response,
    responses={
        200: {**json_of(MovePage), "description": "A page of moves.", "headers": _NEXT},
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
    """Return a page of a game's moves in order, as the projection `moves` has them; `min_seq` as for the game.

    Of a fork the moves of before are told, too: their `world_id` is the ancestor's, in whose log `global_seq` stands.
    """
    found = services(request)
    await wait_for(found, _MOVES, check_world_name(game_id), min_seq)
    wanted = _wanted(found, limit)
    rows = await viewed(found, lambda: ReadModels(found.store.reader).moves(game_id, after=after_ply, limit=wanted + 1))
    if not rows:
        await _game(found, game_id)  # is there such a game?
    shown = [as_told(_MOVES, row) for row in rows[:wanted]]
    position = shown[-1]["ply"] if len(rows) > wanted else None
    headers = {"Cache-Control": REVALIDATE, **({} if position is None else next_link(request, after_ply=position))}
    return _json({"game_id": game_id, "moves": shown, "next_after_ply": position}, headers)


@router.get(
    "/v1/games/{game_id}/board.svg",
    operation_id="get_board",
    summary="A game's board as a picture",
    response_class=Response,
    responses={
        200: {
            "description": "The board; the last move and a check are marked.",
            "content": {"image/svg+xml": {"schema": {"type": "string"}}},
            "headers": {"ETag": header("Of what is to be seen.")},
        },
        304: {"description": "The picture is the one that If-None-Match names; nothing was drawn."},
        **problems(404, 422, 503),
    },
)
async def get_board(
    request: Request,
    game_id: GameId,
    ply: Annotated[
        int | None,
        whole(0),
        Query(ge=0, le=MAX_INT, description="After so many moves; the present position if absent."),
    ] = None,
) -> Response:
    """Return the board as SVG, seen from White's side: now, or after a number of moves."""
    game = await game_of(services(request), game_id)
    board = game.board if ply is None else board_at(game, ply)
    if board is None:
        what = f"ply: the board of game {game_id!r} after move {ply} is not there"
        raise MomentNotFoundError(what, world_id=game_id, head_seq=game.seq)
    last = board.peek() if board.move_stack else None
    check = board.king(board.turn) if board.is_check() else None
    seen = f"{board.board_fen()} {last} {check} {chess.__version__}"
    headers = {"ETag": f'"{sha256(seen.encode()).hexdigest()[:32]}"', "Cache-Control": REVALIDATE}
    unchanged = not_modified(request, headers)
    if unchanged is not None:
        return unchanged
    drawn = await asyncio.to_thread(chess.svg.board, board, lastmove=last or None, check=check)
    return Response(str(drawn), 200, headers, "image/svg+xml")


async def _game(found: Services, game_id: str) -> Row:
    """Return a game's row. Raises GameNotFoundError or ProjectionBehindError."""
    for _ in range(2):  # it may come between a look and the check
        row = await viewed(found, lambda: ReadModels(found.store.reader).game(game_id))
        if row is not None:
            return row
        await check_game(found, _GAMES, game_id)
    raise GameNotFoundError(f"no game {game_id!r} in the projection", game_id=game_id)


def _wanted(found: Services, limit: int | None) -> int:
    return min(_DEFAULT if limit is None else limit, found.settings.page_limit)


def _json(value: Any, headers: dict[str, str]) -> Response:
    return Response(to_json(value), 200, headers, "application/json")


# -- agents: who acts in the worlds, and how they did in games ------------------------------------------------


@router.get(
    "/v1/agents",
    operation_id="list_agents",
    summary="Agents by name",
    response_class=Response,
    responses={
        200: {
            **json_of(AgentPage),
            "description": "A page of agents.",
            "headers": {"Link": header('`rel="next"`: the next page, if there is one.')},
        },
        **problems(422, 503),
    },
)
async def list_agents(
    request: Request,
    after: Annotated[Text, Query(max_length=MAX_WORD, description="Agents whose names come after this.")] = "",
    limit: Limit = None,
) -> Response:
    """Return a page of agents, sorted by name: the sources of effects in all worlds, and chess players."""
    found = services(request)
    wanted = _wanted(found, limit)
    rows = await viewed(found, lambda: ReadModels(found.store.reader).agents(after=after, limit=wanted + 1))
    shown = rows[:wanted]
    position = shown[-1]["agent_id"] if len(rows) > wanted else None
    headers = {"Cache-Control": REVALIDATE, **({} if position is None else next_link(request, after=position))}
    return Response(to_json({"agents": shown, "next_after": position}), 200, headers, "application/json")


@router.get(
    "/v1/agents/{agent_id:path}/stats",
    operation_id="get_agent_stats",
    summary="An agent's results in its games",
    response_class=Response,
    responses={200: {**json_of(AgentStats), "description": "The totals over all games."}, **problems(404, 422, 503)},
)
async def get_agent_stats(
    request: Request,
    agent_id: Annotated[
        str,
        AfterValidator(word),
        Path(
            description="The agent's id, percent-encoded where it has characters that a path cannot.",
            json_schema_extra={"minLength": 1, "maxLength": MAX_WORD, **NO_NUL},
        ),
    ],
    experiment: Annotated[
        Text | None,
        Query(min_length=1, max_length=200, description="Games of this experiment only."),
    ] = None,
) -> Response:
    """Return an agent's AgentStats: a game counts once it has ended, and who played none has zeros.

    They are over all worlds, or those of an experiment: a game that was imported into two experiments is two worlds.
    """
    found = services(request)
    models = ReadModels(found.store.reader)
    stats = await viewed(found, lambda: models.agent_stats(agent_id, experiment=experiment))
    if stats is None:
        alike = await viewed(found, lambda: models.near_agents(agent_id))
        more = {"near": alike} if alike else {}
        what = f"no agent {agent_id!r} has acted in any world{meant(alike)}"
        raise AgentNotFoundError(what, agent_id=agent_id, **more)
    return Response(to_json(stats), 200, {"Cache-Control": REVALIDATE}, "application/json")
