"""Chess as an AEC environment of PettingZoo: each episode is a live game of a service, each step an attempt in its log.

Source: docs/reference/contracts.md, "Chess" (the tensor); docs/how-to-pettingzoo.md (rewards, the actions' coding).
"""

from __future__ import annotations

import logging
import operator
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final, SupportsIndex, TypeAlias

import chess
import chess.svg
import numpy as np

try:
    import gymnasium
    from gymnasium import spaces
    from pettingzoo import AECEnv
    from pettingzoo.utils.wrappers import AssertOutOfBoundsWrapper, OrderEnforcingWrapper
except ImportError as error:
    what = "environments of PettingZoo need the extra pettingzoo: pip install 'worldledger[pettingzoo]'"
    raise ImportError(what, name=error.name) from error

from worldledger.client.transport import BlockingTransport, path_of
from worldledger.errors import IllegalEffectError, SimulationError, StoreUnavailableError
from worldledger_chess.rules.actions import ACTIONS, action_mask, legal_actions, move_of
from worldledger_chess.rules.board import TENSOR_SHAPE, tensor_of
from worldledger_chess.rules.live import EXTERNAL

__all__ = ["ILLEGAL_REWARD", "ChessEnv", "env"]

#: The reward of an attempt that is not a legal move.
ILLEGAL_REWARD: Final = -0.1

_AGENTS: Final = ("player_0", "player_1")
_COLOURS: Final = {"player_0": "white", "player_1": "black"}
#: The rewards of White and Black for a result.
_REWARDS: Final = {"white_wins": (1.0, -1.0), "black_wins": (-1.0, 1.0)}
_BRIEF: Final = {"tensor": "false", "moves": "false"}

_Observation: TypeAlias = dict[str, np.ndarray[Any, Any]]

log = logging.getLogger("worldledger.client")


def env(base_url: str, **settings: Any) -> OrderEnforcingWrapper[str, Any, Any]:
    """Return a `ChessEnv` with PettingZoo's usual wrappers: calls out of order and invalid actions are refused."""
    return OrderEnforcingWrapper(AssertOutOfBoundsWrapper(ChessEnv(base_url, **settings)))


class ChessEnv(AECEnv[str, Any, Any]):
    """A game of chess on the service at ``base_url``: ``player_0`` is White, ``player_1`` Black.

    - ``fen``, ``chess960``, ``experiment``, ``max_illegal``, ``fallback``, ``deadline_s`` are a game's, as for ``POST
      /v1/games``, except that there is no deadline by default.
    - ``fork_of``: ``WORLD@MOMENT``, a game that each episode goes on from, in a fork of its own, instead of a ``fen``.
    - ``white``, ``black``: an agent_id each, or an object with the Agent's fields.
    - ``timeout``: seconds that an answer may take; ``patience``: seconds for which a service that cannot be reached, or
      gets too many requests, is tried again.

    An observation has ``observation``, the board's tensor (`tensor_of`), the same for both players, and
    ``action_mask``, int8 of 4672 in PettingZoo's coding (`worldledger_chess.rules.actions`): that of the player to
    move; only zeros for the other one, and after the end.

    Rewards are +1, -1 and 0 at the end. An action outside the mask is attempted, and so recorded: it costs 0.1, and the
    same player is to move again, unless it was one attempt too many and the game's fallback follows.

    Failures are raised as errors of `worldledger.errors`; then nothing has changed here, and the same step can be
    repeated: it is one attempt, even if the first one has arrived.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as PettingZoo declares it
        "name": "worldledger_chess_v0",
        "render_modes": ["ansi", "svg"],
        "is_parallelizable": False,
    }

    def __init__(
        self,
        base_url: str,
        *,
        fen: str | None = None,
        fork_of: str | None = None,
        chess960: bool = False,
        experiment: str | None = None,
        white: str | Mapping[str, Any] = "player_0",
        black: str | Mapping[str, Any] = "player_1",
        max_illegal: int = 3,
        fallback: str = "resign",
        deadline_s: float | None = None,
        render_mode: str | None = None,
        timeout: float = 60.0,
        patience: float = 10.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(f"render_mode is one of {self.metadata['render_modes']}, not {render_mode!r}")
        self.render_mode = render_mode
        #: the game's id, which is the name of its world; None before the first reset
        self.game_id: str | None = None
        self.possible_agents = list(_AGENTS)
        self.agents = []
        self.action_spaces = {agent: spaces.Discrete(ACTIONS) for agent in _AGENTS}
        self.observation_spaces = {
            agent: spaces.Dict(
                {
                    "observation": spaces.Box(0, 1, TENSOR_SHAPE, np.uint8),
                    "action_mask": spaces.Box(0, 1, (ACTIONS,), np.int8),
                }
            )
            for agent in _AGENTS
        }
        self._new = {
            "white": {"agent_id": white} if isinstance(white, str) else dict(white),
            "black": {"agent_id": black} if isinstance(black, str) else dict(black),
            "fen": fen,
            "fork_of": _fork_of(fork_of),
            "chess960": chess960,
            "experiment": experiment,
            "max_illegal": max_illegal,
            "fallback": fallback,
            "deadline_s": deadline_s,
        }
        self._http = BlockingTransport(base_url, timeout=timeout, patience=patience)
        self._own = False
        self._over = True
        self._board = chess.Board()
        self._legal: dict[int, chess.Move] = {}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of the agent's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of the agent's actions."""
        return self.action_spaces[agent]

    @property
    def board(self) -> chess.Board:
        """The position, as a separate board without the moves that have led to it."""
        return self._board.copy()

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a new game, or continue one.

        ``seed`` is stored in the game, and its random choices follow from it. ``options``: ``fen``, where this game
        begins; ``fork_of``, the ``WORLD@MOMENT`` that it goes on from; or ``game_id`` of a live game to continue, whose
        players are both external (ValueError is raised for others). Other options are ignored. An unfinished game that
        was begun here is given up before the next one begins: the side to move resigns.
        """
        options = options or {}
        game_id = options.get("game_id")
        if len(options.keys() & {"fen", "fork_of", "game_id"}) > 1:
            raise ValueError("options: name a fen to begin with, a fork_of or a game_id to go on with, one of them")
        if game_id is not None:
            told = self._http.call("GET", path_of("v1", "games", game_id), params=_BRIEF)
            if not told["agents"] or any(agent["player"] != EXTERNAL for agent in told["agents"].values()):
                raise ValueError(f"the players of the game {game_id!r} are not both external")
        if game_id is None or game_id != self.game_id:
            self._give_up()
            self._own = game_id is None
        if game_id is None:
            new = {**self._new, "seed": None if seed is None else operator.index(seed)}
            if "fen" in options:
                new |= {"fen": options["fen"], "fork_of": None}
            elif "fork_of" in options:
                new |= {"fen": None, "chess960": False, "fork_of": _fork_of(options["fork_of"])}
            told = self._http.call("POST", "/v1/games", body=new, params=_BRIEF, key=str(uuid.uuid4()))
        self._begin(told)

    def step(self, action: SupportsIndex | None) -> None:
        """Attempt the action for the agent to move; None for an agent whose game is over.

        If the game has ended meanwhile, on time for example, the attempt is refused, and the game is over for both.
        """
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if action is None:
            raise TypeError(f"{agent} is to move: None is no action")
        text = self._text(operator.index(action))
        try:
            told = self._attempt(agent, text)
        except IllegalEffectError as error:
            if error.details.get("rule") != "game_over":
                raise
            told = self._http.call("GET", self._path, params=_BRIEF)
            ply, said, ended = told["plies"], {"san": None}, told
        else:
            (ply, said), ended = _outcome_of(told), told["ended"]
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        if told.get("accepted") is False:
            self.rewards[agent] = ILLEGAL_REWARD
        self._stand(told, ply, ended, **said)

    def observe(self, agent: str) -> _Observation:
        """Return an agent's observation: the position, and the mask of its actions."""
        legal = self._legal if agent == self.agent_selection else ()
        return {"observation": tensor_of(self._board), "action_mask": action_mask(legal)}

    def render(self) -> str | None:
        """Return the board as text or as SVG."""
        if self.render_mode == "ansi":
            return str(self._board)
        if self.render_mode == "svg":
            return chess.svg.board(self._board)
        gymnasium.logger.warn("there is nothing to render without a render_mode")
        return None

    def close(self) -> None:
        """Close the connections. An unfinished game is left as it is; it can be continued by its ``game_id``."""
        self._http.close()

    # -- inside --------------------------------------------------------------------------------------------

    def _give_up(self) -> None:
        if not self._own or self._over:
            return
        body = {"agent_id": self._agent_ids[_AGENTS[not self._board.turn]], "req_id": str(uuid.uuid4())}
        try:
            self._http.call("POST", f"{self._path}/resign", body=body)
        except StoreUnavailableError:
            raise
        except SimulationError as error:  # it has ended meanwhile, for example; another one can begin nevertheless
            log.debug("the game %s is left as it is: %s", self.game_id, error)
        self._over = True

    def _begin(self, told: Mapping[str, Any]) -> None:
        """Continue a game from its present state."""
        game_id: str = told["game_id"]
        self.game_id = game_id
        self._path = path_of("v1", "games", game_id)
        self._agent_ids = {agent: told["agents"][colour]["agent_id"] for agent, colour in _COLOURS.items()}
        self._chess960 = told["variant"] == "chess960"
        self._session, self._attempts = uuid.uuid4().hex, 0
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        ended = None if told["status"] == "in_progress" else told
        self._stand(told, told["plies"], ended, san=None)

    def _stand(self, told: Mapping[str, Any], ply: int, ended: Mapping[str, Any] | None, **said: Any) -> None:
        """Set the position, in which the game goes on or has ended, and update the agents."""
        self._board = chess.Board(told["board_state"]["fen"], chess960=self._chess960)
        self._ply = ply
        self._legal = {} if ended else legal_actions(self._board)
        self._over = ended is not None
        self.agent_selection = _AGENTS[not self._board.turn]
        if ended:
            self.terminations = dict.fromkeys(self.agents, True)
            self.rewards = dict(zip(_AGENTS, _REWARDS.get(ended["result"], (0.0, 0.0)), strict=True))
        self._accumulate_rewards()
        known = {
            "fen": told["board_state"]["fen"],
            "ply": ply,
            "global_seq": (ended or told)["global_seq"],
            **({name: ended[name] for name in ("status", "result", "reason")} if ended else {}),
            **said,
        }
        moves = [self._board.uci(move) for move in self._legal.values()]
        self.infos = {
            agent: {**known, "legal_moves": moves if agent == self.agent_selection else []} for agent in self.agents
        }
        self._since = time.monotonic()

    def _text(self, action: int) -> str:
        """Return the text of an action: its move in UCI; its number if no text says it, or if a text is ambiguous.

        The service reads e1h1 as castling, which in standard chess is another action.
        """
        move = self._legal.get(action)
        if move is not None:
            return self._board.uci(move)
        move = move_of(action, self._board)
        if move is not None:
            try:
                self._board.parse_uci(move.uci())
            except ValueError:
                return move.uci()
        return f"action {action}"

    def _attempt(self, agent: str, text: str) -> Any:
        """Make an attempt, with one req_id until it is answered: a repeated step is the same attempt."""
        body = {
            "agent_id": self._agent_ids[agent],
            "move": text,
            "ply": self._ply + 1,
            "req_id": f"{self._session}-{self._attempts}",
            "thinking_time": time.monotonic() - self._since,
        }
        told = self._http.call("POST", f"{self._path}/moves", body=body, params={"tensor": "false"})
        self._attempts += 1
        return told


def _fork_of(place: str | None) -> dict[str, str] | None:
    """Return a ``WORLD@MOMENT`` as ``POST /v1/games`` has it."""
    if place is None:
        return None
    world, _, moment = place.partition("@")
    return {"world_id": world, "at": moment or "head"}


def _outcome_of(told: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return the number of moves after an attempt, and its part of ``infos``."""
    ply: int = told["ply"]
    if told["accepted"]:
        return ply, {"san": told["move"]["san_notation"]}
    made = told["fallback"]
    said = {"san": made and made["san_notation"], "rejected": told["detail"], "attempts_left": told["attempts_left"]}
    return ply if made else ply - 1, said
