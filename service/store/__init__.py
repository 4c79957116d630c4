"""The log on PostgreSQL: the only writer of effects.

`Store` opens a database; `Store.log` gives one world's `EventLog`.
"""

from service.store.event_log import EventLog
from service.store.records import Receipt, WorldRecord
from service.store.store import Store

__all__ = ["EventLog", "Receipt", "Store", "WorldRecord"]
