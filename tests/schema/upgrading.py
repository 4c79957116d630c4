"""A program that upgrades the databases of its arguments at the same moment, and a process that runs it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from worldledger_service.database import schema

from tests.warm import Process


def elsewhere(urls: Sequence[str]) -> Process:
    """Begin it in a process of its own."""
    return Process(urls, (0, 1, 2), os.environ, program=Path(__file__))


async def _upgrade(urls: Sequence[str]) -> None:
    await asyncio.gather(*map(schema.upgrade, urls))


if __name__ == "__main__":
    asyncio.run(_upgrade(sys.argv[1:]))
