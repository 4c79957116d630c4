"""What agents observe, as it is written on the wire."""

from __future__ import annotations

from typing import Any

import orjson

from worldledger.observation import ObservationDelta, View


def view_of(view: View) -> dict[str, Any]:
    """Give a view as an object; what it holds is shared, not copied."""
    return {
        "agent_id": view.agent_id,
        "view_seq": view.view_seq,
        "context_digest": view.context_digest,
        "visible_entities": view.visible_entities,
        "visible_relationships": view.visible_relationships,
    }


def etag_of(view: View) -> str:
    """Give the entity tag of a view: ``"<view_seq>:<first 16 hex digits of context_digest>"``."""
    return f'"{view.view_seq}:{view.context_digest[:16]}"'


def sse(name: str, view_seq: int, data: bytes) -> bytes:
    """Give one server-sent event; compact JSON has no line ends."""
    return b"event: %b\nid: %d\ndata: %b\n\n" % (name.encode(), view_seq, data)


def observation_event(delta: ObservationDelta) -> bytes:
    """Give the server-sent event of a delta."""
    return sse("observation", delta["view_seq"], orjson.dumps(delta))
