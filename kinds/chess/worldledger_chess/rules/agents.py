"""Agent and AgentStats. Source: docs/reference/contracts.md, "Chess"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from worldledger.canonical import MAX_INT
from worldledger.drafts import MAX_WORD
from worldledger.errors import InvalidEffectError
from worldledger.intents import check_agent_id
from worldledger_chess.rules.claims import MAX_SECONDS

#: Longest name of an agent, in characters.
MAX_NAME: Final = 50
#: Longest instructions of an agent, in characters.
MAX_PROMPT: Final = 10_000

#: A model's name, in the syntax that Python and JSON Schema have in common.
MODEL_NAME: Final = r"(?!.*(?:--|\.\.))[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}(?:/[A-Za-z0-9_][A-Za-z0-9_.-]{0,95})?"
_MODEL_NAME: Final = re.compile(MODEL_NAME)
#: Phrases that tell a reader to run code, which a chess player's instructions do not need.
_CODE: Final = re.compile(
    r"```|~~~|<script\b|\b(?:exec|eval|compile|__import__)\s*\(|\bos\s*\.\s*(?:system|popen|exec\w*)\b|\bsubprocess\b"
    r"|\b(?:import|from)\s+(?:os|sys|subprocess|socket|shutil|importlib|ctypes)\b|\brm\s+-\w*r|\bpowershell\b"
    r"|\b(?:bash|sh)\s+-c\b|\bcurl\s+\S+\s*\||[$]\("
    r"|\b(?:run|execute|evaluate)\s+(?:\w+\s+){0,3}(?:code|scripts?|programs?|commands?|python|shell)\b",
    re.IGNORECASE,
)


def code_in(text: str) -> str | None:
    """Return the first phrase of a text that tells its reader to run code, or None.

    It knows common phrases only: it prevents mistakes, not malice.
    """
    found = _CODE.search(text)
    return None if found is None else found[0]


def _agent_id(value: str) -> str:
    try:
        return check_agent_id(value)
    except InvalidEffectError as error:
        raise ValueError(error.reason) from None


def _model_name(value: str) -> str:
    if value and _MODEL_NAME.fullmatch(value) is None:
        raise ValueError("model_name is like a model's id at Hugging Face (owner/name), or empty for no model")
    return value


def _prompt(value: str) -> str:
    for character in value:
        if character < " " and character not in "\n\r\t":
            raise ValueError(f"system_prompt is plain text, without the character {character!r}")
    code = code_in(value)
    if code is not None:
        raise ValueError(f"system_prompt must not tell anybody to run code, as {code!r} does")
    return value


AgentId: TypeAlias = Annotated[
    str,
    Field(json_schema_extra={"minLength": 1, "maxLength": MAX_WORD, "pattern": r"^[^\x00]*$"}),
    AfterValidator(_agent_id),
]
_Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
_Personality: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
_ModelName: TypeAlias = Annotated[str, Field(max_length=200), AfterValidator(_model_name)]
_Prompt: TypeAlias = Annotated[str, Field(max_length=MAX_PROMPT), AfterValidator(_prompt)]
_Temperature: TypeAlias = Annotated[float, Field(ge=0.0, le=2.0, allow_inf_nan=False)]
_Tokens: TypeAlias = Annotated[int, Field(gt=0, le=MAX_INT)]
_Timeout: TypeAlias = Annotated[int, Field(gt=0, le=int(MAX_SECONDS))]
_Count: TypeAlias = Annotated[int, Field(ge=0, le=MAX_INT)]


class AgentStats(BaseModel):
    """How an agent has played, over the games that have ended; seconds.

    ``average_thinking_time`` is over the moves whose time is known, 0.0 if there are none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    games_played: _Count
    games_won: _Count
    games_lost: _Count
    games_drawn: _Count
    total_moves: _Count
    average_thinking_time: float = Field(ge=0.0, allow_inf_nan=False)
    illegal_moves_attempted: _Count
    timeouts: _Count

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        for name in ("games_won", "games_lost", "games_drawn"):
            if getattr(self, name) > self.games_played:
                raise ValueError(f"{name} is more than games_played")
        if self.games_won + self.games_lost + self.games_drawn != self.games_played:
            raise ValueError("games_won, games_lost and games_drawn make games_played together")
        return self

    @classmethod
    def from_counts(
        cls,
        *,
        games_won: int = 0,
        games_lost: int = 0,
        games_drawn: int = 0,
        total_moves: int = 0,
        total_thinking_time: float = 0.0,
        timed_moves: int | None = None,
        illegal_moves_attempted: int = 0,
        timeouts: int = 0,
    ) -> Self:
        """Make them from counts; games_played is the sum of the games, the average is computed.

        ``timed_moves``: the number of moves in total_thinking_time (seconds); None for all of them. Raises ValueError
        for impossible counts.
        """
        timed = total_moves if timed_moves is None else timed_moves
        if not 0 <= timed <= total_moves:
            raise ValueError("timed_moves is more than total_moves, or negative")
        return cls(
            games_played=games_won + games_lost + games_drawn,
            games_won=games_won,
            games_lost=games_lost,
            games_drawn=games_drawn,
            total_moves=total_moves,
            average_thinking_time=total_thinking_time / timed if timed else 0.0,
            illegal_moves_attempted=illegal_moves_attempted,
            timeouts=timeouts,
        )


class Agent(BaseModel):
    """A player: how it is set up, and how it has played.

    - ``agent_id``: unlike its opponent's; ``white`` and ``black`` are usual. ``name``: at most 50 characters.
    - ``personality``, ``model_name`` (an id at Hugging Face, empty for a player without a model), ``system_prompt``
      (plain text that does not tell anybody to run code, see `code_in`).
    - ``temperature``: 0 to 2. ``max_tokens``: of one answer. ``timeout_seconds``: for one move.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())

    agent_id: AgentId
    name: _Name
    personality: _Personality
    model_name: _ModelName
    system_prompt: _Prompt
    temperature: _Temperature
    max_tokens: _Tokens
    timeout_seconds: _Timeout
    stats: AgentStats

    @classmethod
    def of(cls, spec: AgentSpec, stats: AgentStats | None = None) -> Self:
        """Make the agent from its settings, and its stats: None for no games yet."""
        return cls(**spec.model_dump(), stats=AgentStats.from_counts() if stats is None else stats)


class AgentSpec(BaseModel):
    """The settings of an agent that plays (an Agent without its stats)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())

    agent_id: AgentId
    name: _Name = Field(default="", description="The first 50 characters of the agent_id where it is left out.")
    personality: _Personality = "balanced"
    model_name: _ModelName = Field(
        default="",
        description="A model's id at Hugging Face (owner/name); empty for no model.",
        json_schema_extra={"pattern": f"^({MODEL_NAME})?$"},
    )
    system_prompt: _Prompt = Field(default="", description="Plain text that does not tell its reader to run code.")
    temperature: _Temperature = 0.7
    max_tokens: _Tokens = 2048
    timeout_seconds: _Timeout = Field(default=30, description="For a move, where the game has no `deadline_s`.")

    @model_validator(mode="before")
    @classmethod
    def _is_named(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "name" not in value:
            agent_id = value.get("agent_id")
            if isinstance(agent_id, str) and agent_id:
                return {**value, "name": agent_id[:MAX_NAME]}
        return value
