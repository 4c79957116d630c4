"""Folds that cannot go on: rulesets with bugs, and logs that are not what they should be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from worldledger_sandbox.rules import RULESET

from tests.cases import cases
from tests.rulesets.sandbox.worlds import effects_of
from worldledger.chain import StoredEffect
from worldledger.effects import Effect
from worldledger.errors import FoldError, TamperedError
from worldledger.folding import Fold, fold
from worldledger.rulesets.base import Handler, MalformedEffectError, Ruleset, Touched
from worldledger.world import WorldState

from .chains import chained, make_effect

# -- a ruleset that is somebody else's -------------------------------------------------------------------------


def _begin(state: WorldState, _: Effect) -> Touched:
    state.entities["usurped"] = {}
    return None


def _odd(state: WorldState, effect: Effect) -> Touched:
    if effect["payload"].get("bad"):
        raise MalformedEffectError("bad")
    effect["payload"].clear()
    raise ZeroDivisionError("a bug")


class _Theirs(Ruleset):
    """A ruleset with a bug, that would also like to have the service's kinds for itself."""

    name = "theirs"
    version = 3
    handlers: Mapping[str, Handler] = {
        "Odd": _odd,
        "WorldCreated": _begin,
        "StateDigest": _begin,
        "IntentDenied": _begin,
    }

    def begin(self, state: WorldState, config: Mapping[str, Any]) -> None:
        """Put the board there."""
        state.entities["board"] = {"size": config["size"]}


def _theirs(*kinds: str) -> list[StoredEffect]:
    genesis = make_effect("w", 1, payload={"config": {"size": 8}})
    return chained([genesis, *[make_effect("w", seq, kind=kind, payload={}) for seq, kind in enumerate(kinds, 2)]])


def test_a_world_begins_by_its_config() -> None:
    """The genesis is folded by the core, which asks the ruleset what its config begins with."""
    folded = Fold("w", _Theirs())
    assert folded.apply(orjson.loads(_theirs()[0].text)) is None
    assert folded.state.entities == {"board": {"size": 8}}


def test_a_ruleset_has_no_say_on_system_kinds() -> None:
    """Handlers for the service's kinds are not asked, the genesis's neither."""
    state = fold("w", _Theirs(), _theirs("StateDigest", "IntentDenied"))
    assert state.entities == {"board": {"size": 8}}


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_failing_handler_is_named(one_by_one: bool) -> None:
    """A bug of a ruleset is a FoldError with world, seq, ruleset and kind; the first error is its cause."""
    rows = _theirs("StateDigest", "Odd", "StateDigest")
    folded = Fold("w", _Theirs())
    with pytest.raises(FoldError) as caught:
        if one_by_one:
            for row in rows:
                folded.apply(orjson.loads(row.text))
        else:
            folded.feed(rows)
    error = caught.value
    assert str(error) == "world w, seq 3: ruleset theirs 3 failed on Odd (ZeroDivisionError: a bug)"
    assert error.details == {"world_id": "w", "global_seq": 3, "ruleset": "theirs"}
    assert isinstance(error.__cause__, ZeroDivisionError)


# -- logs that are not what they should be ---------------------------------------------------------------------


def _good(count: int) -> list[StoredEffect]:
    return chained(dict(effect) for effect in effects_of([("Speak", {"text": "hi"})] * count))


@cases(
    "order, seq, what",
    [
        ([2, 3], 1, "missing: the next effect in the log is seq 2"),
        ([1, 2, 4], 3, "missing: the next effect in the log is seq 4"),
        ([1, 3, 3, 4], 2, "missing: the next effect in the log is seq 3"),
        ([1, 2, 2, 4], 3, "seq 2 stands where seq 3 belongs"),
        ([1, 1, 3], 2, "seq 1 stands where seq 2 belongs"),
        ([2, 1], 1, "missing: the next effect in the log is seq 2"),
    ],
)
def test_a_gap_is_named(order: list[int], seq: int, what: str) -> None:
    """Rows that do not follow each other are refused before any of them is folded."""
    rows = _good(5)
    folded = Fold("w", RULESET)
    with pytest.raises(TamperedError) as caught:
        folded.feed([rows[place - 1] for place in order])
    assert caught.value.details == {"world_id": "w", "global_seq": seq, "what": what}
    assert (folded.seq, folded.state.entities) == (0, {})


def test_rows_must_follow_what_was_folded() -> None:
    """The same row twice, or one too far on, is refused by `feed` and by `apply`."""
    rows = _good(3)
    for place in (0, 2):
        folded = Fold("w", RULESET)
        folded.feed(rows[:1])
        with pytest.raises(TamperedError, match="world w, seq 2: "):
            folded.feed([rows[place]])
        with pytest.raises(TamperedError, match="world w, seq 2: the fold stands before seq 2"):
            folded.apply(orjson.loads(rows[place].text))


@cases(
    "text",
    [
        b"",
        b"not JSON",
        b"[]",
        b"5",
        b"null",
        b"{}",
        b'{"kind":"Speak"}',
        b'{"kind":["Speak"],"payload":{},"schema_version":"1","sim_time":1.0,"source_id":"a"}',
        b'{"kind":7,"payload":{},"schema_version":"1","sim_time":1.0,"source_id":"a"}',
        b'{"kind":"Speak","payload":[],"schema_version":"1","sim_time":1.0,"source_id":"a"}',
        b'{"kind":"Speak","payload":{"text":"x"},"schema_version":"1","sim_time":1.0}',
        b'{"kind":"Speak","payload":{"text":"x"},"schema_version":"1","source_id":"a"}',
        b"\xff\xfe",
        b"[" * 5000,
    ],
)
@cases("place", [0, 2])
def test_a_text_that_is_no_effect_is_named(text: bytes, place: int) -> None:
    """It is the log that is wrong there, not the ruleset, whatever stood before it."""
    rows = _good(3)
    rows[place] = rows[place]._replace(text=text)
    with pytest.raises(TamperedError) as caught:
        Fold("w", RULESET).feed(rows)
    assert caught.value.details["global_seq"] == place + 1
    assert caught.value.details["what"].startswith("the stored text is not an effect")
