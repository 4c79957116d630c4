"""Simulations over HTTP: their turns, places in the log and states at their ends; how their errors are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import orjson
from fastapi import APIRouter, Depends, Path
from pydantic import ConfigDict, Field, JsonValue
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from worldledger_service.api.answers import to_json
from worldledger_service.api.context import Services, services
from worldledger_service.api.openapi import CHECKSUM, HEX64, GlobalSeq, Shape
from worldledger_service.api.parameters import WorldName, once, whole
from worldledger_service.api.problems import Answer
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.api.states import headers_of, responses_of_state, unchanged_of
from worldledger_service.store import WorldRecord, statements
from worldledger_service.store.states import StateAt

from worldledger.canonical import MAX_INT
from worldledger.errors import MomentNotFoundError, SimulationError
from worldledger_simulation.rules import Simulation
from worldledger_simulation.rules.sections import InvalidSimulationConfigError
from worldledger_simulation.rules.words import GLOBAL, PLACE, is_started, turn_of

if TYPE_CHECKING:
    from worldledger_service.store.moments import Units
    from worldledger_service.store.reader import Reader


# -- finding where in the log turns begin and end ------------------------------------------------------------


class TurnAt(NamedTuple):
    """The place of a turn in a world's log.

    ``first_seq`` is the effect that started it (SimulationStarted for the state that a simulation begins with),
    ``ended_seq`` the one that ended it, if there is one yet, and ``last_seq`` the last before the next turn: the head,
    while there is none.
    """

    turn: int
    first_seq: int
    ended_seq: int | None
    last_seq: int


class Turns:
    """Finds the turns of worlds."""

    def __init__(self, reader: Reader, units: Units) -> None:
        self._reader = reader
        self._units = units

    async def at(self, world: WorldRecord, turn: int) -> TurnAt:
        """Return the place of a turn. Raises MomentNotFoundError for one that the world does not have."""
        from worldledger_simulation.rules.words import TURN, TURN_ENDED  # noqa: PLC0415 - slow to load, for simulations

        first, last = await self._units.at(world, TURN, turn)
        rows = await self._reader.fetch(statements.FIRST_OF_KINDS, world.world_id, first, last, [TURN_ENDED])
        return TurnAt(turn, first, rows[0]["global_seq"] if rows else None, last)


# -- the shapes of answers -----------------------------------------------------------------------------------

_TURN: dict[str, Any] = {
    "world_id": "market",
    "turn": 3,
    "status": "ended",
    "first_seq": 20,
    "ended_seq": 26,
    "last_seq": 26,
    "checksum": CHECKSUM,
    "first_sim_time": 12.5,
    "first_wall_time": 1764277353.25,
    "last_sim_time": 14.0,
    "last_wall_time": 1764277354.75,
    "acted": {"Trader_1": 1},
    "paused": [],
    "agents": {"Trader_1": {"name": "Trader_1", "inventory": {"food": 10.5}}},
    "global_state": {"price": 2.0},
}


class Turn(Shape):
    """A turn of a simulation, and the values at its end."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_TURN]})

    world_id: str
    turn: int = Field(ge=0, le=MAX_INT)
    status: Literal["open", "ended"]
    first_seq: GlobalSeq = Field(description="The effect that started it.")
    ended_seq: GlobalSeq | None = Field(description="The effect that ended it, if there is one.")
    last_seq: GlobalSeq = Field(description="The last effect before the next turn, or of all: the values are of there.")
    checksum: str = Field(pattern=HEX64, description="The chain checksum of that effect.")
    first_sim_time: float
    first_wall_time: float
    last_sim_time: float
    last_wall_time: float
    acted: dict[str, int] = Field(description="How often each agent has changed its variables in this turn.")
    paused: list[str] = Field(description="The agents that were paused, sorted.")
    agents: dict[str, dict[str, JsonValue]] = Field(description="Each agent's variables, its `name` among them.")
    global_state: dict[str, JsonValue] = Field(description="The global variables.")


router = APIRouter(route_class=ReadingRoute, tags=["states"], dependencies=[Depends(once)])


@router.get(
    "/v1/worlds/{world}/turns/{turn}",
    operation_id="get_turn",
    summary="A turn of a simulation, and what was true at its end",
    response_class=Response,
    responses=responses_of_state(
        Turn,
        "The turn, with every value at its end; of the open turn, with those of now.",
        unchanged="The turn is as the client that sent If-None-Match has it; nothing was folded.",
        seq="last_seq",
    ),
)
async def get_turn(
    request: Request,
    world: WorldName,
    turn: Annotated[int, whole(0), Path(ge=0, le=MAX_INT, description="The turn's number.")],
) -> Response:
    """Return where a turn begins and ends in the log, and the agents and global variables as they were at its end.

    That is the ground truth, the state after the last effect before the next turn begins: what an agent saw of it is
    below `…/agents/{agent_id}/view?turn=`. The turn that a simulation begins with (0, or a checkpoint's) is an ended
    one.
    """
    found = services(request)
    record = await found.store.world(world)
    if record.ruleset != Simulation.name:
        raise _missing(record, turn, f"worlds of {record.ruleset} have no turns")
    at = await Turns(found.store.reader, found.store.states.units).at(record, turn)
    unchanged = await unchanged_of(request, found, record, at.last_seq)
    if unchanged is not None:
        return unchanged
    state = await found.store.states.state_at(world, at.last_seq)
    if not is_started(state.state) or turn_of(state.state) != turn:  # only an import brings such a log
        raise _missing(record, turn, "the effect that names it is malformed")
    value = _value(at, state, await _times(found, record, at))
    return Response(await asyncio.to_thread(to_json, value), 200, headers_of(state), "application/json")


def _missing(record: WorldRecord, turn: int, why: str) -> MomentNotFoundError:
    what = f"world {record.world_id!r} has no turn {turn}; {why}"
    return MomentNotFoundError(what, world_id=record.world_id, turn=turn, head_seq=record.head_seq)


def _value(at: TurnAt, found: StateAt, times: dict[str, float]) -> dict[str, Any]:
    state = found.state
    simulation = state.metadata[PLACE]
    agents = sorted(simulation["agents"])
    return {
        "world_id": found.world_id,
        "turn": at.turn,
        "status": "open" if simulation["open"] else "ended",
        **at._asdict(),
        "checksum": found.checksum,
        **times,
        "acted": simulation["acted"],
        "paused": [name for name in agents if simulation["agents"][name]["paused"]],
        "agents": {name: state.entities[name] for name in agents},
        "global_state": state.entities[GLOBAL],
    }


async def _times(found: Services, record: WorldRecord, at: TurnAt) -> dict[str, float]:
    """Return the times of a turn's first and last effect, by both clocks."""
    times: dict[str, float] = {}
    for name, seq in (("first", at.first_seq), ("last", at.last_seq)):
        effect = orjson.loads((await found.store.reader.effect(record.world_id, seq)).text)
        times |= {f"{name}_sim_time": effect["sim_time"], f"{name}_wall_time": effect["wall_time"]}
    return times


ROUTES: Final[tuple[BaseRoute, ...]] = (*router.routes,)


PROBLEMS: Final[Mapping[type[SimulationError], Answer]] = {
    InvalidSimulationConfigError: Answer(422, "The simulation is refused"),
}
