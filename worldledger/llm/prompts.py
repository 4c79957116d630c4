"""What a model is told of a world, and what its answers mean: from observations to messages, from answers to intents.

What it is told follows from the log alone: no seq and no random name is in it, and no time that the agent is not shown,
so that an agent that sees the same in a fork is asked the same.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import jsonschema_rs
import orjson

from worldledger.deltas import ObservationDelta, ObservedEvent, View
from worldledger.errors import InvalidConfigError
from worldledger.llm.model import Request, Tool, ToolCall
from worldledger.llm.persona import Persona

_SPEAK: Final = "Speak"
#: The kinds of intents that are not the payload of an effect.
_INTENTS: Final = frozenset({"Speak", "Move", "Interact"})
_COMING_IN: Final = "(You have just come in.)"
_YOUR_TURN: Final = "(It is your turn.)"


class Told(NamedTuple):
    """One thing that an agent remembers: what it said itself, or a line about what it observed."""

    is_own: bool
    text: str


class Memory:
    """What an agent remembers, oldest first, at most ``most`` things."""

    def __init__(self, agent_id: str, most: int) -> None:
        self._agent_id = agent_id
        self._told: deque[Told] = deque(maxlen=most)

    @property
    def told(self) -> Iterable[Told]:
        """What it remembers."""
        return self._told

    @property
    def has_acted(self) -> bool:
        """Whether anything that it remembers was its own."""
        return any(told.is_own for told in self._told)

    def hear(self, event: ObservedEvent) -> None:
        """Remember an event."""
        source_id, kind, payload = event["source_id"], event["kind"], event["payload"]
        is_own = source_id == self._agent_id
        text = payload.get("text")  # as what is said has
        if not isinstance(text, str):
            text = f"({'you' if is_own else source_id}: {kind} {_json(payload)})"
        elif not is_own:
            text = f"{source_id}: {text}"
        self._told.append(Told(is_own, text))

    def see(self, delta: ObservationDelta) -> None:
        """Remember an observation: its events or else what has changed; of several that were merged, both."""
        for event in delta.events:
            self.hear(event)
        if delta.patches and (not delta.events or delta.collapsed > 1):
            changes = "; ".join(map(_change, delta.patches))
            self._told.append(Told(is_own=False, text=f"(changed: {changes})"))


def _change(patch: Mapping[str, Any]) -> str:
    path = str(patch["path"]).removeprefix("/visible_entities/").removeprefix("/visible_relationships/")
    return f"{path} is gone" if patch["op"] == "remove" else f"{path} = {_json(patch.get('value'))}"


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def request_for(
    agent_id: str,
    persona: Persona,
    memory: Memory,
    tools: Iterable[Tool],
    view: View | None = None,
    corrections: Iterable[str] = (),
) -> Request:
    """Return what a model is asked: its character, what it remembers, the view if it is to be told, and its turn."""
    system = f"You are {agent_id}. {persona.described()}"
    messages = [{"role": "system", "content": system}, {"role": "user", "content": _COMING_IN}]
    more = [Told(is_own=False, text=text) for text in corrections]
    if view is not None:
        more.append(Told(is_own=False, text=f"(You see: {_json(view.visible_entities)})"))
    for told in (*memory.told, *more):
        _add(messages, "assistant" if told.is_own else "user", told.text)
    if messages[-1]["role"] != "user":
        _add(messages, "user", _YOUR_TURN)
    return Request(messages, tuple(tools), persona.asked_with())


def _add(messages: list[dict[str, str]], role: str, text: str) -> None:
    """Add a text to the last message if that has the same role: many models want the roles to alternate."""
    if messages[-1]["role"] == role:
        messages[-1]["content"] += f"\n{text}"
    else:
        messages.append({"role": role, "content": text})


# -- from answers to intents ----------------------------------------------------------------------------------------


class Intended(NamedTuple):
    """What a model wants to do: the kind, and the intent that says so, or why it is none."""

    kind: str
    intent: Mapping[str, Any] | None
    problem: str | None = None


class Actions:
    """The intents that an agent may make in a world, with the schemas of their payloads.

    ``vocabulary`` is the answer of ``GET /v1/worlds/{world}/kinds``. Raises InvalidConfigError for a kind in ``may``
    that the world does not know.
    """

    def __init__(self, vocabulary: Mapping[str, Any], may: Iterable[str]) -> None:
        intents = {each["kind"]: each["payload"] for each in vocabulary["intents"]}
        effects = {each["kind"]: each["payload"] for each in vocabulary["effects"]}
        self._schemas: dict[str, Mapping[str, Any]] = {}
        for kind in may:
            schema = intents.get(kind) if kind in _INTENTS else effects.get(kind)
            if schema is None:
                known = ", ".join(sorted({*intents, *effects}))
                raise InvalidConfigError(f"worlds of {vocabulary['ruleset']} know no {kind}; they know {known}")
            self._schemas[kind] = schema
        self._validators = {kind: jsonschema_rs.validator_for(dict(schema)) for kind, schema in self._schemas.items()}
        self.speaks = _SPEAK in self._schemas
        #: what the model may do besides writing what is said
        self.tools = tuple(
            Tool(kind, str(schema.get("description", kind)), schema)
            for kind, schema in self._schemas.items()
            if kind != _SPEAK
        )

    def of(self, text: str, calls: Iterable[ToolCall]) -> list[Intended]:
        """Return what an answer means: a text is spoken, each call is an intent of its own."""
        said = text.strip()
        found = [self._checked(_SPEAK, {"text": said})] if said and self.speaks else []
        return found + [self._called(call) for call in calls]

    def _called(self, call: ToolCall) -> Intended:
        if call.name not in self._schemas:
            known = ", ".join(self._schemas)
            return Intended(call.name or "?", None, f"there is no {call.name or 'action without a name'}; only {known}")
        try:
            payload = json.loads(call.arguments or "{}", parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            return Intended(call.name, None, f"the arguments are no JSON: {error}")
        return self._checked(call.name, payload)

    def _checked(self, kind: str, payload: Any) -> Intended:
        problems = [error.message for error in self._validators[kind].iter_errors(payload)]
        if problems or not isinstance(payload, dict):
            return Intended(kind, None, f"the arguments do not fit: {'; '.join(problems[:3]) or 'no object'}")
        if kind in _INTENTS:
            return Intended(kind, {"kind": kind, "payload": payload})
        return Intended(kind, {"kind": "Custom", "payload": {**payload, "kind": kind}})


def was_not_possible(kind: str, why: str | None) -> str:
    """Say to a model that nothing came of something that it wanted to do."""
    return f"({kind} was not possible: {why})"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
