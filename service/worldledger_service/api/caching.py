"""Validators and freshness: what the log has once said never changes, so most answers may be kept for ever."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

#: For an answer about a fixed part of the log (RFC 8246).
IMMUTABLE: Final = "public, max-age=31536000, immutable"
#: For an answer that grows with the log.
REVALIDATE: Final = "no-cache"


def etag(world_id: str, seq: int, checksum: str) -> str:
    """Return the entity tag of a world at a seq: ``"<world>:<seq>:<first 8 hex digits>"``."""
    return f'"{world_id}:{seq}:{checksum[:8]}"'


def not_modified(request: Request, headers: dict[str, str]) -> Response | None:
    """Return a 304 with these headers if the client's If-None-Match names their ETag (RFC 9110, 13.1.2)."""
    asked = request.headers.get("if-none-match")
    if asked is None:
        return None
    tags = {tag.strip().removeprefix("W/") for tag in asked.split(",")}
    if headers["ETag"] in tags or asked.strip() == "*":
        return Response(status_code=304, headers=headers)
    return None
