"""Opening simulations in this process."""

from __future__ import annotations

from typing import Any

from worldledger_service.runtime import Orchestrator

from tests.rulesets.simulation.playing import trade


async def test_a_simulation_is_opened_by_its_configuration_or_as_it_stands(database_url: str, world_id: str) -> None:
    """`open` makes the world where it is not there, of `world_config`; once it is there, that need not be given."""
    how: dict[str, Any] = {"world_id": world_id, "ruleset": "simulation"}
    async with Orchestrator.open(database_url, world_config=trade(), **how) as world:
        assert set(await world.agents()) == {"Ann", "Bob", "Café"}
        begun = world.world_state.text()
    async with Orchestrator.open(database_url, **how) as world:
        assert world.world_state.text() == begun
