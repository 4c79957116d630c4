"""Shared by the routes about the agents of a world: finding agents, and waiting for them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import orjson
from fastapi import Path, Query
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic_core import PydanticCustomError
from starlette.requests import Request

from worldledger import observation
from worldledger.aio import first_of
from worldledger.canonical import MAX_INT
from worldledger.drafts import MAX_WORD
from worldledger.errors import MomentNotFoundError, UnknownAgentError
from worldledger.near import near
from worldledger.observation import View
from worldledger.staleness import MAX_ABOUT
from worldledger_service.api.context import Services
from worldledger_service.api.openapi import CHECKSUM, HEX64, GlobalSeq, PatchOperation, Shape, Word
from worldledger_service.api.parameters import NO_NUL, finite, held
from worldledger_service.api.problems import PositionAheadError
from worldledger_service.api.streaming import disconnected
from worldledger_service.runtime.guarding import guarded

if TYPE_CHECKING:
    from worldledger_service.runtime import Orchestrator


# -- shapes ------------------------------------------------------------------------------------------------

ContextSeq = Annotated[int, Field(ge=0, le=MAX_INT)]
StalenessThreshold = Annotated[int, Field(ge=0, le=MAX_INT)]
About = Annotated[list[Word], Field(max_length=MAX_ABOUT)]
_VIEW: dict[str, Any] = {
    "agent_id": "alice",
    "view_seq": 42,
    "context_digest": CHECKSUM,
    "visible_entities": {"alice": {"position": [1.0, 2.5, 0.0]}},
    "visible_relationships": {},
}
_EVENT: dict[str, Any] = {
    "global_seq": 42,
    "kind": "Speak",
    "source_id": "bob",
    "sim_time": 12.5,
    "payload": {"text": "Good morning"},
    "schema_version": "1.0.0",
}
_DELTA: dict[str, Any] = {
    "view_seq": 42,
    "patches": [{"op": "replace", "path": "/visible_entities/bob/position", "value": [1.0, 2.5, 0.0]}],
    "context_digest": CHECKSUM,
    "schema_version": "1.0.0",
    "events": [],
}


class AgentView(Shape):
    """The view that an agent has of the world."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_VIEW]})

    agent_id: Word
    view_seq: GlobalSeq = Field(description="The effect that last changed the view.")
    context_digest: str = Field(
        pattern=HEX64, description="SHA-256 of the view without `view_seq` and itself, in the profile `state/1`."
    )
    visible_entities: dict[str, JsonValue] = Field(description="Each entity without the fields that are hidden.")
    visible_relationships: dict[str, list[str]] = Field(description="Each entity's related ones, sorted.")


class ObservedEvent(Shape):
    """Something that happened, as an agent may know it: parts of the effect of that `global_seq`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EVENT]})

    global_seq: GlobalSeq
    kind: Word
    source_id: Word
    sim_time: float
    payload: dict[str, JsonValue]
    schema_version: Word


class ObservationDelta(Shape):
    """The change of an agent's view by one effect, or by several that were merged."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_DELTA]})

    view_seq: GlobalSeq = Field(description="The view's own, after the patches.")
    patches: list[PatchOperation] = Field(description="To be applied to the view (RFC 6902).")
    context_digest: str = Field(pattern=HEX64, description="The view's own, after the patches.")
    schema_version: Word
    events: list[ObservedEvent] = Field(description="Events that the patches do not show.")
    collapsed: int = Field(default=1, ge=1, description="The number of deltas that were merged into this one.")
    events_dropped: int = Field(default=0, ge=0, description="How many of their events it does not have.")


# -- routes -------------------------------------------------------------------------------------------------

_T = TypeVar("_T")

#: Most seconds that a request waits for what may never come.
LONGEST_WAIT: Final = 30.0
#: Seconds that a request waits for this process to have seen what another one has written, or to write itself.
PATIENCE: Final = 2.0
#: Answers end with the item that brings them to so many bytes.
PAGE_BYTES: Final = 4 * 1024 * 1024


def word(text: str) -> str:
    """Return a text that an agent or a request may have as its name; others are refused."""
    if not 0 < len(text) <= MAX_WORD:
        raise PydanticCustomError("word", "must have 1 to {most} characters", {"most": MAX_WORD})
    return held(text)


def _word(description: str) -> Any:
    schema = {"minLength": 1, "maxLength": MAX_WORD, **NO_NUL}
    return Path(description=f"{description}, percent-encoded (`/` is `%2F`).", json_schema_extra=schema)


AgentId = Annotated[str, AfterValidator(word), _word("The agent's id")]
ReqId = Annotated[str, AfterValidator(word), _word("The generation's req_id")]
Wait = Annotated[
    float,
    BeforeValidator(finite),
    Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait until there is something to tell."),
]


async def known_agent(found: Services, world: Orchestrator, agent_id: str) -> Mapping[str, Any]:
    """Return what is known of an agent, also where another process has registered it a moment ago.

    Raises UnknownAgentError.
    """
    known = (await world.agents()).get(agent_id)
    if known is None:
        record = await guarded(found.store.outages, found.store.world(world.world_id))
        await world.reached(record.head_seq, PATIENCE)
        known = (await world.agents()).get(agent_id)
    if known is None:
        raise UnknownAgentError(agent_id, world.world_id, near=near(agent_id, await world.agents()))
    return known


@contextmanager
def reading_on(parameter: str, where: str = "query") -> Iterator[None]:
    """Turn a position to go on from that the world has not come to into the error that other routes have for it."""
    try:
        yield
    except MomentNotFoundError as error:
        head_seq = error.details.get("head_seq")
        what = f"{parameter}: {error.message}"
        raise PositionAheadError(what, parameter=parameter, head_seq=head_seq, **{"in": where}) from None


async def within(
    request: Request, stopping: asyncio.Event, seconds: float, awaited: Coroutine[Any, Any, _T]
) -> _T | None:
    """Await something for so many seconds; return None if it has not come, the client has left or the service stops.

    It is cancelled then.
    """
    wanted, *_ = await first_of(awaited, disconnected(request.receive), stopping.wait(), timeout=seconds)
    return None if wanted is None else wanted.result()


# -- views and deltas as they are written: the same bytes for the same one ---------------------------------


def view_of(view: View) -> dict[str, Any]:
    """Return a view as an object for orjson to write."""
    return {
        "agent_id": view.agent_id,
        "view_seq": view.view_seq,
        "context_digest": view.context_digest,
        "visible_entities": in_order(view.visible_entities),
        "visible_relationships": in_order(view.visible_relationships),
    }


def delta_of(delta: observation.ObservationDelta) -> dict[str, Any]:
    """Return a delta as an object for orjson to write."""
    return {**delta, "patches": in_order(delta["patches"])}


def in_order(value: Any) -> orjson.Fragment:
    """Return a value that is written with its members in order.

    In memory they are in the order of the fold, which differs in a state that was read from a snapshot; but the same
    request is to get the same bytes.
    """
    return orjson.Fragment(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def etag_of(view: View) -> str:
    """Return the entity tag of a view: ``"<view_seq>:<first 16 hex digits of context_digest>"``."""
    return f'"{view.view_seq}:{view.context_digest[:16]}"'


def sse(name: str, view_seq: int, data: bytes) -> bytes:
    """Return one server-sent event; compact JSON has no line ends."""
    return b"event: %b\nid: %d\ndata: %b\n\n" % (name.encode(), view_seq, data)


def observation_event(delta: observation.ObservationDelta) -> bytes:
    """Return the server-sent event of a delta."""
    return sse("observation", delta["view_seq"], orjson.dumps(delta_of(delta)))
