"""Rejections: conflicts with what has happened, and what the log tells of intents that were refused."""

from __future__ import annotations

from typing import Any

import pytest
from worldledger_service.runtime import Orchestrator, OrchestratorConfig

from worldledger.effects import Intent
from worldledger.errors import IntentConflictError, RecoveryAction
from worldledger.world import WorldState

from .conftest import Opening
from .helpers import ALL, created, custom, draft, effects, head_of, message, move, moved, near, refused, speak, whole


class Polite:
    """A validator that lets nobody shout."""

    def validate_intent(self, intent: Intent, world_state: WorldState) -> bool:
        """Refuse capital letters."""
        return not intent["payload"].get("text", "").isupper()


# -- conflicts ---------------------------------------------------------------------------------------------


async def test_a_move_from_elsewhere_conflicts(opening: Opening) -> None:
    """The error has what has happened to the agent since its context, and where it stands."""
    world = await opening(config=OrchestratorConfig(staleness_threshold=100))
    await world.broadcast_event(created("a", 0, 0))
    a = await world.register_agent("a", ALL)
    await world.broadcast_event(message("hello", "b"))
    pushed = await world.broadcast_event(moved("a", 3, 4))
    hit = await world.broadcast_event(draft("Hit", {"target_id": "a"}, "b"))
    await world.broadcast_event(draft("Hit", {"target_id": "c"}, "b"))
    before = await head_of(world)
    error = await refused(a.submit_intent(move(1, 0, start=(0, 0), req_id="r")))
    assert isinstance(error, IntentConflictError)
    assert error.recovery is RecoveryAction.MODIFY_INTENT
    assert [effect["global_seq"] for effect in error.conflicting_effects] == [pushed.global_seq, hit.global_seq]
    # Of what it has seen by patches alone it is not told who has done it.
    assert error.conflicting_effects[0] == {"global_seq": pushed.global_seq, "kind": "Move", "source_id": None}
    assert error.conflicting_effects[1]["payload"] == {"target_id": "a"}
    told = error.details["conflicting_effects"]
    assert [(each["kind"], each["source_id"]) for each in told] == [("Move", None), ("Hit", "b")]
    assert error.details["actual_position"] == [3.0, 4.0, 0.0]
    assert error.intent["req_id"] == "r"
    assert await head_of(world) == before
    for _ in range(4):
        await a.next_observation()
    assert (await refused(a.submit_intent(move(1, 0, start=(0, 0))))).details["conflicting_effects"] == []
    await a.submit_intent(move(1, 0, start=(3, 4)))
    assert (await world.view("a", at_seq=await head_of(world))).visible_entities["a"]["position"] == [1.0, 0.0, 0.0]


async def test_who_stands_nowhere_may_come_from_anywhere(world: Orchestrator) -> None:
    """There is no position that the intent could contradict."""
    a = await world.register_agent("a", ALL)
    await a.submit_intent(move(1, 1, start=(7, 7)))
    assert [effect["payload"]["to"] for effect in await effects(world, "Move")] == [[1.0, 1.0, 0.0]]


# -- IntentRejected ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ruleset", ["sandbox", "social_rl"])
@pytest.mark.parametrize("wanted", [None, True, False])
async def test_rejections_are_recorded_where_the_world_wants_it(
    opening: Opening, ruleset: str, wanted: bool | None
) -> None:
    """As the configuration says, and else as the ruleset does: social_rl keeps them, the sandbox does not."""
    world = await opening(config=OrchestratorConfig(record_rejections=wanted), ruleset=ruleset, validator=Polite())
    a = await world.register_agent("a", ALL)
    before = await head_of(world)
    assert (await refused(a.submit_intent(speak("HELLO", req_id="r")))).code == "intent_refused"
    found = await effects(world, "IntentRejected")
    if not (ruleset == "social_rl" if wanted is None else wanted):
        assert not found
        assert await head_of(world) == before
        return
    (effect,) = found
    assert (effect["global_seq"], effect["source_id"]) == (before + 1, "worldledger")
    payload: dict[str, Any] = dict(effect["payload"])
    assert payload.pop("reason")
    assert payload == {
        "agent_id": "a",
        "req_id": "r",
        "kind": "Speak",
        "payload": {"text": "HELLO"},
        "context_seq": before,
        "code": "intent_refused",
        "rule": None,
    }
    await head_of(world)
    await a.submit_intent(speak("hello", req_id="r"))  # nobody has observed it, and the req_id is not used up


async def test_which_refusals_are_rejections(opening: Opening) -> None:
    """Those by permission, validator, conflict and ruleset; not what is malformed, stale, unknown or out of quota."""
    config = OrchestratorConfig(record_rejections=True, token_budget=10)
    world = await opening(config=config, validator=Polite())
    await world.broadcast_event(created("a", 0, 0))
    await world.register_agent("a", ALL, permissions=["submit_intent", "intent:speak", "intent:move", "intent:custom"])
    await world.broadcast_event(message())
    context = await head_of(world)
    for intent in (
        whole("a", context, **speak("NO")),
        whole("a", context, kind="Interact", payload={"target_id": "b"}),
        whole("a", context, **move(1, 1, start=(5, 5))),
        whole("a", context, **custom("EntityRemoved", {"entity_id": "x"})),
        whole("a", context, kind="Shout"),
        whole("a", context - 1),
        whole("nobody", context),
        whole("a", context, payload={"text": "", "token_count": 11}),
    ):
        await refused(world.submit_intent(intent))
    told = [(effect["payload"]["code"], effect["payload"]["rule"]) for effect in await effects(world, "IntentRejected")]
    assert told == [
        ("intent_refused", None),
        ("permission_denied", None),
        ("intent_conflict", None),
        ("illegal_effect", "unknown_entity"),
    ]
    assert await world.event_log.validate_integrity()


async def test_of_a_list_the_refused_one_is_recorded(opening: Opening) -> None:
    """The log tells of the intent that was refused, not of those that were refused with it."""
    world = await opening(config=OrchestratorConfig(record_rejections=True), validator=Polite())
    await world.register_agent("a", ALL)
    await world.register_agent("b", near(1.0))
    context = await head_of(world)
    for wrong, index in ((speak("NO"), 1), (custom("EntityRemoved", {"entity_id": "x"}), None)):
        intents = [whole("a", context), whole("b", context, **wrong), whole("a", context)]
        error = await refused(world.submit_intents(intents, atomic=True))
        assert error.details.get("index") == index  # whether there is an x somewhere far away b does not know
        effect = (await effects(world, "IntentRejected"))[-1]
        assert (effect["payload"]["agent_id"], effect["payload"]["req_id"]) == ("b", intents[1]["req_id"])
    assert not await effects(world, "Speak")


async def test_the_same_refusal_is_recorded_once(opening: Opening) -> None:
    """Trying one thing again and again does not fill the log; another thing under the same req_id is told too."""
    config = OrchestratorConfig(record_rejections=True, staleness_threshold=100)
    world = await opening(config=config, validator=Polite())
    a = await world.register_agent("a", ALL)
    for text in ("HEY", "HEY", "HO", "HEY"):
        await refused(a.submit_intent({**speak(req_id="r"), "payload": {"text": text}}))
    await world.broadcast_event(message("hello", "b"))
    await refused(
        a.submit_intent({**speak(req_id="r"), "payload": {"text": "HEY"}, "context_seq": await head_of(world)})
    )
    assert [each["payload"]["payload"]["text"] for each in await effects(world, "IntentRejected")] == ["HEY", "HO"]
