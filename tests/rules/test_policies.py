"""Policies and latency models by name: stored as JSON, made again from it, found where they are installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings

from tests.cases import cases
from tests.rules.seeing import POLICIES, Masked
from worldledger.canonical import canonical_json
from worldledger.effects import Effect
from worldledger.errors import InvalidPolicyError, UnregisteredPolicyError
from worldledger.observation import (
    DistanceLatency,
    FirstObservationPolicy,
    FirstPolicyConfig,
    LatencyModel,
    ObservationPolicy,
    PolicyConfig,
)
from worldledger.policies import policy_from_spec, policy_spec, register_latency_model, register_policy


class Unnamed(ObservationPolicy):
    """A policy that nobody registered."""


class MaskedMore(Masked):
    """A subclass of a registered policy is another policy."""


class Slow(LatencyModel):
    """A latency model that nobody registered."""


class ScoutConfig(PolicyConfig):
    """A configuration with a field of its own."""

    height: int = 2


@register_policy("test-scout", version=3)
class Scout(ObservationPolicy):
    """A policy with a configuration of its own."""

    config_class = ScoutConfig

    def __init__(self, config: FirstPolicyConfig | None = None) -> None:
        super().__init__(config)
        if isinstance(self.config, ScoutConfig) and self.config.height > 9:
            raise ZeroDivisionError("too high")


@register_latency_model("test-odd", version=2)
class Odd(LatencyModel):
    """A latency model that writes its configuration itself."""

    def __init__(self, *, words: list[str]) -> None:
        self._words = words

    def config(self) -> dict[str, Any]:
        """Return the words."""
        return {"words": self._words}

    def calculate_delay(self, from_agent: str, to_agent: str, effect: Effect) -> float:
        """Return a second a word."""
        return float(len(self._words))


# -- to JSON and back ----------------------------------------------------------------------------------------


def test_the_plain_policy_is_stored_with_every_setting() -> None:
    """Its name is default, and no limit is null."""
    stored: dict[str, Any] = {
        "distance_limit": None,
        "relationship_filter": [],
        "field_visibility": {},
        "latency_model": {"name": "none", "version": 1, "config": {}},
        "remove_operations": True,
    }
    more = {"visibility_range": False, "view_cone": None, "rules": 2}
    assert policy_spec(ObservationPolicy()) == {"name": "default", "version": 2, "config": stored | more}
    assert policy_spec(FirstObservationPolicy()) == {"name": "default", "version": 1, "config": stored}


def test_what_was_stored_before_there_was_a_choice_goes_by_the_first_rules() -> None:
    """A policy of one's own that is registered now goes by the newest, and so does each that says so."""
    spec = policy_spec(Scout(ScoutConfig(height=5)))
    assert spec["config"].pop("rules") == 2
    assert policy_from_spec(spec, stored=True).rules == 1
    assert policy_from_spec(spec).rules == 2
    assert policy_from_spec(policy_spec(policy_from_spec(spec)), stored=True).rules == 2
    first = {"name": "default", "version": 1}
    assert policy_from_spec(first, stored=True).rules == policy_from_spec(first).rules == 1
    for known in ("matrix", "social_rl"):
        assert policy_from_spec({"name": known, "version": 1}, stored=True).rules == 1
        assert policy_from_spec({"name": known}).rules == 2
    with pytest.raises(InvalidPolicyError):
        policy_from_spec({**first, "config": {"rules": 2}})


@settings(max_examples=100, deadline=None)
@given(POLICIES)
def test_a_policy_made_again_is_the_same(policy: ObservationPolicy) -> None:
    """What is stored survives JSON, and gives a policy of the same class that is stored alike."""
    spec = policy_spec(policy)
    again = policy_from_spec(orjson.loads(canonical_json(spec)))
    assert type(again) is type(policy)
    assert canonical_json(policy_spec(again)) == canonical_json(spec)
    assert vars(again.latency_model) == vars(policy.latency_model)


def test_own_configurations_are_stored_too() -> None:
    """The fields of a subclass of PolicyConfig, and what a latency model says of itself."""
    spec = policy_spec(Scout(ScoutConfig(height=5, latency_model=Odd(words=["a", "b"]))))
    assert (spec["name"], spec["version"], spec["config"]["height"]) == ("test-scout", 3, 5)
    assert spec["config"]["latency_model"] == {"name": "test-odd", "version": 2, "config": {"words": ["a", "b"]}}
    again = policy_from_spec(spec)
    assert isinstance(again.config, ScoutConfig)
    assert again.latency_model.calculate_delay("a", "b", {}) == 2.0  # type: ignore[typeddict-item]  # it is not looked at
    assert policy_spec(again) == spec


def test_version_and_config_may_be_left_out() -> None:
    """Then it is the newest version, as usual."""
    assert policy_spec(policy_from_spec({"name": "test-scout"})) == policy_spec(Scout())
    assert type(policy_from_spec({"name": "default", "config": None})) is ObservationPolicy
    spec = {"name": "default", "config": {"latency_model": {"name": "distance", "config": {"seconds_per_unit": 2}}}}
    assert vars(policy_from_spec(spec).latency_model) == vars(DistanceLatency(2.0))


# -- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [Unnamed(), MaskedMore(), ObservationPolicy(PolicyConfig(latency_model=Slow()))])
def test_what_is_not_registered_cannot_be_stored(policy: ObservationPolicy) -> None:
    """The error says which class it is and how to register it."""
    with pytest.raises(UnregisteredPolicyError) as caught:
        policy_spec(policy)
    said = str(caught.value)
    assert __name__.rpartition(".")[2] in said
    assert "@worldledger.policies.register_" in said
    assert "entry-point group worldledger." in said


@cases(
    "spec, path",
    [
        (None, "$"),
        ("default", "$"),
        ({}, "$.name"),
        ({"name": 5}, "$.name"),
        ({"name": "default", "version": "1"}, "$.version"),
        ({"name": "default", "version": True}, "$.version"),
        ({"name": "default", "version": 0}, "$.version"),
        ({"name": "default", "config": []}, "$.config"),
        ({"name": "default", "other": 1}, "$.other"),
        ({"name": "default", "config": {"distance_limit": -1}}, "$.config.distance_limit"),
        ({"name": "default", "config": {"distance_limit": "far"}}, "$.config.distance_limit"),
        ({"name": "default", "config": {"height": 1}}, "$.config.height"),
        ({"name": "default", "config": {"rules": 3}}, "$.config.rules"),
        ({"name": "default", "config": {"visibility_range": 5}}, "$.config.visibility_range"),
        ({"name": "default", "config": {"view_cone": {}}}, "$.config.view_cone.angle"),
        ({"name": "default", "config": {"view_cone": {"angle": 361}}}, "$.config.view_cone.angle"),
        ({"name": "default", "config": {"view_cone": {"angle": 90, "range": -1}}}, "$.config.view_cone.range"),
        (
            {"name": "default", "config": {"view_cone": {"angle": 9, "direction": [0, 0]}}},
            "$.config.view_cone.direction",
        ),
        ({"name": "default", "config": {"relationship_filter": ["a", 1]}}, "$.config.relationship_filter[1]"),
        ({"name": "default", "config": {"field_visibility": {"a b": 1}}}, '$.config.field_visibility["a b"]'),
        ({"name": "default", "config": {"latency_model": None}}, "$.config.latency_model"),
        ({"name": "default", "config": {"latency_model": {"version": 1}}}, "$.config.latency_model.name"),
        (
            {"name": "default", "config": {"latency_model": {"name": "fixed", "config": {"seconds": -1}}}},
            "$.config.latency_model.config",
        ),
        (
            {"name": "default", "config": {"latency_model": {"name": "fixed", "config": {"hours": 1}}}},
            "$.config.latency_model.config",
        ),
        ({"name": "test-scout", "config": {"height": "5"}}, "$.config.height"),
        ({"name": "test-scout", "config": {"height": 10}}, "$.config"),
    ],
)
def test_what_is_no_policy_is_refused_by_path(spec: Any, path: str) -> None:
    """The path says what is wrong, from where the spec stands in what was sent."""
    with pytest.raises(InvalidPolicyError) as caught:
        policy_from_spec(spec)
    assert caught.value.details["path"] == path
    with pytest.raises(InvalidPolicyError) as caught:
        policy_from_spec(spec, path="$.policy")
    assert caught.value.details["path"] == path.replace("$", "$.policy", 1)


@cases(
    "spec",
    [
        {"name": "unheard-of"},
        {"name": "default", "version": 3},
        {"name": "test-scout", "version": 1},
        {"name": "default", "config": {"latency_model": {"name": "unheard-of"}}},
    ],
)
def test_an_unknown_name_or_version_is_refused(spec: dict[str, Any]) -> None:
    """The error lists what is known here."""
    with pytest.raises(UnregisteredPolicyError) as caught:
        policy_from_spec(spec)
    assert {"default 1", "test-scout 3"} <= set(caught.value.details["known"]) or "none 1" in str(caught.value)


def test_a_config_that_is_no_json_cannot_be_stored() -> None:
    """The path says where."""
    with pytest.raises(InvalidPolicyError) as caught:
        policy_spec(ObservationPolicy(PolicyConfig(relationship_filter=["a\x00"])))
    assert caught.value.details["path"] == "$.config.relationship_filter[0]"


# -- registering ---------------------------------------------------------------------------------------------


def test_a_name_and_version_stand_for_one_class() -> None:
    """Another class cannot have it, nor a class two; the same class may come again, as when a module is reloaded."""
    with pytest.raises(ValueError, match="already"):
        register_policy("default")(Unnamed)
    with pytest.raises(ValueError, match="already"):
        register_policy("another-name")(Scout)
    register_policy("test-scout", version=3)(Scout)
    reloaded = type(Scout.__name__, (Scout,), {"__module__": __name__, "__qualname__": Scout.__qualname__})
    register_policy("test-scout", version=3)(reloaded)
    try:
        assert type(policy_from_spec({"name": "test-scout"})) is reloaded
    finally:
        register_policy("test-scout", version=3)(Scout)


@cases("name, version", [("", 1), (5, 1), ("x" * 201, 1), ("x", 0), ("x", True), ("x", "1")])
def test_names_and_versions_are_checked(name: Any, version: Any) -> None:
    """A name is a text of 1 to 200 characters, a version a whole number from 1 on."""
    with pytest.raises(ValueError, match="a name of 1 to 200"):
        register_policy(name, version)(Unnamed)


def test_only_subclasses_can_be_registered() -> None:
    """A latency model is no policy, and an instance is no class."""
    with pytest.raises(TypeError, match="no subclass of ObservationPolicy"):
        register_policy("x")(Slow)
    with pytest.raises(TypeError, match="no subclass of LatencyModel"):
        register_latency_model("x")(Slow())  # type: ignore[type-var]  # which is the point


# -- third parties -------------------------------------------------------------------------------------------

_MODULE = """
from worldledger.observation import LatencyModel, ObservationPolicy
from worldledger.policies import register_policy

@register_policy("theirs", version=1)
class Old(ObservationPolicy):
    pass

@register_policy("theirs", version=2)
class New(ObservationPolicy):
    pass

class Lag(LatencyModel):
    def calculate_delay(self, from_agent, to_agent, effect):
        return 7.0
"""


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Install a package of somebody else's that offers policies, good and bad; return its module's name."""
    module = "somebodys_policies"
    info = tmp_path / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[worldledger.policies]\ntheirs = {module}\nbroken = {module}:MISSING\n"
        f"[worldledger.latency_models]\nlag = {module}:Lag\n"
    )
    (tmp_path / f"{module}.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield module
    sys.modules.pop(module, None)


def test_installed_policies_are_found_by_name(third_party: str) -> None:
    """An entry point names the module, which registers its classes, or a class, which then is version 1."""
    spec: dict[str, Any] = {"name": "theirs", "version": 1, "config": {"latency_model": {"name": "lag"}}}
    policy = policy_from_spec(spec)
    assert (type(policy).__module__, type(policy).__name__) == (third_party, "Old")
    assert type(policy_from_spec({"name": "theirs"})).__name__ == "New"
    assert policy_spec(policy)["config"]["latency_model"] == {"name": "lag", "version": 1, "config": {}}
    with pytest.raises(UnregisteredPolicyError, match="cannot be loaded"):
        policy_from_spec({"name": "broken"})
