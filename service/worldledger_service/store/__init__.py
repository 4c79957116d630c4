"""The log on PostgreSQL: the only writer of effects.

`Store` opens a database; `Store.log` returns one world's `EventLog`. Both are imported on demand: a process that needs
only a part of this package (`worldledger_service.snapshot_worker`) is started beside work that it must not slow down.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worldledger_service.store.event_log import EventLog
    from worldledger_service.store.records import Receipt, WorldRecord
    from worldledger_service.store.store import Store

__all__ = ["EventLog", "Receipt", "Store", "WorldRecord"]

_MODULES = {"EventLog": "event_log", "Receipt": "records", "WorldRecord": "records", "Store": "store"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
