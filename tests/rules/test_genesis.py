"""How a world begins: names, settings, and the genesis against the worlds table."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from tests.cases import cases
from worldledger.drafts import check_draft, effect_text
from worldledger.effects import SERVICE_SOURCE
from worldledger.errors import InvalidConfigError, InvalidNameError, ReservedKindError
from worldledger.genesis import (
    NAME_RULE,
    REQUIRED,
    NewWorld,
    Parent,
    check_world_name,
    genesis_draft,
    genesis_problem,
    recorded_genesis,
)
from worldledger.time_authority import TimeAuthority

_UUID = "7d3f4c9e0f0a4c589a405f1d6b1f2a11"
_CONFIG = {"size": 8, "deep": [1, {"a": None}]}


def columns(**changed: Any) -> dict[str, Any]:
    """Make the world's row as the worlds table holds it."""
    return {
        "world_id": "w",
        "world_uuid": _UUID,
        "ruleset": "sandbox",
        "ruleset_version": 1,
        "config": '{"deep":[1,{"a":null}],"size":8}',
        "experiment": "e1",
        "time_authority": "client",
        **changed,
    }


def parent(**changed: Any) -> Parent:
    """Make the place where a fork left its parent."""
    return Parent(**{"world_uuid": _UUID, "world_id": "p", "global_seq": 7, "checksum": "ab" * 32, **changed})


def genesis(**changed: Any) -> bytes:
    """Write the genesis of that world, with some of its payload changed."""
    world = NewWorld(world_id="w", config=_CONFIG, experiment="e1", time_authority="client")
    draft = genesis_draft(world, world_uuid=_UUID, ruleset_version=1, wall_time=1.0)
    draft["payload"] |= changed
    checked = check_draft(draft, system=True)
    return effect_text(checked, world_id="w", global_seq=1, uuid="u", sim_time=0.0, wall_time=1.0)


@cases("name", ["a", "0", "Game-1.pgn~2_x", "x" * 200, "9" * 200])
def test_names_that_are_allowed(name: str) -> None:
    """Letters, digits and four signs make a name, up to 200 characters."""
    assert check_world_name(name) == name


@cases(
    "name",
    [
        "",
        ".",
        "..",
        "-a",
        "_a",
        "~a",
        "a/b",
        "a b",
        "a\n",
        "\na",
        "a\x00",
        "ä",
        "a%20",
        "x" * 201,
        "a:b",
        "a'b",
        "\ud800",
        "٣",
    ],
)
def test_names_that_are_refused(name: str) -> None:
    """Any other name is refused, and the message says which are allowed."""
    with pytest.raises(InvalidNameError) as caught:
        check_world_name(name)
    assert NAME_RULE in str(caught.value)
    with pytest.raises(InvalidNameError):
        NewWorld(world_id=name).checked()


@cases("authority", ["wall", "client", "unity", "unreal-5", "a" * 63, "x_1"])
def test_time_authorities_that_are_allowed(authority: str) -> None:
    """The wall clock, the client or any adapter's name is a time authority."""
    assert NewWorld(world_id="w", time_authority=authority).checked().time_authority == authority


@cases("authority", ["", "Wall", "worldledger", "1x", "a b", "unity\n", "a" * 64, "é"])
def test_time_authorities_that_are_refused(authority: str) -> None:
    """Any other time authority is refused with its path."""
    with pytest.raises(InvalidConfigError) as caught:
        NewWorld(world_id="w", time_authority=authority).checked()
    assert caught.value.details["path"] == "$.time_authority"


@cases(
    "changed, path",
    [
        ({"config": {"a": [math.nan]}}, "$.config.a[0]"),
        ({"config": {"a": {1}}}, "$.config.a"),
        ({"config": {"a": "\x00"}}, "$.config.a"),
        ({"experiment": "a\x00"}, "$.experiment"),
        ({"parent": parent(world_id="\x00")}, "$.parent.world_id"),
        ({"parent": parent(world_id="a b")}, "$.parent.world_id"),
        ({"parent": parent(world_uuid="7d3f")}, "$.parent.world_uuid"),
        ({"parent": parent(world_uuid=_UUID.upper())}, "$.parent.world_uuid"),
        ({"parent": parent(global_seq=2**53)}, "$.parent.global_seq"),
        ({"parent": parent(checksum="")}, "$.parent.checksum"),
        ({"parent": parent(checksum="a" * 64 + "\n")}, "$.parent.checksum"),
    ],
)
def test_settings_that_could_not_be_kept_are_refused(changed: dict[str, Any], path: str) -> None:
    """What would not survive in the genesis is refused before anything is made, with its path."""
    with pytest.raises(InvalidConfigError) as caught:
        NewWorld(world_id="w", **changed).checked()
    assert caught.value.details["path"] == path


@cases("changed", [{"experiment": ""}, {"experiment": "x" * 201}, {"colour": 1}, {"config": []}])
def test_a_world_has_these_fields_and_no_others(changed: dict[str, Any]) -> None:
    """Unknown fields and labels of the wrong length are no world."""
    with pytest.raises(ValidationError):
        NewWorld(**{"world_id": "w", **changed})


def test_a_genesis_says_once_what_the_world_is() -> None:
    """The genesis is the service's own effect and holds everything that is trusted about the world."""
    effect = orjson.loads(genesis())
    assert (effect["kind"], effect["source_id"]) == ("WorldCreated", SERVICE_SOURCE)
    assert effect["payload"] == {
        "world_uuid": _UUID,
        "ruleset": "sandbox",
        "ruleset_version": 1,
        "config": _CONFIG,
        "experiment": "e1",
        "canonical_profile": "orjson-sorted/1",
        "time_authority": "client",
    }
    with pytest.raises(ReservedKindError):
        check_draft(genesis_draft(NewWorld(world_id="w"), world_uuid=_UUID, ruleset_version=1, wall_time=1.0))


def test_seconds_are_counted_from_the_genesis_under_the_wall_clock_alone() -> None:
    """A genesis says when its world's time began where the clock sets it; elsewhere time begins at 0.0 anyway."""
    for authority in ("wall", "client", "unity"):
        world = NewWorld(world_id="w", time_authority=authority)
        payload = genesis_draft(world, world_uuid=_UUID, ruleset_version=1, wall_time=1.7e9)["payload"]
        assert payload.get("time_zero") == (1.7e9 if authority == "wall" else None)
        offset = -1.7e9 if authority == "wall" else 0.0
        assert TimeAuthority.of_genesis(payload) == TimeAuthority(authority, offset)
        payload.pop("time_zero", None)
        assert TimeAuthority.of_genesis(payload) == TimeAuthority(authority, 0.0)  # one of before: epoch seconds


@cases(
    "wall_time, sim_time, holds",
    [
        (1.7e9, 0.0, True),
        (1.7e9 + 1, 0.0, False),
        (1.7e9 + 1, 1.0, False),
        (1.7e9, 1.0, False),
        (1700000000, 0.0, False),
        (1, 0.0, False),
    ],
)
def test_time_zero_is_the_wall_time(wall_time: float, sim_time: float, holds: bool) -> None:
    """A genesis under the wall clock whose wall_time is not its time_zero, or whose sim_time is not 0, is a problem."""
    draft = genesis_draft(NewWorld(world_id="w"), world_uuid=_UUID, ruleset_version=1, wall_time=1.7e9)
    text = effect_text(
        check_draft(draft, system=True), world_id="w", global_seq=1, uuid="u", sim_time=sim_time, wall_time=wall_time
    )
    row = columns(ruleset=draft["payload"]["ruleset"], config="{}", experiment=None, time_authority="wall")
    problem = genesis_problem(text, row)
    assert (problem is None) == holds
    assert holds or "$.payload.time_zero: 1700000000.0, which does not go with" in (problem or "")


def test_a_fork_names_its_parent() -> None:
    """The genesis of a fork names the place in the parent's chain where it left."""
    world = NewWorld(world_id="w", parent=parent()).checked()
    draft = genesis_draft(world, world_uuid="0" * 32, ruleset_version=1, wall_time=1.0)
    assert draft["payload"]["parent"] == {
        "world_uuid": _UUID,
        "world_id": "p",
        "global_seq": 7,
        "checksum": "ab" * 32,
    }


def test_a_row_that_repeats_its_genesis_is_no_problem() -> None:
    """The world's row and its genesis agree when nobody touched them."""
    assert genesis_problem(genesis(), columns()) is None


@cases(
    "name, value",
    [
        ("world_uuid", "0" * 32),
        ("ruleset", "chess"),
        ("ruleset_version", 2),
        ("config", "{}"),
        ("config", '{"deep":[1,{"a":null}],"size":8.0}'),
        ("config", '{"deep":[true,{"a":null}],"size":8}'),
        ("config", '{"deep":[1,{"a":null}], "size":8}'),
        ("config", '{"size":8,"deep":[1,{"a":null}]}'),
        ("experiment", None),
        ("time_authority", "wall"),
    ],
)
def test_a_row_that_differs_from_its_genesis_is_named(name: str, value: Any) -> None:
    """A column that does not say what the genesis says is named, also where Python calls both values equal.

    The config is repeated to the letter.
    """
    problem = genesis_problem(genesis(), columns(**{name: value}))
    assert problem is not None
    assert problem.startswith(f"column {name} of the world is ")


def test_a_difference_is_told_in_json() -> None:
    """What row and genesis say is shown as JSON, so that a null is a null."""
    assert genesis_problem(genesis(experiment=None), columns()) == (
        'column experiment of the world is "e1", its genesis says null'
    )


@cases(
    "text, problem",
    [
        (genesis().replace(b'"WorldCreated"', b'"Said"'), "the first effect is 'Said'"),
        (genesis(canonical_profile="other/1"), "canonical profile 'other/1' is unknown"),
        (genesis().replace(b'"ruleset":', b'"rules":'), "$.payload.ruleset: missing"),
        (b"[]", "no genesis"),
        (b"{", "no genesis"),
        (b'{"kind":"WorldCreated","payload":null}', "no WorldCreated with a payload"),
    ],
)
def test_a_first_effect_that_is_no_genesis(text: bytes, problem: str) -> None:
    """A first effect of another kind, profile or shape is said to be no genesis."""
    assert problem in (genesis_problem(text, columns()) or "")


def _refusal(effect: dict[str, Any]) -> InvalidConfigError:
    """Return how a genesis is refused, which is what verification says of it."""
    with pytest.raises(InvalidConfigError) as caught:
        recorded_genesis(effect)
    text = orjson.dumps(effect, option=orjson.OPT_SORT_KEYS)
    assert genesis_problem(text, columns()) == caught.value.message
    return caught.value


@cases("name", REQUIRED)
def test_a_genesis_without_a_field_that_each_has(name: str) -> None:
    """A field of the payload that every genesis has is missed by name."""
    effect = orjson.loads(genesis())
    del effect["payload"][name]
    assert _refusal(effect).details["path"] == f"$.payload.{name}"


_ORIGIN = {"world_uuid": _UUID, "world_id": "p", "global_seq": 7, "checksum": "ab" * 32}


@cases(
    "said, path",
    [
        ({"zzz": 1}, "$.payload.zzz"),
        ({"a b": 1}, '$.payload["a b"]'),
        ({"checkpoint": None}, "$.payload.checkpoint"),
        ({"world_id": "w"}, "$.payload.world_id"),
        ({"time_zero": 1.0}, "$.payload.time_zero"),
        ({"time_authority": "unity", "time_zero": 1.0}, "$.payload.time_zero"),
        ({"time_authority": "wall", "fork_of": _ORIGIN | {"time_offset": 5.0}}, "$.payload.fork_of"),
        ({"time_authority": "wall", "fork_of": _ORIGIN | {"silence": "no_tick"}}, "$.payload.fork_of"),
    ],
)
def test_a_genesis_that_says_what_none_does(said: dict[str, Any], path: str) -> None:
    """An unknown field, a time_zero under another authority than the clock, and the like are refused by their path."""
    assert _refusal(orjson.loads(genesis(**said))).details["path"] == path


@cases(
    "name, value",
    [
        ("schema_version", "9.0.0"),
        ("priority", 1),
        ("priority", False),
        ("req_id", "r"),
        ("source_metadata", {}),
    ],
)
def test_the_effect_of_a_genesis_is_nobodys_request(name: str, value: Any) -> None:
    """Its other fields are those of an effect that the service writes of itself, in this version and before."""
    effect = orjson.loads(genesis())
    assert recorded_genesis(effect).world_id == "w"
    assert _refusal(effect | {name: value}).details["path"] == f"$.{name}"
