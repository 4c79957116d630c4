"""Players of ``worldledger chess play``: read from the command line, and tried before anything is made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from worldledger.errors import SimulationError

if TYPE_CHECKING:
    import chess

    from worldledger_chess.arena.players import PlayerSpec

_ENGINES: Final = frozenset({"stockfish", "uci"})
#: What says how long an engine searches.
_LIMITS: Final = frozenset({"nodes", "depth", "movetime"})
#: Names that agents cannot have: those who write in a game's log besides them.
_RESERVED: Final = frozenset({"arena", "worldledger"})
#: Longest name that is taken from a player or its program; what is put behind it must fit into 50 characters.
_MAX_NAME: Final = 24


@dataclass(frozen=True)
class Contestant:
    """One of two players: the option that names it, how it is made (as a game's configuration has it), and as whom."""

    option: str
    spec: PlayerSpec
    agent_id: str

    @property
    def is_engine(self) -> bool:
        """Whether it is a UCI engine."""
        return self.spec.name in _ENGINES

    @property
    def is_program(self) -> bool:
        """Whether it runs what its description says, which a service does not do for a game that it finds."""
        from worldledger_chess.arena.players import InvalidPlayerError, read_spec  # noqa: PLC0415 - slow to load

        try:
            read_spec(self.spec.to_json())
        except InvalidPlayerError:
            return True
        return False

    @property
    def name(self) -> str:
        """Its name for people: an engine's has its nodes in it."""
        nodes = self.spec.config.get("nodes") if self.is_engine else None
        return self.agent_id if nodes is None else f"{self.agent_id}, {nodes} nodes"


def read_contestants(white: str, black: str, nodes: int | None) -> tuple[Contestant, Contestant]:
    """Read the players of ``--white`` and ``--black``; engines that say nothing of their own search ``nodes``.

    Two players of one name are told apart by a number: ``random-1`` is that of ``--white``. Raises SimulationError for
    what is none, UnknownPlayerError, InvalidPlayerError.
    """
    given = {"--white": _read("--white", white, nodes), "--black": _read("--black", black, nodes)}
    names = [_name(spec) for spec in given.values()]
    if names[0] == names[1]:
        names = [f"{name}-{number}" for number, name in enumerate(names, 1)]
    first, second = (Contestant(option, spec, name) for (option, spec), name in zip(given.items(), names, strict=True))
    if nodes is not None and not first.is_engine and not second.is_engine:
        raise SimulationError("--nodes is how long an engine searches, and neither of these players is one")
    return first, second


def _read(option: str, text: str, nodes: int | None) -> PlayerSpec:
    from worldledger_chess.arena.players import PlayerSpec, read_spec  # noqa: PLC0415 - slow to load; `--help` needs none of it
    from worldledger_chess.arena.players.engines import DEFAULT_NODES  # noqa: PLC0415

    described: Any = text
    if text.lstrip().startswith("{"):
        try:
            described = json.loads(text)
        except ValueError as error:
            raise SimulationError(f"{option}: this is no JSON: {error}", option=option) from None
    spec = read_spec(described, path=option, allow_programs=True)
    if spec.name == "external":
        raise SimulationError(
            f"{option}: the moves of an external player come from outside, over HTTP say; nobody sends any here",
            option=option,
        )
    if spec.name in _ENGINES and not _LIMITS & set(spec.config):
        how = {**spec.config, "nodes": DEFAULT_NODES if nodes is None else nodes}
        return read_spec(PlayerSpec(spec.name, how).to_json(), path=option, allow_programs=True)
    return spec


def _name(spec: PlayerSpec) -> str:
    """Return the agent_id that a player has by its name, an engine by its program's."""
    if spec.name != "uci":
        return f"{spec.name} player" if spec.name in _RESERVED else spec.name[:_MAX_NAME]
    name = PurePath(str(spec.config["path"])).name
    return name if name.isprintable() and 0 < len(name) <= _MAX_NAME and name not in _RESERVED else "uci"


async def try_out(contestants: tuple[Contestant, Contestant], board: chess.Board, deadline_s: float | None) -> None:
    """Make the players, start those that are engines, and have these search one position.

    So that no game is begun for a program that is missing, or is no engine. Raises PlayerError, UnknownPlayerError,
    InvalidPlayerError.
    """
    from worldledger_chess.arena.players import Position, make_player  # noqa: PLC0415

    for one in contestants:
        player = make_player(_briefly(one), seed=0, path=one.option, allow_programs=True)
        try:
            if one.is_engine:
                await player.move(Position.of(board, remaining_s=deadline_s))
        finally:
            await player.close()


def _briefly(one: Contestant) -> str | Mapping[str, Any]:
    """Return how a player is made that is only tried: an engine searches as little as it can."""
    if not one.is_engine:
        return one.spec.to_json()
    rest = {name: value for name, value in one.spec.config.items() if name not in _LIMITS}
    return {"name": one.spec.name, **rest, "nodes": 1}
