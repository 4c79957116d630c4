"""The payload rules of each kind of intent: what is refused by its path, and what becomes of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import cases
from worldledger.drafts import MAX_WORD
from worldledger.errors import InvalidIntentError, ReservedKindError
from worldledger.intents import KINDS, check_intent

from .test_intents import said
from .values import same

_LONG = "x" * (MAX_WORD + 1)
_FAR = [1e308, -1e308, 1e308]

BAD_PAYLOADS: dict[str, tuple[dict[str, Any], str, str]] = {
    "Move nowhere": (said("Move"), "$.payload.to", "a Move needs a position"),
    "Move to null": (said("Move", to=None, position=None), "$.payload.to", "a Move needs a position"),
    "Move to an object": (said("Move", to={"x": 1}), "$.payload.to", "list of 2 or 3 numbers"),
    "Move to nothing, though a position": (said("Move", to=[], position=[1, 2]), "$.payload.to", "2 or 3"),
    "Move to one number": (said("Move", to=[1]), "$.payload.to", "2 or 3"),
    "Move to four": (said("Move", position=[1, 2, 3, 4]), "$.payload.position", "2 or 3"),
    "Move to a string": (said("Move", to=[1, "2"]), "$.payload.to[1]", "a coordinate is a number, not a string"),
    "Move to true": (said("Move", to=[True, 2]), "$.payload.to[0]", "not a boolean"),
    "Move to null coordinates": (said("Move", to=[1, 2, None]), "$.payload.to[2]", "not null"),
    "Move to a position of strings": (said("Move", position="ab"), "$.payload.position", "2 or 3"),
    "Move from one number": (said("Move", to=[1, 2], **{"from": [1]}), "$.payload.from", "2 or 3"),
    "Move from a string": (said("Move", to=[1, 2], **{"from": ["a", 1]}), "$.payload.from[0]", "not a string"),
    "Move backwards": (said("Move", to=[1, 2], speed=-0.5), "$.payload.speed", "from 0 on"),
    "Move at a word's speed": (said("Move", to=[1, 2], speed="fast"), "$.payload.speed", "speed is a number"),
    "Move of another": (said("Move", to=[1, 2], agent_id="bob"), "$.payload.agent_id", "moves itself only"),
    "Move of a number": (said("Move", to=[1, 2], agent_id=1), "$.payload.agent_id", "moves itself only"),
    "Speak nothing": (said("Speak"), "$.payload.text", "text is missing"),
    "Speak null": (said("Speak", text=None), "$.payload.text", "not null"),
    "Speak a list": (said("Speak", text=["a"]), "$.payload.text", "not a list"),
    "Interact with nobody": (said("Interact"), "$.payload.target_id", "target_id is missing"),
    "Interact with a number": (said("Interact", target_id=1), "$.payload.target_id", "not a number"),
    "Interact with the empty name": (said("Interact", target_id=""), "$.payload.target_id", "1 to 200"),
    "Interact with oneself": (said("Interact", target_id="ann"), "$.payload.target_id", "nobody interacts"),
    "Custom without a kind": (said("Custom"), "$.payload.kind", "kind is missing"),
    "Custom of a number": (said("Custom", kind=1), "$.payload.kind", "not a number"),
    "Custom of too long a kind": (said("Custom", kind=_LONG), "$.payload.kind", "1 to 200"),
    **{f"Custom {kind}": (said("Custom", kind=kind), "$.payload.kind", "of its own") for kind in KINDS[:3]},
    "half a token": (said("Speak", text="a", token_count=0.5), "$.payload.token_count", "whole number"),
    "minus one token": (said("Move", to=[1, 2], token_count=-1), "$.payload.token_count", "from 0 on"),
    "true tokens": (said("Custom", kind="k", token_count=True), "$.payload.token_count", "whole number"),
    "too many tokens": (said("Speak", text="a", token_count=2**53), "$.payload.token_count", "2^53-1"),
}


@cases("value, path, reason", BAD_PAYLOADS.values(), ids=BAD_PAYLOADS.keys())
def test_a_payload_out_of_rule_is_refused_with_its_path(value: Any, path: str, reason: str) -> None:
    """Each kind has its payload rules, and a refusal names the value."""
    with pytest.raises(InvalidIntentError) as caught:
        check_intent(value)
    assert caught.value.path == path
    assert reason in caught.value.reason


@cases("kind", ["WorldCreated", "WorldTimeSet", "IntentRejected", "GenerationStarted", "ViewDigest"])
def test_a_custom_intent_makes_none_of_the_service_s_effects(kind: str) -> None:
    """System kinds are refused by their name, as of a draft."""
    with pytest.raises(ReservedKindError) as caught:
        check_intent(said("Custom", kind=kind))
    assert caught.value.path == "$.payload.kind"


@cases(
    "sent, kept",
    [
        ({"to": [1, 2]}, {"to": [1.0, 2.0, 0.0]}),
        ({"position": [1, 2.5]}, {"to": [1.0, 2.5, 0.0]}),
        ({"to": (1, 2, 3)}, {"to": [1.0, 2.0, 3.0]}),
        ({"to": _FAR, "position": None}, {"to": _FAR}),
        ({"to": None, "position": [0, 0]}, {"to": [0.0, 0.0, 0.0]}),
        ({"to": [1, 2], "position": [3, 4]}, {"to": [1.0, 2.0, 0.0]}),
        ({"to": [1, 2], "from": [0, 0], "speed": 2}, {"to": [1.0, 2.0, 0.0], "from": [0.0, 0.0, 0.0], "speed": 2.0}),
        ({"to": [1, 2], "from": None, "speed": None, "agent_id": None}, {"to": [1.0, 2.0, 0.0]}),
        ({"to": [1, 2], "agent_id": "ann", "gait": "run"}, {"to": [1.0, 2.0, 0.0], "agent_id": "ann", "gait": "run"}),
    ],
)
def test_a_move_leads_to_three_floats(sent: dict[str, Any], kept: dict[str, Any]) -> None:
    """2D becomes 3D, ``position`` becomes ``to``, null is as good as nothing, and other fields are kept."""
    assert same(check_intent(said("Move", **sent)).payload, kept)


def test_what_a_kind_does_not_name_is_kept() -> None:
    """Speak, Interact and Custom leave the payload as it is, but for a token_count of null."""
    for kind, payload in (
        ("Speak", {"text": "", "to": ["bob"], "agent_id": 5}),
        ("Interact", {"target_id": "bob", "how": None}),
        ("Custom", {"kind": "Waved", "to": [1, 2], "from": None}),
    ):
        assert same(check_intent(said(kind, **payload, token_count=None)).payload, payload)


@pytest.mark.parametrize(("payload", "count"), [({}, 0), ({"token_count": 0}, 0), ({"token_count": 512}, 512)])
def test_the_token_count_is_the_payload_s(payload: dict[str, Any], count: int) -> None:
    """An intent costs the LLM tokens that its payload says, and none where it says nothing."""
    assert check_intent(said("Speak", text="a", **payload)).token_count == count
