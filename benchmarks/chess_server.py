"""The service, which notes when it hears of each commit: ``python -m benchmarks.chess_server DATABASE_URL PORT FILE``.

At its end it writes [world, head_seq, moment] of each into the file, as JSON; moments are those of `time.time`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import orjson
from worldledger_service.app import run
from worldledger_service.settings import Settings
from worldledger_service.store.watch import HeadWatcher

_commits: list[tuple[str, int, float]] = []
_committed = HeadWatcher.committed


def _noting(watcher: HeadWatcher, world_id: str, head_seq: int) -> None:
    _commits.append((world_id, head_seq, time.time()))
    _committed(watcher, world_id, head_seq)


if __name__ == "__main__":
    HeadWatcher.committed = _noting  # type: ignore[assignment, method-assign]
    try:
        run(Settings(port=int(sys.argv[2])), sys.argv[1])
    finally:
        Path(sys.argv[3]).write_bytes(orjson.dumps(_commits))
