"""A run's folder in, the effects of its world out, and back again. Pure: parsed files in, values out.

Source: docs/reference/social-rl.md, "Runs that were recorded". A folder has ``roundN_social_rl.json`` for each round;
what else may be there is kept too:

- ``meta.json``: ``ExperimentStarted``, the fields of the meta block in ``meta`` and all others in ``extra``
- a PRAR policy state (whatever the file is called): ``PolicyStateRecorded``, before the rounds
- any other JSON file: ``ArtifactRecorded``, after the rounds

Leniently, everything is taken as it was found, and what is not as documented is told in `RecordedRun.notices`;
strictly, all of that is refused. In both modes these are refused: two files for one round, or of one name; what is no
name of a file; values that a log cannot hold (`worldledger.canonical.gate`). The same content gives the same drafts and
the same digest, however the files were laid out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from hashlib import sha256
from typing import Any, Final

import orjson

from worldledger.canonical import canonical_json, gate, parse_text
from worldledger.drafts import json_name
from worldledger.effects import EffectDraft
from worldledger.errors import InvalidEffectError, InvalidRunError
from worldledger_social_rl.rules import words
from worldledger_social_rl.rules.faults import Fault, field_faults, policy_faults
from worldledger_social_rl.rules.fields import META, is_naive
from worldledger_social_rl.rules.judging import Judge, Notice
from worldledger_social_rl.rules.rounds import Drafting, round_drafts
from worldledger_social_rl.rules.words import META_FILE
from worldledger_social_rl.rules.writing import RunFile, write_run

__all__ = [
    "META_FILE",
    "Notice",
    "RecordedRun",
    "RunFile",
    "parse_file",
    "read_run",
    "round_drafts",
    "write_run",
]

#: The global_seq of a run's first draft, in a world that has only its genesis.
FIRST_SEQ: Final = 2
_IDENTITY: Final = ("experiment_id", "condition", "seed")
_PROFILE: Final = "worldledger-social-rl/1"
_ROUND: Final = re.compile(r"round([0-9]{1,15})_social_rl\.json\Z")
#: Looks at every digit as the same one; so many in a row are no integer of 64 bits.
_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG: Final = b"0" * 19
_LONG_INTEGER: Final = re.compile(rb"(?<![0-9.])[0-9]{19}")
#: A quote or a colon written as no common writer does, and space between the two.
_ESCAPED: Final = re.compile(rb"\\u00(?:22|3[aA])")
_APART: Final = re.compile(rb'"[ \t\r\n]+:')


@dataclass(frozen=True)
class RecordedRun:
    """A run that can be appended to the log as it is, after a genesis.

    - ``experiment_id``: as the meta data says, None where they do not.
    - ``drafts``: its effects in order, with sim_time (time authority ``client``): the messages' timestamps, never
      decreasing; ``caused_by`` counts from a first draft with global_seq 2.
    - ``digest``: its identity, lower-case hex of SHA-256 over the names and the content of its files.
    - ``notices``: what is not as documented, for people; nothing of it is in the drafts. ``remarks``: what they
      should know besides.
    - ``rounds``, ``messages``: how many there are.
    - ``identity``: what its meta data say that tells it from others: experiment_id, condition, seed.
    - ``files``: what it was made of, by name; ``timezone``: that of times without an offset.
    """

    experiment_id: str | None
    drafts: list[EffectDraft]
    digest: str
    notices: list[Notice]
    rounds: int
    messages: int
    remarks: list[Notice] = field(default_factory=list)
    identity: dict[str, Any] = field(default_factory=dict)
    files: Sequence[RunFile] = field(default=(), compare=False, repr=False)
    timezone: tzinfo | None = None


@dataclass
class SortedFiles:
    """The files of a run by what they are; rounds by number."""

    meta: RunFile | None = None
    policies: list[RunFile] = field(default_factory=list)
    rounds: dict[int, RunFile] = field(default_factory=dict)
    artifacts: list[RunFile] = field(default_factory=list)


def parse_file(name: str, data: bytes) -> RunFile:
    """Read a JSON file of a run, losing nothing that a log could hold.

    Raises InvalidRunError for what is not UTF-8 or not JSON (NaN is not), and for what a fast parser would drop or
    change: keys that stand twice, integers beyond ±(2^53-1).
    """
    try:
        value = orjson.loads(data)
        text = canonical_json(value)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return _carefully(name, data)
    if _has_lost(data, text):
        return _carefully(name, data)
    return RunFile(name, value, text)


def _has_lost(data: bytes, text: bytes) -> bool:
    """Tell, fast and on the safe side, whether a text has what the canonical text of its value has not.

    Each key ends with a quote and a colon, and so does whatever looks like one inside of a string: once a key was
    dropped there are fewer of them. An integer of more than 64 bits was read as a float.
    """
    return (
        data.count(b'":') != text.count(b'":')
        or _APART.search(data) is not None
        or _ESCAPED.search(data) is not None
        or (_LONG in data.translate(_DIGITS) and _LONG_INTEGER.search(data) is not None)
    )


def _carefully(name: str, data: bytes) -> RunFile:
    try:
        value = parse_text(data)
        return RunFile(name, value, gate(value))
    except InvalidEffectError as error:
        raise InvalidRunError([{"file": name, "path": error.path, "message": error.reason}]) from None


def read_run(files: Sequence[RunFile], *, strict: bool, timezone: tzinfo | None = None) -> RecordedRun:
    """Return the effects of a run, of the JSON files in its folder, in whichever order.

    ``timezone`` is that of the meta data's times that have no offset from UTC; by default such a time stays as it is,
    which SQL takes for UTC. Raises InvalidRunError with every problem, each with its file and path.
    """
    judge = Judge(strict=strict)
    digest = _digest(files, judge)
    found = sort_files(files, judge)
    if not found.rounds and found.meta is None:
        judge.refuse("", "$", "there is no roundN_social_rl.json, and no meta.json: this is no run")
    judge.decide()  # what the files are comes first, and alone
    drafting = Drafting(judge, first_seq=FIRST_SEQ, agents=named_agents(found.meta), timezone=timezone)
    for number in sorted(found.rounds)[:1]:
        drafting.begin_at(found.rounds[number].value)
    if found.meta is not None:
        judge.take(found.meta.name, _meta_faults(found.meta.value))
        drafting.meta(found.meta.value)
    for file in found.policies:
        judge.take(file.name, policy_faults(file.value))
        drafting.policy(file.name, file.value)
    _judge_order(found, judge)
    for number, file in sorted(found.rounds.items()):
        drafting.round(file.value, file=file.name, number=number)
    for file in found.artifacts:
        drafting.artifact(file.name, file.value)
    judge.decide()
    return RecordedRun(
        experiment_id=_experiment_id(found),
        drafts=drafting.drafts,
        digest=digest,
        notices=judge.notices,
        remarks=[] if timezone is not None else _naive_times(found),
        rounds=drafting.rounds,
        messages=drafting.messages,
        identity=identity_of(found),
        files=[RunFile(file.name, file.value) for file in sorted(files, key=lambda file: file.name)],
        timezone=timezone,
    )


def _digest(files: Sequence[RunFile], judge: Judge) -> str:
    """Return the digest, and refuse what cannot be written canonically."""
    hashed = sha256(canonical_json(_PROFILE))
    names: set[str] = set()
    for file in sorted(files, key=lambda file: file.name):
        if not words.is_plain_name(file.name):
            judge.refuse(file.name, "$", "this is no name of a file in a run's folder")
        elif file.name in names:
            judge.refuse(file.name, "$", "there are two files of this name")
        names.add(file.name)
        try:
            text = file.canonical()
        except InvalidEffectError as error:
            judge.refuse(file.name, error.path, error.reason)
        else:
            hashed.update(canonical_json([file.name.encode(errors="replace").decode(), len(text)]) + text)
    return hashed.hexdigest()


def sort_files(files: Sequence[RunFile], judge: Judge) -> SortedFiles:
    """Tell a run's files apart by what they are."""
    found = SortedFiles()
    for file in sorted(files, key=lambda file: file.name):
        round_name = _ROUND.match(file.name)
        if (round_name or file.name == META_FILE) and type(file.value) is not dict:
            what = "a round" if round_name else "the meta data"
            judge.take(file.name, [Fault("$", f"{what} is an object, not {json_name(file.value)}", "type")])
            found.artifacts.append(file)
        elif round_name:
            number = number_of_file(file, int(round_name[1]), judge)
            other = found.rounds.setdefault(number, file)
            if other is not file:
                judge.refuse(file.name, "$", f"there is another file for round {number}: {other.name}")
        elif file.name == META_FILE:
            found.meta = file
        else:
            if words.kind_of_file(file.name) not in (None, words.POLICY_STATE_RECORDED):
                judge.take(file.name, [Fault("$", words.MISNAMED, "name")])
            (found.policies if _is_policy_state(file.value) else found.artifacts).append(file)
    return found


def number_of_file(file: RunFile, in_name: int, judge: Judge) -> int:
    """Return a round's number: what its file says, or else what the file's name says."""
    said = file.value.get("round_number")
    if not words.is_number_of_round(said):
        return in_name
    if said != in_name:
        what = f"the file's name says round {in_name}, not {said}"
        judge.take(file.name, [Fault("$.round_number", what, "other_round")])
    return said


def _is_policy_state(value: Any) -> bool:
    return type(value) is dict and "framework_option" in value and type(value.get("policies")) is list


def _meta_faults(value: dict[str, Any]) -> list[Fault]:
    """Return what is wrong with the fields of the meta block in meta.json, which may have more."""
    faults = field_faults(value, META, "$", "the meta data")
    return [fault for fault in faults if fault.rule not in ("unknown_field", "missing")]


def _judge_order(found: SortedFiles, judge: Judge) -> None:
    """See whether rounds follow one another, and are of one version."""
    last, version = 0, None if found.meta is None else _version(found.meta.value)
    for number, file in sorted(found.rounds.items()):
        if number != last + 1:
            what = (
                f"after round {last} comes round {last + 1}, not {number}" if last else f"the first round is {number}"
            )
            judge.take(file.name, [Fault("$.round_number", what, "round_order")])
        last = number
        said = _version(file.value.get("meta"))
        if said is not None and version is not None and said != version:
            what = f"the version is {said!r} here, and {version!r} before"
            judge.take(file.name, [Fault("$.meta.social_rl_version", what, "mixed_versions")])
        version = said or version


def _version(meta: Any) -> str | None:
    said = words.object_of(meta).get("social_rl_version")
    return said if type(said) is str else None


def named_agents(meta: RunFile | None) -> list[str]:
    """Return the agents that the meta data name."""
    agents = None if meta is None else meta.value.get("agents")
    return [agent for agent in agents if type(agent) is str] if type(agents) is list else []


def _naive_times(found: SortedFiles) -> list[Notice]:
    """Say, once for the run, that times of its meta data are taken for UTC."""
    files = [(found.meta, "$.timestamp")] if found.meta is not None else []
    files += [(file, "$.meta.timestamp") for _, file in sorted(found.rounds.items())]
    naive = [
        (file.name, path)
        for (file, path), meta in zip(files, _metas(found), strict=True)
        if is_naive(meta.get("timestamp"))
    ]
    what = "timestamp has no offset from UTC and is taken for UTC; --timezone says which it is"
    return [{"file": file, "path": path, "message": what, "count": len(naive)} for file, path in naive[:1]]


def identity_of(found: SortedFiles) -> dict[str, Any]:
    """Return what the meta data say that tells a run from others in a folder of the same name."""
    metas = _metas(found)
    said = {name: next((meta[name] for meta in metas if name in meta), None) for name in _IDENTITY}
    return {name: item for name, item in said.items() if type(item) in (str, int, float, bool)}


def _metas(found: SortedFiles) -> list[dict[str, Any]]:
    metas = [] if found.meta is None else [found.meta.value]
    return metas + [words.object_of(file.value.get("meta")) for _, file in sorted(found.rounds.items())]


def _experiment_id(found: SortedFiles) -> str | None:
    metas = _metas(found)
    return next((said for meta in metas if type(said := meta.get("experiment_id")) is str and said), None)
