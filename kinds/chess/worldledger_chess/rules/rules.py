"""The rules of a chess world: what a draft must be to become an effect. They do not apply to imports.

A move and an end are completed when they are written: each MoveMade and each GameEnded can be read alone.

Every refusal is an IllegalEffectError whose ``rule`` is one of

- ``payload``: a field is missing or of another type;
- ``game_already_started``, ``game_not_started``, ``game_over``: one world is one game;
- ``not_for_clients``: GameContinued, which the service alone writes, at the beginning of a fork that is played on;
- ``same_agent``, ``invalid_position``: GameStarted (a position that the log left unplayable refuses moves, too);
- ``not_your_turn``, ``illegal_move`` (details: ``move``, ``fen``), ``field_mismatch`` (details: ``field``): MoveMade;
- ``status``, ``result``, ``reason``, ``not_on_board``: GameEnded;
- ``not_a_player``, ``not_for_players``: intents of agents (`check_players_intent`).

Recorded games have oddities that are refused here, because they are impossible under the rules: one agent with both
colours, a null move, a rejected move of the side that is not to move, a game that goes on or ends otherwise after the
board has ended it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import chess

from worldledger.drafts import CheckedDraft
from worldledger.effects import SERVICE_SOURCE
from worldledger.errors import IllegalEffectError
from worldledger.rulesets.payloads import AMOUNT, ANY, COUNT, FLAG, NAME, OBJECT, TEXT, Schema, payload, says, word_of
from worldledger.world import WorldState
from worldledger_chess.rules.claims import (
    ENDED,
    MAX_SECONDS,
    PLAYERS,
    REASONS,
    RESULTS,
    Claim,
    check_facts,
    play,
    position_of,
    read_ending,
    read_player,
    read_players,
    read_seconds,
    read_start,
    read_text,
    remember,
)
from worldledger_chess.rules.endings import OTHER, Ending, Player, Reason, Status, end_by_the_board
from worldledger_chess.rules.moves import FACTS, FIELDS, Field, Type
from worldledger_chess.rules.positions import ORTHODOX, UNPLAYABLE, VARIANTS, status_text
from worldledger_chess.rules.state import BOARD
from worldledger_chess.rules.times import is_moment

_OF_A_VARIANT: Final = frozenset(
    {chess.Termination.VARIANT_WIN, chess.Termination.VARIANT_LOSS, chess.Termination.VARIANT_DRAW}
)
#: Statuses that end a game at once. The other draws of the rules may go unnoticed, and the game go on.
_FINAL: Final = _OF_A_VARIANT | {chess.Termination.CHECKMATE, chess.Termination.STALEMATE}
_OF_BOTH: Final[tuple[Reason, ...]] = ("illegal_move", "abandoned", "adjudication", "rules_infraction", "unknown")
#: The reasons that each status may have.
_REASONS: Final[dict[Status, frozenset[Reason]]] = {
    "checkmate": frozenset({"checkmate", "variant_end"}),
    "stalemate": frozenset({"stalemate"}),
    "draw": frozenset(
        {
            "insufficient_material",
            "fifty_moves",
            "threefold_repetition",
            "agreement",
            "timeout",  # one player's, when the other cannot win any more
            "variant_end",
            *_OF_BOTH,
        }
    ),
    "resigned": frozenset({"resignation", *_OF_BOTH}),
    "timeout": frozenset({"timeout"}),
}


def check_players_intent(kind: str, payload: Mapping[str, Any], agent_id: str, state: WorldState) -> None:
    """Check an agent's intent in a game: to move if it is a player, or to resign; anything else is up to the arena."""
    entities = _in_play(state)
    colours = [colour for colour in OTHER if entities[colour]["agent_id"] == agent_id]
    if not colours:
        raise IllegalEffectError(f"{agent_id} does not play this game", "$.agent_id", rule="not_a_player")
    if kind == "MoveMade":
        return
    lost = {f"{OTHER[colour]}_wins" for colour in colours}
    if kind == "GameEnded" and payload.get("status") == "resigned" and payload.get("result") in lost:
        return
    raise IllegalEffectError(
        f"a player moves or resigns; {kind} is the arena's to say", "$.payload.kind", rule="not_for_players"
    )


def check_game_started(draft: CheckedDraft, payload: dict[str, Any], state: WorldState | None) -> None:
    """Check GameStarted: the world's first, two agents, and a position that can be played from.

    Standard chess and Chess960 require a valid position; in the variants, whose positions differ, it only has to be
    playable.
    """
    if state is not None and BOARD in state.entities:
        raise IllegalEffectError("the game was started before", "$.kind", rule="game_already_started")
    start = read_start(payload)
    if start.agents["white"] == start.agents["black"]:
        path = "$.payload.agents" if "agents" in payload else "$.payload"
        raise IllegalEffectError("white and black are one agent", path, rule="same_agent")
    status = start.status
    if start.variant not in ORTHODOX:
        status &= UNPLAYABLE
    if status:
        raise IllegalEffectError(
            f"the position cannot be played: {status_text(status)}", "$.payload.initial_fen", rule="invalid_position"
        )


def check_game_continued(draft: CheckedDraft, payload: dict[str, Any], state: WorldState | None) -> None:
    """Check GameContinued: written by the service, of two agents, in a game in progress, as it stands."""
    if draft.source_id != SERVICE_SOURCE:
        what = "only the service lets other agents go on with a game, in a fork that is to be played"
        raise IllegalEffectError(what, "$.kind", rule="not_for_clients")
    board = _in_play(state)[BOARD]
    read_players(payload)
    check_facts(payload, {name: board[name] for name in ("variant", "ply")})


def check_move_made(draft: CheckedDraft, payload: dict[str, Any], state: WorldState | None) -> dict[str, Any]:
    """Check MoveMade: a legal move of the side to move, with true statements only.

    ``uci_notation`` or ``san_notation`` is enough; all other given members of the payload that
    `worldledger_chess.rules.moves.play_move` describes must be true. The source may be the player or an agent that
    speaks for both, but not the opponent. Returns the complete payload: omitted members are added, and a loose
    ``san_notation`` is written as python-chess does.
    """
    entities = _in_play(state)
    board = entities[BOARD]
    turn: Player = board["turn"]
    agent, opponent = entities[turn]["agent_id"], entities[OTHER[turn]]["agent_id"]
    _check_turn(payload, turn)
    if read_text(payload, "agent_id") not in {None, agent}:
        raise _not_your_turn(turn, agent, "$.payload.agent_id")
    if draft.source_id == opponent != agent:
        raise _not_your_turn(turn, agent, "$.source_id")
    for name in ("thinking_time", "clock"):
        read_seconds(payload, name)
    if payload.get("timestamp") is not None and not is_moment(payload["timestamp"]):
        what = "timestamp is a time in ISO 8601 with its offset from UTC"
        raise IllegalEffectError(what, "$.payload.timestamp", rule="payload")
    position = position_of(board)
    if position.is_variant_end():
        raise IllegalEffectError("the game is over by the rules of its variant", "$.kind", rule="game_over")
    played = play(position, payload, ply=board["ply"] + 1, null_moves=False)
    remember(position, played)
    facts = played.facts
    return {**payload, **{name: facts[name] for name in FACTS}, "player": turn, "agent_id": agent}


def check_move_rejected(draft: CheckedDraft, payload: dict[str, Any], state: WorldState | None) -> None:
    """Check MoveRejected: of the side to move. The attempt and the reason can be anything."""
    turn: Player = _in_play(state)[BOARD]["turn"]
    _check_turn(payload, turn)
    read_text(payload, "reason")


def check_game_ended(draft: CheckedDraft, payload: dict[str, Any], state: WorldState | None) -> dict[str, Any]:
    """Check GameEnded: status, result and reason fit each other, and the board.

    Facts that only the players or the whole history know are trusted: resignation, agreement, time, and repetition.
    Returns the payload with ``final_fen`` and ``plies``.
    """
    board = _in_play(state)[BOARD]
    claim = read_ending(payload)
    if (claim.result == "draw") != (claim.status in {"draw", "stalemate"}):
        what = "a draw" if claim.status in {"draw", "stalemate"} else "won by one side"
        raise IllegalEffectError(f"a game with the status {claim.status} is {what}", "$.payload.result", rule="result")
    if claim.reason is not None and claim.reason not in _REASONS[claim.status]:
        reasons = ", ".join(sorted(_REASONS[claim.status]))
        raise IllegalEffectError(
            f"the reason of a game with the status {claim.status} is one of {reasons}",
            "$.payload.reason",
            rule="reason",
        )
    facts = {"final_fen": board["fen"], "plies": board["ply"]}
    check_facts(payload, facts)
    _check_claim(claim, position_of(board))
    return {**payload, **facts}


def _check_claim(claim: Claim, position: chess.Board) -> None:
    """Compare a claim with the board: what must be on it, and what it determines."""
    outcome = position.outcome()
    decided = outcome if outcome is not None and outcome.termination in _FINAL else None
    is_won = decided is not None and decided.winner is not None
    on_board = {
        "checkmate": position.is_checkmate(),
        "stalemate": position.is_stalemate(),
        "insufficient_material": position.is_insufficient_material(),
        "fifty_moves": position.can_claim_fifty_moves(),  # made, or about to be: when the rules let a player claim it
        "variant_end": decided is not None and decided.termination in _OF_A_VARIANT,
    }
    if (claim.status == "checkmate" and not is_won) or (claim.status == "stalemate" and not on_board["stalemate"]):
        raise _not_on_board(claim.status, "status", position)
    if claim.reason is not None and not on_board.get(claim.reason, True):
        raise _not_on_board(claim.reason, "reason", position)
    if decided is None:
        return
    ending = Ending()
    end_by_the_board(decided, ending)
    for name, claimed, true in (
        ("status", claim.status, ending.status),
        ("result", claim.result, ending.result),
    ):
        if claimed != true:
            raise IllegalEffectError(
                f"the board says {ending.status} ({ending.result}), not {claimed}", f"$.payload.{name}", rule=name
            )


def _not_on_board(claimed: str, name: str, position: chess.Board) -> IllegalEffectError:
    fen = position.fen()
    return IllegalEffectError(
        f"{claimed} is not on the board: {fen}", f"$.payload.{name}", rule="not_on_board", fen=fen
    )


def _in_play(state: WorldState | None) -> dict[str, Any]:
    """Return the entities of a game in progress."""
    if state is None or BOARD not in state.entities:
        raise IllegalEffectError("the game has not started: GameStarted comes first", "$.kind", rule="game_not_started")
    status = state.entities[BOARD]["status"]
    if status != "in_progress":
        raise IllegalEffectError(f"the game is over: {status}", "$.kind", rule="game_over")
    return state.entities


def _check_turn(payload: dict[str, Any], turn: Player) -> None:
    if read_player(payload) not in {None, turn}:
        raise IllegalEffectError(f"it is the turn of {turn}", "$.payload.player", rule="not_your_turn")


def _not_your_turn(turn: Player, agent: str, path: str) -> IllegalEffectError:
    return IllegalEffectError(f"it is the turn of {turn}, {agent}", path, rule="not_your_turn")


# -- the JSON Schemas of payloads; that of MoveMade is made from the table of its fields -------------------------

_TYPES: Final[Mapping[Type, Schema]] = {
    "text": TEXT,
    "bigint": COUNT,
    "double precision": {**AMOUNT, "maximum": MAX_SECONDS},
    "boolean": FLAG,
    "timestamptz": TEXT,
    "json": ANY,
}
#: What the world adds to a move that leaves it out.
_ADDED: Final = frozenset({"player", "agent_id", *FACTS}) - {"uci_notation", "san_notation"}
#: What is looked at where it is stated; the rest is the recorder's own.
_CHECKED: Final = frozenset({"player", "agent_id", *FACTS, "thinking_time", "clock", "timestamp"})


def _member(field: Field) -> Schema:
    schema = says(_TYPES[field.type] if field.name in _CHECKED else ANY, field.says)
    return {**schema, "readOnly": True} if field.name in _ADDED else schema


#: The notations, of which one is needed, come first.
_MOVE: Final = sorted(FIELDS, key=lambda field: field.name not in ("uci_notation", "san_notation"))

#: GameContinued is not among them: the service alone writes it.
PAYLOADS: Final[Mapping[str, Schema]] = {
    "GameStarted": payload(
        "The game begins.",
        {},
        {
            "white": says(TEXT, "The name of White; without agents, that of the agent too."),
            "black": says(TEXT, "The name of Black; without agents, that of the agent too."),
            "agents": says(
                {**OBJECT, "properties": dict.fromkeys(PLAYERS, NAME), "required": [*PLAYERS]},
                "The agent that plays each colour.",
            ),
            "variant": says(word_of(*sorted(VARIANTS)), "Standard chess, if left out."),
            "initial_fen": says(TEXT, "The position to start from; the variant's usual one, if left out."),
        },
    ),
    "MoveMade": payload(
        "A move.",
        {},
        {field.name: _member(field) for field in _MOVE},
        anyOf=[{"required": ["uci_notation"]}, {"required": ["san_notation"]}],
    ),
    "MoveRejected": payload(
        "A move that was not legal.",
        {},
        {
            "attempted": says(ANY, "What was tried."),
            "player": says(word_of(*PLAYERS), "Whose it was; the side to move, if left out."),
            "reason": says(TEXT, "Why it was refused."),
        },
    ),
    "GameEnded": payload(
        "The game ends.",
        {"status": word_of(*ENDED), "result": word_of(*RESULTS)},
        {"reason": word_of(*REASONS)},
    ),
}
