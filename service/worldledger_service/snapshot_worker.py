"""The process that takes the snapshots of a world beside its import: ``python -m worldledger_service.snapshot_worker``.

`worldledger_service.store.import_snapshots` starts it, and says what goes in by stdin and out by stdout. The database
is neither read nor written. It ends when stdin does, which happens however the parent ends. After an error, which is
told again when the world is folded from the database, the exit code is 1.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, Final

from worldledger.errors import SimulationError
from worldledger.folding import Fold
from worldledger.rulesets import load_ruleset
from worldledger_service.collecting import collect_seldom
from worldledger_service.store.advancing import Forward
from worldledger_service.store.import_snapshots import read_frames, record
from worldledger_service.store.snapshots import Base

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from worldledger.chain import StoredEffect
    from worldledger_service.store.import_snapshots import Order

#: Effects that are folded at once.
_AT_ONCE: Final = 500


def work(stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Take the snapshots. Raises what the fold raises."""
    line = stdin.readline()
    if not line:
        return
    order: Order = json.loads(line)
    fold = Fold(order["world_id"], load_ruleset(order["ruleset"]))
    forward = Forward(Base(fold, b"", 0), order["every"])
    for rows in _joined(read_frames(stdin)):
        stdout.writelines(record(taken) for taken in forward.feed(rows))
        stdout.flush()


def _joined(frames: Iterable[list[StoredEffect]]) -> Iterator[list[StoredEffect]]:
    """Return the effects in longer lists, which are folded faster."""
    rows: list[StoredEffect] = []
    for each in frames:
        rows += each
        if len(rows) >= _AT_ONCE:
            yield rows
            rows = []
    yield rows


def main() -> None:
    """Work, and exit."""
    collect_seldom()
    failed = True
    with suppress(OSError, SimulationError):
        work(sys.stdin.buffer, sys.stdout.buffer)
        failed = False
    sys.exit(failed)


if __name__ == "__main__":
    main()
