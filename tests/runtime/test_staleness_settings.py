"""Settings of staleness: of a world, an agent, an intent and a generation; the most specific wins, within a maximum."""

from __future__ import annotations

from typing import Any

import pytest
from worldledger_service.runtime import Orchestrator, OrchestratorConfig

from worldledger.errors import InvalidEffectError, InvalidIntentError, StaleContextError

from .conftest import Opening
from .helpers import ALL, effects, head_of, message, refused, speak, whole


async def decided(world: Orchestrator, agent_id: str, **fields: Any) -> tuple[str, int] | None:
    """Submit an intent from the agent's registration; give setting and threshold that refused it, None if none did."""
    registered = (await world.agents())[agent_id]["registered_seq"]
    (result,) = await world.submit_intents([whole(agent_id, registered, **fields)])
    if not isinstance(result, StaleContextError):
        return None
    setting, value = result.details["setting"], result.details["staleness_threshold"]
    assert f"the {setting}'s staleness_threshold is {value}" in result.message
    return setting, value


async def test_the_most_specific_wins(opening: Opening) -> None:
    """Intent before agent before world; each refusal names whose setting it was, and its value."""
    world = await opening(config=OrchestratorConfig(staleness_threshold=1))
    await world.register_agent("usual", ALL)
    await world.register_agent("strict", ALL, staleness_threshold=0)
    await world.register_agent("free", ALL, staleness_threshold=None)
    for _ in range(3):
        await world.broadcast_event(message())
    assert await decided(world, "usual") == ("world", 1)
    assert await decided(world, "usual", staleness_threshold=2) == ("intent", 2)
    assert await decided(world, "usual", staleness_threshold=3) is None
    assert await decided(world, "usual", staleness_threshold=None) is None
    assert await decided(world, "strict") == ("agent", 0)
    assert await decided(world, "free") is None
    assert await decided(world, "free", staleness_threshold=0) == ("intent", 0)
    context = (await world.agents())["usual"]["registered_seq"]
    stated: list[dict[str, Any]] = [{}, {"staleness_threshold": 2}, {"staleness_threshold": None}]
    tokens = [world.issue_cancel_token("usual", f"r{n}", context, **fields) for n, fields in enumerate(stated)]
    assert [token.details.get("setting") for token in tokens] == ["world", "generation", None]


async def test_an_agent_is_registered_anew_with_other_settings(opening: Opening) -> None:
    """A registration says all: what it leaves out is the world's again, and the same again writes nothing."""
    world = await opening()
    await world.register_agent("a", ALL, staleness_threshold=None, interrupt_policy="only_conflict")
    await world.register_agent("a", ALL, staleness_threshold=None, interrupt_policy="only_conflict")
    assert len(await effects(world, "AgentRegistered")) == 1
    known = (await (await opening()).agents())["a"]
    assert (known["staleness_threshold"], known["interrupt_policy"]) == (None, "only_conflict")
    await world.register_agent("a", ALL)
    known = (await world.agents())["a"]
    assert known.keys() == {"policy", "permissions", "weight", "registered_seq"}
    wrongs: list[dict[str, Any]] = [{"staleness_threshold": -1}, {"interrupt_policy": "never"}]
    for wrong in wrongs:
        error = await refused(world.register_agent("a", ALL, **wrong))
        assert isinstance(error, InvalidEffectError)


async def test_a_world_s_settings_are_changed_by_an_effect(opening: Opening) -> None:
    """From there on they hold, in every process and after a restart, over what the world was created with."""
    async with opening.until(config=OrchestratorConfig(staleness_threshold=1)) as world:
        await world.register_agent("a", ALL)
        for _ in range(3):
            await world.broadcast_event(message())
        assert await decided(world, "a") == ("world", 1)
        receipt = await world.set_staleness(staleness_threshold=2)
        assert await decided(world, "a") == ("world", 2)
        await world.set_staleness(staleness_threshold=None, interrupt_policy="only_conflict")
        assert await decided(world, "a") is None
        first, second = await effects(world, "WorldStalenessSet")
        assert (first["global_seq"], first["payload"]) == (receipt.global_seq, {"staleness_threshold": 2})
        assert second["payload"] == {"staleness_threshold": None, "interrupt_policy": "only_conflict"}
    for _ in range(2):
        world = await opening()
        assert world.staleness == (None, "only_conflict", None)
        assert await decided(world, "a") is None
        await world.set_staleness(interrupt_policy="always", staleness_threshold=0)
        assert await decided(world, "a") == ("world", 0)
        await world.set_staleness(interrupt_policy="only_conflict", staleness_threshold=None)


async def test_nothing_exceeds_the_maximum(opening: Opening) -> None:
    """What is beyond the world's maximum is refused at the door, naming both; null is beyond every number."""
    world = await opening(config=OrchestratorConfig(staleness_threshold=2, max_staleness_threshold=3))
    a = await world.register_agent("a", ALL, staleness_threshold=3)
    for given, told in ((4, "4"), (None, "null")):
        what = f"staleness_threshold {told} exceeds the world's max_staleness_threshold, 3"
        errors = [
            await refused(world.register_agent("b", ALL, staleness_threshold=given)),
            await refused(a.submit_intent(speak(staleness_threshold=given))),
            await refused(world.set_staleness(staleness_threshold=given)),
        ]
        with pytest.raises(InvalidIntentError) as caught:
            a.issue_cancel_token("r", staleness_threshold=given)
        for error in (*errors, caught.value):
            assert isinstance(error, InvalidEffectError)
            assert what in error.message
    assert isinstance(errors[1], InvalidIntentError)
    with pytest.raises(ValueError, match="staleness_threshold null exceeds max_staleness_threshold, 3"):
        OrchestratorConfig(staleness_threshold=None, max_staleness_threshold=3)
    # One that is lowered later holds for what was registered before.
    await world.set_staleness(staleness_threshold=0, max_staleness_threshold=0)
    await world.broadcast_event(message())
    assert await decided(world, "a") == ("world", 0)
    await world.set_staleness(max_staleness_threshold=None)
    assert await decided(world, "a") is None
    assert isinstance(await refused(world.set_staleness()), InvalidEffectError)


async def test_an_agent_s_interrupt_policy_goes_before_the_world_s(world: Orchestrator) -> None:
    """It governs its intents and its generations alike."""
    a = await world.register_agent("a", ALL, interrupt_policy="only_conflict")
    b = await world.register_agent("b", ALL)
    tokens = [handle.issue_cancel_token("r") for handle in (a, b)]
    await world.broadcast_event(message())
    assert [token.cancelled for token in tokens] == [False, True]
    await a.submit_intent(speak())
    error = await refused(b.submit_intent(speak()))
    assert error.details["interrupt_policy"] == "always"
    await head_of(world)
