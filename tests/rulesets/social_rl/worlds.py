"""Social-RL worlds for tests, played draft by draft without a database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from worldledger_social_rl.rules import RULESET

from tests.rules.chains import make_effect
from tests.rulesets.social_rl.documents import ALICE, adaptation, feedback, message
from worldledger.drafts import check_draft
from worldledger.effects import Effect
from worldledger.errors import IllegalEffectError
from worldledger.folding import Fold
from worldledger.genesis import GENESIS_KIND


class World:
    """A world: what is posted is decided by the state, then folded. ``log`` has its effects."""

    def __init__(self, **config: Any) -> None:
        self.fold = Fold("w", RULESET)
        self.log: list[Effect] = []
        self.config = RULESET.check_config(config)
        self.write(GENESIS_KIND, {"config": self.config, "ruleset": "social_rl"}, "worldledger")
        for draft in RULESET.opening(self.config, world_uuid="0" * 32):
            self.write(draft["kind"], draft["payload"], draft["source_id"])

    @property
    def known(self) -> dict[str, Any]:
        """What the state knows of the experiment."""
        found: dict[str, Any] = self.fold.state.metadata["social_rl"]
        return found

    def entity(self, agent_id: str = ALICE) -> dict[str, Any]:
        """What the state has of an agent."""
        found: dict[str, Any] = self.fold.state.entities[agent_id]
        return found

    def write(self, kind: str, payload: Mapping[str, Any], source_id: str = "coach", **fields: Any) -> Effect:
        """Have an effect in the log without asking anybody."""
        made: Any = make_effect("w", self.fold.seq + 1, kind=kind, payload=payload, source_id=source_id, **fields)
        effect: Effect = orjson.loads(orjson.dumps(made))
        self.log.append(effect)
        self.fold.apply(orjson.loads(orjson.dumps(made)))
        return effect

    def post(self, kind: str, payload: Mapping[str, Any], source_id: str = "coach") -> Effect:
        """Post a draft; it is decided and folded, and what was decided is never malformed."""
        draft = check_draft({"kind": kind, "payload": payload, "source_id": source_id, "schema_version": "1.0.0"})
        malformed = self.fold.state.metadata["malformed_effects"]
        decided = RULESET.decide(draft, self.fold.state)
        effect = self.write(kind, orjson.loads(decided.payload), source_id)
        assert self.fold.state.metadata["malformed_effects"] == malformed
        return effect

    def refused(self, kind: str, payload: Mapping[str, Any], source_id: str = "coach") -> list[tuple[str, str]]:
        """Return path and rule of all that a draft is refused for; nothing has changed by it."""
        before = self.fold.state.text()
        with pytest.raises(IllegalEffectError) as caught:
            self.post(kind, payload, source_id)
        assert self.fold.state.text() == before
        problems = caught.value.details["problems"]
        assert (caught.value.path, caught.value.details["rule"]) == (problems[0]["path"], problems[0]["rule"])
        assert all(problem["message"] in str(caught.value) for problem in problems)
        return [(problem["path"], problem["rule"]) for problem in problems]

    # -- what happens ------------------------------------------------------------------------------------------

    def start(self, number: int = 1, **payload: Any) -> World:
        """Start a round."""
        self.post("RoundStarted", {"round_number": number, **payload})
        return self

    def end(self) -> World:
        """End the running round."""
        self.post("RoundEnded", {"round_number": self.known["round_number"], "duration_seconds": 1.5})
        return self

    def say(self, agent_id: str = ALICE, **changes: Any) -> Effect:
        """Let an agent say something in the running round."""
        changes.setdefault("round_number", self.known["round_number"])
        return self.post("MessageEmitted", message(agent_id, **changes), agent_id)

    def judge(self, agent_id: str = ALICE, **changes: Any) -> Effect:
        """Return an agent its feedback of the running round."""
        changes.setdefault("round_number", self.known["round_number"])
        return self.post("FeedbackRecorded", feedback(agent_id, **changes))

    def adapt(self, kind: str = "activate_cue", cue: str = "c", agent_id: str = ALICE, **changes: Any) -> Effect:
        """Adapt an agent's policy in the running round."""
        changes.setdefault("round_number", self.known["round_number"])
        return self.post("PolicyAdapted", adaptation(agent_id, adaptation_type=kind, cue=cue, **changes))
