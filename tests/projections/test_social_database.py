"""Social-RL runs in the database: rows of every projection, whoever feeds them and however often they are made anew."""

from __future__ import annotations

from typing import Any

from worldledger_projections.registry import known
from worldledger_service.store import Store
from worldledger_social_rl.rules.recording import read_run

from tests.projections.helpers import append, assert_verified, rows_of
from tests.rulesets.social_rl.documents import a_round, context_frame, message, meta, run_of
from worldledger.genesis import NewWorld

NAMES = ("social_runs", "rounds", "messages", "feedback", "policy_adaptations")


async def test_rows_are_the_same_however_they_came_about(store: Store, pool: Any, make_engine: Any) -> None:
    """Fed bit by bit by one runner after another, rebuilt, and judged by the engine's own check."""
    said = message(round_number=3, context_frame=context_frame(), timestamp=1e300, internal=True)
    rounds = [a_round(1), a_round(2), a_round(3, messages=[said, {"agent_id": "whose?"}])]
    run = read_run(run_of(*rounds, meta={**meta(), "seed": 7, "condition": "žluť"}), strict=False)
    for name in ("a", "b"):
        config = {"strict": False}
        await store.create_world(
            NewWorld(world_id=name, ruleset="social_rl", time_authority="client", config=config, experiment="e")
        )
    for start in range(0, len(run.drafts), 5):
        for name in ("a", "b"):
            await append(store, name, run.drafts[start : start + 5])
        engine = make_engine([known()[name] for name in NAMES], batch=3 + start)
        await engine.run_until_caught_up(timeout=100)
    before = {name: await rows_of(pool, name) for name in NAMES}
    assert {name: len(rows) for name, rows in before.items()} == {
        "social_runs": 2,
        "rounds": 6,
        "messages": 12,
        "feedback": 6,
        "policy_adaptations": 6,
    }
    facts = await pool.fetch("select run_id, condition, seed, rounds, messages, agents from projections.social_runs")
    assert {tuple(fact) for fact in facts} == {("social_rl_2025-11-23_175825", "žluť", 7, 3, 6, 3)}
    for name in NAMES:
        await engine.rebuild(name)
    await engine.run_until_caught_up(timeout=100)
    assert {name: await rows_of(pool, name) for name in NAMES} == before
    await assert_verified(engine, *NAMES)
