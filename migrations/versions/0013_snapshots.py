"""The view snapshots leaves forks out, as all views over worlds do; snapshots_with_forks has them.

Revision: 0013, after 0012. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today. They stand in the file beside this one, parted by lines ``-- next``; the reasons stand in
the application (database/analytics/views.py). No view is dropped on the way up, so what others made upon snapshots
stays.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

SCHEMA = (
    "comment on schema analytics is 'Version {}. What is in the log and what follows from it, for questions: "
    "typed columns, names that explain themselves.'"
)
SAID = "States of worlds at some places of their logs: a cache, which can be folded again from the log."
BEFORE = [
    """create or replace view analytics."snapshots" as
select
    s.world_id as "world_id",
    w.experiment as "experiment",
    s.global_seq as "global_seq",
    s.ruleset as "ruleset",
    s.ruleset_version as "ruleset_version",
    encode(s.state_digest, 'hex') as "state_digest",
    s.state_bytes as "state_bytes",
    s.state as "state",
    s.created_at as "created_at"
from public.snapshots s
left join public.worlds w on w.world_id = s.world_id""",
    f"comment on view analytics.snapshots is '{SAID}'",
    "drop view analytics.snapshots_with_forks",
]


def _run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)


def _say(version: int) -> None:
    _run("set local role worldledger_service", SCHEMA.format(version), "set local role worldledger_owner")


def upgrade() -> None:
    _run(*Path(__file__).with_name("0013_snapshots.sql").read_text(encoding="utf-8").split("\n-- next\n"))
    _say(3)


def downgrade() -> None:
    _run(*BEFORE)
    _say(2)
