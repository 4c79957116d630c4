"""The peer of delivery: the same WebSocket stack and nothing behind it.

Whatever an agent sends goes to everybody of its group, as a frame of the size of an observation, and is acknowledged.

``python -m benchmarks.agents_relay PORT BYTES``: the agent's name says which group it is in, as in
``agent-GROUP-NUMBER``.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import Any

import orjson
import uvicorn
from worldledger_service.api.wire import Turns
from worldledger_service.api.ws.messages import MAX_BYTES
from worldledger_service.api.ws.transport import PING_INTERVAL, socket_protocol

from benchmarks.agents_sockets import PROTOCOL


class Relay:
    """An ASGI application."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._seq = 0
        self._groups: defaultdict[str, set[Any]] = defaultdict(set)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":  # it is asked whether it is alive
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body"})
            return
        group = self._groups[scope["path"].split("/")[-2].split("-")[1]]
        await receive()
        await send({"type": "websocket.accept", "subprotocol": PROTOCOL})
        await send({"type": "websocket.send", "text": '{"type":"view","view":{"view_seq":0}}'})
        group.add(send)
        try:
            while (event := await receive())["type"] != "websocket.disconnect":
                message = orjson.loads(event["text"])
                self._seq += 1
                answer = {"type": "accepted", "id": message["id"], "global_seq": self._seq}
                await send({"type": "websocket.send", "text": orjson.dumps(answer).decode()})
                told = {"type": "observation", "delta": {"view_seq": self._seq, "patches": "p" * (self._size - 70)}}
                text = orjson.dumps(told).decode()
                for each in list(group):
                    await each({"type": "websocket.send", "text": text})
        finally:
            group.discard(send)


if __name__ == "__main__":
    uvicorn.run(
        Relay(int(sys.argv[2])),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        ws=socket_protocol(Turns()),  # type: ignore[arg-type]
        ws_max_size=MAX_BYTES,
        ws_ping_interval=PING_INTERVAL,
        ws_ping_timeout=None,
        ws_per_message_deflate=False,
        lifespan="off",
        log_level="error",
        access_log=False,
    )
