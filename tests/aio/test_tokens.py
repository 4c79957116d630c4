"""Cancel tokens."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from tests.aio.virtual import at_once, settle, virtual
from worldledger.aio import CancelToken


def test_a_token_is_live_until_it_is_cancelled() -> None:
    """It knows whose it is and from where, and has no reason and no time."""
    token = CancelToken("r1", "ann", 7)
    assert (token.req_id, token.agent_id, token.context_seq) == ("r1", "ann", 7)
    assert not token.cancelled
    assert token.reason is None
    assert token.cancelled_at is None
    assert "live" in repr(token)


def test_two_arguments_are_enough() -> None:
    """`CancelToken(req_id, agent_id)` makes a token."""
    assert CancelToken("r1", "ann").context_seq == 0


def test_only_the_first_reason_counts() -> None:
    """Cancelled twice, it keeps the first reason and the first time."""
    now = 3.0
    token = CancelToken("r1", "ann", clock=lambda: now)
    token.cancel("stale_due_to_effect_9")
    now = 4.0
    token.cancel("user_requested")
    assert token.cancelled
    assert token.reason == "stale_due_to_effect_9"
    assert token.cancelled_at == 3.0
    assert "stale_due_to_effect_9" in repr(token)


def test_a_callback_is_called_once_and_sees_the_reason() -> None:
    """It is called in `cancel`, when the token says already why, and not by a second one."""
    token = CancelToken("r1", "ann")
    seen: list[str | None] = []
    token.add_callback(lambda: seen.append(token.reason))
    token.cancel("first")
    assert seen == ["first"]
    token.cancel("second")
    assert seen == ["first"]


def test_a_callback_that_comes_late_is_called_at_once() -> None:
    """Added after the cancellation it is not forgotten."""
    token = CancelToken("r1", "ann")
    token.cancel("over")
    seen: list[str | None] = []
    token.add_callback(lambda: seen.append(token.reason))
    assert seen == ["over"]


def test_a_callback_can_be_taken_back() -> None:
    """Taken back it is not called; taken back twice, or after the cancellation, nothing happens."""
    token = CancelToken("r1", "ann")
    seen: list[int] = []

    def callback() -> None:
        seen.append(1)

    token.add_callback(callback)
    token.remove_callback(callback)
    token.remove_callback(callback)
    token.cancel("over")
    token.remove_callback(callback)
    assert seen == []


def test_a_callback_that_fails_keeps_nobody_from_being_told() -> None:
    """All are called; then its error is raised, and the token is cancelled."""
    token = CancelToken("r1", "ann")
    seen: list[int] = []
    token.add_callback(lambda: seen.append(1))
    token.add_callback(lambda: 1 // 0)
    token.add_callback(lambda: seen.append(2))
    with pytest.raises(ZeroDivisionError):
        token.cancel("over")
    assert seen == [1, 2]
    assert token.cancelled


def test_several_that_fail_are_raised_together() -> None:
    """Their errors come as a group."""
    token = CancelToken("r1", "ann")
    token.add_callback(lambda: 1 // 0)
    token.add_callback(lambda: int("x"))
    with pytest.raises(ExceptionGroup) as caught:
        token.cancel("over")
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError, ValueError]


def test_a_callback_may_cancel_again() -> None:
    """Cancelling from a callback is one cancellation too many, and does nothing."""
    token = CancelToken("r1", "ann")
    token.add_callback(lambda: token.cancel("again"))
    token.cancel("first")
    assert token.reason == "first"


def test_a_cancelled_token_keeps_nothing_alive() -> None:
    """What its callbacks hold is let go, though the token may be remembered for long."""
    token = CancelToken("r1", "ann")

    def callback() -> None:
        pass

    watched = weakref.ref(callback)
    token.add_callback(callback)
    token.cancel("over")
    del callback
    gc.collect()
    assert watched() is None


@virtual
async def test_all_who_wait_are_woken() -> None:
    """`wait_cancelled` returns for everybody, and at once for those who come later."""
    token = CancelToken("r1", "ann")
    waiting = [asyncio.ensure_future(token.wait_cancelled()) for _ in range(3)]
    await settle()
    assert not any(task.done() for task in waiting)
    token.cancel("over")
    await asyncio.gather(*waiting)
    at_once(token.wait_cancelled())
