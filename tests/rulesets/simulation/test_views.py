"""Time travel of agents, without a database: what an agent sees at any moment follows from the log alone.

Whoever was attached and took the deltas as they came has, at every seq, to the last byte what the policy makes of the
state there, what a replay from any earlier place gives, and what `construct_observation` makes of the typed state.
"""

from __future__ import annotations

from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from worldledger_simulation.rules import RULESET, SimulationState
from worldledger_simulation.rules.words import UNOBSERVED

from worldledger.deltas import PARTS, View
from worldledger.folding import Fold
from worldledger.observability import construct_observation
from worldledger.policies import policy_from_spec
from worldledger.views import Views
from worldledger.world import WorldState, state_text

from .playing import AGENTS, KEY, Play, plays, setting, trade


def _text(view: View) -> bytes:
    """Return what a view shows, and its digest, as bytes."""
    return state_text([getattr(view, part) for part in PARTS]) + view.context_digest.encode()


class Watcher:
    """An agent that keeps its view by deltas, with another's implementation of RFC 6902."""

    def __init__(self, view: View) -> None:
        self.agent_id = view.agent_id
        self.document = orjson.loads(orjson.dumps(view.model_dump()))
        self.events: list[dict[str, Any]] = []

    def take(self, delta: Any) -> None:
        """Take a delta."""
        delta = orjson.loads(orjson.dumps(delta))
        self.document = jsonpatch.apply_patch(self.document, delta["patches"])
        self.document["context_digest"] = delta["context_digest"]
        self.events += delta["events"]

    @property
    def text(self) -> bytes:
        """What it sees now."""
        digest: str = self.document["context_digest"]
        return state_text([self.document[part] for part in PARTS]) + digest.encode()

    @property
    def view(self) -> View:
        """The view, its digest worked out from what it shows."""
        return View.of(self.agent_id, 0, *(self.document[part] for part in PARTS))


def _watched(play: Play) -> dict[tuple[str, int], bytes]:
    """Watch a play from its beginning on, each agent from its registration; return what each saw at every seq."""
    views = Views(Fold("w", RULESET))
    watchers: dict[str, Watcher] = {}
    seen: dict[tuple[str, int], bytes] = {}
    for effect in orjson.loads(orjson.dumps(play.log)):
        for sighting in views.apply(effect):
            watchers[sighting.agent_id].take(sighting.delta)
        assert not views.failed
        for name in views.fold.state.metadata["agents"]:
            if name not in watchers:
                watchers[name] = Watcher(views.attach(name))
        for name, watcher in watchers.items():
            seen[name, views.seq] = watcher.text
            assert watcher.view.context_digest == watcher.document["context_digest"]
    for watcher in watchers.values():
        told = {event["kind"] for event in watcher.events}
        assert not told & UNOBSERVED
        assert b"secret thoughts" not in orjson.dumps([watcher.document, watcher.events])
    return seen


@settings(max_examples=60, deadline=None)
@given(plays(30))
def test_deltas_lead_to_what_the_policy_makes_of_the_state(play: Play) -> None:
    """At every seq each agent has, byte for byte, the view that its policy makes of the whole state there."""
    seen = _watched(play)
    fold = Fold("w", RULESET)
    for effect in play.log:
        fold.apply(effect)
        for name, agent in fold.state.metadata["agents"].items():
            view = policy_from_spec(agent["policy"]).filter_world_state(fold.state, name)
            assert seen[name, fold.seq] == _text(view)


@settings(max_examples=30, deadline=None)
@given(plays(20), st.data())
def test_a_replay_from_anywhere_gives_the_same_view(play: Play, data: st.DataObject) -> None:
    """Attached at any place, be it to a state read from a snapshot's text, an agent has the same view from there on."""
    seen = _watched(play)
    place = data.draw(st.integers(1, len(play.log)))
    fold = Fold("w", RULESET)
    for effect in play.log[:place]:
        fold.apply(effect)
    views = Views(Fold("w", RULESET, WorldState.from_text(fold.state.text()), place))
    watchers = {name: Watcher(views.attach(name)) for name in fold.state.metadata["agents"]}
    for name, watcher in watchers.items():
        assert watcher.text == seen[name, place]
    for effect in play.log[place:]:
        for sighting in views.apply(effect):
            watchers[sighting.agent_id].take(sighting.delta)
        for name, watcher in watchers.items():
            assert watcher.text == seen[name, views.seq] == _text(views.view(name))


@settings(max_examples=60, deadline=None)
@given(plays(20))
def test_views_are_observations(play: Play) -> None:
    """What an agent sees is what `construct_observation` makes of the typed state of that moment."""
    play.register("Ann")
    for name, agent in play.state.metadata["agents"].items():
        assert agent["policy"]["config"].get("noise_key", KEY) == KEY
        state = SimulationState.of(play.state, world_uuid=play.uuid)
        observed = construct_observation(name, state, play.config.observability)
        view = policy_from_spec(agent["policy"]).filter_world_state(play.state, name)
        entities = dict(view.visible_entities)
        assert state_text(entities.pop("global", {})) == state_text(_shown(observed.global_state))
        assert state_text(entities) == state_text({each: _shown(agent) for each, agent in observed.agents.items()})
        assert observed.turn == play.state.metadata["turn"]


def _shown(model: BaseModel) -> dict[str, Any]:
    """Return what an observed model shows, as JSON has it."""
    found: dict[str, Any] = orjson.loads(BaseModel.model_dump_json(model, by_alias=True))
    return found


@settings(max_examples=30, deadline=None)
@given(plays(20), st.sampled_from(AGENTS))
def test_what_is_not_seen_changes_no_view(play: Play, name: str) -> None:
    """Of an entity that it is not aware of, and of internal variables seen from without, an agent is told nothing."""
    play.register(name)
    policy: Any = policy_from_spec(play.state.metadata["agents"][name]["policy"])
    if play.config.observability is None or not play.config.observability.enabled:
        return
    views = Views(Fold("w", RULESET, play.state.copy_deep(), play.fold.seq))
    before = views.attach(name)
    for other in list(play.state.entities):
        level, _ = policy.sight_of(other)
        entity = before.visible_entities.get(other)
        assert (entity is None) == (level == "unaware")
        if entity is not None and level == "external":
            hidden = set(play.config.observability.variable_visibility.internal) - {"name"}
            assert not hidden & entity.keys()


# -- by hand -------------------------------------------------------------------------------------------------


def test_a_turn_has_its_noise() -> None:
    """Within a turn a value that does not change is seen the same; in another turn it is seen with other noise."""
    play = Play()
    views = Views(Fold("w", RULESET, play.state.copy_deep(), play.fold.seq))
    ann = Watcher(views.attach("Ann"))

    def happen(kind: str, source: str = "engine", **payload: Any) -> bytes:
        effect = play.post(kind, source, **payload)
        for sighting in views.apply(effect):
            if sighting.agent_id == "Ann":
                ann.take(sighting.delta)
        return state_text(ann.document["visible_entities"].get("Bob"))

    first = happen("TurnStarted")
    assert happen("AgentStateChanged", "Bob", patch=setting("/note", "hidden")) == first
    assert happen("TurnEnded") == first
    second = happen("TurnStarted")
    assert second != first
    blurred = ann.document["visible_entities"]["Bob"]
    assert blurred["gold"] != 10.0
    assert "note" not in blurred
    happen("AgentStateChanged", "Bob", patch=setting("/gold", 20))
    assert ann.document["visible_entities"]["Bob"]["gold"] == pytest.approx(2 * blurred["gold"])
    assert ann.document["visible_entities"]["Ann"] == play.state.entities["Ann"]
    assert [event["kind"] for event in ann.events] == ["TurnStarted", "TurnEnded", "TurnStarted"]
    assert [event["payload"] for event in ann.events] == [{"turn": 1}, {"turn": 1}, {"turn": 2}]


def test_reasoning_is_for_nobody() -> None:
    """Who records its reasoning is told that it was recorded, and nothing else; nobody else is told anything."""
    play = Play(trade(observability=None))
    views = Views(Fold("w", RULESET, play.state.copy_deep(), play.fold.seq))
    for name in ("Ann", "Bob"):
        views.attach(name)
    (sighting,) = views.apply(play.post("ReasoningRecorded", "Ann", reasoning="secret thoughts"))
    assert (sighting.agent_id, sighting.delta["patches"], sighting.delta["events"]) == ("Ann", [], [])
    assert not views.apply(play.post("ReasoningRecorded", agent_id="Bob", reasoning="secret thoughts"))


def test_another_world_has_another_noise() -> None:
    """The same simulation in a world of another uuid is seen otherwise, and in one of the same uuid the same."""

    def seen(uuid: str) -> bytes:
        play = Play(world_uuid=uuid)
        play.turn()
        return _text(Views(play.fold).attach("Ann"))

    assert seen(KEY) == seen(KEY)
    assert seen(KEY) != seen("f" * 32)
