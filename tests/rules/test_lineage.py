"""Forks fold on from the state of their parent, whatever has happened in it."""

from __future__ import annotations

import copy
from typing import Any, cast

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_sandbox.rules import RULESET

from tests.cases import cases
from tests.rules.chains import make_effect
from tests.rules.seeing import AGENTS, HAPPENINGS, POLICIES, registered
from tests.rulesets.sandbox.worlds import Said, effects_of
from worldledger.canonical import PROFILE
from worldledger.effects import Effect
from worldledger.errors import FoldError, InvalidConfigError
from worldledger.folding import Fold
from worldledger.genesis import GENESIS_KIND, recorded_world
from worldledger.lineage import Origin, fork_point, origin_problem
from worldledger.observation import ObservationPolicy, PolicyConfig
from worldledger.time_authority import Silence, TimeAuthority
from worldledger.views import Views
from worldledger.world import WorldState

_BEGINNING = st.lists(st.builds(registered, AGENTS, POLICIES), max_size=4)


def _genesis(seq: int, **more: Any) -> Effect:
    """Make the genesis of a fork of w at a seq."""
    fork_of = {"world_uuid": "0" * 32, "world_id": "w", "global_seq": seq, "checksum": "0" * 64, **more}
    payload = {"config": {}, "fork_of": fork_of}
    return cast(Effect, make_effect("f", 1, kind=GENESIS_KIND, payload=payload, source_id="worldledger"))


def _forked(parent: Fold) -> Fold:
    fold = Fold("f", RULESET, parent.state.copy_deep())
    fold.apply(_genesis(parent.seq))
    return fold


def _shared(state: WorldState) -> dict[str, Any]:
    """Return a state without what is counted in its world's own seqs."""
    value: dict[str, Any] = orjson.loads(state.text())
    metadata = value["metadata"]
    for name in ("last_effect_seq", "last_effect_kind", "last_effect_time"):
        del metadata[name]
    for known in metadata["agents"].values():
        del known["registered_seq"]
    return value


@settings(max_examples=60, deadline=None)
@given(_BEGINNING, HAPPENINGS, HAPPENINGS)
def test_a_fork_is_its_parent_and_goes_on_as_it_would(
    beginning: list[Said], before: list[Said], after: list[Said]
) -> None:
    """Whatever happened, a fork has the parent's state and its agents' views; what follows changes both alike."""
    parent = Fold("w", RULESET)
    for effect in effects_of([("WorldCreated", {"config": {}}, "worldledger"), *beginning, *before]):
        parent.apply(effect)
    fork = _forked(parent)
    assert _shared(fork.state) == _shared(parent.state)
    assert {known["registered_seq"] for known in fork.state.metadata["agents"].values()} <= {1}
    for effect in effects_of(after, parent.seq + 1):
        parent.apply(copy.deepcopy(effect))
        fork.apply({**effect, "global_seq": fork.seq + 1, "world_id": "f"})
    assert _shared(fork.state) == _shared(parent.state)
    theirs, own = Views(parent), Views(fork)
    for name in fork.state.metadata["agents"]:
        seen, wanted = own.attach(name), theirs.attach(name)
        assert seen.visible_entities == wanted.visible_entities
        assert seen.visible_relationships == wanted.visible_relationships


def test_an_agent_of_a_fork_remembers_what_it_saw_in_the_parent() -> None:
    """What a policy lets an agent remember is taken over from the views of the parent."""
    created, removed = {"entity_id": "bob", "entity_data": {"hp": 3}}, {"entity_id": "bob"}
    policy = ObservationPolicy(PolicyConfig(remove_operations=False))
    parent = Fold("w", RULESET)
    views = Views(parent)
    first, *rest = effects_of([registered("ann", policy), ("EntityCreated", created), ("EntityRemoved", removed)])
    views.apply(first)
    views.attach("ann")
    for effect in rest:
        views.apply(effect)
    fork = Views(_forked(parent))
    assert fork.attach("ann").visible_entities == {}
    assert fork.inherit("ann", views).visible_entities == {"bob": {"hp": 3}}


def test_without_the_parents_state_there_is_none() -> None:
    """The genesis of a fork is folded onto the parent's state at the fork point only."""
    for fold in (Fold("f", RULESET), Fold("f", RULESET, Fold("w", RULESET).state)):
        with pytest.raises(FoldError, match="state of world w at seq 7, which is not here"):
            fold.apply(_genesis(7))


def test_a_silent_authority_stays_silent() -> None:
    """The offset and the silence of the parent's time authority are the fork's, counted in its own seqs."""
    payload: dict[str, Any] = {"time_authority": "unity", "fork_of": {"time_offset": 2.5, "silence": "no_tick"}}
    authority = TimeAuthority.of_genesis(payload)
    assert (authority.name, authority.offset, authority.since_seq) == ("unity", 2.5, 1)
    assert authority.silence is not None
    assert (authority.silence.reason, authority.silence.global_seq) == ("no_tick", 1)
    parent = Fold("w", RULESET)
    silent = {"authority": "unity", "last_tick_seq": 1, "reason": "no_tick"}
    for effect in effects_of([("WorldTimeSet", {}), ("WorldTimeAuthoritySilent", silent)]):
        parent.apply(effect)
    told = _forked(parent).state.metadata["time_authority_silent"]
    assert told == {"authority": "unity", "last_tick_seq": None, "reason": "no_tick", "global_seq": 1}


def test_an_agent_of_a_fork_is_run_by_nobody() -> None:
    """The program that has leased an agent of the parent runs that one alone."""
    parent = Fold("w", RULESET)
    lease = {"agent_id": "ann", "holder": "here/1/a", "number": 1, "seconds": 60}
    for effect in effects_of([("GenerationLeased", lease)]):
        parent.apply(effect)
    assert "ann" in parent.state.metadata["leases"]
    assert "leases" not in _forked(parent).state.metadata


_RIGHT: dict[str, Any] = {"world_uuid": "0" * 32, "world_id": "w", "global_seq": 7, "checksum": "0" * 64}


_PAYLOAD: dict[str, Any] = {
    "world_uuid": "1" * 32,
    "ruleset": "sandbox",
    "ruleset_version": 1,
    "config": {},
    "experiment": None,
    "canonical_profile": PROFILE,
    "time_authority": "wall",
}


_WRONG: list[tuple[str, Any]] = [
    ("global_seq", 0),
    ("depth", 101),
    ("depth", 0),
    ("bogus", 1),
    ("changes", []),
    ("checksum", "x"),
    ("world_id", ""),
    ("world_uuid", "w"),
]


@pytest.mark.parametrize(
    "said",
    [
        7,
        {},
        *(_RIGHT | {name: value} for name, value in _WRONG),
    ],
    ids=str,
)
def test_a_genesis_that_does_not_say_where_it_begins(said: Any) -> None:
    """What is no fork point is refused, wherever a log is read that has it."""
    payload = _PAYLOAD
    assert recorded_world("f", payload | {"fork_of": _RIGHT}).fork_of == fork_point({"fork_of": _RIGHT})
    with pytest.raises(InvalidConfigError, match="fork_of"):
        recorded_world("f", payload | {"fork_of": said})
    with pytest.raises(ValueError, match="fork_of"):
        fork_point({"fork_of": said})


#: What the genesis of a fork says of its parent, which is a fork itself and whose engine has fallen silent.
_OF_PARENT: dict[str, Any] = {"time_authority": "unity", "order": "tick", "config": {"changed": True}}
_AT_POINT: dict[str, Any] = {"depth": 2, "time_offset": 2.5, "silence": "no_tick"}


def _problem(payload: dict[str, Any], point: dict[str, Any], sim_time: float, theirs: TimeAuthority) -> str | None:
    parent = _PAYLOAD | {"time_authority": "client", "order": "tick", "fork_of": _RIGHT}
    said = _PAYLOAD | _OF_PARENT | payload
    said["fork_of"] = _RIGHT | ({} if said["time_authority"] == "wall" else _AT_POINT) | point
    genesis = make_effect("f", 1, kind=GENESIS_KIND, payload=said, sim_time=sim_time)
    return origin_problem(genesis, recorded_world("f", said), Origin(recorded_world("w", parent), 3, theirs))


@cases(
    "payload, point, sim_time, path",
    [
        ({}, {}, 3.0, None),
        ({}, {}, 1.0, "$.sim_time"),
        ({"ruleset": "chess"}, {}, 3.0, "$.payload.ruleset"),
        ({"order": "arrival"}, {}, 3.0, "$.payload.order"),
        ({"time_authority": "unreal"}, {}, 3.0, "$.payload.time_authority"),
        ({"time_authority": "wall"}, {"depth": 2}, 3.0, "$.payload.time_authority"),
        ({}, {"depth": 1}, 3.0, "$.payload.fork_of.depth"),
        ({}, {"time_offset": 0.0}, 3.0, "$.payload.fork_of.time_offset"),
        ({}, {"silence": None}, 3.0, "$.payload.fork_of.silence"),
        ({}, {"silence": "disconnected"}, 3.0, "$.payload.fork_of.silence"),
    ],
)
def test_a_fork_says_of_its_parent_what_the_parents_log_does(
    payload: dict[str, Any], point: dict[str, Any], sim_time: float, path: str | None
) -> None:
    """What a fork's genesis says of its parent otherwise than the parent's own log is named by its path."""
    unity = TimeAuthority("unity", 2.5, silence=Silence("unity", 7, "no_tick", 9))
    problem = _problem(payload, point, sim_time, unity)
    assert problem is None if path is None else (problem or "").startswith(f"{path}: ")


def test_the_clock_may_take_over_from_clients() -> None:
    """A fork with a config of its own goes on by the wall clock where clients said its parent's time."""
    by_the_clock = {"time_authority": "wall"}
    assert _problem(by_the_clock, {"depth": 2}, 3.0, TimeAuthority("client")) is None
    assert _problem({"time_authority": "client"}, {"silence": None}, 3.0, TimeAuthority("wall")) is not None
