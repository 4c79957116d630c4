"""One row for each social-RL run, and one for each of its rounds."""

from __future__ import annotations

from datetime import UTC, datetime
from math import fsum
from typing import Any

import orjson
from hypothesis import given, settings
from worldledger_social_rl.projections.rounds import Rounds
from worldledger_social_rl.projections.runs import SocialRuns
from worldledger_social_rl.rules import RULESET
from worldledger_social_rl.rules.recording import read_run

from tests.projections.playing import CUTS, Cuts, at, dicts, play, the_row
from tests.projections.social_logs import draft, ended, social, social_logs, started
from tests.rulesets.social_rl.documents import ALICE, adaptation, feedback, message, meta, run_of
from worldledger.effects import Effect
from worldledger.folding import Fold

RUNS, ROUNDS = SocialRuns(), Rounds()


def test_a_run_s_row_says_what_it_is_of() -> None:
    """The meta data, condition and seed, and how much there was."""
    told = {**meta(), "condition": "A", "seed": 2, "provider": "p"}
    drafts: list[Any] = read_run(run_of({"round_number": 1, "messages": [message()]}, meta=told), strict=False).drafts
    row = the_row(RUNS, play(RUNS, social(*drafts), RULESET))
    assert (orjson.loads(row.pop("meta")), row.pop("extra")) == (meta(), '{"condition":"A","provider":"p","seed":2}')
    assert row == {
        "world_id": "w",
        "run_id": "social_rl_2025-11-23_175825",
        "prar_run_id": "2025-11-23_baseline_full_qwen",
        "framework": "Alienation vs Non-Domination",
        "framework_option": "A",
        "model": "Qwen/Qwen2.5-7B-Instruct",
        "performer_temperature": 0.7,
        "coach_temperature": 0.1,
        "social_rl_version": "0.2.0",
        "condition": "A",
        "seed": 2,
        "run_at": datetime(2025, 11, 23, 17, 58, 25, 123456, UTC),
        "rounds": 1,
        "messages": 1,
        "agents": 1,
    }


def test_a_run_without_meta_data_is_called_as_its_world() -> None:
    """From the genesis on; a round's own meta block counts where there is nothing else."""
    row = the_row(RUNS, play(RUNS, social(config={"agents": [ALICE]}), RULESET))
    assert (row["run_id"], row["agents"], row["meta"], row["extra"], row["seed"]) == ("w", 1, None, None, None)
    row = the_row(RUNS, play(RUNS, social(started(1, meta=meta())), RULESET))
    assert (row["run_id"], orjson.loads(row["meta"])) == ("social_rl_2025-11-23_175825", meta())


def test_conditions_that_are_no_texts_are_told_as_texts() -> None:
    """Numbers, true and false stay apart, in worlds of before too, whose ExperimentStarted has them in extra alone."""
    for condition, told in (
        (0, "0"),
        (1, "1"),
        (True, "true"),
        (False, "false"),
        (0.5, "0.5"),
        ("ctl", "ctl"),
        ([], None),
    ):
        drafts: list[Any] = read_run(run_of(meta={"condition": condition}), strict=False).drafts
        before = [{**draft, "payload": {"meta": {}, "extra": {"condition": condition}}} for draft in drafts[:1]]
        for log in (drafts, before):
            assert the_row(RUNS, play(RUNS, social(*log), RULESET))["condition"] == told


def test_a_round_s_row_says_what_it_came_to() -> None:
    """Counts, means over the agents, synthesis, times."""
    log = social(
        started(1, round_config={"tasks": "t"}),
        draft("MessageEmitted", message()),
        draft("MessageEmitted", message(internal=True)),
        draft("MessageEmitted", message("Coach+C", internal=True)),
        draft("FeedbackRecorded", feedback(engagement=0.9)),
        draft("FeedbackRecorded", feedback(engagement=0.5)),
        draft("FeedbackRecorded", feedback("Owner+Marta", engagement=0.25, contribution_value="?")),
        draft("PolicyAdapted", adaptation()),
        draft("RoundSynthesised", {"round_number": 1, "synthesis": "all in all"}),
        ended(1, duration_seconds=2),
        started(2),
    )
    for cuts in ([], [(1, True)] * 12, [(5, True)]):
        first, second = dicts(ROUNDS, play(ROUNDS, log, RULESET, cuts))
        assert first == {
            "world_id": "w",
            "round_number": 1,
            "is_ended": True,
            "messages": 3,
            "internal_messages": 2,
            "agents": 2,
            "adaptations": 1,
            "mean_engagement": 0.375,
            "mean_alignment": 0.72,
            "mean_contribution": 0.65,
            "synthesis": "all in all",
            "duration_s": 2.0,
            "round_config": '{"tasks":"t"}',
            "started_seq": 2,
            "ended_seq": 11,
            "started_at": at(2),
        }
        assert (second["is_ended"], second["messages"], second["mean_engagement"]) == (False, 0, None)
        assert (second["ended_seq"], second["round_config"], second["started_seq"]) == (None, None, 12)


def _rounds(log: list[Effect]) -> list[dict[str, Any]]:
    """Count the rounds of a log, the plain way."""
    folded = Fold("w", RULESET)
    found: list[dict[str, Any]] = []
    vectors: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    for effect in log:
        malformed = folded.state.metadata["malformed_effects"]
        folded.apply(effect)
        kind, payload = effect["kind"], effect["payload"]
        if folded.state.metadata["malformed_effects"] != malformed:
            continue
        if kind == "RoundStarted":
            vectors, seen = {}, set()
            found.append(
                dict.fromkeys(("messages", "internal_messages", "adaptations"), 0)
                | {"round_number": payload["round_number"], "started_seq": effect["global_seq"], "ended_seq": None}
            )
        if not found:
            continue
        row = found[-1]
        internal = payload.get("internal") is True or "internal" in dict(_object(payload.get("extra")))
        if kind == "MessageEmitted":
            row["messages"] += 1
            row["internal_messages"] += internal
        if kind == "FeedbackRecorded":
            vectors[payload["agent_id"]] = payload
        if kind in ("FeedbackRecorded", "PolicyAdapted") or (kind == "MessageEmitted" and not internal):
            seen.add(payload["agent_id"])
        row["adaptations"] += kind == "PolicyAdapted"
        if kind == "RoundEnded":
            row["ended_seq"] = effect["global_seq"]
        row["agents"] = len(seen)
        for column, metric in (("mean_engagement", "engagement"), ("mean_contribution", "contribution_value")):
            values = [each[metric] for each in vectors.values() if type(each.get(metric)) in {int, float}]
            row[column] = fsum(values) / len(values) if values else None
    return found


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


@settings(max_examples=60)
@given(social_logs(), CUTS)
def test_rows_are_what_is_counted_wherever_batches_end(log: list[Effect], cuts: Cuts) -> None:
    """Rounds and runs, whether their folds went on or began anew from the rows."""
    rows = dicts(ROUNDS, play(ROUNDS, log, RULESET, cuts))
    wanted = _rounds(log)
    assert [{name: row[name] for name in each} for row, each in zip(rows, wanted, strict=True)] == wanted
    assert rows == dicts(ROUNDS, play(ROUNDS, log, RULESET))
    run = the_row(RUNS, play(RUNS, log, RULESET, cuts))
    assert run == the_row(RUNS, play(RUNS, log, RULESET))
    folded = Fold("w", RULESET)
    for effect in log:
        folded.apply(effect)
    state = folded.state
    known = state.metadata["social_rl"]
    assert (run["rounds"], run["agents"], run["seed"]) == (known["rounds"], len(state.entities), known["seed"])
    counts = [entity["messages"] + entity["internal_messages"] for entity in state.entities.values()]
    assert run["messages"] == sum(counts)
