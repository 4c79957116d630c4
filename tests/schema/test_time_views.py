"""The views have columns for what the log says of time."""

from __future__ import annotations

from typing import Any, cast

from worldledger_service.store import Store

from worldledger.effects import EffectDraft
from worldledger.genesis import NewWorld

from .helpers import connected


def _draft(kind: str, payload: dict[str, Any], source_id: str = "worldledger", **fields: Any) -> EffectDraft:
    said = {"kind": kind, "payload": payload, "source_id": source_id, "schema_version": "1.0.0"}
    return cast("EffectDraft", said | fields)


async def test_what_the_log_says_of_time_has_columns(database_url: str) -> None:
    """Who took over with which offset, the ticks in the adapter's own time, and its silence."""
    async with Store.open(database_url) as store:
        await store.create_world(NewWorld(world_id="time"))
        log = await store.log("time")
        await log.append_all([_draft("WorldTimeAuthoritySet", {"authority": "unity", "zero": 100})], system=True)
        tick = _draft("WorldTimeSet", {"adapter": "unity", "time": 2.5}, "unity", sim_time=2.5)
        await log.append_all([tick], system=True)
        silent = {"authority": "unity", "last_tick_seq": 3, "reason": "no_tick"}
        await log.append_all([_draft("WorldTimeAuthoritySilent", silent, req_id="silent:unity:3")], system=True)
    async with connected(database_url) as connection:

        async def row(query: str) -> tuple[Any, ...]:
            (found,) = await connection.fetch(query)
            return tuple(found)

        assert await row("select sim_time_s, time_zero_at = recorded_at from analytics.world_created") == (0.0, True)
        assert await row("select authority, offset_s from analytics.world_time_authority_set") == ("unity", 100.0)
        ticks = "select adapter, time_s, sim_time_s, tick from analytics.world_time_set"
        assert await row(ticks) == ("unity", 2.5, 102.5, None)
        silences = "select authority, last_tick_seq, reason, sim_time_s from analytics.world_time_authority_silent"
        assert await row(silences) == ("unity", 3, "no_tick", 102.5)
