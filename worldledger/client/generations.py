"""The generations of one link: their tokens live here, and the service is told of them as often as it takes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

from worldledger.aio import CancelToken
from worldledger.errors import RequestConflictError, SimulationError

#: Reason of the tokens that a stopping service cancels: here they are issued again to whoever comes after it.
_STOPPED: Final = "orchestrator_closed"

#: What is told of a generation that was stale.
_DETAILS: Final = frozenset({"setting", "staleness_threshold", "interrupt_policy"})

log = logging.getLogger("worldledger.client")


class Generations:
    """The live tokens of one agent's link.

    - ``ask`` sends a message of a type and gives its id
    - ``cancelled`` is told of each token that was cancelled here, so that the service hears of it
    - ``ended`` is told of each token that is live no longer
    - ``ended_since`` reads from the log which generations were cancelled after a seq, and why
    - ``submitted`` gives the req_ids of intents that wait for their answer
    """

    def __init__(
        self,
        agent_id: str,
        *,
        ask: Callable[[str, Mapping[str, Any]], int],
        cancelled: Callable[[CancelToken], None],
        ended: Callable[[CancelToken], None],
        ended_since: Callable[[int], Awaitable[Mapping[str, str]]],
        submitted: Callable[[], Collection[str | None]],
    ) -> None:
        self.live: dict[str, CancelToken] = {}
        #: what the service is told of each besides its context
        self._stated: dict[str, Mapping[str, Any]] = {}
        self._agent_id = agent_id
        self._ask = ask
        self._cancelled = cancelled
        self._ended = ended
        self._ended_since = ended_since
        self._submitted = submitted
        #: tokens whose context is where the connection begins
        self._unplaced: set[str] = set()
        self._asked: dict[int, CancelToken] = {}
        self._met = False
        self._resuming: asyncio.Task[None] | None = None

    def issue(self, req_id: str, context_seq: int | None, stated: Mapping[str, Any] | None = None) -> CancelToken:
        """Begin a generation; its token is live at once. The same again gives the same token.

        Without a context it is that at which the connection will begin. ``stated``: what else the service is told of
        it. Raises RequestConflictError where it is live with another context.
        """
        token = self.live.get(req_id)
        if token is not None:
            if context_seq not in {None, token.context_seq}:
                what = f"the generation {req_id!r} is under way, from the view at {token.context_seq}"
                raise RequestConflictError(what, req_id=req_id, context_seq=token.context_seq)
            return token
        token = self.live[req_id] = CancelToken(req_id, self._agent_id, context_seq or 0)
        self._stated[req_id] = stated or {}
        token.add_callback(lambda: self._cancelled_here(token))
        if context_seq is None:
            self._unplaced.add(req_id)
        else:
            self._send(token)
        return token

    def over(self, req_id: str) -> bool:
        """Take note that a generation is live no longer; tell whether it was."""
        token = self.live.pop(req_id, None)
        if token is None:
            return False
        self._unplaced.discard(req_id)
        self._stated.pop(req_id, None)
        self._ended(token)
        return True

    def cancel_all(self, reason: str) -> None:
        """Cancel what is live."""
        for token in list(self.live.values()):
            _cancel(token, reason)

    # -- what the service says -----------------------------------------------------------------------------

    def greeted(self, view_seq: int) -> None:
        """Tell a service that has greeted of the generations that are live, unless it knows that they are not."""
        for req_id in self._unplaced & self.live.keys():
            self.live[req_id].context_seq = view_seq
        self._unplaced.clear()
        self._asked.clear()
        if self._met and self.live:
            self._resuming = asyncio.get_running_loop().create_task(self._resume())
        else:
            self._send_all()
        self._met = True

    def cut(self) -> None:
        """Take note that the connection is lost."""
        if self._resuming is not None:
            self._resuming.cancel()

    def cancelled_there(self, req_id: str, reason: str | None, said: Mapping[str, Any] | None = None) -> None:
        """Take note that the service has cancelled a generation, and what it has ``said`` of that."""
        token = self.live.get(req_id)
        if token is not None and reason != _STOPPED:
            self.over(req_id)
            token.details = {name: value for name, value in (said or {}).items() if name in _DETAILS}
            _cancel(token, reason or "cancelled")

    def answered(self, number: int) -> None:
        """Take note that the service has heard of a generation."""
        self._asked.pop(number, None)

    def refused(self, number: int, error: SimulationError) -> bool:
        """Cancel the generation that the service refuses; tell whether the message was about one."""
        token = self._asked.pop(number, None)
        if token is None:
            return False
        if self.live.get(token.req_id) is token:
            self.over(token.req_id)
            _cancel(token, f"refused: {error.code}")
        return True

    # -- inside --------------------------------------------------------------------------------------------

    async def _resume(self) -> None:
        """Look what became of the generations while the connection was lost, and issue the others again."""
        since = min(token.context_seq for token in self.live.values())
        try:
            ended = await self._ended_since(since)
        except SimulationError as error:
            log.warning("generations of %s are taken for live: %s", self._agent_id, error)
            ended = {}
        for req_id, reason in ended.items():
            self.cancelled_there(req_id, reason)
        self._send_all()

    def _send_all(self) -> None:
        submitted = self._submitted()
        for token in self.live.values():
            if token.req_id not in submitted:  # else all there is to it is whether the intent is accepted
                self._send(token)

    def _send(self, token: CancelToken) -> None:
        stated = self._stated.get(token.req_id, {})
        number = self._ask("generation", {"req_id": token.req_id, "context_seq": token.context_seq, **stated})
        self._asked[number] = token

    def _cancelled_here(self, token: CancelToken) -> None:
        if self.live.get(token.req_id) is token and self.over(token.req_id):
            self._cancelled(token)


def _cancel(token: CancelToken, reason: str) -> None:
    """Cancel a token; what its owner's callbacks raise is told, and harms nobody else."""
    try:
        token.cancel(reason)
    except Exception:
        log.exception("a callback of %r failed", token)
