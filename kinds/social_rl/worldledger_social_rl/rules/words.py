"""The vocabulary of social-RL worlds: its kinds, how documents stand in payloads, and who is a coach.

Source: docs/reference/social-rl.md, "Effects". A payload mirrors the object of the document, field by field: what is
absent there is absent here. What does not fit (an unknown field, a value of another type) is kept in ``extra``
{original name: original value}, and an element that is no object at all in ``raw``; `restored` gives the original back.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeGuard

from worldledger.canonical import MAX_INT
from worldledger.drafts import MAX_WORD
from worldledger.rulesets.reading import UnreadableError, read_name
from worldledger.world import WorldState
from worldledger_social_rl.rules.fields import Fields, role_and_name

EXPERIMENT_STARTED: Final = "ExperimentStarted"
ROUND_STARTED: Final = "RoundStarted"
MESSAGE_EMITTED: Final = "MessageEmitted"
FEEDBACK_RECORDED: Final = "FeedbackRecorded"
POLICY_ADAPTED: Final = "PolicyAdapted"
POLICY_STATE_RECORDED: Final = "PolicyStateRecorded"
ROUND_SYNTHESISED: Final = "RoundSynthesised"
ROUND_ENDED: Final = "RoundEnded"
ARTIFACT_RECORDED: Final = "ArtifactRecorded"

#: The source of whatever no agent has said.
SOURCE: Final = "coach"
#: The role of agents that see internal messages, where a world's configuration names none.
COACH: Final = "Coach"
#: Where the state has what is known of the experiment besides entities.
PLACE: Final = "social_rl"
ENTITY_TYPE: Final = "social_agent"
#: Where a payload keeps what the documented fields cannot hold, and an element that is no object.
EXTRA: Final = "extra"
RAW: Final = "raw"
#: Where a FeedbackRecorded tells which fields its payload has although the vector had none.
ABSENT: Final = "absent"
#: Where a RoundStarted tells which of PARTS the round's document had, unless it had all of them; and its file's name,
#: unless that is the usual one.
PARTS_FIELD: Final = "parts"
NAME: Final = "name"
PARTS: Final = ("round_number", "messages", "feedback", "policy_adaptations")
#: Where an ExperimentStarted has a condition that the meta data tell as a number, or as true or false, as text; and
#: whether it tells the meta data of a run anew that has started before.
CONDITION: Final = "condition"
REVISED: Final = "revised"
#: The files of a run that are no rounds and have names of their own.
META_FILE: Final = "meta.json"
POLICY_FILE: Final = "policy_state.json"
#: Most bytes of a file's name on the disks in use.
MAX_FILE_BYTES: Final = 255
#: What is wrong with a file that strict readers refuse for it.
MARKED: Final = "the file begins with a byte order mark"
MISNAMED: Final = "the name is nearly that of a round, or of the meta data, and is read as neither"
_ROUND_FILE: Final = re.compile(r"round([0-9]+)_social_rl\.json\Z")
_OWN_NAMES: Final = {META_FILE: EXPERIMENT_STARTED, POLICY_FILE: POLICY_STATE_RECORDED}


def split(value: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """Return a payload of an object: the fields that fit, and the rest in ``extra``."""
    payload: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, item in value.items():
        field = fields.get(name)
        if field is not None and type(item) in field.types:
            payload[name] = item
        else:
            extra[name] = item
    if extra:
        payload[EXTRA] = extra
    return payload


def restored(payload: Mapping[str, Any], fields: Collection[str]) -> Any:
    """Return the object that a payload was made of: the fields, and what was kept beside them."""
    if RAW in payload:
        return payload[RAW]
    value = {name: payload[name] for name in fields if name in payload}
    for name in _list(payload.get(ABSENT)):
        value.pop(name, None)
    return value | object_of(payload.get(EXTRA))


def object_of(value: Any) -> dict[str, Any]:
    """Return a value that is an object; an empty one for anything else."""
    return value if type(value) is dict else {}


def _list(value: Any) -> list[Any]:
    return [item for item in value if type(item) is str] if type(value) is list else []


def file_of_round(number: int) -> str:
    """Return the usual name of a round's file."""
    return f"round{number}_social_rl.json"


def kind_of_file(name: str) -> str | None:
    """Return the kind of the effects to which a file's name belongs, None where it is free for any other file.

    Case makes no difference: there are disks on which it makes none.
    """
    folded = name.casefold()
    return ROUND_STARTED if _ROUND_FILE.match(folded) else _OWN_NAMES.get(folded)


def is_file_of_round(name: str, number: int) -> bool:
    """Tell whether a name is that of the round's file, zeros before the number set aside."""
    found = _ROUND_FILE.match(name)
    return found is not None and (found[1].lstrip("0") or "0") == str(number)


def is_plain_name(name: Any) -> bool:
    """Tell whether a text can be the name of a file in a run's folder, and of no other place."""
    return (
        type(name) is str
        and 0 < len(name) <= MAX_WORD
        and name.isprintable()
        and not name.startswith(".")
        and not set(name) & set('/\\:*?"<>|')
    )


def fits_a_disk(name: str) -> bool:
    """Tell whether the disks in use take so long a name."""
    return len(name.encode()) <= MAX_FILE_BYTES


# -- reading payloads ----------------------------------------------------------------------------------------


def read_agent(payload: Mapping[str, Any]) -> str:
    """Read whom an effect is about. Raises UnreadableError."""
    return read_name(payload, "agent_id")


def read_round(payload: Mapping[str, Any]) -> int:
    """Read a round's number. Raises UnreadableError."""
    number = payload.get("round_number")
    if is_number_of_round(number):
        return number
    raise UnreadableError("round_number is a whole number", "$.payload.round_number")


def is_number_of_round(value: Any) -> TypeGuard[int]:
    """Tell whether a value can be the number of a round at all; strict checks ask for more."""
    return type(value) is int and 0 <= value <= MAX_INT


def is_internal(payload: Mapping[str, Any]) -> bool:
    """Tell whether a message is for coaches only; one whose flag cannot be read is."""
    return payload.get("internal") is True or "internal" in object_of(payload.get(EXTRA))


def is_coach(agent_id: str, coaches: Collection[str] | None) -> bool:
    """Tell whether an agent sees internal messages: one of those named, or of the role Coach where none are."""
    return role_and_name(agent_id)[0] == COACH if coaches is None else agent_id in coaches


# -- what the state knows ------------------------------------------------------------------------------------


def known(state: WorldState) -> dict[str, Any]:
    """Return what the state knows of the experiment."""
    found: dict[str, Any] = state.metadata[PLACE]
    return found


def coaches_of(state: WorldState) -> Collection[str] | None:
    """Return the coaches that the world's configuration names, None for the usual ones."""
    found: list[str] | None = known(state)["coaches"]
    return found


def is_known_agent(state: WorldState, agent_id: str) -> bool:
    """Tell whether an agent has taken part, or is registered."""
    return agent_id in state.entities or agent_id in state.metadata["agents"]
