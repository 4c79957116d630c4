"""Upcasters: old payloads are read as new ones, and what is stored stays as it was written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from worldledger.errors import FoldError
from worldledger.folding import Fold
from worldledger.rulesets.base import Handler, MalformedEffectError, Ruleset, Touched
from worldledger.upcasting import Upcaster, Upcasters
from worldledger.world import WorldState

from .chains import chained, make_effect


def _split(payload: dict[str, Any]) -> dict[str, Any]:
    first, _, last = payload.pop("name").partition(" ")
    return {**payload, "first": first, "last": last}


def _shout(payload: dict[str, Any]) -> dict[str, Any]:
    payload["last"] = payload["last"].upper()
    return payload


SPLIT = Upcaster("Named", "1", "2", _split)
SHOUT = Upcaster("Named", "2", "3", _shout)


def _effect(version: str, payload: dict[str, Any], kind: str = "Named") -> Any:
    return make_effect("w", 1, kind=kind, schema_version=version, payload=payload)


@pytest.mark.parametrize(
    ("version", "payload"),
    [
        ("1", {"name": "Ada King", "x": 1}),
        ("2", {"first": "Ada", "last": "King", "x": 1}),
        ("3", {"first": "Ada", "last": "KING", "x": 1}),
    ],
)
def test_upcasters_are_chained(version: str, payload: dict[str, Any]) -> None:
    """From whatever version it was written in, a payload is led to the newest, one step after another."""
    upcast = Upcasters([SHOUT, SPLIT]).apply(_effect(version, payload))
    assert upcast["schema_version"] == "3"
    assert upcast["payload"] == {"first": "Ada", "last": "KING", "x": 1}


def test_only_version_and_payload_change() -> None:
    """The other fields of an effect are those that were stored."""
    effect = _effect("1", {"name": "Ada King"})
    kept = orjson.loads(orjson.dumps(effect))
    upcast = Upcasters([SPLIT]).apply(effect)
    assert {**upcast, "schema_version": "1", "payload": kept["payload"]} == kept
    assert effect["schema_version"] == "1"


@pytest.mark.parametrize(("kind", "version"), [("Named", "4"), ("Named", ""), ("Other", "1")])
def test_what_has_no_upcaster_is_left_alone(kind: str, version: str) -> None:
    """Another kind, or a version that no upcaster begins with, gives the very same effect."""
    effect = _effect(version, {"name": "Ada King"}, kind)
    assert Upcasters([SPLIT, SHOUT]).apply(effect) is effect
    assert Upcasters([SPLIT, SHOUT]).kinds == {"Named"}


@pytest.mark.parametrize(
    "steps", [[("1", "1")], [("1", "2"), ("2", "1")], [("0", "1"), ("1", "2"), ("2", "3"), ("3", "1")]]
)
def test_a_circle_is_refused(steps: list[tuple[str, str]]) -> None:
    """A chain that would never end is an error when the ruleset is set up, not when an effect comes."""
    with pytest.raises(ValueError, match="the upcasters of Named go in a circle"):
        Upcasters([Upcaster("Named", *step, _shout) for step in steps])


def test_two_ways_from_one_version_are_refused() -> None:
    """Which one to take would hang on their order."""
    with pytest.raises(ValueError, match="two upcasters for Named 1"):
        Upcasters([SPLIT, Upcaster("Named", "1", "3", _shout)])
    assert Upcasters([SPLIT, Upcaster("Other", "1", "2", _shout)]).kinds == {"Named", "Other"}


def _name(state: WorldState, effect: Any) -> Touched:
    state.entities[effect["source_id"]] = {"version": effect["schema_version"], **effect["payload"]}
    return str(effect["source_id"])


def _refuse(_: dict[str, Any]) -> dict[str, Any]:
    raise MalformedEffectError("too old to be read")


class _Names(Ruleset):
    """A ruleset that has gone through three versions of one payload."""

    name = "names"
    handlers: Mapping[str, Handler] = {"Named": _name, "Other": _name}
    upcasters = (SPLIT, SHOUT, Upcaster("Named", "0", "1", _refuse), Upcaster("StateDigest", "1", "2", _refuse))


def test_a_fold_sees_the_new_payload_and_the_log_keeps_the_old() -> None:
    """An effect of an old version is folded as one of the newest; the stored bytes are not touched."""
    rows = chained([_effect("1", {"name": "Ada King"})])
    text = bytes(rows[0].text)
    fold = Fold("w", _Names())
    fold.feed(rows)
    assert fold.state.entities == {"agent-1": {"version": "3", "first": "Ada", "last": "KING"}}
    assert rows[0].text == text


def test_an_upcaster_that_cannot_read_a_payload_makes_the_effect_malformed() -> None:
    """It is counted, and the fold goes on."""
    fold = Fold("w", _Names())
    fold.feed(chained([_effect("0", {})]))
    assert fold.state.metadata["malformed_effects"] == 1
    assert fold.state.entities == {}


def test_an_upcaster_that_fails_ends_the_fold_by_name() -> None:
    """Any other error of an upcaster is the ruleset's failure, at that seq."""
    with pytest.raises(FoldError, match="seq 1: ruleset names 1 failed on Named"):
        Fold("w", _Names()).feed(chained([_effect("1", {"nom": "Ada King"})]))


def test_no_upcaster_has_a_say_on_system_kinds() -> None:
    """The service's own effects are read as they are."""
    fold = Fold("w", _Names())
    fold.feed(chained([_effect("1", {}, "StateDigest")]))
    assert fold.state.metadata["malformed_effects"] == 0
