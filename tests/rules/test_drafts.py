"""Drafts: the rule of every field and the path that a refusal names; what a draft becomes; what makes two the same."""

from __future__ import annotations

import math
from collections import UserDict
from hashlib import sha256
from typing import Any

import orjson
import pytest
from hypothesis import given, settings

from tests.cases import cases
from worldledger import drafts
from worldledger.canonical import MAX_DEPTH, MAX_INT
from worldledger.drafts import MAX_PRIORITY, MAX_WORD, CheckedDraft, check_draft, effect_body_digest, effect_text
from worldledger.errors import InvalidEffectError, RecoveryAction, ReservedKindError

from .values import ANY_JSON, GOOD_OBJECTS, nested, offences, same


def draft(**changed: Any) -> dict[str, Any]:
    """Make a draft of the four fields that every draft has; a field given as ``...`` is left out."""
    fields = {"kind": "Said", "payload": {"x": 1}, "source_id": "a1", "schema_version": "1.0.0", **changed}
    return {name: value for name, value in fields.items() if value is not ...}


_WORDS = ("kind", "source_id", "schema_version", "req_id")
_LONG = "x" * (MAX_WORD + 1)

REFUSED: dict[str, tuple[Any, str, str]] = {
    "null": (None, "$", "a draft is an object, not null"),
    "a list": ([], "$", "not a list"),
    "a string": ("kind", "$", "not a string"),
    "a boolean": (True, "$", "not a boolean"),
    **{f"no {name}": (draft(**{name: ...}), f"$.{name}", f"{name} is missing") for name in (*_WORDS[:3], "payload")},
    **{f"{name} null": (draft(**{name: None}), f"$.{name}", "not null") for name in (*_WORDS[:3], "payload")},
    **{f"{name} a number": (draft(**{name: 1}), f"$.{name}", "not a number") for name in (*_WORDS, "payload")},
    **{f"{name} a list": (draft(**{name: []}), f"$.{name}", "not a list") for name in (*_WORDS, "payload")},
    **{f"{name} empty": (draft(**{name: ""}), f"$.{name}", "1 to 200 characters") for name in _WORDS},
    **{f"{name} too long": (draft(**{name: _LONG}), f"$.{name}", "this one 201") for name in _WORDS},
    **{f"{name} with NUL": (draft(**{name: "a\x00"}), f"$.{name}", "NUL") for name in _WORDS},
    **{f"{name} with a surrogate": (draft(**{name: "\ud800"}), f"$.{name}", "surrogate") for name in _WORDS},
    "payload with NaN": (draft(payload={"a": [math.nan]}), "$.payload.a[0]", "finite"),
    "payload too deep": (draft(payload=nested(MAX_DEPTH, objects=True)), "$.payload" + ".a" * 99, "deeper than 100"),
    "sim_time NaN": (draft(sim_time=math.nan), "$.sim_time", "finite"),
    "sim_time infinite": (draft(sim_time=-math.inf), "$.sim_time", "finite"),
    "sim_time -0.0": (draft(sim_time=-0.0), "$.sim_time", "-0.0"),
    "sim_time a string": (draft(sim_time="1"), "$.sim_time", "finite number"),
    "sim_time true": (draft(sim_time=True), "$.sim_time", "finite number"),
    "sim_time an int that no float is": (draft(sim_time=2**60), "$.sim_time", "finite number"),
    "priority a float": (draft(priority=1.0), "$.priority", "32 bits"),
    "priority true": (draft(priority=True), "$.priority", "32 bits"),
    "priority null": (draft(priority=None), "$.priority", "32 bits"),
    "priority too high": (draft(priority=2**31), "$.priority", "32 bits"),
    "priority too low": (draft(priority=-(2**31)), "$.priority", "32 bits"),
    "caused_by zero": (draft(caused_by=0), "$.caused_by", "global_seq"),
    "caused_by a float": (draft(caused_by=1.0), "$.caused_by", "global_seq"),
    "caused_by true": (draft(caused_by=True), "$.caused_by", "global_seq"),
    "caused_by too large": (draft(caused_by=MAX_INT + 1), "$.caused_by", "global_seq"),
    "source_metadata a list": (draft(source_metadata=[]), "$.source_metadata", "an object"),
    "source_metadata NaN": (draft(source_metadata={"a b": math.nan}), '$.source_metadata["a b"]', "finite"),
    "an unknown field": (draft(colour=1), "$.colour", "unknown field 'colour'"),
    "a field of the effect": (draft(global_seq=1), "$.global_seq", "unknown field"),
    "a field that is no string": ({**draft(), 1: 2}, "$", "unknown field"),
}


@cases("given_draft, path, reason", REFUSED.values(), ids=REFUSED.keys())
def test_a_field_out_of_rule_is_refused_with_its_path(given_draft: Any, path: str, reason: str) -> None:
    """Each field has its rule; what breaks it is refused with the field's path, whatever else is wrong."""
    with pytest.raises(InvalidEffectError) as caught:
        check_draft(given_draft)
    assert caught.value.path.startswith(path)
    assert reason in caught.value.reason
    assert caught.value.recovery is RecoveryAction.MODIFY_INTENT


@cases(
    "kind",
    [
        "WorldCreated",
        "WorldPaused",
        "World",
        "StateDigest",
        "ViewDigest",
        "AgentRegistered",
        "IntentAccepted",
        "GenerationStarted",
    ],
)
def test_system_kinds_are_the_services_own(kind: str) -> None:
    """A draft of a system kind is refused, unless the service itself writes it."""
    with pytest.raises(ReservedKindError) as caught:
        check_draft(draft(kind=kind))
    assert caught.value.path == "$.kind"
    assert check_draft(draft(kind=kind), system=True).kind == kind


@cases("kind", ["world", "StateDigests", "StateDigestX", "MyWorld", "Agent", "intent", "EntityMoved"])
def test_other_kinds_are_everybodys(kind: str) -> None:
    """A kind that only looks like a system kind is free."""
    assert check_draft(draft(kind=kind)).kind == kind


def test_what_a_draft_need_not_say() -> None:
    """Fields left out, and null where it is allowed, mean nothing was said."""
    plain = CheckedDraft("Said", b'{"x":1}', "a1", "1.0.0", None, 0, None, None, None)
    assert check_draft(draft()) == plain
    nothing = draft(sim_time=None, req_id=None, caused_by=None, source_metadata=None, priority=0)
    assert check_draft(nothing) == plain
    assert check_draft(draft(source_metadata={})) == plain


def test_what_a_draft_may_say() -> None:
    """Every field of EffectDraft is taken at the ends of its range."""
    checked = check_draft(
        draft(
            kind="ä" * MAX_WORD,
            source_id="\U0001f600",
            sim_time=MAX_INT,
            priority=-MAX_PRIORITY,
            req_id="line\nend",
            caused_by=MAX_INT,
            source_metadata={"b": 1, "a": 2},
        )
    )
    assert checked[4:] == (float(MAX_INT), -MAX_PRIORITY, "line\nend", MAX_INT, b'{"a":2,"b":1}')
    assert type(checked.sim_time) is float


def test_a_mapping_is_a_draft() -> None:
    """Any mapping can be a draft, as long as its payload is a dict."""
    assert check_draft(UserDict(draft(priority=3))).priority == 3
    with pytest.raises(InvalidEffectError, match="payload is an object"):
        check_draft(draft(payload=UserDict()))


def test_what_the_caller_does_afterwards_changes_nothing() -> None:
    """A checked draft keeps what the payload was when it was checked."""
    payload = {"x": [1]}
    checked = check_draft(draft(payload=payload))
    payload["x"].append(2)
    assert checked.payload == b'{"x":[1]}'


@pytest.mark.parametrize("name", ["kind", "source_id", "schema_version"])
def test_long_words_are_not_remembered(name: str) -> None:
    """A word that is refused for its length leaves nothing behind in memory."""
    with pytest.raises(InvalidEffectError):
        check_draft(draft(**{name: name * 10**6}))
    assert max(map(len, drafts._HARMLESS)) <= MAX_WORD


def test_words_are_remembered_within_bounds() -> None:
    """However many words come, only some thousands are remembered."""
    for number in range(2 * drafts._MOST_REMEMBERED):
        check_draft(draft(kind=f"Kind{number}"))
    assert len(drafts._HARMLESS) <= drafts._MOST_REMEMBERED


class Word(str):
    """A string that is not quite one."""

    __slots__ = ()


def test_a_word_is_judged_by_itself() -> None:
    """What was found about one word says nothing about another that only equals it."""
    assert check_draft(draft(kind="Known")).kind == "Known"
    with pytest.raises(InvalidEffectError, match="kind is a string, not a Word"):
        check_draft(draft(kind=Word("Known"), req_id="r"))


@settings(max_examples=200, deadline=None)
@given(ANY_JSON)
def test_any_payload_is_kept_whole_or_refused_with_its_path(value: Any) -> None:
    """Any value inside a payload stands in the effect as it was, or is refused with its path in the effect."""
    bad = list(offences(value, "$.payload.v"))
    try:
        checked = check_draft(draft(payload={"v": value}))
    except InvalidEffectError as error:
        assert error.path == bad[0]  # noqa: PT017 - both outcomes are looked at
        return
    assert not bad
    text = effect_text(checked, world_id="w", global_seq=2, uuid="0" * 32, sim_time=1.5, wall_time=1e9)
    effect = orjson.loads(text)
    assert same(effect["payload"], {"v": value})
    assert orjson.dumps(effect, option=orjson.OPT_SORT_KEYS) == text


def test_an_effect_holds_every_audited_fact() -> None:
    """An effect's text has its seven fields and the audited facts around them, and no others."""
    checked = check_draft(draft())
    text = effect_text(checked, world_id="w", global_seq=2, uuid="u", sim_time=0.0, wall_time=5.0)
    assert text == (
        b'{"global_seq":2,"kind":"Said","payload":{"x":1},"priority":0,"req_id":null,"schema_version":"1.0.0",'
        b'"sim_time":0.0,"source_id":"a1","uuid":"u","wall_time":5.0,"world_id":"w"}'
    )
    more = check_draft(draft(req_id="r", caused_by=1, source_metadata={"file": "x"}, priority=7))
    effect = orjson.loads(effect_text(more, world_id="w", global_seq=2, uuid="u", sim_time=0.0, wall_time=5.0))
    assert (effect["req_id"], effect["caused_by"], effect["priority"]) == ("r", 1, 7)
    assert effect["source_metadata"] == {"file": "x"}


_SAME = [draft(), draft(payload={"x": 1}, req_id="other"), draft(sim_time=4.0), draft(source_metadata={"file": "x"})]
_OTHER = [
    draft(kind="Moved"),
    draft(payload={"x": 1.0}),
    draft(payload={"x": True}),
    draft(payload={}),
    draft(source_id="a2"),
    draft(schema_version="1.0.1"),
    draft(priority=1),
    draft(caused_by=1),
    draft(kind="Sa", source_id="ida1"),
]


def test_what_makes_two_requests_the_same() -> None:
    """Kind, payload, source, version, priority and cause make a body; its key, its time and metadata do not."""
    digests = {check_draft(one).body_digest() for one in _SAME}
    assert len(digests) == 1
    others = {check_draft(one).body_digest() for one in _OTHER}
    assert len(others) == len(_OTHER)
    assert not others & digests
    assert digests == {sha256(b'["Said","a1","1.0.0",0,null]{"x":1}').digest()}


def _digest(effect: dict[str, Any], text: bytes) -> bytes:
    return effect_body_digest(effect, text)


@settings(max_examples=100, deadline=None)
@given(GOOD_OBJECTS)
def test_the_digest_follows_from_the_log(payload: dict[str, Any]) -> None:
    """A request's digest can be computed from the stored effect alone, whether it names a cause or none."""
    for cause in ({}, {"caused_by": 1}):
        checked = check_draft(draft(payload=payload, req_id="r", priority=2, sim_time=3.0, **cause))
        text = effect_text(checked, world_id="w", global_seq=2, uuid="u", sim_time=3.0, wall_time=5.0)
        assert _digest(orjson.loads(text), text) == checked.body_digest()


@pytest.mark.parametrize(
    "fields",
    [
        {"payload": {"priority": 7, "a": [{"priority": 1, "req_id": "é"}]}, "source_metadata": {"priority": 3}},
        {"kind": 'Sa"\\id\n', "source_id": 'é","payload":{', "req_id": '","sim_time":1', "caused_by": 1},
        {"payload": {"x": ',"priority":0,"req_id":null,', "é": '"}'}, "source_metadata": {"source_metadata": {}}},
    ],
)
def test_the_digest_is_that_of_the_stored_bytes(fields: dict[str, Any]) -> None:
    """Texts that look like fields of the effect do not mislead it."""
    checked = check_draft(draft(**{"payload": {"x": 1e16}, "req_id": "r", **fields}))
    text = effect_text(checked, world_id="w", global_seq=2, uuid="u", sim_time=0.0, wall_time=5.0)
    assert _digest(orjson.loads(text), text) == checked.body_digest()


def test_numbers_count_as_they_are_spelt() -> None:
    """Another library's spelling of a number is another body, as it is another text."""
    checked = check_draft(draft(payload={"x": 1e16}, req_id="r"))
    text = effect_text(checked, world_id="w", global_seq=2, uuid="u", sim_time=0.0, wall_time=5.0)
    old, new = (b"1e+16", b"1e16") if b"1e+16" in text else (b"1e16", b"1e+16")
    spelt = text.replace(old, new)
    expected = sha256(b'["Said","a1","1.0.0",0,null]{"x":' + new + b"}").digest()
    assert _digest(orjson.loads(spelt), spelt) == expected != checked.body_digest()


@cases(
    "old, new",
    [
        (b'"kind":"Said"', b'"kind":"Sa\\u0069d"'),
        (b'"source_id":"a1"', b'"source_id":"\\u00611"'),
        (b'"schema_version":"1.0.0"', b'"schema_version": "1.0.0"'),
        (b'"priority":1', b'"priority":true'),
    ],
)
def test_words_count_as_they_are_spelt(old: bytes, new: bytes) -> None:
    """Another spelling of what stands beside the payload is another body, though its value may be the same."""
    checked = check_draft(draft(payload={}, req_id="r", priority=1))
    text = effect_text(checked, world_id="w", global_seq=2, uuid="u", sim_time=0.0, wall_time=5.0)
    assert _digest(orjson.loads(text), text) == checked.body_digest()
    spelt = text.replace(old, new)
    assert spelt != text
    assert _digest(orjson.loads(spelt), spelt) != checked.body_digest()


@pytest.mark.parametrize("text", [b"{}", b'{"global_seq":2,"kind":"a","payload":{}', b'{"kind":"a","payload":{}}'])
def test_a_text_that_is_not_canonical_has_no_digest(text: bytes) -> None:
    """What was asked cannot be told of a text that is no effect: that is an error, and nothing is guessed."""
    with pytest.raises(ValueError, match="not canonical"):
        _digest({"source_id": "a1", "req_id": "r", "kind": "a", "schema_version": "1", "priority": 0}, text)
