"""Reading frames, as a client of any language would: for the tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from worldledger.world import state_text


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
