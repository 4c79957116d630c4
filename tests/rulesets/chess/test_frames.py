"""Frames of games of chess."""

from __future__ import annotations

from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_chess.rules import RULESET

from tests.frames import SIZES, check
from tests.projections.chess.logs import chess_logs
from worldledger.effects import Effect


@SIZES
@settings(max_examples=40, deadline=None)
@given(chess_logs(), st.integers(0, 5))
def test_frames_of_a_game_are_its_states(large: int, log: list[Effect], start: int) -> None:
    """Games of chess, with whatever else was imported."""
    with mock.patch("worldledger.frames._LARGE", large):
        check(log, RULESET, start)
