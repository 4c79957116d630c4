"""Kinds of worlds bring their views themselves: what the database has of them is noted in a table.

Revision: 0009, after 0008. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today. The reasons stand in the application (database/analytics/of_kinds.py).

The views over effects of single kinds of worlds, which revision 0004 made, are handed over as they are: as the first
version of the views of their kinds. In a database without a world they are dropped instead, unless somebody has made
something upon them: the kinds that are installed make theirs when the upgrade goes on.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

#: By kind: SHA-256 of the file that makes its first version, and its views.
HANDED_OVER = {
    "chess": (
        "6253673252c1ebc05ad2c3dc1423413357885144f0b133c87548bf7f6618e5f5",
        (
            "game_started",
            "move_made",
            "move_rejected",
            "game_ended",
        ),
    ),
    "sandbox": (
        "178ae3afba40971144663cc443d9ffb7013412eb2ee6941183cecc59a54d814f",
        (
            "entity_created",
            "entity_updated",
            "entity_removed",
            "move",
            "speak",
            "speak_response",
            "interact",
            "relationship_set",
            "relationship_removed",
        ),
    ),
    "simulation": (
        "4aca3ef508366281082d6bd8182dee14647846f523584296ad055c8bf1d0f7fa",
        (
            "simulation_started",
            "turn_started",
            "turn_ended",
            "agent_state_changed",
            "global_state_changed",
            "reasoning_recorded",
            "agent_added",
            "agent_removed",
            "agent_paused",
            "agent_resumed",
        ),
    ),
    "social_rl": (
        "fcb4fc8dc830a5f7bdf60892588e776296a1c81488769400cabbea33ad3a6223",
        (
            "experiment_started",
            "round_started",
            "message_emitted",
            "feedback_recorded",
            "policy_adapted",
            "policy_state_recorded",
            "round_synthesised",
            "round_ended",
            "artifact_recorded",
        ),
    ),
}

STATEMENTS = [
    """
create table kind_analytics (
    kind text collate "C" not null,
    version integer not null,
    digest bytea not null,
    views text[] collate "C" not null,
    applied_at timestamp with time zone default now() not null,
    constraint kind_analytics_pkey primary key (kind),
    constraint kind_analytics_version_check check (version >= 1),
    constraint kind_analytics_digest_check check (octet_length(digest) = 32)
)
""",
    "revoke all on kind_analytics from public",
    "grant select on kind_analytics to worldledger_service",
]

COMMENTS = {
    "table kind_analytics": (
        "The views that kinds of worlds have brought to the schema analytics, and of which version."
    ),
    "column kind_analytics.kind": "The kind of worlds that brought the views.",
    "column kind_analytics.version": "The number of the last of its files that was run.",
    "column kind_analytics.digest": "SHA-256 of these files.",
    "column kind_analytics.views": "Its views in the schema analytics.",
    "column kind_analytics.applied_at": "When that was, by the server's clock; informational.",
    "constraint kind_analytics_pkey on kind_analytics": "One version of a kind's views.",
    "constraint kind_analytics_version_check on kind_analytics": "Files are numbered from 1.",
    "constraint kind_analytics_digest_check on kind_analytics": "A SHA-256 has 32 bytes.",
    "index kind_analytics_pkey": "The index of the primary key.",
}

DROP_OR_HAND_OVER = """
do $handing$
begin
    if exists (select from worlds) then
        {note};
    else
        drop view {views};
    end if;
exception
    when dependent_objects_still_exist or undefined_table then
        {note};
end
$handing$
"""

#: Those of kinds that revision 0008 knows nothing of, and those that are not as it had them.
DROP = """
do $drop$
declare
    what text;
begin
    execute 'drop view if exists {views}';
exception
    when dependent_objects_still_exist then
        get stacked diagnostics what = pg_exception_detail;
        raise exception 'what no kind made depends on the views of the kind {kind}: %', what
            using errcode = 'dependent_objects_still_exist',
                  hint = 'Drop it, or move it elsewhere, and run the downgrade again.';
end
$drop$
"""


def _run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)


def _named(views: tuple[str, ...] | list[str]) -> str:
    return ", ".join('analytics."{}"'.format(view.replace('"', '""')) for view in views)


def upgrade() -> None:
    _run(*STATEMENTS)
    for thing, text in COMMENTS.items():
        quoted = text.replace("'", "''")
        _run(f"comment on {thing} is '{quoted}'")
    for kind, (digest, views) in HANDED_OVER.items():
        names = ", ".join(f"'{view}'" for view in sorted(views))
        note = (
            "insert into kind_analytics (kind, version, digest, views) "
            f"values ('{kind}', 1, decode('{digest}', 'hex'), array[{names}])"
        )
        _run(DROP_OR_HAND_OVER.format(note=note, views=_named(views)))


def downgrade() -> None:
    rows = op.get_bind().exec_driver_sql("select kind, version, encode(digest, 'hex'), views from kind_analytics")
    standing = set()
    for kind, version, digest, views in rows.fetchall():
        if kind in HANDED_OVER and (version, digest) == (1, HANDED_OVER[kind][0]):
            standing.add(kind)
        elif views:
            _run(DROP.format(views=_named(views).replace("'", "''"), kind=kind.replace("'", "''")))
    frozen = Path(__file__).with_name("0004_analytics.sql").read_text(encoding="utf-8").split("\n-- next\n")
    for kind in HANDED_OVER.keys() - standing:
        for view in HANDED_OVER[kind][1]:
            of_view = (f'create view analytics."{view}" ', f'comment on view analytics."{view}" ',
                       f'comment on column analytics."{view}".', f"grant select on analytics.{view} ")  # fmt: skip
            _run(*(statement for statement in frozen if statement.strip().startswith(of_view)))
    _run("drop table kind_analytics")
