"""The schema ``analytics``: its views over the tables of the log, and the list of all that the migration makes.

Every view has the world and its experiment, except those of which a row is none of a world's. The table ``worlds`` is
joined from the left by its key, so that a query that does not ask for the experiment does not read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from worldledger_projections.tables import INHERITED, NO_FORK, WITH_FORKS

from worldledger.effects import RESERVED_NAMES, RESERVED_PREFIXES
from worldledger_service.database import guards
from worldledger_service.database.verification import NOT_SEEN

# -- a view of the schema ``analytics``: its columns with their comments, and the statements that make it


#: The name of the schema.
SCHEMA: Final = "analytics"
#: Where a view reads the text of an effect, in a row of one letter, as JSON.
_READS: Final = re.compile(r"\b(\w\.effect)(?= (?:#>>?|->>?) )")


def histories(table: str, columns: str) -> str:
    """Return the rows of a table for each world together with those of its ancestors up to the fork points.

    The rows stand as the world's; what marks them is behind the columns. Two branches with constants: where
    ``is_inherited`` is asked for, only one of them is read.
    """
    own, inherited = (", ".join(f"{row}.{column}" for column in columns.split()) for row in "oi")
    return f"""(
    select o.world_id, {own},
           false as is_inherited, null::text as inherited_from, 0 as generation
    from {table} o
    union all
    select f.world_id, {inherited},
           true as is_inherited, a.ancestor as inherited_from, a.generation
    from analytics.forks f
    cross join lateral analytics.ancestry(f.world_id) a
    join {table} i on i.world_id = a.ancestor and i.global_seq <= a.until_seq
)"""


#: The effects of each world's history.
HISTORIES: Final = histories("public.effects", "global_seq effect checksum kind source_id sim_time recorded_at")


class Column(NamedTuple):
    """A column: its name, the SQL that gives it, and what it says."""

    name: str
    value: str
    comment: str


class StaticView(NamedTuple):
    """A view over the tables of the log; ``source`` is its SQL from ``from`` on."""

    name: str
    comment: str
    columns: Sequence[Column]
    source: str

    def statements(self) -> Iterator[str]:
        """Return the statements that make the view and say what it is."""
        columns = ",\n".join(f"    {column.value} as {quoted(column.name)}" for column in self.columns)
        place = f"{SCHEMA}.{quoted(self.name)}"
        # One text that PostgreSQL cannot read would end a query for everybody: none is read without a look.
        yield _READS.sub(rf"{SCHEMA}.readable(\1)", f"create view {place} as\nselect\n{columns}\n{self.source}")
        yield f"comment on view {place} is {literal(self.comment)}"
        for column in self.columns:
            yield f"comment on column {place}.{quoted(column.name)} is {literal(column.comment)}"


def quoted(name: str) -> str:
    """Return a name as a statement takes it, quoted where it has to be."""
    return f'"{name}"'


def literal(text: str) -> str:
    """Return a text for a statement that takes no parameters."""
    return "'" + text.replace("'", "''") + "'"


# -- one view for each kind of effect of the service's own, with typed columns ----------------------------
#
# The name of a view is its kind in snake_case: ``IntentRejected`` is ``analytics.intent_rejected``. A field of a
# payload that is not of its column's type is null there; ``payload`` has all of it. Kinds of worlds bring the views
# of their own (``of_kinds.py``).


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
            f"where e.kind = {literal(self.name)} and {NO_FORK.format('e')}",
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
#: What a program reports of a model's generation.
_REPORT: Final = (
    Field(
        "outcome", "text", "acted, silent, refused, interrupted, stale, failed, limited or lost (docs/how-to-llm.md)."
    ),
    Field("tokens_in", "bigint", "Tokens of the prompt; null where not known."),
    Field("tokens_out", "bigint", "Tokens that the model made, also where it was cut off."),
    Field("counted", "text", "Who counted tokens_out: provider, or chunks: the pieces as they came."),
    Field("price", "double", "What it cost, by the table of who ran it; null where there was none."),
    Field("currency", "text", "The currency of price."),
    Field("first_token_ms", "double", "From asking the model to its first token, in milliseconds."),
    Field("took_ms", "double", "From asking the model to the end, in milliseconds."),
    Field("finish", "text", "Why the model stopped, in its service's words."),
    Field("intents", "json", "The intents that came of it: kind, req_id, and global_seq or the code of a refusal."),
    Field("error_code", "text", "Why the model did not answer; null where it did.", "error,code"),
    Field("error", "text", "The same in words.", "error,message"),
    Field(
        "recalled_world_id", "text", "The world whose log had the answer; null: a model made it.", "recalled,world_id"
    ),
    Field("recalled_req_id", "text", "The generation there.", "recalled,req_id"),
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
            Field(
                "parent_world_id",
                "text",
                "The world that an old genesis calls its parent, unchecked; forks are in the view forks.",
                "parent,world_id",
            ),
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
    Kind("GenerationReported", "what a model's generation used, and what came of it.", (*_GENERATION[:2], *_REPORT)),
    Kind(
        "GenerationText",
        "a prompt or an output of a model, kept by itself.",
        (
            *_GENERATION[:2],
            Field("part", "text", "prompt or output."),
            Field("text", "text", "The text; of a prompt the JSON of the request."),
            Field("salt", "text", "With which the prompt's digest was made."),
        ),
    ),
    Kind(
        "GenerationLeased",
        "a program took an agent, kept it or gave it back.",
        (
            _ACTOR,
            Field("holder", "text", "The program."),
            Field("number", "bigint", "The number of the lease: 1, 2, 3 … of the agent."),
            Field("seconds", "double", "How long it holds unless it is renewed; 0: the agent was given back."),
        ),
    ),
)


_WORLD: Final = "The name of the world."
_EXPERIMENT: Final = "The experiment that the world belongs to; null for none."
_JOINED: Final = "left join public.worlds w on w.world_id = {}.world_id"


def _head(table: str) -> tuple[Column, Column]:
    return Column("world_id", f"{table}.world_id", _WORLD), Column("experiment", "w.experiment", _EXPERIMENT)


def _inherited(table: str) -> Iterator[Column]:
    """Return what marks the rows of a view that has forks, too."""
    for name, comment in INHERITED.items():
        yield Column(name, f"{table}.{name}", comment)


def _moment(seconds: str) -> str:
    """Return the SQL for a moment; null outside of the years that every program can hold."""
    return f"case when {seconds} >= -62135596800 and {seconds} < 253402300800 then to_timestamp({seconds}) end"


def _sum(number: str) -> str:
    """Return the SQL for a sum of numbers from 0 on, which no number that somebody has written in a row makes fail."""
    return f"least(sum({number}), 9223372036854775807)::bigint"


def _each_generation(kind: str, row: str, last: str = "", *, forks: bool = False) -> str:
    """Return the SQL for the first effect of this kind (``desc``: the last) of each generation, as a named row.

    With ``forks`` it is the first (or last) of each world's history, that of its ancestors included.
    """
    key = f"{row}.world_id, {row}.source_id, {row}.effect #>> '{{payload,req_id}}'"
    marks = "".join(f", {row}.{name}" for name in INHERITED) if forks else ""
    place = f"{row}.generation{'' if last else ' desc'}, " if forks else ""
    source, further = (HISTORIES, "") if forks else ("public.effects", f" and {NO_FORK.format(row)}")
    return f"""(
    select distinct on ({key})
           {row}.world_id, {row}.source_id as agent_id, {row}.effect #>> '{{payload,req_id}}' as req_id,
           {row}.global_seq, {row}.sim_time, {row}.effect{marks}
    from {source} {row}
    where {row}.kind = {literal(kind)}{further}
    order by {key}, {place}{row}.global_seq{last}
) {row}"""


def _of(row: str, field: Field) -> Column:
    """Return a column made of a field of another row than ``e``."""
    name, value, comment = field.column
    return Column(name, value.replace("e.effect", f"{row}.effect"), comment)


_SAME: Final = "{0}.world_id = e.world_id and {0}.agent_id = e.agent_id and {0}.req_id = e.req_id"


def _from_generations(*, forks: bool) -> str:
    return f"""from {_each_generation("GenerationStarted", "e", forks=forks)}
{_JOINED.format("e")}
left join {_each_generation("GenerationReported", "r", forks=forks)} on {_SAME.format("r")}
left join {_each_generation("GenerationCancelled", "c", " desc", forks=forks)} on {_SAME.format("c")}
left join {_each_generation("GenerationFinished", "f", " desc", forks=forks)} on {_SAME.format("f")}"""


_OF_GENERATIONS: Final = (
    *_head("e"),
    Column("agent_id", "e.agent_id", "The agent."),
    Column("req_id", "e.req_id", "The req_id of the intent that was being made."),
    Column("global_seq", "e.global_seq", "Where it began in the world's log."),
    Column("sim_time_s", "e.sim_time", "The world's own time then, in seconds."),
    Column("started_at", value_at("time", "wall_time"), "When it began."),
    _CONTEXT.column,
    Column("model", value_at("text", "payload,model,name"), "The model; null where none was named."),
    Column("parameters", value_at("json", "payload,model,parameters"), "What the model was asked with."),
    Column("seed", value_at("bigint", "payload,model,seed"), "The seed that the model was asked with."),
    Column("prompt_digest", value_at("text", "payload,model,prompt_digest"), "The salted SHA-256 of the prompt."),
    Column(
        "outcome",
        "coalesce(r.effect #>> '{payload,outcome}', case when c.global_seq > coalesce(f.global_seq, 0) "
        "then 'cancelled' when f.global_seq is not null then 'finished' end)",
        "As reported (generation_reported); else cancelled or finished; null: it is under way.",
    ),
    Column("cancel_reason", "c.effect #>> '{payload,reason}'", "Why it was cancelled; null where it was not."),
    Column(
        "interrupted_by_seq",
        "substring(c.effect #>> '{payload,reason}' from '^stale_due_to_effect_([0-9]{1,15})$')::bigint",
        "The effect that its agent was shown and that made it stale.",
    ),
    Column(
        "cancel_latency_ms",
        "analytics.json_double(c.effect #> '{payload,latency_ms}')",
        "From what made it stale until it was cancelled, in milliseconds.",
    ),
    *(_of("r", field) for field in _REPORT if field.name != "outcome"),
)

_GENERATIONS: Final = StaticView(
    "generations",
    "Every generation: by what it was made, from which view, what it used and what came of it. Forks are left out.",
    _OF_GENERATIONS,
    _from_generations(forks=False),
)

_GENERATIONS_WITH_FORKS: Final = StaticView(
    f"generations{WITH_FORKS}",
    "As generations, with forks and what they inherit.",
    (*_OF_GENERATIONS, *_inherited("e")),
    _from_generations(forks=True),
)

_WORLDS: Final = StaticView(
    "worlds",
    "Every world, with where its log ends.",
    (
        Column("world_id", "w.world_id", "The name of the world: its key everywhere."),
        Column("experiment", "w.experiment", _EXPERIMENT),
        Column("world_uuid", "w.world_uuid", "Random identity: tells two worlds of the same name apart."),
        Column("ruleset", "w.ruleset", "The ruleset that decides and folds the world."),
        Column("ruleset_version", "w.ruleset_version", "The version of the ruleset when the world was made."),
        Column("time_authority", "w.time_authority", "Who sets sim_time: wall, client, or the name of an adapter."),
        Column("config", "w.config", "The world's configuration."),
        Column("created_at", "w.created_at", "When the world's row was written, by the server's clock."),
        Column("head_seq", "h.head_seq", "The global_seq of the last effect: how many effects the world has."),
        Column("head_checksum", "encode(h.head_checksum, 'hex')", "The chain checksum of that effect, in hex."),
        Column("last_sim_time_s", "h.sim_time", "The sim_time of that effect, in seconds."),
        Column("last_recorded_at", _moment("h.wall_time"), "The wall_time of that effect."),
    ),
    "from public.worlds w\nleft join public.heads h on h.world_id = w.world_id",
)

_OF_EXPERIMENTS: Final = (
    Column("experiment", "w.experiment", "The experiment."),
    Column("worlds", "count(*)", "How many worlds it has."),
    Column("rulesets", "string_agg(distinct w.ruleset, ', ' order by w.ruleset)", "Their rulesets, by name."),
    Column("effects", _sum("greatest(h.head_seq, 0)"), "How many effects those worlds have in all."),
    Column("first_created_at", "min(w.created_at)", "When the first of those worlds was made."),
    Column("last_created_at", "max(w.created_at)", "When the last of those worlds was made."),
    Column("last_recorded_at", _moment("max(h.wall_time)"), "When the last effect of any of them was accepted."),
)
_FROM_WORLDS: Final = "from public.worlds w\nleft join public.heads h on h.world_id = w.world_id\n"

_EXPERIMENTS: Final = StaticView(
    "experiments",
    "Every experiment: the label under which worlds are found together. Forks are left out.",
    _OF_EXPERIMENTS,
    f"{_FROM_WORLDS}where w.experiment is not null and {NO_FORK.format('w')}\ngroup by w.experiment",
)

_EXPERIMENTS_WITH_FORKS: Final = StaticView(
    f"experiments{WITH_FORKS}",
    "As experiments, with forks and their own effects. Nothing that a fork inherits is counted.",
    _OF_EXPERIMENTS,
    f"{_FROM_WORLDS}where w.experiment is not null\ngroup by w.experiment",
)

_POINT: Final = "payload,fork_of"
_MENTIONS: Final = "strpos(e.effect::text, '\"fork_of\":{') > 0"
_FORKS: Final = StaticView(
    "forks",
    "Every fork: the world that it goes on from, and from where in that world's log, as its genesis says.",
    (
        *_head("e"),
        Column("parent", value_at("text", f"{_POINT},world_id"), "The world that it is a fork of."),
        Column("parent_uuid", value_at("text", f"{_POINT},world_uuid"), "The world_uuid of that world: 32 hex digits."),
        Column(
            "parent_seq",
            value_at("bigint", f"{_POINT},global_seq"),
            "The parent's last effect that is its history, too.",
        ),
        Column("parent_checksum", value_at("text", f"{_POINT},checksum"), "The checksum of that effect, in hex."),
        Column("depth", f"coalesce({value_at('bigint', f'{_POINT},depth')}, 1)", "How many ancestors it has."),
        Column("label", value_at("text", f"{_POINT},label"), "What was said when it was made; null for nothing."),
    ),
    f"from public.effects e\n{_JOINED.format('e')}\n"
    # Once as the index has it; and once to hold, in whatever order the conditions are looked at, that no other text is
    # read as JSON.
    f"where e.global_seq = 1 and {_MENTIONS}\n"
    f"  and case when {_MENTIONS} then json_typeof(e.effect #> '{{{_POINT}}}') = 'object' else false end",
)

_LINEAGE: Final = StaticView(
    "lineage",
    "The history of each world: its own effects, and those of its ancestors up to the fork points.",
    (
        *_head("l"),
        Column(
            "ancestor", "l.ancestor", "A world whose effects are its history: itself, its parent, its parent's parent …"
        ),
        Column(
            "until_seq",
            "l.until_seq",
            "The last effect of the ancestor that is; null for the world itself: all of them.",
        ),
        Column("generation", "l.generation", "0 for the world itself, 1 for its parent, and so on."),
    ),
    f"""from (
    select o.world_id, o.world_id as ancestor, null::bigint as until_seq, 0 as generation
    from public.worlds o
    union all
    select f.world_id, a.ancestor, a.until_seq, a.generation
    from analytics.forks f
    cross join lateral analytics.ancestry(f.world_id) a
) l
{_JOINED.format("l")}""",
)

_OF_EFFECTS: Final = (
    *_head("e"),
    Column("global_seq", "e.global_seq", "The effect's place in the world's log: 1, 2, 3 …"),
    Column("kind", "e.kind", "What happened. The view of the kind is its name in snake_case."),
    Column("source_id", "e.source_id", "Who caused it; for an agent's effects its agent_id."),
    Column("sim_time_s", "e.sim_time", "The world's own time, in seconds."),
    Column("recorded_at", value_at("time", "wall_time"), "When it was accepted: the effect's wall_time."),
    Column("stored_at", "e.recorded_at", "When the row was written, by the server's clock; cheaper to ask for."),
    CAUSED_BY,
    Column("req_id", value_at("text", "req_id"), "The idempotency key of the request; null for none."),
    Column("priority", value_at("bigint", "priority"), "Among drafts that waited together, higher went first."),
    Column("schema_version", value_at("text", "schema_version"), "The version of the payload's shape."),
    Column("uuid", value_at("text", "uuid"), "The effect's identity: 32 hex digits."),
    Column("payload", "e.effect -> 'payload'", "The facts."),
    Column("source_metadata", "e.effect -> 'source_metadata'", "Facts about the source, where there are any."),
    Column("effect", "e.effect", "The whole effect: the canonical text, exactly as hashed."),
    Column("checksum", "encode(e.checksum, 'hex')", "The chain checksum, in hex."),
)

_EFFECTS: Final = StaticView(
    "effects",
    "The log: every effect of every world, with its payload. Forks are left out. Views of single kinds have typed "
    "columns.",
    _OF_EFFECTS,
    f"from public.effects e\n{_JOINED.format('e')}\nwhere {NO_FORK.format('e')}",
)

_EFFECTS_WITH_FORKS: Final = StaticView(
    f"effects{WITH_FORKS}",
    "As effects, with forks and what they inherit.",
    (*_OF_EFFECTS, *_inherited("e")),
    f"from {HISTORIES} e\n{_JOINED.format('e')}",
)

# Two branches with a constant each: where is_accepted is asked for, only one of them is read. To look whether a word is
# in the text takes a fraction of reading it as JSON.
_OF_INTENTS: Final = (
    Column("world_id", "intended.world_id", _WORLD),
    Column("experiment", "intended.experiment", _EXPERIMENT),
    Column("global_seq", "intended.global_seq", "The effect that the intent became, or the IntentRejected."),
    Column("agent_id", "intended.agent_id", "The agent that intended it."),
    Column("req_id", "intended.req_id", "The intent's idempotency key."),
    Column("is_accepted", "intended.is_accepted", "Whether it became an effect."),
    Column("intent_kind", "intended.intent_kind", "Speak, Move, Interact or Custom."),
    Column("effect_kind", "intended.effect_kind", "The kind of the effect that it became; null where it was rejected."),
    Column("context_seq", "intended.context_seq", "The view_seq of the view that it was made from; 0: of none."),
    Column("code", "intended.code", "The code of the error where it was rejected: permission_denied, illegal_effect …"),
    Column("rule", "intended.rule", "The ruleset's rule that refused it; null where it was no rule."),
    Column("reason", "intended.reason", "The message of the error where it was rejected."),
    Column("sim_time_s", "intended.sim_time", "The world's own time, in seconds."),
    Column("recorded_at", "analytics.json_time(intended.wall_time)", "When it was accepted or refused: the wall_time."),
    Column("payload", "intended.payload", "The intent's payload."),
)
#: ``effects`` is where the effects ``e`` come from, ``inherited`` what columns they have besides, ``further`` a further
#: condition.
_FROM_INTENTS: Final = """from (
    select
        e.world_id, w.experiment, e.global_seq{inherited}, e.source_id as agent_id, e.effect #>> '{{req_id}}' as req_id,
        true as is_accepted, e.effect #>> '{{source_metadata,intent}}' as intent_kind, e.kind as effect_kind,
        analytics.json_bigint(e.effect #> '{{source_metadata,context_seq}}') as context_seq,
        null::text as code, null::text as rule, null::text as reason, e.sim_time,
        e.effect #> '{{wall_time}}' as wall_time, e.effect -> 'payload' as payload
    from {effects} e
    left join public.worlds w on w.world_id = e.world_id
    where case when strpos(e.effect::text, '"source_metadata":{{') > 0
               then e.effect #>> '{{source_metadata,intent}}' end is not null{further}
    union all
    select
        e.world_id, w.experiment, e.global_seq{inherited}, e.effect #>> '{{payload,agent_id}}' as agent_id,
        e.effect #>> '{{payload,req_id}}' as req_id, false as is_accepted,
        e.effect #>> '{{payload,kind}}' as intent_kind, null::text as effect_kind,
        analytics.json_bigint(e.effect #> '{{payload,context_seq}}') as context_seq,
        e.effect #>> '{{payload,code}}' as code, e.effect #>> '{{payload,rule}}' as rule,
        e.effect #>> '{{payload,reason}}' as reason, e.sim_time, e.effect #> '{{wall_time}}' as wall_time,
        e.effect #> '{{payload,payload}}' as payload
    from {effects} e
    left join public.worlds w on w.world_id = e.world_id
    where e.kind = 'IntentRejected'{further}
) intended"""

_INTENTS: Final = StaticView(
    "intents",
    "What agents intended, and what became of it: the effect of that intent, or its rejection. Forks are left out.",
    _OF_INTENTS,
    _FROM_INTENTS.format(effects="public.effects", inherited="", further=f"\n      and {NO_FORK.format('e')}"),
)

_INTENTS_WITH_FORKS: Final = StaticView(
    f"intents{WITH_FORKS}",
    "As intents, with forks and what they inherit.",
    (*_OF_INTENTS, *_inherited("intended")),
    _FROM_INTENTS.format(effects=HISTORIES, inherited=", e.is_inherited, e.inherited_from, e.generation", further=""),
)

_OF_OBSERVATIONS: Final = (
    *_head("e"),
    Column("global_seq", "e.global_seq", "The ViewDigest that tells of it."),
    Column("agent_id", value_at("text", "payload,agent_id"), "The agent."),
    Column("view_seq", value_at("bigint", "payload,at_seq"), "The effect after which the agent was shown the view."),
    Column("view_digest", value_at("text", "payload,digest"), "SHA-256 of the view's text, in hex."),
    Column("sim_time_s", "e.sim_time", "The world's own time when that was written, in seconds."),
    Column("recorded_at", value_at("time", "wall_time"), "When that was written: the effect's wall_time."),
)

_OBSERVATIONS: Final = StaticView(
    "observations",
    "What agents were shown, as far as the log has digests of it: which view, after which effect. Forks are left out.",
    _OF_OBSERVATIONS,
    f"from public.effects e\n{_JOINED.format('e')}\nwhere e.kind = 'ViewDigest' and {NO_FORK.format('e')}",
)

_OBSERVATIONS_WITH_FORKS: Final = StaticView(
    f"observations{WITH_FORKS}",
    "As observations, with forks and what they inherit.",
    (*_OF_OBSERVATIONS, *_inherited("e")),
    f"from {HISTORIES} e\n{_JOINED.format('e')}\nwhere e.kind = 'ViewDigest'",
)

_OBSERVERS: Final = StaticView(
    "observers",
    "How far each agent that is attached, or was, has come in observing its world.",
    (
        *_head("c"),
        Column("agent_id", "c.agent_id", "The agent."),
        Column("view_seq", "c.view_seq", "The last view that the agent has acknowledged, as noted now and then."),
        Column(
            "effects_behind",
            "greatest(greatest(h.head_seq, 0) - greatest(c.view_seq, 0), 0)",
            "How many effects the world has beyond that.",
        ),
        Column("noted_at", "c.updated_at", "When that was noted, by the server's clock."),
    ),
    f"from public.agent_cursors c\n{_JOINED.format('c')}\nleft join public.heads h on h.world_id = c.world_id",
)

_OF_SNAPSHOTS: Final = (
    *_head("s"),
    Column("global_seq", "s.global_seq", "The effect after which the world had this state."),
    Column("ruleset", "s.ruleset", "The ruleset that folded it."),
    Column("ruleset_version", "s.ruleset_version", "The version of that ruleset."),
    Column("state_digest", "encode(s.state_digest, 'hex')", "SHA-256 of the state's text, in hex."),
    Column("state_bytes", "s.state_bytes", "The length of the state's text."),
    Column("state", "s.state", "The state: entities, relationships, spatial_index, metadata."),
    Column("created_at", "s.created_at", "When the snapshot was written, by the server's clock."),
)
_SNAPSHOT_COLUMNS: Final = "global_seq ruleset ruleset_version state_digest state_bytes state created_at"

_SNAPSHOTS: Final = StaticView(
    "snapshots",
    "States of worlds at some places of their logs: a cache, which can be folded again from the log. Forks are left "
    "out.",
    _OF_SNAPSHOTS,
    f"from public.snapshots s\n{_JOINED.format('s')}\nwhere {NO_FORK.format('s')}",
)

_SNAPSHOTS_WITH_FORKS: Final = StaticView(
    f"snapshots{WITH_FORKS}",
    "As snapshots, with forks and what they inherit.",
    (*_OF_SNAPSHOTS, *_inherited("s")),
    f"from {histories('public.snapshots', _SNAPSHOT_COLUMNS)} s\n{_JOINED.format('s')}",
)

# News that no runner has taken note of yet count for every projection: which rulesets one reads only the program knows.
_BACKLOG: Final = StaticView(
    "projection_backlog",
    "The worlds in which a projection is behind the log; its rows and those of the world do not agree there.",
    (
        *_head("d"),
        Column("projection", "b.projection", "The projection."),
        Column("build", "b.build", "The build that is behind."),
        Column(
            "ruleset",
            "w.ruleset",
            "The world's ruleset; while nobody has noted the news, the projection may read others.",
        ),
        Column("reached_seq", "coalesce(c.global_seq, 0)", "The last effect of the world that the build holds."),
        Column("head_seq", "d.head_seq", "Where the world's log ended when that was looked at."),
        Column(
            "effects_behind",
            "greatest(d.head_seq, 0) - greatest(c.global_seq, 0)",
            "How many effects it has still to read.",
        ),
        Column("is_parked", "k.build is not null", "Whether it has set the world aside because of an effect."),
        Column("behind_since_at", "d.since", "Since when; null where nobody has noted it yet."),
    ),
    f"""from (
    select n.build, n.world_id, max(n.head_seq) as head_seq, min(n.since) as since
    from (
        select p.build, p.world_id, p.head_seq, p.since from public.projection_pending p
        union all
        select m.build, h.world_id, h.head_seq, null::timestamptz
        from public.heads h cross join public.projection_builds m
        where h.moved and m.status <> 'retired'
        union all
        select k.build, k.world_id, h.head_seq, k.parked_at
        from public.projection_parked k join public.heads h on h.world_id = k.world_id
    ) n
    group by n.build, n.world_id
) d
join public.projection_builds b on b.build = d.build and b.status <> 'retired'
{_JOINED.format("d")}
left join public.projection_cursors c on c.build = d.build and c.world_id = d.world_id
left join public.projection_parked k on k.build = d.build and k.world_id = d.world_id
where d.head_seq > coalesce(c.global_seq, 0)""",
)

_PROJECTIONS: Final = StaticView(
    "projections",
    "The builds of projections: one row for each that is live or being filled.",
    (
        Column("projection", "b.projection", "The projection: the name of its view."),
        Column("version", "b.version", "The version of the projection that fills the build."),
        Column("build", "b.build", "The build."),
        Column("status", "b.status", "live: the one that people read; building: being filled."),
        Column("is_paused", "b.paused", "Whether no runner works on it."),
        Column("is_scanning", "b.scanned_to is not null", "Whether its first pass over all worlds is still going on."),
        Column("worlds_behind", "coalesce(l.worlds, 0)", "In how many worlds it is behind: see projection_backlog."),
        Column("effects_behind", "coalesce(l.effects, 0)", "How many effects it has still to read there."),
        Column("worlds_parked", "coalesce(l.parked, 0)", "How many of those worlds it has set aside."),
        Column("started_at", "b.started_at", "When the build began."),
        Column("finished_at", "b.finished_at", "When it went live; null while it is being filled."),
    ),
    f"""from public.projection_builds b
left join (
    select g.build, count(*) as worlds, {_sum("g.effects_behind")} as effects,
           count(*) filter (where g.is_parked) as parked
    from analytics.projection_backlog g
    group by g.build
) l on l.build = b.build
where b.status <> 'retired'""",
)

_VERIFICATION: Final = StaticView(
    "verification",
    "Does each world's log hold, and do worlds, heads and requests agree with it? Worked out anew for each row asked "
    f"for. {NOT_SEEN}",
    (
        *_head("v"),
        Column("is_verified", "v.verified", "Whether everything holds."),
        Column("effects", "v.effects", "How many effects the log holds."),
        Column("head_seq", "v.head_seq", "The global_seq at which the log ends."),
        Column(
            "head_checksum",
            "v.head_checksum",
            "The head's checksum in hex; kept elsewhere, it exposes a rewritten log.",
        ),
        Column("problem_seq", "v.problem_seq", "The first global_seq that does not hold, where one can be named."),
        Column("problem", "v.problem", "What does not hold there; null when all does."),
    ),
    f"from public.verification v\n{_JOINED.format('v')}",
)

_EFFECT_VERIFICATION: Final = StaticView(
    "effect_verification",
    "Every effect with what is wrong with it: chain, order, times, causes, uuids, kinds of the service, columns "
    "against the text.",
    (
        *_head("v"),
        Column("global_seq", "v.global_seq", "The place that the row claims."),
        Column("expected_seq", "v.expected_seq", "The place that a log without gap has here."),
        Column("problem", "v.problem", "What does not hold; null when all does."),
    ),
    f"from public.effect_verification v\n{_JOINED.format('v')}",
)

_REQUEST_VERIFICATION: Final = StaticView(
    "request_verification",
    "Every request that had a req_id with what is wrong with it: its row in the table requests against its effects.",
    (
        *_head("v"),
        Column("source_id", "v.source_id", "Who asked."),
        Column("req_id", "v.req_id", "The request's name: its idempotency key."),
        Column("first_seq", "v.first_seq", "Its first effect, by the log; where there is none, by its row."),
        Column("problem", "v.problem", "What does not hold; null when all does."),
    ),
    f"from public.request_verification v\n{_JOINED.format('v')}",
)

#: Every view that the migration makes, those first that others are made from.
VIEWS: Final[tuple[StaticView, ...]] = (
    _WORLDS,
    _FORKS,
    _LINEAGE,
    _EXPERIMENTS,
    _EXPERIMENTS_WITH_FORKS,
    _EFFECTS,
    _EFFECTS_WITH_FORKS,
    _INTENTS,
    _INTENTS_WITH_FORKS,
    _OBSERVATIONS,
    _OBSERVATIONS_WITH_FORKS,
    _OBSERVERS,
    _SNAPSHOTS,
    _SNAPSHOTS_WITH_FORKS,
    _BACKLOG,
    _PROJECTIONS,
    _VERIFICATION,
    _EFFECT_VERIFICATION,
    _REQUEST_VERIFICATION,
    *(kind.view() for kind in SYSTEM),
    _GENERATIONS,
    _GENERATIONS_WITH_FORKS,
)


# -- the schema itself: whose it is, who reads it, and the functions that run somebody's query ------------------
#
# The schema is the service's (``sql/analytics.sql``). ``worldledger_reader`` is for people: it may SELECT from the
# views of this schema and nothing else. Its own settings hold where somebody logs in as it. ``worldledger_guest`` has
# the same privileges and is for queries that come through the service from somebody who has no login at all. Nobody
# logs in as it and no role is in it. How such a query is bounded is in ``sql/asking.sql``.


#: Rises when a column or view changes its meaning or goes; what is only added changes nothing for who is there.
VERSION: Final = 3
#: The name of the cursor.
CURSOR: Final = "worldledger_query"

#: Whether an effect ``e`` is of a system kind.
_OF_SYSTEM: Final = " or ".join(
    [
        *(f"starts_with(e.kind, {literal(prefix)})" for prefix in RESERVED_PREFIXES),
        f"e.kind in ({', '.join(map(literal, sorted(RESERVED_NAMES)))})",
    ]
)

_CALLERS: Final = f"{guards.SERVICE_ROLE}, {guards.READER_ROLE}, {guards.GUEST_ROLE}"


def statements() -> list[str]:
    """Return every statement that makes the schema, in the order in which they are run by the owner of the log."""
    return [
        *guards.statements("analytics", version=str(VERSION)),
        *(statement for view in VIEWS for statement in view.statements()),
        f"grant select on {', '.join(f'analytics.{view.name}' for view in VIEWS)} to {_CALLERS}",
        *guards.statements("history", of_system=_OF_SYSTEM),
        *guards.statements("asking", cursor=CURSOR),
    ]
