"""Make the example experiment: four scripted villagers and a coach, the same words every time.

Run ``python examples/make_social_rl.py`` to write the runs again into ``examples/social_rl``. Two conditions by three
seeds: in ``coached`` a coach looks at each agent's feedback after a round and changes its cues; in ``uncoached`` the
same is measured and nothing is changed. Both begin with the same draws, so the first rounds of a seed are the same.

What agents say is put together from the sentences of ``mill_stream.yaml``. How far they are about the framework is what
feedback measures, and what cues make more likely. The files are as docs/reference/social-rl.md describes them.
"""

# ruff: noqa: S311 - villagers want luck, not secrets
from __future__ import annotations

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import yaml
from worldledger_social_rl.documents import (
    AgentFeedback,
    ContextFrame,
    CueState,
    PolicyAdaptation,
    PolicyState,
    RolePolicy,
    RoundResult,
    SocialRLMessage,
    create_experiment_meta,
)

RUNS: Final = Path(__file__).parent / "social_rl"
STREAM: Final[Mapping[str, Any]] = yaml.safe_load((RUNS / "mill_stream.yaml").read_text(encoding="utf-8"))
CONDITIONS: Final = ("coached", "uncoached")
SEEDS: Final = (1, 2, 3)
ROUNDS: Final = len(STREAM["tasks"])
AGENTS: Final = tuple(STREAM["agents"])
COACH: Final[str] = STREAM["coach"]
CONCEPTS: Final[Mapping[str, Mapping[str, list[str]]]] = STREAM["concepts"]
CUES: Final[Mapping[str, Mapping[str, Any]]] = STREAM["cues"]
ANSWER: Final = "answer_the_last_speaker"
BEGAN: Final = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


@dataclass
class Agent:
    """A villager: what it is called, its active cues with their intensities, and its latest feedback."""

    agent_id: str
    cues: dict[str, float]
    feedback: AgentFeedback | None = None

    @property
    def name(self) -> str:
        """What the others call it."""
        return self.agent_id.partition("+")[2]

    def pull(self, cue: str) -> float:
        """Return how strongly a cue pulls: 0 where it is not active."""
        return self.cues.get(cue, 0.0)

    def said(self, messages: Sequence[SocialRLMessage]) -> str:
        """Return all that it has said."""
        return " ".join(message.content for message in messages if message.agent_id == self.agent_id)


class Run:
    """One run: a condition and a seed."""

    def __init__(self, condition: str, seed: int) -> None:
        self.condition = condition
        self.seed = seed
        self.name = f"{condition}_seed{seed}"
        self.agents = [Agent(name, dict(STREAM["policy"][name.partition("+")[0]])) for name in AGENTS]
        self.rng = random.Random(seed)
        self.clock = BEGAN.timestamp() + 86_400 * seed + 7200 * CONDITIONS.index(condition)
        self.began = datetime.fromtimestamp(self.clock, UTC).isoformat()
        self.meta = create_experiment_meta(
            experiment_id=f"mill_stream_{self.name}",
            prar_run_id="mill_stream",
            framework=STREAM["framework"],
            framework_option="B",
            model="scripted/1",
            performer_temperature=0.0,
            coach_temperature=0.0,
            timestamp=self.began,
        )

    def happens(self, chance: float) -> bool:
        """Draw whether something happens; every run draws as often, so that conditions can be compared."""
        return self.rng.random() < chance

    def pick(self, items: Sequence[str]) -> str:
        """Draw one of some texts."""
        return items[int(self.rng.random() * len(items))]

    def meta_file(self) -> dict[str, Any]:
        """Return what is known of the whole run: its meta block, and what makes it another run than the others."""
        agents = [*AGENTS, COACH]
        return {
            **self.meta.to_value(),
            "condition": self.condition,
            "seed": self.seed,
            "agents": agents,
            "rounds_executed": ROUNDS,
        }

    def policy(self) -> PolicyState:
        """Return the policy that the run begins with."""
        roles = []
        for role, cues in STREAM["policy"].items():
            states = {cue: CueState(cue_id=cue, active=True, intensity=pull) for cue, pull in cues.items()}
            roles.append(RolePolicy(role=role, cues_active=list(cues), cue_states=states))
        return PolicyState(
            framework_option="B",
            framework_name=STREAM["framework"],
            policies=roles,
            timestamp=self.began,
            source_run_id=self.meta.prar_run_id,
        )

    # -- what is said --------------------------------------------------------------------------------------

    def round(self, number: int) -> RoundResult:
        """Play a round."""
        began, task = self.clock, STREAM["tasks"][number - 1]
        messages = [self.message(COACH, f"Round {number}. {task}", number, 1, role="system")]
        for turn in range(2, 2 + 2 * len(AGENTS)):
            agent = self.agents[(turn + number) % len(AGENTS)]
            messages.append(self.turn(agent, number, turn, messages))
        synthesis = self.synthesis(number, messages)
        feedback = {agent.agent_id: self.measured(agent, number, messages, synthesis) for agent in self.agents}
        remark = self.remark(feedback)
        messages.append(self.message(COACH, remark, number, len(messages) + 1, role="system", internal=True))
        adaptations: list[PolicyAdaptation] = []
        for agent in self.agents:
            agent.feedback = feedback[agent.agent_id]
            if self.condition == "coached" and number < ROUNDS:
                adaptations += adapted(agent, agent.feedback)
        return RoundResult(
            meta=self.meta,
            round_number=number,
            round_config={"scenario": STREAM["scenario"], "rules": STREAM["rules"], "tasks": task},
            messages=messages,
            feedback=feedback,
            policy_adaptations=adaptations,
            synthesis=synthesis,
            duration_seconds=round(self.clock - began, 3),
        )

    def message(self, agent_id: str, content: str, number: int, turn: int, **fields: Any) -> SocialRLMessage:
        """Make a message, some time after the one before."""
        self.clock = round(self.clock + 20 + 40 * self.rng.random(), 3)
        return SocialRLMessage(
            agent_id=agent_id,
            content=content,
            round_number=number,
            turn_number=turn,
            timestamp=self.clock,
            **fields,
        )

    def turn(self, agent: Agent, number: int, turn: int, before: Sequence[SocialRLMessage]) -> SocialRLMessage:
        """Let an agent speak: an answer perhaps, two sentences, a proposal perhaps."""
        habits, last, sentences = STREAM["agents"][agent.agent_id], before[-1].agent_id, []
        answer = self.pick(STREAM["answers"]).format(name=last.partition("+")[2])
        if self.happens(habits["answering"] + 0.5 * agent.pull(ANSWER)) and last != COACH:
            sentences.append(answer)
        for cue in ("name_the_dependence", "appeal_to_rules"):
            framed = self.pick(CONCEPTS[self.pick(CUES[cue]["concepts"])]["sentences"])
            plain = self.pick(STREAM["plain"])
            sentences.append(framed if self.happens(habits["about"] + 0.7 * agent.pull(cue)) else plain)
        hours = 1 + int(self.rng.random() * 5)
        if self.happens(habits["proposing"] + 0.4 * agent.pull("appeal_to_rules")):
            sentences.append(f"I propose {hours} hour{'' if hours == 1 else 's'} in the morning.")
        known = agent.feedback
        whispers = " ".join(f"[{cue.upper()}] {CUES[cue]['whisper']}" for cue in agent.cues)
        return self.message(
            agent.agent_id,
            " ".join(sentences),
            number,
            turn,
            role="assistant",
            prar_cue_used=whispers or None,
            feedback_snapshot=None if known is None else snapshot(known),
            validation_metadata={"attempts": 1, "validations": ["speaks for itself"]},
            context_frame=self.frame(agent, number, whispers) if turn < 2 + len(AGENTS) else None,
        )

    def frame(self, agent: Agent, number: int, whispers: str) -> ContextFrame:
        """Return what an agent is told before it speaks first in a round."""
        known = agent.feedback
        return ContextFrame(
            base_scenario=STREAM["scenario"],
            concept_a_manifestation=STREAM["frame"][0],
            concept_b_manifestation=STREAM["frame"][1],
            experiential_cue=STREAM["tasks"][number - 1],
            social_feedback_summary=f"You were taken up {known.direct_references} times." if known else "",
            prar_cue=whispers,
        )

    def synthesis(self, number: int, messages: Sequence[SocialRLMessage]) -> str:
        """Sum a round up: who spoke of what."""
        parts = [
            f"{agent.name} spoke of {' and '.join(found)}."
            for agent in self.agents
            if (found := concepts_in(agent.said(messages)))
        ]
        return f"Round {number}: {' '.join(parts) or 'the talk kept to the weather.'}"

    # -- what is measured ----------------------------------------------------------------------------------

    def measured(self, agent: Agent, number: int, messages: Sequence[SocialRLMessage], synthesis: str) -> AgentFeedback:
        """Measure how an agent did in a round, by nothing but what was said."""
        mine = agent.said(messages)
        naming = [message for message in messages if agent.name in message.content]
        told = [sentence for sentence in mine.split(". ") if not self.is_reply(sentence)]
        concepts, answered = concepts_in(mine), sum(other.name in mine for other in self.agents)
        return AgentFeedback(
            agent_id=agent.agent_id,
            round_number=number,
            engagement=min(1.0, round(0.2 + 0.25 * answered + 0.05 * mine.count("."), 2)),
            theoretical_alignment=round(sum(bool(concepts_in(sentence)) for sentence in told) / len(told), 2),
            contribution_value=min(1.0, round(0.2 + 0.25 * mine.count("I propose") + 0.1 * len(concepts), 2)),
            direct_references=len(naming),
            response_received=sum(
                before.agent_id == agent.agent_id and agent.name in after.content
                for before, after in pairwise(messages)
            ),
            concepts_embodied=concepts,
            analyst_mentions=sum(message.agent_id.startswith("Analyst+") for message in naming),
            synthesis_inclusion=1.0 if agent.name in synthesis else 0.0,
        )

    def is_reply(self, sentence: str) -> bool:
        """Tell whether a sentence takes somebody up, or proposes hours, and so says nothing of the framework."""
        return sentence.startswith("I propose") or any(agent.name in sentence for agent in self.agents)

    def remark(self, feedback: Mapping[str, AgentFeedback]) -> str:
        """Note for the coach's own ears who is furthest from the framework."""
        least = min(feedback.values(), key=lambda vector: vector.theoretical_alignment)
        name = least.agent_id.partition("+")[2]
        return f"{name} is furthest from the framework, at {least.theoretical_alignment}; watch {name} next."


def adapted(agent: Agent, known: AgentFeedback) -> list[PolicyAdaptation]:
    """Change an agent's cues by its feedback, and say so."""
    alignment, engagement = known.theoretical_alignment, known.engagement
    before = dict(agent.cues)
    reasons: dict[str, str] = {}
    for cue, least in (("name_the_dependence", 0.6), ("appeal_to_rules", 0.3)):
        pull = agent.pull(cue)
        if alignment < least and pull < 1:
            agent.cues[cue] = min(1.0, round(pull + 0.2, 2)) if pull else 0.6
            reasons[cue] = f"alignment {alignment} is below {least}"
        elif alignment == 1 and pull > 0.3:
            agent.cues[cue] = round(pull - 0.2, 2)
            reasons[cue] = "alignment is 1: less will do"
    if engagement < 0.5 and not agent.pull(ANSWER):
        agent.cues[ANSWER] = 0.8
        reasons[ANSWER] = f"engagement {engagement} is below 0.5"
    elif engagement > 0.8 and agent.pull(ANSWER):
        del agent.cues[ANSWER]
        reasons[ANSWER] = f"engagement {engagement} needs no help"
    made = []
    for cue, reason in reasons.items():
        change: dict[str, Any] = {"adaptation_type": "deactivate_cue"}
        if cue in agent.cues:
            kind = "adjust_intensity" if cue in before else "activate_cue"
            change = {"adaptation_type": kind, "intensity": agent.cues[cue]}
        made.append(
            PolicyAdaptation(
                agent_id=agent.agent_id,
                cue=cue,
                reason=reason,
                round_number=known.round_number,
                feedback_trigger={"engagement": engagement, "alignment": alignment},
                **change,
            )
        )
    return made


def concepts_in(text: str) -> list[str]:
    """Return the concepts that a text expresses."""
    return [name for name, concept in CONCEPTS.items() if any(word in text for word in concept["heard_by"])]


def snapshot(feedback: AgentFeedback) -> dict[str, float]:
    """Return what an agent is told of its feedback."""
    return {
        "engagement": feedback.engagement,
        "theoretical_alignment": feedback.theoretical_alignment,
        "contribution_value": feedback.contribution_value,
    }


def texts() -> dict[str, str]:
    """Return every file's text by its path below the folder of the runs."""
    found: dict[str, Any] = {}
    for run in (Run(condition, seed) for condition in CONDITIONS for seed in SEEDS):
        found[f"{run.name}/meta.json"] = run.meta_file()
        found[f"{run.name}/policy_state.json"] = run.policy().to_value()
        for number in range(1, ROUNDS + 1):
            found[f"{run.name}/round{number}_social_rl.json"] = run.round(number).to_value()
    return {name: json.dumps(value, indent=2, ensure_ascii=False) + "\n" for name, value in found.items()}


def main() -> None:
    """Write them all."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for name, text in texts().items():
        path = RUNS / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"{RUNS.name}: {len(CONDITIONS) * len(SEEDS)} runs of {ROUNDS} rounds")


if __name__ == "__main__":
    main()
