"""The effects of a world as the files of a run's folder: what `worldledger.rulesets.social_rl.recording` read, again.

A world that was recorded live has files too: its rounds, and meta.json and policy_state.json where there is something
to tell in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from worldledger.canonical import canonical_json, gate
from worldledger.effects import Effect
from worldledger.errors import InvalidRunError
from worldledger.rulesets.social_rl import words
from worldledger.rulesets.social_rl.fields import ADAPTATION, FEEDBACK, MESSAGE, POLICY_STATE
from worldledger.rulesets.social_rl.words import EXTRA, NAME, PARTS, PARTS_FIELD

META_FILE: Final = "meta.json"
POLICY_FILE: Final = "policy_state.json"


@dataclass(frozen=True)
class RunFile:
    """A file of a run: its name without a folder, and its parsed JSON.

    ``text`` is the canonical text of the value where that is known already; it must be just that.
    """

    name: str
    value: Any
    text: bytes | None = field(default=None, repr=False, compare=False)

    def canonical(self) -> bytes:
        """Give the value's canonical text. Raises InvalidEffectError for what a log cannot hold.

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
    """Give the files of a world, each as soon as its effects have been read; one round is held at a time.

    The effects come in the order of the log; those of other kinds are passed over, and so is what stands before the
    first round and belongs to one. A round, or a file, that stands twice in the log is given twice: what comes later
    counts. Raises InvalidRunError for a name in the log that is no name of a file.
    """
    running: _Round | None = None
    policy: RunFile | None = None
    for effect in effects:
        kind, payload = effect["kind"], effect["payload"]
        if kind == words.ROUND_STARTED:
            if running is not None:
                yield running.file()
            running = _Round(payload)
        elif kind == words.EXPERIMENT_STARTED:
            value = words.object_of(payload.get("meta")) | words.object_of(payload.get(EXTRA))
            yield RunFile(META_FILE, value)
        elif kind == words.ARTIFACT_RECORDED:
            yield RunFile(_name(payload), payload.get("content"))
        elif kind == words.POLICY_STATE_RECORDED:
            value = words.restored(payload, POLICY_STATE)
            if NAME in payload:
                yield RunFile(_name(payload), value)
            else:
                policy = RunFile(POLICY_FILE, value)
        elif running is not None:
            running.take(kind, payload)
    if running is not None:
        yield running.file()
    if policy is not None:
        yield policy


def _name(payload: Mapping[str, Any]) -> str:
    name = payload.get(NAME)
    if words.is_plain_name(name):
        return str(name)
    raise InvalidRunError([{"path": "$.payload.name", "message": f"{name!r:.100} is no name of a file in a folder"}])


class _Round:
    """A round's document, as it is put together."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
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
        """Give the file: the seed's fields in the seed's order, then what was kept beside them."""
        head = self._head
        parts = {
            "round_number": head.get("round_number"),
            "messages": self._messages,
            "feedback": self._feedback,
            "policy_adaptations": self._adaptations,
        }
        value: dict[str, Any] = {"meta": head["meta"]} if "meta" in head else {}
        for name in PARTS:
            if name in self._parts:
                value[name] = parts[name]
            if name == "round_number" and "round_config" in head:
                value["round_config"] = head["round_config"]
        return RunFile(self._name, value | self._rest | words.object_of(head.get(EXTRA)))
