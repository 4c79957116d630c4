"""The links of one world's agents, and the generations on them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from worldledger.aio import CancelToken
from worldledger.client.link import Link
from worldledger.client.queueing import DeltaQueue
from worldledger.client.transport import Transport, moment_params, path_of
from worldledger.core_kinds import GENERATION_CANCELLED_KIND, GENERATION_STARTED_KIND
from worldledger.deltas import View
from worldledger.errors import UnknownGenerationError
from worldledger.time_authority import Silence

#: Generations that have ended and are still told of, and effects that are read at once.
_REMEMBERED: Final = 1000
_PAGE: Final = 1000


class Links:
    """Opens links, finds the one to use for an agent, and knows every generation that was begun here."""

    def __init__(self, transport: Transport, world_id: str) -> None:
        self._transport = transport
        self._path = path_of("v1", "worlds", world_id)
        self._links: dict[str, list[Link]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._ended: OrderedDict[tuple[str, str], CancelToken] = OrderedDict()
        self._listeners: list[Callable[[Silence], None]] = []
        self._silent_seq = 0

    def open(self, agent_id: str, view_seq: int | None = None, receive: DeltaQueue | None = None) -> Link:
        """Open a link whose observations go on after a view (None: from now on, with the view to begin with).

        Raises ServiceUnavailableError once the client is closed.
        """
        self._transport.check_open()
        address = f"ws{self._transport.url.removeprefix('http')}{self._path}{path_of('agents', agent_id, 'ws')}"
        link = Link(
            address,
            agent_id,
            view_seq,
            view_at=lambda seq: self.view(agent_id, seq, None),
            receive=receive,
            ended=self._note_end,
            ended_since=lambda seq: self._ended_since(agent_id, seq),
            closed=self._note_closed,
            silent=self._note_silence,
        )
        self._links.setdefault(agent_id, []).append(link)
        return link

    def of(self, agent_id: str, req_id: str | None = None) -> Link | None:
        """Return the link to use for an agent: the one with this generation if there is one, else any that is open."""
        found = self._links.get(agent_id, [])
        return next((link for link in found if req_id in link.tokens), found[0] if found else None)

    async def view(self, agent_id: str, at_seq: int | None, at: str | None) -> View:
        """Fetch an agent's view."""
        params = moment_params(at_seq, at)
        answer = await self._transport.call("GET", f"{self._path}{path_of('agents', agent_id, 'view')}", params=params)
        return View.model_validate(answer.value)

    # -- time ----------------------------------------------------------------------------------------------

    def on_silence(self, listener: Callable[[Silence], None]) -> Callable[[], None]:
        """Have a function called whenever the time authority falls silent; what is returned ends that."""
        self._listeners.append(listener)

        def remove() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return remove

    def _note_silence(self, silence: Silence) -> None:
        """Tell of a silence, once, though every link and every new connection says so."""
        if silence.global_seq > self._silent_seq:
            self._silent_seq = silence.global_seq
            for listener in list(self._listeners):
                listener(silence)

    # -- generations ---------------------------------------------------------------------------------------

    def issue(
        self, agent_id: str, req_id: str, context_seq: int | None, stated: Mapping[str, Any] | None = None
    ) -> CancelToken:
        """Begin a generation, over a link of its own if the agent has none."""
        return (self.of(agent_id, req_id) or self.open(agent_id)).issue(req_id, context_seq, stated)

    def context_of(self, agent_id: str, req_id: str) -> int | None:
        """Return the context of a generation that is live here, if it is and that is known."""
        token = self._live(agent_id, req_id)
        return None if token is None or not token.context_seq else token.context_seq

    def generation(self, agent_id: str, req_id: str) -> CancelToken | None:
        """Return the token of a generation that was begun here, also for a while after it has ended."""
        return self._live(agent_id, req_id) or self._ended.get((agent_id, req_id))

    async def cancel(self, agent_id: str, req_id: str, reason: str) -> None:
        """Cancel a generation, wherever it runs; one that does not run here is cancelled as ``user_requested``."""
        token = self._live(agent_id, req_id)
        if token is not None:
            token.cancel(reason)
        else:
            await self._transport.call("DELETE", self._generation(agent_id, req_id))

    async def finish(self, agent_id: str, req_id: str) -> bool:
        """Take note that a generation has ended; return False if none of that req_id is live."""
        if self._live(agent_id, req_id) is not None:
            self.over(agent_id, req_id)
            return True
        ended = self._ended.get((agent_id, req_id))
        if ended is not None:
            return False
        try:
            answer = await self._transport.call("GET", self._generation(agent_id, req_id))
            if answer.value["cancelled"]:
                return False
            await self._transport.call("POST", f"{self._generation(agent_id, req_id)}/finish")
        except UnknownGenerationError:
            return False
        return True

    def over(self, agent_id: str, req_id: str) -> None:
        """Take note that a generation has come to its end, if it is live here."""
        link = self.of(agent_id, req_id)
        if link is not None:
            link.finish(req_id)

    def _live(self, agent_id: str, req_id: str) -> CancelToken | None:
        return next((link.tokens[req_id] for link in self._links.get(agent_id, []) if req_id in link.tokens), None)

    def _generation(self, agent_id: str, req_id: str) -> str:
        return f"{self._path}{path_of('agents', agent_id, 'generations', req_id)}"

    def _note_end(self, token: CancelToken) -> None:
        key = (token.agent_id, token.req_id)
        self._ended[key] = token
        self._ended.move_to_end(key)
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    async def _ended_since(self, agent_id: str, after_seq: int) -> dict[str, str]:
        """Read from the log which of an agent's generations are cancelled, and why: its last word on each counts."""
        ended: dict[str, str] = {}
        params: dict[str, Any] = {"source_id": agent_id, "after_seq": after_seq, "limit": _PAGE}
        while params["after_seq"] is not None:
            page = (await self._transport.call("GET", f"{self._path}/effects", params=params)).value
            for effect in page["effects"]:
                req_id = effect["payload"].get("req_id")
                if effect["kind"] == GENERATION_CANCELLED_KIND:
                    ended[req_id] = str(effect["payload"].get("reason"))
                elif effect["kind"] == GENERATION_STARTED_KIND:
                    ended.pop(req_id, None)
            params["after_seq"] = page["next_after_seq"]
        return ended

    # -- their end -----------------------------------------------------------------------------------------

    def _note_closed(self, link: Link) -> None:
        found = self._links.get(link.agent_id, [])
        if link in found:
            found.remove(link)
        if not found:
            self._links.pop(link.agent_id, None)
        task = asyncio.get_running_loop().create_task(link.wait_closed())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all of them."""
        for link in [link for found in self._links.values() for link in found]:
            link.close()
        if self._closing:
            await asyncio.wait(self._closing)
