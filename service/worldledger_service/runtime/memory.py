"""Memory of a world's orchestrator: its contents, their size, and eviction.

Source: docs/reference/contracts.md, "Memory". Everything in it can be computed again from the log. (The log itself is
not compacted in this version.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from worldledger.config import MemoryConfig
    from worldledger.views import Views
    from worldledger_service.runtime.attachments import Attachments

#: Bytes that one of each takes, roughly, as measured on a sandbox world with small entities.
_ENTITY: Final = 1_000
_SEEN_ENTITY: Final = 600
_DELTA: Final = 1_000  # besides what is in it
_TOKEN: Final = 700
_REQUEST: Final = 500


class MemoryStats(NamedTuple):
    """The memory of one world in this process, in numbers of objects and roughly in bytes."""

    entities: int
    attached_agents: int
    seen_entities: int
    queued_deltas: int
    kept_deltas: int
    live_tokens: int
    remembered_requests: int
    estimated_bytes: int


class MemoryManager:
    """Estimates the memory in use, and evicts what is not in use."""

    def __init__(
        self,
        config: MemoryConfig,
        *,
        attachments: Attachments,
        views: Callable[[], Views],
        generations: Sized,
        requests: Sized,
    ) -> None:
        self.view_cache_size = config.view_cache_size
        self.max_log_entries = config.max_log_entries
        self.compaction_threshold = config.compaction_threshold
        self._attachments = attachments
        self._views = views
        self._generations = generations
        self._requests = requests

    def evict_old_views(self, agent_handles: Mapping[str, Any] | None = None) -> int:
        """Evict views of agents that are not in use here, beyond ``view_cache_size``; return how many.

        An agent with an open handle, a reader or a live token keeps its view, whatever ``agent_handles`` names.
        """
        del agent_handles
        return self._attachments.evict()

    def estimate_memory_usage(self) -> MemoryStats:
        """Return what is kept now."""
        views = self._views()
        entities = len(views.fold.state.entities)
        seen = sum(views.size(each.agent_id) for each in self._attachments)
        queued = sum(len(subscription) for each in self._attachments for subscription in each.subscriptions)
        kept = sum(each.kept for each in self._attachments)
        tokens, requests = len(self._generations), len(self._requests)
        estimated = (
            entities * _ENTITY
            + seen * _SEEN_ENTITY
            + (queued + kept) * _DELTA
            + sum(each.kept_bytes + sum(reader.size for reader in each.subscriptions) for each in self._attachments)
            + tokens * _TOKEN
            + requests * _REQUEST
        )
        return MemoryStats(entities, len(self._attachments), seen, queued, kept, tokens, requests, estimated)
