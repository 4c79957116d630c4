"""A run that has grown: what is appended to its world, and what is refused."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from worldledger_social_rl.rules import RULESET
from worldledger_social_rl.rules.errors import InvalidRunError
from worldledger_social_rl.rules.recording import (
    Growth,
    OtherRunError,
    Recorded,
    RecordedRun,
    RunFile,
    read_run,
    write_run,
)

from tests.cases import cases
from tests.rulesets.counting import malformed
from tests.social_runs import ALICE, adaptation, message, round_of, rounds
from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.genesis import NewWorld, genesis_draft

META = {"experiment_id": "e", "condition": 0, "seed": 3, "rounds_executed": 1}


def run_of(files: dict[str, Any]) -> RecordedRun:
    """Read a run leniently."""
    return read_run([RunFile(name, value) for name, value in files.items()], strict=False)


def logged(drafts: list[Any], before: list[Effect]) -> list[Effect]:
    """Return effects as a log has them behind others."""
    made: list[Any] = list(before)
    for draft in drafts:
        made.append({**draft, "global_seq": len(made) + 1, "wall_time": 1.0, "uuid": "u", "world_id": "w"})
    return made


def world_of(files: dict[str, Any]) -> list[Effect]:
    """Return the log of a run's world."""
    world = NewWorld(world_id="w", ruleset="social_rl", time_authority="client", config={"strict": False})
    genesis = genesis_draft(world, world_uuid="0" * 32, ruleset_version=1, wall_time=1.0)
    return logged([{**genesis, "sim_time": 0.0}, *run_of(files).drafts], [])


def grown(log: list[Effect], files: dict[str, Any]) -> tuple[Growth, list[Effect]]:
    """Return what is new of a folder, and the log with it."""
    recorded = Recorded(run_of(files))
    recorded.read(log)
    growth = recorded.growth("w")
    return growth, logged(growth.drafts, log)


def written(log: list[Effect]) -> dict[str, Any]:
    """Return the files that an export makes."""
    return {file.name: file.value for file in write_run(log)}


def test_new_rounds_and_changed_files_are_appended_and_written_again() -> None:
    """An export gives the grown folder; sim_time goes on, adaptations name their feedback, the state is the new one."""
    late = round_of(3, feedback={}, policy_adaptations=[adaptation(ALICE, 3)])
    first = {**rounds(1), "meta.json": META, "log.json": [1]}
    whole = {
        **rounds(1, 2),
        "round3_social_rl.json": late,
        "meta.json": {**META, "rounds_executed": 3},
        "log.json": [1, 2],
    }
    growth, log = grown(world_of(first), whole)
    assert (growth.rounds, growth.messages) == (2, 6)
    assert written(log) == whole
    times = [effect["sim_time"] for effect in log]
    assert times == sorted(times)
    by_seq = {effect["global_seq"]: effect for effect in log}
    causes = [by_seq[effect["caused_by"]] for effect in log if "caused_by" in effect]
    assert [(cause["kind"], cause["payload"]["round_number"]) for cause in causes] == [
        ("FeedbackRecorded", 1), ("FeedbackRecorded", 2), ("FeedbackRecorded", 2)
    ]  # fmt: skip
    fold = Fold("w", RULESET)
    for effect in log:
        fold.apply(effect)
    here = fold.state.metadata["social_rl"]
    assert (here["rounds"], here["condition"], here["meta"]) == (3, "0", {"experiment_id": "e"})
    assert malformed(fold.state) == 0
    assert grown(log, whole)[0] == Growth()
    assert grown(log, first)[0] == Growth()
    assert grown(log, {**whole, "log.json": [1, 2, 3]})[0].drafts[0]["payload"] == {
        "name": "log.json",
        "content": [1, 2, 3],
    }


def test_meta_data_may_come_later() -> None:
    """A run that had none at first has them once its folder has."""
    growth, log = grown(world_of(rounds(1)), {**rounds(1), "meta.json": META})
    assert [draft["kind"] for draft in growth.drafts] == ["ExperimentStarted"]
    assert written(log) == {**rounds(1), "meta.json": META}


@cases(
    "change, path, words",
    [
        (lambda files: files["round1_social_rl.json"].update(synthesis="x"), "$.synthesis", 'this is "x" here, and'),
        (
            lambda files: files["round2_social_rl.json"]["messages"].append(message(ALICE, 2, 4)),
            "$.messages[3]",
            "this is an object here, and not there in the log",
        ),
        (lambda files: files["round2_social_rl.json"].pop("duration_seconds"), "$.duration_seconds", "not there here"),
        (
            lambda files: [files.pop("round1_social_rl.json"), files.pop("round2_social_rl.json")],
            "$",
            "none of these rounds is in world w",
        ),
        (lambda files: files["round1_social_rl.json"].update(round_number=0), "$", "goes on without this round"),
    ],
)  # fmt: skip
def test_another_history_is_refused_with_the_first_difference(change: Any, path: str, words: str) -> None:
    """A round that both have must be equal, and new ones come behind the last."""
    log = world_of(rounds(1, 2))
    files = deepcopy(rounds(1, 2, 3))
    change(files)
    with pytest.raises(InvalidRunError) as refused:
        grown(log, files)
    (problem,) = refused.value.problems
    assert problem["path"] == path
    assert words in problem["message"]
    assert "world w" in problem["message"]


def test_a_run_that_says_it_is_another_one_is_another_one() -> None:
    """Of a folder of the same name: true is not 1, and what only one of them tells tells nothing."""
    log = world_of({**rounds(1), "meta.json": {"condition": 1}})
    for condition in (True, 2, "1"):
        with pytest.raises(OtherRunError):
            grown(log, {**rounds(1), "meta.json": {"condition": condition}})
    assert grown(log, {**rounds(1), "meta.json": {"condition": 1, "seed": 4}})[0].drafts


def test_a_file_with_the_name_of_a_round_that_is_none_is_the_same_again() -> None:
    """It was kept as any other file, and is not recorded anew unless it has changed."""
    files = {**rounds(1), "round2_social_rl.json": [1]}
    log = world_of(files)
    assert grown(log, files)[0] == Growth()
    growth, log = grown(log, {**files, "round2_social_rl.json": [2]})
    assert [draft["kind"] for draft in growth.drafts] == ["ArtifactRecorded"]
    assert written(log) == {**files, "round2_social_rl.json": [2]}
