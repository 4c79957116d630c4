"""The documentation of routes: small builders for their declarations, and the finished OpenAPI document."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.json_schema import models_json_schema

from worldledger.canonical import MAX_INT
from worldledger.drafts import MAX_WORD, SEMANTIC_VERSION
from worldledger.errors import RecoveryAction
from worldledger.genesis import NAME_PATTERN, NAME_RULE
from worldledger.kinds import parts
from worldledger.rulesets import known_rulesets
from worldledger_service.api.problems import MEDIA_TYPE

# -- shapes ------------------------------------------------------------------------

HEX64 = r"^[0-9a-f]{64}$"
HEX32 = r"^[0-9a-f]{32}$"
Word = Annotated[str, Field(min_length=1, max_length=MAX_WORD, pattern=r"^[^\x00]*$")]
SemanticVersion = Annotated[
    str,
    Field(
        pattern=f"^{SEMANTIC_VERSION}$",
        max_length=MAX_WORD,
        description="Semantic version (semver.org) of the payload's shape, such as 1.0.0.",
    ),
]
WorldName = Annotated[str, Field(pattern=NAME_PATTERN, max_length=200)]
GlobalSeq = Annotated[int, Field(ge=1, le=MAX_INT)]
#: A member of pages that have a filter.
Near = Annotated[
    list[str] | None,
    Field(
        description="Where the filter finds nothing at all: what may have been meant. Left out where that is nothing."
    ),
]
#: For examples.
UUID = "0b9a1f7c5d3e4f60a1b2c3d4e5f60718"
CHECKSUM = "6f2c0f0e5b1de0b1a7b0f0e0d9c8b7a6958473625140302f1e0d0c0b0a090807"


class Shape(BaseModel):
    """Base of the documented shapes."""

    model_config = ConfigDict(extra="forbid")


class Body(Shape):
    """Base of the bodies that FastAPI validates: nothing in them is taken for something else."""

    model_config = ConfigDict(extra="forbid", strict=True)


class FoundProblem(Shape):
    """One of several things that are wrong."""

    path: str = Field(description="The place, as people write it: `agents[Trader_1].inventory.food`.")
    message: str


class Problem(BaseModel):
    """Problem details (RFC 9457), with the facts of the error beside them."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:worldledger:problem:invalid_effect",
                    "title": "The effect is refused",
                    "status": 422,
                    "detail": "draft 3, $.payload.price: not a finite number",
                    "code": "invalid_effect",
                    "recovery": "modify_intent",
                    "instance": "/v1/worlds/market-town/effects",
                    "path": "$.payload.price",
                    "index": 3,
                }
            ]
        },
    )

    type: str = Field(description="`urn:worldledger:problem:` and the code.")
    title: str
    status: int
    detail: str = Field(description="The error of this request, for people.")
    code: str = Field(description="A stable name, for programs.")
    recovery: RecoveryAction = Field(description="The action that the caller can take.")
    instance: str
    path: str | None = Field(default=None, description="JSON path of the offending value.")
    index: int | None = Field(default=None, description="Place of the offending draft in its list.")
    problems: list[FoundProblem] | None = Field(
        default=None, description="All problems below `path`, if there may be several: the first 100."
    )
    problems_found: int | None = Field(default=None, description="The number of all problems, if there are more.")


class PatchOperation(Shape):
    """An operation of a JSON Patch (RFC 6902)."""

    op: Literal["add", "remove", "replace"]
    path: str = Field(description="JSON Pointer (RFC 6901).")
    value: JsonValue = Field(default=None, description="Not with `remove`.")


# -- declarations -------------------------------------------------------------------------------------------------

_DESCRIPTION: Final = """
An append-only, checksum-chained log of effects for multi-agent simulations.

Every error is `application/problem+json` (RFC 9457); its `code` is for programs, `detail` for people. Effects are
served exactly as they were hashed: `checksum = SHA-256(hex(previous checksum) + bytes)`.

On every route, what is no HTTP request is 400 `bad_request`, and a service on the loopback address that is called by
another name than `localhost`, `127.0.0.1` or `[::1]` answers 421 `host_refused`. On every route but `/livez`, `/readyz`
and `/metrics` an address that asks more often than it may (100 times a minute, unless the service is set otherwise) is
answered 429 `rate_limited` with `Retry-After`; `RateLimit-Policy` and `RateLimit` of each answer say how it stands.
Frames, density and pages of effects have a larger budget of their own.
Clients on the service's own machine may ask as often as they like.

Write integers in a body without a fraction: `1.0`, which JSON Schema counts as an integer, may be refused where one is
expected.

There is no authentication yet: the service listens on the loopback address unless told otherwise, and every client
that reaches it may read and append.
"""

#: How many of the groups come before those of kinds.
_BEFORE_KINDS: Final = 4
TAGS: Final = [
    {"name": "worlds", "description": "Worlds and the heads of their logs."},
    {"name": "effects", "description": "Appending and reading effects."},
    {"name": "states", "description": "The states of worlds at any moment: the fold of their effects."},
    {
        "name": "agents",
        "description": "Living in a world: views and observations, intents, and the authority over time.",
    },
    {"name": "projections", "description": "How the read models stand, rebuilding and checking them."},
    {"name": "analytics", "description": "Questions in SQL, over the schema `analytics` of the database."},
    {"name": "schemas", "description": "JSON Schemas of the files that people write."},
    {"name": "verification", "description": "Proving that nothing was changed."},
    {"name": "health", "description": "For supervisors and load balancers."},
]


def _tags() -> list[dict[str, str]]:
    """Return the groups of routes: those of kinds come before those that look after the service."""
    return [*TAGS[:_BEFORE_KINDS], *(tag for tags in parts("tags").values() for tag in tags), *TAGS[_BEFORE_KINDS:]]


#: For routes that FastAPI does not look into.
PATH_PARAMETERS: Final[list[dict[str, Any]]] = [
    {
        "name": "world",
        "in": "path",
        "required": True,
        "description": f"The world's name: {NAME_RULE}.",
        "schema": {
            "type": "string",
            "pattern": NAME_PATTERN,
            "minLength": 1,
            "maxLength": 200,
        },
        "example": "market-town",
    }
]


#: The shapes that declarations of routes refer to, by name.
_REFERRED: Final[dict[str, type[BaseModel]]] = {}


def _reference(*shapes: type[BaseModel]) -> dict[str, Any]:
    for shape in shapes:
        if _REFERRED.setdefault(shape.__name__, shape) is not shape:
            raise TypeError(f"two shapes have the name {shape.__name__}")
    found = [{"$ref": f"#/components/schemas/{shape.__name__}"} for shape in shapes]
    return found[0] if len(found) == 1 else {"anyOf": found}


def json_of(*shapes: type[BaseModel]) -> dict[str, Any]:
    """Document a JSON answer of one of these shapes."""
    return {"content": {"application/json": {"schema": _reference(*shapes)}}}


def body_of(*shapes: type[BaseModel]) -> dict[str, Any]:
    """Document a required JSON body of one of these shapes, on a route that reads it by itself."""
    return {"required": True, **json_of(*shapes)}


def header(description: str) -> dict[str, Any]:
    """Document a response header."""
    return {"description": description, "schema": {"type": "string"}}


#: The header of an answer to a request that was accepted before.
REPLAYED: Final[dict[str, Any]] = {"Idempotency-Replayed": header("`true`")}


def key_header(description: str, *, most: int = 200) -> dict[str, Any]:
    """Document the request header Idempotency-Key, of at most so many characters."""
    schema = {"type": "string", "minLength": 1, "maxLength": most, "pattern": "^[!-~]+$"}
    return {"name": "Idempotency-Key", "in": "header", "description": description, "schema": schema}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Document problem answers; 500 is always possible, and 503 says when to try again."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in (*statuses, 500):
        found[status] = {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": _reference(Problem)}},
        }
        if status == 503:
            found[status]["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    return found


#: FastAPI's names for the bounds of parameters that have a reader of their own, and those of JSON Schema.
_BOUNDS: Final = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}


def _bounded(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter's schema with its bounds, and without null, which no parameter can be."""
    found = {_BOUNDS.get(name, name): value for name, value in schema.items()}
    choices = [each for each in found.get("anyOf", ()) if each != {"type": "null"}]
    if len(choices) == 1:
        del found["anyOf"]
        found = {**choices[0], **found}
    return found


def shapes() -> list[type[BaseModel]]:
    """Return the shapes that routes refer to, of those that are imported."""
    return [*_REFERRED.values()]


def _components() -> dict[str, Any]:
    """Return the JSON schema of every shape, by the name that it has under ``#/components/schemas``."""
    _, document = models_json_schema(
        [(shape, "validation") for shape in shapes()], ref_template="#/components/schemas/{model}"
    )
    found: dict[str, Any] = document["$defs"]
    found["NewWorld"]["properties"]["ruleset"]["enum"] = known_rulesets()
    return found


def document(app: FastAPI, version: str) -> None:
    """Make the application give its OpenAPI document, with the shapes that the routes refer to."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            for route in app.routes:
                if isinstance(route, APIRoute) and route.body_field is not None:
                    _reference(cast("type[BaseModel]", route.body_field.field_info.annotation))
            found = get_openapi(
                title="Worldledger", version=version, description=_DESCRIPTION, routes=app.routes, tags=_tags()
            )
            for methods in found["paths"].values():
                for operation in methods.values():
                    for parameter in operation.get("parameters", ()):
                        parameter["schema"] = _bounded(parameter["schema"])
            found["components"] = {"schemas": _components()}
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
