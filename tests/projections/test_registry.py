"""The projections that there are, by name."""

from __future__ import annotations

import pytest

from projections.errors import ProjectionNotFoundError
from projections.registry import ALL, BY_NAME, find
from projections.tables import check_definitions


def test_every_projection_is_found_by_its_name() -> None:
    """Each name is one projection, and finds it."""
    assert [find(projection.name) for projection in ALL] == list(ALL)
    assert set(BY_NAME) == {
        "world_summaries",
        "entities",
        "games",
        "moves",
        "agents",
        "agent_stats",
        "turns",
        "state_variables",
        "reasoning",
    }


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    """The error says what there is."""
    known = "agent_stats, agents, entities, games, moves, reasoning, state_variables, turns, world_summaries"
    with pytest.raises(ProjectionNotFoundError, match=known) as caught:
        find("gamez")
    assert caught.value.details == {"projection": "gamez", "known": sorted(BY_NAME)}


def test_every_definition_is_sound() -> None:
    """Tables can be made of them, and each column says what it holds."""
    check_definitions(ALL)
    assert [column for projection in ALL for column in projection.columns if not column.comment.endswith(".")] == []
    upon = {name for projection in ALL for view in projection.views for name in view.upon}
    assert upon <= BY_NAME.keys()
