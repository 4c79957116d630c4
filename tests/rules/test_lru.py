"""The bounded memory of what was used lately."""

from __future__ import annotations

from worldledger.lru import Lru


def test_what_was_put_or_used_longest_ago_makes_room() -> None:
    """Putting and using make a member young, looking it up does not; the oldest makes room for a new one."""
    kept: Lru[str, int] = Lru(3)
    for number, name in enumerate("abc"):
        kept[name] = number
    assert kept.use("a") == 0
    assert (kept["b"], kept.get("b")) == (1, 1)
    kept["d"] = 3
    assert list(kept.items()) == [("c", 2), ("a", 0), ("d", 3)]
    kept["c"] = 4
    kept["e"] = 5
    assert list(kept.items()) == [("d", 3), ("c", 4), ("e", 5)]


def test_using_what_is_not_there_changes_nothing() -> None:
    """A member that is not known gives None."""
    kept: Lru[str, int] = Lru(1)
    kept["a"] = 1
    assert kept.use("b") is None
    assert dict(kept) == {"a": 1}
