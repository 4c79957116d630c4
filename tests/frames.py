"""Reading frames, as a client of any language would: for the tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import pytest

from worldledger.chain import StoredEffect
from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.frames import StateFrames
from worldledger.rulesets import Ruleset
from worldledger.world import state_text


def stored(log: Sequence[Effect]) -> list[StoredEffect]:
    """Return effects as the log has them; nothing here looks at checksums."""
    return [
        StoredEffect(each["global_seq"], orjson.dumps(each), b"", each["kind"], each["source_id"], each["sim_time"])
        for each in log
    ]


def check(log: Sequence[Effect], ruleset: Ruleset, start: int, cut: int = 7) -> None:
    """Compare the frames of a log, from a keyframe on, with the states that are folded one by one."""
    rows = stored(log)
    start = min(start, len(rows))
    fold, other = Fold("w", ruleset), Fold("w", ruleset)
    fold.feed(rows[:start])
    other.feed(rows[:start])
    text = fold.state.text()
    found = StateFrames(fold, text)
    for at in range(start, len(rows), cut):
        found.feed(rows[at : at + cut])
    seen = list(read(orjson.loads(text), orjson.loads(orjson.dumps(found.columns()))))
    expected = []
    for row in rows[start:]:
        other.feed([row])
        expected.append((row.global_seq, other.state.text()))
    assert seen == expected


SIZES = pytest.mark.parametrize("large", [1, 256], ids=["members", "whole"])


def read(keyframe: dict[str, Any], found: Mapping[str, Any]) -> Iterator[tuple[int, bytes]]:
    """Return each frame's seq, and the state or view there in the profile ``state/1``; the keyframe is changed."""
    frames, paths, patches = found["frames"], found["paths"], found["patches"]
    columns = [patches[name] for name in ("frame", "op", "path", "value")]
    assert len({len(column) for column in (*columns, patches["frame"])}) == 1
    operations = list(zip(*columns, strict=True))
    assert [each[0] for each in operations] == sorted(each[0] for each in operations)
    assert len(set(paths)) == len(paths)
    at = 0
    for index, seq in enumerate(frames["seq"]):
        if "kind" in frames:
            keyframe["metadata"] |= {
                "last_effect_seq": seq,
                "last_effect_time": frames["sim_time"][index],
                "last_effect_kind": frames["kind"][index],
            }
        while at < len(operations) and operations[at][0] == index:
            _, name, path, value = operations[at]
            _apply(keyframe, name, paths[path], value)
            at += 1
        yield seq, state_text(keyframe)
    assert at == len(operations)


def _apply(document: dict[str, Any], name: str, path: str, value: Any) -> None:
    *way, last = [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]
    for token in way:
        document = document[token]
    assert (last in document) == (name != "add"), (name, path)
    if name == "remove":
        assert value is None
        del document[last]
    else:
        document[last] = value
