"""The console: the page at ``/`` and its files, built from the folder console/ by the build of the package.

Names of files hold a hash of what is inside, so browsers keep them for ever; only the page itself is asked for again.
It loads nothing from elsewhere (Content-Security-Policy), and what it shows comes from the routes below ``/v1``.
"""

from __future__ import annotations

import gzip
import html
import mimetypes
from collections.abc import AsyncIterator, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from worldledger.errors import SimulationError
from worldledger.moments import HEAD, Moment, UnreadableMomentError, parse_moment
from worldledger_service.api.answers import IMMUTABLE, REVALIDATE, not_modified
from worldledger_service.api.context import services
from worldledger_service.api.problems import InvalidParameterError
from worldledger_service.console.assets import BUILT, assets, of_kinds
from worldledger_service.console.taking_along import asking, part_of
from worldledger_service.console.taking_along import page as page_of

#: No script, style, picture or connection but the service's own, and no page of others around this one.
POLICY: Final = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
}
#: Characters of an address at which a file opens.
_LONGEST_ADDRESS: Final = 8000
#: Bytes below which compressing does not pay.
_LEAST_BYTES: Final = 512

_NOT_BUILT: Final = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Worldledger</title>
<h1>The console is not built</h1>
<p>The service works; only its page is missing. It is built when the package is installed, which needs the npm registry.
In the folder of the checkout, <code>.venv/bin/pip install -e .</code> tries again and says what is in the way (for
another environment: its own pip).</p>
<p>Everything else is there: <a href="/openapi.json">the HTTP interface</a>, and the command <code>worldledger</code>.
</p>
</html>
"""


class Served(NamedTuple):
    """A file as it is served: its bytes, compressed as well where that pays, and its headers."""

    body: bytes
    compressed: bytes | None
    headers: Mapping[str, str]

    @classmethod
    def of(cls, body: bytes, media_type: str, caching: str) -> Served:
        """Make one; text is UTF-8."""
        compressed = _compressed(body) if len(body) >= _LEAST_BYTES else None
        type_ = f"{media_type}; charset=utf-8" if media_type.startswith("text/") else media_type
        tag = f'"{sha256(body).hexdigest()[:16]}"'
        return cls(body, compressed, {**_HEADERS, "Content-Type": type_, "Cache-Control": caching, "ETag": tag})

    def answer(self, request: Request) -> Response:
        """Answer a request: compressed if the client takes that, and 304 if it has the file."""
        headers = dict(self.headers)
        if (unchanged := not_modified(request, headers)) is not None:
            return unchanged
        if self.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.compressed, headers={**headers, "Content-Encoding": "gzip"})
        return Response(self.body, headers=headers)


@lru_cache(maxsize=64)
def _compressed(body: bytes) -> bytes:
    """Compress, once for all applications of a process."""
    return gzip.compress(body, mtime=0)


def routes(built: Path = BUILT) -> list[BaseRoute]:
    """Return the routes of the console. Raises InvalidKindError if the panel of an installed kind cannot be loaded."""
    served = {name: Served.of(body, _media_type(name), IMMUTABLE) for name, body in assets(built).items()}
    page = Served.of(_page(built), "text/html", REVALIDATE)

    async def index(request: Request) -> Response:
        return page.answer(request)

    async def asset(request: Request) -> Response:
        found = served.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        return found.answer(request)

    async def export(request: Request) -> Response:
        world_id = request.path_params["world"]
        try:
            begin, end = await _part(request, world_id)
            address = request.query_params.get("address", "")[:_LONGEST_ADDRESS]
            pieces = page_of(asking(request.app), world_id, built, first=begin, last=end, address=address)
            first = await anext(pieces)
        except SimulationError as error:
            if "status" not in error.details:
                raise
            raise HTTPException(error.details["status"], error.message) from error
        headers = {
            **_HEADERS,
            "Cache-Control": "no-store",
            "Content-Disposition": f'attachment; filename="{world_id}.html"',
        }
        return StreamingResponse(_joined(first, pieces), media_type="text/html", headers=headers)

    return [
        Route("/export/{world}.html", export, methods=["GET"], include_in_schema=False),
        Route("/", index, methods=["GET"], include_in_schema=False),
        Route("/assets/{name}", asset, methods=["GET"], include_in_schema=False),
    ]


async def _part(request: Request, world_id: str) -> tuple[int, int | None]:
    """Return the first and the last effect that the parameters ``from`` and ``to`` name; without any, all there are."""
    begin, end = (_moment(request, name) for name in ("from", "to"))
    if begin is None and end is None:
        return 1, None
    store = services(request).store
    return await part_of(store, await store.world(world_id), begin, end or HEAD)


def _moment(request: Request, name: str) -> Moment | None:
    text = request.query_params.get(name)
    try:
        return parse_moment(text) if text else None
    except UnreadableMomentError as error:
        raise InvalidParameterError(name, str(error)) from None


async def _joined(first: bytes, others: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in others:
        yield piece


def _page(built: Path) -> bytes:
    try:
        text = (built / "index.html").read_text(encoding="utf-8")
    except FileNotFoundError:
        return _NOT_BUILT
    for name, told in of_kinds().items():
        text = text.replace(f"{{{{{name}}}}}", html.escape(told))
    return text.encode()


def _media_type(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"
