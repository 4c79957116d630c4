"""Social-RL documents for tests: plain examples, odd ones for Hypothesis, and runs recorded by others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import orjson
from hypothesis import strategies as st
from worldledger_social_rl.rules.fields import Fields
from worldledger_social_rl.rules.models import (
    ADAPTATION,
    CONTEXT_FRAME,
    FEEDBACK,
    MESSAGE,
    META,
    POLICY_STATE,
    ROLE_POLICY,
    ROUND,
)
from worldledger_social_rl.rules.recording import RunFile, write_run

from tests.rules.values import GOOD_JSON, GOOD_OBJECTS
from worldledger.drafts import check_draft
from worldledger.effects import Effect, EffectDraft

#: Runs recorded by others, beside the project; tests that need them are skipped where they are absent.
FOUND: Final = Path(__file__).resolve().parents[4] / "shared" / "data" / "social_rl"
ALICE: Final = "Worker+Alice"

# -- plain examples --------------------------------------------------------------------------------------------

_META: Final = {
    "experiment_id": "social_rl_2025-11-23_175825",
    "prar_run_id": "2025-11-23_baseline_full_qwen",
    "framework": "Alienation vs Non-Domination",
    "framework_option": "A",
    "model": "Qwen/Qwen2.5-7B-Instruct",
    "performer_temperature": 0.7,
    "coach_temperature": 0.1,
    "social_rl_version": "0.2.0",
    "timestamp": "2025-11-23T17:58:25.123456",
}
_MESSAGE: Final = {
    "agent_id": ALICE,
    "content": "...",
    "round_number": 1,
    "turn_number": 1,
    "timestamp": 1700000000.0,
    "prar_cue_used": "[REFLECT] ... [CONNECT] ... [OBSERVE] ...",
    "feedback_snapshot": None,
    "validation_metadata": None,
}
_FEEDBACK: Final = {
    "agent_id": ALICE,
    "round_number": 1,
    "engagement": 0.8,
    "theoretical_alignment": 0.72,
    "contribution_value": 0.65,
    "direct_references": 3,
    "response_received": 2,
    "concepts_embodied": ["alienation", "labor"],
    "analyst_mentions": 1,
    "synthesis_inclusion": 0.5,
}
_ADAPTATION: Final = {
    "agent_id": ALICE,
    "adaptation_type": "activate_cue",
    "cue": "emphasize_non_domination",
    "reason": "engagement low, alignment below threshold",
    "round_number": 1,
    "feedback_trigger": {"engagement": 0.3, "alignment": 0.4},
}
_POLICY_STATE: Final = {
    "framework_option": "A",
    "framework_name": "Class Conflict / Alienation",
    "policies": [
        {
            "role": "Worker",
            "cues_active": ["reflect_on_alienation", "connect_to_labor"],
            "cue_states": {
                "reflect_on_alienation": {
                    "cue_id": "reflect_on_alienation",
                    "active": True,
                    "intensity": 0.8,
                    "last_triggered": "2025-11-23T17:58:25",
                }
            },
            "feedback_snapshot": {"engagement": 0.7, "alignment": 0.8},
        }
    ],
    "timestamp": "2025-11-23T17:58:25",
    "source_run_id": "2025-11-23_baseline_full_qwen",
    "social_rl_version": "0.2.0",
}
_FRAME: Final = dict.fromkeys(CONTEXT_FRAME, "...")


def meta(**changes: Any) -> dict[str, Any]:
    """Return a meta block."""
    return {**_META, **changes}


def message(agent_id: str = ALICE, **changes: Any) -> dict[str, Any]:
    """Return a message."""
    return {**_MESSAGE, "agent_id": agent_id, **changes}


def feedback(agent_id: str = ALICE, **changes: Any) -> dict[str, Any]:
    """Return a feedback vector."""
    return {**deepcopy(_FEEDBACK), "agent_id": agent_id, **changes}


def adaptation(agent_id: str = ALICE, **changes: Any) -> dict[str, Any]:
    """Return a policy adaptation, in round 1."""
    return {**deepcopy(_ADAPTATION), "agent_id": agent_id, **changes}


def policy_state(**changes: Any) -> dict[str, Any]:
    """Return a PRAR policy state."""
    return {**deepcopy(_POLICY_STATE), **changes}


def context_frame(**changes: Any) -> dict[str, Any]:
    """Return a context frame."""
    return {**_FRAME, **changes}


def a_round(number: int = 1, **changes: Any) -> dict[str, Any]:
    """Return a whole round."""
    return {
        "meta": meta(),
        "round_number": number,
        "round_config": {"scenario": "...", "rules": "...", "tasks": "..."},
        "messages": [
            message(round_number=number, timestamp=1700000000.0 + 100 * number),
            message("Owner+Marta", round_number=number, turn_number=2, timestamp=1700000010.5 + 100 * number),
        ],
        "feedback": {ALICE: feedback(round_number=number)},
        "policy_adaptations": [adaptation(round_number=number)],
        "synthesis": "...",
        "duration_seconds": 45.2,
        **changes,
    }


# -- runs --------------------------------------------------------------------------------------------------------


def files_of(documents: Mapping[str, Any]) -> list[RunFile]:
    """Return documents as parsed files, by their names."""
    return [RunFile(name, orjson.loads(orjson.dumps(value))) for name, value in documents.items()]


def run_of(*rounds: Any, **others: Any) -> list[RunFile]:
    """Return a run's files: rounds, numbered from 1 on, and others by their names without ``.json``."""
    named = {f"round{number}_social_rl.json": value for number, value in enumerate(rounds, 1)}
    return files_of(named | {f"{name}.json": value for name, value in others.items()})


def effects_of_drafts(drafts: Iterable[EffectDraft]) -> list[Effect]:
    """Return the effects that drafts become after a genesis, through the write gate, keys sorted as in a log."""
    effects: list[Any] = []
    for seq, draft in enumerate(drafts, 2):
        checked = check_draft(draft)
        assert checked.caused_by is None or checked.caused_by < seq
        effects.append({**draft, "payload": orjson.loads(checked.payload), "global_seq": seq})
    return effects


def written(drafts: Iterable[EffectDraft]) -> dict[str, Any]:
    """Return the documents that the effects of drafts are written as, by their files' names."""
    found: dict[str, Any] = {}
    for file in write_run(effects_of_drafts(drafts)):
        assert file.name not in found
        found[file.name] = file.value
    return found


def same(documents: Mapping[str, Any]) -> bytes:
    """Return a text that is the same for the same documents: order of keys is no content, the type of a number is."""
    return orjson.dumps(dict(documents), option=orjson.OPT_SORT_KEYS)


# -- odd ones ------------------------------------------------------------------------------------------------------

_AGENTS: Final = st.sampled_from([ALICE, "Owner+Marta", "Coach+C", "CES_Urban", "", "worldledger", "+", "x" * 201])
_SMALL: Final = st.integers(-1, 4)
_SHARES: Final = st.sampled_from([0, 0.0, 0.5, 1, 1.5, -0.25])
_TEXTS: Final = st.sampled_from(["", "a", "žluť", "activate_cue", "adjust_intensity", "Worker", "2025-11-23"])
_BY_TYPE: Final[Mapping[type, st.SearchStrategy[Any]]] = {
    str: _TEXTS,
    int: _SMALL,
    float: _SHARES | st.sampled_from([1.7e9, 1e300]),
    bool: st.booleans(),
    type(None): st.none(),
    dict: GOOD_OBJECTS,
    list: st.lists(GOOD_JSON, max_size=2),
}
#: Names of fields that are not documented, and of those that payloads have besides.
_UNKNOWN: Final = st.sampled_from(["role", "deltas", "round", "extra", "raw", "absent", "parts", "name", "kind", "é"])


def objects(fields: Fields, **special: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects with some of the fields, of their types or not, and with unknown ones."""
    found = {
        name: special.get(name, st.one_of([_BY_TYPE[kind] for kind in sorted(field.types, key=str)]))
        for name, field in fields.items()
    }
    known = {name: st.one_of(each, each, each, GOOD_JSON) for name, each in found.items()}
    made = st.fixed_dictionaries({}, optional=known)
    return st.builds(lambda rest, known: {**rest, **known}, st.dictionaries(_UNKNOWN, GOOD_JSON, max_size=2), made)


_MESSAGES: Final = objects(MESSAGE, agent_id=_AGENTS, context_frame=objects(CONTEXT_FRAME))
_VECTORS: Final = objects(FEEDBACK, agent_id=_AGENTS)
_ADAPTATIONS: Final = objects(ADAPTATION, agent_id=_AGENTS)
_POLICIES: Final = objects(POLICY_STATE, policies=st.lists(objects(ROLE_POLICY) | GOOD_JSON, max_size=2))
_FITTING: Final = st.builds(a_round, _SMALL)
_ROUNDS: Final = st.one_of(
    _FITTING,
    objects(
        ROUND,
        meta=objects(META),
        messages=st.lists(_MESSAGES | GOOD_JSON, max_size=4),
        feedback=st.dictionaries(_AGENTS, _VECTORS | GOOD_JSON, max_size=3),
        policy_adaptations=st.lists(_ADAPTATIONS | GOOD_JSON, max_size=3),
    ),
)
_NAMES: Final = st.sampled_from(["semiotic_state_log.json", "policy_state.json", "a b.json", "rounds.json", "ž.json"])


@st.composite
def odd_runs(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the documents of a run's folder that a lenient import takes, by their files' names."""
    found: dict[str, Any] = {}
    taken: set[int] = set()
    for in_name in draw(st.lists(st.integers(0, 12), min_size=1, max_size=3, unique=True)):
        name = f"round{draw(st.sampled_from(['', '0']))}{in_name}_social_rl.json"
        value = draw(st.one_of(_ROUNDS, _ROUNDS, _ROUNDS, GOOD_JSON))
        if isinstance(value, dict):
            said = value.get("round_number")
            number = said if type(said) is int and said >= 0 else in_name
            if number in taken:
                value["round_number"] = number = in_name
            if number in taken:
                continue
            taken.add(number)
        found[name] = value
    found |= draw(st.dictionaries(_NAMES, _POLICIES | GOOD_JSON, max_size=2))
    if not taken or draw(st.booleans()):
        found["meta.json"] = draw(objects(META))
    return found


def general(path: str) -> str:
    """Return a JSON path without its indexes and names in brackets."""
    return re.sub(r"\[[^\]]*\]", "[]", path)
