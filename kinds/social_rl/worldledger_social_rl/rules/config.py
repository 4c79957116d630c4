"""The configuration of social-RL worlds: ``{meta?, strict?, coaches?, agents?}``; other members are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from worldledger.drafts import MAX_WORD
from worldledger.effects import SCHEMA_VERSION, SERVICE_SOURCE, EffectDraft
from worldledger.errors import InvalidConfigError
from worldledger.intents import registration_draft
from worldledger.policies import policy_spec
from worldledger_social_rl.rules import words
from worldledger_social_rl.rules.fields import Fault, field_faults
from worldledger_social_rl.rules.models import META
from worldledger_social_rl.rules.policy import policy_of
from worldledger_social_rl.rules.rounds import meta_payload

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
        drafts.append(
            {
                "kind": words.EXPERIMENT_STARTED,
                "payload": meta_payload(config["meta"]),
                "source_id": SERVICE_SOURCE,
                "schema_version": SCHEMA_VERSION,
            }
        )
    coaches = config.get("coaches")
    named: list[str] = config.get("agents") or []
    drafts += [registration_draft(agent_id, policy_spec(policy_of(agent_id, coaches))) for agent_id in named]
    return drafts
