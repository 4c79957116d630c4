"""An episode: a live game of the arena, as the agent that plays it sees it.

Every external side of a game is the client's, except for that of the agent `RANDOM_AGENT`: its moves are made here, in
the step that they answer. So an episode needs no supervision: it can be left at any time, costs nothing then, and can
be continued anywhere. An opponent that the arena plays is waited for, but only for a short time. Source:
docs/reference/http.md, "OpenEnv"; the wire contract of OpenEnv.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from uuid import uuid4

from pydantic import ConfigDict, Field, JsonValue
from worldledger_service.api.context import Services
from worldledger_service.api.openapi import Shape, Word, WorldName
from worldledger_service.runtime.guarding import guarded

from worldledger.canonical import MAX_INT
from worldledger.errors import IllegalEffectError, WorldExistsError
from worldledger_chess.api.openenv.frames import RANDOM_AGENT
from worldledger_chess.api.serving import arena_of, board_at, game_of
from worldledger_chess.api.shapes import DeadlineOfEach, DeadlineS, Uci
from worldledger_chess.arena import GameNotLiveError, LiveGame, NewGame, PlayFrom
from worldledger_chess.arena.players import InvalidPlayerError, RandomPlayer
from worldledger_chess.rules import BoardState
from worldledger_chess.rules.board import read_fen, tensor_of
from worldledger_chess.rules.endings import MARKERS, OTHER, WINS, Player, Result, Status
from worldledger_chess.rules.live import EXTERNAL, MAX_ILLEGAL, LiveConfig, PlayerSpec
from worldledger_chess.rules.positions import MAX_FEN

if TYPE_CHECKING:
    from worldledger_chess.arena import MoveOutcome


#: The reward of an attempt that is not a legal move, as long as the game goes on.
ILLEGAL: Final = -0.1
#: Seconds for which an opponent that the arena plays is waited for.
_PATIENCE_SECONDS: Final = 5.0
#: Advice for a client whose episode was to begin while the database was silent.
_AGAIN: Final = "reset again with the same episode_id, and resume the episode if it is there"
#: The state of a socket on which no episode has begun.
NO_STATE: Final[dict[str, Any]] = {
    "episode_id": None,
    "step_count": 0,
    "fen": "",
    "current_player": "white",
    "move_history": [],
}


async def begin(found: Services, new: NewGame, play_from: PlayFrom | None = None) -> Episode:
    """Begin an episode; if the opponent begins, it has moved. Raises as `Arena.create`, WorldExistsError."""
    try:
        arena = arena_of(found)
        making = arena.create(new, play_from)
        game = await guarded(found.store.outages, making, again=_AGAIN, begun=lambda: arena.begins(new))
    except InvalidPlayerError as error:
        raise InvalidPlayerError(error.reason, "$.opponent") from None
    except WorldExistsError as error:
        what = f"the episode_id {new.game_id!r} is taken: choose another, leave it out, or resume that episode"
        raise WorldExistsError(what, **error.details) from None
    episode = Episode(game)
    await episode.go_on()
    return episode


async def episode_of(found: Services, episode_id: str, *, whole: bool = True) -> Episode:
    """Return an episode; ``whole``: with everything that is in its log by now, from any process.

    Raises GameNotFoundError, InvalidNameError, GameNotLiveError, StoreUnavailableError, and as `LiveGame.move` does.
    """
    game = await game_of(found, episode_id)
    if game.live is None:
        raise GameNotLiveError(f"{episode_id!r} is no live game: it is a record", game_id=episode_id)
    episode = Episode(game)
    if not episode.own:
        what = f"no client plays {episode_id!r}: both sides of it are the service's"
        raise GameNotLiveError(what, game_id=episode_id)
    if whole:
        await game.catch_up()
    await episode.go_on()
    return episode


class Episode:
    """One episode; ``own`` are the colours that its client moves."""

    def __init__(self, game: LiveGame) -> None:
        live = game.live
        assert live is not None  # noqa: S101 - checked before an episode is made
        self.game = game
        self.live: LiveConfig = live
        outside: list[Player] = [player for player in OTHER if live.players[player] == EXTERNAL]
        self._random = next((player for player in outside if live.agents[player].agent_id == RANDOM_AGENT), None)
        self.own: list[Player] = [player for player in outside if player != self._random]

    # -- playing -------------------------------------------------------------------------------------------

    async def go_on(self) -> None:
        """Wait until it is the client's turn, but not for long. Raises as `LiveGame.move`."""
        while True:
            record = self.game.record
            if not record.in_progress or record.unsettled or record.turn in self.own:
                return
            if record.turn != self._random:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PATIENCE_SECONDS):
                        await self.game.turn_of(*(record.agent(player) for player in self.own))
                return
            await self._move_randomly()

    async def _move_randomly(self) -> None:
        """Make the random agent's move: it follows from the seed and the game in any process, and is made once."""
        record = self.game.record
        seq, ply = record.seq, record.ply + 1
        move = await RandomPlayer(self._seed).move(record.position())
        try:
            await self.game.move(RANDOM_AGENT, move, req_id=f"reply:{ply}", ply=ply)
        except IllegalEffectError:
            await self.game.catch_up()
            if self.game.record.seq == seq:
                raise

    async def step(self, move: str, *, req_id: str, thinking_time: Any = None) -> tuple[dict[str, Any], bool]:
        """Attempt a move for the side to move; return the outcome, and whether the request was repeated.

        Raises as `LiveGame.move`: IllegalEffectError if the episode is over, or it is not the client's turn.
        """
        agent_id = self._mover(req_id)
        try:
            outcome = await self.game.move(agent_id, move, thinking_time=thinking_time, req_id=req_id)
        except IllegalEffectError as error:
            raise self._explained(error) from None
        await self.go_on()
        return self._told_after(outcome), outcome.replayed

    def _mover(self, req_id: str) -> str:
        """Return the agent whose attempt this is: the one that made it before, or else the one to move."""
        record = self.game.record
        agents = [record.agent(player) for player in self.own]
        before = next((agent for agent in agents if record.request(agent, req_id) is not None), None)
        return before or (record.agent(record.turn) if record.turn in self.own else agents[0])

    def _explained(self, error: IllegalEffectError) -> IllegalEffectError:
        rule = error.details.get("rule")
        ended = self.game.ended
        if rule == "game_over" and ended is not None:
            why = ended.reason or ended.status
            what = f"the episode is over ({MARKERS[ended.result]}, {why}): reset begins another"
        elif rule == "not_your_turn":
            what = f"it is the turn of {self.game.record.turn}, which the client does not move: wait for its move"
        else:
            return error
        return IllegalEffectError(what, "$.move", rule=rule)

    @property
    def _seed(self) -> int | str:
        return self.game.game_id if self.live.seed is None else self.live.seed

    # -- observing -------------------------------------------------------------------------------------------

    def observe(self) -> dict[str, Any]:
        """Return the observation of the present state, as after a reset."""
        record = self.game.record
        result = self._result_at(record.ply)
        reward = _reward(result, self.own[0]) if len(self.own) == 1 else 0.0
        left = {} if result is not None else {"attempts_left": self.game.attempts_left}
        return self._told(record.ply, result, reward, {"global_seq": record.seq, **left})

    def _told_after(self, outcome: MoveOutcome) -> dict[str, Any]:
        """Return the observation that an attempt has led to, however much has happened since."""
        record = self.game.record
        made = outcome.accepted or outcome.fallback is not None
        ply = outcome.ply if made else outcome.ply - 1
        if made and OTHER[outcome.player] not in self.own and record.ply > ply:
            ply += 1  # the answer
        result = self._result_at(ply) if made or outcome.ended is not None else None
        reward = ILLEGAL if result is None and not outcome.accepted else _reward(result, outcome.player)
        about: dict[str, Any] = {"global_seq": self._seq_of(ply, result, outcome), "accepted": outcome.accepted}
        if not outcome.accepted:
            about |= {"attempted": outcome.attempted, "detail": outcome.detail}
        if result is None:
            about["attempts_left"] = self.live.max_illegal if made else outcome.attempts_left
        return self._told(ply, result, reward, about)

    def _seq_of(self, ply: int, result: Result | None, outcome: MoveOutcome) -> int:
        """Return the last effect that an observation after an attempt covers."""
        record, ended = self.game.record, self.game.ended
        told = [outcome.global_seq]
        if ply:
            told.append(record.move_seq(ply))
        if result is not None and ended is not None:
            told.append(ended.global_seq)
        return max(told)

    def _result_at(self, ply: int) -> Result | None:
        """Return how the game ended with this many moves; None if it went on."""
        record = self.game.record
        if ply != record.ply:
            return None
        if record.due_end is not None:
            return record.due_end.result
        return None if self.game.ended is None else self.game.ended.result

    def _told(self, ply: int, result: Result | None, reward: float, about: dict[str, Any]) -> dict[str, Any]:
        """Make an observation; ``done`` and ``reward`` are inside and beside it: clients read either."""
        game, record = self.game, self.game.record
        board = board_at(game, ply)
        assert board is not None  # noqa: S101 - the game has come so far
        state = BoardState.from_board(board)
        turn: Player = "white" if board.turn else "black"
        done = result is not None
        metadata: dict[str, Any] = {
            "episode_id": game.game_id,
            **about,
            "player": self.own[0] if len(self.own) == 1 else "both",
            "turn": None if done else turn,
            "seed": self.live.seed,
            "last_move": record.moves_made[ply - 1] if ply else None,
        }
        if done:
            ended = game.ended
            metadata |= {"status": ended and ended.status, "reason": ended and ended.reason}
        observation = {
            "fen": state.fen,
            "legal_moves": state.legal_moves if turn in self.own and not done else [],
            "is_check": state.is_check,
            "result": None if result is None else MARKERS[result],
            "done": done,
            "reward": reward,
            "metadata": metadata,
        }
        return {"observation": observation, "reward": reward, "done": done}

    def state(self) -> dict[str, Any]:
        """Return the state; ``step_count`` counts half-moves, of both sides."""
        game, record = self.game, self.game.record
        ended = game.ended
        return {
            "episode_id": game.game_id,
            "step_count": record.ply,
            "fen": game.board_state.fen,
            "current_player": record.turn,
            "move_history": list(record.moves_made),
            "initial_fen": (record.root or self.live.board()).fen(en_passant="fen"),
            "player": self.own[0] if len(self.own) == 1 else "both",
            "agents": {player: self.live.agents[player].agent_id for player in OTHER},
            "seed": self.live.seed,
            "global_seq": record.seq,
            "attempts_left": game.attempts_left if record.in_progress else None,
            "status": record.entities["board"]["status"],
            "result": None if ended is None else MARKERS[ended.result],
            "done": ended is not None,
        }


def with_tensor(answer: dict[str, Any]) -> dict[str, Any]:
    """Add the position as numbers to an observation's metadata (`BoardState`)."""
    observation = answer["observation"]
    board = read_fen(observation["fen"], chess960=True)
    observation["metadata"]["board_tensor"] = tensor_of(board).tolist()
    return answer


def new_request_id() -> str:
    """Return an id for an attempt without one: sent again, it is another attempt."""
    return uuid4().hex


def _reward(result: Result | None, player: Player) -> float:
    if result is None or result == "draw":
        return 0.0
    return 1.0 if result == WINS[player] else -1.0


# -- the shapes of OpenEnv: actions, observations, states, and the bodies around them over HTTP -----------------

Score = Literal["1-0", "0-1", "1/2-1/2"]
Seed = Annotated[int, Field(ge=-MAX_INT, le=MAX_INT)]

_RESET: dict[str, Any] = {"seed": 7, "episode_id": "lesson-1", "agent_color": "white"}
_STEP: dict[str, Any] = {"episode_id": "lesson-1", "action": {"move": "e2e4"}, "request_id": "move-1"}


class OpenEnvReset(Shape):
    """The beginning of an episode; all fields are optional, and null means absent, except for `deadline_s`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_RESET]})

    seed: Seed | None = Field(
        default=None, description="The agent's colour and the random opponent's moves follow from it; drawn if null."
    )
    episode_id: WorldName | None = Field(default=None, description="The name of its world; a UUID if null.")
    fen: str | None = Field(default=None, max_length=MAX_FEN, description="The first position; it must be playable.")
    fork_of: str | None = Field(
        default=None,
        max_length=1000,
        description="WORLD@MOMENT: the episode is a fork of that game, recorded or live, and goes on from there.",
    )
    opponent: PlayerSpec | None = Field(
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
        default=None, description="The fallback: the agent resigns (usual), or a random move is made."
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
    timeout_s: float | None = Field(default=None, gt=0.0, description="Taken, and not needed: no step waits for long.")


class OpenEnvObservation(Shape):
    """The agent's observation."""

    fen: str = Field(description="Always with the square that a pawn has just passed over, as the standards have it.")
    legal_moves: list[Uci] = Field(description="In UCI, sorted; empty if it is not the client's turn.")
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
    """The answer to a reset or a step."""

    observation: OpenEnvObservation
    reward: float
    done: bool


class OpenEnvState(Shape):
    """The state of an episode."""

    episode_id: WorldName | None = Field(description="Null without an episode.")
    step_count: int = Field(ge=0, description="Half-moves, of both sides.")
    fen: str
    current_player: Player
    move_history: list[Uci]
    initial_fen: str | None = None
    player: Literal["white", "black", "both"] | None = Field(
        default=None, description="The side that the client moves."
    )
    agents: dict[Player, Word] | None = Field(default=None, description="The agents of the two sides.")
    seed: Seed | None = None
    global_seq: int | None = Field(default=None, description="The last effect of its log.")
    attempts_left: int | None = None
    status: Status | None = None
    result: Score | None = None
    done: bool | None = None


class OpenEnvHealth(Shape):
    """The environment is there."""

    status: Literal["healthy"]


class OpenEnvMetadata(Shape):
    """The metadata of this environment."""

    name: str
    description: str
    version: str


class OpenEnvSchemas(Shape):
    """JSON Schemas of actions, observations and states."""

    action: dict[str, JsonValue]
    observation: dict[str, JsonValue]
    state: dict[str, JsonValue]
