"""MoveMade: its fields, each with what it holds, and the payload of a move that was made.

`FIELDS` is the one table of them: the rules' check, the projection ``moves`` with its published columns, and the docs
are made from it. The entity Move (`worldledger_chess.rules.entities`) has types and rules of its own, and from it come
what watchers are told and the shape in the OpenAPI document. The numbered SQL of ``analytics/`` never changes once it
has been applied, so it is written out.

To add a field: a line in `FIELDS`, a higher ``version`` in ``projections/moves.py`` if it has a column, and ``make
docs``. That is all for what only a recorder knows (a text, a time or an object, null where unknown): payloads and
rows are made from the line. Where more is wanted:

- filled with anything but null: `payload_of` here, or its ``fact``;
- checked where it is stated: ``_CHECKED`` and `check_move_made` in ``rules.py`` (facts are checked by themselves);
- read from PGN, and written: ``movetext.py``, ``writing.py``;
- sent by the players of live games: MoveRequest in ``api/shapes.py``, ``api/live_games.py``, ``arena/moving.py``;
- part of a Move: ``entities.py``;
- in the view ``move_made``: one more numbered SQL file in ``analytics/``.

Source of the names: docs/reference/contracts.md, "Chess".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import chess

from worldledger_chess.rules.notation import Made, fen_of, push

#: Types as PostgreSQL names them.
Type: TypeAlias = Literal["text", "bigint", "double precision", "boolean", "timestamptz", "json"]

_PIECES: Final = {"N": "knight", "B": "bishop", "R": "rook", "Q": "queen", "K": "king"}
_PROMOTED: Final = {symbol.lower(): piece for symbol, piece in _PIECES.items()}
_CASTLING: Final = frozenset({"O-O", "0-0", "o-o"})  # only the first is python-chess's
_NULL: Final = "0000"


class Field(NamedTuple):
    """A field of MoveMade.

    - ``type``, ``nullable``: of its value; a text that is a ``timestamptz`` is in ISO 8601.
    - ``says``: what it holds.
    - ``fact``: what the two notations (UCI, SAN as python-chess writes it) tell of it; None where they do not.
    - ``has_column``: whether the projection ``moves`` has a column for it; ``published`` is the column's name in
      analytics where that is another, such as one with its unit.
    """

    name: str
    type: Type
    says: str
    nullable: bool = False
    fact: Callable[[str, str], Any] | None = None
    has_column: bool = True
    published: str | None = None


def _from_square(uci: str, san: str) -> str | None:
    return None if uci == _NULL or uci[1] == "@" else uci[:2]


def _to_square(uci: str, san: str) -> str | None:
    return None if uci == _NULL else uci[2:4]


def _piece(uci: str, san: str) -> str | None:
    return None if uci == _NULL else "king" if san[:3] in _CASTLING else _PIECES.get(san[0], "pawn")


def _promotion(uci: str, san: str) -> str | None:
    return _PROMOTED[uci[4]] if len(uci) == 5 else None


#: In the order of the projection's columns.
FIELDS: Final = (
    Field("ply", "bigint", "The number of the move in the game: 1 is the first, by either player."),
    Field("player", "text", "Who moved: white or black."),
    Field("agent_id", "text", "The agent that plays that colour."),
    Field(
        "from_square",
        "text",
        "Like e2; null for a null move, and for a piece dropped from the hand.",
        True,
        _from_square,
    ),
    Field("to_square", "text", "Like e4; null for a null move.", True, _to_square),
    Field("piece", "text", "pawn, knight, bishop, rook, queen or king; null for a null move.", True, _piece),
    Field("is_capture", "boolean", "Whether a piece was taken, en passant included.", fact=lambda _, san: "x" in san),
    Field("is_castling", "boolean", "Whether it was castling.", fact=lambda _, san: san[:3] in _CASTLING),
    Field("is_promotion", "boolean", "Whether a pawn became another piece.", fact=lambda uci, _: len(uci) == 5),
    Field("promotion_piece", "text", "What the pawn became; null where there was no promotion.", True, _promotion),
    Field(
        "is_null",
        "boolean",
        "Whether it is no move at all (`--` in PGN), which recorded games may have.",
        fact=lambda uci, _: uci == _NULL,
        has_column=False,
    ),
    Field("uci_notation", "text", "The move as in UCI: e2e4, e7e8q, N@f3; 0000 is a null move."),
    Field("san_notation", "text", "The move in algebraic notation: e4, Nf3, O-O, exd5; -- is a null move."),
    Field(
        "timestamp",
        "timestamptz",
        "When it was made, where the effect tells it; UTC without an offset.",
        True,
        published="made_at",
    ),
    Field(
        "thinking_time",
        "double precision",
        "Seconds that the move took; null where unknown.",
        True,
        published="thinking_time_s",
    ),
    Field(
        "clock",
        "double precision",
        "Seconds left on the player's clock after it; null where unknown.",
        True,
        published="clock_s",
    ),
    Field("evaluation", "json", "The position's worth for white, as recorded: {cp | mate, depth}; null: none.", True),
    Field("comment", "text", "The recorder's comment; null where there is none.", True),
    Field(
        "commands", "json", "PGN commands in its comments that have no field of their own, verbatim.", has_column=False
    ),
    Field("nags", "json", "The numbers of its annotations (NAGs).", has_column=False),
    Field("variations", "bigint", "How many sidelines to it were left out.", has_column=False),
    Field("fen", "text", "The position after the move."),
)
_FACTS: Final = {field.name: field.fact for field in FIELDS if field.fact is not None}
#: What a MoveMade may state about its move, and must not misstate. In this order, the notations first, it is compared.
FACTS: Final = ("ply", "uci_notation", "san_notation", *_FACTS, "fen")
#: What only the recorder of a move knows.
_UNKNOWN: Final = dict.fromkeys(field.name for field in FIELDS if field.nullable and field.fact is None)


@lru_cache(maxsize=16_384)
def facts_of(uci: str, san: str) -> Mapping[str, Any]:
    """Return what the notations of a move tell of it. The mapping is shared, and not to be changed."""
    return {name: fact(uci, san) for name, fact in _FACTS.items()}


def play_move(board: chess.Board, move: chess.Move, *, ply: int, agent_id: str) -> dict[str, Any]:
    """Push a legal move (or a null move) on the board and return its payload, see `payload_of`."""
    player = "white" if board.turn else "black"
    made = push(board, move)
    return payload_of(made, fen_of(board), ply=ply, player=player, agent_id=agent_id)


def payload_of(made: Made, fen: str, *, ply: int, player: str, agent_id: str) -> dict[str, Any]:
    """Return the payload of a move that was made; what only its recorder knows is null or empty."""
    uci, san = made
    return {
        "ply": ply,
        "player": player,
        "agent_id": agent_id,
        "uci_notation": uci,
        "san_notation": san,
        **facts_of(uci, san),
        **_UNKNOWN,
        "commands": [],
        "nags": [],
        "variations": 0,
        "fen": fen,
    }


def move_number(payload: Mapping[str, Any]) -> int | None:
    """Return the number of the move that a half-move belongs to, as records count: 1 has White's first and the reply.

    None for a payload that does not say it. (``fen`` is the position afterwards, and Black's moves raise its number.)
    """
    fen, player = payload.get("fen"), payload.get("player")
    number = fen.rpartition(" ")[2] if isinstance(fen, str) else ""
    return int(number) - (player == "black") if number.isdecimal() and len(number) < 10 else None
