"""The views over the tables of the log, and the list of all that the migration makes.

Every view has the world and its experiment, except those of which a row is none of a world's. The table ``worlds`` is
joined from the left by its key, so that a query that does not ask for the experiment does not read it.
"""

from __future__ import annotations

from typing import Final

from worldledger_service.database.analytics.definitions import Column, StaticView
from worldledger_service.database.analytics.kinds import CAUSED_BY, SYSTEM, value_at
from worldledger_service.database.verification import NOT_SEEN

_WORLD: Final = "The name of the world."
_EXPERIMENT: Final = "The experiment that the world belongs to; null for none."
_JOINED: Final = "left join public.worlds w on w.world_id = {}.world_id"


def _head(table: str) -> tuple[Column, Column]:
    return Column("world_id", f"{table}.world_id", _WORLD), Column("experiment", "w.experiment", _EXPERIMENT)


def _moment(seconds: str) -> str:
    """Return the SQL for a moment; null outside of the years that every program can hold."""
    return f"case when {seconds} >= -62135596800 and {seconds} < 253402300800 then to_timestamp({seconds}) end"


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

_EXPERIMENTS: Final = StaticView(
    "experiments",
    "Every experiment: the label under which worlds are found together.",
    (
        Column("experiment", "w.experiment", "The experiment."),
        Column("worlds", "count(*)", "How many worlds it has."),
        Column("rulesets", "string_agg(distinct w.ruleset, ', ' order by w.ruleset)", "Their rulesets, by name."),
        Column("effects", "coalesce(sum(h.head_seq), 0)::bigint", "How many effects those worlds have in all."),
        Column("first_created_at", "min(w.created_at)", "When the first of those worlds was made."),
        Column("last_created_at", "max(w.created_at)", "When the last of those worlds was made."),
        Column("last_recorded_at", _moment("max(h.wall_time)"), "When the last effect of any of them was accepted."),
    ),
    "from public.worlds w\nleft join public.heads h on h.world_id = w.world_id\n"
    "where w.experiment is not null\ngroup by w.experiment",
)

_EFFECTS: Final = StaticView(
    "effects",
    "The log: every effect of every world, with its payload. Views of single kinds have typed columns.",
    (
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
    ),
    f"from public.effects e\n{_JOINED.format('e')}",
)

# Two branches with a constant each: where is_accepted is asked for, only one of them is read. To look whether a word is
# in the text takes a fraction of reading it as JSON.
_INTENTS: Final = StaticView(
    "intents",
    "What agents intended, and what became of it: the effect of that intent, or its rejection.",
    (
        Column("world_id", "intended.world_id", _WORLD),
        Column("experiment", "intended.experiment", _EXPERIMENT),
        Column("global_seq", "intended.global_seq", "The effect that the intent became, or the IntentRejected."),
        Column("agent_id", "intended.agent_id", "The agent that intended it."),
        Column("req_id", "intended.req_id", "The intent's idempotency key."),
        Column("is_accepted", "intended.is_accepted", "Whether it became an effect."),
        Column("intent_kind", "intended.intent_kind", "Speak, Move, Interact or Custom."),
        Column(
            "effect_kind", "intended.effect_kind", "The kind of the effect that it became; null where it was rejected."
        ),
        Column("context_seq", "intended.context_seq", "The view_seq of the view that it was made from; 0: of none."),
        Column(
            "code", "intended.code", "The code of the error where it was rejected: permission_denied, illegal_effect …"
        ),
        Column("rule", "intended.rule", "The ruleset's rule that refused it; null where it was no rule."),
        Column("reason", "intended.reason", "The message of the error where it was rejected."),
        Column("sim_time_s", "intended.sim_time", "The world's own time, in seconds."),
        Column(
            "recorded_at", "analytics.json_time(intended.wall_time)", "When it was accepted or refused: the wall_time."
        ),
        Column("payload", "intended.payload", "The intent's payload."),
    ),
    """from (
    select
        e.world_id, w.experiment, e.global_seq, e.source_id as agent_id, e.effect #>> '{req_id}' as req_id,
        true as is_accepted, e.effect #>> '{source_metadata,intent}' as intent_kind, e.kind as effect_kind,
        analytics.json_bigint(e.effect #> '{source_metadata,context_seq}') as context_seq,
        null::text as code, null::text as rule, null::text as reason, e.sim_time,
        e.effect #> '{wall_time}' as wall_time, e.effect -> 'payload' as payload
    from public.effects e
    left join public.worlds w on w.world_id = e.world_id
    where case when strpos(e.effect::text, '"source_metadata":{') > 0
               then e.effect #>> '{source_metadata,intent}' end is not null
    union all
    select
        e.world_id, w.experiment, e.global_seq, e.effect #>> '{payload,agent_id}' as agent_id,
        e.effect #>> '{payload,req_id}' as req_id, false as is_accepted, e.effect #>> '{payload,kind}' as intent_kind,
        null::text as effect_kind, analytics.json_bigint(e.effect #> '{payload,context_seq}') as context_seq,
        e.effect #>> '{payload,code}' as code, e.effect #>> '{payload,rule}' as rule,
        e.effect #>> '{payload,reason}' as reason, e.sim_time, e.effect #> '{wall_time}' as wall_time,
        e.effect #> '{payload,payload}' as payload
    from public.effects e
    left join public.worlds w on w.world_id = e.world_id
    where e.kind = 'IntentRejected'
) intended""",
)

_OBSERVATIONS: Final = StaticView(
    "observations",
    "What agents were shown, as far as the log has digests of it: which view, after which effect.",
    (
        *_head("e"),
        Column("global_seq", "e.global_seq", "The ViewDigest that tells of it."),
        Column("agent_id", value_at("text", "payload,agent_id"), "The agent."),
        Column(
            "view_seq", value_at("bigint", "payload,at_seq"), "The effect after which the agent was shown the view."
        ),
        Column("view_digest", value_at("text", "payload,digest"), "SHA-256 of the view's text, in hex."),
        Column("sim_time_s", "e.sim_time", "The world's own time when that was written, in seconds."),
        Column("recorded_at", value_at("time", "wall_time"), "When that was written: the effect's wall_time."),
    ),
    f"from public.effects e\n{_JOINED.format('e')}\nwhere e.kind = 'ViewDigest'",
)

_OBSERVERS: Final = StaticView(
    "observers",
    "How far each agent that is attached, or was, has come in observing its world.",
    (
        *_head("c"),
        Column("agent_id", "c.agent_id", "The agent."),
        Column("view_seq", "c.view_seq", "The last view that the agent has acknowledged, as noted now and then."),
        Column("effects_behind", "greatest(h.head_seq - c.view_seq, 0)", "How many effects the world has beyond that."),
        Column("noted_at", "c.updated_at", "When that was noted, by the server's clock."),
    ),
    f"from public.agent_cursors c\n{_JOINED.format('c')}\nleft join public.heads h on h.world_id = c.world_id",
)

_SNAPSHOTS: Final = StaticView(
    "snapshots",
    "States of worlds at some places of their logs: a cache, which can be folded again from the log.",
    (
        *_head("s"),
        Column("global_seq", "s.global_seq", "The effect after which the world had this state."),
        Column("ruleset", "s.ruleset", "The ruleset that folded it."),
        Column("ruleset_version", "s.ruleset_version", "The version of that ruleset."),
        Column("state_digest", "encode(s.state_digest, 'hex')", "SHA-256 of the state's text, in hex."),
        Column("state_bytes", "s.state_bytes", "The length of the state's text."),
        Column("state", "s.state", "The state: entities, relationships, spatial_index, metadata."),
        Column("created_at", "s.created_at", "When the snapshot was written, by the server's clock."),
    ),
    f"from public.snapshots s\n{_JOINED.format('s')}",
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
        Column("effects_behind", "d.head_seq - coalesce(c.global_seq, 0)", "How many effects it has still to read."),
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
    """from public.projection_builds b
left join (
    select g.build, count(*) as worlds, sum(g.effects_behind)::bigint as effects,
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
    _EXPERIMENTS,
    _EFFECTS,
    _INTENTS,
    _OBSERVATIONS,
    _OBSERVERS,
    _SNAPSHOTS,
    _BACKLOG,
    _PROJECTIONS,
    _VERIFICATION,
    _EFFECT_VERIFICATION,
    _REQUEST_VERIFICATION,
    *(kind.view() for kind in SYSTEM),
)
