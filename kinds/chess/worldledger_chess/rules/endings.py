"""How a game ended: a recorded one, in the terms of a Game, from its Result, Termination and position; and a live one.

Source: docs/reference/contracts.md, "Chess". ``status``: in_progress, checkmate, stalemate, draw, resigned, timeout.
``result``: white_wins, black_wins, draw or None. ``reason`` is more precise; see `Reason`.

The record counts: a result that contradicts the board stays as recorded, with a warning. Only if the record says
nothing (no result, or ``*``) does the board decide. ``0-0``, a game that both players lose, is not a result of a Game:
the game counts as unfinished, with a warning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

import chess

Status = Literal["in_progress", "checkmate", "stalemate", "draw", "resigned", "timeout"]
Result = Literal["white_wins", "black_wins", "draw"]
Reason = Literal[
    "checkmate",
    "stalemate",
    "insufficient_material",
    "fifty_moves",  # by claim or, after 75 moves, by itself
    "threefold_repetition",  # by claim or, the fifth time, by itself
    "agreement",
    "resignation",
    "timeout",
    "illegal_move",
    "abandoned",
    "adjudication",
    "rules_infraction",
    "variant_end",  # a variant's own way to win, lose or draw
    "unknown",
]

Player = Literal["white", "black"]

WINS: Final[dict[Player, Result]] = {"white": "white_wins", "black": "black_wins"}
OTHER: Final[dict[Player, Player]] = {"white": "black", "black": "white"}

#: A longer Result is not a result.
MAX_RESULT: Final = 1000

_RESULTS: Final[dict[str, Result | None]] = {
    "1-0": "white_wins",
    "0-1": "black_wins",
    "1/2-1/2": "draw",
    "1/2": "draw",
    "½-½": "draw",
    "½": "draw",
    "*": None,
}
#: Results in PGN's notation: of several the first one.
MARKERS: Final[dict[str, str]] = {result: marker for marker, result in reversed(_RESULTS.items()) if result is not None}
_DASHES: Final = str.maketrans("–—−:", "----")  # noqa: RUF001 - en dash, em dash and minus are meant
_BETWEEN: Final = r"\s*[-–—−:]\s*"  # noqa: RUF001
_PLAIN: Final = rf"1/2{_BETWEEN}1/2|½{_BETWEEN}½|1{_BETWEEN}0|0{_BETWEEN}1"
_SPACED: Final = re.compile(rf"(?<!\S)(?:{_PLAIN}|0{_BETWEEN}0)(?![^\s;{{}}()])")
_WORDED: Final = re.compile(rf"\s*(?P<result>{_PLAIN})(?=[\s,;(])(?P<words>.*)\Z", re.DOTALL)
_BOTH_LOST: Final = re.compile(rf"\s*0{_BETWEEN}0(?![\d-])")
# Words after a result, none of which can be a move.
_REMARK: Final = re.compile(r"[A-Za-z'(),.:/\s-]+\Z")
_FORFEIT: Final = re.compile(r"forfeit|forfait|default|walk\s?over|\bw/o\b|no\s?show", re.IGNORECASE)
_ILLEGAL: Final = re.compile(
    r"\s*illegal\s+move\b(?:\s+(?:attempt|attempted|made|played))?"
    r"\s*(?:\((?P<one>[^()]*)\)|:?\s*(?P<two>(?=\S*\d|[O0]-)\S+))?(?:\s+by\s+(?P<who>.+?))?\s*\Z",
    re.IGNORECASE | re.DOTALL,
)
_BY: Final = re.compile(r"\bby\s+(?P<who>.+?)\s*\Z", re.IGNORECASE | re.DOTALL)
_SUBJECT: Final = re.compile(
    r"\s*(?P<who>.+?)\s+(?:resign|forfeit|abandon|time|loses|lost|ran\b|disconnect)", re.IGNORECASE | re.DOTALL
)
# The first match counts, so the more specific ones come first.
_REASON_WORDS: Final[tuple[tuple[str, Reason], ...]] = (
    (r"insufficient", "insufficient_material"),
    (r"repetition|threefold|fivefold", "threefold_repetition"),
    (r"\b(?:50|75|fifty|seventy)", "fifty_moves"),
    (r"stalemate", "stalemate"),
    (r"checkmate", "checkmate"),
    (r"illegal", "illegal_move"),
    (r"infraction|violation", "rules_infraction"),
    (r"resign", "resignation"),
    (r"abandon|disconnect|emergency|death", "abandoned"),
    (r"adjudicat", "adjudication"),
    (r"agree", "agreement"),
    (r"time|on the clock", "timeout"),
)
_REASONS: Final = [(re.compile(words, re.IGNORECASE), reason) for words, reason in _REASON_WORDS]
_BOARD_REASONS: Final[dict[chess.Termination, Reason]] = {
    chess.Termination.CHECKMATE: "checkmate",
    chess.Termination.STALEMATE: "stalemate",
    chess.Termination.INSUFFICIENT_MATERIAL: "insufficient_material",
    chess.Termination.SEVENTYFIVE_MOVES: "fifty_moves",
    chess.Termination.FIVEFOLD_REPETITION: "threefold_repetition",
}
_OF_THE_BOARD: Final = frozenset({"checkmate", "stalemate"})
_OF_A_DRAW: Final = frozenset({"insufficient_material", "threefold_repetition", "fifty_moves", "agreement"})
_OF_A_LOSER: Final = frozenset({"illegal_move", "resignation", "timeout", "abandoned", "rules_infraction"})


@dataclass(frozen=True)
class Rejected:
    """The illegal move that ended a game: the player, and its text if it was recorded."""

    player: Player
    attempted: str | None


@dataclass
class Ending:
    """The end of a game; ``in_progress`` with neither result nor reason if it did not end."""

    status: Status = "in_progress"
    result: Result | None = None
    reason: Reason | None = None
    rejected: Rejected | None = None
    warnings: list[str] = field(default_factory=list)


def standard_result(text: str) -> str | None:
    """Return the key of a result in PGN's own words (blanks and dashes of any kind allowed), else None."""
    if text in _RESULTS:
        return text
    key = "".join(text.split()).translate(_DASHES) if len(text) <= 40 else ""
    return key if key in _RESULTS else None


def spaced_result(text: str, at: int) -> re.Match[str] | None:
    """Find the result, such as ``1 - 0`` or ``0 : 0``, that the word at ``at`` is a part of."""
    found = _SPACED.finditer(text, max(0, at - 8), at + 16)
    return next((match for match in found if match.start() <= at < match.end()), None)


def is_remark(text: str) -> bool:
    """Return whether a text after a result explains it: ``forfeit``, ``White wins on time``."""
    if len(text) > MAX_RESULT or _REMARK.match(text) is None:
        return False
    return _FORFEIT.search(text) is not None or _reason_in(text) is not None


def is_remarked_result(text: str) -> bool:
    """Return whether a text is a result in PGN's own notation followed by a remark, such as ``1-0 forfeit``."""
    match = _WORDED.match(text) if len(text) <= MAX_RESULT else None
    return match is not None and is_remark(match["words"].strip())


def raw_result_of(tag: str | None, said: str | None) -> str | None:
    """Return the result that counts, verbatim: the tag's, else the one after the moves.

    ``*`` in the tag gives way to the result after the moves.
    """
    return said if tag is None or (said is not None and standard_result(tag) == "*") else tag


def is_illegal_move_text(text: str) -> bool:
    """Return whether a text is a Result such as ``Illegal move (h2h4) by Somebody``."""
    return len(text) <= MAX_RESULT and _ILLEGAL.match(text) is not None


def ending_of(
    board: chess.Board, *, tag: str | None, said: str | None, termination: str, players: dict[Player, str]
) -> Ending:
    """Determine the ending.

    ``tag`` is the Result tag (None if missing or ``?``), ``said`` the result after the moves (None if missing),
    ``players`` the names of white and black. The tag takes precedence over the result after the moves, unless it is
    ``*``.
    """
    ending = Ending()
    recorded = _recorded(board, tag, said, players, ending)
    outcome = board.outcome()
    if recorded is None:
        if outcome is not None:
            ending.warnings.append("the record gives no result, but the game is over by the rules")
            end_by_the_board(outcome, ending)
        elif tag is None and said is None:
            ending.warnings.append("there is no result; the game counts as unfinished")
        return ending
    result, told = recorded
    ending.result = result
    if told is None:
        told = _reason_in(termination)
        if told == "illegal_move" and result != "draw":
            ending.rejected = Rejected("black" if result == "white_wins" else "white", _attempted(termination))
    if outcome is not None:
        if result == _result_of(outcome) and told != "illegal_move":
            end_by_the_board(outcome, ending)
            return ending
        ending.warnings.append(
            f"recorded is {result} ({told or 'no reason'}), but by the board it was {_result_of(outcome)} already"
        )
    if result == "draw":
        _drawn(board, told, termination, ending)
    else:
        _decided(told, termination, ending)
    return ending


def _recorded(
    board: chess.Board, tag: str | None, said: str | None, players: dict[Player, str], ending: Ending
) -> tuple[Result, Reason | None] | None:
    """Return the recorded result and the reason in its own words; None for a missing or unreadable result."""
    texts = [text for text in dict.fromkeys((tag, said)) if text is not None and len(text) <= MAX_RESULT]
    keys = [_key_of(text) for text in texts]
    illegal = next((text for text in texts if is_illegal_move_text(text)), None)
    if illegal is not None and _is_overruled(board, illegal, keys, players):
        ending.warnings.append(f"{_short(illegal)} is recorded, which names neither player, and another result too")
        texts.remove(illegal)
    elif illegal is not None:
        result = _illegal(board, illegal, players, ending)
        if any(key is not None and _RESULTS[key] not in {None, result} for key in keys):
            ending.warnings.append(f"{_short(illegal)} is recorded, and another result too")
        return result, "illegal_move"
    if len(keys) == 2 and None not in keys and _RESULTS[keys[0] or "*"] != _RESULTS[keys[1] or "*"]:
        ending.warnings.append(f"the Result tag says {texts[0]} and the text behind the moves {texts[1]}")
    for text in texts:
        key = standard_result(text)
        if key is not None and (found := _RESULTS[key]) is not None:
            remarks = (told for other in texts if (told := _with_remark(other)) is not None)
            return found, next((reason for result, reason in remarks if result == found), None)
        told = _in_words(text, players)
        if told is not None:
            return told
        if _BOTH_LOST.match(text):
            what = "both players lost, which is none of the results; the game counts as unfinished"
            ending.warnings.append(f"{_short(text)}: {what}")
            return None
        if key is None:
            ending.warnings.append(f"the result {_short(text)} cannot be read")
    return None


def _with_remark(text: str) -> tuple[Result, Reason | None] | None:
    """Read a result in PGN's own notation that is followed by an explanation."""
    match = _WORDED.match(text)
    result = None if match is None else _RESULTS[standard_result(match["result"]) or "*"]
    return None if match is None or result is None else (result, _reason_in(match["words"]))


def _key_of(text: str) -> str | None:
    """Return the key of a result in PGN's own words, whatever words follow."""
    worded = _WORDED.match(text)
    return standard_result(text if worded is None else worded["result"])


def _is_overruled(board: chess.Board, illegal: str, keys: list[str | None], players: dict[Player, str]) -> bool:
    """Return whether a plain result contradicts an illegal move of an unknown player."""
    match = _ILLEGAL.match(illegal)
    if match is None or _player_named(match["who"], players) is not None:
        return False
    by_turn = WINS["black" if board.turn else "white"]
    return any(key is not None and _RESULTS[key] not in {None, by_turn} for key in keys)


def _illegal(board: chess.Board, text: str, players: dict[Player, str], ending: Ending) -> Result:
    match = _ILLEGAL.match(text)
    who = match["who"] if match else None
    to_move: Player = "white" if board.turn else "black"
    player = _player_named(who, players) or to_move
    if player != to_move:
        ending.warnings.append(f"the illegal move is {player}'s, but it was {to_move}'s turn")
    ending.rejected = Rejected(player, _attempted(text))
    return WINS[OTHER[player]]


def _attempted(text: str) -> str | None:
    match = _ILLEGAL.match(text)
    return ((match["one"] or match["two"] or "").strip() or None) if match else None


def _in_words(text: str, players: dict[Player, str]) -> tuple[Result, Reason | None] | None:
    """Read a result such as ``Draw by agreement``, ``White wins`` or ``Somebody resigned``."""
    remarked = _with_remark(text)
    if remarked is not None:
        return remarked
    reason = _reason_in(text)
    if re.match(r"\s*(?:game\s+)?draw", text, re.IGNORECASE) or reason in _OF_A_DRAW or reason == "stalemate":
        return "draw", reason
    won = re.match(r"\s*(?P<who>.+?)\s+(?:wins|won|checkmates)\b", text, re.IGNORECASE | re.DOTALL)
    winner = _player_named(won["who"], players) if won else None
    if winner is not None:
        return WINS[winner], reason
    lost = _SUBJECT.match(text) or _BY.search(text)
    loser = _player_named(lost["who"], players) if lost and reason in _OF_A_LOSER else None
    return None if loser is None else (WINS[OTHER[loser]], reason)


def _player_named(who: str | None, players: dict[Player, str]) -> Player | None:
    """Find a player by name, or by colour; None if both or none are meant."""
    wanted = " ".join((who or "").split()).casefold()
    names = {color: " ".join(name.split()).casefold() for color, name in players.items()}
    white, black = wanted == names["white"], wanted == names["black"]
    if white == black:
        white, black = wanted == "white", wanted == "black"
    return "white" if white and not black else "black" if black and not white else None


def _reason_in(text: str) -> Reason | None:
    return next((reason for pattern, reason in _REASONS if pattern.search(text)), None)


def _result_of(outcome: chess.Outcome) -> Result:
    return "draw" if outcome.winner is None else WINS["white" if outcome.winner else "black"]


def end_by_the_board(outcome: chess.Outcome, ending: Ending) -> None:
    """Set the ending to the one that the rules of the game determine."""
    ending.result = _result_of(outcome)
    ending.reason = _BOARD_REASONS.get(outcome.termination, "variant_end")
    if outcome.termination is chess.Termination.STALEMATE:
        # In some variants stalemate wins: then it is not a draw, but still has no legal moves.
        ending.status = "stalemate"
    elif ending.result == "draw":
        ending.status = "draw"
    else:
        ending.status = "checkmate"


def _drawn(board: chess.Board, told: Reason | None, termination: str, ending: Ending) -> None:
    ending.status = "draw"
    if told in _OF_THE_BOARD:
        ending.warnings.append(f"a draw by {told} is recorded, but it is not on the board")
        told = None
    if told is None and board.halfmove_clock >= 100:
        told = "fifty_moves"
    if told is None and board.is_repetition(3):
        told = "threefold_repetition"
    if told is None and termination.strip().lower() == "normal":
        told = "agreement"
    ending.reason = told or "unknown"


def _decided(told: Reason | None, termination: str, ending: Ending) -> None:
    if told in _OF_THE_BOARD or told in _OF_A_DRAW:
        ending.warnings.append(f"a win by {told} is recorded, but it is not on the board")
        told = None
    elif told is None and termination.strip().lower() == "normal":
        told = "resignation"
    ending.status = "timeout" if told == "timeout" else "resigned"
    ending.reason = told or "unknown"


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


# -- how a live game ends: by the board, by resignation, by the clock -------------------------------------


#: Half-moves without a capture or a move of a pawn after which a draw is claimed.
_FIFTY_MOVES: Final = 100


def automatic_end(board: chess.Board) -> Ending | None:
    """Return how the rules end the game on this board; None while it goes on.

    The board must have its moves (`worldledger_chess.rules.board.replayed`): they decide about repetition. Checkmate,
    stalemate, insufficient material, seventy-five moves and fivefold repetition end a game by themselves; fifty moves
    and threefold repetition, which a player may claim, are claimed at once. A draw that needs the next move is not
    claimed.
    """
    outcome = board.outcome()
    ending = Ending()
    if outcome is not None:
        end_by_the_board(outcome, ending)
        return ending
    reason: Reason | None = None
    if board.halfmove_clock >= _FIFTY_MOVES:
        reason = "fifty_moves"
    elif board.is_repetition(3):
        reason = "threefold_repetition"
    return None if reason is None else Ending("draw", "draw", reason)


def resignation(loser: Player, reason: Reason = "resignation") -> Ending:
    """Return the end of a game that a player gives up.

    ``reason``: resignation, or what counts as one: illegal_move, abandoned, adjudication, rules_infraction, unknown.
    """
    return Ending("resigned", WINS[OTHER[loser]], reason)


def timed_out(board: chess.Board, loser: Player) -> Ending:
    """Return the end of a game in which a player's time has run out.

    The other side wins, unless it lacks the material to checkmate in any way: then it is a draw, with the status
    ``draw`` and the reason ``timeout``.
    """
    if board.has_insufficient_material(loser == "black"):
        return Ending("draw", "draw", "timeout")
    return Ending("timeout", WINS[OTHER[loser]], "timeout")
