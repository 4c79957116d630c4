"""Checking intents, and making the drafts of their effects.

Source: docs/reference/intents.md. An intent of the kinds Speak, Move and Interact becomes an effect of that kind, one
of the kind Custom an effect of the kind that its ``payload.kind`` names.

Optional members may be null. Other members of a payload are kept as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, Self, TypeAlias, get_args

import orjson

from worldledger.canonical import MAX_INT, canonical_json, child, gate
from worldledger.core_kinds import AGENT_REGISTERED_KIND
from worldledger.drafts import MAX_PRIORITY, CheckedDraft, body_digest, json_name, missing_or, read_version, read_word
from worldledger.effects import SCHEMA_VERSION, SERVICE_SOURCE, EffectDraft, Intent, is_system_kind, own_draft
from worldledger.errors import InvalidEffectError, InvalidIntentError, ReservedKindError
from worldledger.staleness import (
    NOT_GIVEN,
    Threshold,
    check_about,
    check_interrupt_policy,
    check_threshold,
)

IntentKind: TypeAlias = Literal["Speak", "Move", "Interact", "Custom"]
KINDS: Final[tuple[IntentKind, ...]] = get_args(IntentKind)

#: The permission that any intent needs.
SUBMIT_INTENT: Final = "submit_intent"
#: The permissions of an agent unless its registration says otherwise.
DEFAULT_PERMISSIONS: Final = (SUBMIT_INTENT, "intent:move", "intent:speak", "intent:interact", "intent:custom")
#: Most permissions of one agent, and the largest weight in the round-robin of agents.
MAX_PERMISSIONS: Final = 1000
MAX_WEIGHT: Final = 1_000_000

_KIND: Final = f"one of {', '.join(KINDS)}; any other kind of effect is a Custom intent's payload.kind"
_KNOWN: Final = frozenset(
    {
        "about",
        "agent_id",
        "context_seq",
        "kind",
        "order",
        "payload",
        "priority",
        "req_id",
        "schema_version",
        "staleness_threshold",
    }
)


class Accepted(str):
    """An accepted intent: the uuid of its effect (the result of ``submit_intent``), and its place.

    - ``global_seq``: the effect's place in the world's log
    - ``req_id``: the intent's
    - ``replayed``: whether an earlier request with this req_id made the effect
    """

    __slots__ = ("global_seq", "replayed", "req_id")

    global_seq: int
    req_id: str
    replayed: bool

    def __new__(cls, uuid: str, *, global_seq: int, req_id: str, replayed: bool = False) -> Self:
        """Make it from the effect's uuid."""
        made = super().__new__(cls, uuid)
        made.global_seq = global_seq
        made.req_id = req_id
        made.replayed = replayed
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:  # what copies and pickles are made from
        return (str(self),), {"global_seq": self.global_seq, "req_id": self.req_id, "replayed": self.replayed}


class Held(NamedTuple):
    """An intent that is held until a tick decides it, in a world that is ordered by ticks.

    - ``tick``: the number of that tick
    - ``order``: the intent's place among the agent's own of that tick
    - ``replayed``: whether it was held already
    """

    agent_id: str
    req_id: str
    tick: int
    order: int
    replayed: bool = False


class CheckedIntent(NamedTuple):
    """An intent whose shape and values are valid; ``payload`` is an object of its own, positions in it are 3D floats.

    ``text`` is the payload in the canonical profile: the bytes that are stored. An intent with another payload has
    another text (`with_payload`).

    ``token_count`` is the payload's: the LLM tokens that making the intent has cost, 0 if it does not say. ``order`` is
    its place among the agent's own intents in a world ordered by ticks, if it states one. ``about`` are the ids that it
    names besides those of its payload, ``staleness_threshold`` its own, if it has one.
    """

    kind: IntentKind
    payload: dict[str, Any]
    context_seq: int | None
    req_id: str
    agent_id: str
    priority: int
    schema_version: str
    token_count: int
    order: int | None = None
    about: tuple[str, ...] = ()
    staleness_threshold: Threshold = NOT_GIVEN
    text: bytes = b""

    @property
    def effect_kind(self) -> str:
        """The kind of the effect that it asks for."""
        kind: str = self.payload["kind"] if self.kind == "Custom" else self.kind
        return kind

    def digest(self) -> bytes:
        """Return what makes two requests of one req_id the same: all but the view that they were made from.

        It is the digest that the log has of the request (`worldledger.drafts.CheckedDraft.body_digest`).
        """
        return body_digest(self.effect_kind, self.text, self.agent_id, self.schema_version, self.priority, None)

    def with_payload(self, payload: dict[str, Any]) -> CheckedIntent:
        """Return the intent with another payload. Raises InvalidEffectError for one that the gate refuses."""
        return self._replace(payload=payload, text=gate(payload, path="$.payload", level=2))

    def to_intent(self) -> Intent:
        """Return the Intent with a copy of the payload, so that changes to it do not affect this object."""
        intent: Intent = {
            "kind": self.kind,
            "payload": orjson.loads(self.text),
            "context_seq": self.context_seq,
            "req_id": self.req_id,
            "agent_id": self.agent_id,
            "priority": self.priority,
            "schema_version": self.schema_version,
        }
        if self.order is not None:
            intent["order"] = self.order
        if self.about:
            intent["about"] = list(self.about)
        if self.staleness_threshold is not NOT_GIVEN:
            intent["staleness_threshold"] = self.staleness_threshold
        return intent


# -- intents -------------------------------------------------------------------------------------------------


def check_intent(value: Any, *, default_priority: int = 0) -> CheckedIntent:
    """Check one intent's shape and values, strictly: values are not converted.

    ``context_seq``, ``priority``, ``schema_version``, ``about`` and ``staleness_threshold`` may be left out; the world
    decides what a missing ``context_seq`` means. Raises InvalidIntentError with the JSON path of what is wrong,
    ReservedKindError for a Custom kind that only the service writes, and for the service's own name as agent_id.
    """
    try:
        return _checked(value, default_priority)
    except InvalidEffectError as error:
        if type(error) is InvalidEffectError:  # raised by the gate
            raise InvalidIntentError(error.reason, error.path) from None
        raise


def _checked(value: Any, default_priority: int) -> CheckedIntent:
    if not isinstance(value, Mapping):
        raise InvalidIntentError(f"an intent is an object, not {json_name(value)}")
    kind = value.get("kind")
    if type(kind) is not str or kind not in KINDS:
        raise InvalidIntentError(
            missing_or(value, "kind", _KIND) if type(kind) is not str else f"kind is {_KIND}", "$.kind"
        )
    agent_id = _not_the_service(read_word(value, "agent_id"), "$.agent_id")
    req_id = read_word(value, "req_id")
    context_seq = value.get("context_seq")
    if context_seq is not None and (type(context_seq) is not int or not 0 <= context_seq <= MAX_INT):
        what = "context_seq is the global_seq of the view that the intent was made from, or 0 for none, or null"
        raise InvalidIntentError(what, "$.context_seq")
    threshold: Threshold = NOT_GIVEN
    if "staleness_threshold" in value:
        threshold = check_threshold(value["staleness_threshold"])
    about = tuple(sorted(check_about(value.get("about"))))
    priority = value.get("priority")
    if priority is None:
        priority = default_priority
    if type(priority) is not int or abs(priority) > MAX_PRIORITY:
        raise InvalidIntentError("priority is an integer of 32 bits", "$.priority")
    order = value.get("order")
    if order is not None and (type(order) is not int or abs(order) > MAX_INT):
        raise InvalidIntentError("order is an integer: the intent's place among the agent's own of a tick", "$.order")
    version = SCHEMA_VERSION if value.get("schema_version") is None else read_version(value)
    if not _KNOWN.issuperset(value):
        unknown = next(str(name) for name in value if name not in _KNOWN)
        what = f"unknown field {unknown!r}; an Intent has {', '.join(sorted(_KNOWN))}"
        raise InvalidIntentError(what, child("$", unknown))
    payload = value.get("payload")
    if type(payload) is not dict:
        raise InvalidIntentError(missing_or(value, "payload", "an object"), "$.payload")
    text = gate(payload, path="$.payload", level=2)
    own: dict[str, Any] = orjson.loads(text)
    tokens = _tokens(own)
    _PAYLOADS[kind](own, agent_id)
    if kind == "Move" or b"null" in text:  # what may be written otherwise than it came: positions, and what is left out
        text = canonical_json(own)
    return CheckedIntent(
        kind, own, context_seq, req_id, agent_id, priority, version, tokens, order, about, threshold, text
    )


def intent_draft(intent: CheckedIntent) -> EffectDraft:
    """Return the draft of the effect that a checked intent asks for; its source is the agent.

    ``source_metadata`` has what the intent was made from, and its own statements about that.
    """
    made_from: dict[str, Any] = {"intent": intent.kind, "context_seq": intent.context_seq}
    if intent.about:
        made_from["about"] = list(intent.about)
    if intent.staleness_threshold is not NOT_GIVEN:
        made_from["staleness_threshold"] = intent.staleness_threshold
    return {
        "kind": intent.effect_kind,
        "payload": intent.payload,
        "source_id": intent.agent_id,
        "schema_version": intent.schema_version,
        "priority": intent.priority,
        "req_id": intent.req_id,
        "source_metadata": made_from,
    }


def checked_draft(intent: CheckedIntent, **more: Any) -> CheckedDraft:
    """Return `intent_draft` as a checked draft; its payload was gated with the intent.

    ``more`` is added to its ``source_metadata``. Raises InvalidEffectError for what the gate refuses in that.
    """
    draft = intent_draft(intent)
    made_from = gate(draft["source_metadata"] | more, path="$.source_metadata", level=2)
    return CheckedDraft(
        draft["kind"],
        intent.text,
        intent.agent_id,
        intent.schema_version,
        None,
        intent.priority,
        intent.req_id,
        None,
        made_from,
    )


# -- payloads ------------------------------------------------------------------------------------------------


def _check_move(payload: dict[str, Any], agent_id: str) -> None:
    """Move ``{to | position, from?, speed?, agent_id?}``; if both are given, ``to`` counts."""
    name = "position" if payload.get("to") is None else "to"
    if payload.get(name) is None:
        raise InvalidIntentError("a Move needs a position to move to", "$.payload.to")
    target = _point(payload[name], f"$.payload.{name}")
    payload.pop("position", None)
    payload["to"] = target
    if _given(payload, "from"):
        payload["from"] = _point(payload["from"], "$.payload.from")
    if _given(payload, "speed"):
        speed = _number(payload["speed"], "$.payload.speed", "speed")
        if speed < 0:
            raise InvalidIntentError("speed is a number from 0 on", "$.payload.speed")
        payload["speed"] = speed
    if _given(payload, "agent_id") and payload["agent_id"] != agent_id:
        raise InvalidIntentError(f"an agent moves itself only, and this intent is {agent_id!r}'s", "$.payload.agent_id")


def _check_speak(payload: dict[str, Any], _: str) -> None:
    """Speak ``{text, private?, target_id?}``: a private one is only for the target, which it has to name."""
    if type(payload.get("text")) is not str:
        raise InvalidIntentError(missing_or(payload, "text", "a string"), "$.payload.text")
    if _given(payload, "private") and type(payload["private"]) is not bool:
        raise InvalidIntentError("private is true or false", "$.payload.private")
    if payload.get("private"):
        read_word(payload, "target_id", "$.payload")


def _check_interact(payload: dict[str, Any], agent_id: str) -> None:
    """Interact ``{target_id}``."""
    if read_word(payload, "target_id", "$.payload") == agent_id:
        raise InvalidIntentError("nobody interacts with itself", "$.payload.target_id")


def _check_custom(payload: dict[str, Any], _: str) -> None:
    """Check ``Custom {kind, …}``: neither a system kind nor an intent kind with its own permission."""
    kind = read_word(payload, "kind", "$.payload")
    if is_system_kind(kind):
        raise ReservedKindError(f"{kind} effects are written by the service alone", "$.payload.kind")
    if kind in _PAYLOADS and kind != "Custom":
        raise InvalidIntentError(f"{kind} is an intent kind of its own", "$.payload.kind")


_PAYLOADS: Final[Mapping[str, Callable[[dict[str, Any], str], None]]] = {
    "Speak": _check_speak,
    "Move": _check_move,
    "Interact": _check_interact,
    "Custom": _check_custom,
}


def _given(payload: dict[str, Any], name: str) -> bool:
    """Return whether a member is there; one that is null is removed."""
    if payload.get(name) is not None:
        return True
    payload.pop(name, None)
    return False


def _tokens(payload: dict[str, Any]) -> int:
    if not _given(payload, "token_count"):
        return 0
    count = payload["token_count"]
    if type(count) is not int or count < 0:
        raise InvalidIntentError("token_count is a whole number of LLM tokens, from 0 on", "$.payload.token_count")
    return count


def _point(value: Any, path: str) -> list[float]:
    """Return a position as three floats; z is 0.0 if there are two."""
    if type(value) is not list or not 2 <= len(value) <= 3:
        raise InvalidIntentError("a position is a list of 2 or 3 numbers", path)
    point = [_number(item, f"{path}[{index}]", "a coordinate") for index, item in enumerate(value)]
    return point if len(point) == 3 else [*point, 0.0]


def _number(value: Any, path: str, what: str) -> float:
    if type(value) is float or type(value) is int:
        return float(value)
    raise InvalidIntentError(f"{what} is a number, not {json_name(value)}", path)


# -- agents --------------------------------------------------------------------------------------------------


def permission_for(kind: str) -> str:
    """Return the permission that an intent of this kind needs besides ``submit_intent``, such as ``intent:move``."""
    return f"intent:{kind.lower()}"


def check_agent_id(value: Any, path: str = "$.agent_id") -> str:
    """Return an agent's id if it is valid: 1 to 200 characters, and not the service's own name.

    Raises InvalidEffectError or ReservedKindError.
    """
    return _not_the_service(_word(value, "agent_id", path), path)


def _word(value: Any, name: str, path: str) -> str:
    try:
        return read_word({name: value}, name)
    except InvalidEffectError as error:
        raise InvalidEffectError(error.reason, path) from None


def _not_the_service(agent_id: str, path: str) -> str:
    if agent_id == SERVICE_SOURCE:
        raise ReservedKindError(f"{SERVICE_SOURCE!r} is the service's own source_id", path)
    return agent_id


def check_permissions(value: Iterable[Any] | None, path: str = "$.permissions") -> list[str]:
    """Return permissions sorted, each once; None means DEFAULT_PERMISSIONS.

    Any name may be a permission: a validator may use its own. Raises InvalidEffectError.
    """
    if value is None:
        return sorted(DEFAULT_PERMISSIONS)
    if not isinstance(value, list | tuple | set | frozenset):
        raise InvalidEffectError(f"permissions is a list of names, not {json_name(value)}", path)
    if len(value) > MAX_PERMISSIONS:
        raise InvalidEffectError(f"an agent has at most {MAX_PERMISSIONS} permissions", path)
    return sorted({_word(item, "a permission", child(path, index)) for index, item in enumerate(value)})


def check_weight(value: Any, path: str = "$.weight") -> int:
    """Return an agent's weight in the round-robin if it is valid: 1 to MAX_WEIGHT. Raises InvalidEffectError."""
    if type(value) is not int or not 1 <= value <= MAX_WEIGHT:
        raise InvalidEffectError(f"weight is a whole number from 1 to {MAX_WEIGHT}", path)
    return value


def registration_draft(
    agent_id: str,
    policy_spec: Mapping[str, Any],
    permissions: Iterable[str] | None = None,
    weight: int = 1,
    staleness_threshold: Threshold = NOT_GIVEN,
    interrupt_policy: str | None = None,
) -> EffectDraft:
    """Return the draft of the effect that registers an agent, or registers it anew; written by the service.

    ``policy_spec`` is the result of `worldledger.policies.policy_spec`. Raises InvalidEffectError for anything else.
    """
    payload: dict[str, Any] = {
        "agent_id": check_agent_id(agent_id),
        "policy": {name: policy_spec[name] for name in ("name", "version", "config")},
        "permissions": check_permissions(permissions),
        "weight": check_weight(weight),
    }
    if staleness_threshold is not NOT_GIVEN:
        payload["staleness_threshold"] = check_threshold(staleness_threshold)
    if interrupt_policy is not None:
        payload["interrupt_policy"] = check_interrupt_policy(interrupt_policy)
    return own_draft(AGENT_REGISTERED_KIND, payload)
