"""Circuit breakers."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.aio.virtual import at_once, settle, virtual
from worldledger.aio import CircuitBreaker
from worldledger.errors import CircuitBreakerOpenError


class BrokenError(Exception):
    """What is guarded has failed."""


class RefusedError(Exception):
    """What is guarded is well, and says no."""


class Guarded:
    """What a breaker guards, with a clock that the test sets."""

    def __init__(self, threshold: int = 3, timeout: float = 10.0) -> None:
        self.now = 1000.0
        self.calls = 0
        self.breaker = CircuitBreaker(
            threshold, timeout, clock=lambda: self.now, counts=lambda error: isinstance(error, BrokenError)
        )

    @property
    def state(self) -> str:
        """The breaker's state, which mypy takes for what it last was if it knows the possible ones."""
        return self.breaker.state

    async def act(self, error: Exception | None, *, answer: str = "well") -> str:
        """Do what is guarded: give the answer or raise the error."""
        self.calls += 1
        if error is not None:
            raise error
        return answer

    def call(self, error: Exception | None = None) -> str:
        """Call through the breaker: what it gives, or the name of the error."""
        try:
            return at_once(self.breaker.call(self.act, error))
        except (BrokenError, RefusedError, CircuitBreakerOpenError) as raised:
            return type(raised).__name__

    def opened(self) -> Guarded:
        """Fail until the breaker is open."""
        while self.state == "CLOSED":
            self.call(BrokenError())
        return self


def test_calls_go_through_with_their_arguments() -> None:
    """A closed breaker gives what the function gives, and does not yield to the event loop by itself."""
    guarded = Guarded()
    assert at_once(guarded.breaker.call(guarded.act, None, answer="fine")) == "fine"
    assert guarded.state == "CLOSED"


def test_failures_in_a_row_open_it() -> None:
    """At the threshold it opens, and then what is guarded is left alone."""
    guarded = Guarded(threshold=3)
    assert [guarded.call(BrokenError()) for _ in range(3)] == ["BrokenError"] * 3
    assert guarded.state == "OPEN"
    assert guarded.call() == "CircuitBreakerOpenError"
    assert guarded.calls == 3


def test_it_may_be_tried_again_sooner() -> None:
    """What is known to be back is probed by the next call; while it is not open, that says nothing."""
    guarded = Guarded(threshold=1, timeout=10.0)
    guarded.breaker.try_again()
    assert guarded.opened().call() == "CircuitBreakerOpenError"
    guarded.breaker.try_again()
    assert guarded.call(BrokenError()) == "BrokenError"
    assert guarded.call() == "CircuitBreakerOpenError"
    guarded.breaker.try_again()
    assert guarded.call() == "well"
    assert guarded.state == "CLOSED"


def test_a_success_forgets_the_failures() -> None:
    """Failures count only in a row."""
    guarded = Guarded(threshold=3)
    for error in (BrokenError(), BrokenError(), None, BrokenError(), BrokenError()):
        guarded.call(error)
    assert guarded.state == "CLOSED"
    assert guarded.breaker.failure_count == 2


def test_errors_that_do_not_count_change_nothing() -> None:
    """A refusal is neither a failure nor a proof that things are well."""
    guarded = Guarded(threshold=2)
    for error in (RefusedError(), BrokenError(), RefusedError()):
        guarded.call(error)
    assert guarded.breaker.failure_count == 1
    guarded.call(BrokenError())
    assert guarded.state == "OPEN"


def test_it_says_when_to_ask_again() -> None:
    """The error names the seconds that are left until the next probe."""
    guarded = Guarded(timeout=10.0).opened()
    guarded.now += 4.0
    with pytest.raises(CircuitBreakerOpenError) as caught:
        at_once(guarded.breaker.call(guarded.act, None))
    assert caught.value.retry_after_s == 6.0


def test_after_the_timeout_a_success_closes_it() -> None:
    """The first call after the timeout is let through; as it succeeds, everything is as before."""
    guarded = Guarded(timeout=10.0).opened()
    guarded.now += 10.0
    assert guarded.call() == "well"
    assert guarded.state == "CLOSED"
    assert guarded.breaker.failure_count == 0


def test_after_the_timeout_a_failure_opens_it_anew() -> None:
    """A failed probe opens it for the whole timeout again, whatever the threshold."""
    guarded = Guarded(threshold=3, timeout=10.0).opened()
    guarded.now += 10.0
    assert guarded.call(BrokenError()) == "BrokenError"
    assert guarded.state == "OPEN"
    guarded.now += 9.0
    assert guarded.call() == "CircuitBreakerOpenError"
    guarded.now += 1.0
    assert guarded.call() == "well"


def test_a_refusal_as_probe_leaves_it_half_open() -> None:
    """The next call is the next probe."""
    guarded = Guarded().opened()
    guarded.now += 10.0
    assert guarded.call(RefusedError()) == "RefusedError"
    assert guarded.state == "HALF_OPEN"
    assert guarded.call() == "well"
    assert guarded.state == "CLOSED"


@virtual
async def test_there_is_one_probe_at_a_time() -> None:
    """While it is under way others are refused, with a time to ask again."""
    guarded = Guarded(timeout=10.0).opened()
    guarded.now += 10.0
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def slow() -> str:
        return await answer

    probe = asyncio.ensure_future(guarded.breaker.call(slow))
    await settle()
    assert guarded.state == "HALF_OPEN"
    for _ in range(3):
        with pytest.raises(CircuitBreakerOpenError) as caught:
            await guarded.breaker.call(guarded.act, None)
        assert caught.value.retry_after_s is not None
        assert 0 < caught.value.retry_after_s <= 10.0
    answer.set_result("late")
    assert await probe == "late"
    assert guarded.state == "CLOSED"
    assert guarded.calls == 3


@virtual
async def test_a_cancelled_probe_frees_the_place() -> None:
    """A cancellation is no failure, and the next call probes instead."""
    guarded = Guarded().opened()
    failures = guarded.breaker.failure_count
    guarded.now += 10.0
    probe = asyncio.ensure_future(guarded.breaker.call(asyncio.Event().wait))
    await settle()
    probe.cancel()
    await settle()
    assert probe.cancelled()
    assert guarded.breaker.failure_count == failures
    assert await guarded.breaker.call(guarded.act, None) == "well"
    assert guarded.state == "CLOSED"


@virtual
async def test_a_cancelled_call_is_no_failure() -> None:
    """Callers that go away do not open it."""
    guarded = Guarded(threshold=1)
    task = asyncio.ensure_future(guarded.breaker.call(asyncio.Event().wait))
    await settle()
    task.cancel()
    await settle()
    assert guarded.state == "CLOSED"
    assert guarded.breaker.failure_count == 0


@virtual
@pytest.mark.parametrize("late", [None, BrokenError()])
async def test_results_of_an_earlier_time_do_not_count(late: Exception | None) -> None:
    """A call that began before it opened neither closes it nor keeps it open longer, nor decides for a probe."""
    guarded = Guarded(threshold=1, timeout=10.0)
    ready, probed = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        await ready.wait()
        return await guarded.act(late)

    async def probing() -> str:
        await probed.wait()
        return "well"

    early = [asyncio.ensure_future(guarded.breaker.call(slow)) for _ in range(2)]
    await settle()
    guarded.opened()
    failed_at = guarded.breaker.last_failure_time
    guarded.now += 10.0
    probe = asyncio.ensure_future(guarded.breaker.call(probing))
    await settle()
    ready.set()
    await asyncio.gather(*early, return_exceptions=True)
    assert guarded.state == "HALF_OPEN"
    assert guarded.breaker.last_failure_time == failed_at
    with pytest.raises(CircuitBreakerOpenError):
        await guarded.breaker.call(guarded.act, None)
    probed.set()
    assert await probe == "well"
    assert guarded.state == "CLOSED"


@pytest.mark.parametrize(("threshold", "timeout"), [(0, 1.0), (1, -1.0), (1, float("inf")), (1, float("nan"))])
def test_what_makes_no_breaker_is_refused(threshold: int, timeout: float) -> None:
    """A threshold below one or a timeout that is no time cannot be meant."""
    with pytest.raises(ValueError, match="needs"):
        CircuitBreaker(threshold, timeout)


@given(
    threshold=st.integers(1, 4),
    steps=st.lists(st.tuples(st.sampled_from(["well", "broken", "refused"]), st.sampled_from([0.0, 3.0, 10.0]))),
)
def test_it_follows_the_table(threshold: int, steps: list[tuple[str, float]]) -> None:
    """For calls one after another it does what the table of states says."""
    guarded = Guarded(threshold, 10.0)
    state, failures, opened_at = "CLOSED", 0, 0.0
    for outcome, passed in steps:
        guarded.now += passed
        if state == "OPEN" and guarded.now - opened_at >= 10.0:
            state = "HALF_OPEN"
        error = {"well": None, "broken": BrokenError(), "refused": RefusedError()}[outcome]
        answer = guarded.call(error)
        if state == "OPEN":
            assert answer == "CircuitBreakerOpenError"
        elif outcome == "well":
            assert answer == "well"
            state, failures = "CLOSED", 0
        elif outcome == "broken":
            failures += 1
            if state == "HALF_OPEN" or failures >= threshold:
                state, opened_at = "OPEN", guarded.now
        assert guarded.state == state
        assert guarded.breaker.failure_count == failures
