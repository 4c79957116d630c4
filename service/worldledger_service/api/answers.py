"""Answers: JSON, validators and freshness. What the log has once said never changes, so most may be kept for ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from typing import Any, Final, TypeVar

import orjson
from starlette.requests import Request
from starlette.responses import Response
from worldledger_projections.base import Projection

from worldledger.errors import UnknownRulesetError
from worldledger.rulesets import load_ruleset
from worldledger_service.api.context import Services
from worldledger_service.api.problems import ProjectionUnavailableError
from worldledger_service.runtime.guarding import guarded
from worldledger_service.store import Store, WorldRecord
from worldledger_service.store.reader import Row, ViewMissingError

#: For an answer about a fixed part of the log (RFC 8246).
IMMUTABLE: Final = "public, max-age=31536000, immutable"
#: For an answer that grows with the log.
REVALIDATE: Final = "no-cache"
#: For an answer that shared caches are not to have: what an agent sees.
PRIVATE: Final = "private, no-cache"


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


def tagged(request: Request, text: bytes, media_type: str = "application/json") -> Response:
    """Answer with a text that may change, under an ETag that stands for its bytes; a 304 if the client has them."""
    headers = {"ETag": f'"{sha256(text).hexdigest()[:16]}"', "Cache-Control": REVALIDATE}
    return not_modified(request, headers) or Response(text, 200, headers, media_type)


async def checksum_at(store: Store, record: WorldRecord, seq: int) -> str:
    """Return the checksum of a world's effect at a seq that it has."""
    if seq == record.head_seq:
        return record.head_checksum
    return (await store.reader.effect(record.world_id, seq)).checksum.hex()


def validators(places: Iterable[tuple[WorldRecord, int, str]]) -> dict[str, str]:
    """Return the headers of an answer that is made of these places: a checksum stands for all effects up to it.

    How they are folded and told is the ruleset's and this program's, in their versions.
    """
    named = [
        (record.world_id, seq, checksum, record.ruleset, _version_of(record.ruleset))
        for record, seq, checksum in places
    ]
    digest = sha256(orjson.dumps([_program(), named])).hexdigest()
    return {"ETag": f'"{digest[:32]}"', "Cache-Control": REVALIDATE}


@cache
def _program() -> str:
    return version("worldledger")


def _version_of(ruleset: str) -> int | None:
    try:
        return load_ruleset(ruleset).version
    except UnknownRulesetError:
        return None


# -- what projections have made ----------------------------------------------------------------------------

T = TypeVar("T")


async def viewed(found: Services, ask: Callable[[], Awaitable[T]]) -> T:
    """Return what is read from the views. Raises ProjectionUnavailableError if one is missing, and as `guarded`."""

    async def view() -> T:
        try:
            return await ask()
        except ViewMissingError as error:
            what = "this projection cannot be read at the moment"
            raise ProjectionUnavailableError(what) from error

    return await guarded(found.store.outages, view())


# -- rendering ---------------------------------------------------------------------------------------------


def to_json(value: Any) -> bytes:
    """Write an answer; times in UTC, with Z."""
    return orjson.dumps(value, option=orjson.OPT_UTC_Z)


def near_member(guesses: Sequence[str]) -> bytes:
    """Return the member `near` of a page, behind a comma: what may have been meant; nothing where there is nothing."""
    return b',"near":%b' % orjson.dumps(guesses) if guesses else b""


def as_told(projection: Projection, row: Row) -> Mapping[str, Any]:
    """Return a row as it is shown: JSON columns as the JSON that they hold."""
    texts = [column.name for column in projection.columns if column.type in {"json", "jsonb"}]
    return {**row, **{name: orjson.Fragment(row[name]) for name in texts if row.get(name) is not None}}
