"""Appending effects over HTTP."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from fastapi import APIRouter
from pydantic import ConfigDict, Field, JsonValue, RootModel
from starlette.requests import Request
from starlette.responses import Response

from worldledger import effects
from worldledger.drafts import MAX_PRIORITY
from worldledger.errors import InvalidEffectError
from worldledger_service import store
from worldledger_service.api.bodies import idempotency_key, read_json
from worldledger_service.api.context import services
from worldledger_service.api.openapi import (
    CHECKSUM,
    HEX32,
    HEX64,
    PATH_PARAMETERS,
    REPLAYED,
    UUID,
    GlobalSeq,
    SemanticVersion,
    Shape,
    Word,
    body_of,
    header,
    json_of,
    key_header,
    problems,
)
from worldledger_service.api.problems import InvalidParameterError
from worldledger_service.api.routing import BareRoute
from worldledger_service.runtime.guarding import SAME_REQUEST, guarded
from worldledger_service.store.units import have_req_ids

if TYPE_CHECKING:
    from worldledger_service.api.context import Services
    from worldledger_service.store.event_log import EventLog


# -- shapes ------------------------------------------------------------------------------------------------

_DRAFT: dict[str, Any] = {
    "kind": "SpeakSent",
    "payload": {"text": "Good morning", "to": ["bob"]},
    "source_id": "alice",
    "schema_version": "1.0.0",
    "req_id": "turn-17-alice",
}
_RECEIPT: dict[str, Any] = {"global_seq": 42, "uuid": UUID, "checksum": CHECKSUM, "replayed": False}


class EffectDraft(Shape):
    """An effect to be accepted. Kinds that begin with World, Intent or Generation are the service's own."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_DRAFT]})

    kind: Word
    payload: dict[str, JsonValue] = Field(
        description="Any JSON object that survives unchanged: no integers beyond ±(2^53-1), no -0.0, no NUL characters "
        "or lone surrogates, no key twice, nested at most 100 deep."
    )
    source_id: Word = Field(description="The source of the effect, such as an agent_id.")
    schema_version: SemanticVersion
    sim_time: float | None = Field(
        default=None,
        description="Seconds of the world's own time; only where its time_authority is `client` or this source. "
        "Never lower than the world's.",
    )
    priority: int = Field(
        default=0,
        ge=-MAX_PRIORITY,
        le=MAX_PRIORITY,
        description="Higher goes first among drafts that wait together; the world's `default_priority` if left out.",
    )
    req_id: Word | None = Field(default=None, description="Idempotency key, unique per (world, source_id).")
    caused_by: GlobalSeq | None = Field(default=None, description="global_seq of an earlier effect of this world.")
    source_metadata: dict[str, JsonValue] | None = Field(default=None, description="Facts about the source.")


class EffectDrafts(RootModel[Annotated[list[EffectDraft], Field(min_length=1, max_length=1000)]]):
    """Drafts that are written whole or not at all, in this order."""

    model_config = ConfigDict(json_schema_extra={"examples": [[_DRAFT]]})


class Receipt(Shape):
    """The receipt of an accepted effect, once it is durable."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_RECEIPT]})

    global_seq: GlobalSeq
    uuid: str = Field(pattern=HEX32)
    checksum: str = Field(pattern=HEX64, description="SHA-256 over the previous checksum (hex) and the effect's bytes.")
    replayed: bool = Field(description="Whether an earlier request with this req_id made the effect.")


class Receipts(Shape):
    """The receipts of a list, in its order."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"receipts": [_RECEIPT]}]})

    receipts: list[Receipt]


# -- routes -------------------------------------------------------------------------------------------------

_ELEMENT: Final = re.compile(r"\$\[(\d+)\]")

router = APIRouter(route_class=BareRoute, tags=["effects"])


@router.post(
    "/v1/worlds/{world}/effects",
    operation_id="append_effects",
    summary="Append one effect or a list, all or none",
    status_code=201,
    response_class=Response,
    responses={
        200: {
            **json_of(Receipt, Receipts),
            "description": "Everything in this request had been accepted before; these are the first receipts.",
            "headers": REPLAYED,
        },
        201: {
            **json_of(Receipt, Receipts),
            "description": "The effects are durable: one receipt for one draft, `receipts` in order for a list.",
            "headers": {"Location": header("The address of the effect, if one draft was sent.")},
        },
        **problems(404, 409, 413, 415, 422, 503),
    },
    openapi_extra={
        "parameters": [
            *PATH_PARAMETERS,
            key_header(
                "The req_id of a single draft, for clients that keep such keys in a header. "
                "If the draft has a req_id too, the two must be equal."
            ),
        ],
        "requestBody": body_of(EffectDraft, EffectDrafts),
    },
)
async def append_effects(request: Request) -> Response:
    """Append one EffectDraft, or a list of 1 to 1,000 that is written whole or not at all, in its order.

    The answer comes once the effects are durable. A draft with a `req_id` is written once per (world, source_id,
    req_id), however often it is sent: a repetition is answered with the first receipt, which then says `replayed`,
    and another body under the same req_id is refused. Refusals name the draft's index in a list and the JSON path.
    """
    found = services(request)
    world_id = request.path_params["world"]
    log = found.store.known_log(world_id)
    if log is None:
        log = await guarded(found.store.outages, found.store.log(world_id))
    try:
        drafts: Any = await read_json(request, found.settings.max_body_bytes, effects=lambda drafts: drafts)
    except InvalidEffectError as error:
        raise _within_list(error) from None
    key = idempotency_key(request)
    if type(drafts) is dict:
        if key is not None:
            _keyed(drafts, key)
        receipt = (await _append(found, log, [cast("effects.EffectDraft", drafts)]))[0]
        if receipt.replayed:
            return _json(_receipt(receipt), 200, {"Idempotency-Replayed": "true"})
        found.metrics.appended(1)
        return _json(_receipt(receipt), 201, {"Location": f"/v1/worlds/{log.world_id}/effects/{receipt.global_seq}"})
    if type(drafts) is not list or not drafts:
        raise InvalidEffectError("a body is one draft, or a list of at least one", "$")
    if key is not None:
        what = "is for single drafts; give each draft of a list a req_id of its own"
        raise InvalidParameterError("Idempotency-Key", what, "header")
    try:
        receipts = await _append(found, log, drafts)
    except InvalidEffectError as error:
        # A list of one is still a list: its draft has the index 0.
        raise (error.at(0) if len(drafts) == 1 and error.index is None else error) from None
    text = f'{{"receipts":[{",".join(map(_receipt, receipts))}]}}'
    if all(receipt.replayed for receipt in receipts):
        return _json(text, 200, {"Idempotency-Replayed": "true"})
    found.metrics.appended(sum(not receipt.replayed for receipt in receipts))
    return _json(text, 201, {})


async def _append(found: Services, log: EventLog, drafts: list[effects.EffectDraft]) -> list[store.Receipt]:
    """Append drafts. Without req_ids their caller could ask nothing later, and waits until the deadline."""
    outages, work = found.store.outages, log.append_all(drafts)
    if have_req_ids(drafts):
        return await guarded(outages, work, again=SAME_REQUEST)
    return await guarded(outages, work, again="read the log", deadline=found.settings.append_deadline)


def _keyed(draft: dict[str, Any], key: str) -> None:
    stated = draft.get("req_id")
    if stated is not None and stated != key:
        raise InvalidParameterError("Idempotency-Key", "differs from the draft's req_id", "header")
    draft["req_id"] = key


def _within_list(error: InvalidEffectError) -> InvalidEffectError:
    """Turn a path that begins in the body's list into index and path of the draft."""
    match = _ELEMENT.match(error.path)
    if match is None:
        return error
    return InvalidEffectError(error.reason, f"${error.path[match.end() :]}", int(match[1]))


def _receipt(receipt: store.Receipt) -> str:
    seq, uuid, checksum, replayed = receipt
    flag = "true" if replayed else "false"
    return f'{{"global_seq":{seq},"uuid":"{uuid}","checksum":"{checksum}","replayed":{flag}}}'


def _json(text: str, status: int, headers: dict[str, str]) -> Response:
    return Response(text, status, headers, "application/json")
