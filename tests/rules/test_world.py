"""A world's state: its canonical text and digest, and the way back."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from worldledger import world
from worldledger.world import WorldState, state_digest, state_text

from .values import ANY_JSON, GOOD_JSON, GOOD_OBJECTS, same


@pytest.mark.parametrize(
    ("state", "text", "digest"),
    [
        pytest.param(
            WorldState(),
            '{"entities":{},"metadata":{},"relationships":{},"spatial_index":{}}',
            "622a7429774902402acdc0d36ff750d59a0fb127b319f7e7534328e54285e296",
            id="nothing at all",
        ),
        pytest.param(
            WorldState.initial(),
            '{"entities":{},"metadata":{"agents":{},"last_effect_kind":null,"last_effect_seq":0,'
            '"last_effect_time":0.0,"malformed_effects":0,"relationships":{},"unknown_effects":0},'
            '"relationships":{},"spatial_index":{}}',
            "54fa06a403f282b382f3c0d4ec0282ebfcb7a3177c67393fcd567b66c7437020",
            id="before the first effect",
        ),
        pytest.param(
            WorldState(
                entities={"é": {"name": "Ж€😀", "quote": '"\\/\n\t\u2028\u007f'}, "e\u0301": None, "Z": 1, "a": 2},
                relationships={"a": ["b", "é"]},
            ),
            '{"entities":{"Z":1,"a":2,"e\u0301":null,"é":{"name":"Ж€😀","quote":"\\"\\\\/\\n\\t\u2028\u007f"}},'
            '"metadata":{},"relationships":{"a":["b","é"]},"spatial_index":{}}',
            "220a8055bfccca49fd4e71ea90d8b128e981578249c4022dee9415de2d5c93a3",
            id="unicode, not normalised, sorted by code point",
        ),
        pytest.param(
            WorldState(
                entities={"n": [1, 1.0, True, 0, 0.0, False, None, -1, -1.5, 2**53 - 1]},
                spatial_index={"n": (1.0, 2.5, 0.0)},
            ),
            '{"entities":{"n":[1,1.0,true,0,0.0,false,null,-1,-1.5,9007199254740991]},'
            '"metadata":{},"relationships":{},"spatial_index":{"n":[1.0,2.5,0.0]}}',
            "cbc711e30d484c47b1775a3c0ded4c762207fb3b42b511cd68578eed58ac842e",
            id="ints, floats and booleans",
        ),
        pytest.param(
            WorldState(entities={"f": [1e16, 1e15, 123456789012345680.0, 1e-7, 0.0001, 1e22, 5e-324, 1.7e308, 0.1]}),
            '{"entities":{"f":[1e+16,1000000000000000.0,1.2345678901234568e+17,1e-07,0.0001,1e+22,5e-324,1.7e+308,0.1]},'
            '"metadata":{},"relationships":{},"spatial_index":{}}',
            "6ee6b63a94e90cb8303307a91dcf041a19157586164caca803b718de5092723d",
            id="floats, as Python's repr writes them",
        ),
    ],
)
def test_text_and_digest_of_known_states(state: WorldState, text: str, digest: str) -> None:
    """The same bytes for the same state for ever: these vectors may never change."""
    assert state.text() == text.encode()
    assert state.digest() == state_digest(text.encode()) == hashlib.sha256(text.encode()).hexdigest() == digest


def test_the_text_does_not_hang_on_the_order_in_which_things_came() -> None:
    """Keys are sorted at every level, lists are left as they are."""
    one = WorldState(entities={"a": {"x": 1, "y": [2, 1]}, "b": {}})
    other = WorldState(entities={"b": {}, "a": {"y": [2, 1], "x": 1}})
    assert one.text() == other.text()
    assert one.text() != WorldState(entities={"b": {}, "a": {"y": [1, 2], "x": 1}}).text()


def test_what_json_cannot_hold_is_refused() -> None:
    """NaN, infinities and lone surrogates are errors, never a text that no reader takes."""
    for number in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="not JSON compliant"):
            state_text({"n": number})
    with pytest.raises(UnicodeEncodeError):
        state_text({"\ud800": 1})


def test_a_large_state_is_written_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its text is that of the standard library's json, which is never asked for much of it at once."""
    numbers = {f"n{number}": number / 7 for number in range(20)}
    state = WorldState(
        entities={f"e{number}": {**numbers, "l": [{"z": 1, "a": numbers}]} for number in range(300)},
        relationships={f"e{number}": [f"e{number + 1}"] for number in range(200)},
        spatial_index={f"e{number}": (number / 3, 0.0, 1.0) for number in range(200)},
        metadata={
            "turn": 1,
            "none": {},
            "agents": {f"é{number}": {"weight": 1, "known": numbers} for number in range(300)},
        },
    )
    whole = json.dumps(state.to_value(), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    sizes: list[int] = []
    encode = world._encode

    def counting(value: object) -> str:
        text = encode(value)
        sizes.append(len(text))
        return text

    monkeypatch.setattr(world, "_encode", counting)
    assert state.text() == whole
    assert max(sizes) < len(whole) / 10


_STATES = st.builds(
    WorldState.model_construct,
    entities=GOOD_OBJECTS,
    relationships=st.dictionaries(st.sampled_from("abc"), st.lists(st.sampled_from("abc"), max_size=3)),
    spatial_index=st.dictionaries(st.sampled_from("abc"), st.tuples(*[st.floats(-1e300, 1e300)] * 3)),
    metadata=GOOD_OBJECTS,
)


@settings(max_examples=200, deadline=None)
@given(_STATES)
def test_a_state_comes_back_from_its_text(state: WorldState) -> None:
    """Reading the text back gives the same state, with tuples in the spatial index, and the same text again."""
    text = state.text()
    for back in (WorldState.from_text(text), WorldState.from_text(text.decode()), state.copy_deep()):
        assert back.text() == text
        assert back.spatial_index == state.spatial_index
        assert all(type(point) is tuple for point in back.spatial_index.values())
        assert same(back.entities, state.entities)
        assert same(back.metadata, state.metadata)
        assert back.relationships == state.relationships


@settings(max_examples=200, deadline=None)
@given(GOOD_JSON, GOOD_JSON)
def test_two_values_have_one_text_only_if_they_are_the_same(one: Any, other: Any) -> None:
    """No two values share a text (1, 1.0 and true are three), and the text is plain JSON."""
    assert (state_text(one) == state_text(other)) == same(one, other)
    assert same(json.loads(state_text(one)), one)


def test_a_deep_copy_can_be_changed() -> None:
    """What is done to the copy does not reach the state. Registrations are not copied: they are replaced only."""
    known = {"policy": {"name": "default"}}
    state = WorldState(
        entities={"a": {"l": [1]}}, relationships={"a": ["b"]}, metadata={"n": [], "agents": {"y": known}}
    )
    text = state.text()
    copied = state.copy_deep()
    assert list(copied.metadata) == ["n", "agents"]
    assert copied.metadata["agents"]["y"] is known
    copied.metadata["agents"]["y"] = {}
    copied.metadata["n"].append(1)
    copied.entities["a"]["l"].append(2)
    copied.relationships["a"].append("c")
    copied.metadata["agents"]["x"] = 1
    copied.spatial_index["a"] = (0.0, 0.0, 0.0)
    assert state.text() == text


def test_initial_states_share_nothing() -> None:
    """Two worlds begin with objects of their own."""
    one, other = WorldState.initial(), WorldState.initial()
    one.metadata["agents"]["a"] = one.entities["a"] = {}
    assert other.metadata["agents"] == other.entities == {}


_GOOD: dict[str, Any] = {"entities": {}, "metadata": {}, "relationships": {}, "spatial_index": {}}


@cases(
    "value",
    [
        None,
        [],
        "state",
        {},
        {**_GOOD, "entities": []},
        {**_GOOD, "metadata": None},
        {**_GOOD, "relationships": "x"},
        {**_GOOD, "spatial_index": []},
        {**_GOOD, "spatial_index": {"a": 1}},
        *[{name: part for name, part in _GOOD.items() if name != left_out} for left_out in _GOOD],
    ],
)
def test_what_is_no_state_is_refused(value: Any) -> None:
    """A text that is no state's is a ValueError."""
    with pytest.raises(ValueError, match="no state"):
        WorldState.from_text(json.dumps(value))


@given(st.binary(max_size=20) | ANY_JSON.map(lambda value: json.dumps(value).encode()))
def test_any_text_is_a_state_or_a_value_error(text: bytes) -> None:
    """Nothing but ValueError comes out of reading."""
    try:
        WorldState.from_text(text)
    except ValueError:
        return
    raise AssertionError("that was no state")
