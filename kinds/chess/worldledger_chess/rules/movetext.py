"""Playing one game's moves: PGN's movetext in, the payloads of its main line out, by python-chess's rules.

Sidelines are counted and left out. Nothing is guessed: with a word that is neither a move nor another part of PGN the
game is refused (python-chess's own reader skips such words).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Self

import chess

from worldledger_chess.rules.clocks import Period, Stopwatch, read_comment
from worldledger_chess.rules.endings import Player, is_illegal_move_text, is_remark, spaced_result, standard_result
from worldledger_chess.rules.moves import payload_of
from worldledger_chess.rules.notation import (
    RANKS,
    Made,
    checkers,
    fen_of,
    is_plain,
    movers,
    planes,
    push,
    ranks_of,
    san_without_suffix,
)
from worldledger_chess.rules.tags import MAX_WARNINGS, GameFaultError

# -- lines: games of standard chess or Chess960 that are read move by move ----------------------------------------
#
# A line is python-chess's board, which knows the rules, with a short way for plain moves: a pawn or the only piece of
# its type that reaches a square goes there, without castling, promotion or en passant. These are nine moves of ten, in
# less than half the time. All others are made by python-chess, on the same board.

#: Most words that are cached.
_MOST_WORDS: Final = 65_536
_PLAIN: Final = re.compile(r"([NBRQK]?)([a-h]?)([1-8]?)x?([a-h][1-8])[+#]?\Z")


class _Word(NamedTuple):
    """The piece, the squares that it may come from, and its target."""

    piece: chess.PieceType
    squares: int
    target: chess.Square


class _Words(dict[str, _Word | None]):
    """The meanings of words for moves; None for those that are not plain."""

    def __missing__(self, text: str) -> _Word | None:
        if len(self) >= _MOST_WORDS:
            self.clear()
        match = _PLAIN.match(text)
        word = None
        if match is not None:
            letter, file, rank, square = match.groups()
            squares = chess.BB_ALL
            if file:
                squares &= chess.BB_FILES[chess.FILE_NAMES.index(file)]
            if rank:
                squares &= chess.BB_RANKS[int(rank) - 1]
            target = chess.parse_square(square)
            if letter:
                word = _Word(chess.PIECE_SYMBOLS.index(letter.lower()), squares, target)
            elif not rank and 0 < chess.square_rank(target) < 7:
                word = _Word(chess.PAWN, squares, target)
        self[text] = word
        return word


_WORDS: Final = _Words()

#: The squares from which a rook, a bishop or a queen attacks a square on an empty board.
_LINES: Final = [
    chess.BB_RANK_ATTACKS[square][0] | chess.BB_FILE_ATTACKS[square][0] | chess.BB_DIAG_ATTACKS[square][0]
    for square in chess.SQUARES
]
#: The squares from which a piece of each type attacks a square; a king gives no check.
_ATTACKS: Final[list[list[int]]] = [
    [0] * 64,
    [chess.BB_PAWN_ATTACKS[chess.WHITE][square] | chess.BB_PAWN_ATTACKS[chess.BLACK][square] for square in range(64)],
    chess.BB_KNIGHT_ATTACKS,
    [chess.BB_DIAG_ATTACKS[square][0] for square in range(64)],
    [chess.BB_RANK_ATTACKS[square][0] | chess.BB_FILE_ATTACKS[square][0] for square in range(64)],
    _LINES,
    [0] * 64,
]


class Line(chess.Board):
    """The position of a game and the FENs of all positions so far, this one last. Plain moves cannot be taken back."""

    fens: list[str]
    _ranks: list[str]
    _in_check: bool

    @classmethod
    def of(cls, board: chess.Board) -> Self | None:
        """Begin at the position of a board; None for a variant's, and if the side that is not to move is in check."""
        if not is_plain(board) or board.was_into_check():
            return None
        line = cls(None, chess960=board.chess960)
        line.pawns, line.knights, line.bishops = board.pawns, board.knights, board.bishops
        line.rooks, line.queens, line.kings = board.rooks, board.queens, board.kings
        line.occupied, line.promoted = board.occupied, board.promoted
        line.occupied_co[:] = board.occupied_co
        line.turn, line.ep_square = board.turn, board.ep_square
        line.halfmove_clock, line.fullmove_number = board.halfmove_clock, board.fullmove_number
        line.castling_rights = board.clean_castling_rights()
        line._ranks = ranks_of(line)
        line._in_check = line.is_check()
        line.fens = [fen_of(line, line._ranks)]
        return line

    def clean_castling_rights(self) -> chess.Bitboard:
        """Return the castling rights, which were cleaned at the beginning."""
        return self.castling_rights

    def is_repetition(self, count: int = 3) -> bool:
        """Return whether the position, with castling rights and en passant captures, occurs for the n-th time."""
        position = self.fens[-1].rsplit(" ", 2)[0] + " "
        return sum(fen.startswith(position) for fen in self.fens) >= count

    def pushed(self, made: Made) -> None:
        """Note a move that was made by python-chess itself."""
        self._in_check = made.san[-1] in "+#"
        self._ranks = ranks_of(self)
        self.fens.append(fen_of(self, self._ranks))

    def play(self, san: str) -> Made | None:
        """Play a plain, legal move; None for any other text, and then nothing has changed."""
        word = _WORDS[san]
        if word is None:
            return None
        piece, squares, target = word
        turn = self.turn
        to = chess.BB_SQUARES[target]
        if to & (self.occupied_co[turn] | self.kings):
            return None
        is_capture = self.occupied & to != 0
        if piece == chess.PAWN:
            mover = self._pawns(squares, target, is_capture=is_capture)
        else:
            mover = movers(self, piece, target)
        if not mover or mover & (mover - 1) or not mover & squares:
            return None  # no piece, or several of which all but one may be pinned
        origin = mover.bit_length() - 1
        if not self._is_safe_after(piece, mover, to):
            return None
        self._put(piece, mover, to, is_capture=is_capture)
        if piece == chess.PAWN and abs(target - origin) == 16:
            self.ep_square = (target + origin) // 2
        san = san_without_suffix(piece, origin, target, is_capture=is_capture)
        king = (self.kings & self.occupied_co[not turn]).bit_length() - 1
        may_check = to & _ATTACKS[piece][king] or mover & _LINES[king]  # otherwise it opens or attacks no line to it
        self._in_check = may_check != 0 and checkers(self, turn) != 0
        if self._in_check:
            san += "+" if any(self.generate_legal_moves()) else "#"
        one, two, three, white = planes(self)
        for shift in {origin & 56, target & 56}:
            rank = one >> shift & 255, two >> shift & 255, three >> shift & 255, white >> shift & 255
            self._ranks[7 - (shift >> 3)] = RANKS[rank]
        self.fens.append(fen_of(self, self._ranks))
        return Made(chess.SQUARE_NAMES[origin] + chess.SQUARE_NAMES[target], san)

    def _pawns(self, squares: int, target: chess.Square, *, is_capture: bool) -> int:
        """Return the pawns that reach a square; by a capture if their file is given, and only then."""
        turn = self.turn
        pawns = self.pawns & self.occupied_co[turn]
        if squares != chess.BB_ALL:
            return pawns & squares & chess.BB_PAWN_ATTACKS[not turn][target] if is_capture else 0
        if is_capture:
            return 0
        step = -8 if turn else 8
        near = chess.BB_SQUARES[target + step]
        if self.occupied & near:
            return pawns & near
        return pawns & chess.BB_SQUARES[target + 2 * step] if target >> 3 == (3 if turn else 4) else 0

    def _is_safe_after(self, piece: chess.PieceType, mover: int, to: int) -> bool:
        """Return whether the king of the side to move is not in check after a piece has moved."""
        king = to if piece == chess.KING else self.kings & self.occupied_co[self.turn]
        square = king.bit_length() - 1
        if square < 0:
            return False
        if piece != chess.KING and not self._in_check:
            line = chess.BB_RAYS[square][mover.bit_length() - 1]  # empty if the two are not on one line
            if not line & self.occupied_co[not self.turn] & (self.bishops | self.rooks | self.queens):
                return True
        return not self.attackers_mask(not self.turn, square, self.occupied & ~mover | to) & ~to

    def _put(self, piece: chess.PieceType, mover: int, to: int, *, is_capture: bool) -> None:
        """Apply a plain move as python-chess's ``push`` does."""
        turn = self.turn
        both = mover | to
        if is_capture:
            keep = ~to
            self.occupied_co[not turn] &= keep
            self.pawns &= keep
            self.knights &= keep
            self.bishops &= keep
            self.rooks &= keep
            self.queens &= keep
        if piece == chess.PAWN:
            self.pawns ^= both
        elif piece == chess.KNIGHT:
            self.knights ^= both
        elif piece == chess.BISHOP:
            self.bishops ^= both
        elif piece == chess.ROOK:
            self.rooks ^= both
        elif piece == chess.QUEEN:
            self.queens ^= both
        else:
            self.kings ^= both
        if self.castling_rights:
            self.castling_rights &= ~both
            if piece == chess.KING:
                self.castling_rights &= ~(chess.BB_RANK_1 if turn else chess.BB_RANK_8)
        if self.promoted:
            self.promoted = self.promoted & ~both | (to if self.promoted & mover else 0)
        self.occupied_co[turn] ^= both
        self.occupied = self.occupied & ~mover | to
        self.ep_square = None
        self.halfmove_clock = 0 if is_capture or piece == chess.PAWN else self.halfmove_clock + 1
        self.fullmove_number += not turn
        self.turn = not turn


_TOKEN: Final = re.compile(
    r"""\s*+(?:
        (?P<number>\d+(?=[\s.…)]|\Z)(?:\s*[.…]+|\))?|[.…]+(?=\s|\Z))
      | (?P<escape>(?<![^\n])%[^\n]*)
      | (?P<comment>\{[^}]*\}|;[^\n]*)
      | (?P<nag>\$\d+|[!?]+)
      | (?P<open>\()
      | (?P<close>\))
      | (?P<word>(?:[a-h][1-8]?[-x:]?)?[a-h][18]\([NBRQnbrq]\)|[^\s(){};$!?]+)
      | (?P<bad>\S)
    )""",
    re.VERBOSE,
)
_KINDS: Final = ("", *_TOKEN.groupindex)
# Signs used for numeric glyphs, and words that add nothing to the move.
_SIGNS: Final = {"!": 1, "?": 2, "!!": 3, "??": 4, "!?": 5, "?!": 6}
_GLYPHS: Final[dict[str, int | None]] = {
    **dict.fromkeys(("e.p.", "ep", "+", "++", "#", "ch", "mate")),
    **dict.fromkeys(("+=", "+/=", "⩲"), 14),
    **dict.fromkeys(("=+", "=/+", "⩱"), 15),
    **dict.fromkeys(("+/-", "±"), 16),
    **dict.fromkeys(("-/+", "∓"), 17),
    "□": 7,
    "=": 10,
    "∞": 13,
    "+-": 18,
    "-+": 19,
    "N": 146,
    "D": 220,
}
_MAX_NAG: Final = 255
_EN_PASSANT: Final = re.compile(r"e\.?p\.?\Z")
_PROMOTION: Final = re.compile(r"(?<=[18])(?:/|\()([NBRQnbrq])\)?\Z")
_MOVE_NEXT: Final = re.compile(r"\s*[A-Za-z]")
_COMMENTS_ONLY: Final = re.compile(r"(?:\s++|\{[^}]*+\}|;[^\n]*+)*+\Z")
#: The beginning of a result of several words, and its later words.
_RESULT_SIGNS: Final = "01½-–—−:"  # noqa: RUF001 - dashes of all kinds


class Playthrough:
    """The main line of one game.

    ``moves`` holds MoveMade payloads, each as ``keep`` returns it; ``movers`` their players; ``times`` the milliseconds
    that each took, None if unknown; ``fen`` the last position; ``tokens`` the input of the game's digest: the movetext
    without numbers and white space.
    """

    def __init__(
        self,
        board: chess.Board,
        agents: dict[Player, str],
        periods: list[Period],
        *,
        max_plies: int,
        keep: Callable[[dict[str, Any]], Any] = lambda move: move,
    ) -> None:
        self._line = Line.of(board)
        self.board = board if self._line is None else self._line
        self.fen = fen_of(board)
        self.moves: list[Any] = []
        self.movers: list[str] = []
        self.times: list[int | None] = []
        self.tokens: list[str] = []
        self.warnings: list[str] = []
        self.opening_comments: list[str] = []  # verbatim, commands included
        self.variations = 0
        self.result: str | None = None  # the text after the moves, verbatim
        self._keep = keep
        self._last: dict[str, Any] | None = None  # the last move, which comments may follow
        self._agents = agents
        self._watches = (Stopwatch(periods), Stopwatch(periods))
        self._max_plies = max_plies
        self._comments: list[str] = []
        self._clock: int | None = None
        self._elapsed: int | None = None
        self._depth = 0
        self._opened_at = 0
        self._text = ""
        self._first_line = 1
        self._misnumbered = False
        self._bracketed = False  # whether move numbers have a bracket: ``3) Nf3``

    def play(self, text: str, start: int, first_line: int) -> None:
        """Play ``text`` from ``start``; ``first_line`` is the file's line that the text begins at.

        Raises GameFaultError, naming the line, for a move that is illegal, ambiguous or not a move at all.
        """
        text = text.rstrip()  # so every blank is followed by a token, and the scan is linear
        self._text, self._first_line = text, first_line
        for match in _TOKEN.finditer(text, start):
            group = match.lastindex or 0
            kind, at, token = _KINDS[group], match.start(group), match[group]
            if kind == "word":
                if self._depth:
                    self._sidelines_word(token)
                elif not self._word(token, at):
                    break
            elif kind == "number":
                if token[-1] == ")":
                    self._bracketed_number(token, at)
                elif not self._depth and token[0].isdigit():
                    self._check_number(token, at)
            elif kind == "comment":
                self._comment(token, at)
            elif kind == "nag":
                self._nag(token, at)
            elif kind in {"open", "close"}:
                self._bracket(token, at)
            elif kind == "bad":
                raise GameFaultError(f"line {self._line_at(at)}: {token!r} does not belong in the moves")
        if self._depth:
            raise GameFaultError(f"the sideline that line {self._line_at(self._opened_at)} opens is never closed")
        self._finish_move()

    def _line_at(self, at: int) -> int:
        return self._first_line + self._text.count("\n", 0, at)

    def _warn(self, at: int | None, text: str) -> None:
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(text if at is None else f"line {self._line_at(at)}: {text}")

    def _word(self, token: str, at: int) -> bool:
        """Read a word of the main line; False if the rest of the text is a result outside the standard."""
        if token in _GLYPHS:
            glyph = _GLYPHS[token]
            if glyph is not None:
                self._add_nag(glyph)
            return True
        result = standard_result(token) if token[0] in "01½*" else None
        if token[0] in _RESULT_SIGNS and (result is None or result in {"1/2", "½"}):
            spaced = spaced_result(self._text, at)
            if spaced is not None and spaced[0] == self.result:
                return True  # the rest of a result that was read
            if spaced is not None:
                token, result = spaced[0], standard_result(spaced[0])
                if result is None and self._both_lost(spaced):
                    result = "0-0"
        if result is not None:
            self.tokens.append(result)
            if self.result is not None and standard_result(self.result) != result:
                raise GameFaultError(f"line {self._line_at(at)}: a second result, {token!r}, in one game")
            self.result = token
            return True
        if self.result is None and token[0] in "iI" and self._is_illegal_move(token, at):
            self.end_with(self._text[at:])
            return False
        if self.result is not None and is_remark(self._text[at:]):
            said = self.result
            if self.tokens[-1] == standard_result(said):
                del self.tokens[-1]
            self.end_with(f"{said} {self._text[at:]}")
            return False
        if self.result is not None:
            raise GameFaultError(f"line {self._line_at(at)}: {token!r} stands behind the result {self.result}")
        self._move(token, at)
        return True

    def _is_illegal_move(self, token: str, at: int) -> bool:
        return token.lower() == "illegal" and is_illegal_move_text(self._text[at:])

    def _both_lost(self, said: re.Match[str]) -> bool:
        """Return whether ``0-0`` is the end of the game, and not castling."""
        if _COMMENTS_ONLY.match(self._text, said.end()) is None:
            return False
        try:
            self.board.parse_san(said[0])
        except ValueError:
            return True
        return False

    def end_with(self, text: str) -> None:
        """Set a result outside PGN's four, such as ``Illegal move by Somebody``, verbatim."""
        self.result = text.strip()
        self.tokens.append(" ".join(text.split()))

    def _move(self, token: str, at: int) -> None:
        board, line = self.board, self._line
        turn = board.turn
        made = None if line is None else line.play(token)
        if made is None:
            made = push(board, self._parsed(token, at))
            if line is not None:
                line.pushed(made)
        self.fen = fen_of(board) if line is None else line.fens[-1]
        self._finish_move()
        if len(self.moves) >= self._max_plies:
            raise GameFaultError(f"line {self._line_at(at)}: the game has more than {self._max_plies} plies")
        self.tokens.append(token)
        player: Player = "white" if turn else "black"
        agent = self._agents[player]
        self._last = payload_of(made, self.fen, ply=len(self.moves) + 1, player=player, agent_id=agent)
        self.movers.append(agent)

    def _parsed(self, token: str, at: int) -> chess.Move:
        board = self.board
        try:
            return _parse(board, token)
        except ValueError as error:
            number = f"{board.fullmove_number}{'.' if board.turn else '...'}"
            if isinstance(error, chess.IllegalMoveError):
                why = f"is not legal in {board.fen()}"
            elif isinstance(error, chess.AmbiguousMoveError):
                why = f"is ambiguous in {board.fen()}"
            else:
                why = "cannot be read as a move"
            shown = token if len(token) <= 40 else token[:37] + "..."
            raise GameFaultError(f"line {self._line_at(at)}: move {number} {shown!r} {why}") from None

    def _finish_move(self) -> None:
        """Add the content of the comments after the last move to it."""
        move = self._last
        if move is None:
            return
        watch = self._watches[len(self.movers) & 1]
        took, contradiction = watch.spent(self._clock, self._elapsed)
        if contradiction:
            self._warn(None, f"ply {move['ply']}: the clock went up; thinking_time is unknown")
        self.times.append(took)
        if took is not None:
            move["thinking_time"] = took / 1000
        if self._clock is not None:
            move["clock"] = self._clock / 1000
        if self._comments:
            move["comment"] = " ".join(self._comments)
            self._comments = []
        self._clock = self._elapsed = None
        self.moves.append(self._keep(move))
        self._last = None

    def _comment(self, token: str, at: int) -> None:
        body = token[1:-1] if token[0] == "{" else token[1:]
        self.tokens.append("{" + " ".join(body.split()))
        if self._depth:
            return
        move = self._last
        if move is None:
            self.opening_comments.append(body.strip())
            return
        said = read_comment(body)
        if said.text:
            self._comments.append(said.text)
        if said.unread:
            self._warn(at, f"{said.unread[0][:40]!r} cannot be read")
        move["commands"].extend(said.others)
        if said.evaluation is not None:
            move["evaluation"] = said.evaluation
        self._clock = self._clock if said.clock is None else said.clock
        self._elapsed = self._elapsed if said.elapsed is None else said.elapsed

    def _nag(self, token: str, at: int) -> None:
        if token[0] == "$":
            number = int(token[1:]) if len(token) <= 4 else _MAX_NAG + 1
        else:
            number = _SIGNS.get(token, _MAX_NAG + 1)
        if self._depth:
            self.tokens.append(token)
        elif number <= _MAX_NAG:
            self._add_nag(number)
        else:
            self._warn(at, f"there is no glyph {token[:12]!r}")

    def _add_nag(self, number: int) -> None:
        self.tokens.append(f"${number}")
        if self._last is not None:
            self._last["nags"].append(number)

    def _bracket(self, token: str, at: int) -> None:
        if token == "(":
            if self._depth == 0:
                self._opened_at = at
                if self._last is not None:
                    self._last["variations"] += 1
            self._depth += 1
            self.variations += 1
        elif self._depth:
            self._depth -= 1
        else:
            self._warn(at, "a ')' closes nothing")
            return
        self.tokens.append(token)

    def _sidelines_word(self, token: str) -> None:
        if token[-1] == ")":  # a promotion: the digest has its parts
            self.tokens += (token[:-3], "(", token[-2], ")")
        else:
            self.tokens.append(token)

    def _bracketed_number(self, token: str, at: int) -> None:
        """Read ``3)``: a move number, or the end of a sideline with a stray number in front of it."""
        if not self._depth:
            self._bracketed = True
            self._check_number(token, at)
        elif not (self._bracketed and _MOVE_NEXT.match(self._text, at + len(token))):
            self.tokens.append(token[:-1])
            self._bracket(")", at + len(token) - 1)

    def _check_number(self, token: str, at: int) -> None:
        digits = token.rstrip(".…) \t\n")
        wanted = self.board.fullmove_number
        if self._misnumbered or self.result is not None or digits == str(wanted):
            return
        if digits in {"0", "1"} and spaced_result(self._text, at) is not None:
            return
        self._misnumbered = True
        self._warn(at, f"move number {digits[:12]} where {wanted} comes next")


def _parse(board: chess.Board, token: str) -> chess.Move:
    """Read a move, also ``o-o``, ``Pe4``, ``e5:d6``, ``exd6e.p.``, ``Qh5++``, ``a8/Q`` and ``a8(Q)``."""
    try:
        move = board.parse_san(token)
    except chess.InvalidMoveError:
        text = _PROMOTION.sub(r"=\1", _EN_PASSANT.sub("", token.rstrip("+#")).replace(":", "x"))
        if text.lower() in {"o-o", "o-o-o"}:
            text = text.upper()
        if len(text) > 2 and text[0] == "P" and text[1] in "abcdefgh":
            text = text[1:]
        move = board.parse_san(text)
    if not move and board.is_check():
        raise chess.IllegalMoveError("a null move in check")
    return move
