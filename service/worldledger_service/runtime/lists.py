"""Lists: what intents that are submitted together have in common.

They were made before any of them was an effect. So an effect that came out of the list makes none of the others stale,
however soon it is seen; what anybody else does makes those stale that are to come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worldledger.effects import Effect
    from worldledger_service.runtime.sightings import Watch


class IntentList:
    """One list that is being submitted; ``agents``: whose intents are in it."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.requests = {
            (value["agent_id"], value["req_id"])
            for value in values
            if isinstance(value, Mapping) and type(value.get("agent_id")) is type(value.get("req_id")) is str
        }
        self.agents = {agent_id for agent_id, _ in self.requests}
        #: the seqs of the effects that came out of it
        self.own: set[int] = set()
        #: what counts for several of them alike
        self._watches: dict[Any, Watch] = {}

    def took(self, effect: Effect) -> None:
        """Take note of an effect that is about to be seen."""
        if (effect["source_id"], effect["req_id"]) in self.requests:
            self.own.add(effect["global_seq"])

    def shared(self, key: Any, make: Callable[[], Watch]) -> Watch:
        """Return the watch of all of them for which the same counts, made once."""
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = make()
        return watch

    def watches(self) -> list[Watch]:
        """Return those that were made."""
        return list(self._watches.values())


class IntentLists:
    """The lists that are being submitted to one world."""

    def __init__(self) -> None:
        self._lists: list[IntentList] = []

    @contextmanager
    def of(self, values: Sequence[Any]) -> Iterator[IntentList]:
        """Take intents for a list until the end of the block."""
        made = IntentList(values)
        self._lists.append(made)
        try:
            yield made
        finally:
            self._lists.remove(made)

    def took(self, effect: Effect) -> None:
        """Tell them of an effect that is about to be seen."""
        for each in self._lists:
            each.took(effect)

    def same(self, agent_id: str, req_id: str, seq: int) -> bool:
        """Tell whether an effect came out of a list in which this request is, too."""
        return any(seq in each.own and (agent_id, req_id) in each.requests for each in self._lists)
