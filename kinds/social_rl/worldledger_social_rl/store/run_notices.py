"""What people are told of recorded social-RL runs: what was odd, and why they are refused, each with its place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from worldledger.canonical import child
from worldledger.errors import EffectTooLargeError, InvalidEffectError
from worldledger_social_rl.rules import words
from worldledger_social_rl.rules.recording import META_FILE, RecordedRun

if TYPE_CHECKING:
    from worldledger.effects import EffectDraft
    from worldledger_social_rl.rules.recording import Notice

#: What of some payloads is a whole document, or all that is at its place.
_WHOLE: Final = {
    words.EXPERIMENT_STARTED: ("meta",),
    words.ARTIFACT_RECORDED: ("content",),
    words.ROUND_SYNTHESISED: ("synthesis",),
}
#: What follows a member's name in a path.
_MEMBER: Final = re.compile(r"\Z|[.\[]")
#: Most problems of one run that are told.
_MOST_TOLD: Final = 20
_FEEDBACK: Final = re.compile(r"\$\.feedback\.[^.\[]+")
_PART: Final = re.compile(r"\[(?:[0-9]+|\"(?:[^\"\\]|\\.)*\")\]")


@dataclass(frozen=True)
class RunNotice:
    """What people should know about a run, or one of its files: that it was refused, or what was odd about it.

    ``path`` is the JSON path in the file, where it is about a part of it; ``count`` how many such places there are, of
    which this is the first.
    """

    file: str
    text: str
    path: str | None = None
    count: int = 1
    refused: bool = False

    def __str__(self) -> str:
        place = self.file if self.path is None else f"{self.file}: {self.path}"
        more = f" (and {self.count - 1} more like it)" if self.count > 1 else ""
        return f"{place}: {self.text}{more}"


def odd_in(folder: Path, run: RecordedRun) -> list[RunNotice]:
    """Return what was odd about a run, what says the same of each agent's feedback in a file as one."""
    found: dict[tuple[str, str, str], Notice] = {}
    for notice in run.notices:
        rule = notice["message"].partition(", not ")[0]
        key = (notice["file"], _PART.sub("[*]", _FEEDBACK.sub("$.feedback[*]", notice["path"])), rule)
        first = found.setdefault(key, {**notice, "count": 0})
        first["count"] += notice["count"]
    return [_notice(folder, notice, count=notice["count"]) for notice in (*found.values(), *run.remarks)]


def refusals(folder: Path, problems: Sequence[Mapping[str, Any]]) -> list[RunNotice]:
    """Return why a run is refused, problem by problem; of very many the first."""
    told = [_notice(folder, problem, refused=True) for problem in problems[:_MOST_TOLD]]
    if len(problems) > len(told):
        told.append(RunNotice(str(folder), f"and {len(problems) - len(told)} more problems", refused=True))
    return told


def _notice(folder: Path, problem: Mapping[str, Any], *, count: int = 1, refused: bool = False) -> RunNotice:
    file = str(folder / problem["file"]) if problem.get("file") else str(folder)
    path = None if problem["path"] == "$" else problem["path"]
    return RunNotice(file, problem["message"], path, count, refused)


def problem_of(drafts: Sequence[EffectDraft], error: InvalidEffectError) -> dict[str, Any]:
    """Say where in the files that is of which a draft was made that the log refuses."""
    file, path = place_of(drafts[: (error.index or 0) + 1])
    what = error.reason
    if isinstance(error, EffectTooLargeError):
        what = f"{what}; WORLDLEDGER_MAX_EFFECT_BYTES may be set to more"
    else:
        path = in_document(drafts[error.index or 0], path, error.path)
    return {"file": file, "path": path, "message": what}


def in_document(draft: EffectDraft, place: str, path: str) -> str:
    """Return where in a document that is of which a path in a draft tells; the draft was made of what is at ``place``.

    What a payload keeps beside the schema's fields, or in their stead, stands in the document itself.
    """
    kind, payload = draft["kind"], draft["payload"]
    inside = path.removeprefix("$.payload").removeprefix("$.kind").removeprefix("$")
    for name in (words.EXTRA, words.RAW, *_WHOLE.get(kind, ())):
        if _MEMBER.match(rest := inside.removeprefix(f".{name}")) and rest != inside:
            return place + rest
    if inside == ".agent_id" and (words.RAW in payload or "agent_id" in payload.get(words.ABSENT, ())):
        return place
    return place + inside


def place_of(drafts: Sequence[EffectDraft]) -> tuple[str, str]:
    """Return the file and the JSON path of which the last of a run's first drafts was made."""
    kind, payload = drafts[-1]["kind"], drafts[-1]["payload"]
    if kind == words.EXPERIMENT_STARTED:
        return META_FILE, "$"
    if kind in {words.ARTIFACT_RECORDED, words.POLICY_STATE_RECORDED}:
        return payload["name"], "$"
    begin = max(index for index, draft in enumerate(drafts) if draft["kind"] == words.ROUND_STARTED)
    head = drafts[begin]["payload"]
    nth = sum(draft["kind"] == kind for draft in drafts[begin:]) - 1
    path = {
        words.MESSAGE_EMITTED: f"$.messages[{nth}]",
        words.FEEDBACK_RECORDED: child("$.feedback", str(payload.get("agent_id"))),
        words.POLICY_ADAPTED: f"$.policy_adaptations[{nth}]",
        words.ROUND_SYNTHESISED: "$.synthesis",
    }.get(kind, "$")
    return head.get(words.NAME) or words.file_of_round(head["round_number"]), path
