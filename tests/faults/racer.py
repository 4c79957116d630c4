"""A program: one process that appends to a world as fast as it can; see test_processes.

``python racer.py URL WORLD NAME COUNT SHARED`` waits for a line on stdin, appends COUNT effects under req_ids of its
own (``SHARED`` 0) or the same as every other racer's (1), several at a time, and prints what it was told as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from service.settings import Settings
from service.store import Store
from worldledger.effects import EffectDraft


def say(line: str) -> None:
    """Say a line to the test."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def main(url: str, world: str, name: str, count: int, shared: bool) -> None:
    """Race."""
    who = "all" if shared else name
    told: dict[str, Any] = {}
    async with Store.open(url, Settings(pool_size=3)) as store:
        log = await store.log(world)
        say("ready")
        await asyncio.to_thread(sys.stdin.readline)

        async def caller(numbers: range) -> None:
            for n in numbers:
                draft: EffectDraft = {
                    "kind": "Said",
                    "payload": {"by": who, "n": n},
                    "source_id": "racer",
                    "schema_version": "1.0.0",
                    "req_id": f"{who}-{n}",
                }
                (receipt,) = await log.append_all([draft])
                told[f"{who}-{n}"] = receipt

        await asyncio.gather(*(caller(range(start, count, 4)) for start in range(4)))
    say(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5] == "1"))
