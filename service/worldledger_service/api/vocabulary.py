"""The kinds of effects and intents of a world, each with the JSON Schema of its payload: what forms are made from."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from fastapi import APIRouter, Depends
from pydantic import ConfigDict, Field, JsonValue
from starlette.requests import Request
from starlette.responses import Response

from worldledger.rulesets import load_ruleset
from worldledger.rulesets.payloads import INTENTS
from worldledger_service.api.answers import REVALIDATE, not_modified, to_json
from worldledger_service.api.context import services
from worldledger_service.api.openapi import Shape, Word, header, json_of, problems
from worldledger_service.api.parameters import WorldName, once
from worldledger_service.api.published import plain
from worldledger_service.api.routing import ReadingRoute

_SPEAK: dict[str, Any] = {
    "kind": "Speak",
    "payload": {
        "type": "object",
        "description": "Say something.",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
}


class KindOfPayload(Shape):
    """A kind of effects or intents, and what its payload holds."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_SPEAK]})

    kind: Word
    payload: dict[str, JsonValue] = Field(
        description="A JSON Schema (2020-12). Members that it does not name are allowed; `readOnly` ones are filled in."
    )


class Vocabulary(Shape):
    """The kinds of effects and intents that a world's ruleset knows, by name."""

    world_id: str
    ruleset: str
    ruleset_version: int
    effects: list[KindOfPayload] = Field(description="Kinds of drafts. Any other kind is allowed, with any payload.")
    intents: list[KindOfPayload] = Field(
        description="Kinds of intents besides Custom, whose payload is that of an effect and its `kind`."
    )


router = APIRouter(route_class=ReadingRoute, tags=["effects"], dependencies=[Depends(once)])


@router.get(
    "/v1/worlds/{world}/kinds",
    operation_id="get_kinds",
    summary="The kinds of effects and intents of a world, with schemas of their payloads",
    response_class=Response,
    responses={
        200: {
            **json_of(Vocabulary),
            "description": "The kinds by name.",
            "headers": {"ETag": header("Stands for the answer.")},
        },
        304: {"description": "The answer is still the one that If-None-Match names."},
        **problems(404, 422, 503),
    },
)
async def get_kinds(request: Request, world: WorldName) -> Response:
    """Return what a world's ruleset knows: for each kind the JSON Schema of its payload.

    What a schema refuses the world refuses, too; where a kind has strict worlds, those. The world knows rules beyond
    it: whether an entity exists, whose turn it is, whether a move is legal.
    """
    record = await services(request).store.world(world)
    answer = {
        "world_id": record.world_id,
        "ruleset": record.ruleset,
        "ruleset_version": record.ruleset_version,
        "effects": _told(load_ruleset(record.ruleset).payloads),
        "intents": _told(INTENTS),
    }
    text = to_json(answer)
    headers = {"ETag": f'"{sha256(text).hexdigest()[:16]}"', "Cache-Control": REVALIDATE}
    return not_modified(request, headers) or Response(text, 200, headers, "application/json")


def _told(payloads: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"kind": kind, "payload": plain(dict(schema))} for kind, schema in sorted(payloads.items())]
