"""The typed view of a simulation's state, and checkpoints: a state as a file that another simulation begins with."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from pydantic import BaseModel
from worldledger_simulation.rules import RULESET, Checkpoint, SimulationConfig, SimulationState
from worldledger_simulation.rules.checkpoint import Source, checkpoint_value
from worldledger_simulation.rules.sections import InvalidSimulationConfigError

from tests.cases import cases
from tests.rules.values import same
from worldledger.canonical import gate
from worldledger.errors import Problem
from worldledger.variables import StateInvalidError
from worldledger.world import WorldState

from .playing import KEY, Play, plays, setting, trade

_SOURCE = Source("w", KEY, 7, "c" * 64)


def _taken(play: Play, source: Source = _SOURCE) -> dict[str, Any]:
    """Return a play's checkpoint as a file has it."""
    value = checkpoint_value(play.state, SimulationState.of(play.state).to_value(), source)
    gate(value)
    found: dict[str, Any] = orjson.loads(orjson.dumps(value))
    return found


def _problems(value: Any, config: dict[str, Any] | None = None) -> list[Problem]:
    """Return what is wrong with a checkpoint for a configuration."""
    with pytest.raises(InvalidSimulationConfigError) as caught:
        Checkpoint.read(value, SimulationConfig.from_value(config or trade()))
    return list(caught.value.problems)


# -- the typed state -----------------------------------------------------------------------------------------


def test_the_state_is_typed() -> None:
    """Tuples are tuples, whole-numbered keys numbers, objects models; the variables are attributes."""
    play = Play()
    play.turn()
    play.change("Ann", "/ranks", {"12": 1})
    play.change("Ann", "/health/ill", "flu")
    state = SimulationState.of(play.state, world_uuid=KEY)
    assert (state.turn, list(state.agents)) == (1, ["Ann", "Bob", "Café"])
    assert (state.reasoning_chains, state.world_uuid) == ([], KEY)
    ann: Any = state.agents["Ann"]
    assert (ann.name, ann.gold, ann.place, ann.ranks) == ("Ann", 50.0, (0.0, 0), {12: 1})
    assert type(ann.place) is tuple
    assert (ann.health.hp, ann.health.ill) == (9.0, "flu")
    assert isinstance(ann.health, BaseModel)
    world: Any = state.global_state
    assert (world.price, world.season) == (2.0, None)
    assert type(ann).__name__ == "DynamicAgentState"
    assert type(world).__name__ == "DynamicGlobalState"


def test_the_state_as_a_value() -> None:
    """`to_value` is the checkpoint; the model itself dumps the same, without the world's uuid."""
    play = Play()
    state = SimulationState.of(play.state, world_uuid=KEY)
    value = state.to_value()
    assert list(value) == ["turn", "agents", "global_state"]
    assert value["agents"]["Ann"] == play.state.entities["Ann"]
    assert value["global_state"] == play.state.entities["global"]
    dumped = state.model_dump(mode="json", by_alias=True)
    assert dumped == {**value, "reasoning_chains": []}


@settings(max_examples=50, deadline=None)
@given(plays())
def test_the_typed_state_loses_nothing(play: Play) -> None:
    """What the typed state gives as a value is what the entities have, to the last byte."""
    value = SimulationState.of(play.state).to_value()
    assert same(value["agents"], {name: play.state.entities[name] for name in play.simulation["agents"]})
    assert same(value["global_state"], play.state.entities["global"])
    assert value["turn"] == play.state.metadata["turn"]


def test_there_is_no_typed_state_of_anything_else() -> None:
    """A world of another ruleset, and one that has not begun, have none; nor have values that an import has brought."""
    play = Play()
    begun = play.state.copy_deep()
    for state in (WorldState.initial(), begun.model_copy(update={"entities": {}})):
        with pytest.raises(ValueError, match="no state of a simulation"):
            SimulationState.of(state)
    play.write("AgentStateChanged", {"patch": setting("/bag", {"food": "much"})}, "Ann")
    with pytest.raises(StateInvalidError, match=r"bag\.food"):
        SimulationState.of(play.state)


# -- checkpoints ---------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(plays())
def test_a_simulation_begins_with_any_state_of_another(play: Play) -> None:
    """From a checkpoint of any state, a simulation of the same variables has the same values, turn and pauses."""
    value = _taken(play)
    agents = []
    for name, entity in value["agents"].items():
        agents.append({"name": name, "state": {key: each for key, each in entity.items() if key != "name"}})
    config = {**play.config.to_value(), "agents": agents, "observability": None}
    if not agents:
        return  # a configuration has agents
    begun = Play(config, value)
    assert same(begun.state.entities, play.state.entities)
    assert same(begun.state.spatial_index, play.state.spatial_index)
    assert begun.state.metadata["turn"] == play.state.metadata["turn"]
    assert begun.simulation["agents"] == play.simulation["agents"]
    assert not begun.simulation["open"]
    assert begun.log[1]["payload"]["checkpoint"]["edited"] is False
    again = _taken(begun)
    for part in ("turn", "agents", "global_state"):
        assert same(again[part], value[part])


def test_where_a_checkpoint_comes_from_is_told() -> None:
    """The beginning names the world and the place in its chain, and whether the checkpoint was changed since."""
    play = Play()
    play.turn()
    value = _taken(play)
    told = Play(checkpoint=value).log[1]["payload"]["checkpoint"]
    assert {name: told[name] for name in ("world_id", "world_uuid", "global_seq", "checksum", "edited")} == {
        **_SOURCE._asdict(),
        "edited": False,
    }
    for change in ({"turn": 2}, {"global_state": {**value["global_state"], "price": 3.0}}):
        assert Play(checkpoint={**value, **change}).log[1]["payload"]["checkpoint"]["edited"] is True
    origin = {**value["worldledger"], "world_id": "another"}
    assert Play(checkpoint={**value, "worldledger": origin}).log[1]["payload"]["checkpoint"]["edited"] is True
    del value["worldledger"]
    assert "checkpoint" not in Play(checkpoint=value).log[1]["payload"]


def test_a_checkpoint_s_pauses_go_on() -> None:
    """Who was paused is, and resumes in the turn in which it was to."""
    play = Play()
    play.turn()
    play.post("AgentPaused", agent_id="Ann", turns=2)
    play.post("AgentPaused", agent_id="Bob")
    begun = Play(checkpoint=_taken(play))
    assert begun.simulation["agents"] == {
        "Ann": {"paused": True, "resume_turn": 3},
        "Bob": {"paused": True, "resume_turn": None},
        "Café": {"paused": False, "resume_turn": None},
    }
    begun.turn()
    begun.turn()
    assert [name for name, known in begun.simulation["agents"].items() if known["paused"]] == ["Bob"]


def test_a_checkpoint_is_read() -> None:
    """One without more than turn, agents and global_state is read; what it lacks is as it begins, coerced as ever."""
    value: dict[str, Any] = {
        "turn": 4,
        "agents": {"Ann": {"gold": "7", "place": [1, 2]}, "Bob": {"name": "Bob"}},
        "global_state": {},
        "reasoning_chains": [{"agent": "Ann"}],
    }
    play = Play(checkpoint=value)
    assert play.state.metadata["turn"] == 4
    assert play.simulation["agents"].keys() == {"Ann", "Bob"}
    assert play.state.metadata["agents"].keys() == {"Ann", "Bob"}
    assert (play.state.entities["Ann"]["gold"], play.state.entities["Bob"]["gold"]) == (7.0, 10.0)
    assert play.state.entities["global"] == {"price": 2.0, "season": None}
    del value["global_state"]
    assert Play(checkpoint=value).state.entities["global"] == {"price": 2.0, "season": None}
    assert play.refused("TurnStarted").details["rule"] == "max_turns"
    with pytest.raises(InvalidSimulationConfigError, match="has 4 turns, and this is after turn 5"):
        Play(checkpoint={**value, "turn": 5})


def test_a_checkpoint_of_fewer_variables_can_be_used() -> None:
    """Variables that came since begin with their defaults; one without a default is missed."""
    play = Play(trade(observability=None))
    config = trade(observability=None)
    config["state_variables"]["agent_vars"]["luck"] = {"type": "float", "default": 1}
    begun = Play(config, _taken(play))
    assert begun.state.entities["Bob"]["luck"] == 1.0
    config["state_variables"]["agent_vars"]["rank"] = {"type": "int"}
    for each, name in enumerate(("Ann", "Bob", "Café")):
        config["agents"][each] = {"name": name, "state": {"rank": each}}
    problems = _problems(_taken(play), config)
    assert problems[0].path == ("worldledger", "variables_digest")
    assert [problem.path for problem in problems[1:]] == [("agents", name, "rank") for name in ("Ann", "Bob", "Café")]


@cases("value", [None, [], "x", 5])
def test_what_is_no_checkpoint(value: Any) -> None:
    """A checkpoint is an object."""
    (problem,) = _problems(value)
    assert problem.path == ()


def test_all_that_is_wrong_is_told_at_once() -> None:
    """Every problem has its path, and an agent that is misspelt the name that it may be meant to have."""
    value = {
        "turn": -1,
        "agents": {
            "Ann": {"gold": 101, "silver": 1, "bag": {"food": "x"}},
            "Bobb": {},
            "Zed": {},
            "Café": {"name": "Ann"},
        },
        "global_state": [],
        "worldledger": {"format": "checkpoint/1", "paused": {"Zed": 1, "Ann": -1}},
        "when": 0,
    }
    problems = {problem.path: problem.message for problem in _problems(value)}
    assert set(problems) == {
        ("when",),
        ("turn",),
        ("agents", "Ann", "gold"),
        ("agents", "Ann", "silver"),
        ("agents", "Ann", "bag", "food"),
        ("agents", "Bobb"),
        ("agents", "Zed"),
        ("agents", "Café"),
        ("global_state",),
        ("worldledger", "paused", "Zed"),
        ("worldledger", "paused", "Ann"),
    }
    assert "did you mean 'Bob'?" in problems["agents", "Bobb"]
    assert "add it to the configuration" in problems["agents", "Zed"]


@cases("origin", [[], "x", {}, {"format": "checkpoint/2"}, {"format": "checkpoint/1", "paused": []}, {"format": None}])
def test_an_origin_that_cannot_be_read(origin: Any) -> None:
    """What is said of where a checkpoint comes from is of a format that is known, or is left out."""
    (problem,) = _problems({"turn": 1, "agents": {}, "global_state": {}, "worldledger": origin})
    assert problem.path[0] == "worldledger"


def test_very_many_wrong_agents_are_told_of_soon() -> None:
    """Nearest names are looked for a few times only."""
    agents = [f"agent-{n}" for n in range(2000)]
    config = trade(agents=agents, observability=None)
    problems = _problems({"turn": 0, "agents": {f"agend-{n}": {} for n in range(3000)}, "global_state": {}}, config)
    assert len(problems) == 3000


def test_worlds_begin_with_what_their_checkpoint_has() -> None:
    """The opening writes the beginning first, then a registration of each agent that is there."""
    config = SimulationConfig.from_value(trade()).to_value()
    checkpoint = {"turn": 2, "agents": {"Bob": {}}, "global_state": {}}
    drafts = RULESET.opening(config, world_uuid=KEY, checkpoint=checkpoint)
    assert [draft["kind"] for draft in drafts] == ["SimulationStarted", "AgentRegistered"]
    assert {draft["source_id"] for draft in drafts} == {"worldledger"}
    assert drafts[1]["payload"]["agent_id"] == "Bob"
    assert drafts[1]["payload"]["policy"]["config"]["noise_key"] == KEY
    kinds = [draft["kind"] for draft in RULESET.opening(config, world_uuid=KEY)]
    assert kinds == ["SimulationStarted", *["AgentRegistered"] * 3]
