"""Frames over HTTP: ranges of states, and of agents' views, as a whole one and what each later moment changes."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Depends, Query
from pydantic import ConfigDict, Field, JsonValue
from starlette.requests import Request
from starlette.responses import Response

from worldledger.canonical import MAX_INT
from worldledger.frames import BLOCK, block_end
from worldledger.kinds import DEFAULT
from worldledger.world import WorldState
from worldledger_service.api.agents_of_worlds import AgentId, view_of
from worldledger_service.api.answers import PRIVATE, not_modified
from worldledger_service.api.context import Services, services
from worldledger_service.api.openapi import CHECKSUM, HEX64, GlobalSeq, Shape, Word, header, json_of, problems
from worldledger_service.api.parameters import WorldName, next_link, once, whole
from worldledger_service.api.problems import InvalidParameterError
from worldledger_service.api.routing import EscapedRoute, ReadingRoute
from worldledger_service.runtime.frames import (
    MOST_FRAMES,
    Frames,
    RemembersError,
    block,
    coarse,
    kept_places,
    view_block,
)
from worldledger_service.store import WorldRecord
from worldledger_service.store.states import Rules

# -- shapes ------------------------------------------------------------------------------------------------

_PATCHES: dict[str, Any] = {
    "frame": [0, 0],
    "op": ["replace", "replace"],
    "path": [0, 1],
    "value": [{"position": [1.0, 2.5, 0.0]}, [1.0, 2.5, 0.0]],
}


class ForkedFrom(Shape):
    """Where the history of a fork comes from."""

    world_id: str
    global_seq: GlobalSeq


class FramePatches(Shape):
    """Columns: an entry for each operation of a JSON Patch (RFC 6902), in order; all are on members of objects."""

    frame: list[int] = Field(description="The frame that it belongs to: an index into the columns of `frames`.")
    op: list[Literal["add", "remove", "replace"]]
    path: list[int] = Field(description="An index into `paths`.")
    value: list[JsonValue] = Field(description="null with `remove`.")


class _Frames(Shape):
    """What frames of states and of views have in common."""

    world_id: str
    ruleset: str
    ruleset_version: int
    from_seq: GlobalSeq = Field(description="The seq of the keyframe.")
    to_seq: GlobalSeq = Field(description="The last seq that this tells of.")
    every: int = Field(
        ge=1,
        description="1: nothing is left out between `from_seq` and `to_seq`. Else about how many effects lie between "
        "two frames, of which nothing is told.",
    )
    next_from_seq: int | None = Field(description="The from_seq of the next block; null when this is the last.")
    fork_of: ForkedFrom | None = Field(description="Of a fork: what lies before its first effect is in this world.")
    paths: list[str] = Field(description="JSON Pointers (RFC 6901) of what the patches change.")
    patches: FramePatches


class StateKeyframe(Shape):
    """The state that frames begin with."""

    global_seq: GlobalSeq
    checksum: str = Field(pattern=HEX64, description="The chain checksum of that effect.")
    state_digest: str = Field(pattern=HEX64, description="SHA-256 of the bytes of `state`, as they stand here.")
    sim_time: float
    kind: str
    state: WorldState = Field(description="In the canonical profile `state/1`.")


class StateColumns(Shape):
    """Columns: an entry for each frame. They stand for the members `last_effect_…` of the state's metadata."""

    seq: list[int]
    sim_time: list[float] = Field(description="`/metadata/last_effect_time` from this frame on.")
    kind: list[str] = Field(description="`/metadata/last_effect_kind` from this frame on.")


class StateFrames(_Frames):
    """States of a world: one, and what is different at each of the later moments."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "world_id": "market-town",
                    "ruleset": DEFAULT,
                    "ruleset_version": 1,
                    "from_seq": 1,
                    "to_seq": 2,
                    "every": 1,
                    "next_from_seq": None,
                    "fork_of": None,
                    "keyframe": {
                        "global_seq": 1,
                        "checksum": CHECKSUM,
                        "state_digest": CHECKSUM,
                        "sim_time": 0.0,
                        "kind": "WorldCreated",
                        "state": {"entities": {}, "metadata": {}, "relationships": {}, "spatial_index": {}},
                    },
                    "frames": {"seq": [2], "sim_time": [0.5], "kind": ["Move"]},
                    "paths": ["/entities/alice", "/spatial_index/alice"],
                    "patches": {**_PATCHES, "op": ["add", "add"]},
                }
            ]
        },
    )

    keyframe: StateKeyframe
    frames: StateColumns


class SeenContents(Shape):
    """An agent's view at one moment."""

    agent_id: Word
    view_seq: GlobalSeq | None = Field(
        description="The effect that made the view. null where it is not known: in coarse frames, and if the agent got "
        "no delta from any of the 600 effects before."
    )
    context_digest: str = Field(
        pattern=HEX64, description="SHA-256 of the view without `view_seq` and itself, in the profile `state/1`."
    )
    visible_entities: dict[str, JsonValue]
    visible_relationships: dict[str, list[str]]


class ViewKeyframe(Shape):
    """The view that frames begin with."""

    global_seq: GlobalSeq
    view: SeenContents


class ViewColumns(Shape):
    """A column with an entry for each frame."""

    seq: list[int] = Field(description="The effects that changed the view.")


class ViewFrames(_Frames):
    """Views of an agent: one, and what is different after each later effect that changed it."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "world_id": "market-town",
                    "agent_id": "alice",
                    "ruleset": DEFAULT,
                    "ruleset_version": 1,
                    "from_seq": 1025,
                    "to_seq": 2048,
                    "every": 1,
                    "next_from_seq": 2049,
                    "fork_of": None,
                    "keyframe": {
                        "global_seq": 1025,
                        "view": {
                            "agent_id": "alice",
                            "view_seq": 1021,
                            "context_digest": CHECKSUM,
                            "visible_entities": {"bob": {"position": [0.0, 0.0, 0.0]}},
                            "visible_relationships": {},
                        },
                    },
                    "frames": {"seq": [1040]},
                    "observed_seqs": [1033, 1050],
                    "paths": ["/visible_entities/bob/position"],
                    "patches": {"frame": [0], "op": ["replace"], "path": [0], "value": [[1.0, 2.5, 0.0]]},
                }
            ]
        },
    )

    agent_id: Word
    keyframe: ViewKeyframe
    frames: ViewColumns
    observed_seqs: list[int] = Field(
        description="Further effects that gave the agent a delta, without changing its view. The `view_seq` at a "
        "moment is the last up to there of these, of `frames.seq` and of the keyframe's. Of coarse frames there are "
        "none."
    )


# -- parameters --------------------------------------------------------------------------------------------

FromSeq = Annotated[int, whole(1), Query(ge=1, le=MAX_INT, description="The moment of the keyframe: this global_seq.")]
ToSeq = Annotated[
    int | None,
    whole(1),
    Query(
        ge=1,
        le=MAX_INT,
        description=f"The last moment. By default, and at the latest, it is the end of the block of {BLOCK:,} effects "
        "that `from_seq` lies in; of coarse frames, the head.",
    ),
]
Every = Annotated[
    int | None,
    whole(1),
    Query(ge=1, le=MAX_INT, description="From 2 on: coarse frames, about so many effects apart."),
]
Count = Annotated[
    int | None,
    whole(1),
    Query(ge=1, le=MOST_FRAMES, description="Coarse frames, about so many over the range. Not together with `every`."),
]

# -- routes -------------------------------------------------------------------------------------------------


class _Route(EscapedRoute, ReadingRoute):
    """A route that only reads, whose path may name an agent with any characters."""


router = APIRouter(route_class=_Route, tags=["states"], dependencies=[Depends(once)])

_HEADERS: Final = {
    "ETag": header("Stands for the world, the range, the chain up to its end, and the ruleset's version."),
    "Link": header('`rel="next"`: the next block, if there is one.'),
}


class _Asked:
    """The frames that a request asks for: a range within a world's log."""

    def __init__(
        self, record: WorldRecord, rules: Rules, first: int, last: int | None, every: int | None, count: int | None
    ) -> None:
        if every is not None and count is not None:
            raise InvalidParameterError("frames", "contradicts every; give one of them")
        if last is not None and last < first:
            raise InvalidParameterError("to_seq", f"lies before from_seq, {first}")
        self.record = record
        self.rules = rules
        self.first = first
        end = record.head_seq if last is None else min(last, record.head_seq)
        if count is not None:
            every = max((end - first) // count, 2)
        self.moments: range | None = None
        if every is not None and every > 1:
            self.moments = range(first, end + 1, max(every, (end - first) // MOST_FRAMES))
        self.parameter = "frames" if count is not None else "every"
        self.last = end if self.moments is not None else min(end, block_end(first))
        #: the beginning of the next block, if this is one, and not the last
        self.following = self.last + 1 if self.last < end else None


async def _asked(
    found: Services, world: str, first: int, last: int | None, every: int | None, count: int | None
) -> _Asked:
    record = await found.store.world(world)
    await found.store.states.seq_at(record, seq=first)  # raises MomentNotFoundError
    return _Asked(record, await found.store.states.rules(world), first, last, every, count)


@router.get(
    "/v1/worlds/{world}/frames",
    operation_id="get_frames",
    summary="The states of a world at many moments",
    response_class=Response,
    responses={
        200: {
            **json_of(StateFrames),
            "description": "A state, and what is different at each of the later moments.",
            "headers": _HEADERS,
        },
        304: {"description": "The frames are those that If-None-Match names; nothing was folded."},
        **problems(404, 422, 503),
    },
)
async def get_frames(
    request: Request,
    world: WorldName,
    from_seq: FromSeq = 1,
    to_seq: ToSeq = None,
    every: Every = None,
    frames: Count = None,
) -> Response:
    """Return the state at `from_seq`, and what each later effect changes in it, up to the end of a block.

    Blocks are aligned: of 1,024 effects, from the first on. To have the state at a later seq, apply all frames up to
    it: set the three members of the metadata that the columns of `frames` tell, then apply the frame's patches. What
    comes out is the state that `/state?at_seq=` answers, byte for byte. A block may end early if its effects are large:
    `next_from_seq` says where to go on. What lies before the first effect of a fork are frames of its parent.

    With `every` or `frames` they are coarse: they cover a range of any length and tell of some moments alone, the
    states that are kept nearest to those that are asked for, and of fewer where the answer would be larger than about
    1 MB, compressed.
    """
    return await _answer(request, world, (from_seq, to_seq, every, frames))


@router.get(
    "/v1/worlds/{world}/agents/{agent_id}/frames",
    operation_id="get_view_frames",
    summary="The views of an agent at many moments",
    response_class=Response,
    responses={
        200: {
            **json_of(ViewFrames),
            "description": "A view, and what is different after each later effect that changed it.",
            "headers": _HEADERS,
        },
        304: {"description": "The frames are those that If-None-Match names; nothing was folded."},
        **problems(404, 409, 422, 503),
    },
)
async def get_view_frames(
    request: Request,
    world: WorldName,
    agent_id: AgentId,
    from_seq: FromSeq = 1,
    to_seq: ToSeq = None,
    every: Every = None,
    frames: Count = None,
) -> Response:
    """Return an agent's view after `from_seq`, and what each later effect changes in it, up to the end of a block.

    It is as with the frames of a world, except that only effects that change the view have a frame, and that the
    patches are all that there is to apply. If the agent is registered inside the block, its frames begin there. Views
    are those of the log: what delays their delivery to the agent counts for nothing.

    There are no coarse frames of an agent whose policy has it remember what it has seen.
    """
    return await _answer(request, world, (from_seq, to_seq, every, frames), agent_id)


async def _answer(
    request: Request,
    world: str,
    given: tuple[int, int | None, int | None, int | None],
    agent_id: str | None = None,
) -> Response:
    found = services(request)
    asked = await _asked(found, world, *given)
    places = {} if asked.moments is None else await kept_places(found.store, world, asked.first, asked.last)
    headers = await _headers(found, asked, places, agent_id)
    unchanged = not_modified(request, headers)
    if unchanged is not None:
        return unchanged
    if asked.moments is not None:

        async def make() -> bytes:
            return _body(asked, await _frames(found, asked, places, agent_id), agent_id, None)

        return Response(await found.coarse_frames.get(headers["ETag"], make), 200, headers, "application/json")
    frames = await _frames(found, asked, places, agent_id)
    following = asked.following
    if frames.to_seq < asked.last:
        following = frames.to_seq + 1
    if following is not None:
        headers |= next_link(request, from_seq=following)
    return Response(_body(asked, frames, agent_id, following), 200, headers, "application/json")


async def _frames(found: Services, asked: _Asked, places: dict[int, int], agent_id: str | None) -> Frames:
    world = asked.record.world_id
    if asked.moments is not None:
        try:
            return await coarse(found.store, world, places, asked.moments, agent_id)
        except RemembersError:
            what = f"agent {agent_id!r} remembers what it has seen, so its views follow from no state: ask for blocks"
            raise InvalidParameterError(asked.parameter, what) from None
    if agent_id is not None:
        return await view_block(found.store, world, agent_id, asked.first, asked.last)
    return await block(found.store, world, asked.first, asked.last)


async def _headers(found: Services, asked: _Asked, places: dict[int, int], agent_id: str | None) -> dict[str, str]:
    """Return an answer's headers. Its tag names all that it follows from: the log has an agent's policy."""
    record, ruleset = asked.record, asked.rules.ruleset
    if asked.last == record.head_seq:
        checksum = record.head_checksum
    else:
        checksum = (await found.store.reader.effect(record.world_id, asked.last)).checksum.hex()
    tag = f"{record.world_id}:{asked.first}-{asked.last}:{checksum[:8]}:{ruleset.name}{ruleset.version}"
    if asked.moments is not None:
        tag += f":{asked.moments.step}:{sha256(orjson.dumps([*places])).hexdigest()[:8]}"
    if agent_id is not None:
        tag += f":{agent_id}:2"  # the number of versions that such an answer has had
    return {"ETag": f'"{quote(tag, safe=":-~")}"', "Cache-Control": PRIVATE}


def _body(asked: _Asked, frames: Frames, agent_id: str | None, following: int | None) -> bytes:
    ruleset, fork_of = asked.rules.ruleset, asked.rules.fork_of
    facts: dict[str, Any] = {"world_id": asked.record.world_id}
    if agent_id is not None:
        facts["agent_id"] = agent_id
    facts |= {
        "ruleset": ruleset.name,
        "ruleset_version": ruleset.version,
        "from_seq": frames.keyframe.global_seq,
        "to_seq": frames.to_seq,
        "every": frames.every,
        "next_from_seq": following,
        "fork_of": fork_of and {"world_id": fork_of.world_id, "global_seq": fork_of.global_seq},
    }
    return b'%b,"keyframe":%b,%b}' % (orjson.dumps(facts)[:-1], _keyframe(frames), frames.columns)


def _keyframe(frames: Frames) -> bytes:
    keyframe = frames.keyframe
    if keyframe.view is not None:
        view = {**view_of(keyframe.view), "view_seq": keyframe.made_seq}
        return orjson.dumps({"global_seq": keyframe.global_seq, "view": view})
    taken = keyframe.state
    assert taken is not None  # noqa: S101 - for the type checker: there is the one or the other
    facts = {
        "global_seq": keyframe.global_seq,
        "checksum": taken.checksum.hex(),
        "state_digest": taken.digest,
        **keyframe.told,
    }
    return b'%b,"state":%b}' % (orjson.dumps(facts)[:-1], taken.text)
