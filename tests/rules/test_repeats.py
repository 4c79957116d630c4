"""Keys that stand twice are found among any number of keys, wherever they lie."""

from __future__ import annotations

from tempfile import TemporaryFile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldledger import repeats
from worldledger.repeats import Repeat, Repeats, uuid_keys


def _first(keys: list[bytes]) -> Repeat | None:
    seen: dict[bytes, int] = {}
    for seq, key in enumerate(keys, 1):
        if key in seen:
            return Repeat(seen[key], seq)
        seen[key] = seq
    return None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40).map(lambda n: n.to_bytes(16, "big")), max_size=30), st.integers(1, 7))
def test_the_first_repeat_is_found(keys: list[bytes], size: int) -> None:
    """In batches of any size, in memory or in a file, in one part or in many, the first repeat is the one told."""
    for kept, part in ((repeats._KEPT_BYTES, repeats._PART), (1, 1), (50, 4)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(repeats, "_KEPT_BYTES", kept)
            patch.setattr(repeats, "_PART", part)
            patch.setattr(repeats, "_READ", 3)
            for spill in (None, TemporaryFile):
                gathered = Repeats(spill)
                for at in range(0, len(keys), size):
                    some = keys[at : at + size]
                    gathered.add(b"".join(some), range(at + 1, at + 1 + len(some)))
                assert gathered.first() == _first(keys)
                gathered.close()


def test_among_many_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """One repeat among 300,000 keys that count up, as uuids may, is found with a file and 64 parts."""
    monkeypatch.setattr(repeats, "_PART", 5000)
    monkeypatch.setattr(repeats, "_KEPT_BYTES", 100_000)
    count = 300_000
    for again in (None, 123_457):
        gathered = Repeats(TemporaryFile)
        for at in range(0, count, 10_000):
            keys = [f"{again if again and n == count - 1 else n:032x}" for n in range(at, at + 10_000)]
            gathered.add(uuid_keys(keys), range(at, at + 10_000))
        assert gathered.first() == (None if again is None else Repeat(again, count - 1))
        gathered.close()


def test_keys_of_uuids() -> None:
    """A uuid's key is its own bytes; any other value is refused, also beside one that makes up for its length."""
    plain = "0123456789abcdef" * 2
    assert uuid_keys([plain, "f" * 32]) == bytes.fromhex(plain) + b"\xff" * 16
    wrong: list[Any] = [plain[:31], plain + "0", " " * 32, plain[:30] + "  ", plain.upper(), "é" * 32, "", None, 7]
    for odd in (*([each] for each in wrong), [plain[:31], plain + "0"], [[plain]], [plain, [plain]]):
        with pytest.raises(ValueError, match="32 hex digits"):
            uuid_keys(odd)
