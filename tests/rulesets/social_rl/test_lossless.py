"""A run's folder becomes effects and the folder again, whatever is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_social_rl.rules import RULESET
from worldledger_social_rl.rules.errors import InvalidRunError
from worldledger_social_rl.rules.models import MESSAGE, round_faults
from worldledger_social_rl.rules.recording import RecordedRun, parse_file, read_run, round_drafts

from tests.projections.playing import effects_of
from tests.rulesets.social_rl.documents import ALICE, FOUND, a_round, files_of, message, odd_runs, same, written
from worldledger.folding import Fold

_RUNS = sorted(FOUND.iterdir()) if FOUND.is_dir() else []


def _folded(run: RecordedRun) -> Fold:
    fold = Fold("w", RULESET)
    for effect in effects_of(run.drafts, ruleset="social_rl"):
        fold.apply(effect)
    return fold


@pytest.mark.skipif(not _RUNS, reason="the recorded runs are not here")
@pytest.mark.parametrize("folder", [folder for folder in _RUNS if folder.is_dir()], ids=lambda folder: folder.name)
def test_runs_found_in_the_wild_lose_nothing(folder: Path) -> None:
    """Each of them is taken as it was found, folds without a malformed effect, and is written as it was."""
    documents = {path.name: path.read_bytes() for path in folder.glob("*.json")}
    run = read_run([parse_file(name, data) for name, data in documents.items()], strict=False)
    wanted = {name: orjson.loads(data) for name, data in documents.items()}
    assert same(written(run.drafts)) == same(wanted)
    rounds = [value for name, value in wanted.items() if name.startswith("round")]
    assert run.rounds == len(rounds)
    assert run.messages == sum(len(value["messages"]) for value in rounds)
    assert run.experiment_id == wanted.get("meta.json", {}).get("experiment_id")
    metadata = _folded(run).state.metadata
    assert (metadata["malformed_effects"], metadata["unknown_effects"]) == (0, 0)
    assert {notice["file"] for notice in run.notices} <= wanted.keys()


@pytest.mark.skipif(not _RUNS, reason="the recorded runs are not here")
def test_a_run_found_in_the_wild_says_what_is_odd_about_it() -> None:
    """Agent ids without a role, adaptations as deltas: told file by file, the like of it once."""
    folder = FOUND / "A_seed2"
    run = read_run([parse_file(path.name, path.read_bytes()) for path in folder.glob("*.json")], strict=False)
    third = {(notice["path"], notice["count"]) for notice in run.notices if notice["file"] == "round3_social_rl.json"}
    assert ("$.policy_adaptations[0].deltas", 4) in third
    assert ("$.policy_adaptations[0].cue", 4) in third
    with pytest.raises(InvalidRunError, match=r"round1_social_rl\.json: \$\.messages\[0\]\.agent_id"):
        read_run([parse_file(path.name, path.read_bytes()) for path in folder.glob("*.json")], strict=True)


@settings(max_examples=80, deadline=None)
@given(odd_runs())
def test_odd_runs_lose_nothing(documents: dict[str, Any]) -> None:
    """Values of any type in any place, unknown fields, elements that are no objects: all of it comes back."""
    files = files_of(documents)
    run = read_run(files, strict=False)
    assert same(written(run.drafts)) == same(documents)
    times = [draft["sim_time"] for draft in run.drafts]
    assert times == sorted(times)  # type: ignore[type-var]
    _folded(run).state.text()
    again = read_run(list(reversed(files)), strict=False)
    assert (again.drafts, again.digest) == (run.drafts, run.digest)


@settings(max_examples=40, deadline=None)
@given(odd_runs())
def test_a_run_is_lenient_about_what_a_strict_one_refuses(documents: dict[str, Any]) -> None:
    """Without a notice a run is taken strictly too, with the same effects; with one it is refused."""
    files = files_of(documents)
    run = read_run(files, strict=False)
    if run.notices:
        with pytest.raises(InvalidRunError) as caught:
            read_run(files, strict=True)
        told = {(problem["file"], problem["path"]) for problem in caught.value.problems}
        assert {notice["file"] for notice in run.notices} >= {file for file, _ in told}
    else:
        assert read_run(files, strict=True) == run


_CHANGES: list[tuple[str, Any]] = [
    *[(name, None) for name in MESSAGE],
    *[("turn_number", value) for value in (0, 1.0, True)],
    *[("timestamp", value) for value in (-0.5, 3, "now", False)],
    *[("role", value) for value in ("bot", "user", "")],
    *[("context_frame", {"prar_cue": 1}), ("context_frame", {"prar_cue": "x"}), ("context_frame", [])],
    *[("round_number", 2), ("internal", 1), ("internal", True), ("mood", 1), ("agent_id", "+"), ("content", 5)],
]
_ODD_MESSAGES = st.builds(
    lambda agent, change: {**message(agent), **({} if change is None else {change[0]: change[1]})},
    st.sampled_from([ALICE, ALICE, "CES_Urban"]),
    st.none() | st.sampled_from(_CHANGES),
)


@settings(max_examples=120, deadline=None)
@given(st.lists(_ODD_MESSAGES, max_size=6))
def test_the_fast_look_at_messages_sees_what_the_slow_one_does(messages: list[dict[str, Any]]) -> None:
    """Whether an agent's messages before were right or not, what is wrong with the next is told."""
    value = a_round(messages=messages, feedback={}, policy_adaptations=[])
    wanted = [fault.path for fault in round_faults(value)]
    try:
        round_drafts(value, strict=True)
        found = []
    except InvalidRunError as error:
        found = [problem["path"] for problem in error.problems]
    assert found == wanted
