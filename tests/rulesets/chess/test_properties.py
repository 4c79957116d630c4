"""What holds for every chess world: the fold is total, handlers tell the truth, what the rules take can be folded."""

from __future__ import annotations

import random
from typing import Any

import chess
import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worldledger_chess.rules import RULESET
from worldledger_chess.rules.endings import Ending, end_by_the_board
from worldledger_chess.rules.moves import play_move
from worldledger_chess.rules.positions import VARIANTS, position

from tests.rulesets.counting import malformed
from worldledger.drafts import check_draft
from worldledger.errors import IllegalEffectError
from worldledger.folding import Fold
from worldledger.world import WorldState

from .worlds import AGENTS, Table, draft, effects, folded, rows

FENS = [
    chess.STARTING_FEN,
    "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1",
    "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1",
    "8/8/8/8/8/8/8/8 w - - 0 1",
    "8/8/8/8/8/8/8/8 b - - 0 999999999999999",
    "PPPPPPPP/8/8/8/8/8/8/pppppppp w KQkq e3 0 1",
    "QQQQQQQQ/QQQQQQQQ/8/8/8/8/8/kkkkkkkk b - e3 0 1",
    "4k3/P7/8/8/8/8/8/R3K2R w KQ - 99 1",
    "4k3/8/8/8/8/8/8/4K3[QQqqPP] b - - 0 1",
    "4k3/8/8/8/8/8/8/4K3 w - - 1+0 0 1",
    "xxxxxxxx/8/8/8/8/8/8/8 b - - 0 1",
    "8/8 w - - 0 1",
    "w",
    "",
]
MOVES = [
    "e2e4",
    "e7e5",
    "a7a8q",
    "a7a8",
    "e1g1",
    "0000",
    "N@e4",
    "e4",
    "e5",
    "Nf3",
    "O-O",
    "a8=Q+",
    "--",
    "Kd2",
    "",
    "?",
]
WORDS = [
    "white",
    "black",
    "standard",
    "draw",
    "white_wins",
    "checkmate",
    "resigned",
    "illegal_move",
    "ana",
    "bo",
    *VARIANTS,
]
FIELDS = [
    "agents", "white", "black", "variant", "initial_fen", "uci_notation", "san_notation", "fen", "player", "agent_id",
    "ply", "thinking_time", "clock", "is_null", "is_capture", "reason", "status", "result", "final_fen", "plies",
]  # fmt: skip

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.sampled_from([0, 1, 2, 0.0, 0.5, 1e9, 1e300, -1])
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: number != 0)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
    | st.sampled_from([*FENS, *MOVES, *WORDS])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3),
    max_leaves=5,
)
likely: dict[str, st.SearchStrategy[Any]] = {
    "agents": st.just(AGENTS["agents"]),
    "initial_fen": st.sampled_from(FENS),
    "fen": st.sampled_from(FENS),
    "variant": st.sampled_from(list(VARIANTS)),
    "uci_notation": st.sampled_from(MOVES),
    "san_notation": st.sampled_from(MOVES),
    "player": st.sampled_from(["white", "black"]),
    "is_null": st.booleans(),
    "status": st.sampled_from(["draw", "resigned", "checkmate"]),
    "result": st.sampled_from(["draw", "white_wins"]),
}
payloads = st.fixed_dictionaries({}, optional=likely) | st.fixed_dictionaries(
    {}, optional={name: likely.get(name, values) | values for name in FIELDS}
)
kinds = st.sampled_from(["GameStarted", "MoveMade", "MoveMade", "MoveMade", "MoveRejected", "GameEnded", "Weather"])
drafts = st.builds(draft, kinds, payloads, st.sampled_from(["ana", "bo", "arena"]))
beginnings = st.sampled_from(
    [[]] + [[draft("GameStarted", {**AGENTS, "variant": variant})] for variant in ("standard", "crazyhouse", "atomic")]
)


def mutables(value: Any) -> list[int]:
    """Return the identity of every object and list inside a value."""
    if isinstance(value, dict):
        return [id(value), *(found for item in value.values() for found in mutables(item))]
    return [id(value), *(found for item in value for found in mutables(item))] if isinstance(value, list) else []


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(beginnings, st.lists(drafts, max_size=8))
def test_any_sequence_of_any_effects_folds(beginning: list[Any], rest: list[Any]) -> None:
    """No effect ends the fold; what is malformed changes nothing, and the others only what they say."""
    fold = Fold("w", RULESET)
    for effect in effects(beginning + rest):
        before = fold.state.copy_deep()
        touched = fold.apply(effect)
        after = fold.state
        names = (touched,) if isinstance(touched, str) else touched
        assert names is not None
        ids = before.entities.keys() | after.entities.keys()
        assert {name for name in ids if before.entities.get(name) != after.entities.get(name)} <= set(names)
        if after.metadata["malformed_effects"] > before.metadata["malformed_effects"]:
            assert names == ()
        found = mutables(after.entities)
        assert len(found) == len(set(found))
        assert set(found).isdisjoint(mutables(effect))
        assert len(after.text()) < 4000
    assert WorldState.from_text(fold.state.text()).text() == fold.state.text()


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(beginnings, st.lists(drafts, max_size=8), st.integers(0, 9))
def test_the_fold_can_be_cut_anywhere(beginning: list[Any], rest: list[Any], cut: int) -> None:
    """fold(a + b) is fold(b, after=fold(a)), though the state went through its text."""
    stored = rows(beginning + rest)
    whole = folded(beginning + rest)
    first = Fold("w", RULESET)
    first.feed(stored[:cut])
    second = Fold("w", RULESET, WorldState.from_text(first.state.text()), first.seq)
    second.feed(stored[cut:])
    assert second.state.text() == whole.text()


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(beginnings, st.lists(drafts, max_size=8))
def test_whatever_the_rules_take_can_be_folded(beginning: list[Any], rest: list[Any]) -> None:
    """They raise nothing but IllegalEffectError, and no effect that they let through is malformed."""
    fold = Fold("w", RULESET)
    for posted in beginning + rest:
        checked = check_draft(posted)
        try:
            decided = RULESET.decide(checked, fold.state)
        except IllegalEffectError:
            continue
        (effect,) = effects([{**posted, "payload": orjson.loads(decided.payload)}])
        fold.apply({**effect, "global_seq": fold.seq + 1})
        assert fold.state.metadata["malformed_effects"] == 0


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(VARIANTS)), st.integers(0, 2**32), st.integers(0, 60))
def test_a_playout_of_any_variant_is_taken_and_folded(variant: str, seed: int, plies: int) -> None:
    """Whole or minimal moves give the same state: python-chess's position, and its ending where there is one."""
    rng = random.Random(seed)
    fen = chess.Board.from_chess960_pos(rng.randrange(960)).fen() if variant == "chess960" else None
    start = draft("GameStarted", {**AGENTS, "variant": variant, "initial_fen": fen})
    board = position(variant, fen)
    posted: dict[str, list[Any]] = {"whole": [start], "uci_notation": [start], "san_notation": [start]}
    while board.outcome() is None and len(board.move_stack) < plies:
        agent = "ana" if board.turn else "bo"
        move = rng.choice(list(board.legal_moves))
        whole = play_move(board, move, ply=len(board.move_stack) + 1, agent_id=agent)
        for name, game in posted.items():
            game.append(draft("MoveMade", whole if name == "whole" else {name: whole[name]}, agent))
    worlds = [Table(*game) for game in posted.values()]
    for world in worlds:
        assert world.fold.state.entities == worlds[0].fold.state.entities
    assert (worlds[0].board["fen"], worlds[0].board["is_check"]) == (board.fen(), board.is_check())
    outcome = board.outcome()
    if outcome is not None and outcome.termination is not chess.Termination.FIVEFOLD_REPETITION:
        ending = Ending()
        end_by_the_board(outcome, ending)
        end = {"status": ending.status, "result": ending.result, "reason": ending.reason}
        worlds[0].post("GameEnded", {**end, "final_fen": board.fen(), "plies": len(board.move_stack)})
        assert malformed(worlds[0].fold.state) == 0
