"""JSON Schemas of what people write as files, over HTTP: those that the kinds of worlds bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Final, NamedTuple

import orjson
from fastapi import APIRouter, Depends, Path
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from worldledger.kinds import parts
from worldledger_service.api.answers import REVALIDATE, tagged, to_json
from worldledger_service.api.openapi import Shape, header, json_of, problems
from worldledger_service.api.parameters import once
from worldledger_service.api.problems import SchemaNotFoundError

# -- JSON Schemas (2020-12) of what people write as files, to be served: what they are made of, and all there are
#
# They are made from the models that read those files, and completed where the rules of reading say more. What a schema
# refuses is refused when it is read; not the other way round: names that must exist, depths, patterns and whether a
# default is of its type are beyond a schema.


_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
#: The beginning of the `$id` of a schema.
ID_PREFIX: Final = "urn:worldledger:schema:"


class Published(NamedTuple):
    """A schema that is served: its title, and what makes it."""

    title: str
    make: Callable[[], dict[str, Any]]


@cache
def published() -> Mapping[str, Published]:
    """Return the schemas of all installed kinds, by name."""
    found = {name: schema for of_kind in parts("schemas").values() for name, schema in of_kind.items()}
    return dict(sorted(found.items()))


def document(name: str, title: str, schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a whole schema, from one made by Pydantic or by hand and what it refers to."""
    head = {"$schema": _DIALECT, "$id": ID_PREFIX + name, "title": title}
    whole: dict[str, Any] = plain({**schema, "$defs": dict(sorted(definitions.items()))})
    return head | whole


def plain(value: Any) -> Any:
    """Leave out the titles that Pydantic makes of names, and defaults of null; write descriptions as Markdown."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items() if not _is_noise(name, item)}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return "\n\n".join(paragraph.replace("\n", " ").replace("``", "`") for paragraph in value.split("\n\n"))
    return value


def _is_noise(name: str, item: Any) -> bool:
    return (name == "title" and isinstance(item, str)) or (name == "default" and item is None)


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
    return tagged(request, _text(name), MEDIA_TYPE)


@cache
def _text(name: str) -> bytes:
    return orjson.dumps(published()[name].make(), option=orjson.OPT_INDENT_2)
