"""One view for each kind of effect of the service's own, with typed columns.

The name of a view is its kind in snake_case: ``IntentRejected`` is ``analytics.intent_rejected``. A field of a payload
that is not of its column's type is null there; ``payload`` has all of it. Kinds of worlds bring the views of their own
(``of_kinds.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from worldledger_service.database.analytics.definitions import Column, StaticView, literal

Type: TypeAlias = Literal["text", "bigint", "double", "boolean", "time", "json"]

_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Field(NamedTuple):
    """A column made of a field of the payload: ``path`` is where it stands, by its own name where that is left out."""

    name: str
    type: Type
    comment: str
    path: str | None = None

    @property
    def column(self) -> Column:
        """The column of a view over effects ``e``."""
        return Column(self.name, value_at(self.type, f"payload,{self.path or self.name}"), self.comment)


class Kind(NamedTuple):
    """A kind of effect, what it tells, and its fields."""

    name: str
    comment: str
    fields: Sequence[Field]

    @property
    def view_name(self) -> str:
        """The kind in snake_case."""
        return _CAPITAL.sub("_", self.name).lower()

    def view(self) -> StaticView:
        """Return the view."""
        fields = [field.column for field in self.fields]
        taken = {field.name for field in fields}
        before = [column for column in _BEFORE if column.name not in taken]
        return StaticView(
            self.view_name,
            f"{self.name}: {self.comment}",
            [*before, *fields, *_AFTER],
            f"from public.effects e\nleft join public.worlds w on w.world_id = e.world_id\n"
            f"where e.kind = {literal(self.name)}",
        )


def value_at(kind: Type, path: str) -> str:
    """Return the SQL for the value at a path of effects ``e``; null where it is not of that type."""
    place = literal("{" + path + "}")
    match kind:
        case "text":
            return f"e.effect #>> {place}"
        case "json":
            return f"e.effect #> {place}"
        case _:
            return f"analytics.json_{kind}(e.effect #> {place})"


#: Keys stand sorted in an effect's text, and no other comes before this one: so the text tells at its beginning whether
#: it has the key, and only where it has is the text read as JSON.
CAUSED_BY: Final = Column(
    "caused_by",
    f"case when starts_with(e.effect::text, '{{\"caused_by\":') then {value_at('bigint', 'caused_by')} end",
    "The global_seq of the effect that led to it, where told.",
)


_BEFORE: Final = (
    Column("world_id", "e.world_id", "The name of the world."),
    Column("experiment", "w.experiment", "The experiment that the world belongs to; null for none."),
    Column("global_seq", "e.global_seq", "The effect's place in the world's log: 1, 2, 3 …"),
    Column("sim_time_s", "e.sim_time", "The world's own time, in seconds."),
    Column("recorded_at", value_at("time", "wall_time"), "When it was accepted: the effect's wall_time."),
    Column("source_id", "e.source_id", "Who caused it; for an agent's effects its agent_id."),
)
_AFTER: Final = (
    CAUSED_BY,
    Column("payload", "e.effect -> 'payload'", "All that the effect says, also what has no column here."),
)

_ACTOR: Final = Field("agent_id", "text", "The agent.")
_CONTEXT: Final = Field("context_seq", "bigint", "The view_seq of the view that it was made from; 0: of none.")
_GENERATION: Final = (
    _ACTOR,
    Field("req_id", "text", "The req_id of the intent that is being made."),
    Field("generation_id", "text", "Tells two generations of one req_id apart."),
)
_RULESET_VERSION: Final = Field("ruleset_version", "bigint", "The version of that ruleset.")

SYSTEM: Final[tuple[Kind, ...]] = (
    Kind(
        "WorldCreated",
        "the genesis of a world, its effect 1.",
        (
            Field("world_uuid", "text", "Random; tells two worlds of the same name apart. 32 hex digits."),
            Field("ruleset", "text", "The ruleset that decides and folds the world."),
            _RULESET_VERSION,
            Field("time_authority", "text", "Who sets sim_time: wall, client, or the name of an adapter."),
            Field(
                "time_zero_at",
                "time",
                "From when sim_time counts under the wall clock; null elsewhere, and where it counts from 1970.",
                "time_zero",
            ),
            Field("canonical_profile", "text", "How effects are written as text: orjson-sorted/1."),
            Field("config", "json", "The ruleset's own settings."),
            Field("orchestrator", "json", "How its agents are served; null where nothing was said."),
            Field("snapshot_every", "bigint", "Effects between two snapshots, at least; null where nothing was said."),
            Field("parent_world_id", "text", "The world that it is a fork of; null for none.", "parent,world_id"),
            Field("parent_seq", "bigint", "The position at which it left that world.", "parent,global_seq"),
        ),
    ),
    Kind(
        "StateDigest",
        "what state a world had at a place of its log.",
        (
            Field("at_seq", "bigint", "The effect after which the world had that state."),
            Field("state_digest", "text", "SHA-256 of the state's text, in hex."),
            Field("ruleset", "text", "The ruleset that folded it."),
            _RULESET_VERSION,
        ),
    ),
    Kind(
        "ViewDigest",
        "what an agent was shown at a place of the log.",
        (
            _ACTOR,
            Field("at_seq", "bigint", "The effect after which the agent was shown that view."),
            Field("digest", "text", "SHA-256 of the view's text, in hex."),
        ),
    ),
    Kind(
        "AgentRegistered",
        "an agent was let into a world, or registered anew.",
        (
            _ACTOR,
            Field("policy_name", "text", "The observation policy that says what it is shown.", "policy,name"),
            Field("policy_version", "text", "The version of that policy.", "policy,version"),
            Field("policy_config", "json", "The settings of that policy.", "policy,config"),
            Field("permissions", "json", "What it may do: a list of names."),
            Field("weight", "bigint", "Its share in the round-robin of intents that wait."),
        ),
    ),
    Kind(
        "WorldTimeSet",
        "an adapter moved sim_time on.",
        (
            Field("adapter", "text", "The adapter."),
            Field("time_s", "double", "The time as the adapter stated it, in seconds; null where not told.", "time"),
            Field("tick", "bigint", "The number of the tick that it closes; null where intents are not held."),
        ),
    ),
    Kind(
        "WorldTimeAuthoritySet",
        "who sets sim_time from here on.",
        (
            Field("authority", "text", "wall, client, or the name of an adapter."),
            Field("offset_s", "double", "What is added to its own time, in seconds; null: nothing.", "offset"),
        ),
    ),
    Kind(
        "WorldTimeAuthoritySilent",
        "the adapter that sets sim_time is not heard any more.",
        (
            Field("authority", "text", "The adapter."),
            Field("last_tick_seq", "bigint", "Its last tick; null where none came since it took over."),
            Field("reason", "text", "disconnected or no_tick."),
        ),
    ),
    Kind(
        "IntentRejected",
        "an intent that permissions, a conflict, the validator or the ruleset refused.",
        (
            Field("agent_id", "text", "The agent that intended it."),
            Field("req_id", "text", "The intent's req_id."),
            Field("intent_kind", "text", "The intent's kind: Speak, Move, Interact or Custom.", "kind"),
            Field("intent_payload", "json", "The intent's payload.", "payload"),
            _CONTEXT,
            Field("code", "text", "The code of the error: permission_denied, illegal_effect …"),
            Field("reason", "text", "The message of the error."),
            Field("rule", "text", "The ruleset's rule that refused it; null where it was no rule."),
        ),
    ),
    Kind("GenerationStarted", "an agent began to make an intent.", (*_GENERATION, _CONTEXT)),
    Kind(
        "GenerationCancelled",
        "an agent was told to stop making an intent.",
        (
            *_GENERATION,
            Field("reason", "text", "Why: stale_due_to_effect_<seq>, or what whoever cancelled it has said."),
            Field("latency_ms", "double", "From what made it stale until it was cancelled, in milliseconds."),
        ),
    ),
    Kind("GenerationFinished", "an agent has made an intent, or given up.", _GENERATION),
)
