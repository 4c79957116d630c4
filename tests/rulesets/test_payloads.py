"""The JSON Schemas of payloads: each kind that a ruleset checks has one, and what it refuses the ruleset refuses."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import orjson
import pytest

from tests.markets import market
from tests.rules.chains import make_effect
from tests.rulesets.social_rl.documents import ALICE, adaptation, feedback, message
from worldledger.drafts import check_draft
from worldledger.errors import SimulationError
from worldledger.folding import Fold
from worldledger.genesis import GENESIS_KIND
from worldledger.intents import check_intent
from worldledger.rulesets import load_ruleset
from worldledger.rulesets.payloads import INTENTS

#: Values of every type, and some that are no names, numbers or points.
VALUES: tuple[Any, ...] = (None, True, -7, 7.5, "", "x" * 201, "x", [], [1], [1, 2], {}, {"a": 1})
PATCH = [{"op": "add", "path": "/mood", "value": "calm"}]
#: A configuration for each ruleset, and payloads that its worlds take one after another.
PLAYED: dict[str, tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]] = {
    "sandbox": (
        {},
        [
            ("EntityCreated", {"entity_id": "town", "entity_data": {}, "position": [1, 2]}),
            ("EntityUpdated", {"entity_id": "town", "patch": PATCH}),
            ("Move", {"to": [1, 2, 3], "from": [0, 0], "speed": 1}),
            ("Move", {"position": [1, 2]}),
            ("Speak", {"text": "Good morning", "private": True, "target_id": "town"}),
            ("SpeakResponse", {"text": ""}),
            ("MessageEmitted", {"message": "rain"}),
            ("Interact", {"target_id": "town"}),
            ("RelationshipSet", {"to_entity": "town", "relationship_type": "likes", "strength": 2, "metadata": {}}),
            ("RelationshipRemoved", {"to_entity": "town", "relationship_type": "likes"}),
            ("EntityRemoved", {"entity_id": "town"}),
        ],
    ),
    "recorder": (
        {},
        [
            ("EntitySet", {"entity_id": "town", "values": {"gold": 3, "position": [1, 2]}}),
            ("StepBegan", {"step": 1}),
            ("EntityRemoved", {"entity_id": "town"}),
        ],
    ),
    "simulation": (
        market(),
        [
            ("TurnStarted", {"turn": 1}),
            ("AgentStateChanged", {"agent_id": "Ann", "patch": PATCH}),
            ("GlobalStateChanged", {"patch": [{"op": "replace", "path": "/price", "value": 3.5}]}),
            ("ReasoningRecorded", {"agent_id": "Ann", "reasoning": "Hm.", "model": "m", "token_count": 2}),
            ("AgentAdded", {"agent_id": "Zoe", "state": {"gold": 3}}),
            ("AgentPaused", {"agent_id": "Zoe", "turns": 2}),
            ("AgentResumed", {"agent_id": "Zoe"}),
            ("AgentRemoved", {"agent_id": "Zoe"}),
            ("TurnEnded", {}),
        ],
    ),
    "chess": (
        {},
        [
            ("GameStarted", {"agents": {"white": "ann", "black": "ben"}, "white": "Ann", "variant": "standard"}),
            ("MoveRejected", {"attempted": "e9", "player": "white", "reason": "no square"}),
            ("MoveMade", {"uci_notation": "e2e4", "thinking_time": 1.5}),
            ("MoveMade", {"san_notation": "e5", "player": "black", "ply": 2}),
            ("GameEnded", {"status": "resigned", "result": "black_wins", "reason": "resignation"}),
        ],
    ),
    "social_rl": (
        {},
        [
            ("ExperimentStarted", {"meta": {"model": "m"}}),
            ("RoundStarted", {"round_number": 1}),
            ("MessageEmitted", message(ALICE, round_number=1)),
            ("FeedbackRecorded", feedback(ALICE, round_number=1)),
            ("PolicyAdapted", adaptation(ALICE, round_number=1)),
            ("RoundSynthesised", {"round_number": 1, "synthesis": "Peace."}),
            ("RoundEnded", {"round_number": 1, "duration_seconds": 1.5}),
            ("ArtifactRecorded", {"name": "notes.json", "content": [1]}),
        ],
    ),
}


class _World:
    """A world without a database: what it takes is folded."""

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        self.ruleset = load_ruleset(name)
        self.fold = Fold("w", self.ruleset)
        config = self.ruleset.check_config(config)
        self._fold(GENESIS_KIND, {"config": config, "ruleset": name})
        for draft in self.ruleset.opening(config, world_uuid="0" * 32):
            self._fold(draft["kind"], draft["payload"])

    def decide(self, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the payload that is written. Raises SimulationError where it is refused."""
        draft = check_draft({"kind": kind, "payload": payload, "source_id": "engine", "schema_version": "1.0.0"})
        decided: dict[str, Any] = orjson.loads(self.ruleset.decide(draft, self.fold.state).payload)
        return decided

    def take(self, kind: str, payload: dict[str, Any]) -> None:
        """Decide and fold."""
        self._fold(kind, self.decide(kind, payload))

    def _fold(self, kind: str, payload: dict[str, Any]) -> None:
        made: Any = make_effect("w", self.fold.seq + 1, kind=kind, payload=payload, source_id="worldledger")
        self.fold.apply(orjson.loads(orjson.dumps(made)))


def _variants(payload: dict[str, Any], named: Any) -> list[dict[str, Any]]:
    """Return the payload without each of its members, and with every value in the place of each that has a name."""
    without = [{other: value for other, value in payload.items() if other != name} for name in payload]
    return without + [{**payload, name: value} for name in named for value in VALUES]


@pytest.mark.parametrize("name", PLAYED)
def test_what_a_schema_refuses_is_refused(name: str) -> None:
    """A right payload fits its schema; whatever does not fit, a member left out or of another type, is refused."""
    config, played = PLAYED[name]
    world = _World(name, config)
    for kind, payload in played:
        schema = world.ruleset.payloads[kind]
        fits = jsonschema_rs.validator_for(dict(schema)).is_valid
        assert fits(payload), kind
        for wrong in _variants(payload, schema["properties"]):
            if not fits(wrong):
                with pytest.raises(SimulationError):
                    pytest.fail(f"{kind} {wrong} was taken: {world.decide(kind, wrong)}")
        world.take(kind, payload)


@pytest.mark.parametrize("name", PLAYED)
def test_every_kind_has_a_schema(name: str) -> None:
    """What a ruleset checks it also describes, but for the kind that the service alone writes; and is tried above."""
    ruleset = load_ruleset(name)
    described = set(ruleset.payloads)
    assert described == set(ruleset.checks) - {"GameContinued"}
    assert described - {kind for kind, _ in PLAYED[name][1]} <= {"SimulationStarted", "PolicyStateRecorded"}


@pytest.mark.parametrize("kind", INTENTS)
def test_what_the_schema_of_an_intent_refuses_is_refused(kind: str) -> None:
    """So are intents that agents of any world may submit."""
    fits = jsonschema_rs.validator_for(dict(INTENTS[kind])).is_valid
    payload = {"text": "a", "to": [1, 2], "target_id": "ben"}
    assert fits(payload)
    for wrong in _variants(payload, INTENTS[kind]["properties"]):
        if not fits(wrong):
            with pytest.raises(SimulationError):
                check_intent({"kind": kind, "payload": wrong, "agent_id": "ann", "req_id": "r"})
