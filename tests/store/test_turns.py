"""Where turns stand in the logs of simulations."""

from __future__ import annotations

from typing import Any

import pytest
from worldledger_service.store import EventLog, Store
from worldledger_simulation.api import TurnAt, Turns

from tests.rulesets.simulation.playing import checked, trade
from worldledger.effects import EffectDraft
from worldledger.errors import MomentNotFoundError
from worldledger.genesis import NewWorld
from worldledger.moments import Moment

from .helpers import draft


def _said(kind: str, **payload: Any) -> EffectDraft:
    asked = checked(kind, payload)
    made: Any = {
        "kind": kind,
        "payload": payload,
        "source_id": asked.source_id,
        "schema_version": asked.schema_version,
    }
    return made  # type: ignore[no-any-return]


async def _simulation(store: Store, world_id: str, checkpoint: dict[str, Any] | None = None) -> EventLog:
    """Create a simulation; its beginning is at seq 2, its agents at 3 to 5."""
    config = trade(simulation={"name": "turns"})
    await store.create_world(
        NewWorld(world_id=world_id, ruleset="simulation", config=config, checkpoint=checkpoint, time_authority="wall")
    )
    return await store.log(world_id)


async def _missing(store: Store, world_id: str, turn: int) -> MomentNotFoundError:
    with pytest.raises(MomentNotFoundError) as caught:
        await Turns(store.reader, store.states.units).at(await store.world(world_id), turn)
    with pytest.raises(MomentNotFoundError):
        await store.states.place_at(await store.world(world_id), Moment(unit=("turn", turn)))
    assert (caught.value.details["world_id"], caught.value.details["turn"]) == (world_id, turn)
    return caught.value


async def _at(store: Store, world_id: str, turn: int) -> TurnAt:
    world = await store.world(world_id)
    found = await Turns(store.reader, store.states.units).at(world, turn)
    assert await store.states.place_at(world, Moment(unit=("turn", turn))) == (world, found.last_seq)
    return found


async def test_a_turn_is_from_its_start_to_the_next(store: Store, world_id: str) -> None:
    """A turn begins with TurnStarted, may be ended, and what comes before the next one still belongs to it."""
    log = await _simulation(store, world_id)
    assert await _at(store, world_id, 0) == TurnAt(0, 2, None, 5)
    await log.append_all([_said("TurnStarted"), _said("AgentPaused", agent_id="Ann")])
    assert await _at(store, world_id, 0) == TurnAt(0, 2, None, 5)
    assert await _at(store, world_id, 1) == TurnAt(1, 6, None, 7)
    await log.append_all([_said("TurnEnded"), _said("AgentResumed", agent_id="Ann")])
    assert await _at(store, world_id, 1) == TurnAt(1, 6, 8, 9)
    await log.append_all([_said("TurnStarted"), _said("TurnEnded"), _said("TurnStarted")])
    assert await _at(store, world_id, 1) == TurnAt(1, 6, 8, 9)
    assert await _at(store, world_id, 2) == TurnAt(2, 10, 11, 11)
    assert await _at(store, world_id, 3) == TurnAt(3, 12, None, 12)
    error = await _missing(store, world_id, 4)
    assert "its last is 3" in error.message
    assert error.details["head_seq"] == 12


async def test_the_state_at_a_turn(store: Store, world_id: str) -> None:
    """The state at each turn's last effect knows that turn, and whether it was ended."""
    log = await _simulation(store, world_id)
    for turn in range(1, 12):
        price = [{"op": "replace", "path": "/price", "value": turn}]
        await log.append_all([_said("TurnStarted"), _said("GlobalStateChanged", patch=price), _said("TurnEnded")])
    for turn in range(12):
        found = await _at(store, world_id, turn)
        state = (await store.states.state_at(world_id, found.last_seq)).state
        assert (state.metadata["turn"], state.metadata["simulation"]["open"]) == (turn, False)
        assert state.entities["global"]["price"] == float(turn or 2)
        assert (found.ended_seq is None) == (turn == 0)


@pytest.mark.parametrize("turn", [0, 5])
async def test_a_world_that_begins_at_a_turn(store: Store, world_id: str, turn: int) -> None:
    """The turn that a checkpoint was taken in is the one that the world begins with; earlier ones it does not have."""
    log = await _simulation(store, world_id, {"turn": turn, "agents": {"Ann": {}}, "global_state": {}})
    assert await _at(store, world_id, turn) == TurnAt(turn, 2, None, 3)
    await _missing(store, world_id, turn - 1)
    await _missing(store, world_id, turn + 1)
    await log.append_all([_said("TurnStarted"), _said("TurnEnded")])
    assert await _at(store, world_id, turn) == TurnAt(turn, 2, None, 3)
    assert await _at(store, world_id, turn + 1) == TurnAt(turn + 1, 4, 5, 5)


async def test_other_worlds_have_no_turns(store: Store, log: EventLog) -> None:
    """A world of another ruleset has none, whatever its effects are called."""
    await log.append_all([draft(), _said("TurnStarted", turn=1), _said("TurnEnded", turn=1)])
    for turn in (0, 1):
        assert "worlds of sandbox have no such unit, only step" in (await _missing(store, log.world_id, turn)).message


async def test_numbers_that_are_no_turns(store: Store, world_id: str) -> None:
    """A number below zero, and one beyond all that there are, is no turn."""
    await _simulation(store, world_id)
    for turn in (-1, 2**53 - 1, 2**70):
        await _missing(store, world_id, turn)
