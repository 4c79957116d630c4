"""No effect of a run takes the place of another's file: what is refused, and what an export makes of odd logs."""

from __future__ import annotations

from typing import Any

import pytest
from worldledger_social_rl.rules import RULESET
from worldledger_social_rl.rules.errors import InvalidRunError
from worldledger_social_rl.rules.recording import RunFile, read_run, write_run

from tests.cases import cases
from tests.rulesets.social_rl.documents import (
    ALICE,
    a_round,
    effects_of_drafts,
    files_of,
    message,
    meta,
    policy_state,
    same,
    written,
)
from tests.rulesets.social_rl.worlds import World
from worldledger.errors import IllegalEffectError

_ROUNDS = ["round1_social_rl.json", "round2_social_rl.json", "ROUND01_Social_RL.json", "round99_social_rl.json"]
_METAS = ["meta.json", "Meta.JSON"]
_POLICIES = ["policy_state.json", "Policy_State.json"]


@cases("strict", [True, False])
@cases("name", _ROUNDS + _METAS + _POLICIES)
def test_names_that_belong_to_other_files_are_refused(name: str, strict: bool) -> None:
    """Of an artifact all of them, of a policy state those of rounds and of the meta data; case makes no difference."""
    world = World(strict=strict).start().end()
    assert world.refused("ArtifactRecorded", {"name": name, "content": "gone"}) == [("$.payload.name", "name")]
    if name in _POLICIES:
        world.post("PolicyStateRecorded", policy_state(name=name))
    else:
        assert world.refused("PolicyStateRecorded", policy_state(name=name)) == [("$.payload.name", "name")]


@cases("name", ["notes.json", "round1.json", "a_round1_social_rl.json", "meta.json.txt", "roundup.json"])
def test_other_names_are_free(name: str) -> None:
    """A name that only looks a little like a round's is nobody's."""
    world = World()
    world.post("ArtifactRecorded", {"name": name, "content": 1})
    world.post("PolicyStateRecorded", policy_state(name=f"p_{name}"))


@cases(
    "name, allowed",
    [
        ("round2_social_rl.json", True),
        ("round002_social_rl.json", True),
        ("round1_social_rl.json", False),
        ("round20_social_rl.json", False),
        ("meta.json", False),
        ("notes.json", False),
        (f"round{'0' * 200}2_social_rl.json", False),
        (2, False),
    ],
)
def test_the_name_of_a_round_is_its_own(name: Any, allowed: bool) -> None:
    """A lenient world takes a name for a round's file that tells its number, and no other."""
    world = World(strict=False).start().end()
    if allowed:
        world.start(2, name=name)
    else:
        assert world.refused("RoundStarted", {"round_number": 2, "name": name}) == [("$.payload.name", "name")]


@cases("strict", [True, False])
@cases(
    "kind, payload, path",
    [
        ("PolicyStateRecorded", policy_state(name="round1_social_rl.json"), "name"),
        ("PolicyStateRecorded", policy_state(name="notes.json"), "name"),
        ("PolicyStateRecorded", {"policies": [], "raw": "gone"}, "raw"),
        ("FeedbackRecorded", {"agent_id": ALICE, "absent": ["agent_id"]}, "absent"),
        ("MessageEmitted", message("Coach+C", parts=[]), "parts"),
        ("MessageEmitted", message("Coach+C", extra={"agent_id": ALICE}), "extra.agent_id"),
    ],
)
def test_agents_do_not_say_how_files_are_written(kind: str, payload: dict[str, Any], path: str, strict: bool) -> None:
    """What only an import has to tell is in no agent's intent, a coach's neither."""
    world = World(strict=strict).start()
    with pytest.raises(IllegalEffectError) as caught:
        RULESET.check_intent(kind, {"kind": kind, **payload}, "Coach+C", world.fold.state)
    assert (caught.value.path, caught.value.details["rule"]) == (f"$.payload.{path}", "not_for_agents")


# -- logs that have it all the same --------------------------------------------------------------------------------


def _files(*effects: tuple[str, dict[str, Any]]) -> dict[str, tuple[Any, str | None, int | None]]:
    """Return the files of a log, by name: value, the name that was meant, the effect; each is given once."""
    drafts: list[Any] = [
        {"kind": kind, "payload": payload, "source_id": "x", "schema_version": "1.0.0"} for kind, payload in effects
    ]
    found: dict[str, tuple[Any, str | None, int | None]] = {}
    for file in write_run(effects_of_drafts(drafts)):
        assert file.name not in found
        found[file.name] = (file.value, file.meant, file.seq)
    return found


def _start(number: int, **more: Any) -> tuple[str, dict[str, Any]]:
    return "RoundStarted", {"round_number": number, "parts": ["round_number"], **more}


def _end(number: int) -> tuple[str, dict[str, Any]]:
    return "RoundEnded", {"round_number": number}


def _artifact(name: str, content: Any) -> tuple[str, dict[str, Any]]:
    return "ArtifactRecorded", {"name": name, "content": content}


_ROUND_1 = "round1_social_rl.json"


def test_a_round_keeps_its_file() -> None:
    """Artifacts and policies under its name, before it or after it, are written beside it, with the effect's number."""
    early, late = _artifact(_ROUND_1, "early"), ("PolicyStateRecorded", policy_state(name=_ROUND_1))
    found = _files(early, _start(1), _end(1), late, _artifact("meta.json", "gone"), ("ExperimentStarted", {"meta": {}}))
    assert found == {
        _ROUND_1: ({"round_number": 1}, None, 3),
        "meta.json": ({}, None, 7),
        "round1_social_rl.effect5.json": (policy_state(), _ROUND_1, 5),
        "round1_social_rl.effect2.json": ("early", _ROUND_1, 2),
        "meta.effect6.json": ("gone", "meta.json", 6),
    }


def test_files_of_one_name_are_all_there() -> None:
    """Rounds and meta data that stand twice, files of two kinds under one name, and a name that was lent already."""
    found = _files(
        ("ExperimentStarted", {"meta": {"model": "m"}}),
        ("ExperimentStarted", {"meta": {"model": "n"}}),
        _start(1, name="meta.json"),
        _start(2),
        _start(2),
        _artifact("log", 1),
        ("PolicyStateRecorded", policy_state(name="log")),
        _artifact("log.effect8", 2),
        _artifact("policy_state.json", 3),
        ("PolicyStateRecorded", policy_state()),
    )
    assert {name: meant for name, (_, meant, _) in found.items()} == {
        "meta.json": None,
        "meta.effect3.json": "meta.json",
        "meta.effect4.json": "meta.json",
        "round2_social_rl.json": None,
        "round2_social_rl.effect6.json": "round2_social_rl.json",
        "log": None,
        "log.effect8": "log",
        "log.effect9.effect8": "log.effect8",
        "policy_state.json": None,
        "policy_state.effect10.json": "policy_state.json",
    }
    assert found["policy_state.json"][0] == policy_state()


def test_names_are_as_short_as_disks_want_them() -> None:
    """A name of too many bytes is refused; where a log has it, or another's, what is written has one that fits."""
    long, legal = "日" * 100 + ".json", "é" * 122 + ".json"
    for strict in (True, False):
        world = World(strict=strict)
        assert world.refused("ArtifactRecorded", {"name": long, "content": 1}) == [("$.payload.name", "name")]
        assert world.refused("PolicyStateRecorded", policy_state(name=long)) == [("$.payload.name", "name")]
        world.post("ArtifactRecorded", {"name": legal, "content": 1})
    found = _files(
        _artifact(long, 1),
        _artifact(legal, 2),
        ("PolicyStateRecorded", policy_state(name=legal)),
        _artifact("é" * 150, 3),
    )
    assert {meant: len(name.encode()) for name, (_, meant, _) in found.items()} == {
        long: 253,
        None: 249,
        legal: 255,
        "é" * 150: 254,
    }
    assert all(name.endswith(".json") for name, (_, meant, _) in found.items() if meant != "é" * 150)


def test_what_is_recorded_again_under_a_taken_name_is_one_file() -> None:
    """Also beside another's file the last counts, and there is one."""
    drafts: list[Any] = [
        {"kind": kind, "payload": payload, "source_id": "x", "schema_version": "1.0.0"}
        for kind, payload in (
            _artifact("r.json", 1),
            *(("PolicyStateRecorded", policy_state(name="r.json", timestamp=f"2025-01-0{n}")) for n in (1, 2, 3)),
        )
    ]
    files = list(write_run(effects_of_drafts(drafts)))
    assert [(file.name, file.meant, file.seq) for file in files] == [
        ("r.json", None, 2),
        *(("r.effect3.json", "r.json", seq) for seq in (3, 4, 5)),
    ]
    assert files[-1].value["timestamp"] == "2025-01-03"


def test_what_is_recorded_anew_counts_anew() -> None:
    """Of an artifact, and of a policy state, the last is written; whether it is named, as an import does, or not."""
    named, plain = policy_state(timestamp="2025-01-01T00:00:00"), policy_state()
    effects = [
        _artifact("log.json", 1),
        ("PolicyStateRecorded", {**named, "name": "policy_state.json"}),
        ("PolicyStateRecorded", plain),
        _artifact("log.json", 2),
    ]
    last: dict[str, Any] = {}
    for order in (effects, effects[:1] + effects[2:0:-1] + effects[3:]):
        drafts: list[Any] = [
            {"kind": kind, "payload": payload, "source_id": "x", "schema_version": "1.0.0"} for kind, payload in order
        ]
        files = list(write_run(effects_of_drafts(drafts)))
        assert [file.meant for file in files] == [None] * len(files)
        last = {file.name: file.value for file in files}
        assert last == {"log.json": 2, "policy_state.json": plain if order is effects else named}


def test_what_a_round_s_start_says_hides_nothing() -> None:
    """Messages that were said stand in the round's document, whatever its start has of `parts` and `extra`."""
    started = {"round_number": 1, "parts": ["round_number"], "extra": {"messages": [], "synthesis": "gone", "mood": 1}}
    found = _files(
        ("RoundStarted", started),
        ("MessageEmitted", message()),
        ("RoundSynthesised", {"round_number": 1, "synthesis": "kept"}),
    )
    value = {"round_number": 1, "messages": [message()], "synthesis": "kept", "mood": 1}
    assert found == {_ROUND_1: (value, None, 2)}


@cases(
    "others",
    [
        {"round2_social_rl.json": [1]},
        {"round2_social_rl.json": None, "meta.json": [meta()]},
        {"Round1_social_rl.json": {"a": 1}, "META.json": {"b": 2}, "policy_state.json": "none"},
        {"Round1_social_rl.json": policy_state(), "Policy_State.json": policy_state(), "policy_state.json": 7},
        {"round01_social_rl.json": a_round(3), "round3_social_rl.json": a_round(2)},
        {"round1_social_rl.effect2.json": 1, f"round{'1' * 16}_social_rl.json": a_round(4)},
    ],
)
def test_runs_as_found_are_written_as_they_were(others: dict[str, Any]) -> None:
    """Names that a live world refuses come back from an import, each on its own file."""
    documents = {_ROUND_1: a_round(), "meta.json": meta(), **others}
    run = read_run(files_of(documents), strict=False)
    assert same(written(run.drafts)) == same(documents)
    assert all(file.meant is None for file in write_run(effects_of_drafts(run.drafts)))


@cases("name", ["Round1_social_rl.json", "META.json", f"round{'1' * 16}_social_rl.json"])
@cases("value", [a_round(), policy_state()])
def test_a_name_that_is_nearly_a_round_s_is_told(name: str, value: Any) -> None:
    """A lenient import notes it, a strict one refuses it: a round in it would not be read as one."""
    files = [*files_of({_ROUND_1: a_round()}), RunFile(name, value)]
    (notice,) = read_run(files, strict=False).notices
    assert (notice["file"], notice["path"]) == (name, "$")
    with pytest.raises(InvalidRunError, match="nearly that of a round"):
        read_run(files, strict=True)
