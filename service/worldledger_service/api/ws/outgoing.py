"""Messages to the client of a socket, one frame for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.types import Send

from worldledger.errors import SimulationError
from worldledger_service.api.inhabitants import delta_of, view_of
from worldledger_service.api.problems import enclosed_problem
from worldledger_service.api.routing import segment
from worldledger_service.api.ws.messages import SUBPROTOCOL, MessageId, write, write_problem

if TYPE_CHECKING:
    from worldledger.observation import ObservationDelta, View


class Outgoing:
    """Sends to one agent's client. Each call waits until the client has taken the messages before.

    A client that has left is sent nothing more; the reading task notices that. ``context_seq`` is the newest that the
    client was sent here, as an observation or the latest view.
    """

    def __init__(self, send: Send, world_id: str, agent_id: str, instance: str) -> None:
        self.agent_id = agent_id
        self.instance = instance
        self.context_seq = 0
        self._send = send
        self._world_id = world_id

    async def accept(self) -> None:
        """Open the socket."""
        await self._send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL, "headers": []})

    async def close(self, code: int, reason: str) -> None:
        """Close the socket (codes: RFC 6455, section 7.4)."""
        try:
            await self._send({"type": "websocket.close", "code": code, "reason": reason})
        except OSError:
            return

    async def text(self, text: str) -> None:
        """Send a message that is written already."""
        try:
            await self._send({"type": "websocket.send", "text": text})
        except OSError:
            return

    async def tell(self, kind: str, message_id: MessageId = None, /, **body: Any) -> None:
        """Send a message that is short."""
        await self.text(_short(kind, message_id, **body))

    async def problem(self, kind: str, message_id: MessageId, error: SimulationError, /, **body: Any) -> None:
        """Send a message that tells of an error."""
        await self.text(write_problem(kind, message_id, enclosed_problem(error, self.instance), **body))

    def hand_out(self, view_seq: int) -> None:
        """Note a view_seq that the client is sent; it never decreases."""
        self.context_seq = max(self.context_seq, view_seq)

    async def view(self, view: View, message_id: MessageId = None, *, latest: bool = True) -> None:
        """Send a view, the agent's ``latest`` or one of the past, or where to read it."""
        if latest:
            self.hand_out(view.view_seq)
        text = write("view", message_id, view=view_of(view))
        await self.text(text or self._resync(message_id, view.view_seq, view.context_digest))

    async def observation(self, delta: ObservationDelta) -> None:
        """Send an observation, or where to read the view after it."""
        self.hand_out(delta["view_seq"])
        text = write("observation", delta=delta_of(delta))
        await self.text(text or self._resync(None, delta["view_seq"], delta["context_digest"]))

    def _resync(self, message_id: MessageId, view_seq: int, context_digest: str) -> str:
        place = f"/v1/worlds/{self._world_id}/agents/{segment(self.agent_id)}/view?at_seq={view_seq}"
        return _short("resync", message_id, view_seq=view_seq, context_digest=context_digest, url=place)


def _short(kind: str, message_id: MessageId, /, **body: Any) -> str:
    text = write(kind, message_id, **body)
    assert text is not None  # noqa: S101 - whatever stands in it has a limit of its own
    return text
