"""The kinds that the core folds itself: agents as registered, and who sets sim_time."""

from __future__ import annotations

import copy
from types import MappingProxyType
from typing import Any, NoReturn, cast

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_sandbox.rules import RULESET

from tests.cases import cases
from worldledger import core_kinds
from worldledger.effects import Effect, is_system_kind
from worldledger.folding import Fold, fold
from worldledger.intents import registration_draft
from worldledger.rulesets import Ruleset
from worldledger.world import WorldState

from .chains import chained, make_effect
from .values import ANY_JSON

_SPEC = {"name": "default", "version": 1, "config": {"distance_limit": 5.0}}
_GENESIS: tuple[str, dict[str, Any]] = ("WorldCreated", {"config": {}})


def registered(name: str = "ann", /, **changed: Any) -> tuple[str, dict[str, Any]]:
    """Make a registration; a field given as ``...`` is left out."""
    payload: dict[str, Any] = {
        **registration_draft(name, _SPEC, ["submit_intent", "intent:move"])["payload"],
        **changed,
    }
    return "AgentRegistered", {key: value for key, value in payload.items() if value is not ...}


def _effects(*said: tuple[str, Any]) -> list[dict[str, Any]]:
    return [make_effect("w", seq, kind=kind, payload=payload) for seq, (kind, payload) in enumerate(said, 1)]


def state_of(*said: tuple[str, Any], ruleset: Ruleset = RULESET) -> WorldState:
    """Fold a genesis and these effects, one by one and all at once, which must agree."""
    effects = _effects(_GENESIS, *said)
    single = Fold("w", ruleset)
    for effect in copy.deepcopy(effects):
        single.apply(cast(Effect, effect))
    state = fold("w", ruleset, chained(effects))
    assert state.text() == single.state.text()
    assert WorldState.from_text(state.text()).text() == state.text()
    return state


# -- agents ------------------------------------------------------------------------------------------------------


def test_a_registered_agent_stands_in_the_state() -> None:
    """An agent's policy, permissions, weight and the seq of its registration stand in metadata.agents."""
    state = state_of(registered(weight=3), registered("bob"))
    assert state.metadata["agents"]["ann"] == {
        "policy": _SPEC,
        "permissions": ["intent:move", "submit_intent"],
        "weight": 3,
        "registered_seq": 2,
    }
    assert state.metadata["agents"]["bob"]["registered_seq"] == 3
    assert state.entities == {}


def test_a_later_registration_replaces_all_but_the_first_seq() -> None:
    """The newest registration counts, and registered_seq stays that of the first."""
    other = {"name": "mine", "version": 2, "config": {}}
    state = state_of(registered(weight=3), ("Said", {}), registered(policy=other, permissions=["dance"], weight=1))
    assert state.metadata["agents"] == {
        "ann": {"policy": other, "permissions": ["dance"], "weight": 1, "registered_seq": 2}
    }


def test_permissions_are_kept_sorted_and_once() -> None:
    """A log that others wrote may have them in any order; the state does not hang on it."""
    state = state_of(registered(permissions=["b", "a", "b"]))
    assert state.metadata["agents"]["ann"]["permissions"] == ["a", "b"]


def test_a_registration_touches_no_entity() -> None:
    """No entity is changed, so nobody's view is made anew because of it."""
    folded = Fold("w", RULESET)
    for effect in _effects(_GENESIS):
        folded.apply(cast(Effect, effect))
    for kind, payload in (registered(), ("WorldTimeAuthoritySet", {"authority": "unity"}), ("ViewDigest", {})):
        effect = make_effect("w", folded.seq + 1, kind=kind, payload=payload)
        assert folded.apply(cast(Effect, effect)) == ()


_MALFORMED: dict[str, tuple[str, Any]] = {
    "no agent_id": registered(agent_id=...),
    "agent_id a number": registered(agent_id=1),
    "agent_id empty": registered(agent_id=""),
    "agent_id too long": registered(agent_id="x" * 201),
    "no policy": registered(policy=...),
    "policy a name": registered(policy="default"),
    "policy without a name": registered(policy={"version": 1, "config": {}}),
    "policy without a version": registered(policy={"name": "a", "config": {}}),
    "policy of version 0": registered(policy={"name": "a", "version": 0, "config": {}}),
    "policy of version true": registered(policy={"name": "a", "version": True, "config": {}}),
    "policy with a list as config": registered(policy={"name": "a", "version": 1, "config": []}),
    "no permissions": registered(permissions=...),
    "permissions a string": registered(permissions="submit_intent"),
    "a permission that is a number": registered(permissions=["a", 1]),
    "no weight": registered(weight=...),
    "weight 0": registered(weight=0),
    "weight a float": registered(weight=1.5),
    "weight true": registered(weight=True),
    "no authority": ("WorldTimeAuthoritySet", {}),
    "authority null": ("WorldTimeAuthoritySet", {"authority": None}),
    "authority a list": ("WorldTimeAuthoritySet", {"authority": ["unity"]}),
    "authority with capitals": ("WorldTimeAuthoritySet", {"authority": "Unity"}),
    "authority the service": ("WorldTimeAuthoritySet", {"authority": "worldledger"}),
    "silence of nobody": ("WorldTimeAuthoritySilent", {"last_tick_seq": 2, "reason": "no_tick"}),
    "silence since a word": (
        "WorldTimeAuthoritySilent",
        {"authority": "unreal", "last_tick_seq": "2", "reason": "no_tick"},
    ),
    "offset null": ("WorldTimeAuthoritySet", {"authority": "unity", "offset": None}),
    "offset a string": ("WorldTimeAuthoritySet", {"authority": "unity", "offset": "0"}),
    "offset true": ("WorldTimeAuthoritySet", {"authority": "unity", "offset": True}),
}


@cases("said", _MALFORMED.values(), ids=_MALFORMED.keys())
def test_what_cannot_be_read_is_counted_and_changes_nothing_else(said: tuple[str, Any]) -> None:
    """A malformed payload is no end of the fold: it is counted, and agents and authority stay as they were."""
    before = (registered("eve"), ("WorldTimeAuthoritySet", {"authority": "unreal"}))
    state = state_of(*before, said)
    assert state.metadata["malformed_effects"] == 1
    assert state.metadata["agents"] == state_of(*before).metadata["agents"]
    assert state.metadata["time_authority"] == "unreal"


def _survives(value: Any) -> bool:
    try:
        return bool(orjson.loads(orjson.dumps(value)) == value)
    except (TypeError, ValueError):
        return False


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["agent_id", "policy", "permissions", "weight"]),
    ANY_JSON.filter(_survives),
)
def test_no_value_ends_the_fold(name: str, value: Any) -> None:
    """Whatever stands in a payload, the fold goes on, and a state is a state."""
    state = state_of(registered(**{name: value}))
    assert len(state.metadata["agents"]) + state.metadata["malformed_effects"] == 1


# -- the others --------------------------------------------------------------------------------------------------


def test_who_sets_sim_time_is_the_newest_word() -> None:
    """The state says nothing of the authority until an effect has changed it, then the newest one counts."""
    assert "time_authority" not in state_of().metadata
    said = [("WorldTimeAuthoritySet", {"authority": name}) for name in ("unity", "none", "client")]
    assert [state_of(*said[:count]).metadata["time_authority"] for count in (1, 2, 3)] == ["unity", "none", "client"]


def test_a_silence_stands_in_the_state_until_it_ends() -> None:
    """By a tick, or another authority; a state says nothing of it before."""
    payload = {"authority": "unity", "last_tick_seq": 7, "reason": "no_tick"}
    silent = ("WorldTimeAuthoritySilent", payload)
    known = state_of(silent).metadata
    assert known["time_authority_silent"] == {**payload, "global_seq": known["last_effect_seq"]}
    for end in (("WorldTimeSet", {"adapter": "unity"}), ("WorldTimeAuthoritySet", {"authority": "b"})):
        assert "time_authority_silent" not in state_of(silent, end).metadata
        assert state_of(end).metadata.keys() >= state_of(silent, end).metadata.keys()


def test_what_is_added_to_an_authority_s_time_stands_in_the_state() -> None:
    """As long as the authority that has it; a state says nothing of it where an effect of before says nothing."""
    said = [("WorldTimeAuthoritySet", payload) for payload in ({"authority": "a", "offset": 1.5}, {"authority": "b"})]
    assert "time_offset" not in state_of().metadata
    assert state_of(*said[:1]).metadata["time_offset"] == 1.5
    assert "time_offset" not in state_of(*said).metadata


_KINDS = {name: value for name, value in vars(core_kinds).items() if name.endswith("_KIND")}


@cases("kind", sorted({*_KINDS.values(), "IntentSeen", "WorldEnded"} - set(core_kinds.HANDLERS)))
def test_the_service_s_other_kinds_fold_to_nothing(kind: str) -> None:
    """They stand in the log and change nothing in the state, whatever their payload, and are not unknown either."""
    state = state_of((kind, {"agent_id": "ann", "policy": 1}), ("Said", {}))
    told = state_of(("StateDigest", {}), ("Said", {}))
    assert state.text() == told.text()


def test_all_of_them_are_the_service_s_alone() -> None:
    """Every kind that the core names can be written by the service only."""
    assert len(set(_KINDS.values())) == len(_KINDS) == 13
    assert all(map(is_system_kind, _KINDS.values()))
    assert set(core_kinds.HANDLERS) <= set(_KINDS.values())


def test_a_ruleset_has_no_say_on_agents() -> None:
    """A ruleset that names the core's kinds is not asked."""

    def no_one_asks(*_: object) -> NoReturn:
        raise AssertionError

    class Greedy(Ruleset):
        name = "greedy"
        handlers = MappingProxyType(dict.fromkeys(core_kinds.HANDLERS, no_one_asks))

    state = state_of(registered(), ("WorldTimeAuthoritySet", {"authority": "unity"}), ruleset=Greedy())
    assert list(state.metadata["agents"]) == ["ann"]


def test_registrations_are_no_rule_of_chess_or_sandbox() -> None:
    """The version of a ruleset says nothing of agents: every world of every ruleset has them alike."""
    for ruleset in (RULESET, Ruleset()):
        assert list(state_of(registered(), ruleset=ruleset).metadata["agents"]) == ["ann"]


# -- leases ------------------------------------------------------------------------------------------------------


def leased(**changed: Any) -> tuple[str, dict[str, Any]]:
    """Make a lease; a field given as ``...`` is left out."""
    payload = {"agent_id": "ann", "holder": "here/1/a", "number": 1, "seconds": 60, **changed}
    return "GenerationLeased", {key: value for key, value in payload.items() if value is not ...}


def test_the_newest_lease_of_an_agent_stands_in_the_state() -> None:
    """Its holder, its number and when it ends stand in metadata.leases; one that was given back has ended."""
    wall_time = _effects(_GENESIS, leased())[1]["wall_time"]
    state = state_of(leased(), leased(agent_id="bob", seconds=0, number=2))
    assert state.metadata["leases"] == {
        "ann": {"holder": "here/1/a", "number": 1, "until": wall_time + 60},
        "bob": {"holder": "here/1/a", "number": 2, "until": 0.0},
    }
    later = state_of(leased(), leased(number=2, holder="there/2/b"))
    assert later.metadata["leases"]["ann"]["holder"] == "there/2/b"


@cases(
    "changed",
    [{"agent_id": ...}, {"holder": 7}, {"number": 0}, {"number": True}, {"seconds": -1}, {"seconds": "60"}],
)
def test_a_lease_that_cannot_be_read_changes_nothing(changed: dict[str, Any]) -> None:
    """It is counted as malformed."""
    state = state_of(leased(**changed))
    assert "leases" not in state.metadata
    assert state.metadata["malformed_effects"] == 1
