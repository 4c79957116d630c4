"""Runs of social-RL experiments: one row for each world of that ruleset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson
from worldledger_projections.base import WORLD, Changes, Column, Projection, Row, WorldProjection, stated_moment

from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.genesis import GENESIS_KIND
from worldledger_social_rl.projections.course import RULESETS, Course, json_of, number_of, text_of
from worldledger_social_rl.rules.words import (
    CONDITION,
    EXPERIMENT_STARTED,
    EXTRA,
    FEEDBACK_RECORDED,
    MESSAGE_EMITTED,
    POLICY_ADAPTED,
    ROUND_STARTED,
    object_of,
)

_COLUMNS: Final = (
    WORLD,
    Column("run_id", "text", "The experiment_id of the meta data; the name of the world where they have none."),
    Column("prar_run_id", "text", "The PRAR run that it comes from; null where that is not told.", True),
    Column("framework", "text", "The framework's name; null where that is not told.", True),
    Column("framework_option", "text", "The framework's option, A to E; null where that is not told.", True),
    Column("model", "text", "The language model; null where that is not told.", True),
    Column("performer_temperature", "double precision", "Temperature of the agents; null: not told.", True),
    Column("coach_temperature", "double precision", "Temperature of the coach; null: not told.", True),
    Column("social_rl_version", "text", "The version of the schema or code; null where that is not told.", True),
    Column("condition", "text", "The experimental condition, a number as text; null where that is not told.", True),
    Column("seed", "bigint", "The seed of the run; null where that is not told.", True),
    Column("run_at", "timestamptz", "The timestamp of the meta data; UTC without an offset, null without one.", True),
    Column("rounds", "bigint", "How many rounds were started."),
    Column("messages", "bigint", "How many messages were sent, those for coaches only included."),
    Column("agents", "bigint", "How many agents there are."),
    Column("meta", "json", "The fields of the meta block, as recorded; null without any.", True),
    Column("extra", "json", "What the meta data tell besides; null where they tell nothing.", True),
)
_EXTRA: Final = [column.name for column in _COLUMNS].index("extra")


class _World(WorldProjection):
    """The row is made anew of the state, but for ``extra``, which the state does not have."""

    def __init__(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> None:
        self._world_id = world_id
        self._course = Course(fold)
        self._extra: str | None = rows[0][_EXTRA] if rows else None
        self._changed = False

    def apply(self, effect: Effect) -> None:
        if self._course.take(effect):
            self._changed = True
            if effect["kind"] == EXPERIMENT_STARTED:
                self._extra = json_of(effect["payload"].get(EXTRA))

    def take_changes(self) -> Changes:
        if not self._changed:
            return Changes()
        self._changed = False
        return Changes(upserts=[self._row()])

    def _condition(self) -> str | None:
        """Return the condition as text: one that is no text is read from what the run's meta data has besides."""
        known: str | None = self._course.known["condition"]
        extra = None if known is not None or self._extra is None else orjson.loads(self._extra)
        told = extra.get(CONDITION) if isinstance(extra, dict) else None
        return orjson.dumps(told).decode() if type(told) in (bool, int, float) else known

    def _row(self) -> Row:
        known, entities = self._course.known, self._course.state.entities.values()
        meta: dict[str, Any] = object_of(known["meta"])
        return (
            self._world_id,
            text_of(meta.get("experiment_id")) or self._world_id,
            *(text_of(meta.get(name)) for name in ("prar_run_id", "framework", "framework_option", "model")),
            number_of(meta.get("performer_temperature")),
            number_of(meta.get("coach_temperature")),
            text_of(meta.get("social_rl_version")),
            self._condition(),
            known["seed"],
            stated_moment(meta.get("timestamp")),
            known["rounds"],
            sum(entity["messages"] + entity["internal_messages"] for entity in entities),
            len(entities),
            json_of(known["meta"]),
            self._extra,
        )


class SocialRuns(Projection):
    """One row for each social-RL world, from its genesis on.

    The meta data are those of ExperimentStarted; where there is none, those of the latest round that has any.
    """

    name = "social_runs"
    version = 4
    comment = "Runs of social-RL experiments: one row for each world of that ruleset."
    columns = _COLUMNS
    key = ("world_id",)
    rulesets = RULESETS
    kinds = frozenset(
        {GENESIS_KIND, EXPERIMENT_STARTED, ROUND_STARTED, MESSAGE_EMITTED, FEEDBACK_RECORDED, POLICY_ADAPTED}
    )
    indexes = (("run_id", "world_id"), ("condition", "world_id"))
    needs_rows = True
    needs_state = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the run's fold from its row and the world's state on."""
        return _World(world_id, rows, fold)
