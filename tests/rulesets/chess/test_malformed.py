"""Effects of a chess world that cannot be read: counted, and nothing more."""

from __future__ import annotations

from typing import Any

import chess

from tests.cases import cases
from tests.rulesets.counting import malformed

from .worlds import Table, draft, effects, folded, moved, started

ENDED = draft("GameEnded", {"status": "draw", "result": "draw"})
REJECTED = draft("MoveRejected", {})


@cases(
    "before, bad",
    [
        ([], moved("e2e4")),
        ([], REJECTED),
        ([], ENDED),
        ([started(), ENDED], moved("e2e4")),
        ([started(), ENDED], REJECTED),
        ([started(), ENDED], ENDED),
        ([], draft("GameStarted", {})),
        ([], draft("GameStarted", {"white": "ana"})),
        ([], draft("GameStarted", {"agents": {"white": "ana"}})),
        ([], draft("GameStarted", {"agents": {"white": "ana", "black": "b" * 201}})),
        ([], draft("GameStarted", {"agents": ["ana", "bo"]})),
        ([], started(variant="Go")),
        ([], started(variant=["standard"])),
        ([], started(initial_fen="")),
        ([], started(initial_fen="8/8/8/8/8/8/8/8/8 w - - 0 1")),
        ([], started(initial_fen=f"{chess.STARTING_BOARD_FEN} w KQkq - 0 1{'0' * 30}")),
        ([], started(initial_fen=7)),
        ([started()], moved("e2e5")),
        ([started()], moved("e2e4", player="black")),
        ([started()], moved("e2e4", player=["white"])),
        ([started()], moved("e2e4", ply=2)),
        ([started()], moved("e2e4", san_notation="e3")),
        ([started()], moved("e2e4", san_notation="e4", fen=chess.STARTING_FEN)),
        ([started()], moved("e2e4", fen="garbage")),
        ([started()], moved("e2e4", thinking_time=-1)),
        ([started()], moved("e2e4", thinking_time=1e300)),
        ([started()], moved("e2e4", clock=True)),
        ([started()], moved("e" * 10_000)),
        ([started()], draft("MoveMade", {"uci_notation": None})),
        ([started()], draft("MoveMade", {"san_notation": "Nd2"})),
        ([started()], draft("MoveRejected", {"player": "green"})),
        ([started()], draft("MoveRejected", {"reason": 1})),
        ([started()], draft("GameEnded", {})),
        ([started()], draft("GameEnded", {"status": "in_progress", "result": "draw"})),
        ([started()], draft("GameEnded", {"status": "draw", "result": None})),
        ([started()], draft("GameEnded", {"status": "draw", "result": "draw", "reason": "boredom"})),
        ([started()], draft("GameEnded", {"status": ["draw"], "result": {}})),
    ],
)
def test_what_cannot_be_read_is_counted_and_changes_nothing(before: list[Any], bad: Any) -> None:
    """Such an effect leaves the entities as they were."""
    good = folded(before)
    state = folded([*before, bad])
    assert (malformed(good), malformed(state)) == (0, 1)
    assert state.entities == good.entities


def test_a_position_that_the_log_left_unplayable_makes_the_next_move_malformed() -> None:
    """A stated FEN is taken at its word, even if python-chess can do nothing with it."""
    odd = moved("e2e4", san_notation="e4", fen="xxxxxxxx/8/8/8/8/8/8/8 b - - 0 1")
    state = folded([started(), odd, moved("e7e5")])
    assert malformed(state) == 1
    world = Table(started())
    world.fold.apply(effects([started(), odd])[1])
    assert world.refused("MoveMade", {"uci_notation": "e7e5"}).details["rule"] == "invalid_position"
