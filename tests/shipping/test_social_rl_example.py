"""The example experiment: made by its script, as the schema says, and with something to be seen in it."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

from worldledger_social_rl.rules.recording import RunFile, read_run

from .project import ROOT

RUNS = ROOT / "examples" / "social_rl"


def _files() -> dict[str, str]:
    return {path.relative_to(RUNS).as_posix(): path.read_text(encoding="utf-8") for path in RUNS.rglob("*.json")}


def _rounds(run: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted(run.glob("round*_social_rl.json"))]


def _runs() -> Iterator[Path]:
    yield from sorted(path for path in RUNS.iterdir() if path.is_dir())


def test_the_script_makes_what_is_there() -> None:
    """Run again, the script gives exactly the files of the folder, which are small."""
    texts: dict[str, str] = runpy.run_path(str(ROOT / "examples" / "make_social_rl.py"))["texts"]()
    assert texts == _files()
    assert sum(map(len, texts.values())) < 400_000


def test_it_is_as_the_schema_says() -> None:
    """Each run is taken strictly: two conditions by three seeds, four rounds of four agents and a coach."""
    assert [run.name for run in _runs()] == [
        f"{condition}_seed{n}" for condition in ("coached", "uncoached") for n in (1, 2, 3)
    ]
    for run in _runs():
        found = read_run([RunFile(path.name, json.loads(path.read_bytes())) for path in run.iterdir()], strict=True)
        assert (found.rounds, found.messages, found.notices) == (4, 40, [])
        assert found.experiment_id == f"mill_stream_{run.name}"
        for each in _rounds(run):
            assert len(each["meta"]) == 9
            assert each["meta"]["experiment_id"] == found.experiment_id
            assert sum(message.get("internal", False) for message in each["messages"]) == 1
            assert len(each["feedback"]) == 4
            assert each["synthesis"]


def test_coaching_shows() -> None:
    """Cues are changed in one condition only, in all three ways, and alignment rises there, in every run."""
    kinds: set[str] = set()
    for run in _runs():
        rounds = _rounds(run)
        first, *_, last = [
            mean(each["theoretical_alignment"] for each in found["feedback"].values()) for found in rounds
        ]
        adaptations = [each for found in rounds for each in found["policy_adaptations"]]
        if run.name.startswith("coached"):
            kinds |= {each["adaptation_type"] for each in adaptations}
            assert all(each["feedback_trigger"] for each in adaptations)
            assert last > first + 0.4
            twin = _rounds(run.with_name(f"un{run.name}"))
            assert [said["content"] for said in twin[0]["messages"]] == [
                said["content"] for said in rounds[0]["messages"]
            ]
        else:
            assert not adaptations
            assert last < first + 0.25
    assert kinds == {"activate_cue", "deactivate_cue", "adjust_intensity"}
