"""Quotas: token buckets, and what agents are charged."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worldledger_service.runtime.scheduling import Quotas, TokenBucket

from worldledger.config import MemoryConfig, OrchestratorConfig
from worldledger.errors import QuotaExceededError


class Clock:
    """Seconds, as the test sets them."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def quotas(clock: Clock, **config: Any) -> Quotas:
    """Make the quotas of a configuration."""
    return Quotas(OrchestratorConfig(**config), clock)


def refused(on: Quotas, agent_id: str, req_id: str, tokens: int = 0) -> QuotaExceededError:
    """Return the error of a charge that must be refused."""
    with pytest.raises(QuotaExceededError) as caught:
        on.charge(agent_id, req_id, tokens)
    return caught.value


# -- one bucket --------------------------------------------------------------------------------------------


def test_a_bucket_is_full_at_first_and_refills() -> None:
    """It gives its capacity at once, then what has come in since, and never holds more than its capacity."""
    clock = Clock()
    bucket = TokenBucket(3, 2.0, clock)
    assert [bucket.try_take() for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    clock.now += 0.5
    assert [bucket.try_take(), bucket.try_take()] == [0.0, 0.5]
    clock.now += 100.0
    assert bucket.level == 3.0


def test_more_than_the_capacity_can_never_be_taken() -> None:
    """To wait would not help; nor would it where nothing comes in."""
    assert TokenBucket(3, 2.0, Clock()).try_take(4) == math.inf
    dry = TokenBucket(3, 0.0, Clock())
    assert [dry.try_take(3), dry.try_take(1)] == [0.0, math.inf]


def test_what_is_given_back_can_be_taken_again() -> None:
    """Up to the capacity."""
    bucket = TokenBucket(3, 2.0, Clock())
    bucket.try_take(2)
    bucket.give_back(1)
    assert bucket.level == 2.0
    bucket.give_back(5)
    assert bucket.level == 3.0


def test_nothing_can_always_be_taken() -> None:
    """Not even an empty bucket refuses nothing, and nothing is lost by it."""
    bucket = TokenBucket(3, 2.0, Clock())
    bucket.try_take(3)
    assert bucket.try_take(0) == 0.0
    assert bucket.level == 0.0


def test_a_clock_that_goes_back_gives_and_takes_nothing() -> None:
    """The level stays until the clock is where it was."""
    clock = Clock()
    bucket = TokenBucket(3, 1.0, clock)
    bucket.try_take(2)
    clock.now -= 50.0
    assert bucket.level == 1.0
    clock.now += 51.0
    assert bucket.level == 2.0


@pytest.mark.parametrize(("capacity", "refill"), [(0, 1.0), (1, -1.0), (math.nan, 1.0), (1, math.nan)])
def test_what_makes_no_bucket_is_refused(capacity: float, refill: float) -> None:
    """A bucket holds something and never loses anything."""
    with pytest.raises(ValueError, match="needs"):
        TokenBucket(capacity, refill, Clock())


@given(
    capacity=st.integers(1, 1000),
    rate=st.floats(0.001, 1e6),
    steps=st.lists(st.tuples(st.floats(0.0, 100.0), st.integers(0, 1000)), max_size=60),
)
def test_never_more_than_capacity_and_refill(capacity: int, rate: float, steps: list[tuple[float, int]]) -> None:
    """From any moment on, what is given is at most the capacity and what came in since (within rounding)."""
    clock = Clock()
    bucket = TokenBucket(capacity, rate, clock)
    given: list[tuple[float, int]] = []
    for passed, amount in steps:
        clock.now += passed
        if not bucket.try_take(amount):
            given.append((clock.now, amount))
    for start in range(len(given)):
        total = Fraction(0)
        for at, amount in given[start:]:
            total += amount
            came_in = Fraction(rate) * (Fraction(at) - Fraction(given[start][0]))
            assert total <= (capacity + came_in) * (1 + Fraction(1, 10**6))


@given(
    capacity=st.integers(1, 1000),
    rate=st.floats(0.001, 1e3),
    steps=st.lists(st.tuples(st.floats(0.0, 10.0), st.integers(0, 1000)), max_size=60),
)
def test_to_wait_as_told_is_enough(capacity: int, rate: float, steps: list[tuple[float, int]]) -> None:
    """Whoever waits as long as the bucket says can take what it wanted, and not much sooner."""
    clock = Clock()
    bucket = TokenBucket(capacity, rate, clock)
    for passed, amount in steps:
        clock.now += passed
        wait = bucket.wait_for(amount)
        if amount > capacity:
            assert wait == math.inf
            continue
        if wait > 1e-3:
            clock.now += wait * 0.99
            assert bucket.wait_for(amount) > 0
            clock.now += wait * 0.01
            assert bucket.wait_for(amount) <= 1e-6
            clock.now += 1e-6
        assert bucket.try_take(amount) <= 1e-6


def test_rounding_refuses_nobody() -> None:
    """A wait as told is enough, though ten tenths that came in one by one are a little less than one as floats."""
    clock = Clock()
    clock.now = 0.0
    bucket = TokenBucket(1, 1.0, clock)
    bucket.try_take(1)
    for _ in range(10):
        clock.now += 0.1
    assert bucket.level < 1
    assert bucket.try_take(1) == 0.0


# -- agents ------------------------------------------------------------------------------------------------


def test_without_quotas_nothing_is_charged() -> None:
    """The default configuration limits nobody, and nothing is kept of anybody."""
    on = quotas(Clock())
    for n in range(10_000):
        on.charge("ann", f"r{n}", 10**9)
    assert len(on) == 0
    assert on.status("ann") == []


def test_an_agent_that_submits_too_fast_is_told_when() -> None:
    """The error names agent, quota, limit and the seconds until the next intent."""
    clock = Clock()
    on = quotas(clock, intents_per_s=2.0, intents_burst=3)
    for n in range(3):
        on.charge("ann", f"r{n}")
    error = refused(on, "ann", "r3")
    assert (error.agent_id, error.quota_type, error.limit, error.retry_after_s) == ("ann", "intents", 3, 0.5)
    clock.now += 0.5
    on.charge("ann", "r3")


def test_each_agent_has_its_own() -> None:
    """What one has used up the other has still."""
    on = quotas(Clock(), intents_per_s=1.0)
    on.charge("ann", "r1")
    refused(on, "ann", "r2")
    on.charge("bob", "r2")


def test_llm_tokens_have_a_budget() -> None:
    """It refills in a minute unless said otherwise; more than all of it can never be used at once."""
    clock = Clock()
    on = quotas(clock, token_budget=600)
    on.charge("ann", "r1", 600)
    error = refused(on, "ann", "r2", 10)
    assert (error.quota_type, error.limit, error.retry_after_s) == ("tokens", 600, 1.0)
    on.charge("ann", "r3", 0)
    assert refused(on, "ann", "r4", 601).retry_after_s is None


def test_both_are_charged_or_none() -> None:
    """Where one quota does not last, the other is not touched; the one with the longer wait is named."""
    clock = Clock()
    on = quotas(clock, intents_per_s=1.0, intents_burst=2, token_budget=100, tokens_per_s=1.0)
    on.charge("ann", "r1", 100)
    for _ in range(5):
        error = refused(on, "ann", "r2", 50)
        assert (error.quota_type, error.retry_after_s) == ("tokens", 50.0)
    on.charge("ann", "r3", 0)
    assert refused(on, "ann", "r4", 50).quota_type == "tokens"
    assert refused(on, "ann", "r4", 0).quota_type == "intents"
    clock.now += 49.5
    on.charge("ann", "r5")
    on.charge("ann", "r6")
    error = refused(on, "ann", "r7", 50)
    assert (error.quota_type, error.retry_after_s) == ("intents", 1.0)


def test_a_request_is_charged_once() -> None:
    """A retry is free; one that brings more tokens pays the difference."""
    on = quotas(Clock(), intents_per_s=1.0, token_budget=100)
    for _ in range(5):
        on.charge("ann", "r1", 60)
    for _ in range(3):
        on.charge("ann", "r1", 80)
    assert {each.quota_type: each.remaining for each in on.status("ann")} == {"intents": 0, "tokens": 20}
    assert refused(on, "ann", "r1", 101).quota_type == "tokens"


def test_one_req_id_is_no_way_around() -> None:
    """A flood of retries is charged after all, if far less."""
    on = quotas(Clock(), intents_per_s=1.0, intents_burst=2)
    with pytest.raises(QuotaExceededError):
        for _ in range(100):
            on.charge("ann", "r1")


def test_a_refund_undoes_the_charge() -> None:
    """Then the request is charged anew when it comes again; a refund of something unknown does nothing."""
    on = quotas(Clock(), intents_per_s=1.0, token_budget=100)
    on.charge("ann", "r1", 60)
    on.refund("ann", "r1")
    on.refund("ann", "r1")
    on.refund("bob", "r1")
    assert [each.remaining for each in on.status("ann")] == [1, 100]
    on.charge("ann", "r1", 70)
    assert [each.remaining for each in on.status("ann")] == [0, 30]


def test_the_status_says_what_the_headers_need() -> None:
    """Limit, the window in which it is regained, what remains and when all is back; asking makes no buckets."""
    clock = Clock()
    on = quotas(clock, intents_per_s=2.0, intents_burst=10, token_budget=600)
    assert [tuple(each) for each in on.status("ann")] == [
        ("intents", 10, 5.0, 10, 0.0),
        ("tokens", 600, 60.0, 600, 0.0),
    ]
    assert len(on) == 0
    on.charge("ann", "r1", 6)
    assert [tuple(each) for each in on.status("ann")] == [("intents", 10, 5.0, 9, 0.5), ("tokens", 600, 60.0, 594, 0.6)]


# -- bounds ------------------------------------------------------------------------------------------------


def test_buckets_that_are_full_again_are_dropped() -> None:
    """Agents that have long been quiet take no room once others come."""
    clock = Clock()
    on = quotas(clock, intents_per_s=1.0)
    for n in range(50):
        on.charge(f"agent-{n}", "r")
    assert len(on) == 50
    clock.now += 1.0
    on.charge("ann", "r")
    assert len(on) == 1


def test_the_table_is_bounded() -> None:
    """However many names come, no more than twice max_agents are kept, the most recently charged."""
    on = quotas(Clock(), intents_per_s=1.0, max_agents=5)
    for n in range(100):
        on.charge(f"agent-{n}", "r1")
    assert len(on) == 10
    for n in range(90, 100):
        refused(on, f"agent-{n}", "r2")


def test_who_is_charged_again_stays() -> None:
    """The table forgets those that were charged least recently, whenever they came."""
    on = quotas(Clock(), intents_per_s=1.0, intents_burst=2, max_agents=5)
    on.charge("ann", "r1")
    for n in range(9):
        on.charge(f"agent-{n}", "r1")
    on.charge("ann", "r2")
    on.charge("new", "r1")
    refused(on, "ann", "r3")


def test_remembered_requests_are_bounded() -> None:
    """A request that is forgotten is charged anew: memory has a limit."""
    on = quotas(Clock(), intents_per_s=1.0, intents_burst=100, memory=MemoryConfig(max_remembered_requests=3))
    for n in range(4):
        on.charge("ann", f"r{n}")
    on.charge("ann", "r3")
    assert on.status("ann")[0].remaining == 96
    on.charge("ann", "r0")
    assert on.status("ann")[0].remaining == 95


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["charge", "refund", "pass"]), st.sampled_from("ab"), st.integers(0, 5), st.integers(0, 60)
        ),
        max_size=60,
    )
)
def test_charges_are_exact(steps: list[tuple[str, str, int, int]]) -> None:
    """Charges, retries, refunds and time in any order leave in every bucket what arithmetic says."""
    clock = Clock()
    on = quotas(clock, intents_per_s=1.0, intents_burst=4, token_budget=64, tokens_per_s=2.0)
    intents, tokens = dict.fromkeys("ab", 4.0), dict.fromkeys("ab", 64.0)
    charged: dict[tuple[str, int], list[int]] = {}
    for step, agent, req, amount in steps:
        if step == "pass":
            clock.now += req
            for name in "ab":
                intents[name] = min(4.0, intents[name] + req)
                tokens[name] = min(64.0, tokens[name] + 2.0 * req)
        elif step == "refund":
            on.refund(agent, str(req))
            if (agent, req) in charged:
                intents[agent] = min(4.0, intents[agent] + 1)
                tokens[agent] = min(64.0, tokens[agent] + charged.pop((agent, req))[0])
        else:
            before = charged.get((agent, req))
            anew = before is None or before[1] >= 10
            wanted = amount if anew or before is None else max(0, amount - before[0])
            fits = tokens[agent] >= wanted and intents[agent] >= anew
            try:
                on.charge(agent, str(req), amount)
            except QuotaExceededError:
                assert not fits
                continue
            assert fits
            intents[agent] -= anew
            tokens[agent] -= wanted
            charged[agent, req] = [amount, 0] if anew or before is None else [max(before[0], amount), before[1] + 1]
        for name in "ab":
            left = {each.quota_type: each.remaining for each in on.status(name)}
            assert left == {"intents": intents[name], "tokens": tokens[name]}
