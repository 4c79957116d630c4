"""How often models are asked, and for how many tokens, in a minute: for each agent, and for all of a world together."""

from __future__ import annotations

import time
from collections.abc import Iterator

from limits import RateLimitItem, RateLimitItemPerMinute
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import FixedWindowRateLimiter

from worldledger.llm.persona import Budget


class Budgets:
    """What the agents of this process may use; ``world`` is the budget that the agents of one world share.

    A minute begins with the first use. Tokens are known when they are used: an answer may exceed what is left, and the
    next one waits the longer.
    """

    def __init__(self, world: Budget | None = None) -> None:
        self._world = world or Budget()
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    async def take(self, world_id: str, agent_id: str, own: Budget) -> bool:
        """Return whether a model may be asked for an agent now; if so, that is one call."""
        for _, item, names in self._items(world_id, agent_id, own):
            if not await self._limiter.test(item, *names):
                return False
        for calls, item, names in self._items(world_id, agent_id, own):
            if calls:
                await self._limiter.hit(item, *names)
        return True

    async def spend(self, world_id: str, agent_id: str, own: Budget, tokens: int) -> None:
        """Count the tokens of an answer."""
        for calls, item, names in self._items(world_id, agent_id, own):
            if not calls and tokens > 0:
                await self._limiter.hit(item, *names, cost=tokens)

    async def used_up(self, world_id: str, agent_id: str, own: Budget) -> tuple[float, str]:
        """Return the seconds until a model may be asked again, and the budget, in words, that it waits for."""
        longest, what = 0.0, "a budget"
        for calls, item, names in self._items(world_id, agent_id, own):
            stats = await self._limiter.get_window_stats(item, *names)
            seconds = stats.reset_time - time.time()
            if stats.remaining <= 0 and seconds > longest:
                shared = " of all agents together" if "world" in names[:2] else ""
                unit = ("call" if calls else "token") + ("" if item.amount == 1 else "s")
                longest, what = seconds, f"{item.amount} {unit} a minute{shared}"
        return longest, what

    def _items(
        self, world_id: str, agent_id: str, own: Budget
    ) -> Iterator[tuple[bool, RateLimitItem, tuple[str, ...]]]:
        """Return each bound: whether it counts calls, and whose it is."""
        for budget, names in ((own, ("agent", world_id, agent_id)), (self._world, ("world", world_id))):
            if budget.calls_per_minute is not None:
                yield True, RateLimitItemPerMinute(budget.calls_per_minute), ("calls", *names)
            if budget.tokens_per_minute is not None:
                yield False, RateLimitItemPerMinute(budget.tokens_per_minute), ("tokens", *names)
