"""Views that follow the effects are the views that the policies make of the whole state, whatever happens."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import jsonpatch
import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_sandbox.rules import HANDLERS, RULESET

from tests.rules.seeing import AGENTS, HAPPENINGS, POLICIES, OwnDelta, long_story, registered
from tests.rulesets.sandbox.worlds import Said, effects_of
from worldledger.deltas import ObservationDelta, View, apply_delta, merge_last_seen
from worldledger.effects import Effect, is_system_kind
from worldledger.folding import Fold
from worldledger.latency import bounded
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_from_spec
from worldledger.rulesets.base import Handler, MalformedEffectError, Ruleset, Touched
from worldledger.views import Sighting, Views
from worldledger.world import WorldState

from .values import same


def _vague(handler: Handler) -> Handler:
    def handle(state: WorldState, effect: Effect) -> None:
        handler(state, effect)

    return handle


class Vague(Ruleset):
    """The sandbox, whose handlers do not say what they have touched."""

    name = "vague"
    handlers: Mapping[str, Handler] = {kind: _vague(handler) for kind, handler in HANDLERS.items()}


def _bundle(state: WorldState, effect: Effect) -> Touched:
    touched: list[str] = []
    for kind, payload, source in effect["payload"]["effects"]:
        try:
            told = HANDLERS[kind](state, {**effect, "payload": payload, "source_id": source})
        except MalformedEffectError:
            continue
        assert told is not None
        touched += [told] if isinstance(told, str) else told
        if kind.startswith("Relationship"):
            touched.pop()
    return tuple(touched)


class Bundling(Ruleset):
    """The sandbox, with a kind by which many things happen at once; of a relationship only the one end is told."""

    name = "bundling"
    handlers: Mapping[str, Handler] = {**HANDLERS, "Bundle": _bundle}


def _start_turn(state: WorldState, effect: Effect) -> Touched:
    state.metadata["turn"] = effect["payload"]["turn"]
    return tuple(state.entities)


class Turning(Ruleset):
    """The sandbox, with turns by which everything may look different, and whispers that are no events to anybody."""

    name = "turning"
    handlers: Mapping[str, Handler] = {**HANDLERS, "TurnStarted": _start_turn, "Whisper": HANDLERS["Speak"]}
    unobserved = frozenset({"Whisper", "Interact"})


def bundled(said: list[Said], random: Random) -> list[Said]:
    """Put runs of effects that the sandbox folds into bundles."""
    found: list[Said] = []
    bundle: list[Said] = []
    for one in said:
        if one[0] in HANDLERS and len(bundle) < random.choice([1, 2, 4, 8]):
            bundle.append(one)
            continue
        found += [("Bundle", {"effects": [list(each) for each in bundle]}, "god")] if bundle else []
        bundle = [one] if one[0] in HANDLERS else []
        found += [] if bundle else [one]
    return found


def _copy(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))


def _assert_paths_exist(document: Any, patch: list[dict[str, Any]]) -> None:
    """Check that each operation finds its place as RFC 6902 says, and "add" adds what was missing."""
    for operation in patch:
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in operation["path"].split("/")[1:]]
        parent = document
        for token in tokens[:-1]:
            parent = parent[token]
        assert (tokens[-1] in parent) == (operation["op"] != "add"), operation
        document = jsonpatch.apply_patch(document, [operation])


class Follower:
    """An agent that keeps its view by jsonpatch alone, and a slow reference beside it."""

    def __init__(self, agent_id: str, view: View, state: WorldState) -> None:
        self.agent_id = agent_id
        self.spec = _copy(state.metadata["agents"][agent_id]["policy"])
        self.policy = policy_from_spec(self.spec)
        self.document = _copy(view.model_dump())
        self.view = View.model_validate(self.document)
        self.expected = self._filtered(state)
        self.check(view)

    def _filtered(self, state: WorldState) -> View:
        """Return what the policy makes of the state, sharing nothing with that."""
        return View.model_validate(_copy(self.policy.filter_world_state(state, self.agent_id).model_dump()))

    def observe(self, effect: Effect, fold: Fold, sighting: Sighting | None) -> None:
        """Check what the agent observes by an effect, and take it in."""
        state = fold.state
        spec = state.metadata["agents"][self.agent_id]["policy"]
        anew = spec != self.spec
        if anew:
            self.spec, self.policy = _copy(spec), policy_from_spec(spec)
        policy = self.policy
        now = self._filtered(state)
        delta = self._delta(now, anew)
        event, audience = None, effect["payload"].get("sees")
        if is_system_kind(effect["kind"]) or not isinstance(audience, list):
            observed = policy.should_observe_event(effect, self.agent_id, state)
        else:  # whatever the policy says
            observed = self.agent_id == effect["source_id"] or self.agent_id in audience
        if observed and effect["kind"] not in fold.ruleset.unobserved:
            event = policy.show_event_to(effect, self.agent_id, state)
        own = effect["source_id"] == self.agent_id and not is_system_kind(effect["kind"])
        if not delta["patches"] and event is None and not own:
            assert sighting is None
            return
        assert sighting is not None
        events = [] if event is None else [event]
        assert sighting.delta == ObservationDelta(delta, view_seq=effect["global_seq"], events=events)
        assert same(sighting.delta["patches"], _copy(delta["patches"])) or policy.__class__ is OwnDelta
        assert sighting.delay == bounded(policy.latency_model.delay(effect["source_id"], self.agent_id, effect, state))
        _assert_paths_exist(_copy(self.document), sighting.delta["patches"])
        self.document = jsonpatch.apply_patch(self.document, _copy(sighting.delta["patches"]))
        self.document["view_seq"] = sighting.delta["view_seq"]
        self.document["context_digest"] = sighting.delta["context_digest"]
        self.view = apply_delta(self.view, sighting.delta)

    def _delta(self, now: View, anew: bool) -> ObservationDelta:
        old = self.expected
        if anew:
            delta = ObservationPolicy.calculate_observation_delta(ObservationPolicy(), old, now)
            self.expected = now
        else:
            delta = self.policy.calculate_observation_delta(old, now)
            self.expected = now if self.policy.remove_operations else merge_last_seen(old, now)
            if delta["context_digest"] != self.expected.context_digest:
                self.expected = apply_delta(old, delta) if delta["patches"] else old
        return delta

    def check(self, view: View) -> None:
        """Check the view that is kept for the agent."""
        assert same(_copy(view.model_dump()), _copy(self.document))
        assert self.view == view
        assert view.context_digest == self.expected.context_digest
        expected = View.of(self.agent_id, 0, view.visible_entities, view.visible_relationships)
        assert view.context_digest == expected.context_digest


def follow(said: list[Said], ruleset: Ruleset, attach_at: int, *, detach: bool = False) -> None:
    """Keep the views of all agents along a log, and compare them with the slow way at each effect."""
    views, whole = Views(Fold("w", ruleset)), Fold("w", ruleset)
    followers: dict[str, Follower] = {}
    for effect in effects_of(said):
        sightings = views.apply(_copy(effect))
        whole.apply(_copy(effect))
        assert not views.failed
        found = {sighting.agent_id: sighting for sighting in sightings}
        assert list(found) == sorted(found)
        assert len(found) == len(sightings)
        assert found.keys() <= followers.keys()
        for agent_id, follower in followers.items():
            follower.observe(effect, whole, found.get(agent_id))
            follower.check(views.view(agent_id))
        if effect["global_seq"] >= attach_at:
            for agent_id in whole.state.metadata["agents"].keys() - followers.keys():
                followers[agent_id] = Follower(agent_id, views.attach(agent_id), whole.state)
        if detach and effect["global_seq"] % 5 == 0 and followers:
            agent_id = min(followers)
            views.detach(agent_id)
            del followers[agent_id]
    assert set(views.attached) == set(followers)
    assert views.fold.state.text() == whole.state.text()


_BEGINNING = st.lists(st.builds(registered, AGENTS, POLICIES), min_size=1, max_size=4)


@settings(max_examples=400, deadline=None)
@given(_BEGINNING, HAPPENINGS, st.integers(0, 20), st.booleans())
def test_views_kept_by_json_patch_are_what_the_policy_makes_of_the_state(
    beginning: list[Said], said: list[Said], attach_at: int, detach: bool
) -> None:
    """Each delta leads from view to view, touches only paths that are there, and its digest holds."""
    follow([*beginning, *said], RULESET, attach_at, detach=detach)


@settings(max_examples=100, deadline=None)
@given(_BEGINNING, HAPPENINGS)
def test_a_ruleset_that_does_not_say_what_it_touched_gives_the_same(beginning: list[Said], said: list[Said]) -> None:
    """If any entity may have changed, everything is looked at anew, and the deltas are the same."""
    follow([*beginning, *said], Vague(), 0)


@settings(max_examples=200, deadline=None)
@given(_BEGINNING, HAPPENINGS, st.integers(0, 20))
def test_views_follow_turns_and_what_is_unobserved(beginning: list[Said], said: list[Said], attach_at: int) -> None:
    """Also where what agents are shown changes with the turn, and some kinds are events to nobody."""
    follow([*beginning, *said], Turning(), attach_at)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([Vague(), Bundling(), Turning(), RULESET]))
def test_views_follow_a_long_story(thorough: bool, seed: int, ruleset: Ruleset) -> None:
    """The same holds over a long log in which the same few come and go, also if much happens by one effect."""
    random = Random(seed)
    said = long_story(random, 120 if thorough else 60)
    follow(bundled(said, random) if ruleset.name == "bundling" else said, ruleset, attach_at=seed % 9)
