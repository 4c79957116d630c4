"""A world's log over the wire, for reading."""

from __future__ import annotations

from typing import Final

from worldledger.client.transport import Transport, path_of
from worldledger.config import OrchestratorConfig, read_config
from worldledger.effects import EventLogEntry

_PAGE: Final = 1000


class RemoteEventLog:
    """Reads one world's effects, as they are stored (docs/reference/contracts.md, "Event log")."""

    def __init__(self, transport: Transport, world_id: str) -> None:
        self.world_id = world_id
        self._transport = transport
        self._path = f"{path_of('v1', 'worlds', world_id)}/effects"

    async def get_entries_since(self, since_seq: int, limit: int | None = None) -> list[EventLogEntry]:
        """Return the entries after ``since_seq``, ascending, for replay or catch-up; at most ``limit`` if given."""
        entries: list[EventLogEntry] = []
        after: int | None = since_seq
        while after is not None and (limit is None or len(entries) < limit):
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(entries))
            page = (await self._transport.call("GET", self._path, params={"after_seq": after, "limit": wanted})).value
            entries += map(EventLogEntry.of, page["effects"], page["checksums"])
            after = page["next_after_seq"]
        return entries

    async def config(self) -> OrchestratorConfig:
        """Return the world's own setting of how its agents are served, or the usual one: its genesis says it."""
        (genesis,) = await self.get_entries_since(0, limit=1)
        own = genesis.effect["payload"].get("orchestrator")
        return OrchestratorConfig() if own is None else read_config(own)
