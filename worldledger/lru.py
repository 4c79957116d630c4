"""A bounded memory of what was used lately."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Lru(OrderedDict[K, V]):
    """A dict of at most ``most`` members: the one that was put, or used by `use`, longest ago makes room for a new one.

    It stays ordered by that, the oldest first. Looking up with ``[]`` and ``get`` is no use of a member.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self.most:
            self.popitem(last=False)

    def use(self, key: K) -> V | None:
        """Return a member that is used now, or None."""
        found = self.get(key)
        if found is not None:
            self.move_to_end(key)
        return found
