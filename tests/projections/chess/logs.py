"""Logs of chess worlds for Hypothesis: games by the rules, and whatever else somebody may have imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import chess
from hypothesis import strategies as st
from worldledger_chess.rules import RULESET
from worldledger_chess.rules.claims import position_of
from worldledger_chess.rules.moves import play_move

from tests.projections import playing
from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.world import WorldState

Draft = dict[str, Any]

_TIMES = st.none() | st.sampled_from([0.0, 0.1, 1.005, 3.0, 12.345678])
_ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1, -1, 2.5, 1e9, 1e10, "", "white", "black", "e2e4", "Nf3", "e4#", "0000", "--", "x" * 17, [], {}]
)
_ENDINGS = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["checkmate", "draw", "resigned", "timeout"]),
        "result": st.sampled_from(["white_wins", "black_wins", "draw"]),
    },
    optional={"reason": st.sampled_from([None, "agreement", "timeout"]), "raw_result": _ODD},
)
_STARTS = st.fixed_dictionaries(
    {"white": st.sampled_from(["Ann", "Bob"]), "black": st.sampled_from(["Ann", "Bob"])},
    optional={
        "agents": st.just({"white": "a", "black": "b"}),
        "variant": st.sampled_from(["standard", "chess960", "crazyhouse", "atomic", "antichess", "3check"]),
        "event": _ODD,
        "round": _ODD,
    },
)


def effects_of(drafts: Iterable[Mapping[str, Any]], **genesis: Any) -> list[Effect]:
    """Return the log of a world of chess, unless the genesis is to name another ruleset."""
    return playing.effects_of(drafts, **{"ruleset": "chess", **genesis})


@st.composite
def chess_logs(draw: st.DrawFn) -> list[Effect]:
    """Return a chess world's log; most of its moves are good ones."""
    drafts: list[Draft] = []
    folded = Fold("w", RULESET)
    folded.apply(effects_of([])[0])

    def add(kind: str, payload: dict[str, Any], source_id: str = "somebody") -> None:
        drafts.append({"kind": kind, "payload": payload, "source_id": source_id})
        folded.apply(effects_of(drafts)[-1])

    if draw(st.integers(0, 9)) == 0:
        add(draw(st.sampled_from(["MoveMade", "MoveRejected", "GameEnded", "GameStarted"])), {"white": 1})
    if draw(st.integers(0, 9)):
        add("GameStarted", draw(_STARTS), "pgn-import")
    for _ in range(draw(st.integers(0, 14))):
        what = draw(st.sampled_from([*["move"] * 8, "mangled", "rejected", "other", "ended", "started"]))
        board = folded.state.entities.get("board")
        if what in {"move", "mangled"} and board is not None:
            payload = _move(draw, board)
            if payload is not None:
                if what == "mangled":
                    payload[draw(st.sampled_from(sorted(payload)))] = draw(_ODD)
                add("MoveMade", payload, draw(st.sampled_from(["Ann", "Bob", "a", "b"])))
        elif what == "started":
            add("GameStarted", draw(_STARTS), "pgn-import")
        elif what == "rejected":
            add("MoveRejected", draw(st.sampled_from([{}, {"player": "white"}, {"reason": "too late"}, {"reason": 1}])))
        elif what == "ended":
            add("GameEnded", draw(_ENDINGS | st.just({"status": "lost"})), "pgn-import")
        else:
            add("Thought", {"fen": "none"})
    return effects_of(drafts)


def _move(draw: st.DrawFn, entity: dict[str, Any]) -> dict[str, Any] | None:
    """Return the payload of a legal move: whole, or as short as somebody may post it."""
    board = position_of(entity)
    legal = sorted(board.legal_moves, key=chess.Move.uci)
    if not legal:
        return None
    move = draw(st.sampled_from(legal))
    payload = play_move(board, move, ply=entity["ply"] + 1, agent_id="a")
    payload["thinking_time"] = draw(_TIMES)
    payload["clock"] = draw(_TIMES)
    payload["timestamp"] = draw(st.sampled_from([None, "2026-01-01T10:00:00Z", "2026-01-01T10:00:00", "noon", 5]))
    payload["comment"] = draw(st.sampled_from([None, "good", 5]))
    payload["evaluation"] = draw(st.sampled_from([None, {"cp": 35}, {"mate": -2, "depth": 9}, "equal"]))
    names = draw(
        st.none() | st.sampled_from([["uci_notation"], ["san_notation"], ["uci_notation", "thinking_time", "player"]])
    )
    return payload if names is None else {name: payload[name] for name in names}


def started(**fields: Any) -> Draft:
    """Draft: Ann and Bob begin a game."""
    return {"kind": "GameStarted", "payload": {"white": "Ann", "black": "Bob", **fields}, "source_id": "pgn-import"}


def moved(uci: str, **fields: Any) -> Draft:
    """Draft: a move, in as few words as it can be posted."""
    return {"kind": "MoveMade", "payload": {"uci_notation": uci, **fields}}


def rejected(**fields: Any) -> Draft:
    """Draft: a move was refused."""
    return {"kind": "MoveRejected", "payload": fields}


def ended(status: str, result: str, **fields: Any) -> Draft:
    """Draft: the game is over."""
    payload = {"status": status, "result": result, **fields}
    return {"kind": "GameEnded", "payload": payload, "source_id": "pgn-import"}


def state_of(log: list[Effect]) -> WorldState:
    """Replay a chess world's log."""
    folded = Fold("w", RULESET)
    for effect in log:
        folded.apply(effect)
    return folded.state
