"""Lists: what intents that are submitted together have in common.

They were made from one view each agent had, before any of them was an effect. So an effect that came out of the list
makes none of the others stale, however soon it is seen; what anybody else does makes those stale that are to come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from service.runtime.attachments import Attachment
    from worldledger.effects import Effect
    from worldledger.views import Sighting


class IntentList:
    """One list that is being submitted; ``agents``: whose intents are in it."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._requests = {
            (value["agent_id"], value["req_id"])
            for value in values
            if isinstance(value, Mapping) and type(value.get("agent_id")) is type(value.get("req_id")) is str
        }
        self.agents = {agent_id for agent_id, _ in self._requests}
        #: the seqs of the effects that came out of it
        self._own: set[int] = set()
        #: what each agent had seen before any of them, and the view_seqs that others have given it since
        self._before: dict[str, int] = {}
        self._since: dict[str, list[int]] = {agent_id: [] for agent_id in self.agents}

    def took(self, effect: Effect, sightings: Sequence[Sighting]) -> None:
        """Take note of an effect that is about to be seen, and by whom."""
        if (effect["source_id"], effect["req_id"]) in self._requests:
            self._own.add(effect["global_seq"])
            return
        for sighting in sightings:
            if sighting.agent_id in self._since:
                self._since[sighting.agent_id].append(sighting.delta["view_seq"])

    def latest_view_seq(self, attachment: Attachment) -> int:
        """Give an agent's latest view_seq, but for those that the list itself has made."""
        agent_id, latest = attachment.agent_id, attachment.view_seq
        before = self._before.get(agent_id)
        if before is None:
            # Were so many of its own seen before it came to this that what was before is not known: then all count.
            others = (view_seq for view_seq in attachment.view_seqs() if view_seq not in self._own)
            before = self._before[agent_id] = next(others, latest)
        return next((view_seq for view_seq in reversed(self._since[agent_id]) if view_seq <= latest), before)


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

    def took(self, effect: Effect, sightings: Sequence[Sighting]) -> None:
        """Tell them of an effect that is about to be seen, and by whom."""
        for each in self._lists:
            each.took(effect, sightings)
