"""The effects of a world as the files of a run's folder: what `worldledger_social_rl.rules.recording` read, again.

A world that was recorded live has files too: its rounds, and meta.json and policy_state.json where there is something
to tell in them. Nothing that the log tells of one file takes the place of another: see `_Names`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any, Final

import orjson

from worldledger.canonical import canonical_json, gate
from worldledger.effects import Effect
from worldledger.errors import InvalidRunError
from worldledger_social_rl.rules import words
from worldledger_social_rl.rules.fields import ADAPTATION, FEEDBACK, MESSAGE, POLICY_STATE
from worldledger_social_rl.rules.words import EXTRA, META_FILE, NAME, PARTS, PARTS_FIELD, POLICY_FILE

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
