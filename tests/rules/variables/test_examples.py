"""Each example in YAML, and simulations with nothing but scalars."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field

from tests.cases import cases
from worldledger.variables import (
    check_definitions,
    create_agent_state_model,
    create_global_state_model,
    default_of,
    dump_state,
    validate_state,
)

from .examples import EXAMPLES


def _same(value: Any, other: Any) -> bool:
    return json.dumps(value) == json.dumps(other)  # 0 and 0.0 are two values


@cases("title", EXAMPLES)
def test_an_example_is_accepted_with_its_default(title: str) -> None:
    """It is read as written, and the state without values is the default, exactly typed."""
    text, expected = EXAMPLES[title]
    read = yaml.safe_load(text)
    for where, raw in read.get("state_variables", {"agent_vars": read}).items():
        definitions = check_definitions(raw, where)
        assert _same({name: default_of(found) for name, found in definitions.items()}, expected)
        assert _same(dump_state(create_global_state_model(definitions)()), expected)


def test_a_checkpoint_is_read() -> None:
    """The agent and the world of a checkpoint are states of the variables, tuples included."""
    variables: dict[str, dict[str, Any]] = {"agent_vars": {}, "global_vars": {}}
    for title, (text, _) in EXAMPLES.items():
        if title != "Example of dict depth counting":
            for where, raw in yaml.safe_load(text)["state_variables"].items():
                variables[where] |= raw
    wanted = ("inventory", "location", "action_history", "stats")
    agents = check_definitions({name: variables["agent_vars"][name] for name in wanted})
    agent = {
        "name": "Trader_1",
        "inventory": {"food": 10.5, "metal": 5.0},
        "location": [10.0, 20.0],
        "action_history": ["spawn", "move", "trade"],
        "stats": {"health": 100.0, "mana": 50.0, "stamina": 8},
    }
    state = validate_state(create_agent_state_model(agents), agent)
    assert getattr(state, "location") == (10.0, 20.0)  # noqa: B009 - the model has no static attributes
    assert _same(dump_state(state), agent)
    world = {"towns": {"Agriculture Town": {"population": 1500, "resources": {"food": 1000.0, "wood": 500.0}}}}
    towns = create_global_state_model(check_definitions({"towns": variables["global_vars"]["towns"]}, "global_vars"))
    assert _same(dump_state(validate_state(towns, world)), world)


def test_scalars_alone_behave_as_before() -> None:
    """float, int, bool and categorical with min, max, values and default: bounds inclusive, defaults applied."""
    raw = yaml.safe_load(
        """
        gold: {type: float, min: 0.0, max: 1000.0, default: 100.0}
        level: {type: int, min: 1, default: 1}
        alive: {type: bool, default: true}
        mood: {type: categorical, values: [calm, angry], default: calm}
        """
    )
    model = create_agent_state_model(check_definitions(raw))
    assert dump_state(model(name="a")) == {"name": "a", "gold": 100.0, "level": 1, "alive": True, "mood": "calm"}
    edges = {"name": "a", "gold": 1000, "level": 1, "alive": False, "mood": "angry"}
    assert _same(dump_state(validate_state(model, edges)), {**edges, "gold": 1000.0})
    for wrong in ({"gold": 1000.1}, {"gold": -1}, {"level": 0}, {"alive": "perhaps"}, {"mood": "sad"}, {"mood": None}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            validate_state(model, {"name": "a", **wrong})


class _Handwritten(BaseModel):
    """What one would write by hand, knowing no types but scalars."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1)
    gold: float = Field(default=100.0, ge=0.0, le=1000.0, allow_inf_nan=False)
    level: int = Field(default=1, ge=1, le=2**53 - 1)
    alive: bool = True
    mood: Literal["calm", "angry"] = "calm"


def test_scalars_alone_cost_what_they_did_before() -> None:
    """Pydantic is told exactly what a handwritten model of scalars tells it: nothing of the other types is left."""
    raw = {
        "gold": {"type": "float", "min": 0.0, "max": 1000.0, "default": 100.0},
        "level": {"type": "int", "min": 1, "default": 1},
        "alive": {"type": "bool", "default": True},
        "mood": {"type": "categorical", "values": ["calm", "angry"], "default": "calm"},
    }

    def told(model: type[BaseModel]) -> Any:
        schema: Any = model.__pydantic_core_schema__
        while "fields" not in schema:
            schema = schema["schema"]
        return {name: field["schema"] for name, field in schema["fields"].items()}

    assert told(create_agent_state_model(check_definitions(raw))) == told(_Handwritten)
