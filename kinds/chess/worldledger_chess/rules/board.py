"""BoardState: one position of standard chess or Chess960, for agents and networks.

Source: docs/reference/contracts.md, "Chess".

There are two flavours of FEN, which differ in one field. Here it is the full one: it always has the square that a pawn
has just passed over (``e3`` after e2e4), as the standards of PGN and FEN say; python-chess writes it with
``board.fen(en_passant="fen")``. The log's FENs have that square only if such a capture is legal, as python-chess writes
by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Self, TypeAlias

import chess
import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from worldledger_chess.rules.positions import (
    MAX_FEN,
    MAX_HALFMOVE_CLOCK,
    UCI,
    check_position,
    is_uci,
    read_fen,
    replayed,
)
from worldledger_chess.rules.state import board_of

__all__ = ["BoardState", "board_of", "is_uci", "read_fen", "replayed", "tensor_of"]

TENSOR_SHAPE: Final = (8, 8, 12)

UciMove: TypeAlias = Annotated[str, Field(pattern=UCI)]
_Sorted: TypeAlias = Annotated[list[UciMove], AfterValidator(sorted)]


def tensor_of(board: chess.Board) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the position as zeros and ones, uint8 of the shape (8, 8, 12).

    Rows are ranks from the eighth down, columns files from a on, channels pawn, knight, bishop, rook, queen and king
    of White, then of Black: a white pawn on e2 is ``tensor[6, 4, 0] == 1``.
    """
    tensor = np.zeros(TENSOR_SHAPE, dtype=np.uint8)
    for square, piece in board.piece_map().items():
        channel = piece.piece_type - 1 + (0 if piece.color else 6)
        tensor[7 - chess.square_rank(square), chess.square_file(square), channel] = 1
    return tensor


def _read_tensor(value: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Take an array of uint8, or nested lists of whole numbers."""
    if isinstance(value, np.ndarray):
        if value.dtype != np.uint8:
            raise ValueError(f"board_tensor is of uint8, not of {value.dtype}")
        array = value
    else:
        try:
            array = np.asarray(value)
        except ValueError:
            raise ValueError(f"board_tensor has the shape {TENSOR_SHAPE}") from None
    if array.shape != TENSOR_SHAPE:
        raise ValueError(f"board_tensor has the shape {TENSOR_SHAPE}, not {array.shape}")
    if array.dtype.kind not in "iu" or array.min() < 0 or array.max() > 1:
        raise ValueError("board_tensor has a 1 where the channel's piece stands, and 0 elsewhere")
    tensor = array.astype(np.uint8)
    tensor.setflags(write=False)
    return tensor


def _tensor_schema() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": 1}
    for size in reversed(TENSOR_SHAPE):
        schema = {"type": "array", "minItems": size, "maxItems": size, "items": schema}
    return schema | {"description": "uint8; rows: ranks 8 to 1; columns: files a to h; channels: PNBRQKpnbrqk"}


BoardTensor: TypeAlias = Annotated[
    np.ndarray[Any, np.dtype[np.uint8]],
    PlainValidator(_read_tensor),
    PlainSerializer(lambda tensor: tensor.tolist(), when_used="json"),
    WithJsonSchema(_tensor_schema()),
]


class BoardState(BaseModel):  # noqa: PLW1641 - it has no hash, as a list has none
    """A position. One that exists holds: every field says what its ``fen`` says.

    - ``fen``: in the full flavour (see the module); of a position that can be played: one king a colour, the side
      that is not to move not in check. ``board_tensor``: see `tensor_of`; read-only, nested lists in JSON.
    - ``legal_moves``: in UCI, sorted; empty where the rules leave none. In Chess960 castling goes to the rook's square.
    - ``is_check``, ``is_checkmate``, ``is_stalemate``: of the side to move.
    - ``castling_rights``: of ``KQkq``, empty for none; in Chess960 an inner rook has its file's letter (X-FEN).
    - ``en_passant_square``: the one that a pawn has just passed over, whether or not somebody can capture there.
    - ``halfmove_clock``: since the last capture or move of a pawn, 0 to 150 (at 100 a draw can be
      claimed; by itself a game ends after seventy-five moves of both). ``fullmove_number``: from 1 on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    fen: str = Field(max_length=MAX_FEN)
    board_tensor: BoardTensor
    legal_moves: _Sorted
    is_check: bool
    is_checkmate: bool
    is_stalemate: bool
    castling_rights: str = Field(pattern=r"^[A-HKQa-hkq]{0,4}$")
    en_passant_square: str | None = Field(default=None, pattern=r"^[a-h][36]$")
    halfmove_clock: int = Field(ge=0, le=MAX_HALFMOVE_CLOCK)
    fullmove_number: int = Field(ge=1)

    @model_validator(mode="after")
    def _says_what_the_fen_says(self) -> Self:
        if self.is_checkmate and not self.is_check:
            raise ValueError("is_checkmate without is_check")
        if self.is_stalemate and self.is_check:
            raise ValueError("is_stalemate with is_check")
        board = read_fen(self.fen)
        wrong = self._wrong(board)
        if wrong is not None:
            # Only castling is written differently in Chess960 and standard chess.
            other = read_fen(self.fen, chess960=True)
            if self._wrong(other) is not None:
                raise ValueError(f"{wrong} is not that of the FEN {self.fen}")
        return self

    def _wrong(self, board: chess.Board) -> str | None:
        for name, fact in _facts(board).items():
            given = getattr(self, name)
            if not (np.array_equal(given, fact) if name == "board_tensor" else given == fact):
                return name
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BoardState):
            return NotImplemented
        # The tensor follows from the FEN, and arrays have no single truth value.
        return self.fen == other.fen and self.legal_moves == other.legal_moves

    @classmethod
    def from_board(cls, board: chess.Board) -> BoardState:
        """Make it from python-chess's board, with which it shares nothing.

        Raises ValueError for a board of a variant, and for an unplayable position (see `read_fen`).
        """
        if type(board) is not chess.Board:
            raise ValueError(f"a BoardState is of standard chess or Chess960, not of {board.uci_variant}")
        check_position(board)
        facts = _facts(board)
        facts["board_tensor"].setflags(write=False)
        return cls.model_construct(**facts)

    @classmethod
    def from_fen(cls, fen: str, chess960: bool = False) -> BoardState:
        """Make it from a FEN in either flavour. Raises ValueError for an unplayable position."""
        return cls.from_board(read_fen(fen, chess960=chess960))

    @classmethod
    def of(cls, entities: Mapping[str, Any]) -> BoardState:
        """Make it from a chess world's entities (`worldledger_chess.rules.state`).

        Raises ValueError if no game has started, if the game is another variant, and if its record has led to an
        unplayable position.
        """
        return cls.from_board(board_of(entities))


def _facts(board: chess.Board) -> dict[str, Any]:
    """Return the fields of a position."""
    moves = sorted(board.uci(move) for move in board.legal_moves)
    fen = board.fen(en_passant="fen")
    is_check = board.is_check()
    castling = fen.split(" ")[2]
    return {
        "fen": fen,
        "board_tensor": tensor_of(board),
        "legal_moves": moves,
        "is_check": is_check,
        "is_checkmate": is_check and not moves,
        "is_stalemate": not is_check and not moves,
        "castling_rights": "" if castling == "-" else castling,
        "en_passant_square": None if board.ep_square is None else chess.square_name(board.ep_square),
        "halfmove_clock": board.halfmove_clock,
        "fullmove_number": board.fullmove_number,
    }
