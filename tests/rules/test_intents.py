"""Intents: the rule of every field and payload, the path that a refusal names, and the draft that an intent becomes."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.rulesets.sandbox.worlds import after
from worldledger.canonical import MAX_DEPTH, MAX_INT
from worldledger.drafts import MAX_PRIORITY, MAX_WORD, check_draft
from worldledger.effects import SERVICE_SOURCE
from worldledger.errors import InvalidEffectError, InvalidIntentError, RecoveryAction, ReservedKindError
from worldledger.intents import (
    DEFAULT_PERMISSIONS,
    KINDS,
    MAX_PERMISSIONS,
    MAX_WEIGHT,
    Accepted,
    check_agent_id,
    check_intent,
    check_permissions,
    check_weight,
    checked_draft,
    intent_draft,
    permission_for,
    registration_draft,
)

from .values import ANY_JSON, GOOD_OBJECTS, nested, offences


def intent(kind: str = "Speak", /, **changed: Any) -> dict[str, Any]:
    """Make an intent of ann's; a field given as ``...`` is left out."""
    payloads: dict[str, dict[str, Any]] = {
        "Speak": {"text": "hello"},
        "Move": {"to": [1.0, 2.0, 3.0]},
        "Interact": {"target_id": "bob"},
        "Custom": {"kind": "Waved"},
    }
    fields = {
        "kind": kind,
        "payload": payloads.get(kind, {}),
        "context_seq": 7,
        "req_id": "r1",
        "agent_id": "ann",
        "priority": 2,
        "schema_version": "1.2.0",
        **changed,
    }
    return {name: value for name, value in fields.items() if value is not ...}


def said(kind: str, /, **payload: Any) -> dict[str, Any]:
    """Make an intent of this payload."""
    return intent(kind, payload=payload)


# -- fields ------------------------------------------------------------------------------------------------------

_LONG = "x" * (MAX_WORD + 1)
_WORDS = ("req_id", "agent_id", "schema_version")

REFUSED: dict[str, tuple[Any, str, str]] = {
    "null": (None, "$", "an intent is an object, not null"),
    "a list": ([], "$", "not a list"),
    "no kind": (intent(kind=...), "$.kind", "kind is missing; it is one of Speak, Move, Interact, Custom"),
    "kind a number": (intent(kind=1), "$.kind", "not a number"),
    "kind a list": (intent(kind=["Move"]), "$.kind", "not a list"),
    "an unknown kind": (
        intent(kind="Fly"),
        "$.kind",
        "kind is one of Speak, Move, Interact, Custom; any other kind of effect is a Custom intent's payload.kind",
    ),
    "a kind in lower case": (intent(kind="move"), "$.kind", "one of"),
    **{f"no {name}": (intent(**{name: ...}), f"$.{name}", f"{name} is missing") for name in (*_WORDS[:2], "payload")},
    **{f"{name} null": (intent(**{name: None}), f"$.{name}", "not null") for name in (*_WORDS[:2], "payload")},
    **{f"{name} a number": (intent(**{name: 1}), f"$.{name}", "not a number") for name in (*_WORDS, "payload")},
    **{f"{name} a list": (intent(**{name: []}), f"$.{name}", "not a list") for name in (*_WORDS, "payload")},
    **{f"{name} empty": (intent(**{name: ""}), f"$.{name}", "1 to 200 characters") for name in _WORDS},
    **{f"{name} too long": (intent(**{name: _LONG}), f"$.{name}", "this one 201") for name in _WORDS},
    **{f"{name} with NUL": (intent(**{name: "a\x00"}), f"$.{name}", "NUL") for name in _WORDS},
    **{f"{name} with a surrogate": (intent(**{name: "\ud800"}), f"$.{name}", "surrogate") for name in _WORDS},
    "staleness_threshold negative": (intent(staleness_threshold=-1), "$.staleness_threshold", "whole number"),
    "staleness_threshold a float": (intent(staleness_threshold=1.0), "$.staleness_threshold", "whole number"),
    "staleness_threshold true": (intent(staleness_threshold=True), "$.staleness_threshold", "whole number"),
    "about a word": (intent(about="bob"), "$.about", "about is a list of ids"),
    "about too much": (intent(about=["x"] * 1001), "$.about", "at most 1000 ids"),
    "about a number": (intent(about=["x", 1]), "$.about[1]", "1 to 200 characters"),
    "about nothing": (intent(about=[""]), "$.about[0]", "1 to 200 characters"),
    "context_seq negative": (intent(context_seq=-1), "$.context_seq", "or 0"),
    "context_seq a float": (intent(context_seq=1.0), "$.context_seq", "or 0"),
    "context_seq true": (intent(context_seq=True), "$.context_seq", "or 0"),
    "context_seq too large": (intent(context_seq=MAX_INT + 1), "$.context_seq", "or 0"),
    "priority a float": (intent(priority=1.0), "$.priority", "32 bits"),
    "priority true": (intent(priority=True), "$.priority", "32 bits"),
    "priority too high": (intent(priority=MAX_PRIORITY + 1), "$.priority", "32 bits"),
    "an unknown field": (intent(colour=1), "$.colour", "unknown field 'colour'; an Intent has about, agent_id"),
    "a field of the draft": (intent(source_id="ann"), "$.source_id", "unknown field"),
    "sim_time": (intent(sim_time=1.0), "$.sim_time", "unknown field"),
    "a field that is no string": ({**intent(), 1: 2}, "$", "unknown field"),
    "payload with NaN": (said("Speak", text="a", a=[math.nan]), "$.payload.a[0]", "finite"),
    "payload with -0.0": (said("Move", to=[1.0, -0.0]), "$.payload.to[1]", "-0.0"),
    "payload too deep": (said("Custom", kind="k", a=nested(99)), "$.payload.a" + "[0]" * 98, "deeper than 100"),
}


@cases("value, path, reason", REFUSED.values(), ids=REFUSED.keys())
def test_a_field_out_of_rule_is_refused_with_its_path(value: Any, path: str, reason: str) -> None:
    """Every field has its rule; a refusal is an InvalidIntentError that names the JSON path and the reason."""
    with pytest.raises(InvalidIntentError) as caught:
        check_intent(value)
    error = caught.value
    assert error.details["path"] == error.path
    assert error.path.startswith(path)
    assert reason in error.reason
    assert (error.code, error.recovery) == ("invalid_intent", RecoveryAction.MODIFY_INTENT)


def test_the_deepest_payload_that_is_taken() -> None:
    """The gate's limits are those of drafts: the payload stands at level 2 of 100."""
    assert check_intent(said("Custom", kind="k", a=nested(MAX_DEPTH - 2)))


def test_a_refusal_names_the_intent_s_place_in_its_list() -> None:
    """A refusal can be told of an intent of a list: index and path stand in the message and the details."""
    with pytest.raises(InvalidIntentError) as caught:
        check_intent(intent(kind="Fly"))
    error = caught.value.at(3)
    assert type(error) is InvalidIntentError
    assert str(error).startswith("intent 3, $.kind: ")
    assert (error.details["index"], error.details["path"]) == (3, "$.kind")


def test_priority_and_schema_version_may_be_left_out() -> None:
    """Where an intent has no priority the world's default counts, where it has no schema_version it is 1.0.0."""
    for nothing in (..., None):
        bare = check_intent(intent(priority=nothing, schema_version=nothing), default_priority=-3)
        assert (bare.priority, bare.schema_version) == (-3, "1.0.0")
    full = check_intent(intent(), default_priority=-3)
    assert (full.priority, full.schema_version) == (2, "1.2.0")
    assert check_intent(intent(priority=0), default_priority=5).priority == 0


@cases("kind", KINDS)
def test_a_checked_intent_shares_nothing_with_what_was_sent(kind: str) -> None:
    """Whatever the caller does to its own objects afterwards, and whoever is handed the Intent, changes nothing."""
    sent = intent(kind)
    sent["payload"]["more"] = {"list": [1]}
    checked = check_intent(sent)
    kept = copy.deepcopy(checked)
    sent["payload"]["more"]["list"].append(2)
    handed = checked.to_intent()
    handed["payload"]["more"]["list"].append(3)
    assert checked == kept
    assert check_intent(checked.to_intent()) == checked


@pytest.mark.parametrize(
    "sent",
    [
        said("Move", position=[1, 2], speed=3, note=None),
        said("Speak", text="a", token_count=None),
        said("Custom", kind="Waved", more={"b": [1.5, None], "a": 2}),
    ],
)
def test_an_intent_has_the_bytes_that_are_stored(sent: dict[str, Any]) -> None:
    """A checked intent has the very bytes of its payload, and the digest of its request, that its effect is made of."""
    checked = check_intent({**sent, "about": ["b"]})
    draft = check_draft(intent_draft(checked))
    assert checked_draft(checked) == draft
    assert (checked.text, checked.digest()) == (draft.payload, draft.body_digest())
    assert orjson.loads(checked.text) == checked.payload


def test_what_an_intent_is_about_is_gated() -> None:
    """An id that would not survive in the log, such as one with a NUL, is refused, wherever the intent names it."""
    with pytest.raises(InvalidEffectError, match="NUL"):
        checked_draft(check_intent({**said("Speak", text="a"), "about": ["a\x00"]}))


def test_no_agent_has_the_service_s_name() -> None:
    """An intent in the name of the service itself is refused."""
    with pytest.raises(ReservedKindError) as caught:
        check_intent(intent(agent_id=SERVICE_SOURCE))
    assert caught.value.path == "$.agent_id"


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(list(intent())), ANY_JSON), st.sampled_from(KINDS))
def test_whatever_comes_is_taken_or_refused_with_a_path(fields: dict[str, Any], kind: str) -> None:
    """No value of any field leads to anything but a checked intent or a refusal with a JSON path."""
    try:
        checked = check_intent(intent(kind, **fields))
    except InvalidEffectError as error:
        found = error
    else:
        check_draft(intent_draft(checked))
        return
    assert found.path.startswith("$")


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=4), ANY_JSON, max_size=3))
def test_a_payload_passes_the_gate_of_drafts(payload: dict[str, Any]) -> None:
    """What would not survive in the log is refused at the same place as in a draft's payload."""
    payload = {name: each for name, each in payload.items() if name not in {"kind", "token_count"}}
    value = said("Custom", **{**payload, "kind": "Waved", "token_count": 0})
    wrong = set(offences(payload, "$.payload"))
    if not wrong:
        check_intent(value)
        return
    with pytest.raises(InvalidIntentError) as caught:
        check_intent(value)
    assert caught.value.path in wrong


# -- the effect --------------------------------------------------------------------------------------------------


@cases("kind, becomes", [(kind, kind) for kind in KINDS[:3]] + [("Custom", "Waved")])
def test_an_intent_asks_for_an_effect_of_its_agent(kind: str, becomes: str) -> None:
    """The draft has the intent's words; Custom names its kind in the payload, which stays as it is."""
    checked = check_intent(intent(kind))
    assert intent_draft(checked) == {
        "kind": becomes,
        "payload": intent(kind)["payload"],
        "source_id": "ann",
        "schema_version": "1.2.0",
        "priority": 2,
        "req_id": "r1",
        "source_metadata": {"intent": kind, "context_seq": 7},
    }


def test_the_same_intent_from_a_later_view_is_the_same_request() -> None:
    """A context_seq is no part of what is asked for, so an agent that is unsure may ask again from where it is."""
    first, second = (check_draft(intent_draft(check_intent(intent(context_seq=seq)))) for seq in (7, 9))
    assert first.body_digest() == second.body_digest()


@settings(max_examples=100, deadline=None)
@given(GOOD_OBJECTS)
def test_a_move_is_what_the_sandbox_reads(more: dict[str, Any]) -> None:
    """Whatever else a Move's payload holds, the sandbox moves the agent to where the intent says."""
    for name in ("to", "from", "position", "speed", "agent_id", "token_count"):
        more.pop(name, None)
    draft = intent_draft(check_intent(said("Move", **{**more, "position": [1, 2]})))
    assert after(("Move", draft["payload"], draft["source_id"])).spatial_index == {"ann": (1.0, 2.0, 0.0)}


def test_accepted_is_the_effect_s_uuid() -> None:
    """What an accepted intent is answered with is the uuid, and knows where the effect stands; copies do too."""
    accepted = Accepted("ab" * 16, global_seq=12, req_id="r1", replayed=True)
    assert accepted == "ab" * 16
    assert isinstance(accepted, str)
    assert orjson.loads(orjson.dumps({"uuid": str(accepted)})) == {"uuid": "ab" * 16}
    for again in (accepted, copy.deepcopy(accepted), pickle.loads(pickle.dumps(accepted))):
        assert (again, again.global_seq, again.req_id, again.replayed) == ("ab" * 16, 12, "r1", True)
    assert Accepted("x", global_seq=1, req_id="r").replayed is False


# -- agents ------------------------------------------------------------------------------------------------------


def test_each_kind_has_its_permission() -> None:
    """The five usual permissions are one to submit at all and one for each kind of intent."""
    assert ("submit_intent", *sorted(map(permission_for, KINDS))) == (
        DEFAULT_PERMISSIONS[0],
        *sorted(DEFAULT_PERMISSIONS[1:]),
    )
    assert permission_for("Move") == "intent:move"


def test_a_registration_is_an_effect_of_the_service() -> None:
    """Registering writes an AgentRegistered with the policy's spec, and permissions sorted and each once."""
    spec = {"name": "default", "version": 1, "config": {"distance_limit": 5.0}}
    draft = registration_draft("ann", spec, {"submit_intent", "intent:speak", "dance"}, 3)
    assert draft == {
        "kind": "AgentRegistered",
        "payload": {
            "agent_id": "ann",
            "policy": spec,
            "permissions": ["dance", "intent:speak", "submit_intent"],
            "weight": 3,
        },
        "source_id": SERVICE_SOURCE,
        "schema_version": "1.0.0",
    }
    check_draft(draft, system=True)
    usual = registration_draft("ann", spec)["payload"]
    assert (usual["permissions"], usual["weight"]) == (sorted(DEFAULT_PERMISSIONS), 1)
    assert registration_draft("ann", spec, [])["payload"]["permissions"] == []


@cases(
    "value, path, reason",
    [
        ("submit_intent", "$.permissions", "a list of names, not a string"),
        ({"a": 1}, "$.permissions", "not an object"),
        (7, "$.permissions", "not a number"),
        (["a", 1], "$.permissions[1]", "not a number"),
        (["a", ""], "$.permissions[1]", "1 to 200"),
        (["a", [], "b"], "$.permissions[1]", "not a list"),
        (["\ud800"], "$.permissions[0]", "surrogate"),
        ([str(number) for number in range(MAX_PERMISSIONS + 1)], "$.permissions", "at most 1000"),
    ],
)
def test_permissions_are_a_list_of_names(value: Any, path: str, reason: str) -> None:
    """Anything else is refused with its path."""
    with pytest.raises(InvalidEffectError) as caught:
        check_permissions(value)
    assert caught.value.path == path
    assert reason in caught.value.reason


@cases("weight", [0, -1, 1.0, True, "1", None, MAX_WEIGHT + 1])
def test_a_weight_is_a_whole_number_from_1(weight: Any) -> None:
    """Anything else is refused with its path."""
    with pytest.raises(InvalidEffectError) as caught:
        check_weight(weight)
    assert caught.value.path == "$.weight"
    assert check_weight(MAX_WEIGHT) == MAX_WEIGHT


@cases("agent_id", [None, 1, "", _LONG, "a\x00", "\udfff", SERVICE_SOURCE])
def test_an_agent_s_id_is_a_word_of_its_own(agent_id: Any) -> None:
    """An agent_id has 1 to 200 characters that can be stored, and is not the service's name."""
    with pytest.raises(InvalidEffectError) as caught:
        check_agent_id(agent_id, "$.agents[3]")
    assert caught.value.path == "$.agents[3]"
    assert check_agent_id("Ann of the 2nd floor / ä") == "Ann of the 2nd floor / ä"
