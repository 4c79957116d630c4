"""What agents observe, as it is written on the wire: the same bytes for the same view or delta."""

from __future__ import annotations

from typing import Any

import orjson

from worldledger.observation import ObservationDelta, View


def view_of(view: View) -> dict[str, Any]:
    """Return a view as an object for orjson to write."""
    return {
        "agent_id": view.agent_id,
        "view_seq": view.view_seq,
        "context_digest": view.context_digest,
        "visible_entities": in_order(view.visible_entities),
        "visible_relationships": in_order(view.visible_relationships),
    }


def delta_of(delta: ObservationDelta) -> dict[str, Any]:
    """Return a delta as an object for orjson to write."""
    return {**delta, "patches": in_order(delta["patches"])}


def in_order(value: Any) -> orjson.Fragment:
    """Have a value written with its members in order.

    In memory they stand in the order in which the fold met them, and that is another one in a state that was read from
    a snapshot; but whoever asks twice for the same is to get the same bytes.
    """
    return orjson.Fragment(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def etag_of(view: View) -> str:
    """Return the entity tag of a view: ``"<view_seq>:<first 16 hex digits of context_digest>"``."""
    return f'"{view.view_seq}:{view.context_digest[:16]}"'


def sse(name: str, view_seq: int, data: bytes) -> bytes:
    """Return one server-sent event; compact JSON has no line ends."""
    return b"event: %b\nid: %d\ndata: %b\n\n" % (name.encode(), view_seq, data)


def observation_event(delta: ObservationDelta) -> bytes:
    """Return the server-sent event of a delta."""
    return sse("observation", delta["view_seq"], orjson.dumps(delta_of(delta)))
