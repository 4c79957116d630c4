"""The effects of a run's world for code that reads them one by one, in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import orjson
from worldledger_service.store.ahead import ahead

from worldledger.chain import Finding, StoredEffect

if TYPE_CHECKING:
    from worldledger_service.store.reader import Reader
    from worldledger_service.store.records import WorldRecord

    from worldledger.effects import Effect


@asynccontextmanager
async def effects_in_thread(
    reader: Reader, world: WorldRecord, progress: Callable[[int], None] | None = None
) -> AsyncIterator[Iterator[Effect]]:
    """Lend a world's effects up to the head of its record, to be read in a thread; at most two batches are held.

    ``progress`` is told the last seq of each batch. The iterator raises TamperedError for a text that is no effect.
    """
    loop = asyncio.get_running_loop()
    async with ahead(reader.batches(world.world_id, until_seq=world.head_seq)) as batches:

        async def following() -> list[StoredEffect] | None:
            return await anext(batches, None)

        def effects() -> Iterator[Effect]:
            while (batch := asyncio.run_coroutine_threadsafe(following(), loop).result()) is not None:
                for row in batch:
                    effect = orjson.loads(row.text)
                    if not isinstance(effect, dict):
                        raise Finding(world.world_id, row.global_seq, "the stored text is not an effect").error()
                    yield cast("Effect", effect)
                if progress is not None:
                    progress(batch[-1].global_seq)

        yield effects()
