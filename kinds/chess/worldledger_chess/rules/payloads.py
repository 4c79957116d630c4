"""The JSON Schemas of a chess world's payloads; that of MoveMade is made from the table of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from worldledger.rulesets.payloads import AMOUNT, ANY, COUNT, FLAG, NAME, OBJECT, TEXT, Schema, payload, says, word_of
from worldledger_chess.rules.claims import ENDED, MAX_SECONDS, PLAYERS, REASONS, RESULTS
from worldledger_chess.rules.moves import FACTS, FIELDS, Field, Type
from worldledger_chess.rules.positions import VARIANTS

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
