"""Collapsing observations: one delta in place of several, and one that applies to any earlier view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from worldledger.composing import Composition
from worldledger.deltas import DELTA_VERSION, PARTS, ObservationDelta, ObservedEvent, Patch, View

#: Most events that a collapsed delta keeps, the newest; each may be as large as an effect.
MOST_EVENTS: Final = 100


def collapse(deltas: Sequence[ObservationDelta]) -> ObservationDelta:
    """Return one delta with the effect of these one after another; a single one stays as it is.

    It says how many deltas it stands for, and how many of their events it leaves out.
    """
    if len(deltas) == 1:
        return deltas[0]
    composition = Composition()
    for delta in deltas:
        composition.follow(delta["patches"])
    events: list[ObservedEvent] = [event for delta in deltas for event in delta["events"]]
    dropped = sum(delta.get("events_dropped", 0) for delta in deltas) + max(len(events) - MOST_EVENTS, 0)
    collapsed = ObservationDelta(
        view_seq=deltas[-1]["view_seq"],
        patches=composition.patch(),
        context_digest=deltas[-1]["context_digest"],
        schema_version=DELTA_VERSION,
        events=events[-MOST_EVENTS:],
        collapsed=sum(delta.get("collapsed", 1) for delta in deltas),
    )
    if dropped:
        collapsed["events_dropped"] = dropped
    return collapsed


def beginning(view: View) -> ObservationDelta:
    """Return the delta that turns any view of the agent, or none, into this one."""
    return ObservationDelta(
        view_seq=view.view_seq,
        patches=replacing(view.visible_entities, view.visible_relationships),
        context_digest=view.context_digest,
        schema_version=DELTA_VERSION,
        events=[],
    )


def replacing(entities: dict[str, Any], relationships: dict[str, list[str]]) -> Patch:
    """Return the patch that replaces everything that a view shows by these contents."""
    contents = dict(zip(PARTS, (entities, relationships), strict=True))
    return [{"op": "replace", "path": f"/{part}", "value": value} for part, value in contents.items()]


def whole(view: View, *, stands_for: int) -> ObservationDelta:
    """Return the delta that turns any view of the agent into this one, for a reader whose deltas cannot be continued.

    ``stands_for``: the most deltas that it may stand for; as many events may be missing.
    """
    return ObservationDelta(beginning(view), collapsed=stands_for, events_dropped=stands_for)
