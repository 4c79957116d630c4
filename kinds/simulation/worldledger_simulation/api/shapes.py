"""The shapes of the turns of simulations."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field, JsonValue
from worldledger_service.api.schemas.base import CHECKSUM, HEX64, GlobalSeq, Shape

from worldledger.canonical import MAX_INT

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
