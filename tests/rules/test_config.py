"""How a world's agents are served: defaults, bounds, strictness, and where it stands in the genesis."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.cases import cases
from worldledger.canonical import gate
from worldledger.config import MemoryConfig, OrchestratorConfig, read_config
from worldledger.drafts import check_draft
from worldledger.errors import InvalidConfigError
from worldledger.genesis import NewWorld, genesis_draft

from .values import ANY_JSON, same


def test_the_defaults_ask_for_nothing() -> None:
    """Without settings there is no quota, no deadline and no debounce, and any newer view makes an intent stale."""
    config = OrchestratorConfig()
    assert (config.token_budget, config.intents_per_s, config.deadline_ms, config.debounce_ms) == (0, 0.0, 0.0, 0.0)
    assert (config.staleness_threshold, config.default_priority, config.backpressure_policy) == (0, 0, "defer")
    assert config.record_rejections is None
    assert config.memory == MemoryConfig()
    assert read_config({}) == config


def test_every_field_is_explained() -> None:
    """Each field has a description and a default: the docs and the OpenAPI document are made of them."""
    for shape in (OrchestratorConfig, MemoryConfig):
        for name, field in shape.model_fields.items():
            assert field.description, name
            assert not field.is_required(), name


_WRONG: list[tuple[dict[str, Any], str]] = [
    ({"max_agents": 0}, "$.orchestrator.max_agents"),
    ({"max_agents": True}, "$.orchestrator.max_agents"),
    ({"max_agents": 5.0}, "$.orchestrator.max_agents"),
    ({"max_agents": "5"}, "$.orchestrator.max_agents"),
    ({"max_agents": None}, "$.orchestrator.max_agents"),
    ({"max_agents": 10**30}, "$.orchestrator.max_agents"),
    ({"staleness_threshold": -1}, "$.orchestrator.staleness_threshold"),
    ({"debounce_ms": -0.1}, "$.orchestrator.debounce_ms"),
    ({"debounce_ms": "100"}, "$.orchestrator.debounce_ms"),
    ({"debounce_ms": math.nan}, "$.orchestrator.debounce_ms"),
    ({"deadline_ms": math.inf}, "$.orchestrator.deadline_ms"),
    ({"deadline_ms": True}, "$.orchestrator.deadline_ms"),
    ({"token_budget": -1}, "$.orchestrator.token_budget"),
    ({"tokens_per_s": 0}, "$.orchestrator.tokens_per_s"),
    ({"intents_per_s": -1}, "$.orchestrator.intents_per_s"),
    ({"intents_burst": 0}, "$.orchestrator.intents_burst"),
    ({"backpressure_policy": "shed_newest"}, "$.orchestrator.backpressure_policy"),
    ({"default_priority": 2**31}, "$.orchestrator.default_priority"),
    ({"max_pending": 0}, "$.orchestrator.max_pending"),
    ({"max_in_flight": 0}, "$.orchestrator.max_in_flight"),
    ({"ageing_ms": -1}, "$.orchestrator.ageing_ms"),
    ({"view_digest_every": -1}, "$.orchestrator.view_digest_every"),
    ({"max_queued_deltas": 0}, "$.orchestrator.max_queued_deltas"),
    ({"record_rejections": 1}, "$.orchestrator.record_rejections"),
    ({"memory": []}, "$.orchestrator.memory"),
    ({"memory": None}, "$.orchestrator.memory"),
    ({"memory": {"compaction_threshold": 0}}, "$.orchestrator.memory.compaction_threshold"),
    ({"memory": {"compaction_threshold": 1.01}}, "$.orchestrator.memory.compaction_threshold"),
    ({"memory": {"max_tokens": 0.5}}, "$.orchestrator.memory.max_tokens"),
    ({"memory": {"colour": 1}}, "$.orchestrator.memory.colour"),
    ({"colour": 1}, "$.orchestrator.colour"),
    ({"a b": 1}, '$.orchestrator["a b"]'),
]


@cases("value, path", _WRONG, ids=[str(value) for value, _ in _WRONG])
def test_a_value_out_of_bounds_is_refused_with_its_path(value: dict[str, Any], path: str) -> None:
    """Nothing is taken for something else: wrong types, bounds and unknown fields are named."""
    with pytest.raises(InvalidConfigError) as caught:
        read_config(value)
    assert caught.value.details["path"] == path
    assert str(caught.value).startswith(path)
    with pytest.raises(ValidationError):
        OrchestratorConfig(**value)
    with pytest.raises(ValidationError):
        NewWorld.model_validate({"world_id": "w", "orchestrator": value}, strict=True)


@cases("value", [None, [], "defer", 7])
def test_a_configuration_is_an_object(value: Any) -> None:
    """Anything else is refused at the path where it stands."""
    with pytest.raises(InvalidConfigError) as caught:
        read_config(value, "$.payload.orchestrator")
    assert caught.value.details["path"] == "$.payload.orchestrator"


def test_it_cannot_be_changed() -> None:
    """What a world is told stays: the configuration is frozen."""
    config = OrchestratorConfig()
    with pytest.raises(ValidationError):
        config.max_agents = 5
    with pytest.raises(ValidationError):
        config.memory.max_tokens = 5


@cases(
    "fields, refill, capacity",
    [
        ({}, 0.0, 1),
        ({"token_budget": 600}, 10.0, 1),
        ({"token_budget": 600, "tokens_per_s": 0.5}, 0.5, 1),
        ({"intents_per_s": 0.25}, 0.0, 1),
        ({"intents_per_s": 100}, 0.0, 100),
        ({"intents_per_s": 2.5}, 0.0, 3),
        ({"intents_per_s": 100, "intents_burst": 7}, 0.0, 7),
    ],
)
def test_what_is_left_open_follows_from_the_rest(fields: dict[str, Any], refill: float, capacity: int) -> None:
    """A budget refills in a minute and a burst is what comes in a second, unless they are said."""
    config = OrchestratorConfig(**fields)
    assert (config.token_refill_per_s, config.intent_capacity) == (refill, capacity)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(OrchestratorConfig.model_fields)), ANY_JSON, max_size=3))
def test_what_is_taken_can_be_kept(fields: dict[str, Any]) -> None:
    """Whatever is accepted and passes the gate is read back as it was; anything else is refused with a path."""
    try:
        config = read_config(fields)
    except InvalidConfigError as error:
        path = error.details["path"]
    else:
        try:
            world = NewWorld(world_id="w", orchestrator=config).checked()
        except InvalidConfigError as error:  # -0.0
            path = error.details["path"]
        else:
            assert world.orchestrator is not None
            assert read_config(orjson.loads(gate(world.orchestrator.model_dump()))) == config
            return
    assert path.startswith("$.orchestrator")


# -- the genesis -------------------------------------------------------------------------------------------------


def _payload(world: NewWorld) -> dict[str, Any]:
    draft = genesis_draft(world.checked(), world_uuid="0" * 32, ruleset_version=1, wall_time=1.0)
    check_draft(draft, system=True)
    return draft["payload"]


def test_a_world_s_own_configuration_stands_whole_in_its_genesis() -> None:
    """The genesis has every field, so that another version's defaults change nothing of the world."""
    config = OrchestratorConfig(max_agents=7, debounce_ms=50, memory=MemoryConfig(max_tokens=9))
    kept = _payload(NewWorld(world_id="w", orchestrator=config))["orchestrator"]
    assert same(kept, config.model_dump())
    assert kept["memory"]["view_cache_size"] == 1000
    assert read_config(kept) == config


def test_a_world_without_one_says_nothing_of_it() -> None:
    """The key stands in the genesis only where a configuration was given, be it the default."""
    assert "orchestrator" not in _payload(NewWorld(world_id="w"))
    assert _payload(NewWorld(world_id="w", orchestrator=OrchestratorConfig()))["orchestrator"]["max_agents"] == 1000


def test_what_the_log_could_not_keep_is_refused_with_its_path() -> None:
    """-0.0 is within bounds and still refused: it would not survive."""
    world = NewWorld(world_id="w", orchestrator=OrchestratorConfig(debounce_ms=-0.0))
    with pytest.raises(InvalidConfigError) as caught:
        world.checked()
    assert caught.value.details["path"] == "$.orchestrator.debounce_ms"
