"""Verification in SQL sees more: times and causes, and the table requests against the log.

Revision: 0007, after 0006. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today. They stand in the files beside this one, parted by lines ``-- next``; the reasons stand in
the application (service/database/verification.py).
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

VIEWS = ["verification", "effect_verification"]
FUNCTIONS = ["chain_checksum", "effect_problem", "world_problem", "head_problem"]


def _statements(name: str) -> list[str]:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").split("\n-- next\n")


def _run(statements: list[str]) -> None:
    connection = op.get_bind()
    for statement in statements:
        connection.exec_driver_sql(statement)


def _drops(views: list[str], functions: list[str]) -> list[str]:
    return [
        *(f"drop view {schema}.{view}" for schema in ("analytics", "public") for view in views),
        *(f"drop function public.{function}" for function in functions),
        "drop type public.effect_fields",
    ]


def upgrade() -> None:
    _run([*_drops(VIEWS, FUNCTIONS), *_statements("0007_checks.sql")])


def downgrade() -> None:
    drops = _drops(
        [*VIEWS, "request_verification"],
        ["effect_problem", "effect_fields_of", "effect_body_sha256", "world_problem", "head_problem", "chain_checksum"],
    )
    _run([*drops, *_statements("0007_checks_before.sql")])
