"""A client searches payloads: hits come as they are found, to the end of the range, or an error says what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any
from unittest import mock

import pytest
from worldledger_service.store.reader import Reader
from worldledger_service.store.searching import Reached, Wanted, search

from tests.api.helpers import Served
from worldledger.client import Client, ServiceUnavailableError, world
from worldledger.errors import MomentNotFoundError, WorldNotFoundError

from .helpers import emitted, soon


async def _found(hits: AsyncGenerator[dict[str, Any], None]) -> list[int]:
    return [hit["global_seq"] async for hit in hits]


async def test_every_hit_is_found(client: Client) -> None:
    """All hits come without a limit, however many come in one answer; U+2028 and the like within one end nothing."""
    for text in ("figs\u2028for\u0085two", "dates", "FIGS", "figs!"):
        await client.broadcast_event(emitted(text))
    last = await client.broadcast_event(emitted("figs", source_id="A"))
    (first, *_) = [hit async for hit in client.search("figs", order="oldest")]
    assert (first["global_seq"], first["kind"], first["source_id"]) == (2, "MessageEmitted", "B")
    assert "figs\u2028for" in first["excerpt"]
    with mock.patch.object(world, "_PAGE", 2):
        assert await _found(client.search("figs")) == [6, 5, 4, 2]
        assert await _found(client.search("figs", order="oldest")) == [2, 4, 5, 6]
        assert await _found(client.search("figs", limit=3)) == [6, 5, 4]
    assert await _found(client.search("figs", source_id="A")) == [last.global_seq]
    assert await _found(client.search("figs", kind="Speak")) == []
    assert await _found(client.search("figs", after_seq=2, until_seq=5)) == [5, 4]


async def test_what_cannot_be_searched_is_an_error(client: Client) -> None:
    """A position that the log has not reached, and a world that is not there, are the errors that they are."""
    with pytest.raises(MomentNotFoundError):
        await _found(client.search("figs", after_seq=100))
    with pytest.raises(WorldNotFoundError):
        await _found(client.world("nowhere").search("figs"))


@pytest.fixture
def held() -> Iterator[asyncio.Event]:
    """Have the service find what is in the newest effect, and then nothing until the event is set."""
    going_on = asyncio.Event()

    async def slowly(reader: Reader, world_id: str, wanted: Wanted) -> AsyncGenerator[Reached, None]:
        async with aclosing(search(reader, world_id, wanted)) as slices:
            async for reached in slices:
                yield reached
                await going_on.wait()

    with (
        mock.patch("worldledger_service.api.reading.search", slowly),
        mock.patch("worldledger_service.store.searching._FIRST_SLICE", 1),
        mock.patch("worldledger_service.store.searching._GROWTH", 1),
    ):
        yield going_on


async def test_hits_come_before_the_search_has_ended(served: Served, held: asyncio.Event) -> None:
    """The first hit is there while the service still looks; one that breaks off is not taken for the end."""
    async with Client(served.url, "town") as client:
        await client.create_world()
        for text in ("figs", "more figs"):
            await client.broadcast_event(emitted(text))
        async with aclosing(client.search("figs")) as hits:
            assert (await soon(anext(hits)))["global_seq"] == 3
            held.set()
            assert (await soon(anext(hits)))["global_seq"] == 2
        held.clear()
        async with aclosing(client.search("figs")) as hits:
            await soon(anext(hits))
            stopping = asyncio.create_task(served.stop())
            with pytest.raises(ServiceUnavailableError, match="broke off"):
                await soon(anext(hits))
        await soon(stopping)
