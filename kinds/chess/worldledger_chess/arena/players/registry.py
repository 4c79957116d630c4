"""Players by name: reading their descriptions, and making them.

A description is a name (``external``, ``random``, ``stockfish``, ``uci:PATH``, ``llm:MODEL``, or one that an installed
package offers), or an object of ``name`` and the player's own settings: ``{"name": "stockfish", "nodes": 500}``. It is
JSON, so that a game's configuration in the log names its players, and any process can make the same ones.

Such a configuration may come from an untrusted client: without ``allow_programs`` it cannot name a program, its
arguments or the options of an engine (some write files), nor a model's service, nor configure a package's player.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from worldledger.canonical import child
from worldledger_chess.arena.players.base import (
    ExternalPlayer,
    GuardedPlayer,
    InvalidPlayerError,
    Player,
    RandomPlayer,
    UnknownPlayerError,
)
from worldledger_chess.arena.players.engines import EnginePlayer, EngineSettings
from worldledger_chess.arena.players.models import ModelSettings, model_player
from worldledger_chess.rules.live import MAX_PLAYER_NAME

_Settings = TypeVar("_Settings", bound=BaseModel)

#: The entry-point group in which packages offer players: a callable (config: dict, *, seed: int | str) -> Player.
GROUP: Final = "worldledger.players"

_BUILT_IN: Final = ("external", "random", "stockfish", "uci", "llm")
#: What follows the colon where a player is written as one word: the path of a program, the name of a model.
_NAMED_BY: Final = {"uci": "path", "llm": "model"}
#: The settings of an engine that name a program, or can do as much harm.
_OF_PROGRAMS: Final = ("path", "args", "options")
#: Debian installs engines into a folder that is not in the path of services.
_GAMES: Final = ("/usr/games", "/usr/local/games")
#: A small hash and one thread: a few thousand nodes need no more, and the same position gives the same move.
_STOCKFISH_OPTIONS: Final = {"Threads": 1, "Hash": 1}


@dataclass(frozen=True, slots=True)
class PlayerSpec:
    """A player's description after reading: its name, and the given settings."""

    name: str
    config: Mapping[str, Any]

    def to_json(self) -> str | dict[str, Any]:
        """Return it as a configuration stores it; reading that gives the same."""
        return {"name": self.name, **self.config} if self.config else self.name


def known_players() -> list[str]:
    """Return the names of all built-in and installed players, sorted."""
    return sorted({*_BUILT_IN, *(point.name for point in entry_points(group=GROUP))})


def read_spec(spec: object, *, path: str = "$", allow_programs: bool = False) -> PlayerSpec:
    """Read a player's description and check it; nothing is started or loaded.

    ``path`` is its place in the caller's data. Raises UnknownPlayerError for an unknown name, InvalidPlayerError for
    settings that are wrong, or that need ``allow_programs``.
    """
    name, config = _split(spec, path)
    where = path if isinstance(spec, str) else f"{path}.name"
    if len(name) > MAX_PLAYER_NAME:
        raise InvalidPlayerError(f"a player's name has at most {MAX_PLAYER_NAME} characters", where)
    if name not in _BUILT_IN and name not in known_players():
        raise UnknownPlayerError(name, known_players(), where)
    if name in {"external", "random"}:
        for key in config:
            raise InvalidPlayerError(f"the player {name!r} has no settings", child(path, key))
    elif name in {"stockfish", "uci"}:
        _read_engine(name, config, path)
    elif name == "llm":
        _read(ModelSettings, config, path)
    if not allow_programs:
        asks = [key for key in config if name not in {*_BUILT_IN} - {"llm"} or key in _OF_PROGRAMS]
        if asks or name == "uci":
            does = "asks" if name == "llm" else "runs"
            raise InvalidPlayerError(
                f"the player {name!r} with {' and '.join(asks) or 'a program'} {does} what its description says, and "
                "that is not allowed here; the operator can allow it, or offer the player by a package's entry point "
                f"in the group {GROUP}",
                child(path, asks[0]) if asks and not isinstance(spec, str) else path,
            )
    return PlayerSpec(name, config)


def make_player(
    spec: str | Mapping[str, Any] | PlayerSpec, *, seed: int | str, path: str = "$", allow_programs: bool = False
) -> Player:
    """Make a described player; engines are looked for now and started at their first move.

    ``seed`` is for players that draw; engines and external players ignore it. Raises as `read_spec`, also if the
    program or the package's player is missing. The player must be closed.
    """
    described = spec.to_json() if isinstance(spec, PlayerSpec) else spec
    read = read_spec(described, path=path, allow_programs=allow_programs)
    if read.name == "external":
        return ExternalPlayer()
    if read.name == "random":
        return RandomPlayer(seed)
    if read.name in {"stockfish", "uci"}:
        settings, program, args = _read_engine(read.name, read.config, path)
        return EnginePlayer([_find(program, path), *args], settings, name=read.name)
    if read.name == "llm":
        return model_player(_read(ModelSettings, read.config, path), path)
    return _make_offered(read, seed, path)


def _split(spec: object, path: str) -> tuple[str, dict[str, Any]]:
    if isinstance(spec, str):
        kind, colon, rest = spec.partition(":")
        return (kind, {_NAMED_BY[kind]: rest}) if colon and kind in _NAMED_BY else (spec, {})
    if not isinstance(spec, Mapping) or not all(isinstance(key, str) for key in spec):
        raise InvalidPlayerError("a player is a name, or an object of name and settings", path)
    config = dict(spec)
    name = config.pop("name", None)
    if not isinstance(name, str):
        raise InvalidPlayerError(f"a player's name is wanted, such as {', '.join(_BUILT_IN)}", f"{path}.name")
    return name, config


def _read_engine(name: str, config: Mapping[str, Any], path: str) -> tuple[EngineSettings, str, list[str]]:
    """Return an engine's settings, its program and the program's arguments."""
    settings = dict(config)
    program = settings.pop("path", "stockfish" if name == "stockfish" else None)
    if not isinstance(program, str) or not program:
        raise InvalidPlayerError("the engine's program is wanted, as 'uci:PATH' or path", f"{path}.path")
    args = settings.pop("args", [])
    if not isinstance(args, list) or not all(isinstance(arg, str) and "\0" not in arg for arg in args):
        raise InvalidPlayerError("the program's arguments are a list of strings", f"{path}.args")
    read = _read(EngineSettings, settings, path)
    if name == "stockfish":
        read = read.model_copy(update={"options": {**_STOCKFISH_OPTIONS, **read.options}})
    return read, program, args


def _read(shape: type[_Settings], settings: Mapping[str, Any], path: str) -> _Settings:
    """Read a player's settings. Raises InvalidPlayerError with the place of the first that is wrong."""
    try:
        return shape.model_validate(dict(settings))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = path
        for part in first["loc"]:
            where = child(where, part)
        raise InvalidPlayerError(first["msg"].removeprefix("Value error, "), where) from None


def _find(program: str, path: str) -> str:
    """Find a program as a shell does, and in the folders of games."""
    folders = os.pathsep.join([os.environ.get("PATH", os.defpath), *_GAMES])
    found = shutil.which(program, path=folders)
    if found is None:
        raise InvalidPlayerError(
            f"there is no program {program!r} here (looked in PATH and {', '.join(_GAMES)}); install it (Debian has "
            "the package stockfish) or name another as 'uci:PATH'",
            path,
            program=program,
        )
    return found


def _offer(name: str, path: str) -> EntryPoint:
    offers = {point.value: point for point in entry_points(group=GROUP, name=name)}
    if len(offers) != 1:
        why = f"the player {name!r} is offered by several packages ({', '.join(sorted(offers))}): uninstall all but one"
        raise UnknownPlayerError(name, known_players(), path, why=why if offers else None)
    return next(iter(offers.values()))


def _make_offered(spec: PlayerSpec, seed: int | str, path: str) -> Player:
    point = _offer(spec.name, path)
    try:
        factory = point.load()
    except Exception as error:
        why = f"the player {spec.name!r} ({point.value}) cannot be loaded: {type(error).__name__}: {error}"
        raise UnknownPlayerError(spec.name, known_players(), path, why=why) from error
    try:
        made: object = factory(dict(spec.config), seed=seed)
    except Exception as error:  # a third party's class may raise anything
        what = f"the player {spec.name!r} ({point.value}) cannot be made: {type(error).__name__}: {error}"
        raise InvalidPlayerError(what, path) from error
    if not isinstance(made, Player):
        what = f"the player {spec.name!r} ({point.value}) is a {type(made).__name__} without name, move and close"
        raise InvalidPlayerError(what, path)
    return GuardedPlayer(made, spec.name)
