"""The projections that there are, by name."""

from __future__ import annotations

import pytest
from worldledger_projections.base import ANALYTICS, ProjectionNotFoundError, find
from worldledger_projections.registry import known
from worldledger_projections.tables import check_definitions, further_views
from worldledger_service.database.analytics.views import VIEWS


def test_every_projection_is_found_by_its_name() -> None:
    """Each name is one projection, and finds it."""
    assert [find(known(), each.name) for each in known().values()] == list(known().values())
    assert set(known()) == {
        "world_summaries",
        "effect_counts",
        "entities",
        "games",
        "moves",
        "agents",
        "agent_stats",
        "turns",
        "state_variables",
        "reasoning",
        "social_runs",
        "rounds",
        "messages",
        "feedback",
        "policy_adaptations",
    }


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    """The error says what there is."""
    with pytest.raises(ProjectionNotFoundError, match=", ".join(sorted(known()))) as caught:
        find(known(), "turnz")
    assert caught.value.details == {"projection": "turnz", "known": sorted(known())}


def test_every_definition_is_sound() -> None:
    """Tables can be made of them, and each column says what it holds."""
    check_definitions(known().values())
    assert [
        column for projection in known().values() for column in projection.columns if not column.comment.endswith(".")
    ] == []
    upon = {name for projection in known().values() for view in projection.views for name in view.upon}
    assert upon <= known().keys()


def test_what_is_published_says_what_it_is() -> None:
    """There moments end in _at, times in _s, what is true or not begins with is_; every column has a comment."""
    for projection in known().values():
        types = {column.name: column.type for column in projection.columns}
        assert projection.published is not None
        renamed = {new: old for old, new in projection.published.items()}
        (view,) = [
            view for view in further_views(projection) if (view.schema, view.name) == (ANALYTICS, projection.name)
        ]
        assert list(view.columns)[:2] == ["world_id", "experiment"]
        assert [comment for comment in view.columns.values() if not comment.endswith(".")] == []
        for name in view.columns:
            kind = types.get(renamed.get(name, name), "text")
            assert (kind == "timestamptz") is name.endswith("_at"), (projection.name, name)
            assert (kind == "boolean") is name.startswith(("is_", "has_")), (projection.name, name)
            if kind == "double precision" and any(word in name for word in ("time", "duration", "clock")):
                assert name.endswith(("_s", "_ms")), (projection.name, name)


def test_no_view_of_the_log_is_taken() -> None:
    """What projections publish has names of its own in the schema analytics."""
    published = {
        view.name for projection in known().values() for view in further_views(projection) if view.schema == ANALYTICS
    }
    assert not published & {view.name for view in VIEWS}
