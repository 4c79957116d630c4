"""The configuration of social-RL worlds: ``{meta?, strict?, coaches?, agents?}``; other members are kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from worldledger.drafts import MAX_WORD
from worldledger.effects import SERVICE_SOURCE, Effect, EffectDraft, own_draft
from worldledger.errors import InvalidConfigError
from worldledger.intents import registration_draft
from worldledger.observation import FirstPolicyConfig, ObservationPolicy, ObservedEvent, PolicyConfig
from worldledger.policies import policy_spec, register_policy
from worldledger.world import WorldState
from worldledger_social_rl.rules import words
from worldledger_social_rl.rules.fields import Fault, field_faults
from worldledger_social_rl.rules.models import MESSAGE, META
from worldledger_social_rl.rules.rounds import meta_payload

# -- what an agent of a social-RL world is shown: what was said to everybody, and what is its own ---------
#
# Source: docs/reference/social-rl.md, "The policy `social_rl`": ``internal`` messages are for coaches only, not shown
# to agents. This is version 2; version 1 is kept for worlds that were recorded with it.


#: What is shown of another agent, and of its messages.
_OF_OTHERS: Final = ("type", "role", "name", "messages")
_SAID: Final = ("agent_id", "content", "round_number", "turn_number", "timestamp", "role")
#: What is shown of an agent's own: all but what coaches keep to themselves.
_OWN_SAID: Final = tuple(name for name in MESSAGE if name not in ("validation_metadata", "internal"))
#: What is shown of rounds: not their extra fields, which may hold anything.
_OF_ROUNDS: Final = {
    words.ROUND_STARTED: ("round_number", "round_config"),
    words.ROUND_SYNTHESISED: ("round_number", "synthesis"),
    words.ROUND_ENDED: ("round_number",),
}
#: Who runs the experiment knows the condition, the policies of all roles and whatever else was kept; agents do not.
_BEHIND_THE_SCENES: Final = frozenset({words.EXPERIMENT_STARTED, words.POLICY_STATE_RECORDED, words.ARTIFACT_RECORDED})
_PERSONAL: Final = frozenset({words.FEEDBACK_RECORDED, words.POLICY_ADAPTED})


class FirstSocialRLPolicyConfig(FirstPolicyConfig):
    """The settings of the policy ``social_rl`` in its version 1; see `SocialRLPolicyConfig`."""

    coach: bool | None = None


class SocialRLPolicyConfig(FirstSocialRLPolicyConfig, PolicyConfig):
    """What a `SocialRLPolicy` goes by.

    ``coach``: whether the agent is a coach; null for whoever has the role Coach in its id.
    """


@register_policy("social_rl", version=2)
class SocialRLPolicy(ObservationPolicy):
    """Shows public messages, rounds, and the agent's own feedback and cues; to a coach everything.

    Of other agents it shows type, role, name and how many public messages they have sent; of their messages what was
    said, not by which cue or after which feedback. Everything that the other settings of a `PolicyConfig` hide is
    hidden besides.
    """

    config_class: ClassVar[type[FirstPolicyConfig]] = SocialRLPolicyConfig
    config: FirstSocialRLPolicyConfig

    def is_coach(self, agent_id: str) -> bool:
        """Tell whether an agent with this policy sees everything."""
        said = self.config.coach
        return words.is_coach(agent_id, None) if said is None else said

    def show_entity_to(self, world_state: WorldState, agent_id: str, entity_id: str) -> dict[str, Any]:
        """Return an entity as the agent sees it."""
        entity: dict[str, Any] = world_state.entities[entity_id]
        if self.is_coach(agent_id):
            return self.show_entity(entity)
        if entity_id == agent_id:
            return self.show_entity({name: value for name, value in entity.items() if name != "internal_messages"})
        return self.show_entity(_only(entity, _OF_OTHERS))

    def should_observe_event(self, effect: Effect, agent_id: str, world_state: WorldState) -> bool:
        """Tell whether the agent observes an effect, given the state after it."""
        if not self.is_coach(agent_id):
            kind, payload = effect["kind"], effect["payload"]
            if kind in _BEHIND_THE_SCENES or (kind == words.MESSAGE_EMITTED and words.is_internal(payload)):
                return False
            if kind in _PERSONAL:
                return bool(payload.get("agent_id") == agent_id)
        return super().should_observe_event(effect, agent_id, world_state)

    def show_event_to(self, effect: Effect, agent_id: str, world_state: WorldState) -> ObservedEvent | None:
        """Return an observed effect as the agent sees it."""
        kind, payload = effect["kind"], effect["payload"]
        shown: Collection[str] | None = None
        if not self.is_coach(agent_id):
            shown = _OF_ROUNDS.get(kind)
            if kind == words.MESSAGE_EMITTED:
                shown = _OWN_SAID if payload.get("agent_id") == agent_id else _SAID
        if shown is None:
            return self.show_event(effect)
        return self.show_event({**effect, "payload": _only(payload, shown)})


@register_policy("social_rl", version=1)
class FirstSocialRLPolicy(SocialRLPolicy):
    """The policy ``social_rl`` as it was in its version 1: for worlds that were recorded with it."""

    config_class: ClassVar[type[FirstPolicyConfig]] = FirstSocialRLPolicyConfig


def policy_of(agent_id: str, coaches: Collection[str] | None) -> SocialRLPolicy:
    """Return the policy of an agent of a world that names these coaches (None: none)."""
    return SocialRLPolicy(SocialRLPolicyConfig(coach=words.is_coach(agent_id, coaches)))


def _only(value: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value[name] for name in names if name in value}


#: Most agents that a configuration names, and most coaches.
MAX_NAMED: Final = 1000


def check_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with ``strict`` written out.

    - ``meta``: the fields of the meta block that are known; other members go into ``extra`` of ExperimentStarted.
    - ``strict``: whether drafts are held against the documents' rules; true where it is left out.
    - ``coaches``: the agents that see internal messages; where it is left out, those of the role Coach.
    - ``agents``: agents that are there, and are registered, from the beginning.

    Raises InvalidConfigError with every problem; ``path`` is where the first one is.
    """
    strict = config.get("strict", True)
    faults = list(_faults(config, strict))
    if faults:
        problems = [{"path": fault.path, "message": fault.message} for fault in faults]
        told = "; ".join(f"{fault.path}: {fault.message}" for fault in faults)
        raise InvalidConfigError(told, path=faults[0].path, problems=problems)
    return {**config, "strict": strict}


def _faults(config: Mapping[str, Any], strict: Any) -> Iterator[Fault]:
    if type(strict) is not bool:
        yield Fault("$.config.strict", "strict is true or false", "type")
    if config.get("meta") is not None:
        meta = field_faults(config["meta"], META, "$.config.meta", "meta")
        yield from (fault for fault in meta if fault.rule not in ("missing", "unknown_field"))
    for name in ("coaches", "agents"):
        if config.get(name) is not None:
            yield from _name_faults(config[name], f"$.config.{name}", name)


def _name_faults(value: Any, path: str, what: str) -> Iterator[Fault]:
    if not isinstance(value, list) or len(value) > MAX_NAMED:
        yield Fault(path, f"{what} is a list of at most {MAX_NAMED} agent ids", "type")
        return
    seen: set[str] = set()
    for index, name in enumerate(value):
        if type(name) is not str or not 0 < len(name) <= MAX_WORD or name == SERVICE_SOURCE:
            rule = f"an agent id is a string of 1 to {MAX_WORD} characters, and not {SERVICE_SOURCE!r}"
            yield Fault(f"{path}[{index}]", rule, "value")
        elif name in seen:
            yield Fault(f"{path}[{index}]", f"{name!r} stands twice", "value")
        else:
            seen.add(name)


def opening_effects(config: Mapping[str, Any]) -> Sequence[EffectDraft]:
    """Return ExperimentStarted, where there is meta, and the registration of each agent that is named."""
    drafts: list[EffectDraft] = []
    if config.get("meta") is not None:
        drafts.append(own_draft(words.EXPERIMENT_STARTED, meta_payload(config["meta"])))
    coaches = config.get("coaches")
    named: list[str] = config.get("agents") or []
    drafts += [registration_draft(agent_id, policy_spec(policy_of(agent_id, coaches))) for agent_id in named]
    return drafts
