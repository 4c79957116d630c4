"""The configuration of a live game: the member ``live`` in the configuration of a chess world.

Any process can continue a game by it: the players, the position, the treatment of illegal moves and of time.
Source: docs/reference/contracts.md, "Chess".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

import chess
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from worldledger.canonical import MAX_INT, child
from worldledger.effects import EffectDraft, own_draft
from worldledger.errors import InvalidConfigError, InvalidNameError
from worldledger.genesis import NAME_PATTERN, check_world_name
from worldledger.intents import SUBMIT_INTENT, registration_draft
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_spec
from worldledger.world import WorldState
from worldledger_chess.rules.agents import AgentSpec
from worldledger_chess.rules.endings import OTHER, Player, automatic_end
from worldledger_chess.rules.positions import MAX_FEN, STANDARD, position, read_fen, status_text
from worldledger_chess.rules.state import BOARD

#: The member of a world's configuration that makes it a live game.
LIVE: Final = "live"
#: A player that the service does not drive: a caller plays it.
EXTERNAL: Final = "external"
#: The permissions of an agent in a live game: to move and to resign.
PERMISSIONS: Final = (SUBMIT_INTENT, "intent:custom")
#: Most illegal attempts in a row, and the longest time for one move, in seconds.
MAX_ILLEGAL: Final = 1000
MAX_DEADLINE: Final = 31_536_000.0
#: Most characters of a player's name, and of all that describes one in a word.
MAX_PLAYER_NAME: Final = 100
_MAX_PLAYER: Final = 1000


#: Parts of pydantic's locations that are not members of the input, and its error for what follows from another error.
_NO_MEMBERS: Final = frozenset({"[key]", "[both]", "[each]"})
_NOT_KNOWN: Final = "default_factory_not_called"


def _player_spec(value: Any) -> str | dict[str, Any]:
    if isinstance(value, dict) or (isinstance(value, str) and 0 < len(value) <= _MAX_PLAYER):
        return value
    raise ValueError(f"a player is a name of 1 to {_MAX_PLAYER} characters, or an object that says how it is made")


Fallback: TypeAlias = Literal["resign", "random"]
_Word: TypeAlias = (
    Annotated[str, Field(min_length=1, max_length=MAX_PLAYER_NAME)]
    | Annotated[str, Field(pattern="^(uci|llm):", max_length=_MAX_PLAYER)]
)
#: A player's description: a name such as ``external``, ``random`` or ``uci:PATH``, or an object with settings.
PlayerSpec: TypeAlias = Annotated[
    str | dict[str, Any],
    PlainValidator(_player_spec, json_schema_input_type=_Word | dict[str, Any]),
]


_Seconds: TypeAlias = Annotated[float, Field(gt=0.0, le=MAX_DEADLINE, allow_inf_nan=False)] | None
#: Seconds for a move, null for no limit: for both colours, or for each.
Deadline: TypeAlias = Annotated[
    Annotated[_Seconds, Tag("[both]")]
    | Annotated[dict[Player, _Seconds], Field(json_schema_extra={"minProperties": 2}), Tag("[each]")],
    Discriminator(lambda value: "[each]" if isinstance(value, dict) else "[both]"),
]


def _world_name(value: str) -> str:
    try:
        return check_world_name(value)
    except InvalidNameError as error:
        raise ValueError(error.message) from None


#: The name of a game, which is that of its world.
GameId: TypeAlias = Annotated[str, AfterValidator(_world_name)]


def _agents_time(known: Mapping[str, Any]) -> Any:
    """Return each colour's time for a move, its agent's ``timeout_seconds``."""
    agents = {player: known[player] for player in OTHER if player in known}
    if len(agents) != len(OTHER):
        return None
    return {player: min(float(agent.timeout_seconds), MAX_DEADLINE) for player, agent in agents.items()}


class LiveConfig(BaseModel):
    """A live game.

    The ``fen`` is kept in the full flavour (see `worldledger_chess.rules.board`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    game_id: GameId | None = Field(
        default=None,
        description="The name of its world; a UUID if null.",
        json_schema_extra={"anyOf": [{"pattern": NAME_PATTERN, "maxLength": 200, "type": "string"}, {"type": "null"}]},
    )
    white: AgentSpec
    black: AgentSpec = Field(description="Another agent_id than white's.")
    chess960: bool = False
    fen: str | None = Field(
        default=None,
        max_length=MAX_FEN,
        description="Where it begins, a playable position in which the game is not over; the usual one if null. Of a "
        "fork that is played on it is filled in.",
    )
    experiment: str | None = Field(
        default=None, min_length=1, max_length=200, description="The label under which games are found together."
    )
    max_illegal: int = Field(
        default=3, ge=1, le=MAX_ILLEGAL, description="After so many illegal attempts in a row comes the fallback."
    )
    fallback: Fallback = Field(
        default="resign", description="What is done then for the player: it resigns, or a random move is made."
    )
    deadline_s: Deadline = Field(
        default_factory=_agents_time,
        validate_default=True,
        description="Seconds for a move; null for no limit. Of both, or of each colour; where it is left out, each "
        "agent's `timeout_seconds`.",
    )
    seed: int | None = Field(default=None, ge=-MAX_INT, le=MAX_INT, description="What chance there is follows from it.")
    players: dict[Player, PlayerSpec] = Field(
        default_factory=dict,
        validate_default=True,
        description="Who drives each colour: `external` (whoever calls, the usual), `random`, `stockfish`, or an "
        "object of a `name` and the player's settings.",
    )

    @field_validator("black")
    @classmethod
    def _another_agent(cls, value: AgentSpec, info: ValidationInfo) -> AgentSpec:
        white = info.data.get("white")
        if white is not None and white.agent_id == value.agent_id:
            raise ValueError(f"white and black are one agent, {value.agent_id!r}")
        return value

    @field_validator("fen")
    @classmethod
    def _right_position(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        board = read_fen(value, chess960=info.data.get("chess960", False))
        if status := board.status():
            raise ValueError(f"the position cannot be played: {status_text(status)}")
        if (info.context or {}).get("new") and (ending := automatic_end(board)) is not None:
            raise ValueError(f"the game is over in this position ({ending.reason})")
        return board.fen(en_passant="fen")

    @field_validator("players")
    @classmethod
    def _both_players(cls, value: dict[Player, PlayerSpec]) -> dict[Player, PlayerSpec]:
        return {"white": value.get("white", EXTERNAL), "black": value.get("black", EXTERNAL)}

    @field_validator("deadline_s")
    @classmethod
    def _of_both(cls, value: Deadline) -> Deadline:
        if isinstance(value, dict):
            if len(value) != len(OTHER):
                raise ValueError("deadline_s is of both, or names white and black")
            if value["white"] == value["black"]:
                return value["white"]
        return value

    @classmethod
    def of(cls, config: Mapping[str, Any], *, new: bool = False) -> Self | None:
        """Read it from a world's configuration; None for a world that is not a live game.

        Raises InvalidConfigError with every problem; ``path`` is the place of the first one. A ``new`` game must not be
        over in its first position; earlier versions allowed that.
        """
        live = config.get(LIVE)
        if live is None:
            return None
        try:
            return cls.model_validate(live, context={"new": new})
        except ValidationError as error:
            found = [each for each in error.errors(include_url=False) if each["type"] != _NOT_KNOWN]
            problems = [_problem(each) for each in found]
        text = "; ".join(f"{problem['path']}: {problem['message']}" for problem in problems)
        raise InvalidConfigError(text, path=problems[0]["path"], problems=problems)

    def to_value(self) -> dict[str, Any]:
        """Return it as a JSON value, with defaults written out; `of` reads it under ``live``."""
        return self.model_dump(mode="json")

    @property
    def agents(self) -> dict[Player, AgentSpec]:
        """The agents by colour."""
        return {"white": self.white, "black": self.black}

    def limit(self, player: Player) -> float | None:
        """Return the seconds that a colour has for a move; None for no limit."""
        return limit_of(self.deadline_s, player)

    @property
    def variant(self) -> str:
        """The log's name of this kind of game: standard or chess960."""
        return "chess960" if self.chess960 else STANDARD

    def board(self) -> chess.Board:
        """Return the board that the game begins with."""
        return position(self.variant, self.fen)


def limit_of(deadline_s: Any, player: Player) -> float | None:
    """Return the seconds that a colour has for a move by a recorded ``deadline_s``; None for no limit."""
    limit = deadline_s.get(player) if isinstance(deadline_s, Mapping) else deadline_s
    return limit if isinstance(limit, (int, float)) else None


def _problem(found: Mapping[str, Any]) -> dict[str, str]:
    path = f"$.config.{LIVE}"
    for part in found["loc"]:
        if part not in _NO_MEMBERS:
            path = child(path, part)
    message = found["msg"].removeprefix("Value error, ")
    if found["type"] == "model_type":
        message = "this is an object"
    elif found["type"] == "extra_forbidden":
        message = f"unknown field {found['loc'][-1]!r}"
    return {"path": path, "message": message}


def opening_effects(live: LiveConfig) -> Sequence[EffectDraft]:
    """Return GameStarted and the registrations of both agents.

    GameStarted has ``agents`` (colour -> agent_id), ``white`` and ``black`` (the names), ``variant``,
    ``initial_fen`` and ``settings`` (colour -> the Agent's settings, see AgentSpec). The agents have the default
    policy.
    """
    return _begun_by("GameStarted", live, {"initial_fen": live.board().fen(en_passant="fen")})


def continuing_effects(live: LiveConfig, state: WorldState) -> Sequence[EffectDraft]:
    """Return GameContinued and the registrations of both agents, for a fork in whose state this live game goes on.

    GameContinued has what GameStarted has, with the ``ply`` and the ``fen`` of the fork point instead of an
    ``initial_fen``. Raises InvalidConfigError if no game goes on in that state, or another one.
    """
    path = f"$.config.{LIVE}"
    board = state.entities.get(BOARD)
    if board is None or board["status"] != "in_progress":
        what = "no game has begun" if board is None else f"the game is over ({board['reason'] or board['status']})"
        raise InvalidConfigError(f"{path}: {what} at this moment: there is nothing to play on", path=path)
    if board["variant"] != live.variant or live.board().fen() != board["fen"]:
        raise InvalidConfigError(f"{path}.fen: the game stands otherwise at this moment", path=f"{path}.fen")
    return _begun_by("GameContinued", live, {"ply": board["ply"], "fen": live.board().fen(en_passant="fen")})


def _begun_by(kind: str, live: LiveConfig, more: Mapping[str, Any]) -> Sequence[EffectDraft]:
    payload: dict[str, Any] = {
        "agents": {player: agent.agent_id for player, agent in live.agents.items()},
        "white": live.white.name,
        "black": live.black.name,
        "variant": live.variant,
        **more,
        "settings": {player: agent.model_dump(mode="json") for player, agent in live.agents.items()},
    }
    policy = policy_spec(ObservationPolicy())
    return [
        own_draft(kind, payload),
        *(registration_draft(agent.agent_id, policy, PERMISSIONS) for agent in live.agents.values()),
    ]
