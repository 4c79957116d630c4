"""Chess worlds: one world is one game. Source: docs/reference/contracts.md, "Chess".

- ``claims.py``, ``positions.py``, ``moves.py``: the content of payloads, and its vocabulary; ``endings.py``: how games
  end
- ``state.py``: how effects change the state (evolve)
- ``rules.py``: what is refused before it becomes an effect, and what is written (decide); the schemas of payloads
- ``live.py``: the configuration of live games, and how they begin
- ``entities.py`` (``board.py``, ``agents.py``, ``times.py``): the entities; ``validation.py``: checks of a
  log
- ``pgn.py`` (``splitter.py``, ``tags.py``, ``movetext.py``, ``clocks.py``): recorded games;
  ``notation.py``: python-chess's moves and texts, in a fraction of its time

The entities need NumPy, which folding games does not: this package loads them when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from worldledger.effects import EffectDraft
from worldledger.moments import Unit
from worldledger.rulesets.base import Ruleset
from worldledger.world import WorldState
from worldledger_chess.rules import rules, state
from worldledger_chess.rules.agents import Agent, AgentSpec, AgentStats
from worldledger_chess.rules.endings import Ending, automatic_end, resignation, timed_out
from worldledger_chess.rules.live import LIVE, LiveConfig, continuing_effects, opening_effects
from worldledger_chess.rules.moves import move_number
from worldledger_chess.rules.positions import is_uci, read_fen, replayed
from worldledger_chess.rules.rules import PAYLOADS
from worldledger_chess.rules.state import board_of

if TYPE_CHECKING:
    from worldledger_chess.rules.board import BoardState, tensor_of
    from worldledger_chess.rules.entities import Game, GameSession, Move, moves_of
    from worldledger_chess.rules.validation import move_errors, validate_game_state

__all__ = [
    "RULESET",
    "Agent",
    "AgentSpec",
    "AgentStats",
    "BoardState",
    "Chess",
    "Ending",
    "Game",
    "GameSession",
    "LiveConfig",
    "Move",
    "automatic_end",
    "board_of",
    "is_uci",
    "move_errors",
    "moves_of",
    "read_fen",
    "replayed",
    "resignation",
    "tensor_of",
    "timed_out",
    "validate_game_state",
]

_WITH_NUMPY: Final = {
    **dict.fromkeys(("BoardState", "tensor_of"), "board"),
    **dict.fromkeys(("Game", "GameSession", "Move", "moves_of"), "entities"),
    **dict.fromkeys(("move_errors", "validate_game_state"), "validation"),
}


class Chess(Ruleset):
    """Worlds of the ruleset ``chess``: GameStarted, GameContinued, MoveMade, MoveRejected, GameEnded.

    A configuration with ``live`` makes a live game (`LiveConfig`), which begins with its world; a fork with a
    configuration of its own goes on with its parent's game. Any other world is free.
    """

    name = "chess"
    version = 1
    handlers = MappingProxyType(
        {
            "GameStarted": state.game_started,
            "GameContinued": state.game_continued,
            "MoveMade": state.move_made,
            "MoveRejected": state.move_rejected,
            "GameEnded": state.game_ended,
        }
    )
    checks = MappingProxyType(
        {
            "GameStarted": rules.check_game_started,
            "GameContinued": rules.check_game_continued,
            "MoveMade": rules.check_move_made,
            "MoveRejected": rules.check_move_rejected,
            "GameEnded": rules.check_game_ended,
        }
    )
    stateful = frozenset(checks)
    payloads = PAYLOADS
    records_rejections = True
    #: A step is a half-move, as OpenEnv's ``step_count`` has it.
    units = MappingProxyType(
        {
            **dict.fromkeys(("ply", "step"), Unit(("MoveMade",), "ply", has_zero=True)),
            "move": Unit(("MoveMade",), move_number, has_zero=True),
        }
    )

    def check_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration, a live one in its normal form. Raises InvalidConfigError for an invalid one."""
        live = LiveConfig.of(config, new=True)
        return dict(config) if live is None else {**config, LIVE: live.to_value()}

    def opening(
        self, config: Mapping[str, Any], *, world_uuid: str, checkpoint: Mapping[str, Any] | None = None
    ) -> Sequence[EffectDraft]:
        """Return a live game's GameStarted and the registrations of its agents; nothing for any other world."""
        nothing = super().opening(config, world_uuid=world_uuid, checkpoint=checkpoint)
        live = LiveConfig.of(config)
        return nothing if live is None else opening_effects(live)

    def going_on(self, config: Mapping[str, Any], state: WorldState) -> Sequence[EffectDraft]:
        """Return a live game's GameContinued and the registrations of its agents; nothing for any other config."""
        live = LiveConfig.of(config)
        return () if live is None else continuing_effects(live, state)

    def check_intent(self, kind: str, payload: Mapping[str, Any], agent_id: str, state: WorldState) -> None:
        """Players move and resign; only the game's operator may state anything else about it."""
        if kind in self.checks:
            rules.check_players_intent(kind, payload, agent_id, state)


RULESET = Chess()


def __getattr__(name: str) -> Any:
    module = _WITH_NUMPY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Like ``from … import`` of a submodule, which needs no import by name.
    from worldledger_chess.rules import board, entities, validation  # noqa: PLC0415

    return getattr({"board": board, "entities": entities, "validation": validation}[module], name)
