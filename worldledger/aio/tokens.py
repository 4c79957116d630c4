"""Cancel tokens: they tell a running generation to stop. Source: docs/reference/contracts.md, "Cancel tokens"."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any


class CancelToken:
    """Tells one generation of one agent to stop, once and for a reason.

    ``context_seq`` is the view_seq that the generation began from; ``reason`` is why it was cancelled and
    ``cancelled_at`` when, in seconds of ``clock``; both are None before that. If it was stale, ``details`` name the
    setting by which it was, the setting's value and the interrupt policy; otherwise they are empty. From another
    thread, cancel it by ``loop.call_soon_threadsafe(token.cancel, reason)``.
    """

    __slots__ = (
        "_callbacks", "_cancelled", "_clock", "agent_id", "cancelled_at", "context_seq", "details", "reason", "req_id",
    )  # fmt: skip

    def __init__(
        self, req_id: str, agent_id: str, context_seq: int = 0, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.req_id = req_id
        self.agent_id = agent_id
        self.context_seq = context_seq
        self.reason: str | None = None
        self.details: dict[str, Any] = {}
        self.cancelled_at: float | None = None
        self._clock = clock
        self._cancelled = asyncio.Event()
        self._callbacks: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        what = f"cancelled: {self.reason!r}" if self.cancelled else "live"
        return f"<CancelToken {self.req_id!r} of {self.agent_id!r} at {self.context_seq}, {what}>"

    @property
    def cancelled(self) -> bool:
        """True once the generation is to stop. It is cheap: check it before every generated token."""
        return self._cancelled.is_set()

    def cancel(self, reason: str) -> None:
        """Cancel the generation; only the first reason counts, and cancelling again does nothing.

        All callbacks have been called when this returns. If callbacks raise, the others are still called first; then
        the error is raised, several of them as an ExceptionGroup.
        """
        if self._cancelled.is_set():
            return
        self.reason = reason
        self.cancelled_at = self._clock()
        self._cancelled.set()
        callbacks, self._callbacks = self._callbacks, []
        errors: list[Exception] = []
        for callback in callbacks:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - raised below, when all have been told
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup(f"callbacks of {self!r} failed", errors)

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Register a callback for the moment of cancellation; it is called at once if that has passed."""
        if self._cancelled.is_set():
            callback()
        else:
            self._callbacks.append(callback)

    def remove_callback(self, callback: Callable[[], object]) -> None:
        """Remove a callback; nothing happens if it is not registered."""
        if callback in self._callbacks:
            self._callbacks.remove(callback)

    async def wait_cancelled(self) -> None:
        """Wait until the token is cancelled."""
        await self._cancelled.wait()
