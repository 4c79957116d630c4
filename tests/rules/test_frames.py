"""Frames: what the patches make of the keyframe is the state, or an agent's view, at every seq."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from unittest import mock

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_sandbox.rules import RULESET

from tests import frames
from tests.frames import SIZES, check, stored
from tests.projections.simulations import simulation_logs
from tests.projections.social_logs import social_logs
from tests.rules.seeing import AGENTS, HAPPENINGS, POLICIES, long_story, registered
from tests.rules.test_views_properties import Bundling, Turning, Vague, bundled
from tests.rulesets.sandbox.worlds import Said, effects_of
from worldledger.effects import Effect
from worldledger.errors import PolicyFailedError
from worldledger.folding import Fold
from worldledger.frames import BLOCK, StateFrames, Steps, ViewFrames, block_end, nearest, without_told
from worldledger.observation import ObservationPolicy
from worldledger.rulesets import Ruleset, load_ruleset
from worldledger.rulesets.base import Handler
from worldledger.views import Views
from worldledger.world import WorldState, state_text


@SIZES
@settings(max_examples=100, deadline=None)
@given(st.lists(st.builds(registered, AGENTS, POLICIES), max_size=2), HAPPENINGS, st.integers(0, 9))
def test_frames_of_a_sandbox_are_its_states(large: int, beginning: list[Said], said: list[Said], start: int) -> None:
    """Whatever happens in a sandbox, however large an object is that is compared by members."""
    with mock.patch("worldledger.frames._LARGE", large):
        check(effects_of([*beginning, *said]), RULESET, start)


@SIZES
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([Vague(), Bundling(), Turning(), RULESET]))
def test_frames_follow_a_long_story(thorough: bool, large: int, seed: int, ruleset: Ruleset) -> None:
    """The same few come and go, of a ruleset that does not say what it touched, does much at once, or has turns."""
    random = Random(seed)
    said = long_story(random, 150 if thorough else 70)
    log = effects_of(bundled(said, random) if ruleset.name == "bundling" else said)
    with mock.patch("worldledger.frames._LARGE", large):
        check(log, ruleset, seed % 30)


@SIZES
@settings(max_examples=60, deadline=None)
@given(simulation_logs(), st.integers(0, 5))
def test_frames_of_a_simulation_are_its_states(large: int, log: list[Effect], start: int) -> None:
    """The turn and who has acted, which stand in the metadata alone, are followed as well."""
    with mock.patch("worldledger.frames._LARGE", large):
        check(log, load_ruleset("simulation"), start)


@SIZES
@settings(max_examples=60, deadline=None)
@given(social_logs(), st.integers(0, 5))
def test_frames_of_a_social_rl_run_are_its_states(large: int, log: list[Effect], start: int) -> None:
    """Rounds, messages and feedback."""
    with mock.patch("worldledger.frames._LARGE", large):
        check(log, load_ruleset("social_rl"), start)


def _dust(state: WorldState, effect: Effect) -> tuple[str, ...]:
    payload = effect["payload"]
    state.entities["a"] = payload["entity"]
    if "note" in payload:
        state.metadata["note"] = payload["note"]
    else:
        state.metadata.pop("note", None)
    return ("a",)


class Dusty(Ruleset):
    """Values that are equal for Python and are not in JSON."""

    name = "dusty"
    handlers: Mapping[str, Handler] = {"Dust": _dust}


_ALIKE = st.sampled_from([0, 0.0, -0.0, False, None, "", 1, 1.0, True, [1], [1.0], [True], {"a": 0.0}, {"a": -0.0}])


@SIZES
@given(st.lists(st.tuples(_ALIKE, _ALIKE, st.booleans()), min_size=1, max_size=9), st.booleans())
def test_what_python_calls_equal_is_told_apart(
    large: int, values: list[tuple[object, object, bool]], whole: bool
) -> None:
    """1, 1.0 and true are three values, and -0.0 is not 0.0; members of the ruleset's own come and go."""
    said: list[Said] = [
        ("Dust", {"entity": one if whole else {"x": one, "long": "x" * 300}, **({"note": other} if noted else {})}, "a")
        for one, other, noted in values
    ]
    with mock.patch("worldledger.frames._LARGE", large):
        check(effects_of(said), Dusty(), 0)


def test_only_what_changed_of_a_large_entity_is_told() -> None:
    """A large entity is not sent anew for each change in it; a small one is."""
    data = {f"v{number}": [number, "x" * 40] for number in range(20)}
    log = effects_of(
        [
            ("EntityCreated", {"entity_id": "big", "entity_data": data}, "god"),
            ("EntityCreated", {"entity_id": "small", "entity_data": {"x": 1, "y": 1}}, "god"),
            ("EntityUpdated", {"entity_id": "big", "patch": [{"op": "replace", "path": "/v3", "value": 5}]}, "god"),
            ("EntityUpdated", {"entity_id": "small", "patch": [{"op": "replace", "path": "/x", "value": 2}]}, "god"),
        ]
    )
    fold = Fold("w", RULESET)
    fold.feed(stored(log[:2]))
    found = StateFrames(fold, fold.state.text())
    found.feed(stored(log[2:]))
    columns = orjson.loads(orjson.dumps(found.columns()))
    assert columns["paths"] == ["/entities/big/v3", "/entities/small"]
    assert columns["patches"] == {
        "frame": [0, 1],
        "op": ["replace", "replace"],
        "path": [0, 1],
        "value": [5, {"x": 2, "y": 1}],
    }


# -- views -----------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(AGENTS, POLICIES, HAPPENINGS)
def test_frames_of_a_view_are_the_agent_s_views(agent_id: str, policy: ObservationPolicy, said: list[Said]) -> None:
    """Under any policy the patches lead from view to view; effects that change nothing in it have no frame."""
    rows = stored(effects_of([registered(agent_id, policy), *said]))
    views, others = Views(Fold("w", RULESET)), Views(Fold("w", RULESET))
    for each in (views, others):
        each.apply(orjson.loads(rows[0].text))
        each.attach(agent_id)
    before = _contents(views, agent_id)
    found = ViewFrames(views, agent_id)
    found.feed(rows[1:])
    seen = list(frames.read(orjson.loads(before), orjson.loads(orjson.dumps(found.columns()))))
    expected = []
    for row in rows[1:]:
        others.apply(orjson.loads(row.text))
        after = _contents(others, agent_id)
        if after != before or row.global_seq in dict(seen):
            expected.append((row.global_seq, after))
        before = after
    assert seen == expected


def _contents(views: Views, agent_id: str) -> bytes:
    view = views.view(agent_id)
    return state_text({"visible_entities": view.visible_entities, "visible_relationships": view.visible_relationships})


def test_a_policy_that_fails_is_told() -> None:
    """Frames of an agent whose policy fails end with its error."""
    rows = stored(effects_of([("Move", {"to": [0, 0]}, "ann")]))
    views = Views(Fold("w", RULESET))
    views.failed["ann"] = ValueError("no")
    with pytest.raises(PolicyFailedError, match="ann"):
        ViewFrames(views, "ann").feed(rows)


# -- coarse ones -------------------------------------------------------------------------------------------------


def test_steps_lead_from_state_to_state() -> None:
    """Frames that are far apart are what differs between the states as a whole."""
    log = stored(effects_of([("Move", {"to": [n, 0]}, f"a{n % 3}") for n in range(12)]))
    fold = Fold("w", RULESET)
    fold.feed(log[:2])
    texts, steps = {}, Steps(without_told(fold.state.model_copy(deep=True)))
    keyframe = orjson.loads(fold.state.text())
    told: dict[str, list[object]] = {"seq": [], "sim_time": [], "kind": []}
    for at in (5, 11):
        fold.feed(log[fold.seq : at])
        steps.add(without_told(fold.state.model_copy(deep=True)))
        texts[at] = fold.state.text()
        told = {
            "seq": [*told["seq"], at],
            "sim_time": [*told["sim_time"], fold.state.metadata["last_effect_time"]],
            "kind": [*told["kind"], fold.state.metadata["last_effect_kind"]],
        }
    assert dict(frames.read(keyframe, {"frames": told, **steps.patches.columns()})) == texts
    assert steps.count == 2


def test_blocks_are_aligned() -> None:
    """The first block has the seqs 1 to 1,024, the second those to 2,048."""
    assert [block_end(seq) for seq in (1, 2, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1)] == [
        BLOCK,
        BLOCK,
        BLOCK,
        2 * BLOCK,
        2 * BLOCK,
        3 * BLOCK,
    ]


def test_the_nearest_places_are_found_once_each() -> None:
    """Each moment has its nearest place, the earlier one of two that are as near; none comes twice."""
    assert nearest([10, 20, 40], [1, 14, 15, 16, 31, 30, 1000]) == [10, 20, 40]
    assert nearest([10, 20, 40], [15]) == [10]
    assert nearest([10, 20, 40], range(1, 5)) == [10]
