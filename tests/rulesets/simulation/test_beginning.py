"""How simulations begin: of defaults or of a checkpoint, in one effect or in several."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from worldledger_simulation.rules import SimulationConfig
from worldledger_simulation.rules.checkpoint import Checkpoint, Source, checkpoint_value
from worldledger_simulation.rules.sections import InvalidSimulationConfigError

from tests.cases import cases

from .playing import Play, setting

#: Most bytes of an effect's payload that is sure to be taken.
_MOST = 1024 * 1024 - 4096


def _large(*, text: int, agents: int = 80, bag: int = 0) -> dict[str, Any]:
    """Return a configuration of many agents, each with so much text; ``bag`` is the number of texts of the world."""
    return {
        "simulation": {"name": "large"},
        "agents": [f"A{n:02}" for n in range(agents)],
        "state_variables": {
            "agent_vars": {"s": {"type": "str", "default": "x" * text}},
            "global_vars": {
                "bag": {
                    "type": "dict",
                    "key_type": "str",
                    "value_type": "str",
                    "default": {f"k{n}": "y" * 10_000 for n in range(bag)},
                }
            },
        },
    }


def _taken(play: Play) -> dict[str, Any]:
    """Take a checkpoint of a simulation as it stands, as the file has it."""
    entities = dict(play.state.entities)
    values = {"turn": play.state.metadata["turn"], "global_state": entities.pop("global"), "agents": entities}
    found = checkpoint_value(play.state, values, Source("w", play.uuid, play.fold.seq, "0" * 64))
    value: dict[str, Any] = orjson.loads(orjson.dumps(found))
    return value


@pytest.mark.parametrize("text", [10, 9000])
def test_pauses_end_in_the_turn_of_the_checkpoint(text: int) -> None:
    """Whoever is paused resumes when it was to resume, also where the agents do not fit into one effect."""
    config = _large(text=text)
    play = Play(config)
    play.post("TurnStarted")
    for name, turns in (("A00", 3), ("A01", None), ("A77", 1), ("A78", None), ("A79", 3)):
        play.post("AgentPaused", agent_id=name, turns=turns)
    play.post("TurnEnded")
    again = Play(config, checkpoint=_taken(play))
    kinds = [effect["kind"] for effect in again.log]
    assert ("AgentAdded" in kinds) == (text == 9000)
    for _ in range(4):
        for each in (play, again):
            each.post("TurnStarted")
        assert [known["paused"] for known in play.simulation["agents"].values()] == [
            known["paused"] for known in again.simulation["agents"].values()
        ]
        assert {**play.simulation, "agents": 0} == {**again.simulation, "agents": 0}
        for each in (play, again):
            each.post("TurnEnded")
    assert _taken(play)["worldledger"]["paused"] == _taken(again)["worldledger"]["paused"] == {"A01": None, "A78": None}


@cases("bag", [0, 40, 75, 100])
def test_what_a_simulation_begins_with_fits_into_effects(bag: int) -> None:
    """However large the agents and the world's variables are together, no effect is too large to be written."""
    config = _large(text=9000, bag=bag)
    play = Play(config)
    assert max(len(orjson.dumps(effect["payload"])) for effect in play.log) <= _MOST
    assert len(play.state.entities) == 81
    play.post("AgentStateChanged", agent_id="A79", patch=setting("/s", "z" * 10_000))
    again = Play(config, checkpoint=_taken(play))
    assert max(len(orjson.dumps(effect["payload"])) for effect in again.log) <= _MOST
    assert again.state.entities == play.state.entities


@cases("odd", [float("nan"), "\ud800", 2**70, {"a": float("inf")}])
def test_a_checkpoint_that_cannot_be_written_is_refused(odd: Any) -> None:
    """What says where a checkpoint comes from is JSON that the log can keep; else it is refused by its place."""
    config = SimulationConfig.from_value(_large(text=1, agents=1))
    value = _taken(Play(config))
    value["worldledger"]["note"] = odd
    with pytest.raises(InvalidSimulationConfigError) as caught:
        Checkpoint.read(value, config)
    (problem,) = caught.value.problems
    assert problem.path[0] == "worldledger"
    assert "note" in problem.message
