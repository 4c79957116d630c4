"""What becomes of the state: feedback, cues, rounds; and that it stays bounded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_social_rl.rules import RULESET
from worldledger_social_rl.rules.fields import ADAPTATION_TYPES

from tests.cases import cases
from tests.rules.values import GOOD_JSON, GOOD_OBJECTS
from tests.rulesets.social_rl.documents import ALICE, feedback, message, policy_state
from tests.rulesets.social_rl.worlds import World
from worldledger.folding import Fold
from worldledger.world import WorldState

_KINDS = sorted(RULESET.handlers)


def _cue(active: bool, intensity: float, since_round: int) -> dict[str, Any]:
    return {"active": active, "intensity": intensity, "since_round": since_round}


def test_an_agent_has_its_latest_feedback() -> None:
    """The whole vector, without the agent's own name; what was said stands in the log alone."""
    world = World().start()
    world.say()
    world.say(turn_number=2)
    world.judge(engagement=0.25)
    assert world.entity() == {
        "type": "social_agent",
        "role": "Worker",
        "name": "Alice",
        "feedback": {name: value for name, value in feedback(engagement=0.25).items() if name != "agent_id"},
        "feedback_round": 1,
        "cues": {},
        "messages": 2,
        "internal_messages": 0,
        "last_round": 1,
    }
    world.end().start(2).judge(engagement=0.75)
    assert (world.entity()["feedback"]["engagement"], world.entity()["feedback_round"]) == (0.75, 2)


def test_internal_messages_are_counted_apart() -> None:
    """They leave what others see of the agent as it was; a flag that cannot be read counts as internal."""
    world = World(strict=False).start()
    world.say()
    before = {**world.entity()}
    world.say(internal=True)
    world.post("MessageEmitted", {**message(), "extra": {"internal": "yes"}}, ALICE)
    assert world.entity() == {**before, "internal_messages": 2}
    world.say(internal=False)
    world.say(internal=None)
    assert world.entity()["messages"] == 3


def test_rounds_are_counted_and_their_meta_block_counts_where_there_is_no_other() -> None:
    """The running round, whether it runs, how many there were."""
    world = World().start()
    assert (world.known["round_number"], world.known["round_open"], world.known["meta"]) == (1, True, None)
    whole = {"experiment_id": "e", "prar_run_id": "p", "framework": "f", "framework_option": "A", "model": "m"}
    world.end().start(2, meta=whole)
    assert (world.known["round_number"], world.known["rounds"], world.known["meta"]) == (2, 2, whole)
    world.end()
    assert world.known["round_open"] is False
    world.post("ExperimentStarted", {"meta": {"model": "other"}, "extra": {"condition": 1, "seed": "x"}})
    world.start(3, meta=whole)
    assert (world.known["meta"], world.known["condition"], world.known["seed"]) == ({"model": "other"}, None, None)


# -- cues ------------------------------------------------------------------------------------------------------


def test_the_policy_follows_from_the_adaptations() -> None:
    """A cue is used with the intensity told, else the one it had, else 1; not used, it keeps its intensity."""
    world = World().start()
    world.say()

    def cues() -> Any:
        return world.entity()["cues"]

    world.adapt("activate_cue")
    assert cues() == {"c": _cue(True, 1.0, 1)}
    world.adapt("adjust_intensity", intensity=0.5)
    assert cues() == {"c": _cue(True, 0.5, 1)}
    world.end().start(2)
    world.adapt("deactivate_cue")
    assert cues() == {"c": _cue(False, 0.5, 2)}
    world.adapt("deactivate_cue", intensity=0.9)
    assert cues() == {"c": _cue(False, 0.5, 2)}
    world.end().start(3)
    world.adapt("adjust_intensity", intensity=1)
    assert cues() == {"c": _cue(False, 1.0, 2)}
    world.adapt("activate_cue", intensity=0.25)
    assert cues() == {"c": _cue(True, 0.25, 3)}
    world.end().start(4)
    world.adapt("activate_cue")
    assert cues() == {"c": _cue(True, 0.25, 3)}
    world.adapt("deactivate_cue", "d")
    world.adapt("adjust_intensity", "e", intensity=0)
    assert cues() == {"c": _cue(True, 0.25, 3), "d": _cue(False, 1.0, 4), "e": _cue(False, 0.0, 4)}


@cases(
    "payload",
    [
        {"agent_id": ALICE, "extra": {"role": "Worker", "deltas": {"engagement_delta": 0.5}, "round": 1}},
        {"agent_id": ALICE, "adaptation_type": "adjust_intensity", "cue": "c"},
        {"agent_id": ALICE, "adaptation_type": "forget_cue", "cue": "c"},
        {"agent_id": ALICE, "adaptation_type": "activate_cue", "cue": ""},
        {"agent_id": ALICE, "adaptation_type": "activate_cue"},
    ],
)
def test_an_adaptation_that_says_nothing_of_a_cue_changes_none(payload: dict[str, Any]) -> None:
    """As found: deltas; or an adjustment without an intensity."""
    world = World(strict=False).start()
    world.adapt("activate_cue", intensity=0.5)
    before = {**world.entity()["cues"]}
    world.post("PolicyAdapted", payload)
    assert world.entity()["cues"] == before


def test_a_policy_state_sets_the_cues_of_a_role() -> None:
    """Of every agent of the role, also of those that come later, and of no other; other cues are gone."""
    world = World().start()
    world.say()
    world.say("Owner+Marta")
    world.adapt("activate_cue", "old")
    world.adapt("activate_cue", "connect_to_labor")
    world.end().start(2)
    world.post("PolicyStateRecorded", policy_state())
    cues = {"reflect_on_alienation": _cue(True, 0.8, 2), "connect_to_labor": _cue(True, 1.0, 1)}
    assert world.entity()["cues"] == cues
    assert world.entity("Owner+Marta")["cues"] == {}
    world.end().start(3)
    world.say("Worker+Ben")
    assert world.entity("Worker+Ben")["cues"] == {name: {**cue, "since_round": 3} for name, cue in cues.items()}
    owner = {"role": "Owner", "cue_states": {"c": {"cue_id": "c", "active": False, "intensity": 0.5}}}
    world.post("PolicyStateRecorded", policy_state(policies=[owner], source_run_id="other"))
    assert world.entity("Owner+Marta")["cues"] == {"c": _cue(False, 0.5, 3)}
    assert world.entity()["cues"] == cues
    known = world.known["policy_state"]
    assert (known["policies"].keys(), known["source_run_id"]) == ({"Worker", "Owner"}, "other")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(ADAPTATION_TYPES),
            st.sampled_from(["a", "b"]),
            st.none() | st.sampled_from([0.0, 0.5, 1.0]),
            st.booleans(),
        ),
        max_size=12,
    )
)
def test_cues_obey_their_laws(steps: list[tuple[str, str, float | None, bool]]) -> None:
    """A cue is used if the last step that says so says so, with the last intensity told that counted."""
    world = World(strict=False).start()
    world.say()
    active: dict[str, bool] = {}
    intensity: dict[str, float] = {}
    since: dict[str, int] = {}
    for kind, cue, value, next_round in steps:
        if next_round:
            world.end().start(world.known["round_number"] + 1)
        told: dict[str, Any] = {} if value is None else {"intensity": value}
        world.adapt(kind, cue, **told)
        if kind == "adjust_intensity" and value is None:
            continue
        now = active.get(cue, False) if kind == "adjust_intensity" else kind == "activate_cue"
        if active.get(cue) is not now:
            since[cue] = world.known["round_number"]
        active[cue] = now
        if value is not None and (kind != "deactivate_cue" or cue not in intensity):
            intensity[cue] = value
        intensity.setdefault(cue, 1.0)
    assert world.entity()["cues"] == {name: _cue(active[name], intensity[name], since[name]) for name in active}


# -- whatever comes ----------------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*_KINDS, "RoundStarted", "MessageEmitted"]),
            st.builds(
                lambda known, rest: {**rest, **known},
                st.fixed_dictionaries(
                    {},
                    optional={
                        "agent_id": st.sampled_from([ALICE, "Owner+M", "", 1]),
                        "round_number": st.integers(0, 4) | GOOD_JSON,
                        "adaptation_type": st.sampled_from([*ADAPTATION_TYPES, ["activate_cue"]]),
                        "cue": st.sampled_from(["a", 1, {}]),
                        "intensity": st.sampled_from([0.5, 2**53 - 1, True, "1"]),
                        "policies": st.lists(
                            st.fixed_dictionaries(
                                {"role": st.sampled_from(["Worker", "", 1, []])},
                                optional={
                                    "cues_active": st.lists(GOOD_JSON, max_size=2) | GOOD_JSON,
                                    "cue_states": st.dictionaries(st.text(max_size=2), GOOD_JSON, max_size=2),
                                },
                            )
                            | GOOD_JSON,
                            max_size=3,
                        ),
                        "meta": GOOD_JSON,
                        "extra": GOOD_JSON,
                        "raw": GOOD_JSON,
                    },
                ),
                GOOD_OBJECTS,
            ),
        ),
        max_size=12,
    )
)
def test_no_payload_ends_the_fold(drafts: list[tuple[str, dict[str, Any]]]) -> None:
    """Whatever a payload holds, there is a state, and it is the same from a snapshot's text on."""
    world = World(strict=False)
    for kind, payload in drafts:
        world.write(kind, payload)
    half = len(world.log) // 2
    fold = Fold("w", RULESET)
    for effect in world.log[:half]:
        fold.apply(effect)
    fold = Fold("w", RULESET, WorldState.from_text(fold.state.text()), half)
    for effect in world.log[half:]:
        fold.apply(effect)
    assert fold.state.text() == world.fold.state.text()
    assert world.fold.state.metadata["unknown_effects"] == 0


@pytest.mark.parametrize("config", [{"coaches": 1, "agents": [1, ALICE, ""], "strict": "x"}, {"agents": {}}])
def test_a_genesis_that_others_wrote_is_read_as_far_as_it_goes(config: dict[str, Any]) -> None:
    """An import asks nobody whether a configuration is one."""
    fold = Fold("w", RULESET)
    RULESET.begin(fold.state, config)
    known = fold.state.metadata["social_rl"]
    assert (known["strict"], known["coaches"]) == (True, None)
    assert fold.state.entities.keys() <= {ALICE}


def test_the_state_is_bounded() -> None:
    """However much is said in however many rounds, the state of the same agents is no longer."""
    world = World().start()

    def live(number: int) -> int:
        for turn in range(1, 4):
            world.say(turn_number=turn, content="x" * 1000)
        world.judge()
        world.adapt()
        world.end().start(number + 1)
        return len(world.fold.state.text())

    first = live(1)
    assert [abs(live(number) - first) < 20 for number in range(2, 6)] == [True] * 4  # counters have more digits


def test_what_comes_before_the_first_round_is_of_no_round() -> None:
    """Not even where the first round is called 0; only an import can bring this about."""
    world = World(strict=False)
    world.write("FeedbackRecorded", feedback())
    assert (world.entity()["feedback_round"], world.entity()["last_round"]) == (None, None)
    world.start(0).say(round_number=0)
    assert (world.entity()["feedback_round"], world.entity()["last_round"]) == (None, 0)
