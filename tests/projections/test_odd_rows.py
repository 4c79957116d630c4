"""Rows of a projection's own that no program writes: they keep no runner from going on."""

from __future__ import annotations

from typing import Any

import pytest
from worldledger_chess.projections.games import Games
from worldledger_service.store import Store

from tests.projections.chess.logs import Draft, moved, started
from tests.projections.helpers import append
from worldledger.genesis import NewWorld


def _draft(draft: Draft) -> Any:
    return {"source_id": "ann", "schema_version": "1.0.0", **draft}


@pytest.mark.parametrize("time", ["infinity", "294276-12-31", "0044-03-15 BC"])
async def test_a_time_of_no_calendar_keeps_no_world_behind(
    store: Store, pool: Any, admin: Any, make_engine: Any, time: str
) -> None:
    """A fold that begins with such a row goes on, in its world and in others; a check names the column."""
    for name in ("g1", "g2"):
        await store.create_world(NewWorld(world_id=name, ruleset="chess"))
        await append(store, name, [_draft(started()), _draft(moved("e2e4"))])
    await make_engine([Games()]).run_until_caught_up(timeout=30)
    await admin.execute("update projections.games set started_at = $1::text::timestamptz where world_id = 'g1'", time)
    for name in ("g1", "g2"):
        await append(store, name, [_draft(moved("e7e5"))])
    engine = make_engine([Games()])
    await engine.run_until_caught_up(timeout=30)
    assert {row["plies"] for row in await pool.fetch("select plies from projections.games")} == {2}
    finding = (await engine.verify("games"))["finding"]
    assert (finding["world_id"], finding["column"]) == ("g1", "started_at")
