"""Quotas, the stage after idempotency and staleness: how many intents and LLM tokens an agent may use.

Each quota of each agent is a token bucket. They count in one process and start full.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from worldledger.config import OrchestratorConfig
from worldledger.errors import QuotaExceededError

QuotaType: TypeAlias = Literal["intents", "tokens"]

#: Share of the capacity (or of 1) that may be missing in what still counts as enough. Sums of floats are not exact, and
#: a caller who waited as long as it was told must not be refused for that. The debt stays in the bucket.
_SLACK: Final = 1e-9
#: How often a request may come again before it is charged anew. Retries are free, but one req_id is no way around.
_RETRIES: Final = 10


class TokenBucket:
    """Holds up to ``capacity``, is full at first, and refills by ``refill_per_s`` each second of ``clock``.

    In any time of t seconds it gives at most ``capacity + refill_per_s * t``, less what was given back.
    """

    __slots__ = ("_at", "_clock", "_level", "capacity", "refill_per_s")

    def __init__(self, capacity: float, refill_per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        if not capacity > 0 or not refill_per_s >= 0:
            raise ValueError("a bucket needs a capacity above 0 and a refill of at least 0")
        self.capacity: Final = capacity
        self.refill_per_s: Final = refill_per_s
        self._clock = clock
        self._level = float(capacity)
        self._at = clock()

    @property
    def level(self) -> float:
        """How much can be taken now."""
        now = self._clock()
        if now > self._at:
            self._level = min(self.capacity, self._level + (now - self._at) * self.refill_per_s)
            self._at = now
        return self._level

    def wait_for(self, amount: float) -> float:
        """Return the seconds until so much can be taken: 0.0 for now, infinity for never."""
        missing = amount - self.level
        if missing <= _SLACK * max(self.capacity, 1.0) or amount <= 0:
            return 0.0
        if amount > self.capacity or not self.refill_per_s:
            return math.inf
        return missing / self.refill_per_s

    def try_take(self, amount: float = 1.0) -> float:
        """Take so much and give 0.0, or take nothing and give the seconds to wait (infinity: it never can be)."""
        wait = self.wait_for(amount)
        if not wait:
            self.spend(amount)
        return wait

    def spend(self, amount: float) -> None:
        """Take what `wait_for` has just said can be taken."""
        self._level -= max(amount, 0)

    def give_back(self, amount: float) -> None:
        """Put back what was taken and not used; what is over the capacity is lost."""
        self._level = min(self.capacity, self.level + amount)


class QuotaStatus(NamedTuple):
    """One quota of an agent as it stands (the fields of RateLimit-Policy and RateLimit, draft-ietf-httpapi-ratelimit).

    ``limit``: how many can be used at once; ``window_s``: seconds in which so many are regained; ``remaining``: how
    many can be used now; ``reset_s``: seconds until all can be used again.
    """

    quota_type: QuotaType
    limit: int
    window_s: float
    remaining: int
    reset_s: float


class _Charge:
    __slots__ = ("retries", "tokens")

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.retries = 0


class Quotas:
    """The quotas of all agents of one world: ``intents_per_s`` and ``token_budget`` of its configuration.

    A request is charged once, however often it is tried again (short of a flood of retries). Bounded: buckets that have
    refilled are dropped, and so are the least recently used ones beyond twice ``max_agents``; of past requests as many
    are known as ``memory.max_remembered_requests``.
    """

    def __init__(self, config: OrchestratorConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: capacity and refill of each quota that is set
        self._rates: dict[QuotaType, tuple[int, float]] = {}
        if config.intents_per_s:
            self._rates["intents"] = (config.intent_capacity, config.intents_per_s)
        if config.token_budget:
            self._rates["tokens"] = (config.token_budget, config.token_refill_per_s)
        self._most_agents = 2 * config.max_agents
        self._most_charges = config.memory.max_remembered_requests
        self._agents: OrderedDict[str, dict[QuotaType, TokenBucket]] = OrderedDict()
        self._charges: OrderedDict[tuple[str, str], _Charge] = OrderedDict()

    def __len__(self) -> int:
        """Return how many agents have buckets."""
        return len(self._agents)

    def charge(self, agent_id: str, req_id: str, tokens: int = 0) -> bool:
        """Charge a request of ``tokens`` LLM tokens, unless it was charged before; a larger one pays the difference.

        Tell whether it is charged by this call.
        Raises QuotaExceededError, and charges nothing, if a quota does not last: the one that takes longest to refill.
        Its ``retry_after_s`` is None if it never lasts for so many tokens.
        """
        if not self._rates:
            return False
        key = (agent_id, req_id)
        charge = self._charges.get(key)
        if charge is None or charge.retries >= _RETRIES:
            self._take(agent_id, 1, tokens)
            self._remember(key, _Charge(tokens))
            return True
        if tokens > charge.tokens:
            self._take(agent_id, 0, tokens - charge.tokens)
            charge.tokens = tokens
        charge.retries += 1
        self._charges.move_to_end(key)
        return False

    def refund(self, agent_id: str, req_id: str) -> None:
        """Take back the charge of a request that came to nothing by no fault of the agent; unknown ones are let be."""
        charge = self._charges.pop((agent_id, req_id), None)
        buckets = self._agents.get(agent_id)
        if charge is None or buckets is None:
            return
        for quota_type, bucket in buckets.items():
            bucket.give_back(1 if quota_type == "intents" else charge.tokens)

    def status(self, agent_id: str) -> list[QuotaStatus]:
        """Return the agent's quotas as they stand; nothing where none is set."""
        buckets = self._agents.get(agent_id)
        result = []
        for quota_type, (capacity, refill_per_s) in self._rates.items():
            level = float(capacity) if buckets is None else buckets[quota_type].level
            result.append(
                QuotaStatus(
                    quota_type,
                    limit=capacity,
                    window_s=capacity / refill_per_s,
                    remaining=max(0, math.floor(level + _SLACK * capacity)),
                    reset_s=(capacity - level) / refill_per_s,
                )
            )
        return result

    def _take(self, agent_id: str, intents: int, tokens: int) -> None:
        """Take from both buckets or from none."""
        buckets = self._agents.get(agent_id)
        if buckets is None:
            buckets = self._add(agent_id)
        else:
            self._agents.move_to_end(agent_id)
        longest = 0.0
        lacking: QuotaType = "intents"
        for quota_type, bucket in buckets.items():
            wait = bucket.wait_for(intents if quota_type == "intents" else tokens)
            if wait > longest:
                longest, lacking = wait, quota_type
        if longest:
            limit = self._rates[lacking][0]
            raise QuotaExceededError(agent_id, lacking, limit, None if math.isinf(longest) else longest)
        for quota_type, bucket in buckets.items():
            bucket.spend(intents if quota_type == "intents" else tokens)

    def _add(self, agent_id: str) -> dict[QuotaType, TokenBucket]:
        """Make an agent's buckets; for them go those of others that are as good as new, the longest unused first."""
        while self._agents:
            oldest = next(iter(self._agents))
            full = all(bucket.level >= bucket.capacity for bucket in self._agents[oldest].values())
            if not full and len(self._agents) < self._most_agents:
                break
            del self._agents[oldest]
        buckets = {name: TokenBucket(*rate, self._clock) for name, rate in self._rates.items()}
        self._agents[agent_id] = buckets
        return buckets

    def _remember(self, key: tuple[str, str], charge: _Charge) -> None:
        self._charges[key] = charge
        self._charges.move_to_end(key)
        if len(self._charges) > self._most_charges:
            self._charges.popitem(last=False)
