"""The matrix as an observation policy: which events are observed, and what is shown of them."""

from __future__ import annotations

from typing import Any

from tests.rules.observability.simulations import KEY
from tests.rules.observability.test_policy import a_policy, a_world
from tests.rulesets.sandbox.worlds import effects_of
from worldledger.observability import MatrixPolicy, noise_of
from worldledger.observation import ObservedEvent


def event(policy: MatrixPolicy, payload: dict[str, Any], source: str, kind: str = "Trade") -> ObservedEvent | None:
    """Return what Ann observes of an effect in the world, None for nothing."""
    (effect,) = effects_of([(kind, payload, source)])
    world = a_world()
    world.metadata["agents"] = {name: {} for name in ("Ann", "Bob", "Gone")}
    if not policy.should_observe_event(effect, "Ann", world):
        return None
    return policy.show_event_to(effect, "Ann", world)


def test_events_are_observed_of_whom_one_sees() -> None:
    """As the source, or named in the payload; the agent itself is no exception."""
    policy = a_policy(default=["unaware", 0], targets={"Bob": ["external", 0]})
    assert event(policy, {}, "Bob") is not None
    assert event(policy, {}, "Café") is None
    assert event(policy, {"target_id": "Bob"}, "Café") is not None
    assert event(policy, {"target_id": "Ann"}, "Café") is None
    assert event(policy, {}, "Ann") is None
    assert event(policy, {}, "Bob", "StateDigest") is None
    assert event(policy, {}, "Bob", "Move") is None


def test_what_comes_from_outside_is_observed_by_all_unless_it_names_somebody() -> None:
    """An operator is no agent; an agent that is no entity any more is, and so is whoever stands in the row."""
    policy = a_policy(default=["unaware", 0], targets={"Bob": ["external", 0]})
    assert event(policy, {"turn": 4}, "engine", "TurnStarted") is not None
    assert event(policy, {"agent_id": "Bob"}, "engine") is not None
    assert event(policy, {"agent_id": "Café"}, "engine") is None
    assert event(policy, {"agent_id": "Gone"}, "engine") is None
    assert event(policy, {}, "Gone") is None
    assert event(a_policy(default=["external", 0]), {"agent_id": "Gone"}, "engine") is not None
    assert event(a_policy(default=["external", 0]), {}, "Gone") is not None
    assert event(a_policy(targets={"engine": ["unaware", 0]}), {"turn": 4}, "engine") is None
    assert event(a_policy(targets={"engine": ["external", 0]}), {"turn": 4}, "engine") is not None
    assert event(a_policy(default=["insider", 0], relationship_filter=["x"]), {"turn": 4}, "engine") is None


def test_payloads_are_shown_as_variables_of_their_source() -> None:
    """Without what is internal, with noise and bounds."""
    payload = {"gold": 99.5, "secret": 3.0, "deal": {"secret": 10}, "text": "hi", "sum": 500}
    more = {"internal": ["secret"], "noise_key": KEY, "bounds": {"*": {"gold": {"max": 99.75}}}}
    found = event(a_policy(targets={"Bob": ["external", 0.2]}, **more), payload, "Bob")
    assert found is not None
    assert found["payload"] == {
        "gold": min(99.75, 99.5 * (1.0 + 0.2 * noise_of(KEY, "Ann", "Bob", "/gold", 3))),
        "deal": {"secret": round(10 * (1.0 + 0.2 * noise_of(KEY, "Ann", "Bob", "/deal/secret", 3)))},
        "text": "hi",
        "sum": round(500 * (1.0 + 0.2 * noise_of(KEY, "Ann", "Bob", "/sum", 3))),
    }
    found = event(a_policy(targets={"Bob": ["insider", 0]}, **more), payload, "Bob")
    assert found is not None
    assert found["payload"] == payload
    found = event(a_policy(targets={"Bob": ["external", 0]}, field_visibility={"gold": False}), payload, "Bob")
    assert found is not None
    assert "gold" not in found["payload"]


def test_of_a_source_that_one_is_not_aware_of_no_more_is_shown_than_from_without() -> None:
    """If the effect names somebody that the agent sees."""
    policy = a_policy(targets={"Ann": ["insider", 0], "Bob": ["unaware", None]}, internal=["secret"])
    found = event(policy, {"target_id": "Ann", "secret": 1, "gold": 2}, "Bob")
    assert found is not None
    assert found["payload"] == {"target_id": "Ann", "gold": 2}


def test_what_comes_from_outside_is_shown_as_of_whom_it_names() -> None:
    """And exactly if it names nobody, but for what is internal."""
    policy = a_policy(default=["external", 0.5], internal=["secret"], noise_key=KEY)
    found = event(policy, {"turn": 1000, "secret": 1}, "engine")
    assert found is not None
    assert found["payload"] == {"turn": 1000}
    found = event(policy, {"agent_id": "Bob", "fine": 1000, "secret": 1}, "engine")
    assert found is not None
    assert found["payload"] == {
        "agent_id": "Bob",
        "fine": round(1000 * (1.0 + 0.5 * noise_of(KEY, "Ann", "Bob", "/fine", 3))),
    }
