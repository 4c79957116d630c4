"""A world, or a part of its log, as one HTML file: the console and all that it asks of it, opened without a network.

The file holds the page's script and style, and one text: lines of JSON, compressed, in base64. Each line has one
member: ``world``, ``agents``, ``frames`` and ``views`` (answers of the routes below ``/v1``), ``seen``
(the seqs of the events that an agent saw), ``asset`` (a script that the page loads later) and ``log`` (a piece of the
log as it was hashed, one effect a line).
"""

from __future__ import annotations

import base64
import html
import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlencode

import httpx2
import orjson
from starlette.types import ASGIApp

from worldledger.errors import SimulationError
from worldledger_service.console.assets import BUILT, assets, of_kinds

if TYPE_CHECKING:
    from worldledger.moments import Moment
    from worldledger_service.store import Store, WorldRecord

#: Most effects: a browser holds all of them in memory.
MOST_EFFECTS: Final = 100_000
#: Agents whose beliefs the console shows at a time.
MOST_AGENTS: Final = 4
#: Effects of the log in a line.
_LOG_AT_ONCE: Final = 5000
#: Bytes that are encoded at a time: base64 takes them in threes.
_AT_ONCE: Final = 3 * 65_536
#: Nothing is loaded from anywhere; what the file holds may run.
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; worker-src blob:; style-src 'unsafe-inline'; img-src data:"
)

#: Asks a route for its answer. Raises SimulationError where that is no success.
Ask = Callable[[str], Awaitable[bytes]]


def asking(app: ASGIApp) -> Ask:
    """Return a function that asks an application in this process. It raises SimulationError for what is refused."""
    transport = httpx2.ASGITransport(app=app)

    async def ask(path: str) -> bytes:
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            response = await client.get(path)
        if response.status_code != 200:
            raise SimulationError(response.json()["detail"], status=response.status_code)
        return response.content

    return ask


class _Page(NamedTuple):
    """The page, in two: what comes before the data, and what comes after."""

    before: bytes
    after: bytes

    @classmethod
    def of(cls, title: str, address: str, built: Path) -> _Page:
        index = (built / "index.html").read_text(encoding="utf-8")
        (style,) = re.findall(r'href="/assets/([^"]+\.css)"', index)
        (script,) = re.findall(r'src="/assets/([^"]+\.js)"', index)
        styles, program = ((built / "assets" / name).read_text(encoding="utf-8") for name in (style, script))
        members = {**of_kinds(), "address": address}
        told = "".join(
            f'<meta name="worldledger-{name}" content="{html.escape(text)}">\n' for name, text in members.items()
        )
        # Within an element of script, only its end would end it; "<!--" would begin something else.
        program = program.replace("</script", "<\\/script").replace("<!--", "<\\!--")
        before = (
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta name="color-scheme" content="light dark">\n{told}'
            f"<title>{html.escape(title)} · Worldledger</title>\n<style>{styles}</style>\n</head>\n<body>\n"
            f'<div id="console"></div>\n<script type="application/octet-stream" id="embedded">'
        )
        return cls(before.encode(), f'</script>\n<script type="module">{program}</script>\n</body>\n</html>\n'.encode())


async def own_seq(store: Store, record: WorldRecord, moment: Moment) -> int:
    """Return the effect of a moment of a world's own log.

    Raises SimulationError as `page` if the moment is in the log of an ancestor; MomentNotFoundError.
    """
    place, seq = await store.states.place_at(record, moment)
    if place.world_id != record.world_id:
        what = f"the moment lies in the log of {place.world_id}, which {record.world_id} goes on from"
        raise SimulationError(what, status=422)
    return seq


async def part_of(store: Store, record: WorldRecord, begin: Moment | None, end: Moment) -> tuple[int, int]:
    """Return the first and the last effect of a part of a world's own log; ``begin`` None: from its genesis on.

    Raises SimulationError as `own_seq`, and if the end is before the beginning; MomentNotFoundError.
    """
    first, last = 1 if begin is None else await own_seq(store, record, begin), await own_seq(store, record, end)
    if last < first:
        what = f"the moment of its end lies before that of its beginning: effect {last}, effect {first}"
        raise SimulationError(what, status=422)
    return first, last


def address_of(world_id: str, seq: int, agents: Sequence[str] = ()) -> str:
    """Return the console's address of a moment of a world, with what these agents believed beside the truth."""
    query = urlencode({"at": seq, "agent": agents}, doseq=True)
    return f"#/w/{quote(world_id, safe='')}?{query}"


async def page(
    ask: Ask, world_id: str, built: Path = BUILT, *, first: int = 1, last: int | None = None, address: str = ""
) -> AsyncIterator[bytes]:
    """Yield the file, piece by piece, with the effects from ``first`` to ``last``, by default to the head.

    It opens at an ``address`` of the console, as stands behind its ``#``; without one at its first effect.

    Raises SimulationError with a detail ``status``, that of HTTP: before the first piece if the console is not built or
    the world is unknown, or what is wanted of it too large.
    """
    if not (built / "index.html").exists():
        what = "the console is not built here: install the package again where the npm registry can be reached"
        raise SimulationError(what, status=404)
    path = f"/v1/worlds/{quote(world_id, safe='')}"
    world = orjson.loads(await ask(f"{path}?outcome=true"))
    last = world["head_seq"] if last is None else last
    if last - first >= MOST_EFFECTS:
        what = f"world {world_id} has {last - first + 1} effects there; a page holds {MOST_EFFECTS} at most"
        raise SimulationError(what, status=413)
    if first > 1 or last < world["head_seq"]:
        world |= await _part(ask, path, first, last)
    parts = _Page.of(world_id, address, built)
    yield parts.before
    compressed = zlib.compressobj(9, zlib.DEFLATED, 31)
    waiting = b""
    async for member, value in _members(ask, path, world, first, built):
        waiting += compressed.compress(b'{"%b":%b}\n' % (member.encode(), value))
        whole = len(waiting) // _AT_ONCE * _AT_ONCE
        if whole:
            yield base64.b64encode(waiting[:whole])
            waiting = waiting[whole:]
    yield base64.b64encode(waiting + compressed.flush())
    yield parts.after


async def _part(ask: Ask, path: str, first: int, last: int) -> dict[str, Any]:
    """Return what a world's answer says where the world ends with one effect, and begins with another."""

    async def checksum(seq: int) -> str:
        return str(orjson.loads(await ask(f"{path}/frames?from_seq={seq}&to_seq={seq}"))["keyframe"]["checksum"])

    end = orjson.loads(await ask(f"{path}/effects/{last}"))
    before = await checksum(first - 1) if first > 1 else ""
    return {
        "head_seq": last,
        "head_checksum": await checksum(last),
        "sim_time": end["sim_time"],
        "wall_time": end["wall_time"],
        "part": {"first_seq": first, "checksum_before": before},
    }


async def _members(
    ask: Ask, path: str, world: dict[str, Any], first: int, built: Path
) -> AsyncIterator[tuple[str, bytes]]:
    last: int = world["head_seq"]
    yield "world", orjson.dumps(world)
    found = orjson.loads(await ask(f"{path}/agents?limit=1000"))["agents"]
    agents = [agent for agent in found if agent["registered_seq"] <= last]
    yield "agents", orjson.dumps({"agents": agents})
    for name, body in assets(built).items():
        if name.startswith(("panel-", "verify.worker-")):
            yield "asset", orjson.dumps({"path": f"/assets/{name}", "text": body.decode()})
    async for block in _blocks(ask, f"{path}/frames", first, last):
        yield "frames", block
    for agent in agents:
        name = quote(agent["agent_id"], safe="")
        async for block in _blocks(ask, f"{path}/agents/{name}/frames", max(first, agent["registered_seq"]), last):
            yield "views", block
        seen = [seq async for seq in _seen(ask, f"{path}/agents/{name}/events", first - 1, last)]
        yield "seen", orjson.dumps({"agent_id": agent["agent_id"], "seqs": seen})
    for after in range(first - 1, last, _LOG_AT_ONCE):
        until = min(after + _LOG_AT_ONCE, last)
        yield (
            "log",
            orjson.dumps((await ask(f"{path}/effects?after_seq={after}&until_seq={until}&format=ndjson")).decode()),
        )


async def _seen(ask: Ask, path: str, before: int, last: int) -> AsyncIterator[int]:
    after: int | None = before
    while after is not None:
        page = orjson.loads(await ask(f"{path}?after_seq={after}&until_seq={last}&limit=1000"))
        for event in page["events"]:
            yield event["global_seq"]
        after = page["next_after_seq"]


async def _blocks(ask: Ask, path: str, first: int, last: int) -> AsyncIterator[bytes]:
    seq: int | None = first
    while seq is not None:
        block = await ask(f"{path}?from_seq={seq}&to_seq={last}")
        yield block
        seq = orjson.loads(block)["next_from_seq"]
