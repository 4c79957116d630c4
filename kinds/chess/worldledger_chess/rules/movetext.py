"""Play one game's moves through: PGN's movetext in, the payloads of its main line out; python-chess knows the rules.

Sidelines are counted and left out. Nothing is guessed: a word that is neither a move nor another part of PGN makes
the game one that cannot be taken (python-chess's own reader skips such words).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import chess

from worldledger_chess.rules.clocks import Period, Stopwatch, read_comment
from worldledger_chess.rules.endings import (
    Player,
    is_illegal_move_text,
    is_remark,
    spaced_result,
    standard_result,
)
from worldledger_chess.rules.line import Line
from worldledger_chess.rules.moves import payload_of
from worldledger_chess.rules.notation import fen_of, push
from worldledger_chess.rules.tags import MAX_WARNINGS, GameFaultError

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
# Signs that people write for numeric glyphs, and words that say nothing more than the move does.
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
#: What a result of several words begins with, and what its later words do.
_RESULT_SIGNS: Final = "01½-–—−:"  # noqa: RUF001 - dashes of all kinds


class Playthrough:
    """The main line of one game.

    ``moves`` holds MoveMade payloads, each as ``keep`` gives it; ``movers`` whose they are; ``times`` the milliseconds
    each took, None where unknown; ``fen`` the last position; ``tokens`` what the game's digest is made over: the
    movetext without numbers and white space.
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
        self.result: str | None = None  # what stands behind the moves, as written
        self._keep = keep
        self._last: dict[str, Any] | None = None  # the last move, of which comments may follow
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
        self._bracketed = False  # whether a bracket stands behind move numbers: ``3) Nf3``

    def play(self, text: str, start: int, first_line: int) -> None:
        """Play ``text`` from ``start``; ``first_line`` is the file's line that the text begins at.

        Raises GameFaultError, naming the line, for a move that is illegal, ambiguous or no move at all.
        """
        text = text.rstrip()  # so that every blank is followed by a token, and the scan is linear
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
        """Take a word of the main line; False where the rest of the text is a result outside the standard."""
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
        """Tell whether ``0-0`` is the end of the game, and no castling."""
        if _COMMENTS_ONLY.match(self._text, said.end()) is None:
            return False
        try:
            self.board.parse_san(said[0])
        except ValueError:
            return True
        return False

    def end_with(self, text: str) -> None:
        """Take a result outside PGN's four, such as ``Illegal move by Somebody``, as it stands."""
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
        """Write what the comments behind the last move said into it."""
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
        """Take ``3)``: a move number, or the end of a sideline with a stray number in front of it."""
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
    """Read a move; beyond python-chess ``o-o``, ``Pe4``, ``e5:d6``, ``exd6e.p.``, ``Qh5++``, ``a8/Q`` and ``a8(Q)``."""
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
