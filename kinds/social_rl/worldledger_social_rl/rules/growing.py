"""A run that has grown since it was recorded: what its world has already, and the effects of what is new.

A run is the same one as long as the rounds that folder and world have in common are equal. Rounds are appended behind
the world's last one; meta data, policy states and other files that have changed are recorded anew. A folder that lacks
rounds of the world is an older state of the run, of which nothing is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from worldledger.canonical import canonical_json, child
from worldledger.drafts import json_name
from worldledger.effects import Effect, EffectDraft
from worldledger.errors import InvalidRunError
from worldledger_social_rl.rules import words
from worldledger_social_rl.rules.judging import Judge
from worldledger_social_rl.rules.recording import (
    META_FILE,
    RecordedRun,
    RunFile,
    identity_of,
    named_agents,
    sort_files,
    write_run,
)
from worldledger_social_rl.rules.rounds import Drafting

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
            self._others[name] = _digest(file.value)
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
        return self._others.get(file.name) != _digest(file.value)


def _digest(value: Any) -> bytes:
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
