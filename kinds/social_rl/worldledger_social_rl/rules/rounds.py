"""One round's document as drafts of effects: RoundStarted, the messages, the feedback, the adaptations, RoundEnded.

Nothing is lost, whatever the document holds: `worldledger_social_rl.rules.recording` makes the same document of the
effects. The look at a message is written out by hand: a big run is nearly all messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, tzinfo
from typing import Any, Final

from worldledger.canonical import MAX_INT, canonical_json, child
from worldledger.drafts import MAX_WORD, json_name
from worldledger.effects import SCHEMA_VERSION, SERVICE_SOURCE, EffectDraft
from worldledger_social_rl.rules import words
from worldledger_social_rl.rules.fields import (
    LATEST_SECONDS,
    MESSAGE_ROLES,
    Fault,
    Judge,
    field_faults,
    is_naive,
    required_of,
    types_of,
)
from worldledger_social_rl.rules.models import (
    ADAPTATION,
    FEEDBACK,
    MESSAGE,
    META,
    POLICY_STATE,
    ROUND,
    adaptation_faults,
    feedback_faults,
    message_faults,
    meta_faults,
    number_of,
)
from worldledger_social_rl.rules.words import ABSENT, EXTRA, NAME, PARTS, PARTS_FIELD, RAW, SOURCE

_MESSAGE_TYPES: Final = types_of(MESSAGE)
_MESSAGE_NEEDS: Final = required_of(MESSAGE)
_FEEDBACK_TYPES: Final = types_of(FEEDBACK)
_NOTHING: Final[frozenset[type]] = frozenset()
_ROLES: Final = frozenset({*MESSAGE_ROLES, None})
#: Where a whole round's fields go; the rest of them are effects of their own.
_HEAD: Final = {name: ROUND[name] for name in ("meta", "round_config")}


class Drafting:
    """The drafts of a run, round by round.

    - ``drafts``: what has come of it so far. ``rounds``, ``messages``: how many there are.
    - ``now``: the sim_time so far, which never decreases; None for drafts without one.
    - ``first_seq``: the global_seq that the first draft will have, None where that is not known: then nothing is told
      of causes.
    - ``agents``: who has spoken, or is known otherwise.
    - ``timezone``: that of times in meta data that have no offset; None leaves them as they are.
    - ``feedback_seqs``: the latest feedback of each agent before the first draft.
    """

    def __init__(
        self,
        judge: Judge,
        *,
        now: float | None = 0.0,
        first_seq: int | None = None,
        agents: Iterable[str] = (),
        timezone: tzinfo | None = None,
        feedback_seqs: Mapping[str, int] | None = None,
    ) -> None:
        self.judge = judge
        self.drafts: list[EffectDraft] = []
        self.rounds = 0
        self.messages = 0
        self.agents = set(agents)
        self._timed = now is not None
        self._now = 0.0 if now is None else now
        self._first_seq = first_seq
        self._timezone = timezone
        self._feedback_seqs = dict(feedback_seqs or {})
        #: The sources of agents of whose ids there is nothing more to tell.
        self._sources: dict[str, str] = {}

    def add(self, kind: str, payload: dict[str, Any], source_id: str = SOURCE) -> EffectDraft:
        """Add a draft of what is said now."""
        draft: EffectDraft = {
            "kind": kind,
            "payload": payload,
            "source_id": source_id,
            "schema_version": SCHEMA_VERSION,
        }
        if self._timed:
            draft["sim_time"] = self._now
        self.drafts.append(draft)
        return draft

    def meta(self, value: Mapping[str, Any], *, revised: bool = False) -> None:
        """Add the draft of a run's meta data; ``revised``: of a run that has started before."""
        payload = meta_payload(value, self._timezone)
        self.add(words.EXPERIMENT_STARTED, payload | ({words.REVISED: True} if revised else {}))

    def policy(self, name: str, value: Mapping[str, Any]) -> None:
        """Add the draft of a PRAR policy state."""
        self.add(words.POLICY_STATE_RECORDED, {**words.split(value, POLICY_STATE), NAME: name})

    def artifact(self, name: str, value: Any) -> None:
        """Add the draft of any other file."""
        self.add(words.ARTIFACT_RECORDED, {"name": name, "content": value})

    def begin_at(self, value: Any) -> None:
        """Let the time be that of a round's first message, if that tells one."""
        messages = value.get("messages") if type(value) is dict else None
        first = messages[0] if type(messages) is list and messages else None
        if type(first) is dict:
            self._pass(first.get("timestamp"))

    def round(self, value: Mapping[str, Any], *, file: str, number: int | None) -> None:
        """Add the drafts of a round that has this number; of one without they are good for nothing but its faults."""
        self.rounds += 1
        self.begin_at(value)
        fits = {name: type(value[name]) in ROUND[name].types for name in ROUND if name in value}
        self._start(value, fits, file, number)
        if fits.get("messages"):
            self._add_messages(value["messages"], file, number)
        if fits.get("feedback"):
            self._add_feedback(value["feedback"], file, number)
        if fits.get("policy_adaptations"):
            self._add_adaptations(value["policy_adaptations"], file, number)
        if fits.get("synthesis"):
            payload = {"round_number": number, "synthesis": value["synthesis"]}
            self.add(words.ROUND_SYNTHESISED, payload)
        ended: dict[str, Any] = {"round_number": number}
        if fits.get("duration_seconds"):
            ended["duration_seconds"] = value["duration_seconds"]
        self.add(words.ROUND_ENDED, ended)

    # -- the parts ---------------------------------------------------------------------------------------------

    def _start(self, value: Mapping[str, Any], fits: Mapping[str, bool], file: str, number: int | None) -> None:
        self.judge.take(file, field_faults(value, ROUND, "$", "a round"))
        payload: dict[str, Any] = {"round_number": number}
        extra: dict[str, Any] = {}
        for name, item in value.items():
            if not fits.get(name):
                extra[name] = item
            elif name in _HEAD:
                payload[name] = item
        if value.get("round_number", number) != number and fits["round_number"]:
            extra["round_number"] = value["round_number"]
        if fits.get("meta"):
            self.judge.take(file, meta_faults(value["meta"], "$.meta"))
            payload["meta"] = _localised(value["meta"], self._timezone)
            if payload["meta"] is not value["meta"]:
                extra["meta"] = value["meta"]
        parts = [name for name in PARTS if name in value and fits[name]]
        if len(parts) < len(PARTS):
            payload[PARTS_FIELD] = parts
        if file and (number is None or file != words.file_of_round(number)):
            payload[NAME] = file
        if extra:
            payload[EXTRA] = extra
        self.add(words.ROUND_STARTED, payload)

    def _add_messages(self, messages: list[Any], file: str, number: int | None) -> None:
        types, needs, roles = _MESSAGE_TYPES, _MESSAGE_NEEDS, _ROLES
        sources, drafts, timed, now = self._sources, self.drafts, self._timed, self._now
        for index, message in enumerate(messages):
            payload = message
            right = type(message) is dict and needs <= message.keys()
            if right:
                for name, item in message.items():
                    if type(item) not in types.get(name, _NOTHING):
                        right = False
                        break
            if right:
                agent_id, timestamp = message["agent_id"], message["timestamp"]
                right = (
                    agent_id in sources
                    and message["round_number"] == number
                    and message["turn_number"] >= 1
                    and 0 <= timestamp < LATEST_SECONDS
                    and message.get("role") in roles
                    and message.get("context_frame") is None
                )
            if not right:
                self._judge_message(message, file, index, number)
                payload = _in_seconds(_payload(message, MESSAGE))
                agent_id, timestamp = payload.get("agent_id"), payload.get("timestamp")
                source_id = SOURCE if agent_id is None else _source(agent_id)
            else:
                source_id = sources[agent_id]
            if timestamp is not None and now < timestamp < MAX_INT:
                now = float(timestamp)
            draft: EffectDraft = {
                "kind": "MessageEmitted",
                "payload": payload,
                "source_id": source_id,
                "schema_version": SCHEMA_VERSION,
            }
            if timed:
                draft["sim_time"] = now
            drafts.append(draft)
        self._now = now
        self.messages += len(messages)

    def _judge_message(self, message: Any, file: str, index: int, number: int | None) -> None:
        """Tell of what is wrong with a message; of an agent's id, where that is taken, once for all its messages."""
        agent_id = message.get("agent_id") if type(message) is dict else None
        seen = type(agent_id) is str and agent_id in self._sources and not self.judge.strict
        path = f"$.messages[{index}]"
        for fault in message_faults(message, path, number):
            if fault.path == f"{path}.timestamp" and fault.rule == "value" and not self.judge.strict:
                said = message["timestamp"]
                parts = {1000: "milliseconds", 1_000_000: "microseconds"}.get(round(said / (_seconds(said) or 1.0)))
                read = "" if parts is None else f"; it is read as {parts}"
                self.judge.take(file, (fault._replace(message=fault.message + read),))
            elif not (seen and fault.rule == "value" and fault.path == f"{path}.agent_id"):
                self.judge.take(file, (fault,))
        if type(agent_id) is str:
            self.agents.add(agent_id)
            if not self.judge.strict or not _is_wrong(agent_id):
                self._sources[agent_id] = _source(agent_id)

    def _add_feedback(self, feedback: dict[str, Any], file: str, number: int | None) -> None:
        for agent, vector in feedback.items():
            path = child("$.feedback", agent)
            self.judge.take(file, feedback_faults(vector, path, number, agent))
            if agent not in self.agents:
                self._unknown_agent(file, path, agent)
            if type(vector) is not dict:
                payload: dict[str, Any] = {"agent_id": agent, RAW: vector}
            elif all(type(item) in _FEEDBACK_TYPES.get(name, _NOTHING) for name, item in vector.items()) and (
                vector.get("agent_id") == agent
            ):
                payload = vector
            else:
                payload = words.split(vector, FEEDBACK)
                if "agent_id" not in vector:
                    payload[ABSENT] = ["agent_id"]
                elif payload.get("agent_id", agent) != agent:
                    payload.setdefault(EXTRA, {})["agent_id"] = vector["agent_id"]
                payload["agent_id"] = agent
            self.add(words.FEEDBACK_RECORDED, payload)
            if self._first_seq is not None:
                self._feedback_seqs[agent] = self._first_seq + len(self.drafts) - 1

    def _add_adaptations(self, adaptations: list[Any], file: str, number: int | None) -> None:
        for index, adaptation in enumerate(adaptations):
            path = f"$.policy_adaptations[{index}]"
            self.judge.take(file, adaptation_faults(adaptation, path, number))
            payload = _payload(adaptation, ADAPTATION)
            agent = payload.get("agent_id")
            draft = self.add(words.POLICY_ADAPTED, payload)
            if type(agent) is str:
                if agent not in self.agents:
                    self._unknown_agent(file, f"{path}.agent_id", agent)
                if agent in self._feedback_seqs:
                    draft["caused_by"] = self._feedback_seqs[agent]

    def _unknown_agent(self, file: str, path: str, agent: str) -> None:
        what = f"nobody of the name {agent!r} has spoken so far, or is named in the meta data"
        self.judge.take(file, (Fault(path, what, "unknown_agent"),))

    def _pass(self, timestamp: Any) -> None:
        if type(timestamp) in MESSAGE["timestamp"].types:
            timestamp = _seconds(timestamp)
            if self._now < timestamp < MAX_INT:
                self._now = float(timestamp)


def round_drafts(
    value: Mapping[str, Any],
    *,
    strict: bool,
    now: float | None = None,
    first_seq: int | None = None,
    agents: Iterable[str] = (),
) -> list[EffectDraft]:
    """Return the drafts of one round's document, RoundStarted to RoundEnded.

    - ``strict``: whether to raise InvalidRunError, with every problem and its path, for what is not as documented.
      Otherwise nothing but a document that has no round_number is refused.
    - ``now``: the world's sim_time so far, where the drafts are to have one of their own (the messages' timestamps,
      never decreasing); None for drafts without.
    - ``first_seq``: the global_seq that the first of them will have, where that is known: then adaptations name the
      feedback of the round that caused them.
    - ``agents``: who is known besides those that speak in this round.
    """
    judge = Judge(strict=strict)
    if type(value) is not dict:
        judge.refuse("", "$", f"a round is an object, not {json_name(value)}")
        judge.decide()
    number = number_of(value) if strict else value.get("round_number")
    if not strict and not words.is_number_of_round(number):
        judge.refuse("", "$.round_number", f"round_number is {ROUND['round_number'].what}")
        judge.decide()
    drafting = Drafting(judge, now=now, first_seq=first_seq, agents=agents)
    drafting.round(value, file="", number=number)
    judge.decide()
    return drafting.drafts


def meta_payload(value: Mapping[str, Any], timezone: tzinfo | None = None) -> dict[str, Any]:
    """Return the payload of ExperimentStarted for a run's meta data: the known fields in ``meta``, the rest beside.

    A condition that is a number, or true or false, stands in ``condition`` as text, too. A timestamp without an offset
    from UTC is that of the timezone, where one is given; as it was found it stands in ``extra``.
    """
    meta = words.split(value, META)
    extra = meta.pop(EXTRA, {})
    localised = _localised(meta, timezone)
    if localised is not meta:
        extra["timestamp"] = meta["timestamp"]
    payload = {"meta": localised} | ({EXTRA: extra} if extra else {})
    condition = extra.get(words.CONDITION)
    if type(condition) in (bool, int, float):
        payload[words.CONDITION] = canonical_json(condition).decode()
    return payload


def _localised(meta: dict[str, Any], timezone: tzinfo | None) -> dict[str, Any]:
    """Return meta data whose timestamp has an offset from UTC; the very same where it needs none, or can have none."""
    said = meta.get("timestamp")
    if timezone is None or type(said) is not str or not is_naive(said):
        return meta
    offset = datetime.fromisoformat(said).replace(tzinfo=timezone).isoformat()[-6:]
    return {**meta, "timestamp": said + offset} if offset[0] in "+-" else meta


def _seconds(timestamp: float) -> float:
    """Return a timestamp in seconds since 1970, whatever it counts: seconds, or thousandths or millionths of them."""
    if LATEST_SECONDS <= timestamp < LATEST_SECONDS * 1e3:
        return timestamp / 1e3
    return timestamp / 1e6 if LATEST_SECONDS * 1e3 <= timestamp < LATEST_SECONDS * 1e6 else timestamp


def _in_seconds(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a message's payload with its timestamp in seconds; one that was not stands in ``extra`` as found."""
    said = payload.get("timestamp")
    if said is None or (seconds := _seconds(said)) == said:
        return payload
    return {**payload, "timestamp": seconds, EXTRA: {**payload.get(EXTRA, {}), "timestamp": said}}


def _payload(value: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    return words.split(value, fields) if type(value) is dict else {RAW: value}


def _is_wrong(agent_id: str) -> bool:
    rule = MESSAGE["agent_id"].rule
    return rule is not None and not rule(agent_id)


def _source(agent_id: str) -> str:
    """Return the source_id of an agent's messages; who cannot be a source speaks through the run."""
    return agent_id if 0 < len(agent_id) <= MAX_WORD and agent_id != SERVICE_SOURCE else SOURCE
