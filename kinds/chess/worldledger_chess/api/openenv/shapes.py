"""The shapes of OpenEnv: actions, observations, states, and the bodies around them over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue
from worldledger_service.api.schemas.base import Shape, Word, WorldName

from worldledger.canonical import MAX_INT
from worldledger_chess.api.shapes import DeadlineOfEach, DeadlineS, Seconds, Uci
from worldledger_chess.rules.endings import Player, Status
from worldledger_chess.rules.fens import MAX_FEN
from worldledger_chess.rules.live import MAX_ILLEGAL

Score = Literal["1-0", "0-1", "1/2-1/2"]
Seed = Annotated[int, Field(ge=-MAX_INT, le=MAX_INT)]

_RESET: dict[str, Any] = {"seed": 7, "episode_id": "lesson-1", "agent_color": "white"}
_STEP: dict[str, Any] = {"episode_id": "lesson-1", "action": {"move": "e2e4"}, "request_id": "move-1"}


class OpenEnvReset(Shape):
    """How an episode begins, all of it optional; null is as left out, but for `deadline_s`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_RESET]})

    seed: Seed | None = Field(
        default=None, description="The agent's colour and the random opponent's moves follow from it; drawn if null."
    )
    episode_id: WorldName | None = Field(default=None, description="The name of its world; a UUID if null.")
    fen: str | None = Field(default=None, max_length=MAX_FEN, description="Where it begins, a playable position.")
    opponent: str | dict[str, JsonValue] | None = Field(
        default=None,
        description="`random`, which is usual; `self`: the client moves both sides; or a player as a new game has it.",
    )
    agent_color: Player | None = Field(default=None, description="Drawn by the seed if null.")
    agent_id: Word | None = Field(default=None, description="Under which the agent's statistics are kept.")
    experiment: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="The label of its world; `openenv` if null."
    )
    max_illegal: Annotated[int, Field(ge=1, le=MAX_ILLEGAL)] | None = Field(
        default=None, description="After so many illegal attempts in a row (3) comes the fallback."
    )
    fallback: Literal["resign", "random"] | None = Field(
        default=None, description="What is done then for the agent: it resigns (usual), or a random move is made."
    )
    deadline_s: DeadlineS | DeadlineOfEach | None = Field(
        default=None, description="Seconds for a move; usually no limit."
    )
    tensor: bool | None = Field(default=None, description="Whether observations have a `board_tensor` in `metadata`.")
    resume: bool | None = Field(
        default=None, description="Go on with the episode of this `episode_id`; nothing but `tensor` is said with it."
    )


class OpenEnvAction(Shape):
    """An attempt to make a move."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"move": "e2e4"}]})

    move: str = Field(max_length=10_000, description="UCI (e2e4, e7e8q) or SAN (e4, Nf3, O-O).")
    metadata: dict[str, JsonValue] = Field(
        default={},
        description="Anything; known are `request_id` (the same one is the same attempt), `thinking_time` (seconds) "
        "and, over HTTP, `episode_id`.",
    )


class OpenEnvStep(Shape):
    """A step over HTTP. The episode's id may stand here, in the query, or in the action's metadata."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_STEP]})

    action: OpenEnvAction
    episode_id: WorldName | None = None
    request_id: Word | None = Field(default=None, description="The same one is the same attempt.")
    timeout_s: Seconds | None = Field(default=None, description="Taken, and not needed: no step waits for long.")


class OpenEnvObservation(Shape):
    """What the agent sees."""

    fen: str = Field(description="Always with the square that a pawn has just passed over, as the standards have it.")
    legal_moves: list[Uci] = Field(description="In UCI, sorted; empty where it is not the client's turn.")
    is_check: bool
    result: Score | None = Field(description="Null while the episode goes on.")
    done: bool = False
    reward: float = Field(default=0.0, description="1, 0 or -1 at the end, -0.1 for an illegal attempt, else 0.")
    metadata: dict[str, JsonValue] = Field(
        default={},
        description="`episode_id`, `global_seq`, `player` (the agent's colour, or `both`), `turn`, `seed`, "
        "`last_move`, `attempts_left`; after a step `accepted`, and what was `attempted` and its `detail`; at the end "
        "`status` and `reason`; `board_tensor` where it is asked for.",
    )


class OpenEnvResult(Shape):
    """What a reset or a step is answered with."""

    observation: OpenEnvObservation
    reward: float
    done: bool


class OpenEnvState(Shape):
    """How an episode stands."""

    episode_id: WorldName | None = Field(description="Null where no episode is meant.")
    step_count: int = Field(ge=0, description="Half-moves, of both sides.")
    fen: str
    current_player: Player
    move_history: list[Uci]
    initial_fen: str | None = None
    player: Literal["white", "black", "both"] | None = Field(default=None, description="What the client moves.")
    agents: dict[Player, Word] | None = Field(default=None, description="The agents of the two sides.")
    seed: Seed | None = None
    global_seq: int | None = Field(default=None, description="The last effect of its log.")
    attempts_left: int | None = None
    status: Status | None = None
    result: Score | None = None
    done: bool | None = None


class OpenEnvHealth(Shape):
    """That the environment is there."""

    status: Literal["healthy"]


class OpenEnvMetadata(Shape):
    """What this environment is."""

    name: str
    description: str
    version: str


class OpenEnvSchemas(Shape):
    """JSON Schemas of actions, observations and states."""

    action: dict[str, JsonValue]
    observation: dict[str, JsonValue]
    state: dict[str, JsonValue]
