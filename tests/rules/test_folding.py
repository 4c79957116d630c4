"""The fold: the same log gives the same state, from wherever one begins, and what is wrong is named by its seq."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_sandbox.rules import RULESET

import worldledger
from tests.rulesets.sandbox.worlds import ANY_SAID, SAID, Said, effects_of, told
from worldledger.chain import StoredEffect
from worldledger.folding import Fold, fold
from worldledger.world import WorldState

from .chains import chained, make_effect


def _rows(said: Sequence[Said], start: int = 1) -> list[StoredEffect]:
    return chained(dict(effect) for effect in effects_of(said, start))


def _text(said: Sequence[Said]) -> bytes:
    return fold("w", RULESET, _rows(said)).text()


# -- laws ----------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.lists(ANY_SAID, max_size=12), st.data())
def test_folding_in_pieces_is_folding_at_once(said: list[Said], data: st.DataObject) -> None:
    """fold(a + b) is fold(b) after fold(a), for any split, and whichever way the state was kept in between."""
    rows = _rows(said)
    whole = _text(said)
    cut = data.draw(st.integers(0, len(rows)))
    first = Fold("w", RULESET)
    first.feed(rows[:cut])
    kept = first.state.text()
    snapshot = Fold("w", RULESET, WorldState.from_text(kept), cut)
    copied = first.copy()
    first.feed(rows[cut:])
    snapshot.feed(rows[cut:])
    assert copied.state.text() == kept
    copied.feed(rows[cut:])
    for part in (first, snapshot, copied):
        assert part.state.text() == whole
        assert part.seq == len(rows)


@settings(max_examples=100, deadline=None)
@given(st.lists(ANY_SAID, max_size=12))
def test_one_by_one_and_by_batches_is_the_same(said: list[Said]) -> None:
    """`apply` and `feed` fold alike, and neither changes what is stored."""
    rows = _rows(said)
    kept = [bytes(row.text) for row in rows]
    single, fed = Fold("w", RULESET), Fold("w", RULESET)
    for row in rows:
        single.apply(orjson.loads(row.text))
        fed.feed([row])
    fed.feed([])
    assert single.state.text() == fed.state.text() == _text(said)
    assert [row.text for row in rows] == kept


_ELSEWHERE = """
import sys
from worldledger.chain import StoredEffect
from worldledger.folding import fold
from worldledger_sandbox.rules import RULESET
rows = [StoredEffect(seq, line, b"", "", "", 0.0) for seq, line in enumerate(sys.stdin.buffer.read().splitlines(), 1)]
sys.stdout.buffer.write(fold("w", RULESET, rows).text())
"""


@pytest.mark.parametrize(("seed", "locale", "zone"), [("1", "C", "Asia/Kathmandu"), ("4242", "tr_TR.UTF-8", "UTC+11")])
def test_another_process_gives_the_same_bytes(seed: str, locale: str, zone: str) -> None:
    """Neither the hash seed nor locale nor time zone of a process shows in a state."""
    names = ["ann", "Ann", "ånn", "ann\u0301", "10", "9", "İ", "\u0131", "a/b"]
    said: list[Said] = []
    for count, name in enumerate(names):
        said += [
            (
                "EntityCreated",
                {"entity_id": name, "entity_data": {"z": count, "a": [1e16, 1e-7, 2]}, "position": [count, 0.1]},
            ),
            ("Move", {"to": [count / 3, -count, 1e22]}, name),
            ("Speak", {"text": f"I am {name}"}, name),
            *[("Interact", {"target_id": other}, name) for other in names if other != name],
            (
                "RelationshipSet",
                {"to_entity": names[count // 2], "relationship_type": "knows", "strength": count},
                name,
            ),
            ("EntityUpdated", {"entity_id": name, "patch": [{"op": "copy", "from": "/a", "path": f"/{count}"}]}),
            ("Trade", {"with": name}),
            ("Move", {"to": name}),
        ]
    said.append(("EntityRemoved", {"entity_id": "Ann"}))
    rows = _rows(said)
    done = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE],
        input=b"\n".join(row.text for row in rows),
        capture_output=True,
        check=True,
        env={
            **os.environ,
            "PYTHONHASHSEED": seed,
            "LC_ALL": locale,
            "LANG": locale,
            "TZ": zone,
            "PYTHONPATH": str(Path(worldledger.__file__).parents[1]),
        },
    )
    here = fold("w", RULESET, rows)
    assert done.stdout == here.text()
    # If this digest changes, the version of the ruleset has to rise.
    assert (RULESET.version, here.digest()) == (1, "c6efcde7d14d19f6cbb8f941e3510a0b12e975e4829bd3ccc28b29c4167e2ba0")
    assert here.metadata["unknown_effects"] == here.metadata["malformed_effects"] == len(names)


# -- what the core notes -------------------------------------------------------------------------------------


def test_the_core_notes_where_it_is() -> None:
    """Seq, sim_time and kind of the last effect stand in the state, whatever the effect was."""
    genesis = chained([make_effect("w", 1, payload={"config": {}})])
    rows = genesis + _rows([("Speak", {"text": "hi"}), ("Trade", {}), ("StateDigest", {})], 2)
    folded = Fold("w", RULESET)
    seen = []
    for row in rows:
        folded.feed([row])
        metadata = folded.state.metadata
        seen.append([metadata[f"last_effect_{what}"] for what in ("seq", "time", "kind")])
    assert seen == [[1, 0.25, "WorldCreated"], [2, 0.5, "Speak"], [3, 0.75, "Trade"], [4, 1.0, "StateDigest"]]


@settings(max_examples=100, deadline=None)
@given(st.lists(SAID, max_size=5), st.sampled_from(["StateDigest", "ViewDigest", "IntentDenied", "GenerationBegun"]))
def test_system_effects_change_nothing_but_the_notes(said: list[Said], kind: str) -> None:
    """A StateDigest, say, tells of a state; it does not make another one, and is not counted as unknown."""
    folded = Fold("w", RULESET)
    folded.feed(_rows(said))
    before = WorldState.from_text(folded.state.text())
    folded.feed(_rows([(kind, {"entity_id": "ann", "text": "x"})], len(said) + 1))
    assert told(folded.state) == told(before)
    changed = {name for name, value in folded.state.metadata.items() if value != before.metadata[name]}
    assert changed <= {"last_effect_seq", "last_effect_time", "last_effect_kind"}
    assert folded.state.metadata["last_effect_kind"] == kind


def test_unknown_and_malformed_effects_are_counted() -> None:
    """They change nothing else, and the fold goes on behind them."""
    good: Said = ("Speak", {"text": "hi"})
    state = fold(
        "w", RULESET, _rows([good, ("Trade", {}), ("Speak", {}), ("speak", {"text": "x"}), ("Move", {}), good])
    )
    assert (state.metadata["unknown_effects"], state.metadata["malformed_effects"]) == (2, 2)
    assert state.entities == {"ann": {"last_message": "hi", "last_speak_time": 1.5, "message_count": 2}}


def test_folding_an_export_needs_nothing_but_its_lines() -> None:
    """Rows may be made of the text alone: the fold looks at no other column but the seq."""
    said: list[Said] = [("Move", {"to": [1, 2]}), ("Speak", {"text": "hi"})]
    bare = [StoredEffect(row.global_seq, row.text, b"", "", "", 0.0) for row in _rows(said)]
    state = fold("w", RULESET, bare)
    assert state.text() == _text(said)
    assert json.loads(state.text())["entities"]["ann"]["position"] == [1.0, 2.0, 0.0]
