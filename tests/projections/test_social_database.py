"""Social-RL runs in the database: rows of every projection, whoever feeds them and however often they are made anew."""

from __future__ import annotations

import json
from typing import Any

from worldledger_projections.registry import known
from worldledger_service.store import Store
from worldledger_service.store.forking import NewFork
from worldledger_social_rl.rules.recording import read_run

from tests.projections.helpers import append, assert_same_places, assert_verified, rows_of
from tests.rulesets.social_rl.documents import a_round, context_frame, message, meta, run_of
from worldledger.genesis import NewWorld
from worldledger.moments import Moment

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


async def test_forks_have_their_whole_history(store: Store, pool: Any, make_engine: Any) -> None:
    """A fork's messages, feedback, adaptations, rounds and moments are those that a tally of the texts finds."""
    run = read_run(run_of(a_round(1), a_round(2), a_round(3), meta=meta()), strict=False)
    config = {"strict": False}
    await store.create_world(NewWorld(world_id="run", ruleset="social_rl", time_authority="client", config=config))
    await append(store, "run", run.drafts)
    (over,) = await pool.fetchrow("select min(global_seq) from effects where world_id = 'run' and kind = 'RoundEnded'")
    (said,) = await pool.fetchrow(
        "select max(global_seq) from effects where world_id = 'run' and kind = 'MessageEmitted'"
    )
    for name, parent, seq in (("after", "run", over), ("within", "run", said), ("again", "within", 2)):
        await store.fork(parent, Moment(seq=seq), NewFork(world_id=name))
        number = seq if parent == "run" else said
        again: Any = [{key: value for key, value in draft.items() if key != "caused_by"} for draft in run.drafts]
        await append(store, name, again[number - 1 :][:3])
    await assert_same_places(store, pool, "round")
    await make_engine([known()[name] for name in NAMES]).run_until_caught_up(timeout=100)
    logs: dict[str, list[dict[str, Any]]] = {}
    for row in await pool.fetch("select world_id, effect::text from effects order by world_id, global_seq"):
        logs.setdefault(row[0], []).append(json.loads(row[1]))
    views = {"MessageEmitted": "messages", "FeedbackRecorded": "feedback", "PolicyAdapted": "policy_adaptations"}
    wanted: dict[str, list[tuple[Any, ...]]] = {view: [] for view in (*views.values(), "rounds")}
    for world in logs:
        line, origin = [(world, 10**9)], logs[world][0]["payload"].get("fork_of")
        while origin is not None:
            line.append((origin["world_id"], origin["global_seq"]))
            origin = logs[origin["world_id"]][0]["payload"].get("fork_of")
        number = 0
        for name, until in reversed(line):
            ancestor = "" if name == world else name
            started = None
            for effect in logs[name]:
                kind, seq = effect["kind"], effect["global_seq"]
                if seq > until:
                    break
                if kind == "RoundStarted":
                    number, started = effect["payload"]["round_number"], effect["payload"]["round_number"]
                    if not ancestor:
                        wanted["rounds"].append((world, "", number))
                elif kind == "RoundEnded" and started is not None and ancestor:
                    wanted["rounds"].append((world, ancestor, started))
                elif kind in views:
                    wanted[views[kind]].append((world, ancestor, seq, number))
    for view, rows in wanted.items():
        columns = "round_number" if view == "rounds" else "global_seq, round_number"
        query = f"select world_id, coalesce(inherited_from, ''), {columns} from analytics.{view}_with_forks"
        assert sorted(map(tuple, await pool.fetch(query))) == sorted(rows)
        assert any(row[:2] == ("again", "run") for row in rows)
        own = [tuple(row) for row in await pool.fetch(f"select distinct world_id from analytics.{view}")]
        assert own == [("run",)]
    assert any(row[:2] == ("within", "") and row[3] == 3 for row in wanted["feedback"])
    told = await pool.fetch("select distinct run_id, model from analytics.social_runs_with_forks")
    assert [tuple(row) for row in told] == [(meta()["experiment_id"], meta().get("model"))]
