"""What agents see in a process of its own: ``python looking.py URL WORLD HEAD EVERY``; see `simulating.elsewhere`."""

from __future__ import annotations

import asyncio
import sys

import orjson

from tests.runtime.simulating import opened, views_at


async def _main(url: str, world_id: str, head: str, every: str) -> None:
    async with opened(url, world_id) as world:
        agents = [*(await world.agents())]
        found = await views_at(world, agents, int(head), int(every))
        named = {name: {str(seq): text for seq, text in views.items()} for name, views in found.items()}
        sys.stdout.write(orjson.dumps(named).decode())


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
