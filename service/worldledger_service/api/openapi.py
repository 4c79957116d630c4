"""How routes are documented: small builders for their declarations, and the finished OpenAPI document."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from worldledger.genesis import NAME_RULE
from worldledger.kinds import parts
from worldledger_service.api import schemas
from worldledger_service.api.problems import MEDIA_TYPE

_DESCRIPTION: Final = """
An append-only, checksum-chained log of effects for multi-agent simulations.

Every error is `application/problem+json` (RFC 9457); its `code` is for programs, `detail` for people. Effects are
served exactly as they were hashed: `checksum = SHA-256(hex(previous checksum) + bytes)`.

On every route, what is no HTTP request is 400 `bad_request`, and a service on the loopback address that is called by
another name than `localhost`, `127.0.0.1` or `[::1]` answers 421 `host_refused`. On every route but `/livez`, `/readyz`
and `/metrics` an address that asks more often than it may (100 times a minute, unless the service is set otherwise) is
answered 429 `rate_limited` with `Retry-After`; `RateLimit-Policy` and `RateLimit` of each answer say how it stands.
Clients on the service's own machine may ask as often as they like.

There is no authentication yet: the service listens on the loopback address unless told otherwise, and whoever
reaches it may read and append.
"""

#: How many of the groups come before those of kinds.
_BEFORE_KINDS: Final = 4
TAGS: Final = [
    {"name": "worlds", "description": "Worlds and where their logs end."},
    {"name": "effects", "description": "Appending and reading effects."},
    {"name": "states", "description": "What worlds are at any moment: the fold of their effects."},
    {"name": "agents", "description": "Living in a world: what agents see, what they want, and who moves time."},
    {"name": "projections", "description": "How the read models stand, rebuilding and checking them."},
    {"name": "analytics", "description": "Questions in SQL, over the schema `analytics` of the database."},
    {"name": "schemas", "description": "JSON Schemas of what people write as files."},
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
            "pattern": "^[A-Za-z0-9][A-Za-z0-9._~-]{0,199}$",
            "minLength": 1,
            "maxLength": 200,
        },
        "example": "market-town",
    }
]


def _reference(*names: str) -> dict[str, Any]:
    found = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    return found[0] if len(found) == 1 else {"anyOf": found}


def json_of(*names: str) -> dict[str, Any]:
    """Document a JSON answer of one of these shapes."""
    return {"content": {"application/json": {"schema": _reference(*names)}}}


def body_of(*names: str) -> dict[str, Any]:
    """Document a required JSON body of one of these shapes."""
    return {"required": True, **json_of(*names)}


def header(description: str) -> dict[str, Any]:
    """Document a response header."""
    return {"description": description, "schema": {"type": "string"}}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Document problem answers; 500 is always possible, and 503 says when to try again."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in (*statuses, 500):
        found[status] = {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": _reference("Problem")}},
        }
        if status == 503:
            found[status]["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    return found


#: What FastAPI calls the bounds of parameters that have a reader of their own, and what JSON Schema calls them.
_BOUNDS: Final = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}


def _bounded(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter's schema with its bounds, and without null, which no parameter can be."""
    found = {_BOUNDS.get(name, name): value for name, value in schema.items()}
    choices = [each for each in found.get("anyOf", ()) if each != {"type": "null"}]
    if len(choices) == 1:
        del found["anyOf"]
        found = {**choices[0], **found}
    return found


def document(app: FastAPI, version: str) -> None:
    """Make the application give its OpenAPI document, with the shapes that the routes refer to."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(
                title="Worldledger", version=version, description=_DESCRIPTION, routes=app.routes, tags=_tags()
            )
            for methods in found["paths"].values():
                for operation in methods.values():
                    for parameter in operation.get("parameters", ()):
                        parameter["schema"] = _bounded(parameter["schema"])
            found.setdefault("components", {}).setdefault("schemas", {}).update(schemas.components())
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
