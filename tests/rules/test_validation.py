"""Validation: permissions, where a Move begins, the validator's word, and which effects mention an entity."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.cases import cases
from tests.rulesets.sandbox.worlds import after
from worldledger.effects import Effect, Intent
from worldledger.errors import (
    IllegalEffectError,
    IntentConflictError,
    IntentRefusedError,
    PermissionDeniedError,
    RecoveryAction,
    UnknownAgentError,
)
from worldledger.intents import DEFAULT_PERMISSIONS, KINDS, CheckedIntent, check_intent
from worldledger.validation import DefaultEffectValidator, judge_intent, mentions
from worldledger.world import WorldState

from .chains import make_effect
from .test_intents import intent, said


def world(*permissions: str, stands: tuple[float, ...] | None = (1.0, 2.0, 3.0)) -> WorldState:
    """Make a state in which ann is registered with these permissions and stands somewhere."""
    state = WorldState.initial()
    state.metadata["agents"]["ann"] = {
        "policy": {"name": "default", "version": 1, "config": {}},
        "permissions": sorted(permissions or DEFAULT_PERMISSIONS),
        "weight": 1,
        "registered_seq": 2,
    }
    if stands is not None:
        state.entities["ann"] = {"position": list(stands)}
        state.spatial_index["ann"] = stands
    return state


class Recording:
    """A validator that answers, or raises, what it was told to, and keeps what it was asked."""

    def __init__(self, answer: Any = True) -> None:
        self.answer = answer
        self.asked: list[Intent] = []

    def validate_intent(self, intent: Intent, world_state: WorldState) -> bool:
        """Answer, and meddle with what it was given."""
        self.asked.append(intent)
        intent["payload"]["meddled"] = True
        if isinstance(self.answer, Exception):
            raise self.answer
        return cast(bool, self.answer)


def move(**payload: Any) -> CheckedIntent:
    """Make a checked Move."""
    return check_intent(said("Move", **{"to": [9, 9], **payload}))


# -- judging -----------------------------------------------------------------------------------------------------


@cases("kind", KINDS)
def test_a_registered_agent_with_the_permissions_may_act(kind: str) -> None:
    """An intent that nothing speaks against passes, and the validator was asked what the agent said."""
    validator = Recording()
    checked = check_intent(intent(kind))
    judge_intent(checked, world(), validator)
    assert [one["payload"].pop("meddled") for one in validator.asked] == [True]
    assert validator.asked == [intent(kind)]
    assert "meddled" not in checked.payload
    judge_intent(checked, world(), DefaultEffectValidator())


def test_an_agent_that_is_not_registered_is_unknown() -> None:
    """Who is not registered in the state may do nothing, and the validator is not asked."""
    validator = Recording()
    with pytest.raises(UnknownAgentError) as caught:
        judge_intent(check_intent(intent(agent_id="bob")), world(), validator, world_id="town")
    assert caught.value.details == {"agent_id": "bob", "world_id": "town"}
    assert not validator.asked
    with pytest.raises(UnknownAgentError, match="the world has no agent 'bob'"):
        judge_intent(check_intent(intent(agent_id="bob")), world(), validator)


@cases(
    "permissions, lacking",
    [
        (("intent:move", "intent:speak"), "submit_intent"),
        (("submit_intent", "intent:speak", "intent:custom"), "intent:move"),
        (("submit_intent", "intent:Move"), "intent:move"),
        (("everything",), "submit_intent"),
    ],
)
def test_a_permission_that_is_lacking_is_named(permissions: tuple[str, ...], lacking: str) -> None:
    """An intent needs submit_intent and the permission of its kind; the first that is lacking is named."""
    with pytest.raises(PermissionDeniedError) as caught:
        judge_intent(move(), world(*permissions), Recording())
    error = caught.value
    assert error.details == {"agent_id": "ann", "permission": lacking}
    assert (error.agent_id, error.permission, error.recovery) == ("ann", lacking, RecoveryAction.ABORT)


def test_an_agent_with_no_permissions_may_do_nothing() -> None:
    """An empty list of permissions is none, not the usual ones."""
    state = world()
    state.metadata["agents"]["ann"]["permissions"] = []
    with pytest.raises(PermissionDeniedError, match="submit_intent"):
        judge_intent(check_intent(intent()), state, Recording())


@pytest.mark.parametrize("start", [[1, 2, 3.5], [1, 2], [0, 0, 0]])
def test_a_move_from_where_the_agent_is_not_is_a_conflict(start: list[float]) -> None:
    """A Move whose ``from`` is not the agent's position conflicts with the world, which is told with both places."""
    validator = Recording()
    with pytest.raises(IntentConflictError) as caught:
        judge_intent(move(**{"from": start}), world(), validator)
    error = caught.value
    assert error.conflicting_effects == []
    assert error.intent == move(**{"from": start}).to_intent()
    assert error.details["actual_position"] == [1.0, 2.0, 3.0]
    assert error.details["req_id"] == "r1"
    assert "stands at [1.0, 2.0, 3.0]" in str(error)
    assert (error.code, error.recovery) == ("intent_conflict", RecoveryAction.MODIFY_INTENT)
    assert not validator.asked


@cases(
    "start, stands",
    [
        ([1, 2, 3], (1.0, 2.0, 3.0)),
        ([1, 2], (1.0, 2.0, 0.0)),
        ([1, 2], (1.0, 2.0)),
        ([1, 2, 0], (1, 2)),
        ([5, 5], None),
        (None, (1.0, 2.0, 3.0)),
    ],
)
def test_a_move_from_where_the_agent_stands_is_none(start: Any, stands: tuple[float, ...] | None) -> None:
    """2D and 3D say the same where z is 0; who stands nowhere may come from anywhere, and ``from`` may be left out."""
    judge_intent(move(**{"from": start}), world(stands=stands), DefaultEffectValidator())


@pytest.mark.parametrize("answer", [False, None, 0])
def test_what_the_validator_refuses_is_named(answer: Any) -> None:
    """A validator that does not say yes refuses the intent."""
    with pytest.raises(IntentRefusedError) as caught:
        judge_intent(check_intent(intent("Interact")), world(), Recording(answer))
    error = caught.value
    assert error.details == {"req_id": "r1", "agent_id": "ann", "kind": "Interact"}
    assert error.intent == intent("Interact")
    assert (error.code, error.recovery) == ("intent_refused", RecoveryAction.MODIFY_INTENT)


def test_what_the_validator_raises_goes_on() -> None:
    """An error that the validator raises is the answer as it is."""
    raised = IllegalEffectError("not on Sundays", rule="sundays")
    with pytest.raises(IllegalEffectError) as caught:
        judge_intent(check_intent(intent()), world(), Recording(raised))
    assert caught.value is raised


def test_a_validator_that_would_have_to_be_awaited_is_a_mistake() -> None:
    """A coroutine would be taken for a yes, so it is refused as what it is."""

    class Async:
        async def validate_intent(self, intent: Intent, world_state: WorldState) -> bool:
            return False

    class Awaitable:
        def __await__(self) -> None: ...

    with pytest.raises(TypeError, match=r"Recording\.validate_intent must be a plain function"):
        judge_intent(check_intent(intent()), world(), Recording(Awaitable()))
    pending = cast(Any, Async().validate_intent(cast(Intent, intent()), world()))
    with pytest.raises(TypeError, match="plain function"):
        judge_intent(check_intent(intent()), world(), Recording(pending))
    pending.close()


# -- the default validator ---------------------------------------------------------------------------------------


def says(value: dict[str, Any], state: WorldState | None = None) -> bool:
    """Ask the default validator of an intent that nobody has checked before."""
    return DefaultEffectValidator().validate_intent(cast(Intent, value), WorldState() if state is None else state)


@cases(
    "payload",
    [
        {"to": [1, 2]},
        {"to": [1.0, 2.0, 3.0]},
        {"to": (1, 2)},
        {"position": [1, 2]},
        {"to": None, "position": [1, 2]},
        {"to": [1e308, 1e308]},
        {"to": [1, 2], "from": [3, 4], "speed": 2},
    ],
)
def test_a_move_in_2d_or_3d_is_valid(payload: dict[str, Any]) -> None:
    """Two or three numbers are a position, under either name."""
    assert says(said("Move", **payload))


@cases(
    "payload",
    [
        {},
        {"to": None},
        {"to": []},
        {"to": [1]},
        {"to": [1, 2, 3, 4]},
        {"to": "12"},
        {"to": {"x": 1, "y": 2}},
        {"to": 5},
        {"to": ["1", "2"]},
        {"to": [True, False]},
        {"to": [1, None]},
        {"to": [1, float("nan")]},
        {"to": [1, float("inf")]},
        {"to": [1, 10**400]},
        {"to": [1, 2], "from": [1]},
        {"to": [1, 2], "from": "here"},
    ],
)
def test_a_move_to_no_position_is_not_valid(payload: dict[str, Any]) -> None:
    """Anything else is no position; the answer is False, never an error."""
    assert says(said("Move", **payload)) is False


def test_the_default_validator_asks_for_permissions_where_they_are_known() -> None:
    """It depends on the state alone: of an agent that stands there it asks permissions, of another it does not."""
    for kind in KINDS:
        assert says(intent(kind), WorldState())
        assert says(intent(kind), world())
        assert says(intent(kind, agent_id="bob"), world("submit_intent"))
        assert says(intent(kind), world("submit_intent")) is False


# -- mentions ----------------------------------------------------------------------------------------------------


def _effect(kind: str, source_id: str, **payload: Any) -> Effect:
    return cast(Effect, make_effect("w", 3, kind=kind, source_id=source_id, payload=payload))


@cases(
    "effect, mentioned",
    [
        (_effect("Speak", "ann", text="a"), True),
        (_effect("Speak", "bob", text="ann"), False),
        (_effect("Move", "bob", agent_id="ann", to=[1, 2]), True),
        (_effect("EntityUpdated", "bob", entity_id="ann", patch=[]), True),
        (_effect("Interact", "bob", target_id="ann"), True),
        (_effect("RelationshipSet", "bob", from_entity="ann", to_entity="eve"), True),
        (_effect("RelationshipSet", "bob", from_entity="eve", to_entity="ann"), True),
        (_effect("Waved", "bob", target_id=["ann"], agent_id=None, entity_id={"ann": 1}), False),
        (_effect("GenerationStarted", "worldledger", agent_id="ann", req_id="r"), False),
        (_effect("AgentRegistered", "worldledger", agent_id="ann"), False),
    ],
)
def test_an_effect_mentions_its_source_and_whom_its_payload_names(effect: Effect, mentioned: bool) -> None:
    """An effect may concern the entities that it names; the service's own concern none."""
    assert mentions(effect, "ann") is mentioned


def test_what_moved_an_agent_mentions_it() -> None:
    """Each effect of the sandbox that changes where an agent stands mentions it."""
    for kind, payload, source in (
        ("Move", {"to": [1, 2]}, "ann"),
        ("Move", {"to": [1, 2], "agent_id": "ann"}, "bob"),
        ("EntityCreated", {"entity_id": "ann", "entity_data": {}, "position": [1, 2]}, "bob"),
    ):
        assert after((kind, payload, source)).spatial_index == {"ann": (1.0, 2.0, 0.0)}
        assert mentions(_effect(kind, source, **payload), "ann")
