"""A game as projections follow it: what counts is what counts in the fold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from worldledger_chess.projections import play as module
from worldledger_chess.projections.play import Play
from worldledger_chess.rules import RULESET
from worldledger_projections.base import Projection
from worldledger_projections.registry import known

from tests.projections.chess.logs import effects_of, moved, started
from tests.projections.playing import play
from worldledger.folding import Fold

_FENS = (
    "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1",
    "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq e6 0 2",
    "8/8 b - - 0 1",
    "8/8 w - - 0 1",
    "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR[] b KQkq - 0 1",
    "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1\n",
    "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1 more",
)
_AT_A_GLANCE = st.sampled_from(sorted(module._FEN)).flatmap(lambda color: st.from_regex(module._FEN[color]))
_WHOLE = st.fixed_dictionaries(
    {
        "ply": st.integers(1, 4) | st.sampled_from([True, 1.0, "1", None]),
        "player": st.sampled_from(["white", "black"]) | st.sampled_from([None, "both", 1, []]),
        "thinking_time": st.none() | st.sampled_from([0.5, 3, 1e9, 1e9 + 1, -1.0, True, "1"]),
        "clock": st.none() | st.sampled_from([0.5, 3, 1e10, -0.5, {}]),
        "uci_notation": st.sampled_from(["e2e4", "e7e5", "e7e8q", "N@f3", "0000", "e2e4\n", "e2", 5, None])
        | st.from_regex(module._UCI),
        "san_notation": st.sampled_from(["e4", "e4+", "e4#", "", "x" * 10, "x" * 11, "x" * 16, "x" * 17, 5, None]),
        "fen": st.sampled_from(_FENS) | _AT_A_GLANCE | st.none(),
    }
)


@given(
    st.lists(_WHOLE | st.sampled_from([{"uci_notation": "e7e5"}, {"san_notation": "Nf3"}, {}]), max_size=5),
    st.sampled_from(["standard", "atomic"]),
)
@example([{"uci_notation": "e2e4"}, {"uci_notation": "e7e5", "thinking_time": 3}], "standard")
def test_a_move_counts_where_it_counts_in_the_fold(payloads: list[dict[str, Any]], variant: str) -> None:
    """Whatever stands in the payloads, both come to the same position by the same move."""
    drafts = [started(variant=variant), *({"kind": "MoveMade", "payload": payload} for payload in payloads)]
    genesis, start, *moves = effects_of(drafts)
    folded = Fold("w", RULESET)
    folded.apply(genesis)
    folded.apply(start)
    played = Play()
    played.start(start["payload"])
    for effect in moves:
        before = folded.state.entities["board"]["ply"]
        folded.apply(effect)
        board = folded.state.entities["board"]
        assert played.move(effect) == (board["ply"] == before + 1)
        assert (played.fen, played.turn, played.ply) == (board["fen"], board["turn"], board["ply"])
        if played.ply == before + 1:
            last = board["last_move"]
            assert (played.uci, played.san) == (last["uci_notation"], last["san_notation"])
            assert (played.mover, played.thinking_time is None) == (
                last["player"],
                effect["payload"].get("thinking_time") is None,
            )
        assert _same(played, Play.of(folded.state))


def _same(one: Play, other: Play) -> bool:
    names = ("variant", "orthodox", "fen", "turn", "ply", "status")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def test_a_whole_move_is_not_put_to_the_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the reader of recorded games writes is taken at a glance."""
    monkeypatch.setattr(module, "move_made", None)
    played = Play()
    assert played.start(started()["payload"]) is not None
    payload = {
        "ply": 1,
        "player": "white",
        "thinking_time": 1.5,
        "clock": 178.5,
        "uci_notation": "e2e4",
        "san_notation": "e4",
        "fen": _FENS[0],
    }
    assert played.move(effects_of([{"kind": "MoveMade", "payload": payload}])[1])
    assert (played.ply, played.thinking_time, played.clock) == (1, 1.5, 178.5)


def test_games_that_read_one_payload_judge_it_each_for_itself() -> None:
    """A move that counts in one game counts in another only where it fits there."""
    (effect,) = effects_of([moved("e2e4")])[1:]
    games = [Play() for _ in range(3)]
    for game in games[:2]:
        assert game.start(started()["payload"]) is not None
    assert [game.move(effect) for game in games] == [True, True, False]
    assert [game.move(effect) for game in games] == [False, False, False]
    assert [game.ply for game in games] == [1, 1, 0]


def test_nothing_counts_before_there_is_a_game() -> None:
    """And a game is there from the first start on that can be read."""
    played = Play()
    move = effects_of([{"kind": "MoveMade", "payload": {"uci_notation": "e2e4"}}])[1]
    assert (played.move(move), played.reject({}), played.end({"status": "draw", "result": "draw"})) == (
        False,
        None,
        None,
    )
    assert played.start({"white": "Ann"}) is None
    assert played.start(started()["payload"]) is not None
    assert played.start(started(white="Eve")["payload"]) is None


@pytest.mark.parametrize(
    "projection", [known()["moves"], known()["agent_stats"]], ids=lambda projection: projection.name
)
def test_a_second_start_counts_for_nothing(projection: Projection) -> None:
    """One world is one game, whether the projection saw its start or begins from the state."""
    log = effects_of([started(), moved("e2e4"), started(white="Eve"), moved("e7e5")])
    rows = play(projection, log, RULESET)
    assert all(play(projection, log, RULESET, [(cut, True)]) == rows for cut in range(1, len(log)))
