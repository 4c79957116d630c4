"""How a world's agents are served: quotas, waiting, staleness, delivery and memory.

Source: docs/reference/intents.md, "Configuration"; docs/reference/contracts.md, "Memory". A world may have a
configuration of its own, which then stands in its genesis for ever (``NewWorld.orchestrator``).
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from worldledger.canonical import MAX_INT, child
from worldledger.drafts import MAX_PRIORITY
from worldledger.errors import InvalidConfigError
from worldledger.staleness import InterruptPolicy, WorldStaleness

#: The outcomes of an intent for which there is no room.
BackpressurePolicy: TypeAlias = Literal["defer", "shed_oldest", "drop_newest"]

#: Seconds in which a budget of LLM tokens refills without ``tokens_per_s``.
REFILL_SECONDS: Final = 60.0
#: Longest time that can be set, in milliseconds: a day.
_DAY: Final = 86_400_000.0
_MANY: Final = 100_000_000

_STRICT: Final = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)


class MemoryConfig(BaseModel):
    """What one process keeps in memory of a world. What is let go can be made again."""

    model_config = _STRICT

    max_log_entries: int = Field(
        default=10_000,
        ge=1,
        le=_MANY,
        description="For the compaction of a later version; nothing goes by it yet.",
    )
    view_cache_size: int = Field(default=1000, ge=1, le=_MANY, description="Most views kept for agents not attached.")
    compaction_threshold: float = Field(
        default=0.8,
        gt=0.0,
        le=1.0,
        description="Share of `max_log_entries` that a compaction is to leave; nothing goes by it yet.",
    )
    max_tokens: int = Field(default=10_000, ge=1, le=_MANY, description="Most cancel tokens kept.")
    max_remembered_requests: int = Field(
        default=10_000, ge=1, le=_MANY, description="Most answers to requests kept; the log has them all."
    )


class OrchestratorConfig(BaseModel):
    """How a world's agents are served. Quotas and waiting count per process."""

    model_config = _STRICT

    max_agents: int = Field(default=1000, ge=1, le=1_000_000, description="Most agents registered in the world.")
    staleness_threshold: int | None = Field(
        default=0,
        ge=0,
        le=MAX_INT,
        description="Sightings that an agent may have after the view that an intent or a generation was made from, "
        "before that is stale; null: any number.",
    )
    interrupt_policy: InterruptPolicy = Field(
        default="always",
        description="Which sightings count: `always` all of them, `only_conflict` those that concern what the agent is "
        "about to do.",
    )
    max_staleness_threshold: int | None = Field(
        default=None,
        ge=0,
        le=MAX_INT,
        description="Largest `staleness_threshold` of the world, an agent, an intent or a generation, and null is "
        "larger than any; null: there is no largest.",
    )
    debounce_ms: float = Field(
        default=0.0,
        ge=0.0,
        le=_DAY,
        description="An agent's first stale generation is cancelled at once; for so many milliseconds after it further "
        "ones are held, and looked at again when they are over.",
    )
    deadline_ms: float = Field(
        default=0.0, ge=0.0, le=_DAY, description="Longest time an intent may wait, in milliseconds; 0: any."
    )
    token_budget: int = Field(
        default=0, ge=0, le=MAX_INT, description="LLM tokens (payload.token_count) an agent may use at once; 0: any."
    )
    tokens_per_s: float | None = Field(
        default=None, gt=0.0, le=1e15, description="LLM tokens regained per second; null: the budget in a minute."
    )
    intents_per_s: float = Field(
        default=0.0, ge=0.0, le=1e9, description="Intents an agent may submit per second; 0: any number."
    )
    intents_burst: int | None = Field(
        default=None, ge=1, le=_MANY, description="Intents an agent may submit at once; null: those of one second."
    )
    backpressure_policy: BackpressurePolicy = Field(
        default="defer",
        description="What happens when too many wait: `defer` lets the newest wait for room, `shed_oldest` lets the "
        "longest waiting go, `drop_newest` refuses the newest.",
    )
    default_priority: int = Field(
        default=0,
        ge=-MAX_PRIORITY,
        le=MAX_PRIORITY,
        description="Priority of an intent or draft that has none; higher is first.",
    )
    max_pending: int = Field(default=10_000, ge=1, le=_MANY, description="Most intents of the world that may wait.")
    max_pending_per_agent: int = Field(
        default=1000, ge=1, le=_MANY, description="Most intents of one agent that may wait."
    )
    max_in_flight: int = Field(
        default=256, ge=1, le=_MANY, description="Most intents being judged and written at once."
    )
    ageing_ms: float = Field(
        default=1000.0,
        ge=0.0,
        le=_DAY,
        description="A wait that raises an intent's priority by one, in milliseconds; 0: it is never raised.",
    )
    view_digest_every: int = Field(
        default=1000, ge=0, le=MAX_INT, description="Effects between two ViewDigest effects of an agent; 0: none."
    )
    max_queued_deltas: int = Field(
        default=1000,
        ge=1,
        le=_MANY,
        description="Most observations queued for one reader; beyond, the oldest collapse.",
    )
    max_patch_ops: int = Field(
        default=200,
        ge=2,
        le=_MANY,
        description="Most operations of an observation's patch; one with more comes as the whole view instead.",
    )
    record_rejections: bool | None = Field(
        default=None,
        description="Whether what validator or ruleset refuse becomes IntentRejected; null: as the ruleset says.",
    )
    breaker_failures: int = Field(
        default=1,
        ge=1,
        le=_MANY,
        description="Appends in a row that fail, each tried again until its deadline, before the store is left alone.",
    )
    breaker_recovery_s: float = Field(
        default=5.0, gt=0.0, le=86_400.0, description="Seconds that it is left alone before it is tried again."
    )
    authority_silence_s: float | None = Field(
        default=None,
        gt=0.0,
        le=86_400.0,
        description="Seconds without a tick after which an adapter that has the time authority counts as silent; "
        "null: however long.",
    )
    memory: MemoryConfig = Field(default=MemoryConfig(), description="What one process keeps in memory.")

    @model_validator(mode="after")
    def _within_its_maximum(self) -> Self:
        most, wanted = self.max_staleness_threshold, self.staleness_threshold
        if most is not None and (wanted is None or wanted > most):
            told = "null" if wanted is None else wanted
            raise ValueError(f"staleness_threshold {told} exceeds max_staleness_threshold, {most}")
        return self

    @property
    def staleness(self) -> WorldStaleness:
        """What makes stale what agents are about to do, until an effect says otherwise."""
        return WorldStaleness(self.staleness_threshold, self.interrupt_policy, self.max_staleness_threshold)

    @property
    def token_refill_per_s(self) -> float:
        """LLM tokens that an agent regains per second; 0.0 if there is no budget."""
        return self.token_budget / REFILL_SECONDS if self.tokens_per_s is None else self.tokens_per_s

    @property
    def intent_capacity(self) -> int:
        """How many intents an agent may submit at once, where ``intents_per_s`` sets a quota."""
        return max(1, math.ceil(self.intents_per_s)) if self.intents_burst is None else self.intents_burst


def read_config(value: Any, path: str = "$.orchestrator") -> OrchestratorConfig:
    """Read a configuration from a JSON value, such as a genesis has; missing fields have their defaults.

    Raises InvalidConfigError with the JSON path of the first thing that is wrong.
    """
    try:
        return OrchestratorConfig.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        for key in first["loc"]:
            path = child(path, key)
        raise InvalidConfigError(f"{path}: {first['msg']}", path=path) from None


def default_priority_of(value: Any) -> int:
    """Return the ``default_priority`` of a configuration as a genesis has it, or the default if it has none.

    It raises nothing: an unusable genesis must not prevent effects from being appended.
    """
    found = value.get("default_priority") if isinstance(value, dict) else None
    return found if type(found) is int and abs(found) <= MAX_PRIORITY else 0
