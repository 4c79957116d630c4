"""The base of rulesets: decide before a draft becomes an effect, evolve after it has (decider pattern)."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import orjson

from worldledger.canonical import gate
from worldledger.drafts import CheckedDraft
from worldledger.effects import TOLD_BY_PATCHES, Effect, EffectDraft
from worldledger.errors import InvalidConfigError, InvalidEffectError
from worldledger.moments import Unit
from worldledger.upcasting import Upcaster, Upcasters
from worldledger.world import WorldState

if TYPE_CHECKING:
    from worldledger.observation import ObservationPolicy

#: The entities that a handler may have changed: one id, several (``()`` is none), or None: any of them.
Touched: TypeAlias = str | tuple[str, ...] | None
#: Folds one effect into the state, in place.
Handler: TypeAlias = Callable[[WorldState, Effect], Touched]
#: Checks a draft, its payload parsed, and (for the kinds in ``stateful``) the state that it would follow. Returns the
#: payload to write instead, or None for the draft as it is.
Check: TypeAlias = Callable[[CheckedDraft, dict[str, Any], WorldState | None], dict[str, Any] | None]


class MalformedEffectError(ValueError):
    """Raised by a handler for an effect whose payload it cannot read: the fold counts it and continues.

    A handler raises it before it has changed anything.
    """


class UnknowableError(Exception):
    """Raised by `Ruleset.as_shown` if only hidden values decide whether the rules refuse an intent."""


class Knowing(Protocol):
    """An agent's knowledge of what it is not shown, by its policy alone."""

    def is_absent(self, entity_id: str) -> bool:
        """Return whether an entity that the agent is not shown does not exist: it would be shown wherever it was."""
        ...

    def is_shown(self, entity_id: str, field: str) -> bool:
        """Return whether the agent is shown a field of an entity that it sees, if the entity has it."""
        ...

    def is_exact(self, entity_id: str) -> bool:
        """Return whether the agent is shown the exact values of an entity that it sees."""
        ...


class Ruleset:
    """The rules of one kind of world; subclass it and name an instance in the entry points.

    - ``name`` is how worlds refer to it. ``version`` rises whenever the same log would give another state; it is in
      each world's genesis, in snapshots and in state digests.
    - ``handlers``: kind -> `Handler`. They are pure: state and effect alone decide how the state changes, and only the
      state is changed. A handler that cannot read a payload raises MalformedEffectError; anything else it raises ends
      the fold with an error that names the effect.
    - ``checks``: kind -> `Check`, for `decide`. A check raises a SimulationError (IllegalEffectError names the rule).
    - ``stateful``: the kinds whose check looks at the state; the others are checked without one, which is cheaper.
    - ``upcasters``: for payloads of older versions, see `worldledger.upcasting`.
    - ``unobserved``: kinds that no agent is shown as events, whatever its policy: the patches tell what they mean, or
      they are secret.
    - ``told_by_patches``: kinds that the core's policies show nobody as events, for their whole meaning is a change of
      the state, which the patches tell. Other policies may show them.
    - ``digest_after``: kinds after which a ViewDigest of what the agents that observe the effect see is written,
      besides every so many effects: at the end of a turn, say.
    - ``judges_by_hidden``: whether its rules look at more of the state than entities, such as notes in ``metadata``
      that no policy shows. If they do not, an agent that is shown all entities is told every refusal in full.
    - ``records_rejections``: whether refused intents of its worlds become IntentRejected effects, unless a world's own
      configuration says otherwise.
    - ``payloads``: kind -> the JSON Schema of its payload (`worldledger.rulesets.payloads`), for forms and for programs
      that write drafts.
    - ``units``: name -> `worldledger.moments.Unit`: the units of moments of its worlds (``turn:5``). ``step`` is there
      in every world; a ruleset may declare what its worlds' steps are.

    System kinds are folded by the core, not by the ruleset.
    """

    name: str = "base"
    version: int = 1
    handlers: Mapping[str, Handler] = {}
    checks: Mapping[str, Check] = {}
    stateful: frozenset[str] = frozenset()
    upcasters: Sequence[Upcaster] = ()
    unobserved: frozenset[str] = frozenset()
    told_by_patches: frozenset[str] = TOLD_BY_PATCHES
    digest_after: frozenset[str] = frozenset()
    records_rejections: bool = False
    judges_by_hidden: bool = False
    payloads: Mapping[str, Mapping[str, Any]] = {}
    units: Mapping[str, Unit] = {}

    def check_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the config as a world's genesis is to hold it; the base accepts any, unchanged.

        Raises InvalidConfigError if a world cannot be made with it.
        """
        return dict(config)

    def opening(
        self, config: Mapping[str, Any], *, world_uuid: str, checkpoint: Mapping[str, Any] | None = None
    ) -> Sequence[EffectDraft]:
        """Return the effects that the service writes right after a world's genesis, together with it.

        ``config`` is the result of `check_config`, ``checkpoint`` a state to begin with, in the ruleset's own form. The
        base writes none. Later no effect of the ruleset's kinds may be in the service's name (`worldledger.log_rules`).
        Raises InvalidConfigError for a checkpoint that the world cannot begin with.
        """
        if checkpoint is not None:
            raise InvalidConfigError(f"worlds of {self.name} begin with no checkpoint", path="$.checkpoint")
        return ()

    def going_on(self, config: Mapping[str, Any], state: WorldState) -> Sequence[EffectDraft]:
        """Return the effects that the service writes at the beginning of a fork with a config of its own.

        ``config`` is the result of `check_config`, ``state`` the one that the fork goes on from. The base writes none.
        Raises InvalidConfigError for a config with which this state cannot go on.
        """
        return ()

    def policy_for(self, agent_id: str, config: Mapping[str, Any]) -> ObservationPolicy | None:
        """Return the policy of an agent that is registered without one; None (so the base) for the default one."""
        return None

    def begin(self, state: WorldState, config: Mapping[str, Any]) -> None:
        """Put what a world of this config begins with into the state. The base leaves it empty."""

    def agent_names(self, state: WorldState) -> Iterable[str]:
        """Return the names of a world's agents: the registered ones, and the ruleset's own."""
        names: Iterable[str] = state.metadata.get("agents", ())
        return names

    def check_intent(self, kind: str, payload: Mapping[str, Any], agent_id: str, state: WorldState) -> None:
        """Raise IllegalEffectError if an agent may not intend an effect of this kind.

        It is called for agents' intents, before `decide`, which is called for every draft: operators may post what
        agents may not. ``state`` is what the effect would follow. The base allows any.
        """

    def as_shown(
        self, kind: str, payload: dict[str, Any], agent_id: str, shown: WorldState, knowing: Knowing
    ) -> dict[str, Any]:
        """Return the payload of an intent as far as it can be judged by what its agent is shown.

        ``shown`` is a state with the entities that the intent names, as far as the agent is shown them, and with the
        whole ``metadata``: remove here what no agent is shown. Raises UnknowableError if nothing of the intent can be
        judged that way. The base returns it as it is.
        """
        return payload

    def decide(self, draft: CheckedDraft, state: WorldState | None) -> CheckedDraft:
        """Return the draft that is to be written for this one.

        It is called when the draft's turn has come, and again if another process was first, so it must be pure.
        ``state`` is what the draft would follow, the earlier drafts of its unit folded in; None if the kind is not
        ``stateful``. A SimulationError refuses the whole unit; a request that was accepted before is still answered. It
        is not called for imports, whose effects have happened already. The base calls the kind's check.
        """
        check = self.checks.get(draft.kind)
        if check is None:
            return draft
        payload = check(draft, orjson.loads(draft.payload), state)
        if payload is None or (text := gate(payload, path="$.payload", level=2)) == draft.payload:
            return draft
        return draft.rewritten(text)

    def change(self, path: str, value: Any, state: WorldState) -> EffectDraft:
        """Return the draft of an effect that gives a value of the state another one, for a fork that begins otherwise.

        ``path`` is a JSON Pointer into the state's entities, with or without its first slash: ``alice/gold``. The draft
        is decided as any other. The base refuses every path. Raises IllegalEffectError or InvalidEffectError.
        """
        raise InvalidEffectError(f"worlds of {self.name} have no values that can be set", f"$.changes.{path}")

    @cached_property
    def checked_kinds(self) -> Container[str]:
        """The kinds that `decide` may refuse or rewrite: those in ``checks``; every kind if `decide` is overridden."""
        return _Every() if type(self).decide is not Ruleset.decide else frozenset(self.checks)

    @cached_property
    def upcasting(self) -> Upcasters:
        """The upcasters, chained."""
        return Upcasters(self.upcasters)


class _Every(Container[str]):
    """Contains everything."""

    def __contains__(self, kind: object) -> bool:
        return True
