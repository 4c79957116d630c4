"""What agents are shown: internal messages and everybody's policies are for coaches alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_social_rl.rules import RULESET
from worldledger_social_rl.rules.config import SocialRLPolicy, SocialRLPolicyConfig

from tests.rulesets.social_rl.documents import ALICE, adaptation, context_frame, feedback, meta, policy_state
from tests.rulesets.social_rl.worlds import World
from worldledger.deltas import PARTS
from worldledger.errors import InvalidPolicyError
from worldledger.folding import Fold
from worldledger.policies import policy_from_spec, policy_spec
from worldledger.views import Views
from worldledger.world import state_text

BEN, COACH = "Worker+Ben", "Coach+C"
_AGENTS = [ALICE, BEN, COACH]
_SECRET = "the coach's secret"


class _Seen:
    """What each agent has been shown, from the world's beginning on."""

    def __init__(self, world: World) -> None:
        self.events: dict[str, list[dict[str, Any]]] = {name: [] for name in _AGENTS}
        self.views = Views(Fold("w", RULESET))
        for effect in world.log:
            for sighting in self.views.apply(effect):
                self.events[sighting.agent_id] += sighting.delta["events"]  # type: ignore[arg-type]
            for name in self.views.fold.state.metadata["agents"]:
                if name not in self.views.attached:
                    self.views.attach(name)
        assert not self.views.failed

    def of(self, agent_id: str, entity_id: str) -> Any:
        """Return what an agent sees of an entity."""
        return self.views.view(agent_id).visible_entities.get(entity_id)

    def told(self, agent_id: str, kind: str) -> list[Any]:
        """Return the payloads of the events of a kind that an agent was shown."""
        return [event["payload"] for event in self.events[agent_id] if event["kind"] == kind]


def _world(**config: Any) -> World:
    return World(agents=_AGENTS, **config)


def test_internal_messages_are_shown_to_coaches_alone() -> None:
    """Neither as an event nor by what others see of their sender, nor to the sender itself."""
    world = _world().start()
    world.say()
    before = _Seen(world)
    world.say(internal=True, content=_SECRET)
    world.say(COACH, internal=True, content=_SECRET)
    after = _Seen(world)
    for name in (ALICE, BEN):
        assert after.events[name] == before.events[name]
        assert after.views.view(name).visible_entities == before.views.view(name).visible_entities
    assert [message["content"] for message in after.told(COACH, "MessageEmitted")][1:] == [_SECRET, _SECRET]
    assert after.of(COACH, ALICE)["internal_messages"] == 1


def test_a_message_is_shown_without_what_led_to_it() -> None:
    """To others what was said; to its sender the cue and the feedback too; to coaches the validation as well."""
    world = _world().start()
    extended: dict[str, Any] = {
        "prar_cue_used": "cue",
        "feedback_snapshot": {"engagement": 0.5},
        "validation_metadata": {"valid": True},
        "context_frame": context_frame(),
        "role": "assistant",
    }
    message = world.say(**extended)["payload"]
    seen = _Seen(world)
    said = {"agent_id", "content", "round_number", "turn_number", "timestamp", "role"}
    assert [each.keys() for each in seen.told(BEN, "MessageEmitted")] == [said]
    assert seen.told(ALICE, "MessageEmitted") == [
        {name: value for name, value in message.items() if name != "validation_metadata"}
    ]
    assert seen.told(COACH, "MessageEmitted") == [message]


def test_feedback_and_cues_are_shown_to_the_agent_whose_they_are() -> None:
    """Of others an agent sees type, role, name, and how many messages they have sent."""
    world = _world().start()
    world.say()
    world.judge()
    world.adapt()
    seen = _Seen(world)
    whole = dict(world.entity())
    assert seen.of(BEN, ALICE) == {"type": "social_agent", "role": "Worker", "name": "Alice", "messages": 1}
    assert seen.of(ALICE, ALICE) == {name: value for name, value in whole.items() if name != "internal_messages"}
    assert seen.of(COACH, ALICE) == whole
    for kind, payload in (("FeedbackRecorded", feedback()), ("PolicyAdapted", adaptation(cue="c"))):
        assert [seen.told(name, kind) for name in _AGENTS] == [[payload], [], [payload]]


def test_what_is_behind_the_scenes_is_for_coaches() -> None:
    """The condition, the policies of all roles, files, and what a round's document held besides."""
    world = World(strict=False, meta={**meta(), "condition": "A"}, agents=_AGENTS)
    world.start(round_config={"scenario": "s"}, meta=meta(), extra={"messages": _SECRET})
    world.post("PolicyStateRecorded", policy_state())
    world.post("ArtifactRecorded", {"name": "x.json", "content": _SECRET})
    world.post("RoundSynthesised", {"round_number": 1, "synthesis": "all in all", "extra": {"x": _SECRET}})
    world.end()
    seen = _Seen(world)
    assert [(event["kind"], event["payload"]) for event in seen.events[ALICE]] == [
        ("RoundStarted", {"round_number": 1, "round_config": {"scenario": "s"}}),
        ("RoundSynthesised", {"round_number": 1, "synthesis": "all in all"}),
        ("RoundEnded", {"round_number": 1}),
    ]
    kinds = {event["kind"] for event in seen.events[COACH]}
    assert kinds >= {"PolicyStateRecorded", "ArtifactRecorded", "RoundStarted", "RoundSynthesised", "RoundEnded"}
    assert seen.told(COACH, "RoundStarted")[0]["extra"] == {"messages": _SECRET}


def test_coaches_are_those_that_are_named() -> None:
    """By the configuration, else by the role in their id; a policy may say so itself."""
    world = World(agents=_AGENTS, coaches=[BEN]).start()
    world.say(internal=True)
    seen = _Seen(world)
    assert [len(seen.told(name, "MessageEmitted")) for name in _AGENTS] == [0, 1, 0]
    assert [name for name in (*_AGENTS, "Coach", "coach+C") if SocialRLPolicy().is_coach(name)] == [COACH]
    assert SocialRLPolicy(SocialRLPolicyConfig(coach=True)).is_coach(ALICE)
    policy = policy_from_spec({"name": "social_rl", "version": 1, "config": {"coach": False}})
    assert isinstance(policy, SocialRLPolicy)
    assert not policy.is_coach(COACH)
    assert policy_spec(policy_from_spec(policy_spec(policy))) == policy_spec(policy)
    with pytest.raises(InvalidPolicyError):
        policy_from_spec({"name": "social_rl", "config": {"coach": "yes"}})


def test_other_settings_hide_what_they_hide() -> None:
    """A field that the configuration hides is hidden of what is shown."""
    policy = SocialRLPolicy(SocialRLPolicyConfig(field_visibility={"name": False, "content": False}))
    world = _world().start()
    effect = world.say()
    event = policy.show_event_to(effect, BEN, world.fold.state)
    assert event is not None
    assert event["payload"].keys() == {"agent_id", "round_number", "turn_number", "timestamp"}
    assert "name" not in policy.show_entity_to(world.fold.state, BEN, ALICE)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(_AGENTS)), max_size=10))
def test_views_that_are_kept_up_are_those_made_anew(steps: list[tuple[int, str]]) -> None:
    """After whatever happened each agent has the view that its policy makes of the whole state."""
    world = World(strict=False, agents=_AGENTS).start()
    for what, agent_id in steps:
        if what == 0:
            world.end().start(world.known["round_number"] + 1)
        elif what == 1:
            world.post("PolicyStateRecorded", policy_state())
        elif what == 2:
            world.judge(agent_id)
        elif what == 3:
            world.adapt("activate_cue", agent_id=agent_id)
        else:
            world.say(agent_id, internal=what == 4)
    seen = _Seen(world)
    state = world.fold.state
    for name in _AGENTS:
        policy = policy_from_spec(state.metadata["agents"][name]["policy"])
        wanted, view = policy.filter_world_state(state, name), seen.views.view(name)
        assert state_text([getattr(view, part) for part in PARTS]) == state_text(
            [getattr(wanted, part) for part in PARTS]
        )
        if name != COACH:
            assert not seen.told(name, "PolicyStateRecorded")
            assert all("internal" not in message for message in seen.told(name, "MessageEmitted"))
