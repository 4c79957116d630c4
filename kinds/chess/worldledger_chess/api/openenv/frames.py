"""Parsing requests: the frames of a socket, the beginning of an episode, and actions. Nothing is looked up.

Source: the wire contract of OpenEnv.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection
from hashlib import sha256
from typing import Any, Final, NamedTuple, NoReturn

from worldledger_service.api.bodies import members, parse

from worldledger.canonical import child
from worldledger.drafts import check_req_id, json_name
from worldledger.errors import InvalidConfigError, InvalidEffectError
from worldledger.moments import HEAD, UnreadableMomentError, parse_place
from worldledger_chess.arena import InvalidMoveRequestError, NewGame, PlayFrom
from worldledger_chess.arena.players import read_spec
from worldledger_chess.rules.endings import OTHER, Player
from worldledger_chess.rules.live import EXTERNAL, LIVE

#: The agent whose random moves an episode makes itself, in the same step that they answer.
RANDOM_AGENT: Final = "openenv-random"
#: The default opponent, and the absent one: the client moves both sides.
_RANDOM: Final = "random"
_SELF: Final = "self"
#: The label of episodes without one.
_EXPERIMENT: Final = "openenv"
_AGENT: Final = "openenv-agent"

#: The members of a reset: of any episode, and of one that is resumed.
_RESET: Final = (
    *("seed", "episode_id", "fen", "fork_of", "opponent", "agent_color", "agent_id", "experiment"),
    *("max_illegal", "fallback", "deadline_s", "tensor", "resume"),
)
_RESUME: Final = ("resume", "episode_id", "tensor")
#: The members that are passed to the game's own configuration unchanged.
_AS_IT_IS: Final = ("fen", "max_illegal", "fallback", "deadline_s")
#: Places of problems in the game's configuration -> their names in a reset.
_PLACES: Final = {"game_id": "$.episode_id", "white": "$.agent_id", "black": "$.agent_id"}
_MESSAGES: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "reset": (("type",), ("data",)),
    "step": (("type", "data"), ()),
    "state": (("type",), ()),
    "close": (("type",), ()),
}


# -- frames ------------------------------------------------------------------------------------------------


class RefusedError(Exception):
    """A frame that is not a message; ``code`` is OpenEnv's code for the reason."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Message(NamedTuple):
    """A client's message; ``data`` is an object whose members are not checked yet."""

    type: str
    data: dict[str, Any]


def read_message(text: str | None) -> Message:
    """Read a frame; None is one that is not text. Raises RefusedError."""
    if text is None:
        raise RefusedError("INVALID_JSON", "a message is a text frame, not a binary one")
    try:
        value = parse(text.encode())
        if "NaN" in text or "Infinity" in text:  # words that Python's parser accepts, and JSON does not have
            json.loads(text, parse_constant=_no_constant)
    except InvalidEffectError as error:
        raise RefusedError("INVALID_JSON", f"{error.path}: {error.reason}") from None
    if type(value) is not dict:
        raise RefusedError("VALIDATION_ERROR", f"$: a message is an object, not {json_name(value)}")
    kind = value.get("type")
    if type(kind) is not str or kind not in _MESSAGES:
        raise RefusedError("UNKNOWN_TYPE", f"$.type: a message is of type {', '.join(_MESSAGES)}")
    try:
        members(value, f"a message of type {kind}", *_MESSAGES[kind])
    except InvalidEffectError as error:
        raise RefusedError("VALIDATION_ERROR", f"{error.path}: {error.reason}") from None
    data = value.get("data")
    if data is None and "data" not in _MESSAGES[kind][0]:
        data = {}
    if type(data) is not dict:
        raise RefusedError("VALIDATION_ERROR", f"$.data: data is an object, not {json_name(data)}")
    return Message(kind, data)


def _no_constant(name: str) -> NoReturn:
    raise InvalidEffectError(f"not JSON: {name}")


# -- resets ------------------------------------------------------------------------------------------------


class Reset(NamedTuple):
    """A reset: a ``new`` game, or None if the episode of this id is continued; and what a new game goes on from."""

    new: NewGame | None
    episode_id: str | None
    tensor: bool
    play_from: PlayFrom | None = None


def read_reset(data: dict[str, Any]) -> Reset:
    """Read a reset; null is the same as left out, except for ``deadline_s``.

    What is not given is drawn: a seed, and from the seed the agent's colour. Raises InvalidConfigError,
    UnknownPlayerError, InvalidPlayerError.
    """
    said = {name: value for name, value in data.items() if value is not None or name == "deadline_s"}
    resume = _flag(said, "resume")
    _only(data if not resume else said, "a reset" if not resume else "a resumed episode", _RESUME if resume else _RESET)
    tensor = _flag(said, "tensor")
    if resume:
        episode_id = said.get("episode_id")
        if type(episode_id) is not str:
            raise _refused("which episode is to be resumed is a string", "$.episode_id")
        return Reset(None, episode_id, tensor)
    play_from = _play_from(said)
    new = _new_game(said)
    return Reset(new, new.game_id, tensor, play_from)


def _play_from(said: dict[str, Any]) -> PlayFrom | None:
    place = said.get("fork_of")
    if place is None:
        return None
    if type(place) is not str:
        raise _refused("what is played on is written WORLD@MOMENT, or WORLD for its head", "$.fork_of")
    if "fen" in said:
        raise _refused("a game that is played on has its own position", "$.fen")
    try:
        world, moment = parse_place(place)
    except UnreadableMomentError as error:
        raise _refused(str(error), "$.fork_of") from None
    return PlayFrom(world, HEAD if moment is None else moment)


def _new_game(said: dict[str, Any]) -> NewGame:
    seed = said.get("seed", secrets.randbelow(2**53))
    colour = _colour(said, seed)
    opponent = said.get("opponent", _RANDOM)
    agent_id = said.get("agent_id", _AGENT)
    if agent_id == RANDOM_AGENT:
        raise _refused("this is the service's own agent", "$.agent_id")
    agents: dict[str, Any] = {colour: {"agent_id": agent_id}}
    game: dict[str, Any] = {
        "game_id": said.get("episode_id"),
        "seed": seed,
        "experiment": said.get("experiment", _EXPERIMENT),
        "deadline_s": None,
        **{name: said[name] for name in _AS_IT_IS if name in said},
    }
    if opponent == _SELF:
        stem = "openenv" if "agent_id" not in said else agent_id
        agents = {player: {"agent_id": f"{stem}-{player}" if type(stem) is str else stem} for player in OTHER}
    elif opponent == _RANDOM:
        what = "draws among the legal moves by the seed"
        agents[OTHER[colour]] = {"agent_id": RANDOM_AGENT, "name": "Random", "personality": what}
    else:
        spec = read_spec(opponent, path="$.opponent")
        if spec.name == EXTERNAL:
            raise _refused("an opponent that comes from outside is the client itself: self", "$.opponent")
        agents[OTHER[colour]] = {"agent_id": f"openenv-{spec.name}", "name": spec.name[:50]}
        game["players"] = {OTHER[colour]: spec.to_json()}
        if "deadline_s" not in said:
            del game["deadline_s"]  # a player of the service must not wait for ever
    try:
        new = NewGame.of({LIVE: {**game, **agents}}, new=True)
    except InvalidConfigError as error:
        found = [{**problem, "path": _place(problem["path"])} for problem in error.details["problems"]]
        text = "; ".join(f"{problem['path']}: {problem['message']}" for problem in found)
        raise InvalidConfigError(text, path=found[0]["path"], problems=found) from None
    assert new is not None  # noqa: S101 - there is a configuration
    return new


def _colour(said: dict[str, Any], seed: Any) -> Player:
    """Return the agent's colour: as given, or drawn from the seed alone."""
    colour = said.get("agent_color")
    if colour is None:
        return "black" if sha256(f"colour:{seed}".encode("utf-8", "replace")).digest()[0] % 2 else "white"
    if colour == "white":
        return "white"
    if colour == "black":
        return "black"
    raise _refused("a colour is white or black", "$.agent_color")


def _place(path: str) -> str:
    inner = path.removeprefix(f"$.config.{LIVE}")
    return _PLACES.get(inner[1:].partition(".")[0], f"${inner}")


def _flag(said: dict[str, Any], name: str) -> bool:
    value = said.get(name, False)
    if type(value) is not bool:
        raise _refused(f"{name} is true or false", f"$.{name}")
    return value


def _only(said: dict[str, Any], what: str, names: Collection[str]) -> None:
    try:
        members(said, what, (), names)
    except InvalidEffectError as error:
        raise _refused(error.reason, error.path) from None


def _refused(reason: str, path: str) -> InvalidConfigError:
    return InvalidConfigError(f"{path}: {reason}", path=path)


# -- actions -----------------------------------------------------------------------------------------------


class Action(NamedTuple):
    """An action: the attempt to make a ``move``; the rest comes from its metadata, unchecked."""

    move: Any
    request_id: str | None
    thinking_time: Any
    episode_id: Any


def read_action(value: Any, path: str = "$") -> Action:
    """Read an action, which is at ``path``: the move, and the known members of its metadata.

    Raises InvalidMoveRequestError.
    """
    try:
        members(value, "an action", ("move",), ("metadata",))
    except InvalidEffectError as error:
        raise InvalidMoveRequestError(error.reason, path + error.path[1:]) from None
    metadata = value.get("metadata", {})
    if type(metadata) is not dict:
        raise InvalidMoveRequestError(f"metadata is an object, not {json_name(metadata)}", f"{path}.metadata")
    if type(value["move"]) is not str:
        raise InvalidMoveRequestError(f"a move is a string, not {json_name(value['move'])}", f"{path}.move")
    request_id = read_request_id(metadata.get("request_id"), child(f"{path}.metadata", "request_id"))
    return Action(value["move"], request_id, metadata.get("thinking_time"), metadata.get("episode_id"))


def read_request_id(value: Any, path: str) -> str | None:
    """Return a request's id, which makes a repeated request the same attempt. Raises InvalidMoveRequestError."""
    if value is None:
        return None
    try:
        return check_req_id(value)
    except InvalidEffectError as error:
        raise InvalidMoveRequestError(error.reason, path) from None
