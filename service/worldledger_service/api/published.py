"""JSON Schemas over HTTP: of simulations' configurations, the variables in them, and checkpoints."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import Annotated, Final

import orjson
from fastapi import APIRouter, Depends, Path
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from worldledger_service.api.answers import REVALIDATE, not_modified, to_json
from worldledger_service.api.documents import ID_PREFIX, published
from worldledger_service.api.openapi import Shape, header, json_of, problems
from worldledger_service.api.parameters import once
from worldledger_service.api.problems import SchemaNotFoundError

# -- shapes ------------------------------------------------------------------------------------------------


class PublishedSchema(Shape):
    """A JSON Schema that is served."""

    name: str
    title: str
    id: str = Field(description="Its `$id`.")
    path: str = Field(description="The address of the schema.")


class SchemaList(Shape):
    """The JSON Schemas of what people write as files, by name."""

    schemas: list[PublishedSchema]


# -- routes -------------------------------------------------------------------------------------------------

router = APIRouter(tags=["schemas"], dependencies=[Depends(once)])

MEDIA_TYPE: Final = "application/schema+json"


@router.get(
    "/v1/schemas",
    operation_id="list_schemas",
    summary="The JSON Schemas that are served",
    response_class=Response,
    responses={200: {**json_of(SchemaList), "description": "The schemas by name."}, **problems()},
)
async def list_schemas() -> Response:
    """Return the names of the JSON Schemas of what people write as files, and where each is."""
    found = [
        {"name": name, "title": schema.title, "id": ID_PREFIX + name, "path": f"/v1/schemas/{name}"}
        for name, schema in published().items()
    ]
    return Response(to_json({"schemas": found}), 200, {"Cache-Control": REVALIDATE}, "application/json")


@router.get(
    "/v1/schemas/{name}",
    operation_id="get_schema",
    summary="A JSON Schema",
    response_class=Response,
    responses={
        200: {
            "description": "The schema (2020-12), whole in itself.",
            "content": {MEDIA_TYPE: {"schema": {"type": "object"}}},
            "headers": {"ETag": header("Stands for the schema's text.")},
        },
        304: {"description": "The schema is still the one that If-None-Match names."},
        **problems(404, 422),
    },
)
async def get_schema(
    request: Request,
    name: Annotated[str, Path(description="The schema's name.", json_schema_extra={"enum": sorted(published())})],
) -> Response:
    """Return a JSON Schema, for editors and for checks before anything is sent.

    What it refuses the service refuses, too. The service knows rules beyond it: which names must exist, how deep
    definitions may go, that a default is of its type.
    """
    if name not in published():
        known = ", ".join(published())
        raise SchemaNotFoundError(f"there is no schema {name!r}; there are {known}", name=name, known=list(published()))
    text, digest = _text(name)
    headers = {"ETag": f'"{digest}"', "Cache-Control": REVALIDATE}
    return not_modified(request, headers) or Response(text, 200, headers, MEDIA_TYPE)


@cache
def _text(name: str) -> tuple[bytes, str]:
    """Return a schema's text, and what tells it from others."""
    text = orjson.dumps(published()[name].make(), option=orjson.OPT_INDENT_2)
    return text, sha256(text).hexdigest()[:16]
