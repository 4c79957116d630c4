"""What live worlds refuse: each rule, its path, and all that is wrong with a draft in one error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from worldledger_social_rl.rules import RULESET
from worldledger_social_rl.rules.recording import round_drafts, write_run

from tests.cases import cases
from tests.rulesets.social_rl.documents import (
    ALICE,
    a_round,
    adaptation,
    effects_of_drafts,
    feedback,
    message,
    meta,
    policy_state,
)
from tests.rulesets.social_rl.worlds import World
from worldledger.errors import IllegalEffectError, InvalidConfigError

Make = Callable[[], World]


def _started() -> World:
    """Return a strict world in which round 1 runs, and Alice has spoken."""
    world = World().start()
    world.say()
    return world


def _over() -> World:
    return _started().end()


def _judged() -> World:
    world = _started()
    world.judge()
    return world


def _lenient() -> World:
    return World(strict=False).start()


_P = "$.payload"
_NEEDED = ("experiment_id", "prar_run_id", "framework", "framework_option", "model")
#: A world, a draft, and what it is refused for: path behind $.payload (or whole), rule.
_REFUSED: list[tuple[Make, str, dict[str, Any], list[tuple[str, str]]]] = [
    (World, "RoundStarted", {"round_number": 2}, [("round_number", "round_order")]),
    (World, "RoundStarted", {}, [("round_number", "missing")]),
    (World, "RoundStarted", {"round_number": 1, "mood": 1}, [("mood", "unknown_field")]),
    (World, "RoundStarted", {"round_number": 1, "extra": {}}, [("extra", "unknown_field")]),
    (World, "RoundStarted", {"round_number": 1, "parts": ["tasks"]}, [("parts", "value")]),
    (
        World,
        "RoundStarted",
        {"round_number": 1, "meta": {}},
        [(f"meta.{name}", "missing") for name in _NEEDED],
    ),
    (_started, "RoundStarted", {"round_number": 2}, [("round_number", "round_open")]),
    (_over, "RoundStarted", {"round_number": 1}, [("round_number", "round_order")]),
    (_over, "RoundStarted", {"round_number": 3}, [("round_number", "round_order")]),
    (World, "RoundEnded", {"round_number": 1}, [("$.kind", "round_closed")]),
    (_over, "RoundEnded", {"round_number": 1}, [("$.kind", "round_closed")]),
    (_started, "RoundEnded", {"round_number": 2}, [("round_number", "other_round")]),
    (_started, "RoundEnded", {"round_number": 1, "duration_seconds": -1}, [("duration_seconds", "value")]),
    (_started, "RoundSynthesised", {"round_number": 1}, [("synthesis", "missing")]),
    (World, "MessageEmitted", message(), [("$.kind", "round_closed")]),
    (_started, "MessageEmitted", message(round_number=2), [("round_number", "other_round")]),
    (
        _started,
        "MessageEmitted",
        {**message("Alice"), "turn_number": 0, "role": "bot", "mood": 1},
        [("agent_id", "value"), ("turn_number", "value"), ("role", "value"), ("mood", "unknown_field")],
    ),
    (_started, "FeedbackRecorded", feedback("Owner+Bob"), [("agent_id", "unknown_agent")]),
    (_started, "FeedbackRecorded", feedback(engagement=1.5), [("engagement", "value")]),
    (_judged, "FeedbackRecorded", feedback(), [("agent_id", "feedback_given")]),
    (_over, "FeedbackRecorded", feedback(), [("$.kind", "round_closed")]),
    (_started, "PolicyAdapted", adaptation("Owner+Bob"), [("agent_id", "unknown_agent")]),
    (
        _started,
        "PolicyAdapted",
        {"agent_id": ALICE, "role": "Worker", "deltas": {}, "round": 1},
        [
            *((name, "missing") for name in ("adaptation_type", "cue", "reason", "round_number", "feedback_trigger")),
            *((name, "unknown_field") for name in ("deltas", "role", "round")),
        ],
    ),
    (World, "PolicyStateRecorded", policy_state(policies={}), [("policies", "type")]),
    (World, "PolicyStateRecorded", policy_state(name="a/b"), [("name", "name")]),
    (World, "ExperimentStarted", {"meta": {"framework_option": "X"}}, [("meta.framework_option", "value")]),
    (World, "ExperimentStarted", {"meta": {"condition": "A"}}, [("meta.condition", "unknown_field")]),
    (World, "ExperimentStarted", {}, [("meta", "missing")]),
    (lambda: World(meta=meta()), "ExperimentStarted", {"meta": {}}, [("$.kind", "already_started")]),
    (
        lambda: World(meta=meta()),
        "RoundStarted",
        {"round_number": 1, "meta": meta(social_rl_version="0.3.0")},
        [("meta.social_rl_version", "mixed_versions")],
    ),
    (World, "ArtifactRecorded", {"name": "../x.json"}, [("name", "value"), ("content", "missing")]),
    (World, "ArtifactRecorded", {"name": "x.json", "content": 1, "mood": 1}, [("mood", "unknown_field")]),
    # what lenient worlds refuse too
    (_lenient, "RoundStarted", {"round_number": 2}, [("round_number", "round_open")]),
    (lambda: _lenient().end(), "RoundStarted", {"round_number": 1}, [("round_number", "round_order")]),
    (lambda: _lenient().end(), "RoundStarted", {"round_number": "2"}, [("round_number", "type")]),
    (lambda: _lenient().end(), "RoundStarted", {"round_number": 2, "name": "a/b"}, [("name", "name")]),
    (lambda: _lenient().end(), "MessageEmitted", message(), [("$.kind", "round_closed")]),
    (_lenient, "MessageEmitted", {"content": "…"}, [("agent_id", "agent")]),
    (_lenient, "FeedbackRecorded", {"agent_id": ALICE, "raw": 1}, [("raw", "type")]),
    (_lenient, "PolicyAdapted", {"raw": 1}, [("agent_id", "agent")]),
    (_lenient, "PolicyStateRecorded", {}, [("policies", "type")]),
    (_lenient, "RoundEnded", {"round_number": 2}, [("round_number", "other_round")]),
    (_lenient, "RoundSynthesised", {}, [("round_number", "type")]),
    (_lenient, "ArtifactRecorded", {"name": ".x", "content": 1}, [("name", "value")]),
]


@cases("make, kind, payload, problems", _REFUSED)
def test_a_rule_is_kept(make: Make, kind: str, payload: dict[str, Any], problems: list[tuple[str, str]]) -> None:
    """The draft is refused with the path and the rule of everything that is wrong, and nothing has changed."""
    wanted = [(path if path.startswith("$") else f"{_P}.{path}", rule) for path, rule in problems]
    assert make().refused(kind, payload) == wanted


def test_a_strict_world_takes_what_is_documented() -> None:
    """A whole round posted effect by effect is written as the document that it was."""
    world = World(meta={**meta(), "condition": "A"}, agents=["Owner+Marta"])
    document = a_round()
    world.start(meta=document["meta"], round_config=document["round_config"])
    for each in document["messages"]:
        world.post("MessageEmitted", each, each["agent_id"])
    world.post("FeedbackRecorded", document["feedback"][ALICE])
    world.post("PolicyAdapted", document["policy_adaptations"][0])
    world.post("RoundSynthesised", {"round_number": 1, "synthesis": document["synthesis"]})
    world.post("PolicyStateRecorded", policy_state())
    world.post("RoundEnded", {"round_number": 1, "duration_seconds": 45.2})
    assert {file.name: file.value for file in write_run(world.log)} == {
        "meta.json": {**meta(), "condition": "A"},
        "round1_social_rl.json": document,
        "policy_state.json": policy_state(),
    }


def test_posted_rounds_follow_one_another() -> None:
    """The drafts of whole documents are legal, one after another, in a strict world; as found, in a lenient one."""
    world = World()
    for number in (1, 2):
        for draft in round_drafts(a_round(number), strict=True):
            world.post(draft["kind"], draft["payload"], draft["source_id"])
    assert world.known["rounds"] == 2
    found = {"round_number": 7, "messages": [message("CES_Urban", mood=1)], "policy_adaptations": [{"agent_id": "x"}]}
    lenient = World(strict=False)
    drafts = round_drafts(found, strict=False)
    for draft in drafts:
        lenient.post(draft["kind"], draft["payload"], draft["source_id"])
    assert [file.value for file in write_run(effects_of_drafts(drafts))] == [found]


def test_feedback_is_for_agents_that_are_known() -> None:
    """Who spoke in an earlier round, who is registered, and who is named in the configuration."""
    world = World(agents=["Owner+Marta"])
    world.start().say()
    world.end().start(2)
    spec = {"name": "social_rl", "version": 1, "config": {}}
    registration = {"agent_id": "Owner+Bob", "policy": spec, "permissions": [], "weight": 1}
    world.write("AgentRegistered", registration, "worldledger")
    for agent_id in (ALICE, "Owner+Marta", "Owner+Bob"):
        world.judge(agent_id)
    assert world.refused("FeedbackRecorded", feedback("Owner+Eve", round_number=2)) == [
        (f"{_P}.agent_id", "unknown_agent")
    ]


def test_what_an_intent_brings_along_is_no_unknown_field() -> None:
    """Custom intents have their kind in the payload, and may tell what they cost."""
    world = World().start()
    world.post("MessageEmitted", {**message(), "kind": "MessageEmitted", "token_count": 12}, ALICE)
    (file,) = write_run(world.log)
    assert file.value["messages"] == [message()]


# -- intents -------------------------------------------------------------------------------------------------------


def _intended(world: World, who: str, kind: str, /, **payload: Any) -> tuple[str, str] | None:
    """Return the path and the rule by which an intent is refused; None if it is not."""
    try:
        RULESET.check_intent(kind, {"kind": kind, **payload}, who, world.fold.state)
    except IllegalEffectError as error:
        return error.path, error.details["rule"]
    return None


def test_agents_speak_for_themselves_and_coaches_for_others_too() -> None:
    """Feedback, adaptations, policies and the synthesis are for coaches; rounds for whoever runs the experiment."""
    world = World().start()
    coach = "Coach+C"
    assert _intended(world, ALICE, "MessageEmitted", agent_id=ALICE) is None
    for other in ("Owner+Marta", None):
        assert _intended(world, ALICE, "MessageEmitted", agent_id=other) == (f"{_P}.agent_id", "not_yours")
    assert _intended(world, coach, "MessageEmitted", agent_id=ALICE) is None
    for kind in ("FeedbackRecorded", "PolicyAdapted", "PolicyStateRecorded", "RoundSynthesised"):
        assert _intended(world, ALICE, kind, agent_id=ALICE) == (f"{_P}.kind", "not_for_agents")
        assert _intended(world, coach, kind, agent_id=ALICE) is None
    for kind in ("RoundStarted", "RoundEnded", "ExperimentStarted", "ArtifactRecorded"):
        assert _intended(world, coach, kind) == (f"{_P}.kind", "not_for_agents")
    assert _intended(world, ALICE, "Wave") is None


def test_coaches_are_those_that_the_configuration_names() -> None:
    """Then the role in an id says nothing."""
    world = World(coaches=[ALICE])
    assert _intended(world, ALICE, "FeedbackRecorded", agent_id="Owner+Marta") is None
    assert _intended(world, "Coach+C", "FeedbackRecorded", agent_id=ALICE) == (f"{_P}.kind", "not_for_agents")


# -- configurations ------------------------------------------------------------------------------------------------


def test_a_world_begins_with_its_meta_data_and_agents() -> None:
    """Meta data that are not documented are told beside; each agent is registered with its policy."""
    world = World(meta={"model": "m", "seed": 3, "condition": "B"}, agents=[ALICE, "Coach+C"], note="mine")
    assert world.config == {**world.config, "strict": True, "note": "mine"}
    started, alice, coach = world.log[1:]
    assert started["payload"] == {"meta": {"model": "m"}, "extra": {"seed": 3, "condition": "B"}}
    policies = {each["payload"]["agent_id"]: each["payload"]["policy"] for each in (alice, coach)}
    assert {name: (policy["name"], policy["config"]["coach"]) for name, policy in policies.items()} == {
        ALICE: ("social_rl", False),
        "Coach+C": ("social_rl", True),
    }
    assert (world.known["meta"], world.known["condition"], world.known["seed"]) == ({"model": "m"}, "B", 3)
    assert world.entity()["role"] == "Worker"
    assert RULESET.opening(RULESET.check_config({}), world_uuid="0" * 32) == []
    with pytest.raises(InvalidConfigError, match="begin with no checkpoint"):
        RULESET.opening({}, world_uuid="0" * 32, checkpoint={})


@cases(
    "config, paths",
    [
        ({"strict": "no"}, ["$.config.strict"]),
        ({"meta": 1}, ["$.config.meta"]),
        ({"meta": meta(framework_option="X", model=1)}, ["$.config.meta.framework_option", "$.config.meta.model"]),
        ({"coaches": "Coach+C"}, ["$.config.coaches"]),
        ({"agents": [ALICE, "", ALICE, "worldledger", 1]}, [f"$.config.agents[{index}]" for index in (1, 2, 3, 4)]),
    ],
)
def test_a_configuration_is_refused_with_every_path(config: dict[str, Any], paths: list[str]) -> None:
    """Values of another type, agents that cannot be, and names that stand twice."""
    with pytest.raises(InvalidConfigError) as caught:
        RULESET.check_config(config)
    assert [problem["path"] for problem in caught.value.details["problems"]] == paths
    assert caught.value.details["path"] == paths[0]
