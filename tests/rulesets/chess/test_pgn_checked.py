"""Drafts that are asked for checked: what the check of drafts makes of them, and no more games than are wanted."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from worldledger_chess.rules.pgn import BrokenGame, RecordedGame, read_games

from tests.cases import cases
from worldledger.drafts import check_draft
from worldledger.errors import InvalidEffectError

GAMES = Path(__file__).resolve().parents[3] / "examples" / "games"
ODD = """
[Event "Ünïcode \0 and \\"quotes\\""]
[White "A"]
[Black "B"]
[TimeControl "60+1"]

{before} 1. e4 {[%clk 0:00:59.5] [%eval 0.3,12] null -0.0 {} e5 $1 (1... c5) {[%clk 0:00:58] [%csl Ra1]}
2. Bc4 a6 3. Qh5 a5 4. Qxf7# 1-0
"""


@cases("place", [*sorted(GAMES.glob("*.pgn")), None], ids=lambda place: place and place.name)
def test_checked_drafts(place: Path | None) -> None:
    """They are those that `check_draft` gives of the drafts, byte for byte."""
    data = ODD.encode() if place is None else place.read_bytes()
    plain, checked = (list(read_games(io.BytesIO(data), name="f", checked=checked)) for checked in (False, True))
    assert plain
    for one, other in zip(plain, checked, strict=True):
        assert isinstance(one, RecordedGame)
        assert isinstance(other, RecordedGame)
        assert [*other.checked] == [check_draft(draft) for draft in one.drafts]
        assert (len(one.checked), other.drafts) == (0, [])
        assert (one.final_fen, one.digest, one.moves) == (other.final_fen, other.digest, other.moves)


def test_a_draft_that_is_refused() -> None:
    """A game of somebody who has the service's own name is a broken one, for the reason that its draft is refused."""
    data = b'[White "worldledger"]\n[Black "B"]\n\n1. e4 e5 *\n'
    ((plain,), (checked,)) = (list(read_games(io.BytesIO(data), name="f", checked=how)) for how in (False, True))
    assert isinstance(plain, RecordedGame)
    with pytest.raises(InvalidEffectError) as caught:
        check_draft(plain.drafts[1])
    assert checked == BrokenGame(1, 1, caught.value.at(1).message)


@pytest.mark.parametrize("checked", [False, True])
def test_a_draft_that_would_be_too_large(checked: bool) -> None:
    """A game with a comment that no effect can hold is broken, whichever drafts are wanted."""
    data = b'[White "A"]\n\n1. e4 {' + b"x" * 70_000 + b"} e5 *\n"
    (game,) = read_games(io.BytesIO(data), name="f", max_effect_bytes=65_536, checked=checked)
    assert game == BrokenGame(1, 1, "ply 1 with its comment would make an effect of more than 65536 bytes")


def test_only_wanted_games_are_read() -> None:
    """Games that are not wanted are passed over, and the others keep their numbers and lines."""
    data = b'[Event "x"]\n\n1. e4 *\n\n' * 5
    games = list(read_games(io.BytesIO(data), name="f", wanted=lambda number: number % 2 == 0))
    assert [(game.index, game.line) for game in games] == [(2, 5), (4, 13)]
