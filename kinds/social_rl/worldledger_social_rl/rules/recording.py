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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from hashlib import sha256
from itertools import chain, count
from typing import Any, Final

import orjson

from worldledger.canonical import canonical_json, child, gate, parse_text
from worldledger.drafts import json_name
from worldledger.effects import Effect, EffectDraft
from worldledger.errors import InvalidEffectError
from worldledger_social_rl.rules import words
from worldledger_social_rl.rules.errors import InvalidRunError
from worldledger_social_rl.rules.fields import Fault, Judge, Notice, field_faults, is_naive
from worldledger_social_rl.rules.models import ADAPTATION, FEEDBACK, MESSAGE, META, POLICY_STATE, policy_faults
from worldledger_social_rl.rules.rounds import Drafting, round_drafts
from worldledger_social_rl.rules.words import EXTRA, META_FILE, NAME, PARTS, PARTS_FIELD, POLICY_FILE

# -- writing: the effects of a world as the files of a run's folder ------------------------------------------------
#
# A world that was recorded live has files too: its rounds, and meta.json and policy_state.json where there is something
# to tell in them. Nothing that the log tells of one file takes the place of another: see `_Names`.

#: Of what is recorded more than once under a name the last counts: these are recorded anew, as they change.
_RENEWED: Final = frozenset({words.ARTIFACT_RECORDED, words.POLICY_STATE_RECORDED})
#: Most characters behind the last dot of a name for them to tell what kind of file it is.
_LONGEST_SUFFIX: Final = 10


@dataclass(frozen=True)
class RunFile:
    """A file of a run: its name without a folder, and its parsed JSON.

    - ``text``: the canonical text of the value where that is known already; it must be just that.
    - ``seq``: the global_seq of the effect that names the file, where it was made of a log.
    - ``meant``: the name that this effect gives it, where that is another file's; None where it has its own.
    """

    name: str
    value: Any
    text: bytes | None = field(default=None, repr=False, compare=False)
    seq: int | None = field(default=None, repr=False, compare=False)
    meant: str | None = field(default=None, compare=False)

    def canonical(self) -> bytes:
        """Return the value's canonical text. Raises InvalidEffectError for what a log cannot hold.

        Not for NaN, which `parse_file` and orjson take for no JSON at all, nor for nesting: the log's own gate refuses
        those later.
        """
        text = self.text
        if text is None:
            try:
                text = canonical_json(self.value)
            except (orjson.JSONEncodeError, RecursionError):
                return gate(self.value)
        if b"-0.0" in text or b"\\u0000" in text:
            gate(self.value)
        return text


def write_run(effects: Iterable[Effect]) -> Iterator[RunFile]:
    """Return the files of a world, each as soon as its effects have been read; one round is held at a time.

    The effects come in the order of the log; those of other kinds are passed over, and so is what stands before the
    first round and belongs to one. No two files have one name. Of an artifact, or a policy state, that stands more than
    once in the log under one name, the last counts, and so do meta data that an import has revised. Those whose name
    belongs to a round, or to the meta data, are held to the end, when it is known whether it is free. Raises
    InvalidRunError for a name in the log that is no name of a file.
    """
    names = _Names()
    running: _Round | None = None
    held: dict[tuple[str, str], RunFile] = {}
    for effect in effects:
        kind, payload, seq = effect["kind"], effect["payload"], effect.get("global_seq")
        if kind == words.ROUND_STARTED:
            if running is not None:
                yield names.give(words.ROUND_STARTED, running.file())
            running = _Round(payload, seq)
        elif kind == words.EXPERIMENT_STARTED:
            value = words.object_of(payload.get("meta")) | words.object_of(payload.get(EXTRA))
            revised = payload.get(words.REVISED) is True
            yield names.give(kind, RunFile(META_FILE, value, seq=seq), renewed=revised)
        elif kind in _RENEWED:
            file = _other_file(kind, payload, seq)
            if words.kind_of_file(file.name) is None:
                yield names.give(kind, file)
            else:
                held[kind, file.name] = file
        elif running is not None:
            running.take(kind, payload)
    if running is not None:
        yield names.give(words.ROUND_STARTED, running.file())
    for kind in (words.POLICY_STATE_RECORDED, words.ARTIFACT_RECORDED):  # a policy's name is a policy's first of all
        for (of, _), file in held.items():
            if of == kind:
                yield names.give(kind, file)


def _other_file(kind: str, payload: Mapping[str, Any], seq: int | None) -> RunFile:
    if kind == words.ARTIFACT_RECORDED:
        return RunFile(_name(payload), payload.get("content"), seq=seq)
    value = words.restored(payload, POLICY_STATE)
    return RunFile(_name(payload) if NAME in payload else POLICY_FILE, value, seq=seq)


class _Names:
    """The names of a run's files, each of which belongs to the first that has it.

    Whatever else is called so is given beside it, as ``NAME.effectN.json``, N being the global_seq of the effect that
    names it first, and so is what has a name that is too long for a disk: imports and rules see to it that there is no
    such thing, but a log may have been made by anybody.
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        #: under which name something is given that may be recorded anew, by its kind and its own name
        self._given: dict[tuple[str, str], str] = {}

    def give(self, kind: str, file: RunFile, *, renewed: bool = False) -> RunFile:
        """Return a file of that kind of effects by its name, or a free one; ``renewed``: in place of the one before."""
        name = self._given.get((kind, file.name)) if renewed or kind in _RENEWED else None
        if name is None:
            is_free = file.name not in self._taken and words.fits_a_disk(file.name)
            name = self._given[kind, file.name] = file.name if is_free else self._beside(file)
            self._taken.add(name)
        return file if name == file.name else replace(file, name=name, meant=file.name)

    def _beside(self, file: RunFile) -> str:
        stem, dot, suffix = file.name.rpartition(".")
        if not dot or len(suffix) > _LONGEST_SUFFIX:
            stem, dot, suffix = file.name, "", ""
        for more in chain([""], map("-{}".format, count(2))):
            end = f".effect{file.seq or 0}{more}{dot}{suffix}"
            room = words.MAX_FILE_BYTES - len(end.encode())
            name = stem.encode()[:room].decode(errors="ignore") + end
            if name not in self._taken:
                return name
        raise AssertionError("numbers do not end")


def _name(payload: Mapping[str, Any]) -> str:
    name = payload.get(NAME)
    if words.is_plain_name(name):
        return str(name)
    raise InvalidRunError([{"path": "$.payload.name", "message": f"{name!r:.100} is no name of a file in a folder"}])


class _Round:
    """A round's document, as it is put together."""

    def __init__(self, payload: Mapping[str, Any], seq: int | None) -> None:
        self._seq = seq
        number = payload.get("round_number")
        self._name = _name(payload) if NAME in payload else words.file_of_round(number if type(number) is int else 0)
        parts = payload.get(PARTS_FIELD)
        self._parts = PARTS if type(parts) is not list else parts
        self._head = payload
        self._messages: list[Any] = []
        self._feedback: dict[str, Any] = {}
        self._adaptations: list[Any] = []
        self._rest: dict[str, Any] = {}

    def take(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Take an effect of the round."""
        if kind == words.MESSAGE_EMITTED:
            self._messages.append(words.restored(payload, MESSAGE))
        elif kind == words.FEEDBACK_RECORDED:
            agent = payload.get("agent_id")
            if type(agent) is str:
                self._feedback[agent] = words.restored(payload, FEEDBACK)
        elif kind == words.POLICY_ADAPTED:
            self._adaptations.append(words.restored(payload, ADAPTATION))
        elif kind == words.ROUND_SYNTHESISED and "synthesis" in payload:
            self._rest["synthesis"] = payload["synthesis"]
        elif kind == words.ROUND_ENDED and "duration_seconds" in payload:
            self._rest["duration_seconds"] = payload["duration_seconds"]

    def file(self) -> RunFile:
        """Return the file: the documented fields in their order, then what was kept beside them.

        What effects of its own have told stands in it, whatever the round's start says.
        """
        head = self._head
        told: dict[str, Any] = {
            "messages": self._messages,
            "feedback": self._feedback,
            "policy_adaptations": self._adaptations,
        }
        parts = {"round_number": head.get("round_number"), **told}
        value: dict[str, Any] = {"meta": head["meta"]} if "meta" in head else {}
        for name in PARTS:
            if name in self._parts or told.get(name):
                value[name] = parts[name]
            if name == "round_number" and "round_config" in head:
                value["round_config"] = head["round_config"]
        beside = words.object_of(head.get(EXTRA)).items()
        extra = {name: item for name, item in beside if not told.get(name) and name not in self._rest}
        return RunFile(self._name, value | self._rest | extra, seq=self._seq)


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


# -- growing: a run with more rounds than its world has ------------------------------------------------------------
#
# A run is the same one as long as the rounds that folder and world have in common are equal. Rounds are appended behind
# the world's last one; meta data, policy states and other files that have changed are recorded anew. A folder that
# lacks rounds of the world is an older state of the run, of which nothing is new.

_SHOWN: Final = 60


@dataclass(frozen=True)
class Growth:
    """The effects by which a world becomes what the folder is, and how many rounds and messages are among them."""

    drafts: list[EffectDraft] = field(default_factory=list)
    rounds: int = 0
    messages: int = 0


class OtherRunError(Exception):
    """The world is of another run: the meta data say so. It never leaves the import."""


def may_be_one(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two identities may be one run's: nothing that both tell differs."""
    return not any(_differ(one[name], other[name]) for name in one.keys() & other.keys())


class Recorded:
    """What the log of a world has of a run, compared with the run's folder while it is read."""

    def __init__(self, run: RecordedRun) -> None:
        self._run = run
        self._found = sort_files(run.files, Judge(strict=False))
        self._metas: list[RunFile] = []
        self._first: list[RunFile] = []
        self._rounds: set[int] = set()
        self._others: dict[str, bytes] = {}
        self._difference: dict[str, Any] | None = None
        self._started = self._open = False
        self._seq = 0
        self._sim_time = 0.0
        self._agents: set[str] = set(named_agents(self._found.meta))
        self._feedback_seqs: dict[str, int] = {}

    def read(self, effects: Iterable[Effect]) -> None:
        """Read the world's whole log. Raises InvalidRunError where no files can be made of it."""
        for file in write_run(self._seen(effects)):
            self._take(file)

    def _seen(self, effects: Iterable[Effect]) -> Iterator[Effect]:
        for effect in effects:
            kind, payload = effect["kind"], effect["payload"]
            self._seq, self._sim_time = effect["global_seq"], effect["sim_time"]
            agent = payload.get("agent_id")
            if kind == words.EXPERIMENT_STARTED:
                self._started = True
            elif kind in (words.ROUND_STARTED, words.ROUND_ENDED):
                self._open = kind == words.ROUND_STARTED
            elif kind == words.MESSAGE_EMITTED and type(agent) is str:
                self._agents.add(agent)
            elif kind == words.FEEDBACK_RECORDED and type(agent) is str:
                self._feedback_seqs[agent] = self._seq
            yield effect

    def _take(self, file: RunFile) -> None:
        name = file.meant or file.name
        kind = words.kind_of_file(name)
        if kind == words.ROUND_STARTED and type(file.value) is dict:
            ((number, _),) = sort_files([RunFile(name, file.value)], Judge(strict=False)).rounds.items()
            if not self._rounds:
                self._first = [RunFile(name, {key: file.value[key] for key in ("meta",) if key in file.value})]
            self._rounds.add(number)
            here = self._found.rounds.get(number)
            if here is not None and self._difference is None and canonical_json(here.value) != file.canonical():
                self._difference = _difference(here, file.value)
        else:
            self._others[name] = _digest_of_round(file.value)
            if name == META_FILE and type(file.value) is dict:
                self._metas = [RunFile(META_FILE, file.value)]

    def growth(self, world_id: str) -> Growth:
        """Return what is new in the folder.

        Raises OtherRunError where the meta data say that these are two runs; InvalidRunError, with the first
        difference, where a round that both have is another one, and for rounds that cannot be appended.
        """
        told = sort_files([*self._metas, *self._first], Judge(strict=False))
        if not may_be_one(identity_of(told), self._run.identity):
            raise OtherRunError
        rounds, last = self._found.rounds, max(self._rounds, default=0)
        if self._difference is not None:
            self._difference["message"] += f"; world {world_id} has another history of this run"
            raise InvalidRunError([self._difference])
        if self._rounds and rounds and not self._rounds & rounds.keys():
            raise _refused(
                rounds[min(rounds)], f"none of these rounds is in world {world_id}, which has this run's name"
            )
        new = {number: file for number, file in sorted(rounds.items()) if number not in self._rounds}
        between = next((file for number, file in new.items() if number < last), None)
        if between is not None:
            raise _refused(between, f"world {world_id} goes on without this round, to round {last}")
        if self._rounds - rounds.keys() and not new:
            return Growth()
        if new and self._open:
            raise _refused(next(iter(new.values())), f"round {last} of world {world_id} is not over")
        return self._growth(new)

    def _growth(self, new: Mapping[int, RunFile]) -> Growth:
        drafting = Drafting(
            Judge(strict=False),
            now=self._sim_time,
            first_seq=self._seq + 1,
            agents=self._agents,
            timezone=self._run.timezone,
            feedback_seqs=self._feedback_seqs,
        )
        found = self._found
        if found.meta is not None and self._is_new(found.meta):
            drafting.meta(found.meta.value, revised=self._started)
        for file in filter(self._is_new, found.policies):
            drafting.policy(file.name, file.value)
        for number, file in new.items():
            drafting.round(file.value, file=file.name, number=number)
        for file in filter(self._is_new, found.artifacts):
            drafting.artifact(file.name, file.value)
        return Growth(drafting.drafts, drafting.rounds, drafting.messages)

    def _is_new(self, file: RunFile) -> bool:
        return self._others.get(file.name) != _digest_of_round(file.value)


def _digest_of_round(value: Any) -> bytes:
    return sha256(canonical_json(value)).digest()


def _refused(file: RunFile, message: str) -> InvalidRunError:
    return InvalidRunError([{"file": file.name, "path": "$", "message": message}])


def _difference(here: RunFile, there: Any) -> dict[str, Any]:
    """Return the first place at which a round in the folder differs from that in the log, as a problem."""
    path, one, other = _first_difference(here.value, there, "$")
    return {"file": here.name, "path": path, "message": f"this is {_short(one)} here, and {_short(other)} in the log"}


_ABSENT: Final = object()


def _first_difference(one: Any, other: Any, path: str) -> tuple[str, Any, Any]:
    if type(one) is dict and type(other) is dict:
        for name in (*one, *(name for name in other if name not in one)):
            pair = one.get(name, _ABSENT), other.get(name, _ABSENT)
            if _differ(*pair):
                return _first_difference(*pair, child(path, name))
    if type(one) is list and type(other) is list:
        for index in range(max(len(one), len(other))):
            left, right = (items[index] if index < len(items) else _ABSENT for items in (one, other))
            if _differ(left, right):
                return _first_difference(left, right, child(path, index))
    return path, one, other


def _differ(one: Any, other: Any) -> bool:
    if one is _ABSENT or other is _ABSENT:
        return one is not other
    return canonical_json(one) != canonical_json(other)


def _short(value: Any) -> str:
    if value is _ABSENT:
        return "not there"
    if type(value) in (dict, list):
        return json_name(value)
    text = canonical_json(value).decode()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
