"""What a run's files become, in which order, and what is no run."""

from __future__ import annotations

import json
from typing import Any
from zoneinfo import ZoneInfo

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worldledger_social_rl.rules.errors import InvalidRunError
from worldledger_social_rl.rules.recording import RunFile, parse_file, read_run, round_drafts, write_run

from tests.cases import cases
from tests.rules.values import GOOD_JSON
from tests.rulesets.social_rl.documents import (
    ALICE,
    a_round,
    adaptation,
    effects_of_drafts,
    feedback,
    files_of,
    message,
    meta,
    policy_state,
    run_of,
    same,
    written,
)
from worldledger.canonical import canonical_json

_PLAIN = [a_round(1), a_round(2)]


def _refused(files: list[RunFile], *, strict: bool = True) -> list[tuple[str | None, str]]:
    with pytest.raises(InvalidRunError) as caught:
        read_run(files, strict=strict)
    problems = caught.value.problems
    assert caught.value.details["problems"] == problems
    return [(problem.get("file"), problem["path"]) for problem in problems]


def test_a_run_as_documented_is_taken_strictly() -> None:
    """Its effects come in the order of the round, each with its source, its time and its cause; nothing is odd."""
    run = read_run(run_of(*_PLAIN, meta={**meta(), "condition": "A", "seed": 2}), strict=True)
    of_a_round = [
        ("RoundStarted", "coach"),
        ("MessageEmitted", ALICE),
        ("MessageEmitted", "Owner+Marta"),
        ("FeedbackRecorded", "coach"),
        ("PolicyAdapted", "coach"),
        ("RoundSynthesised", "coach"),
        ("RoundEnded", "coach"),
    ]
    assert [(draft["kind"], draft["source_id"]) for draft in run.drafts] == [
        ("ExperimentStarted", "coach"),
        *of_a_round,
        *of_a_round,
    ]
    assert (run.rounds, run.messages, run.notices) == (2, 4, [])
    assert run.experiment_id == "social_rl_2025-11-23_175825"
    payloads = [draft["payload"] for draft in run.drafts]
    assert payloads[0] == {"meta": meta(), "extra": {"condition": "A", "seed": 2}}
    assert payloads[1] == {"round_number": 1, "meta": meta(), "round_config": a_round()["round_config"]}
    assert payloads[2] == a_round()["messages"][0]
    assert payloads[4] == a_round()["feedback"][ALICE]
    assert payloads[5] == a_round()["policy_adaptations"][0]
    assert payloads[6:8] == [{"round_number": 1, "synthesis": "..."}, {"round_number": 1, "duration_seconds": 45.2}]
    start, end = 1700000100.0, 1700000110.5
    assert [draft.get("sim_time") for draft in run.drafts[:8]] == [start, start, start, end, end, end, end, end]
    causes = [draft.get("caused_by") for draft in run.drafts]
    assert causes == [None] * 5 + [6] + [None] * 6 + [13] + [None] * 2


def test_a_cause_may_lie_in_an_earlier_round_and_may_be_missing() -> None:
    """An adaptation is caused by the latest feedback of its agent before it, if there is any."""
    first = a_round(1, policy_adaptations=[adaptation("Owner+Marta")])
    second = a_round(2, feedback={"Owner+Marta": feedback("Owner+Marta", round_number=2)})
    run = read_run(run_of(first, second), strict=True)
    seqs = {draft["payload"].get("agent_id"): seq for seq, draft in enumerate(run.drafts, 2) if _is_feedback(draft)}
    causes = [draft.get("caused_by") for draft in run.drafts if draft["kind"] == "PolicyAdapted"]
    assert causes == [None, seqs[ALICE]]


def _is_feedback(draft: Any) -> bool:
    return bool(draft["kind"] == "FeedbackRecorded")


def test_times_never_go_back() -> None:
    """sim_time is the greatest timestamp so far; what is no time is passed over."""
    times = [5.0, 3, None, "now", -1.0, 7, 6.5]
    rounds = [a_round(1, messages=[message(timestamp=each) for each in times]), a_round(2, messages=[])]
    run = read_run(run_of(*rounds), strict=False)
    found = [draft["sim_time"] for draft in run.drafts if draft["kind"] == "MessageEmitted"]
    assert found == [5.0, 5.0, 5.0, 5.0, 5.0, 7.0, 7.0]
    assert [run.drafts[place].get("sim_time") for place in (0, -1)] == [5.0, 7.0]


def test_other_files_are_kept_and_policy_states_come_first() -> None:
    """A PRAR policy state, whatever its name, stands before the rounds; any other JSON stands behind them."""
    documents = {
        "round1_social_rl.json": a_round(),
        "a_log.json": [1, None],
        "prar.json": policy_state(),
        "meta.json": {},
    }
    run = read_run(files_of(documents), strict=True)
    kinds = [draft["kind"] for draft in run.drafts]
    assert kinds[:3] == ["ExperimentStarted", "PolicyStateRecorded", "RoundStarted"]
    assert run.drafts[1]["payload"] == {**policy_state(), "name": "prar.json"}
    assert run.drafts[-1]["payload"] == {"name": "a_log.json", "content": [1, None]}
    assert same(written(run.drafts)) == same(documents)


def test_the_digest_is_that_of_the_content() -> None:
    """Layout, order of keys and order of files are no content; names and values are."""
    files = {"round1_social_rl.json": a_round(), "meta.json": meta()}
    plain = read_run(files_of(files), strict=True).digest
    spaced = {
        name: json.dumps(dict(reversed(value.items())), indent=4).encode() for name, value in reversed(files.items())
    }
    assert read_run([parse_file(*each) for each in spaced.items()], strict=True).digest == plain
    assert len(plain) == 64
    for other in (
        {**files, "round1_social_rl.json": a_round(synthesis="other")},
        {**files, "log.json": 1},
        {"round1_social_rl.json": a_round()},
    ):
        assert read_run(files_of(other), strict=True).digest != plain


# -- what is refused ---------------------------------------------------------------------------------------------


@cases("strict", [True, False])
@cases(
    "files, problem",
    [
        ([], (None, "$")),
        ([RunFile("log.json", {})], (None, "$")),
        (
            [*run_of(a_round()), RunFile("log.json", 1), RunFile("log.json", 1)],
            ("log.json", "$"),
        ),
        ([*run_of(a_round()), RunFile("../log.json", 1)], ("../log.json", "$")),
        ([*run_of(a_round()), RunFile(".log.json", 1)], (".log.json", "$")),
        (
            [RunFile("round1_social_rl.json", a_round()), RunFile("round01_social_rl.json", a_round())],
            ("round1_social_rl.json", "$"),
        ),
        ([RunFile("round1_social_rl.json", a_round(synthesis="a\0b"))], ("round1_social_rl.json", "$.synthesis")),
        ([RunFile("round1_social_rl.json", a_round(mood=-0.0))], ("round1_social_rl.json", "$.mood")),
        ([RunFile("round1_social_rl.json", a_round(mood=2**53))], ("round1_social_rl.json", "$.mood")),
    ],
)
def test_what_no_mode_takes(files: list[RunFile], problem: tuple[str | None, str], strict: bool) -> None:
    """No run at all; two files of one name or round, names of other places, and values that a log cannot hold."""
    assert _refused(files, strict=strict) == [problem]


def test_two_files_for_one_round_are_refused_whatever_their_names() -> None:
    """The second file says that it is the first round, as the first does."""
    files = run_of(a_round(1), a_round(1))
    assert _refused(files, strict=False) == [("round2_social_rl.json", "$")]
    assert ("round2_social_rl.json", "$.round_number") in _refused(files)


@cases(
    "files, problems",
    [
        (run_of(a_round(1), a_round(3)), [("round2_social_rl.json", "$.round_number")]),
        (files_of({"round2_social_rl.json": a_round(2)}), [("round2_social_rl.json", "$.round_number")]),
        (
            files_of({"round1_social_rl.json": a_round(1), "round3_social_rl.json": a_round(3)}),
            [("round3_social_rl.json", "$.round_number")],
        ),
        (
            run_of(a_round(feedback={ALICE: feedback(), "Owner+Bob": feedback("Owner+Bob")})),
            [("round1_social_rl.json", '$.feedback["Owner+Bob"]')],
        ),
        (
            run_of(a_round(policy_adaptations=[adaptation("Owner+Bob")])),
            [("round1_social_rl.json", "$.policy_adaptations[0].agent_id")],
        ),
        (
            run_of(a_round(1), a_round(2, meta=meta(social_rl_version="0.3.0"))),
            [("round2_social_rl.json", "$.meta.social_rl_version")],
        ),
        (
            run_of(a_round(1, meta=meta(social_rl_version="0.3.0")), meta=meta()),
            [("round1_social_rl.json", "$.meta.social_rl_version")],
        ),
        (run_of(a_round(), meta=meta(framework_option="X")), [("meta.json", "$.framework_option")]),
        (run_of(a_round(), meta=[1]), [("meta.json", "$")]),
        (run_of(a_round(), [1]), [("round2_social_rl.json", "$")]),
        (run_of(a_round(), policy=policy_state(timestamp="")), [("policy.json", "$.timestamp")]),
    ],
)
def test_what_a_strict_run_refuses_is_a_notice_in_a_lenient_one(
    files: list[RunFile], problems: list[tuple[str | None, str]]
) -> None:
    """Rounds out of order, strangers, mixed versions, meta data out of range: the same places, and nothing is lost."""
    assert _refused(files) == problems
    run = read_run(files, strict=False)
    assert {(notice["file"], notice["path"]) for notice in run.notices} == set(problems)
    assert same(written(run.drafts)) == same({file.name: file.value for file in files})


def test_agents_that_the_meta_data_name_are_no_strangers() -> None:
    """Who has not spoken may have feedback all the same; who spoke in an earlier round too."""
    silent = a_round(feedback={"Owner+Bob": feedback("Owner+Bob")}, policy_adaptations=[])
    read_run(run_of(silent, meta={"agents": ["Owner+Bob"]}), strict=True)
    later = a_round(2, messages=[], feedback={ALICE: feedback(round_number=2)}, policy_adaptations=[])
    read_run(run_of(a_round(1), later), strict=True)


def test_notices_tell_the_like_once_and_how_often() -> None:
    """The first place, and how many there are, for each file; of an agent's id once for each agent."""
    odd = [message("Ann", turn_number=0), message("Ann", turn_number=0), message("Bob", mood=1), message("Ann")]
    run = read_run(run_of(a_round(messages=odd, feedback={}, policy_adaptations=[])), strict=False)
    told = {notice["path"]: notice["count"] for notice in run.notices}
    assert told == {"$.messages[0].agent_id": 2, "$.messages[0].turn_number": 2, "$.messages[2].mood": 1}
    assert len(_refused(run_of(a_round(messages=odd, feedback={}, policy_adaptations=[])))) == 4 + 2 + 1


def test_many_problems_are_bounded() -> None:
    """A big run that is all wrong does not make an endless error."""
    wrong = a_round(messages=[message(turn_number=0)] * 3000, feedback={}, policy_adaptations=[])
    assert len(_refused(run_of(wrong))) == 1000


# -- rounds that are posted ----------------------------------------------------------------------------------------


def test_a_posted_round_has_the_drafts_of_a_file() -> None:
    """Without times and causes, unless it is known where it goes."""
    of_file = read_run(run_of(a_round()), strict=True).drafts
    posted = round_drafts(a_round(), strict=True)
    assert [(draft["kind"], draft["payload"]) for draft in posted] == [
        (draft["kind"], draft["payload"]) for draft in of_file
    ]
    assert not any({"sim_time", "caused_by"} & draft.keys() for draft in posted)
    placed = round_drafts(a_round(), strict=True, now=1700000105.0, first_seq=11)
    assert [draft.get("sim_time") for draft in placed][:3] == [1700000105.0, 1700000105.0, 1700000110.5]
    assert placed[4].get("caused_by") == 14


@cases(
    "value, strict, paths",
    [
        (a_round(synthesis=None), True, ["$.synthesis"]),
        ({**a_round(), "round_number": "1"}, False, ["$.round_number"]),
        ({"messages": []}, False, ["$.round_number"]),
        ({"messages": []}, True, ["$.round_number"]),
        ({**a_round(), "round_number": -1}, True, ["$.round_number"]),
        ({**a_round(), "round_number": 0}, True, ["$.round_number"]),
        (a_round(-1), False, ["$.round_number"]),
        (
            a_round(-1, messages=[message(round_number=-1)], feedback={}, policy_adaptations=[]),
            True,
            ["$.round_number", "$.messages[0].round_number"],
        ),
        ([], False, ["$"]),
        (a_round(feedback={"Owner+Bob": feedback("Owner+Bob")}), True, ['$.feedback["Owner+Bob"]']),
    ],
)
def test_a_posted_round_is_refused_with_all_its_paths(value: Any, strict: bool, paths: list[str]) -> None:
    """There is no file's name that could tell its number."""
    with pytest.raises(InvalidRunError) as caught:
        round_drafts(value, strict=strict)
    assert [problem["path"] for problem in caught.value.problems] == paths
    assert all("file" not in problem for problem in caught.value.problems)


def test_strangers_of_a_posted_round_may_be_known_to_the_world() -> None:
    """Whoever posts a round says who is known besides."""
    value = a_round(feedback={"Owner+Bob": feedback("Owner+Bob")}, policy_adaptations=[])
    assert round_drafts(value, strict=True, agents=["Owner+Bob"])


# -- files ---------------------------------------------------------------------------------------------------------


@cases(
    "data, path",
    [
        (b'{"a": 1', "$"),
        (b"", "$"),
        (b"\xff", "$"),
        (b'{"a": NaN}', "$.a"),
        (b'{"a": [1e999]}', "$.a[0]"),
        (b'{"b": {"a": 1, "a": 1}}', "$.b"),
        (b'{"a"\n: 1, "a" :2}', "$"),
        (b'{"x \\u0022\\u0020:": 1, "a": 1, "a": 2}', "$"),
        (b'{"\\u0022:": 1, "a": 1, "a": 2}', "$"),
        (b'{"a": 18446744073709551616}', "$.a"),
        (b'{"a": -9223372036854775809}', "$.a"),
        (b'{"a": 9007199254740992}', "$.a"),
    ],
)
def test_files_that_a_fast_parser_would_change_are_refused(data: bytes, path: str) -> None:
    """Truncated JSON, NaN, keys that stand twice, numbers that no double holds."""
    with pytest.raises(InvalidRunError) as caught:
        parse_file("x.json", data)
    assert [(problem["file"], problem["path"]) for problem in caught.value.problems] == [("x.json", path)]


@given(GOOD_JSON, st.sampled_from([None, 1]), st.booleans())
def test_files_that_a_log_can_hold_are_read_as_they_are(value: Any, indent: int | None, plain: bool) -> None:
    """However they are laid out; the canonical text beside the value is its own."""
    file = parse_file("x.json", json.dumps(value, indent=indent, ensure_ascii=plain).encode())
    assert orjson.dumps(file.value, option=orjson.OPT_SORT_KEYS) == file.text == canonical_json(value)


@cases("text", ["0.00012345678901234567", "1e20", "12345678901234567890", '"12345678901234567890 \\":"'])
def test_long_numbers_are_told_apart_from_long_integers(text: str) -> None:
    """Digits behind a point, and in a text, are no integers."""
    data = f'{{"a": {text}}}'.encode()
    if text.isdigit():
        with pytest.raises(InvalidRunError):
            parse_file("x.json", data)
    else:
        assert parse_file("x.json", data).value == json.loads(data)


def test_a_name_in_a_log_that_leads_elsewhere_is_not_written() -> None:
    """A log may have been made by anybody; its export stays in its folder."""
    for kind in ("ArtifactRecorded", "PolicyStateRecorded", "RoundStarted"):
        effects = effects_of_drafts(
            [
                {
                    "kind": kind,
                    "payload": {"round_number": 1, "name": "../../etc/passwd", "content": 1},
                    "source_id": "x",
                    "schema_version": "1.0.0",
                }
            ]
        )
        with pytest.raises(InvalidRunError, match="no name of a file"):
            list(write_run(effects))


def test_files_come_as_soon_as_their_effects_have_been_read() -> None:
    """A round's file is there when the next round starts: not more than one round is held."""
    effects = effects_of_drafts(read_run(run_of(a_round(1), a_round(2)), strict=True).drafts)
    read = []

    def reading() -> Any:
        for effect in effects:
            read.append(effect["global_seq"])
            yield effect

    files = write_run(reading())
    assert next(files).name == "round1_social_rl.json"
    assert read == list(range(2, 10))
    assert next(files).name == "round2_social_rl.json"


def test_an_adjustment_needs_no_intensity() -> None:
    """Documented adaptations have none, whatever their type."""
    run = read_run(run_of(a_round(policy_adaptations=[adaptation(adaptation_type="adjust_intensity")])), strict=True)
    assert not run.notices


def test_timestamps_in_milliseconds_are_read_as_such() -> None:
    """So are those in microseconds; it is told, the files keep what they have, and strict imports refuse them."""
    rounds = [a_round(1, messages=[message(timestamp=each) for each in (1.7e9, 1_700_000_001_500, 1.700000002e15)])]
    run = read_run(run_of(*rounds), strict=False)
    told = [draft for draft in run.drafts if draft["kind"] == "MessageEmitted"]
    seconds = [1.7e9, 1_700_000_001.5, 1_700_000_002.0]
    assert [draft["payload"]["timestamp"] for draft in told] == seconds
    assert [draft["sim_time"] for draft in told] == seconds
    (notice,) = run.notices
    assert notice["message"].endswith("not 1700000001500; it is read as milliseconds")
    assert (notice["path"], notice["count"]) == ("$.messages[1].timestamp", 2)
    assert same(written(run.drafts)) == same({"round1_social_rl.json": rounds[0]})
    with pytest.raises(InvalidRunError):
        read_run(run_of(*rounds), strict=True)


def test_times_without_an_offset_are_those_of_the_timezone() -> None:
    """Without one they stay as they are, and that is told, in strict mode too; the files keep what they have."""
    naive = "2025-07-01T12:00:00.5"
    files = run_of(
        a_round(1, meta=meta(timestamp=naive)), meta={**meta(timestamp="2025-12-01 12:00"), "condition": 0.5}
    )
    for strict in (True, False):
        run = read_run(files, strict=strict)
        assert run.drafts[0]["payload"]["meta"]["timestamp"] == "2025-12-01 12:00"
        assert not run.notices
        (notice,) = run.remarks
        assert (notice["file"], notice["path"], notice["count"]) == ("meta.json", "$.timestamp", 2)
        assert notice["message"].startswith("timestamp has no offset from UTC and is taken for UTC; --timezone")
    run = read_run(files, strict=True, timezone=ZoneInfo("Europe/Berlin"))
    assert not run.remarks
    started, begun = run.drafts[:2]
    assert started["payload"]["meta"]["timestamp"] == "2025-12-01 12:00+01:00"
    assert started["payload"]["condition"] == "0.5"
    assert begun["payload"]["meta"]["timestamp"] == f"{naive}+02:00"
    assert same(written(run.drafts)) == same({file.name: file.value for file in files})
    noon = meta(timestamp="2025-12-01T12:00:00Z")
    aware = run_of(a_round(meta=noon), meta=noon)
    assert (
        read_run(aware, strict=True, timezone=ZoneInfo("Europe/Berlin")).drafts == read_run(aware, strict=True).drafts
    )
