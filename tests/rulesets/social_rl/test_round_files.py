"""What `save_round_result` writes, `load_round_result` reads: an equal round, or else nothing is written."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_social_rl.documents import RoundResult, load_round_result, save_round_result
from worldledger_social_rl.rules.errors import InvalidRunError

from tests.rules.values import GOOD_OBJECTS
from tests.rulesets.social_rl.documents import ALICE, a_round
from worldledger.canonical import gate
from worldledger.errors import FileRefusedError


class _Colour(Enum):
    RED = "red"


def _result(**changes: Any) -> RoundResult:
    return RoundResult.from_value(a_round()).model_copy(update=changes)


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


#: What is put where by whom, and the path and the words by which it is refused.
_REFUSED: dict[str, tuple[Callable[[], RoundResult], str, str]] = {
    "a long integer": (lambda: _result(round_config={"x": 2**60}), "$.round_config.x", "an integer beyond"),
    "NUL": (lambda: _result(synthesis="a\0b"), "$.synthesis", "NUL"),
    "a deep object": (lambda: _result(round_config=_deep(150)), "$.round_config" + ".a" * 99, "nested deeper"),
    "a very deep object": (lambda: _result(round_config=_deep(5000)), "$.round_config" + ".a" * 99, "nested deeper"),
    "NaN": (lambda: _result(round_config={"x": [float("nan")]}), "$.round_config.x[0]", "not a finite number"),
    "an infinite duration": (lambda: _result(duration_seconds=float("inf")), "$.duration_seconds", "from 0 on"),
    "a lone surrogate": (lambda: _result(round_config={"x": "\ud800"}), "$.round_config.x", "a lone surrogate"),
    "a key that is none": (lambda: _result(round_config={1: 2}), "$.round_config", "a key that is not a string"),
    "a moment": (
        lambda: _result(round_config={"x": datetime.now(UTC)}),
        "$.round_config.x",
        "datetime is not a JSON value",
    ),
    "a tuple": (lambda: _result(round_config={"x": [0, (1, 2)]}), "$.round_config.x[1]", "read back as another"),
    "an enum": (lambda: _result(round_config={"x": _Colour.RED}), "$.round_config.x", "read back as another"),
    "anything": (lambda: _result(round_config={"x": object()}), "$.round_config.x", "object is not a JSON value"),
}


def _in_a_message(value: Any) -> RoundResult:
    result = _result()
    result.messages[1].feedback_snapshot = {"x": value}
    return result


_REFUSED |= {
    "a moment in a message": (
        lambda: _in_a_message(datetime.now(UTC)),
        "$.messages[1].feedback_snapshot.x",
        "datetime is not a JSON value",
    ),
    "NaN in a message": (
        lambda: _in_a_message(float("nan")),
        "$.messages[1].feedback_snapshot.x",
        "not a finite number",
    ),
    "a deep message": (
        lambda: _in_a_message(_deep(300)),
        "$.messages[1].feedback_snapshot.x" + ".a" * 96,
        "nested deeper",
    ),
}


@pytest.mark.parametrize("what", _REFUSED)
def test_what_could_not_be_read_back_is_not_written(tmp_path: Path, what: str) -> None:
    """It is refused as a ValueError that names file and path, and the file that was there stays."""
    make, path, words = _REFUSED[what]
    file = tmp_path / "round1_social_rl.json"
    file.write_text("before")
    with pytest.raises(InvalidRunError, match=words) as caught:
        save_round_result(make(), file)
    assert [(each["file"], each["path"]) for each in caught.value.problems] == [(str(file), path)]
    assert list(tmp_path.iterdir()) == [file]
    assert file.read_text() == "before"


def test_minus_zero_is_written_as_zero(tmp_path: Path) -> None:
    """Rounding gives it, and it is equal to 0.0; wherever it stands, the round is saved, loaded and posted."""
    value = a_round(duration_seconds=-0.0, round_config={"x": [-0.0, {"y": -0.0}]})
    value["feedback"][ALICE]["engagement"] = round(-0.001, 2)
    value["policy_adaptations"][0]["feedback_trigger"]["engagement"] = -0.0
    value["meta"]["coach_temperature"] = value["messages"][0]["timestamp"] = -0.0
    result = RoundResult.from_value(value)
    path = tmp_path / "r.json"
    save_round_result(result, path)
    assert "-0.0" not in path.read_text()
    assert load_round_result(path) == result
    gate(result.to_value())
    gate(result.feedback[ALICE].to_value())


@settings(max_examples=60, deadline=None)
@given(GOOD_OBJECTS, GOOD_OBJECTS, st.text(), st.floats(0, allow_nan=False, allow_infinity=False))
def test_whatever_is_saved_loads_equal(
    tmp_path_factory: pytest.TempPathFactory, config: Any, snapshot: Any, synthesis: str, seconds: float
) -> None:
    """Every round that is written is read as it was."""
    path = tmp_path_factory.getbasetemp() / "round.json"
    result = _result(round_config=config, synthesis=synthesis, duration_seconds=seconds)
    result.messages[0].validation_metadata = snapshot
    try:
        save_round_result(result, path)
    except InvalidRunError:
        assert "\0" in synthesis
    else:
        assert load_round_result(path) == result


def test_a_file_appears_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where writing fails the old file is there as it was, and nothing beside it."""
    path = tmp_path / "r.json"
    path.write_text("before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(FileRefusedError, match="No space left on device"):
            save_round_result(_result(), path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_replaced_in_its_place(tmp_path: Path) -> None:
    """Its permissions stay, a link stays a link, and what a killed process left beside it is not touched."""
    path, link, left = tmp_path / "r.json", tmp_path / "link.json", tmp_path / f".{os.getpid()}-0.part"
    path.write_text("before")
    path.chmod(0o640)
    link.symlink_to(path)
    left.write_text("left")
    save_round_result(_result(), link)
    assert link.is_symlink()
    assert load_round_result(path) == _result()
    assert path.stat().st_mode & 0o777 == 0o640
    assert left.read_text() == "left"
    new = tmp_path / ("n" * 255)
    save_round_result(_result(), new)
    (tmp_path / "plain").touch()
    assert new.stat().st_mode == (tmp_path / "plain").stat().st_mode
    save_round_result(_result(), os.devnull)
    assert not Path(os.devnull).is_file()


def test_a_byte_order_mark_is_refused_in_its_own_words(tmp_path: Path) -> None:
    """As by a strict import; a lenient one passes over it."""
    path = tmp_path / "r.json"
    save_round_result(_result(), path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    with pytest.raises(InvalidRunError, match=r"\$: the file begins with a byte order mark") as caught:
        load_round_result(path)
    assert caught.value.problems[0]["file"] == str(path)
